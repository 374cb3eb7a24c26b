//! Embedding, dropout and attention.

use super::schema::Op;

pub static OPS: &[Op] = &[];
