//! Indexing, gathering, scattering, masks.

use super::pointwise::Arg;
use super::schema::Op;
use crate::bail;
use crate::error::Result;
use crate::tensor::Tensor;

pub enum Index {
    Int(i64),
    Slice(Option<i64>, Option<i64>, Option<i64>),
    NewAxis,
    Ellipsis,
    Bool(bool),
    Tensor(Tensor),
}

pub fn getitem(_: &Tensor, _: &[Index]) -> Result<Tensor> {
    bail!(NotImplemented, "index")
}

pub fn setitem(_: &Tensor, _: &[Index], _: Arg) -> Result<()> {
    bail!(NotImplemented, "index")
}

pub static OPS: &[Op] = &[];
