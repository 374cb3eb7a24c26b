//! Elements named by an index along one dimension.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::index::Combine;

use crate::error::Result;
use crate::with_dtype;

/// What is said of an index that is out of range, where a device finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// In an embedding or a selection of rows.
    Rows = 2,
    /// Everywhere else.
    Index = 3,
}

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `dim`. The index (int64) has the shape of `out`, which is dense;
/// on the CPU it is dense and in range, elsewhere neither is asked of it.
pub fn gather_along(x: View, dim: usize, index: View, out: View, fault: Fault) -> Result<()> {
    by_device!(same_device([out, index, x])?,
        cpu => {
            let shape = &index.layout.shape;
            with_dtype!(x.dtype, T => cpu::index::gather_along::<T>(x, dim, shape, elements(index), results(out)));
            Ok(())
        },
        gpu => gpu::index::gather_along(x, dim, index, out, fault)
    )
}

/// `src` meets `out[.., index[.., i, ..], ..]` along `dim`. The index (int64) has the shape of `src`, and the rank of
/// `out`; the rest as in [`gather_along`].
pub fn scatter_along(
    out: View,
    dim: usize,
    index: View,
    src: View,
    how: Combine,
    fault: Fault,
) -> Result<()> {
    by_device!(same_device([out, index, src])?,
        cpu => {
            let shape = &index.layout.shape;
            with_dtype!(out.dtype, T => cpu::index::scatter_along::<T>(out, dim, shape, elements(index), src, how));
            Ok(())
        },
        gpu => gpu::index::scatter_along(out, dim, index, src, how, fault)
    )
}
