//! The weights of a recurrent layer: given, held, and saved for backward.

use crate::backend::recurrent as kernel;
use crate::ensure;
use crate::error::{Error, Result};
use crate::graph::{Cx, SavedTensor};
use crate::ops::matmul::mm;
use crate::ops::schema::Args;
use crate::ops::{reduce, view};
use crate::tensor::Tensor;

/// The weights of a layer, with a row for each gate of each hidden unit.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) input: &'a Tensor,
    pub(super) state: &'a Tensor,
    /// Of both products.
    pub(super) biases: Option<[&'a Tensor; 2]>,
}

impl<'a> Weights<'a> {
    /// Of four arguments, beginning with the one at `first`.
    pub(super) fn of(op: &str, a: &'a Args, first: usize) -> Result<Weights<'a>> {
        let biases = match (a.opt_tensor(first + 2)?, a.opt_tensor(first + 3)?) {
            (Some(of_input), Some(of_state)) => Some([of_input, of_state]),
            (None, None) => None,
            _ => {
                return Err(Error::Runtime(format!(
                    "{op}: expected the biases of both products, or of none"
                )));
            }
        };
        Ok(Weights { input: a.tensor(first)?, state: a.tensor(first + 1)?, biases })
    }

    pub(super) fn all(self) -> impl Iterator<Item = &'a Tensor> {
        [self.input, self.state].into_iter().chain(self.biases.into_iter().flatten())
    }

    /// An error unless they fit `input` and the first states, with `gates` gates.
    pub(super) fn check(
        self,
        op: &'static str,
        gates: usize,
        input: &Tensor,
        states: &[&Tensor],
    ) -> Result<()> {
        let shapes =
            || [input].into_iter().chain(states.iter().copied()).chain(self.all()).map(|t| t.shape());
        let fits = input.rank() == 3 && input.shape()[0] > 0 && self.state.rank() == 2 && {
            let hidden = self.state.shape()[1];
            let (batch, features, rows) = (input.shape()[1], input.shape()[2], gates * hidden);
            let shape = |t: &Tensor, shape: &[usize]| t.shape()[..] == *shape;
            shape(self.state, &[rows, hidden])
                && shape(self.input, &[rows, features])
                && states.iter().all(|s| shape(s, &[batch, hidden]))
                && self.biases.into_iter().flatten().all(|b| shape(b, &[rows]))
        };
        ensure!(
            fits,
            Runtime,
            "{op}: shapes do not fit: {:?}",
            shapes().map(|s| s.to_vec()).collect::<Vec<_>>()
        );
        input.expect_float(op).map(|_| ())
    }
}

/// The same, held.
pub(super) struct OwnedWeights {
    pub(super) input: Tensor,
    pub(super) state: Tensor,
    pub(super) biases: Option<[Tensor; 2]>,
}

impl OwnedWeights {
    pub(super) fn dense(weights: Weights) -> Result<OwnedWeights> {
        let dense = |t: &Tensor| t.dense(t.dtype());
        let biases = weights.biases.map(|[a, b]| Ok([dense(a)?, dense(b)?])).transpose()?;
        Ok(OwnedWeights { input: dense(weights.input)?, state: dense(weights.state)?, biases })
    }

    pub(super) fn each(&self) -> Weights<'_> {
        let biases = self.biases.as_ref().map(<[Tensor; 2]>::each_ref);
        Weights { input: &self.input, state: &self.state, biases }
    }

    pub(super) fn views(&self) -> kernel::Weights<'_> {
        let biases = self.biases.as_ref().map(|both| both.each_ref().map(Tensor::raw));
        kernel::Weights { input: self.input.raw(), state: self.state.raw(), biases }
    }
}

/// The same, saved by a node, of which they are the last inputs.
pub(super) struct SavedWeights {
    pub(super) input: SavedTensor,
    pub(super) state: SavedTensor,
    pub(super) biases: Option<[SavedTensor; 2]>,
}

impl SavedWeights {
    pub(super) fn new(weights: Weights) -> SavedWeights {
        SavedWeights {
            input: SavedTensor::input(weights.input),
            state: SavedTensor::input(weights.state),
            biases: weights.biases.map(|both| both.map(SavedTensor::input)),
        }
    }

    pub(super) fn get(&self, cx: &Cx) -> Result<OwnedWeights> {
        let biases = self.biases.as_ref().map(|[a, b]| Ok([a.get(cx)?, b.get(cx)?])).transpose()?;
        Ok(OwnedWeights { input: self.input.get(cx)?, state: self.state.get(cx)?, biases })
    }

    /// The gradients of the input, its weight and its bias, from those of the results of their product, `[steps * batch, rows]`. The weights are
    /// the node's inputs from `first` on.
    pub(super) fn input_gradients(
        &self,
        cx: &Cx,
        input: &SavedTensor,
        first: usize,
        grad: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let of_biases = self.biases.is_some() && (cx.needs(first + 2) || cx.needs(first + 3));
        let needs = [cx.needs(0), cx.needs(first), of_biases];
        linear_gradients(grad, &input.get(cx)?, &self.input.get(cx)?, needs)
    }

    pub(super) fn visit(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        let biases = ["bias_ih", "bias_hh"].into_iter().zip(self.biases.iter().flatten());
        let weights = [("weight_ih", &self.input), ("weight_hh", &self.state)];
        weights.into_iter().chain(biases).for_each(|(name, t)| visit(name, t));
    }
}

/// The gradients of `x`, `[steps, batch, features]`, `weight` and bias of a product, as far as they are needed, from those of its
/// results, `[steps * batch, rows]`.
pub(super) fn linear_gradients(
    grad: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    needs: [bool; 3],
) -> Result<[Option<Tensor>; 3]> {
    let of_x = || view::reshape_to(&mm(grad, weight)?, x.shape());
    let of_weight = || mm(&view::t_of(grad)?, &view::flatten(x, 0, 1)?);
    let of_bias = || reduce::sum_mask(&view::t_of(grad)?, 0b10, false, None);
    Ok([
        needs[0].then(of_x).transpose()?,
        needs[1].then(of_weight).transpose()?,
        needs[2].then(of_bias).transpose()?,
    ])
}
