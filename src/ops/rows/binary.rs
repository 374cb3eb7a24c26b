//! Functions of two and three numbers.

use crate::formula::{Arith, Num};
use crate::graph::Attribute;
use crate::ops::pointwise::Rounds;
use crate::ops::schema::Exposure;
use crate::rows;

/// The gradient of a maximum: halved if both inputs are equal.
#[inline(always)]
fn tied<E: Arith>(g: E, a: E, b: E, half: E) -> E {
    E::select(a.eq(b), half, E::select(a.lt(b), E::zero(), g))
}

/// The gradient of `atan2(a, b)` by one of them; zero where both vanish, and where their squares do.
#[inline(always)]
fn atan2_grad<E: Num>(g: E, numerator: E, a: E, b: E) -> E {
    let squares = a * a + b * b;
    E::select(squares.eq(E::zero()), E::zero(), g * (numerator / squares))
}

/// `x * log(y)`, and 0 where `x` is 0, unless `y` is NaN.
#[inline(always)]
fn xlogy_of<E: Num>(x: E, y: E) -> E {
    E::select(y.is_nan(), y, E::select(x.eq(E::zero()), E::zero(), x * y.log()))
}

/// `x * log(1 + y)`, and 0 where `x` is 0, unless `y` is NaN.
#[inline(always)]
fn xlog1py_of<E: Num>(x: E, y: E) -> E {
    E::select(y.is_nan(), y, E::select(x.eq(E::zero()), E::zero(), x * y.log1p()))
}

/// Either operand may be a number, but not both.
const NUMBER_EITHER_SIDE: &str = "input: Tensor, other: Operand | input: Number, other: Tensor";

rows! { BINARY;
    /// Sum of two tensors, element by element.
    num add(input, other) = input + other, bytes [U8 I8], lean [F32] => d(g, y) = [g, g]; { rounded: 0b11, exposure: Exposure::NONE }
    => torch { kernel: "add_stub", shows: Some(("alpha", Attribute::Int(1))) }
    /// `input + alpha * other`.
    num add_scaled(input, other; alpha: "1") = input + alpha * other, lean [F32] => d(g, y) = [g, g * alpha]; { exposure: Exposure::NONE }
    => torch { node: "AddBackward0" }
    /// Difference of two tensors, element by element.
    num sub(input, other) = input - other, bytes [U8 I8], lean [F32] => d(g, y) = [g, -g];
    { rounded: 0b11, exposure: Exposure::NONE }
    => torch { kernel: "add_stub", shows: Some(("alpha", Attribute::Int(1))), refuses_bool: "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead." }
    /// Product of two tensors, element by element.
    num mul(input, other) = input * other, bytes [Bool U8 I8], lean [F32] => d(g, y) = [g * other, g * input]; { unsigned: Unsigned::Bits, float8: true, aliases: &["multiply"], sig: "input: Operand, other: Operand" }
    /// Quotient of two tensors, element by element.
    float div(input, other) = input / other, lean [F32] => d(g, y) = [g / other, -g * ((input / other) / other)];
    { on: (0.3, 2.0), exposure: Exposure::NONE }
    => torch { kernel: "div_cpu", shows: Some(("rounding_mode", Attribute::Nothing)) }
    /// Quotient rounded toward minus infinity.
    num floor_divide(input, other) = input.floor_div(other); { rounded: 0b01, sig: "input: Operand, other: Operand", divides: true, quick: true, on: (0.3, 2.0), least: 1 }
    => torch { kernel: "div_floor_cpu" }
    /// Quotient rounded toward zero.
    num trunc_divide(input, other) = input.trunc_div(other) => d(g, y) = [E::zero(), E::zero()]; { exposure: Exposure::NONE, divides: true, quick: true, on: (0.3, 2.0), least: 1 }
    => torch { kernel: "div_trunc_cpu" }
    /// Remainder with the sign of the divisor, as Python's `%`.
    num remainder(input, other) = input.remainder(other)
    => d(g, y) = [g, -g * input.floor_div(other)]; { rounded: 0b11, divides: true, quick: true, on: (0.3, 2.0), sig: NUMBER_EITHER_SIDE, least: 1 }
    => torch { kernel: "remainder_cpu", node: "RemainderBackward1", number_nodes: &["RemainderBackward1", "RemainderBackward0"] }
    /// Remainder with the sign of the dividend, as C's `fmod`.
    num fmod(input, other) = input.fmod(other)
    => d(g, y) = [g, -g * input.trunc_div(other)];
    { rounded: 0b11, divides: true, quick: true, on: (0.3, 2.0), least: 1 }
    => torch { kernel: "fmod_cpu", node: "FmodBackward1", number_nodes: &["", "FmodBackward0"] }
    /// The first tensor to the power of the second.
    float pow(input, other) = input.pow(other)
    => d(g, y) = [
        {
            // A power without a pole where the derivative is zero, so that its own derivative is.
            let less = E::select(other.eq(E::zero()), E::one(), other - E::one());
            E::select(other.eq(E::zero()), E::zero(), g * (other * input.pow(less)))
        },
        E::select(E::and(input.eq(E::zero()), E::zero().le(other)), E::zero(), g * (y * input.log())),
    ]; { rounded: 0b11, on: (0.3, 2.0), exposure: Exposure::NONE }
    => torch { shown_as: &[("other", "exponent")], node: "PowBackward1", number_nodes: &["PowBackward2", "PowBackward0"] }
    /// Angle of the point (other, input), in radians.
    float atan2(input, other) = input.atan2(other)
    => d(g, y) = [atan2_grad(g, other, input, other), atan2_grad(g, -input, input, other)];
    { autocast: CastPolicy::WIDEST_ON_GPU, on: (0.3, 2.0), rounds: Rounds::Mixed, aliases: &["arctan2"], sig: "input: Tensor, other: Tensor" }
    => torch { kernel: "atan2_cpu" }
    /// The larger of two elements; NaN if either is.
    num maximum(input, other) = other.maximum(input), bytes [Bool U8], lean [F32]
    => d(g, y) = [tied(g, input, other, g * E::lit(0.5)), tied(g, other, input, g * E::lit(0.5))];
    { unsigned: Unsigned::Order, sig: "input: Tensor, other: Tensor", exposure: Exposure::BOTH.and(Exposure::OUT) }
    => torch { kernel: "maximum_cpu" }
    /// The smaller of two elements; NaN if either is.
    num minimum(input, other) = other.minimum(input), bytes [Bool U8], lean [F32]
    => d(g, y) = [tied(g, other, input, g * E::lit(0.5)), tied(g, input, other, g * E::lit(0.5))];
    { unsigned: Unsigned::Order, sig: "input: Tensor, other: Tensor", exposure: Exposure::BOTH.and(Exposure::OUT) }
    => torch { kernel: "minimum_cpu" }
    /// The larger of two elements; the other one where one is NaN.
    num fmax(input, other) = E::select(E::or(other.is_nan(), other.le(input)), input, other), bytes [Bool U8]
    => d(g, y) = [
        E::select(input.eq(other), g * E::lit(0.5), E::select(E::or(other.is_nan(), other.lt(input)), g, E::zero())),
        E::select(input.eq(other), g * E::lit(0.5), E::select(E::or(other.is_nan(), other.lt(input)), E::zero(), g)),
    ]; { unsigned: Unsigned::Order, sig: "input: Tensor, other: Tensor", exposure: Exposure::BOTH.and(Exposure::OUT) }
    /// The smaller of two elements; the other one where one is NaN.
    num fmin(input, other) = E::select(E::or(other.is_nan(), input.le(other)), input, other), bytes [Bool U8]
    => d(g, y) = [
        E::select(input.eq(other), g * E::lit(0.5), E::select(E::or(other.is_nan(), input.lt(other)), g, E::zero())),
        E::select(input.eq(other), g * E::lit(0.5), E::select(E::or(other.is_nan(), input.lt(other)), E::zero(), g)),
    ]; { unsigned: Unsigned::Order, sig: "input: Tensor, other: Tensor", exposure: Exposure::BOTH.and(Exposure::OUT) }
    /// Length of the hypotenuse.
    float hypot(input, other) = {
        let (a, b) = (input.abs(), other.abs());
        let (hi, lo) = (a.maximum(b), a.minimum(b));
        let r = lo / hi;
        let inf = E::lit(f64::INFINITY);
        let finite = E::select(hi.eq(lo), hi * E::lit(std::f64::consts::SQRT_2), hi * (E::one() + r * r).sqrt());
        // As in C, infinite beside an infinity, even if the other side is NaN.
        E::select(hi.eq(E::zero()), E::zero(), E::select(E::or(inf.eq(a), inf.eq(b)), inf, finite))
    }
    => d(g, y) = [g * (input / y), g * (other / y)]; { on: (0.3, 2.0), least: 2, sig: "input: Tensor, other: Tensor" }
    => torch { kernel: "hypot_cpu" }
    /// `input * log(other)`, and 0 where `input` is 0.
    float xlogy(input, other) = xlogy_of(input, other)
    => d(g, y) = [
        E::select(E::and(input.eq(E::zero()), other.le(E::zero())), E::zero(), xlogy_of(g, other)),
        g * input / other,
    ]; { on: (0.3, 2.0), sig: NUMBER_EITHER_SIDE, rounds: Rounds::Steps, aliases: &["special_xlogy"] }
    => torch { number_nodes: &["XlogyBackward1", "XlogyBackward2"] }
    /// `input * log(1 + other)`, and 0 where `input` is 0.
    float xlog1py(input, other) = xlog1py_of(input, other)
    => d(g, y) = [
        E::select(E::and(input.eq(E::zero()), other.le(-E::one())), E::zero(), xlog1py_of(g, other)),
        g * input / (other + E::one()),
    ]; { on: (0.3, 2.0), sig: NUMBER_EITHER_SIDE, rounds: Rounds::Steps, exposure: Exposure::SPECIAL.and(Exposure::OUT) }
    => torch { node: "SpecialXlog1PyBackward0", number_nodes: &["SpecialXlog1PyBackward1", "SpecialXlog1PyBackward2"] }
    /// log(exp(input) + exp(other)), without overflow.
    float logaddexp(input, other) = {
        let m = input.maximum(other);
        let d = (input - other).abs();
        E::select(E::and(input.eq(other), E::lit(f64::INFINITY).eq(input.abs())), input, m + (-d).exp().log1p())
    }
    => d(g, y) = [g / (E::one() + (other - input).exp()), g / (E::one() + (input - other).exp())];
    { least: 2, sig: "input: Tensor, other: Tensor", exposure: Exposure::BOTH.and(Exposure::OUT) }
    => torch { kernel: "logaddexp_cpu" }
    /// log2(2^input + 2^other), without overflow.
    float logaddexp2(input, other) = {
        let m = input.maximum(other);
        let d = (input - other).abs();
        let more = (-d).exp2().log1p() * E::lit(std::f64::consts::LOG2_E);
        E::select(E::and(input.eq(other), E::lit(f64::INFINITY).eq(input.abs())), input, m + more)
    }
    => d(g, y) = [g / (E::one() + (other - input).exp2()), g / (E::one() + (input - other).exp2())];
    { least: 2, sig: "input: Tensor, other: Tensor", exposure: Exposure::BOTH.and(Exposure::OUT) }
    => torch { kernel: "logaddexp2_cpu", node: "Logaddexp2Backward0" }
    /// The magnitude of the first with the sign of the second.
    float copysign(input, other) = {
        let negative = E::or(other.lt(E::zero()), (E::one() / other).lt(E::zero()));
        E::select(negative, -(input.abs()), input.abs())
    }
    => d(g, y) = [
        E::select(input.eq(E::zero()), E::zero(), g * (y / input)),
        E::zero(),
    ]; { on: (0.3, 2.0) }
    => torch { number_nodes: &["", "CopysignBackward1"] }
    /// `input + weight * (end - input)`.
    float lerp(input, end, weight) = {
        let near = input + weight * (end - input);
        let far = end - (end - input) * (E::one() - weight);
        E::select(weight.abs().lt(E::lit(0.5)), near, far)
    }, lean [F32]
    => d(g, y) = [g * (E::one() - weight), g * weight, g * (end - input)]; { exposure: Exposure::NONE, least: 2 }
    => torch { node: "LerpBackward1", number_nodes: &["", "", "LerpBackward0"], kernel: "lerp_kernel_scalar" }
    /// `input + value * tensor1 * tensor2`.
    num addcmul(input, tensor1, tensor2; value: "1") = input + value * tensor1 * tensor2, lean [F32]
    => d(g, y) = [g, g * (tensor2 * value), g * (tensor1 * value)];
    { autocast: CastPolicy::WIDEST_ON_GPU, sig: "input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1", least: 1 }
    => torch { kernel: "addcmul_cpu_out" }
    /// `input + value * tensor1 / tensor2`.
    float addcdiv(input, tensor1, tensor2; value: "1") = input + value * (tensor1 / tensor2), lean [F32]
    => d(g, y) = [g, g * (value / tensor2), -g * (value * (tensor1 / tensor2) / tensor2)];
    { on: (0.3, 2.0), exposure: Exposure::NONE }
    /// The larger of `input` and `min`, then the smaller of that and `max`, which are numbers; NaN stays.
    num clamp(input, min, max) = input.maximum(min).minimum(max), bytes [U8], lean [F32]
    => d(g, y) = [
        E::select(E::and(min.lt(input), input.lt(max)), g, E::zero()),
        E::select(E::and(input.lt(min), min.lt(max)), g, E::zero()),
        E::select(E::or(max.lt(input), max.lt(min)), g, E::zero()),
    ];
    { unsigned: Unsigned::Order, exposure: Exposure::NONE, least: 1 }
    => torch { number_nodes: &["", "ClampBackward1", "ClampBackward1"], kernel: "clamp_scalar_cpu" }
    /// As `clamp`, without an upper bound.
    num clamp_from(input, min) = input.maximum(min), bytes [U8], lean [F32]
    => d(g, y) = [E::select(min.lt(input), g, E::zero()), E::select(input.lt(min), g, E::zero())];
    { exposure: Exposure::NONE }
    => torch { number_nodes: &["", "ClampBackward1"], shows: Some(("max", Attribute::Nothing)) }
    /// As `clamp`, without a lower bound.
    num clamp_to(input, max) = input.minimum(max), bytes [U8], lean [F32]
    => d(g, y) = [E::select(input.lt(max), g, E::zero()), E::select(max.lt(input), g, E::zero())];
    { exposure: Exposure::NONE }
    => torch { number_nodes: &["", "ClampBackward1"], shows: Some(("min", Attribute::Nothing)) }
    /// As `clamp`, with bounds that are tensors: ties share the gradient.
    num clamp_between(input, min, max) = input.maximum(min).minimum(max), bytes [U8], lean [F32]
    => d(g, y) = [
        E::select(E::or(input.lt(min), max.lt(input)), E::zero(),
            E::select(E::and(min.lt(max), E::or(input.eq(min), input.eq(max))), g * E::lit(0.5), g)),
        E::select(max.lt(min), E::zero(),
            E::select(input.lt(min), g, E::select(E::and(min.lt(max), input.eq(min)), g * E::lit(0.5), E::zero()))),
        E::select(E::or(max.lt(input), max.lt(min)), g,
            E::select(E::and(min.lt(max), input.eq(max)), g * E::lit(0.5), E::zero())),
    ]; { unsigned: Unsigned::Order, bounds: true, exposure: Exposure::NONE, least: 1 }
    => torch { node: "ClampBackward0", kernel: "clamp_cpu" }
    /// The larger of `input` and the number `min`; NaN stays.
    num clamp_min(input, min) = input.maximum(min), lean [F32]
    => d(g, y) = [E::select(min.lt(input), g, E::zero()), E::select(input.lt(min), g, E::zero())];
    { limit: "min", unsigned: Unsigned::Order, exposure: Exposure::NONE }
    => torch { kernel: "clamp_min_scalar_cpu", number_nodes: &["", "ClampMinBackward0"] }
    /// The smaller of `input` and the number `max`; NaN stays.
    num clamp_max(input, max) = input.minimum(max), lean [F32]
    => d(g, y) = [E::select(input.lt(max), g, E::zero()), E::select(max.lt(input), g, E::zero())];
    { limit: "max", unsigned: Unsigned::Order, exposure: Exposure::NONE }
    => torch { kernel: "clamp_max_scalar_cpu", number_nodes: &["", "ClampMaxBackward0"] }
    /// The larger of `input` and the tensor `min`; NaN stays.
    num clamp_min_tensor(input, min) = input.maximum(min)
    => d(g, y) = [tied(g, input, min, g * E::lit(0.5)), tied(g, min, input, g * E::lit(0.5))];
    { unsigned: Unsigned::Order, exposure: Exposure::NONE }
    => torch { node: "ClampMinBackward1" }
    /// The smaller of `input` and the tensor `max`; NaN stays.
    num clamp_max_tensor(input, max) = input.minimum(max)
    => d(g, y) = [tied(g, max, input, g * E::lit(0.5)), tied(g, input, max, g * E::lit(0.5))];
    { unsigned: Unsigned::Order, exposure: Exposure::NONE }
    => torch { node: "ClampMaxBackward1" }
    /// `input` where the condition holds, else `other`.
    num select_where(condition, input, other) = E::select(condition.ne(E::zero()), input, other), bytes [Bool U8 I8]
    => d(g, y) = [E::zero(), E::select(condition.ne(E::zero()), g, E::zero()), E::select(condition.ne(E::zero()), E::zero(), g)];
    { unsigned: Unsigned::Bits, float8: true, exposure: Exposure::NONE, conditional: true }
    => torch { node: "WhereBackward0" }
    /// Bitwise and; logical and of bools.
    bits bitwise_and(input, other) = input.bit_and(other), bytes [Bool U8 I8]; { unsigned: Unsigned::Bits, sig: NUMBER_EITHER_SIDE }
    => torch { kernel: "bitwise_and_cpu" }
    /// Bitwise or; logical or of bools.
    bits bitwise_or(input, other) = input.bit_or(other), bytes [Bool U8 I8]; { unsigned: Unsigned::Bits, sig: NUMBER_EITHER_SIDE }
    => torch { kernel: "bitwise_or_cpu" }
    /// Bitwise exclusive or; logical one of bools.
    bits bitwise_xor(input, other) = input.bit_xor(other), bytes [Bool U8 I8]; { unsigned: Unsigned::Bits, sig: NUMBER_EITHER_SIDE }
    => torch { kernel: "bitwise_xor_cpu" }
    /// Bits moved up by `other`.
    bits bitwise_left_shift(input, other) = input.shl(other); { sig: NUMBER_EITHER_SIDE, least: 1 }
    => torch { kernel: "lshift_cpu" }
    /// Bits moved down by `other`, keeping the sign.
    bits bitwise_right_shift(input, other) = input.shr(other); { sig: NUMBER_EITHER_SIDE, least: 1 }
    => torch { kernel: "rshift_cpu" }
    /// Bits inverted; logical not of a bool.
    bits bitwise_not(input) = input.bit_xor(E::lit(-1.0)); { exposure: Exposure::NONE }
    => torch { kernel: "bitwise_not_cpu" }
    /// Greatest common divisor.
    bits gcd(input, other) = input.gcd(other); { sig: "input: Tensor, other: Tensor", least: 1 }
    => torch { kernel: "gcd_cpu" }
    /// Least common multiple.
    bits lcm(input, other) = (input.trunc_div(input.gcd(other)) * other).abs(); { sig: "input: Tensor, other: Tensor", least: 1 }
    => torch { kernel: "lcm_cpu" }
    /// `input * 2 ^ other`.
    float ldexp(input, other) = input * other.exp2()
    => d(g, y) = [g * other.exp2(), g * y * E::lit(std::f64::consts::LN_2)]; { sig: "input: Tensor, other: Tensor" }
    /// 0 below zero, 1 above, `values` at zero.
    num heaviside(input, values) = E::select(input.eq(E::zero()), values, E::select(E::zero().lt(input), E::one(), E::zero()));
    { exposure: Exposure::NONE }
    => torch { kernel: "heaviside_cpu" }
    /// x where positive, else `weight * x`.
    float prelu_kernel(input, weight) = E::select(E::zero().lt(input), input, weight * input)
    => d(g, y) = [
        E::select(E::zero().lt(input), g, weight * g),
        E::select(E::zero().lt(input), E::zero(), input * g),
    ]; { exposure: Exposure::NONE, least: 2 }
    => torch { kernel: "prelu_cpu" }
}
