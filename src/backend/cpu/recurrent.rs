//! LSTM layers over whole sequences; [`gru`] has those of GRUs.
//!
//! // Note [Steps of an LSTM] States are held transposed, a row for each hidden unit. So a step is a product of the weight with the
//! state of all samples, which is the right operand as it lies, and one with the input of the step, which is transposed for it. The weights
//! are packed once for all steps. A task has some hidden units with all their gates: it computes their sums and then activations, cell
//! and output while these are in the cache. A step is one parallel loop, since a unit's gates depend on all units of the step before
//! only. One product with the input of all steps would be as much work, but its results are as large as all gates: steps would
//! wait for memory.
//!
//! The gradients of the gates have a row for each gate too, with all steps and samples beside each other. So they are operands, as they
//! lie, of the products that compute the gradients of both weights and of the input.

use crate::backend::cpu::math::Math;
use crate::backend::cpu::microkernel::{CACHE_LINE, GemmElem, prefetch};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::recurrent::{Recurrence, Steps, Weights};
use crate::backend::{View, elements, results};
use crate::error::Result;
use crate::multiversion;
use crate::storage::vec_of;

pub(super) use gru::{gru, gru_backward};
use products::{OfInput, Packed, Transposed, sum_gate};

mod gru;
mod products;
#[cfg(test)]
mod tests;

/// Hidden units of a task.
const UNITS: usize = 32;
/// Fewest multiplications of a parallel task.
const TASK: usize = 1 << 18;

/// The element types of recurrences.
pub(super) trait Number: Math + GemmElem {}
impl Number for f32 {}
impl Number for f64 {}

#[inline(always)]
fn sigmoid<T: Math>(x: T) -> T {
    T::ONE / (T::ONE + (-x).m_exp())
}

/// Samples that are computed together, in registers.
const LANES: usize = 16;

/// Up to [`LANES`] elements from `at` on, and zeros.
#[inline(always)]
fn load<T: Number>(from: &[T], at: usize, n: usize) -> [T; LANES] {
    let mut out = [T::ZERO; LANES];
    if n == LANES {
        out.copy_from_slice(&from[at..at + LANES]);
    } else {
        out[..n].copy_from_slice(&from[at..at + n]);
    }
    out
}

#[inline(always)]
fn store<T: Number>(to: &mut [T], at: usize, n: usize, values: [T; LANES]) {
    if n == LANES {
        to[at..at + LANES].copy_from_slice(&values);
    } else {
        to[at..at + n].copy_from_slice(&values[..n]);
    }
}

/// `f` of each lane of several vectors.
macro_rules! lanes {
    (|$($x:ident),+| $f:expr) => {{
        let mut out = [T::ZERO; LANES];
        for k in 0..LANES {
            $(let $x = $x[k];)+
            out[k] = $f;
        }
        out
    }};
}
use lanes;

/// Pieces of `size` elements of each of `G` parts of one length, those at one place together: of a tensor's gates.
fn pieces<T, const G: usize>(all: &mut [T], size: usize) -> impl Iterator<Item = [&mut [T]; G]> {
    let len = all.len() / G;
    let mut rest = all;
    let mut parts: [_; G] = std::array::from_fn(|_| {
        let (part, tail) = std::mem::take(&mut rest).split_at_mut(len);
        rest = tail;
        part.chunks_mut(size)
    });
    std::iter::from_fn(move || {
        (parts[0].len() > 0).then(|| parts.each_mut().map(|part| part.next().unwrap_or_default()))
    })
}

/// Where the elements of a step are in the rows of some units, which have those of all steps.
#[derive(Clone, Copy)]
struct Rows {
    /// In the first row.
    first: usize,
    /// From the row of a unit to that of the next.
    stride: usize,
}

impl Rows {
    /// Prefetches `batch` elements of each row of each gate. These are short pieces far from each other, which the processor does
    /// not foresee.
    fn prefetch<T>(self, batch: usize, gates: &[&mut [T]]) {
        for row in gates.iter().flat_map(|rows| rows.chunks(self.stride)) {
            row[self.first..][..batch]
                .chunks(CACHE_LINE / size_of::<T>())
                .for_each(|line| prefetch(line.as_ptr()));
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Activates the gates of some units, and computes the cell and the output.
    fn activate[T: Number](gates: &mut [&mut [T]; 4], before: &[T], cell: &mut [T], out: &mut [T]) {
        let [enter, forget, candidate, leave] = gates;
        for at in (0..cell.len()).step_by(LANES) {
            let n = LANES.min(cell.len() - at);
            let (i, f) = (load(enter, at, n), load(forget, at, n));
            let (g, o) = (load(candidate, at, n), load(leave, at, n));
            let (i, f) = (lanes!(|i| sigmoid(i)), lanes!(|f| sigmoid(f)));
            let (g, o) = (lanes!(|g| g.m_tanh()), lanes!(|o| sigmoid(o)));
            let c = load(before, at, n);
            let c = lanes!(|i, f, g, c| i * g + f * c);
            store(cell, at, n, c);
            store(out, at, n, lanes!(|o, c| o * c.m_tanh()));
            store(enter, at, n, i);
            store(forget, at, n, f);
            store(candidate, at, n, g);
            store(leave, at, n, o);
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The gradients of the gates of some units before their activation, given the gates after it, and that of the cell
    /// before the step, given those of output and cell. They are stored for the step before, and among those of all steps.
    fn deactivate[T: Number](gates: [&[T]; 4], slopes: &mut [&mut [T]; 4], all: &mut [&mut [T]; 4], rows: Rows, batch: usize, before: &[T], cell: &[T], grad: &[T], grad_cell: &mut [T]) {
        for unit in 0..cell.len() / batch {
            for j in (0..batch).step_by(LANES) {
                let (n, at, to) = (LANES.min(batch - j), unit * batch + j, rows.first + unit * rows.stride + j);
                let (i, f) = (load(gates[0], at, n), load(gates[1], at, n));
                let (g, o) = (load(gates[2], at, n), load(gates[3], at, n));
                let (d, dc) = (load(grad, at, n), load(grad_cell, at, n));
                let (b, c) = (load(before, at, n), load(cell, at, n));
                let c = lanes!(|c| c.m_tanh());
                let dc = lanes!(|d, dc, o, c| d * o * (T::ONE - c * c) + dc);
                store(grad_cell, at, n, lanes!(|dc, f| dc * f));
                let i_slope = lanes!(|dc, i, g| dc * g * i * (T::ONE - i));
                let f_slope = lanes!(|dc, b, f| dc * b * f * (T::ONE - f));
                let g_slope = lanes!(|dc, i, g| dc * i * (T::ONE - g * g));
                let o_slope = lanes!(|d, o, c| d * c * o * (T::ONE - o));
                store(slopes[0], at, n, i_slope);
                store(slopes[1], at, n, f_slope);
                store(slopes[2], at, n, g_slope);
                store(slopes[3], at, n, o_slope);
                store(all[0], to, n, i_slope);
                store(all[1], to, n, f_slope);
                store(all[2], to, n, g_slope);
                store(all[3], to, n, o_slope);
            }
        }
    }
}

/// The sums of the biases of both products, or zeros.
fn sums_of_biases<T: Number>(weights: Weights, count: usize) -> Result<Vec<T>> {
    let mut sums = vec_of(T::ZERO, count)?;
    for bias in weights.biases.into_iter().flatten() {
        sums.iter_mut().zip(elements::<T>(bias)).for_each(|(sum, &b)| *sum += b);
    }
    Ok(sums)
}

impl Recurrence {
    /// Calls `f(first unit, part)` in parallel with the parts of a step, each of [`UNITS`] hidden units.
    fn for_units<J: Send>(self, parts: impl Iterator<Item = J>, f: impl Fn(usize, &mut J) + Sync) {
        let mut jobs: Vec<J> = parts.collect();
        let work = 4 * UNITS * self.batch * (self.features + self.hidden);
        let per_task = (TASK / work.max(1)).max(1);
        for_chunks_mut(&mut jobs, per_task, |i, jobs| {
            for (k, job) in jobs.iter_mut().enumerate() {
                f((i * per_task + k) * UNITS, job);
            }
        });
    }

    fn rows(self, step: usize) -> Rows {
        Rows { first: step * self.batch, stride: self.steps * self.batch }
    }
}

pub(super) fn lstm<T: Number>(r: Recurrence, input: View, weights: Weights, steps: Steps) -> Result<()> {
    let Recurrence { batch, hidden, .. } = r;
    let (state, part) = (hidden * batch, UNITS * batch);
    let (mut gates, mut cell, mut out) =
        (results::<T>(steps.gates)?, results::<T>(steps.cell)?, results::<T>(steps.out)?);
    let mut of_input = OfInput::new(input, Packed::new(weights.input, 4, r)?)?;
    let of_state = Packed::new(weights.state, 4, r)?;
    let biases = sums_of_biases(weights, 4 * hidden)?;
    let kept = gates.len() / (4 * state);
    for step in 0..r.steps {
        let gates = &mut gates[step % kept * 4 * state..][..4 * state];
        of_input.prepare(step);
        let (before, cell) = cell[step * state..].split_at_mut(state);
        let (h, out) = out[step * state..].split_at_mut(state);
        let (before, h) = (&*before, &*h);
        let states = cell[..state].chunks_mut(part).zip(out[..state].chunks_mut(part));
        r.for_units(pieces(gates, part).zip(states), |first, (gates, (cell, out))| {
            for (gate, sums) in gates.iter_mut().enumerate() {
                let of = (Some((&of_input, gate)), Some((&of_state, gate, h)));
                sum_gate(r, step, first, of, &biases[gate * hidden..], sums);
            }
            activate(gates, &before[first * batch..], cell, out);
        });
    }
    Ok(())
}

pub(super) fn lstm_backward<T: Number>(
    r: Recurrence,
    grad: View,
    weight: View,
    steps: Steps,
    slopes: View,
    states: [View; 2],
) -> Result<()> {
    let Recurrence { steps: count, batch, hidden, .. } = r;
    let (state, part) = (hidden * batch, UNITS * batch);
    let (grad, weight) = (elements::<T>(grad), elements::<T>(weight));
    let (gates, cell) = (elements::<T>(steps.gates), elements::<T>(steps.cell));
    let mut slopes = results::<T>(slopes)?;
    let [mut grad_out, mut grad_cell] = [results::<T>(states[0])?, results::<T>(states[1])?];
    let weight = Transposed::new(weight, 4, r)?;
    // The gradients of the gates of two steps.
    let mut of_steps = vec_of(T::ZERO, 8 * state)?;
    let (mut here, mut after) = of_steps.split_at_mut(4 * state);
    for step in (0..count).rev() {
        let (before, cell) = cell[step * state..].split_at(state);
        let gates = &gates[step * 4 * state..][..4 * state];
        let grad = &grad[step * state..];
        let states = grad_out.chunks_mut(part).zip(grad_cell.chunks_mut(part));
        let parts = pieces(here, part).zip(pieces(&mut slopes, UNITS * count * batch)).zip(states);
        r.for_units(parts, |first, ((slopes, all), (grad_out, grad_cell))| {
            let rows = r.rows(step);
            rows.prefetch(batch, all);
            let at = first * batch..first * batch + grad_out.len();
            grad_out.copy_from_slice(&grad[at.clone()]);
            if step + 1 < count {
                weight.add(after, first, grad_out);
            }
            let gates = [0, 1, 2, 3].map(|gate| &gates[gate * state..][at.clone()]);
            let (before, cell) = (&before[at.clone()], &cell[at]);
            deactivate(gates, slopes, all, rows, batch, before, cell, grad_out, grad_cell);
        });
        std::mem::swap(&mut here, &mut after);
    }
    for_chunks_mut(&mut grad_out, part, |i, out| {
        out.fill(T::ZERO);
        weight.add(after, i * UNITS, out);
    });
    Ok(())
}
