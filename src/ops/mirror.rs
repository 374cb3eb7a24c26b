//! The histories of calls that the host language computes.
//!
//! Note [Histories of hosted tensors] `__torch_dispatch__` computes below autograd: what it returns has no history. The nodes
//! come from the operation itself, run on meta tensors that have the shapes, dtypes and edges of the arguments, which
//! computes nothing and records what the operation always records. Then the tensors that the new nodes saved are exchanged:
//! that of an argument for the argument, that of a result for the computed result. Where a node saves anything else (the
//! statistics of a normalization, a mask, indices), the call is recorded in another way: Note [Second runs] in the binding.
//! Written arguments have no such way: their values before the write are gone, and backward asks for a value that nobody has.

use std::collections::HashSet;

use crate::backend::memory;
use crate::device::Device;
use crate::ensure;
use crate::error::Result;
use crate::graph::{Edge, GradFn, grad_enabled, without_hooks};
use crate::ops::interpreter;
use crate::ops::schema::{Out, Value};
use crate::storage::Storage;
use crate::tensor::{Tensor, check_inplace, rebase};

/// The arguments of a call, and the meta tensors in their place.
pub struct Mirror {
    arguments: Vec<Tensor>,
    images: Vec<Tensor>,
    edges: Vec<Edge>,
}

impl Mirror {
    /// Mirrors the tensors among the arguments of a call.
    pub fn of(arguments: Vec<Tensor>) -> Result<Mirror> {
        let mut edges = Vec::new();
        let mut images: Vec<Tensor> = Vec::with_capacity(arguments.len());
        for (i, t) in arguments.iter().enumerate() {
            if let Some(earlier) = arguments[..i].iter().position(|other| other.same(t)) {
                images.push(images[earlier].clone());
                continue;
            }
            let image = without_memory(t)?;
            if grad_enabled()
                && let Some(edge) = t.grad_edge()?
            {
                image.meta_or_new().set_history(edge.node.clone(), edge.input());
                edges.push(edge);
            }
            images.push(image);
        }
        Ok(Mirror { arguments, images, edges })
    }

    pub fn images(&self) -> &[Tensor] {
        &self.images
    }

    /// The images without history, to stand for the arguments where these must not be kept.
    pub fn placeholders(&self) -> Vec<Tensor> {
        self.images.iter().map(Tensor::detach).collect()
    }

    /// The values of the call with the images.
    pub fn values(&self, values: &[Value]) -> Vec<Value> {
        with_tensors(values, &self.images)
    }

    /// Calls `f` such that nothing sees the operations that it calls.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        interpreter::without(|| without_hooks(f))
    }

    pub fn arguments(&self) -> &[Tensor] {
        &self.arguments
    }

    /// Whether as many results were computed as the operation has.
    pub fn check_count(&self, images: &[Tensor], results: &[Tensor]) -> Result<()> {
        ensure!(
            images.len() == results.len(),
            Runtime,
            "__torch_dispatch__ returned {} tensors instead of {}",
            results.len(),
            images.len()
        );
        Ok(())
    }

    /// Whether the nodes between results and arguments can be rebuilt from these.
    pub fn knows_all(&self, images: &[Tensor]) -> bool {
        let mut known = true;
        self.visit(histories(images), |node| {
            known &= node.function().saves_all();
            node.function().saved(&mut |_, saved| {
                known &= saved
                    .kept()
                    .is_none_or(|t| self.position(&t).is_some() || position(images, &t).is_some());
            });
            Ok(())
        })
        .is_ok_and(|()| known)
    }

    /// Gives the computed results the histories of their images.
    pub fn attach(&self, images: &[Tensor], results: &mut [Tensor]) -> Result<()> {
        let mut roots = Vec::new();
        for (image, result) in images.iter().zip(results.iter_mut()) {
            let Some((node, number)) = image.meta().and_then(|m| m.history()) else { continue };
            if self.arguments.iter().any(|a| a.same(result)) {
                *result = result.detached()?;
            } else if result.requires_grad() && !result.is_leaf() {
                continue;
            }
            result.meta_or_new().set_history(node.clone(), number);
            roots.push(node);
        }
        self.exchange(roots, images, results)
    }

    /// Gives the first argument, which the host has written, the history of its image.
    pub fn attach_written(&self) -> Result<()> {
        let (Some(image), Some(written)) = (self.images.first(), self.arguments.first()) else {
            return Ok(());
        };
        let Some(edge) = image.grad_edge()? else { return Ok(()) };
        check_inplace(written, true)?;
        let node = edge.node.clone();
        rebase(written, edge)?;
        self.exchange(vec![node], std::slice::from_ref(image), std::slice::from_ref(written))
    }

    /// Calls `f` with each node between `open` and the arguments.
    fn visit(&self, mut open: Vec<GradFn>, mut f: impl FnMut(&GradFn) -> Result<()>) -> Result<()> {
        let mut seen: HashSet<usize> = self.edges.iter().map(|e| e.node.address()).collect();
        while let Some(node) = open.pop() {
            if seen.insert(node.address()) {
                f(&node)?;
                open.extend(node.edges().iter().flatten().map(|e| e.node.clone()));
            }
        }
        Ok(())
    }

    /// Exchanges what the nodes saved that lie between results and arguments.
    fn exchange(&self, open: Vec<GradFn>, images: &[Tensor], results: &[Tensor]) -> Result<()> {
        self.visit(open, |node| {
            let mut done = Ok(());
            node.function().saved(&mut |_, saved| {
                if done.is_ok() {
                    done = saved.exchange(|t| self.original(t, images, results));
                }
            });
            done
        })
    }

    /// The position of the argument that a meta tensor stands for.
    fn position(&self, t: &Tensor) -> Option<usize> {
        position(&self.images, t)
    }

    /// What a saved meta tensor stands for.
    fn original(&self, t: &Tensor, images: &[Tensor], results: &[Tensor]) -> Result<Option<Tensor>> {
        if let Some(i) = self.position(t) {
            return Ok(Some(self.arguments[i].clone()));
        }
        match position(images, t) {
            // Without a history, it forms no cycle with the node.
            Some(i) if !images[i].requires_grad() => Ok(Some(results[i].clone())),
            Some(i) => results[i].detached().map(Some),
            None => Ok(None),
        }
    }
}

fn position(images: &[Tensor], t: &Tensor) -> Option<usize> {
    images.iter().position(|image| image.storage().same(t.storage()) && image.layout() == t.layout())
}

fn histories(images: &[Tensor]) -> Vec<GradFn> {
    images.iter().filter_map(|t| Some(t.meta()?.history()?.0)).collect()
}

/// A meta tensor of the same shape, strides and dtype.
fn without_memory(t: &Tensor) -> Result<Tensor> {
    let storage: Storage = memory::alloc(t.storage().len(), Device::Meta)?;
    Ok(Tensor::from_parts(storage, t.layout().clone(), t.dtype()))
}

/// The values of a call with other tensors, in order.
pub fn with_tensors(values: &[Value], tensors: &[Tensor]) -> Vec<Value> {
    let mut tensors = tensors.iter();
    let mut next = |t: &Tensor| tensors.next().unwrap_or(t).clone();
    values
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => Value::Tensor(next(t)),
            Value::Tensors(ts) => Value::Tensors(ts.iter().map(&mut next).collect()),
            Value::OptTensors(ts) => {
                Value::OptTensors(ts.iter().map(|t| t.as_ref().map(&mut next)).collect())
            }
            other => other.clone(),
        })
        .collect()
}

/// The tensors among the values of a call, in order.
pub fn tensors(values: &[Value]) -> Vec<Tensor> {
    let mut found = Vec::new();
    for v in values {
        match v {
            Value::Tensor(t) => found.push(t.clone()),
            Value::Tensors(ts) => found.extend(ts.iter().cloned()),
            Value::OptTensors(ts) => found.extend(ts.iter().flatten().cloned()),
            _ => {}
        }
    }
    found
}

/// The tensors of a result, in order.
pub fn results(out: &Out) -> &[Tensor] {
    match out {
        Out::Tensor(t) => std::slice::from_ref(t),
        Out::Tuple(ts) | Out::Named(_, _, ts) | Out::List(ts) => ts,
        _ => &[],
    }
}

/// A result with other tensors.
pub fn with_results(out: Out, mut tensors: Vec<Tensor>) -> Out {
    match out {
        Out::Tensor(t) => Out::Tensor(tensors.pop().unwrap_or(t)),
        Out::Tuple(_) => Out::Tuple(tensors),
        Out::Named(name, fields, _) => Out::Named(name, fields, tensors),
        Out::List(_) => Out::List(tensors),
        other => other,
    }
}
