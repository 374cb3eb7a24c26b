//! The steps of a GRU, held as Note [Steps of an LSTM] says. The candidate's part from the state is scaled by the reset gate before
//! that from the input is added, so it is kept beside the gates.

use super::{
    LANES, Number, OfInput, Packed, Rows, Transposed, UNITS, lanes, load, pieces, sigmoid, store, sum_gate,
    sums_of_biases,
};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::recurrent::{GruGradients, GruSteps, Recurrence, Weights};
use crate::backend::{View, elements, results};
use crate::error::Result;
use crate::multiversion;
use crate::storage::vec_of;

/// Gates of a unit that are products: reset, update, candidate.
const GATES: usize = 3;

multiversion! { version = IsaDispatch::worth::<T>();
    /// Activates the gates of some units, and computes the output.
    fn activate[T: Number](gates: &mut [&mut [T]; 4], before: &[T], out: &mut [T]) {
        let [reset, update, candidate, hidden] = gates;
        for at in (0..out.len()).step_by(LANES) {
            let n = LANES.min(out.len() - at);
            let (r, u) = (load(reset, at, n), load(update, at, n));
            let (c, h) = (load(candidate, at, n), load(hidden, at, n));
            let (r, u) = (lanes!(|r| sigmoid(r)), lanes!(|u| sigmoid(u)));
            let c = lanes!(|c, r, h| (c + r * h).m_tanh());
            let s = load(before, at, n);
            store(out, at, n, lanes!(|c, u, s| c + u * (s - c)));
            store(reset, at, n, r);
            store(update, at, n, u);
            store(candidate, at, n, c);
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The gradients of the gates of some units before their activation, given the gates after it, and those of the outputs: `given` by
    /// the program, and `grad` by the step after, which is replaced by what this step gives to the one before. `slopes` are read by the
    /// product of the step before, and `all` has those of all steps.
    fn deactivate[T: Number](gates: [&[T]; 4], slopes: &mut [&mut [T]; GATES], all: &mut [&mut [T]; 4], rows: Rows, batch: usize, before: &[T], given: &[T], grad: &mut [T]) {
        for unit in 0..grad.len() / batch {
            for j in (0..batch).step_by(LANES) {
                let (n, at, to) = (LANES.min(batch - j), unit * batch + j, rows.first + unit * rows.stride + j);
                let (r, u) = (load(gates[0], at, n), load(gates[1], at, n));
                let (c, h) = (load(gates[2], at, n), load(gates[3], at, n));
                let (d, g, s) = (load(grad, at, n), load(given, at, n), load(before, at, n));
                let d = lanes!(|d, g| d + g);
                store(grad, at, n, lanes!(|d, u| d * u));
                let c_slope = lanes!(|d, u, c| d * (T::ONE - u) * (T::ONE - c * c));
                let u_slope = lanes!(|d, s, c, u| d * (s - c) * u * (T::ONE - u));
                let r_slope = lanes!(|c_slope, h, r| c_slope * h * r * (T::ONE - r));
                let h_slope = lanes!(|c_slope, r| c_slope * r);
                store(slopes[0], at, n, r_slope);
                store(slopes[1], at, n, u_slope);
                store(slopes[2], at, n, h_slope);
                store(all[0], to, n, h_slope);
                store(all[1], to, n, r_slope);
                store(all[2], to, n, u_slope);
                store(all[3], to, n, c_slope);
            }
        }
    }
}

/// Of both gates, of the candidate's part from the input, and of that from the state.
fn biases<T: Number>(weights: Weights, hidden: usize) -> Result<Vec<T>> {
    let mut biases = sums_of_biases::<T>(weights, 4 * hidden)?;
    if let Some(of_candidate) = weights.biases.map(|both| both.map(|b| &elements::<T>(b)[2 * hidden..])) {
        biases[2 * hidden..].copy_from_slice(&of_candidate.concat());
    }
    Ok(biases)
}

pub(in crate::backend::cpu) fn gru<T: Number>(
    r: Recurrence,
    input: View,
    weights: Weights,
    steps: GruSteps,
) -> Result<()> {
    let Recurrence { batch, hidden, .. } = r;
    let (state, part) = (hidden * batch, UNITS * batch);
    let (mut gates, mut out) = (results::<T>(steps.gates)?, results::<T>(steps.out)?);
    let mut of_input = OfInput::new(input, Packed::new(weights.input, GATES, r)?)?;
    let of_state = Packed::new(weights.state, GATES, r)?;
    let biases = biases(weights, hidden)?;
    let kept = gates.len() / (4 * state);
    for step in 0..r.steps {
        let gates = &mut gates[step % kept * 4 * state..][..4 * state];
        of_input.prepare(step);
        let (before, out) = out[step * state..].split_at_mut(state);
        let before = &*before;
        r.for_units(pieces(gates, part).zip(out[..state].chunks_mut(part)), |first, (gates, out)| {
            let (x, h) = (|gate| Some((&of_input, gate)), |gate| Some((&of_state, gate, before)));
            let of = [(x(0), h(0)), (x(1), h(1)), (x(2), None), (None, h(2))];
            for (place, (of, sums)) in of.into_iter().zip(gates.iter_mut()).enumerate() {
                sum_gate(r, step, first, of, &biases[place * hidden..], sums);
            }
            activate(gates, &before[first * batch..], out);
        });
    }
    Ok(())
}

pub(in crate::backend::cpu) fn gru_backward<T: Number>(
    r: Recurrence,
    grad: View,
    weight: View,
    steps: GruSteps,
    grads: GruGradients,
) -> Result<()> {
    let Recurrence { steps: count, batch, hidden, .. } = r;
    let (state, part) = (hidden * batch, UNITS * batch);
    let (grad, weight) = (elements::<T>(grad), elements::<T>(weight));
    let (gates, out) = (elements::<T>(steps.gates), elements::<T>(steps.out));
    let (mut slopes, mut of_state) = (results::<T>(grads.slopes)?, results::<T>(grads.state)?);
    let weight = Transposed::new(weight, GATES, r)?;
    // The gradients of the gates of two steps.
    let mut of_steps = vec_of(T::ZERO, 2 * GATES * state)?;
    of_state.fill(T::ZERO);
    let (mut here, mut after) = of_steps.split_at_mut(GATES * state);
    for step in (0..count).rev() {
        let (before, gates) = (&out[step * state..][..state], &gates[step * 4 * state..][..4 * state]);
        let grad = &grad[step * state..];
        let parts = pieces(here, part).zip(pieces(&mut slopes, UNITS * count * batch));
        r.for_units(parts.zip(of_state.chunks_mut(part)), |first, ((slopes, all), of_state)| {
            let rows = r.rows(step);
            rows.prefetch(batch, all);
            if step + 1 < count {
                weight.add(after, first, of_state);
            }
            let at = first * batch..first * batch + of_state.len();
            let gates = [0, 1, 2, 3].map(|gate| &gates[gate * state..][at.clone()]);
            deactivate(gates, slopes, all, rows, batch, &before[at.clone()], &grad[at], of_state);
        });
        std::mem::swap(&mut here, &mut after);
    }
    for_chunks_mut(&mut of_state, part, |i, out| weight.add(after, i * UNITS, out));
    Ok(())
}
