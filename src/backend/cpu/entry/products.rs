//! Products and factorizations of matrices given as views.

use crate::backend::cpu::eigen;
use crate::backend::cpu::matmul;
use crate::backend::cpu::simd::isa;
use crate::backend::factor::Factor;
use crate::backend::matmul::compute_type;
use crate::backend::{View, elements, results};
use crate::dtype::DType;
use crate::error::Result;
use crate::with_dtype;
use matmul::pairs;

/// The rows and columns of a product and its depth.
#[inline]
fn sizes(a: &View, b: &View) -> pairs::Sizes {
    let r = a.layout.rank();
    pairs::Sizes { m: a.layout.shape[r - 2], k: a.layout.shape[r - 1], n: b.layout.shape[r - 1] }
}

/// The dtype of which [`matmul`] takes the operands.
pub(super) fn product_dtype(a: View, b: View) -> DType {
    let in_place = |v: &View| v.is_aligned() && v.layout.strides.iter().all(|&s| s >= 0);
    let as_they_are = a.dtype.is_half() && a.layout.numel() > 0 && in_place(&a) && in_place(&b);
    if as_they_are { a.dtype } else { compute_type(a.dtype) }
}

pub(super) fn matmul(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    use matmul::{Activation, Bias, Epilogue, MatRef, batched_gemm, gemm, gemm_int};
    let r = a.layout.rank();
    let pairs::Sizes { m, k, n } = sizes(&a, &b);
    let batch = if r == 3 { a.layout.shape[0] } else { 1 };
    let steps = if r == 3 { (a.layout.strides[0] as usize, b.layout.strides[0] as usize) } else { (0, 0) };
    if out.dtype.is_half() {
        let sizes = pairs::Sizes { m, n, k };
        with_dtype!(half out.dtype, T => {
            let (a, b, bias) = ((MatRef::<T>::of(&a), steps.0), (MatRef::of(&b), steps.1), bias.map(elements));
            pairs::batched_gemm(isa(), batch, sizes, a, b, bias, &mut results::<T>(out)?);
        });
        return Ok(());
    }
    with_dtype!(float out.dtype, T => {
        let c = &mut *results::<T>(out)?;
        let bias = match &bias {
            Some(v) => Bias::Row(elements::<T>(*v)),
            None => Bias::None,
        };
        let ep = Epilogue { alpha: 1.0, beta: 0.0, bias, act: Activation::None };
        if r == 2 {
            gemm::<T>(m, n, k, MatRef::of(&a), MatRef::of(&b), c, ep);
        } else {
            batched_gemm::<T>(batch, m, n, k, MatRef::of(&a), steps.0, MatRef::of(&b), steps.1, c, ep);
        }
    }, else {
        let c = &mut *results::<i64>(out)?;
        for (i, c) in c.chunks_mut((m * n).max(1)).enumerate() {
            let (p, q) = (MatRef::<i64>::of(&a), MatRef::<i64>::of(&b));
            let (p, q) =
                (MatRef { data: &p.data[i * steps.0..], ..p }, MatRef { data: &q.data[i * steps.1..], ..q });
            gemm_int(m, n, k, p, q, c);
        }
        if let Some(v) = bias {
            let row = elements::<i64>(v);
            c.chunks_mut(n.max(1)).for_each(|c| c.iter_mut().zip(row).for_each(|(c, b)| *c = c.wrapping_add(*b)));
        }
    });
    Ok(())
}

/// The factorization of one matrix, which is overwritten.
pub(super) fn factor(what: Factor, n: usize, a: &mut [f64], out: &mut [f64]) {
    use crate::backend::cpu::factor as kernel;
    let last = out.len() - 1;
    match what {
        Factor::Solve { k, lenient } => out[last] = kernel::solve(a, n, &mut out[..n * k], k, lenient),
        Factor::Triangular { k, upper, unit } => {
            kernel::triangular(a, n, &mut out[..n * k], k, upper, unit);
            out[last] = 0.0;
        }
        Factor::Determinant => out.copy_from_slice(&kernel::determinant(a, n)),
        Factor::Lu { m } => {
            let pivots = kernel::lu(a, n);
            let (factors, rows) = out.split_at_mut(m * n);
            factors.copy_from_slice(a);
            rows.iter_mut().zip(&pivots).for_each(|(row, &pivot)| *row = (pivot + 1) as f64);
        }
        Factor::Cholesky => {
            out[last] = kernel::cholesky(a, n);
            out[..n * n].copy_from_slice(a);
        }
        Factor::Qr { m, q, .. } => {
            let (q, r) = out.split_at_mut(q * m);
            kernel::qr(a, m, q, r);
        }
        Factor::Eigh => {
            let (values, rest) = out.split_at_mut(n);
            let (vectors, found) = rest.split_at_mut(n * n);
            found[0] = f64::from(eigen::eigh(a, n, values, vectors));
        }
    }
}
