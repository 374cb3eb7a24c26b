//! Matrix products, single or batched.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// `out = a @ b + bias` for matrices, or for each pair of a batch. The dtype is float32, float64 or int64; the
/// operands have any non-negative strides, the bias is a dense row (for a matrix, not for a batch), the result is
/// dense.
pub fn product(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let device = same_device([out, a, b])?;
    if let Some(bias) = bias {
        same_device([out, bias])?;
    }
    if !a.is_aligned() || !b.is_aligned() {
        return product_of_copies(a, b, bias, out);
    }
    of(device)?.matmul(a, b, bias, out)
}

/// [`product`] of operands of which at least one is misaligned.
#[cold]
fn product_of_copies(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let (mut first, mut second) = (None, None);
    product(a.aligned(&mut first)?, b.aligned(&mut second)?, bias, out)
}

/// The dtype in which products of `d` are computed.
pub const fn compute_type(d: DType) -> DType {
    match d {
        DType::F64 => DType::F64,
        d if d.is_float() => DType::F32,
        _ => DType::I64,
    }
}
