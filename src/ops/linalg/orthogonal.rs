//! Orthogonal factorizations: QR and eigenvectors of symmetric matrices.

use smallvec::smallvec;

use super::factor::{Packed, expect_float, expect_matrices, expect_square, size, solution, transposed};
use super::{identity, triangle};
use crate::backend::factor::Factor;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record_all};
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, join, matmul, view};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// A diagonal matrix for each row of `t`.
fn diagonal(t: &Tensor) -> Result<Tensor> {
    let n = t.shape()[t.rank() - 1];
    arith::mul(&view::unsqueeze(t, -1)?, &identity(n, n, t)?)
}

// ---- inverses and solutions

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reduced,
    Complete,
    /// Only R.
    R,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Reduced => "reduced",
            Mode::Complete => "complete",
            Mode::R => "r",
        }
    }
}

fn qr(a: &Tensor, mode: Mode) -> Result<Vec<Tensor>> {
    let op = "linalg.qr";
    expect_matrices(op, a, "A")?;
    expect_float(op, a, Some("geqrf_cpu"))?;
    let ((m, n), k) = (size(a), size(a).0.min(size(a).1));
    let (columns, rows) = match mode {
        Mode::Reduced => (k, k),
        Mode::Complete => (m, m),
        Mode::R => (0, k),
    };
    let found = Packed::of(op, Factor::Qr { m, q: columns, r: rows }, a, None)?;
    let q = if mode == Mode::R { a.new_empty([0])? } else { found.part(0, &[m, columns], true)? };
    let r = found.part(m * columns, &[rows, n], true)?;
    record_all(vec![q, r], &[a], |o| Qr {
        q: SavedTensor::output(&o[0]),
        r: SavedTensor::numbered_output(&o[1], 1),
        mode,
    })
}

struct Qr {
    q: SavedTensor,
    r: SavedTensor,
    mode: Mode,
}

/// The derivative for square R: `(gQ + Q S) R⁻ᵀ`, where S is the lower triangle of `R gRᵀ - gQᵀ Q`, symmetrized.
fn qr_square(q: &Tensor, r: &Tensor, gq: Option<&Tensor>, gr: Option<&Tensor>) -> Result<Tensor> {
    let by_r = gr.map(|g| matmul::matmul(r, &transposed(g)?)).transpose()?;
    let by_q = gq.map(|g| matmul::matmul(&transposed(g)?, q)).transpose()?;
    let core = match (by_r, by_q) {
        (Some(r), Some(q)) => arith::sub(&r, &q)?,
        (Some(r), None) => r,
        (None, Some(q)) => arith::neg(&q)?,
        (None, None) => return arith::mul(q, 0.0),
    };
    let mirrored = arith::add(&triangle(&core, 0, true)?, &transposed(&triangle(&core, -1, true)?)?)?;
    let mut g = matmul::matmul(q, &mirrored)?;
    if let Some(gq) = gq {
        g = arith::add(&g, gq)?;
    }
    let what = Factor::Triangular { k: size(&g).0, upper: true, unit: false };
    transposed(&solution("linalg.solve_triangular", what, r, &transposed(&g)?)?)
}

impl Function for Qr {
    fn name(&self) -> &'static str {
        "LinalgQrBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        ensure!(
            self.mode != Mode::R,
            Runtime,
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, \
             mode='reduced') if you are going to differentiate through linalg.qr."
        );
        let (q, r) = (self.q.get(cx)?, self.r.get(cx)?);
        let ((m, _), (k, n)) = (size(&q), size(&r));
        ensure!(
            self.mode == Mode::Reduced || m <= n,
            Runtime,
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        );
        let (gq, gr) = (grads[0].as_ref(), grads[1].as_ref());
        if n <= k {
            return Ok(smallvec![Some(qr_square(&q, &r, gq, gr)?)]);
        }
        // For a wide matrix the first columns determine Q, and the remaining ones are Q times their part of R.
        let cut =
            |t: &Tensor, start: usize, length: usize| view::cut::narrow(t, -1, start as i64, length as i64);
        let (first, rest) = (cut(&r, 0, k)?, cut(&r, k, n - k)?);
        let Some(gr) = gr else {
            let g = qr_square(&q, &first, gq, None)?;
            let zeros = arith::mul(&matmul::matmul(&q, &rest)?, 0.0)?;
            return Ok(smallvec![Some(join::cat(&[g, zeros], -1)?)]);
        };
        let (by_first, by_rest) = (cut(gr, 0, k)?, cut(gr, k, n - k)?);
        let more = matmul::matmul(&matmul::matmul(&q, &rest)?, &transposed(&by_rest)?)?;
        let gq = gq.map_or(Ok(more.clone()), |g| arith::add(g, &more))?;
        let g = qr_square(&q, &first, Some(&gq), Some(&by_first))?;
        Ok(smallvec![Some(join::cat(&[g, matmul::matmul(&q, &by_rest)?], -1)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("Q", &self.q);
        visit("R", &self.r);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("mode", Attribute::Text(self.mode.name()));
    }
}

// ---- eigenvectors

fn eigh(a: &Tensor, side: &str) -> Result<Vec<Tensor>> {
    let op = "linalg.eigh";
    let n = expect_square(op, a)?;
    ensure!(
        matches!(side, "L" | "U" | "l" | "u"),
        Runtime,
        "Expected UPLO argument to be 'L' or 'U', but got {side}"
    );
    if !a.dtype().is_float() || a.dtype().is_half() {
        bail!(Error::DtypeNotImplemented { op: "linalg_eigh_cpu", dtype: a.dtype() });
    }
    let plain = a.detach();
    let low = triangle(&if matches!(side, "U" | "u") { transposed(&plain)? } else { plain }, 0, true)?;
    let whole = arith::add(&low, &transposed(&triangle(&low, -1, true)?)?)?;
    let found = Packed::of(op, Factor::Eigh, &whole, None)?;
    if found.ends().contains(&0.0) {
        bail!(
            LinAlg,
            "{op}: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {}).",
            n.saturating_sub(1)
        );
    }
    let out = vec![found.part(0, &[n], false)?, found.part(n, &[n, n], true)?];
    record_all(out, &[a], |o| Eigh {
        values: SavedTensor::output(&o[0]),
        vectors: SavedTensor::numbered_output(&o[1], 1),
    })
}

struct Eigh {
    values: SavedTensor,
    vectors: SavedTensor,
}

impl Function for Eigh {
    fn name(&self) -> &'static str {
        "LinalgEighBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let (values, v) = (self.values.get(cx)?, self.vectors.get(cx)?);
        let turned = transposed(&v)?;
        let by_values = grads[0].as_ref().map(diagonal).transpose()?;
        let mut core = by_values;
        if let Some(g) = &grads[1] {
            let n = size(&v).1;
            let apart = arith::sub(&view::unsqueeze(&values, -2)?, &view::unsqueeze(&values, -1)?)?;
            let one = identity(n, n, &v)?;
            let turn = matmul::matmul(&turned, g)?;
            let skew = arith::mul(&arith::sub(&turn, &transposed(&turn)?)?, 0.5)?;
            let off = arith::div(&skew, &arith::add(&apart, &one)?)?;
            core = Some(core.map_or(Ok(off.clone()), |c| arith::add(&c, &off))?);
        }
        let Some(core) = core else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(matmul::matmul(&matmul::matmul(&v, &core)?, &turned)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("eigenvalues", &self.values);
        visit("eigenvectors", &self.vectors);
    }
}

fn eigh_op(a: &Args) -> Result<Out> {
    Ok(Out::Named("linalg_eigh", &["eigenvalues", "eigenvectors"], eigh(a.tensor(0)?, a.str(1)?)?))
}

fn qr_op(a: &Args) -> Result<Out> {
    let mode = match a.str(1)? {
        "reduced" => Mode::Reduced,
        "complete" => Mode::Complete,
        "r" => Mode::R,
        other => bail!(
            Runtime,
            "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
        ),
    };
    Ok(Out::Named("linalg_qr", &["Q", "R"], qr(a.tensor(0)?, mode)?))
}

fn torch_qr(a: &Args) -> Result<Out> {
    let mode = if a.bool(1)? { Mode::Reduced } else { Mode::Complete };
    Ok(Out::Named("qr", &["Q", "R"], qr(a.tensor(0)?, mode)?))
}

ops! {
    /// Orthogonal columns Q and a triangle R with `Q R = A`.
    "qr" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor] => qr_op;
    }
    /// Orthogonal columns Q and a triangle R with `Q R = A`.
    "qr" BOTH, batch MATRICES {
        (input: Tensor, some: bool = True) -> tuple[Tensor, Tensor] => torch_qr;
    }
    /// The eigenvalues of each symmetric matrix in ascending order, and its eigenvectors as columns.
    "eigh" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor] => eigh_op;
    }
    /// The eigenvalues of each symmetric matrix in ascending order.
    "eigvalsh" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor, UPLO: str = "L") => |a| Ok(eigh(a.tensor(0)?, a.str(1)?)?.swap_remove(0).into());
    }
}
