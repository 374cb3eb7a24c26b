//! Singular value decomposition, singular values, rank.

use smallvec::smallvec;

use crate::backend::copy;
use crate::backend::svd::{self as kernel, Matrices};
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record_all};
use crate::layout::{Dims, Layout, Strides};
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, matmul, reduce, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// Errors unless `t` is a batch of floating point matrices.
fn expect_matrices(t: &Tensor, op: &str) -> Result<()> {
    ensure!(t.rank() >= 2, Runtime, "{op}: The input tensor A must have at least 2 dimensions.");
    ensure!(
        t.dtype().is_float(),
        NotImplemented,
        "{op}: Expected a floating point or complex tensor as input. Got {}",
        t.dtype().scalar_name()
    );
    if t.dtype().is_half() {
        bail!(Error::DtypeNotImplemented { op: "linalg_svd_cpu", dtype: t.dtype() });
    }
    Ok(())
}

/// Which singular vectors to compute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vectors {
    No,
    /// As many as singular values.
    Thin,
    /// A complete basis.
    Full,
}

/// U, S and the transpose of V, without history.
fn factors(t: &Tensor, vectors: Vectors) -> Result<[Tensor; 3]> {
    let rank = t.rank();
    let (m, n) = (t.shape()[rank - 2], t.shape()[rank - 1]);
    let (long, k) = (m.max(n), m.min(n));
    let counts = match vectors {
        Vectors::No => (0, 0),
        Vectors::Thin => (k, k),
        Vectors::Full => (long, k),
    };
    // Column-major, transposed if needed such that columns are the longer dimension.
    let tall = if m >= n { view::swap(&t.detach(), rank - 2, rank - 1)? } else { t.detach() };
    let compute = kernel::compute_type(tall.raw())?;
    let tall = tall.dense(compute)?;
    let finite = rows::isfinite.call(&[(&tall).into()], &[])?;
    ensure!(
        !reduce::all(&finite, None, false)?.item()?.is_zero(),
        LinAlg,
        "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
    );
    let batch = Dims::from(&t.shape()[..rank - 2]);
    let matrices = Matrices { count: batch.numel(), rows: long, columns: k, left: counts.0, right: counts.1 };
    // Each result contains the long vectors, the values and the short vectors.
    let (values, short, each) = (counts.0 * long, counts.0 * long + k, matrices.each());
    let packed = tall.new_empty([batch.numel(), each])?;
    kernel::decompose(&matrices, tall.raw(), packed.raw())?;
    // Vectors of U and V are stored contiguously: U is column-major and the transpose of V row-major.
    let part = |offset: usize, shape: &[usize], strides: &[isize]| -> Result<Tensor> {
        let outer = batch.contiguous_strides().iter().map(|s| s * each as isize).collect::<Vec<_>>();
        let layout = Layout {
            shape: batch.iter().chain(shape).copied().collect(),
            strides: outer.iter().chain(strides).copied().collect::<Strides>(),
            offset,
        };
        let from = packed.with_layout(layout);
        let mut layout = Layout::contiguous(from.shape().clone());
        if let [rows, _] = shape {
            // Column-major, like the results of other factorizations.
            (layout.strides[rank - 2], layout.strides[rank - 1]) = (1, (*rows).max(1) as isize);
        }
        let out = Tensor::empty_dense(layout, t.dtype(), t.device())?;
        copy::copy(from.raw(), out.raw())?;
        Ok(out)
    };
    let (step, long_step) = (k as isize, long as isize);
    let [u, v] = if m >= n {
        [part(0, &[m, counts.0], &[1, long_step])?, part(short, &[counts.1, n], &[step, 1])?]
    } else {
        [part(short, &[m, counts.1], &[1, step])?, part(0, &[counts.0, n], &[long_step, 1])?]
    };
    Ok([u, part(values, &[k], &[1])?, v])
}

/// U, S and the transpose of V, of each matrix.
pub fn svd(t: &Tensor, full: bool) -> Result<[Tensor; 3]> {
    expect_matrices(t, "linalg.svd")?;
    let out = factors(t, if full { Vectors::Full } else { Vectors::Thin })?;
    with_history(t, out)
}

/// The singular values of each matrix, in descending order.
pub(super) fn svdvals_impl(t: &Tensor) -> Result<Tensor> {
    expect_matrices(t, "linalg.svd")?;
    let tracked = grad_enabled() && t.requires_grad();
    let [_, s, _] = with_history(t, factors(t, if tracked { Vectors::Thin } else { Vectors::No })?)?;
    Ok(s)
}

fn with_history(t: &Tensor, out: [Tensor; 3]) -> Result<[Tensor; 3]> {
    let out = record_all(out.into(), &[t], |o| SvdBackward {
        u: SavedTensor::output(&o[0]),
        s: SavedTensor::numbered_output(&o[1], 1),
        vh: SavedTensor::numbered_output(&o[2], 2),
    })?;
    out.try_into().map_err(|_| Error::Runtime("linalg.svd: three results were recorded".into()))
}

struct SvdBackward {
    u: SavedTensor,
    s: SavedTensor,
    vh: SavedTensor,
}

/// `t` transposed in its last two dimensions.
fn transposed(t: &Tensor) -> Result<Tensor> {
    view::swap(t, t.rank() - 2, t.rank() - 1)
}

/// `a - aᵀ`.
fn skew(a: &Tensor) -> Result<Tensor> {
    arith::sub(a, &transposed(a)?)
}

/// The first `k` indices of dimension `dim`, which is counted from the end.
fn first(t: &Tensor, dim: usize, k: usize) -> Result<Tensor> {
    let d = t.rank() - dim;
    if t.shape()[d] == k { Ok(t.clone()) } else { view::cut::narrow(t, d as i64, 0, k as i64) }
}

/// Note [The derivative of singular vectors] With `A = U S Vᵀ`, the gradient of `A` is `U (M + diag(gS)) Vᵀ`, plus
/// `(1 - U Uᵀ) gU S⁻¹ Vᵀ` for the part of `gU` outside the span of the vectors, and its mirror image for `gV`. `M` stems
/// from rotations of vectors into each other: off the diagonal `M = (skew(Uᵀ gU) S + S skew(Vᵀ gV)) / E`, where
/// `E_ij = s_j² - s_i²`, which is undefined if two singular values are equal.
fn turned(u: &Tensor, s: &Tensor, vh: &Tensor, gu: Option<&Tensor>, gvh: Option<&Tensor>) -> Result<Tensor> {
    let (row, column) = (view::unsqueeze(s, -2)?, view::unsqueeze(s, -1)?);
    let squares = arith::mul(s, s)?;
    let apart = arith::sub(&view::unsqueeze(&squares, -2)?, &view::unsqueeze(&squares, -1)?)?;
    let k = s.shape()[s.rank() - 1];
    // Ones on the diagonal, where the numerator is zero.
    let apart = arith::add(&apart, &super::identity(k, k, s)?)?;
    let by_u = gu.map(|g| arith::mul(&skew(&matmul::matmul(&transposed(u)?, g)?)?, &row)).transpose()?;
    let by_v = gvh.map(|g| arith::mul(&column, &skew(&matmul::matmul(vh, &transposed(g)?)?)?)).transpose()?;
    let sum = match (by_u, by_v) {
        (Some(a), Some(b)) => arith::add(&a, &b)?,
        (Some(a), None) | (None, Some(a)) => a,
        (None, None) => return arith::mul(&apart, 0.0),
    };
    arith::div(&sum, &apart)
}

impl Function for SvdBackward {
    fn name(&self) -> &'static str {
        "LinalgSvdBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let s = self.s.get(cx)?;
        let k = s.shape()[s.rank() - 1];
        let (u, vh) = (first(&self.u.get(cx)?, 1, k)?, first(&self.vh.get(cx)?, 2, k)?);
        let (m, n) = (u.shape()[u.rank() - 2], vh.shape()[vh.rank() - 1]);
        let gu = grads[0].as_ref().map(|g| first(g, 1, k)).transpose()?;
        let gvh = grads[2].as_ref().map(|g| first(g, 2, k)).transpose()?;
        let (gu, gvh) = (gu.as_ref(), gvh.as_ref());
        if gu.is_none() && gvh.is_none() {
            let Some(gs) = &grads[1] else { return Ok(smallvec![None]) };
            let scaled = arith::mul(&view::unsqueeze(gs, -1)?, &vh)?;
            return Ok(smallvec![Some(matmul::matmul(&u, &scaled)?)]);
        }
        let mut core = turned(&u, &s, &vh, gu, gvh)?;
        if let Some(gs) = &grads[1] {
            let eye = super::identity(k, k, gs)?;
            core = arith::add(&core, &arith::mul(&view::unsqueeze(gs, -1)?, &eye)?)?;
        }
        let g = match (gu, gvh) {
            (Some(gu), _) if m > n => {
                let steep = arith::div(gu, &view::unsqueeze(&s, -2)?)?;
                let inside = matmul::matmul(&transposed(&u)?, &steep)?;
                let left = arith::add(&matmul::matmul(&u, &arith::sub(&core, &inside)?)?, &steep)?;
                matmul::matmul(&left, &vh)?
            }
            (_, Some(gvh)) if m < n => {
                let steep = arith::div(gvh, &view::unsqueeze(&s, -1)?)?;
                let inside = matmul::matmul(&steep, &transposed(&vh)?)?;
                let right = arith::add(&matmul::matmul(&arith::sub(&core, &inside)?, &vh)?, &steep)?;
                matmul::matmul(&u, &right)?
            }
            _ => matmul::matmul(&u, &matmul::matmul(&core, &vh)?)?,
        };
        Ok(smallvec![Some(g)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("U", &self.u);
        visit("S", &self.s);
        visit("Vh", &self.vh);
    }
}

pub(super) fn linalg_svd(a: &Args) -> Result<Out> {
    expect_no_driver(a, 2, "linalg.svd")?;
    Ok(Out::Named("linalg_svd", &["U", "S", "Vh"], svd(a.tensor(0)?, a.bool(1)?)?.into()))
}

pub(super) fn linalg_svdvals(a: &Args) -> Result<Out> {
    expect_no_driver(a, 1, "linalg.svdvals")?;
    Ok(svdvals_impl(a.tensor(0)?)?.into())
}

fn expect_no_driver(a: &Args, at: usize, op: &str) -> Result<()> {
    ensure!(
        a.is_none(at),
        Runtime,
        "torch.{op}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    Ok(())
}

/// `torch.svd`: returns V itself rather than its transpose, and zeros in place of vectors that are not requested.
pub(super) fn torch_svd(a: &Args) -> Result<Out> {
    let (t, some, vectors) = (a.tensor(0)?, a.bool(1)?, a.bool(2)?);
    let found = if vectors {
        let [u, s, vh] = svd(t, !some)?;
        [u, s, transposed(&vh)?]
    } else {
        let s = super::svdvals(t)?;
        let square = |n: usize| {
            let shape: Dims = t.shape()[..t.rank() - 2].iter().copied().chain([n, n]).collect();
            t.new_zeros(shape)
        };
        [square(t.shape()[t.rank() - 2])?, s, square(t.shape()[t.rank() - 1])?]
    };
    Ok(Out::Named("svd", &["U", "S", "V"], found.into()))
}
