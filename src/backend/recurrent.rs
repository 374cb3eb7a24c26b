//! LSTM and GRU layers in one kernel per direction of time. States are transposed, `[hidden, batch]`, and all tensors dense.

use super::{View, of, same_device};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;

/// The sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence {
    pub steps: usize,
    pub batch: usize,
    pub features: usize,
    pub hidden: usize,
}

/// The weights of a layer, with a row for each gate of each hidden unit.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    /// `[gates * hidden, features]`.
    pub input: View<'a>,
    /// `[gates * hidden, hidden]`.
    pub state: View<'a>,
    /// Of both products, `[gates * hidden]` each.
    pub biases: Option<[View<'a>; 2]>,
}

impl Recurrence {
    /// The elements of the gates that are kept in `gates`.
    pub fn kept(self, gates: View) -> usize {
        let kept = if gates.layout.numel() == 4 * self.hidden * self.batch { 1 } else { self.steps };
        kept * 4 * self.hidden * self.batch
    }
}

impl<'a> Weights<'a> {
    pub fn views(self) -> impl Iterator<Item = View<'a>> {
        [self.input, self.state].into_iter().chain(self.biases.into_iter().flatten())
    }
}

/// The steps of a layer as the forward pass leaves them.
#[derive(Clone, Copy)]
pub struct Steps<'a> {
    /// Input, forget, candidate and output gates after their activation, of all steps or of the last: `[kept, 4, hidden, batch]`.
    pub gates: View<'a>,
    /// The states before the first step and after each: `[steps + 1, hidden, batch]`.
    pub cell: View<'a>,
    pub out: View<'a>,
}

/// The steps of a GRU as the forward pass leaves them.
#[derive(Clone, Copy)]
pub struct GruSteps<'a> {
    /// Reset and update gates and the candidate after their activation, and what the state gives to the candidate before the
    /// reset gate scales it, of all steps or of the last: `[kept, 4, hidden, batch]`.
    pub gates: View<'a>,
    /// The outputs before the first step and after each: `[steps + 1, hidden, batch]`.
    pub out: View<'a>,
}

/// The gradients that the backward pass of a GRU computes.
#[derive(Clone, Copy)]
pub struct GruGradients<'a> {
    /// `[4 * hidden, steps, batch]`, of four values for each hidden unit: the candidate's part of the recurrent product, then reset gate,
    /// update gate and candidate before their activation. Rows from `hidden` on are the gradient of the input's part, the first
    /// `3 * hidden` that of the recurrent product.
    pub slopes: View<'a>,
    /// Of the first output, `[hidden, batch]`.
    pub state: View<'a>,
}

/// Whether the device has these kernels for a dtype.
pub fn supported(device: Device, dtype: DType) -> Result<bool> {
    Ok(of(device)?.recurs(dtype))
}

/// Runs the steps, given the input, `[steps, batch, features]`, and the first of both states. False if the device has no kernel
/// for it.
pub fn lstm(r: Recurrence, input: View, weights: Weights, steps: Steps) -> Result<bool> {
    let device = same_device([input, steps.gates, steps.cell, steps.out].into_iter().chain(weights.views()))?;
    of(device)?.lstm(r, input, weights, steps)
}

/// Computes the gradients of the gates before their activation, `[4 * hidden, steps, batch]`, from those of the outputs,
/// `[steps, hidden, batch]`, and the weight of the states. `states` are the gradients of `[out, cell]`: that of the last cell is given, those of the first
/// states are the result. False if the device has no kernel for it.
pub fn lstm_backward(
    r: Recurrence,
    grad: View,
    weight: View,
    steps: Steps,
    slopes: View,
    states: [View; 2],
) -> Result<bool> {
    let views = [grad, weight, steps.gates, steps.cell, steps.out, slopes].into_iter().chain(states);
    of(same_device(views)?)?.lstm_backward(r, grad, weight, steps, slopes, states)
}

/// Runs the steps of a GRU, given the input, `[steps, batch, features]`, and the first output. False if the device has no kernel
/// for it.
pub fn gru(r: Recurrence, input: View, weights: Weights, steps: GruSteps) -> Result<bool> {
    let device = same_device([input, steps.gates, steps.out].into_iter().chain(weights.views()))?;
    of(device)?.gru(r, input, weights, steps)
}

/// Computes the gradients from those of the outputs, `[steps, hidden, batch]`, and the weight of the states. False if the device
/// has no kernel for it.
pub fn gru_backward(
    r: Recurrence,
    grad: View,
    weight: View,
    steps: GruSteps,
    grads: GruGradients,
) -> Result<bool> {
    let device = same_device([grad, weight, steps.gates, steps.out, grads.slopes, grads.state])?;
    of(device)?.gru_backward(r, grad, weight, steps, grads)
}
