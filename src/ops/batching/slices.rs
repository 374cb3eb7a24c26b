//! Operations without a rule, called for each slice; and nodes that call kernels.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{BatchCall, parts_of};
use crate::device::Device;
use crate::error::{Result, warn};
use crate::graph::{Cx, GradFn, Grads, ModeGuard, grad_enabled, with_saved};
use crate::ops::interpreter::saved_by;
use crate::ops::schema::Out;
use crate::ops::{interpreter, join, mirror, view};
use crate::tensor::Tensor;
use crate::tensor::batched::Levels;
use crate::{bail, ensure};

/// Whether a call for each slice warns.
static WARNS: AtomicBool = AtomicBool::new(true);

/// Whether operations without a rule are called for each slice; otherwise they are errors.
static ENABLED: AtomicBool = AtomicBool::new(true);

/// Sets whether a call for each slice warns.
pub fn set_warns(on: bool) {
    WARNS.store(on, Ordering::Relaxed);
}

/// Whether a call for each slice warns.
pub fn warns() -> bool {
    WARNS.load(Ordering::Relaxed)
}

/// Sets whether operations without a rule are called for each slice.
pub fn set_enabled(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

/// Whether operations without a rule are called for each slice.
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Warns of a call for each slice, or refuses it.
pub fn announce(name: &str) -> Result<()> {
    ensure!(
        is_enabled(),
        Runtime,
        "vmap: aten::{name} hit the vmap fallback which is currently disabled: it has no batching rule"
    );
    if warns() {
        warn(&format!(
            "There is a performance drop because we have not yet implemented the batching rule for aten::{name}: it is \
             called for each slice"
        ))?;
    }
    Ok(())
}

/// Slice `i` of a value with `n` mapped dimensions of these sizes.
pub(super) fn slice(value: &Tensor, sizes: &[usize], mut i: usize) -> Result<Tensor> {
    let mut at = Vec::with_capacity(sizes.len());
    for &n in sizes.iter().rev() {
        at.push(i % n);
        i /= n;
    }
    // A dimension that the value lacks has size 1.
    at.iter().rev().try_fold(value.clone(), |t, &k| {
        let k = if t.shape()[0] == 1 { 0 } else { k };
        view::cut::select(&t, 0, k as i64)
    })
}

/// Values of the slices, joined.
fn joined(c: &BatchCall, slices: &[Tensor]) -> Result<Tensor> {
    let whole = join::stack(slices, 0)?;
    c.unmerged(whole)
}

/// The results of the operation for each slice; `before` is called before each.
pub(super) fn run_each(c: &BatchCall, before: impl Fn()) -> Result<Vec<Out>> {
    let given = mirror::tensors(c.values);
    // With all mapped dimensions, those that a tensor lacks of size 1.
    let wholes = given.iter().map(|t| if t.is_batched() { c.with_all(t, 0) } else { Ok(t.clone()) });
    let wholes = wholes.collect::<Result<Vec<_>>>()?;
    let values = c.map(|t| Ok(t.clone()))?;
    let mut outs = Vec::with_capacity(c.slices());
    for i in 0..c.slices() {
        let own = given
            .iter()
            .zip(&wholes)
            .map(|(t, whole)| if t.is_batched() { slice(whole, &c.sizes, i) } else { Ok(whole.clone()) });
        let own = own.collect::<Result<Vec<_>>>()?;
        before();
        outs.push(c.run(&mirror::with_tensors(&values, &own))?);
    }
    Ok(outs)
}

/// Calls the operation for each slice.
pub fn by_slices(c: &BatchCall) -> Result<Out> {
    let name = c.op_name();
    announce(name)?;
    ensure!(
        c.slices() > 0,
        Runtime,
        "vmap: {name}() is called for each slice, and there are none: the batch dimension has size 0"
    );
    let outs = run_each(c, || ())?;
    if c.writes() {
        return Ok(Out::Tensor(c.first()?.clone()));
    }
    let Some(first) = outs.first().cloned() else { return Ok(Out::None) };
    let count = mirror::results(&first).len();
    if count == 0 {
        if let Out::Tuple(_) | Out::List(_) = first {
            return Ok(first);
        }
        bail!(
            Runtime,
            "vmap: {name}() returns what is no Tensor, which may differ between the slices: data-dependent control flow \
             is not supported"
        );
    }
    let mut tensors = Vec::with_capacity(count);
    for k in 0..count {
        let mut of_slices = Vec::with_capacity(outs.len());
        for out in &outs {
            let Some(t) = mirror::results(out).get(k) else {
                bail!(Runtime, "vmap: {name}() has other results for other slices")
            };
            of_slices.push(t.clone());
        }
        let same = of_slices.windows(2).all(|w| w[0].shape() == w[1].shape());
        ensure!(same, Runtime, "vmap: {name}() has results of other shapes for other slices: dynamic shape");
        tensors.push(joined(c, &of_slices)?);
    }
    Ok(mirror::with_results(first, tensors))
}

/// The gradients of a node, some of whose own are batched.
///
/// A backward function that calls operations gets batched gradients, and returns such. One that calls a kernel calls
/// operations where it is recorded, as a rule, and so it is recorded here. Where it does not, it gets the gradients of each
/// slice: a kernel cannot read a batched tensor, and its result on one has no memory. The slices are operations as well.
#[cold]
pub fn backward(node: &GradFn, cx: &Cx, grads: Grads) -> Result<Grads> {
    let lost = |g: &Tensor| g.device() == Device::Meta && !g.is_hosted();
    let given = grads.iter().flatten().any(lost);
    let recorded = grad_enabled();
    let saved = saved_by(node, cx)?;
    let outs = {
        let _recording = ModeGuard::grad(recorded || node.function().kernel().is_some());
        with_saved(node, saved, || node.function().backward(cx, grads.clone()))
    };
    match outs {
        Ok(outs) if given || !outs.iter().flatten().any(lost) => {
            return if recorded {
                Ok(outs)
            } else {
                outs.iter().map(|g| g.as_ref().map(Tensor::detached).transpose()).collect()
            };
        }
        // Code of the program is not run again after an error.
        Err(e) if node.function().is_foreign() => return Err(e),
        _ => {}
    }
    let mut levels = Levels::new();
    let mut sizes = Vec::new();
    for g in grads.iter().flatten() {
        let (value, own) = parts_of(g);
        for (i, level) in own.iter().enumerate() {
            if let Err(at) = levels.binary_search(level) {
                levels.insert(at, *level);
                sizes.insert(at, value.shape()[i]);
            }
        }
    }
    let n: usize = sizes.iter().product();
    let part = |g: &Tensor, i: usize| -> Result<Tensor> {
        let (mut value, own) = parts_of(g);
        if own.is_empty() {
            return Ok(value);
        }
        for (d, level) in levels.iter().enumerate() {
            if !own.contains(level) {
                value = view::unsqueeze(&value, d as i64)?;
            }
        }
        slice(&value, &sizes, i)
    };
    let saved = saved_by(node, cx)?;
    let mut all: Vec<Grads> = Vec::with_capacity(n);
    for i in 0..n {
        let own =
            grads.iter().map(|g| g.as_ref().map(|g| part(g, i)).transpose()).collect::<Result<Grads>>()?;
        all.push(with_saved(node, saved.clone(), || interpreter::backward(node, cx, own))?);
    }
    let count = all.first().map_or(0, |g| g.len());
    let mut outs = Grads::new();
    for k in 0..count {
        let slices: Option<Vec<Tensor>> = all.iter().map(|g| g.get(k).cloned().flatten()).collect();
        outs.push(match slices {
            Some(slices) => {
                let whole = join::stack(&slices, 0)?;
                let shape = sizes.iter().chain(&whole.shape()[1..]).copied().collect();
                let whole = if sizes.len() == 1 { whole } else { view::reshape_to(&whole, &shape)? };
                Some(Tensor::batched_over(whole, levels.clone())?)
            }
            None => None,
        });
    }
    Ok(outs)
}
