//! Singular value decompositions of column-major matrices.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// A batch of matrices with at least as many rows as columns, and the requested numbers of singular vectors.
pub struct Matrices {
    pub count: usize,
    pub rows: usize,
    pub columns: usize,
    pub left: usize,
    pub right: usize,
}

impl Matrices {
    /// The number of result elements per matrix: its left vectors, its values, its right vectors.
    pub fn each(&self) -> usize {
        self.left * self.rows + self.columns + self.right * self.columns
    }
}

/// The type in which matrices are decomposed on the device of `x`.
pub fn compute_type(x: View) -> Result<DType> {
    of(x.device())?.svd_dtype(x)
}

/// Decomposes dense finite matrices; `out` receives the results of one after the other. Both have the compute type.
pub fn decompose(m: &Matrices, w: View, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    of(same_device([out, w])?)?.svd(m, w, out)
}
