//! Products, and the reductions `all` and `any`.

use smallvec::smallvec;

use super::{along_memory, dim_mask, expect_accumulated, folded, folded_integers, reduced_shape, restored};
use crate::backend::inspect::{Question, known};
use crate::backend::reduce::{self as kernels, ReduceOp};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, wrap_dim};
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, rows, scan, view};
use crate::tensor::Tensor;

fn raw_prod(t: &Tensor, mask: u64, keepdim: bool, result: DType) -> Result<Tensor> {
    expect_accumulated("prod_out_cpu", result)?;
    if result.is_float() {
        return folded(ReduceOp::Product, t, mask, keepdim, result);
    }
    folded_integers(ReduceOp::Product, t, mask, keepdim, result)
}

/// The product of all elements, or along a dimension.
fn prod_impl(t: &Tensor, dim: Option<i64>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let result = dtype.unwrap_or(if t.dtype().is_float() { t.dtype() } else { DType::I64 });
    let mask = dim_mask(dim.as_ref().map(std::slice::from_ref), t.rank())?;
    let node = if dim.is_some() { "ProdBackward1" } else { "ProdBackward0" };
    let dim = dim.map(|d| wrap_dim(d, t.rank())).transpose()?;
    let out = raw_prod(t, mask, keepdim, result)?;
    record(out, &[t], |y| ProdBackward {
        node,
        input: SavedTensor::input(t),
        result: SavedTensor::output(y),
        mask,
        dim,
    })
}

struct ProdBackward {
    node: &'static str,
    input: SavedTensor,
    result: SavedTensor,
    mask: u64,
    dim: Option<usize>,
}

impl Function for ProdBackward {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (x, y) = (self.input.get(cx)?, self.result.get(cx)?);
        let g = restored(g, x.shape(), self.mask)?;
        if known(Question::AnyZero, x.raw())? == Some(false) {
            let y = restored(&y, x.shape(), self.mask)?;
            return Ok(smallvec![Some(arith::div(&arith::mul(&g, &y)?, &x)?)]);
        }
        let others = match self.dim {
            Some(d) => product_of_others(&x, d)?,
            None => {
                let flat = view::reshape_to(&x, &Dims::from([x.numel()]))?;
                view::reshape_to(&product_of_others(&flat, 0)?, x.shape())?
            }
        };
        Ok(smallvec![Some(arith::mul(&g, &others)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        visit("result", &self.result);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        if let Some(d) = self.dim {
            visit("dim", Attribute::Int(d as i64));
            visit("keepdim", Attribute::KeepsDim);
        }
    }
}

/// For each element the product of the other elements along `dim`: the product of the preceding ones times that of the
/// following ones, which is correct for zeros.
fn product_of_others(x: &Tensor, dim: usize) -> Result<Tensor> {
    if x.rank() == 0 {
        return x.new_full(x.shape().clone(), 1i64);
    }
    let before = |x: &Tensor| scan::cumprod(&scan::shifted(x, dim, true, 1.0)?, dim, None);
    arith::mul(&before(x)?, &scan::flipped(&before(&scan::flipped(x, dim)?)?, dim)?)
}

/// The product of all elements.
pub(super) fn prod_of_all(t: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    prod_impl(t, None, false, dtype)
}

/// The product along a dimension.
pub(super) fn prod_along(t: &Tensor, dim: i64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    prod_impl(t, Some(dim), keepdim, dtype)
}

pub(super) fn prod_all(a: &Args) -> Result<Out> {
    Ok(prod_impl(a.tensor(0)?, None, false, a.opt_dtype(1)?)?.into())
}

pub(super) fn prod_dim(a: &Args) -> Result<Out> {
    Ok(prod_impl(a.tensor(0)?, Some(a.int(1)?), a.bool(2)?, a.opt_dtype(3)?)?.into())
}

/// Whether all (`every`) or any elements are non-zero. As in PyTorch, uint8 input gives uint8.
fn truth(t: &Tensor, dims: Option<&[i64]>, keepdim: bool, every: bool) -> Result<Tensor> {
    let result = if t.dtype() == DType::U8 { DType::U8 } else { DType::Bool };
    if dims.is_some_and(|d| d.is_empty()) {
        return rows::ne.call(&[t.into(), 0i64.into()], &[])?.dense(result);
    }
    let mask = dim_mask(dims, t.rank())?;
    let (x, d) = along_memory(t, mask, kernels::truth_dtype(t.raw())?)?;
    let bytes = Tensor::empty_on(reduced_shape(t.shape(), mask, keepdim), DType::U8, t.device())?;
    kernels::fold(if every { ReduceOp::All } else { ReduceOp::Any }, x.raw(), d, bytes.raw())?;
    bytes.into_dense(result)
}

/// Whether all elements are non-zero.
pub(super) fn all_impl(t: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    truth(t, dims, keepdim, true)
}

/// Whether any element is non-zero.
pub(super) fn any_impl(t: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    truth(t, dims, keepdim, false)
}
