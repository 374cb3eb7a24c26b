//! Norms and `logsumexp`.

use smallvec::{SmallVec, smallvec};

use super::{amax, amin, dim_mask, folded, reduced_count, restored, sum_mask};
use crate::backend::reduce::{ReduceOp, accumulate_dtype};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::wrap_dim;
use crate::ops::linalg::{svdvals, vector_norm};
use crate::ops::pointwise::{Arg, PointwiseOp};
use crate::ops::schema::{Args, Out, Value};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// The norm of order `p` over some dimensions, or over all elements.
pub(in crate::ops) fn vector_norm_impl(
    t: &Tensor,
    p: f64,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        t.dtype().is_float(),
        NotImplemented,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        t.dtype().scalar_name()
    );
    let result = dtype.unwrap_or(t.dtype());
    ensure!(
        result.is_float(),
        Runtime,
        "linalg.vector_norm: dtype should be floating point or complex. Got {}",
        result.scalar_name()
    );
    let mask = dim_mask(dims, t.rank())?;
    if (p < 0.0 || p == f64::INFINITY) && t.numel() == 0 {
        expect_identity(t, p, mask, dims)?;
    }
    let x = arith::to_dtype(t, result)?;
    let out = folded(ReduceOp::Norm(p), &x, mask, keepdim, result)?;
    record(out, &[&x], |y| NormBackward {
        input: SavedTensor::input(&x),
        result: SavedTensor::output(y),
        p,
        mask,
    })
}

/// Errors if a norm without identity has no elements.
fn expect_identity(t: &Tensor, p: f64, mask: u64, dims: Option<&[i64]>) -> Result<()> {
    let order = if p.is_infinite() { if p > 0.0 { "inf" } else { "-inf" }.into() } else { format!("{p}") };
    ensure!(
        dims.is_some_and(|d| !d.is_empty()),
        Runtime,
        "linalg.vector_norm cannot compute the {order} norm on an empty tensor because the operation does not have an \
         identity"
    );
    if let Some(d) = (0..t.rank()).find(|d| mask >> d & 1 == 1 && t.shape()[*d] == 0) {
        bail!(
            Runtime,
            "linalg.vector_norm cannot compute the {order} norm on the dimension {d}because this dimension is empty \
             and the operation does not have an identity"
        );
    }
    Ok(())
}

struct NormBackward {
    input: SavedTensor,
    result: SavedTensor,
    p: f64,
    mask: u64,
}

fn row(row: &'static PointwiseOp, args: &[Arg]) -> Result<Tensor> {
    row.call(args, &[])
}

/// `t` with 0 where `zero` is 0; used where a norm is not differentiable.
fn zero_where_zero(zero: &Tensor, t: &Tensor) -> Result<Tensor> {
    row(&rows::select_where, &[(&row(&rows::eq, &[zero.into(), 0.0.into()])?).into(), 0.0.into(), t.into()])
}

impl NormBackward {
    fn by_input(&self, x: &Tensor, norm: &Tensor, g: &Tensor) -> Result<Tensor> {
        let p = self.p;
        let magnitude = || row(&rows::abs, &[x.into()]);
        let sign = || row(&rows::sgn, &[x.into()]);
        let power = |t: &Tensor, e: f64| arith::pow(t, e);
        if p == 0.0 {
            arith::mul(x, 0.0)
        } else if p == 1.0 {
            arith::mul(&sign()?, g)
        } else if p == 2.0 {
            arith::mul(g, &zero_where_zero(norm, &arith::div(x, norm)?)?)
        } else if p.is_infinite() {
            let size = magnitude()?;
            let both_nan = arith::mul(&super::isnan(&size)?, &super::isnan(norm)?)?;
            let equal = row(&rows::eq, &[(&size).into(), norm.into()])?;
            let hit = row(&rows::logical_or, &[(&equal).into(), (&both_nan).into()])?;
            let share = arith::div(g, &sum_mask(&hit, self.mask, true, None)?)?;
            arith::mul(&sign()?, &arith::mul(&share, &hit)?)
        } else if p < 1.0 {
            let slope = zero_where_zero(x, &arith::mul(&sign()?, &power(&magnitude()?, p - 1.0)?)?)?;
            arith::mul(&arith::mul(&slope, g)?, &power(norm, 1.0 - p)?)
        } else {
            let slope = if p < 2.0 {
                arith::mul(&sign()?, &power(&magnitude()?, p - 1.0)?)?
            } else {
                arith::mul(x, &power(&magnitude()?, p - 2.0)?)?
            };
            arith::mul(&slope, &zero_where_zero(norm, &arith::div(g, &power(norm, p - 1.0)?)?)?)
        }
    }
}

impl Function for NormBackward {
    fn name(&self) -> &'static str {
        "LinalgVectorNormBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let x = self.input.get(cx)?;
        let norm = restored(&self.result.get(cx)?, x.shape(), self.mask)?;
        Ok(smallvec![Some(self.by_input(&x, &norm, &restored(g, x.shape(), self.mask)?)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        visit("result", &self.result);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        super::show_reduced(self.mask, visit);
        visit("ord", Attribute::Number(Scalar::Float(self.p)));
    }
}

/// The order of a norm: a number or a name.
pub enum Order<'a> {
    Number(f64),
    Name(&'a str),
}

/// The norm of the matrices in two dimensions.
pub fn matrix_norm(
    t: &Tensor,
    order: Order,
    dims: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        t.rank() >= 2,
        Runtime,
        "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
    );
    ensure!(dims.len() == 2, Runtime, "linalg.matrix_norm: dim must be a 2-tuple. Got {dims:?}");
    let (rows_dim, columns) = (wrap_dim(dims[0], t.rank())?, wrap_dim(dims[1], t.rank())?);
    ensure!(
        rows_dim != columns,
        Runtime,
        "linalg.matrix_norm: dims must be different. Got ({}, {})",
        dims[0],
        dims[1]
    );
    let p = match order {
        Order::Name("fro") => return vector_norm(t, 2.0, Some(dims), keepdim, dtype),
        Order::Name("nuc") => {
            let values = values_of(t, [rows_dim, columns], dtype)?;
            return restored_at(
                &sum_mask(&values, last_dim(&values), false, None)?,
                [rows_dim, columns],
                keepdim,
            );
        }
        Order::Name(other) => bail!(Runtime, "linalg.matrix_norm: Order {other} not supported."),
        Order::Number(p) => p,
    };
    // The maximum of absolute sums: over rows for infinity, over columns for 1.
    let (summed, compared) = match p.abs() {
        1.0 => (rows_dim, columns),
        f64::INFINITY => (columns, rows_dim),
        2.0 => {
            let values = values_of(t, [rows_dim, columns], dtype)?;
            if p > 0.0 && values.numel() == 0 {
                let shape = super::reduced_shape(values.shape(), last_dim(&values), false);
                return restored_at(&values.new_zeros(shape)?, [rows_dim, columns], keepdim);
            }
            let chosen =
                if p > 0.0 { amax(&values, Some(&[-1]), false)? } else { amin(&values, Some(&[-1]), false)? };
            return restored_at(&chosen, [rows_dim, columns], keepdim);
        }
        _ => bail!(Runtime, "linalg.matrix_norm: Order {p} not supported."),
    };
    let empty = super::reduced_shape(t.shape(), dim_mask(Some(dims), t.rank())?, keepdim);
    if p > 0.0 && t.shape()[compared] == 0 {
        return Tensor::zeros_on(empty, dtype.unwrap_or(t.dtype()), t.device());
    }
    let sums = vector_norm(t, 1.0, Some(&[summed as i64]), true, dtype)?;
    let compared = compared as i64;
    let both =
        if p > 0.0 { amax(&sums, Some(&[compared]), true)? } else { amin(&sums, Some(&[compared]), true)? };
    if keepdim {
        return Ok(both);
    }
    let shape = super::reduced_shape(t.shape(), dim_mask(Some(dims), t.rank())?, false);
    view::view_as(&both, &shape)
}

/// The singular values of the matrices in two dimensions, along a new last dimension.
fn values_of(t: &Tensor, dims: [usize; 2], dtype: Option<DType>) -> Result<Tensor> {
    let name = t.dtype().scalar_name();
    ensure!(
        t.dtype().is_float(),
        NotImplemented,
        "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {name}"
    );
    ensure!(
        !t.dtype().is_half(),
        NotImplemented,
        "linalg.matrix_norm: Low precision dtypes not supported. Got {name}"
    );
    let t = arith::to_dtype(t, dtype.unwrap_or(t.dtype()))?;
    let order: Vec<usize> = (0..t.rank()).filter(|d| !dims.contains(d)).chain(dims).collect();
    svdvals(&view::permute_dims(&t, &order, "PermuteBackward0")?)
}

fn last_dim(t: &Tensor) -> u64 {
    1 << (t.rank() - 1)
}

/// A matrix norm with both dimensions restored with size 1 if `keepdim`.
fn restored_at(norm: &Tensor, mut dims: [usize; 2], keepdim: bool) -> Result<Tensor> {
    if !keepdim {
        return Ok(norm.clone());
    }
    dims.sort_unstable();
    dims.iter().try_fold(norm.clone(), |t, &d| view::unsqueeze(&t, d as i64))
}

fn order_at<'a>(a: &'a Args, i: usize) -> Result<Option<Order<'a>>> {
    Ok(match &a.values[i] {
        Value::None => None,
        Value::Str(s) => Some(Order::Name(s)),
        _ => Some(Order::Number(a.float(i)?)),
    })
}

/// `torch.norm`, for which 'fro' over any number of dimensions is the 2-norm.
pub fn norm(a: &Args) -> Result<Out> {
    let (t, dims, keepdim, dtype) = (a.tensor(0)?, a.opt_ints(2)?, a.bool(3)?, a.opt_dtype(4)?);
    let out = match order_at(a, 1)? {
        None | Some(Order::Name("fro")) => vector_norm(t, 2.0, dims, keepdim, dtype)?,
        Some(Order::Number(p)) => vector_norm(t, p, dims, keepdim, dtype)?,
        Some(name) => matrix_norm(t, name, dims.unwrap_or(&[-2, -1]), keepdim, dtype)?,
    };
    Ok(out.into())
}

/// `linalg.norm`: a matrix norm if an order and two dimensions are given, else a vector norm.
pub fn linalg_norm(a: &Args) -> Result<Out> {
    let (t, dims, keepdim, dtype) = (a.tensor(0)?, a.opt_ints(2)?, a.bool(3)?, a.opt_dtype(4)?);
    let out = match order_at(a, 1)? {
        None => vector_norm(t, 2.0, dims, keepdim, dtype)?,
        Some(order) => {
            if let Some(d) = dims {
                ensure!(
                    d.len() == 1 || d.len() == 2,
                    Runtime,
                    "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {d:?}"
                );
            } else {
                ensure!(
                    t.rank() == 1 || t.rank() == 2,
                    Runtime,
                    "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
                    t.rank()
                );
            }
            let matrix = dims.map_or(t.rank() == 2, |d| d.len() == 2);
            match order {
                order if matrix => matrix_norm(t, order, dims.unwrap_or(&[-2, -1]), keepdim, dtype)?,
                Order::Number(p) => vector_norm(t, p, dims, keepdim, dtype)?,
                Order::Name(name) => bail!(Runtime, "linalg.norm: Order {name} not supported."),
            }
        }
    };
    Ok(out.into())
}

/// `linalg.matrix_norm`.
pub fn linalg_matrix_norm(a: &Args) -> Result<Out> {
    let order = order_at(a, 1)?.unwrap_or(Order::Name("fro"));
    Ok(matrix_norm(a.tensor(0)?, order, a.ints(2)?, a.bool(3)?, a.opt_dtype(4)?)?.into())
}

pub(super) fn norm_but_one(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    if dim == -1 {
        return vector_norm(v, pow as f64, None, false, None);
    }
    ensure!(v.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    let kept = wrap_dim(dim, v.rank())? as i64;
    if v.rank() == 1 {
        return vector_norm(&view::unsqueeze(v, 1)?, pow as f64, Some(&[1]), false, None);
    }
    let rest: SmallVec<[i64; 6]> = (0..v.rank() as i64).filter(|&d| d != kept).collect();
    vector_norm(v, pow as f64, Some(&rest), true, None)
}

/// `log(sum(exp(t)))` over some dimensions, without overflow.
pub(super) fn logsumexp_impl(t: &Tensor, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    let t = if t.dtype().is_float() { t.clone() } else { t.copied(crate::ops::default_dtype())? };
    let mask = dim_mask(Some(dims), t.rank())?;
    let out = if reduced_count(&t, mask) == 0 {
        let shape = super::reduced_shape(t.shape(), mask, keepdim);
        t.new_full(shape, f64::NEG_INFINITY)?
    } else {
        folded(ReduceOp::LogSumExp, &t, mask, keepdim, t.dtype())?
    };
    record(out, &[&t], |y| LogsumexpBackward {
        input: SavedTensor::input(&t),
        result: SavedTensor::output(y),
        mask,
    })
}

struct LogsumexpBackward {
    input: SavedTensor,
    result: SavedTensor,
    mask: u64,
}

impl Function for LogsumexpBackward {
    fn name(&self) -> &'static str {
        "LogsumexpBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (x, y) = (self.input.get(cx)?, self.result.get(cx)?);
        let share = row(&rows::exp, &[(&arith::sub(&x, &restored(&y, x.shape(), self.mask)?)?).into()])?;
        Ok(smallvec![Some(arith::mul(&restored(g, x.shape(), self.mask)?, &share)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        visit("result", &self.result);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        super::show_reduced(self.mask, visit);
    }
}

/// Added to the norm of a slice before it is used as a divisor.
const RENORM_EPS: f64 = 1e-7;

/// Rescales each slice along a dimension to norm `maxnorm` if it exceeds it.
pub fn renorm(a: &Args) -> Result<Out> {
    let (t, p, most) = (a.tensor(0)?, a.float(1)?, a.float(3)?);
    ensure!(p > 0.0, Runtime, "renorm: non-positive-norm not supported");
    ensure!(most >= 0.0, Runtime, "renorm: expected maxnorm to be >= 0 but got {most}");
    let rank = t.rank();
    ensure!(rank > 1, Runtime, "renorm: input needs at least 2 dimensions, got {rank} dimensions");
    let dim = wrap_dim(a.int(2)?, rank)?;
    let others = (0..rank as i64).filter(|&d| d != dim as i64).collect();
    let asked = Renorm { p, dim: a.int(2)?, most, order: a.number(1)?, others };
    let x = t.detach();
    let norm = asked.norm(&x)?;
    let factor = arith::mul(&arith::pow(&arith::add(&norm, RENORM_EPS)?, -1.0)?, most)?;
    let factor = arith::to_dtype(&asked.beyond(&norm, &factor, 1.0.into())?, t.dtype())?;
    let out = arith::mul(&x, &factor)?;
    Ok(record(out, &[t], |_| RenormBackward { input: SavedTensor::input(t), asked })?.into())
}

struct Renorm {
    p: f64,
    /// `p` as it was passed.
    order: Scalar,
    dim: i64,
    most: f64,
    /// The dimensions within a slice.
    others: SmallVec<[i64; 4]>,
}

impl Renorm {
    /// The norms of the slices, in the type in which PyTorch accumulates.
    fn norm(&self, x: &Tensor) -> Result<Tensor> {
        let wide = accumulate_dtype(x.raw())?;
        vector_norm(x, self.p, Some(&self.others), true, Some(wide).filter(|&d| d != x.dtype()))
    }

    /// `yes` where the norm of a slice exceeds the limit, else `no`.
    fn beyond(&self, norm: &Tensor, yes: &Tensor, no: Arg) -> Result<Tensor> {
        let large = row(&rows::gt, &[norm.into(), self.most.into()])?;
        row(&rows::select_where, &[(&large).into(), yes.into(), no])
    }
}

struct RenormBackward {
    input: SavedTensor,
    asked: Renorm,
}

impl Function for RenormBackward {
    fn name(&self) -> &'static str {
        "RenormBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (x, asked) = (self.input.get(cx)?, &self.asked);
        let norm = asked.norm(&x)?;
        let (wide, whole) = (arith::to_dtype(&x, norm.dtype())?, arith::to_dtype(g, norm.dtype())?);
        let mask = dim_mask(Some(&asked.others), x.rank())?;
        let sum = sum_mask(&arith::mul(&wide, &whole)?, mask, true, None)?;
        let slope =
            NormBackward { input: SavedTensor::unused(), result: SavedTensor::unused(), p: asked.p, mask };
        let by_norm = slope.by_input(&wide, &norm, &sum)?;
        let inverse = arith::pow(&arith::add(&norm, RENORM_EPS)?, -1.0)?;
        let inner = arith::sub(&whole, &arith::mul(&inverse, &by_norm)?)?;
        let scaled = arith::mul(&arith::mul(&inverse, asked.most)?, &inner)?;
        Ok(smallvec![Some(arith::to_dtype(&asked.beyond(&norm, &scaled, (&whole).into())?, g.dtype())?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("p", Attribute::Number(self.asked.order));
        visit("dim", Attribute::Int(self.asked.dim));
        visit("maxnorm", Attribute::Number(Scalar::Float(self.asked.most)));
    }
}
