//! Distances between rows.

use smallvec::smallvec;

use super::super::matmul::matmul;
use super::super::schema::{Args, Out};
use super::super::{arith, reduce, rows, view};
use super::{sum_mask, vector_norm};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, ModeGuard, SavedTensor, record};
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
    if p == 2.0 && one_dtype {
        let out = {
            let _unrecorded = ModeGuard::grad(false);
            vector_norm(&differences(x, y)?, p, Some(&[-1]), false, None)?
        };
        return Ok(recorded(out, x, y, false)?.into());
    }
    Ok(vector_norm(&differences(x, y)?, p, Some(&[-1]), false, None)?.into())
}

/// The differences of all pairs of rows.
fn differences(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (mut left, mut right) = (x.shape().clone(), y.shape().clone());
    left.insert(x.rank() - 1, 1);
    right.insert(y.rank() - 2, 1);
    arith::sub(&view::reshape_to(x, &left)?, &view::reshape_to(y, &right)?)
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
    recorded(out, x, y, true)
}

fn recorded(out: Tensor, x: &Tensor, y: &Tensor, by_product: bool) -> Result<Tensor> {
    record(out, &[x, y], |out| EuclideanDist {
        x: SavedTensor::input(x),
        y: SavedTensor::input(y),
        out: SavedTensor::output(out),
        by_product,
    })
}

struct EuclideanDist {
    x: SavedTensor,
    y: SavedTensor,
    out: SavedTensor,
    by_product: bool,
}

impl Function for EuclideanDist {
    fn name(&self) -> &'static str {
        if self.by_product { "EuclideanDistBackward0" } else { "CdistBackward0" }
    }

    /// `∂d/∂x = (x - y) / d`, and zero where the distance is.
    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let (x, y, out) = (self.x.get(cx)?, self.y.get(cx)?, self.out.get(cx)?);
        let apart = rows::ne.call(&[(&out).into(), 0.0.into()], &[])?;
        let divisor = rows::select_where.call(&[(&apart).into(), (&out).into(), 1.0.into()], &[])?;
        let zero = g.new_zeros([0usize; 0])?;
        let ratio = arith::div(g, &divisor)?;
        let ratio = rows::select_where.call(&[(&apart).into(), (&ratio).into(), (&zero).into()], &[])?;
        if !self.by_product {
            let each = arith::mul(&view::unsqueeze(&ratio, -1)?, &differences(&x, &y)?)?;
            let over = |dim: usize, sign: f64, t: &Tensor| {
                reduce::sum_to(&arith::mul(&sum_mask(&each, 1 << dim, false, None)?, sign)?, t.shape())
            };
            let dx = cx.needs(0).then(|| over(each.rank() - 2, 1.0, &x)).transpose()?;
            let dy = cx.needs(1).then(|| over(each.rank() - 3, -1.0, &y)).transpose()?;
            return Ok(smallvec![dx, dy]);
        }
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
