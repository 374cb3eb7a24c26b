//! The `_saved_*` attributes of nodes other than tensors.

use crate::dtype::Scalar;

/// A named value of a PyTorch node. Most are fields of the function; the others are derived from the node's edges and
/// outputs on access, so that nothing is stored for them.
#[derive(Clone, Copy)]
pub enum Attribute<'a> {
    Nothing,
    Bool(bool),
    Int(i64),
    Number(Scalar),
    Text(&'static str),
    Ints(&'a [i64]),
    Sizes(&'a [usize]),
    /// A bit mask of dimensions, shown in ascending order.
    Dims(u64),
    /// A number that PyTorch saves as a 0-d tensor, and whether it was freed.
    Tensor(Scalar, bool),
    /// The shape of the first input.
    InputShape,
    /// The number of elements of the first input.
    InputCount,
    /// Whether the output has the rank of the first input.
    KeepsDim,
    /// The shape of the output from this dimension on.
    OutputShape(usize),
}

/// Visitor of the attributes of a node, by name.
pub type Visit<'v> = dyn FnMut(&'static str, Attribute<'_>) + 'v;
