//! float64: the error function, its complement and its inverse.

use super::dd::{fast_two_sum, two_prod, two_sum};
use super::double::{at_least, at_most, exp_f64, exp_parts, log_f64, scale};
use super::lanes::poly;
use crate::formula::coefficients::double;

/// (erf x - x) / x from x², for |x| <= 1/2.
#[inline(always)]
fn erf_tail(z: f64) -> f64 {
    poly(z, double::ERF_NEAR)
}

/// erfc for x >= 0.46: e^(-x²) / (1 + 2x) times a polynomial in (x - 4)/(x + 4), which maps all x to a short interval.
#[inline(always)]
fn erfc_far(x: f64) -> f64 {
    let x = at_least(at_most(x, 28.0), 0.46);
    let t = (x - 4.0) / (x + 4.0);
    let p = poly(t, double::ERFC_FAR);
    let q = fast_two_sum(double::ERFC_FAR_FIRST, t * p).div(two_sum(2.0 * x, 1.0));
    let s = two_prod(x, x);
    let (e, n) = exp_parts(-s.hi, -s.lo);
    scale(e.hi * q.hi + (e.hi * q.lo + e.lo * q.hi), n)
}

#[inline(always)]
pub fn erf_f64(x: f64) -> f64 {
    let a = x.abs();
    let near = a + a * erf_tail(a * a);
    let far = 1.0 - erfc_far(a);
    (if a < 0.5 { near } else { far }).copysign(x)
}

#[inline(always)]
pub fn erfc_f64(x: f64) -> f64 {
    let near = 1.0 - (x + x * erf_tail(x * x));
    let far = erfc_far(x.abs());
    let far = if x < 0.0 { 2.0 - far } else { far };
    if x.abs() < 0.5 { near } else { far }
}

#[inline(always)]
pub fn normal_cdf_f64(x: f64) -> f64 {
    0.5 * (1.0 + erf_f64(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// The inverse of erf: three steps of Halley's method from an elementary initial guess.
#[inline(always)]
pub fn erfinv_f64(x: f64) -> f64 {
    let a = x.abs();
    // Winitzki's approximation, accurate to two digits.
    let w = log_f64((1.0 - a) * (1.0 + a));
    let b = 4.330746750799873 + 0.5 * w;
    let y = ((b * b - w * 6.802721088435375).sqrt() - b).sqrt();
    let y = refine_erfinv(a, refine_erfinv(a, refine_erfinv(a, y)));
    let y = if a < 1e-8 { a * HALF_SQRT_PI } else { y };
    let y = if a == 1.0 { f64::INFINITY } else { y };
    (if a <= 1.0 { y } else { f64::NAN }).copysign(x)
}

const HALF_SQRT_PI: f64 = double::HALF_ROOT_PI;

/// One step of Halley's method for erf y = a.
#[inline(always)]
fn refine_erfinv(a: f64, y: f64) -> f64 {
    // Uses the smaller of erf and erfc, so that the difference is exact.
    let near = (y + y * erf_tail(y * y)) - a;
    let far = (1.0 - a) - erfc_far(y);
    let d = if a < 0.5 { near } else { far } * HALF_SQRT_PI * exp_f64(y * y);
    y - d / (1.0 + y * d)
}
