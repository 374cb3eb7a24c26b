//! Element types: [`DType`], the trait [`Element`] of the corresponding Rust types, PyTorch's promotion rules, and
//! [`with_dtype!`], the only dispatch over dtypes.

mod float8;
mod scalar;

use std::fmt;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::error::{Error, Result};
pub use float8::{Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0FNU, decode, encode};
pub use scalar::Scalar;

/// The element type of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    // The limited dtypes follow: see `is_limited`.
    U16,
    U32,
    U64,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
}

use DType::*;

/// Sizes in bytes. A lookup, since a match that calls the other dtypes alike takes a comparison too.
const SIZES: [u8; DType::ALL.len()] = {
    let mut sizes = [1; DType::ALL.len()];
    let mut i = 0;
    while i < sizes.len() {
        sizes[i] = match DType::ALL[i] {
            I16 | F16 | BF16 | U16 => 2,
            I32 | F32 | U32 => 4,
            I64 | F64 | U64 => 8,
            _ => 1,
        };
        i += 1;
    }
    sizes
};

impl DType {
    /// The dtypes that kernels and shaders are compiled for: all but the limited ones.
    pub const COMMON: [DType; 10] = [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64];

    pub const ALL: [DType; 18] = [
        Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, U16, U32, U64, F8E4M3FN, F8E4M3FNUZ, F8E5M2,
        F8E5M2FNUZ, F8E8M0FNU,
    ];

    /// PyTorch's name, as in `torch.float32`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "uint8",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            F8E4M3FN => "float8_e4m3fn",
            F8E4M3FNUZ => "float8_e4m3fnuz",
            F8E5M2 => "float8_e5m2",
            F8E5M2FNUZ => "float8_e5m2fnuz",
            F8E8M0FNU => "float8_e8m0fnu",
        }
    }

    /// The name in PyTorch's error messages, as in `expected scalar type Float but found Double`.
    pub const fn scalar_name(self) -> &'static str {
        match self {
            Bool => "Bool",
            U8 => "Byte",
            I8 => "Char",
            I16 => "Short",
            I32 => "Int",
            I64 => "Long",
            F16 => "Half",
            BF16 => "BFloat16",
            F32 => "Float",
            F64 => "Double",
            U16 => "UInt16",
            U32 => "UInt32",
            U64 => "UInt64",
            F8E4M3FN => "Float8_e4m3fn",
            F8E4M3FNUZ => "Float8_e4m3fnuz",
            F8E5M2 => "Float8_e5m2",
            F8E5M2FNUZ => "Float8_e5m2fnuz",
            F8E8M0FNU => "Float8_e8m0fnu",
        }
    }

    /// Size of an element in bytes.
    #[inline(always)]
    pub const fn size(self) -> usize {
        SIZES[self as usize] as usize
    }

    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64) || self.is_float8()
    }

    #[inline]
    pub const fn is_float8(self) -> bool {
        self as u8 > U64 as u8
    }

    /// Whether this is one of the dtypes that PyTorch stores, copies and casts, but for which few operations are
    /// implemented: uint16, uint32, uint64 and the float8 types. No kernel is compiled for them: see
    /// Note [Casts through blocks].
    #[inline]
    pub const fn is_limited(self) -> bool {
        self as u8 > F64 as u8
    }

    /// Whether this is an unsigned integer type whose operations are limited.
    #[inline]
    pub const fn is_limited_int(self) -> bool {
        matches!(self, U16 | U32 | U64)
    }

    /// float16 or bfloat16, which are computed in float32 and rounded when stored.
    #[inline]
    pub const fn is_half(self) -> bool {
        matches!(self, F16 | BF16)
    }

    /// The type to widen to in kernels that are compiled for few types: float32, float64, int64 or bool.
    #[inline]
    pub const fn wide(self) -> DType {
        match self {
            F64 => F64,
            Bool => Bool,
            d if d.is_float() => F32,
            _ => I64,
        }
    }

    /// The type in which the CPU compares elements: float32, float64 or int64.
    #[inline]
    pub const fn ordered(self) -> DType {
        match self.wide() {
            Bool => I64,
            wide => wide,
        }
    }

    /// Whether this is an integer type other than bool.
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self, U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64)
    }

    #[inline]
    pub const fn is_signed(self) -> bool {
        !matches!(self, Bool | U8 | U16 | U32 | U64 | F8E8M0FNU)
    }

    /// The category in PyTorch's promotion order: bool, integer, floating point.
    pub const fn category(self) -> u8 {
        match self {
            Bool => 0,
            U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 => 1,
            _ => 2,
        }
    }
}

impl DType {
    /// The lowest and highest finite values.
    fn range(self) -> (f64, f64) {
        let symmetric = |highest: f64| (-highest, highest);
        match self {
            Bool => (0.0, 1.0),
            U8 => (0.0, u8::MAX as f64),
            I8 => (i8::MIN as f64, i8::MAX as f64),
            I16 => (i16::MIN as f64, i16::MAX as f64),
            I32 => (i32::MIN as f64, i32::MAX as f64),
            I64 => (i64::MIN as f64, i64::MAX as f64),
            F16 => symmetric(f16::MAX.to_f64()),
            BF16 => symmetric(bf16::MAX.to_f64()),
            F32 => symmetric(f32::MAX as f64),
            F64 => symmetric(f64::MAX),
            U16 => (0.0, u16::MAX as f64),
            U32 => (0.0, u32::MAX as f64),
            U64 => (0.0, u64::MAX as f64),
            d => symmetric(float8::largest(d)),
        }
    }

    /// The representable integer nearest to `i`.
    pub fn nearest(self, i: i64) -> i64 {
        if self == I64 {
            return i;
        }
        let (lowest, highest) = self.range();
        i.clamp(lowest as i64, highest as i64)
    }

    /// The C++ type name, used by some of PyTorch's error messages.
    pub const fn type_name(self) -> &'static str {
        match self {
            U8 => "unsigned char",
            I8 => "signed char",
            I16 => "short int",
            I64 => "long int",
            U16 => "short unsigned int",
            U32 => "unsigned int",
            U64 => "long unsigned int",
            d => d.c_name(),
        }
    }

    /// The `c10` name of the C++ type, used by others of PyTorch's error messages.
    pub const fn c_name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "uint8_t",
            I8 => "int8_t",
            I16 => "int16_t",
            I32 => "int",
            I64 => "int64_t",
            F16 => "c10::Half",
            BF16 => "c10::BFloat16",
            F32 => "float",
            F64 => "double",
            U16 => "uint16_t",
            U32 => "uint32_t",
            U64 => "uint64_t",
            F8E4M3FN => "c10::Float8_e4m3fn",
            F8E4M3FNUZ => "c10::Float8_e4m3fnuz",
            F8E5M2 => "c10::Float8_e5m2",
            F8E5M2FNUZ => "c10::Float8_e5m2fnuz",
            F8E8M0FNU => "c10::Float8_e8m0fnu",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}

/// PyTorch's `promote_types`: the smallest dtype to which both convert.
///
/// # Errors
/// `RuntimeError` for a float8 type with any other, and for uint16, uint32 or uint64 with another integer or bool.
#[inline]
pub fn promote(a: DType, b: DType) -> Result<DType> {
    if a == b {
        return Ok(a);
    }
    if a.is_limited() || b.is_limited() {
        return promote_limited(a, b);
    }
    let (lo, hi) = if a < b { (a, b) } else { (b, a) };
    Ok(match (lo, hi) {
        (Bool, _) => hi,
        // uint8 and int8 promote to the next signed type.
        (U8, I8) => I16,
        (F16, BF16) => F32,
        _ => hi,
    })
}

#[cold]
fn promote_limited(a: DType, b: DType) -> Result<DType> {
    let what = match (a.is_float(), b.is_float()) {
        _ if a.is_float8() || b.is_float8() => "Float8 Types",
        (true, false) => return Ok(a),
        (false, true) => return Ok(b),
        _ => "uint16, uint32, uint64 types",
    };
    Err(Error::Runtime(format!(
        "Promotion for {what} is not supported, attempted to promote {} and {}",
        a.scalar_name(),
        b.scalar_name()
    )))
}

/// The element type of `torch.bool`: one byte. The core writes 0 or 1; borrowed memory, or bytes viewed as bool, may
/// hold any value, and all but 0 are true.
#[derive(Clone, Copy, Debug, Pod, Zeroable, Default)]
#[repr(transparent)]
pub struct Bool8(pub u8);

impl Bool8 {
    #[inline(always)]
    pub fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Bool8 {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.is_true() == other.is_true()
    }
}

impl PartialOrd for Bool8 {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.is_true().partial_cmp(&other.is_true())
    }
}

/// A Rust element type. Conversions go through `i64` for integers and `f64` for floating point, which hold all values
/// of the narrower types.
pub trait Element: Pod + Send + Sync + PartialEq + PartialOrd + fmt::Debug + 'static {
    const DTYPE: DType;
    fn to_f64(self) -> f64;
    fn from_f64(v: f64) -> Self;
    fn to_i64(self) -> i64;
    fn from_i64(v: i64) -> Self;

    /// The result of [`Element::from_f64`] for the same number.
    #[inline(always)]
    fn from_f32(v: f32) -> Self {
        Self::from_f64(v as f64)
    }

    fn from_scalar(s: Scalar) -> Self {
        if Self::DTYPE.is_float() { Self::from_f64(s.to_f64()) } else { cast_scalar(s) }
    }

    fn to_scalar(self) -> Scalar {
        match Self::DTYPE.category() {
            0 => Scalar::Bool(self.to_i64() != 0),
            1 => Scalar::Int(self.to_i64()),
            _ => Scalar::Float(self.to_f64()),
        }
    }
}

fn cast_scalar<T: Element>(s: Scalar) -> T {
    match s {
        Scalar::Float(f) => T::from_f64(f),
        _ => T::from_i64(s.to_i64()),
    }
}

/// Converts as PyTorch's `Tensor.to` does: through `i64` from integers, through `f64` from floating point. Not for
/// `u64`, whose upper half `i64` lacks: see Note [Casts through blocks].
#[inline(always)]
pub fn cast<A: Element, B: Element>(a: A) -> B {
    match const { A::DTYPE } {
        DType::F32 => B::from_f32(a.to_f64() as f32),
        dtype if dtype.is_float() => B::from_f64(a.to_f64()),
        _ => B::from_i64(a.to_i64()),
    }
}

/// Truncates like the x86 conversion that PyTorch compiles to: NaN and out-of-range values give the smallest `i64`.
#[inline(always)]
fn trunc_i64(v: f64) -> i64 {
    if (-9223372036854775808.0..9223372036854775808.0).contains(&v) { v as i64 } else { i64::MIN }
}

/// As [`trunc_i64`], to 32 bits; narrower integer types take its low bits. In a loop LLVM converts by `as` one element at a time.
#[inline(always)]
fn trunc_i32(v: f64) -> i32 {
    // Adding this to |v| < 2^51 rounds v to an integer, held in the low bits of the sum.
    const ROUND: f64 = 6755399441055744.0;
    let nearest = (v + ROUND) - ROUND;
    let beyond = if nearest.abs() > v.abs() { 1f64.copysign(v) } else { 0.0 };
    let whole = (nearest - beyond + ROUND).to_bits() as i32;
    if (v > -2147483649.0) & (v < 2147483648.0) { whole } else { i32::MIN }
}

macro_rules! int_element {
    ($($t:ident $d:ident $trunc:ident $(from_f32 $narrow:ident)?;)*) => { $(impl Element for $t {
        const DTYPE: DType = DType::$d;
        #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
        #[inline(always)] fn from_f64(v: f64) -> Self { $trunc(v) as $t }
        $(#[inline(always)] fn from_f32(v: f32) -> Self { $narrow(v as f64) as $t })?
        #[inline(always)] fn to_i64(self) -> i64 { self as i64 }
        #[inline(always)] fn from_i64(v: i64) -> Self { v as $t }
    })* };
}
// The low eight bits of a float32 number are the same by both: numbers beyond 32 bits are multiples of 256.
int_element! {
    u8 U8 trunc_i64 from_f32 trunc_i32; i8 I8 trunc_i32; i16 I16 trunc_i32; i32 I32 trunc_i32; i64 I64 trunc_i64;
    u16 U16 trunc_i64; u32 U32 trunc_i64;
}

/// An `i64` stands for its 64 bits.
impl Element for u64 {
    const DTYPE: DType = DType::U64;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        const TOP: u64 = 1 << 63;
        if v >= TOP as f64 { trunc_i64(v - TOP as f64) as u64 ^ TOP } else { trunc_i64(v) as u64 }
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        v as u64
    }
    fn to_scalar(self) -> Scalar {
        i64::try_from(self).map_or(Scalar::Long(self), Scalar::Int)
    }
}

macro_rules! float_element {
    ($($t:ident $d:ident $to:expr, $from:expr, $from_int:expr;)*) => { $(impl Element for $t {
        const DTYPE: DType = DType::$d;
        #[inline(always)] fn to_f64(self) -> f64 { $to(self) }
        #[inline(always)] fn from_f64(v: f64) -> Self { $from(v) }
        #[inline(always)] fn to_i64(self) -> i64 { trunc_i64($to(self)) }
        #[inline(always)] fn from_i64(v: i64) -> Self { $from_int(v) }
    })* };
}
float_element! {
    f16 F16 f16::to_f64, |v: f64| f16::from_f32(v as f32), |v: i64| f16::from_f32(v as f32);
    bf16 BF16 bf16::to_f64, |v: f64| bf16::from_f32(v as f32), |v: i64| bf16::from_f32(v as f32);
    f32 F32 |v: f32| v as f64, |v: f64| v as f32, |v: i64| v as f32;
    f64 F64 |v: f64| v, |v: f64| v, |v: i64| v as f64;
}

impl Element for Bool8 {
    const DTYPE: DType = DType::Bool;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.is_true() as u8 as f64
    }
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Bool8((v != 0.0) as u8)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.is_true() as i64
    }
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        Bool8((v != 0) as u8)
    }
}

/// Evaluates an expression with `$T` bound to the Rust type of a dtype. The only `match` over dtypes.
///
/// `with_dtype!(d, T => expr)` accepts every dtype. `with_dtype!(common d, T => expr, else other)` evaluates `other` for
/// the limited dtypes. `with_dtype!(float d, T => expr, else other)` accepts float32 and
/// float64 (the caller widens half types) and evaluates `other` for the rest; `with_dtype!(half d, T => expr)` is for half types alone. `with_dtype!(ordered d, T => expr)`
/// binds the type of `d.ordered()`, and `with_dtype!(whole d, T => expr)` bool or int64, for kernels that are too
/// large to compile for every dtype. `with_dtype!(bits d, T => expr)` binds an integer type of the size of `d`, for
/// kernels that only move elements.
#[macro_export]
macro_rules! with_dtype {
    (float $d:expr, $T:ident => $body:expr, else $other:expr) => {
        match $d {
            $crate::dtype::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
            _ => $other,
        }
    };
    (half $d:expr, $T:ident => $body:expr) => {
        match $d {
            $crate::dtype::DType::F16 => {
                type $T = half::f16;
                $body
            }
            _ => {
                type $T = half::bf16;
                $body
            }
        }
    };
    (ordered $d:expr, $T:ident => $body:expr) => {
        match $d.ordered() {
            $crate::dtype::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
    (whole $d:expr, $T:ident => $body:expr) => {
        if $d == $crate::dtype::DType::Bool {
            type $T = $crate::dtype::Bool8;
            $body
        } else {
            type $T = i64;
            $body
        }
    };
    (bits $d:expr, $T:ident => $body:expr) => {
        match $d.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = i16;
                $body
            }
            4 => {
                type $T = i32;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
    (common $d:expr, $T:ident => $body:expr, else $other:expr) => {
        match $d {
            $crate::dtype::DType::Bool => {
                type $T = $crate::dtype::Bool8;
                $body
            }
            $crate::dtype::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::dtype::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::dtype::DType::I16 => {
                type $T = i16;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::dtype::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::dtype::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
            _ => $other,
        }
    };
    ($d:expr, $T:ident => $body:expr) => {
        match $d {
            $crate::dtype::DType::Bool => {
                type $T = $crate::dtype::Bool8;
                $body
            }
            $crate::dtype::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::dtype::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::dtype::DType::I16 => {
                type $T = i16;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::dtype::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::dtype::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::dtype::DType::U16 => {
                type $T = u16;
                $body
            }
            $crate::dtype::DType::U32 => {
                type $T = u32;
                $body
            }
            $crate::dtype::DType::U64 => {
                type $T = u64;
                $body
            }
            $crate::dtype::DType::F8E4M3FN => {
                type $T = $crate::dtype::Float8E4M3FN;
                $body
            }
            $crate::dtype::DType::F8E4M3FNUZ => {
                type $T = $crate::dtype::Float8E4M3FNUZ;
                $body
            }
            $crate::dtype::DType::F8E5M2 => {
                type $T = $crate::dtype::Float8E5M2;
                $body
            }
            $crate::dtype::DType::F8E5M2FNUZ => {
                type $T = $crate::dtype::Float8E5M2FNUZ;
                $body
            }
            $crate::dtype::DType::F8E8M0FNU => {
                type $T = $crate::dtype::Float8E8M0FNU;
                $body
            }
        }
    };
}

/// A floating point type to compute in: `f32` or `f64`. Half types are widened to `f32` first.
pub trait Real:
    Element
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::iter::Sum
{
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    const NAN: Self;
    fn of(v: f64) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn is_nan(self) -> bool;
    /// The integer that an integral value from 0 to 2²² is: the low bits of its sum with a power of two that is so large that
    /// consecutive numbers differ by 1.
    fn integer_bits(self) -> i32;
}

macro_rules! real {
    ($($t:ident $digits:literal)*) => { $(impl Real for $t {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const INFINITY: Self = $t::INFINITY;
        const NAN: Self = $t::NAN;
        #[inline(always)] fn of(v: f64) -> Self { v as $t }
        #[inline(always)] fn sqrt(self) -> Self { $t::sqrt(self) }
        #[inline(always)] fn abs(self) -> Self { $t::abs(self) }
        #[inline(always)] fn is_nan(self) -> bool { $t::is_nan(self) }
        #[inline(always)] fn integer_bits(self) -> i32 {
            (self + (1u64 << $digits) as $t).to_bits() as i32 & 0x7f_ffff
        }
    })* };
}
real!(f32 23 f64 52);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(promote(a, a).ok(), Some(a));
            for b in DType::ALL {
                assert_eq!(promote(a, b).ok(), promote(b, a).ok());
            }
        }
    }

    #[test]
    fn promotion_agrees_with_pytorchs_table_where_it_surprises() {
        for (a, b, common) in
            [(U8, I8, I16), (F16, BF16, F32), (I64, F16, F16), (Bool, U8, U8), (U64, F16, F16)]
        {
            assert_eq!(promote(a, b).ok(), Some(common));
        }
        assert!(promote(U16, Bool).is_err() && promote(F8E5M2, F32).is_err());
    }

    #[test]
    fn numbers_beyond_a_dtype_overflow_and_negative_ones_wrap_in_bytes() {
        assert!(Scalar::Int(256).overflows(U8) && Scalar::Int(-256).overflows(U8));
        assert!(!Scalar::Int(-255).overflows(U8) && Scalar::Float(-1.5).overflows(U8));
        assert!(Scalar::Float(f64::NAN).overflows(I64) && !Scalar::Float(f64::NAN).overflows(F16));
        assert!(Scalar::Float(1e39).overflows(F32) && !Scalar::Float(f64::INFINITY).overflows(F32));
        assert!(!Scalar::Float(1e300).overflows(Bool) && !Scalar::Int(i64::MIN).overflows(I64));
        assert_eq!(Scalar::Int(-1).wrapped(U8), Scalar::Int(255));
    }

    #[test]
    fn conversions_of_float32_are_those_of_the_same_float64_and_truncate() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let v = f32::from_bits(bits);
            assert_eq!(u8::from_f32(v), u8::from_f64(v as f64), "{v}");
            let within = v > -2147483649.0 && v < 2147483648.0;
            assert_eq!(i32::from_f32(v), if within { v as i32 } else { i32::MIN }, "{v}");
        }
    }

    #[test]
    fn casts_of_nan_and_out_of_range_values_are_pytorchs() {
        assert_eq!(cast::<f32, i64>(f32::NAN), i64::MIN);
        assert_eq!(cast::<f64, i32>(1e20), i32::MIN);
        assert_eq!(cast::<i64, u8>(-1), 255);
        assert_eq!(cast::<f32, Bool8>(0.5), Bool8(1));
        assert_eq!((cast::<f64, u64>(-1.0), cast::<f64, u64>(1e20)), (u64::MAX, 0));
        assert_eq!(cast::<f64, u64>(2f64.powi(63) + 2048.0), (1 << 63) + 2048);
    }
}
