//! Reductions: their dimensions, and sums and means. The other reductions are in submodules.

mod extremum;
mod moments;
mod norms;
mod order;
mod products;
mod ranks;
mod select;
mod table;

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use super::interpreter;
use super::pointwise::{Applied, Rule, fold};
use super::schema::{Args, Out};
use super::{arith, rows, view};
use crate::backend::reduce::{self as kernels, ReduceDims, ReduceOp};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat, wrap_dim};
use crate::tensor::Tensor;
use crate::{bail, ensure};

pub use crate::ops::linalg::vector_norm;
pub use extremum::{argument_extremum, extremum_along};
pub use moments::{mean_and_var, std_mask, var_mask};
pub(super) use norms::{linalg_matrix_norm, linalg_norm, vector_norm_impl};
use select::pick;
pub use select::{Chosen, lanes, place};
use table::sum_over_some;
pub use table::{
    OPS, all, amax, amin, any, logsumexp, mean_all, mean_mask, norm_except_dim, prod, prod_all, sum_all,
};

/// The mask of every dimension.
pub fn all_dims(rank: usize) -> u64 {
    if rank >= 64 { u64::MAX } else { (1 << rank) - 1 }
}

/// The dimensions `dim` as a mask; all if it is None or empty.
pub fn dim_mask(dims: Option<&[i64]>, rank: usize) -> Result<u64> {
    crate::ensure!(rank <= 64, Runtime, "only tensors with up to 64 dims are supported");
    let all = all_dims(rank);
    let Some(dims) = dims.filter(|d| !d.is_empty()) else { return Ok(all) };
    let mut mask = 0;
    for &d in dims {
        let bit = 1 << wrap_dim(d, rank)?;
        if mask & bit != 0 {
            bail!(Runtime, "dim {} appears multiple times in the list of dims", wrap_dim(d, rank)?);
        }
        mask |= bit;
    }
    Ok(mask & all)
}

/// The shape after reducing the dimensions of `mask`.
pub fn reduced_shape(shape: &Dims, mask: u64, keepdim: bool) -> Dims {
    shape
        .iter()
        .enumerate()
        .filter_map(|(d, &n)| match (mask >> d & 1 == 1, keepdim) {
            (false, _) => Some(n),
            (true, true) => Some(1),
            (true, false) => None,
        })
        .collect()
}

/// The topmost group of adjacent dimensions of `mask`.
pub fn last_run(mask: u64) -> u64 {
    if mask == 0 {
        return 0;
    }
    let above = u64::BITS - mask.leading_zeros();
    let length = (mask << mask.leading_zeros()).leading_ones();
    (u64::MAX >> (u64::BITS - length)) << (above - length)
}

/// The elements of `t`, dense, as `[outer, n, inner]` where n are the dimensions of `mask`. If these are not adjacent
/// they are moved to the end.
pub fn along(t: Cow<'_, Tensor>, mask: u64) -> Result<(Cow<'_, Tensor>, ReduceDims)> {
    let (shape, rank) = (t.shape(), t.rank());
    let mask = mask & all_dims(rank);
    if last_run(mask) == mask {
        let first = if mask == 0 { rank } else { mask.trailing_zeros() as usize };
        let last = first + mask.count_ones() as usize;
        let d = ReduceDims::of(shape, first..last);
        let dense = if t.is_contiguous() { t } else { Cow::Owned(t.copied(t.dtype())?) };
        return Ok((dense, d));
    }
    let inside = |d: &usize| mask >> d & 1 == 1;
    let order: Vec<usize> = (0..rank).filter(|d| !inside(d)).chain((0..rank).filter(inside)).collect();
    let moved = t.with_layout(t.layout().permute(&order)).copied(t.dtype())?;
    let n = reduced_count(&t, mask);
    Ok((Cow::Owned(moved), ReduceDims::rows((0..rank).filter(|d| !inside(d)).map(|d| shape[d]).product(), n)))
}

/// As [`along`], in `dtype`, for reductions that may process elements in any order: the elements are taken in memory
/// order if the results keep their order.
pub fn along_memory(t: &Tensor, mask: u64, dtype: DType) -> Result<(Cow<'_, Tensor>, ReduceDims)> {
    if !t.is_contiguous()
        && let Some(order) = t.layout().memory_order()
        && order.iter().filter(|&&d| mask >> d & 1 == 0).is_sorted()
    {
        let turned = (0..).zip(&order).map(|(to, d)| (mask >> d & 1) << to).sum();
        return along(Cow::Owned(t.with_layout(t.layout().permute(&order)).into_dense(dtype)?), turned);
    }
    along(t.as_dense(dtype)?, mask)
}

/// The compute type of a floating point kernel with results of `dtype`.
pub fn compute_float(dtype: DType) -> DType {
    if dtype.is_half() { DType::F32 } else { dtype }
}

/// Reduces floating point numbers over the dimensions of a mask, in `dtype`, without history.
#[inline]
fn folded(f: ReduceOp, t: &Tensor, mask: u64, keepdim: bool, dtype: DType) -> Result<Tensor> {
    let compute = compute_float(dtype);
    let (x, d) = along_memory(t, mask, kernels::operand_dtype(f, t.raw(), compute)?)?;
    let out = Tensor::empty_on(reduced_shape(t.shape(), mask, keepdim), compute, t.device())?;
    kernels::fold(f, x.raw(), d, out.raw())?;
    out.into_dense(dtype)
}

/// As `folded`, for sums and products of integers, which are computed in int64 with wraparound.
///
/// Elements are cast before they are added, as in PyTorch; the sum of integers is then the same in int64.
fn folded_integers(f: ReduceOp, t: &Tensor, mask: u64, keepdim: bool, result: DType) -> Result<Tensor> {
    let converts = t.dtype().is_float() || result == DType::Bool;
    let x = if converts { t.dense(result)? } else { t.clone() };
    let (x, d) = along_memory(&x, mask, kernels::integer_dtype(f, x.raw())?)?;
    let out = Tensor::empty_on(reduced_shape(t.shape(), mask, keepdim), DType::I64, t.device())?;
    kernels::fold(f, x.raw(), d, out.raw())?;
    out.into_dense(result)
}

/// The number of elements reduced into each result.
pub fn reduced_count(t: &Tensor, mask: u64) -> usize {
    t.shape().iter().enumerate().filter(|(d, _)| mask >> d & 1 == 1).map(|(_, n)| n).product()
}

/// A reduced tensor with its reduced dimensions restored with size 1.
pub fn restored(t: &Tensor, shape: &Dims, mask: u64) -> Result<Tensor> {
    let kept = reduced_shape(shape, mask, true);
    if *t.shape() == kept { Ok(t.clone()) } else { view::view_as(t, &kept) }
}

/// Expands a reduced gradient over the reduced dimensions.
pub fn expand_reduced(g: &Tensor, shape: &Dims, mask: u64) -> Result<Tensor> {
    if g.rank() == 0 { view::expand_to(g, shape) } else { view::expand_to(&restored(g, shape, mask)?, shape) }
}

/// The dtype of a sum or product; an error for limited ones, in which nothing is accumulated.
pub fn expect_accumulated(op: &'static str, result: DType) -> Result<DType> {
    ensure!(!result.is_limited(), Error::DtypeNotImplemented { op, dtype: result });
    Ok(result)
}

fn dtype_of_sum(t: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if t.dtype().is_float() { t.dtype() } else { DType::I64 })
}

/// `t` with each element once that is repeated in dimensions of `mask`, as `expand` does and the gradients of sums are, and the number of
/// times; `None` if no element is.
fn without_repeats(t: &Tensor, mask: u64) -> Option<(Tensor, usize)> {
    let repeats =
        |layout: &Layout, d: usize| mask >> d & 1 == 1 && layout.strides[d] == 0 && layout.shape[d] > 1;
    let layout = t.layout();
    (0..t.rank()).any(|d| repeats(layout, d)).then(|| {
        let (mut once, mut times) = (layout.clone(), 1);
        for d in (0..t.rank()).filter(|&d| repeats(layout, d)) {
            times *= std::mem::replace(&mut once.shape[d], 1);
        }
        (t.with_layout(once), times)
    })
}

/// Sum over the dimensions of `mask`, in `dtype`, without history.
fn raw_sum(t: &Tensor, mask: u64, keepdim: bool, result: DType) -> Result<Tensor> {
    let mask = mask & all_dims(t.rank());
    expect_accumulated("sum_cpu", result)?;
    if !t.is_contiguous()
        && let Some((once, times)) = without_repeats(t, mask)
    {
        // Elements are cast before they are added, also to bool, of which repetitions change no sum.
        let exact = if result.is_float() { compute_float(result) } else { result };
        let sum = raw_sum(&once, mask, keepdim, exact)?;
        if result == DType::Bool {
            return Ok(sum);
        }
        let sum = sum.into_dense(if result.is_float() { exact } else { DType::I64 })?;
        rows::mul.call_inplace(&[(&sum).into(), (times as i64).into()], &[])?;
        return sum.into_dense(result);
    }
    if result.is_float() {
        // Non-adjacent dimensions are summed one run after another, which is cheaper than moving the elements.
        let last = last_run(mask);
        if last != mask {
            let partial = raw_sum(t, last, true, compute_float(result))?;
            let sum = raw_sum(&partial, mask & !last, true, result)?;
            return Ok(sum.with_layout(Layout::contiguous(reduced_shape(t.shape(), mask, keepdim))));
        }
        return folded(ReduceOp::Sum, t, mask, keepdim, result);
    }
    folded_integers(ReduceOp::Sum, t, mask, keepdim, result)
}

/// Sum over the dimensions of `mask`, in `dtype`.
fn sum_mask_impl(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    sum_named("SumBackward1", t, mask, keepdim, dtype)
}

/// Sum over the dimensions of `mask`, in `dtype`.
#[inline]
pub fn sum_mask(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    // No dimensions are a list that would name all of them.
    if mask & all_dims(t.rank()) == 0 {
        if interpreter::active()
            && let Some(batch) = t.batch()
        {
            let value = sum_mask_impl(batch.value(), 0, keepdim, dtype)?;
            return Tensor::batched_over(value, batch.levels().into());
        }
        sum_mask_impl(t, mask, keepdim, dtype)
    } else {
        sum_over_some(t, mask, keepdim, dtype)
    }
}

/// The dimensions of a mask, as a call names them.
fn dims_of(t: &Tensor, mask: u64) -> SmallVec<[i64; 6]> {
    (0..t.rank() as i64).filter(|d| mask >> d & 1 == 1).collect()
}

fn sum_named(
    node: &'static str,
    t: &Tensor,
    mask: u64,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let out = raw_sum(t, mask, keepdim, dtype_of_sum(t, dtype))?;
    record(out, &[t], |_| SumBackward { node, shape: t.shape().clone(), mask })
}

/// Sum of all elements.
fn sum_all_impl(t: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    sum_named("SumBackward0", t, dim_mask(None, t.rank())?, false, dtype)
}

/// Sums a tensor to a size that broadcasts to its own.
fn sum_to_size(a: &Args) -> Result<Out> {
    let (t, size) = (a.tensor(0)?, a.ints(1)?);
    let fits = size.len() <= t.rank()
        && size.iter().rev().zip(t.shape().iter().rev()).all(|(&n, &of)| n == 1 || n == of as i64);
    ensure!(
        fits,
        Runtime,
        "size {{{size:?}}} is not expandable to size {{{:?}}}.",
        t.shape().iter().collect::<Vec<_>>()
    );
    let shape: Dims = size.iter().map(|&n| n as usize).collect();
    if shape.is_empty() {
        return Ok(sum_all(t, None)?.into());
    }
    if shape == *t.shape() {
        return Ok(t.clone().into());
    }
    let out = sum_over(t, &shape, None)?;
    Ok(if shape.len() == t.rank() { out } else { view::view_as(&out, &shape)? }.into())
}

/// The sum, with all dimensions kept, over those that `shape` lacks or has with size 1.
fn sum_over(t: &Tensor, shape: &Dims, dtype: Option<DType>) -> Result<Tensor> {
    let lead = t.rank() - shape.len();
    let broadcast = |d: &usize| *d < lead || (shape[d - lead] == 1 && t.shape()[*d] != 1);
    let mask = (0..t.rank()).filter(broadcast).fold(0, |mask, d| mask | 1 << d);
    sum_mask(t, mask, true, dtype)
}

/// Sums `g` to `shape`, which broadcasts to the shape of `g`: undoes a broadcast.
pub fn sum_to(g: &Tensor, shape: &Dims) -> Result<Tensor> {
    if g.shape() == shape {
        return Ok(g.clone());
    }
    let summed = sum_over(g, shape, Some(g.dtype()))?;
    view::view_as(&summed, shape)
}

struct SumBackward {
    node: &'static str,
    shape: Dims,
    mask: u64,
}

impl Function for SumBackward {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(expand_reduced(g, &self.shape, self.mask)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
        if self.node == "SumBackward1" {
            show_reduced(self.mask, visit);
        }
    }
}

/// Shows the reduced dimensions and `keepdim` of a reduction.
fn show_reduced(mask: u64, visit: &mut Visit<'_>) {
    visit("dim", Attribute::Dims(mask));
    visit("keepdim", Attribute::KeepsDim);
}

fn sum_whole(a: &Args) -> Result<Out> {
    let (t, dtype) = (a.tensor(0)?, a.opt_dtype(1)?);
    check_sum(t, dtype)?;
    Ok(sum_all_impl(t, dtype)?.into())
}

fn sum(a: &Args) -> Result<Out> {
    let (t, dtype) = (a.tensor(0)?, a.opt_dtype(3)?);
    check_sum(t, dtype)?;
    Ok(sum_mask_impl(t, dim_mask(a.opt_ints(1)?, t.rank())?, a.bool(2)?, dtype)?.into())
}

fn check_sum(t: &Tensor, dtype: Option<DType>) -> Result<()> {
    ensure!(
        !t.requires_grad() || dtype.is_none_or(DType::is_float),
        Runtime,
        "Autograd not support dtype: {}",
        dtype_of_sum(t, dtype).scalar_name()
    );
    Ok(())
}

/// Mean over the dimensions of `mask`.
fn mean_mask_impl(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    mean_named("MeanBackward1", t, mask, keepdim, dtype, MemoryFormat::Contiguous)
}

/// Averages over planes, which preserve a channels-last format.
pub fn mean_of_planes(t: &Tensor, mask: u64) -> Result<Tensor> {
    mean_named("MeanBackward1", t, mask, true, None, t.layout().suggested_format())
}

/// Mean of all elements.
fn mean_all_impl(t: &Tensor) -> Result<Tensor> {
    mean_named("MeanBackward0", t, dim_mask(None, t.rank())?, false, None, MemoryFormat::Contiguous)
}

fn dtype_of_mean(t: &Tensor, dtype: Option<DType>) -> Result<DType> {
    let result = dtype.unwrap_or(t.dtype());
    ensure!(
        result.is_float(),
        NotImplemented,
        "mean(): could not infer output dtype. {} dtype must be either a floating point or complex dtype. Got: {}",
        if dtype.is_some() { "Optional" } else { "Input" },
        result.scalar_name()
    );
    Ok(result)
}

fn mean_named(
    node: &'static str,
    t: &Tensor,
    mask: u64,
    keepdim: bool,
    dtype: Option<DType>,
    format: MemoryFormat,
) -> Result<Tensor> {
    let result = dtype_of_mean(t, dtype)?;
    let n = reduced_count(t, mask) as f64;
    let compute = compute_float(result);
    let out = raw_sum(t, mask, keepdim, compute)?;
    rows::div.call_inplace(&[(&out).into(), n.into()], &[])?;
    let out = out.into_dense(result)?.laid_as(format)?;
    record(out, &[t], |_| MeanBackward { node, shape: t.shape().clone(), mask, n })
}

struct MeanBackward {
    node: &'static str,
    shape: Dims,
    mask: u64,
    n: f64,
}

impl Function for MeanBackward {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(expand_reduced(&arith::div(g, self.n)?, &self.shape, self.mask)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
        visit("self_sym_numel", Attribute::InputCount);
        if self.node == "MeanBackward1" {
            show_reduced(self.mask, visit);
        }
    }
}

fn mean_whole(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let all = all_dims(t.rank());
    Ok(mean_named("MeanBackward0", t, all, false, a.opt_dtype(1)?, MemoryFormat::Contiguous)?.into())
}

fn mean(a: &Args) -> Result<Out> {
    let (t, dtype) = (a.tensor(0)?, a.opt_dtype(3)?);
    // Checked before the dimensions, as in PyTorch.
    dtype_of_mean(t, dtype)?;
    Ok(mean_mask_impl(t, dim_mask(a.opt_ints(1)?, t.rank())?, a.bool(2)?, dtype)?.into())
}

fn isnan(t: &Tensor) -> Result<Tensor> {
    rows::isnan.call(&[t.into()], &[])
}

fn nansum(a: &Args) -> Result<Out> {
    let (t, keepdim, dtype) = (a.tensor(0)?, a.bool(2)?, a.opt_dtype(3)?);
    let mask = dim_mask(a.opt_ints(1)?, t.rank())?;
    if !t.dtype().is_float() {
        return Ok(sum_mask(t, mask, keepdim, dtype)?.into());
    }
    let (wide, x) = (dtype_of_sum(t, dtype), t.detach());
    let out = if matches!(t.dtype(), DType::F32 | DType::F64) && wide == t.dtype() && last_run(mask) == mask {
        let (args, params) = ([(&x).into()], [0.0, f64::INFINITY, f64::NEG_INFINITY].map(Scalar::Float));
        let numbers = Applied::new(Rule::Row(&rows::nan_to_num), &args, &params);
        fold(ReduceOp::Sum, numbers, wide, mask, keepdim, None)?
    } else {
        let numbers = rows::select_where.call(&[(&isnan(t)?).into(), 0i64.into(), (&x).into()], &[])?;
        raw_sum(&numbers, mask, keepdim, wide)?
    };
    Ok(record(out, &[t], |_| NansumBackward { input: SavedTensor::input(t), mask })?.into())
}

struct NansumBackward {
    input: SavedTensor,
    mask: u64,
}

impl Function for NansumBackward {
    fn name(&self) -> &'static str {
        "NansumBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let x = self.input.get(cx)?;
        let g = restored(g, x.shape(), self.mask)?;
        Ok(smallvec![Some(rows::select_where.call(&[(&isnan(&x)?).into(), 0i64.into(), (&g).into()], &[])?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        show_reduced(self.mask, visit);
    }
}

fn nanmean(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    ensure!(
        t.dtype().is_float(),
        NotImplemented,
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        t.dtype().scalar_name()
    );
    if let Some(dtype) = a.opt_dtype(3)?.filter(|d| !d.is_float()) {
        bail!(
            Runtime,
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {}",
            dtype.scalar_name()
        );
    }
    let mask = dim_mask(a.opt_ints(1)?, t.rank())?;
    let numbers = rows::logical_not.call(&[(&isnan(t)?).into()], &[])?;
    let count = sum_mask(&numbers, mask, a.bool(2)?, None)?;
    Ok(arith::div(&nansum(a)?.tensor()?, &count)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_of_a_mask_ends_at_its_first_gap() {
        assert_eq!(last_run(0), 0);
        assert_eq!(last_run(0b1011), 0b1000);
        assert_eq!(last_run(0b0110), 0b0110);
        assert_eq!(last_run(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_sum_over_dimensions_with_one_between_is_that_of_the_moved_elements() -> Result<()> {
        let t = Tensor::from_slice(&(0..24).map(|i| i as f32).collect::<Vec<_>>(), [2, 3, 4])?;
        let sum = sum_mask(&t, 0b101, false, None)?;
        assert_eq!((sum.to_vec::<f32>(), &sum.shape()[..]), (vec![60.0, 92.0, 124.0], &[3][..]));
        Ok(())
    }

    #[test]
    fn a_mean_of_integers_is_refused_in_pytorchs_words() -> Result<()> {
        let error = mean_mask(&Tensor::ones([2], DType::I64)?, 1, false, None).unwrap_err();
        assert!(error.to_string().ends_with("floating point or complex dtype. Got: Long"), "{error}");
        Ok(())
    }

    #[test]
    fn a_half_is_no_zero() -> Result<()> {
        use crate::backend::inspect::{Question, known};
        let any_zero = |t: &Tensor| known(Question::AnyZero, t.raw());
        assert_eq!(any_zero(&Tensor::full([3], 0.5, DType::F32)?)?, Some(false));
        assert_eq!(any_zero(&Tensor::from_slice(&[1.0, -0.0], [2])?)?, Some(true));
        Ok(())
    }
}
