//! Elements at positions that data decide: rows picked by lists, indices along a dimension, masks.

use super::{View, of, same_device};
use crate::dtype::{Element, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;
#[cfg(feature = "gpu")]
use crate::storage::Storage;

/// What an index may be, and which error tells that it is not. On a GPU that is an error of the next call that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundsPolicy {
    /// A row of a list that does not count from the end.
    Listed,
    /// An index between brackets, of this dimension.
    Dimension(usize),
    /// A position in a dimension, one per element; does not count from the end.
    Along(usize),
    /// A position in a whole tensor.
    Flat,
}

impl BoundsPolicy {
    pub fn wraps(self) -> bool {
        matches!(self, BoundsPolicy::Dimension(_) | BoundsPolicy::Flat)
    }

    /// The position that an index names.
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

/// How a value meets the element that it is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    Set,
    Add,
    Mul,
    Max,
    Min,
}

impl Combine {
    /// Combines in the element's own type: what is written repeatedly is rounded each time.
    #[inline(always)]
    pub fn apply<T: Element>(self, old: T, new: T) -> T {
        match self {
            Combine::Set => new,
            Combine::Add if T::DTYPE.is_float() => T::from_f64(old.to_f64() + new.to_f64()),
            Combine::Add => T::from_i64(old.to_i64().wrapping_add(new.to_i64())),
            _ => self.apply_rare(old, new),
        }
    }

    /// Out of line, so that no loop is compiled for each.
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

/// Dense int64 indices of a dimension of some size and stride.
#[derive(Clone, Copy)]
pub struct Pick<'a> {
    pub index: View<'a>,
    pub size: usize,
    pub stride: isize,
    pub rule: BoundsPolicy,
}

/// The elements of a tensor that indices pick. Position `[b, i, a]` lies where `b` points in the dimensions `before`,
/// moved by what entry `i` of every pick says, moved by where `a` points in the dimensions `after`, whose own offset
/// is 0.
#[derive(Clone, Copy)]
pub struct IndexGrid<'a> {
    pub before: &'a Layout,
    pub picks: &'a [Pick<'a>],
    /// Entries of each pick.
    pub n: usize,
    pub after: &'a Layout,
}

impl IndexGrid<'_> {
    fn device_of(&self, a: View, b: View) -> Result<crate::device::Device> {
        same_device([a, b].into_iter().chain(self.picks.iter().map(|p| p.index)))
    }
}

/// The picked elements, dense, into `out`.
pub fn gather(x: View, l: &IndexGrid, out: View) -> Result<()> {
    let mut place = None;
    let x = x.aligned(&mut place)?;
    of(l.device_of(x, out)?)?.gather(x, l, out)
}

/// Combines dense `values` with the picked elements of `x`; on the host in the order of the indices.
pub fn scatter(x: View, l: &IndexGrid, values: View, how: Combine) -> Result<()> {
    of(l.device_of(x, values)?)?.scatter(x, l, values, how)
}

/// The pick of an index per element along `dim` of a tensor of at least one dimension.
fn along<'a>(x: View, dim: usize, index: View<'a>) -> Pick<'a> {
    Pick { index, size: x.layout.shape[dim], stride: x.layout.strides[dim], rule: BoundsPolicy::Along(dim) }
}

/// `out[..i..] = x[..index[..i..]..]`: the dense index, of the shape of `out`, replaces the position in `dim`.
pub fn gather_along(x: View, dim: usize, index: View, out: View) -> Result<()> {
    let mut place = None;
    let x = x.aligned(&mut place)?;
    let pick = along(x, dim, index);
    of(same_device([x, index, out])?)?.gather_along(x, dim, pick, out)
}

/// Combines `src` with the elements of `out` whose position in `dim` the dense index gives. `src` has the shape of
/// the index or is larger.
pub fn scatter_along(out: View, dim: usize, index: View, src: View, how: Combine) -> Result<()> {
    let mut place = None;
    let src = src.aligned(&mut place)?;
    let pick = along(out, dim, index);
    of(same_device([out, index, src])?)?.scatter_along(out, dim, pick, src, how)
}

/// Each row of `out` the sum of those rows of dense `g` whose index names it; 0 for the row `padding`. With
/// `by_frequency` it is their mean.
pub fn sum_rows(g: View, index: View, padding: Option<usize>, by_frequency: bool, out: View) -> Result<()> {
    of(same_device([g, index, out])?)?.sum_rows(g, index, padding, by_frequency, out)
}

// ---- masks

/// The true elements of a mask: on the host how many precede each chunk, on a device their positions.
pub enum Found {
    Host(Vec<usize>),
    #[cfg(feature = "gpu")]
    Device(Storage, usize),
}

impl Found {
    /// How many precede each chunk of a mask of the host.
    pub(super) fn starts(&self) -> &[usize] {
        match self {
            Found::Host(starts) => starts,
            #[cfg(feature = "gpu")]
            Found::Device(..) => &[],
        }
    }

    /// Hands the positions, and how many there are, to `f`.
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

/// Finds the true elements of a dense mask; waits for a device.
pub fn find(mask: View) -> Result<Found> {
    of(mask.device())?.find(mask)
}

/// The positions of the true elements, in order, as int64.
pub fn positions(mask: View, found: &Found, out: View) -> Result<()> {
    of(same_device([mask, out])?)?.positions(mask, found, out)
}

/// Dense `x` where the mask is true, one after the other.
pub fn compress(x: View, mask: View, found: &Found, out: View) -> Result<()> {
    of(same_device([x, mask, out])?)?.compress(x, mask, found, out)
}

/// Writes dense `values`, one after the other, where the mask is true in dense `out`: what [`compress`] undoes.
pub fn expand(values: View, mask: View, found: &Found, out: View) -> Result<()> {
    of(same_device([values, mask, out])?)?.expand(values, mask, found, out)
}

/// Sets the elements of dense `out` at which a dense mask of its shape is true.
pub fn fill_masked(out: View, mask: View, value: Scalar) -> Result<()> {
    of(same_device([out, mask])?)?.fill_masked(out, mask, value)
}

/// The index, in a dimension of `size` whose elements lie `step` apart, of dense int64 positions.
pub fn unravel(positions: View, step: usize, size: usize, out: View) -> Result<()> {
    of(same_device([positions, out])?)?.unravel(positions, step, size, out)
}

/// The first of dense int64 indices that is negative or not below `n`; the host waits to know it.
pub fn first_outside(indices: View, n: i64) -> Result<Option<i64>> {
    of(indices.device())?.first_outside(indices, n)
}
