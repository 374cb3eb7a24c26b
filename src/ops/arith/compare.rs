//! Comparison of whole tensors, and comparison within a tolerance.

use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::Result;
use crate::ops::schema::{Args, Out};
use crate::ops::{default_dtype, reduce, rows};
use crate::tensor::Tensor;

/// Whether elements are within `atol + rtol * |other|` of each other.
fn close(a: &Args) -> Result<Tensor> {
    let (x, y) = (a.tensor(0)?.detach(), a.tensor(1)?.detach());
    let (rtol, atol, equal_nan) = (a.float(2)?, a.float(3)?, a.bool(4)?);
    ensure!(
        x.dtype() == y.dtype(),
        Runtime,
        "{} did not match {}",
        x.dtype().scalar_name(),
        y.dtype().scalar_name()
    );
    ensure!(rtol >= 0.0, Runtime, "rtol must be greater than or equal to zero, but got {rtol}");
    ensure!(atol >= 0.0, Runtime, "atol must be greater than or equal to zero, but got {atol}");
    let equal = rows::eq.call(&[(&x).into(), (&y).into()], &[])?;
    let nan = |t: &Tensor| rows::isnan.call(&[t.into()], &[]);
    let or = |a: &Tensor, b: &Tensor| rows::logical_or.call(&[a.into(), b.into()], &[]);
    let equal = if equal_nan && x.dtype().is_float() {
        or(&equal, &rows::logical_and.call(&[(&nan(&x)?).into(), (&nan(&y)?).into()], &[])?)?
    } else {
        equal
    };
    if rtol == 0.0 && atol == 0.0 {
        return Ok(equal);
    }
    let (x, y) =
        if x.dtype().is_float() { (x, y) } else { (x.copied(default_dtype())?, y.copied(default_dtype())?) };
    let allowed = super::add(&rows::abs.call(&[(&super::mul(&y, rtol)?).into()], &[])?, atol)?;
    let actual = rows::abs.call(&[(&super::sub(&x, &y)?).into()], &[])?;
    let within = rows::le.call(&[(&actual).into(), (&allowed).into()], &[])?;
    let finite = rows::isfinite.call(&[(&actual).into()], &[])?;
    or(&equal, &rows::logical_and.call(&[(&within).into(), (&finite).into()], &[])?)
}

pub(super) fn isclose(a: &Args) -> Result<Out> {
    Ok(close(a)?.into())
}

pub(super) fn allclose(a: &Args) -> Result<Out> {
    Ok(Out::Number(reduce::all(&close(a)?, None, false)?.item()?))
}

/// Whether two tensors have the same shape and elements.
pub(super) fn equal(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let same = x.shape() == y.shape() && {
        let equal = rows::eq.call(&[x.into(), y.into()], &[])?;
        !reduce::all(&equal, None, false)?.item()?.is_zero()
    };
    Ok(Out::Number(Scalar::Bool(same)))
}

/// Whether the sign bit is set, also for zeros.
pub(super) fn signbit(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?.detach();
    if t.dtype().is_limited_int() {
        return Ok(Tensor::zeros_on(t.shape().clone(), DType::Bool, t.device())?.into());
    }
    if !t.dtype().is_float() {
        return Ok(rows::lt.call(&[(&t).into(), 0i64.into()], &[])?.into());
    }
    let one = Tensor::scalar(1.0, if t.dtype().is_half() { DType::F32 } else { t.dtype() })?;
    let signed = rows::copysign.call(&[(&one).into(), (&t).into()], &[])?;
    Ok(rows::lt.call(&[(&signed).into(), 0.0.into()], &[])?.into())
}
