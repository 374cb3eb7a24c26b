//! Matrix products, single or batched.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// `out = a @ b + bias` for matrices, or for each pair of a batch. The dtype is that of [`operand_dtype`]; the
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

/// The dtype of the operands of [`product`] for a product of `a` and `b`: that in which it is computed, or their own.
#[inline]
pub fn operand_dtype(a: View, b: View) -> Result<DType> {
    if a.dtype.is_half() { Ok(of(a.device())?.product_dtype(a, b)) } else { Ok(compute_type(a.dtype)) }
}

/// The dtype in which products of `d` are computed.
pub const fn compute_type(d: DType) -> DType {
    match d {
        DType::F64 => DType::F64,
        d if d.is_float() => DType::F32,
        _ => DType::I64,
    }
}
