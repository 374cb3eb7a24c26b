//! Reverse mode: runs the nodes of a graph from its roots to its leaves.
//!
//! A call of [`backward`] or [`grad`] is one task on the calling thread. Any number of threads may run tasks over
//! graphs that share nodes.

mod accumulate;
pub mod gradcheck;
mod run;
mod task;

pub use run::set_interrupt_check;

use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::graph::Edge;
use crate::tensor::Tensor;

/// What a run is asked for.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Keep what the nodes saved, so that the graph can be run again.
    pub retain_graph: bool,
    /// Record the derivatives too.
    pub create_graph: bool,
    /// An input that the roots do not depend on has no gradient, rather than being an error.
    pub allow_unused: bool,
    /// Such an input has a gradient of zeros.
    pub materialize: bool,
}

/// The gradients of the roots: those given, or ones for a root of one element.
fn root_gradients(roots: &[Tensor], grads: &[Option<Tensor>], create_graph: bool) -> Result<Vec<Tensor>> {
    let mut out = Vec::with_capacity(roots.len());
    for (i, root) in roots.iter().enumerate() {
        out.push(match grads.get(i).cloned().flatten() {
            Some(g) => {
                ensure!(
                    g.shape() == root.shape(),
                    Runtime,
                    "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape of \
                     torch.Size({}).",
                    g.shape(),
                    root.shape()
                );
                if create_graph { g } else { g.detach() }
            }
            None => {
                ensure!(root.requires_grad(), Runtime, "{}", no_grad_message(i));
                ensure!(root.numel() == 1, Runtime, "grad can be implicitly created only for scalar outputs");
                ensure!(
                    root.dtype().is_float(),
                    Runtime,
                    "grad can be implicitly created only for real scalar outputs but got {}",
                    root.dtype()
                );
                root.new_full(root.shape().clone(), 1i64)?
            }
        });
    }
    Ok(out)
}

fn no_grad_message(i: usize) -> String {
    format!("element {i} of tensors does not require grad and does not have a grad_fn")
}

fn root_edges(roots: &[Tensor]) -> Result<Vec<Edge>> {
    let mut edges = Vec::with_capacity(roots.len());
    for (i, root) in roots.iter().enumerate() {
        match root.grad_edge() {
            Some(e) => edges.push(e),
            None => ensure!(false, Runtime, "{}", no_grad_message(i)),
        }
    }
    Ok(edges)
}

/// Adds the gradients of `roots` to the `.grad` of the leaves that they depend on, or of `inputs` alone where given.
///
/// # Errors
/// `RuntimeError` where a root has no history, a gradient has another shape, or the graph was freed.
pub fn backward(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    inputs: Option<&[Tensor]>,
    options: Options,
) -> Result<()> {
    let edges = root_edges(roots)?;
    let grads = root_gradients(roots, grads, options.create_graph)?;
    let Some(inputs) = inputs else {
        return run::run(edges, grads, None, options).map(|_| ());
    };
    ensure!(!inputs.is_empty(), Runtime, "'inputs' argument to backward() cannot be empty.");
    let wanted = input_edges(inputs)?;
    let found = run::run(edges, grads, Some(&wanted), options)?;
    for (input, g) in inputs.iter().zip(found) {
        if let Some(g) = g {
            accumulate::add_to(input, g, options.create_graph)?;
        }
    }
    Ok(())
}

fn input_edges(inputs: &[Tensor]) -> Result<Vec<Edge>> {
    let mut edges = Vec::with_capacity(inputs.len());
    for t in inputs {
        match t.grad_edge() {
            Some(e) => edges.push(e),
            None => ensure!(false, Runtime, "One of the differentiated Tensors does not require grad"),
        }
    }
    Ok(edges)
}

/// The gradients of `roots` by `inputs`, without touching any `.grad`.
///
/// # Errors
/// As [`backward`]; also where an input is not used and that is not allowed.
pub fn grad(
    roots: &[Tensor],
    inputs: &[Tensor],
    grads: &[Option<Tensor>],
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    let edges = root_edges(roots)?;
    let grads = root_gradients(roots, grads, options.create_graph)?;
    let wanted = input_edges(inputs)?;
    let found = run::run(edges, grads, Some(&wanted), options)?;
    inputs
        .iter()
        .zip(found)
        .map(|(t, g)| match g {
            Some(g) => Ok(Some(g)),
            None if options.materialize => crate::ops::creation::zeros_like(t, float_of(t.dtype())).map(Some),
            None => {
                ensure!(
                    options.allow_unused,
                    Runtime,
                    "One of the differentiated Tensors appears to not have been used in the graph. Set \
                     allow_unused=True if this is the desired behavior."
                );
                Ok(None)
            }
        })
        .collect()
}

fn float_of(d: DType) -> DType {
    if d.is_float() { d } else { DType::F32 }
}
