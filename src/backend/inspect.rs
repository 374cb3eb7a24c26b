//! Predicates on the elements of a tensor, for checks that must not force a synchronization.

use super::{View, of};
use crate::error::Result;

/// The predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Whether any element is zero.
    AnyZero,
    /// Whether any element is non-zero.
    AnyNonzero,
    /// Whether all elements are in [0, 1]; false for NaN.
    AllInUnitInterval,
    /// Whether all elements are finite and non-negative.
    AllWeights,
    /// Whether each row of the given length has a positive element.
    EachRowPositive(usize),
}

/// The value of the predicate, or None if that would require waiting for pending work of the device.
pub fn known(question: Question, x: View) -> Result<Option<bool>> {
    of(x.device())?.known(question, x)
}
