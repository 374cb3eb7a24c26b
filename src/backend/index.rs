//! Indexing with data-dependent positions: gather and scatter by lists, along a dimension, and by masks.

use bytemuck::cast;

use super::{View, of, same_device};
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;
#[cfg(feature = "gpu")]
use crate::storage::Storage;

/// The valid range of an index, and the error for an invalid one. A GPU reports the error at the next synchronization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundsPolicy {
    /// A row number in a list; negative indices are invalid.
    Listed,
    /// An index in brackets for this dimension.
    Dimension(usize),
    /// A coordinate in this dimension, one per element; negative indices are invalid.
    Along(usize),
    /// A position in the flattened tensor.
    Flat,
}

impl BoundsPolicy {
    pub fn wraps(self) -> bool {
        matches!(self, BoundsPolicy::Dimension(_) | BoundsPolicy::Flat)
    }

    /// The normalized index, checked against `size`.
    #[inline(always)]
    pub fn position(self, index: i64, size: usize) -> Result<usize> {
        let wrapped = if index < 0 && self.wraps() { index + size as i64 } else { index };
        if wrapped < 0 || wrapped as usize >= size {
            return Err(self.error(index, size));
        }
        Ok(wrapped as usize)
    }

    #[cold]
    fn error(self, index: i64, size: usize) -> Error {
        match self {
            BoundsPolicy::Listed => Error::Index("index out of range in self".into()),
            BoundsPolicy::Dimension(dim) => {
                Error::Index(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
            }
            BoundsPolicy::Along(dim) => {
                Error::Runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
            }
            BoundsPolicy::Flat => Error::Index(format!(
                "out of range: tried to access index {index} on a tensor of {size} elements."
            )),
        }
    }
}

/// How a written value is combined with the element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    Set,
    Add,
    Mul,
    Max,
    Min,
}

impl Combine {
    /// Combines in the element type, so repeated writes round every time.
    #[inline(always)]
    pub fn apply<T: Element>(self, old: T, new: T) -> T {
        match self {
            Combine::Set => new,
            // The sum in float64, rounded, is the same number, but takes three conversions.
            Combine::Add if matches!(T::DTYPE, DType::F32) => cast(cast::<T, f32>(old) + cast::<T, f32>(new)),
            Combine::Add if T::DTYPE.is_float() => T::from_f64(old.to_f64() + new.to_f64()),
            Combine::Add => T::from_i64(old.to_i64().wrapping_add(new.to_i64())),
            _ => self.apply_rare(old, new),
        }
    }

    /// Not inlined, so that loops do not contain a copy each.
    #[inline(never)]
    fn apply_rare<T: Element>(self, old: T, new: T) -> T {
        let nan = |v: T| T::DTYPE.is_float() && v.to_f64().is_nan();
        let keeps = match self {
            Combine::Mul if T::DTYPE.is_float() => return T::from_f64(old.to_f64() * new.to_f64()),
            Combine::Mul => return T::from_i64(old.to_i64().wrapping_mul(new.to_i64())),
            Combine::Max => old > new,
            _ => old < new,
        };
        if nan(old) || keeps { old } else { new }
    }
}

/// Dense int64 indices for a dimension of the given size and stride.
#[derive(Clone, Copy)]
pub struct Pick<'a> {
    pub index: View<'a>,
    pub size: usize,
    pub stride: isize,
    pub rule: BoundsPolicy,
}

/// The elements of a tensor selected by indices. Element `[b, i, a]` is at the offset of `b` in the dimensions
/// `before`, plus the offsets of entry `i` of all picks, plus the offset of `a` in the dimensions `after` (whose own
/// storage offset is 0).
#[derive(Clone, Copy)]
pub struct IndexGrid<'a> {
    pub before: &'a Layout,
    pub picks: &'a [Pick<'a>],
    /// Number of entries in each pick.
    pub n: usize,
    pub after: &'a Layout,
}

impl IndexGrid<'_> {
    fn device_of(&self, a: View, b: View) -> Result<crate::device::Device> {
        same_device([a, b].into_iter().chain(self.picks.iter().map(|p| p.index)))
    }
}

/// Gathers the selected elements into `out`, contiguously.
pub fn gather(x: View, l: &IndexGrid, out: View) -> Result<()> {
    let mut place = None;
    let x = x.aligned(&mut place)?;
    of(l.device_of(x, out)?)?.gather(x, l, out)
}

/// Combines dense `values` with the selected elements of `x`; on the CPU in the order of the indices.
pub fn scatter(x: View, l: &IndexGrid, values: View, how: Combine) -> Result<()> {
    of(l.device_of(x, values)?)?.scatter(x, l, values, how)
}

/// The pick for one index per element along `dim` of a tensor of at least one dimension.
fn along<'a>(x: View, dim: usize, index: View<'a>) -> Pick<'a> {
    Pick { index, size: x.layout.shape[dim], stride: x.layout.strides[dim], rule: BoundsPolicy::Along(dim) }
}

/// `out[..i..] = x[..index[..i..]..]`: the dense index, with the shape of `out`, replaces the coordinate in `dim`.
pub fn gather_along(x: View, dim: usize, index: View, out: View) -> Result<()> {
    let mut place = None;
    let x = x.aligned(&mut place)?;
    let pick = along(x, dim, index);
    of(same_device([x, index, out])?)?.gather_along(x, dim, pick, out)
}

/// Combines `src` with the elements of `out` whose coordinate in `dim` is given by the dense index. `src` has the
/// shape of the index or is larger.
pub fn scatter_along(out: View, dim: usize, index: View, src: View, how: Combine) -> Result<()> {
    let mut place = None;
    let src = src.aligned(&mut place)?;
    let pick = along(out, dim, index);
    of(same_device([out, index, src])?)?.scatter_along(out, dim, pick, src, how)
}

/// Sets each row of `out` to the sum (with `by_frequency`, the mean) of the rows of dense `g` with that index; the row
/// `padding` to 0.
pub fn sum_rows(g: View, index: View, padding: Option<usize>, by_frequency: bool, out: View) -> Result<()> {
    of(same_device([g, index, out])?)?.sum_rows(g, index, padding, by_frequency, out)
}

// ---- masks

/// The true elements of a mask: on the CPU the number before each chunk, on a GPU their positions.
pub enum Found {
    Host(Vec<usize>),
    #[cfg(feature = "gpu")]
    Device(Storage, usize),
}

impl Found {
    /// The number of true elements before each chunk of a CPU mask.
    pub(super) fn starts(&self) -> &[usize] {
        match self {
            Found::Host(starts) => starts,
            #[cfg(feature = "gpu")]
            Found::Device(..) => &[],
        }
    }

    /// Calls `f` with the positions and their number.
    #[cfg(feature = "gpu")]
    pub(super) fn on_device(&self, f: impl FnOnce(&Storage, usize) -> Result<()>) -> Result<()> {
        match self {
            Found::Host(_) => Err(Error::Runtime("the mask was searched on another device".into())),
            Found::Device(positions, n) => f(positions, *n),
        }
    }

    pub fn count(&self) -> usize {
        match self {
            Found::Host(starts) => starts.last().copied().unwrap_or(0),
            #[cfg(feature = "gpu")]
            Found::Device(_, n) => *n,
        }
    }
}

/// Finds the true elements of a dense mask; synchronizes with a GPU.
pub fn find(mask: View) -> Result<Found> {
    of(mask.device())?.find(mask)
}

/// For each row of a dense int64 index the sum of the rows of dense `table` that it lists, each times its factor. False
/// if there is no kernel for it.
pub fn sum_bags(table: View, index: View, factors: Option<View>, out: View) -> Result<bool> {
    let device = same_device([table, index, out].into_iter().chain(factors))?;
    of(device)?.sum_bags(table, index, factors, out)
}

/// Adds to dense int64 `counts` how often each of its positions occurs in a dense int64 index without others. False if
/// there is no kernel for it.
pub fn bincount(index: View, counts: View) -> Result<bool> {
    of(same_device([index, counts])?)?.bincount(index, counts)
}

/// The positions of the true elements in ascending order, as int64.
pub fn positions(mask: View, found: &Found, out: View) -> Result<()> {
    of(same_device([mask, out])?)?.positions(mask, found, out)
}

/// The elements of dense `x` at which the mask is true, contiguously.
pub fn compress(x: View, mask: View, found: &Found, out: View) -> Result<()> {
    of(same_device([x, mask, out])?)?.compress(x, mask, found, out)
}

/// Writes contiguous `values` to the elements of dense `out` at which the mask is true: the inverse of [`compress`].
pub fn expand(values: View, mask: View, found: &Found, out: View) -> Result<()> {
    of(same_device([values, mask, out])?)?.expand(values, mask, found, out)
}

/// Fills the elements of dense `out` at which a dense mask of the same shape is true.
pub fn fill_masked(out: View, mask: View, value: Scalar) -> Result<()> {
    of(same_device([out, mask])?)?.fill_masked(out, mask, value)
}

/// The index, in a dimension of `size` whose elements lie `step` apart, of dense int64 positions.
pub fn unravel(positions: View, step: usize, size: usize, out: View) -> Result<()> {
    of(same_device([positions, out])?)?.unravel(positions, step, size, out)
}

/// The first of dense int64 indices that is not in `0..n`; synchronizes with a GPU.
pub fn first_outside(indices: View, n: i64) -> Result<Option<i64>> {
    of(indices.device())?.first_outside(indices, n)
}
