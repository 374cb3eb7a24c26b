//! What a node shows beside the tensors that it saved.

use crate::dtype::Scalar;

/// A value that PyTorch's node keeps under a name. Most are what the function holds for its own use; the others are told
/// from the node's edges and outputs when somebody asks, so that nothing is kept for them.
#[derive(Clone, Copy)]
pub enum Attribute<'a> {
    Nothing,
    Bool(bool),
    Int(i64),
    Number(Scalar),
    Text(&'static str),
    Ints(&'a [i64]),
    Sizes(&'a [usize]),
    /// The dimensions of a mask, in order.
    Dims(u64),
    /// A number that PyTorch keeps as a 0-d tensor; whether it is gone.
    Tensor(Scalar, bool),
    /// The shape of the first input.
    InputShape,
    /// How many elements the first input has.
    InputCount,
    /// Whether the output has as many dimensions as the first input.
    KeepsDim,
    /// The shape of the output from some dimension on.
    OutputShape(usize),
}

/// Receives the attributes of a node by name.
pub type Visit<'v> = dyn FnMut(&'static str, Attribute<'_>) + 'v;
