//! Indexing, gathering, scattering, masks.

mod select;

pub use select::{index_add, index_copy, index_fill, index_select, put, take};

use super::schema::Op;

pub static OPS: &[Op] = select::OPS;
