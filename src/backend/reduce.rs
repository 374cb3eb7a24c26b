//! Reductions over n of dense tensors viewed as `[outer, n, inner]`.

use std::ops::Range;

use smallvec::SmallVec;

use super::pointwise::{Applied, Operand, Program};
use super::{Backend, View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;
use crate::formula::ARGS;
use crate::layout::{Dims, Layout};

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

    /// Some adjacent dimensions of a shape.
    pub fn of(shape: &[usize], dims: Range<usize>) -> Self {
        let product = |r: Range<usize>| shape[r].iter().product();
        ReduceDims::new(product(0..dims.start), product(dims.clone()), product(dims.end..shape.len()))
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

impl ReduceOp {
    /// The words that identify a reduction.
    pub fn words(self) -> [u64; 2] {
        match self {
            ReduceOp::Sum => [0, 0],
            ReduceOp::Product => [1, 0],
            ReduceOp::All => [2, 0],
            ReduceOp::Any => [3, 0],
            ReduceOp::Max => [4, 0],
            ReduceOp::Min => [5, 0],
            ReduceOp::Norm(p) => [6, p.to_bits()],
            ReduceOp::LogSumExp => [7, 0],
        }
    }
}

/// The dtype in which the device of `x` computes extrema, including cumulative ones.
pub fn extremum_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.extremum_dtype(x.dtype))
}

/// The dtype of the operand of [`ReduceOp::All`] and [`ReduceOp::Any`] on the device of `x`.
pub fn truth_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.truth_dtype(x.dtype))
}

/// The dtype of the operand of [`fold`] for the sum, product or extrema of `x`, which is not floating point.
pub fn integer_dtype(op: ReduceOp, x: View) -> Result<DType> {
    Ok(of(x.device())?.integer_dtype(op, x.dtype))
}

/// The dtype of the extrema of integers of a dtype.
pub const fn extremum_of_integers(dtype: DType) -> DType {
    if matches!(dtype, DType::I64) { DType::I64 } else { DType::I32 }
}

/// The dtype in which PyTorch accumulates on the device of `x`.
pub fn accumulate_dtype(x: View) -> Result<DType> {
    Ok(of(x.device())?.accumulate_dtype(x.dtype))
}

/// The dtype of the operand of [`fold`] for floating point numbers that are reduced in `compute`.
pub fn operand_dtype(op: ReduceOp, x: View, compute: DType) -> Result<DType> {
    let halves = x.dtype.is_half() && compute == DType::F32 && !matches!(op, ReduceOp::Max | ReduceOp::Min);
    let halves = halves && of(x.device())?.reduces_halves();
    Ok(if halves { x.dtype } else { compute })
}

/// Reduces `x` to `out`; both are dense.
#[inline]
pub fn fold(op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> {
    of(same_device([out, x])?)?.reduce(op, x, d, out)
}

/// A reduction whose elements are computed by a formula, optionally followed by a formula of the results.
///
/// Note [Reduced formulas]
/// A reduction of a formula would usually store the formula's elements in memory and read them again. Instead, the
/// reduction kernel computes a block of elements when it needs it, and applies the formula of the results while they
/// are in the cache or in registers. The order of all operations is unchanged, so the results are bit-identical to
/// those of evaluating the formula into memory, reducing, and evaluating the second formula, which is what [`in_turn`]
/// does.
#[derive(Clone, Copy)]
pub struct Fold<'a> {
    pub op: ReduceOp,
    /// The dtype in which the formulas compute.
    pub compute: DType,
    /// The shape to which the operands of `of` are expanded; its elements in row-major order are viewed as `dims`.
    pub shape: &'a Dims,
    pub dims: ReduceDims,
    /// The formula of the elements. Integers and bools are reduced as described at [`ReduceOp`].
    pub of: Applied<'a>,
    /// The formula of the results. Its first operand is replaced by the reduced values and may be any number; the
    /// others have the shape of the result.
    pub then: Option<Applied<'a>>,
}

impl Fold<'_> {
    /// Whether the elements are bools.
    fn is_of_truth(&self) -> bool {
        self.of.formula.is_truth(0)
    }

    /// The dtype that the elements would have in memory.
    fn stored(&self) -> DType {
        match self.op {
            ReduceOp::All | ReduceOp::Any => DType::Bool,
            ReduceOp::Sum if self.is_of_truth() => DType::Bool,
            _ if self.compute.is_float() => self.compute,
            _ => DType::I64,
        }
    }

    /// The dtype of the reduced values, and of the result if `then` is None.
    pub fn reduced(&self) -> DType {
        match self.op {
            ReduceOp::All | ReduceOp::Any => DType::U8,
            ReduceOp::Sum if self.is_of_truth() => DType::I64,
            _ => self.stored(),
        }
    }
}

/// Reduces a formula of any number of operands to `out`, which is dense and of dtype [`Fold::reduced`].
///
/// # Errors
/// If a step is not defined for the compute dtype.
pub fn fold_formula(fold: &Fold, out: View) -> Result<()> {
    for a in [Some(&fold.of), fold.then.as_ref()].into_iter().flatten() {
        a.views().try_for_each(|v| same_device([out, v]).map(drop))?;
    }
    of(out.device())?.reduce_formula(fold, out)
}

/// Whether fusing the formula into a reduction of `n` elements is faster on the device of `x` than storing its elements.
pub fn is_worth_folding(x: View, n: usize) -> bool {
    of(x.device()).is_ok_and(|backend| n >= backend.folds_from())
}

/// [`fold_formula`] with the elements stored in memory: see Note [Reduced formulas].
pub(super) fn in_turn<B: Backend + ?Sized>(backend: &B, fold: &Fold, out: View) -> Result<()> {
    let (dtype, layout) = (fold.stored(), Layout::contiguous(fold.shape.clone()));
    let values = backend.allocate(out.device(), fold.dims.len() * dtype.size())?;
    let values = View { storage: &values, layout: &layout, dtype };
    evaluate(backend, &fold.of, fold.compute, fold.of.operands, values)?;
    backend.reduce(fold.op, values, fold.dims, out)?;
    let Some(then) = &fold.then else { return Ok(()) };
    let mut operands: SmallVec<[Operand; ARGS]> = SmallVec::from_slice(then.operands);
    operands.iter_mut().take(1).for_each(|first| *first = Operand::View(out));
    evaluate(backend, then, fold.compute, &operands, out)
}

fn evaluate<B: Backend + ?Sized>(
    backend: &B,
    a: &Applied,
    compute: DType,
    operands: &[Operand],
    out: View,
) -> Result<()> {
    let formula = || a.formula;
    let program = Program { name: a.name, kernel: a.kernel, formula: &formula };
    if a.kernel.computes(compute) && backend.pointwise(&program, compute, operands, a.params, out)? {
        return Ok(());
    }
    backend.pointwise_all(a.name, a.formula, a.primitives, compute, operands, a.params, &[out])
}

/// The norm of a positive order of all elements of dense tensors, into one element.
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
