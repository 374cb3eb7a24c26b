//! Singular values and vectors of matrices, stored by columns.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// Matrices of at least as many rows as columns, and how many of their vectors are wanted.
pub struct Matrices {
    pub count: usize,
    pub rows: usize,
    pub columns: usize,
    pub left: usize,
    pub right: usize,
}

impl Matrices {
    /// Elements of the results of one: its left vectors, its values, its right vectors.
    pub fn each(&self) -> usize {
        self.left * self.rows + self.columns + self.right * self.columns
    }
}

/// The type that matrices are decomposed in where `x` lies.
pub fn compute_type(x: View) -> Result<DType> {
    of(x.device())?.svd_dtype(x)
}

/// Decomposes dense finite matrices; `out` holds the results of one after the other. Both are of the computing type.
pub fn decompose(m: &Matrices, w: View, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    of(same_device([out, w])?)?.svd(m, w, out)
}
