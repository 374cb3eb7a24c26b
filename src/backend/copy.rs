//! Moving elements between layouts and dtypes, on one device.

use super::{View, of, same_device};
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
    of(same_device([out, src])?)?.copy(src, out)
}

/// Sets every element of `out`.
pub fn fill(out: View, value: Scalar) -> Result<()> {
    if !out.layout.is_contiguous()
        && let Some(order) = out.layout.memory_order()
    {
        return fill(View { layout: &out.layout.permute(&order), ..out }, value);
    }
    of(out.device())?.fill(out, value)
}

/// Adds `src` to `out`, where several indices of `out` may name one element.
pub fn accumulate(src: View, out: View) -> Result<()> {
    of(same_device([out, src])?)?.accumulate(src, out)
}
