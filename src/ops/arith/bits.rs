//! `nextafter` and `frexp`: operations on the bits of numbers, read as integers of the same size, so that every device
//! computes them exactly, including for subnormal numbers.

use smallvec::smallvec;

use super::{add, div, mul, sub, to_dtype};
use crate::dtype::{DType, promote};
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, record, record_all};
use crate::ops::pointwise::{Arg, PointwiseOp};
use crate::ops::rows;
use crate::ops::schema::{Args, Out};
use crate::ops::view;
use crate::tensor::Tensor;

/// The binary format of a floating point dtype.
struct Parts {
    /// The integer dtype of the same size.
    bits: DType,
    /// Number of fraction bits.
    fraction: i64,
    /// Number of exponent bits.
    exponent: i64,
}

impl Parts {
    fn of(dtype: DType) -> Option<Parts> {
        let (bits, fraction, exponent) = match dtype {
            DType::F16 => (DType::I16, 10, 5),
            DType::BF16 => (DType::I16, 7, 8),
            DType::F32 => (DType::I32, 23, 8),
            DType::F64 => (DType::I64, 52, 11),
            _ => return None,
        };
        Some(Parts { bits, fraction, exponent })
    }

    /// The mask of all bits except the sign.
    fn magnitude(&self) -> i64 {
        (1i64 << (self.fraction + self.exponent)).wrapping_sub(1)
    }

    /// The mask of the sign bit.
    fn sign(&self) -> i64 {
        -1i64 << (self.fraction + self.exponent)
    }

    fn infinity(&self) -> i64 {
        ((1i64 << self.exponent) - 1) << self.fraction
    }

    fn nan(&self) -> i64 {
        self.infinity() | 1i64 << (self.fraction - 1)
    }

    /// The exponent bias for significands in [0.5, 1).
    fn bias(&self) -> i64 {
        (1i64 << (self.exponent - 1)) - 2
    }
}

fn row<'a>(row: &'static PointwiseOp, a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
    row.call(&[a.into(), b.into()], &[])
}

fn select<'a>(condition: &'a Tensor, yes: impl Into<Arg<'a>>, no: impl Into<Arg<'a>>) -> Result<Tensor> {
    rows::select_where.call(&[condition.into(), yes.into(), no.into()], &[])
}

/// Maps bits to integers in the order of the numbers; both zeros map to 0.
fn in_order(bits: &Tensor, parts: &Parts) -> Result<Tensor> {
    let magnitude = row(&rows::bitwise_and, bits, parts.magnitude())?;
    select(&row(&rows::lt, bits, 0)?, &sub(0, &magnitude)?, &magnitude)
}

/// The next representable number after each element of `input` in the direction of `other`.
pub(super) fn nextafter(a: &Args) -> Result<Out> {
    let (x, towards) = (a.tensor(0)?, a.tensor(1)?);
    let dtype = crate::ops::pointwise::result_type(&[x.into(), towards.into()])?;
    let Some(parts) = Parts::of(dtype) else {
        return Err(Error::DtypeNotImplemented { op: "nextafter_cpu", dtype });
    };
    let bits = |t: &Tensor| view::view_dtype(&to_dtype(&t.detach(), dtype)?, parts.bits);
    let (i, j) = (bits(x)?, bits(towards)?);
    let (from, to) = (in_order(&i, &parts)?, in_order(&j, &parts)?);
    // Away from zero the bits increase by one, for either sign.
    let outwards = row(&rows::eq, &row(&rows::lt, &from, &to)?, &row(&rows::lt, 0, &from)?)?;
    let step = add(&i, &select(&outwards, 1, -1)?)?;
    let least = row(&rows::bitwise_or, &row(&rows::bitwise_and, &j, parts.sign())?, 1)?;
    let out = select(&row(&rows::eq, &from, 0)?, &least, &step)?;
    let out = select(&row(&rows::eq, &from, &to)?, &j, &out)?;
    let (low, high) = (-parts.infinity(), parts.infinity());
    let is_nan = |t: &Tensor| row(&rows::logical_or, &row(&rows::lt, t, low)?, &row(&rows::lt, high, t)?);
    let nan = row(&rows::logical_or, &is_nan(&from)?, &is_nan(&to)?)?;
    let out = to_dtype(&select(&nan, parts.nan(), &out)?, parts.bits)?;
    let out = view::view_dtype(&out, dtype)?.detach();
    Ok(record(out, &[x, towards], |_| NextafterBackward {
        input: SavedTensor::input(x),
        other: SavedTensor::input(towards),
    })?
    .into())
}

struct NextafterBackward {
    input: SavedTensor,
    other: SavedTensor,
}

impl Function for NextafterBackward {
    fn name(&self) -> &'static str {
        "NextafterBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let differs = row(&rows::ne, &self.input.get(cx)?, &self.other.get(cx)?)?;
        let by_input = cx.needs(0).then(|| mul(g, &differs)).transpose()?;
        let by_other = cx.needs(1).then(|| g.new_zeros(g.shape().clone())).transpose()?;
        Ok(smallvec![by_input, by_other])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        visit("other", &self.other);
    }
}

/// Decomposes each number into a signed significand in [0.5, 1) and a power of two.
pub(super) fn frexp(a: &Args) -> Result<Out> {
    let x = a.tensor(0)?;
    let Some(parts) = Parts::of(x.dtype()) else {
        return Err(Error::Runtime("torch.frexp() only supports floating-point dtypes".into()));
    };
    let exponents = (1i64 << parts.exponent) - 1;
    let bits = view::view_dtype(&x.detach(), parts.bits)?;
    let exponent_of =
        |t: &Tensor| row(&rows::bitwise_and, &row(&rows::bitwise_right_shift, t, parts.fraction)?, exponents);
    let magnitude = row(&rows::bitwise_and, &bits, parts.magnitude())?;
    let stored = exponent_of(&bits)?;
    // A subnormal number is an integer multiple of the smallest one.
    let small = row(&rows::eq, &stored, 0)?;
    let counted = view::view_dtype(&to_dtype(&magnitude, x.dtype())?, parts.bits)?;
    let normal = select(&small, &counted, &magnitude)?;
    // The smallest subnormal number is 2 ^ -smallest.
    let smallest = parts.bias() + parts.fraction;
    let exponent = sub(&exponent_of(&normal)?, &select(&small, parts.bias() + smallest, parts.bias())?)?;
    let fraction = row(&rows::bitwise_and, &normal, (1i64 << parts.fraction) - 1)?;
    let sign = row(&rows::bitwise_and, &bits, parts.sign())?;
    let half =
        row(&rows::bitwise_or, &row(&rows::bitwise_or, &fraction, parts.bias() << parts.fraction)?, &sign)?;
    // Zeros, infinities and NaN are returned unchanged.
    let zero = row(&rows::eq, &magnitude, 0)?;
    let kept = row(&rows::logical_or, &zero, &row(&rows::eq, &stored, exponents)?)?;
    let mantissa = to_dtype(&select(&kept, &bits, &half)?, parts.bits)?;
    let mantissa = view::view_dtype(&mantissa, x.dtype())?.detach();
    let exponent = to_dtype(&select(&kept, 0, &exponent)?, DType::I32)?;
    let outs = record_all(vec![mantissa, exponent], &[x], |outs| FrexpBackward {
        exponent: SavedTensor::input(&outs[1]),
    })?;
    Ok(Out::Named("frexp", &["mantissa", "exponent"], outs))
}

struct FrexpBackward {
    exponent: SavedTensor,
}

impl Function for FrexpBackward {
    fn name(&self) -> &'static str {
        "FrexpBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let exponent = to_dtype(&self.exponent.get(cx)?, promote(g.dtype(), DType::F32)?)?;
        let scale = rows::exp2.call(&[(&exponent).into()], &[])?;
        Ok(smallvec![Some(to_dtype(&div(g, &scale)?, g.dtype())?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("exponent", &self.exponent);
    }
}
