//! Reductions over n of dense tensors viewed as `[outer, n, inner]`.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// A contiguous array viewed as `[outer, n, inner]`; kernels work along the middle dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceDims {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

impl ReduceDims {
    pub const fn new(outer: usize, n: usize, inner: usize) -> Self {
        ReduceDims { outer, n, inner }
    }

    /// The last dimension of `[rows, n]`.
    pub const fn rows(rows: usize, n: usize) -> Self {
        ReduceDims { outer: rows, n, inner: 1 }
    }

    /// The number of elements of the array.
    pub const fn len(self) -> usize {
        self.outer * self.n * self.inner
    }

    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number of elements of the reduced array.
    pub const fn lanes(self) -> usize {
        self.outer * self.inner
    }
}

/// The kind of a reduction. Floating point is reduced in its own type. Integers are summed and multiplied in int64,
/// and so are bools. `All` and `Any` take bool input only.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReduceOp {
    Sum,
    Product,
    /// 1 if every element is non-zero or NaN, stored as a byte.
    All,
    /// 1 if any element is non-zero or NaN.
    Any,
    Max,
    Min,
    /// The p-norm.
    Norm(f64),
    /// The logarithm of the sum of exponentials.
    LogSumExp,
}

/// The dtype in which the device of `x` computes extrema, including cumulative ones.
pub fn extremum_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.extremum_dtype(x.dtype))
}

/// The dtype of the operand of [`ReduceOp::All`] and [`ReduceOp::Any`] on the device of `x`.
pub fn truth_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.truth_dtype(x.dtype))
}

/// The dtype in which PyTorch accumulates on the device of `x`.
pub fn accumulate_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.accumulate_dtype(x.dtype))
}

/// Reduces `x` to `out`; both are dense.
pub fn fold(op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> {
    of(same_device([out, x])?)?.reduce(op, x, d, out)
}

/// The p-norm (positive p) over all elements of several dense tensors.
///
/// # Errors
/// On a GPU, if the result is not float32.
pub fn norm_of_all(order: f64, tensors: &[View], out: View) -> Result<()> {
    of(same_device(tensors.iter().copied().chain([out]))?)?.norm_of_all(order, tensors, out)
}

/// The extrema along n and the index of the first occurrence of each. If n is 0, nothing is written.
pub fn extremum(largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()> {
    of(same_device([values, indices, x])?)?.extremum(largest, x, d, values, indices)
}

/// The mean along n and the sum of squared deviations.
pub fn moments(x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> {
    of(same_device([mean, squares, x])?)?.moments(x, d, mean, squares)
}
