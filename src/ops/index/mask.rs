//! Operations with masks: fill, select, scatter, where, and positions of non-zero elements.

use smallvec::smallvec;

use crate::backend::{copy, index as kernel};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, MemoryFormat, broadcast, checked_numel};
use crate::ops::index::take;
use crate::ops::pointwise::{Arg, result_type};
use crate::ops::schema::{Args, Out};
use crate::ops::sort::search;
use crate::ops::view::{self, expand_to};
use crate::ops::{arith, reduce, rows};
use crate::tensor::{Overlap, Tensor};
use crate::{bail, ensure, ops};

/// The positions of the non-zero elements in row-major order.
pub(super) fn nonzero_positions(t: &Tensor) -> Result<Tensor> {
    let mask = t.dense(DType::Bool)?;
    let found = kernel::find(mask.raw())?;
    let out = Tensor::empty_on([found.count()], DType::I64, t.device())?;
    kernel::positions(mask.raw(), &found, out.raw())?;
    Ok(out)
}

/// Converts positions in a tensor of the given shape to one index per dimension.
pub(super) fn unravel(positions: &Tensor, shape: &[usize]) -> Result<Vec<Tensor>> {
    if shape.len() == 1 {
        return Ok(vec![positions.clone()]);
    }
    let mut step = 1;
    let mut out = Vec::with_capacity(shape.len());
    for &n in shape.iter().rev() {
        let index = positions.empty_like()?;
        kernel::unravel(positions.raw(), step, n.max(1), index.raw())?;
        step *= n.max(1);
        out.push(index);
    }
    out.reverse();
    Ok(out)
}

/// The indices of the non-zero elements, one per row.
fn nonzero_impl(t: &Tensor) -> Result<Tensor> {
    let flat = nonzero_positions(t)?;
    let (count, rank) = (flat.numel(), t.rank());
    // As in PyTorch, the indices of one dimension are contiguous.
    let out = flat.new_empty([rank, count])?;
    for (d, index) in unravel(&flat, t.shape())?.iter().enumerate().take(rank) {
        copy::copy(index.raw(), out.with_layout(out.layout().select(0, d)).raw())?;
    }
    Ok(out.with_layout(out.layout().permute(&[1, 0])))
}

/// The indices of the non-zero elements, one vector per dimension.
pub fn nonzero_tuple(t: &Tensor) -> Result<Vec<Tensor>> {
    unravel(&nonzero_positions(&view::atleast_1d(t)?)?, view::atleast_1d(t)?.shape())
}

fn expect_mask(op: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "{op} only supports boolean masks, but got mask with dtype {}",
        mask.dtype().type_name()
    );
    Ok(())
}

/// `t` with one value where the mask is true; both are broadcast.
fn masked_fill_impl(t: &Tensor, mask: &Tensor, value: Arg) -> Result<Tensor> {
    expect_mask("masked_fill_", mask)?;
    let number = match value {
        Arg::S(s) => s.checked(t.dtype())?,
        Arg::T(v) => {
            ensure!(
                v.rank() == 0,
                Runtime,
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                v.rank()
            );
            v.item()?.checked(t.dtype())?
        }
    };
    fill_where(
        t,
        mask,
        value,
        number,
        MemoryFormat::Contiguous,
        ["MaskedFillBackward0", "MaskedFillBackward1"],
    )
}

/// `t` with `number` where the mask is true; `value` is the original argument, which determines the name of the node.
pub(super) fn fill_where(
    t: &Tensor,
    mask: &Tensor,
    value: Arg,
    number: Scalar,
    format: MemoryFormat,
    nodes: [&'static str; 2],
) -> Result<Tensor> {
    let shape = broadcast("masked_fill", t.shape(), mask.shape())?;
    let out = if t.is_target() && *t.shape() == shape {
        t.writable()?
    } else {
        let out = t.new_empty(shape.clone())?;
        let whole = t.layout().expand(&shape).map(|l| t.with_layout(l));
        copy::copy(whole.as_ref().unwrap_or(t).raw(), out.raw())?;
        out
    };
    let wide = mask.layout().expand(&shape).map(|l| mask.with_layout(l));
    fill_at(&out, wide.as_ref().unwrap_or(mask), number)?;
    let out = if format == MemoryFormat::Preserve { out.laid_like(t)? } else { out };
    let saved = || SavedTensor::input(mask);
    match value {
        Arg::T(v) => record(out, &[t, v], |_| MaskedFill { mask: saved(), tensor: true, node: nodes[1] }),
        Arg::S(_) => record(out, &[t], |_| MaskedFill { mask: saved(), tensor: false, node: nodes[0] }),
    }
}

/// Writes `number` where the mask is true, which has the shape of `out` and may be `out` itself.
pub(super) fn fill_at(out: &Tensor, mask: &Tensor, number: Scalar) -> Result<()> {
    let dense = mask.dense(DType::Bool)?;
    let dense = if out.overlap(&dense) == Overlap::Apart { dense } else { arith::clone(&dense)? };
    kernel::fill_masked(out.raw(), dense.raw(), number)
}

struct MaskedFill {
    mask: SavedTensor,
    tensor: bool,
    node: &'static str,
}

impl Function for MaskedFill {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let mask = self.mask.get(cx)?;
        let zero = Arg::S(Scalar::Int(0));
        let mut out: Grads = smallvec![None];
        if cx.needs(0) {
            out[0] = Some(masked_fill(g, &mask, zero)?);
        }
        if self.tensor {
            let filled = || rows::select_where.call(&[Arg::T(&mask), Arg::T(g), zero], &[]);
            let by_value = || reduce::sum_mask(&filled()?, u64::MAX >> (64 - g.rank().max(1)), false, None);
            out.push(cx.needs(1).then(by_value).transpose()?);
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("mask", &self.mask);
    }
}

/// The elements where the mask is true, as a vector; both are broadcast.
fn masked_select_impl(t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(mask.dtype() == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask");
    let shape = broadcast("masked_select", t.shape(), mask.shape())?;
    let whole = if t.shape() == &shape { t.clone() } else { expand_to(t, &shape)? };
    let (t, mask) = (whole, expand_to(mask, &shape)?.dense(DType::Bool)?);
    let out = compressed(&t, &mask)?;
    record(out, &[&t], |_| MaskedSelect { mask: SavedTensor::input(&mask), node: "MaskedSelectBackward0" })
}

/// The elements of `t` where a dense mask of the same shape is true; no history.
fn compressed(t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let found = kernel::find(mask.raw())?;
    let out = t.new_empty([found.count()])?;
    let dense = t.dense(t.dtype())?;
    kernel::compress(dense.raw(), mask.raw(), &found, out.raw())?;
    Ok(out)
}

/// `t[mask]` for a mask of the shape of `t`.
pub(super) fn index_by_mask(t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let mask = mask.dense(DType::Bool)?;
    let out = compressed(t, &mask)?;
    record(out, &[t], |_| MaskedSelect { mask: SavedTensor::input(&mask), node: "IndexBackward0" })
}

struct MaskedSelect {
    mask: SavedTensor,
    node: &'static str,
}

impl Function for MaskedSelect {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let mask = self.mask.get(cx)?;
        let zeros = g.new_zeros(mask.shape().clone())?.as_target()?;
        Ok(smallvec![Some(masked_scatter(&zeros, &mask, g)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit(if self.node == "IndexBackward0" { "indices" } else { "mask" }, &self.mask);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        if self.node == "IndexBackward0" {
            visit("self_sym_sizes", Attribute::InputShape);
        }
    }
}

/// `t` with consecutive elements of `source` where the mask is true.
fn masked_scatter_impl(t: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    expect_mask("masked_scatter_", mask)?;
    ensure!(
        t.dtype() == source.dtype(),
        Runtime,
        "masked_scatter: expected self and source to have same dtypes but got {} and {}",
        t.dtype().scalar_name(),
        source.dtype().scalar_name()
    );
    let shape = broadcast("masked_scatter", t.shape(), mask.shape())?;
    // A target stays one.
    let t = if t.shape() == &shape { t.clone() } else { expand_to(t, &shape)? };
    let mask = expand_to(mask, &shape)?.dense(DType::Bool)?;
    let found = kernel::find(mask.raw())?;
    ensure!(
        found.count() <= source.numel(),
        Runtime,
        "Number of elements of source < number of ones in mask"
    );
    let (out, values) = (t.writable()?, source.dense(source.dtype())?);
    kernel::expand(values.raw(), mask.raw(), &found, out.raw())?;
    record(out, &[&t, source], |_| MaskedScatter {
        mask: SavedTensor::input(&mask),
        source: source.shape().clone(),
    })
}

struct MaskedScatter {
    mask: SavedTensor,
    source: Dims,
}

impl Function for MaskedScatter {
    fn name(&self) -> &'static str {
        "MaskedScatterBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let mask = self.mask.get(cx)?;
        let kept = || masked_fill(g, &mask, Arg::S(Scalar::Int(0)));
        let taken = || -> Result<Tensor> {
            let used = masked_select(g, &mask)?;
            let unused = self.source.numel() - used.numel();
            let all = crate::ops::join::cat(&[used, g.new_zeros([unused])?], 0)?;
            view::reshape_to(&all, &self.source)
        };
        Ok(smallvec![cx.needs(0).then(kept).transpose()?, cx.needs(1).then(taken).transpose()?])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("mask", &self.mask);
    }
}

/// `input` where the condition is true, else `other`.
fn select_where_impl(condition: &Tensor, input: Arg, other: Arg) -> Result<Tensor> {
    ensure!(
        matches!(condition.dtype(), DType::Bool | DType::U8),
        Runtime,
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        condition.dtype().scalar_name()
    );
    // The pointwise operation accepts mixed dtypes, but its gradient has the common dtype.
    let dtype = result_type(&[input, other])?;
    let cast = |x: Arg| match x {
        Arg::T(t) => arith::to_dtype(t, dtype).map(Some),
        Arg::S(s) => s.checked(dtype).map(|_| None),
    };
    let (a, b) = (cast(input)?, cast(other)?);
    let a = a.as_ref().map_or(input, Arg::T);
    let b = b.as_ref().map_or(other, Arg::T);
    rows::select_where.call(&[Arg::T(condition), a, b], &[])
}

fn count_nonzero(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let mask = reduce::dim_mask(a.opt_ints(1)?, t.rank())?;
    Ok(reduce::sum_mask(&t.copied(DType::Bool)?, mask, false, None)?.into())
}

fn nonzero_op(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(if a.bool(1)? { Out::Tuple(nonzero_tuple(t)?) } else { nonzero_impl(t)?.into() })
}

/// As `nonzero`, truncated or padded to a number of rows that does not depend on the data.
fn nonzero_static(a: &Args) -> Result<Out> {
    let (t, size, filler) = (a.tensor(0)?, a.int(1)?, a.int(2)?);
    ensure!(size >= 0, Runtime, "nonzero_static: 'size' must be an non-negative integer");
    let found = nonzero(t)?;
    let out = found.new_full([size as usize, t.rank()], filler)?;
    let rows = found.shape()[0].min(size as usize);
    let part = |x: &Tensor| x.with_layout(x.layout().slice(0, 0, rows, 1));
    copy::copy(part(&found).raw(), part(&out).raw())?;
    Ok(out.into())
}

/// Converts positions in a tensor of shape `shape` to one index per dimension.
fn unravel_index(a: &Args) -> Result<Out> {
    let (indices, shape) = (a.tensor(0)?, a.size(1)?);
    ensure!(
        indices.dtype().is_int(),
        Type,
        "expected 'indices' to be integer dtype, but got {}",
        indices.dtype()
    );
    let n = checked_numel(&shape)? as i64;
    if let Some(i) = first_outside(indices, n)? {
        bail!(Value, "index {i} is out of bounds for array of size {n}");
    }
    let flat = view::reshape_to(&indices.dense(DType::I64)?, &Dims::from([indices.numel()]))?;
    let each = unravel(&flat, &shape)?;
    let shaped = |t: &Tensor| view::reshape_to(t, indices.shape());
    Ok(Out::Tuple(each.iter().take(shape.len()).map(shaped).collect::<Result<_>>()?))
}

/// The first of some indices that is not below `n`; synchronizes with a GPU.
pub(in crate::ops) fn first_outside(indices: &Tensor, n: i64) -> Result<Option<i64>> {
    kernel::first_outside(indices.dense(DType::I64)?.raw(), n)
}

/// Whether each of `elements` is in the sorted vector `tests`, which has the same dtype.
fn among_sorted(elements: &Tensor, tests: &Tensor) -> Result<Tensor> {
    let place = search(tests, elements.into(), None, false, false)?;
    let last = rows::clamp_max.call(&[(&place).into(), (tests.numel() as i64 - 1).into()], &[])?;
    // NaN equals nothing, so it is never found.
    rows::eq.call(&[(&take(tests, &last)?).into(), elements.into()], &[])
}

/// Whether each element is in `tests`.
fn isin(a: &Args) -> Result<Out> {
    let (elements, tests, invert) = (a.operand(0)?, a.operand(1)?, a.bool(3)?);
    let dtype = result_type(&[elements, tests])?;
    let tensor = |x: Arg| if let Arg::T(t) = x { Some(t.device()) } else { None };
    let device = tensor(elements).or(tensor(tests)).unwrap_or_default();
    let whole = |x: Arg| match x {
        Arg::T(t) => t.dense(dtype),
        Arg::S(s) => Tensor::scalar(s, dtype)?.on_device(device),
    };
    let (elements, tests) = (whole(elements)?.detach(), whole(tests)?.detach());
    elements.expect_common("isin_default_cpu")?;
    let found = if tests.numel() == 0 {
        elements.new_zeros(elements.shape().clone())?.dense(DType::Bool)?
    } else {
        let flat = view::reshape_to(&tests, &Dims::from([tests.numel()]))?;
        among_sorted(&elements, &crate::ops::sort::sort(&flat, 0, false, "SortBackward0")?[0])?
    };
    Ok(if invert { rows::logical_not.call(&[(&found).into()], &[])? } else { found }.into())
}

ops! {
    /// Whether each element is among `test_elements`.
    "isin" FUNCTION | OUT, out SAME {
        (elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) => isin;
    }
    /// The tensor with one value where the mask is true.
    "masked_fill" BOTH | INPLACE | TARGET, batch MASKED_FILL {
        pub fn masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor = masked_fill_impl;
    }
    /// The elements at which the mask is true, as a vector.
    "masked_select" BOTH | OUT, out SELECTED, batch MASKED_SELECT {
        pub fn masked_select(input: Tensor, mask: Tensor) -> Tensor = masked_select_impl;
    }
    /// The tensor with elements of `source`, one after the other, where the mask is true.
    "masked_scatter" BOTH | INPLACE | TARGET {
        pub fn masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor = masked_scatter_impl;
    }
    /// The indices of the non-zero elements: a row each, or a vector per dimension.
    "nonzero" BOTH | OUT, out POSITIONS, batch DYNAMIC {
        (input: Tensor, *, as_tuple: bool = False) => nonzero_op;
        /// The indices of the non-zero elements, a row each.
        pub fn nonzero(t: &Tensor) -> Tensor as (t, false) = nonzero_impl;
    }
    /// The indices of the non-zero elements, cut or padded to `size` rows.
    "nonzero_static" BOTH {
        (input: Tensor, *, size: int, fill_value: int = -1) => nonzero_static;
    }
    /// The indices of the non-zero elements, a row each.
    "argwhere" BOTH, batch DYNAMIC {
        (input: Tensor) => |a| Ok(nonzero(a.tensor(0)?)?.into());
    }
    /// The index in each dimension of positions in a tensor of shape `shape`.
    "unravel_index" FUNCTION {
        (indices: Tensor, shape: size) -> Tensor[] => unravel_index;
    }
    /// How many elements are not zero, in all or along dimensions.
    "count_nonzero" BOTH, batch REDUCTION {
        (input: Tensor, dim: int[]? = None) => count_nonzero;
    }
    /// `input` where the condition holds, else `other`; with one argument, where it holds.
    "where" FUNCTION | OUT, out CHOSEN, batch CHOOSE {
        pub fn select_where(condition: Tensor, input: Operand, other: Operand) -> Tensor = select_where_impl;
        (condition: Tensor) => |a| Ok(Out::Tuple(nonzero_tuple(a.tensor(0)?)?));
    }
    /// The tensor where the condition holds, else `other`.
    "where" METHOD, batch CHOOSE {
        (input: Tensor, condition: Tensor, other: Operand) =>
            |a| Ok(select_where_impl(a.tensor(1)?, a.operand(0)?, a.operand(2)?)?.into());
    }
}
