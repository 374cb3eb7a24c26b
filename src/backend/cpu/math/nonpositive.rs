//! The exponential of numbers that are at most zero.

use super::Math;

/// The exponential of numbers that are at most zero, as those of softmax and `logsumexp` are: a third cheaper.
pub trait ExpNonpositive: Math {
    /// e^x for x <= 0; results below the smallest normal number are zero.
    fn exp_nonpositive(self) -> Self;
}

impl ExpNonpositive for f64 {
    #[inline(always)]
    fn exp_nonpositive(self) -> f64 {
        self.m_exp()
    }
}

impl ExpNonpositive for f32 {
    /// `x = n ln 2 + r` with integer n, and a polynomial for e^r.
    #[inline(always)]
    fn exp_nonpositive(self) -> f32 {
        // Adding this to |x| < 2^22 rounds x to an integer, held in the low bits of the sum.
        const ROUND: f32 = 12582912.0;
        // ln 2 in two parts; the first is short enough for exact products with n.
        const LN2: (f32, f32) = (0.693_145_75, 1.4286068e-6);
        // Below -87.7 n is -127, and the power of two is zero. NaN passes the comparison.
        let x = if self < -88.0 { -88.0 } else { self };
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = x - n * LN2.0 - n * LN2.1;
        let tail = 0.5 + r * (0.16666518 + r * (0.041666206 + r * (0.008368889 + r * 0.0013950504)));
        (1.0 + (r + r * r * tail)) * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
    }
}
