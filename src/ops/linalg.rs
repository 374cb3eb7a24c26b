//! Triangular parts, traces, products of tensors.

mod distance;
mod einsum;
mod factor;
mod lu;
mod orthogonal;
mod products;
mod statistics;
mod svd;
mod table;

use std::sync::atomic::AtomicBool;

use smallvec::smallvec;

use super::reduce::sum_mask;
use super::schema::{Args, Op, Out};
use super::{arith, join, matmul, reduce, rows, view};
use crate::backend::reduce::ReduceDims;
use crate::backend::{cross, triangle as kernel};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result, warn_once};
use crate::graph::{Attribute, Cx, Function, Grads, ModeGuard, SavedTensor, Visit, grad_enabled, record};
use crate::layout::{Dims, Layout, Strides, wrap_dim};
use crate::storage::{empty_vec, expect_room};
use crate::tensor::Tensor;
use crate::{bail, ensure};

pub use einsum::einsum;
pub use svd::svd;
pub use table::{svdvals, tensordot, vector_norm};

pub static OPS: &[Op] = &Op::concat::<
    { table::OPS.len() + statistics::OPS.len() + factor::OPS.len() + lu::OPS.len() + orthogonal::OPS.len() },
>(&[table::OPS, statistics::OPS, factor::OPS, lu::OPS, orthogonal::OPS]);

/// The lower (or upper) triangle of each matrix, up to (from) diagonal `k`, with zeros elsewhere.
fn triangle_impl(t: &Tensor, k: i64, lower: bool) -> Result<Tensor> {
    let op = if lower { "tril" } else { "triu" };
    ensure!(t.rank() >= 2, Runtime, "{op}: input tensor must have at least 2 dimensions");
    let (rows, columns) = (t.shape()[t.rank() - 2], t.shape()[t.rank() - 1]);
    let (x, out) = (t.dense(t.dtype())?, t.empty_as(t.dtype())?);
    kernel::triangle(x.raw(), rows, columns, k, lower, out.raw())?;
    record(out, &[t], |_| TriangleBackward { k, lower })
}

/// A triangle of each matrix; see `tril` and `triu`.
#[inline]
pub fn triangle(t: &Tensor, k: i64, lower: bool) -> Result<Tensor> {
    if lower { table::tril(t, k) } else { table::triu(t, k) }
}

fn lower_triangle(t: &Tensor, k: i64) -> Result<Tensor> {
    triangle_impl(t, k, true)
}

fn upper_triangle(t: &Tensor, k: i64) -> Result<Tensor> {
    triangle_impl(t, k, false)
}

struct TriangleBackward {
    k: i64,
    lower: bool,
}

impl Function for TriangleBackward {
    fn name(&self) -> &'static str {
        if self.lower { "TrilBackward0" } else { "TriuBackward0" }
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(triangle(g, self.k, self.lower)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("diagonal", Attribute::Int(self.k));
    }
}

/// A matrix with ones on its diagonal, with the dtype and device of `like`.
fn identity(rows: usize, columns: usize, like: &Tensor) -> Result<Tensor> {
    let out = like.new_zeros([rows, columns])?;
    let diagonal = Layout {
        shape: Dims::from([rows.min(columns)]),
        strides: Strides::from([(columns as isize).saturating_add(1)]),
        offset: 0,
    };
    crate::backend::copy::fill(out.with_layout(diagonal).raw(), 1i64.into())?;
    Ok(out)
}

/// The sum of the diagonal of a matrix.
fn trace_impl(t: &Tensor) -> Result<Tensor> {
    ensure!(t.rank() == 2, Runtime, "trace: expected a matrix, but got a tensor with {} dims", t.rank());
    t.expect_common("trace")?;
    let (rows, columns) = (t.shape()[0], t.shape()[1]);
    let diagonal = Layout {
        shape: Dims::from([rows.min(columns)]),
        strides: Strides::from([t.strides()[0].saturating_add(t.strides()[1])]),
        offset: t.layout().offset,
    };
    let out = sum_mask(&t.with_layout(diagonal), 1, false, None)?;
    record(out, &[t], |_| TraceBackward { rows, columns })
}

struct TraceBackward {
    rows: usize,
    columns: usize,
}

impl Function for TraceBackward {
    fn name(&self) -> &'static str {
        "TraceBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(arith::mul(g, &identity(self.rows, self.columns, g)?)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
    }
}

/// The cross product of three-element vectors along `dim`.
fn cross_product(x: &Tensor, y: &Tensor, dim: usize) -> Result<Tensor> {
    let shape = crate::layout::broadcast("linalg.cross", x.shape(), y.shape())?;
    let (x, y) = (view::expand_to(x, &shape)?, view::expand_to(y, &shape)?);
    let (a, b) = (x.detach(), y.detach());
    let recorded = |out| {
        record(out, &[&x, &y], |_| CrossBackward {
            x: SavedTensor::input(&x),
            y: SavedTensor::input(&y),
            dim,
        })
    };
    if let Some(out) = dense_cross_product(&a, &b, dim)? {
        return recorded(out);
    }
    // With its first two elements after it, a vector that begins one or two elements later is a part.
    let repeated = |t: &Tensor| join::cat(&[t.clone(), view::cut::narrow(t, dim as i64, 0, 2)?], dim as i64);
    let (a, b) = (repeated(&a)?, repeated(&b)?);
    let turned = |t: &Tensor, by: i64| view::cut::narrow(t, dim as i64, by, 3);
    let left = arith::mul(&turned(&a, 1)?, &turned(&b, 2)?)?;
    let right = arith::mul(&turned(&a, 2)?, &turned(&b, 1)?)?;
    recorded(arith::sub(&left, &right)?)
}

/// The cross product of tensors of one shape by one kernel; None where there is none.
fn dense_cross_product(x: &Tensor, y: &Tensor, dim: usize) -> Result<Option<Tensor>> {
    let alike = x.device() == y.device() && x.dtype() == y.dtype() && !x.is_hosted() && !y.is_hosted();
    if !alike || !cross::crosses(x.device(), x.dtype())? {
        return Ok(None);
    }
    let (x, y) = (x.as_dense(x.dtype())?, y.as_dense(y.dtype())?);
    let out = Tensor::empty_on(x.shape().clone(), x.dtype(), x.device())?;
    cross::cross(x.raw(), y.raw(), ReduceDims::of(x.shape(), dim..dim + 1), out.raw())?;
    Ok(Some(out))
}

struct CrossBackward {
    x: SavedTensor,
    y: SavedTensor,
    dim: usize,
}

impl Function for CrossBackward {
    fn name(&self) -> &'static str {
        "LinalgCrossBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let dx = if cx.needs(0) { Some(cross_product(&self.y.get(cx)?, g, self.dim)?) } else { None };
        let dy = if cx.needs(1) { Some(cross_product(g, &self.x.get(cx)?, self.dim)?) } else { None };
        Ok(smallvec![dx, dy])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.x);
        visit("other", &self.y);
    }
}

fn linalg_cross(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(x.rank() == y.rank(), Runtime, "linalg.cross: inputs must have the same number of dimensions.");
    let dim = wrap_dim(a.int(2)?, x.rank())?;
    let size = |t: &Tensor| t.shape().get(dim).copied().unwrap_or(1);
    ensure!(
        size(x) == 3 && size(y) == 3,
        Runtime,
        "linalg.cross: inputs dimension {} must have length 3. Got {} and {}",
        a.int(2)?,
        size(x),
        size(y)
    );
    Ok(cross_product(x, y, dim)?.into())
}

static CROSS_WARNED: AtomicBool = AtomicBool::new(false);

/// `torch.cross`; without `dim` it uses the first dimension of size 3.
fn cross(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let dim = match a.opt_int(2)? {
        Some(d) => d,
        None => {
            let three = x.shape().iter().position(|&n| n == 3);
            ensure!(three.is_some(), Runtime, "no dimension of size 3 in input");
            warn_once(
                &CROSS_WARNED,
                "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or \
                 simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in \
                 a future release.",
            )?;
            three.unwrap_or(0) as i64
        }
    };
    ensure!(x.rank() == y.rank(), Runtime, "linalg.cross: inputs must have the same number of dimensions.");
    let wrapped = wrap_dim(dim, x.rank())?;
    let size = |t: &Tensor| t.shape().get(wrapped).copied().unwrap_or(1);
    ensure!(
        size(x) == 3 && size(y) == 3,
        Runtime,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        size(x),
        size(y)
    );
    if x.dtype() == DType::Bool {
        bail!(Error::DtypeNotImplemented { op: "cross", dtype: DType::Bool });
    }
    x.expect_common("cross")?;
    Ok(cross_product(x, y, wrapped)?.into())
}

/// The sum of products of two tensors along `dim`.
fn vecdot(a: &Args) -> Result<Out> {
    let product = arith::mul(a.tensor(0)?, a.tensor(1)?)?;
    let mask = reduce::dim_mask(Some(&[a.int(2)?]), product.rank())?;
    Ok(sum_mask(&product, mask, false, Some(product.dtype()))?.into())
}

/// `beta * input + alpha * product`, computed in float32 or wider, so that half types are rounded only once.
fn add_scaled(a: &Args, product: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Out> {
    let inputs = [a.tensor(0)?, a.tensor(1)?, a.tensor(2)?];
    let one_dtype = inputs.iter().all(|t| t.dtype() == inputs[0].dtype() && t.dtype().is_float());
    if !one_dtype || !grad_enabled() || inputs.iter().all(|t| !t.requires_grad()) {
        return Ok(scaled_sum(a, inputs, product)?.into());
    }
    let plain = ModeGuard::grad(false);
    let out = scaled_sum(a, inputs, product)?;
    drop(plain);
    Ok(matmul::record_added(a.name, out, inputs, a.number(3)?, a.number(4)?)?.into())
}

fn scaled_sum(
    a: &Args,
    [input, x, y]: [&Tensor; 3],
    product: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let result = super::pointwise::result_type(&[input.into(), x.into(), y.into()])?;
    let wide = |t: &Tensor| if t.dtype().is_half() { arith::to_dtype(t, DType::F32) } else { Ok(t.clone()) };
    let (input, product) = (wide(input)?, product(&wide(x)?, &wide(y)?)?);
    // For integer tensors the factors are converted to integers.
    let factor = |i: usize| -> Result<Scalar> {
        let v = a.number(i)?;
        Ok(match result.category() {
            0 => Scalar::Bool(!v.is_zero()),
            1 => Scalar::Int(v.to_i64()),
            _ => v,
        })
    };
    let (beta, alpha) = (factor(3)?, factor(4)?);
    let times = |t: &Tensor, by: Scalar| {
        if by.to_f64() == 1.0 { Ok(t.clone()) } else { rows::mul.call(&[t.into(), by.into()], &[]) }
    };
    let product = times(&product, alpha)?;
    let shape = crate::layout::broadcast(a.name, input.shape(), product.shape())?;
    ensure!(
        shape == *product.shape(),
        Runtime,
        "The expanded size of the tensor {} must match the existing size {} ({})",
        product.shape(),
        input.shape(),
        a.name
    );
    let out = if beta.is_zero() {
        // With `beta` 0, `input` must not propagate NaN, but is still part of the history.
        let never = Tensor::scalar(false, DType::Bool)?;
        rows::select_where.call(&[(&never).into(), (&input).into(), (&product).into()], &[])?
    } else {
        arith::add(&times(&input, beta)?, &product)?
    };
    arith::to_dtype(&out, result)
}

fn addmv(a: &Args) -> Result<Out> {
    add_scaled(a, matmul::mv)
}

fn addbmm(a: &Args) -> Result<Out> {
    add_scaled(a, |x, y| {
        let products = matmul::bmm(x, y)?;
        sum_mask(&products, 1, false, Some(products.dtype()))
    })
}

fn addr(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(1)?, a.tensor(2)?);
    ensure!(x.rank() == 1, Runtime, "addr: Expected 1-D argument vec1, but got {}-D", x.rank());
    ensure!(y.rank() == 1, Runtime, "addr: Expected 1-D argument vec2, but got {}-D", y.rank());
    let result = super::pointwise::result_type(&[a.tensor(0)?.into(), x.into(), y.into()])?;
    arith::expect_factor("beta", a.number(3)?, result)?;
    arith::expect_factor("alpha", a.number(4)?, result)?;
    add_scaled(a, products::outer_product)
}

/// Row and column indices of a triangle of a `rows` by `columns` matrix, as a matrix with two rows.
fn triangle_indices(a: &Args, lower: bool) -> Result<Out> {
    let (rows, columns, offset) = (a.int(0)?, a.int(1)?, a.int(2)?);
    ensure!(rows >= 0, Runtime, "row must be non-negative, got{rows}");
    ensure!(columns >= 0, Runtime, "col must be non-negative, got{columns}");
    let dtype = a.opt_dtype(3)?.unwrap_or(DType::I64);
    // The columns of row i that are in the triangle.
    let inside = |i: i64| {
        let diagonal = i as i128 + offset as i128;
        let split = |at: i128| at.clamp(0, columns as i128) as i64;
        if lower { 0..split(diagonal + 1) } else { split(diagonal)..columns }
    };
    let n = triangle_size(rows, columns, offset, lower);
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    expect_room::<i64>(n.saturating_mul(2))?;
    let (mut is, mut js) = (empty_vec(2 * n)?, empty_vec(n)?);
    // Rows without such columns are all at the top or all at the bottom.
    let first = if lower { offset.saturating_neg() } else { 0 }.clamp(0, rows);
    for i in (first..rows).take_while(|&i| !inside(i).is_empty()) {
        is.extend(inside(i).map(|_| i));
        js.extend(inside(i));
    }
    is.append(&mut js);
    Ok(Tensor::from_slice(&is, [2, n])?.dense(dtype)?.into())
}

/// The number of elements on and below (or on and above) diagonal `offset` of a `rows` by `columns` matrix.
fn triangle_size(rows: i64, columns: i64, offset: i64, lower: bool) -> u128 {
    let (rows, columns, offset) = (rows as i128, columns as i128, offset as i128);
    // From top to bottom the number of elements per row increases by one, from none to all columns.
    let below = |offset: i128| -> u128 {
        let first = (-offset).clamp(0, rows);
        let full = (columns - offset).clamp(first, rows);
        let growing = full - first;
        let sum = growing * (first + offset) + growing * (growing + 1) / 2;
        sum as u128 + (rows - full) as u128 * columns as u128
    };
    if lower { below(offset) } else { rows as u128 * columns as u128 - below(offset - 1) }
}
