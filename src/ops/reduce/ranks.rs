//! Order statistics composed of sorts and selections, for devices without a kernel for them.

use super::order::Neighbours;
use super::{extremum_along, lanes, pick, sum_mask};
use crate::backend::scan;
use crate::backend::sort::{Interpolation, Statistic};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::creation::arange;
use crate::ops::pointwise::{Arg, PointwiseOp};
use crate::ops::sort::{one_per_row, sort, to_rows};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;

/// The order statistic of each row of `t` along `dim`, and its index.
pub(super) fn choose(t: &Tensor, dim: usize, keepdim: bool, what: Statistic) -> Result<Vec<Tensor>> {
    let (x, n) = to_rows(t, dim)?;
    let x = if x.rank() == 0 { view::view_as(&x, &Dims::from([1]))? } else { x };
    let last = x.rank() - 1;
    let sorted = sort(&x, last as i64, false, "SortBackward0")?;
    let at = match what {
        Statistic::Median { ignore_nan } => median(&sorted[0], n, ignore_nan)?,
        Statistic::Mode => mode(&sorted[0], n)?,
    };
    let keepdim = keepdim && t.rank() > 0;
    let found = |k: usize| one_per_row(&pick(&sorted[k], last, &at)?, dim, keepdim);
    Ok(vec![found(0)?, found(1)?])
}

/// The number of NaN in each row, of shape `[…, 1]`; None if the dtype has no NaN.
fn nans(sorted: &Tensor, dim: usize) -> Result<Option<Tensor>> {
    if !sorted.dtype().is_float() {
        return Ok(None);
    }
    let nan = rows::isnan.call(&[sorted.into()], &[])?;
    sum_mask(&nan, 1 << dim, true, None).map(Some)
}

fn choose_between<'a>(condition: &Tensor, x: impl Into<Arg<'a>>, y: impl Into<Arg<'a>>) -> Result<Tensor> {
    rows::select_where.call(&[condition.into(), x.into(), y.into()], &[])
}

/// The position of the median of each sorted row: the lower median of the numbers, or a NaN unless ignored.
fn median(sorted: &Tensor, n: usize, ignore_nan: bool) -> Result<Tensor> {
    let last = sorted.rank() - 1;
    let middle = n.div_ceil(2) as i64 - 1;
    let Some(nans) = nans(sorted, last)? else {
        let mut shape = sorted.shape().clone();
        shape[last] = 1;
        return Tensor::full_on(shape, middle, DType::I64, sorted.device());
    };
    let numbers = arith::sub(n as i64, &nans)?;
    if ignore_nan {
        let some = rows::clamp_min.call(&[(&numbers).into(), 1i64.into()], &[])?;
        let upper = arith::add(&some, 1i64)?;
        return arith::sub(&rows::floor_divide.call(&[(&upper).into(), 2i64.into()], &[])?, 1i64);
    }
    choose_between(&rows::eq.call(&[(&nans).into(), 0i64.into()], &[])?, middle, &numbers)
}

/// The position of the mode of each sorted row: the last element of the first of the longest runs of equal elements.
fn mode(sorted: &Tensor, n: usize) -> Result<Tensor> {
    let last = sorted.rank() - 1;
    let mut shape = sorted.shape().clone();
    shape[last] = 1;
    let first = Tensor::zeros_on(shape, DType::I64, sorted.device())?;
    if n == 1 {
        return Ok(first);
    }
    let part = |from: i64| view::cut::narrow(sorted, last as i64, from, n as i64 - 1);
    let (x, before) = (part(1)?, part(0)?);
    let mut same = rows::eq.call(&[(&x).into(), (&before).into()], &[])?;
    if sorted.dtype().is_float() {
        let nan = |t: &Tensor| rows::isnan.call(&[t.into()], &[]);
        let both = rows::logical_and.call(&[(&nan(&x)?).into(), (&nan(&before)?).into()], &[])?;
        same = rows::logical_or.call(&[(&same).into(), (&both).into()], &[])?;
    }
    // The start of the run of each element but the first, which gives its position within the run.
    let place = arange(1i64.into(), (n as i64).into(), 1i64.into(), None)?.on_device(sorted.device())?;
    let begins = choose_between(&same, 0i64, &place)?.dense(DType::I64)?;
    let (starts, unused) = (begins.empty_like()?, begins.empty_like()?);
    scan::extremum(begins.raw(), lanes(begins.shape(), last), true, starts.raw(), unused.raw())?;
    let longest = extremum_along(&arith::sub(&place, &starts)?, last as i64, true, true)?;
    let runs = rows::gt.call(&[(&longest[0]).into(), 0i64.into()], &[])?;
    choose_between(&runs, &arith::add(&longest[1], 1i64)?, &first)
}

/// How an interpolation computes the two positions from a rank, and the weight of the upper one if it does not depend
/// on the rank.
fn weight_of(how: Interpolation) -> (&'static PointwiseOp, &'static PointwiseOp, Option<f64>) {
    match how {
        Interpolation::Linear => (&rows::floor, &rows::ceil, None),
        Interpolation::Lower => (&rows::floor, &rows::floor, Some(0.0)),
        Interpolation::Higher => (&rows::ceil, &rows::ceil, Some(0.0)),
        Interpolation::Midpoint => (&rows::floor, &rows::ceil, Some(0.5)),
        Interpolation::Nearest => (&rows::round, &rows::round, Some(0.0)),
    }
}

/// The ranks of the quantiles `q` of a sorted tensor, composed of other operations.
pub(super) fn neighbours(
    sorted: &Tensor,
    dim: usize,
    q: &Tensor,
    ignore_nan: bool,
    how: Interpolation,
) -> Result<Neighbours> {
    let n = sorted.shape()[dim] as i64;
    let dtype = sorted.dtype();
    let mut shape = Dims::from(&vec![1; sorted.rank()][..]);
    shape[dim] = q.numel();
    let q = view::reshape_to(&q.detach(), &shape)?;
    let numbers = match nans(sorted, dim)? {
        Some(nans) => arith::sub(n, &nans)?,
        None => sorted.new_full([1usize; 0], n)?,
    };
    let complete = rows::eq.call(&[(&numbers).into(), n.into()], &[])?;
    let counts = if ignore_nan {
        let some = rows::gt.call(&[(&numbers).into(), 0i64.into()], &[])?;
        rows::logical_or.call(&[(&complete).into(), (&some).into()], &[])?
    } else {
        complete
    };
    let fewer = arith::sub(&numbers, 1i64)?;
    let steps = rows::clamp_min.call(&[(&fewer).into(), 0i64.into()], &[])?.dense(dtype)?;
    // If there is a NaN, it is the quantile, and it is sorted last.
    let rank = choose_between(&counts, &arith::mul(&q, &steps)?, (n - 1) as f64)?;
    let rounded = |row: &'static crate::ops::pointwise::PointwiseOp| row.call(&[(&rank).into()], &[]);
    let (from, to, share) = weight_of(how);
    let (from, to) = (rounded(from)?, rounded(to)?);
    let weight = match share {
        Some(share) => from.new_full(from.shape().clone(), share)?,
        None => arith::sub(&rank, &from)?,
    };
    let scale = view::expand_to(&steps, weight.shape())?;
    Ok(Neighbours { lower: from.dense(DType::I64)?, upper: to.dense(DType::I64)?, weight, scale })
}
