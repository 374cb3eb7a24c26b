//! Selection along a dimension: the node shared by `max`, `sort`, `topk` and similar operations.

use smallvec::smallvec;

use super::restored;
use crate::backend::View;
use crate::backend::index::{self as kernel, Combine};
use crate::backend::reduce::ReduceDims;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::Dims;
use crate::ops::index::gather::{at_least_1d, gather, scatter_add};
use crate::ops::interpreter;
use crate::tensor::Tensor;

/// A shape as `[outer, n, inner]` where n is dimension `dim`; a 0-d tensor is one lane of one element.
pub fn lanes(shape: &Dims, dim: usize) -> ReduceDims {
    if shape.is_empty() {
        return ReduceDims::new(1, 1, 1);
    }
    ReduceDims::new(shape[..dim].iter().product(), shape[dim], shape[dim + 1..].iter().product())
}

/// The elements of `t` at `indices` along `dim`. The indices must be in range.
#[inline]
pub fn pick(t: &Tensor, dim: usize, indices: &Tensor) -> Result<Tensor> {
    if interpreter::active() { gather(t, dim as i64, indices) } else { pick_impl(t, dim, indices) }
}

fn pick_impl(t: &Tensor, dim: usize, indices: &Tensor) -> Result<Tensor> {
    let (list, out) = (indices.dense(DType::I64)?, t.new_empty(indices.shape().clone())?);
    if out.numel() > 0 {
        let (from, at) = (at_least_1d(t.layout()), at_least_1d(list.layout()));
        let (x, list) = (View { layout: &from, ..t.raw() }, View { layout: &at, ..list.raw() });
        kernel::gather_along(x, dim, list, out.raw())?;
    }
    record(out, &[t], |_| Chosen::new("GatherBackward0", t, dim, indices))
}

/// A tensor of zeros, with `n` elements along `dim`, to which `g` is added at `indices`.
pub fn place(g: &Tensor, dim: usize, indices: &Tensor, shape: &Dims) -> Result<Tensor> {
    if interpreter::active() {
        return scatter_add(&g.new_zeros(shape.clone())?, dim as i64, indices, g);
    }
    let (list, out) = (indices.dense(DType::I64)?, g.new_zeros(shape.clone())?);
    if list.numel() > 0 {
        let (to, at, from) = (at_least_1d(out.layout()), at_least_1d(list.layout()), at_least_1d(g.layout()));
        let (to, list) = (View { layout: &to, ..out.raw() }, View { layout: &at, ..list.raw() });
        kernel::scatter_along(to, dim, list, View { layout: &from, ..g.raw() }, Combine::Add)?;
    }
    record(out, &[g], |_| Placed { dim, indices: SavedTensor::input(indices) })
}

/// The node of operations that return selected elements.
pub struct Chosen {
    node: &'static str,
    dim: usize,
    shape: Dims,
    indices: SavedTensor,
}

impl Chosen {
    pub fn new(node: &'static str, t: &Tensor, dim: usize, indices: &Tensor) -> Chosen {
        Chosen { node, dim, shape: t.shape().clone(), indices: SavedTensor::input(indices) }
    }
}

impl Function for Chosen {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let indices = self.indices.get(cx)?;
        // Indices that lack the dimension selected one element per lane.
        let kept = indices.rank() == self.shape.len();
        let mask = if kept { 0 } else { 1 << self.dim };
        let (g, indices) = match kept {
            true => (g.clone(), indices),
            false => (restored(g, &self.shape, mask)?, restored(&indices, &self.shape, mask)?),
        };
        Ok(smallvec![Some(place(&g, self.dim, &indices, &self.shape)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("indices", &self.indices);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
        visit("self_sym_sizes", Attribute::InputShape);
        // Operations that select one element of each lane.
        if !["Cummax", "Cummin", "Sort", "Topk"].iter().any(|kind| self.node.starts_with(kind)) {
            visit("keepdim", Attribute::KeepsDim);
        }
    }
}

struct Placed {
    dim: usize,
    indices: SavedTensor,
}

impl Function for Placed {
    fn name(&self) -> &'static str {
        "ScatterAddBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(pick(g, self.dim, &self.indices.get(cx)?)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("indices", &self.indices);
    }
}
