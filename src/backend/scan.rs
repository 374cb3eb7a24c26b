//! Cumulative sums, products and extrema along n of dense tensors viewed as `[outer, n, inner]`.

pub use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::error::Result;

/// The kind of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    Sum,
    Product,
    /// The logarithm of the sum of exponentials, floating point only.
    LogSumExp,
}

/// Scans along n, from the end with `reverse`. `x` and `out` have one floating point type, or `out` is int64 and `x`
/// has any type returned by `DType::wide`.
pub fn scan(what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()> {
    of(same_device([x, out])?)?.scan(what, x, d, reverse, out)
}

/// The cumulative maximum (`largest`) or minimum, for a type that the device compares, and the index of its latest
/// occurrence. Propagates NaN.
pub fn extremum(x: View, d: ReduceDims, largest: bool, values: View, indices: View) -> Result<()> {
    of(same_device([x, values, indices])?)?.scan_extremum(x, d, largest, values, indices)
}
