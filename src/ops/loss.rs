//! Losses.

use super::schema::Op;

pub static OPS: &[Op] = &[];
