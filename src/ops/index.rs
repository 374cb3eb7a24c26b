//! Indexing, gathering, scattering, masks.

mod select;

pub use select::{index_add, index_copy, index_fill, index_select, put, take};

use super::schema::Op;

pub static OPS: &[Op] = select::OPS;

pub enum Index {
    Int(i64),
    Slice(Option<i64>, Option<i64>, Option<i64>),
    NewAxis,
    Ellipsis,
    Bool(bool),
    Tensor(crate::tensor::Tensor),
}

pub fn getitem(_: &crate::tensor::Tensor, _: &[Index]) -> crate::error::Result<crate::tensor::Tensor> {
    crate::bail!(NotImplemented, "index")
}

pub fn setitem(_: &crate::tensor::Tensor, _: &[Index], _: super::pointwise::Arg) -> crate::error::Result<()> {
    crate::bail!(NotImplemented, "index")
}
