//! Selection by a list of indices along one dimension, and by positions in the flattened tensor.

use smallvec::{SmallVec, smallvec};

use super::mask::fill_where;
use crate::backend::index::{BoundsPolicy, Combine, IndexGrid, Pick, gather, scatter};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record};
use crate::layout::{Dims, Layout, MemoryFormat, wrap_dim};
use crate::ops::pointwise::Arg;
use crate::ops::{arith, view};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// The error for an index out of bounds.
pub(super) fn out_of_bounds<T>(i: i64, dim: usize, n: usize) -> Result<T> {
    bail!(Index, "index {i} is out of bounds for dimension {dim} with size {n}")
}

/// A list of int32 or int64 indices as dense int64.
fn listed(op: &str, index: &Tensor) -> Result<Tensor> {
    ensure!(
        matches!(index.dtype(), DType::I64 | DType::I32),
        Runtime,
        "{op}(): Expected dtype int32 or int64 for index"
    );
    index.dense(DType::I64)
}

/// The dimensions of `t` before and after `dim`, as in an [`IndexGrid`].
struct Sides {
    before: Layout,
    after: Layout,
    size: usize,
    stride: isize,
}

impl Sides {
    /// Calls `f` with the elements selected by a dense index.
    fn with<T>(
        &self,
        index: &Tensor,
        rule: BoundsPolicy,
        f: impl FnOnce(&IndexGrid) -> Result<T>,
    ) -> Result<T> {
        let picks = [Pick { index: index.raw(), size: self.size, stride: self.stride, rule }];
        f(&IndexGrid { before: &self.before, picks: &picks, n: index.numel(), after: &self.after })
    }
}

fn sides(layout: &Layout, dim: usize) -> Sides {
    if layout.rank() == 0 {
        return Sides { before: layout.clone(), after: Layout::default(), size: 1, stride: 1 };
    }
    let part = |r: std::ops::Range<usize>, offset| Layout {
        shape: layout.shape[r.clone()].into(),
        strides: layout.strides[r].into(),
        offset,
    };
    Sides {
        before: part(0..dim, layout.offset),
        after: part(dim + 1..layout.rank(), 0),
        size: layout.shape[dim],
        stride: layout.strides[dim],
    }
}

/// The shape of `t` with size `n` in `dim`; a 0-d tensor is treated as one element and keeps its shape.
fn with_size(shape: &Dims, dim: usize, n: usize) -> Dims {
    let mut out = shape.clone();
    if let Some(d) = out.get_mut(dim) {
        *d = n;
    }
    out
}

/// The slices of `dim` at the indices in `index`.
fn index_select_impl(t: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    ensure!(index.rank() <= 1, Index, "index_select(): Index is supposed to be a vector");
    let d = wrap_dim(dim, t.rank())?;
    let s = sides(t.layout(), d);
    let list = listed("index_select", index)?;
    ensure!(
        list.numel() == 0 || t.shape().get(d) != Some(&0),
        Runtime,
        "index_select(): self indexing axis dim should be positive"
    );
    ensure!(
        t.rank() > 0 || list.numel() == 1,
        Runtime,
        "index_select(): Index to scalar can have only 1 value, got {} value(s)",
        list.numel()
    );
    let out = t.new_empty(with_size(t.shape(), d, list.numel()))?;
    s.with(&list, BoundsPolicy::Listed, |l| gather(t.raw(), l, out.raw())).map_err(|e| match e {
        // PyTorch checks the indices of an empty tensor in another place.
        Error::Index(_) if t.numel() == 0 => {
            Error::Runtime(format!("INDICES element is out of DATA bounds, axis_dim={}", t.shape()[d]))
        }
        e => e,
    })?;
    record(out, &[t], |_| IndexSelect { dim: d, index: SavedTensor::input(index), shape: t.shape().clone() })
}

struct IndexSelect {
    dim: usize,
    index: SavedTensor,
    shape: Dims,
}

impl Function for IndexSelect {
    fn name(&self) -> &'static str {
        "IndexSelectBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let zeros = g.new_zeros(self.shape.clone())?;
        Ok(smallvec![Some(write_rows(zeros, self.dim, &self.index.get(cx)?, g, Combine::Add)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
        visit("self_sym_sizes", Attribute::InputShape);
    }
}

/// Combines `source` with the slices of `dim` of `out`, a new tensor without history.
fn write_rows(out: Tensor, dim: usize, index: &Tensor, source: &Tensor, how: Combine) -> Result<Tensor> {
    let s = sides(out.layout(), dim);
    let list = listed("index_add", index)?;
    let values = source.dense(out.dtype())?;
    // Invalid indices raise different errors for vectors and for rows of matrices.
    let rule =
        if out.rank() < 2 && how == Combine::Add { BoundsPolicy::Listed } else { BoundsPolicy::Along(dim) };
    s.with(&list, rule, |l| scatter(out.raw(), l, values.raw(), how))?;
    record(out, &[source], |_| WrittenRows {
        dim,
        index: SavedTensor::input(index),
        shape: source.shape().clone(),
    })
}

/// The node of operations that write slices.
struct WrittenRows {
    dim: usize,
    index: SavedTensor,
    shape: Dims,
}

impl Function for WrittenRows {
    fn name(&self) -> &'static str {
        "IndexAddBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let rows = index_select(g, self.dim as i64, &self.index.get(cx)?)?;
        Ok(smallvec![Some(view::reshape_to(&rows, &self.shape)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }
}

/// The shape without dimension `dim`, if it exists.
fn without(shape: &Dims, dim: usize) -> SmallVec<[usize; 6]> {
    shape.iter().enumerate().filter(|&(d, _)| d != dim).map(|(_, &n)| n).collect()
}

/// Checks the arguments of `index_add`; returns the wrapped dimension.
fn check_added(t: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<usize> {
    let d = wrap_dim(dim, t.rank())?;
    ensure!(
        index.rank() <= 1,
        Index,
        "index_add_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
        index.rank(),
        index.dtype().scalar_name(),
        index.shape()
    );
    ensure!(
        matches!(index.dtype(), DType::I64 | DType::I32),
        Runtime,
        "index_add_(): Expected dtype int32/int64 for index but got: {}",
        index.dtype().scalar_name()
    );
    ensure!(
        t.dtype() == source.dtype(),
        Runtime,
        "index_add_(): self ({}) and source ({}) must have the same scalar type",
        t.dtype().scalar_name(),
        source.dtype().scalar_name()
    );
    ensure!(
        d == 0 || d < source.rank(),
        Runtime,
        "index_add_(): Indexing dim {d} is out of bounds of the source tensor with dim {}",
        source.rank()
    );
    let rows = source.shape().get(d).copied().unwrap_or(1);
    ensure!(
        index.numel() == rows,
        Runtime,
        "index_add_(): Number of indices ({}) should be equal to source.size(dim): ({rows}), for dim: {d}",
        index.numel()
    );
    let fits = if t.rank() > 0 && source.rank() > 0 {
        without(t.shape(), d) == without(source.shape(), d)
    } else {
        t.shape() == source.shape()
    };
    ensure!(
        fits,
        Runtime,
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} \
         source.shape = {}",
        t.shape(),
        source.shape()
    );
    Ok(d)
}

/// Checks the arguments of `index_copy`; returns the wrapped dimension.
fn check_copied(t: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<usize> {
    let d = wrap_dim(dim, t.rank())?;
    ensure!(
        index.rank() <= 1,
        Index,
        "index_copy_(): Index should have dimension 1 or 0 (got {})",
        index.rank()
    );
    let n = index.numel();
    ensure!(
        source.rank() > 0 || n == 1,
        Index,
        "index_copy_(): When source is scalar, index should have one element (got {n})"
    );
    ensure!(
        source.rank() == t.rank() || source.rank() == 0 || t.rank() == 0,
        Index,
        "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source \
         dimensionality ({}), destination dimensionality ({})",
        source.rank(),
        t.rank()
    );
    ensure!(
        index.dtype() == DType::I64,
        Runtime,
        "index_copy_(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_name()
    );
    ensure!(
        t.dtype() == source.dtype(),
        Runtime,
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        t.dtype().scalar_name(),
        source.dtype().scalar_name()
    );
    let (to, from) = (without(t.shape(), d), without(source.shape(), d));
    let listed = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    ensure!(
        to == from,
        Runtime,
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at dimension \
         {d} and source slice shape: {} at dimension 0.",
        listed(&to),
        listed(&from)
    );
    let rows = source.shape().get(d).copied().unwrap_or(1);
    ensure!(
        n == rows,
        Index,
        "index_copy_(): Number of indices ({n}) should be equal to source.size(dim) ({rows})"
    );
    Ok(d)
}

/// `t` with `source * alpha` added to the slices of `dim` at the indices in `index`.
fn index_add_impl(t: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let d = check_added(t, dim, index, source)?;
    // PyTorch converts the factor to the dtype of the elements.
    let alpha = if t.dtype().is_float() { alpha } else { Scalar::Int(alpha.to_i64()) };
    let unit = alpha.to_f64() == 1.0;
    let scaled = if unit { source.clone() } else { arith::mul(source, alpha)? };
    let out = write_rows(t.writable()?, d, index, &scaled.detach(), Combine::Add)?;
    record(out, &[t, &scaled], |_| IndexAdd {
        dim: d,
        index: SavedTensor::input(index),
        shape: source.shape().clone(),
        alpha,
    })
}

struct IndexAdd {
    dim: usize,
    index: SavedTensor,
    shape: Dims,
    /// `source` was multiplied by this.
    alpha: Scalar,
}

impl Function for IndexAdd {
    fn name(&self) -> &'static str {
        "IndexAddBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let rows = || view::reshape_to(&index_select(g, self.dim as i64, &self.index.get(cx)?)?, &self.shape);
        Ok(smallvec![cx.needs(0).then(|| g.clone()), cx.needs(1).then(rows).transpose()?])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
        visit("alpha", Attribute::Number(self.alpha));
        visit("source_dim", Attribute::Int(self.shape.len() as i64));
    }
}

/// `t` with the slices of `dim` at the indices in `index` replaced by `source`.
fn index_copy_impl(t: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    let d = check_copied(t, dim, index, source)?;
    let out = write_rows(t.writable()?, d, index, &source.detach(), Combine::Set);
    let out = out.map_err(|e| match e {
        Error::Runtime(why) => Error::Index(format!("index_copy_(): {why}")),
        other => other,
    })?;
    record(out, &[t, source], |_| IndexCopy {
        dim: d,
        index: SavedTensor::input(index),
        shape: source.shape().clone(),
    })
}

struct IndexCopy {
    dim: usize,
    index: SavedTensor,
    shape: Dims,
}

impl Function for IndexCopy {
    fn name(&self) -> &'static str {
        "IndexCopyBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let index = self.index.get(cx)?;
        let kept = || index_fill(g, self.dim as i64, &index, Arg::S(Scalar::Int(0)));
        let rows = || view::reshape_to(&index_select(g, self.dim as i64, &index)?, &self.shape);
        Ok(smallvec![cx.needs(0).then(kept).transpose()?, cx.needs(1).then(rows).transpose()?])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }
}

/// `t` with the slices of `dim` at the indices in `index` filled with one value.
fn index_fill_impl(t: &Tensor, dim: i64, index: &Tensor, value: Arg) -> Result<Tensor> {
    let d = wrap_dim(dim, t.rank())?;
    ensure!(index.dtype() == DType::I64, Index, "index_fill_(): Expected dtype int64 for index.");
    ensure!(index.rank() <= 1, Runtime, "Index has to be a vector/scalar");
    let number = match value {
        Arg::S(s) => s.checked(t.dtype())?,
        Arg::T(v) => {
            ensure!(
                v.rank() == 0,
                Runtime,
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                v.rank()
            );
            v.item()?
        }
    };
    // Unlike in the other functions here, negative indices count from the end.
    let list = index.dense(DType::I64)?;
    let (n, size) = (list.numel(), t.shape().get(d).copied().unwrap_or(1));
    let by_value = matches!(value, Arg::T(v) if v.requires_grad());
    if n <= size && !(grad_enabled() && (t.requires_grad() || by_value)) {
        let out = t.writable()?;
        let slices = t.new_full(with_size(t.shape(), d, n), number)?;
        sides(out.layout(), d)
            .with(&list, BoundsPolicy::Dimension(d), |l| scatter(out.raw(), l, slices.raw(), Combine::Set))?;
        return out.laid_like(t);
    }
    // Filled through a mask, in which repeated indices have no effect.
    let mask = Tensor::zeros_on([size], DType::Bool, t.device())?;
    let hits = mask.new_full([n], true)?;
    sides(mask.layout(), 0)
        .with(&list, BoundsPolicy::Dimension(d), |l| scatter(mask.raw(), l, hits.raw(), Combine::Set))?;
    let along: Dims = (0..t.rank()).map(|k| if k == d { size } else { 1 }).collect();
    let mask = view::reshape_to(&mask, &along)?;
    fill_where(t, &mask, value, number, MemoryFormat::Preserve, ["IndexFillBackward0"; 2])
}

// ---- elements of the flattened tensor

/// Positions in the flattened tensor as dense int64.
fn flat(op: &str, index: &Tensor) -> Result<Tensor> {
    ensure!(
        index.dtype() == DType::I64,
        Runtime,
        "{op}(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_name()
    );
    index.dense(DType::I64)
}

/// Calls `f` with the elements at the positions of a dense index, which may be negative, in a flattened dense tensor.
fn with_flat<T>(t: &Tensor, index: &Tensor, f: impl FnOnce(&IndexGrid) -> Result<T>) -> Result<T> {
    let picks = [Pick { index: index.raw(), size: t.numel(), stride: 1, rule: BoundsPolicy::Flat }];
    let before = Layout { offset: t.layout().offset, ..Layout::default() };
    f(&IndexGrid { before: &before, picks: &picks, n: index.numel(), after: &Layout::default() })
}

/// The elements of flattened `t` at the positions `index`.
fn take_impl(t: &Tensor, index: &Tensor) -> Result<Tensor> {
    ensure!(t.numel() > 0 || index.numel() == 0, Index, "take(): tried to take from an empty tensor");
    let (positions, dense) = (flat("take", index)?, t.dense(t.dtype())?);
    let out = t.new_empty(index.shape().clone())?;
    with_flat(&dense, &positions, |l| gather(dense.raw(), l, out.raw()))?;
    record(out, &[t], |_| Take { index: SavedTensor::input(index), shape: t.shape().clone() })
}

struct Take {
    index: SavedTensor,
    shape: Dims,
}

impl Function for Take {
    fn name(&self) -> &'static str {
        "TakeBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let zeros = g.new_zeros(self.shape.clone())?.as_target()?;
        Ok(smallvec![Some(put(&zeros, &self.index.get(cx)?, g, true)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }
}

/// `t` with `source` written (or added) at the positions `index` of the flattened tensor.
fn put_impl(t: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    ensure!(
        t.dtype() == source.dtype(),
        Runtime,
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        t.dtype().scalar_name(),
        source.dtype().scalar_name()
    );
    ensure!(
        index.numel() == source.numel(),
        Runtime,
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, \
         index.numel() = {}",
        source.numel(),
        index.numel()
    );
    ensure!(
        t.numel() > 0 || index.numel() == 0,
        Index,
        "put_(): Expected self to be non-empty when index is not"
    );
    let (positions, out) = (flat("put_", index)?, t.writable()?);
    let values = source.dense(t.dtype())?;
    let how = if accumulate { Combine::Add } else { Combine::Set };
    with_flat(&out, &positions, |l| scatter(out.raw(), l, values.raw(), how))?;
    record(out, &[t, source], |_| Put {
        index: SavedTensor::input(index),
        shape: source.shape().clone(),
        accumulate,
    })
}

struct Put {
    index: SavedTensor,
    shape: Dims,
    accumulate: bool,
}

impl Function for Put {
    fn name(&self) -> &'static str {
        "PutBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let index = self.index.get(cx)?;
        let kept = || {
            if self.accumulate {
                return Ok(g.clone());
            }
            put(g, &index, &g.new_zeros(index.shape().clone())?, false)
        };
        let taken = || view::reshape_to(&take(g, &index)?, &self.shape);
        Ok(smallvec![cx.needs(0).then(kept).transpose()?, cx.needs(1).then(taken).transpose()?])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }
}

ops! {
    /// The indices of a dimension that a vector lists.
    "index_select" BOTH | OUT, out SELECTED, batch INDEX_DIM {
        pub fn index_select(input: Tensor, dim: int, index: Tensor) -> Tensor = index_select_impl;
    }
    /// The tensor with rows of `source` added to the indices of a dimension that a vector lists.
    "index_add" ALL | BY_INDEX | TARGET, out SAME, batch INDEX_DIM {
        pub fn index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor =
            index_add_impl;
    }
    /// The tensor with rows of `source` at the indices of a dimension that a vector lists.
    "index_copy" ALL | BY_INDEX | TARGET, autocast WIDEST, batch INDEX_DIM {
        pub fn index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor = index_copy_impl;
    }
    /// The tensor with one value at the indices of a dimension that a vector lists.
    "index_fill" BOTH | INPLACE | BY_INDEX | TARGET, batch INDEX_DIM {
        pub fn index_fill(input: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor = index_fill_impl;
    }
    /// The elements at positions in the tensor as one vector.
    "take" BOTH | OUT, out TAKEN {
        pub fn take(input: Tensor, index: Tensor) -> Tensor = take_impl;
    }
    /// The tensor with `source` at positions in the tensor as one vector.
    "put" BOTH | INPLACE | BY_INDEX | TARGET {
        pub fn put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor = put_impl;
    }
}
