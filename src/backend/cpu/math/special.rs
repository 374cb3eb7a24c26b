//! Double precision: the error function, its complement and inverse.

use super::dd::{fast_two_sum, two_prod, two_sum};
use super::double::{at_least, at_most, exp_f64, exp_parts, log_f64, poly, scale};

/// (erf x - x) / x from x², for |x| <= 1/2.
#[inline(always)]
fn erf_tail(z: f64) -> f64 {
    poly(
        z,
        [
            0.1283791670955126,
            -0.37612638903183754,
            0.11283791670955123,
            -0.02686617064513004,
            0.0052239776254033605,
            -0.0008548327016184278,
            0.00012055332133458677,
            -1.4925586688507622e-05,
            1.6459038692484508e-06,
            -1.6273220918473915e-07,
            1.3215035394554606e-08,
        ],
    )
}

/// erfc of x >= 0.46: e^(-x²) / (1 + 2x) times a polynomial in (x - 4)/(x + 4), which maps all x to a short interval.
#[inline(always)]
fn erfc_far(x: f64) -> f64 {
    let x = at_least(at_most(x, 28.0), 0.46);
    let t = (x - 4.0) / (x + 4.0);
    let p = poly(
        t,
        [
            -0.1396211168405625,
            0.015379652102619743,
            0.06809705425468857,
            -0.10103906603630315,
            0.0937328349985285,
            -0.06633036581227535,
            0.03716751553391755,
            -0.01619773405672781,
            0.005031970017176362,
            -0.0007577732990131736,
            -0.00019925695629064558,
            0.00015062173708792765,
            -2.439809534783307e-05,
            -1.1222261572717078e-05,
            5.7065920452585614e-06,
            2.943753819155672e-07,
            -8.196595157354299e-07,
            7.378621138670587e-08,
            1.033864943742347e-07,
            -1.72172778800151e-08,
            -9.699634960062647e-09,
            1.5945541349218626e-09,
        ],
    );
    let q = fast_two_sum(1.2329951186255526, t * p).div(two_sum(2.0 * x, 1.0));
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

/// The inverse of erf: three steps of Halley's method from an elementary first guess.
#[inline(always)]
pub fn erfinv_f64(x: f64) -> f64 {
    let a = x.abs();
    // Winitzki's approximation, two digits everywhere.
    let w = log_f64((1.0 - a) * (1.0 + a));
    let b = 4.330746750799873 + 0.5 * w;
    let y = ((b * b - w * 6.802721088435375).sqrt() - b).sqrt();
    let y = refine_erfinv(a, refine_erfinv(a, refine_erfinv(a, y)));
    let y = if a < 1e-8 { a * HALF_SQRT_PI } else { y };
    let y = if a == 1.0 { f64::INFINITY } else { y };
    (if a <= 1.0 { y } else { f64::NAN }).copysign(x)
}

const HALF_SQRT_PI: f64 = 0.886226925452758;

/// One step of Halley's method for erf y = a.
#[inline(always)]
fn refine_erfinv(a: f64, y: f64) -> f64 {
    // erf or erfc, whichever is small, so that the difference is exact.
    let near = (y + y * erf_tail(y * y)) - a;
    let far = (1.0 - a) - erfc_far(y);
    let d = if a < 0.5 { near } else { far } * HALF_SQRT_PI * exp_f64(y * y);
    y - d / (1.0 + y * d)
}
