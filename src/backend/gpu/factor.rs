//! Factorizations, for which there are no shaders.

use super::device::of;
use crate::backend::View;
use crate::bail;
use crate::error::Result;

/// The error that says so.
pub fn refuse(op: &str, a: View) -> Result<()> {
    bail!(
        NotImplemented,
        "'{op}' is not implemented for {} on {}, nor on any other GPU; move the tensor with .cpu()",
        a.dtype,
        of(a)?.caps.name
    )
}
