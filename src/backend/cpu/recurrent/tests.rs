//! Compares the steps of LSTMs and GRUs and their gradients with its formulas in float64, on each instruction set.

use super::*;
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};
use crate::backend::recurrent::{GruGradients, GruSteps};
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

/// The loss of which gradients are computed: the sum of outputs times `grad`, and of the last cells times `grad_cell`.
fn loss(
    r: Recurrence,
    input: &[f64],
    weight: &[f64],
    states: [&[f64]; 2],
    grad: &[f64],
    grad_cell: &[f64],
) -> f64 {
    let Recurrence { steps, batch, hidden } = r;
    let mut total = 0.0;
    for b in 0..batch {
        let at = |s: &[f64]| (0..hidden).map(|j| s[j * batch + b]).collect::<Vec<_>>();
        let [mut h, mut c] = states.map(at);
        for t in 0..steps {
            let sum = |k: usize| {
                let row = &weight[k * hidden..][..hidden];
                input[(k * steps + t) * batch + b] + row.iter().zip(&h).map(|(w, h)| w * h).sum::<f64>()
            };
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

/// The derivative of `f` in one of its arguments, by central differences.
fn differs(values: &[f64], at: usize, f: &dyn Fn(&[f64]) -> f64) -> f64 {
    const STEP: f64 = 1e-5;
    let moved = |by: f64| {
        let mut values = values.to_vec();
        values[at] += by;
        f(&values)
    };
    (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
}

fn compare<T: Number>(r: Recurrence, tolerance: f64) {
    let Recurrence { steps, batch, hidden } = r;
    let state = batch * hidden;
    let (input, weight) = (numbers::<T>(4 * steps * state, 1), numbers::<T>(4 * hidden * hidden, 2));
    let (h, c) = (numbers::<T>(state, 3), numbers::<T>(state, 4));
    let (grad, grad_cell) = (numbers::<T>(steps * state, 5), numbers::<T>(state, 6));
    let with_room = |first: &[T]| Data::new(&[first, &vec![T::NAN; steps * state]].concat());
    let (cell, out) = (with_room(&c), with_room(&h));
    let gates = Data::new(&vec![T::NAN; 4 * steps * state]);
    let (i, w) = (Data::new(&input), Data::new(&weight));
    let views = Steps { gates: gates.view::<T>(), cell: cell.view::<T>(), out: out.view::<T>() };
    lstm::<T>(r, i.view::<T>(), w.view::<T>(), views).unwrap();

    let wide = |x: &[T]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let (input, weight, h, c) = (wide(&input), wide(&weight), wide(&h), wide(&c));
    let (grad64, grad_cell64) = (wide(&grad), wide(&grad_cell));
    let value = |input: &[f64], h: &[f64], c: &[f64]| loss(r, input, &weight, [h, c], &grad64, &grad_cell64);
    let outputs = wide(&out.0.slice::<T>()[state..]);
    let cells = wide(&cell.0.slice::<T>()[steps * state..]);
    let found =
        outputs.iter().zip(&grad64).chain(cells.iter().zip(&grad_cell64)).map(|(a, b)| a * b).sum::<f64>();
    let expected = value(&input, &h, &c);
    assert!((found - expected).abs() < tolerance * (1.0 + expected.abs()), "{r:?}: {found}, not {expected}");

    let (slopes, of_out) = (Data::new(&vec![T::NAN; 4 * steps * state]), Data::new(&vec![T::NAN; state]));
    let (g, of_cell) = (Data::new(&grad), Data::new(&grad_cell));
    let states = [of_out.view::<T>(), of_cell.view::<T>()];
    lstm_backward::<T>(r, g.view::<T>(), w.view::<T>(), views, slopes.view::<T>(), states).unwrap();
    let near = |found: T, exact: f64, what: &str| {
        assert!((found.to_f64() - exact).abs() < tolerance.max(1e-8) * (1.0 + exact.abs()), "{r:?}: {what}");
    };
    for at in (0..state).step_by(state / 5 + 1) {
        near(of_out.0.slice::<T>()[at], differs(&h, at, &|h| value(&input, h, &c)), "first output");
        near(of_cell.0.slice::<T>()[at], differs(&c, at, &|c| value(&input, &h, c)), "first cell");
    }
    for at in (0..input.len()).step_by(input.len() / 23 + 1) {
        near(slopes.0.slice::<T>()[at], differs(&input, at, &|input| value(input, &h, &c)), "gate");
    }
}

#[test]
fn steps_and_their_gradients_are_those_of_the_formulas_on_each_instruction_set() {
    let sizes = [(1, 1, 1), (3, 8, 5), (2, 33, 40), (4, 16, 70)];
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) != isa {
            continue;
        }
        for (steps, batch, hidden) in sizes {
            compare::<f64>(Recurrence { steps, batch, hidden }, 1e-12);
            compare::<f32>(Recurrence { steps, batch, hidden }, 2e-4);
        }
    }
    force_isa(best_isa());
}

/// As [`loss`], of a GRU.
fn gru_loss(r: Recurrence, input: &[f64], weight: &[f64], bias: &[f64], h: &[f64], grad: &[f64]) -> f64 {
    let Recurrence { steps, batch, hidden } = r;
    let mut total = 0.0;
    for b in 0..batch {
        let mut h: Vec<f64> = (0..hidden).map(|j| h[j * batch + b]).collect();
        for t in 0..steps {
            let x = |k: usize| input[(k * steps + t) * batch + b];
            let sum = |k: usize| {
                let row = &weight[k * hidden..][..hidden];
                bias[k] + row.iter().zip(&h).map(|(w, h)| w * h).sum::<f64>()
            };
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
    let Recurrence { steps, batch, hidden } = r;
    let state = batch * hidden;
    let (input, weight) = (numbers::<T>(3 * steps * state, 1), numbers::<T>(3 * hidden * hidden, 2));
    let (h, grad, bias) =
        (numbers::<T>(state, 3), numbers::<T>(steps * state, 5), numbers::<T>(3 * hidden, 4));
    let out = Data::new(&[&h[..], &vec![T::NAN; steps * state]].concat());
    let gates = Data::new(&vec![T::NAN; 4 * steps * state]);
    let (i, w, b) = (Data::new(&input), Data::new(&weight), Data::new(&bias));
    let views = GruSteps { gates: gates.view::<T>(), out: out.view::<T>() };
    gru::<T>(r, i.view::<T>(), w.view::<T>(), Some(b.view::<T>()), views).unwrap();

    let wide = |x: &[T]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let (input, weight, bias, h, wide_grad) =
        (wide(&input), wide(&weight), wide(&bias), wide(&h), wide(&grad));
    let value = |input: &[f64], bias: &[f64], h: &[f64]| gru_loss(r, input, &weight, bias, h, &wide_grad);
    let outputs = wide(&out.0.slice::<T>()[state..]);
    let found: f64 = outputs.iter().zip(&wide_grad).map(|(a, b)| a * b).sum();
    let expected = value(&input, &bias, &h);
    assert!((found - expected).abs() < tolerance * (1.0 + expected.abs()), "{r:?}: {found}, not {expected}");

    let (slopes, of_state) = (Data::new(&vec![T::NAN; 4 * steps * state]), Data::new(&vec![T::NAN; state]));
    let g = Data::new(&grad);
    let grads = GruGradients { slopes: slopes.view::<T>(), state: of_state.view::<T>() };
    gru_backward::<T>(r, g.view::<T>(), w.view::<T>(), views, grads).unwrap();
    let near = |found: f64, exact: f64, what: &str| {
        assert!((found - exact).abs() < tolerance.max(1e-8) * (1.0 + exact.abs()), "{r:?}: {what}");
    };
    let (slopes, of_state) = (slopes.0.slice::<T>(), of_state.0.slice::<T>());
    for at in (0..state).step_by(state / 5 + 1) {
        near(of_state[at].to_f64(), differs(&h, at, &|h| value(&input, &bias, h)), "first output");
    }
    for at in (0..input.len()).step_by(input.len() / 23 + 1) {
        let exact = differs(&input, at, &|input| value(input, &bias, &h));
        near(slopes[steps * state + at].to_f64(), exact, "gate");
    }
    // The products' share of the candidates, then of both gates, in the rows before.
    for gate in (0..3 * hidden).step_by(hidden / 3 + 1) {
        let row = (gate + hidden) % (3 * hidden);
        let found: f64 = wide(&slopes[row * steps * batch..][..steps * batch]).iter().sum();
        near(found, differs(&bias, gate, &|bias| value(&input, bias, &h)), "bias");
    }
}

#[test]
fn steps_of_a_gru_and_their_gradients_are_those_of_the_formulas_on_each_instruction_set() {
    let sizes = [(1, 1, 1), (3, 8, 5), (2, 33, 40), (4, 16, 70)];
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) != isa {
            continue;
        }
        for (steps, batch, hidden) in sizes {
            compare_gru::<f64>(Recurrence { steps, batch, hidden }, 1e-12);
            compare_gru::<f32>(Recurrence { steps, batch, hidden }, 2e-4);
        }
    }
    force_isa(best_isa());
}
