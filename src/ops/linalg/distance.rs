//! Distances between rows.

use smallvec::{SmallVec, smallvec};

use super::super::matmul::matmul;
use super::super::pointwise::{Applied, Arg, Rule, fold, replay};
use super::super::schema::{Args, Out};
use super::super::{arith, reduce, rows, view};
use super::{sum_mask, vector_norm};
use crate::backend::defer::Entered;
use crate::backend::reduce::ReduceOp;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::{Arith, Formula, Num, recorded};
use crate::graph::{Cx, Function, Grads, ModeGuard, SavedTensor, grad_enabled, record};
use crate::layout::MemoryFormat;
use crate::ops::rows::sign_of;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// With more rows than these on either side, Euclidean distances are computed by a matrix product, as in PyTorch.
const MANY_ROWS: usize = 25;

/// The norm of order `p` of the difference of two tensors.
pub(super) fn dist(a: &Args) -> Result<Out> {
    let difference = arith::sub(a.tensor(0)?, a.tensor(1)?)?;
    Ok(vector_norm(&difference, a.float(2)?, None, false, None)?.into())
}

/// The distances between all pairs of rows of two matrices.
pub(super) fn cdist(a: &Args) -> Result<Out> {
    let (x, y, p) = (a.tensor(0)?, a.tensor(1)?, a.float(2)?);
    ensure!(
        x.dtype().is_float() && y.dtype().is_float(),
        Runtime,
        "cdist only supports floating-point dtypes, X1 got: {}",
        x.dtype().scalar_name()
    );
    ensure!(x.rank() >= 2, Runtime, "cdist only supports at least 2D tensors, X1 got: {}D", x.rank());
    ensure!(y.rank() >= 2, Runtime, "cdist only supports at least 2D tensors, X2 got: {}D", y.rank());
    let (c1, c2) = (x.shape()[x.rank() - 1], y.shape()[y.rank() - 1]);
    ensure!(c1 == c2, Runtime, "X1 and X2 must have the same number of columns. X1: {c1} X2: {c2}");
    ensure!(p >= 0.0, Runtime, "cdist only supports non-negative p values");
    let (r1, r2) = (x.shape()[x.rank() - 2], y.shape()[y.rank() - 2]);
    let by_product = match if a.is_none(3) { "use_mm_for_euclid_dist_if_necessary" } else { a.str(3)? } {
        "use_mm_for_euclid_dist_if_necessary" => r1.max(r2) > MANY_ROWS,
        "use_mm_for_euclid_dist" => true,
        "donot_use_mm_for_euclid_dist" => false,
        mode => bail!(Value, "{mode} is not a valid value for compute_mode"),
    };
    let one_dtype = x.dtype() == y.dtype() && matches!(x.dtype(), DType::F32 | DType::F64);
    if by_product && p == 2.0 && one_dtype && c1 > 0 && r1 > 0 && r2 > 0 {
        return Ok(euclidean(x, y)?.into());
    }
    if one_dtype && c1 > 0 {
        let out = {
            let _unrecorded = ModeGuard::grad(false);
            norms(x, y, p)?
        };
        return Ok(recorded(out, x, y, Form::Differences(p))?.into());
    }
    let [left, right] = pairs(x, y)?;
    // Without columns all distances are 0, though an extremum of nothing is not defined.
    let p = if c1 == 0 { 0.0 } else { p };
    Ok(vector_norm(&arith::sub(&left, &right)?, p, Some(&[-1]), false, None)?.into())
}

/// Views of the rows of two matrices that broadcast to all pairs of rows.
fn pairs(x: &Tensor, y: &Tensor) -> Result<[Tensor; 2]> {
    Ok([view::unsqueeze(x, -2)?, view::unsqueeze(y, -3)?])
}

/// The norms of order `p` of the differences of all pairs of rows, which are computed as they are reduced; see Note [Reduced formulas].
fn norms(x: &Tensor, y: &Tensor, p: f64) -> Result<Tensor> {
    let [left, right] = pairs(x, y)?;
    let last = 1 << (left.rank().max(right.rank()) - 1);
    let args = [(&left).into(), (&right).into()];
    fold(ReduceOp::Norm(p), Applied::new(Rule::Row(&rows::sub), &args, &[]), x.dtype(), last, false, None)
}

fn turned(t: &Tensor) -> Result<Tensor> {
    view::swap(t, t.rank() - 2, t.rank() - 1)
}

/// `sqrt(|x|² + |y|² - 2 x y)` for all pairs of rows: no difference is in memory, and most of the work is a product.
fn euclidean(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let out = {
        let _unrecorded = ModeGuard::grad(false);
        let squares = |t: &Tensor| sum_mask(&arith::mul(t, t)?, 1 << (t.rank() - 1), true, None);
        let norms = arith::add(&squares(x)?, &turned(&squares(y)?)?)?;
        let product = arith::mul(&matmul(x, &turned(y)?)?, -2.0)?;
        let squared = rows::clamp_from.call(&[(&arith::add(&norms, &product)?).into(), 0.0.into()], &[])?;
        rows::sqrt.call(&[(&squared).into()], &[])?
    };
    recorded(out, x, y, Form::Product)
}

fn recorded(out: Tensor, x: &Tensor, y: &Tensor, form: Form) -> Result<Tensor> {
    record(out, &[x, y], |out| CdistBackward {
        x: SavedTensor::input(x),
        y: SavedTensor::input(y),
        out: SavedTensor::output(out),
        form,
    })
}

/// How distances were computed.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// As norms of this order of differences.
    Differences(f64),
    /// By a product, with order 2.
    Product,
}

struct CdistBackward {
    x: SavedTensor,
    y: SavedTensor,
    out: SavedTensor,
    form: Form,
}

/// The derivative of a norm of order `p` of the difference of two rows by an element of the first, and its parameters. Its arguments
/// are the gradient, divided by the norm to the power `p - 1` where `p` is finite; the element; that of the second row; and
/// the norm.
fn slope(p: f64) -> (&'static Formula, SmallVec<[Scalar; 1]>) {
    match p {
        1.0 => (recorded!(|a| a[0] * sign_of(a[1] - a[2])), smallvec![]),
        2.0 => (recorded!(|a| a[0] * (a[1] - a[2])), smallvec![]),
        f64::INFINITY => {
            let formula = recorded!(|a| {
                let z = a[1] - a[2];
                Arith::select(z.abs().eq(a[3]), a[0] * sign_of(z), Arith::zero())
            });
            (formula, smallvec![])
        }
        p if p < 2.0 => {
            // A power below 0 of no difference would be infinite.
            let formula = recorded!(|a, p| {
                let z = a[1] - a[2];
                Arith::select(z.eq(Arith::zero()), Arith::zero(), a[0] * sign_of(z) * z.abs().pow(p[0]))
            });
            (formula, smallvec![Scalar::Float(p - 1.0)])
        }
        p => {
            let formula = recorded!(|a, p| {
                let z = a[1] - a[2];
                a[0] * z * z.abs().pow(p[0])
            });
            (formula, smallvec![Scalar::Float(p - 2.0)])
        }
    }
}

impl CdistBackward {
    /// The gradient divided by the distance to the power `p - 1`, and zero where the distance is.
    fn ratio(g: &Tensor, out: &Tensor, p: f64) -> Result<Tensor> {
        if p == 1.0 || p == f64::INFINITY {
            return Ok(g.clone());
        }
        let apart = rows::ne.call(&[out.into(), 0.0.into()], &[])?;
        let divisor = rows::select_where.call(&[(&apart).into(), out.into(), 1.0.into()], &[])?;
        let divisor = if p == 2.0 { divisor } else { arith::pow(&divisor, p - 1.0)? };
        let zero = g.new_zeros([0usize; 0])?;
        rows::select_where.call(&[(&apart).into(), (&arith::div(g, &divisor)?).into(), (&zero).into()], &[])
    }

    /// The gradients of both matrices by [`slope`]. All pairs of elements are far more than the matrices: what is made of them is
    /// computed in a region of deferred operations, in one group with its sums, unless history is recorded, which keeps it.
    fn by_differences(&self, cx: &Cx, g: &Tensor, p: f64) -> Result<Grads> {
        let (x, y, out) = (self.x.get(cx)?, self.y.get(cx)?, self.out.get(cx)?);
        if p == 0.0 {
            let zeros = |t: &Tensor| t.new_zeros(t.shape().clone()).map(Some);
            return Ok(smallvec![zeros(&x)?, zeros(&y)?]);
        }
        let (formula, params) = slope(p);
        let of = |ratio: &Tensor, out: &Tensor, one: &Tensor, other: &Tensor| {
            // A group reads values of rows where they are adjacent.
            let of_rows = |t: &Tensor| -> Result<Tensor> {
                let t = if t.is_contiguous() { t } else { &arith::clone_in(t, MemoryFormat::Contiguous)? };
                view::unsqueeze(t, -1)
            };
            let ([left, right], ratio, out) = (pairs(one, other)?, of_rows(ratio)?, of_rows(out)?);
            let operands = [&ratio, &left, &right, &out].map(|t| Some(Arg::T(t)));
            let region = (!grad_enabled()).then(Entered::new);
            // All but the sum is dropped before the region ends, so that it gets no memory.
            let sum = {
                let each = replay(formula, &operands, &params, one)?;
                sum_mask(&each, 1 << (each.rank() - 2), false, None)?
            };
            let sum = reduce::sum_to(&sum, one.shape())?;
            region.map_or(Ok(()), Entered::finish)?;
            Ok(sum)
        };
        let ratio = Self::ratio(g, &out, p)?;
        let dx = cx.needs(0).then(|| of(&ratio, &out, &x, &y)).transpose()?;
        // The slope by the second row is that by the first with both exchanged.
        let dy = cx.needs(1).then(|| of(&turned(&ratio)?, &turned(&out)?, &y, &x)).transpose()?;
        Ok(smallvec![dx, dy])
    }
}

impl Function for CdistBackward {
    fn name(&self) -> &'static str {
        if self.form == Form::Product { "EuclideanDistBackward0" } else { "CdistBackward0" }
    }

    /// Of order 2, `∂d/∂x = (x - y) / d`, and zero where the distance is.
    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        if let Form::Differences(p) = self.form {
            return self.by_differences(cx, g, p);
        }
        let (x, y, out) = (self.x.get(cx)?, self.y.get(cx)?, self.out.get(cx)?);
        let ratio = Self::ratio(g, &out, 2.0)?;
        let of = |ratio: &Tensor, one: &Tensor, other: &Tensor| -> Result<Tensor> {
            let own = arith::mul(one, &sum_mask(ratio, 1 << (ratio.rank() - 1), true, None)?)?;
            reduce::sum_to(&arith::sub(&own, &matmul(ratio, other)?)?, one.shape())
        };
        let dx = if cx.needs(0) { Some(of(&ratio, &x, &y)?) } else { None };
        let dy = if cx.needs(1) { Some(of(&turned(&ratio)?, &y, &x)?) } else { None };
        Ok(smallvec![dx, dy])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("x1", &self.x);
        visit("x2", &self.y);
        visit("result", &self.out);
    }
}
