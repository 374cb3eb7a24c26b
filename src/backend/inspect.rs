//! Questions about the elements of a tensor whose answer the host would have to wait for elsewhere.

use super::{View, of};
use crate::error::Result;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Whether some element equals zero.
    AnyZero,
    /// Whether some element differs from zero.
    AnyNonzero,
    /// Whether all elements lie in [0, 1]; NaN does not.
    AllInUnitInterval,
    /// Whether all elements are finite and not negative.
    AllWeights,
    /// Whether each row of so many elements has a positive one.
    EachRowPositive(usize),
}

/// The answer, where it is there without waiting for what the device still has to do; else None.
pub fn known(question: Question, x: View) -> Result<Option<bool>> {
    of(x.device())?.known(question, x)
}
