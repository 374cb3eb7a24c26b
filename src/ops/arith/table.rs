//! The operation table of arithmetic outside the pointwise declarations.

use super::{bits, compare, power};
use crate::ops::autocast::CastPolicy;
use crate::ops::rows;
use crate::ops::schema::{Call, Exposure, Op, Overload};

pub static OPS: &[Op] = &[
    Op {
        name: "add",
        doc: "Sum of two tensors or of a tensor and a number: `input + alpha * other`.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Operand, other: Operand, *, alpha: Number = 1",
            call: Call::Fn(super::add_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "sub",
        doc: "Difference of two tensors or of a tensor and a number: `input - alpha * other`.",
        exposure: Exposure::ALL,
        aliases: &["subtract"],
        overloads: &[Overload {
            sig: "input: Operand, other: Operand, *, alpha: Number = 1",
            call: Call::Fn(super::sub_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "rsub",
        doc: "`other - alpha * input`.",
        exposure: Exposure::FUNCTION,
        overloads: &[Overload {
            sig: "input: Tensor, other: Operand, *, alpha: Number = 1",
            call: Call::Fn(super::rsub_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "div",
        doc: "Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor').",
        exposure: Exposure::ALL,
        aliases: &["divide"],
        overloads: &[Overload {
            sig: "input: Operand, other: Operand, *, rounding_mode: str? = None",
            call: Call::Fn(super::div_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "true_divide",
        doc: "Quotient as a real number.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Operand, other: Operand",
            call: Call::Fn(|a| Ok(super::div(a.operand(0)?, a.operand(1)?)?.into())),
        }],
        ..Op::NEW
    },
    Op {
        name: "pow",
        doc: "The first to the power of the second.",
        exposure: Exposure::ALL,
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[
            Overload { sig: "input: Tensor, exponent: Operand", call: Call::Fn(power::pow_op) },
            Overload { sig: "input: Number, exponent: Tensor", call: Call::Fn(power::pow_op) },
        ],
        ..Op::NEW
    },
    Op {
        name: "float_power",
        doc: "The first to the power of the second, in double precision.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: "input: Tensor, exponent: Operand", call: Call::Fn(power::float_power) },
            Overload { sig: "input: Number, exponent: Tensor", call: Call::Fn(power::float_power) },
        ],
        ..Op::NEW
    },
    Op {
        name: "float_power_",
        doc: "`float_power` in place, of a tensor in double precision.",
        overloads: &[Overload {
            sig: "input: Tensor, exponent: Operand",
            call: Call::Fn(power::float_power_inplace),
        }],
        ..Op::NEW
    },
    Op {
        name: "square",
        doc: "Each element times itself.",
        exposure: Exposure::ALL,
        overloads: &[Overload { sig: "input: Tensor", call: Call::Fn(power::square) }],
        ..Op::NEW
    },
    Op {
        name: "clamp",
        doc: "Each element, limited to [min, max]; NaN stays.",
        exposure: Exposure::ALL,
        aliases: &["clip"],
        overloads: &[
            Overload {
                sig: "input: Tensor, min: Tensor? = None, max: Tensor? = None",
                call: Call::Fn(super::clamp),
            },
            Overload {
                sig: "input: Tensor, min: Number? = None, max: Number? = None",
                call: Call::Fn(super::clamp),
            },
        ],
        ..Op::NEW
    },
    Op {
        name: "clamp_min",
        doc: "The larger of `input` and `min`; NaN stays.",
        exposure: Exposure::ALL,
        overloads: &[
            Overload { sig: "input: Tensor, min: Tensor", call: Call::Row(&rows::clamp_min_tensor) },
            Overload { sig: "input: Tensor, min: Number", call: Call::Row(&rows::clamp_min) },
        ],
        ..Op::NEW
    },
    Op {
        name: "clamp_max",
        doc: "The smaller of `input` and `max`; NaN stays.",
        exposure: Exposure::ALL,
        overloads: &[
            Overload { sig: "input: Tensor, max: Tensor", call: Call::Row(&rows::clamp_max_tensor) },
            Overload { sig: "input: Tensor, max: Number", call: Call::Row(&rows::clamp_max) },
        ],
        ..Op::NEW
    },
    Op {
        name: "round",
        doc: "Nearest number of `decimals` digits after the point, halves to the even one.",
        exposure: Exposure::ALL,
        aliases: &["special_round"],
        overloads: &[Overload { sig: "input: Tensor, *, decimals: int = 0", call: Call::Fn(super::round) }],
        ..Op::NEW
    },
    Op {
        name: "gelu",
        doc: "x Φ(x), exactly or by `approximate='tanh'`.",
        exposure: Exposure::NN,
        overloads: &[Overload {
            sig: "input: Tensor, *, approximate: str = 'none'",
            call: Call::Fn(super::gelu),
        }],
        ..Op::NEW
    },
    Op {
        name: "prelu",
        doc: "x where positive, else `weight * x`, with a weight per channel or one for all.",
        exposure: Exposure::BOTH.and(Exposure::NN),
        autocast: CastPolicy::LOWER,
        overloads: &[Overload { sig: "input: Tensor, weight: Tensor", call: Call::Fn(super::prelu) }],
        ..Op::NEW
    },
    Op {
        name: "glu",
        doc: "The first half along `dim` times the sigmoid of the second.",
        exposure: Exposure::NN,
        overloads: &[Overload { sig: "input: Tensor, dim: int = -1", call: Call::Fn(super::glu) }],
        ..Op::NEW
    },
    Op {
        name: "lerp",
        doc: "`input + weight * (end - input)`.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Tensor, end: Tensor, weight: Operand",
            call: Call::Fn(super::lerp),
        }],
        ..Op::NEW
    },
    Op {
        name: "addcdiv",
        doc: "`input + value * tensor1 / tensor2`.",
        exposure: Exposure::ALL,
        autocast: CastPolicy::WIDEST_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1",
            call: Call::Fn(super::addcdiv),
        }],
        ..Op::NEW
    },
    Op {
        name: "bitwise_not",
        doc: "Bits inverted; logical not of a bool.",
        exposure: Exposure::ALL,
        overloads: &[Overload { sig: "input: Tensor", call: Call::Fn(super::bitwise_not) }],
        ..Op::NEW
    },
    Op {
        name: "nan_to_num",
        doc: "Finite numbers in place of NaN and infinities.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Tensor, nan: float? = None, posinf: float? = None, neginf: float? = None",
            call: Call::Fn(super::nan_to_num),
        }],
        ..Op::NEW
    },
    Op {
        name: "logit",
        doc: "log(x / (1 - x)), of x limited to [eps, 1 - eps] where `eps` is given.",
        exposure: Exposure::ALL,
        aliases: &["special_logit"],
        overloads: &[Overload { sig: "input: Tensor, eps: float? = None", call: Call::Fn(super::logit) }],
        ..Op::NEW
    },
    Op {
        name: "heaviside",
        doc: "0 below zero, 1 above, `values` at zero.",
        exposure: Exposure::ALL,
        overloads: &[Overload { sig: "input: Tensor, values: Tensor", call: Call::Fn(super::heaviside) }],
        ..Op::NEW
    },
    Op {
        name: "isclose",
        doc: "Whether elements are within `atol + rtol * |other|` of each other.",
        exposure: Exposure::BOTH,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False",
            call: Call::Fn(compare::isclose),
        }],
        ..Op::NEW
    },
    Op {
        name: "allclose",
        doc: "Whether all elements are within `atol + rtol * |other|` of each other.",
        exposure: Exposure::BOTH,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False -> bool",
            call: Call::Fn(compare::allclose),
        }],
        ..Op::NEW
    },
    Op {
        name: "equal",
        doc: "Whether two tensors have the same shape and elements.",
        exposure: Exposure::BOTH,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor -> bool",
            call: Call::Fn(compare::equal),
        }],
        ..Op::NEW
    },
    Op {
        name: "signbit",
        doc: "Whether the sign of each element is minus, that of zeros too.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: "input: Tensor", call: Call::Fn(compare::signbit) }],
        ..Op::NEW
    },
    Op {
        name: "positive",
        doc: "The tensor itself.",
        exposure: Exposure::BOTH,
        overloads: &[Overload { sig: "input: Tensor", call: Call::Fn(super::positive) }],
        ..Op::NEW
    },
    Op {
        name: "nextafter",
        doc: "The next number after each of `input` on the way to that of `other`.",
        exposure: Exposure::ALL,
        overloads: &[Overload { sig: "input: Tensor, other: Tensor", call: Call::Fn(bits::nextafter) }],
        ..Op::NEW
    },
    Op {
        name: "frexp",
        doc: "Each number as one of magnitude in [0.5, 1) and the power of two that it is multiplied by.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: "input: Tensor -> tuple[Tensor, Tensor]", call: Call::Fn(bits::frexp) }],
        ..Op::NEW
    },
];
