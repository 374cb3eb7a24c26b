//! A GRU layer over whole sequences: by the device's kernel, recorded as one node, or composed of recorded operations.

use smallvec::smallvec;

use super::fused::{sizes, states, turned};
use super::weights::OwnedWeights;
use super::{SavedWeights, Weights, linear_gradients, mul_add, shifted, tanh};
use crate::backend::recurrent::{self as kernel, GruGradients, GruSteps, Recurrence};
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record_all};
use crate::layout::{Dims, MemoryFormat};
use crate::ops::join::{cat, stack};
use crate::ops::matmul::{linear, mm};
use crate::ops::view::cut::{narrow, select};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;

/// The intermediate results of all steps, each of shape `[steps, batch, hidden]`.
struct Steps {
    reset: Tensor,
    update: Tensor,
    candidate: Tensor,
    /// What the state gives to the candidate before the reset gate scales it.
    hidden: Tensor,
    out: Tensor,
}

impl Steps {
    fn run(input: &Tensor, hx: &Tensor, weights: Weights) -> Result<Steps> {
        let (weight, [input_bias, bias]) =
            (weights.state, weights.biases.map_or([None; 2], |both| both.map(Some)));
        let gates = &arith::clone_in(&linear(input, weights.input, input_bias)?, MemoryFormat::Contiguous)?;
        let (count, hidden) = (gates.shape()[0] as i64, weight.shape()[1] as i64);
        let sigmoid = |t: &Tensor| rows::sigmoid.call(&[t.into()], &[]);
        let part = |t: &Tensor, k: i64, gates: i64| narrow(t, 1, k * hidden, gates * hidden);
        let mut h = hx.clone();
        let mut columns: [Vec<Tensor>; 5] = Default::default();
        for step in 0..count {
            let (x, product) = (select(gates, 0, step)?, mm(&h, &view::t_of(weight)?)?);
            let s = bias.map_or(Ok(product.clone()), |b| arith::add(&product, b))?;
            let open = sigmoid(&arith::add(&part(&x, 0, 2)?, &part(&s, 0, 2)?)?)?;
            let (reset, update, own) = (part(&open, 0, 1)?, part(&open, 1, 1)?, part(&s, 2, 1)?);
            let candidate = tanh(&mul_add(&reset, &own, Some(&part(&x, 2, 1)?))?)?;
            h = mul_add(&update, &arith::sub(&h, &candidate)?, Some(&candidate))?;
            let row = [reset, update, candidate, own, h.clone()];
            columns.iter_mut().zip(row).for_each(|(column, t)| column.push(t));
        }
        let [reset, update, candidate, hidden, out] = &columns;
        Ok(Steps {
            reset: stack(reset, 0)?,
            update: stack(update, 0)?,
            candidate: stack(candidate, 0)?,
            hidden: stack(hidden, 0)?,
            out: stack(out, 0)?,
        })
    }
}

/// The outputs of all steps.
pub(super) fn gru_layer(input: &Tensor, hx: &Tensor, weights: Weights) -> Result<Tensor> {
    weights.check("gru_layer", 3, input, &[hx])?;
    match fused(input, hx, weights)? {
        Some(out) => Ok(out),
        None => Ok(Steps::run(input, hx, weights)?.out),
    }
}

/// The outputs by the device's kernel; None where they have to be composed.
fn fused(input: &Tensor, hx: &Tensor, weights: Weights) -> Result<Option<Tensor>> {
    let inputs: Vec<&Tensor> = [input, hx].into_iter().chain(weights.all()).collect();
    let Some(r) = sizes(&inputs, weights)? else { return Ok(None) };
    let Recurrence { steps, batch, hidden, .. } = r;
    let (x, dense) = (input.dense(input.dtype())?, OwnedWeights::dense(weights)?);
    let out = states(hx, steps)?;
    let recorded = grad_enabled() && inputs.iter().any(|t| t.requires_grad());
    // Without a backward pass the gates of a step are overwritten by those of the next.
    let kept = if recorded { steps } else { 1 };
    let active = Tensor::empty_on(Dims::from([kept, 4, hidden, batch]), input.dtype(), input.device())?;
    let views = GruSteps { gates: active.raw(), out: out.raw() };
    if !kernel::gru(r, x.raw(), dense.views(), views)? {
        return Ok(None);
    }
    let outputs = turned(&narrow(&out, 0, 1, steps as i64)?)?;
    if !recorded {
        return Ok(Some(outputs));
    }
    let made = record_all(vec![outputs], &inputs, |_| GruLayer {
        inputs: [input, hx].map(SavedTensor::input),
        weights: SavedWeights::new(weights),
        gates: SavedTensor::input(&active),
        out: SavedTensor::input(&out),
        r,
    })?;
    let [made] = <[Tensor; 1]>::try_from(made)
        .map_err(|_| Error::Runtime("gru_layer: one result was recorded".into()))?;
    Ok(Some(made))
}

struct GruLayer {
    inputs: [SavedTensor; 2],
    weights: SavedWeights,
    gates: SavedTensor,
    out: SavedTensor,
    r: Recurrence,
}

impl GruLayer {
    fn fused(&self, cx: &Cx, grad: &Tensor) -> Result<Option<Grads>> {
        let Recurrence { steps, batch, hidden, .. } = self.r;
        let weight = self.weights.state.get(cx)?;
        let (dtype, device) = (weight.dtype(), weight.device());
        let (gates, out) = (self.gates.get(cx)?, self.out.get(cx)?);
        let of_state = Tensor::empty_on(Dims::from([hidden, batch]), dtype, device)?;
        let slopes = Tensor::empty_on(Dims::from([4 * hidden, steps, batch]), dtype, device)?;
        let (grad, dense) = (turned(grad)?, weight.dense(dtype)?);
        let views = GruSteps { gates: gates.raw(), out: out.raw() };
        let grads = GruGradients { slopes: slopes.raw(), state: of_state.raw() };
        if !kernel::gru_backward(self.r, grad.raw(), dense.raw(), views, grads)? {
            return Ok(None);
        }
        let one = hidden as i64;
        // The rows of the candidate precede those of reset and update gate.
        let by_gate = |t: &Tensor| cat(&[narrow(t, 0, one, 2 * one)?, narrow(t, 0, 0, one)?], 0);
        let rows = view::reshape_to(&slopes, &Dims::from([4 * hidden, steps * batch]))?;
        let of_sums = view::t_of(&narrow(&rows, 0, 0, 3 * one)?)?;
        let of_gates = view::t_of(&narrow(&rows, 0, one, 3 * one)?)?;
        let before = turned(&narrow(&out, 0, 0, steps as i64)?)?;
        let needs = [false, cx.needs(3), self.weights.biases.is_some() && cx.needs(5)];
        let [_, of_weight, of_bias] = linear_gradients(&of_sums, &before, &weight, needs)?;
        let [of_weight, of_bias] = [of_weight, of_bias].map(|t| t.map(|t| by_gate(&t)).transpose());
        self.with_input(cx, &of_gates, Some(turned(&of_state)?), [of_weight?, of_bias?]).map(Some)
    }

    /// The gradients of all inputs, from those of the input's product, `[steps * batch, 3 * hidden]`, of the first state and of the
    /// weight and bias of the states.
    fn with_input(
        &self,
        cx: &Cx,
        gates: &Tensor,
        of_state: Option<Tensor>,
        [of_weight, of_bias]: [Option<Tensor>; 2],
    ) -> Result<Grads> {
        let [of_input, of_input_weight, of_input_bias] =
            self.weights.input_gradients(cx, &self.inputs[0], 2, gates)?;
        let mut grads: Grads = smallvec![of_input, of_state, of_input_weight, of_weight];
        if self.weights.biases.is_some() {
            grads.extend([of_input_bias, of_bias]);
        }
        Ok(grads)
    }

    /// The gradients composed of recorded operations, with the steps recomputed from the inputs.
    fn composed(&self, cx: &Cx, grad: &Tensor) -> Result<Grads> {
        let [input, hx] = &self.inputs;
        let (input, hx, weights) = (input.get(cx)?, hx.get(cx)?, self.weights.get(cx)?);
        let (s, weight) = (Steps::run(&input, &hx, weights.each())?, weights.state);
        let before = shifted(&hx, &s.out)?;
        // Through tanh and sigmoid: `a (1 - b²)` and `a b (1 - b)`.
        let tanh_slope = |b: &Tensor| arith::sub(1.0, &arith::mul(b, b)?);
        let sigmoid_slope = |b: &Tensor| arith::mul(b, &arith::sub(1.0, b)?);
        let by_candidate = arith::mul(&arith::sub(1.0, &s.update)?, &tanh_slope(&s.candidate)?)?;
        let by_update = arith::mul(&arith::sub(&before, &s.candidate)?, &sigmoid_slope(&s.update)?)?;
        let by_reset = arith::mul(&s.hidden, &sigmoid_slope(&s.reset)?)?;
        let (mut dh, mut of_inputs, mut of_sums) = (None::<Tensor>, Vec::new(), Vec::new());
        for step in (0..s.out.shape()[0] as i64).rev() {
            let at = |t: &Tensor| select(t, 0, step);
            let here = at(grad)?;
            let g = dh.map_or(Ok(here.clone()), |d| arith::add(&here, &d))?;
            let candidate = arith::mul(&g, &at(&by_candidate)?)?;
            let update = arith::mul(&g, &at(&by_update)?)?;
            let reset = arith::mul(&candidate, &at(&by_reset)?)?;
            let own = arith::mul(&candidate, &at(&s.reset)?)?;
            let sums = cat(&[reset.clone(), update.clone(), own], 1)?;
            dh = Some(mul_add(&g, &at(&s.update)?, Some(&mm(&sums, &weight)?))?);
            of_inputs.push(cat(&[reset, update, candidate], 1)?);
            of_sums.push(sums);
        }
        of_inputs.reverse();
        of_sums.reverse();
        let flat = |steps: &[Tensor]| view::flatten(&stack(steps, 0)?, 0, 1);
        let (of_gates, of_sums) = (flat(&of_inputs)?, flat(&of_sums)?);
        let needs = [false, true, self.weights.biases.is_some()];
        let [_, of_weight, of_bias] = linear_gradients(&of_sums, &before, &weight, needs)?;
        self.with_input(cx, &of_gates, dh, [of_weight, of_bias])
    }
}

impl Function for GruLayer {
    fn name(&self) -> &'static str {
        "GruLayerBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(grad) = grads.into_iter().next().flatten() else {
            return Ok(smallvec![None; self.inputs.len() + 2 + self.weights.biases.iter().flatten().count()]);
        };
        let made = if grad_enabled() { None } else { self.fused(cx, &grad)? };
        made.map_or_else(|| self.composed(cx, &grad), Ok)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        for (name, t) in ["input", "hx"].into_iter().zip(&self.inputs) {
            visit(name, t);
        }
        self.weights.visit(visit);
        for (name, t) in [("active", &self.gates), ("out", &self.out)] {
            visit(name, t);
        }
    }
}
