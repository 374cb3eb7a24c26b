//! Triangular parts of matrices in dense tensors.

use super::{View, of, same_device};
use crate::error::Result;

/// The lower (upper) triangle of each matrix, up to (from) diagonal `k`, with zeros elsewhere.
pub fn triangle(x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
    of(same_device([x, out])?)?.triangle(x, rows, columns, k, lower, out)
}
