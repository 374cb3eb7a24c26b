//! The order of uint64 elements, which no kernel compares: int64 elements of the same order take their place.

use smallvec::SmallVec;

use super::{Arg, PointwiseOp, Unsigned};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::ops::rows;
use crate::tensor::Tensor;

/// The elements of a tensor with their top bit flipped: of uint64 as int64, or of int64 as uint64. Either has the order
/// of the other.
fn flipped(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let bits = Tensor::from_parts(t.storage().clone(), t.layout().clone(), DType::I64);
    let out = rows::bitwise_xor.call(&[(&bits).into(), i64::MIN.into()], &[])?;
    Ok(Tensor::from_parts(out.storage().clone(), out.layout().clone(), dtype))
}

/// An int64 tensor of the same order as a uint64 one.
pub fn comparable(t: &Tensor) -> Result<Tensor> {
    flipped(t, DType::I64)
}

/// The inverse of [`comparable`].
pub fn restored(t: &Tensor) -> Result<Tensor> {
    flipped(t, DType::U64)
}

/// Runs an operation that selects among uint64 operands by their order, or returns an unsigned one.
#[cold]
pub(super) fn run(op: &'static PointwiseOp, args: &[Arg], params: &[Scalar]) -> Result<Tensor> {
    if let (Unsigned::Identity, Some(Arg::T(t))) = (op.meta.unsigned, args.first()) {
        return t.copied(t.dtype());
    }
    let mut tensors: SmallVec<[Option<Tensor>; 3]> = SmallVec::new();
    for a in args {
        tensors.push(match a {
            Arg::T(t) => Some(comparable(&t.dense(DType::U64)?)?),
            Arg::S(_) => None,
        });
    }
    let args: SmallVec<[Arg; 3]> = args
        .iter()
        .zip(&tensors)
        .map(|(a, flipped)| match (a, flipped) {
            (Arg::S(s), _) => Arg::S(Scalar::Int(s.to_i64() ^ i64::MIN)),
            (a, None) => *a,
            (_, Some(t)) => Arg::T(t),
        })
        .collect();
    restored(&op.run(&args, params)?)
}
