//! Arithmetic whose signature says more than a row can: `alpha`, rounding modes, optional bounds.

use super::pointwise::{Arg, result_type};
use super::rows;
use super::schema::{Args, Call, Op, Out, Overload, Surface};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// `a + alpha * b`.
pub fn add<'a>(a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
    rows::add.call(&[a.into(), b.into()], &[])
}

pub fn sub<'a>(a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
    rows::sub.call(&[a.into(), b.into()], &[])
}

pub fn mul<'a>(a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
    rows::mul.call(&[a.into(), b.into()], &[])
}

pub fn div<'a>(a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
    rows::div.call(&[a.into(), b.into()], &[])
}

/// `t` to the power of a number.
pub fn pow(t: &Tensor, exponent: impl Into<Scalar>) -> Result<Tensor> {
    power_of_number(t, exponent.into())
}

pub fn neg(a: &Tensor) -> Result<Tensor> {
    rows::neg.call(&[a.into()], &[])
}

fn scaled(args: &Args, i: usize, alpha: Scalar) -> Result<Option<Tensor>> {
    if alpha == Scalar::Int(1) || alpha == Scalar::Float(1.0) {
        return Ok(None);
    }
    let common = super::pointwise::result_type(&[args.operand(0)?, args.operand(i)?]);
    ensure!(
        common.is_float() || alpha.category() < 2,
        Runtime,
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    ensure!(
        common != DType::Bool || alpha.category() == 0,
        Runtime,
        "Boolean alpha only supported for Boolean results."
    );
    Ok(Some(match args.operand(i)? {
        Arg::T(t) => rows::mul.call(&[t.into(), alpha.into()], &[])?,
        Arg::S(s) => Tensor::scalar(
            if common.is_float() { Scalar::Float(s.to_f64() * alpha.to_f64()) } else { Scalar::Int(s.to_i64() * alpha.to_i64()) },
            common,
        )?,
    }))
}

fn add_op(a: &Args) -> Result<Out> {
    let scaled = scaled(a, 1, a.number(2)?)?;
    let b = scaled.as_ref().map_or(a.operand(1), |t| Ok(Arg::T(t)))?;
    Ok(rows::add.call(&[a.operand(0)?, b], &[])?.into())
}

fn sub_op(a: &Args) -> Result<Out> {
    let scaled = scaled(a, 1, a.number(2)?)?;
    let b = scaled.as_ref().map_or(a.operand(1), |t| Ok(Arg::T(t)))?;
    Ok(rows::sub.call(&[a.operand(0)?, b], &[])?.into())
}

fn rsub_op(a: &Args) -> Result<Out> {
    let scaled = scaled(a, 0, a.number(2)?)?;
    let b = scaled.as_ref().map_or(a.operand(0), |t| Ok(Arg::T(t)))?;
    Ok(rows::sub.call(&[a.operand(1)?, b], &[])?.into())
}

fn div_op(a: &Args) -> Result<Out> {
    let pair = [a.operand(0)?, a.operand(1)?];
    let row = match a.opt_str(2)? {
        None => &rows::div,
        Some("floor") => &rows::floor_divide,
        Some("trunc") => &rows::trunc_divide,
        Some(other) => bail!(
            Runtime,
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ),
    };
    Ok(row.call(&pair, &[])?.into())
}

pub static OPS: &[Op] = &[
    Op {
        name: "add",
        doc: "Sum of two tensors or of a tensor and a number: `input + alpha * other`.",
        surface: Surface::ALL,
        overloads: &[Overload {
            sig: "input: Operand, other: Operand, *, alpha: Number = 1",
            call: Call::Fn(add_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "sub",
        doc: "Difference of two tensors or of a tensor and a number: `input - alpha * other`.",
        surface: Surface::ALL,
        aliases: &["subtract"],
        overloads: &[Overload {
            sig: "input: Operand, other: Operand, *, alpha: Number = 1",
            call: Call::Fn(sub_op),
        }],
    },
    Op {
        name: "rsub",
        doc: "`other - alpha * input`.",
        overloads: &[Overload {
            sig: "input: Tensor, other: Operand, *, alpha: Number = 1",
            call: Call::Fn(rsub_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "div",
        doc: "Quotient, as a real number or rounded by `rounding_mode` ('trunc' or 'floor').",
        surface: Surface::ALL,
        aliases: &["divide", "true_divide"],
        overloads: &[Overload {
            sig: "input: Operand, other: Operand, *, rounding_mode: str? = None",
            call: Call::Fn(div_op),
        }],
    },
];

struct CloneBackward;

impl crate::graph::Function for CloneBackward {
    fn name(&self) -> &'static str {
        "CloneBackward0"
    }

    fn backward(&self, _: &crate::graph::Cx, grads: crate::graph::Grads) -> Result<crate::graph::Grads> {
        Ok(grads)
    }
}

/// A dense copy with the history of the original.
pub fn clone(t: &Tensor) -> Result<Tensor> {
    crate::graph::record(t.copied(t.dtype())?, &[t], |_| CloneBackward)
}

struct ToCopy {
    from: DType,
}

impl crate::graph::Function for ToCopy {
    fn name(&self) -> &'static str {
        "ToCopyBackward0"
    }

    fn backward(&self, _: &crate::graph::Cx, grads: crate::graph::Grads) -> Result<crate::graph::Grads> {
        grads.into_iter().map(|g| g.map(|g| to_dtype(&g, self.from)).transpose()).collect()
    }
}

/// `t` in another dtype; the same tensor if it has it.
pub fn to_dtype(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        return Ok(t.clone());
    }
    crate::graph::record(t.copied(dtype)?, &[t], |_| ToCopy { from: t.dtype() })
}

/// `t` to the power of a number, by cheaper operations for the usual exponents.
fn power_of_number(t: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let common = result_type(&[t.into(), exponent.into()]);
    if !common.is_float() {
        return integer_power(&t.detach().dense(common)?, exponent);
    }
    rows::pow.call(&[t.into(), exponent.into()], &[])
}

fn integer_power(_t: &Tensor, _e: Scalar) -> Result<Tensor> {
    bail!(Runtime, "x")
}
