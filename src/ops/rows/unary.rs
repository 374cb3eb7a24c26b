//! Functions of one number. Derivatives are those of any table of calculus.

use crate::formula::{Arith, Num};
use crate::ops::schema::Surface;
use crate::rows;

fn lit<E: Arith>(v: f64) -> E {
    E::lit(v)
}

fn sign_of<E: Arith>(x: E) -> E {
    let plus = E::select(E::zero().lt(x), E::one(), E::zero());
    E::select(x.lt(E::zero()), -E::one(), plus)
}

/// 1 / (1 + e^-x), by which of its two forms does not overflow.
pub(super) fn sigmoid_of<E: Num>(x: E) -> E {
    E::one() / (E::one() + (-x).exp())
}

rows! { UNARY;
    /// Absolute value of each element.
    num abs(input) = input.abs() => d(g, y) = [g * sign_of(input)]; { aliases: &["absolute"], refuses_bool: "" }
    /// Each element with its sign changed.
    num neg(input) = -input => d(g, y) = [-g];
    { aliases: &["negative"], refuses_bool: "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead." }
    /// -1, 0 or 1 by the sign of each element.
    num sign(input) = sign_of(input) => d(g, y) = [E::zero()];
    /// As `sign`.
    num sgn(input) = sign_of(input) => d(g, y) = [E::zero()];
    /// Each element times itself.
    num square(input) = input * input => d(g, y) = [g * (input + input)]; { node: "PowBackward0" }
    /// e to the power of each element.
    float exp(input) = input.exp() => d(g, y) = [g * y];
    /// 2 to the power of each element.
    float exp2(input) = input.exp2() => d(g, y) = [g * y * lit(std::f64::consts::LN_2)]; { aliases: &["special_exp2"] }
    /// e to the power of each element, minus one, exact near zero.
    float expm1(input) = input.expm1() => d(g, y) = [g * (y + E::one())]; { aliases: &["special_expm1"] }
    /// Natural logarithm of each element.
    float log(input) = input.log() => d(g, y) = [g / input]; { on: (0.1, 4.0) }
    /// Logarithm to base 2 of each element.
    float log2(input) = input.log2() => d(g, y) = [g / (input * lit(std::f64::consts::LN_2))]; { on: (0.1, 4.0) }
    /// Logarithm to base 10 of each element.
    float log10(input) = input.log10() => d(g, y) = [g / (input * lit(std::f64::consts::LN_10))]; { on: (0.1, 4.0) }
    /// Natural logarithm of one plus each element, exact near zero.
    float log1p(input) = input.log1p() => d(g, y) = [g / (input + E::one())]; { on: (-0.8, 4.0), aliases: &["special_log1p"] }
    /// Square root of each element.
    float sqrt(input) = input.sqrt() => d(g, y) = [g / (y + y)]; { on: (0.1, 4.0) }
    /// One over the square root of each element.
    float rsqrt(input) = E::one() / input.sqrt() => d(g, y) = [lit::<E>(-0.5) * g * y * y * y]; { on: (0.1, 4.0) }
    /// One over each element.
    float reciprocal(input) = E::one() / input => d(g, y) = [-g * y * y]; { on: (0.3, 4.0) }
    /// Sine of each element, in radians.
    float sin(input) = input.sin() => d(g, y) = [g * input.cos()];
    /// Cosine of each element, in radians.
    float cos(input) = input.cos() => d(g, y) = [-g * input.sin()];
    /// Tangent of each element, in radians.
    float tan(input) = input.tan() => d(g, y) = [g * (E::one() + y * y)]; { on: (-1.2, 1.2) }
    /// Hyperbolic sine of each element.
    float sinh(input) = input.sinh() => d(g, y) = [g * input.cosh()];
    /// Hyperbolic cosine of each element.
    float cosh(input) = input.cosh() => d(g, y) = [g * input.sinh()];
    /// Hyperbolic tangent of each element.
    float tanh(input) = input.tanh() => d(g, y) = [g * (E::one() - y * y)];
    /// Inverse sine of each element, in radians.
    float asin(input) = input.asin() => d(g, y) = [g / (E::one() - input * input).sqrt()]; { on: (-0.9, 0.9), aliases: &["arcsin"] }
    /// Inverse cosine of each element, in radians.
    float acos(input) = input.acos() => d(g, y) = [-g / (E::one() - input * input).sqrt()]; { on: (-0.9, 0.9), aliases: &["arccos"] }
    /// Inverse tangent of each element, in radians.
    float atan(input) = input.atan() => d(g, y) = [g / (input * input + E::one())]; { aliases: &["arctan"] }
    /// Inverse hyperbolic sine of each element.
    float asinh(input) = input.asinh() => d(g, y) = [g / (input * input + E::one()).sqrt()]; { aliases: &["arcsinh"] }
    /// Inverse hyperbolic cosine of each element.
    float acosh(input) = input.acosh() => d(g, y) = [g / (input * input - E::one()).sqrt()]; { on: (1.2, 4.0), aliases: &["arccosh"] }
    /// Inverse hyperbolic tangent of each element.
    float atanh(input) = input.atanh() => d(g, y) = [g / (E::one() - input * input)]; { on: (-0.9, 0.9), aliases: &["arctanh"] }
    /// Error function of each element.
    float erf(input) = input.erf() => d(g, y) = [g * lit(std::f64::consts::FRAC_2_SQRT_PI) * (-(input * input)).exp()]; { aliases: &["special_erf"] }
    /// One minus the error function of each element.
    float erfc(input) = input.erfc() => d(g, y) = [-g * lit(std::f64::consts::FRAC_2_SQRT_PI) * (-(input * input)).exp()]; { aliases: &["special_erfc"] }
    /// Inverse error function of each element.
    float erfinv(input) = input.erfinv() => d(g, y) = [g * lit(0.886_226_925_452_758) * (y * y).exp()]; { on: (-0.9, 0.9), aliases: &["special_erfinv"] }
    /// Logarithm of the absolute value of the gamma function.
    float lgamma(input) = input.lgamma() => d(g, y) = [g * input.digamma()]; { on: (0.3, 4.0), aliases: &["special_gammaln"] }
    /// Derivative of `lgamma`.
    float digamma(input) = input.digamma(); { on: (0.3, 4.0), aliases: &["special_psi", "special_digamma"] }
    /// 1 / (1 + exp(-x)).
    float sigmoid(input) = sigmoid_of(input) => d(g, y) = [g * (E::one() - y) * y]; { aliases: &["special_expit"] }
    /// Largest integer not above each element.
    float floor(input) = input.floor() => d(g, y) = [E::zero()]; { keeps_ints: true }
    /// Smallest integer not below each element.
    float ceil(input) = input.ceil() => d(g, y) = [E::zero()]; { keeps_ints: true }
    /// Each element without its fraction.
    float trunc(input) = input.trunc() => d(g, y) = [E::zero()]; { keeps_ints: true, aliases: &["fix"] }
    /// The fraction of each element, with its sign.
    float frac(input) = input - input.trunc() => d(g, y) = [g];
    /// Nearest integer, halves to the even one.
    float round(input) = input.round() => d(g, y) = [E::zero()]; { keeps_ints: true, surface: Surface::NONE }
    /// Radians from degrees.
    float deg2rad(input) = input * lit(std::f64::consts::PI / 180.0) => d(g, y) = [g * lit(std::f64::consts::PI / 180.0)];
    /// Degrees from radians.
    float rad2deg(input) = input * lit(180.0 / std::f64::consts::PI) => d(g, y) = [g * lit(180.0 / std::f64::consts::PI)];
}
