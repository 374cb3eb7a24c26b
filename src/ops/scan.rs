//! Cumulative sums, products and extrema along a dimension.

mod differences;

use smallvec::smallvec;

use super::join::cat;
use super::reduce::{Chosen, compute_float, expect_accumulated, lanes, sum_to};
use super::schema::{Args, Out};
use super::view::copies::flip;
use super::view::cut::narrow;
use super::{arith, interpreter, rows};
use crate::backend::copy;
use crate::backend::inspect::{Question, known};
use crate::backend::reduce::extremum_dtype;
use crate::backend::scan::{self as kernels, Running};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record, record_all};
use crate::layout::wrap_dim;
use crate::ops;
use crate::tensor::Tensor;

/// Integers and bools accumulate in int64.
fn dtype_of_scan(t: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if t.dtype().is_float() { t.dtype() } else { DType::I64 })
}

/// The cumulative sum along `dim`; with `reverse`, from the end.
fn summed(t: &Tensor, dim: usize, reverse: bool, dtype: Option<DType>) -> Result<Tensor> {
    let result = expect_accumulated("cumsum_out_cpu", dtype_of_scan(t, dtype))?;
    let d = lanes(t.shape(), dim);
    let out = if result.is_float() {
        let compute = compute_float(result);
        let (x, out) = (t.dense(compute)?, t.empty_as(compute)?);
        kernels::scan(Running::Sum, x.raw(), d, reverse, out.raw())?;
        out
    } else {
        let x = t.dense(if t.dtype().is_float() { result.wide() } else { t.dtype().wide() })?;
        let out = t.empty_as(DType::I64)?;
        kernels::scan(Running::Sum, x.raw(), d, reverse, out.raw())?;
        out
    };
    record(out.into_dense(result)?, &[t], |_| CumsumBackward { dim, reverse })
}

fn cumsum_impl(t: &Tensor, dim: usize, dtype: Option<DType>) -> Result<Tensor> {
    summed(t, dim, false, dtype)
}

/// The running sum from the end. Interpreters see the operations that it is equivalent to.
fn sum_from_end(t: &Tensor, dim: usize) -> Result<Tensor> {
    if interpreter::active() {
        return flipped(&cumsum(&flipped(t, dim)?, dim, None)?, dim);
    }
    summed(t, dim, true, None)
}

struct CumsumBackward {
    dim: usize,
    reverse: bool,
}

impl Function for CumsumBackward {
    fn name(&self) -> &'static str {
        "CumsumBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(if self.reverse {
            cumsum(g, self.dim, None)?
        } else {
            sum_from_end(g, self.dim)?
        })])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
    }
}

/// The cumulative product along `dim`.
fn cumprod_impl(t: &Tensor, dim: usize, dtype: Option<DType>) -> Result<Tensor> {
    let result = expect_accumulated("cumprod_out_cpu", dtype_of_scan(t, dtype))?;
    let d = lanes(t.shape(), dim);
    let out = if result.is_float() {
        let compute = compute_float(result);
        let (x, out) = (t.dense(compute)?, t.empty_as(compute)?);
        kernels::scan(Running::Product, x.raw(), d, false, out.raw())?;
        out
    } else {
        let x = t.dense(if t.dtype().is_float() { result.wide() } else { t.dtype().wide() })?;
        let out = t.empty_as(DType::I64)?;
        kernels::scan(Running::Product, x.raw(), d, false, out.raw())?;
        out
    };
    record(out.into_dense(result)?, &[t], |y| CumprodBackward {
        input: SavedTensor::input(t),
        result: SavedTensor::output(y),
        dim,
    })
}

struct CumprodBackward {
    input: SavedTensor,
    result: SavedTensor,
    dim: usize,
}

// Note [Derivative of a running product] With the cumulative products y, the gradient of x_i is the sum over k ≥ i of
// g_k y_k / x_i, which is a cumulative sum from the end, if no x_i is zero. After the first zero of a lane every y is
// zero. So the formula still holds for elements before that zero, and elements after it have zero gradient. For the
// zero itself y_k / x_i is replaced by the product without it: the cumulative products of the lane with a one in its
// place. A differentiable backward must not use this, since elements after a zero affect second derivatives; there the
// gradient is computed element by element.
impl Function for CumprodBackward {
    fn name(&self) -> &'static str {
        "CumprodBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (x, y, dim) = (self.input.get(cx)?, self.result.get(cx)?, self.dim);
        let sums = |y: &Tensor| sum_from_end(&arith::mul(g, y)?, dim);
        let smooth = arith::div(&sums(&y)?, &x)?;
        match known(Question::AnyZero, x.raw())? {
            Some(false) => return Ok(smallvec![Some(smooth)]),
            Some(true) if grad_enabled() => return Ok(smallvec![Some(each_left_out(g, &x, &y, dim)?)]),
            _ => {}
        }
        let zero = rows::eq.call(&[(&x).into(), 0.0.into()], &[])?;
        let zeros = cumsum(&zero, dim, None)?;
        let before = rows::eq.call(&[(&zeros).into(), 0i64.into()], &[])?;
        let one = rows::eq.call(&[(&zeros).into(), 1i64.into()], &[])?;
        let first = rows::logical_and.call(&[(&zero).into(), (&one).into()], &[])?;
        let without = rows::select_where.call(&[(&first).into(), 1.0.into(), (&x).into()], &[])?;
        let at_zero = sums(&cumprod(&without, dim, None)?)?;
        let rest = rows::select_where.call(&[(&before).into(), (&smooth).into(), 0.0.into()], &[])?;
        Ok(smallvec![Some(
            rows::select_where.call(&[(&first).into(), (&at_zero).into(), (&rest).into()], &[])?
        )])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        visit("result", &self.result);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
    }
}

/// The differentiable derivative of a cumulative product: for every i the sum over k ≥ i of g_k times the product of
/// the first k elements without x_i.
fn each_left_out(g: &Tensor, x: &Tensor, y: &Tensor, dim: usize) -> Result<Tensor> {
    if x.rank() == 0 {
        return Ok(g.clone());
    }
    let n = x.shape()[dim];
    let part = |t: &Tensor, start: usize, len: usize| narrow(t, dim as i64, start as i64, len as i64);
    let mut gradients = Vec::with_capacity(n);
    for i in 0..n {
        let nothing = part(x, i, 1)?.new_full(part(x, i, 1)?.shape().clone(), 1i64)?;
        let mut products = cat(&[nothing, cumprod(&part(x, i + 1, n - i - 1)?, dim, None)?], dim as i64)?;
        if i > 0 {
            products = arith::mul(&products, &part(y, i - 1, 1)?)?;
        }
        let reached = arith::mul(&part(g, i, n - i)?, &products)?;
        gradients.push(sum_to(&reached, part(x, i, 1)?.shape())?);
    }
    cat(&gradients, dim as i64)
}

/// The cumulative extremum along `dim` and its index.
fn cum_extremum(a: &Args, largest: bool) -> Result<Vec<Tensor>> {
    let t = a.tensor(0)?;
    let dim = wrap_dim(a.int(1)?, t.rank())?;
    let node = if largest { "CummaxBackward0" } else { "CumminBackward0" };
    t.expect_common(if largest { "cummax_cpu" } else { "cummin_cpu" })?;
    let x = t.dense(extremum_dtype(t.raw())?)?;
    let (values, indices) = (x.empty_like()?, x.empty_as(DType::I64)?);
    kernels::extremum(x.raw(), lanes(t.shape(), dim), largest, values.raw(), indices.raw())?;
    record_all(vec![values.dense(t.dtype())?, indices], &[t], |o| Chosen::new(node, t, dim, &o[1]))
}

/// `log(cumsum(exp(t)))` along `dim`, without overflow.
fn logcumsumexp_impl(t: &Tensor, dim: usize) -> Result<Tensor> {
    t.expect_float("logcumsumexp_out_cpu")?;
    t.expect_common("logcumsumexp_out_cpu")?;
    let compute = compute_float(t.dtype());
    let (x, out) = (t.dense(compute)?, t.empty_as(compute)?);
    kernels::scan(Running::LogSumExp, x.raw(), lanes(t.shape(), dim), false, out.raw())?;
    record(out.into_dense(t.dtype())?, &[t], |y| LogcumsumexpBackward {
        input: SavedTensor::input(t),
        result: SavedTensor::output(y),
        dim,
    })
}

struct LogcumsumexpBackward {
    input: SavedTensor,
    result: SavedTensor,
    dim: usize,
}

impl LogcumsumexpBackward {
    /// The sum over k ≥ i of g_k exp(x_i - y_k) over positive g, computed by logarithms to avoid overflow.
    fn positive_part(&self, g: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        // A finite number represents the logarithm of zero, since differences of infinities have no derivative.
        let nothing = match g.dtype() {
            DType::F16 => -3e4,
            DType::F64 => -1e300,
            _ => -1e38,
        };
        let positive = rows::gt.call(&[g.into(), 0.0.into()], &[])?;
        let or_one = rows::select_where.call(&[(&positive).into(), g.into(), 1.0.into()], &[])?;
        let logs = rows::log.call(&[(&or_one).into()], &[])?;
        let logs = rows::select_where.call(&[(&positive).into(), (&logs).into(), nothing.into()], &[])?;
        let logs = arith::sub(&logs, y)?;
        let sums = flipped(&logcumsumexp(&flipped(&logs, self.dim)?, self.dim)?, self.dim)?;
        rows::exp.call(&[(&arith::add(&sums, x)?).into()], &[])
    }
}

impl Function for LogcumsumexpBackward {
    fn name(&self) -> &'static str {
        "LogcumsumexpBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (x, y) = (self.input.get(cx)?, self.result.get(cx)?);
        Ok(smallvec![Some(arith::sub(
            &self.positive_part(g, &x, &y)?,
            &self.positive_part(&arith::neg(g)?, &x, &y)?
        )?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        visit("result", &self.result);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
    }
}

/// The elements in reverse order along `dim`.
#[inline]
pub fn flipped(t: &Tensor, dim: usize) -> Result<Tensor> {
    if interpreter::active() { flip(t, &[dim as i64]) } else { flipped_impl(t, dim) }
}

fn flipped_impl(t: &Tensor, dim: usize) -> Result<Tensor> {
    let mut layout = t.layout().clone();
    if let Some(&n) = layout.shape.get(dim)
        && n > 0
    {
        layout.offset = (layout.offset as isize + (n as isize - 1) * layout.strides[dim]) as usize;
        layout.strides[dim] = -layout.strides[dim];
    }
    record(t.with_layout(layout).copied(t.dtype())?, &[t], |_| FlipBackward { dim })
}

struct FlipBackward {
    dim: usize,
}

impl Function for FlipBackward {
    fn name(&self) -> &'static str {
        "FlipBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(flipped(g, self.dim)?)])
    }
}

/// Shifts the elements by one along `dim`, toward the end if `later`, and fills the gap with `fill`.
pub fn shifted(t: &Tensor, dim: usize, later: bool, fill: f64) -> Result<Tensor> {
    let out = t.new_full(t.shape().clone(), fill)?;
    let n = t.shape()[dim].saturating_sub(1);
    let part = |from: usize| move |t: &Tensor| t.with_layout(t.layout().slice(dim, from, n, 1));
    let (from, to) = (part(!later as usize)(t), part(later as usize)(&out));
    copy::copy(from.raw(), to.raw())?;
    record(out, &[t], |_| ShiftBackward { dim, later })
}

struct ShiftBackward {
    dim: usize,
    later: bool,
}

impl Function for ShiftBackward {
    fn name(&self) -> &'static str {
        "ShiftBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(shifted(g, self.dim, !self.later, 0.0)?)])
    }
}

fn cumsum_op(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(summed(t, wrap_dim(a.int(1)?, t.rank())?, false, a.opt_dtype(2)?)?.into())
}

fn cumprod_op(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(cumprod_impl(t, wrap_dim(a.int(1)?, t.rank())?, a.opt_dtype(2)?)?.into())
}

fn logcumsumexp_op(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(logcumsumexp_impl(t, wrap_dim(a.int(1)?, t.rank())?)?.into())
}

const EXTREMA: &[&str] = &["values", "indices"];

ops! {
    /// The sum of the elements up to each one along `dim`.
    "cumsum" ALL, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, dim: int, *, dtype: dtype? = None) => cumsum_op;
        /// As `cumsum`.
        pub fn cumsum(t: &Tensor, dim: usize, dtype: Option<DType>) -> Tensor as (t, dim, dtype) = cumsum_impl;
    }
    /// The product of the elements up to each one along `dim`.
    "cumprod" ALL, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, dim: int, *, dtype: dtype? = None) => cumprod_op;
        /// As `cumprod`.
        pub fn cumprod(t: &Tensor, dim: usize, dtype: Option<DType>) -> Tensor as (t, dim, dtype) = cumprod_impl;
    }
    /// The largest element up to each one along `dim`, and where it stands.
    "cummax" BOTH | OUT, out SCANNED, batch DIMS {
        (input: Tensor, dim: int) -> tuple[Tensor, Tensor] =>
            |a| Ok(Out::Named("cummax", EXTREMA, cum_extremum(a, true)?));
    }
    /// The smallest element up to each one along `dim`, and where it stands.
    "cummin" BOTH | OUT, out SCANNED, batch DIMS {
        (input: Tensor, dim: int) -> tuple[Tensor, Tensor] =>
            |a| Ok(Out::Named("cummin", EXTREMA, cum_extremum(a, false)?));
    }
    /// The logarithm of the sum of exponentials up to each element along `dim`, without overflow.
    "logcumsumexp" BOTH | OUT, out SCANNED, batch DIMS {
        (input: Tensor, dim: int) => logcumsumexp_op;
        /// As `logcumsumexp`.
        pub fn logcumsumexp(t: &Tensor, dim: usize) -> Tensor as (t, dim) = logcumsumexp_impl;
    }
    /// The `n`-th difference of neighbours along `dim`.
    "diff" BOTH | OUT | COMPOSITE, batch PARTS {
        (input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor? = None, append: Tensor? = None) =>
            differences::diff;
    }
    /// The integral along `dim` by trapezoids, at points `x` or `dx` apart.
    "trapezoid" FUNCTION, aliases ["trapz"], batch PARTS {
        (y: Tensor, x: Tensor, *, dim: int = -1) => |a| differences::trapezoid(a, true);
        (y: Tensor, *, dx: Number = 1, dim: int = -1) => |a| differences::trapezoid(a, false);
    }
    /// The integrals up to each point along `dim` by trapezoids, at points `x` or `dx` apart.
    "cumulative_trapezoid" FUNCTION, batch PARTS {
        (y: Tensor, x: Tensor, *, dim: int = -1) => |a| differences::cumulative_trapezoid(a, true);
        (y: Tensor, *, dx: Number = 1, dim: int = -1) => |a| differences::cumulative_trapezoid(a, false);
    }
}
