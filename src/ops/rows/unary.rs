//! Functions of one number.

use crate::dtype::Scalar;
use crate::formula::{Arith, Num};
use crate::graph::Attribute;
use crate::ops::out_policy::OutPolicy;
use crate::ops::schema::Exposure;
use crate::rows;

#[inline(always)]
fn lit<E: Arith>(v: f64) -> E {
    E::lit(v)
}

#[inline(always)]
pub(in crate::ops) fn sign_of<E: Arith>(x: E) -> E {
    let plus = E::select(E::zero().lt(x), E::one(), E::zero());
    E::select(x.lt(E::zero()), -E::one(), plus)
}

/// 1 / (1 + e^-x). If e^-x overflows, the result is correctly 0.
#[inline(always)]
pub(super) fn sigmoid_of<E: Num>(x: E) -> E {
    E::one() / (E::one() + (-x).exp())
}

/// The same for derivatives, which are differentiated in turn: the derivative of `1 / (1 + exp(-x))` is a product of zero and
/// infinity where the exponential overflows.
#[inline(always)]
pub(super) fn steady_sigmoid_of<E: Num>(x: E) -> E {
    let is_negative = x.lt(E::zero());
    let e = (-E::select(is_negative, -x, x)).exp();
    E::select(is_negative, e, E::one()) / (E::one() + e)
}

/// The derivative of `digamma`: reflected to the right half-plane, shifted right by six steps, then an asymptotic
/// series.
#[inline(always)]
fn trigamma_of<E: Num>(x: E) -> E {
    let left = x.lt(lit(0.5));
    let z = E::select(left, E::one() - x, x);
    let step = |k: f64| E::one() / ((z + lit(k)) * (z + lit(k)));
    let moved = step(0.0) + step(1.0) + step(2.0) + step(3.0) + step(4.0) + step(5.0);
    let w = E::one() / (z + lit(6.0));
    let v = w * w;
    // Bernoulli numbers.
    let tail = lit::<E>(1.0 / 6.0)
        + v * (lit::<E>(-1.0 / 30.0)
            + v * (lit::<E>(1.0 / 42.0) + v * (lit::<E>(-1.0 / 30.0) + v * lit(5.0 / 66.0))));
    let right = moved + w + lit::<E>(0.5) * v + w * v * tail;
    let sine = (x * lit(std::f64::consts::PI)).sin();
    let reflected = lit::<E>(std::f64::consts::PI * std::f64::consts::PI) / (sine * sine) - right;
    E::select(left, reflected, right)
}

rows! { UNARY;
    /// Absolute value of each element.
    num abs(input) = input.abs(), lean [F32] => d(g, y) = [g * sign_of(input)]; { float8: true, aliases: &["absolute"], least: 1 }
    => torch { flat: "MulBackward0", kernel: "abs_cpu", out: OutPolicy::FOUND }
    /// Each element with its sign changed.
    num neg(input) = -input, bytes [U8 I8], lean [F32] => d(g, y) = [-g];
    { aliases: &["negative"] }
    => torch { kernel: "neg_cpu", out: OutPolicy::FOUND, refuses_bool: "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead." }
    /// -1, 0 or 1 by the sign of each element.
    num sign(input) = sign_of(input) => d(g, y) = [E::zero()];
    => torch { kernel: "sign_cpu", out: OutPolicy::FOUND }
    /// As `sign`.
    num sgn(input) = sign_of(input) => d(g, y) = [E::zero()];
    => torch { kernel: "sign_cpu", out: OutPolicy::FOUND }
    /// Each element times itself.
    num square(input) = input * input, bytes [U8 I8], lean [F32] => d(g, y) = [g * (input + input)]; { exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Int(2))), node: "PowBackward0" }
    /// Each element to the third power.
    num cube(input) = input * input * input => d(g, y) = [g * (lit::<E>(3.0) * input * input)]; { exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Int(3))), node: "PowBackward0" }
    /// Each element to the fourth power.
    num fourth(input) = (input * input) * (input * input) => d(g, y) = [g * (lit::<E>(4.0) * (input * input * input))]; { exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Int(4))), node: "PowBackward0" }
    /// The square root, as a power.
    float pow_half(input) = input.sqrt() => d(g, y) = [g * (lit::<E>(0.5) * (E::one() / y))]; { on: (0.1, 4.0), exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Number(Scalar::Float(0.5)))), node: "PowBackward0" }
    /// The reciprocal, as a power.
    float pow_inverse(input) = E::one() / input => d(g, y) = [-g * (E::one() / (input * input))]; { on: (0.3, 4.0), exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Number(Scalar::Int(-1)))), node: "PowBackward0" }
    /// The reciprocal of the square, as a power.
    float pow_inverse_square(input) = E::one() / (input * input) => d(g, y) = [g * (lit::<E>(-2.0) * (y / input))]; { on: (0.3, 4.0), exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Number(Scalar::Int(-2)))), node: "PowBackward0" }
    /// The reciprocal of the square root, as a power.
    float pow_inverse_half(input) = E::one() / input.sqrt() => d(g, y) = [g * (lit::<E>(-0.5) * (y / input))]; { on: (0.1, 4.0), exposure: Exposure::NONE }
    => torch { shows: Some(("exponent", Attribute::Number(Scalar::Float(-0.5)))), node: "PowBackward0" }
    /// e to the power of each element.
    float exp(input) = input.exp() => d(g, y) = [g * y]; { autocast: CastPolicy::FULL_ON_GPU }
    /// 2 to the power of each element.
    float exp2(input) = input.exp2() => d(g, y) = [g * y * lit(std::f64::consts::LN_2)]; { aliases: &["special_exp2"] }
    => torch { node: "Exp2Backward0" }
    /// e to the power of each element, minus one, exact near zero.
    float expm1(input) = input.expm1() => d(g, y) = [g * (y + E::one())]; { autocast: CastPolicy::FULL_ON_GPU, aliases: &["special_expm1"] }
    /// Natural logarithm of each element.
    float log(input) = input.log() => d(g, y) = [g / input]; { autocast: CastPolicy::FULL_ON_GPU, on: (0.1, 4.0) }
    /// Logarithm to base 2 of each element.
    float log2(input) = input.log2() => d(g, y) = [g / (input * lit(std::f64::consts::LN_2))]; { autocast: CastPolicy::FULL_ON_GPU, on: (0.1, 4.0) }
    /// Logarithm to base 10 of each element.
    float log10(input) = input.log10() => d(g, y) = [g / (input * lit(std::f64::consts::LN_10))]; { autocast: CastPolicy::FULL_ON_GPU, on: (0.1, 4.0) }
    /// Natural logarithm of one plus each element, exact near zero.
    float log1p(input) = input.log1p() => d(g, y) = [g / (input + E::one())]; { autocast: CastPolicy::FULL_ON_GPU, on: (-0.8, 4.0), aliases: &["special_log1p"] }
    /// Square root of each element.
    float sqrt(input) = input.sqrt(), lean [F32] => d(g, y) = [g / (y + y)]; { on: (0.1, 4.0) }
    /// One over the square root of each element.
    float rsqrt(input) = E::one() / input.sqrt() => d(g, y) = [lit::<E>(-0.5) * g * y * y * y]; { autocast: CastPolicy::FULL_ON_GPU, on: (0.1, 4.0) }
    /// One over each element.
    float reciprocal(input) = E::one() / input, lean [F32] => d(g, y) = [-g * y * y]; { autocast: CastPolicy::FULL_ON_GPU, on: (0.3, 4.0) }
    /// Sine of each element, in radians.
    float sin(input) = input.sin() => d(g, y) = [g * input.cos()]; { quick: true }
    /// Cosine of each element, in radians.
    float cos(input) = input.cos() => d(g, y) = [-g * input.sin()]; { quick: true }
    /// Tangent of each element, in radians.
    float tan(input) = input.tan() => d(g, y) = [g * (E::one() + y * y)]; { quick: true, autocast: CastPolicy::FULL_ON_GPU, on: (-1.2, 1.2) }
    /// Hyperbolic sine of each element.
    float sinh(input) = input.sinh() => d(g, y) = [g * input.cosh()]; { autocast: CastPolicy::FULL_ON_GPU }
    /// Hyperbolic cosine of each element.
    float cosh(input) = input.cosh() => d(g, y) = [g * input.sinh()]; { autocast: CastPolicy::FULL_ON_GPU }
    /// Hyperbolic tangent of each element.
    float tanh(input) = input.tanh() => d(g, y) = [g * (E::one() - y * y)];
    => torch { backward: "tanh_backward" }
    /// Inverse sine of each element, in radians.
    float asin(input) = input.asin() => d(g, y) = [g / (E::one() - input * input).sqrt()]; { autocast: CastPolicy::FULL_ON_GPU, on: (-0.9, 0.9), aliases: &["arcsin"] }
    /// Inverse cosine of each element, in radians.
    float acos(input) = input.acos() => d(g, y) = [-g / (E::one() - input * input).sqrt()]; { autocast: CastPolicy::FULL_ON_GPU, on: (-0.9, 0.9), aliases: &["arccos"] }
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
    float erfinv(input) = input.erfinv() => d(g, y) = [g * lit(0.886_226_925_452_758) * (y * y).exp()]; { autocast: CastPolicy::FULL_ON_GPU, on: (-0.9, 0.9), aliases: &["special_erfinv"] }
    /// The chance that a standard normal variable is at most this, near 0 without relative accuracy: half of 1 + erf(x / √2).
    float normal_cdf(input) = input.normal_cdf() => d(g, y) = [g * lit(0.398_942_280_401_432_7) * (lit::<E>(-0.5) * input * input).exp()]; { exposure: Exposure::NONE }
    /// Logarithm of the absolute value of the gamma function.
    float lgamma(input) = input.lgamma() => d(g, y) = [g * input.digamma()]; { on: (0.3, 4.0), aliases: &["special_gammaln"] }
    /// Derivative of `lgamma`.
    float digamma(input) = input.digamma() => d(g, y) = [g * trigamma_of(input)]; { quick: true, on: (0.3, 4.0), aliases: &["special_psi", "special_digamma"] }
    /// 1 / (1 + exp(-x)).
    float sigmoid(input) = sigmoid_of(input) => d(g, y) = [g * (E::one() - y) * y]; { aliases: &["special_expit"] }
    => torch { backward: "sigmoid_backward" }
    /// Largest integer not above each element.
    float floor(input) = input.floor() => d(g, y) = [E::zero()]; { keeps_ints: true, least: 1 }
    => torch { kernel: "floor_vml_cpu", out: OutPolicy::FOUND }
    /// Smallest integer not below each element.
    float ceil(input) = input.ceil() => d(g, y) = [E::zero()]; { keeps_ints: true, least: 1 }
    => torch { kernel: "ceil_vml_cpu", out: OutPolicy::FOUND }
    /// Each element without its fraction.
    float trunc(input) = input.trunc() => d(g, y) = [E::zero()]; { keeps_ints: true, least: 1, aliases: &["fix"] }
    => torch { kernel: "trunc_vml_cpu", out: OutPolicy::FOUND }
    /// The fraction of each element, with its sign.
    float frac(input) = input - input.trunc() => d(g, y) = [g]; { least: 2 }
    => torch { kernel: "frac_cpu", out: OutPolicy::FOUND }
    /// Nearest integer, halves to the even one.
    float round(input) = input.round(), lean [F32] => d(g, y) = [E::zero()]; { keeps_ints: true, least: 1, exposure: Exposure::NONE }
    => torch { kernel: "round_vml_cpu" }
    /// Nearest multiple of `1 / scale`.
    float round_to(input; scale: "1.0") = (input * scale).round() / scale => d(g, y) = [E::zero()];
    { least: 2, exposure: Exposure::NONE }
    => torch { kernel: "round_cpu", node: "RoundBackward1" }
    /// Nearest multiple of `step`.
    float round_by(input; step: "1.0") = (input / step).round() * step => d(g, y) = [E::zero()];
    { least: 2, exposure: Exposure::NONE }
    => torch { kernel: "round_cpu", node: "RoundBackward1" }
    /// Finite numbers in place of NaN and infinities.
    float nan_to_num(input; nan: "0.0", posinf: "", neginf: "") =
        E::select(input.is_nan(), nan, E::select(input.eq(lit(f64::INFINITY)), posinf, E::select(input.eq(lit(f64::NEG_INFINITY)), neginf, input)))
    => d(g, y) = [E::select(E::or(input.is_nan(), input.abs().eq(lit(f64::INFINITY))), E::zero(), g)];
    { keeps_ints: true, exposure: Exposure::NONE }
    /// log(x / (1 - x)).
    float logit_open(input) = (input / (E::one() - input)).log()
    => d(g, y) = [E::select(E::or(input.lt(E::zero()), E::one().lt(input)), lit(f64::NAN), g / (input * (E::one() - input)))];
    { on: (0.1, 0.9), exposure: Exposure::NONE }
    => torch { shows: Some(("eps", Attribute::Nothing)), node: "LogitBackward0" }
    /// log(x / (1 - x)) of x limited to [eps, 1 - eps]; below `eps` x is `eps`, even if `eps` exceeds 1/2.
    float logit_within(input; eps: "") = {
        let z = E::select(input.lt(eps), eps, E::select((E::one() - eps).lt(input), E::one() - eps, input));
        (z / (E::one() - z)).log()
    }
    => d(g, y) = [E::select(E::or(input.lt(eps), (E::one() - eps).lt(input)), E::zero(), g / (input * (E::one() - input)))];
    { on: (0.3, 0.7), exposure: Exposure::NONE }
    => torch { node: "LogitBackward0" }
    /// sin(πx) / (πx), and 1 at 0.
    float sinc(input) = { let t = input * lit(std::f64::consts::PI); E::select(input.eq(E::zero()), E::one(), t.sin() / t) }
    => d(g, y) = [{
        let t = input * lit(std::f64::consts::PI);
        E::select((t * input).eq(E::zero()), E::zero(), g * ((t * t.cos() - t.sin()) / (t * input)))
    }]; { quick: true, aliases: &["special_sinc"] }
    /// The angle of each number in the complex plane: π of a negative one, else 0.
    float angle(input) = E::select(input.is_nan(), input, E::select(input.lt(E::zero()), lit(std::f64::consts::PI), E::zero()))
    => d(g, y) = [E::zero()]; { exposure: Exposure::BOTH.and(Exposure::OUT) }
    /// Radians from degrees.
    float deg2rad(input) = input * lit(std::f64::consts::PI / 180.0) => d(g, y) = [g * lit(std::f64::consts::PI / 180.0)];
    /// Degrees from radians.
    float rad2deg(input) = input * lit(180.0 / std::f64::consts::PI) => d(g, y) = [g * lit(180.0 / std::f64::consts::PI)];
}
