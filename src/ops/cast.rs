//! Casts, copies and the questions one asks of a tensor.

use super::schema::Op;

pub static OPS: &[Op] = &[];
