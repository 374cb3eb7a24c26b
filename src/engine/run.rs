//! The main loop: takes the ready node with the highest sequence number, runs its hooks and function, delivers
//! gradients.

use std::collections::BinaryHeap;

use super::task::GraphTask;
use super::{Options, accumulate, current};
use crate::backend::calling::OpScope;
use crate::backend::defer;
use crate::bail;
use crate::device::Device;
use crate::error::{Result, check_interrupt};
use crate::graph::{Cx, Edge, GradFn, Grads, ModeGuard, OutputMeta, PushesUndone, anomaly, grad_enabled};
use crate::ops::{arith, interpreter, reduce};
use crate::tensor::Tensor;

/// Ready nodes, ordered by sequence number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ready(u64, usize);

/// What happens to the gradients that reach the leaves.
#[derive(Clone, Copy)]
pub enum Goal<'a> {
    /// All leaves accumulate.
    Leaves,
    /// Only these leaves accumulate.
    Into(&'a [Edge]),
    /// These gradients are returned, and no leaf accumulates.
    Return(&'a [Edge]),
}

/// Runs backward from `roots`.
pub fn run(
    roots: Vec<Edge>,
    grads: Vec<Tensor>,
    goal: Goal<'_>,
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    current::nested(|| run_here(roots, grads, goal, options))
}

fn run_here(
    roots: Vec<Edge>,
    grads: Vec<Tensor>,
    goal: Goal<'_>,
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    let (wanted, returned) = match goal {
        Goal::Leaves => (None, None),
        Goal::Into(wanted) => (Some(wanted), None),
        Goal::Return(wanted) => (Some(wanted), Some(wanted)),
    };
    let (_mode, _hooks) = (ModeGuard::grad(options.create_graph), PushesUndone::from_now_on());
    let mut task = GraphTask::new();
    task.discover(&roots);
    let mut found: Vec<Option<Tensor>> = vec![None; returned.map_or(0, <[Edge]>::len)];
    if let Some(wanted) = wanted {
        task.mark_needed(wanted);
    }
    for (e, g) in roots.iter().zip(grads) {
        if let Some(i) = task.find(&e.node) {
            let g = validate_grad(g, e, (&e.node, e.input()))?;
            add_into(&mut task.states[i].input_buffer, e.input(), g)?;
        }
    }
    let _entry = current::enter(task.id, &roots, wanted, returned.is_some(), options.retain_graph);
    let mut ready: BinaryHeap<Ready> = task
        .states
        .iter()
        .enumerate()
        .filter(|(_, s)| s.waiting == 0)
        .map(|(i, s)| Ready(s.node.seq, i))
        .collect();
    let mut steps = 0usize;
    // What was recorded in a region is differentiated in one, from its first node on.
    let mut region: Option<defer::Entered> = None;
    while let Some(Ready(_, i)) = ready.pop() {
        steps += 1;
        if steps.is_multiple_of(256) {
            check_interrupt()?;
        }
        let node = task.states[i].node;
        let mut input_buffer = std::mem::take(&mut task.states[i].input_buffer);
        let is_wanted = || wanted.is_none_or(|wanted| wanted.iter().any(|w| w.node.same(node)));
        // `backward(inputs=)` runs the nodes of its inputs too, with their hooks; `grad` returns what enters them.
        let go = match goal {
            Goal::Leaves => true,
            Goal::Into(_) => task.states[i].needed || is_wanted(),
            Goal::Return(_) => task.states[i].needed,
        };
        if go || is_wanted() {
            run_tensor_hooks(node, &mut input_buffer)?;
        }
        if let Some(returned) = returned {
            for (w, slot) in returned.iter().zip(&mut found) {
                if w.node.same(node) {
                    *slot = captured(node, input_buffer.get(w.input()).cloned().flatten())?;
                }
            }
        }
        if let Some(leaf) = node.function().as_accumulator() {
            let accumulates = match goal {
                Goal::Leaves => true,
                Goal::Into(_) => is_wanted(),
                Goal::Return(_) => false,
            };
            if accumulates {
                accumulate::leaf(leaf, node, input_buffer, options.create_graph)?;
            }
            continue;
        }
        if go && region.is_none() && node.is_deferred() {
            region = Some(defer::Entered::new());
        }
        let is_added = go && add_to_sum(node, &input_buffer, &task)?;
        let outs = match go && !is_added {
            true => run_node(node, input_buffer, &task, wanted, options)?,
            false => Grads::new(),
        };
        deliver(&mut task, &mut ready, node, outs)?;
    }
    current::finish()?;
    region.map_or(Ok(()), defer::Entered::finish)?;
    Ok(found)
}

/// Runs the leaf hooks for a returned gradient too.
fn captured(node: &GradFn, grad: Option<Tensor>) -> Result<Option<Tensor>> {
    match node.function().as_accumulator() {
        Some(acc) => accumulate::run_leaf_hooks(&acc.leaf, grad),
        None => Ok(grad),
    }
}

/// Runs the tensor hooks of a node's outputs, then stores retained gradients.
fn run_tensor_hooks(node: &GradFn, input_buffer: &mut Grads) -> Result<()> {
    let Some(hooks) = node.hooks() else { return Ok(()) };
    for (output, hooks) in &hooks.tensor {
        let Some(grad) = input_buffer.get_mut(*output) else { continue };
        for hook in hooks.iter() {
            if let Some(new) = hook.call(grad.as_ref())? {
                *grad = Some(check_replacement(grad.as_ref(), new)?);
            }
        }
    }
    for (output, meta) in &hooks.retain {
        if let (Some(meta), Some(Some(g))) = (meta.upgrade(), input_buffer.get(*output)) {
            accumulate::retain(&meta, g)?;
        }
    }
    Ok(())
}

pub(super) fn check_replacement(old: Option<&Tensor>, new: Tensor) -> Result<Tensor> {
    let Some(old) = old else { bail!(Runtime, "can't replace a None gradient with a non-None value") };
    if new.shape() != old.shape() {
        bail!(
            Runtime,
            "hook has changed the size of value (hooks must return a gradient of shape {}, got {})",
            old.shape(),
            new.shape()
        );
    }
    if new.dtype() != old.dtype() {
        bail!(
            Runtime,
            "hook has changed the type of value (was torch.{} got torch.{})",
            old.dtype().name(),
            new.dtype().name()
        );
    }
    Ok(new)
}

/// Adds the gradient that enters a node to the sum that its only result goes to, without that result; false if this has to be
/// computed.
///
/// Note [Gradients of parts] The gradient of a slice is zeros but for a part. Of several slices of one tensor, the first makes
/// these zeros; further ones are added to its part of them, in place of a sum of all elements each. Nobody may see the difference: the
/// sum has no other owner, and neither hooks, interpreters nor a second derivative ask for the result.
fn add_to_sum(node: &GradFn, input_buffer: &Grads, task: &GraphTask<'_>) -> Result<bool> {
    let ([Some(edge)], [Some(grad)]) = (&node.edges()[..], &input_buffer[..]) else { return Ok(false) };
    if grad_enabled() || interpreter::active() || anomaly::enabled() || node.hooks().is_some() {
        return Ok(false);
    }
    let target = task.find(&edge.node).map(|j| &task.states[j]);
    let Some(Some(sum)) = target.and_then(|t| t.input_buffer.get(edge.input())) else { return Ok(false) };
    let writable = sum.is_contiguous()
        && sum.is_sole_owner_but_for_deferred()
        && !sum.is_hosted()
        && !grad.is_hosted()
        && sum.dtype() == grad.dtype()
        && sum.device() == grad.device();
    if !writable {
        return Ok(false);
    }
    let _calling = OpScope::new(|| node.function().name());
    node.function().add_to(grad, sum).map_err(|e| e.of_operation(node.name()))
}

fn run_node(
    node: &GradFn,
    mut input_buffer: Grads,
    task: &GraphTask<'_>,
    wanted: Option<&[Edge]>,
    options: Options,
) -> Result<Grads> {
    let hooks = node.hooks();
    if let Some(h) = &hooks {
        accumulate::run_pre_hooks(h, &mut input_buffer)?;
    }
    let needs = wanted_edges(node, task, wanted);
    let cx = Cx::new(node, needs);
    let kept = hooks.as_ref().filter(|h| !h.post.is_empty()).map(|_| input_buffer.clone());
    let undefined = input_buffer.iter().all(Option::is_none) && !node.function().is_foreign();
    let mut outs =
        if undefined { Grads::from_elem(None, node.edges().len()) } else { call(node, &cx, input_buffer)? };
    if let (Some(h), Some(kept)) = (&hooks, &kept) {
        for hook in h.post.iter() {
            if let Some(new) = hook.call(kept, Some(&outs))? {
                outs = new;
            }
        }
    }
    if !options.retain_graph {
        node.function().release();
    }
    if outs.len() < node.edges().len() {
        bail!(
            Runtime,
            "Function {} returned an invalid number of gradients - got {}, but expected {}",
            node.name(),
            outs.len(),
            node.edges().len()
        );
    }
    Ok(outs)
}

/// Calls a node's function directly: without hooks, and without freeing saved tensors.
pub fn apply(node: &GradFn, grads: Grads) -> Result<Grads> {
    if let Some(leaf) = node.function().as_accumulator() {
        accumulate::leaf(leaf, node, grads, grad_enabled())?;
        return Ok(Grads::new());
    }
    let edges = node.edges();
    let needs = edges.iter().take(63).enumerate().fold(0, |bits, (k, e)| bits | (e.is_some() as u64) << k);
    let outs = call(node, &Cx::new(node, needs), grads)?;
    let fitted = outs.into_iter().zip(edges).enumerate().map(|(k, (g, e))| match (g, e) {
        (Some(g), Some(e)) => validate_grad(g, e, (node, k)).map(Some),
        _ => Ok(None),
    });
    fitted.collect()
}

/// A bit mask of the inputs whose gradients are needed.
fn wanted_edges(node: &GradFn, task: &GraphTask<'_>, wanted: Option<&[Edge]>) -> u64 {
    let mut needs = 0;
    for (k, e) in node.edges().iter().enumerate().take(63) {
        let waits = match (e, wanted) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(e), Some(wanted)) => {
                task.find(&e.node).is_some_and(|j| task.states[j].needed)
                    || wanted.iter().any(|w| w.node.same(&e.node))
            }
        };
        needs |= (waits as u64) << k;
    }
    needs
}

/// Calls the function; in anomaly mode an error is traced to where the node was made.
fn call(node: &GradFn, cx: &Cx, grads: Grads) -> Result<Grads> {
    let _calling = OpScope::new(|| node.function().name());
    if !anomaly::enabled() {
        return backward(node, cx, grads).map_err(|e| e.of_operation(node.name()));
    }
    anomaly::observe(node, || {
        let outs = backward(node, cx, grads)?;
        if anomaly::checks_nan() {
            refuse_nan(node, &outs)?;
        }
        Ok(outs)
    })
}

#[inline(always)]
fn backward(node: &GradFn, cx: &Cx, grads: Grads) -> Result<Grads> {
    if interpreter::active() {
        interpreter::backward(node, cx, grads)
    } else {
        node.function().backward(cx, grads)
    }
}

fn refuse_nan(node: &GradFn, outs: &Grads) -> Result<()> {
    for (k, g) in outs.iter().enumerate() {
        if let Some(g) = g
            && g.to_vec::<f64>().iter().any(|v| v.is_nan())
        {
            bail!(Runtime, "Function '{}' returned nan values in its {k}th output.", node.name());
        }
    }
    Ok(())
}

fn deliver(
    task: &mut GraphTask<'_>,
    ready: &mut BinaryHeap<Ready>,
    node: &GradFn,
    outs: Grads,
) -> Result<()> {
    let mut outs = outs.into_iter();
    for (k, e) in node.edges().iter().enumerate() {
        let g = outs.next().flatten();
        let Some(e) = e else { continue };
        let Some(j) = task.find(&e.node) else { continue };
        if let Some(g) = g {
            let g = validate_grad(g, e, (node, k))?;
            add_into(&mut task.states[j].input_buffer, e.input(), g)?;
        }
        let slot = &mut task.states[j];
        slot.waiting -= 1;
        if slot.waiting == 0 {
            ready.push(Ready(slot.node.seq, j));
        }
    }
    Ok(())
}

/// Casts a gradient to the dtype and reduces it to the shape of its tensor; the only place where broadcasting is
/// undone. Errors name the node and output number that `g` is `from`.
fn validate_grad(g: Tensor, to: &Edge, from: (&GradFn, usize)) -> Result<Tensor> {
    let Some(OutputMeta { shape, dtype, device }) = to.node.outputs().get(to.input()) else { return Ok(g) };
    let g = if g.shape() == shape {
        g
    } else if crate::layout::broadcast("backward", shape, g.shape()).is_ok_and(|s| s == *g.shape()) {
        reduce::sum_to(&g, shape)?
    } else {
        bail!(
            Runtime,
            "Function {} returned an invalid gradient at index {} - got {} but expected shape compatible with {}",
            from.0.name(),
            from.1,
            g.shape(),
            shape
        );
    };
    // A 0-d tensor may be used on other devices. Hosted tensors are on the meta device, whatever they hold.
    let stays = g.device() == *device || *device == Device::Meta || g.is_hosted();
    match (stays, g.dtype() == *dtype) {
        (true, true) => Ok(g),
        (true, false) => arith::to_dtype(&g, *dtype),
        (false, _) => arith::to(&g, *device, *dtype),
    }
}

/// Adds a gradient to an input buffer. The first one is moved in; later ones are added in place when the buffer has no
/// other owner.
fn add_into(input_buffer: &mut Grads, input: usize, g: Tensor) -> Result<()> {
    let Some(slot) = input_buffer.get_mut(input) else {
        bail!(Runtime, "a gradient goes to output {input} of a node that has only {}", input_buffer.len());
    };
    *slot = Some(match slot.take() {
        None => g,
        Some(old) => accumulate::sum(old, g)?,
    });
    Ok(())
}
