//! Reductions of dense tensors, seen as `[outer, n, inner]`, over n.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// A contiguous array seen as `[outer, n, inner]`; kernels work along the middle dimension.
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

    /// Elements of the array.
    pub const fn len(self) -> usize {
        self.outer * self.n * self.inner
    }

    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Elements of the result of a reduction.
    pub const fn lanes(self) -> usize {
        self.outer * self.inner
    }
}

/// What a reduction computes. Floats are reduced in their type; integers to int64 where they are added or multiplied, and
/// bools where they are added; truth is asked of bools.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReduceOp {
    Sum,
    Product,
    /// 1 where every element differs from zero, in bytes; NaN does.
    All,
    /// 1 where some element does.
    Any,
    Max,
    Min,
    /// The norm of an order.
    Norm(f64),
    /// The logarithm of the sum of exponentials.
    LogSumExp,
}

/// The dtype in which the device of `x` finds extrema, running ones too.
pub fn extremum_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.extremum_dtype(x.dtype))
}

/// The dtype in which the device of `x` takes the operand of [`ReduceOp::All`] and [`ReduceOp::Any`].
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

/// The norm of a positive order of all elements of dense tensors, into one element.
///
/// # Errors
/// On a device other than the host, where the result is not float32.
pub fn norm_of_all(order: f64, tensors: &[View], out: View) -> Result<()> {
    of(same_device(tensors.iter().copied().chain([out]))?)?.norm_of_all(order, tensors, out)
}

/// The extrema along n and the index of the first occurrence of each. Without elements nothing is written.
pub fn extremum(largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()> {
    of(same_device([values, indices, x])?)?.extremum(largest, x, d, values, indices)
}

/// The mean along n and the sum of the squares of what differs from it.
pub fn moments(x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> {
    of(same_device([mean, squares, x])?)?.moments(x, d, mean, squares)
}
