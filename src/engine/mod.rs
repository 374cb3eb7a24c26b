//! Reverse-mode differentiation: runs the nodes of a graph from its roots to its leaves.
//!
//! Each call of [`backward`] or [`grad`] is one graph task on the calling thread. Several threads may run tasks over
//! graphs that share nodes.

mod accumulate;
pub mod current;
pub mod gradcheck;
mod run;
mod task;

pub use run::apply;

use run::{Goal, run};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::Edge;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// A root of a graph task, or an input to differentiate with respect to.
#[derive(Clone)]
pub enum Target {
    Tensor(Tensor),
    /// An input of a node.
    Edge(Edge),
}

impl From<Tensor> for Target {
    fn from(t: Tensor) -> Self {
        Target::Tensor(t)
    }
}

impl Target {
    fn edge(&self) -> Result<Option<Edge>> {
        match self {
            Target::Tensor(t) => t.grad_edge(),
            Target::Edge(e) => Ok(Some(e.clone())),
        }
    }

    /// Shape, dtype and device of its gradient; None when the node does not record them.
    fn looks(&self) -> Option<(&Dims, DType, Device)> {
        match self {
            Target::Tensor(t) => Some((t.shape(), t.dtype(), t.device())),
            Target::Edge(e) => e.node.outputs().get(e.input()).map(|o| (&o.shape, o.dtype, o.device)),
        }
    }
}

/// Options of a graph task.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Keep saved tensors, so that backward can run again.
    pub retain_graph: bool,
    /// Record the backward computation.
    pub create_graph: bool,
    /// Return no gradient, rather than an error, for an input on which the roots do not depend.
    pub allow_unused: bool,
    /// Return zeros for such an input.
    pub materialize: bool,
}

/// The gradients of the roots: the given ones, or 1 for a root of one element.
fn root_gradients(roots: &[Target], grads: &[Option<Tensor>], create_graph: bool) -> Result<Vec<Tensor>> {
    ensure!(
        grads.is_empty() || grads.len() == roots.len(),
        Runtime,
        "got {} tensors and {} gradients",
        roots.len(),
        grads.len()
    );
    let mut out = Vec::with_capacity(roots.len());
    for (i, root) in roots.iter().enumerate() {
        let looks = root.looks();
        out.push(match (grads.get(i).cloned().flatten(), looks) {
            (Some(g), looks) => {
                if let Some((shape, ..)) = looks {
                    ensure!(
                        g.shape() == shape,
                        Runtime,
                        "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape of \
                         torch.Size({shape}).",
                        g.shape(),
                    );
                }
                if create_graph || g.is_hosted() && !g.requires_grad() { g } else { g.detached()? }
            }
            (None, None) => bail!(Runtime, "grad can be implicitly created only for scalar outputs"),
            (None, Some((shape, dtype, device))) => {
                ensure!(root.edge()?.is_some(), Runtime, "{}", no_grad_message(i));
                ensure!(shape.numel() == 1, Runtime, "grad can be implicitly created only for scalar outputs");
                ensure!(
                    dtype.is_float(),
                    Runtime,
                    "grad can be implicitly created only for real scalar outputs but got {dtype}"
                );
                match root {
                    Target::Tensor(t) => t.ones_like()?,
                    Target::Edge(_) => Tensor::full_on(shape.clone(), 1i64, dtype, device)?,
                }
            }
        });
    }
    Ok(out)
}

fn no_grad_message(i: usize) -> String {
    format!("element {i} of tensors does not require grad and does not have a grad_fn")
}

fn root_edges(roots: &[Target]) -> Result<Vec<Edge>> {
    let mut edges = Vec::with_capacity(roots.len());
    for (i, root) in roots.iter().enumerate() {
        match root.edge()? {
            Some(e) => edges.push(e),
            None => bail!(Error::Runtime(no_grad_message(i))),
        }
    }
    Ok(edges)
}

/// Accumulates the gradients of `roots` into the `.grad` of all leaves, or only of `inputs` if given.
///
/// # Errors
/// `RuntimeError` when a root has no history, a gradient has the wrong shape, or the graph was freed.
pub fn backward(
    roots: &[Target],
    grads: &[Option<Tensor>],
    inputs: Option<&[Target]>,
    options: Options,
) -> Result<()> {
    let edges = root_edges(roots)?;
    let grads = root_gradients(roots, grads, options.create_graph)?;
    let Some(inputs) = inputs else {
        return run(edges, grads, Goal::Leaves, options).map(drop);
    };
    ensure!(!inputs.is_empty(), Runtime, "`inputs` argument to `backward()` cannot be empty.");
    for input in inputs {
        // The gradient of a non-leaf input is retained as if by `retain_grad`.
        if let Target::Tensor(t) = input {
            ensure!(t.requires_grad(), Runtime, "can't retain_grad on Tensor that has requires_grad=False");
            t.retain_grad();
        }
    }
    let wanted = input_edges(inputs)?;
    run(edges, grads, Goal::Into(&wanted), options).map(drop)
}

fn input_edges(inputs: &[Target]) -> Result<Vec<Edge>> {
    let mut edges = Vec::with_capacity(inputs.len());
    for t in inputs {
        match t.edge()? {
            Some(e) => edges.push(e),
            None => bail!(Runtime, "One of the differentiated Tensors does not require grad"),
        }
    }
    Ok(edges)
}

/// The gradients of `roots` with respect to `inputs`, without accumulation.
///
/// # Errors
/// As [`backward`]; also when an input is unused and `allow_unused` is off.
pub fn grad(
    roots: &[Target],
    inputs: &[Target],
    grads: &[Option<Tensor>],
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    let edges = root_edges(roots)?;
    let grads = root_gradients(roots, grads, options.create_graph)?;
    let wanted = input_edges(inputs)?;
    let found = run(edges, grads, Goal::Return(&wanted), options)?;
    inputs
        .iter()
        .zip(found)
        .enumerate()
        .map(|(i, (t, g))| match (g, t.looks()) {
            (Some(g), _) => Ok(Some(g)),
            (None, Some((shape, dtype, device))) if options.materialize => {
                Tensor::full_on(shape.clone(), 0i64, dtype, device).map(Some)
            }
            (None, _) => {
                ensure!(
                    options.allow_unused,
                    Runtime,
                    "The differentiated Tensor at index {i} appears to not have been used in the graph. Set \
                     allow_unused=True if this is the desired behavior."
                );
                Ok(None)
            }
        })
        .collect()
}
