//! Running sums, products and extrema along n of dense tensors seen as `[outer, n, inner]`.

pub use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::error::Result;

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    Sum,
    Product,
    /// The logarithm of the sum of exponentials, of floats.
    LogSumExp,
}

/// The running operation, from the end with `reverse`. `x` and `out` are of one float type, or `out` is int64 and `x`
/// of any `wide` type.
pub fn scan(what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()> {
    of(same_device([x, out])?)?.scan(what, x, d, reverse, out)
}

/// The running maximum (`largest`) or minimum of a type that the device compares, with the index of its last occurrence so far. A NaN,
/// once met, stays.
pub fn extremum(x: View, d: ReduceDims, largest: bool, values: View, indices: View) -> Result<()> {
    of(same_device([x, values, indices])?)?.scan_extremum(x, d, largest, values, indices)
}
