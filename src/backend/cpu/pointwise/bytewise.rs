//! Operands of loops on bytes: Note [Bytes].

use crate::backend::View;
use crate::backend::pointwise::Operand;
use crate::dtype::{DType, Scalar};
use crate::formula::{ARGS, PARAMS};

/// Operands whose elements are bytes, as views of uint8: Note [Bytes].
pub(super) struct Bytewise<'a> {
    /// What they promote to.
    pub dtype: DType,
    pub operands: [Operand<'a>; ARGS],
    /// The greatest byte of each.
    pub limits: [Scalar; PARAMS],
}

impl<'a> Bytewise<'a> {
    /// None unless all operands are bytes that promote to one of the dtypes `on`.
    pub fn of(on: &[DType], operands: &[Operand<'a>]) -> Option<Self> {
        let views = || operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(v) } else { None });
        // A bool is the number 0 or 1 in every dtype.
        let dtype = views().map(|v| v.dtype).find(|&d| d != DType::Bool).unwrap_or(DType::Bool);
        if !on.contains(&dtype) || views().any(|v| v.dtype != DType::Bool && v.dtype != dtype) {
            return None;
        }
        let mut found = [Operand::Unread; ARGS];
        let mut limits = [Scalar::Int(u8::MAX as i64); PARAMS];
        for (k, (found, o)) in found.iter_mut().zip(operands).enumerate() {
            *found = match o {
                Operand::View(v) => {
                    if v.dtype == DType::Bool {
                        *limits.get_mut(k)? = Scalar::Int(1);
                    }
                    Operand::View(View { dtype: DType::U8, ..*v })
                }
                Operand::Number(s) => Operand::Number(Scalar::Int(byte_of(*s, dtype)? as i64)),
                Operand::Unread => Operand::Unread,
            };
        }
        Some(Bytewise { dtype, operands: found, limits })
    }
}

/// The byte that stores a number, if `dtype` has it.
fn byte_of(number: Scalar, dtype: DType) -> Option<u8> {
    match (number, dtype) {
        (Scalar::Bool(v), _) => Some(v as u8),
        (Scalar::Int(v), DType::U8) => u8::try_from(v).ok(),
        (Scalar::Int(v), DType::I8) => i8::try_from(v).ok().map(|v| v as u8),
        _ => None,
    }
}
