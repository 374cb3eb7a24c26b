//! Views: other geometries over the same memory.

use smallvec::smallvec;

use super::schema::{Args, Call, Op, Out, Overload, Surface};
use crate::error::Result;
use crate::graph::{Cx, Function, Grads};
use crate::layout::{Dims, Layout, infer_shape, wrap_dim};
use crate::tensor::{Tensor, as_view};
use crate::{bail, ensure};

/// Backward of every view that only renames positions: a view of the gradient.
struct Reshape {
    node: &'static str,
    shape: Dims,
}

impl Function for Reshape {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(reshape_to(g, &self.shape)?)])
    }
}

fn reshaped(t: &Tensor, layout: Layout, node: &'static str) -> Result<Tensor> {
    as_view(t, layout, || Reshape { node, shape: t.shape().clone() })
}

/// `t` viewed in `shape`.
pub fn view_as(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    match t.layout().reshape(shape) {
        Some(l) => reshaped(t, l, "ViewBackward0"),
        None => bail!(
            Runtime,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces). Use .reshape(...) instead."
        ),
    }
}

/// A view where one exists, else a copy.
pub fn reshape_to(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    match t.layout().reshape(shape) {
        Some(l) => reshaped(t, l, "ViewBackward0"),
        None => view_as(&super::arith::clone(t)?, shape),
    }
}

struct Expand {
    shape: Dims,
}

impl Function for Expand {
    fn name(&self) -> &'static str {
        "ExpandBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(super::reduce::sum_to(g, &self.shape)?)])
    }
}

/// `t` repeated over dimensions of size 1 and new leading ones, without a copy.
pub fn expand_to(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    if t.shape() == shape {
        return as_view(t, t.layout().clone(), || Expand { shape: t.shape().clone() });
    }
    match t.layout().expand(shape) {
        Some(l) => as_view(t, l, || Expand { shape: t.shape().clone() }),
        None => bail!(
            Runtime,
            "The expanded size of the tensor must match the existing size (expand: {} to {shape})",
            t.shape()
        ),
    }
}

struct Permute {
    node: &'static str,
    inverse: smallvec::SmallVec<[usize; 6]>,
}

impl Function for Permute {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(permute_dims(g, &self.inverse, self.node)?)])
    }
}

/// Dimension `d` of the result is dimension `order[d]` of `t`.
pub fn permute_dims(t: &Tensor, order: &[usize], node: &'static str) -> Result<Tensor> {
    as_view(t, t.layout().permute(order), || {
        let mut inverse: smallvec::SmallVec<[usize; 6]> = smallvec::SmallVec::from_elem(0, order.len());
        order.iter().enumerate().for_each(|(d, &o)| inverse[o] = d);
        Permute { node, inverse }
    })
}

/// `t` with two dimensions swapped.
pub fn swap(t: &Tensor, a: usize, b: usize) -> Result<Tensor> {
    let mut order: smallvec::SmallVec<[usize; 6]> = (0..t.rank()).collect();
    if a != b {
        order.swap(a, b);
    }
    permute_dims(t, &order, "TransposeBackward0")
}

fn view(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(view_as(t, &infer_shape(a.ints(1)?, t.numel())?)?.into())
}

fn reshape(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(reshape_to(t, &infer_shape(a.ints(1)?, t.numel())?)?.into())
}

fn transpose(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let (x, y) = (wrap_dim(a.int(1)?, t.rank())?, wrap_dim(a.int(2)?, t.rank())?);
    Ok(if t.rank() == 0 { view_as(t, t.shape())? } else { swap(t, x, y)? }.into())
}

/// The matrix transposed; a vector or number as it is.
pub fn t_of(t: &Tensor) -> Result<Tensor> {
    ensure!(
        t.rank() <= 2,
        Runtime,
        "t() expects a tensor with <= 2 dimensions, but self is {}D",
        t.rank()
    );
    let order: &[usize] = match t.rank() {
        2 => &[1, 0],
        1 => &[0],
        _ => &[],
    };
    permute_dims(t, order, "TBackward0")
}

pub static OPS: &[Op] = &[
    Op {
        name: "view",
        doc: "The same elements in another shape, without a copy.",
        surface: Surface::METHOD,
        overloads: &[Overload { sig: "input: Tensor, size: size", call: Call::Fn(view) }],
        ..Op::NEW
    },
    Op {
        name: "reshape",
        doc: "The same elements in another shape: a view where one exists, else a copy.",
        overloads: &[Overload { sig: "input: Tensor, shape: size", call: Call::Fn(reshape) }],
        ..Op::NEW
    },
    Op {
        name: "transpose",
        doc: "A view with two dimensions swapped.",
        aliases: &["swapaxes", "swapdims"],
        overloads: &[Overload { sig: "input: Tensor, dim0: int, dim1: int", call: Call::Fn(transpose) }],
        ..Op::NEW
    },
    Op {
        name: "t",
        doc: "A view of a matrix, transposed.",
        overloads: &[Overload { sig: "input: Tensor", call: Call::Fn(|a| Ok(t_of(a.tensor(0)?)?.into())) }],
        ..Op::NEW
    },
];
