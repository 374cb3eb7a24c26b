//! A GRU layer over whole sequences: by the device's kernel, recorded as one node, or composed of recorded operations.

use smallvec::smallvec;

use super::fused::{LEAST_BATCH, states, turned};
use super::{mul_add, shifted, tanh};
use crate::backend::recurrent::{self as kernel, GruGradients, GruSteps, Recurrence};
use crate::ensure;
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record_all};
use crate::layout::{Dims, MemoryFormat};
use crate::ops::join::{cat, stack};
use crate::ops::matmul::mm;
use crate::ops::view::cut::{narrow, select};
use crate::ops::{arith, reduce, rows, view};
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
    fn run(gates: &Tensor, hx: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Steps> {
        let (count, hidden) = (gates.shape()[0] as i64, weight.shape()[1] as i64);
        let gates = &arith::clone_in(gates, MemoryFormat::Contiguous)?;
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
pub(super) fn gru_layer(
    gates: &Tensor,
    hx: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let fits = gates.rank() == 3 && weight.rank() == 2 && gates.shape()[0] > 0 && {
        let (batch, hidden) = (gates.shape()[1], weight.shape()[1]);
        gates.shape()[2] == 3 * hidden
            && weight.shape()[0] == 3 * hidden
            && *hx.shape() == Dims::from([batch, hidden])
            && bias.is_none_or(|b| *b.shape() == Dims::from([3 * hidden]))
    };
    ensure!(
        fits,
        Runtime,
        "gru_layer: shapes do not fit: gates {}, hx {}, weight {}, bias {:?}",
        gates.shape(),
        hx.shape(),
        weight.shape(),
        bias.map(|b| b.shape().to_vec())
    );
    gates.expect_float("gru_layer")?;
    match fused(gates, hx, weight, bias)? {
        Some(out) => Ok(out),
        None => Ok(Steps::run(gates, hx, weight, bias)?.out),
    }
}

/// The outputs by the device's kernel; None where they have to be composed.
fn fused(gates: &Tensor, hx: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Option<Tensor>> {
    let inputs: Vec<&Tensor> = [gates, hx, weight].into_iter().chain(bias).collect();
    let (dtype, device) = (gates.dtype(), gates.device());
    let alike = inputs.iter().all(|t| t.dtype() == dtype && t.device() == device && !t.is_batched());
    let (steps, batch, hidden) = (gates.shape()[0], gates.shape()[1], weight.shape()[1]);
    if !alike || hidden == 0 || batch < LEAST_BATCH || !kernel::supported(device, dtype)? {
        return Ok(None);
    }
    let r = Recurrence { steps, batch, hidden };
    let input = view::permute_dims(&gates.detach(), &[2, 0, 1], "PermuteBackward0")?.dense(dtype)?;
    let (dense, dense_bias) = (weight.dense(dtype)?, bias.map(|b| b.dense(dtype)).transpose()?);
    let out = states(hx, steps)?;
    let active = Tensor::empty_on(Dims::from([steps, 4, hidden, batch]), dtype, device)?;
    let views = GruSteps { gates: active.raw(), out: out.raw() };
    if !kernel::gru(r, input.raw(), dense.raw(), dense_bias.as_ref().map(|b| b.raw()), views)? {
        return Ok(None);
    }
    let outputs = turned(&narrow(&out, 0, 1, steps as i64)?)?;
    if !grad_enabled() || !inputs.iter().any(|t| t.requires_grad()) {
        return Ok(Some(outputs));
    }
    let made = record_all(vec![outputs], &inputs, |_| GruLayer {
        inputs: [gates, hx, weight].map(SavedTensor::input),
        bias: bias.map(SavedTensor::input),
        gates: SavedTensor::input(&active),
        out: SavedTensor::input(&out),
        r,
    })?;
    let [made] = <[Tensor; 1]>::try_from(made)
        .map_err(|_| Error::Runtime("gru_layer: one result was recorded".into()))?;
    Ok(Some(made))
}

struct GruLayer {
    inputs: [SavedTensor; 3],
    bias: Option<SavedTensor>,
    gates: SavedTensor,
    out: SavedTensor,
    r: Recurrence,
}

impl GruLayer {
    fn fused(&self, cx: &Cx, grad: &Tensor) -> Result<Option<Grads>> {
        let Recurrence { steps, batch, hidden } = self.r;
        let weight = self.inputs[2].get(cx)?;
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
        let of_sums = narrow(&slopes, 0, 0, 3 * one)?;
        let of_weight = if cx.needs(2) {
            let rows = view::reshape_to(&of_sums, &Dims::from([3 * hidden, steps * batch]))?;
            let before = turned(&narrow(&out, 0, 0, steps as i64)?)?;
            let before = view::reshape_to(&before, &Dims::from([steps * batch, hidden]))?;
            Some(by_gate(&mm(&rows, &before)?)?)
        } else {
            None
        };
        let of_bias = if self.bias.is_some() && cx.needs(3) {
            Some(by_gate(&reduce::sum_mask(&of_sums, 0b110, false, None)?)?)
        } else {
            None
        };
        let of_gates =
            view::permute_dims(&narrow(&slopes, 0, one, 3 * one)?, &[1, 2, 0], "PermuteBackward0")?;
        Ok(Some(self.grads([Some(of_gates), Some(turned(&of_state)?), of_weight, of_bias])))
    }

    /// One for each input.
    fn grads(&self, [gates, hx, weight, bias]: [Option<Tensor>; 4]) -> Grads {
        let mut grads: Grads = smallvec![gates, hx, weight];
        grads.extend(self.bias.as_ref().map(|_| bias));
        grads
    }

    /// The gradients composed of recorded operations, with the steps recomputed from the inputs.
    fn composed(&self, cx: &Cx, grad: &Tensor) -> Result<Grads> {
        let [gates, hx, weight] = &self.inputs;
        let (hx, weight) = (hx.get(cx)?, weight.get(cx)?);
        let bias = self.bias.as_ref().map(|b| b.get(cx)).transpose()?;
        let s = Steps::run(&gates.get(cx)?, &hx, &weight, bias.as_ref())?;
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
        let (of_gates, of_sums) = (stack(&of_inputs, 0)?, view::flatten(&stack(&of_sums, 0)?, 0, 1)?);
        let of_weight = mm(&view::t_of(&of_sums)?, &view::flatten(&before, 0, 1)?)?;
        let of_bias = self.bias.as_ref().map(|_| reduce::sum_mask(&of_sums, 0b1, false, None)).transpose()?;
        Ok(self.grads([Some(of_gates), dh, Some(of_weight), of_bias]))
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
            return Ok(self.grads(Default::default()));
        };
        let made = if grad_enabled() { None } else { self.fused(cx, &grad)? };
        made.map_or_else(|| self.composed(cx, &grad), Ok)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        for (name, t) in ["gates", "hx", "weight"].into_iter().zip(&self.inputs) {
            visit(name, t);
        }
        for (name, t) in [("active", &self.gates), ("out", &self.out)] {
            visit(name, t);
        }
        self.bias.iter().for_each(|b| visit("bias", b));
    }
}
