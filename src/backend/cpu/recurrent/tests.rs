//! Compares the steps of LSTMs and GRUs and their gradients with its formulas in float64, on each instruction set.

use super::*;
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};
use crate::backend::recurrent::{GruGradients, GruSteps, Weights};
use crate::layout::{Dims, Layout};
use crate::storage::Storage;

/// Reproducible numbers between -1 and 1.
fn numbers<T: Number>(count: usize, seed: u64) -> Vec<T> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        T::of((x >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    (0..count).map(next).collect()
}

struct Data(Storage, Layout);

impl Data {
    fn new<T: Number>(values: &[T]) -> Data {
        Data(Storage::from_slice(values).unwrap(), Layout::contiguous(Dims::from([values.len()])))
    }

    fn view<T: Number>(&self) -> View<'_> {
        View { storage: &self.0, layout: &self.1, dtype: T::DTYPE }
    }
}

/// The sizes that are tested: steps, batch, features, hidden.
const SIZES: [[usize; 4]; 6] =
    [[1, 1, 1, 1], [3, 8, 7, 5], [2, 33, 3, 40], [4, 16, 50, 70], [70, 2, 9, 33], [5, 63, 6, 8]];

/// Runs `test` with all sizes on each instruction set.
fn on_each_instruction_set(test: impl Fn(Recurrence)) {
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) != isa {
            continue;
        }
        for [steps, batch, features, hidden] in SIZES {
            test(Recurrence { steps, batch, features, hidden });
        }
    }
    force_isa(best_isa());
}

/// A layer's input, weights and biases.
#[derive(Clone)]
struct Layer<T> {
    input: Vec<T>,
    of_input: Vec<T>,
    of_state: Vec<T>,
    biases: [Vec<T>; 2],
}

impl<T: Number> Layer<T> {
    fn new(r: Recurrence, gates: usize) -> Layer<T> {
        let rows = gates * r.hidden;
        Layer {
            input: numbers(r.steps * r.features * r.batch, 1),
            of_input: numbers(rows * r.features, 7),
            of_state: numbers(rows * r.hidden, 2),
            biases: [numbers(rows, 8), numbers(rows, 9)],
        }
    }

    fn wide(&self) -> Layer<f64> {
        Layer {
            input: wide(&self.input),
            of_input: wide(&self.of_input),
            of_state: wide(&self.of_state),
            biases: [wide(&self.biases[0]), wide(&self.biases[1])],
        }
    }

    /// What the layer is to a kernel.
    fn with<R>(&self, f: impl FnOnce(View, Weights) -> R) -> R {
        let [input, of_input, of_state] = [&self.input, &self.of_input, &self.of_state].map(|x| Data::new(x));
        let biases = self.biases.each_ref().map(|b| Data::new(b));
        let weights = Weights {
            input: of_input.view::<T>(),
            state: of_state.view::<T>(),
            biases: Some(biases.each_ref().map(|b| b.view::<T>())),
        };
        f(input.view::<T>(), weights)
    }
}

impl Layer<f64> {
    /// What row `k` of the gates gets from the input of sample `b` at step `t`.
    fn input_part(&self, r: Recurrence, k: usize, t: usize, b: usize) -> f64 {
        let x = |f: usize| self.input[(t * r.batch + b) * r.features + f];
        self.biases[0][k] + (0..r.features).map(|f| self.of_input[k * r.features + f] * x(f)).sum::<f64>()
    }

    /// What row `k` of the gates gets from a state.
    fn state_part(&self, k: usize, h: &[f64]) -> f64 {
        self.biases[1][k] + self.of_state[k * h.len()..].iter().zip(h).map(|(w, h)| w * h).sum::<f64>()
    }

    /// The gradient of an element of the input, from those of the gates, `[rows, steps, batch]`.
    fn input_gradient(&self, r: Recurrence, slopes: &[f64], at: usize) -> f64 {
        let (t, b, f) = (at / (r.features * r.batch), at / r.features % r.batch, at % r.features);
        let rows = self.biases[0].len();
        (0..rows).map(|k| self.of_input[k * r.features + f] * slopes[(k * r.steps + t) * r.batch + b]).sum()
    }
}

/// The loss of which gradients are computed: the sum of outputs times `grad`, and of the last cells times `grad_cell`.
fn loss(r: Recurrence, layer: &Layer<f64>, states: [&[f64]; 2], grad: &[f64], grad_cell: &[f64]) -> f64 {
    let Recurrence { steps, batch, hidden, .. } = r;
    let mut total = 0.0;
    for b in 0..batch {
        let at = |s: &[f64]| (0..hidden).map(|j| s[j * batch + b]).collect::<Vec<_>>();
        let [mut h, mut c] = states.map(at);
        for t in 0..steps {
            let sum = |k: usize| layer.input_part(r, k, t, b) + layer.state_part(k, &h);
            let squash = |x: f64| 1.0 / (1.0 + (-x).exp());
            let new: Vec<_> = (0..hidden)
                .map(|j| {
                    let [i, f, g, o] = [0, 1, 2, 3].map(|gate| sum(gate * hidden + j));
                    let c = squash(i) * g.tanh() + squash(f) * c[j];
                    (c, squash(o) * c.tanh())
                })
                .collect();
            (c, h) = new.into_iter().unzip();
            total += h.iter().enumerate().map(|(j, h)| h * grad[(t * hidden + j) * batch + b]).sum::<f64>();
        }
        total += c.iter().enumerate().map(|(j, c)| c * grad_cell[j * batch + b]).sum::<f64>();
    }
    total
}

/// The derivative of `f` at zero, by central differences.
fn slope(f: impl Fn(f64) -> f64) -> f64 {
    const STEP: f64 = 1e-5;
    (f(STEP) - f(-STEP)) / (2.0 * STEP)
}

/// `values` with `by` added to one of them.
fn moved(values: &[f64], at: usize, by: f64) -> Vec<f64> {
    let mut values = values.to_vec();
    values[at] += by;
    values
}

fn wide<T: Number>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn near(found: f64, exact: f64, tolerance: f64, what: &str) {
    let room = tolerance * (1.0 + exact.abs());
    assert!((found - exact).abs() < room, "{what}: {found}, not {exact}");
}

/// Compares the gradients of some elements of the input, and of some of both biases, of which `slopes` has those of the rows of
/// the input's product and those of the state's product.
fn compare_layer(
    r: Recurrence,
    layer: &Layer<f64>,
    slopes: [&[f64]; 2],
    tolerance: f64,
    value: impl Fn(&Layer<f64>) -> f64,
) {
    for at in (0..layer.input.len()).step_by(layer.input.len() / 23 + 1) {
        let exact = slope(|by| value(&Layer { input: moved(&layer.input, at, by), ..layer.clone() }));
        near(layer.input_gradient(r, slopes[0], at), exact, tolerance, "input");
    }
    for (which, slopes) in slopes.into_iter().enumerate() {
        for row in (0..layer.biases[0].len()).step_by(r.hidden / 3 + 1) {
            let exact = slope(|by| {
                let mut layer = layer.clone();
                layer.biases[which][row] += by;
                value(&layer)
            });
            near(
                slopes[row * r.steps * r.batch..][..r.steps * r.batch].iter().sum(),
                exact,
                tolerance,
                "bias",
            );
        }
    }
}

fn compare<T: Number>(r: Recurrence, tolerance: f64) {
    let Recurrence { steps, batch, hidden, .. } = r;
    let (state, layer) = (batch * hidden, Layer::<T>::new(r, 4));
    let (h, c) = (numbers::<T>(state, 3), numbers::<T>(state, 4));
    let (grad, grad_cell) = (numbers::<T>(steps * state, 5), numbers::<T>(state, 6));
    let with_room = |first: &[T]| Data::new(&[first, &vec![T::NAN; steps * state]].concat());
    let (cell, out) = (with_room(&c), with_room(&h));
    let gates = Data::new(&vec![T::NAN; 4 * steps * state]);
    let views = Steps { gates: gates.view::<T>(), cell: cell.view::<T>(), out: out.view::<T>() };
    layer.with(|input, weights| lstm::<T>(r, input, weights, views)).unwrap();

    let (layer64, h, c) = (layer.wide(), wide(&h), wide(&c));
    let (grad64, grad_cell64) = (wide(&grad), wide(&grad_cell));
    let value = |layer: &Layer<f64>, h: &[f64], c: &[f64]| loss(r, layer, [h, c], &grad64, &grad_cell64);
    let outputs = wide(&out.0.slice::<T>()[state..]);
    let cells = wide(&cell.0.slice::<T>()[steps * state..]);
    let found = outputs.iter().zip(&grad64).chain(cells.iter().zip(&grad_cell64)).map(|(a, b)| a * b).sum();
    near(found, value(&layer64, &h, &c), tolerance, "loss");

    let (slopes, of_out) = (Data::new(&vec![T::NAN; 4 * steps * state]), Data::new(&vec![T::NAN; state]));
    let (g, of_cell) = (Data::new(&grad), Data::new(&grad_cell));
    let states = [of_out.view::<T>(), of_cell.view::<T>()];
    let backward = |_: View, weights: Weights| {
        lstm_backward::<T>(r, g.view::<T>(), weights.state, views, slopes.view::<T>(), states)
    };
    layer.with(backward).unwrap();
    let (of_out, of_cell) = (wide(of_out.0.slice::<T>()), wide(of_cell.0.slice::<T>()));
    let tolerance = tolerance.max(1e-8);
    for at in (0..state).step_by(state / 5 + 1) {
        near(of_out[at], slope(|by| value(&layer64, &moved(&h, at, by), &c)), tolerance, "first output");
        near(of_cell[at], slope(|by| value(&layer64, &h, &moved(&c, at, by))), tolerance, "first cell");
    }
    let slopes = wide(slopes.0.slice::<T>());
    compare_layer(r, &layer64, [&slopes, &slopes], tolerance, |layer| value(layer, &h, &c));
}

#[test]
fn steps_and_their_gradients_are_those_of_the_formulas_on_each_instruction_set() {
    on_each_instruction_set(|r| {
        compare::<f64>(r, 1e-12);
        compare::<f32>(r, 2e-4);
    });
}

/// As [`loss`], of a GRU.
fn gru_loss(r: Recurrence, layer: &Layer<f64>, h: &[f64], grad: &[f64]) -> f64 {
    let Recurrence { steps, batch, hidden, .. } = r;
    let mut total = 0.0;
    for b in 0..batch {
        let mut h: Vec<f64> = (0..hidden).map(|j| h[j * batch + b]).collect();
        for t in 0..steps {
            let (x, sum) = (|k: usize| layer.input_part(r, k, t, b), |k: usize| layer.state_part(k, &h));
            let squash = |x: f64| 1.0 / (1.0 + (-x).exp());
            let new = (0..hidden).map(|j| {
                let (reset, update) = (squash(x(j) + sum(j)), squash(x(hidden + j) + sum(hidden + j)));
                let candidate = (x(2 * hidden + j) + reset * sum(2 * hidden + j)).tanh();
                (1.0 - update) * candidate + update * h[j]
            });
            h = new.collect();
            total += h.iter().enumerate().map(|(j, h)| h * grad[(t * hidden + j) * batch + b]).sum::<f64>();
        }
    }
    total
}

fn compare_gru<T: Number>(r: Recurrence, tolerance: f64) {
    let Recurrence { steps, batch, hidden, .. } = r;
    let (state, layer) = (batch * hidden, Layer::<T>::new(r, 3));
    let (h, grad) = (numbers::<T>(state, 3), numbers::<T>(steps * state, 5));
    let out = Data::new(&[&h[..], &vec![T::NAN; steps * state]].concat());
    let gates = Data::new(&vec![T::NAN; 4 * steps * state]);
    let views = GruSteps { gates: gates.view::<T>(), out: out.view::<T>() };
    layer.with(|input, weights| gru::<T>(r, input, weights, views)).unwrap();

    let (layer64, h, wide_grad) = (layer.wide(), wide(&h), wide(&grad));
    let value = |layer: &Layer<f64>, h: &[f64]| gru_loss(r, layer, h, &wide_grad);
    let outputs = wide(&out.0.slice::<T>()[state..]);
    let found = outputs.iter().zip(&wide_grad).map(|(a, b)| a * b).sum();
    near(found, value(&layer64, &h), tolerance, "loss");

    let (slopes, of_state) = (Data::new(&vec![T::NAN; 4 * steps * state]), Data::new(&vec![T::NAN; state]));
    let g = Data::new(&grad);
    let grads = GruGradients { slopes: slopes.view::<T>(), state: of_state.view::<T>() };
    let backward =
        |_: View, weights: Weights| gru_backward::<T>(r, g.view::<T>(), weights.state, views, grads);
    layer.with(backward).unwrap();
    let (slopes, of_state) = (wide(slopes.0.slice::<T>()), wide(of_state.0.slice::<T>()));
    let tolerance = tolerance.max(1e-8);
    for at in (0..state).step_by(state / 5 + 1) {
        near(of_state[at], slope(|by| value(&layer64, &moved(&h, at, by))), tolerance, "first output");
    }
    // The rows of the state's product begin with the candidate's.
    let one = steps * state;
    let of_sums = [&slopes[one..3 * one], &slopes[..one]].concat();
    compare_layer(r, &layer64, [&slopes[one..], &of_sums], tolerance, |layer| value(layer, &h));
}

#[test]
fn steps_of_a_gru_and_their_gradients_are_those_of_the_formulas_on_each_instruction_set() {
    on_each_instruction_set(|r| {
        compare_gru::<f64>(r, 1e-12);
        compare_gru::<f32>(r, 2e-4);
    });
}
