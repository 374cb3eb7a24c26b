//! An LSTM layer by the device's kernels. They hold states transposed: Note [Steps of an LSTM].

use smallvec::smallvec;

use super::gradients;
use crate::backend::copy;
use crate::backend::recurrent::{self as kernel, Recurrence};
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record_all};
use crate::layout::Dims;
use crate::ops::matmul::mm;
use crate::ops::view;
use crate::ops::view::cut::{narrow, select};
use crate::tensor::Tensor;

/// Smaller batches leave most lanes of a vector empty.
pub(super) const LEAST_BATCH: usize = 8;

/// A dense tensor with the last two dimensions exchanged.
pub(super) fn turned(t: &Tensor) -> Result<Tensor> {
    let t = view::swap(&t.detach(), t.rank() - 1, t.rank() - 2)?;
    t.copied(t.dtype())
}

/// States before the first step and, unwritten, after each, transposed.
pub(super) fn states(first: &Tensor, steps: usize) -> Result<Tensor> {
    let (batch, hidden) = (first.shape()[0], first.shape()[1]);
    let all = Tensor::empty_on(Dims::from([steps + 1, hidden, batch]), first.dtype(), first.device())?;
    copy::copy(view::t_of(&first.detach())?.raw(), select(&all, 0, 0)?.raw())?;
    Ok(all)
}

/// The outputs of all steps, and the last cell state; None where they have to be composed.
pub(super) fn lstm_layer(
    gates: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    weight: &Tensor,
) -> Result<Option<[Tensor; 2]>> {
    let inputs = [gates, hx, cx, weight];
    let (dtype, device) = (gates.dtype(), gates.device());
    let alike = inputs.iter().all(|t| t.dtype() == dtype && t.device() == device);
    let (steps, batch, hidden) = (gates.shape()[0], gates.shape()[1], weight.shape()[1]);
    if !alike || hidden == 0 || batch < LEAST_BATCH || !kernel::supported(device, dtype)? {
        return Ok(None);
    }
    let r = Recurrence { steps, batch, hidden };
    let input = view::permute_dims(&gates.detach(), &[2, 0, 1], "PermuteBackward0")?.dense(dtype)?;
    let dense = weight.dense(dtype)?;
    let (cell, out) = (states(cx, steps)?, states(hx, steps)?);
    let active = Tensor::empty_on(Dims::from([steps, 4, hidden, batch]), dtype, device)?;
    let views = kernel::Steps { gates: active.raw(), cell: cell.raw(), out: out.raw() };
    if !kernel::lstm(r, input.raw(), dense.raw(), views)? {
        return Ok(None);
    }
    let outputs = turned(&narrow(&out, 0, 1, steps as i64)?)?;
    let last = turned(&select(&cell, 0, steps as i64)?)?;
    if !grad_enabled() || !inputs.iter().any(|t| t.requires_grad()) {
        return Ok(Some([outputs, last]));
    }
    let made = record_all(vec![outputs, last], &inputs, |_| LstmLayer {
        inputs: inputs.map(SavedTensor::input),
        gates: SavedTensor::input(&active),
        cell: SavedTensor::input(&cell),
        out: SavedTensor::input(&out),
        r,
    })?;
    made.try_into().map(Some).map_err(|_| Error::Runtime("lstm_layer: two results were recorded".into()))
}

struct LstmLayer {
    inputs: [SavedTensor; 4],
    gates: SavedTensor,
    cell: SavedTensor,
    out: SavedTensor,
    r: Recurrence,
}

impl LstmLayer {
    fn fused(&self, cx: &Cx, grads: &Grads) -> Result<Option<Grads>> {
        let Recurrence { steps, batch, hidden } = self.r;
        let weight = self.inputs[3].get(cx)?;
        let (dtype, device) = (weight.dtype(), weight.device());
        let (gates, cell, out) = (self.gates.get(cx)?, self.cell.get(cx)?, self.out.get(cx)?);
        let zeros = |shape: Dims| Tensor::zeros_on(shape, dtype, device);
        let grad = match &grads[0] {
            Some(g) => turned(g)?,
            None => zeros(Dims::from([steps, hidden, batch]))?,
        };
        let state = Dims::from([hidden, batch]);
        let of_cell = match &grads[1] {
            Some(g) => turned(g)?,
            None => zeros(state.clone())?,
        };
        let of_out = Tensor::empty_on(state, dtype, device)?;
        let slopes = Tensor::empty_on(Dims::from([4 * hidden, steps, batch]), dtype, device)?;
        let (dense, states) = (weight.dense(dtype)?, [of_out.raw(), of_cell.raw()]);
        let views = kernel::Steps { gates: gates.raw(), cell: cell.raw(), out: out.raw() };
        if !kernel::lstm_backward(self.r, grad.raw(), dense.raw(), views, slopes.raw(), states)? {
            return Ok(None);
        }
        let of_weight = if cx.needs(3) {
            let rows = view::reshape_to(&slopes, &Dims::from([4 * hidden, steps * batch]))?;
            let before = turned(&narrow(&out, 0, 0, steps as i64)?)?;
            Some(mm(&rows, &view::reshape_to(&before, &Dims::from([steps * batch, hidden]))?)?)
        } else {
            None
        };
        let of_gates = view::permute_dims(&slopes, &[1, 2, 0], "PermuteBackward0")?;
        Ok(Some(smallvec![Some(of_gates), Some(turned(&of_out)?), Some(turned(&of_cell)?), of_weight]))
    }

    /// The gradients composed of recorded operations, with the steps recomputed from the inputs.
    fn composed(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let [gates, h0, c0, weight] = &self.inputs;
        let (h0, c0, weight) = (h0.get(cx)?, c0.get(cx)?, weight.get(cx)?);
        let s = super::Steps::stacked(&super::Steps::run(&gates.get(cx)?, &h0, &c0, &weight)?)?;
        gradients(&s, [&h0, &c0, &weight], grads, cx.needs(3))
    }
}

impl Function for LstmLayer {
    fn name(&self) -> &'static str {
        "LstmLayerBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("mkldnn_rnn_layer_backward")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let made = if grad_enabled() { None } else { self.fused(cx, &grads)? };
        made.map_or_else(|| self.composed(cx, grads), Ok)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        for (name, t) in ["gates", "hx", "cx", "weight"].into_iter().zip(&self.inputs) {
            visit(name, t);
        }
        for (name, t) in [("active", &self.gates), ("cell", &self.cell), ("out", &self.out)] {
            visit(name, t);
        }
    }
}
