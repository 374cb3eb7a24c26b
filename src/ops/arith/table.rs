//! The operation table of arithmetic outside the pointwise declarations.

use super::{bits, compare, power};
use crate::ops;
use crate::ops::rows;

ops! {
    /// Sum of two tensors or of a tensor and a number: `input + alpha * other`.
    "add" ALL, batch POINTWISE {
        (input: Operand, other: Operand, *, alpha: Number = 1) => super::add_op, row super::add_row;
    }
    /// Difference of two tensors or of a tensor and a number: `input - alpha * other`.
    "sub" ALL, aliases ["subtract"], batch POINTWISE {
        (input: Operand, other: Operand, *, alpha: Number = 1) => super::sub_op, row super::sub_row;
    }
    /// `other - alpha * input`.
    "rsub" FUNCTION, batch POINTWISE {
        (input: Tensor, other: Operand, *, alpha: Number = 1) => super::rsub_op;
    }
    /// Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor').
    "div" ALL, aliases ["divide"], batch POINTWISE {
        (input: Operand, other: Operand, *, rounding_mode: str? = None) => super::div_op, row super::div_row;
    }
    /// Quotient as a real number.
    "true_divide" ALL, batch POINTWISE {
        (input: Operand, other: Operand) => row_of super::true_div_row;
    }
    /// The first to the power of the second.
    "pow" ALL, autocast FULL_ON_GPU, batch POINTWISE {
        (input: Tensor, exponent: Operand) => power::pow_op, row power::pow_row;
        (input: Number, exponent: Tensor) => power::pow_op, row power::pow_row;
    }
    /// The first to the power of the second, in double precision.
    "float_power" BOTH | OUT, batch POINTWISE {
        (input: Tensor, exponent: Operand) => power::float_power;
        (input: Number, exponent: Tensor) => power::float_power;
    }
    /// `float_power` in place, of a tensor in double precision.
    "float_power_" BOTH, batch POINTWISE {
        (input: Tensor, exponent: Operand) => power::float_power_inplace;
    }
    /// Each element times itself.
    "square" ALL, batch POINTWISE {
        (input: Tensor) => power::square, row power::square_row;
    }
    /// Each element, limited to [min, max]; NaN stays.
    "clamp" ALL, aliases ["clip"], out LIMITED, batch POINTWISE {
        (input: Tensor, min: Tensor? = None, max: Tensor? = None) => super::clamp, row super::clamp_row;
        (input: Tensor, min: Number? = None, max: Number? = None) => super::clamp, row super::clamp_row;
    }
    /// The larger of `input` and `min`; NaN stays.
    "clamp_min" ALL, out LIMITED, batch POINTWISE {
        (input: Tensor, min: Tensor) => row rows::clamp_min_tensor;
        (input: Tensor, min: Number) => row rows::clamp_min;
    }
    /// The smaller of `input` and `max`; NaN stays.
    "clamp_max" ALL, out LIMITED, batch POINTWISE {
        (input: Tensor, max: Tensor) => row rows::clamp_max_tensor;
        (input: Tensor, max: Number) => row rows::clamp_max;
    }
    /// Nearest number of `decimals` digits after the point, halves to the even one.
    "round" ALL, aliases ["special_round"], out FOUND, batch POINTWISE {
        (input: Tensor, *, decimals: int = 0) => row_of super::round;
    }
    /// x Φ(x), exactly or by `approximate='tanh'`.
    "gelu" NN | NATIVE | OUT, batch POINTWISE {
        (input: Tensor, *, approximate: str = "none") => row_of super::gelu;
    }
    /// x where positive, else `weight * x`, with a weight per channel or one for all.
    "prelu" BOTH | NN | NATIVE, autocast LOWER, batch PARTS {
        (input: Tensor, weight: Tensor) => super::prelu;
    }
    /// The first half along `dim` times the sigmoid of the second.
    "glu" NN, batch DIMS {
        (input: Tensor, dim: int = -1) => super::glu;
    }
    /// `input + weight * (end - input)`.
    "lerp" ALL, batch POINTWISE {
        (input: Tensor, end: Tensor, weight: Operand) => row_of super::lerp;
    }
    /// `input + value * tensor1 / tensor2`.
    "addcdiv" ALL, autocast WIDEST_ON_GPU, batch POINTWISE {
        (input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) => row_of super::addcdiv;
    }
    /// Bits inverted; logical not of a bool.
    "bitwise_not" ALL, out FOUND, batch POINTWISE {
        (input: Tensor) => row_of super::bitwise_not;
    }
    /// Finite numbers in place of NaN and infinities.
    "nan_to_num" ALL, batch POINTWISE {
        (input: Tensor, nan: float? = None, posinf: float? = None, neginf: float? = None) => row_of super::nan_to_num;
    }
    /// log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given.
    "logit" ALL, aliases ["special_logit"], batch POINTWISE {
        (input: Tensor, eps: float? = None) => row_of super::logit;
    }
    /// 0 below zero, 1 above, `values` at zero.
    "heaviside" ALL, batch POINTWISE {
        (input: Tensor, values: Tensor) => row_of super::heaviside;
    }
    /// Whether elements are within `atol + rtol * |other|` of each other.
    "isclose" BOTH, batch POINTWISE {
        (input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) =>
            compare::isclose;
    }
    /// Whether all elements are within `atol + rtol * |other|` of each other.
    "allclose" BOTH, batch ALLCLOSE {
        (input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool =>
            compare::allclose;
    }
    /// Whether two tensors have the same shape and elements.
    "equal" BOTH, batch DATA {
        (input: Tensor, other: Tensor) -> bool => compare::equal;
    }
    /// Whether the sign of each element is minus, that of zeros too.
    "signbit" BOTH | OUT, batch POINTWISE {
        (input: Tensor) => compare::signbit;
    }
    /// The tensor itself.
    "positive" BOTH, batch POINTWISE {
        (input: Tensor) => super::positive;
    }
    /// The next number after each of `input` on the way to that of `other`.
    "nextafter" ALL, batch POINTWISE {
        (input: Tensor, other: Tensor) => bits::nextafter;
    }
    /// Each number as one of magnitude in [0.5, 1) and the power of two that it is multiplied by.
    "frexp" BOTH | OUT, batch POINTWISE {
        (input: Tensor) -> tuple[Tensor, Tensor] => bits::frexp;
    }
}
