//! Products of two tensors: outer, inner, Kronecker, contractions.

use crate::error::Result;
use crate::layout::{Dims, wrap_dim};
use crate::ops::reduce::sum_mask;
use crate::ops::schema::{Args, Out, Value};
use crate::ops::{arith, matmul, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

pub(super) fn outer_product(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    arith::mul(&view::reshape_to(x, &Dims::from([x.numel(), 1]))?, y)
}

pub(super) fn outer(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(x.rank() == 1, Runtime, "outer: Expected 1-D argument self, but got {}-D", x.rank());
    ensure!(y.rank() == 1, Runtime, "outer: Expected 1-D argument vec2, but got {}-D", y.rank());
    Ok(outer_product(x, y)?.into())
}

/// Sums of products over the last dimensions, for all pairs of rows.
pub(super) fn inner(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    if x.rank() == 0 || y.rank() == 0 {
        return Ok(arith::mul(x, y)?.into());
    }
    let (n, m) = (x.shape()[x.rank() - 1], y.shape()[y.rank() - 1]);
    ensure!(
        n == m,
        Runtime,
        "inner() the last dimension must match on both input tensors but got shapes {} and {}",
        x.shape(),
        y.shape()
    );
    Ok(contract(x, y, &[x.rank() - 1], &[y.rank() - 1])?.into())
}

pub(super) fn vdot(a: &Args) -> Result<Out> {
    Ok(matmul::dot(a.tensor(0)?, a.tensor(1)?)?.into())
}

/// Each element of the first times the whole of the second, block by block.
pub(super) fn kron(a: &Args) -> Result<Out> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let rank = x.rank().max(y.rank());
    let size = |t: &Tensor, d: usize| if d + t.rank() < rank { 1 } else { t.shape()[d + t.rank() - rank] };
    let (mut left, mut right, mut whole) = (Dims::default(), Dims::default(), Dims::default());
    for d in 0..rank {
        let (m, n) = (size(x, d), size(y, d));
        left.extend([m, 1]);
        right.extend([1, n]);
        whole.push(m.saturating_mul(n));
    }
    let blocks = arith::mul(&view::reshape_to(x, &left)?, &view::reshape_to(y, &right)?)?;
    Ok(view::reshape_to(&blocks, &whole)?.into())
}

/// The sum of products over dimensions `xs` of `x` and `ys` of `y`, computed as one matrix product.
pub(super) fn contract(x: &Tensor, y: &Tensor, xs: &[usize], ys: &[usize]) -> Result<Tensor> {
    let free =
        |t: &Tensor, summed: &[usize]| (0..t.rank()).filter(|d| !summed.contains(d)).collect::<Vec<_>>();
    let (fx, fy) = (free(x, xs), free(y, ys));
    let order = |a: &[usize], b: &[usize]| a.iter().chain(b).copied().collect::<Vec<_>>();
    let size = |t: &Tensor, dims: &[usize]| dims.iter().map(|&d| t.shape()[d]).product::<usize>();
    let left = view::permute_dims(x, &order(&fx, xs), "PermuteBackward0")?;
    let right = view::permute_dims(y, &order(ys, &fy), "PermuteBackward0")?;
    let left = view::reshape_to(&left, &Dims::from([size(x, &fx), size(x, xs)]))?;
    let right = view::reshape_to(&right, &Dims::from([size(y, ys), size(y, &fy)]))?;
    let shape = fx.iter().map(|&d| x.shape()[d]).chain(fy.iter().map(|&d| y.shape()[d])).collect();
    view::reshape_to(&matmul::mm(&left, &right)?, &shape)
}

/// The sum of products over pairs of dimensions.
pub(super) fn tensordot_impl(x: &Tensor, y: &Tensor, xs: &[i64], ys: &[i64]) -> Result<Tensor> {
    ensure!(xs.len() == ys.len(), Runtime, "both dimension lists should have same length");
    let wrap =
        |t: &Tensor, dims: &[i64]| dims.iter().map(|&d| wrap_dim(d, t.rank())).collect::<Result<Vec<_>>>();
    for (t, dims) in [(x, xs), (y, ys)] {
        // A dimension of a 0-d tensor may be named otherwise; here it has no size.
        ensure!(
            t.rank() > 0 || dims.is_empty(),
            Index,
            "Dimension specified as {} but tensor has no dimensions",
            dims[0]
        );
    }
    let (xs, ys) = (wrap(x, xs)?, wrap(y, ys)?);
    let (mut x, mut y) = (x.clone(), y.clone());
    for (&i, &j) in xs.iter().zip(&ys) {
        // A dimension of size 1 is broadcast: the other tensor is summed over its dimension.
        let summed = |t: &Tensor, d: usize| sum_mask(t, 1 << d, true, Some(t.dtype()));
        match (x.shape()[i], y.shape()[j]) {
            (1, n) if n != 1 => y = summed(&y, j)?,
            (n, 1) if n != 1 => x = summed(&x, i)?,
            _ => {}
        }
        ensure!(
            x.shape()[i] == y.shape()[j],
            Runtime,
            "contracted dimensions need to match, but first has size {} in dim {i} and second has size {} in dim {j}",
            x.shape()[i],
            y.shape()[j]
        );
    }
    contract(&x, &y, &xs, &ys)
}

/// `tensordot` over `n` dimensions: the last ones of the first tensor and the first ones of the second.
pub(super) fn tensordot_count(a: &Args) -> Result<Out> {
    let (x, y, n) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?);
    ensure!(n >= 0, Runtime, "tensordot expects dims >= 0, but got dims={n}");
    ensure!(
        n as usize <= x.rank().min(y.rank()),
        Runtime,
        "tensordot expects dims < ndim_a or ndim_b, but got dims={n}"
    );
    let first = x.rank() as i64 - n;
    let (xs, ys): (Vec<i64>, Vec<i64>) = ((first..first + n).collect(), (0..n).collect());
    Ok(tensordot_impl(x, y, &xs, &ys)?.into())
}

/// The matrix product of a list of matrices, from the left.
pub(super) fn chain_matmul(a: &Args) -> Result<Out> {
    let Value::Tensors(matrices) = &a.values[0] else {
        bail!(Type, "chain_matmul(): argument 'matrices' must be tuple of Tensors")
    };
    let Some((first, rest)) = matrices.split_first() else {
        bail!(Runtime, "chain_matmul(): Expected one or more matrices")
    };
    let mut product = first.clone();
    for m in rest {
        product = matmul::mm(&product, m)?;
    }
    Ok(product.into())
}
