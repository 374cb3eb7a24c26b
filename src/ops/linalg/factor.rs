//! Operations based on LU and Cholesky factorizations: inverses, solutions, determinants.

use smallvec::smallvec;

use super::{identity, triangle};
use crate::backend::copy;
use crate::backend::factor::{self as kernel, Factor};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record_all};
use crate::layout::{Dims, Layout, Strides, broadcast};
use crate::ops::index::masked_fill;
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, matmul, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// Rows and columns.
pub(super) fn size(t: &Tensor) -> (usize, usize) {
    (t.shape()[t.rank() - 2], t.shape()[t.rank() - 1])
}

pub(super) fn expect_matrices(op: &str, t: &Tensor, name: &str) -> Result<()> {
    ensure!(t.rank() >= 2, Runtime, "{op}: The input tensor {name} must have at least 2 dimensions.");
    Ok(())
}

pub(super) fn expect_square(op: &str, t: &Tensor) -> Result<usize> {
    expect_matrices(op, t, "A")?;
    let (m, n) = size(t);
    ensure!(m == n, Runtime, "{op}: A must be batches of square matrices, but they are {m} by {n} matrices");
    Ok(n)
}

/// Errors unless there are kernels for the dtype; `low` is the name of PyTorch's kernel that lacks half types.
pub(super) fn expect_float(op: &str, t: &Tensor, low: Option<&'static str>) -> Result<()> {
    let name = t.dtype().scalar_name();
    ensure!(
        t.dtype().is_float(),
        NotImplemented,
        "{op}: Expected a floating point or complex tensor as input. Got {name}"
    );
    if t.dtype().is_half() {
        let Some(op) = low else {
            bail!(NotImplemented, "{op}: Low precision dtypes not supported. Got {name}");
        };
        bail!(Error::DtypeNotImplemented { op, dtype: t.dtype() });
    }
    Ok(())
}

/// The results of a batch of matrices, stored one after the other.
pub(super) struct Packed {
    all: Tensor,
    batch: Dims,
    each: usize,
    dtype: DType,
}

impl Packed {
    /// Factors `a`; each result starts with the elements of `right`.
    pub(super) fn of(op: &'static str, what: Factor, a: &Tensor, right: Option<&Tensor>) -> Result<Packed> {
        let (_, n) = size(a);
        let given = if let Factor::Qr { .. } = what { transposed(&a.detach())? } else { a.detach() };
        let batch = Dims::from(&a.shape()[..a.rank() - 2]);
        let each = what.each(n);
        let compute = kernel::compute_type(a.raw())?;
        let wide =
            if kernel::overwrites(a.raw())? { given.copied(compute)? } else { given.dense(compute)? };
        let all = wide.new_empty([batch.numel(), each])?;
        let out = Packed { all, batch, each, dtype: a.dtype() };
        if let Some(right) = right {
            copy::copy(right.detach().raw(), out.view(0, &right.shape()[right.rank() - 2..], false).raw())?;
        }
        kernel::factor(op, what, n, wide.raw(), out.all.raw())?;
        Ok(out)
    }

    /// Part of each result at `offset`; matrices may be column-major.
    pub(super) fn view(&self, offset: usize, shape: &[usize], by_columns: bool) -> Tensor {
        let outer = self.batch.contiguous_strides();
        let mut inner = Dims::from(shape).contiguous_strides();
        if let (true, [rows, _]) = (by_columns, shape) {
            (inner[0], inner[1]) = (1, *rows as isize);
        }
        let strides: Strides =
            outer.iter().map(|s| s * self.each as isize).chain(inner.iter().copied()).collect();
        let shape = self.batch.iter().chain(shape).copied().collect();
        self.all.with_layout(Layout { shape, strides, offset })
    }

    /// As `view`, copied to a new tensor; matrices are column-major, as in PyTorch.
    pub(super) fn part(&self, offset: usize, shape: &[usize], by_columns: bool) -> Result<Tensor> {
        let from = self.view(offset, shape, by_columns);
        let mut layout = Layout::contiguous(from.shape().clone());
        if let [rows, _] = shape {
            let rank = layout.rank();
            (layout.strides[rank - 2], layout.strides[rank - 1]) = (1, (*rows).max(1) as isize);
        }
        let out = Tensor::empty_dense(layout, self.dtype, from.device())?;
        copy::copy(from.raw(), out.raw())?;
        Ok(out)
    }

    /// The last number of each result, which indicates whether its factorization succeeded.
    pub(super) fn ends(&self) -> Vec<f64> {
        if self.all.numel() == 0 { vec![] } else { self.view(self.each - 1, &[], false).to_vec() }
    }

    /// The first failed factorization: its position in the batch, as in messages, and the number that it returned.
    fn failure(&self) -> Option<(String, usize)> {
        let ends = self.ends();
        let first = ends.iter().position(|&e| e != 0.0)?;
        let place = if self.batch.is_empty() { String::new() } else { format!("(Batch element {first}): ") };
        Some((place, ends[first] as usize))
    }
}

/// `t` with the last two dimensions exchanged.
pub(super) fn transposed(t: &Tensor) -> Result<Tensor> {
    view::swap(t, t.rank() - 2, t.rank() - 1)
}

/// Identity matrices in the shape of `t`.
pub(super) fn eye(t: &Tensor) -> Result<Tensor> {
    let n = size(t).1;
    view::expand_to(&identity(n, n, t)?, t.shape())
}

/// One number per matrix, expanded to multiply matrices.
fn as_factor(t: &Tensor) -> Result<Tensor> {
    view::unsqueeze(&view::unsqueeze(t, -1)?, -1)
}

/// The inverse of each matrix; with `lenient`, a singular matrix is perturbed.
fn inverse(op: &'static str, a: &Tensor, lenient: bool) -> Result<Tensor> {
    let n = expect_square(op, a)?;
    expect_float(op, a, None)?;
    let found = Packed::of(op, Factor::Solve { k: n, lenient }, a, Some(&eye(&a.detach())?))?;
    if let (false, Some((place, i))) = (lenient, found.failure()) {
        bail!(
            LinAlg,
            "{op}: {place}The diagonal element {i} is zero, the inversion could not be completed because the input matrix \
             is singular."
        );
    }
    let out = found.part(0, &[n, n], false)?;
    record_all(vec![out], &[a], |o| Inverse { out: SavedTensor::output(&o[0]) }).map(|mut o| o.swap_remove(0))
}

struct Inverse {
    out: SavedTensor,
}

impl Function for Inverse {
    fn name(&self) -> &'static str {
        "LinalgInvExBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let turned = transposed(&self.out.get(cx)?)?;
        let g = matmul::matmul(&turned, &matmul::matmul(g, &turned)?)?;
        Ok(smallvec![Some(arith::neg(&g)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("inverse", &self.out);
    }
}

/// `X` in `A X = B` for matrices with equal batch dimensions.
pub(super) fn solution(op: &'static str, what: Factor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (n, k) = size(b);
    let found = Packed::of(op, what, a, Some(b))?;
    ensure!(
        found.failure().is_none(),
        LinAlg,
        "{}The solver failed because the input matrix is singular.",
        found.failure().map_or(String::new(), |(place, _)| format!("torch.{op}: {place}"))
    );
    let out = found.part(0, &[n, k], false)?;
    let record = record_all(vec![out], &[a, b], |o| Solution {
        what,
        a: SavedTensor::input(a),
        out: SavedTensor::output(&o[0]),
    });
    record.map(|mut o| o.swap_remove(0))
}

struct Solution {
    what: Factor,
    a: SavedTensor,
    out: SavedTensor,
}

impl Function for Solution {
    fn name(&self) -> &'static str {
        if let Factor::Triangular { .. } = self.what {
            "LinalgSolveTriangularBackward0"
        } else {
            "LinalgSolveExBackward0"
        }
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let (op, what) = match self.what {
            Factor::Triangular { k, upper, unit } => {
                ("linalg.solve_triangular", Factor::Triangular { k, upper: !upper, unit })
            }
            other => ("linalg.solve", other),
        };
        let by_b = solution(op, what, &transposed(&self.a.get(cx)?)?, g)?;
        let mut by_a = None;
        if cx.needs(0) {
            let whole = arith::neg(&matmul::matmul(&by_b, &transposed(&self.out.get(cx)?)?)?)?;
            by_a = Some(match self.what {
                Factor::Triangular { upper, unit, .. } => {
                    triangle(&whole, i64::from(unit) * if upper { 1 } else { -1 }, !upper)?
                }
                _ => whole,
            });
        }
        Ok(smallvec![by_a, Some(by_b)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("A", &self.a);
        visit("result", &self.out);
    }
}

/// Solves from the left or from the right, with broadcast batch dimensions.
fn solve_with(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    left: bool,
    what: impl Fn(usize) -> Factor,
) -> Result<Tensor> {
    let (n, (rows, columns)) = (size(a).1, size(b));
    ensure!(
        n == if left { rows } else { columns },
        Runtime,
        "{op}: Incompatible shapes of A and B for the equation {} ({n}x{n} and {rows}x{columns})",
        if left { "AX = B" } else { "XA = B" }
    );
    if !left {
        return transposed(&solve_with(op, &transposed(a)?, &transposed(b)?, true, what)?);
    }
    let batch =
        broadcast(op, &Dims::from(&a.shape()[..a.rank() - 2]), &Dims::from(&b.shape()[..b.rank() - 2]))?;
    let wide =
        |t: &Tensor| view::expand_to(t, &batch.iter().chain(&t.shape()[t.rank() - 2..]).copied().collect());
    solution(op, what(columns), &wide(a)?, &wide(b)?)
}

fn expect_same_dtype(op: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "{op}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        a.dtype().scalar_name(),
        b.dtype().scalar_name()
    );
    Ok(())
}

fn linalg_solve(a: &Args) -> Result<Out> {
    let (op, t, b, left) = ("linalg.solve", a.tensor(0)?, a.tensor(1)?, a.bool(2)?);
    expect_float(op, t, None)?;
    expect_square(op, t)?;
    expect_same_dtype(op, t, b)?;
    let vectors = b.rank() == 1 || (t.rank() == b.rank() + 1 && b.shape()[..] == t.shape()[..t.rank() - 1]);
    let what = |k| Factor::Solve { k, lenient: false };
    if !vectors {
        expect_matrices(op, b, "B")?;
        return Ok(solve_with(op, t, b, left, what)?.into());
    }
    ensure!(
        left,
        Runtime,
        "{op}: Vector broadcasting of the left hand side is not supported for left=False."
    );
    let column = view::unsqueeze(b, -1)?;
    let solved = solve_with(op, t, &column, true, what)?;
    Ok(view::squeeze(&solved, &[-1])?.into())
}

fn linalg_solve_triangular(a: &Args) -> Result<Out> {
    let (op, t, b) = ("linalg.solve_triangular", a.tensor(0)?, a.tensor(1)?);
    let (mut upper, left, unit) = (a.bool(2)?, a.bool(3)?, a.bool(4)?);
    expect_float(op, t, Some("triangular_solve_cpu"))?;
    expect_square(op, t)?;
    expect_matrices(op, b, "B")?;
    expect_same_dtype(op, t, b)?;
    if !left {
        upper = !upper;
    }
    Ok(solve_with(op, t, b, left, |k| Factor::Triangular { k, upper, unit })?.into())
}

// ---- determinants

/// The determinant, its sign, and the logarithm of its absolute value, without history.
fn determinants(op: &'static str, a: &Tensor, low: Option<&'static str>) -> Result<Packed> {
    expect_square(op, a)?;
    expect_float(op, a, low)?;
    Packed::of(op, Factor::Determinant, a, None)
}

fn det(a: &Tensor) -> Result<Tensor> {
    let out = determinants("linalg.det", a, Some("lu_cpu"))?.part(0, &[], false)?;
    let det = |o: &[Tensor]| Determinant { a: SavedTensor::input(a), out: Some(SavedTensor::output(&o[0])) };
    record_all(vec![out], &[a], det).map(|mut o| o.swap_remove(0))
}

fn slogdet(a: &Tensor) -> Result<Vec<Tensor>> {
    let found = determinants("linalg.slogdet", a, None)?;
    let out = vec![found.part(1, &[], false)?, found.part(2, &[], false)?];
    record_all(out, &[a], |_| Determinant { a: SavedTensor::input(a), out: None })
}

struct Determinant {
    a: SavedTensor,
    /// None if the logarithm was taken.
    out: Option<SavedTensor>,
}

impl Function for Determinant {
    fn name(&self) -> &'static str {
        if self.out.is_some() { "LinalgDetBackward0" } else { "LinalgSlogdetBackward0" }
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let a = self.a.get(cx)?;
        let scale = match &self.out {
            Some(out) => match &grads[0] {
                Some(g) => arith::mul(g, &out.get(cx)?)?,
                None => return Ok(smallvec![None]),
            },
            None => match &grads[1] {
                Some(g) => g.clone(),
                None => return Ok(smallvec![Some(arith::mul(&a, 0.0)?)]),
            },
        };
        let turned = transposed(&inverse("linalg.det", &a, true)?)?;
        Ok(smallvec![Some(arith::mul(&as_factor(&scale)?, &turned)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("A", &self.a);
    }
}

/// The logarithm of a determinant; NaN if that is negative.
fn logdet(a: &Tensor) -> Result<Tensor> {
    let parts = slogdet(a)?;
    let negative = rows::eq.call(&[(&parts[0]).into(), (-1.0).into()], &[])?;
    rows::select_where.call(&[(&negative).into(), f64::NAN.into(), (&parts[1]).into()], &[])
}

// ---- triangles

fn cholesky(op: &'static str, a: &Tensor, upper: bool) -> Result<Tensor> {
    let n = expect_square(op, a)?;
    expect_float(op, a, Some("cholesky_cpu"))?;
    let read = if upper { transposed(&a.detach())? } else { a.detach() };
    let found = Packed::of(op, Factor::Cholesky, &read, None)?;
    if let Some((place, i)) = found.failure() {
        bail!(
            LinAlg,
            "{op}: {place}The factorization could not be completed because the input is not positive-definite (the \
             leading minor of order {i} is not positive-definite)."
        );
    }
    let out = found.part(0, &[n, n], upper)?;
    record_all(vec![out], &[a], |o| Cholesky { out: SavedTensor::output(&o[0]), upper })
        .map(|mut o| o.swap_remove(0))
}

struct Cholesky {
    out: SavedTensor,
    upper: bool,
}

impl Function for Cholesky {
    fn name(&self) -> &'static str {
        "LinalgCholeskyExBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let out = self.out.get(cx)?;
        let (l, g) = if self.upper { (transposed(&out)?, transposed(g)?) } else { (out, g.clone()) };
        let k = size(&l).1;
        // The lower triangle of Lᵀ g with half its diagonal, symmetrized, between inverses of L.
        let low = triangle(&matmul::matmul(&transposed(&l)?, &g)?, 0, true)?;
        let both = arith::mul(&arith::add(&low, &transposed(&triangle(&low, -1, true)?)?)?, 0.5)?;
        let op = "linalg.solve_triangular";
        let what = Factor::Triangular { k, upper: true, unit: false };
        let half = solution(op, what, &transposed(&l)?, &both)?;
        Ok(smallvec![Some(transposed(&solution(op, what, &transposed(&l)?, &transposed(&half)?)?)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("L", &self.out);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("upper", Attribute::Bool(self.upper));
    }
}

/// The matrix given by a triangular factor, in float64 on the CPU. As in PyTorch, the derivative treats the zero half
/// of the factor as variable too.
fn squared(op: &'static str, t: &Tensor, upper: bool) -> Result<Tensor> {
    expect_square(op, t)?;
    expect_float(op, t, Some("cholesky_inverse"))?;
    let lower = if upper { transposed(t)? } else { t.clone() };
    let plain = lower.detach();
    let rest = arith::sub(&plain, &triangle(&plain, 0, true)?)?;
    let wide = arith::to_dtype(&arith::sub(&lower, &rest)?, kernel::compute_type(t.raw())?)?;
    matmul::matmul(&wide, &transposed(&wide)?)
}

fn cholesky_inverse(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let whole = squared("cholesky_inverse", t, a.bool(1)?)?;
    Ok(arith::to_dtype(&inverse("cholesky_inverse", &whole, true)?, t.dtype())?.into())
}

fn cholesky_solve(a: &Args) -> Result<Out> {
    let (op, b, t) = ("cholesky_solve", a.tensor(0)?, a.tensor(1)?);
    ensure!(
        b.rank() >= 2,
        Runtime,
        "b should have at least 2 dimensions, but has {} dimensions instead",
        b.rank()
    );
    ensure!(
        t.rank() >= 2,
        Runtime,
        "u should have at least 2 dimensions, but has {} dimensions instead",
        t.rank()
    );
    expect_same_dtype(op, t, b)?;
    let (whole, right) = (squared(op, t, a.bool(2)?)?, arith::to_dtype(b, kernel::compute_type(b.raw())?)?);
    let solved = solve_with(op, &whole, &right, true, |k| Factor::Solve { k, lenient: true })?;
    Ok(arith::to_dtype(&solved, b.dtype())?.into())
}

/// The n-th power of a matrix or of its inverse, by repeated squaring.
fn matrix_power(a: &Args) -> Result<Out> {
    let (t, n) = (a.tensor(0)?, a.int(1)?);
    expect_square("linalg.matrix_power", t)?;
    if n == 0 {
        // The identity, recorded as a function of the matrix.
        let all = Tensor::full_on([0usize; 0], true, DType::Bool, t.device())?;
        let zeros = masked_fill(t, &all, 0.0.into())?;
        return Ok(arith::add(&zeros, &eye(&t.detach())?)?.into());
    }
    let mut base = if n < 0 { inverse("linalg.inv", t, false)? } else { t.clone() };
    let (mut left, mut result) = (n.unsigned_abs(), None);
    while left > 0 {
        if left & 1 == 1 {
            result = Some(match result {
                None => base.clone(),
                Some(r) => matmul::matmul(&r, &base)?,
            });
        }
        left >>= 1;
        if left > 0 {
            base = matmul::matmul(&base, &base)?;
        }
    }
    let result = result.unwrap_or(base);
    Ok(if result.same(t) { arith::clone(t)? } else { result }.into())
}

const SIGN: &[&str] = &["sign", "logabsdet"];

ops! {
    /// The inverse of each matrix.
    "inv" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor) => |a| Ok(inverse("linalg.inv", a.tensor(0)?, false)?.into());
    }
    /// The inverse of each matrix.
    "inverse" BOTH | OUT, batch MATRICES {
        (input: Tensor) => |a| Ok(inverse("linalg.inv", a.tensor(0)?, false)?.into());
    }
    /// The solution X of `A X = B`, or with `left=False` of `X A = B`.
    "solve" LINALG | OUT, out SAME, batch SOLUTION {
        (A: Tensor, B: Tensor, *, left: bool = True) => linalg_solve;
    }
    /// The solution X of `A X = B`, or of `X A = B`, for triangles A.
    "solve_triangular" LINALG | OUT, batch SOLUTION {
        (A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) =>
            linalg_solve_triangular;
    }
    /// The determinant of each matrix.
    "det" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor) => |a| Ok(det(a.tensor(0)?)?.into());
    }
    /// The determinant of each matrix.
    "det" BOTH, batch MATRICES {
        (input: Tensor) => |a| Ok(det(a.tensor(0)?)?.into());
    }
    /// The logarithm of the determinant of each matrix; none where that is negative.
    "logdet" BOTH, batch MATRICES {
        (input: Tensor) => |a| Ok(logdet(a.tensor(0)?)?.into());
    }
    /// The sign of each determinant, and the logarithm of its absolute value.
    "slogdet" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor) -> tuple[Tensor, Tensor] => |a| Ok(Out::Named("linalg_slogdet", SIGN, slogdet(a.tensor(0)?)?));
    }
    /// The sign of each determinant, and the logarithm of its absolute value.
    "slogdet" BOTH | OUT, out SAME, batch MATRICES {
        (input: Tensor) -> tuple[Tensor, Tensor] => |a| Ok(Out::Named("slogdet", SIGN, slogdet(a.tensor(0)?)?));
    }
    /// The triangle L with `L Lᵀ = A`; with `upper`, its transpose.
    "cholesky" LINALG | OUT, out SAME, batch MATRICES {
        (A: Tensor, *, upper: bool = False) => |a| Ok(cholesky("linalg.cholesky", a.tensor(0)?, a.bool(1)?)?.into());
    }
    /// The inverse of each matrix, from the triangle that `linalg.cholesky` made of it.
    "cholesky_inverse" BOTH | OUT, out SAFE, batch MATRICES {
        (input: Tensor, upper: bool = False) => cholesky_inverse;
    }
    /// The solution X of `A X = input`, from the triangle that `linalg.cholesky` made of A.
    "cholesky_solve" BOTH | OUT, out SAFE, batch MATRICES {
        (input: Tensor, L: Tensor, upper: bool = False) => cholesky_solve;
    }
    /// The product of `n` times each matrix; of its inverse where `n` is negative.
    "matrix_power" BOTH | OUT | COMPOSITE, batch MATRICES {
        (input: Tensor, n: int) => matrix_power;
    }
    /// The product of `n` times each matrix; of its inverse where `n` is negative.
    "matrix_power" LINALG | OUT | COMPOSITE, batch MATRICES {
        (A: Tensor, n: int) => matrix_power;
    }
}
