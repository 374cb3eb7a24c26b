//! Numbers of Python.

use super::DType::{self, *};
use super::Element;
use crate::error::Result;
use crate::{ensure, with_dtype};

/// A Python number, as an operand or argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An integer of 2⁶³ or more. As an operand of integers, where allowed, it stands for its 64 bits.
    Long(u64),
}

impl Scalar {
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
            Scalar::Long(u) => u as f64,
        }
    }

    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
            Scalar::Long(u) => u as i64,
        }
    }

    pub const fn category(self) -> u8 {
        match self {
            Scalar::Bool(_) => 0,
            Scalar::Int(_) | Scalar::Long(_) => 1,
            Scalar::Float(_) => 2,
        }
    }

    pub fn is_zero(self) -> bool {
        self.to_f64() == 0.0
    }

    /// The number as an operand of dtype `d`: its low bits, as in PyTorch's conversion.
    #[inline]
    pub fn wrapped(self, d: DType) -> Scalar {
        match (self, d) {
            (Scalar::Int(i), U8) => Scalar::Int(i as u8 as i64),
            (Scalar::Int(i), I8) => Scalar::Int(i as i8 as i64),
            (Scalar::Int(i), I16) => Scalar::Int(i as i16 as i64),
            (Scalar::Int(i), I32) => Scalar::Int(i as i32 as i64),
            (Scalar::Int(i), U16) => Scalar::Int(i as u16 as i64),
            (Scalar::Int(i), U32) => Scalar::Int(i as u32 as i64),
            (Scalar::Long(u), d) if !d.is_float() => Scalar::Int(u as i64).wrapped(d),
            _ => self,
        }
    }

    /// The number as an element of dtype `d`: its bytes, followed by zeros.
    pub fn bytes(self, d: DType) -> [u8; 8] {
        let mut bytes = [0; 8];
        with_dtype!(d, T => bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&T::from_scalar(self))));
        bytes
    }

    /// The number that the first bytes of `bytes` are in dtype `d`.
    pub fn read(d: DType, bytes: &[u8]) -> Scalar {
        with_dtype!(d, T => bytemuck::pod_read_unaligned::<T>(&bytes[..size_of::<T>()]).to_scalar())
    }

    /// Whether the number is outside the range of `d`. Negative integers wrap in an unsigned dtype.
    pub fn overflows(self, d: DType) -> bool {
        let (lowest, highest) = d.range();
        match self {
            _ if d == Bool => false,
            Scalar::Bool(_) => false,
            Scalar::Int(i) if d.is_int() && !d.is_signed() => i.unsigned_abs() > highest as u64,
            Scalar::Int(_) if d == I64 => false,
            Scalar::Long(_) => d != U64 && !d.is_float(),
            Scalar::Float(f) if f.is_infinite() && d.is_float8() => d != F8E5M2,
            Scalar::Float(f) if d.is_float() => f.is_finite() && !(lowest..=highest).contains(&f),
            _ => !(lowest..=highest).contains(&self.to_f64()),
        }
    }

    /// The number, checked to be in the range of `d`.
    ///
    /// # Errors
    /// `RuntimeError` if it is not.
    pub fn checked(self, d: DType) -> Result<Scalar> {
        ensure!(
            !self.overflows(d),
            Runtime,
            "value cannot be converted to type {} without overflow",
            d.c_name()
        );
        Ok(self)
    }
}

impl From<f64> for Scalar {
    fn from(v: f64) -> Self {
        Scalar::Float(v)
    }
}
impl From<i64> for Scalar {
    fn from(v: i64) -> Self {
        Scalar::Int(v)
    }
}
impl From<bool> for Scalar {
    fn from(v: bool) -> Self {
        Scalar::Bool(v)
    }
}
