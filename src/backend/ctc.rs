//! Connectionist temporal classification: losses of label sequences without alignment.

use super::{View, of, same_device};
use crate::error::Result;

/// Label sequences for samples of log-probabilities.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// For each sample the number of steps, and the position of its first label and the number of them.
    pub steps: Vec<usize>,
    pub starts: Vec<usize>,
    pub lengths: Vec<usize>,
    pub blank: usize,
    pub classes: usize,
}

impl Sequences {
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// The most states that a sample has: its labels, and a blank before, between and after them.
    pub fn width(&self) -> usize {
        2 * self.lengths.iter().max().map_or(0, |n| *n) + 1
    }
}

/// The loss of each sample of dense `[steps, samples, classes]`, and the logarithms of the probabilities of all prefixes, `[samples,
/// steps, width]`. The dense int64 labels are classes. False if there is no kernel for it.
pub fn losses(s: &Sequences, log_probs: View, labels: View, losses: View, alpha: View) -> Result<bool> {
    of(same_device([log_probs, losses, alpha])?)?.ctc(s, log_probs, labels, losses, alpha)
}

/// The gradient of the log-probabilities. With `zero_infinity` that of a sample whose labels are impossible is 0. False if
/// there is no kernel for it.
pub fn backward(
    s: &Sequences,
    grad: View,
    [log_probs, labels, losses, alpha]: [View; 4],
    zero_infinity: bool,
    out: View,
) -> Result<bool> {
    let device = same_device([grad, log_probs, losses, alpha, out])?;
    of(device)?.ctc_backward(s, grad, [log_probs, labels, losses, alpha], zero_infinity, out)
}
