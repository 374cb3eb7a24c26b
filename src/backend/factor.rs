//! Factorizations of batches of matrices: in double precision on the CPU, in that of the matrices on a GPU.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// What is made of a square matrix of `n` rows; of one that is not square in [`Factor::Qr`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factor {
    /// The solution for `k` right sides, and the first zero pivot, counted from 1. Zero pivots pass if `lenient`.
    Solve { k: usize, lenient: bool },
    /// The same of a triangle.
    Triangular { k: usize, upper: bool, unit: bool },
    /// The determinant, its sign, and the logarithm of its size.
    Determinant,
    /// The lower triangle, and the order of the first minor that is not positive.
    Cholesky,
    /// As many columns of Q and rows of R, both stored by columns; the matrix is given by columns of `m` too.
    Qr { m: usize, q: usize, r: usize },
    /// The values, the vectors as rows, and whether they were found.
    Eigh,
}

impl Factor {
    /// Elements of the results of one matrix of `n` columns.
    pub fn each(self, n: usize) -> usize {
        match self {
            Factor::Solve { k, .. } | Factor::Triangular { k, .. } => n * k + 1,
            Factor::Determinant => 3,
            Factor::Cholesky => n * n + 1,
            Factor::Qr { m, q, r } => q * m + r * n,
            Factor::Eigh => n + n * n + 1,
        }
    }
}

/// The type that matrices are factored in where `a` lies.
pub fn compute_type(a: View) -> DType {
    if a.device().is_gpu() { a.dtype } else { DType::F64 }
}

/// The results of dense matrices of `n` columns, one after the other; `out` holds the right sides, where there are any, in
/// the places of the solutions. Both are of the computing type; a GPU uses `a` up.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "the GPU's errors name it"))]
pub fn factor(op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
    by_device!(same_device([out, a])?,
        cpu => {
            if out.layout.numel() > 0 {
                let a = elements::<f64>(a);
                let size = if let Factor::Qr { m, .. } = what { m * n } else { n * n };
                cpu::parallel::for_chunks_mut(results::<f64>(out), what.each(n), |i, out| {
                    one(what, n, &mut a[i * size..][..size].to_vec(), out);
                });
            }
            Ok(())
        },
        gpu => gpu::factor::factor(op, what, n, a, out)
    )
}

fn one(what: Factor, n: usize, a: &mut [f64], out: &mut [f64]) {
    use cpu::factor as kernel;
    let last = out.len() - 1;
    match what {
        Factor::Solve { k, lenient } => out[last] = kernel::solve(a, n, &mut out[..n * k], k, lenient),
        Factor::Triangular { k, upper, unit } => {
            kernel::triangular(a, n, &mut out[..n * k], k, upper, unit);
            out[last] = 0.0;
        }
        Factor::Determinant => out.copy_from_slice(&kernel::determinant(a, n)),
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
            found[0] = f64::from(kernel::eigh(a, n, values, vectors));
        }
    }
}
