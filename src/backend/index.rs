//! Elements at positions that data decide: rows picked by lists, indices along a dimension, masks.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::index::Combine;

use crate::dtype::{Bool8, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;
#[cfg(feature = "gpu")]
use crate::storage::Storage;
use crate::{bail, with_dtype};

/// What an index may be, and which error tells that it is not. On a GPU that is an error of the next call that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// A row of a list that does not count from the end.
    Listed,
    /// An index between brackets, of this dimension.
    Dimension(usize),
    /// A position in a dimension, one per element; does not count from the end.
    Along(usize),
    /// A position in a whole tensor.
    Flat,
}

impl Rule {
    pub fn wraps(self) -> bool {
        matches!(self, Rule::Dimension(_) | Rule::Flat)
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
            Rule::Listed => Error::Index("index out of range in self".into()),
            Rule::Dimension(dim) => {
                Error::Index(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
            }
            Rule::Along(dim) => {
                Error::Runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
            }
            Rule::Flat => Error::Index(format!(
                "out of range: tried to access index {index} on a tensor of {size} elements."
            )),
        }
    }
}

/// Dense int64 indices of a dimension of some size and stride.
#[derive(Clone, Copy)]
pub struct Pick<'a> {
    pub index: View<'a>,
    pub size: usize,
    pub stride: isize,
    pub rule: Rule,
}

/// The elements of a tensor that indices pick. Position `[b, i, a]` lies where `b` points in the dimensions `before`,
/// moved by what entry `i` of every pick says, moved by where `a` points in the dimensions `after`, whose own offset
/// is 0.
#[derive(Clone, Copy)]
pub struct Lattice<'a> {
    pub before: &'a Layout,
    pub picks: &'a [Pick<'a>],
    /// Entries of each pick.
    pub n: usize,
    pub after: &'a Layout,
}

impl Lattice<'_> {
    fn device_of(&self, a: View, b: View) -> Result<crate::device::Device> {
        same_device([a, b].into_iter().chain(self.picks.iter().map(|p| p.index)))
    }

    /// The offset of each entry.
    fn offsets(&self) -> Result<Vec<isize>> {
        let mut out = vec![0; self.n];
        for p in self.picks {
            for (o, &i) in out.iter_mut().zip(elements::<i64>(p.index)) {
                *o += p.rule.position(i, p.size)? as isize * p.stride;
            }
        }
        Ok(out)
    }

    fn on_host<T>(&self, f: impl FnOnce(&cpu::index::Lattice) -> T) -> Result<T> {
        let offsets = self.offsets()?;
        Ok(f(&cpu::index::Lattice { before: self.before, offsets: &offsets, after: self.after }))
    }
}

/// The picked elements, dense, into `out`.
pub fn gather(x: View, l: &Lattice, out: View) -> Result<()> {
    let mut place = None;
    let x = x.aligned(&mut place)?;
    by_device!(l.device_of(x, out)?,
        cpu => l.on_host(|l| with_dtype!(bits x.dtype, T => cpu::index::gather::<T>(x.storage, l, results(out)))),
        gpu => gpu::index::gather(x, l, out)
    )
}

/// Combines dense `values` with the picked elements of `x`; on the host in the order of the indices.
pub fn scatter(x: View, l: &Lattice, values: View, how: Combine) -> Result<()> {
    by_device!(l.device_of(x, values)?,
        cpu => l.on_host(|l| cpu::index::scatter(x, l, values, how))?,
        gpu => gpu::index::scatter(x, l, values, how)
    )
}

/// Errors where an entry of a dense index is none of a dimension.
fn check(p: &Pick) -> Result<()> {
    elements::<i64>(p.index).iter().try_for_each(|&i| p.rule.position(i, p.size).map(|_| ()))
}

/// The pick of an index per element along `dim` of a tensor of at least one dimension.
fn along<'a>(x: View, dim: usize, index: View<'a>) -> Pick<'a> {
    Pick { index, size: x.layout.shape[dim], stride: x.layout.strides[dim], rule: Rule::Along(dim) }
}

/// `out[..i..] = x[..index[..i..]..]`: the dense index, of the shape of `out`, replaces the position in `dim`.
pub fn gather_along(x: View, dim: usize, index: View, out: View) -> Result<()> {
    let mut place = None;
    let x = x.aligned(&mut place)?;
    let pick = along(x, dim, index);
    by_device!(same_device([x, index, out])?,
        cpu => {
            check(&pick)?;
            let shape = &index.layout.shape;
            with_dtype!(bits x.dtype, T => cpu::index::gather_along::<T>(x, dim, shape, elements(index), results(out)));
            Ok(())
        },
        gpu => gpu::index::gather_along(x, dim, pick, out)
    )
}

/// Combines `src` with the elements of `out` whose position in `dim` the dense index gives. `src` has the shape of
/// the index or is larger.
pub fn scatter_along(out: View, dim: usize, index: View, src: View, how: Combine) -> Result<()> {
    let mut place = None;
    let src = src.aligned(&mut place)?;
    let pick = along(out, dim, index);
    by_device!(same_device([out, index, src])?,
        cpu => {
            check(&pick)?;
            let shape = &index.layout.shape;
            cpu::index::scatter_along(out, dim, shape, elements(index), src, how)
        },
        gpu => gpu::index::scatter_along(out, dim, pick, src, how)
    )
}

/// Each row of `out` the sum of those rows of dense `g` whose index names it; 0 for the row `padding`. With
/// `by_frequency` it is their mean.
pub fn sum_rows(g: View, index: View, padding: Option<usize>, by_frequency: bool, out: View) -> Result<()> {
    let shape = &out.layout.shape;
    by_device!(same_device([g, index, out])?,
        cpu => {
            let rows = cpu::index::RowSums { index: elements(index), width: shape[1], padding, by_frequency };
            with_dtype!(float out.dtype, T => rows.run::<T>(elements(g), results(out)),
                else bail!(Error::DtypeNotImplemented { op: "embedding_dense_backward", dtype: out.dtype }));
            Ok(())
        },
        gpu => gpu::index::sum_rows(g, index, padding, by_frequency, out)
    )
}

// ---- masks

/// The true elements of a mask: on the host how many precede each chunk, on a device their positions.
pub enum Found {
    Host(Vec<usize>),
    #[cfg(feature = "gpu")]
    Device(Storage, usize),
}

impl Found {
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
    by_device!(mask.device(),
        cpu => Ok(Found::Host(cpu::index::mask_starts(elements(mask)))),
        gpu => gpu::mask::find(mask).map(|(positions, n)| Found::Device(positions, n))
    )
}

/// The positions of the true elements, in order, as int64.
pub fn positions(mask: View, found: &Found, out: View) -> Result<()> {
    match found {
        Found::Host(starts) => cpu::index::positions(elements(mask), starts, results(out)),
        #[cfg(feature = "gpu")]
        Found::Device(at, _) => gpu::mask::positions(at, out)?,
    }
    Ok(())
}

/// Dense `x` where the mask is true, one after the other.
pub fn compress(x: View, mask: View, found: &Found, out: View) -> Result<()> {
    same_device([x, mask, out])?;
    match found {
        Found::Host(starts) => {
            with_dtype!(bits x.dtype, T => cpu::index::compress::<T>(elements(x), elements(mask), starts, results(out)));
        }
        #[cfg(feature = "gpu")]
        Found::Device(at, _) => gpu::index::gather_flat(x, at, out)?,
    }
    Ok(())
}

/// Writes dense `values`, one after the other, where the mask is true in dense `out`: what [`compress`] undoes.
pub fn expand(values: View, mask: View, found: &Found, out: View) -> Result<()> {
    same_device([values, mask, out])?;
    match found {
        Found::Host(starts) => {
            with_dtype!(bits out.dtype, T => cpu::index::expand::<T>(elements(values), elements(mask), starts, results(out)));
        }
        #[cfg(feature = "gpu")]
        Found::Device(at, n) => gpu::index::scatter_flat(values, at, *n, out)?,
    }
    Ok(())
}

/// Sets the elements of dense `out` at which a dense mask of its shape is true.
pub fn fill_masked(out: View, mask: View, value: Scalar) -> Result<()> {
    by_device!(same_device([out, mask])?,
        cpu => cpu::index::fill_masked(out, elements::<Bool8>(mask), value),
        gpu => gpu::mask::fill(out, mask, value)
    )
}

/// The index, in a dimension of `size` whose elements lie `step` apart, of dense int64 positions.
pub fn unravel(positions: View, step: usize, size: usize, out: View) -> Result<()> {
    by_device!(same_device([positions, out])?,
        cpu => {
            let (step, size) = (step as i64, size as i64);
            for (o, &p) in results::<i64>(out).iter_mut().zip(elements::<i64>(positions)) {
                *o = p / step % size;
            }
            Ok(())
        },
        gpu => gpu::mask::unravel(positions, step, size, out)
    )
}
