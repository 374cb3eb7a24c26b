//! Sorting, selection and search.

use super::schema::Op;

pub static OPS: &[Op] = &[];
