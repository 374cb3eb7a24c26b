//! Moving elements between layouts and dtypes, on one device.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, same_device};
use crate::dtype::Scalar;
use crate::error::Result;

/// Copies `src` to `out`, which has the same shape, casting as needed. The two may be the same memory only if
/// they are the same view.
pub fn copy(src: View, out: View) -> Result<()> {
    if !out.layout.is_contiguous()
        && let Some(order) = out.layout.memory_order()
    {
        // In the order of the result's memory; what lies alike is then contiguous.
        let (from, to) = (src.layout.permute(&order), out.layout.permute(&order));
        return copy(View { layout: &from, ..src }, View { layout: &to, ..out });
    }
    by_device!(same_device([out, src])?,
        cpu => cpu::copy::copy(src, out),
        gpu => gpu::copy::copy(src, out)
    )
}

/// Sets every element of `out`.
pub fn fill(out: View, value: Scalar) -> Result<()> {
    if !out.layout.is_contiguous()
        && let Some(order) = out.layout.memory_order()
    {
        return fill(View { layout: &out.layout.permute(&order), ..out }, value);
    }
    by_device!(out.device(),
        cpu => cpu::copy::fill(out, value),
        gpu => gpu::copy::fill(out, value)
    )
}

/// Adds `src` to `out`, where several indices of `out` may name one element.
pub fn accumulate(src: View, out: View) -> Result<()> {
    by_device!(same_device([out, src])?,
        cpu => cpu::copy::accumulate(src, out),
        gpu => gpu::index::accumulate(src, out)
    )
}
