//! Views of a part of a tensor: one index, a slice, a diagonal, sliding windows. Each is a [`Cut`], which determines
//! the layout, the backward (the gradient placed in zeros), and the `_scatter` form (a copy with that part replaced).

use smallvec::smallvec;

use super::{reshape_to, reshaped};
use crate::backend::copy;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat, checked_numel, wrap_dim};
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, interpreter, rows};
use crate::tensor::{Tensor, as_view};
use crate::{bail, ensure, ops};

/// The part of a tensor that a view selects.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Select { dim: usize, index: usize },
    Slice { dim: usize, start: usize, length: usize, step: usize },
    Diagonal { offset: i64, dim1: usize, dim2: usize },
    Unfold { dim: usize, size: usize, step: usize },
}

impl Cut {
    /// The same part of each of several tensors, which are joined in `n` dimensions in front.
    fn behind(self, n: usize) -> Cut {
        match self {
            Cut::Select { dim, index } => Cut::Select { dim: dim + n, index },
            Cut::Slice { dim, start, length, step } => Cut::Slice { dim: dim + n, start, length, step },
            Cut::Diagonal { offset, dim1, dim2 } => Cut::Diagonal { offset, dim1: dim1 + n, dim2: dim2 + n },
            Cut::Unfold { dim, size, step } => Cut::Unfold { dim: dim + n, size, step },
        }
    }

    /// The layout of the part, given the layout of the whole.
    #[inline]
    pub fn layout(self, whole: &Layout) -> Layout {
        match self {
            Cut::Select { dim, index } => whole.select(dim, index),
            Cut::Slice { dim, start, length, step } => whole.slice(dim, start, length, step),
            Cut::Diagonal { offset, dim1, dim2 } => diagonal_layout(whole, offset, dim1, dim2),
            Cut::Unfold { dim, size, step } => unfold_layout(whole, dim, size, step),
        }
    }

    fn node(self) -> &'static str {
        match self {
            Cut::Select { .. } => "SelectBackward0",
            Cut::Slice { .. } => "SliceBackward0",
            Cut::Diagonal { .. } => "DiagonalBackward0",
            Cut::Unfold { .. } => "UnfoldBackward0",
        }
    }

    fn scatter_node(self) -> &'static str {
        match self {
            Cut::Select { .. } => "SelectScatterBackward0",
            Cut::Slice { .. } => "SliceScatterBackward0",
            Cut::Diagonal { .. } => "DiagonalScatterBackward0",
            Cut::Unfold { .. } => "UnfoldScatterBackward0",
        }
    }
}

fn diagonal_layout(whole: &Layout, offset: i64, dim1: usize, dim2: usize) -> Layout {
    let (n1, n2) = (whole.shape[dim1] as i64, whole.shape[dim2] as i64);
    let length =
        (if offset >= 0 { n1.min(n2 - offset) } else { n2.min(n1.saturating_add(offset)) }).max(0) as usize;
    let mut out = whole.clone();
    if length > 0 {
        let along = if offset >= 0 { whole.strides[dim2] } else { whole.strides[dim1] };
        let first = (offset.unsigned_abs() as isize).saturating_mul(along);
        out.offset = (whole.offset as isize).saturating_add(first).max(0) as usize;
    }
    let step = whole.strides[dim1].saturating_add(whole.strides[dim2]);
    for d in [dim1.max(dim2), dim1.min(dim2)] {
        out.shape.remove(d);
        out.strides.remove(d);
    }
    out.shape.push(length);
    out.strides.push(step);
    out
}

fn unfold_layout(whole: &Layout, dim: usize, size: usize, step: usize) -> Layout {
    let mut out = whole.clone();
    if whole.rank() == 0 {
        out.shape.push(size);
        out.strides.push(1);
        return out;
    }
    let stride = whole.strides[dim];
    out.shape[dim] = (whole.shape[dim] - size) / step + 1;
    out.strides[dim] = stride.saturating_mul(step as isize);
    out.shape.push(size);
    out.strides.push(stride);
    out
}

/// The node of a view of a part.
struct CutBackward {
    cut: Cut,
    shape: Dims,
}

impl Function for CutBackward {
    fn name(&self) -> &'static str {
        self.cut.node()
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(put_back(g, self.cut, &self.shape)?)])
    }

    fn add_to(&self, grad: &Tensor, sum: &Tensor) -> Result<bool> {
        let part = sum.with_layout(self.cut.layout(sum.layout()));
        if part.layout().may_overlap_itself() {
            return Ok(false);
        }
        rows::add.call_inplace(&[(&part).into(), grad.into()], &[])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
        let mut int = |name, n: i64| visit(name, Attribute::Int(n));
        match self.cut {
            Cut::Select { dim, index } => {
                int("dim", dim as i64);
                int("index", index as i64);
            }
            Cut::Slice { dim, start, length, step } => {
                int("dim", dim as i64);
                int("start", start as i64);
                int("end", (start + length.saturating_sub(1) * step + length.min(1)) as i64);
                int("step", step as i64);
            }
            Cut::Diagonal { offset, dim1, dim2 } => {
                int("offset", offset);
                int("dim1", dim1 as i64);
                int("dim2", dim2 as i64);
            }
            Cut::Unfold { dim, size, step } => {
                int("dimension", dim as i64);
                int("size", size as i64);
                int("step", step as i64);
            }
        }
    }
}

/// The part of `t` that `cut` names, as a view. Interpreters see the corresponding operation; the table has none for a
/// slice with a step.
#[inline]
pub fn take(t: &Tensor, cut: Cut) -> Result<Tensor> {
    if interpreter::active() { take_seen(t, cut) } else { taken(t, cut) }
}

#[cold]
fn take_seen(t: &Tensor, cut: Cut) -> Result<Tensor> {
    match cut {
        Cut::Select { dim, index } => select(t, dim as i64, index as i64),
        Cut::Slice { dim, start, length, step: 1 } => narrow(t, dim as i64, start as i64, length as i64),
        Cut::Diagonal { offset, dim1, dim2 } => diagonal(t, offset, dim1 as i64, dim2 as i64),
        Cut::Unfold { dim, size, step } => unfold(t, dim as i64, size as i64, step as i64),
        Cut::Slice { .. } => match t.batch() {
            Some(batch) => {
                let part = taken(batch.value(), cut.behind(batch.levels().len()))?;
                Tensor::batched_over(part, batch.levels().into())
            }
            None => taken(t, cut),
        },
    }
}

#[inline]
fn taken(t: &Tensor, cut: Cut) -> Result<Tensor> {
    as_view(t, cut.layout(t.layout()), || CutBackward { cut, shape: t.shape().clone() })
}

/// Zeros of the given shape with `part` at the position `cut`; overlapping windows are summed.
pub fn put_back(part: &Tensor, cut: Cut, shape: &Dims) -> Result<Tensor> {
    if let Some(batch) = part.batch() {
        let n = batch.levels().len();
        let whole: Dims = batch.value().shape()[..n].iter().chain(shape.iter()).copied().collect();
        // A tensor without dimensions has one window, of one element.
        let out = if shape.is_empty() {
            reshape_to(batch.value(), &whole)?
        } else {
            put_back(batch.value(), cut.behind(n), &whole)?
        };
        return Tensor::batched_over(out, batch.levels().into());
    }
    let out = part.new_zeros(shape.clone())?;
    let target = out.with_layout(cut.layout(out.layout()));
    if target.layout().may_overlap_itself() {
        copy::accumulate(part.raw(), target.raw())?;
    } else {
        copy::copy(part.raw(), target.raw())?;
    }
    record(out, &[part], |_| PutBack { cut })
}

struct PutBack {
    cut: Cut,
}

impl Function for PutBack {
    fn name(&self) -> &'static str {
        match self.cut {
            Cut::Select { .. } => "SelectBackwardBackward0",
            Cut::Slice { .. } => "SliceBackwardBackward0",
            Cut::Diagonal { .. } => "DiagonalBackwardBackward0",
            Cut::Unfold { .. } => "UnfoldBackwardBackward0",
        }
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(take(g, self.cut)?)])
    }
}

/// A copy of `t` with the part `cut` replaced by `src`.
pub fn replace(t: &Tensor, src: &Tensor, cut: Cut) -> Result<Tensor> {
    let out = t.copied(t.dtype())?;
    let target = out.with_layout(cut.layout(out.layout()));
    copy::copy(src.raw(), target.raw())?;
    record(out, &[t, src], |_| Replace { cut })
}

struct Replace {
    cut: Cut,
}

impl Function for Replace {
    fn name(&self) -> &'static str {
        self.cut.scatter_node()
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let part = take(g, self.cut)?;
        let kept = || replace(g, &g.new_zeros(part.shape().clone())?, self.cut);
        let kept = cx.needs(0).then(kept).transpose()?;
        Ok(smallvec![kept, cx.needs(1).then_some(part)])
    }
}

/// Index `index` of `dim`, which may be negative.
fn select_impl(t: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    taken(t, select_cut(t, dim, index)?)
}

fn select_cut(t: &Tensor, dim: i64, index: i64) -> Result<Cut> {
    ensure!(t.rank() > 0, Index, "select() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, t.rank())?;
    let n = t.shape()[d] as i64;
    ensure!(
        index >= -n && index < n,
        Index,
        "select(): index {index} out of range for tensor of size {} at dimension {dim}",
        t.shape()
    );
    Ok(Cut::Select { dim: d, index: index.rem_euclid(n.max(1)) as usize })
}

/// The start and length of the slice `start:end:step` of a dimension of size `n`, with Python's clamping.
pub fn slice_range(n: usize, start: Option<i64>, end: Option<i64>, step: i64) -> (usize, usize) {
    let n = n as i64;
    let wrap = |i: i64| (if i < 0 { i.saturating_add(n) } else { i }).clamp(0, n);
    let start = wrap(start.unwrap_or(0));
    let end = wrap(end.unwrap_or(n)).max(start);
    (start as usize, ((end - start) as u64).div_ceil(step.max(1) as u64) as usize)
}

fn slice_cut(t: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Cut> {
    ensure!(t.rank() > 0, Runtime, "slice() cannot be applied to a 0-dim tensor.");
    ensure!(step > 0, Runtime, "slice step must be positive");
    let d = wrap_dim(dim, t.rank())?;
    let (start, length) = slice_range(t.shape()[d], start, end, step);
    Ok(Cut::Slice { dim: d, start, length, step: step as usize })
}

/// `length` indices of `dim` from `start`.
fn narrow_impl(t: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    ensure!(t.rank() > 0, Runtime, "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(length >= 0, Runtime, "narrow(): length must be non-negative.");
    let d = wrap_dim(dim, t.rank())?;
    let n = t.shape()[d] as i64;
    ensure!(
        start >= -n && start <= n,
        Index,
        "start out of range (expected to be in range of [{}, {n}], but got {start})",
        -n
    );
    let start = if start < 0 { start + n } else { start };
    ensure!(
        start <= n - length,
        Runtime,
        "start ({start}) + length ({length}) exceeds dimension size ({n})."
    );
    taken(t, Cut::Slice { dim: d, start: start as usize, length: length as usize, step: 1 })
}

fn diagonal_cut(t: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Cut> {
    let (a, b) = (wrap_dim(dim1, t.rank())?, wrap_dim(dim2, t.rank())?);
    ensure!(a != b, Runtime, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    Ok(Cut::Diagonal { offset, dim1: a, dim2: b })
}

/// A diagonal over two dimensions, as the last dimension of a view.
fn diagonal_impl(t: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    taken(t, diagonal_cut(t, offset, dim1, dim2)?)
}

/// Windows of `size` indices of `dim` at distance `step`; the position within the window is the last dimension.
fn unfold_impl(t: &Tensor, dim: i64, size: i64, step: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, t.rank())?;
    let n = if t.rank() == 0 { 1 } else { t.shape()[d] as i64 };
    ensure!(size >= 0, Runtime, "size is {size} but must be >= 0");
    ensure!(size <= n, Runtime, "maximum size for tensor at dimension {d} is {n} but size is {size}");
    ensure!(step > 0, Runtime, "step is {step} but must be > 0");
    let cut = Cut::Unfold { dim: d, size: size as usize, step: step as usize };
    checked_numel(&cut.layout(t.layout()).shape)?;
    taken(t, cut)
}

fn narrow_from_tensor(a: &Args) -> Result<Out> {
    let start = a.tensor(2)?;
    ensure!(start.rank() == 0 && start.dtype().is_int(), Runtime, "start must be an 0-dim integral Tensor.");
    Ok(narrow(a.tensor(0)?, a.int(1)?, start.item()?.to_i64(), a.int(3)?)?.into())
}

/// Checks that `src` has the shape of the part that it replaces.
fn check_part(src: &Tensor, part: &Dims, what: &str) -> Result<()> {
    ensure!(
        src.shape() == part,
        Runtime,
        "expected src to have a size equal to the {what} of self. src size = {}, {what} size = {part}",
        src.shape()
    );
    Ok(())
}

fn scatter(t: &Tensor, src: &Tensor, cut: Cut, what: &str) -> Result<Out> {
    check_part(src, &cut.layout(t.layout()).shape, what)?;
    let src = arith::to_dtype(src, t.dtype())?;
    Ok(replace(t, &src, cut)?.into())
}

fn slice_scatter(a: &Args) -> Result<Out> {
    let (t, src) = (a.tensor(0)?, a.tensor(1)?);
    let cut = slice_cut(t, a.int(2)?, a.opt_int(3)?, a.opt_int(4)?, a.int(5)?)?;
    let part = cut.layout(t.layout()).shape;
    let src = if src.shape() == &part { src.clone() } else { super::expand_to(src, &part)? };
    scatter(t, &src, cut, "slice")
}

/// The diagonal of a matrix as a view, or a matrix with the vector as a diagonal.
fn diag(a: &Args) -> Result<Out> {
    let (t, offset) = (a.tensor(0)?, a.int(1)?);
    Ok(match t.rank() {
        1 => diag_embed(t, offset, 0, 1)?,
        2 => arith::clone_in(&diagonal(t, offset, 0, 1)?, MemoryFormat::Contiguous)?,
        r => bail!(Runtime, "diag(): Supports 1D or 2D tensors. Got {r}D"),
    }
    .into())
}

/// Zeros with the last dimension of `t` as a diagonal over two new dimensions.
fn diag_embed_impl(t: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    ensure!(t.rank() > 0, Error::DimRange { dim: -1, rank: 0 });
    let rank = t.rank() + 1;
    let (a, b) = (wrap_dim(dim1, rank)?, wrap_dim(dim2, rank)?);
    ensure!(a != b, Runtime, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let n = t.shape()[t.rank() - 1].saturating_add(offset.unsigned_abs() as usize);
    let mut rest = t.shape()[..t.rank() - 1].iter().copied();
    let shape: Dims =
        (0..rank).map(|d| if d == a || d == b { n } else { rest.next().unwrap_or(1) }).collect();
    let cut = Cut::Diagonal { offset, dim1: a, dim2: b };
    let out = t.new_zeros(shape)?;
    copy::copy(t.raw(), out.with_layout(cut.layout(out.layout())).raw())?;
    record(out, &[t], |_| DiagEmbed { cut })
}

struct DiagEmbed {
    cut: Cut,
}

impl Function for DiagEmbed {
    fn name(&self) -> &'static str {
        "DiagEmbedBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(take(g, self.cut)?)])
    }
}

fn diagflat(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let flat = super::reshape_to(t, &Dims::from([t.numel()]))?;
    Ok(diag_embed(&flat, a.int(1)?, 0, 1)?.into())
}

/// A new view with the same layout.
pub fn alias(t: &Tensor) -> Result<Tensor> {
    if interpreter::active()
        && let Some(batch) = t.batch()
    {
        return Tensor::batched_over(alias(batch.value())?, batch.levels().into());
    }
    reshaped(t, t.layout().clone(), "AliasBackward0")
}

ops! {
    /// A view at one index of a dimension.
    "select" BOTH, batch DIMS {
        pub fn select(input: Tensor, dim: int, index: int) -> Tensor = select_impl;
    }
    /// A view of `length` indices of a dimension from `start`.
    "narrow" BOTH, batch DIMS {
        (input: Tensor, dim: int, start: Tensor, length: int) => narrow_from_tensor;
        pub fn narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor = narrow_impl;
    }
    /// A copy of `length` indices of a dimension from `start`.
    "narrow_copy" BOTH | OUT, batch DIMS {
        (input: Tensor, dim: int, start: int, length: int) => |a| {
            let rank = a.tensor(0)?.rank() as i64;
            ensure!(a.int(1)? < rank, Runtime, "Expected dim < {rank} to be true, but got dim = {}", a.int(1)?);
            Ok(arith::clone_in(&narrow(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?)?, MemoryFormat::Contiguous)?.into())
        };
    }
    /// A diagonal of two dimensions, as the last dimension of a view.
    "diagonal" BOTH, batch DIMS {
        pub fn diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor = diagonal_impl;
    }
    /// A diagonal of two dimensions, as the last dimension of a view.
    "diagonal" LINALG, batch DIMS {
        (input: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) =>
            |a| Ok(diagonal(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?)?.into());
    }
    /// Windows of `size` indices of a dimension, `step` apart, as a view with one more dimension.
    "unfold" METHOD, batch DIMS {
        pub fn unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor = unfold_impl;
    }
    /// A copy with `src` at one index of a dimension.
    "select_scatter" BOTH, batch PART {
        (input: Tensor, src: Tensor, dim: int, index: int) =>
            |a| scatter(a.tensor(0)?, a.tensor(1)?, select_cut(a.tensor(0)?, a.int(2)?, a.int(3)?)?, "slice");
    }
    /// A copy with `src` in place of a slice.
    "slice_scatter" BOTH | OUT, batch PART {
        (input: Tensor, src: Tensor, dim: int = 0, start: int? = None, end: int? = None, step: int = 1) =>
            slice_scatter;
    }
    /// A copy with `src` on a diagonal.
    "diagonal_scatter" BOTH, batch PART {
        (input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) =>
            |a| scatter(a.tensor(0)?, a.tensor(1)?, diagonal_cut(a.tensor(0)?, a.int(2)?, a.int(3)?, a.int(4)?)?, "slice");
    }
    /// The diagonal of a matrix, or a matrix with the vector on a diagonal.
    "diag" BOTH | OUT, batch PARTS {
        (input: Tensor, diagonal: int = 0) => diag;
    }
    /// Zeros with the last dimension as a diagonal of two new dimensions.
    "diag_embed" BOTH, batch DIMS {
        pub fn diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor = diag_embed_impl;
    }
    /// A matrix with all elements on a diagonal.
    "diagflat" BOTH, batch PARTS {
        (input: Tensor, offset: int = 0) => diagflat;
    }
}
