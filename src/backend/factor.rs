//! Factorizations of batches of matrices: in float64 on the CPU, in the dtype of the matrices on a GPU.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// An operation on square matrices of `n` rows (of any shape for [`Factor::Lu`] and [`Factor::Qr`]) and its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factor {
    /// The solution for `k` right-hand sides, and the position of the first zero pivot, counted from 1. `lenient`
    /// permits it.
    Solve { k: usize, lenient: bool },
    /// The solution for a triangular matrix.
    Triangular { k: usize, upper: bool, unit: bool },
    /// The determinant, its sign, and the logarithm of its absolute value.
    Determinant,
    /// L and U of a matrix of `m` rows in its place, and the row, counted from 1, with which each row was exchanged.
    Lu { m: usize },
    /// The lower triangle, and the order of the first leading minor that is not positive.
    Cholesky,
    /// `q` columns of Q and `r` rows of R, both column-major; the matrix is column-major too, with columns of `m`
    /// elements.
    Qr { m: usize, q: usize, r: usize },
    /// The eigenvalues, the eigenvectors as rows, and whether the iteration converged.
    Eigh,
}

impl Factor {
    /// The number of result elements for one matrix of `n` columns.
    pub fn each(self, n: usize) -> usize {
        match self {
            Factor::Solve { k, .. } | Factor::Triangular { k, .. } => n * k + 1,
            Factor::Determinant => 3,
            Factor::Lu { m } => m * n + m.min(n),
            Factor::Cholesky => n * n + 1,
            Factor::Qr { m, q, r } => q * m + r * n,
            Factor::Eigh => n + n * n + 1,
        }
    }
}

/// The type in which matrices are factored on the device of `a`.
pub fn compute_type(a: View) -> Result<DType> {
    of(a.device())?.factor_dtype(a)
}

/// Whether [`factor`] overwrites the matrices on the device of `a`, so that the caller must pass a copy.
pub fn overwrites(a: View) -> Result<bool> {
    Ok(of(a.device())?.overwrites_factored())
}

/// Factors a batch of contiguous matrices of `n` columns. `out` receives the results; right-hand sides, if any, are
/// passed in the place of the solutions. Both have the compute type; a GPU overwrites `a`.
pub fn factor(op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
    of(same_device([out, a])?)?.factor(op, what, n, a, out)
}
