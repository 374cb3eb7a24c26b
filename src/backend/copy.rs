//! Copies between layouts and dtypes on one device.

use super::{View, of, same_device};
use crate::dtype::Scalar;
use crate::error::Result;

/// Copies `src` to `out`, which has the same shape, with a cast if the dtypes differ. The two may only overlap if they
/// are the same view.
pub fn copy(src: View, out: View) -> Result<()> {
    if !out.layout.is_contiguous()
        && let Some(order) = out.layout.memory_order()
    {
        // Iterate in the memory order of the result; an input with the same order is then contiguous.
        let (from, to) = (src.layout.permute(&order), out.layout.permute(&order));
        return copy(View { layout: &from, ..src }, View { layout: &to, ..out });
    }
    of(same_device([out, src])?)?.copy(src, out)
}

/// Sets every element of `out`.
pub fn fill(out: View, value: Scalar) -> Result<()> {
    if !out.layout.is_contiguous() {
        if let Some(order) = out.layout.memory_order() {
            return fill(View { layout: &out.layout.permute(&order), ..out }, value);
        }
        if let Some(once) = out.layout.without_repetition() {
            return fill(View { layout: &once, ..out }, value);
        }
    }
    of(out.device())?.fill(out, value)
}

/// Writes the elements at each position of `parts`, in turn, to the last dimension of dense `out`. False if there is no
/// kernel for it.
pub fn interleave(parts: &[View], out: View) -> Result<bool> {
    of(same_device(parts.iter().copied().chain([out]))?)?.interleave(parts, out)
}

/// Adds `src` to `out`, in which several indices may refer to one element.
pub fn accumulate(src: View, out: View) -> Result<()> {
    of(same_device([out, src])?)?.accumulate(src, out)
}
