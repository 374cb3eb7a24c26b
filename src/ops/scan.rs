//! Running sums and extrema along a dimension.

use super::schema::Op;

pub static OPS: &[Op] = &[];
