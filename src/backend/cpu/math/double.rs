//! float64: exponentials, logarithms and functions based on them.

use super::dd::{Dd, fast_two_sum, split, two_prod, two_sum};
use super::lanes::{Lanes, poly};
use crate::formula::coefficients::double;

/// Adding this to |x| < 2^51 rounds x to an integer, held in the low bits of the sum.
const ROUND: f64 = 6755399441055744.0;
/// ln 2 in two parts; the first has 40 significant bits, so that its product with an exponent is exact.
const LN2_HI: f64 = double::LN2_HI;
const LN2_LO: f64 = double::LN2_LO;
const LOG2_E: Dd = Dd { hi: std::f64::consts::LOG2_E, lo: double::LOG2_E_REST };
const LOG10_E: Dd = Dd { hi: std::f64::consts::LOG10_E, lo: double::LOG10_E_REST };
const LOG10_2: Dd = Dd { hi: std::f64::consts::LOG10_2, lo: double::LOG10_2_REST };
const LN_2: Dd = Dd { hi: std::f64::consts::LN_2, lo: double::LN2_REST };
/// Odd functions with slope 1 at zero return arguments below this unchanged.
const TINY: f64 = 7.450580596923828e-9; // 2^-27

/// A constant.
#[inline(always)]
fn c<L: Lanes<Number = f64>>(v: f64) -> L {
    L::of(v)
}

/// Minimum; unlike `f64::min`, NaN `x` stays NaN.
#[inline(always)]
pub(super) fn at_most(x: f64, bound: f64) -> f64 {
    if x > bound { bound } else { x }
}

/// Maximum; NaN `x` stays NaN.
#[inline(always)]
pub(super) fn at_least(x: f64, bound: f64) -> f64 {
    if x < bound { bound } else { x }
}

/// Rounds |x| < 2^51 to an integer.
#[inline(always)]
pub(super) fn nearest<L: Lanes<Number = f64>>(x: L) -> L {
    (x + c(ROUND)) - c(ROUND)
}

/// An integer |n| < 2^51 as a two's complement number in the low 51 bits.
#[inline(always)]
pub(super) fn integer_bits(n: f64) -> u64 {
    (n + ROUND).to_bits()
}

/// 2^n for an integer n in -1022..=1023.
#[inline(always)]
pub(super) fn pow2<L: Lanes<Number = f64>>(n: L) -> L {
    (n + c(ROUND)).add_bits(c(f64::from_bits(1023))).shl_bits(52)
}

/// `x`·2^n for an integer |n| <= 2044, rounded once even if the result is subnormal.
#[inline(always)]
pub(super) fn scale<L: Lanes<Number = f64>>(x: L, n: L) -> L {
    let half = nearest(n * c(0.5));
    x * pow2(half) * pow2(n - half)
}

/// x + xl = n·ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r + tail.
#[inline(always)]
fn reduce_exp<L: Lanes<Number = f64>>(x: L, xl: L) -> (L, L, L) {
    let n = nearest(x * c(LOG2_E.hi));
    let (a, b) = (x - n * c(LN2_HI), n * c(LN2_LO) - xl);
    let r = a - b;
    let rl = (a - r) - b;
    let q = poly(r, double::EXP);
    (n, r, (rl + r * rl) + r * r * q)
}

/// e^(x + xl) as a double-double, to be multiplied by 2^n.
#[inline(always)]
pub(super) fn exp_parts(x: f64, xl: f64) -> (Dd, f64) {
    let (n, r, tail) = reduce_exp(x, xl);
    let s = fast_two_sum(1.0, r);
    (fast_two_sum(s.hi, s.lo + tail), n)
}

/// e^x - 1 as a double-double, to be multiplied by 2^n; for x >= -40.
#[inline(always)]
fn expm1_parts(x: f64) -> (Dd, f64) {
    let (n, r, tail) = reduce_exp(x, 0.0);
    // From n = 60 on the 1 is below one ulp, so its exact value does not matter.
    let s = two_sum(1.0 - pow2(-at_most(n, 60.0)), r);
    (fast_two_sum(s.hi, s.lo + tail), n)
}

#[inline(always)]
pub fn exp_f64<L: Lanes<Number = f64>>(x: L) -> L {
    let (n, r, tail) = reduce_exp(x.at_most(c(712.0)).at_least(c(-748.0)), c(0.0));
    scale(c::<L>(1.0) + (r + tail), n)
}

#[inline(always)]
pub fn exp2_f64(x: f64) -> f64 {
    let x = at_least(at_most(x, 1026.0), -1080.0);
    let n = nearest(x);
    let r = two_prod(x - n, LN_2.hi);
    let (_, r, tail) = reduce_exp(r.hi, r.lo + (x - n) * LN_2.lo);
    scale(1.0 + (r + tail), n)
}

#[inline(always)]
pub fn expm1_f64(x: f64) -> f64 {
    let (e, n) = expm1_parts(at_least(at_most(x, 712.0), -40.0));
    scale(e.value(), n).copysign(x)
}

#[inline(always)]
pub fn sinh_f64(x: f64) -> f64 {
    let (e, n) = expm1_parts(at_most(x.abs(), 712.0));
    let s = e.scale(pow2(at_most(n, 60.0)));
    let small = 0.5 * s.add(s.div(Dd { hi: 1.0, lo: 0.0 }.add(s))).value();
    let large = scale(e.value(), n - 1.0);
    (if n < 58.0 { small } else { large }).copysign(x)
}

#[inline(always)]
pub fn cosh_f64(x: f64) -> f64 {
    let (e, n) = exp_parts(at_most(x.abs(), 712.0), 0.0);
    let s = e.scale(pow2(at_most(n, 60.0)));
    let small = 0.5 * s.add(Dd { hi: 1.0, lo: 0.0 }.div(s)).value();
    if n < 58.0 { small } else { scale(e.value(), n - 1.0) }
}

#[inline(always)]
pub fn tanh_f64(x: f64) -> f64 {
    // tanh x = E / (E + 2) with E = e^2x - 1.
    let (e, n) = expm1_parts(at_most(2.0 * x.abs(), 44.0));
    let e = e.scale(pow2(n));
    let t = e.div(Dd { hi: 2.0, lo: 0.0 }.add(e)).value();
    (if x.abs() < TINY { x } else { t }).copysign(x)
}

/// x = 2^k·m with m between √(1/2) and √2, for positive finite x.
#[inline(always)]
fn reduce_log<L: Lanes<Number = f64>>(x: L) -> (L, L) {
    let denormal = x.less(c(f64::MIN_POSITIVE));
    let (k, m) = reduce_log_of_normal(L::select(denormal, x * c(18014398509481984.0), x));
    (L::select(denormal, k - c(54.0), k), m)
}

/// As [`reduce_log`], for normal x, such as every positive float32 is in float64.
#[inline(always)]
pub(super) fn reduce_log_of_normal<L: Lanes<Number = f64>>(x: L) -> (L, L) {
    const SQRT_HALF: u64 = 0x3fe6a09e667f3bcd;
    const ONE: u64 = 0x3ff0000000000000;
    let bits = |v: u64| c::<L>(f64::from_bits(v));
    let e = x.add_bits(bits(ONE - SQRT_HALF)).shr_bits(52);
    let m = x.sub_bits(e.sub_bits(bits(1023)).shl_bits(52));
    // As the low bits of 2^52, `e` becomes a double without an integer conversion.
    (bits(0x4330000000000000).or_bits(e) - c(4503599627370496.0 + 1023.0), m)
}

/// Extends the logarithm of positive finite numbers to all x.
#[inline(always)]
pub(super) fn log_ends<L: Lanes<Number = f64>>(x: L, log: L) -> L {
    let log = L::select(x.less(c(f64::INFINITY)), log, x);
    let ends = L::select(x.equal(c(0.0)), c(f64::NEG_INFINITY), c(f64::NAN));
    L::select(c::<L>(0.0).less(x), log, ends)
}

/// log(1 + f) = f - h + rest with h = f²/2, as (h, rest).
#[inline(always)]
fn log_terms<L: Lanes<Number = f64>>(f: L) -> (L, L) {
    // With s = f / (2 + f), rest = s·(h + s²·P(s²)): the rounding error of s has little effect.
    let s = f / (c::<L>(2.0) + f);
    let (z, h) = (s * s, c::<L>(0.5) * f * f);
    let p = z * poly(z, double::LOG);
    (h, s * (h + p))
}

/// k·ln 2 + log(1 + f)
#[inline(always)]
fn log_of_reduced<L: Lanes<Number = f64>>(k: L, f: L) -> L {
    let (h, rest) = log_terms(f);
    k * c(LN2_HI) - ((h - (rest + k * c(LN2_LO))) - f)
}

#[inline(always)]
pub fn log_f64<L: Lanes<Number = f64>>(x: L) -> L {
    let (k, m) = reduce_log(x);
    log_ends(x, log_of_reduced(k, m - c(1.0)))
}

#[inline(always)]
pub fn log1p_f64(x: f64) -> f64 {
    let s = two_sum(1.0, x);
    let (k, m) = reduce_log(s.hi);
    let log = log_ends(s.hi, log_of_reduced(k, (m - 1.0) + s.lo * pow2(-at_most(k, 1022.0))));
    if x.abs() < 1e-17 { x } else { log }
}

/// k·`of_2` + log(1 + f)·`per_e`: the logarithm to base b, where `per_e` is 1/ln b and `of_2` the logarithm of 2 to
/// base b.
#[inline(always)]
fn log_to_base(x: f64, of_2: Dd, per_e: Dd) -> f64 {
    let (k, m) = reduce_log(x);
    let f = m - 1.0;
    let (h, rest) = log_terms(f);
    // Split the logarithm in two; the first part is short enough for exact products.
    let (hi, _) = split(f - h);
    let lo = ((f - hi) - h) + rest;
    let (c_hi, c_lo) = split(per_e.hi);
    let (k_hi, k_lo) = split(of_2.hi);
    let s = two_sum(k * k_hi, hi * c_hi);
    let tail = lo * per_e.hi + hi * (c_lo + per_e.lo) + k * (k_lo + of_2.lo);
    log_ends(x, s.hi + (s.lo + tail))
}

#[inline(always)]
pub fn log2_f64(x: f64) -> f64 {
    log_to_base(x, Dd { hi: 1.0, lo: 0.0 }, LOG2_E)
}

#[inline(always)]
pub fn log10_f64(x: f64) -> f64 {
    log_to_base(x, LOG10_2, LOG10_E)
}

/// The logarithm of x + xl > 0 as a double-double, with relative error about 2^-66.
#[inline(always)]
fn log_dd(x: f64, xl: f64) -> Dd {
    let (k, m) = reduce_log(x);
    let f = two_sum(m - 1.0, xl * pow2(-at_least(at_most(k, 1022.0), -1022.0)));
    let s = f.div(fast_two_sum(2.0, f.hi).add(Dd { hi: f.lo, lo: 0.0 }));
    let z = s.mul(s);
    let p = poly(z.hi, double::LOG_PAIR);
    // log = 2s + s·z·(2/3 + z·p)
    let t = fast_two_sum(2.0 / 3.0, z.hi * p);
    let t = Dd { hi: t.hi, lo: t.lo + double::TWO_THIRDS_REST };
    Dd { hi: k * LN2_HI, lo: k * LN2_LO }.add(s.scale(2.0).add(s.mul(z.mul(t))))
}

#[inline(always)]
pub fn asinh_f64(x: f64) -> f64 {
    let a = x.abs();
    // Beyond 2^28, asinh x = log 2x.
    let large = a > 268435456.0;
    let b = at_most(a, 268435456.0);
    let y = two_prod(b, b).add(Dd { hi: 1.0, lo: 0.0 }).sqrt().add(Dd { hi: b, lo: 0.0 });
    let log = log_dd(if large { a } else { y.hi }, if large { 0.0 } else { y.lo });
    let v = if large { log.add(LN_2) } else { log }.value();
    let v = if a < TINY { a } else { v };
    (if a < f64::INFINITY { v } else { a }).copysign(x)
}

#[inline(always)]
pub fn acosh_f64(x: f64) -> f64 {
    let large = x > 268435456.0;
    let b = at_most(x, 268435456.0);
    let y = two_prod(b, b).add(Dd { hi: -1.0, lo: 0.0 }).sqrt().add(Dd { hi: b, lo: 0.0 });
    let log = log_dd(if large { x } else { y.hi }, if large { 0.0 } else { y.lo });
    let v = if large { log.add(LN_2) } else { log }.value();
    let v = if x < f64::INFINITY { v } else { x };
    if x >= 1.0 { v } else { f64::NAN }
}

#[inline(always)]
pub fn atanh_f64(x: f64) -> f64 {
    let a = x.abs();
    let q = two_sum(1.0, a).div(two_sum(1.0, -a));
    let v = 0.5 * log_dd(q.hi, q.lo).value();
    let v = if a < TINY { a } else { v };
    let v = if a < 1.0 {
        v
    } else if a == 1.0 {
        f64::INFINITY
    } else {
        f64::NAN
    };
    v.copysign(x)
}

/// Whether |y| is an integer, and whether it is odd.
#[inline(always)]
fn integer_and_odd(y: f64) -> (bool, bool) {
    const TWO_52: f64 = 4503599627370496.0;
    let (a, h) = (y.abs(), y.abs() * 0.5);
    // Bitwise operators throughout: short-circuiting operators would branch.
    let integer = (a >= TWO_52) | ((a + TWO_52) - TWO_52 == a);
    (integer, integer & (h < TWO_52) & ((h + TWO_52) - TWO_52 != h))
}

/// C99's special cases of `pow`, given |x|^y for finite non-zero x.
#[inline(always)]
pub(super) fn pow_ends(x: f64, y: f64, v: f64) -> f64 {
    let a = x.abs();
    let v = if (a == 0.0) | (a == f64::INFINITY) {
        if (a == 0.0) == (y > 0.0) { 0.0 } else { f64::INFINITY }
    } else {
        v
    };
    let (integer, odd) = integer_and_odd(y);
    let negative = x.is_sign_negative();
    let v = if negative & odd { -v } else { v };
    let v = if negative & !integer & (a != 0.0) & (a != f64::INFINITY) { f64::NAN } else { v };
    let v = if x.is_nan() | y.is_nan() { f64::NAN } else { v };
    if (y == 0.0) | (x == 1.0) { 1.0 } else { v }
}

#[inline(always)]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let log = log_dd(a, 0.0);
    // Larger exponents overflow or underflow for every base except 1.
    let e = at_least(at_most(y, 3.6893488147419103e19), -3.6893488147419103e19);
    let p = two_prod(e, log.hi);
    let ends = (p.hi > 712.0) | (p.hi < -748.0);
    let p_lo = if ends { 0.0 } else { p.lo + e * log.lo };
    let (n, r, tail) = reduce_exp(at_least(at_most(p.hi, 712.0), -748.0), p_lo);
    pow_ends(x, y, scale(1.0 + (r + tail), n))
}
