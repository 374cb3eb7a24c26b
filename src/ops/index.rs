//! Indexing, gathering, scattering, masks.

use super::schema::Op;

pub static OPS: &[Op] = &[];
