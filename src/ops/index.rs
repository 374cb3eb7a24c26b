//! Indexing with brackets: integers, slices and None give views; masks and index tensors give copies. The functions
//! that index by name are in `gather`, `mask` and `select`.

mod advanced;
mod count;
pub(in crate::ops) mod gather;
mod mask;
pub(in crate::ops) mod overlapping;
mod select;
mod unique;

pub use advanced::{index, index_put};
pub use gather::{gather, scatter, scatter_add};
pub(super) use mask::first_outside;
pub use mask::{masked_fill, masked_scatter, masked_select, nonzero, nonzero_tuple, select_where};
pub use select::{index_add, index_copy, index_fill, index_select, put, take};

use smallvec::SmallVec;

use super::batching;
use super::cast::copy_tracked;
use super::creation::fill_all;
use super::interpreter;
use super::pointwise::Arg;
use super::schema::Op;
use super::view;
use super::view::cut::{self, Cut};
use crate::backend::copy;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{ModeGuard, grad_enabled};
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::{Overlap, Tensor, assign, check_filled, check_inplace, overlap_error, write_untracked};
use crate::{bail, ensure};

pub static OPS: &[Op] = &Op::concat::<
    {
        select::OPS.len()
            + gather::OPS.len()
            + mask::OPS.len()
            + advanced::OPS.len()
            + count::OPS.len()
            + unique::OPS.len()
    },
>(&[select::OPS, gather::OPS, mask::OPS, advanced::OPS, count::OPS, unique::OPS]);

/// One item in the brackets of `x[...]`.
#[derive(Clone, Debug)]
pub enum Index {
    Int(i64),
    /// Start, stop, step.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    NewAxis,
    Ellipsis,
    Bool(bool),
    Tensor(Tensor),
    /// An invalid index: the name of its class, for the error when it is processed.
    Strange(String),
}

/// The tensors that index the leading dimensions of a view; None for a dimension that is not indexed. A mask covers as
/// many dimensions as it has.
type Picks = SmallVec<[Option<Tensor>; 4]>;

/// Whether a tensor is a mask; as in PyTorch, uint8 is accepted too.
fn is_mask(t: &Tensor) -> bool {
    matches!(t.dtype(), DType::Bool | DType::U8)
}

/// The number of dimensions that an index consumes.
fn consumed(i: &Index) -> usize {
    match i {
        Index::Int(_) | Index::Slice(..) | Index::Strange(_) => 1,
        Index::NewAxis | Index::Ellipsis | Index::Bool(_) => 0,
        Index::Tensor(t) if is_mask(t) => t.rank(),
        Index::Tensor(_) => 1,
    }
}

/// Selects index `i` of dimension `d` as a view. `named` is the number of the dimension in errors.
#[inline]
fn at(t: &Tensor, d: usize, i: i64, named: usize) -> Result<Tensor> {
    let Some(&n) = t.shape().get(d) else {
        if i != 0 {
            return select::out_of_bounds(i, named, 0);
        }
        bail!(
            Index,
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a \
             0-dim tensor to a number"
        );
    };
    let wrapped = if i < 0 { i + n as i64 } else { i };
    if wrapped < 0 || wrapped >= n as i64 {
        return select::out_of_bounds(i, named, n);
    }
    cut::take(t, Cut::Select { dim: d, index: wrapped as usize })
}

/// Start, stop and step of a slice.
type Bounds = (Option<i64>, Option<i64>, Option<i64>);

/// The range of a slice of dimension `d`, and whether it covers the whole dimension.
#[inline]
fn bounded(t: &Tensor, d: usize, (start, stop, step): Bounds) -> Result<(Cut, bool)> {
    let step = step.unwrap_or(1);
    ensure!(step > 0, Value, "step must be greater than zero");
    let Some(&n) = t.shape().get(d) else {
        bail!(Index, "slice() cannot be applied to a 0-dim tensor.");
    };
    let (start, length) = cut::slice_range(n, start, stop, step);
    Ok((Cut::Slice { dim: d, start, length, step: step as usize }, length == n && step == 1))
}

/// A slice of dimension `d` as a view; None if it covers the whole dimension.
#[inline]
fn sliced(t: &Tensor, d: usize, bounds: Bounds) -> Result<Option<Tensor>> {
    match bounded(t, d, bounds)? {
        (_, true) => Ok(None),
        (slice, false) => cut::take(t, slice).map(Some),
    }
}

/// Applies the indices that give views; returns the view and the tensors that index its dimensions.
fn basic(t: &Tensor, index: &[Index]) -> Result<(Tensor, Picks)> {
    let used: usize = index.iter().map(consumed).sum();
    // For a 0-d tensor a single index or slice raises a more specific error below.
    if used > t.rank() && !matches!(index, [Index::Int(_) | Index::Slice(..)]) {
        bail!(Index, "too many indices for tensor of dimension {}", t.rank());
    }
    let (mut view, mut picks, mut d) = (t.clone(), Picks::new(), 0);
    // The number of dimensions covered by the picks so far.
    let mut covered = 0;
    let mut pick = |d: usize, width: usize, by: Tensor| {
        picks.extend((covered..d).map(|_| None));
        picks.push(Some(by));
        covered = d + width;
    };
    // Only the first ellipsis is expanded; others cover no dimension.
    let mut missing = t.rank().saturating_sub(used);
    // As in PyTorch, errors contain the position among the indices, while `d` is the dimension of the view.
    for (position, i) in index.iter().enumerate() {
        match i {
            Index::Int(i) => view = at(&view, d, *i, position)?,
            Index::Slice(a, b, c) => {
                if let Some(part) = sliced(&view, d, (*a, *b, *c))? {
                    view = part;
                }
                d += 1;
            }
            Index::Strange(class) => bail!(
                Index,
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got \
                 {class})"
            ),
            Index::NewAxis => {
                view = view::unsqueeze(&view, d as i64)?;
                d += 1;
            }
            Index::Ellipsis => d += std::mem::take(&mut missing),
            Index::Bool(on) => {
                view = view::unsqueeze(&view, d as i64)?;
                pick(d, 1, constant_pick(t, *on)?);
                d += 1;
            }
            Index::Tensor(by) if by.rank() == 0 && is_mask(by) => {
                view = view::unsqueeze(&view, d as i64)?;
                pick(d, 1, constant_pick(t, !by.item()?.is_zero())?);
                d += 1;
            }
            Index::Tensor(by) if by.rank() == 0 && by.dtype().is_int() && !by.is_batched() => {
                view = at(&view, d, by.item()?.to_i64(), position)?;
            }
            Index::Tensor(by) => {
                pick(d, consumed(i), beside(t, by)?);
                d += consumed(i);
            }
        }
    }
    Ok((view, picks))
}

/// An index on the device of `t`.
fn beside(t: &Tensor, by: &Tensor) -> Result<Tensor> {
    if by.is_batched() {
        return Ok(by.clone());
    }
    if let Some(batch) = t.batch() {
        return beside(batch.value(), by);
    }
    ensure!(
        by.device() == t.device() || by.device().lends_operands(),
        Runtime,
        "indices should be either on cpu or on the same device as the indexed tensor ({})",
        t.device()
    );
    by.on_device(t.device())
}

/// An index for a new dimension of size 1 that selects its only element, or nothing.
fn constant_pick(t: &Tensor, on: bool) -> Result<Tensor> {
    if let Some(batch) = t.batch() {
        return constant_pick(batch.value(), on);
    }
    Tensor::zeros([usize::from(on)], DType::I64)?.on_device(t.device())
}

/// The mask, if the only index is a mask with the shape of `t`.
fn whole_mask<'a>(t: &Tensor, picks: &'a Picks) -> Option<&'a Tensor> {
    match &picks[..] {
        [Some(m)] if is_mask(m) && m.shape() == t.shape() => Some(m),
        _ => None,
    }
}

/// `t[start:stop:step]` as the only index: a view even if it covers the whole dimension.
pub fn slice(t: &Tensor, start: i64, stop: i64, step: i64) -> Result<Tensor> {
    cut::take(t, bounded(t, 0, (Some(start), Some(stop), Some(step)))?.0)
}

/// `t[index]`.
pub fn getitem(t: &Tensor, index: &[Index]) -> Result<Tensor> {
    match index {
        [Index::Int(i)] => return at(t, 0, *i, 0),
        [Index::Slice(a, b, c)] if t.rank() > 0 => {
            return sliced(t, 0, (*a, *b, *c))?.map_or_else(|| cut::alias(t), Ok);
        }
        _ => {}
    }
    let (view, picks) = basic(t, index)?;
    if picks.is_empty() {
        return if view.same(t) { cut::alias(t) } else { Ok(view) };
    }
    if interpreter::active()
        && let Some(out) = batching::index(&view, &picks)
    {
        return out;
    }
    match whole_mask(&view, &picks) {
        Some(mask) => mask::index_by_mask(&view, mask),
        None => advanced::index(&view, &picks),
    }
}

/// `t[index] = value`.
pub fn setitem(t: &Tensor, index: &[Index], value: Arg) -> Result<()> {
    let value = match value {
        Arg::S(s) => Arg::S(s.checked(t.dtype())?),
        value => value,
    };
    // A single bool selects all or nothing.
    let index = match index {
        [Index::Bool(false)] => return check_inplace(t, false),
        [Index::Bool(true)] => &[Index::NewAxis],
        index => index,
    };
    let (view, picks) = basic(t, index)?;
    // A value on another device is copied only for plain views, except for numbers.
    let here = match value {
        Arg::T(v)
            if v.device() != t.device()
                && !v.is_batched()
                && !t.is_batched()
                && (picks.is_empty() || v.rank() == 0) =>
        {
            Some(super::arith::to(v, t.device(), v.dtype())?)
        }
        _ => None,
    };
    let value = here.as_ref().map_or(value, Arg::T);
    if interpreter::active()
        && let Some(done) = batching::set_index(&view, &picks, value)
    {
        return done;
    }
    if let (Arg::S(s), true, true) = (value, picks.is_empty(), view.same(t)) {
        return fill_all(t, s);
    }
    let whole = picks.is_empty() && view.same(t) && t.base().is_none();
    let view = if whole && index.len() != 1 { cut::alias(t)? } else { view };
    // Integer tensors receive values without their history.
    let from_tracked = t.dtype().is_float() && matches!(value, Arg::T(v) if v.requires_grad());
    let tracked = grad_enabled() && (from_tracked || view.requires_grad());
    if !tracked && view.layout().may_overlap_itself() {
        if !picks.is_empty() {
            return set_picked_overlapping(&view, &picks, value);
        }
        // One value may be written several times.
        if matches!(value, Arg::S(_)) { check_filled(&view, false) } else { check_inplace(&view, false) }?;
    } else {
        check_inplace(&view, from_tracked)?;
    }
    if !picks.is_empty() {
        return set_picked(&view, &picks, value, tracked);
    }
    match value {
        Arg::S(s) if !tracked => {
            copy::fill(view.raw(), s)?;
            view.bump_version();
            Ok(())
        }
        Arg::S(s) => {
            let value = view::expand_to(&view.new_full([0usize; 0], s)?, view.shape())?;
            assign(&view, &value, "CopyBackwards")
        }
        Arg::T(v) => {
            let v = without_leading_ones(v, view.shape())?;
            if tracked {
                let plain = ModeGuard::grad(false);
                let wide = view::expand_to(&v, view.shape())?;
                drop(plain);
                return copy_tracked(&view, &v, &wide);
            }
            let value = view::expand_to(&v, view.shape())?;
            let apart = value.overlap(&view) != Overlap::Partial;
            write_untracked(&view, &if apart { value } else { super::arith::clone(&value)? })
        }
    }
}

/// `v` without leading dimensions of size 1, unless it has the right shape anyway.
fn without_leading_ones(v: &Tensor, shape: &Dims) -> Result<Tensor> {
    let extra = if v.shape() == shape { 0 } else { v.shape().iter().take_while(|&&n| n == 1).count() };
    if extra == 0 { Ok(v.clone()) } else { view::reshape_to(v, &Dims::from(&v.shape()[extra..])) }
}

/// The mask, if it is the only index and its shape broadcasts with that of `view`.
fn lone_mask(view: &Tensor, picks: &[Option<Tensor>]) -> Result<Option<Tensor>> {
    let mut given = picks.iter().enumerate().filter_map(|(d, p)| p.as_ref().map(|p| (d, p)));
    let (Some((d, mask)), None) = (given.next(), given.next()) else { return Ok(None) };
    if !is_mask(mask) || view.shape().get(d..d + mask.rank()) != Some(mask.shape()) {
        return Ok(None);
    }
    let mut shape = mask.shape().clone();
    shape.resize(view.rank() - d, 1);
    view::reshape_to(mask, &shape).map(Some)
}

/// As [`set_picked`], where several indices refer to one element; without history.
#[cold]
fn set_picked_overlapping(view: &Tensor, picks: &Picks, value: Arg) -> Result<()> {
    use overlapping::{Writer, write};
    let mask = lone_mask(view, picks)?.is_some();
    let (value, writer) = match value {
        Arg::S(s) => {
            let one_list = matches!(&picks[..], [.., Some(index)] if index.dtype() == DType::I64);
            let writer = if mask {
                Writer::MaskedFill
            } else if one_list {
                Writer::IndexFill
            } else {
                Writer::IndexPut
            };
            (view.new_full([0usize; 0], s)?, writer)
        }
        Arg::T(v) if mask && v.numel() == 1 => {
            (view.new_full([0usize; 0], v.item()?.checked(view.dtype())?)?, Writer::MaskedFill)
        }
        Arg::T(v) => (v.clone(), Writer::IndexPut),
    };
    write(view, picks, &value, false, writer)
}

/// Writes to the elements selected by index tensors and masks.
fn set_picked(view: &Tensor, picks: &Picks, value: Arg, tracked: bool) -> Result<()> {
    let mask = match value {
        Arg::T(v) if v.numel() != 1 => None,
        _ => lone_mask(view, picks)?,
    };
    if tracked {
        let (result, node) = match (value, &mask, &picks[..]) {
            (Arg::S(s), Some(mask), _) => {
                let nodes = ["MaskedFillBackward0"; 2];
                (mask::fill_where(view, mask, value, s, MemoryFormat::Contiguous, nodes)?, nodes[0])
            }
            (Arg::S(_), None, [before @ .., Some(index)])
                if index.dtype() == DType::I64 && before.iter().all(Option::is_none) =>
            {
                let index = view::reshape_to(index, &Dims::from(&[index.numel()][..]))?;
                (index_fill(view, before.len() as i64, &index, value)?, "IndexFillBackward0")
            }
            (Arg::S(s), ..) => {
                let value = view.new_full([0usize; 0], s)?;
                (advanced::index_put(view, picks, &value, false)?, "IndexPutBackward0")
            }
            (Arg::T(v), ..) => (advanced::index_put(view, picks, v, false)?, "IndexPutBackward0"),
        };
        return assign(view, &result, node);
    }
    let number = match (value, &mask) {
        (Arg::S(s), _) => Some(s),
        // A mask alone accepts a single value of any dtype; otherwise the dtypes must match.
        (Arg::T(v), Some(_)) => Some(v.item()?.checked(view.dtype())?),
        (Arg::T(_), None) => None,
    };
    let lists = picks.iter().flatten().filter(|p| mask.is_none() && !is_mask(p));
    ensure!(lists.into_iter().all(|p| view.overlap(p) == Overlap::Apart), overlap_error());
    if let (Some(mask), Some(s)) = (&mask, number)
        && view.is_contiguous()
        && mask.shape() == view.shape()
    {
        mask::fill_at(view, mask, s)?;
    } else {
        let value = match (value, number) {
            (_, Some(s)) => view.new_full([0usize; 0], s)?,
            (Arg::S(s), None) => view.new_full([0usize; 0], s)?,
            (Arg::T(v), None) => v.clone(),
        };
        advanced::index_put_untracked(view, picks, &value, false)?;
    }
    view.bump_version();
    Ok(())
}

#[cfg(test)]
mod tests;
