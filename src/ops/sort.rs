//! Sorting and selection along a dimension, and binary search in sorted rows.

use super::reduce::{Chosen, argument_extremum};
use super::schema::{Args, Out};
use crate::backend::sort as kernels;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::record_all;
use crate::layout::{Dims, Layout, wrap_dim};
use crate::ops::pointwise::{Arg, result_type, unsigned};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// The rows of `t` along `dim`, dense, as `[…, n]`, in the dtype in which elements are compared; and `n`. A 0-d tensor
/// is one row of one element.
pub(super) fn to_rows(t: &Tensor, dim: usize) -> Result<(Tensor, usize)> {
    let dtype = kernels::compare_dtype(t.raw(), t.dtype())?;
    if t.rank() == 0 {
        return Ok((t.dense(dtype)?, 1));
    }
    let order: Vec<usize> = (0..t.rank()).filter(|&d| d != dim).chain([dim]).collect();
    let rows = t.with_layout(t.layout().permute(&order)).dense(dtype)?;
    let n = t.shape()[dim];
    Ok((rows, n))
}

/// Moves rows of results back to dimension `dim`, as `dtype`.
pub(super) fn from_rows(rows: &Tensor, dim: usize, dtype: DType) -> Result<Tensor> {
    let rank = rows.rank();
    if rank == 0 || dim + 1 == rank {
        return rows.dense(dtype);
    }
    let order: Vec<usize> = (0..dim).chain([rank - 1]).chain(dim..rank - 1).collect();
    let out = rows.with_layout(rows.layout().permute(&order)).dense(dtype)?;
    // The strides of dimensions of size 1 may differ from those of a new tensor.
    let layout = Layout::contiguous(out.shape().clone());
    Ok(out.with_layout(layout))
}

/// Uninitialized values and indices for `k` results per row of `rows`.
fn outputs(rows: &Tensor, k: usize) -> Result<(Tensor, Tensor)> {
    let mut shape = rows.shape().clone();
    if let Some(last) = shape.last_mut() {
        *last = k;
    }
    let indices = Tensor::empty_on(shape.clone(), DType::I64, rows.device())?;
    Ok((rows.new_empty(shape)?, indices))
}

/// Sorted values and their original indices; stable.
fn sort_impl(t: &Tensor, dim: i64, descending: bool, node: &'static str) -> Result<Vec<Tensor>> {
    let dim = wrap_dim(dim, t.rank())?;
    if t.dtype() == DType::U64 {
        let mut found = sort_impl(&unsigned::comparable(t)?, dim as i64, descending, node)?;
        found[0] = unsigned::restored(&found[0])?;
        return Ok(found);
    }
    ensure!(
        !t.dtype().is_float8(),
        Error::DtypeNotImplemented { op: "sorting_kernel_method_name", dtype: t.dtype() }
    );
    let (x, n) = to_rows(t, dim)?;
    let (values, indices) = outputs(&x, n)?;
    kernels::sort(x.raw(), n, descending, values.raw(), indices.raw())?;
    let found = vec![
        from_rows(&values, dim, t.dtype())?.laid_like(t)?,
        from_rows(&indices, dim, DType::I64)?.laid_like(t)?,
    ];
    record_all(found, &[t], |o| Chosen::new(node, t, dim, &o[1]))
}

fn sort_op(a: &Args) -> Result<Out> {
    Ok(Out::Named("sort", CHOSEN, sort_impl(a.tensor(0)?, a.int(1)?, a.bool(2)?, "SortBackward0")?))
}

fn sort_stable(a: &Args) -> Result<Out> {
    Ok(Out::Named("sort", CHOSEN, sort_impl(a.tensor(0)?, a.int(2)?, a.bool(3)?, "SortBackward1")?))
}

fn argsort(a: &Args) -> Result<Out> {
    let mut found = sort(&a.tensor(0)?.detach(), a.int(1)?, a.bool(2)?, "SortBackward0")?;
    Ok(found.swap_remove(1).into())
}

fn msort(a: &Args) -> Result<Out> {
    Ok(sort_impl(a.tensor(0)?, 0, false, "SortBackward0")?.swap_remove(0).into())
}

fn topk(a: &Args) -> Result<Out> {
    let (t, k) = (a.tensor(0)?, a.int(1)?);
    t.expect_common("topk_cpu")?;
    let dim = wrap_dim(a.int(2)?, t.rank())?;
    let (x, n) = to_rows(t, dim)?;
    ensure!(k >= 0 && k as usize <= n, Runtime, "selected index k out of range");
    ensure!(t.dtype() != DType::Bool, NotImplemented, "topk does not support bool dtypes on CPU");
    // A 0-d tensor returns its element for any k.
    let k = if t.rank() == 0 { 1 } else { k as usize };
    let (largest, sorted) = (a.bool(3)?, a.bool(4)?);
    let (values, indices) = outputs(&x, k)?;
    kernels::topk(x.raw(), n, k, largest, sorted, values.raw(), indices.raw())?;
    let found = vec![from_rows(&values, dim, t.dtype())?, from_rows(&indices, dim, DType::I64)?];
    let found = record_all(found, &[t], |o| Chosen::new("TopkBackward0", t, dim, &o[1]))?;
    Ok(Out::Named("topk", CHOSEN, found))
}

fn kthvalue(a: &Args) -> Result<Out> {
    let (t, k, keepdim) = (a.tensor(0)?, a.int(1)?, a.bool(3)?);
    t.expect_common("kthvalue_cpu")?;
    let dim = wrap_dim(a.int(2)?, t.rank())?;
    let (x, n) = to_rows(t, dim)?;
    ensure!(n > 0, Index, "kthvalue(): Expected reduction dim {dim} to have non-zero size.");
    ensure!(
        k >= 1 && k as usize <= n,
        Runtime,
        "kthvalue(): selected number k out of range for dimension {dim}"
    );
    let (values, indices) = outputs(&x, 1)?;
    kernels::kthvalue(x.raw(), n, k as usize - 1, values.raw(), indices.raw())?;
    let found =
        vec![one_per_row(&values.dense(t.dtype())?, dim, keepdim)?, one_per_row(&indices, dim, keepdim)?];
    let found = record_all(found, &[t], |o| Chosen::new("KthvalueBackward0", t, dim, &o[1]))?;
    Ok(Out::Named("kthvalue", CHOSEN, found))
}

/// Results with one element per row, with the rows' dimension kept or removed.
pub(super) fn one_per_row(rows: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    let mut shape = rows.shape().clone();
    shape.pop();
    if keepdim && rows.rank() > 0 {
        shape.insert(dim, 1);
    }
    Ok(rows.with_layout(Layout::contiguous(shape)))
}

/// Combines the arguments `right` and `side`.
fn right_side(op: &str, right: bool, side: Option<&str>) -> Result<bool> {
    match side {
        None => Ok(right),
        Some("right") => Ok(true),
        Some("left") => {
            ensure!(
                !right,
                Runtime,
                "{op}(): side and right can't be set to opposites, got side of left while right was True"
            );
            Ok(false)
        }
        Some(other) => bail!(Runtime, "{op}(): side can only be 'left' or 'right' but got {other}"),
    }
}

/// Insertion points of `values` in the sorted rows of `sorted`.
fn search_impl(
    sorted: &Tensor,
    values: Arg,
    sorter: Option<&Tensor>,
    right: bool,
    narrow: bool,
) -> Result<Tensor> {
    let number;
    let values = match values {
        Arg::T(t) => t,
        Arg::S(s) => {
            let dtype = result_type(&[Arg::T(sorted), Arg::S(s)])?;
            number = Tensor::scalar(s, dtype)?.on_device(sorted.device())?;
            &number
        }
    };
    sorted.expect_common("searchsorted_out_cpu")?;
    values.expect_common("searchsorted_out_cpu")?;
    let common = crate::dtype::promote(sorted.dtype(), values.dtype())?;
    let n = sorted.shape().last().copied().unwrap_or(1);
    let m = if sorted.rank() <= 1 { values.numel() } else { values.shape().last().copied().unwrap_or(1) };
    let compared = kernels::compare_dtype(sorted.raw(), common)?;
    let (x, v) = (sorted.dense(compared)?, values.dense(compared)?);
    let order = sorter.map(|s| s.dense(DType::I64)).transpose()?;
    let out = values.empty_as(DType::I64)?;
    if n == 0 || out.numel() == 0 {
        crate::backend::copy::fill(out.raw(), 0i64.into())?;
        return out.into_dense(if narrow { DType::I32 } else { DType::I64 });
    }
    let order = order.as_ref().map(Tensor::raw);
    kernels::searchsorted(x.raw(), n, order, v.raw(), m, right, out.raw())?;
    out.into_dense(if narrow { DType::I32 } else { DType::I64 })
}

fn searchsorted(a: &Args) -> Result<Out> {
    let (sorted, values, sorter) = (a.tensor(0)?, a.operand(1)?, a.opt_tensor(5)?);
    let right = right_side("torch.searchsorted", a.bool(3)?, a.opt_str(4)?)?;
    let shape = match values {
        Arg::T(t) => t.shape().clone(),
        Arg::S(_) => Dims::default(),
    };
    ensure!(
        !shape.is_empty() || sorted.rank() == 1,
        Runtime,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got \
         boundaries tensor dim({}) and input value's dim(0) numel(1)",
        sorted.rank()
    );
    let leading = |s: &Dims| Dims::from(&s[..s.len().saturating_sub(1)]);
    ensure!(
        sorted.rank() == 1 || (sorted.rank() == shape.len() && leading(sorted.shape()) == leading(&shape)),
        Runtime,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor \
         and input value tensor must match, but we got boundaries tensor {} and input value tensor {shape}",
        sorted.shape()
    );
    if let Some(s) = sorter {
        ensure!(
            s.shape() == sorted.shape(),
            Runtime,
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {} and got \
             sorter tensor {}",
            sorted.shape(),
            s.shape()
        );
        ensure!(
            s.dtype() == DType::I64,
            Runtime,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            s.dtype().scalar_name()
        );
    }
    Ok(search_impl(sorted, values, sorter, right, a.bool(2)?)?.into())
}

fn bucketize(a: &Args) -> Result<Out> {
    let boundaries = a.tensor(1)?;
    ensure!(
        boundaries.rank() == 1,
        Runtime,
        "boundaries tensor must be 1 dimension, but got dim({})",
        boundaries.rank()
    );
    Ok(search_impl(boundaries, a.operand(0)?, None, a.bool(3)?, a.bool(2)?)?.into())
}

fn argmax(a: &Args) -> Result<Out> {
    Ok(argument_extremum("argmax", a.tensor(0)?, a.opt_int(1)?, a.bool(2)?, true)?.into())
}

fn argmin(a: &Args) -> Result<Out> {
    Ok(argument_extremum("argmin", a.tensor(0)?, a.opt_int(1)?, a.bool(2)?, false)?.into())
}

const CHOSEN: &[&str] = &["values", "indices"];

ops! {
    /// The elements in ascending or descending order along `dim`, and where they stood.
    "sort" BOTH | OUT, out SAME, batch DIMS {
        (input: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor] => sort_op;
        /// As `sort`, with the node's name; stable.
        pub fn sort(t: &Tensor, dim: i64, descending: bool, node: &'static str) -> Vec<Tensor> as (t, dim, descending) =
            sort_impl;
        (input: Tensor, *, stable: bool?, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor] =>
            sort_stable;
    }
    /// The indices that sort a tensor along `dim`.
    "argsort" BOTH, batch DIMS {
        (input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) => argsort;
    }
    /// The elements in ascending order along the first dimension.
    "msort" BOTH | OUT, batch ALL_DIMS {
        (input: Tensor) => msort;
    }
    /// The `k` largest or smallest elements along `dim`, and where they stood.
    "topk" BOTH | OUT, out SAME, batch DIMS {
        (input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor] =>
            topk;
    }
    /// The `k`-th smallest element along `dim`, counted from 1, and where it stood.
    "kthvalue" BOTH | OUT, out RANKED, batch DIMS {
        (input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor] => kthvalue;
    }
    /// The index of the first largest element, of all or along `dim`.
    "argmax" BOTH | OUT, out SAME, batch DIMS {
        (input: Tensor, dim: int? = None, keepdim: bool = False) => argmax;
    }
    /// The index of the first smallest element, of all or along `dim`.
    "argmin" BOTH | OUT, out SAME, batch DIMS {
        (input: Tensor, dim: int? = None, keepdim: bool = False) => argmin;
    }
    /// Where values would go into sorted rows: before equal elements, or after them if `right`.
    "searchsorted" FUNCTION | OUT {
        (sorted_sequence: Tensor, input: Operand, *, out_int32: bool = False, right: bool = False, side: str? = None,
         sorter: Tensor? = None) =>
            searchsorted;
        /// Where values would go into sorted rows, as numbers of 32 bits if `narrow`.
        pub fn search(sorted: &Tensor, values: Arg, sorter: Option<&Tensor>, right: bool, narrow: bool) -> Tensor
            as (sorted, values, narrow, right, None::<&str>, sorter) = search_impl;
    }
    /// The bucket between sorted `boundaries` that each element falls into.
    "bucketize" FUNCTION | OUT {
        (input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) => bucketize;
    }
}
