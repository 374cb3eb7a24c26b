//! Rearrangements that need a copy: flip, roll, repeat, and copies of views.

use smallvec::{SmallVec, smallvec};

use super::{cut, expand_to, flatten, permute, reshape_to, squeeze, squeeze_all, t_of, transpose, unsqueeze};
use crate::backend::copy;
use crate::dtype::DType;
use crate::error::{Result, warn};
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat, checked_numel, infer_shape, wrap_dim};
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, index, reduce};
use crate::storage::empty_vec;
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// `t` with the indices of `dims` reversed.
fn flip_impl(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let wrapped: SmallVec<[usize; 6]> = dims.iter().map(|&d| wrap_dim(d, t.rank())).collect::<Result<_>>()?;
    for (i, d) in wrapped.iter().enumerate() {
        ensure!(!wrapped[..i].contains(d), Runtime, "dim {d} appears multiple times in the list of dims");
    }
    let mut from = t.layout().clone();
    for &d in wrapped.iter().filter(|&&d| d < t.rank() && t.shape()[d] > 1) {
        from.offset = (from.offset as isize + (from.shape[d] as isize - 1) * from.strides[d]) as usize;
        from.strides[d] = -from.strides[d];
    }
    let out = t.empty_in(MemoryFormat::Preserve, t.dtype())?;
    copy::copy(t.with_layout(from).raw(), out.raw())?;
    record(out, &[t], |_| Flip { dims: SmallVec::from_slice(dims) })
}

struct Flip {
    dims: SmallVec<[i64; 6]>,
}

impl Function for Flip {
    fn name(&self) -> &'static str {
        "FlipBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(flip(g, &self.dims)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dims", Attribute::Ints(&self.dims));
    }
}

/// `t` with the indices of `dims` shifted cyclically by `shifts`; if no dimension is given, of the flattened tensor.
fn roll_impl(t: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    ensure!(!shifts.is_empty(), Runtime, "`shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = reshape_to(t, &Dims::from([t.numel()]))?;
        return reshape_to(&roll(&flat, shifts, &[0])?, t.shape());
    }
    ensure!(
        shifts.len() == dims.len(),
        Runtime,
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut out = t.detach();
    if t.numel() == 0 {
        return record(out.copied_in(t.layout().suggested_format(), t.dtype())?, &[t], |_| Roll {
            shifts: SmallVec::from_slice(shifts),
            dims: SmallVec::from_slice(dims),
        });
    }
    for (&shift, &dim) in shifts.iter().zip(dims) {
        ensure!(t.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
        out = roll_one(&out, shift, wrap_dim(dim, t.rank())?)?;
    }
    record(out, &[t], |_| Roll { shifts: SmallVec::from_slice(shifts), dims: SmallVec::from_slice(dims) })
}

fn roll_one(t: &Tensor, shift: i64, d: usize) -> Result<Tensor> {
    let out = t.empty_in(t.layout().suggested_format(), t.dtype())?;
    let n = t.shape()[d];
    let shift = shift.rem_euclid(n as i64) as usize;
    for (from, to, length) in [(0, shift, n - shift), (n - shift, 0, shift)] {
        let part = t.with_layout(t.layout().slice(d, from, length, 1));
        copy::copy(part.raw(), out.with_layout(out.layout().slice(d, to, length, 1)).raw())?;
    }
    Ok(out)
}

struct Roll {
    shifts: SmallVec<[i64; 6]>,
    dims: SmallVec<[i64; 6]>,
}

impl Function for Roll {
    fn name(&self) -> &'static str {
        "RollBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let back: SmallVec<[i64; 6]> = (self.shifts.iter().enumerate())
            .map(|(i, s)| {
                let dim = self.dims.get(i).and_then(|&d| wrap_dim(d, g.rank()).ok());
                let n = dim.map_or(g.numel(), |d| g.shape().get(d).copied().unwrap_or(1));
                -(s % n.max(1) as i64)
            })
            .collect();
        Ok(smallvec![Some(roll(g, &back, &self.dims)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("shifts", Attribute::Ints(&self.shifts));
        visit("dims", Attribute::Ints(&self.dims));
    }
}

/// `t` rotated by multiples of 90° in the plane of two dimensions, from the first toward the second.
fn rot90(t: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let rank = t.rank();
    ensure!(dims.len() == 2, Runtime, "expected total rotation dims == 2, but got dims = {}", dims.len());
    ensure!(rank >= 2, Runtime, "expected total dims >= 2, but got total dims = {rank}");
    let n = rank as i64;
    ensure!(
        dims[0] != dims[1] && dims[0].abs_diff(dims[1]) != rank as u64,
        Runtime,
        "expected rotation dims to be different, but got dim0 = {} and dim1 = {}",
        dims[0],
        dims[1]
    );
    for (i, &d) in dims.iter().enumerate() {
        ensure!(d < n && d >= -n, Runtime, "Rotation dim{i} out of range, dim{i} = {d}");
    }
    match k.rem_euclid(4) {
        1 => transpose(&flip(t, &dims[1..])?, dims[0], dims[1]),
        2 => flip(t, dims),
        3 => transpose(&flip(t, &dims[..1])?, dims[0], dims[1]),
        _ => arith::clone(t),
    }
}

/// `t` repeated `repeats[d]` times along each dimension; more repeats than dimensions add leading ones.
fn repeat_impl(t: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    ensure!(
        repeats.len() >= t.rank(),
        Runtime,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    if let Some(r) = repeats.iter().find(|&&r| r < 0) {
        bail!(Runtime, "Trying to create tensor with negative dimension {r}: {repeats:?}");
    }
    let lead = repeats.len() - t.rank();
    // Source and result are viewed as [times, size, times, size, ...]; the source has stride 0 along `times`.
    let (mut whole, mut interleaved) = (Dims::default(), Dims::default());
    let mut from = Layout { offset: t.layout().offset, ..Layout::default() };
    for (d, &times) in repeats.iter().enumerate() {
        let (n, stride) = if d < lead { (1, 0) } else { (t.shape()[d - lead], t.strides()[d - lead]) };
        whole.push(n.saturating_mul(times as usize));
        for (n, stride) in [(times as usize, 0), (n, stride)] {
            interleaved.push(n);
            from.shape.push(n);
            from.strides.push(stride);
        }
    }
    // Without repetitions the result is empty, and sizes are otherwise unchecked.
    checked_numel(&interleaved)?;
    let out = t.new_empty(whole)?;
    let to = Layout::contiguous(interleaved.clone());
    copy::copy(t.with_layout(from).raw(), out.with_layout(to).raw())?;
    record(out, &[t], |_| Repeat { shape: t.shape().clone(), interleaved })
}

struct Repeat {
    shape: Dims,
    interleaved: Dims,
}

impl Function for Repeat {
    fn name(&self) -> &'static str {
        "RepeatBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let g = reshape_to(g, &self.interleaved)?;
        let times = (0..self.interleaved.len()).step_by(2).fold(0, |mask, d| mask | 1 << d);
        let sum = reduce::sum_mask(&g, times, false, Some(g.dtype()))?;
        Ok(smallvec![Some(reshape_to(&sum, &self.shape)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        let repeats: SmallVec<[usize; 6]> = self.interleaved.iter().step_by(2).copied().collect();
        visit("repeats", Attribute::Sizes(&repeats));
        visit("self_sym_sizes", Attribute::InputShape);
    }
}

fn tile(a: &Args) -> Result<Out> {
    let (t, dims) = (a.tensor(0)?, a.ints(1)?);
    let missing = t.rank().saturating_sub(dims.len());
    let repeats: SmallVec<[i64; 6]> = (0..missing).map(|_| 1).chain(dims.iter().copied()).collect();
    Ok(repeat(t, &repeats)?.into())
}

/// Repeats each index of `dim` (or of the flattened tensor if None) `times` times in a row.
fn repeat_each(t: &Tensor, times: i64, dim: Option<i64>) -> Result<Tensor> {
    ensure!(times >= 0, Runtime, "Repeats must be non-negative");
    let (t, dim) = match dim {
        Some(d) => (t.clone(), wrap_dim(d, t.rank())?),
        None => (flatten(t, 0, -1)?, 0),
    };
    let t = super::atleast_1d(&t)?;
    let mut shape = t.shape().clone();
    shape.insert(dim + 1, times as usize);
    let wide = expand_to(&unsqueeze(&t, dim as i64 + 1)?, &shape)?;
    let out = arith::clone_in(&wide, MemoryFormat::Contiguous)?;
    let mut merged = t.shape().clone();
    merged[dim] *= times as usize;
    reshape_to(&out, &merged)
}

/// Index `i` repeated `repeats[i]` times, for each `i` in order.
fn repeated_indices(repeats: &Tensor) -> Result<Tensor> {
    ensure!(
        repeats.rank() <= 1 && matches!(repeats.dtype(), DType::I64 | DType::I32),
        Runtime,
        "repeat_interleave only accept 1D vector as repeat"
    );
    // The shape of the result depends on the values, so this synchronizes with a GPU.
    let counts = repeats.values::<i64>()?;
    ensure!(counts.iter().all(|&n| n >= 0), Runtime, "repeats can not be negative");
    let total = counts.iter().fold(0usize, |sum, &n| sum.saturating_add(n as usize));
    let mut indices = empty_vec(total)?;
    for (i, &n) in counts.iter().enumerate() {
        indices.resize(indices.len() + n as usize, i as i64);
    }
    Tensor::from_slice(&indices, [total])?.on_device(repeats.device())
}

fn repeat_interleave_by_tensor(a: &Args) -> Result<Out> {
    let (t, repeats, dim) = (a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?);
    ensure!(repeats.rank() <= 1, Runtime, "repeats must be 0-dim or 1-dim tensor");
    if repeats.numel() == 1 {
        return Ok(repeat_each(t, repeats.item()?.to_i64(), dim)?.into());
    }
    let (t, dim) = match dim {
        Some(d) => (t.clone(), wrap_dim(d, t.rank())?),
        None => (flatten(t, 0, -1)?, 0),
    };
    let n = t.shape().get(dim).copied().unwrap_or(1);
    ensure!(
        repeats.numel() == n,
        Runtime,
        "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({dim}) = {n}",
        repeats.numel()
    );
    Ok(index::index_select(&t, dim as i64, &repeated_indices(repeats)?)?.into())
}

/// Coordinate grids: one tensor per input, each with the shape of the grid.
fn meshgrid(tensors: &[Tensor], indexing: Option<&str>) -> Result<Vec<Tensor>> {
    ensure!(!tensors.is_empty(), Runtime, "meshgrid expects a non-empty TensorList");
    if indexing.is_none() {
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")?;
    }
    let indexing = indexing.unwrap_or("ij");
    let swaps = match indexing {
        "ij" => false,
        "xy" => tensors.len() >= 2,
        _ => bail!(
            Runtime,
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {indexing}"
        ),
    };
    for t in tensors {
        ensure!(
            t.rank() <= 1,
            Runtime,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t:?}"
        );
        ensure!(
            t.dtype() == tensors[0].dtype(),
            Runtime,
            "torch.meshgrid expects all tensors to have the same dtype"
        );
        ensure!(
            t.device() == tensors[0].device(),
            Runtime,
            "torch.meshgrid expects all tensors to have the same device"
        );
    }
    let place = |i: usize| if swaps && i < 2 { 1 - i } else { i };
    let shape: Dims = (0..tensors.len()).map(|d| tensors[place(d)].numel()).collect();
    let grid = |(i, t): (usize, &Tensor)| {
        let mut along: Dims = shape.iter().map(|_| 1).collect();
        along[place(i)] = t.numel();
        expand_to(&reshape_to(t, &along)?, &shape)
    };
    tensors.iter().enumerate().map(grid).collect()
}

/// The Cartesian product of vectors, as rows.
fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    for t in tensors {
        ensure!(t.rank() == 1, Runtime, "Expect a 1D vector, but got shape {}", t.shape());
    }
    if let [only] = tensors {
        return Ok(only.clone());
    }
    let columns: Vec<Tensor> =
        meshgrid(tensors, Some("ij"))?.iter().map(|t| flatten(t, 0, -1)).collect::<Result<_>>()?;
    crate::ops::join::stack(&columns, 1)
}

/// A copy of a view's elements.
fn copied(view: Result<Tensor>) -> Result<Out> {
    Ok(arith::clone_in(&view?, MemoryFormat::Contiguous)?.into())
}

ops! {
    /// A copy with the order of the indices of `dims` reversed.
    "flip" BOTH, batch DIMS {
        pub fn flip(input: Tensor, dims: size) -> Tensor = flip_impl;
    }
    /// A copy with the columns reversed.
    "fliplr" BOTH, batch PARTS {
        (input: Tensor) => |a| {
            ensure!(a.tensor(0)?.rank() >= 2, Runtime, "Input must be >= 2-d.");
            Ok(flip(a.tensor(0)?, &[1])?.into())
        };
    }
    /// A copy with the rows reversed.
    "flipud" BOTH, batch PARTS {
        (input: Tensor) => |a| {
            ensure!(a.tensor(0)?.rank() >= 1, Runtime, "Input must be >= 1-d.");
            Ok(flip(a.tensor(0)?, &[0])?.into())
        };
    }
    /// A copy with indices moved on by `shifts`, those that leave the end coming back at the start.
    "roll" BOTH, batch ROLL {
        (input: Tensor, shifts: int[], dims: int[]? = None) =>
            |a| Ok(roll(a.tensor(0)?, a.ints(1)?, a.opt_ints(2)?.unwrap_or(&[]))?.into());
        /// As `roll`.
        pub fn roll(t: &Tensor, shifts: &[i64], dims: &[i64]) -> Tensor as (t, shifts, dims) = roll_impl;
    }
    /// A copy turned by `k` quarter turns in the plane of two dimensions.
    "rot90" BOTH, batch PARTS {
        (input: Tensor, k: int = 1, dims: size = [0, 1]) =>
            |a| Ok(rot90(a.tensor(0)?, a.int(1)?, a.ints(2)?)?.into());
    }
    /// The tensor repeated along each dimension.
    "repeat" METHOD, batch SIZES {
        pub fn repeat(input: Tensor, repeats: size) -> Tensor = repeat_impl;
    }
    /// The tensor repeated along its last dimensions.
    "tile" BOTH, batch SIZES {
        (input: Tensor, dims: size) => tile;
    }
    /// Each index of a dimension repeated in place.
    "repeat_interleave" BOTH {
        (input: Tensor, repeats: int, dim: int? = None, *, output_size: int? = None) =>
            |a| Ok(repeat_each(a.tensor(0)?, a.int(1)?, a.opt_int(2)?)?.into());
        (input: Tensor, repeats: Tensor, dim: int? = None, *, output_size: int? = None) =>
            repeat_interleave_by_tensor;
        (repeats: Tensor, *, output_size: int? = None) => |a| Ok(repeated_indices(a.tensor(0)?)?.into());
    }
    /// One tensor per input, each with the shape of the grid that all span.
    "meshgrid" FUNCTION, batch PARTS {
        (tensors: Tensor*, *, indexing: str? = None) -> Tensor[] =>
            |a| Ok(Out::Tuple(meshgrid(a.tensors(0)?, a.opt_str(1)?)?));
    }
    /// All combinations of one element per tensor, as rows.
    "cartesian_prod" FUNCTION, batch PARTS {
        (tensors: Tensor*) => |a| Ok(cartesian_prod(a.tensors(0)?)?.into());
    }
    /// A copy with the dimensions in another order.
    "permute_copy" FUNCTION | OUT, batch ALL_DIMS {
        (input: Tensor, dims: size) => |a| copied(permute(a.tensor(0)?, a.ints(1)?));
    }
    /// A copy with two dimensions swapped.
    "transpose_copy" FUNCTION | OUT, batch DIMS {
        (input: Tensor, dim0: int, dim1: int) => |a| copied(transpose(a.tensor(0)?, a.int(1)?, a.int(2)?));
    }
    /// A copy of a matrix, transposed.
    "t_copy" FUNCTION | OUT, batch ALL_DIMS {
        (input: Tensor) => |a| copied(t_of(a.tensor(0)?));
    }
    /// A copy without dimensions of size 1.
    "squeeze_copy" FUNCTION | OUT, batch SQUEEZE {
        (input: Tensor) => |a| copied(squeeze_all(a.tensor(0)?));
        (input: Tensor, dim: int) => |a| copied(squeeze(a.tensor(0)?, &[a.int(1)?]));
        (input: Tensor, dim: int[]) => |a| copied(squeeze(a.tensor(0)?, a.ints(1)?));
    }
    /// A copy with a new dimension of size 1.
    "unsqueeze_copy" FUNCTION | OUT, batch DIMS {
        (input: Tensor, dim: int) => |a| copied(unsqueeze(a.tensor(0)?, a.int(1)?));
    }
    /// A copy in another shape.
    "view_copy" FUNCTION | OUT, batch SIZES {
        (input: Tensor, size: size) => |a| {
            let t = a.tensor(0)?;
            copied(reshape_to(t, &infer_shape(a.ints(1)?, t.numel())?))
        };
        (input: Tensor, dtype: dtype) => |a| copied(super::view_dtype(a.tensor(0)?, a.dtype(1)?));
    }
    /// A copy repeated over dimensions of size 1 and new leading ones.
    "expand_copy" FUNCTION | OUT, batch SIZES {
        (input: Tensor, size: size, *, implicit: bool = False) => |a| copied(super::expand(a.tensor(0)?, a.ints(1)?));
    }
    /// A copy of a diagonal of two dimensions.
    "diagonal_copy" FUNCTION | OUT, batch DIMS {
        (input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) =>
            |a| copied(cut::diagonal(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?));
    }
    /// A copy of windows of `size` indices of a dimension, `step` apart.
    "unfold_copy" FUNCTION | OUT, batch DIMS {
        (input: Tensor, dimension: int, size: int, step: int) =>
            |a| copied(cut::unfold(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?));
    }
    /// A copy of what `as_strided` shows.
    "as_strided_copy" FUNCTION | OUT, batch AS_STRIDED {
        (input: Tensor, size: size, stride: size, storage_offset: int? = None) =>
            |a| copied(super::as_strided(a.tensor(0)?, a.ints(1)?, a.ints(2)?, a.opt_int(3)?));
    }
    /// A copy of the tensor.
    "alias_copy" FUNCTION | OUT, batch LEADING {
        (input: Tensor) => |a| copied(Ok(a.tensor(0)?.clone()));
    }
}
