//! Activation functions.

use super::unary::{sigmoid_of, steady_sigmoid_of};
use crate::dtype::Scalar;
use crate::ensure;
use crate::error::Result;
use crate::formula::Num;
use crate::graph::Attribute;
use crate::ops::pointwise::ROUNDED_PARAMETERS;
use crate::ops::schema::Exposure;
use crate::rows;

const NN: Exposure = Exposure::NN;

#[inline(always)]
fn softplus_of<E: Num>(x: E) -> E {
    x.maximum(E::zero()) + (-(x.abs())).exp().log1p()
}

/// x below zero, else zero: so the power of e in a derivative, and the derivative of that, stay finite where it is not chosen.
#[inline(always)]
fn below_zero<E: Num>(x: E) -> E {
    E::select(x.lt(E::zero()), x, E::zero())
}

/// Checks `alpha` of `celu`, which is a divisor.
fn divides(params: &[Scalar]) -> Result<()> {
    ensure!(!params[0].is_zero(), Runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
    Ok(())
}

/// Checks `lambd` of `softshrink`.
fn shrinks(params: &[Scalar]) -> Result<()> {
    let lambd = params[0].to_f64();
    ensure!(lambd >= 0.0, Runtime, "lambda must be greater or equal to 0, but found to be {lambd}.");
    Ok(())
}

fn ordered(bounds: &[Scalar]) -> Result<()> {
    let crossed = bounds[0].to_f64() > bounds[1].to_f64();
    ensure!(!crossed, Value, "min_val cannot be greater than max_val");
    Ok(())
}

#[inline(always)]
fn tanh_inner<E: Num>(x: E) -> E {
    E::lit(0.797_884_560_802_865_4) * (x + E::lit(0.044715) * x * x * x)
}

/// The derivative of `smooth_l1`; NaN of NaN.
#[inline(always)]
fn smooth_l1_slope<E: Num>(x: E, beta: E) -> E {
    E::select(beta.le(x), E::one(), E::select(x.le(-beta), -E::one(), x / beta))
}

/// The derivative of `huber`; NaN of NaN.
#[inline(always)]
fn huber_slope<E: Num>(x: E, delta: E) -> E {
    E::select(delta.lt(x), delta, E::select(x.lt(-delta), -delta, x))
}

rows! { ACTIVATION;
    /// max(x, 0).
    num relu(input) = input.maximum(E::zero()), lean [F32]
    => d(g, y) = [E::select(y.le(E::zero()), E::zero(), g)]; { unsigned: Unsigned::Identity, inplace_argument: true, exposure: Exposure::ALL.and(NN) }
    => torch { backward: "threshold_backward", kernel: "clamp_min_scalar_cpu", flat: "ThresholdBackwardBackward0", refuses_bool: "Boolean inputs not supported for relu" }
    /// x where positive, else `negative_slope * x`.
    float leaky_relu(input; negative_slope: "0.01") = E::select(E::zero().lt(input), input, input * negative_slope), lean [F32]
    => d(g, y) = [E::select(E::zero().lt(input), g, g * negative_slope)];
    { inplace_argument: true, exposure: NN, sig: "input: Tensor, negative_slope: float = 0.01", least: 2 }
    => torch { backward: "leaky_relu_backward", flat: "LeakyReluBackwardBackward0", kernel: "leaky_relu_cpu" }
    /// x where positive, else `alpha * (exp(x) - 1)`.
    float elu(input; alpha: "1.0") = E::select(E::zero().lt(input), input, alpha * input.expm1())
    => d(g, y) = [E::select(input.le(E::zero()), g * (alpha * below_zero(input).exp()), g)]; { inplace_argument: true, exposure: NN, sig: "input: Tensor, alpha: float = 1.0", least: 2 }
    => torch { backward: "elu_backward", kernel: "elu_cpu" }
    /// The self-normalising ELU of Klambauer et al., 2017.
    float selu(input) = E::lit(1.050_700_987_355_480_5) * E::select(E::zero().lt(input), input, E::lit(1.673_263_242_354_377_2) * input.expm1())
    => d(g, y) = [g * E::lit(1.050_700_987_355_480_5) * E::select(input.le(E::zero()), E::lit(1.673_263_242_354_377_2) * below_zero(input).exp(), E::one())];
    { inplace_argument: true, exposure: NN.and(Exposure::FUNCTION).and(Exposure::INPLACE), least: 2 }
    => torch { backward: "elu_backward", node: "EluBackward0", kernel: "elu_cpu" }
    /// x where positive, else `alpha * (exp(x / alpha) - 1)`.
    float celu(input; alpha: "1.0") = E::select(E::zero().lt(input), input, alpha * (input / alpha).expm1())
    => d(g, y) = [E::select(input.le(E::zero()), g * (below_zero(input) / alpha).exp(), g)];
    { inplace_argument: true, exposure: NN.and(Exposure::FUNCTION).and(Exposure::INPLACE), sig: "input: Tensor, alpha: float = 1.0", least: 2, check: divides }
    => torch { backward: "elu_backward", kernel: "elu_cpu" }
    /// x Φ(x), with the error function.
    float gelu_erf(input) = input * input.normal_cdf()
    => d(g, y) = [g * (input.normal_cdf()
        + input * E::lit(0.398_942_280_401_432_7) * (E::lit(-0.5) * input * input).exp())];
    { exposure: Exposure::NONE, least: 2 }
    => torch { backward: "gelu_backward", shows: Some(("approximate", Attribute::Text("none"))), node: "GeluBackward0", kernel: "GeluKernelImpl" }
    /// The approximation of x Φ(x) by tanh.
    float gelu_tanh(input) = E::lit(0.5) * input * (E::one() + tanh_inner(input).tanh())
    => d(g, y) = [{
        let t = tanh_inner(input).tanh();
        let slope = E::lit(0.797_884_560_802_865_4) * (E::one() + E::lit(3.0 * 0.044715) * input * input);
        g * E::lit(0.5) * (E::one() + t + input * (E::one() - t * t) * slope)
    }]; { exposure: Exposure::NONE, least: 2 }
    => torch { backward: "gelu_backward", shows: Some(("approximate", Attribute::Text("tanh"))), node: "GeluBackward0", kernel: "GeluKernelImpl" }
    /// x sigmoid(x).
    float silu(input) = input * sigmoid_of(input)
    => d(g, y) = [{
        let s = steady_sigmoid_of(input);
        g * (s * (E::one() + input * (E::one() - s)))
    }]; { inplace_argument: true, exposure: NN, least: 2 }
    => torch { backward: "silu_backward", kernel: "silu_cpu" }
    /// x tanh(softplus(x)).
    float mish(input) = input * softplus_of(input).tanh()
    => d(g, y) = [{
        let t = softplus_of(input).tanh();
        g * (t + input * steady_sigmoid_of(input) * (E::one() - t * t))
    }]; { inplace_argument: true, exposure: NN, least: 2 }
    => torch { backward: "mish_backward", kernel: "mish_cpu" }
    /// log(1 + exp(beta x)) / beta; x where beta x exceeds the threshold.
    float softplus(input; beta: "1.0", limit: "20.0") =
        E::select(limit.lt(input * beta), input, softplus_of(input * beta) / beta)
    => d(g, y) = [E::select(limit.lt(input * beta), g, g * steady_sigmoid_of(input * beta))];
    { autocast: CastPolicy::FULL_ON_GPU, exposure: NN.and(Exposure::NATIVE).and(Exposure::OUT), sig: "input: Tensor, beta: float = 1.0, threshold: float = 20.0", least: 2 }
    => torch { backward: "softplus_backward", shown_as: &[("limit", "threshold")], kernel: "softplus_cpu" }
    /// log(sigmoid(x)).
    float logsigmoid(input) = -softplus_of(-input) => d(g, y) = [g * steady_sigmoid_of(-input)];
    { exposure: NN.and(Exposure::NATIVE).and(Exposure::OUT), least: 2 }
    => torch { backward: "log_sigmoid_backward", node: "LogSigmoidBackward0", kernel: "log_sigmoid_cpu" }
    /// x limited to [min_val, max_val].
    num hardtanh(input; min_val: "-1.0", max_val: "1.0") = input.maximum(min_val).minimum(max_val), lean [F32]
    => d(g, y) = [E::select(E::or(y.le(min_val), max_val.le(y)), E::zero(), g)];
    { inplace_argument: true, exposure: NN, sig: "input: Tensor, min_val: Number = -1.0, max_val: Number = 1.0", check: ordered }
    => torch { backward: "hardtanh_backward", shown_as: &[("result", "self")], flat: "HardtanhBackwardBackward0", refuses_bool: "Bool inputs not supported for hardtanh" }
    /// min(max(x, 0), 6).
    num relu6(input) = input.maximum(E::zero()).minimum(E::lit(6.0)), lean [F32]
    => d(g, y) = [E::select(E::or(y.le(E::zero()), E::lit(6.0).le(y)), E::zero(), g)]; { inplace_argument: true, exposure: NN }
    => torch { backward: "hardtanh_backward", shown_as: &[("result", "self")], flat: "HardtanhBackwardBackward0", node: "HardtanhBackward0", refuses_bool: "Bool inputs not supported for hardtanh" }
    /// x relu6(x + 3) / 6.
    float hardswish(input) = input * (input + E::lit(3.0)).maximum(E::zero()).minimum(E::lit(6.0)) / E::lit(6.0)
    => d(g, y) = [E::select(input.le(E::lit(-3.0)), E::zero(), E::select(input.lt(E::lit(3.0)), g * (input / E::lit(3.0) + E::lit(0.5)), g))];
    { inplace_argument: true, exposure: NN, least: 2 }
    => torch { backward: "hardswish_backward", kernel: "hardswish_cpu" }
    /// relu6(x + 3) / 6.
    float hardsigmoid(input) = (input + E::lit(3.0)).maximum(E::zero()).minimum(E::lit(6.0)) / E::lit(6.0)
    => d(g, y) = [E::select(E::and(E::lit(-3.0).lt(input), input.lt(E::lit(3.0))), g / E::lit(6.0), E::zero())]; { inplace_argument: true, exposure: NN, least: 2 }
    => torch { backward: "hardsigmoid_backward", flat: "HardsigmoidBackwardBackward0", kernel: "hardsigmoid_cpu" }
    /// x / (1 + |x|).
    float softsign(input) = input / (E::one() + input.abs())
    => d(g, y) = [{
        let a = E::one() + input.abs();
        // Where the result is ∞ / ∞, so is the slope.
        E::select(a.eq(E::lit(f64::INFINITY)), E::lit(f64::NAN), g / (a * a))
    }]; { exposure: NN }
    => torch { node: "DivBackward0" }
    /// x - tanh(x).
    float tanhshrink(input) = input - input.tanh()
    => d(g, y) = [{ let t = input.tanh(); g * t * t }]; { exposure: NN }
    => torch { node: "SubBackward0" }
    /// x shrunk toward zero by `lambd`.
    float softshrink(input; lambd: "0.5") = E::select(lambd.lt(input), input - lambd, E::select(input.lt(-lambd), input + lambd, input * E::zero()))
    => d(g, y) = [E::select(input.abs().le(lambd), E::zero(), g)]; { rounded: ROUNDED_PARAMETERS, exposure: NN.and(Exposure::NATIVE).and(Exposure::OUT), sig: "input: Tensor, lambd: float = 0.5", least: 2, check: shrinks }
    => torch { backward: "softshrink_backward", flat: "SoftshrinkBackwardBackward0", kernel: "softshrink_check" }
    /// x, and 0 where |x| is at most `lambd`.
    float hardshrink(input; lambd: "0.5") = E::select(input.abs().le(lambd), E::zero(), input)
    => d(g, y) = [E::select(input.abs().le(lambd), E::zero(), g)];
    { rounded: ROUNDED_PARAMETERS, exposure: NN.and(Exposure::NATIVE).and(Exposure::BOTH).and(Exposure::OUT), sig: "input: Tensor, lambd: float = 0.5", least: 2 }
    => torch { backward: "hardshrink_backward", flat: "HardshrinkBackwardBackward0", kernel: "hardshrink_cpu" }
    /// x where above the threshold, else `value`.
    num threshold(input; limit: "", value: "") = E::select(input.le(limit), value, input), lean [F32]
    => d(g, y) = [E::select(input.le(limit), E::zero(), g)];
    { inplace_argument: true, exposure: NN.and(Exposure::FUNCTION).and(Exposure::INPLACE).and(Exposure::OUT), sig: "input: Tensor, threshold: Number, value: Number", least: 1 }
    => torch { backward: "threshold_backward", flat: "ThresholdBackwardBackward0", shown_as: &[("limit", "threshold")], kernel: "threshold_cpu" }
    /// x sigmoid(gate).
    float glu_kernel(input, gate) = input * sigmoid_of(gate)
    => d(g, y) = [
        g * steady_sigmoid_of(gate),
        g * (input * (steady_sigmoid_of(gate) * (E::one() - steady_sigmoid_of(gate)))),
    ];
    { exposure: Exposure::NONE, least: 2 }
    => torch { node: "GluBackward0", kernel: "glu_cpu" }
    /// Squared difference.
    float squared_error(input, target) = (input - target) * (input - target)
    => d(g, y) = [g * (E::lit(2.0) * (input - target)), g * (E::lit(2.0) * (target - input))];
    { exposure: Exposure::NONE }
    => torch { shows: Some(("reduction", Attribute::Int(0))), node: "MseLossBackward0" }
    /// Squared difference below `beta`, absolute above, as Girshick's Fast R-CNN.
    float smooth_l1(input, target; beta: "1.0") = {
        let z = (input - target).abs();
        E::select(z.lt(beta), E::lit(0.5) * z * z / beta, z - E::lit(0.5) * beta)
    }
    => d(g, y) = [
        g * smooth_l1_slope(input - target, beta),
        g * smooth_l1_slope(target - input, beta),
    ]; { exposure: Exposure::NONE }
    => torch { backward: "smooth_l1_loss_backward", shows: Some(("reduction", Attribute::Int(0))), node: "SmoothL1LossBackward0" }
    /// Huber's function of the difference.
    float huber(input, target; delta: "1.0") = {
        let z = (input - target).abs();
        E::select(z.le(delta), E::lit(0.5) * z * z, delta * (z - E::lit(0.5) * delta))
    }
    => d(g, y) = [
        g * huber_slope(input - target, delta),
        g * huber_slope(target - input, delta),
    ]; { exposure: Exposure::NONE }
    => torch { backward: "huber_loss_backward", shows: Some(("reduction", Attribute::Int(0))), node: "HuberLossBackward0" }
    /// -(t log x + (1 - t) log(1 - x)), the logarithms not below -100.
    float bce(input, target) = {
        let floor = E::lit(-100.0);
        (target - E::one()) * (-input).log1p().maximum(floor) - target * input.log().maximum(floor)
    }
    => d(g, y) = [
        g * (input - target) / ((E::one() - input) * input).maximum(E::lit(1e-12)),
        g * ((-input).log1p().maximum(E::lit(-100.0)) - input.log().maximum(E::lit(-100.0))),
    ]; { on: (0.1, 0.9), exposure: Exposure::NONE }
    => torch { shows: Some(("reduction", Attribute::Int(0))), node: "BinaryCrossEntropyBackward0" }
    /// (1 - t) x + log(1 + exp(-x)), without overflow.
    float bce_logits(input, target) = (E::one() - target) * input + softplus_of(-input)
    => d(g, y) = [g * (steady_sigmoid_of(input) - target), -g * input]; { exposure: Exposure::NONE }
    => torch { shows: Some(("reduction", Attribute::Int(0))), node: "BinaryCrossEntropyWithLogitsBackward0" }
}
