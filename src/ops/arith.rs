//! Arithmetic with signatures that a pointwise declaration cannot express: `alpha`, rounding modes, optional bounds.

mod bits;
mod compare;
mod power;
mod table;

use smallvec::{SmallVec, smallvec};

use super::pointwise::{Arg, PointwiseOp, numbers, result_type};
use super::schema::{Args, Out, RowCall, Value};
use super::{interpreter, rows};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::grad_enabled;
use crate::tensor::Tensor;
use crate::{bail, ensure};

pub use super::cast::{clone, clone_in, to, to_copy, to_dtype};
pub use power::pow;
pub use table::OPS;

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

pub fn neg(a: &Tensor) -> Result<Tensor> {
    rows::neg.call(&[a.into()], &[])
}

/// Errors unless `factor`, an argument of that name, is of a kind by which numbers of dtype `d` are multiplied.
pub fn expect_factor(name: &str, factor: Scalar, d: DType) -> Result<()> {
    ensure!(
        d.is_float() || factor.category() < 2,
        Runtime,
        "For integral input tensors, argument {name} must not be a floating point number."
    );
    ensure!(
        d == DType::Bool || factor.category() > 0,
        Runtime,
        "Boolean {name} only supported for Boolean results."
    );
    Ok(())
}

/// Operand `i` times `alpha`, or None if `alpha` is 1.
fn scaled(args: &Args, i: usize, alpha: Scalar) -> Result<Option<Tensor>> {
    if alpha == Scalar::Int(1) {
        return Ok(None);
    }
    let common = super::pointwise::result_type(&[args.operand(0)?, args.operand(1)?])?;
    expect_factor("alpha", alpha, common)?;
    if alpha == Scalar::Float(1.0) {
        return Ok(None);
    }
    let alpha = if common == DType::Bool { Scalar::Bool(!alpha.is_zero()) } else { alpha };
    Ok(Some(match args.operand(i)? {
        Arg::T(t) => rows::mul.call(&[t.into(), alpha.into()], &[])?,
        Arg::S(s) => Tensor::scalar(
            if common.is_float() {
                Scalar::Float(s.to_f64() * alpha.to_f64())
            } else {
                Scalar::Int(s.to_i64().wrapping_mul(alpha.to_i64()))
            },
            common,
        )?,
    }))
}

/// The sum or difference with a multiple, in one pass; None where it is recorded or seen as two operations.
fn in_one_pass(a: &Args, subtracts: bool) -> Result<Option<Tensor>> {
    match sum_row(a, subtracts)? {
        Some(sum) if !interpreter::active() => sum.row.run(&sum.inputs, &sum.params).map(Some),
        _ => Ok(None),
    }
}

fn add_op(a: &Args) -> Result<Out> {
    let alpha = a.number(2)?;
    if alpha != Scalar::Int(1)
        && let Some(sum) = in_one_pass(a, false)?
    {
        return Ok(sum.into());
    }
    let scaled = scaled(a, 1, alpha)?;
    match (scaled, a.operand(0)?) {
        (None, left) => Ok(rows::add.call(&[left, a.operand(1)?], &[])?.into()),
        (Some(t), left) => added_scaled(&rows::add, [left, a.operand(1)?], alpha, t),
    }
}

fn add_row<'a>(a: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    sum_row(a, false)
}

fn sub_row<'a>(a: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    refuse_bools(a.operand(0)?, a.operand(1)?)?;
    sum_row(a, true)
}

/// A sum or difference as a pointwise operation.
fn sum_row<'a>(a: &'a Args<'_>, subtracts: bool) -> Result<Option<RowCall<'a>>> {
    let operands = [a.operand(0)?, a.operand(1)?];
    let common = result_type(&operands)?;
    let alpha = a.number(2)?;
    if alpha == Scalar::Int(1) && common != DType::Bool {
        let row = if subtracts { &rows::sub } else { &rows::add };
        return Ok(Some(RowCall::new(row, &operands, &[])));
    }
    // Half types would be rounded less often than by two operations.
    let wide = matches!(common, DType::F32 | DType::F64) && matches!(operands, [Arg::T(_), Arg::T(_)]);
    let is_tracked = |a: &Arg| matches!(a, Arg::T(t) if t.requires_grad());
    // Their node is that of `added_scaled`.
    let tracked = grad_enabled() && operands.iter().any(is_tracked);
    if !wide || tracked || alpha.category() == 0 {
        return Ok(None);
    }
    let alpha = if subtracts { -alpha.to_f64() } else { alpha.to_f64() };
    Ok(Some(RowCall::new(&rows::add_scaled, &operands, &[Scalar::Float(alpha)])))
}

/// Errors for bool operands, which cannot be subtracted.
pub fn refuse_bools(a: Arg, b: Arg) -> Result<()> {
    let is_bool = |x: Arg| match x {
        Arg::T(t) => t.dtype() == DType::Bool,
        Arg::S(s) => s.category() == 0,
    };
    ensure!(
        !(is_bool(a) && is_bool(b)),
        NotImplemented,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator \
         instead."
    );
    ensure!(
        !is_bool(a) && !is_bool(b),
        NotImplemented,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use \
         the `~` or `logical_not()` operator instead."
    );
    Ok(())
}

fn sub_op(a: &Args) -> Result<Out> {
    refuse_bools(a.operand(0)?, a.operand(1)?)?;
    let alpha = a.number(2)?;
    if alpha != Scalar::Int(1)
        && let Some(difference) = in_one_pass(a, true)?
    {
        return Ok(difference.into());
    }
    let scaled = scaled(a, 1, alpha)?;
    match (scaled, a.operand(0)?) {
        (None, left) => Ok(rows::sub.call(&[left, a.operand(1)?], &[])?.into()),
        (Some(t), left) => added_scaled(&rows::sub, [left, a.operand(1)?], alpha, t),
    }
}

/// A sum or difference with `scaled`, the second operand times `alpha`, recorded as one node of the original operands.
#[cold]
fn added_scaled(
    row: &'static super::pointwise::PointwiseOp,
    args: [Arg; 2],
    alpha: Scalar,
    scaled: Tensor,
) -> Result<Out> {
    use crate::graph::record;
    let [Arg::T(left), Arg::T(right)] = args else {
        return Ok(row.call(&[args[0], (&scaled).into()], &[])?.into());
    };
    let out = row.call(&[(&left.detach()).into(), (&scaled.detach()).into()], &[])?;
    let subtracts = std::ptr::eq(row, &rows::sub);
    Ok(record(out, &[left, right], |_| AddScaled { alpha, subtracts })?.into())
}

struct AddScaled {
    alpha: Scalar,
    subtracts: bool,
}

impl crate::graph::Function for AddScaled {
    fn name(&self) -> &'static str {
        if self.subtracts { "SubBackward0" } else { "AddBackward0" }
    }

    fn backward(&self, cx: &crate::graph::Cx, grads: crate::graph::Grads) -> Result<crate::graph::Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let by_right = || {
            let scaled = rows::mul.call(&[g.into(), self.alpha.into()], &[])?;
            if self.subtracts { rows::neg.call(&[(&scaled).into()], &[]) } else { Ok(scaled) }
        };
        let right = cx.needs(1).then(by_right).transpose()?;
        Ok(smallvec::smallvec![Some(g.clone()), right])
    }

    fn attributes(&self, visit: &mut crate::graph::Visit<'_>) {
        visit("alpha", crate::graph::Attribute::Number(self.alpha));
    }
}

fn rsub_op(a: &Args) -> Result<Out> {
    refuse_bools(a.operand(0)?, a.operand(1)?)?;
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
    if std::ptr::eq(row, &rows::div) {
        return Ok(row.call(&pair, &[])?.into());
    }
    let tensors: smallvec::SmallVec<[&Tensor; 2]> =
        pair.iter().filter_map(|x| if let Arg::T(t) = x { Some(*t) } else { None }).collect();
    let (by, out) = (row, row.call(&pair, &[])?);
    let shapes = tensors.iter().map(|t| t.shape().clone()).collect();
    Ok(crate::graph::record(out, &tensors, |_| RoundedDiv {
        shapes,
        floor: std::ptr::eq(by, &rows::floor_divide),
        mark: crate::graph::SavedTensor::mark(),
    })?
    .into())
}

fn div_row<'a>(a: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    if !a.is_none(2) { Ok(None) } else { true_div_row(a).map(Some) }
}

fn true_div_row<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    Ok(RowCall::new(&rows::div, &[a.operand(0)?, a.operand(1)?], &[]))
}

/// The node of a rounded quotient, whose derivative is zero.
struct RoundedDiv {
    shapes: Vec<crate::layout::Dims>,
    floor: bool,
    mark: crate::graph::SavedTensor,
}

impl crate::graph::Function for RoundedDiv {
    fn name(&self) -> &'static str {
        "DivBackward2"
    }

    fn backward(&self, cx: &crate::graph::Cx, grads: crate::graph::Grads) -> Result<crate::graph::Grads> {
        self.mark.try_get(cx)?;
        let Some(g) = &grads[0] else { return Ok(self.shapes.iter().map(|_| None).collect()) };
        self.shapes.iter().map(|s| g.new_zeros(s.clone()).map(Some)).collect()
    }

    fn release(&self) {
        self.mark.free();
    }

    fn attributes(&self, visit: &mut crate::graph::Visit<'_>) {
        visit("rounding_mode", crate::graph::Attribute::Text(if self.floor { "floor" } else { "trunc" }));
    }
}

/// An absent bound of an integer tensor is omitted, since integers have no infinity to stand for it.
fn clamp(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let bound =
        |i: usize| -> Result<Option<Arg>> { if a.is_none(i) { Ok(None) } else { a.operand(i).map(Some) } };
    let (mut min, mut max) = (bound(1)?, bound(2)?);
    if t.dtype().is_int() {
        min = min.map(|b| numbers::limit(b, t.dtype(), "min")).transpose()?;
        max = max.map(|b| numbers::limit(b, t.dtype(), "max")).transpose()?;
    }
    let float = |b: Arg| result_type(&[t.into(), b]).is_ok_and(DType::is_float);
    let out = match (min, max) {
        (None, None) => bail!(Runtime, "torch.clamp: At least one of 'min' or 'max' must not be None"),
        (Some(lo @ Arg::S(_)), Some(hi @ Arg::S(_))) => rows::clamp.call(&[t.into(), lo, hi], &[])?,
        (Some(lo), Some(hi)) => rows::clamp_between.call(&[t.into(), lo, hi], &[])?,
        (Some(lo @ Arg::S(_)), None) if float(lo) => rows::clamp_from.call(&[t.into(), lo], &[])?,
        (None, Some(hi @ Arg::S(_))) if float(hi) => rows::clamp_to.call(&[t.into(), hi], &[])?,
        (Some(lo), None) if float(lo) => {
            rows::clamp_between.call(&[t.into(), lo, f64::INFINITY.into()], &[])?
        }
        (None, Some(hi)) if float(hi) => {
            rows::clamp_between.call(&[t.into(), f64::NEG_INFINITY.into(), hi], &[])?
        }
        (Some(lo), None) => rows::clamp_min.call(&[t.into(), lo], &[])?,
        (None, Some(hi)) => rows::clamp_max.call(&[t.into(), hi], &[])?,
    };
    Ok(out.into())
}

/// The operation for a floating point tensor with numbers as bounds; None for integers, whose bounds are converted to their
/// dtype first, and for bounds that are tensors.
fn clamp_row<'a>(a: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    let t = a.tensor(0)?;
    if !t.dtype().is_float() {
        return Ok(None);
    }
    let (row, bounds): (&'static PointwiseOp, &[usize]) = match &a.values[1..] {
        [Value::Number(_), Value::Number(_)] => (&rows::clamp, &[1, 2]),
        [Value::Number(_), Value::None] => (&rows::clamp_from, &[1]),
        [Value::None, Value::Number(_)] => (&rows::clamp_to, &[2]),
        _ => return Ok(None),
    };
    let mut inputs: SmallVec<[Arg; 3]> = smallvec![t.into()];
    for &i in bounds {
        inputs.push(a.number(i)?.into());
    }
    Ok(Some(RowCall::new(row, &inputs, &[])))
}

fn round<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let (t, decimals) = (a.tensor(0)?, a.int(1)?);
    let scale = |d: i64| Scalar::Float(10f64.powi(d.min(400) as i32));
    Ok(match decimals {
        0 => RowCall::new(&rows::round, &[t.into()], &[]),
        d if d > 0 => RowCall::new(&rows::round_to, &[t.into()], &[scale(d)]),
        d => RowCall::new(&rows::round_by, &[t.into()], &[scale(d.saturating_neg())]),
    })
}

fn gelu<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let row = match a.str(1)? {
        "none" => &rows::gelu_erf,
        "tanh" => &rows::gelu_tanh,
        _ => bail!(Runtime, "approximate argument must be either none or tanh."),
    };
    Ok(RowCall::new(row, &[a.operand(0)?], &[]))
}

fn prelu(a: &Args) -> Result<Out> {
    let (t, weight) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(
        t.dtype() == weight.dtype(),
        Runtime,
        "prelu: Type promoting not supported. Got {} and {}",
        t.dtype().scalar_name(),
        weight.dtype().scalar_name()
    );
    if weight.numel() == 1 {
        let weight = super::view::reshape_to(weight, &crate::layout::Dims::default())?;
        return Ok(rows::prelu_kernel.call(&[t.into(), (&weight).into()], &[])?.into());
    }
    ensure!(
        weight.rank() <= 1,
        Runtime,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        weight.rank()
    );
    ensure!(t.rank() > 0, Runtime, "Not allow zero-dim input tensor.");
    let channels = if t.rank() > 1 { t.shape()[1] } else { 1 };
    ensure!(
        channels == weight.numel(),
        Runtime,
        "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = \
         {channels}.",
        weight.numel()
    );
    let mut shape = crate::layout::Dims::from([1, channels]);
    (2..t.rank()).for_each(|_| shape.push(1));
    let weight = super::view::reshape_to(weight, &shape)?;
    Ok(rows::prelu_kernel.call(&[t.into(), (&weight).into()], &[])?.into())
}

/// The first half along `dim` times the sigmoid of the second.
fn glu(a: &Args) -> Result<Out> {
    use super::view::cut::narrow;
    let t = a.tensor(0)?;
    ensure!(t.rank() > 0, Runtime, "glu does not support 0-dimensional tensors");
    let dim = crate::layout::wrap_dim(a.int(1)?, t.rank())?;
    let n = t.shape()[dim] as i64;
    ensure!(n % 2 == 0, Runtime, "Halving dimension must be even, but dimension {dim} is size {n}");
    let (half, dim) = (n / 2, dim as i64);
    let (value, gate) = (narrow(t, dim, 0, half)?, narrow(t, dim, half, half)?);
    Ok(rows::glu_kernel.call(&[(&value).into(), (&gate).into()], &[])?.into())
}

fn lerp<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let (t, end, weight) = (a.tensor(0)?, a.tensor(1)?, a.operand(2)?);
    let same = |name: &str, u: &Tensor| {
        ensure!(
            u.dtype() == t.dtype(),
            Runtime,
            "expected dtype {} for `{name}` but got dtype {}",
            t.dtype().type_name(),
            u.dtype().type_name()
        );
        Ok(())
    };
    same("end", end)?;
    if let Arg::T(w) = weight {
        same("weight", w)?;
    }
    Ok(RowCall::new(&rows::lerp, &[t.into(), end.into(), weight], &[]))
}

fn addcdiv<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let (t, dividend, divisor) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    ensure!(
        dividend.dtype().is_float() || divisor.dtype().is_float(),
        Runtime,
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true \
         division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * \
         torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) \
         for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / \
         tensor2), for all dtypes."
    );
    Ok(RowCall::new(&rows::addcdiv, &[t.into(), dividend.into(), divisor.into()], &[a.number(3)?]))
}

fn bitwise_not<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let t = a.tensor(0)?;
    let row = if t.dtype() == DType::Bool { &rows::logical_not } else { &rows::bitwise_not };
    Ok(RowCall::new(row, &[t.into()], &[]))
}

fn nan_to_num<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let t = a.tensor(0)?;
    let largest = match t.dtype() {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    };
    let or = |i: usize, v: f64| Ok(Scalar::Float(a.opt_float(i)?.unwrap_or(v)));
    let limits: [Result<Scalar>; 3] = [or(1, 0.0), or(2, largest), or(3, -largest)];
    let [nan, posinf, neginf] = limits;
    Ok(RowCall::new(&rows::nan_to_num, &[t.into()], &[nan?, posinf?, neginf?]))
}

fn logit<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let t = a.operand(0)?;
    Ok(match a.opt_float(1)? {
        None => RowCall::new(&rows::logit_open, &[t], &[]),
        Some(eps) => RowCall::new(&rows::logit_within, &[t], &[eps.into()]),
    })
}

fn heaviside<'a>(a: &'a Args<'_>) -> Result<RowCall<'a>> {
    let (t, values) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(
        t.dtype() == values.dtype(),
        Runtime,
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    Ok(RowCall::new(&rows::heaviside, &[t.into(), values.into()], &[]))
}

fn positive(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    ensure!(t.dtype() != DType::Bool, NotImplemented, "The `+` operator, on a bool tensor is not supported.");
    Ok(t.clone().into())
}
