//! LSTM layers over whole sequences.
//!
//! // Note [Steps of an LSTM] States are held transposed, a row for each hidden unit. So a step is a product of the weight, read in
//! place, with the state of all samples, which is the right operand as it lies; nothing is packed. A task has some hidden units with
//! all their gates: it computes their sums and then activations, cell and output while these are in the cache. A step is one
//! parallel loop, since a unit's gates depend on all units of the step before only.

use crate::backend::cpu::math::Math;
use crate::backend::cpu::matmul::product_of_tiles;
use crate::backend::cpu::microkernel::{GemmElem, View as Matrix, ViewMut};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::{self, IsaDispatch};
use crate::backend::recurrent::{Recurrence, Steps};
use crate::backend::{View, elements, results};
use crate::error::Result;
use crate::multiversion;

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

multiversion! { version = IsaDispatch::worth::<T>();
    /// Activates the gates of some units, and computes the cell and the output.
    fn activate[T: Number](gates: &mut [T], batch: usize, before: &[T], cell: &mut [T], out: &mut [T]) {
        for (unit, gates) in gates.chunks_exact_mut(4 * batch).enumerate() {
            for j in (0..batch).step_by(LANES) {
                let (n, at) = (LANES.min(batch - j), unit * batch + j);
                let (i, f) = (load(gates, j, n), load(gates, batch + j, n));
                let (g, o) = (load(gates, 2 * batch + j, n), load(gates, 3 * batch + j, n));
                let (i, f, g, o) = (lanes!(|i| sigmoid(i)), lanes!(|f| sigmoid(f)), lanes!(|g| g.m_tanh()), lanes!(|o| sigmoid(o)));
                let c = load(before, at, n);
                let c = lanes!(|i, f, g, c| i * g + f * c);
                store(cell, at, n, c);
                store(out, at, n, lanes!(|o, c| o * c.m_tanh()));
                store(gates, j, n, i);
                store(gates, batch + j, n, f);
                store(gates, 2 * batch + j, n, g);
                store(gates, 3 * batch + j, n, o);
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The gradients of the gates of some units before their activation, which `slopes` holds after it, and that of the cell
    /// before the step, given those of output and cell.
    fn deactivate[T: Number](slopes: &mut [T], batch: usize, before: &[T], cell: &[T], grad: &[T], grad_cell: &mut [T]) {
        for (unit, slopes) in slopes.chunks_exact_mut(4 * batch).enumerate() {
            for j in (0..batch).step_by(LANES) {
                let (n, at) = (LANES.min(batch - j), unit * batch + j);
                let (i, f) = (load(slopes, j, n), load(slopes, batch + j, n));
                let (g, o) = (load(slopes, 2 * batch + j, n), load(slopes, 3 * batch + j, n));
                let (d, dc) = (load(grad, at, n), load(grad_cell, at, n));
                let (b, c) = (load(before, at, n), load(cell, at, n));
                let c = lanes!(|c| c.m_tanh());
                let dc = lanes!(|d, dc, o, c| d * o * (T::ONE - c * c) + dc);
                store(grad_cell, at, n, lanes!(|dc, f| dc * f));
                store(slopes, j, n, lanes!(|dc, i, g| dc * g * i * (T::ONE - i)));
                store(slopes, batch + j, n, lanes!(|dc, b, f| dc * b * f * (T::ONE - f)));
                store(slopes, 2 * batch + j, n, lanes!(|dc, i, g| dc * i * (T::ONE - g * g)));
                store(slopes, 3 * batch + j, n, lanes!(|d, o, c| d * c * o * (T::ONE - o)));
            }
        }
    }
}

/// The parts of three tensors that belong to some hidden units.
type Job<'j, T> = (&'j mut [T], &'j mut [T], &'j mut [T]);

impl Recurrence {
    /// Calls `f(first unit, parts)` in parallel with the parts of a step's gates and of two states.
    fn for_units<T: Number>(
        self,
        gates: &mut [T],
        a: &mut [T],
        b: &mut [T],
        f: impl Fn(usize, &mut Job<T>) + Sync,
    ) {
        let part = UNITS * self.batch;
        let mut jobs: Vec<Job<T>> = gates
            .chunks_mut(4 * part)
            .zip(a.chunks_mut(part))
            .zip(b.chunks_mut(part))
            .map(|((gates, a), b)| (gates, a, b))
            .collect();
        let work = 4 * part * self.hidden;
        let per_task = (TASK / work.max(1)).max(1);
        for_chunks_mut(&mut jobs, per_task, |i, jobs| {
            for (k, job) in jobs.iter_mut().enumerate() {
                f((i * per_task + k) * UNITS, job);
            }
        });
    }
}

pub(super) fn lstm<T: Number>(r: Recurrence, input: View, weight: View, steps: Steps) -> Result<()> {
    let Recurrence { batch, hidden, .. } = r;
    let (state, kernels) = (hidden * batch, T::kernels(simd::isa()));
    let (input, weight) = (elements::<T>(input), elements::<T>(weight));
    let (mut gates, mut cell, mut out) =
        (results::<T>(steps.gates)?, results::<T>(steps.cell)?, results::<T>(steps.out)?);
    for (step, gates) in gates.chunks_exact_mut(4 * state).enumerate() {
        let (before, cell) = cell[step * state..].split_at_mut(state);
        let (h, out) = out[step * state..].split_at_mut(state);
        let input = &input[step * 4 * state..];
        let (before, h) = (&*before, &*h);
        r.for_units(gates, &mut cell[..state], &mut out[..state], |first, (gates, cell, out)| {
            let units = cell.len() / batch;
            for gate in 0..4 {
                let at = gate * hidden + first;
                let src = Matrix { data: &input[at..], rs: 4 * hidden, cs: 1 };
                kernels.pack(batch, units, src, &mut gates[gate * batch..], 4 * batch);
                let rows = Matrix { data: &weight[at * hidden..], rs: hidden, cs: 1 };
                let mut c = ViewMut::new(gates, units, 4 * batch);
                let h = Matrix { data: h, rs: batch, cs: 1 };
                product_of_tiles(kernels, hidden, rows, h, &mut c.part(0, gate * batch, units, batch), true);
            }
            activate(gates, batch, &before[first * batch..][..units * batch], cell, out);
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
    let Recurrence { batch, hidden, steps: count } = r;
    let (state, kernels) = (hidden * batch, T::kernels(simd::isa()));
    let (grad, weight) = (elements::<T>(grad), elements::<T>(weight));
    let (gates, cell) = (elements::<T>(steps.gates), elements::<T>(steps.cell));
    let mut slopes = results::<T>(slopes)?;
    let [mut grad_out, mut grad_cell] = [results::<T>(states[0])?, results::<T>(states[1])?];
    // The gradient of the output of a step that its successor's gates give, for some units.
    let from_gates = |slopes: &[T], first: usize, out: &mut [T]| {
        let units = out.len() / batch;
        for gate in 0..4 {
            let columns = Matrix { data: &weight[gate * hidden * hidden + first..], rs: 1, cs: hidden };
            let slopes = Matrix { data: &slopes[gate * batch..], rs: 4 * batch, cs: 1 };
            product_of_tiles(
                kernels,
                hidden,
                columns,
                slopes,
                &mut ViewMut::new(out, units, batch),
                gate > 0,
            );
        }
    };
    for step in (0..count).rev() {
        let (here, after) = slopes[step * 4 * state..].split_at_mut(4 * state);
        let after = (step + 1 < count).then_some(&*after);
        let (before, cell) = cell[step * state..].split_at(state);
        r.for_units(here, &mut grad_out, &mut grad_cell, |first, (slopes, grad_out, grad_cell)| {
            let part = first * batch..first * batch + grad_out.len();
            match after {
                Some(after) => from_gates(after, first, grad_out),
                None => grad_out.fill(T::ZERO),
            }
            let grad = &grad[step * state..][part.clone()];
            grad_out.iter_mut().zip(grad).for_each(|(a, &b)| *a += b);
            slopes.copy_from_slice(&gates[step * 4 * state + 4 * part.start..][..slopes.len()]);
            deactivate(slopes, batch, &before[part.clone()], &cell[part], grad_out, grad_cell);
        });
    }
    let first = &slopes[..4 * state];
    for_chunks_mut(&mut grad_out, UNITS * batch, |i, out| from_gates(first, i * UNITS, out));
    Ok(())
}
