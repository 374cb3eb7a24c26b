//! Elementary and special functions of `f32` and `f64`, written so that plain loops over them vectorize.
//!
//! The functions have no table, no call and, with a few marked exceptions, no branch: choices are selects, exponents
//! are integer arithmetic on the bits. They avoid fused multiply-add, which the baseline instruction set lacks, so
//! every instruction set gives bit-identical results. Errors are below 2 ulp (gamma and inverse error functions: a few
//! more); zeros, infinities and NaN behave as in C99.

#[path = "math/dd.rs"]
mod dd;
#[path = "math/double.rs"]
mod double;
#[path = "math/gamma.rs"]
mod gamma;
#[path = "math/lanes.rs"]
pub mod lanes;
#[path = "math/nonpositive.rs"]
mod nonpositive;
#[path = "math/single.rs"]
mod single;
#[path = "math/special.rs"]
mod special;
#[path = "math/trig.rs"]
mod trig;

pub use self::double::{
    acosh_f64, asinh_f64, atanh_f64, cosh_f64, exp_f64, exp2_f64, expm1_f64, log_f64, log1p_f64, log2_f64,
    log10_f64, pow_f64, sinh_f64, tanh_f64,
};
pub use self::gamma::{digamma_f32, digamma_f64, lgamma_f32, lgamma_f64};
pub use self::nonpositive::ExpNonpositive;
pub use self::single::{
    acos_f32, acosh_f32, asin_f32, asinh_f32, atan_f32, atan2_f32, atanh_f32, cos_f32, cosh_f32, erf_f32,
    erfc_f32, erfinv_f32, exp_f32, exp2_f32, expm1_f32, log_f32, log1p_f32, log2_f32, log10_f32,
    normal_cdf_f32, pow_f32, sin_f32, sinh_f32, tan_f32, tanh_f32,
};
pub use self::special::{erf_f64, erfc_f64, erfinv_f64, normal_cdf_f64};
pub use self::trig::{acos_f64, asin_f64, atan_f64, atan2_f64, cos_f64, cos_sin_turns_f64, sin_f64, tan_f64};
use crate::dtype::Real;

/// The elementwise functions of one argument, and a few of two.
pub trait Math: Real {
    fn m_exp(self) -> Self;
    fn m_expm1(self) -> Self;
    fn m_exp2(self) -> Self;
    fn m_log(self) -> Self;
    fn m_log1p(self) -> Self;
    fn m_log2(self) -> Self;
    fn m_log10(self) -> Self;
    fn m_sin(self) -> Self;
    fn m_cos(self) -> Self;
    fn m_tan(self) -> Self;
    fn m_sinh(self) -> Self;
    fn m_cosh(self) -> Self;
    fn m_tanh(self) -> Self;
    fn m_asin(self) -> Self;
    fn m_acos(self) -> Self;
    fn m_atan(self) -> Self;
    /// The angle of the point with coordinates `x` and `self`.
    fn m_atan2(self, x: Self) -> Self;
    fn m_asinh(self) -> Self;
    fn m_acosh(self) -> Self;
    fn m_atanh(self) -> Self;
    fn m_erf(self) -> Self;
    fn m_erfc(self) -> Self;
    fn m_erfinv(self) -> Self;
    /// The distribution function of the standard normal distribution; absolute rather than relative accuracy near 0.
    fn m_normal_cdf(self) -> Self;
    /// The logarithm of the absolute value of the gamma function.
    fn m_lgamma(self) -> Self;
    fn m_digamma(self) -> Self;
    fn m_pow(self, e: Self) -> Self;
    fn m_floor(self) -> Self;
    fn m_ceil(self) -> Self;
    fn m_trunc(self) -> Self;
    /// Rounds to the nearest integer, halves to the even one.
    fn m_round_even(self) -> Self;
    /// C's `fmod`: the remainder with the sign of `self`.
    fn m_fmod(self, y: Self) -> Self;
}

/// Functions that have a faster algorithm for common arguments: its result, and whether the argument is outside of its range. Then the result
/// is meaningless, and [`Math`] has the right one. By default there is no faster algorithm.
pub trait QuickMath: Math {
    #[inline(always)]
    fn quick_sin(self) -> (Self, bool) {
        (self.m_sin(), false)
    }
    #[inline(always)]
    fn quick_cos(self) -> (Self, bool) {
        (self.m_cos(), false)
    }
    #[inline(always)]
    fn quick_tan(self) -> (Self, bool) {
        (self.m_tan(), false)
    }
}

macro_rules! quick_angles {
    ($($t:ident $module:ident: $($quick:ident $common:ident)*;)*) => { $(impl QuickMath for $t {
        $(#[inline(always)]
        fn $quick(self) -> (Self, bool) {
            ($module::$common(self), $module::is_large_angle(self))
        })*
    })* };
}
// See Note [Angles of common size].
quick_angles! {
    f32 single: quick_sin sin_of_common quick_cos cos_of_common;
    f64 trig: quick_sin sin_of_common quick_cos cos_of_common quick_tan tan_of_common;
}

// Note [Remainders of float32] In float64 a quotient of two float32 numbers below 2^28 is on the right side of every
// integer: it differs from one by at least 2^-52 of itself, or is one. So its integer part is that of the exact
// quotient; that times the divisor has at most 52 bits, and the rest is exact. The same steps give NaN for infinite
// dividends, for zero divisors and for NaN. Larger finite quotients are left to the general algorithm, which takes a
// step for each bit. A loop that called it would not be vectorized. So loops over formulas first compute all elements
// as `formula::Quick`, which only notes that a quotient was large, and afterwards compute anew the blocks in which one
// was.

/// C's `fmod`, and whether the quotient was too large for it; see Note [Remainders of float32].
#[inline(always)]
pub fn quick_fmod_f32(x: f32, y: f32) -> (f32, bool) {
    let (a, b) = (x as f64, y as f64);
    let q = a / b;
    let r = (a - q.trunc() * b) as f32;
    // An infinite divisor leaves x, but its product is NaN.
    let r = if q.abs() < 1.0 { x } else { r.copysign(x) };
    let is_large = (q.abs() >= (1u64 << 28) as f64) & (q.abs() < f64::INFINITY);
    (r, is_large)
}

#[inline(always)]
fn fmod_f32(x: f32, y: f32) -> f32 {
    let (r, is_large) = quick_fmod_f32(x, y);
    if is_large { general_fmod(x, y) } else { r }
}

#[cold]
#[inline(never)]
fn general_fmod(x: f32, y: f32) -> f32 {
    x % y
}

fn fmod_f64(x: f64, y: f64) -> f64 {
    x % y
}

macro_rules! math {
    ($t:ident, $atan2:ident, $pow:ident, $fmod:ident, $($method:ident $function:ident,)*) => {
        impl Math for $t {
            $(#[inline(always)]
            fn $method(self) -> Self {
                $function(self)
            })*
            #[inline(always)]
            fn m_atan2(self, x: Self) -> Self {
                $atan2(self, x)
            }
            #[inline(always)]
            fn m_pow(self, e: Self) -> Self {
                $pow(self, e)
            }
            #[inline(always)]
            fn m_floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn m_ceil(self) -> Self {
                self.ceil()
            }
            #[inline(always)]
            fn m_trunc(self) -> Self {
                self.trunc()
            }
            #[inline(always)]
            fn m_round_even(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn m_fmod(self, y: Self) -> Self {
                $fmod(self, y)
            }
        }
    };
}

math! {
    f32, atan2_f32, pow_f32, fmod_f32,
    m_exp exp_f32, m_expm1 expm1_f32, m_exp2 exp2_f32, m_log log_f32, m_log1p log1p_f32, m_log2 log2_f32,
    m_log10 log10_f32, m_sin sin_f32, m_cos cos_f32, m_tan tan_f32, m_sinh sinh_f32, m_cosh cosh_f32,
    m_tanh tanh_f32, m_asin asin_f32, m_acos acos_f32, m_atan atan_f32, m_asinh asinh_f32,
    m_acosh acosh_f32, m_atanh atanh_f32, m_erf erf_f32, m_erfc erfc_f32, m_erfinv erfinv_f32,
    m_normal_cdf normal_cdf_f32, m_lgamma lgamma_f32, m_digamma digamma_f32,
}
math! {
    f64, atan2_f64, pow_f64, fmod_f64,
    m_exp exp_f64, m_expm1 expm1_f64, m_exp2 exp2_f64, m_log log_f64, m_log1p log1p_f64, m_log2 log2_f64,
    m_log10 log10_f64, m_sin sin_f64, m_cos cos_f64, m_tan tan_f64, m_sinh sinh_f64, m_cosh cosh_f64,
    m_tanh tanh_f64, m_asin asin_f64, m_acos acos_f64, m_atan atan_f64, m_asinh asinh_f64,
    m_acosh acosh_f64, m_atanh atanh_f64, m_erf erf_f64, m_erfc erfc_f64, m_erfinv erfinv_f64,
    m_normal_cdf normal_cdf_f64, m_lgamma lgamma_f64, m_digamma digamma_f64,
}

#[cfg(test)]
#[path = "math/tests.rs"]
mod tests;
