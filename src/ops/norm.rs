//! Normalisation over batches, layers and groups.

use super::schema::Op;

pub static OPS: &[Op] = &[];
