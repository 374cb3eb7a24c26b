//! float64: trigonometric functions and their inverses.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::double::{integer_bits, nearest};
use super::lanes::poly;
use crate::formula::coefficients::double;

const PI: Dd = Dd { hi: std::f64::consts::PI, lo: double::PI_REST };
const FRAC_PI_2: Dd = Dd { hi: std::f64::consts::FRAC_PI_2, lo: double::HALF_PI_REST };
const FRAC_PI_4: Dd = Dd { hi: std::f64::consts::FRAC_PI_4, lo: double::QUARTER_PI_REST };

/// Whether an angle needs the algorithm for large ones.
#[inline(always)]
pub(super) fn is_large_angle(x: f64) -> bool {
    x.abs() > 1048576.0
}

/// The angle minus the nearest multiple of π/2, and that multiple modulo 4 in the low two bits; see Note [Angles of common size].
#[inline(always)]
fn reduce_common_angle(x: f64) -> (Dd, u64) {
    // π/2 in parts of 33 bits, whose products with |n| < 2^20 are exact.
    const P1: f64 = 1.5707963267341256;
    const P2: f64 = 6.077100506303966e-11;
    const P3: f64 = 2.0222662487111665e-21;
    const P4: f64 = 8.4784276603689e-32;
    let n = nearest(x * std::f64::consts::FRAC_2_PI);
    let s = two_sum(x - n * P1, -n * P2);
    let r = fast_two_sum(s.hi, s.lo - n * P3);
    (fast_two_sum(r.hi, r.lo - n * P4), integer_bits(n))
}

/// As `reduce_common_angle`, of any angle.
#[inline(always)]
fn reduce_angle(x: f64) -> (Dd, u64) {
    if is_large_angle(x) { reduce_large_angle(x) } else { reduce_common_angle(x) }
}

// Note [Reduction of large angles] x = m·2^e with an integer m < 2^53. The leading bits of 2/π, whose products with x
// are multiples of 4, do not matter; the next 192 bits give x·2/π modulo 4 with error 2^-137, whatever the exponent
// (Payne and Hanek). The call in the loop prevents vectorization of the float64 sin, cos and tan; the float32 versions
// have a smaller range and do not need it.
#[cold]
#[inline(never)]
fn reduce_large_angle(x: f64) -> (Dd, u64) {
    /// 64 zero bits, then 2/π.
    #[rustfmt::skip]
    const BITS: [u64; 20] = [
        0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
        0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
        0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
    ];
    if !x.is_finite() {
        return (Dd { hi: f64::NAN, lo: 0.0 }, 0);
    }
    let bits = x.abs().to_bits();
    let m = (bits & ((1 << 52) - 1) | (1 << 52)) as u128;
    let e = (bits >> 52) as i64 - 1075;
    // The first bit of 2/π whose product with x is below 4, counting the leading zeros.
    let from = (e - 2 + 64) as usize;
    let word = |i: usize| {
        let (i, s) = (from / 64 + i, from % 64);
        if s == 0 { BITS[i] } else { BITS[i] << s | BITS[i + 1] >> (64 - s) }
    };
    // The product of m and the window modulo 2^192: two bits for the quadrant, 190 bits of fraction.
    let low = m * word(2) as u128;
    let mid = m * word(1) as u128 + (low >> 64);
    let high = (m * word(0) as u128 + (mid >> 64)) as u64;
    let (mid, low) = (mid as u64, low as u64);
    let fraction = ((high << 2 | mid >> 62) as u128) << 64 | (mid << 2 | low >> 62) as u128;
    // As a signed number the fraction is in -1/2..1/2, relative to the nearest quadrant.
    let fraction = fraction as i128;
    let quadrant = (high >> 62).wrapping_add((fraction < 0) as u64);
    let hi = fraction as f64;
    let lo = fraction.wrapping_sub(hi as i128) as f64;
    let r = Dd { hi, lo }.scale(2f64.powi(-128)).mul(FRAC_PI_2);
    if x > 0.0 { (r, quadrant) } else { (r.scale(-1.0), quadrant.wrapping_neg()) }
}

/// The sine of |r| <= π/4 as a double-double.
#[inline(always)]
pub(super) fn sin_parts(r: Dd) -> Dd {
    let z = r.hi * r.hi;
    let p = poly(z, double::SIN);
    Dd { hi: r.hi, lo: r.hi * z * p + r.lo * (1.0 - 0.5 * z) }
}

/// The cosine of |r| <= π/4 as a double-double.
#[inline(always)]
pub(super) fn cos_parts(r: Dd) -> Dd {
    let z = r.hi * r.hi;
    let p = poly(z, double::COS);
    let h = 0.5 * z;
    let hi = 1.0 - h;
    Dd { hi, lo: ((1.0 - hi) - h) + (z * z * p - r.hi * r.lo) }
}

/// The sine of the reduced angle `quadrant`·π/2 + r.
#[inline(always)]
pub(super) fn sin_of_reduced(r: Dd, quadrant: u64) -> f64 {
    let v = if quadrant & 1 == 0 { sin_parts(r).value() } else { cos_parts(r).value() };
    f64::from_bits(v.to_bits() ^ (quadrant & 2) << 62)
}

#[inline(always)]
fn sin_with(x: f64, (r, quadrant): (Dd, u64)) -> f64 {
    let v = sin_of_reduced(r, quadrant);
    if x == 0.0 { x } else { v }
}

#[inline(always)]
fn cos_with((r, quadrant): (Dd, u64)) -> f64 {
    sin_of_reduced(r, quadrant.wrapping_add(1))
}

/// `sin`, `cos` and `tan` of angles that are not large.
#[inline(always)]
pub(super) fn sin_of_common(x: f64) -> f64 {
    sin_with(x, reduce_common_angle(x))
}

#[inline(always)]
pub(super) fn cos_of_common(x: f64) -> f64 {
    cos_with(reduce_common_angle(x))
}

#[inline(always)]
pub(super) fn tan_of_common(x: f64) -> f64 {
    tan_with(x, reduce_common_angle(x))
}

#[inline(always)]
pub fn sin_f64(x: f64) -> f64 {
    sin_with(x, reduce_angle(x))
}

#[inline(always)]
pub fn cos_f64(x: f64) -> f64 {
    cos_with(reduce_angle(x))
}

#[inline(always)]
pub fn tan_f64(x: f64) -> f64 {
    tan_with(x, reduce_angle(x))
}

#[inline(always)]
fn tan_with(x: f64, (r, quadrant): (Dd, u64)) -> f64 {
    let (s, c) = (sin_parts(r), cos_parts(r));
    let (s, c) = (fast_two_sum(s.hi, s.lo), fast_two_sum(c.hi, c.lo));
    // tan(r + π/2) = -cos r / sin r
    let odd = quadrant & 1 == 1;
    let num = Dd { hi: if odd { -c.hi } else { s.hi }, lo: if odd { -c.lo } else { s.lo } };
    let den = Dd { hi: if odd { s.hi } else { c.hi }, lo: if odd { s.lo } else { c.lo } };
    let v = num.div(den).value();
    if x.abs() < 1e-150 { x } else { v }
}

/// (atan q - q) / q³ in powers of q², for |q| <= tan π/8.
const ATAN: [f64; 12] = double::ATAN;

/// The angle of the point (x, y) in the first quadrant; not both coordinates may be zero or infinite. `c` is [`ATAN`],
/// or fewer coefficients for float32.
#[inline(always)]
pub(super) fn angle<const N: usize>(y: f64, x: f64, c: [f64; N]) -> f64 {
    // Rotate by π/4 or π/2 if the angle is larger than π/8 or 3π/8.
    let steep = y > x * double::TAN_3_PI_8;
    let middle = (y > x * double::TAN_PI_8) & !steep;
    let num = if steep {
        -x
    } else if middle {
        y - x
    } else {
        y
    };
    let den = if steep {
        y
    } else if middle {
        x + y
    } else {
        x
    };
    let base = if steep {
        FRAC_PI_2.hi
    } else if middle {
        FRAC_PI_4.hi
    } else {
        0.0
    };
    let base_lo = if steep {
        FRAC_PI_2.lo
    } else if middle {
        FRAC_PI_4.lo
    } else {
        0.0
    };
    let q = num / den;
    let z = q * q;
    base + (q + (q * z * poly(z, c) + base_lo))
}

#[inline(always)]
pub fn atan_f64(x: f64) -> f64 {
    angle(x.abs(), 1.0, ATAN).copysign(x)
}

/// The angle of the point (x, y), as C99 defines it for zeros and infinities.
#[inline(always)]
pub fn atan2_f64(y: f64, x: f64) -> f64 {
    let (ay, ax) = (y.abs(), x.abs());
    // Scale to avoid overflow of the sum and underflow of the quotient.
    let largest = if ay > ax { ay } else { ax };
    let s = if largest > 1e300 {
        1e-100
    } else if largest < 1e-200 {
        1e100
    } else {
        1.0
    };
    let infinite = (ay == f64::INFINITY) & (ax == f64::INFINITY);
    let origin = largest == 0.0;
    let v = angle(if infinite { 1.0 } else { ay * s }, if infinite | origin { 1.0 } else { ax * s }, ATAN);
    let v = if x.is_sign_negative() { PI.hi - (v - PI.lo) } else { v };
    let v = v.copysign(y);
    if x.is_nan() | y.is_nan() { f64::NAN } else { v }
}

/// For a = |x|: whether a > 1/2, and in that case √((1 - a)/2) as a double-double, whose arcsine is half the arccosine
/// of a; otherwise a itself. The third value is the tail of its arcsine.
#[inline(always)]
fn reduce_arc(a: f64) -> (bool, Dd, f64) {
    let far = a > 0.5;
    let z = if far { (1.0 - a) * 0.5 } else { a * a };
    let root = Dd { hi: z, lo: 0.0 }.sqrt();
    let s = if far { root.hi } else { a };
    (far, Dd { hi: s, lo: if far { root.lo } else { 0.0 } }, s * z * poly(z, double::ASIN))
}

#[inline(always)]
pub fn asin_f64(x: f64) -> f64 {
    let (far, s, tail) = reduce_arc(x.abs());
    let v =
        if far { FRAC_PI_2.hi - (2.0 * s.hi - (FRAC_PI_2.lo - 2.0 * (s.lo + tail))) } else { s.hi + tail };
    v.copysign(x)
}

#[inline(always)]
pub fn acos_f64(x: f64) -> f64 {
    let (far, s, tail) = reduce_arc(x.abs());
    let negative = x < 0.0;
    let near = if negative { s.hi + (FRAC_PI_2.lo + tail) } else { (FRAC_PI_2.lo - tail) - s.hi };
    let half = s.hi + (s.lo + tail);
    let end = if negative { PI.hi - (2.0 * half - PI.lo) } else { 2.0 * half };
    if far { end } else { FRAC_PI_2.hi + near }
}

/// The cosine and the sine of 2π·u, for u in 0..1.
#[inline(always)]
pub fn cos_sin_turns_f64(u: f64) -> (f64, f64) {
    let n = nearest(4.0 * u);
    let r = two_prod(4.0 * u - n, FRAC_PI_2.hi);
    let quadrant = integer_bits(n);
    (sin_of_reduced(r, quadrant.wrapping_add(1)), sin_of_reduced(r, quadrant))
}
