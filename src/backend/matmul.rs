//! Products of matrices, alone or in batches.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// `out = a @ b + bias` for matrices, or for each pair of a batch. The dtype is float32, float64 or int64; operands have
/// any strides that are not negative, the bias is a dense row (of a matrix, not of a batch), the result is dense.
pub fn product(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let (mut first, mut second) = (None, None);
    let (a, b) = (a.aligned(&mut first)?, b.aligned(&mut second)?);
    of(same_device([out, a, b].into_iter().chain(bias))?)?.matmul(a, b, bias, out)
}

/// The dtype that a product of a dtype is computed in.
pub const fn compute_type(d: DType) -> DType {
    match d {
        DType::F16 | DType::BF16 | DType::F32 => DType::F32,
        DType::F64 => DType::F64,
        _ => DType::I64,
    }
}
