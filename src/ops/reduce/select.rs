//! Elements chosen along a dimension: the history that `max`, `sort`, `topk` and their kin share.

use smallvec::smallvec;

use super::restored;
use crate::backend::cpu::reduce::Along;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::with_dtype;

/// A shape as `[outer, n, inner]` around `dim`; a 0-d tensor is one lane of one element.
pub fn lanes(shape: &Dims, dim: usize) -> Along {
    if shape.is_empty() {
        return Along::new(1, 1, 1);
    }
    Along::new(shape[..dim].iter().product(), shape[dim], shape[dim + 1..].iter().product())
}

/// Calls `f` with the position of each index in `[outer, k, inner]` and of what it names in `[outer, n, inner]`.
fn each_choice(indices: &[i64], k: usize, d: Along, mut f: impl FnMut(usize, usize)) {
    for (at, &index) in indices.iter().enumerate() {
        let (outer, inner) = (at / (k * d.inner), at % d.inner);
        f(at, (outer * d.n + index as usize) * d.inner + inner);
    }
}

/// The elements of `t` that `indices` names along `dim`. The indices are in range.
pub fn pick(t: &Tensor, dim: usize, indices: &Tensor) -> Result<Tensor> {
    if t.device().is_gpu() {
        return super::super::index::gather(t, dim as i64, indices);
    }
    let (x, list) = (t.dense(t.dtype())?, indices.dense(DType::I64)?);
    let out = t.new_empty(indices.shape().clone())?;
    let (d, k) = (lanes(t.shape(), dim), lanes(indices.shape(), dim).n);
    with_dtype!(t.dtype(), T => {
        let (x, out) = (x.slice::<T>()?, out.slice_mut::<T>()?);
        each_choice(list.slice()?, k, d, |to, from| out[to] = x[from]);
    });
    record(out, &[t], |_| Chosen::new("GatherBackward0", t, dim, indices))
}

/// Zeros with `n` elements along `dim`, to which `g` is added where `indices` names.
pub fn place(g: &Tensor, dim: usize, indices: &Tensor, shape: &Dims) -> Result<Tensor> {
    if g.device().is_gpu() {
        let zeros = g.new_zeros(shape.clone())?;
        return super::super::index::scatter_add(&zeros, dim as i64, indices, g);
    }
    let (dense, list) = (g.dense(g.dtype())?, indices.dense(DType::I64)?);
    let out = g.new_zeros(shape.clone())?;
    let (d, k) = (lanes(shape, dim), lanes(indices.shape(), dim).n);
    with_dtype!(g.dtype(), T => {
        let (g, out) = (dense.slice::<T>()?, out.slice_mut::<T>()?);
        each_choice(list.slice()?, k, d, |from, to| out[to] = T::from_f64(out[to].to_f64() + g[from].to_f64()));
    });
    record(out, &[g], |_| Placed { dim, indices: SavedTensor::input(indices) })
}

/// The node of every operation that returns chosen elements.
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
        // Indices without the dimension chose one element per lane.
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
        // Those that leave one element of each lane.
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
