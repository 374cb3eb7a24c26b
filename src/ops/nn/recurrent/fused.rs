//! An LSTM layer by the device's kernels. They hold states transposed: Note [Steps of an LSTM].

use smallvec::smallvec;

use super::weights::OwnedWeights;
use super::{SavedWeights, Weights, gradients, input_gates, linear_gradients};
use crate::backend::copy;
use crate::backend::recurrent::{self as kernel, Recurrence};
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record_all};
use crate::layout::Dims;
use crate::ops::view;
use crate::ops::view::cut::{narrow, select};
use crate::tensor::Tensor;

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

/// The sizes of a layer, if the device has a kernel for it.
pub(super) fn sizes(inputs: &[&Tensor], weights: Weights) -> Result<Option<Recurrence>> {
    let (input, hidden) = (inputs[0], weights.state.shape()[1]);
    let (dtype, device) = (input.dtype(), input.device());
    let alike = inputs.iter().all(|t| t.dtype() == dtype && t.device() == device && !t.is_batched());
    let (steps, batch, features) = (input.shape()[0], input.shape()[1], input.shape()[2]);
    let fit = alike && hidden > 0 && features > 0 && batch > 0;
    Ok((fit && kernel::supported(device, dtype)?).then_some(Recurrence { steps, batch, features, hidden }))
}

/// The outputs of all steps, and the last cell state; None where they have to be composed.
pub(super) fn lstm_layer(
    input: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    weights: Weights,
) -> Result<Option<[Tensor; 2]>> {
    let inputs: Vec<&Tensor> = [input, hx, cx].into_iter().chain(weights.all()).collect();
    // With backward, one sequence is faster composed.
    let Some(r) = sizes(&inputs, weights)?.filter(|r| r.batch > 1) else { return Ok(None) };
    let Recurrence { steps, batch, hidden, .. } = r;
    let (x, dense) = (input.dense(input.dtype())?, OwnedWeights::dense(weights)?);
    let (cell, out) = (states(cx, steps)?, states(hx, steps)?);
    let recorded = grad_enabled() && inputs.iter().any(|t| t.requires_grad());
    // Without a backward pass the gates of a step are overwritten by those of the next.
    let kept = if recorded { steps } else { 1 };
    let active = Tensor::empty_on(Dims::from([kept, 4, hidden, batch]), input.dtype(), input.device())?;
    let views = kernel::Steps { gates: active.raw(), cell: cell.raw(), out: out.raw() };
    if !kernel::lstm(r, x.raw(), dense.views(), views)? {
        return Ok(None);
    }
    let outputs = turned(&narrow(&out, 0, 1, steps as i64)?)?;
    let last = turned(&select(&cell, 0, steps as i64)?)?;
    if !recorded {
        return Ok(Some([outputs, last]));
    }
    let made = record_all(vec![outputs, last], &inputs, |_| LstmLayer {
        inputs: [input, hx, cx].map(SavedTensor::input),
        weights: SavedWeights::new(weights),
        gates: SavedTensor::input(&active),
        cell: SavedTensor::input(&cell),
        out: SavedTensor::input(&out),
        r,
    })?;
    made.try_into().map(Some).map_err(|_| Error::Runtime("lstm_layer: two results were recorded".into()))
}

struct LstmLayer {
    inputs: [SavedTensor; 3],
    weights: SavedWeights,
    gates: SavedTensor,
    cell: SavedTensor,
    out: SavedTensor,
    r: Recurrence,
}

impl LstmLayer {
    fn fused(&self, cx: &Cx, grads: &Grads) -> Result<Option<Grads>> {
        let Recurrence { steps, batch, hidden, .. } = self.r;
        let weight = self.weights.state.get(cx)?;
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
        let rows = view::reshape_to(&slopes, &Dims::from([4 * hidden, steps * batch]))?;
        let of_weight = if cx.needs(4) {
            let before = turned(&narrow(&out, 0, 0, steps as i64)?)?;
            linear_gradients(&view::t_of(&rows)?, &before, &weight, [false, true, false])?[1].take()
        } else {
            None
        };
        let made = [Some(turned(&of_out)?), Some(turned(&of_cell)?), of_weight];
        self.with_input(cx, &view::t_of(&rows)?, made).map(Some)
    }

    /// The gradients of all inputs, from those of the gates, `[steps * batch, 4 * hidden]`, and of the states and their weight.
    fn with_input(
        &self,
        cx: &Cx,
        gates: &Tensor,
        [of_out, of_cell, of_weight]: [Option<Tensor>; 3],
    ) -> Result<Grads> {
        let [of_input, of_input_weight, of_bias] =
            self.weights.input_gradients(cx, &self.inputs[0], 3, gates)?;
        let mut grads: Grads = smallvec![of_input, of_out, of_cell, of_input_weight, of_weight];
        if self.weights.biases.is_some() {
            grads.extend([of_bias.clone(), of_bias]);
        }
        Ok(grads)
    }

    /// The gradients composed of recorded operations, with the steps recomputed from the inputs.
    fn composed(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let [input, h0, c0] = &self.inputs;
        let (input, h0, c0, weights) = (input.get(cx)?, h0.get(cx)?, c0.get(cx)?, self.weights.get(cx)?);
        let gates = input_gates(&input, weights.each())?;
        let s = super::Steps::stacked(&super::Steps::run(&gates, &h0, &c0, &weights.state)?)?;
        let (of_gates, made) = gradients(&s, [&h0, &c0, &weights.state], grads, cx.needs(4))?;
        self.with_input(cx, &view::flatten(&of_gates, 0, 1)?, made)
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
        for (name, t) in ["input", "hx", "cx"].into_iter().zip(&self.inputs) {
            visit(name, t);
        }
        self.weights.visit(visit);
        for (name, t) in [("active", &self.gates), ("cell", &self.cell), ("out", &self.out)] {
            visit(name, t);
        }
    }
}
