//! Norms, triangles, einsum and other matrix operations.

use super::schema::Op;

pub static OPS: &[Op] = &[];
