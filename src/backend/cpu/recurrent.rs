//! LSTM layers over whole sequences; [`gru`] has those of GRUs.
//!
//! // Note [Steps of an LSTM] States are held transposed, a row for each hidden unit. So a step is a product of the weight with the
//! state of all samples, which is the right operand as it lies. The weight is packed once for all steps. A task has some hidden
//! units with all their gates: it computes their sums and then activations, cell and output while these are in the cache. A step
//! is one parallel loop, since a unit's gates depend on all units of the step before only.
//!
//! What the gates get from the input, and the gradients of the gates, have a row for each gate too, with all steps and samples beside
//! each other. So both are operands of products as they lie: of the one that computes the input's part, and of those that
//! compute the gradients of both weights and of the input.

use crate::backend::cpu::math::Math;
use crate::backend::cpu::matmul::{pack_panels, product_of_panels};
use crate::backend::cpu::microkernel::{CACHE_LINE, GemmElem, View as Matrix, ViewMut, prefetch};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::{self, IsaDispatch};
use crate::backend::recurrent::{Recurrence, Steps};
use crate::backend::{View, elements, results};
use crate::error::Result;
use crate::multiversion;
use crate::storage::vec_of;

pub(super) use gru::{gru, gru_backward};

mod gru;
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

/// Where the rows of some units are in a tensor that has a row for each gate, with all steps in it.
#[derive(Clone, Copy)]
struct Rows<const G: usize> {
    /// The first row of each gate, at the current step.
    first: [usize; G],
    /// From the row of a unit to that of the next.
    stride: usize,
}

impl<const G: usize> Rows<G> {
    /// Prefetches `batch` elements of the row of each of `units` units. These are short pieces far from each other, which the
    /// processor does not foresee.
    fn prefetch<'t, T: 't>(self, units: usize, batch: usize, gate: impl Fn(usize) -> &'t [T]) {
        for (k, first) in self.first.into_iter().enumerate() {
            let rows = &gate(k)[first..];
            for unit in 0..units {
                let row = &rows[unit * self.stride..][..batch];
                row.chunks(CACHE_LINE / size_of::<T>()).for_each(|line| prefetch(line.as_ptr()));
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Adds the input's part to the gates of some units, activates them, and computes the cell and the output.
    fn activate[T: Number](gates: &mut [&mut [T]; 4], input: &[T], rows: Rows<4>, batch: usize, before: &[T], cell: &mut [T], out: &mut [T]) {
        let [enter, forget, candidate, leave] = gates;
        for unit in 0..cell.len() / batch {
            for j in (0..batch).step_by(LANES) {
                let (n, at, from) = (LANES.min(batch - j), unit * batch + j, unit * rows.stride + j);
                let (i, f) = (load(enter, at, n), load(forget, at, n));
                let (g, o) = (load(candidate, at, n), load(leave, at, n));
                let (xi, xf) = (load(input, rows.first[0] + from, n), load(input, rows.first[1] + from, n));
                let (xg, xo) = (load(input, rows.first[2] + from, n), load(input, rows.first[3] + from, n));
                let (i, f) = (lanes!(|i, xi| sigmoid(i + xi)), lanes!(|f, xf| sigmoid(f + xf)));
                let (g, o) = (lanes!(|g, xg| (g + xg).m_tanh()), lanes!(|o, xo| sigmoid(o + xo)));
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
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The gradients of the gates of some units before their activation, given the gates after it, and that of the cell
    /// before the step, given those of output and cell. They are stored for the step before, and among those of all steps.
    fn deactivate[T: Number](gates: [&[T]; 4], slopes: &mut [&mut [T]; 4], all: &mut [&mut [T]; 4], rows: Rows<4>, batch: usize, before: &[T], cell: &[T], grad: &[T], grad_cell: &mut [T]) {
        for unit in 0..cell.len() / batch {
            for j in (0..batch).step_by(LANES) {
                let (n, at, to) = (LANES.min(batch - j), unit * batch + j, unit * rows.stride + j);
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
                store(all[0], rows.first[0] + to, n, i_slope);
                store(all[1], rows.first[1] + to, n, f_slope);
                store(all[2], rows.first[2] + to, n, g_slope);
                store(all[3], rows.first[3] + to, n, o_slope);
            }
        }
    }
}

/// The recurrent weight, `[gates * hidden, hidden]`, packed for the products of a step: the rows of all gates of a task are beside each
/// other.
fn pack_gates<T: Number>(weight: &[T], gates: usize, hidden: usize) -> Result<Vec<T>> {
    let (kernels, mut packed) = (T::kernels(simd::isa()), vec_of(T::ZERO, gates * hidden * hidden)?);
    for_chunks_mut(&mut packed, UNITS * gates * hidden, |task, packed| {
        let units = packed.len() / (gates * hidden);
        for (gate, packed) in packed.chunks_exact_mut(units * hidden).enumerate() {
            let rows = &weight[(gate * hidden + task * UNITS) * hidden..];
            pack_panels(kernels, hidden, units, Matrix { data: rows, rs: hidden, cs: 1 }, packed);
        }
    });
    Ok(packed)
}

/// The same, transposed, for the gradients of a state from those of its gates.
fn pack_gates_transposed<T: Number>(weight: &[T], gates: usize, hidden: usize) -> Result<Vec<T>> {
    let (kernels, mut packed) = (T::kernels(simd::isa()), vec_of(T::ZERO, gates * hidden * hidden)?);
    for_chunks_mut(&mut packed, UNITS * gates * hidden, |task, packed| {
        let columns = Matrix { data: &weight[task * UNITS..], rs: 1, cs: hidden };
        pack_panels(kernels, gates * hidden, packed.len() / (gates * hidden), columns, packed);
    });
    Ok(packed)
}

impl Recurrence {
    /// Calls `f(first unit, part)` in parallel with the parts of a step, each of [`UNITS`] hidden units.
    fn for_units<J: Send>(self, parts: impl Iterator<Item = J>, f: impl Fn(usize, &mut J) + Sync) {
        let mut jobs: Vec<J> = parts.collect();
        let work = 4 * UNITS * self.batch * self.hidden;
        let per_task = (TASK / work.max(1)).max(1);
        for_chunks_mut(&mut jobs, per_task, |i, jobs| {
            for (k, job) in jobs.iter_mut().enumerate() {
                f((i * per_task + k) * UNITS, job);
            }
        });
    }

    /// Where the rows of the units from `first` on are, at a step, in `[G, hidden, steps, batch]`.
    fn rows<const G: usize>(self, step: usize, first: usize) -> Rows<G> {
        let stride = self.steps * self.batch;
        let row = |gate: usize| (gate * self.hidden + first) * stride + step * self.batch;
        Rows { first: std::array::from_fn(row), stride }
    }
}

pub(super) fn lstm<T: Number>(r: Recurrence, input: View, weight: View, steps: Steps) -> Result<()> {
    let Recurrence { batch, hidden, .. } = r;
    let (state, part, kernels) = (hidden * batch, UNITS * batch, T::kernels(simd::isa()));
    let (input, weight) = (elements::<T>(input), elements::<T>(weight));
    let (mut gates, mut cell, mut out) =
        (results::<T>(steps.gates)?, results::<T>(steps.cell)?, results::<T>(steps.out)?);
    let packed = pack_gates(weight, 4, hidden)?;
    for (step, gates) in gates.chunks_exact_mut(4 * state).enumerate() {
        let (before, cell) = cell[step * state..].split_at_mut(state);
        let (h, out) = out[step * state..].split_at_mut(state);
        let (before, h) = (&*before, Matrix { data: &*h, rs: batch, cs: 1 });
        let states = cell[..state].chunks_mut(part).zip(out[..state].chunks_mut(part));
        r.for_units(pieces(gates, part).zip(states), |first, (gates, (cell, out))| {
            let (units, rows) = (cell.len() / batch, r.rows(step, first));
            rows.prefetch(units, batch, |_| input);
            let packed = packed[first * 4 * hidden..].chunks_exact(units * hidden);
            for (gate, packed) in gates.iter_mut().zip(packed) {
                let mut c = ViewMut::new(gate, units, batch);
                product_of_panels(kernels, hidden, packed, h, &mut c, false);
            }
            activate(gates, input, rows, batch, &before[first * batch..], cell, out);
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
    let (state, part, kernels) = (hidden * batch, UNITS * batch, T::kernels(simd::isa()));
    let (grad, weight) = (elements::<T>(grad), elements::<T>(weight));
    let (gates, cell) = (elements::<T>(steps.gates), elements::<T>(steps.cell));
    let mut slopes = results::<T>(slopes)?;
    let [mut grad_out, mut grad_cell] = [results::<T>(states[0])?, results::<T>(states[1])?];
    let packed = pack_gates_transposed(weight, 4, hidden)?;
    // The gradients of the gates of two steps.
    let mut of_steps = vec_of(T::ZERO, 8 * state)?;
    // The gradient of the output of a step that its successor's gates give, for some units.
    let from_gates = |slopes: &[T], first: usize, out: &mut [T]| {
        let mut c = ViewMut::new(out, out.len() / batch, batch);
        let slopes = Matrix { data: slopes, rs: batch, cs: 1 };
        product_of_panels(kernels, 4 * hidden, &packed[first * 4 * hidden..], slopes, &mut c, false);
    };
    let (mut here, mut after) = of_steps.split_at_mut(4 * state);
    for step in (0..count).rev() {
        let (before, cell) = cell[step * state..].split_at(state);
        let gates = &gates[step * 4 * state..][..4 * state];
        let grad = &grad[step * state..];
        let states = grad_out.chunks_mut(part).zip(grad_cell.chunks_mut(part));
        let parts = pieces(here, part).zip(pieces(&mut slopes, UNITS * count * batch)).zip(states);
        r.for_units(parts, |first, ((slopes, all), (grad_out, grad_cell))| {
            // Each task has its rows of all steps.
            let rows = Rows { first: [step * batch; 4], stride: count * batch };
            rows.prefetch(grad_out.len() / batch, batch, |gate| &*all[gate]);
            if step + 1 < count {
                from_gates(after, first, grad_out);
            } else {
                grad_out.fill(T::ZERO);
            }
            let at = first * batch..first * batch + grad_out.len();
            grad_out.iter_mut().zip(&grad[at.clone()]).for_each(|(a, &b)| *a += b);
            let gates = [0, 1, 2, 3].map(|gate| &gates[gate * state..][at.clone()]);
            let (before, cell) = (&before[at.clone()], &cell[at]);
            deactivate(gates, slopes, all, rows, batch, before, cell, grad_out, grad_cell);
        });
        std::mem::swap(&mut here, &mut after);
    }
    for_chunks_mut(&mut grad_out, part, |i, out| from_gates(after, i * UNITS, out));
    Ok(())
}
