//! Maximum and minimum, with indices.

use smallvec::smallvec;

use super::table::{max_along, min_along};
use super::{
    Chosen, along, along_memory, dim_mask, folded, reduced_count, reduced_shape, restored, sum_mask,
};
use crate::backend::defer;
use crate::backend::reduce::{self as kernels, ReduceOp};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, SavedTensor, Visit, record, record_all};
use crate::layout::wrap_dim;
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, rows};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// Errors if a reduction without identity has no elements.
fn expect_elements(op: &str, t: &Tensor, dims: Option<&[i64]>) -> Result<()> {
    let Some(dims) = dims.filter(|d| !d.is_empty()) else {
        ensure!(
            t.numel() > 0,
            Runtime,
            "{op}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the \
             'dim' argument."
        );
        return Ok(());
    };
    for &d in dims {
        let d = wrap_dim(d, t.rank())?;
        ensure!(
            t.shape().get(d) != Some(&0),
            Index,
            "{op}(): Expected reduction dim {d} to have non-zero size."
        );
    }
    Ok(())
}

/// The extremum over the dimensions of `mask`, without history.
fn raw_extremum(t: &Tensor, mask: u64, keepdim: bool, largest: bool) -> Result<Tensor> {
    let f = if largest { ReduceOp::Max } else { ReduceOp::Min };
    if t.dtype().is_float() {
        return folded(f, t, mask, keepdim, t.dtype());
    }
    let (x, d) = along_memory(t, mask, kernels::integer_dtype(f, t.raw())?)?;
    let dtype = kernels::extremum_of_integers(x.dtype());
    let out = Tensor::empty_on(reduced_shape(t.shape(), mask, keepdim), dtype, t.device())?;
    kernels::fold(f, x.raw(), d, out.raw())?;
    out.into_dense(t.dtype())
}

/// The extrema along `mask` and the index of the first occurrence of each, without history.
fn located(t: &Tensor, mask: u64, keepdim: bool, largest: bool) -> Result<(Tensor, Tensor)> {
    let compute = kernels::extremum_dtype(t.raw())?;
    let (x, d) = along(t.as_dense(compute)?, mask)?;
    let shape = reduced_shape(t.shape(), mask, keepdim);
    let (values, indices) = (x.new_empty(shape.clone())?, Tensor::empty_on(shape, DType::I64, t.device())?);
    kernels::extremum(largest, x.raw(), d, values.raw(), indices.raw())?;
    Ok((values.dense(t.dtype())?, indices))
}

/// Values and indices of `max` or `min` along a dimension.
#[inline]
pub fn extremum_along(t: &Tensor, dim: i64, keepdim: bool, largest: bool) -> Result<Vec<Tensor>> {
    if largest { max_along(t, dim, keepdim) } else { min_along(t, dim, keepdim) }
}

fn chosen_along(t: &Tensor, dim: i64, keepdim: bool, largest: bool) -> Result<Vec<Tensor>> {
    let (op, node) = if largest { ("max", "MaxBackward0") } else { ("min", "MinBackward0") };
    t.expect_common(if largest { "max_cpu" } else { "min_cpu" })?;
    let d = wrap_dim(dim, t.rank())?;
    expect_elements(op, t, Some(&[dim]))?;
    let (values, indices) = located(t, dim_mask(Some(&[dim]), t.rank())?, keepdim, largest)?;
    record_all(vec![values, indices], &[t], |o| Chosen::new(node, t, d, &o[1]))
}

pub(super) fn max_along_impl(t: &Tensor, dim: i64, keepdim: bool) -> Result<Vec<Tensor>> {
    chosen_along(t, dim, keepdim, true)
}

pub(super) fn min_along_impl(t: &Tensor, dim: i64, keepdim: bool) -> Result<Vec<Tensor>> {
    chosen_along(t, dim, keepdim, false)
}

fn extremum_of_all(t: &Tensor, largest: bool) -> Result<Out> {
    let (op, node) = if largest { ("max", "MaxBackward1") } else { ("min", "MinBackward1") };
    expect_elements(op, t, None)?;
    t.expect_common(if largest { "max_all" } else { "min_all" })?;
    let mask = dim_mask(None, t.rank())?;
    let out = raw_extremum(t, mask, false, largest)?;
    Ok(record(out, &[t], |y| Shared::new(node, t, &[y], mask))?.into())
}

pub(super) fn max_all(a: &Args) -> Result<Out> {
    extremum_of_all(a.tensor(0)?, true)
}

pub(super) fn min_all(a: &Args) -> Result<Out> {
    extremum_of_all(a.tensor(0)?, false)
}

const CHOSEN: &[&str] = &["values", "indices"];

pub(super) fn max_dim(a: &Args) -> Result<Out> {
    Ok(Out::Named("max", CHOSEN, chosen_along(a.tensor(0)?, a.int(1)?, a.bool(2)?, true)?))
}

pub(super) fn min_dim(a: &Args) -> Result<Out> {
    Ok(Out::Named("min", CHOSEN, chosen_along(a.tensor(0)?, a.int(1)?, a.bool(2)?, false)?))
}

pub(super) fn max_other(a: &Args) -> Result<Out> {
    Ok(rows::maximum.call(&[a.operand(0)?, a.operand(1)?], &[])?.into())
}

pub(super) fn min_other(a: &Args) -> Result<Out> {
    Ok(rows::minimum.call(&[a.operand(0)?, a.operand(1)?], &[])?.into())
}

/// The largest element over several dimensions.
pub(super) fn amax_impl(t: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    extremum_of_dims("amax", "AmaxBackward0", t, dims, keepdim, true)
}

/// The smallest element over several dimensions.
pub(super) fn amin_impl(t: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    extremum_of_dims("amin", "AminBackward0", t, dims, keepdim, false)
}

fn extremum_of_dims(
    op: &str,
    node: &'static str,
    t: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
    largest: bool,
) -> Result<Tensor> {
    let mask = dim_mask(dims, t.rank())?;
    expect_elements(op, t, dims)?;
    t.expect_common(if largest { "max_values_cpu" } else { "min_values_cpu" })?;
    record(raw_extremum(t, mask, keepdim, largest)?, &[t], |y| Shared::new(node, t, &[y], mask))
}

pub(super) fn aminmax(a: &Args) -> Result<Out> {
    let (t, dim, keepdim) = (a.tensor(0)?, a.opt_int(1)?, a.bool(2)?);
    let mask = dim_mask(dim.as_ref().map(std::slice::from_ref), t.rank())?;
    if let Some(d) = dim {
        let d = wrap_dim(d, t.rank())?;
        ensure!(
            t.shape().get(d) != Some(&0),
            Index,
            "aminmax: Expected reduction dim {d} to have non-zero size."
        );
    } else if t.numel() == 0 {
        bail!(
            Runtime,
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        );
    }
    t.expect_common("aminmax_cpu")?;
    let both = vec![raw_extremum(t, mask, keepdim, false)?, raw_extremum(t, mask, keepdim, true)?];
    let both = record_all(both, &[t], |y| Shared::new("AminmaxBackward0", t, &[&y[0], &y[1]], mask))?;
    Ok(Out::Named("aminmax", &["min", "max"], both))
}

/// The index of the first maximum or minimum, of all elements or along a dimension.
pub fn argument_extremum(
    op: &str,
    t: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    largest: bool,
) -> Result<Tensor> {
    ensure!(t.dtype() != DType::Bool, NotImplemented, "{op}(): does not support bool input");
    t.expect_common(if largest { "argmax_cpu" } else { "argmin_cpu" })?;
    let Some(dim) = dim else {
        ensure!(
            t.numel() > 0,
            Index,
            "{op}(): Expected reduction dim to be specified for input.numel() == 0."
        );
        return Ok(located(t, dim_mask(None, t.rank())?, keepdim, largest)?.1);
    };
    expect_elements(op, t, Some(&[dim]))?;
    Ok(located(t, dim_mask(Some(&[dim]), t.rank())?, keepdim, largest)?.1)
}

/// Whether the numbers of a type count so many elements in any order.
fn counts_exactly(dtype: DType, count: usize) -> bool {
    dtype == DType::F64 || dtype == DType::F32 && count <= 1 << f32::MANTISSA_DIGITS
}

/// The node of reductions whose gradient is divided evenly among the elements equal to the result.
pub(super) struct Shared {
    node: &'static str,
    input: SavedTensor,
    results: Vec<SavedTensor>,
    mask: u64,
}

impl Shared {
    pub(super) fn new(node: &'static str, t: &Tensor, results: &[&Tensor], mask: u64) -> Shared {
        // The gradient only compares with the results, so their history is not needed.
        let input = SavedTensor::input(t);
        let results = results.iter().map(|y| SavedTensor::input(&y.detach())).collect();
        Shared { node, input, results, mask }
    }

    fn share(&self, x: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (y, g) = (restored(y, x.shape(), self.mask)?, restored(g, x.shape(), self.mask)?);
        let equal = rows::eq.call(&[x.into(), (&y).into()], &[])?;
        let both_nan = arith::mul(&super::isnan(x)?, &super::isnan(&y)?)?;
        let mut hit = rows::logical_or.call(&[(&equal).into(), (&both_nan).into()], &[])?;
        if defer::is_deferring() && counts_exactly(x.dtype(), reduced_count(x, self.mask)) {
            // Sums of floats are deferred, those of integers are not.
            hit = arith::to_dtype(&hit, x.dtype())?;
        }
        let count = sum_mask(&hit, self.mask, true, None)?;
        arith::mul(&arith::div(&g, &count)?, &hit)
    }
}

impl Function for Shared {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let x = self.input.get(cx)?;
        let mut total: Option<Tensor> = None;
        for (g, y) in grads.iter().zip(&self.results) {
            let Some(g) = g else { continue };
            let part = self.share(&x, &y.get(cx)?, g)?;
            total = Some(match total {
                Some(t) => arith::add(&t, &part)?,
                None => part,
            });
        }
        Ok(smallvec![total])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        self.results.iter().for_each(|s| visit("result", s));
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        if self.node.ends_with("0") {
            super::show_reduced(self.mask, visit);
        }
    }
}
