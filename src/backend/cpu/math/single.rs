//! float32. The functions common in neural networks are computed in `f32`, the others in `f64`, where short
//! polynomials suffice for full `f32` accuracy.

use std::f64::consts::{FRAC_PI_2, PI};

use super::double::{
    at_least, at_most, integer_bits, log_ends, nearest, pow_ends, pow2, reduce_log_of_normal,
};
use super::lanes::{Lanes, Lanes32, poly};
use super::trig::angle;
use crate::formula::coefficients::{double, single};

/// Adding this to |x| < 2^22 rounds x to an integer, held in the low bits of the sum.
const ROUND: f32 = 12582912.0;
/// ln 2 in two parts; the first has 16 significant bits, so that its product with an exponent is exact.
const LN2_HI: f32 = single::LN2_HI;
const LN2_LO: f32 = single::LN2_LO;

/// A constant.
#[inline(always)]
fn c<L: Lanes<Number = f32>>(v: f32) -> L {
    L::of(v)
}

/// Clamps `x`; NaN stays NaN.
#[inline(always)]
fn bounded<L: Lanes<Number = f32>>(x: L, low: f32, high: f32) -> L {
    x.at_most(c(high)).at_least(c(low))
}

#[inline(always)]
fn nearest32<L: Lanes<Number = f32>>(x: L) -> L {
    (x + c(ROUND)) - c(ROUND)
}

/// 2^n for an integer n in -127..=127; n = -127 gives 0.
#[inline(always)]
fn pow2_32<L: Lanes<Number = f32>>(n: L) -> L {
    (n + c(ROUND)).add_bits(c(f32::from_bits(127))).shl_bits(23)
}

/// `x`·2^n for an integer |n| <= 252, rounded once even if the result is subnormal.
#[inline(always)]
fn scale32<L: Lanes<Number = f32>>(x: L, n: L) -> L {
    if let Some(scaled) = x.scaled(n) {
        return scaled;
    }
    let half = nearest32(n * c(0.5));
    x * pow2_32(half) * pow2_32(n - half)
}

/// e^r = 1 + r + tail for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_tail<L: Lanes<Number = f32>>(r: L) -> L {
    r * r * poly(r, single::EXP)
}

#[inline(always)]
pub fn exp_f32<L: Lanes<Number = f32>>(x: L) -> L {
    let x = bounded(x, -105.0, 89.0);
    let n = nearest32(x * c(std::f32::consts::LOG2_E));
    let r = (x - n * c(LN2_HI)) - n * c(LN2_LO);
    scale32(c::<L>(1.0) + (r + exp_tail(r)), n)
}

#[inline(always)]
pub fn exp2_f32<L: Lanes<Number = f32>>(x: L) -> L {
    let x = bounded(x, -151.0, 129.0);
    let n = nearest32(x);
    let r = (x - n) * c(std::f32::consts::LN_2);
    scale32(c::<L>(1.0) + (r + exp_tail(r)), n)
}

#[inline(always)]
pub fn expm1_f32<L: Lanes<Number = f32>>(x: L) -> L {
    let y = bounded(x, -20.0, 89.0);
    let n = nearest32(y * c(std::f32::consts::LOG2_E));
    let (a, b) = (y - n * c(LN2_HI), n * c(LN2_LO));
    let r = a - b;
    let tail = ((a - r) - b) + exp_tail(r);
    // 2^n·((1 - 2^-n) + e^r - 1); from n = 30 on the 1 is below one ulp.
    let one = c::<L>(1.0) - pow2_32(-n.at_most(c(30.0)));
    let s = one + r;
    let rest = (one - s) + r;
    scale32(s + (rest + tail), n).copysign(x)
}

/// x = 2^k·m with m between √(1/2) and √2, for positive finite x; returns k and m - 1.
#[inline(always)]
fn reduce_log32<L: Lanes32>(x: L) -> (L, L) {
    const SQRT_HALF: f32 = f32::from_bits(0x3f3504f3);
    let denormal = x.less(c(f32::MIN_POSITIVE));
    let y = L::select(denormal, x * c(8388608.0), x);
    let k = y.sub_bits(c(SQRT_HALF)).sar_bits(23);
    let m = y.sub_bits(k.shl_bits(23));
    let k = k.of_integer_bits();
    (L::select(denormal, k - c(23.0), k), m - c(1.0))
}

/// k·ln 2 + log(1 + f)
#[inline(always)]
fn log_of_reduced<L: Lanes<Number = f32>>(k: L, f: L) -> L {
    let h = c::<L>(0.5) * f * f;
    let p = poly(f, single::LOG);
    k * c(LN2_HI) + (f - (h - (f * f * f * p + k * c(LN2_LO))))
}

/// Extends the logarithm of positive finite numbers to all x.
#[inline(always)]
fn log_ends32<L: Lanes<Number = f32>>(x: L, log: L) -> L {
    let log = L::select(x.less(c(f32::INFINITY)), log, x);
    let ends = L::select(x.equal(c(0.0)), c(f32::NEG_INFINITY), c(f32::NAN));
    L::select(c::<L>(0.0).less(x), log, ends)
}

#[inline(always)]
pub fn log_f32<L: Lanes32>(x: L) -> L {
    let (k, f) = reduce_log32(x);
    log_ends32(x, log_of_reduced(k, f))
}

#[inline(always)]
pub fn log1p_f32<L: Lanes32>(x: L) -> L {
    let u = c::<L>(1.0) + x;
    // The rounding error of the sum.
    let v = u - x;
    let lost = (c::<L>(1.0) - v) + (x - (u - v));
    let (k, f) = reduce_log32(u);
    let log = log_ends32(u, log_of_reduced(k, f + lost * pow2_32(-k.at_most(c(127.0)))));
    L::select(x.abs().less(c(1e-8)), x, log)
}

/// An odd polynomial near zero, elsewhere 1 - 2 / (e^2x + 1), with short dependency chains as in [`erf_f32`].
#[inline(always)]
pub fn tanh_f32<L: Lanes<Number = f32>>(x: L) -> L {
    let [t0, t1, t2, t3, t4] = single::TANH.map(c::<L>);
    let [_, e1, e2, e3, e4] = single::EXP.map(c::<L>);
    // 1 - tanh(10) is below one ulp.
    let a = x.abs().at_most(c(10.0));
    let z = a * a;
    let near = a + a * z * ((t0 + t1 * z) + z * z * ((t2 + t3 * z) + t4 * (z * z)));
    // As in `exp_f32`; the power of two is added to the exponent.
    let n = a * c(2.0 * std::f32::consts::LOG2_E) + c(ROUND);
    let k = n - c(ROUND);
    let r = (c::<L>(2.0) * a - k * c(LN2_HI)) - k * c(LN2_LO);
    let s = r * r;
    let tail = s * ((c::<L>(0.5) + e1 * r) + s * ((e2 + e3 * r) + e4 * s));
    let e = (c::<L>(1.0) + (r + tail)).add_bits(n.shl_bits(23));
    let far = c::<L>(1.0) - c::<L>(2.0) / (e + c(1.0));
    // NaN takes the `near` result, which is computed without bit manipulation.
    L::select(c::<L>(0.625).less_or_equal(a), far, near).copysign(x)
}

/// An odd polynomial near zero, elsewhere 1 - 2^y with a polynomial y, since the logarithm of erfc is nearly a
/// parabola.
///
/// Both are computed for every element, so the polynomials are split into short dependency chains that run in
/// parallel.
#[inline(always)]
pub fn erf_f32<L: Lanes<Number = f32>>(x: L) -> L {
    let [y0, y1, y2, y3, y4, y5] = single::ERFC_EXPONENT.map(c::<L>);
    let [p0, p1, p2, p3, p4] = single::EXP2.map(c::<L>);
    // erfc(4) is below one ulp of 1.
    let a = x.abs().at_most(c(4.0));
    let z = a * a;
    let near = a + a * poly(z, single::ERF_NEAR);
    let y = y0 * a + z * ((y1 + y2 * a) + z * ((y3 + y4 * a) + y5 * z));
    // 2^y = 2^n·2^r: the low bits of the rounded sum are n, which is added to the exponent.
    let n = y + c(ROUND);
    let r = y - (n - c(ROUND));
    let s = r * r;
    let p = c::<L>(1.0)
        + (c::<L>(std::f32::consts::LN_2) * r + s * ((p0 + p1 * r) + s * ((p2 + p3 * r) + p4 * s)));
    let far = c::<L>(1.0) - p.add_bits(n.shl_bits(23));
    // NaN takes the `near` result, which is computed without bit manipulation.
    L::select(c::<L>(0.65).less_or_equal(a), far, near).copysign(x)
}

/// The distribution function of the standard normal distribution, with absolute error 2^-22; 0 for NaN.
///
/// At -|x| it is 2^y with a polynomial y, with short dependency chains as in [`erf_f32`].
#[inline(always)]
pub fn normal_cdf_f32<L: Lanes<Number = f32>>(x: L) -> L {
    let [y0, y1, y2, y3, y4, y5, y6, y7] = single::NORMAL_EXPONENT.map(c::<L>);
    let [p0, p1, p2, p3] = single::NORMAL_EXP2.map(c::<L>);
    let a = x.abs();
    let z = a * a;
    let y = ((c::<L>(-1.0) + y0 * a) + z * (y1 + y2 * a))
        + (z * z) * ((y3 + y4 * a) + z * ((y5 + y6 * a) + y7 * z));
    let n = y + c(ROUND);
    let r = y - (n - c(ROUND));
    let p = (c::<L>(1.0) + c::<L>(std::f32::consts::LN_2) * r)
        + (r * r) * ((p0 + p1 * r) + (r * r) * (p2 + p3 * r));
    let below = p.add_bits(n.shl_bits(23));
    let below = L::select(a.less_or_equal(c(10.0)), below, c(0.0));
    L::select(c::<L>(0.0).less(x), c::<L>(1.0) - below, below)
}

/// e^x in float64, with relative error 2^-39.
#[inline(always)]
fn exp_mid(x: f64) -> f64 {
    let x = at_least(at_most(x, 400.0), -400.0);
    let n = nearest(x * std::f64::consts::LOG2_E);
    let r = x - n * std::f64::consts::LN_2;
    let q = poly(r, double::MID_EXP);
    (1.0 + (r + r * r * q)) * pow2(n)
}

/// The logarithm of a normal positive x as k·ln 2 plus the second value, in float64, with error 2^-44.
#[inline(always)]
fn log_parts_mid(x: f64) -> (f64, f64) {
    let (k, m) = reduce_log_of_normal(x);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let p = poly(z, double::MID_LOG);
    (k, 2.0 * s + s * z * p)
}

#[inline(always)]
pub(super) fn log_mid(x: f64) -> f64 {
    let (k, log) = log_parts_mid(x);
    k * std::f64::consts::LN_2 + log
}

#[inline(always)]
pub fn log2_f32(x: f32) -> f32 {
    let (k, log) = log_parts_mid(x as f64);
    log_ends(x as f64, k + log * std::f64::consts::LOG2_E) as f32
}

#[inline(always)]
pub fn log10_f32(x: f32) -> f32 {
    let (k, log) = log_parts_mid(x as f64);
    log_ends(x as f64, k * std::f64::consts::LOG10_2 + log * std::f64::consts::LOG10_E) as f32
}

#[inline(always)]
pub fn sinh_f32(x: f32) -> f32 {
    let a = x.abs() as f64;
    let e = exp_mid(a);
    // x + x³/6 where the difference would cancel.
    let near = a + a * a * a * (1.0 / 6.0);
    (if a < 0.005 { near } else { 0.5 * (e - 1.0 / e) } as f32).copysign(x)
}

#[inline(always)]
pub fn cosh_f32(x: f32) -> f32 {
    let e = exp_mid(x.abs() as f64);
    (0.5 * (e + 1.0 / e)) as f32
}

#[inline(always)]
pub fn asinh_f32(x: f32) -> f32 {
    let a = x.abs() as f64;
    let far = log_mid(a + (a * a + 1.0).sqrt());
    let v = if a < 0.001 { a - a * a * a * (1.0 / 6.0) } else { far };
    (if a < f64::INFINITY { v } else { a } as f32).copysign(x)
}

#[inline(always)]
pub fn acosh_f32(x: f32) -> f32 {
    let a = x as f64;
    let v = log_mid(a + (a * a - 1.0).sqrt());
    let v = if a < f64::INFINITY { v } else { a };
    (if a >= 1.0 { v } else { f64::NAN }) as f32
}

#[inline(always)]
pub fn atanh_f32(x: f32) -> f32 {
    let a = x.abs() as f64;
    let q = (1.0 + a) / (1.0 - a);
    let v = if a < 0.001 { a + a * a * a * (1.0 / 3.0) } else { 0.5 * log_ends(q, log_mid(q)) };
    (v as f32).copysign(x)
}

// Note [Reduction of single precision angles] sin x = (-1)^n·sin πt where x/π = n + t. Only x/π modulo 2 matters, and
// x is m·2^s with |m| < 2^50, 24 significant bits, and one of only four exponents s. So four constants 2^s/π modulo 2,
// each split into parts of 29, 29 and 53 bits, cover every finite x. They are stored over 2^s, to be multiplied by x
// itself. The products with the first two parts are exact, and the integer n nearest to their sum cancels the first
// exactly. The total error is below 2^-60. The sum is below 2^49, where numbers are 1/16 apart, so |t| may exceed 1/2
// by 1/32; the polynomial is accurate enough there.

/// x/π as three addends, but for a multiple of 2. Only the last is rounded.
#[inline(always)]
fn half_turns(x: f32) -> (f64, f64, f64) {
    let x = x as f64;
    let a = x.abs();
    let (g1, g2, g3) = (a >= 1125899906842624.0, a >= 7.555786372591432e22, a >= 5.070602400912918e30);
    let pick = |v: [f64; 4]| {
        let low = if g1 { v[1] } else { v[0] };
        let high = if g3 { v[3] } else { v[2] };
        if g2 { high } else { low }
    };
    (x * pick(double::TURNS_HIGH), x * pick(double::TURNS_MIDDLE), x * pick(double::TURNS_LOW))
}

/// sin πt for |t| <= 1/2, with short dependency chains as in [`erf_f32`].
#[inline(always)]
pub(super) fn sin_pi(t: f64) -> f64 {
    let [p0, p1, p2, p3, p4, p5, p6] = double::MID_SIN_PI;
    let z = t * t;
    let z2 = z * z;
    t * ((p0 + p1 * z) + z2 * ((p2 + p3 * z) + z2 * ((p4 + p5 * z) + z2 * p6)))
}

/// `v`, negated if the integer nearest to y is odd.
#[inline(always)]
fn flip_if_odd(v: f64, y: f64) -> f64 {
    f64::from_bits(v.to_bits() ^ integer_bits(y) << 63)
}

// Note [Angles of common size] For |x| up to 2^11·π/2 the angle is reduced as by Cody and Waite: π/2 is the sum of three constants, the
// first two of 13 significant bits. The nearest multiple n of π/2 has at most 11 bits, so n times each of these is exact, and so is x minus
// the first product. The reduced angle, at most π/4, is kept as a sum of two float32 numbers. Sine and cosine of it are polynomials of one
// degree, and each element selects the coefficients of its quadrant. Errors are below 1.1 ulp. This takes a third to a half of the
// instructions of the general algorithm. Loops compute all elements so, and then recompute the blocks in which an angle is larger, as in
// Note [Remainders of float32]; the general functions choose by the same bound, so the value of an element does not depend on its neighbours.

/// Beyond it, angles are reduced by the general algorithm.
const LARGE_ANGLE: f32 = 3216.0;
/// π/2 in parts of 13, 13 and 24 bits.
const HALF_PI: [f32; 3] = [1.5708008, -4.454516e-6, 6.0771006e-11];

#[inline(always)]
pub(super) fn is_large_angle(x: f32) -> bool {
    x.abs() > LARGE_ANGLE
}

/// The sine of x plus `quarters`·π/2; see Note [Angles of common size].
#[inline(always)]
fn sin_of_turned(x: f32, quarters: u32) -> f32 {
    let whole = x * std::f32::consts::FRAC_2_PI + ROUND;
    let n = whole - ROUND;
    let quadrant = whole.to_bits().wrapping_add(quarters);
    let (a, b) = (x - n * HALF_PI[0], n * HALF_PI[1]);
    let (most, c) = (a - b, n * HALF_PI[2]);
    let r = most - c;
    let rest = ((a - most) - b) + ((most - r) - c);
    // base·(1 + z·first + z²·…), where the base is r of a sine, and 1 of a cosine.
    let is_cos = quadrant & 1 == 1;
    let [s3, s2, s1] = single::SIN_NEAR;
    let [c3, c2, c1] = single::COS_NEAR;
    let pick = |cos: f32, sin: f32| if is_cos { cos } else { sin };
    let (base, slope) = (pick(1.0, r), pick(-r, 1.0));
    let z = r * r;
    let t = base * z;
    let rest = t * z * (pick(c1, s2) + (pick(c2, s3) + pick(c3, 0.0) * z) * z) + rest * slope;
    let v = base + (t * pick(-0.5, s1) + rest);
    f32::from_bits(v.to_bits() ^ (quadrant & 2) << 30)
}

#[inline(always)]
pub(super) fn sin_of_common(x: f32) -> f32 {
    let v = sin_of_turned(x, 0);
    // The sum for -0 is 0.
    if x == 0.0 { x } else { v }
}

#[inline(always)]
pub(super) fn cos_of_common(x: f32) -> f32 {
    sin_of_turned(x, 1)
}

#[inline(always)]
pub fn sin_f32(x: f32) -> f32 {
    let (p0, p1, p2) = half_turns(x);
    let sum = p0 + p1;
    let general = flip_if_odd(sin_pi(((p0 - nearest(sum)) + p1) + p2), sum) as f32;
    if is_large_angle(x) { general } else { sin_of_common(x) }
}

#[inline(always)]
pub fn cos_f32(x: f32) -> f32 {
    // cos πu = sin π(u + 1/2)
    let (p0, p1, p2) = half_turns(x);
    let sum = p0 + p1 + 0.5;
    let general = flip_if_odd(sin_pi(((p0 - (nearest(sum) - 0.5)) + p1) + p2), sum) as f32;
    if is_large_angle(x) { general } else { cos_of_common(x) }
}

#[inline(always)]
pub fn tan_f32(x: f32) -> f32 {
    let (p0, p1, p2) = half_turns(x);
    let n = nearest(p0 + p1);
    let s = (p0 - n) + p1;
    let t = s + p2;
    // cos πt = sin π(1/2 - |t|), which needs full relative accuracy too when small.
    let c = (0.5 - s.abs()) - p2.copysign(p2 * s);
    (sin_pi(t) / sin_pi(c)) as f32
}

/// For a = |x|: whether a > 1/2, and the arcsine of a, or in that case of √((1 - a)/2), which is half the arccosine.
#[inline(always)]
fn arc(a: f64) -> (bool, f64) {
    let far = a > 0.5;
    let z = if far { (1.0 - a) * 0.5 } else { a * a };
    let s = if far { z.sqrt() } else { a };
    (far, s + s * z * poly(z, double::MID_ASIN))
}

#[inline(always)]
pub fn asin_f32(x: f32) -> f32 {
    let x = x as f64;
    let (far, v) = arc(x.abs());
    (if far { FRAC_PI_2 - 2.0 * v } else { v }).copysign(x) as f32
}

#[inline(always)]
pub fn acos_f32(x: f32) -> f32 {
    let x = x as f64;
    let (far, v) = arc(x.abs());
    let end = if x < 0.0 { PI - 2.0 * v } else { 2.0 * v };
    (if far { end } else { FRAC_PI_2 - v.copysign(x) }) as f32
}

#[inline(always)]
pub fn atan_f32(x: f32) -> f32 {
    (angle(x.abs() as f64, 1.0, double::MID_ATAN) as f32).copysign(x)
}

#[inline(always)]
pub fn atan2_f32(y: f32, x: f32) -> f32 {
    let (y, x) = (y as f64, x as f64);
    // Numbers beyond those of float32 stand for infinities, whose quotient is 1, and for a zero that can divide.
    let v = angle(at_most(y.abs(), 1e300), at_least(at_most(x.abs(), 1e300), 1e-300), double::MID_ATAN);
    let v = if x.is_sign_negative() { PI - v } else { v };
    v.copysign(y) as f32
}

/// erfc as e^(-x²) / (1 + 2x) times a polynomial in (x - 4)/(x + 4), which maps all x >= 1/2 to a short interval.
#[inline(always)]
pub fn erfc_f32(x: f32) -> f32 {
    let x = x as f64;
    let a = at_most(x.abs(), 10.5);
    let z = a * a;
    let near = poly(z, double::MID_ERFC_NEAR);
    let b = at_least(a, 0.5);
    let p = poly((b - 4.0) / (b + 4.0), double::MID_ERFC_FAR);
    let far = exp_mid(-b * b) * p / (1.0 + 2.0 * b);
    let v = if a < 0.5 { 1.0 - a * near } else { far };
    (if x < 0.0 { 2.0 - v } else { v }) as f32
}

#[inline(always)]
pub fn pow_f32(x: f32, y: f32) -> f32 {
    let (x, y) = (x as f64, y as f64);
    // Larger exponents overflow or underflow for every base except 1.
    let e = at_least(at_most(y, 1e30), -1e30);
    pow_ends(x, y, exp_mid(e * log_mid(x.abs()))) as f32
}

/// The inverse of erf: x times a polynomial in w = -log(1 - x²), or in √w near ±1.
#[inline(always)]
pub fn erfinv_f32(x: f32) -> f32 {
    let x = x as f64;
    let w = -log_mid((1.0 - x) * (1.0 + x));
    let near = w < 5.0;
    // To select coefficients is less work than to evaluate a second polynomial.
    let mut c = double::MID_ERFINV_FAR;
    for (c, n) in c.iter_mut().zip(double::MID_ERFINV_NEAR) {
        *c = if near { n } else { *c };
    }
    let v = x * poly(if near { w } else { w.sqrt() }, c);
    let v = if x.abs() == 1.0 { x * f64::INFINITY } else { v };
    (if x.abs() <= 1.0 { v } else { f64::NAN }) as f32
}
