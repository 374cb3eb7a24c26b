//! The expression language of pointwise formulas.
//!
//! A pointwise operation is written once, generic over these traits. Instantiated for `f32`, `f64`, `i32` or `i64` it
//! is the CPU kernel; run on [`record::Sym`] it records its steps, from which the saved tensors, the differentiable
//! backward and the WGSL code are derived.

/// The text of a file in `shaders`, minified by the build script.
macro_rules! shader_text {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/shaders/", $file))
    };
}
#[cfg_attr(not(feature = "gpu"), expect(unused_imports, reason = "shaders of the GPU"))]
pub(crate) use shader_text;

pub mod blocks;
pub mod coefficients;
pub mod compose;
mod ir;
pub mod record;
pub mod template;
pub mod wgsl;

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::backend::cpu::math::Math;

pub use ir::Formula;

/// A formula recorded on first use: `recorded!(|a| a[0] * a[1].exp())`.
macro_rules! recorded {
    (|$a:ident| $value:expr) => {
        $crate::formula::recorded!(|$a, _p| $value)
    };
    (|$a:ident, $p:ident| $value:expr) => {{
        static FORMULA: std::sync::LazyLock<$crate::formula::Formula> =
            std::sync::LazyLock::new(|| $crate::formula::record::record(|$a, $p| $value));
        &*FORMULA
    }};
}
pub(crate) use recorded;

/// Maximum number of arguments of a formula: a gradient, three inputs and the result.
pub const ARGS: usize = 5;
/// Maximum number of parameters of a pointwise operation.
pub const PARAMS: usize = 3;

/// Operations that integers support too.
pub trait Arith:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self> + 'static
{
    type Bool: Copy;
    fn lit(v: f64) -> Self;
    fn lt(self, o: Self) -> Self::Bool;
    fn le(self, o: Self) -> Self::Bool;
    fn eq(self, o: Self) -> Self::Bool;
    fn not(c: Self::Bool) -> Self::Bool;
    fn and(a: Self::Bool, b: Self::Bool) -> Self::Bool;
    fn or(a: Self::Bool, b: Self::Bool) -> Self::Bool;
    fn select(c: Self::Bool, yes: Self, no: Self) -> Self;
    /// Maximum; NaN if either is NaN.
    fn maximum(self, o: Self) -> Self;
    /// Minimum; NaN if either is NaN.
    fn minimum(self, o: Self) -> Self;
    fn abs(self) -> Self;
    /// Quotient rounded down.
    fn floor_div(self, o: Self) -> Self;
    /// Quotient rounded toward zero.
    fn trunc_div(self, o: Self) -> Self;
    /// Remainder with the sign of the divisor.
    fn remainder(self, o: Self) -> Self;
    /// Remainder with the sign of the dividend.
    fn fmod(self, o: Self) -> Self;
    #[inline(always)]
    fn gt(self, o: Self) -> Self::Bool {
        o.lt(self)
    }
    #[inline(always)]
    fn ge(self, o: Self) -> Self::Bool {
        o.le(self)
    }
    #[inline(always)]
    fn ne(self, o: Self) -> Self::Bool {
        Self::not(self.eq(o))
    }
    #[inline(always)]
    fn is_nan(self) -> Self::Bool {
        self.ne(self)
    }
    #[inline(always)]
    fn zero() -> Self {
        Self::lit(0.0)
    }
    #[inline(always)]
    fn one() -> Self {
        Self::lit(1.0)
    }
}

macro_rules! num_functions {
    ($($f:ident $prim:ident $m:ident),*) => {
        /// Floating point numbers: arithmetic, division and the elementary functions.
        pub trait Num: Arith + Div<Output = Self> {
            $(fn $f(self) -> Self;)*
            fn pow(self, e: Self) -> Self;
            fn atan2(self, x: Self) -> Self;
            fn sqrt(self) -> Self;
        }
        macro_rules! num_for {
            ($t:ident) => { impl Num for $t {
                $(#[inline(always)] fn $f(self) -> Self { Math::$m(self) })*
                #[inline(always)] fn pow(self, e: Self) -> Self { Math::m_pow(self, e) }
                #[inline(always)] fn atan2(self, x: Self) -> Self { Math::m_atan2(self, x) }
                #[inline(always)] fn sqrt(self) -> Self { $t::sqrt(self) }
            } };
        }
        num_for!(f32);
        num_for!(f64);
        impl Num for record::Sym {
            $(fn $f(self) -> Self { record::unary(record::Prim::$prim, self) })*
            fn pow(self, e: Self) -> Self { record::binary(record::Prim::Pow, self, e) }
            fn atan2(self, x: Self) -> Self { record::binary(record::Prim::Atan2, self, x) }
            fn sqrt(self) -> Self { record::unary(record::Prim::Sqrt, self) }
        }
    };
}

num_functions! {
    exp Exp m_exp, expm1 Expm1 m_expm1, exp2 Exp2 m_exp2, log Log m_log, log1p Log1p m_log1p, log2 Log2 m_log2,
    log10 Log10 m_log10, sin Sin m_sin, cos Cos m_cos, tan Tan m_tan, sinh Sinh m_sinh, cosh Cosh m_cosh,
    tanh Tanh m_tanh, asin Asin m_asin, acos Acos m_acos, atan Atan m_atan, asinh Asinh m_asinh,
    acosh Acosh m_acosh, atanh Atanh m_atanh, erf Erf m_erf, erfc Erfc m_erfc, erfinv Erfinv m_erfinv,
    normal_cdf NormalCdf m_normal_cdf, lgamma Lgamma m_lgamma, digamma Digamma m_digamma, floor Floor m_floor,
    ceil Ceil m_ceil, trunc Trunc m_trunc, round Round m_round_even
}

macro_rules! arith_float {
    ($($t:ident)*) => { $(impl Arith for $t {
        type Bool = bool;
        #[inline(always)] fn lit(v: f64) -> Self { v as $t }
        #[inline(always)] fn lt(self, o: Self) -> bool { self < o }
        #[inline(always)] fn le(self, o: Self) -> bool { self <= o }
        #[inline(always)] fn eq(self, o: Self) -> bool { self == o }
        #[inline(always)] fn not(c: bool) -> bool { !c }
        #[inline(always)] fn and(a: bool, b: bool) -> bool { a & b }
        #[inline(always)] fn or(a: bool, b: bool) -> bool { a | b }
        #[inline(always)] fn select(c: bool, yes: Self, no: Self) -> Self { if c { yes } else { no } }
        #[inline(always)] fn maximum(self, o: Self) -> Self { if (self > o) | (self != self) { self } else { o } }
        #[inline(always)] fn minimum(self, o: Self) -> Self { if (self < o) | (self != self) { self } else { o } }
        #[inline(always)] fn abs(self) -> Self { $t::abs(self) }
        #[inline(always)] fn floor_div(self, o: Self) -> Self {
            // As Python's floor division: exact where rounding the quotient would cross an integer.
            let m = Math::m_fmod(self, o);
            let q = (self - m) / o;
            let q = if (m != 0.0) & ((o < 0.0) != (m < 0.0)) { q - 1.0 } else { q };
            let f = Math::m_floor(q);
            let r = if q - f > 0.5 { f + 1.0 } else { f };
            let r = if q == 0.0 { (self / o) * 0.0 } else { r };
            if o == 0.0 { self / o } else { r }
        }
        #[inline(always)] fn trunc_div(self, o: Self) -> Self { Math::m_trunc(self / o) }
        #[inline(always)] fn remainder(self, o: Self) -> Self {
            let m = Math::m_fmod(self, o);
            if (m != 0.0) & ((o < 0.0) != (m < 0.0)) { m + o } else { m }
        }
        #[inline(always)] fn fmod(self, o: Self) -> Self { Math::m_fmod(self, o) }
    })* };
}
arith_float!(f32 f64);

/// An integer in a formula: arithmetic wraps, as in PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Int<T>(pub T);

macro_rules! arith_int {
    ($($t:ident)*) => { $(
        impl Add for Int<$t> { type Output = Self; #[inline(always)] fn add(self, o: Self) -> Self { Int(self.0.wrapping_add(o.0)) } }
        impl Sub for Int<$t> { type Output = Self; #[inline(always)] fn sub(self, o: Self) -> Self { Int(self.0.wrapping_sub(o.0)) } }
        impl Mul for Int<$t> { type Output = Self; #[inline(always)] fn mul(self, o: Self) -> Self { Int(self.0.wrapping_mul(o.0)) } }
        impl Neg for Int<$t> { type Output = Self; #[inline(always)] fn neg(self) -> Self { Int(self.0.wrapping_neg()) } }
        impl Arith for Int<$t> {
            type Bool = bool;
            #[inline(always)] fn lit(v: f64) -> Self { Int(v as $t) }
            #[inline(always)] fn lt(self, o: Self) -> bool { self.0 < o.0 }
            #[inline(always)] fn le(self, o: Self) -> bool { self.0 <= o.0 }
            #[inline(always)] fn eq(self, o: Self) -> bool { self.0 == o.0 }
            #[inline(always)] fn not(c: bool) -> bool { !c }
            #[inline(always)] fn and(a: bool, b: bool) -> bool { a & b }
            #[inline(always)] fn or(a: bool, b: bool) -> bool { a | b }
            #[inline(always)] fn select(c: bool, yes: Self, no: Self) -> Self { if c { yes } else { no } }
            #[inline(always)] fn maximum(self, o: Self) -> Self { self.max(o) }
            #[inline(always)] fn minimum(self, o: Self) -> Self { self.min(o) }
            #[inline(always)] fn abs(self) -> Self { Int(self.0.wrapping_abs()) }
            // Drivers reject zero divisors before the loop; the 0 here only makes the loop total.
            #[inline(always)] fn floor_div(self, o: Self) -> Self {
                if o.0 == 0 { return Int(0); }
                let (q, r) = (self.0.wrapping_div(o.0), self.0.wrapping_rem(o.0));
                Int(if r != 0 && (r < 0) != (o.0 < 0) { q - 1 } else { q })
            }
            #[inline(always)] fn trunc_div(self, o: Self) -> Self { Int(if o.0 == 0 { 0 } else { self.0.wrapping_div(o.0) }) }
            #[inline(always)] fn remainder(self, o: Self) -> Self {
                if o.0 == 0 { return Int(0); }
                let r = self.0.wrapping_rem(o.0);
                Int(if r != 0 && (r < 0) != (o.0 < 0) { r + o.0 } else { r })
            }
            #[inline(always)] fn fmod(self, o: Self) -> Self { Int(if o.0 == 0 { 0 } else { self.0.wrapping_rem(o.0) }) }
        }
        impl Bits for Int<$t> {
            #[inline(always)] fn bit_and(self, o: Self) -> Self { Int(self.0 & o.0) }
            #[inline(always)] fn bit_or(self, o: Self) -> Self { Int(self.0 | o.0) }
            #[inline(always)] fn bit_xor(self, o: Self) -> Self { Int(self.0 ^ o.0) }
            #[inline(always)] fn shl(self, o: Self) -> Self {
                Int(if o.0 < 0 || o.0 >= $t::BITS as $t { 0 } else { self.0 << o.0 })
            }
            #[inline(always)] fn shr(self, o: Self) -> Self {
                Int(self.0 >> if o.0 < 0 || o.0 >= $t::BITS as $t { $t::BITS as $t - 1 } else { o.0 })
            }
            #[inline(always)] fn gcd(self, o: Self) -> Self {
                let (mut a, mut b) = (self.0.wrapping_abs(), o.0.wrapping_abs());
                while b != 0 { (a, b) = (b, a.wrapping_rem(b)); }
                Int(a)
            }
        }
    )* };
}
arith_int!(i32 i64);

/// Integer-only operations.
pub trait Bits: Arith {
    fn bit_and(self, o: Self) -> Self;
    fn bit_or(self, o: Self) -> Self;
    fn bit_xor(self, o: Self) -> Self;
    fn shl(self, o: Self) -> Self;
    fn shr(self, o: Self) -> Self;
    fn gcd(self, o: Self) -> Self;
}
