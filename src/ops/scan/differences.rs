//! Differences of adjacent elements, and integration by the trapezoidal rule.

use super::cumsum;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::layout::{Dims, wrap_dim};
use crate::ops::pointwise::Arg;
use crate::ops::reduce::{dim_mask, sum_mask};
use crate::ops::schema::{Args, Out};
use crate::ops::view::cut::narrow;
use crate::ops::{arith, join, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// The elements without the last, and without the first, along `dim`.
fn neighbours(t: &Tensor, dim: usize) -> Result<(Tensor, Tensor)> {
    let (d, n) = (dim as i64, t.shape()[dim].saturating_sub(1) as i64);
    let start = (t.shape()[dim] as i64).min(1);
    Ok((narrow(t, d, 0, n)?, narrow(t, d, start, n)?))
}

/// The `n`-th difference along `dim`.
pub(super) fn diff(a: &Args) -> Result<Out> {
    let (t, n) = (a.tensor(0)?, a.int(1)?);
    ensure!(t.rank() > 0, Runtime, "diff expects input to be at least one-dimensional");
    ensure!(n >= 0, Runtime, "order must be non-negative but got {n}");
    let dim = wrap_dim(a.int(2)?, t.rank())?;
    if n == 0 {
        return Ok(arith::clone(t)?.into());
    }
    let mut parts = Vec::new();
    for extra in [a.opt_tensor(3)?, Some(t), a.opt_tensor(4)?].into_iter().flatten() {
        ensure!(
            extra.rank() == t.rank(),
            Runtime,
            "diff expects prepend or append to be the same dimension as input"
        );
        if let Some(d) = (0..t.rank()).find(|&d| d != dim && extra.shape()[d] != t.shape()[d]) {
            bail!(
                Runtime,
                "diff expects the shape of tensor to prepend or append to match that of input except along the \
                 differencing dimension; input.size({d}) = {}, but got tensor.size({d}) = {}",
                t.shape()[d],
                extra.shape()[d]
            );
        }
        parts.push(extra.clone());
    }
    let mut out = if parts.len() == 1 { t.clone() } else { join::cat(&parts, dim as i64)? };
    for _ in 0..n.min(out.shape()[dim].max(1) as i64) {
        let (left, right) = neighbours(&out, dim)?;
        out = if out.dtype() == DType::Bool {
            rows::logical_xor.call(&[(&right).into(), (&left).into()], &[])?
        } else {
            arith::sub(&right, &left)?
        };
    }
    Ok(out.into())
}

/// The widths of the trapezoids: differences of `x` along `dim`, shaped to broadcast with `y`.
fn widths(op: &str, y: &Tensor, x: &Tensor, dim: usize) -> Result<Tensor> {
    let mut shape = Dims::from(&vec![1; y.rank()][..]);
    let x = if x.rank() == 1 {
        ensure!(
            x.numel() == y.shape()[dim],
            Runtime,
            "{op}: There must be one `x` value for each sample point"
        );
        shape[dim] = x.numel();
        view::reshape_to(x, &shape)?
    } else if x.rank() < y.rank() {
        let lead = y.rank() - x.rank();
        shape[lead..].copy_from_slice(x.shape());
        view::reshape_to(x, &shape)?
    } else {
        x.clone()
    };
    let (left, right) = neighbours(&x, dim)?;
    arith::sub(&right, &left)
}

/// Twice the areas of the trapezoids between adjacent elements of `y`.
fn doubled_areas(op: &str, a: &Args, by_x: bool) -> Result<(Tensor, usize)> {
    let y = a.tensor(0)?;
    ensure!(
        y.dtype() != DType::Bool,
        Runtime,
        "{op}: received a bool input for `y`, but bool is not supported"
    );
    let dim = wrap_dim(a.int(2)?, y.rank())?;
    let (left, right) = neighbours(y, dim)?;
    let heights = arith::add(&left, &right)?;
    let width;
    let width: Arg = if by_x {
        width = widths(op, y, a.tensor(1)?, dim)?;
        Arg::T(&width)
    } else {
        Arg::S(a.number(1)?)
    };
    Ok((arith::mul(&heights, width)?, dim))
}

/// The integral of `y` along `dim`.
pub(super) fn trapezoid(a: &Args, by_x: bool) -> Result<Out> {
    let y = a.tensor(0)?;
    if y.size(a.int(2)?)? == 0 {
        return Ok(sum_mask(y, dim_mask(Some(&[a.int(2)?]), y.rank())?, false, Some(y.dtype()))?.into());
    }
    let (areas, dim) = doubled_areas("trapezoid", a, by_x)?;
    let sum = sum_mask(&areas, 1 << dim, false, None)?;
    Ok(rows::div.call(&[(&sum).into(), Scalar::Float(2.0).into()], &[])?.into())
}

/// The cumulative integrals of `y` along `dim`.
pub(super) fn cumulative_trapezoid(a: &Args, by_x: bool) -> Result<Out> {
    ensure!(a.tensor(0)?.rank() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    let (areas, dim) = doubled_areas("cumulative_trapezoid", a, by_x)?;
    let sums = cumsum(&areas, dim, None)?;
    Ok(rows::div.call(&[(&sums).into(), Scalar::Float(2.0).into()], &[])?.into())
}
