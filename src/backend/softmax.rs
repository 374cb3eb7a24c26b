//! Softmax and log-softmax along n of dense tensors viewed as `[outer, n, inner]`, and the losses based on them.

pub use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::Storage;

/// Which of the two functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Softmax,
    LogSoftmax,
}

/// The dtype of the tensors of [`softmax`] and [`softmax_backward`] for floating point numbers, which are computed in `compute`.
pub fn operand_dtype(x: View, d: ReduceDims, compute: DType) -> Result<DType> {
    let halves = x.dtype.is_half() && d.inner == 1 && d.n <= LONGEST_HALVES;
    Ok(if halves && of(x.device())?.reduces_halves() { x.dtype } else { compute })
}

/// The longest rows of half types that are not cast before.
const LONGEST_HALVES: usize = 1 << 16;

pub fn softmax(kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
    of(same_device([out, x])?)?.softmax(kind, x, d, out)
}

/// The gradient of the input, from the result `y` and its gradient `g`.
pub fn softmax_backward(kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
    of(same_device([out, g, y])?)?.softmax_backward(kind, g, y, d, out)
}

/// The targets of a negative log likelihood: a class (int64) per position, class weights, and the ignored class.
#[derive(Clone, Copy)]
pub struct Targets<'a> {
    pub class: View<'a>,
    pub weight: Option<View<'a>>,
    pub ignore_index: i64,
}

impl<'a> Targets<'a> {
    fn views(&self) -> impl Iterator<Item = View<'a>> {
        std::iter::once(self.class).chain(self.weight)
    }
}

/// The error for a class that is out of bounds.
pub fn out_of_bounds(class: i64) -> Error {
    Error::Index(format!("Target {class} is out of bounds."))
}

/// The total weight of the positions that are not ignored.
pub enum TotalWeight {
    Known(f64),
    /// The dense weight of each position; the caller computes the sum.
    PerPosition(Storage),
}

/// The dtype of the log-probabilities and their gradient in [`nll`] and, with `logits`, [`nll_backward`], where `compute` is that of all else.
pub fn likelihood_dtype(logp: View, d: ReduceDims, compute: DType) -> Result<DType> {
    let halves = logp.dtype.is_half() && d.inner == 1 && !d.is_empty();
    Ok(if halves && of(logp.device())?.takes_halves() { logp.dtype } else { compute })
}

/// The negative log likelihoods of `logp`, viewed as `[n, classes, inner]`; 0 where ignored. A GPU reports an invalid
/// target at the next synchronization.
pub fn nll(logp: View, d: ReduceDims, targets: Targets, losses: View) -> Result<TotalWeight> {
    of(same_device([losses, logp].into_iter().chain(targets.views()))?)?.nll(logp, d, targets, losses)
}

/// The gradient of `logp` in [`nll`], or, with `logits`, of the logits of which `logp` is the log-softmax. `g` holds
/// one value for all losses or one per loss.
pub fn nll_backward(
    g: View,
    logp: View,
    d: ReduceDims,
    targets: Targets,
    logits: bool,
    out: View,
) -> Result<()> {
    of(same_device([out, g, logp].into_iter().chain(targets.views()))?)?
        .nll_backward(g, logp, d, targets, logits, out)
}
