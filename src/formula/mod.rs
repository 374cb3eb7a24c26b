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

use crate::backend::cpu::math::{Math, QuickMath, quick_fmod_f32};

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
    /// Maximum, `self` of equals; NaN if either is NaN.
    fn maximum(self, o: Self) -> Self;
    /// Minimum, `self` of equals; NaN if either is NaN.
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
    ([$($f:ident $prim:ident $m:ident),*] angles [$($angle:ident $angle_prim:ident $angle_m:ident $quick:ident),*]) => {
        /// Floating point numbers: arithmetic, division and the elementary functions.
        pub trait Num: Arith + Div<Output = Self> {
            $(fn $f(self) -> Self;)*
            $(fn $angle(self) -> Self;)*
            fn pow(self, e: Self) -> Self;
            fn atan2(self, x: Self) -> Self;
            fn sqrt(self) -> Self;
        }
        macro_rules! num_for {
            ($t:ident) => { impl Num for $t {
                $(#[inline(always)] fn $f(self) -> Self { Math::$m(self) })*
                $(#[inline(always)] fn $angle(self) -> Self { Math::$angle_m(self) })*
                #[inline(always)] fn pow(self, e: Self) -> Self { Math::m_pow(self, e) }
                #[inline(always)] fn atan2(self, x: Self) -> Self { Math::m_atan2(self, x) }
                #[inline(always)] fn sqrt(self) -> Self { $t::sqrt(self) }
            } };
        }
        num_for!(f32);
        num_for!(f64);
        impl Num for record::Sym {
            $(fn $f(self) -> Self { record::unary(record::Prim::$prim, self) })*
            $(fn $angle(self) -> Self { record::unary(record::Prim::$angle_prim, self) })*
            fn pow(self, e: Self) -> Self { record::binary(record::Prim::Pow, self, e) }
            fn atan2(self, x: Self) -> Self { record::binary(record::Prim::Atan2, self, x) }
            fn sqrt(self) -> Self { record::unary(record::Prim::Sqrt, self) }
        }
        impl<T: QuickNum> Num for Quick<T> {
            $(#[inline(always)] fn $f(self) -> Self { self.map(Num::$f) })*
            $(#[inline(always)] fn $angle(self) -> Self { self.checked(QuickMath::$quick) })*
            #[inline(always)] fn pow(self, e: Self) -> Self { self.zip(e, Num::pow) }
            #[inline(always)] fn atan2(self, x: Self) -> Self { self.zip(x, Num::atan2) }
            #[inline(always)] fn sqrt(self) -> Self { self.map(Num::sqrt) }
        }
    };
}

num_functions! {
    [exp Exp m_exp, expm1 Expm1 m_expm1, exp2 Exp2 m_exp2, log Log m_log, log1p Log1p m_log1p, log2 Log2 m_log2,
    log10 Log10 m_log10, sinh Sinh m_sinh, cosh Cosh m_cosh,
    tanh Tanh m_tanh, asin Asin m_asin, acos Acos m_acos, atan Atan m_atan, asinh Asinh m_asinh,
    acosh Acosh m_acosh, atanh Atanh m_atanh, erf Erf m_erf, erfc Erfc m_erfc, erfinv Erfinv m_erfinv,
    normal_cdf NormalCdf m_normal_cdf, lgamma Lgamma m_lgamma, digamma Digamma m_digamma, floor Floor m_floor,
    ceil Ceil m_ceil, trunc Trunc m_trunc, round Round m_round_even]
    angles [sin Sin m_sin quick_sin, cos Cos m_cos quick_cos, tan Tan m_tan quick_tan]
}

/// The quotient rounded down, given the remainder `m` with the sign of the dividend. As Python's floor division, it
/// is exact where rounding the quotient would cross an integer.
#[inline(always)]
fn floored<T: Num<Bool = bool> + Math>(x: T, o: T, m: T) -> T {
    let (zero, one) = (T::zero(), T::one());
    let q = (x - m) / o;
    let q = if m.ne(zero) & (o.lt(zero) != m.lt(zero)) { q - one } else { q };
    let f = q.m_floor();
    let r = if (q - f).gt(T::lit(0.5)) { f + one } else { f };
    let r = if q.eq(zero) { (x / o) * zero } else { r };
    if o.eq(zero) { x / o } else { r }
}

/// The remainder with the sign of the divisor, given the one with the sign of the dividend.
#[inline(always)]
fn signed_as_divisor<T: Arith<Bool = bool>>(m: T, divisor: T) -> T {
    let zero = T::zero();
    if m.ne(zero) & (divisor.lt(zero) != m.lt(zero)) { m + divisor } else { m }
}

// Note [Bounds that are the same for all] x86 has one instruction for `if o > x { o } else { x }`, which returns `x` if either is
// NaN. That is right if `x` is NaN. For the other case a NaN `o` is added to `x`, and else -0.0, which changes no number (but
// flushes a denormal one if the program asked for that). Where `o` is the same for all elements of a loop, as a bound is, LLVM
// hoists the choice of the summand out of the loop; for a literal it removes the sum.

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
        // See Note [Bounds that are the same for all].
        #[inline(always)] fn maximum(self, o: Self) -> Self {
            let x = self + if o != o { o } else { -0.0 };
            if o > x { o } else { x }
        }
        #[inline(always)] fn minimum(self, o: Self) -> Self {
            let x = self + if o != o { o } else { -0.0 };
            if o < x { o } else { x }
        }
        #[inline(always)] fn abs(self) -> Self { $t::abs(self) }
        #[inline(always)] fn floor_div(self, o: Self) -> Self { floored(self, o, Math::m_fmod(self, o)) }
        #[inline(always)] fn trunc_div(self, o: Self) -> Self { Math::m_trunc(self / o) }
        #[inline(always)] fn remainder(self, o: Self) -> Self { signed_as_divisor(Math::m_fmod(self, o), o) }
        #[inline(always)] fn fmod(self, o: Self) -> Self { Math::m_fmod(self, o) }
    })* };
}
arith_float!(f32 f64);

/// A number, or the outcome of a comparison, computed without the algorithms for rare arguments, and whether one of them was
/// needed; see Note [Remainders of float32], Note [Quotients of integers] and Note [Angles of common size].
#[derive(Clone, Copy)]
pub struct Quick<T> {
    pub value: T,
    /// The value has to be computed anew.
    pub is_wrong: bool,
}

impl<T> Quick<T> {
    #[inline(always)]
    pub fn of(value: T) -> Quick<T> {
        Quick { value, is_wrong: false }
    }
    #[inline(always)]
    fn map<U>(self, f: impl FnOnce(T) -> U) -> Quick<U> {
        Quick { value: f(self.value), is_wrong: self.is_wrong }
    }
    #[inline(always)]
    fn zip<O, U>(self, o: Quick<O>, f: impl FnOnce(T, O) -> U) -> Quick<U> {
        Quick { value: f(self.value, o.value), is_wrong: self.is_wrong | o.is_wrong }
    }
    /// As `map`, of a function that tells whether its value is wrong.
    #[inline(always)]
    fn checked(self, f: impl FnOnce(T) -> (T, bool)) -> Self {
        let (value, is_wrong) = f(self.value);
        Quick { value, is_wrong: self.is_wrong | is_wrong }
    }
    /// As `zip`, of a function that tells whether its value is wrong.
    #[inline(always)]
    fn divided(self, o: Self, f: impl FnOnce(T, T) -> (T, bool)) -> Self {
        let (value, is_wrong) = f(self.value, o.value);
        Quick { value, is_wrong: self.is_wrong | o.is_wrong | is_wrong }
    }
}

/// Divisions that have a faster algorithm for common arguments: its result, and whether that is wrong. By default there is no faster
/// algorithm.
pub trait QuickDivision: Arith<Bool = bool> {
    #[inline(always)]
    fn quick_floor_div(self, o: Self) -> (Self, bool) {
        (self.floor_div(o), false)
    }
    #[inline(always)]
    fn quick_trunc_div(self, o: Self) -> (Self, bool) {
        (self.trunc_div(o), false)
    }
    #[inline(always)]
    fn quick_remainder(self, o: Self) -> (Self, bool) {
        (self.remainder(o), false)
    }
    #[inline(always)]
    fn quick_fmod(self, o: Self) -> (Self, bool) {
        (self.fmod(o), false)
    }
}

impl QuickDivision for f64 {}

impl QuickDivision for f32 {
    #[inline(always)]
    fn quick_floor_div(self, o: Self) -> (Self, bool) {
        let (m, is_large) = quick_fmod_f32(self, o);
        (floored(self, o, m), is_large)
    }
    #[inline(always)]
    fn quick_remainder(self, o: Self) -> (Self, bool) {
        let (m, is_large) = quick_fmod_f32(self, o);
        (signed_as_divisor(m, o), is_large)
    }
    #[inline(always)]
    fn quick_fmod(self, o: Self) -> (Self, bool) {
        quick_fmod_f32(self, o)
    }
}

/// Floating point numbers, with the faster algorithms for common arguments.
pub trait QuickNum: QuickDivision + QuickMath + Num {}
impl<T: QuickDivision + QuickMath + Num> QuickNum for T {}

// Note [Quotients of integers] No vector instruction divides integers. But a positive quotient of integers up to 2^51 that is less than an
// integer k is at most k (1 - 2^-52), so its nearest float64 number is less than k too, and likewise for negative ones: rounded down or
// toward zero it is the quotient of the integers. The remainder is exact in float64, as its terms are. For other dividends or divisors,
// 0 among them, the block is computed anew.

/// Integers that are divided as float64 numbers.
trait ViaDouble: Copy {
    /// The number as float64, and whether it is beyond ±2^51.
    fn to_double(self) -> (f64, bool);
    /// An integer below 2^51, or what its lower bits are.
    fn of_double(v: f64) -> Self;
}

/// 2^52 + 2^51: added to an integer below 2^51, its lower bits are that integer.
const WHOLE: f64 = 6755399441055744.0;

impl ViaDouble for i64 {
    #[inline(always)]
    fn to_double(self) -> (f64, bool) {
        let is_large = self.wrapping_add(1 << 51) as u64 >> 52 != 0;
        (f64::from_bits(self.wrapping_add(WHOLE.to_bits() as i64) as u64) - WHOLE, is_large)
    }
    #[inline(always)]
    fn of_double(v: f64) -> i64 {
        ((v + WHOLE).to_bits() as i64).wrapping_sub(WHOLE.to_bits() as i64)
    }
}
impl ViaDouble for i32 {
    #[inline(always)]
    fn to_double(self) -> (f64, bool) {
        (f64::from(self), false)
    }
    #[inline(always)]
    fn of_double(v: f64) -> i32 {
        (v + WHOLE).to_bits() as i32
    }
}

/// A function of two integers as float64 numbers, and whether it is wrong.
#[inline(always)]
fn divided<T: ViaDouble>(x: Int<T>, o: Int<T>, f: impl FnOnce(f64, f64) -> f64) -> (Int<T>, bool) {
    let ((x, is_large), (o, is_large_too)) = (x.0.to_double(), o.0.to_double());
    (Int(T::of_double(f(x, o))), is_large | is_large_too | (o == 0.0))
}

macro_rules! quick_division_of_integers {
    ($($t:ty)*) => { $(impl QuickDivision for Int<$t> {
        #[inline(always)]
        fn quick_floor_div(self, o: Self) -> (Self, bool) {
            divided(self, o, |x, o| (x / o).m_floor())
        }
        #[inline(always)]
        fn quick_trunc_div(self, o: Self) -> (Self, bool) {
            divided(self, o, |x, o| (x / o).m_trunc())
        }
        #[inline(always)]
        fn quick_remainder(self, o: Self) -> (Self, bool) {
            divided(self, o, |x, o| x - (x / o).m_floor() * o)
        }
        #[inline(always)]
        fn quick_fmod(self, o: Self) -> (Self, bool) {
            divided(self, o, |x, o| x - (x / o).m_trunc() * o)
        }
    })* };
}
quick_division_of_integers! { i32 i64 }

macro_rules! quick_operators {
    ($($tr:ident $f:ident;)*) => { $(impl<T: QuickDivision> $tr for Quick<T> {
        type Output = Self;
        #[inline(always)] fn $f(self, o: Self) -> Self { self.zip(o, $tr::$f) }
    })* };
}
quick_operators! { Add add; Sub sub; Mul mul; }
impl<T: QuickNum> Div for Quick<T> {
    type Output = Self;
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        self.zip(o, Div::div)
    }
}
impl<T: QuickDivision> Neg for Quick<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(Neg::neg)
    }
}

macro_rules! quick_functions {
    ($($f:ident $r:ty;)*) => {
        $(#[inline(always)] fn $f(self, o: Self) -> Quick<$r> { self.zip(o, Arith::$f) })*
    };
    (divisions $($f:ident $quick:ident;)*) => {
        $(#[inline(always)] fn $f(self, o: Self) -> Self { self.divided(o, T::$quick) })*
    };
}
impl<T: QuickDivision> Arith for Quick<T> {
    type Bool = Quick<bool>;
    quick_functions! { lt bool; le bool; eq bool; maximum T; minimum T; }
    quick_functions! { divisions
        floor_div quick_floor_div; trunc_div quick_trunc_div; remainder quick_remainder; fmod quick_fmod;
    }
    #[inline(always)]
    fn lit(v: f64) -> Self {
        Quick::of(T::lit(v))
    }
    #[inline(always)]
    fn not(c: Quick<bool>) -> Quick<bool> {
        c.map(|c| !c)
    }
    #[inline(always)]
    fn and(a: Quick<bool>, b: Quick<bool>) -> Quick<bool> {
        a.zip(b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(a: Quick<bool>, b: Quick<bool>) -> Quick<bool> {
        a.zip(b, |a, b| a | b)
    }
    #[inline(always)]
    fn select(c: Quick<bool>, yes: Self, no: Self) -> Self {
        let either = yes.zip(no, |yes, no| (yes, no));
        c.zip(either, |c, (yes, no)| T::select(c, yes, no))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map(Arith::abs)
    }
}

/// An integer in a formula: arithmetic wraps, as in PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Int<T>(pub T);

macro_rules! arith_int {
    ($($t:ident $abs:expr;)*) => { $(
        impl Add for Int<$t> { type Output = Self; #[inline(always)] fn add(self, o: Self) -> Self { Int(self.0.wrapping_add(o.0)) } }
        impl Sub for Int<$t> { type Output = Self; #[inline(always)] fn sub(self, o: Self) -> Self { Int(self.0.wrapping_sub(o.0)) } }
        impl Mul for Int<$t> { type Output = Self; #[inline(always)] fn mul(self, o: Self) -> Self { Int(self.0.wrapping_mul(o.0)) } }
        impl Neg for Int<$t> { type Output = Self; #[inline(always)] fn neg(self) -> Self { Int(self.0.wrapping_neg()) } }
        #[allow(unused_comparisons, reason = "unsigned types are never negative")]
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
            #[inline(always)] fn abs(self) -> Self { Int($abs(self.0)) }
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
        #[allow(unused_comparisons, reason = "unsigned types are never negative")]
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
                let (mut a, mut b) = ($abs(self.0), $abs(o.0));
                while b != 0 { (a, b) = (b, a.wrapping_rem(b)); }
                Int(a)
            }
        }
    )* };
}
arith_int! { i32 i32::wrapping_abs; i64 i64::wrapping_abs; u8 std::convert::identity::<u8>; }

/// Integer-only operations.
pub trait Bits: Arith {
    fn bit_and(self, o: Self) -> Self;
    fn bit_or(self, o: Self) -> Self;
    fn bit_xor(self, o: Self) -> Self;
    fn shl(self, o: Self) -> Self;
    fn shr(self, o: Self) -> Self;
    fn gcd(self, o: Self) -> Self;
}
