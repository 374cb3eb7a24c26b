//! Powers: of floating point numbers by pointwise operations, of integers by repeated squaring.

use crate::backend::pointwise::integer_power as integer_power_kernel;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::layout::broadcast;
use crate::ops::pointwise::{Arg, PointwiseOp, result_type};
use crate::ops::rows;
use crate::ops::schema::{Args, Out, RowCall};
use crate::tensor::Tensor;

/// `t` to the power of a number; common exponents use cheaper kernels.
pub fn pow(t: &Tensor, exponent: impl Into<Scalar>) -> Result<Tensor> {
    let exponent = exponent.into();
    let common = result_type(&[t.into(), exponent.into()])?;
    ensure!(!common.is_limited(), Error::DtypeNotImplemented { op: "pow", dtype: common });
    if !common.is_float() {
        exponent.checked(DType::I64)?;
        ensure!(exponent.to_i64() >= 0, Runtime, "Integers to negative integer powers are not allowed.");
        let row = match exponent.to_i64() {
            2 => &rows::square,
            3 => &rows::cube,
            _ => return integer_power(Arg::T(t), Arg::S(exponent), common),
        };
        return row.call(&[(&t.dense(common)?).into()], &[]);
    }
    if !t.dtype().is_float() {
        return pow(&t.copied(common)?, exponent);
    }
    match cheaper(exponent) {
        Some(row) => row.call(&[t.into()], &[]),
        None => rows::pow.call(&[t.into(), exponent.into()], &[]),
    }
}

/// The operation for a common exponent of floating point numbers.
fn cheaper(exponent: Scalar) -> Option<&'static PointwiseOp> {
    match exponent.to_f64() {
        2.0 => Some(&rows::square),
        3.0 => Some(&rows::cube),
        4.0 => Some(&rows::fourth),
        0.5 => Some(&rows::pow_half),
        -0.5 => Some(&rows::pow_inverse_half),
        -2.0 => Some(&rows::pow_inverse_square),
        -1.0 => Some(&rows::pow_inverse),
        _ => None,
    }
}

/// A power of floating point tensors as one pointwise operation.
pub(super) fn pow_row<'a>(a: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    let (base, exponent) = (a.operand(0)?, a.operand(1)?);
    let common = result_type(&[base, exponent])?;
    if !common.is_float() || common.is_limited() {
        return Ok(None);
    }
    Ok(match (base, exponent) {
        (Arg::T(t), Arg::S(_)) if !t.dtype().is_float() => None,
        (Arg::T(_), Arg::S(s)) if let Some(row) = cheaper(s) => Some(RowCall::new(row, &[base], &[])),
        _ => Some(RowCall::new(&rows::pow, &[base, exponent], &[])),
    })
}

pub(super) fn square_row<'a>(a: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    let t = a.tensor(0)?;
    let wide = t.dtype().is_float() && !t.dtype().is_limited();
    Ok(wide.then(|| RowCall::new(&rows::square, &[t.into()], &[])))
}

/// Powers of integers with 64-bit wraparound; for negative exponents only the powers of 1 and -1 are non-zero.
fn integer_power(base: Arg, exponent: Arg, common: DType) -> Result<Tensor> {
    let tensor = |a: Arg| if let Arg::T(t) = a { Some(t.device()) } else { None };
    let device = Device::of_result([base, exponent].into_iter().filter_map(tensor));
    let dense = |a: Arg| -> Result<Tensor> {
        match a {
            // A 0-d CPU tensor may be used on any device.
            Arg::T(t) if t.rank() == 0 => t.on_device(device)?.dense(DType::I64),
            Arg::T(t) => t.dense(DType::I64),
            Arg::S(s) => Tensor::scalar(s, DType::I64)?.on_device(device),
        }
    };
    let (base, exponent) = (dense(base)?, dense(exponent)?);
    let shape = broadcast("pow", base.shape(), exponent.shape())?;
    let expanded = |t: &Tensor| match t.layout().expand(&shape) {
        Some(layout) => t.with_layout(layout).dense(DType::I64),
        None => t.dense(DType::I64),
    };
    let (base, exponent) = (expanded(&base)?, expanded(&exponent)?);
    let out = Tensor::empty_on(shape, DType::I64, device)?;
    integer_power_kernel(base.raw(), exponent.raw(), out.raw())?;
    out.into_dense(common)
}

pub(super) fn pow_op(a: &Args) -> Result<Out> {
    let (base, exponent) = (a.operand(0)?, a.operand(1)?);
    if let (Arg::T(t), Arg::S(s)) = (base, exponent) {
        return Ok(pow(t, s)?.into());
    }
    let common = result_type(&[base, exponent])?;
    ensure!(!common.is_limited(), Error::DtypeNotImplemented { op: "pow", dtype: common });
    if common.is_float() {
        return Ok(rows::pow.call(&[base, exponent], &[])?.into());
    }
    ensure!(common != DType::Bool, Error::DtypeNotImplemented { op: "pow", dtype: common });
    Ok(integer_power(base, exponent, common)?.into())
}

/// `pow` in float64, whatever the dtypes of the operands.
pub(super) fn float_power(a: &Args) -> Result<Out> {
    let double = |x: Arg| -> Result<Option<Tensor>> {
        if let Arg::T(t) = x { super::to_dtype(t, DType::F64).map(Some) } else { Ok(None) }
    };
    let (base, exponent) = (a.operand(0)?, a.operand(1)?);
    let (x, y) = (double(base)?, double(exponent)?);
    Ok(match (&x, exponent) {
        (Some(x), Arg::S(e)) => pow(x, e.to_f64())?,
        _ => rows::pow.call(&[x.as_ref().map_or(base, Arg::T), y.as_ref().map_or(exponent, Arg::T)], &[])?,
    }
    .into())
}

/// In place, the result must be castable to the dtype of the first operand.
pub(super) fn float_power_inplace(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    ensure!(
        t.dtype() == DType::F64,
        Runtime,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype Double",
        t.dtype().scalar_name()
    );
    crate::ops::row_inplace(&rows::pow, &[Arg::T(t), a.operand(1)?], &[])?;
    Ok(t.clone().into())
}

pub(super) fn square(a: &Args) -> Result<Out> {
    Ok(pow(a.tensor(0)?, 2i64)?.into())
}
