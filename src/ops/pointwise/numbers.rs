//! Numbers and 0-d tensors as operands of a narrower dtype: integers wrap, limits are clamped, and some operations round
//! to half types before they compute.

use smallvec::SmallVec;

use super::{Arg, PointwiseOp, ROUNDED_PARAMETERS};
use crate::dtype::{DType, Scalar, promote};
use crate::ensure;
use crate::error::Result;
use crate::tensor::Tensor;

impl PointwiseOp {
    /// As `run_into`, with wider integer operands first cast to the common dtype: PyTorch converts operands before it
    /// computes, so that -1 becomes 255 in uint8.
    #[cold]
    pub(super) fn run_wrapped(
        &self,
        args: &[Arg],
        params: &[Scalar],
        common: DType,
        out: &Tensor,
    ) -> Result<()> {
        let mut narrow: SmallVec<[Option<Tensor>; 3]> = SmallVec::new();
        for a in args {
            narrow.push(match a {
                Arg::T(t) if is_wider(a, common) => Some(t.copied(common)?),
                _ => None,
            });
        }
        let args: SmallVec<[Arg; 3]> = args
            .iter()
            .zip(&narrow)
            .map(|(a, narrow)| match (a, narrow) {
                (_, Some(t)) => Ok(Arg::T(t)),
                (a, None) => {
                    let a = if self.meta.limit.is_empty() { *a } else { limit(*a, common, self.meta.limit)? };
                    Ok(if let Arg::S(s) = a { Arg::S(s.wrapped(common)) } else { a })
                }
            })
            .collect::<Result<_>>()?;
        self.run_into(&args, params, common, out)
    }

    /// Whether operand `i` is a number, or a 0-d tensor, that is rounded to a half type.
    #[inline]
    fn is_finer(&self, i: usize, a: &Arg, common: DType) -> bool {
        self.meta.rounded >> i & 1 == 1
            && match a {
                Arg::S(s) => is_rounded(*s, common),
                Arg::T(t) => matches!(t.dtype(), DType::F32 | DType::F64),
            }
    }

    pub(super) fn any_is_finer(&self, args: &[Arg], params: &[Scalar], common: DType) -> bool {
        args.iter().enumerate().any(|(i, a)| self.is_finer(i, a, common))
            || self.meta.rounded & ROUNDED_PARAMETERS != 0 && params.iter().any(|p| is_rounded(*p, common))
    }

    /// As `run_into`, with operands rounded as `RowMeta::rounded` says.
    #[cold]
    pub(super) fn run_rounded(
        &self,
        args: &[Arg],
        params: &[Scalar],
        common: DType,
        out: &Tensor,
    ) -> Result<()> {
        let mut coarse: SmallVec<[Option<Tensor>; 3]> = SmallVec::new();
        for (i, a) in args.iter().enumerate() {
            coarse.push(match a {
                Arg::T(t) if self.is_finer(i, a, common) => Some(t.copied(common)?),
                _ => None,
            });
        }
        let args: SmallVec<[Arg; 3]> = (0..)
            .zip(args)
            .zip(&coarse)
            .map(|((i, a), coarse)| match (a, coarse) {
                (_, Some(t)) => Arg::T(t),
                (Arg::S(s), None) if self.is_finer(i, a, common) => Arg::S(rounded(*s, common)),
                (a, None) => *a,
            })
            .collect();
        let all = self.meta.rounded & ROUNDED_PARAMETERS != 0;
        let params: SmallVec<[Scalar; 3]> =
            params.iter().map(|p| if all { rounded(*p, common) } else { *p }).collect();
        self.run_into(&args, &params, common, out)
    }
}

/// Whether an integer operand may not fit in the common integer dtype: a number, or a 0-d tensor.
pub(super) fn is_wider(a: &Arg, common: DType) -> bool {
    match a {
        Arg::S(s) => s.wrapped(common) != *s,
        Arg::T(t) => t.dtype().is_int() && promote(t.dtype(), common).ok() != Some(common),
    }
}

/// Clamps an integer bound to the range of the dtype, if that does not change the result; an error if all elements
/// would be out of range.
pub fn limit<'a>(bound: Arg<'a>, dtype: DType, which: &str) -> Result<Arg<'a>> {
    let Arg::S(Scalar::Int(i)) = bound else { return Ok(bound) };
    let nearest = dtype.nearest(i);
    ensure!(
        nearest == i || (nearest > i) == (which == "min"),
        Runtime,
        "Clamp {which} value {i} is outside the representable range of {}",
        dtype.scalar_name()
    );
    Ok(Arg::S(Scalar::Int(nearest)))
}

/// A number as an element of a dtype holds it.
fn rounded(s: Scalar, d: DType) -> Scalar {
    Scalar::read(d, &s.bytes(d))
}

/// Whether a dtype holds another number. Any NaN is NaN.
fn is_rounded(s: Scalar, d: DType) -> bool {
    let v = s.to_f64();
    rounded(s, d).to_f64() != v && !v.is_nan()
}
