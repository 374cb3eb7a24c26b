//! Log gamma and digamma. Those of float64 are not vectorized, since the ranges use different algorithms.

use std::f64::consts::{FRAC_1_PI, PI};

use super::double::{log_f64, log1p_f64, nearest};
use super::lanes::poly;
use super::single::{log_mid, sin_pi};
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

// Note [Gamma functions of float32] They are computed in float64, and selected from the values that all ranges give.
// At t >= 1 a value comes from a polynomial with the zeros as factors, or from Stirling's series with coefficients
// that fit all t beyond the polynomial's range. Other arguments are led to such t: those in 0..1 by
// Γ(x) = Γ(1 + x) / x, negative ones by Γ(x) = π / (sin πx·Γ(1 - x)). Next to the zeros between the poles the two
// terms of the latter nearly cancel; there the error is 2^-43 of the terms, which is several ulp for the floats
// closest to a zero.

/// The argument t >= 1 that x is led to, and how.
struct Counterpart {
    t: f64,
    /// Whether t is 1 - x, for x < 0.
    is_reflected: bool,
    /// x less the nearest integer.
    r: f64,
}

#[inline(always)]
fn counterpart(x: f64) -> Counterpart {
    let is_reflected = x < 0.0;
    let moved = if x < 1.0 { 1.0 + x } else { x };
    Counterpart { t: if is_reflected { 1.0 - x } else { moved }, is_reflected, r: x - nearest(x) }
}

/// log Γ(t) for t >= 1.
#[inline(always)]
fn lgamma_mid(t: f64) -> f64 {
    let near = (t - 1.0) * (t - 2.0) * poly(t - 1.75, double::MID_LGAMMA_NEAR);
    let u = 1.0 / t;
    let rest = double::HALF_LOG_TAU + u * poly(u * u, double::MID_LGAMMA_FAR);
    let far = (t - 0.5) * (log_mid(t) - 1.0) + rest;
    if t < 2.5 { near } else { far }
}

/// log |Γ(x)|; see Note [Gamma functions of float32].
#[inline(always)]
pub fn lgamma_f32(x: f32) -> f32 {
    let x = x as f64;
    let Counterpart { t, is_reflected, r } = counterpart(x);
    let factor = if x < 1.0 { x } else { 1.0 };
    let log = log_mid(if is_reflected { sin_pi(r).abs() * FRAC_1_PI } else { factor });
    let v = lgamma_mid(t);
    let v = if is_reflected { -v } else { v } - log;
    // At -∞ r is NaN.
    let is_pole = (x <= 0.0) & !(r.abs() > 0.0);
    // The sum makes the zero at 1 positive.
    (if is_pole { f64::INFINITY } else { v + 0.0 }) as f32
}

/// The derivative of log Γ(t) for t >= 1.
#[inline(always)]
fn digamma_mid(t: f64) -> f64 {
    let near = (t - double::DIGAMMA_ZERO) * poly(t - 1.5, double::MID_DIGAMMA_NEAR);
    let u = 1.0 / t;
    let z = u * u;
    let far = log_mid(t) - (0.5 * u + z * poly(z, double::MID_DIGAMMA_FAR));
    let far = if t < f64::INFINITY { far } else { t };
    if t < 2.0 { near } else { far }
}

/// The derivative of [`lgamma_f32`]; NaN at the poles, but infinite at zero as in PyTorch.
#[inline(always)]
pub fn digamma_f32(x: f32) -> f32 {
    let x = x as f64;
    let Counterpart { t, is_reflected, r } = counterpart(x);
    // π / tan πx, where cos πr = sin π(1/2 - |r|).
    let (cosine, sine) = (PI * sin_pi(0.5 - r.abs()), sin_pi(r));
    let step = if x < 1.0 { 1.0 } else { 0.0 };
    let v = digamma_mid(t) - if is_reflected { cosine } else { step } / if is_reflected { sine } else { x };
    // At -∞ r is NaN.
    let is_pole = is_reflected & !(r.abs() > 0.0);
    (if is_pole { f64::NAN } else { v }) as f32
}
