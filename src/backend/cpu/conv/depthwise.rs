//! Depthwise convolutions: each channel has a kernel of its own.
//!
//! Note [Depthwise convolutions] Channels share nothing, and a plane is multiplied with a few weights only, so that what surrounds the
//! multiplications decides. The rows of results are divided into segments of one vector; a tile keeps four of them in
//! registers over all taps. The last segment of a row is stored as a whole vector where that only writes what later segments
//! write again. Grids (Note [Phase-split input]) are zeroed once for many planes, as each plane fills the same elements. The gradient of
//! a weight is summed per lane over all images of its channel; lanes beyond the end of a row add zero times what follows it, so
//! that a gradient that is not finite is computed again without these. Small planes: Note [Channels as lanes].

mod lanes;

use super::ConvShape;
use super::phase_split::{PhaseSplitInput, Row, SLACK, Segment};
use super::tile::{ConvElem, LONGEST_RUN, Place, SEGMENTS, SHIFTS, TapRun};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::pieces::{Destination, largest};

/// The fewest channels: work is divided by channels.
const FEWEST: usize = 8;
/// Minimum number of multiply-adds per work item.
const GRAIN: usize = 1 << 17;
pub fn is_depthwise(s: &ConvShape) -> bool {
    s.groups == s.c_in && s.c_in == s.c_out && s.groups >= FEWEST
}

/// The geometry of a depthwise correlation over one phase-split grid.
struct Plan {
    lattice: PhaseSplitInput,
    rows: Vec<Row>,
    /// The last one is repeated until they fill a tile.
    segments: Vec<Segment>,
    /// Segments without repetitions.
    count: usize,
    /// By tap: its index in the kernel, and its shift in the grid.
    kernel: Vec<usize>,
    offsets: Vec<usize>,
    /// Those of consecutive shifts together.
    taps: Vec<TapRun>,
}

impl Plan {
    fn new(s: &ConvShape, lattice: PhaseSplitInput, lanes: usize) -> Plan {
        let mut taps = lattice.taps(s, 1);
        taps.sort_unstable_by_key(|(_, offset)| *offset);
        let (kernel, offsets): (Vec<usize>, Vec<usize>) = taps.into_iter().unzip();
        let longest = lanes.min(LONGEST_RUN);
        let mut taps: Vec<TapRun> = Vec::new();
        for &offset in &offsets {
            match taps.last_mut() {
                Some(last) if last.offset + last.count == offset && last.count < longest => last.count += 1,
                _ => taps.push(TapRun { offset, count: 1 }),
            }
        }
        let mut segments = lattice.segments(lanes);
        let count = segments.len();
        while let Some(last) = segments.last().filter(|_| !segments.len().is_multiple_of(SEGMENTS)) {
            segments.push(*last);
        }
        Plan { rows: lattice.rows(0, 1), lattice, segments, count, kernel, offsets, taps }
    }

    /// Whether results are all elements of a plane in order.
    fn is_dense(&self) -> bool {
        self.lattice.axes.iter().all(|a| a.stride == 1 && a.first == 0 && a.count == a.target)
    }

    fn grid<T: ConvElem>(&self) -> Vec<T> {
        vec![T::ZERO; self.lattice.pitch(1) + SLACK]
    }

    /// Copies a plane, the first of `source`, to its grid.
    fn fill<T: ConvElem>(&self, source: &[T], grid: &mut [T]) {
        self.lattice.copy(source, grid, &self.rows);
    }

    /// Adds the gradient of a tap's weight from one plane, in order.
    fn add_in_order<T: ConvElem>(&self, tap: usize, g: &[T], grid: &[T], sum: &mut T) {
        for s in &self.segments[..self.count] {
            let x = &grid[s.at + self.offsets[tap]..];
            g[s.to..][..s.len].iter().zip(x).for_each(|(g, x)| *sum += *g * *x);
        }
    }
}

/// Whether results of such planes are computed in pieces.
pub fn has_pieces<T: ConvElem>(s: &ConvShape, plane: usize) -> bool {
    let piece = if lanes::pays(s) { lanes::piece(s, T::tiles().lanes, plane) } else { plane };
    piece <= largest::<T>()
}

/// Outputs, or with the lattices of the backward pass gradients of inputs, from planes of `source`. Results that no lattice has are
/// left alone.
pub fn correlate<T: ConvElem>(
    s: &ConvShape,
    lattices: Vec<PhaseSplitInput>,
    source: &[T],
    w: &[T],
    bias: Option<&[T]>,
    out: Destination<T>,
) {
    let Some(first) = lattices.first() else { return };
    let (from, to, taps) = (first.source_plane(), first.target_plane(), s.taps());
    if out.len() == 0 {
        return;
    }
    if lanes::pays(s) {
        return lanes::correlate(s, &lattices, source, w, bias, out);
    }
    let plans: Vec<Plan> = lattices.into_iter().map(|l| Plan::new(s, l, T::tiles().lanes)).collect();
    // Otherwise a segment could write to a row that is already done, or that has no result.
    let is_dense = plans.len() == 1 && plans[0].is_dense();
    let mut planes = GRAIN.div_ceil(to * taps);
    if !out.takes(planes * to) {
        planes = 1;
    }
    out.for_chunks(planes * to, |chunk, out| {
        let mut grids: Vec<Vec<T>> = plans.iter().map(Plan::grid).collect();
        let mut weights = Vec::with_capacity(taps);
        for i in 0..out.len() / to {
            let plane = chunk * planes + i;
            let channel = plane % s.groups;
            let init = bias.map_or(T::ZERO, |b| b[channel]);
            let w = &w[channel * taps..][..taps];
            // The next planes of the chunk are written after this one.
            let out = if is_dense { &mut out[i * to..] } else { &mut out[i * to..(i + 1) * to] };
            for (plan, grid) in plans.iter().zip(&mut grids) {
                plan.fill(&source[plane * from..], grid);
                weights.clear();
                weights.extend(plan.kernel.iter().map(|k| w[*k]));
                let place = Place { stride: plan.lattice.axes[2].stride, is_dense };
                (T::tiles().segments)(grid, &plan.segments, &plan.taps, &weights, init, place, out);
            }
        }
    });
}

/// The gradient of the weight.
pub fn backward_weight<T: ConvElem>(s: &ConvShape, grad_out: &[T], x: &[T], grad_w: &mut [T]) {
    let (taps, lanes) = (s.taps(), T::tiles().lanes);
    if grad_w.is_empty() {
        return;
    }
    if lanes::pays(s) {
        return lanes::backward_weight(s, grad_out, x, grad_w);
    }
    let plan = Plan::new(s, PhaseSplitInput::forward(s), lanes);
    let (from, to) = (s.input_plane(), s.output_plane());
    // Shifts are summed so many at a time; those that fill up the last ones are computed in vain.
    let mut offsets = plan.offsets.clone();
    offsets.resize(taps.next_multiple_of(SHIFTS), 0);
    let channels = GRAIN.div_ceil((s.n * to * taps).max(1));
    for_chunks_mut(grad_w, channels * taps, |chunk, out| {
        let mut grid = plan.grid();
        let mut sums = vec![T::ZERO; offsets.len() * lanes];
        for (i, out) in out.chunks_mut(taps).enumerate() {
            let planes = || (0..s.n).map(|image| image * s.groups + chunk * channels + i);
            sums.fill(T::ZERO);
            for plane in planes() {
                plan.fill(&x[plane * from..], &mut grid);
                let g = &grad_out[plane * to..][..to];
                for (offsets, sums) in
                    offsets.as_chunks::<SHIFTS>().0.iter().zip(sums.chunks_mut(SHIFTS * lanes))
                {
                    (T::tiles().shifts)(g, &grid, &plan.segments[..plan.count], offsets, sums);
                }
            }
            for (k, sums) in plan.kernel.iter().zip(sums.chunks(lanes)) {
                out[*k] = sums.iter().copied().sum();
            }
            if out.iter().all(|v| v.to_f64().is_finite()) {
                continue;
            }
            out.fill(T::ZERO);
            for plane in planes() {
                plan.fill(&x[plane * from..], &mut grid);
                for (tap, k) in plan.kernel.iter().enumerate() {
                    plan.add_in_order(tap, &grad_out[plane * to..][..to], &grid, &mut out[*k]);
                }
            }
        }
    });
}
