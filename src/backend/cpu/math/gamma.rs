//! float64: log gamma and digamma. Not vectorized, since the ranges use different algorithms.

use std::f64::consts::PI;

use super::double::{log_f64, log1p_f64, poly};
use super::trig::{cos_f64, sin_f64};
use crate::formula::coefficients::double;

/// The sine and cosine of π·x.
fn sin_cos_pi(x: f64) -> (f64, f64) {
    // Reduce modulo 2 exactly, then relative to the nearest zero of the sine, for full relative accuracy there.
    let r = x - 2.0 * (x * 0.5).round_ties_even();
    if r.abs() > 0.5 {
        let d = 1.0f64.copysign(r) - r;
        (sin_f64(PI * d), -cos_f64(PI * d))
    } else {
        (sin_f64(PI * r), cos_f64(PI * r))
    }
}

/// log Γ(2 + d) / d for |d| <= 1/2.
fn lgamma_near_two(d: f64) -> f64 {
    poly(d, double::LGAMMA_NEAR_TWO)
}

/// log |Γ(x)|; infinite at the poles.
pub fn lgamma_f64(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x.is_infinite() || (x <= 0.0 && x == x.trunc()) {
        f64::INFINITY
    } else if x < 0.0 {
        if x > -1e-17 {
            return -log_f64(-x);
        }
        // Γ(x)·Γ(1 - x) = π / sin πx
        log_f64(PI / sin_cos_pi(x).0.abs()) - lgamma_f64(1.0 - x)
    } else if x < 0.5 {
        lgamma_near_two(x) * x - log_f64(x) - log1p_f64(x)
    } else if x < 1.5 {
        // Chosen so that the argument of the logarithm is near 1 where lgamma has a zero.
        lgamma_near_two(x - 1.0) * (x - 1.0) - log1p_f64(x - 1.0)
    } else if x < 8.5 {
        let (mut t, mut p) = (x, 1.0);
        while t > 2.5 {
            t -= 1.0;
            p *= t;
        }
        lgamma_near_two(t - 2.0) * (t - 2.0) + log_f64(p)
    } else if x < 1e300 {
        // Stirling's series.
        let z = 1.0 / (x * x);
        let c = double::STIRLING;
        (x - 0.5) * (log_f64(x) - 1.0) + (double::HALF_LOG_TAU + poly(z, c) / x)
    } else {
        x * (log_f64(x) - 1.0)
    }
}

/// digamma; NaN at the poles, but infinite at zero as in PyTorch.
pub fn digamma_f64(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        let (s, c) = sin_cos_pi(x);
        return digamma_f64(1.0 - x) - PI * c / s;
    }
    let (mut t, mut sum) = (x, 0.0);
    while t < 10.0 {
        sum += 1.0 / t;
        t += 1.0;
    }
    let z = 1.0 / (t * t);
    let c = double::DIGAMMA;
    (log_f64(t) - 0.5 / t - z * poly(z, c)) - sum
}

pub fn lgamma_f32(x: f32) -> f32 {
    lgamma_f64(x as f64) as f32
}

pub fn digamma_f32(x: f32) -> f32 {
    digamma_f64(x as f64) as f32
}
