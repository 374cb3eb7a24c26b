//! Factorizations of batches of matrices: in double precision on the CPU, in that of the matrices on a GPU.

use super::{View, of, same_device};
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
pub fn compute_type(a: View) -> Result<DType> {
    of(a.device())?.factor_dtype(a)
}

/// Whether [`factor`] uses up the matrices where `a` lies, so that they have to be a copy.
pub fn overwrites(a: View) -> Result<bool> {
    Ok(of(a.device())?.overwrites_factored())
}

/// The results of dense matrices of `n` columns, one after the other; `out` holds the right sides, where there are any, in
/// the places of the solutions. Both are of the computing type; a GPU uses `a` up.
pub fn factor(op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
    of(same_device([out, a])?)?.factor(op, what, n, a, out)
}
