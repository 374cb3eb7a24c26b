//! Depthwise convolutions of small planes.
//!
//! Note [Channels as lanes] The rows of a small plane fill half a vector, and a stride divides them further. So the planes of as
//! many channels as a vector has lanes are transposed: each position is then a vector, a tap of the kernel is a vector of weights,
//! and rows of vectors are copied to the grids of Note [Phase-split input] whatever the stride. Results are transposed back.

use super::super::phase_split::{PhaseSplitInput, Row, Segment};
use super::super::tile::{ConvElem, POSITIONS, SHIFTS};
use super::{ConvShape, GRAIN};
use crate::backend::cpu::parallel::for_parts_mut;
use crate::backend::cpu::pieces::Destination;
use crate::backend::cpu::transpose::transpose;

/// Elements of the largest planes, and of those with a stride, by what was measured.
const LARGEST: usize = 10 * 10;
const LARGEST_STRIDED: usize = 56 * 56;
/// With their padding, which bounds the grids: a vector for each element.
const LARGEST_PADDED: usize = 1 << 13;

/// Whether channels are lanes.
pub fn pays(s: &ConvShape) -> bool {
    let most = if s.stride == [1; 3] { LARGEST } else { LARGEST_STRIDED };
    let padded = (0..3).map(|a| s.padding[a].saturating_mul(2).saturating_add(s.input[a]));
    s.input_plane().max(s.output_plane()) <= most && padded.fold(1, usize::saturating_mul) <= LARGEST_PADDED
}

/// The geometry of one grid of vectors.
struct Plan {
    rows: Vec<Row>,
    step: usize,
    /// From a result of a row to the next.
    stride: usize,
    segments: Vec<Segment>,
    /// By tap: its index in the kernel, and its shift in the grid.
    kernel: Vec<usize>,
    offsets: Vec<usize>,
    /// Vectors of the grid.
    extent: usize,
}

impl Plan {
    fn new(s: &ConvShape, lattice: &PhaseSplitInput, longest: usize) -> Plan {
        let (kernel, offsets) = lattice.taps(s, 1).into_iter().unzip();
        Plan {
            rows: lattice.rows(0, 1),
            step: lattice.axes[2].step,
            stride: lattice.axes[2].stride,
            segments: lattice.segments(longest),
            kernel,
            offsets,
            extent: lattice.pitch(1) + POSITIONS,
        }
    }
}

/// Channels of a part of the results.
fn channels(s: &ConvShape, lanes: usize, plane: usize) -> usize {
    GRAIN.div_ceil(plane * s.taps() * lanes) * lanes
}

/// Elements of the largest part of the results.
pub fn piece(s: &ConvShape, lanes: usize, plane: usize) -> usize {
    channels(s, lanes, plane).min(s.groups) * plane
}

/// Where the work on images and channels is divided: the first element of each part of the results, and the end. No part has
/// channels of two images.
fn bounds(s: &ConvShape, lanes: usize, plane: usize) -> Vec<usize> {
    let channels = channels(s, lanes, plane);
    let starts = (0..s.n).flat_map(|n| (0..s.groups).step_by(channels).map(move |c| n * s.groups + c));
    starts.chain([s.n * s.groups]).map(|first| first * plane).collect()
}

/// See [`super::correlate`].
pub fn correlate<T: ConvElem>(
    s: &ConvShape,
    lattices: &[PhaseSplitInput],
    source: &[T],
    w: &[T],
    bias: Option<&[T]>,
    out: Destination<T>,
) {
    let (lanes, taps) = (T::tiles().lanes, s.taps());
    let (from, to) = (lattices[0].source_plane(), lattices[0].target_plane());
    let plans: Vec<Plan> = lattices.iter().map(|l| Plan::new(s, l, POSITIONS)).collect();
    let bounds = bounds(s, lanes, to);
    out.for_parts(&bounds, |part, out| {
        let mut turned = vec![T::ZERO; from * lanes];
        let mut grids: Vec<Vec<T>> = plans.iter().map(|p| vec![T::ZERO; p.extent * lanes]).collect();
        let mut weights = vec![T::ZERO; taps * lanes];
        let mut picked = vec![T::ZERO; taps * lanes];
        let mut init = vec![T::ZERO; lanes];
        let mut results = vec![T::ZERO; to * lanes];
        for (i, out) in out.chunks_mut(lanes * to).enumerate() {
            let (plane, count) = (bounds[part] / to + i * lanes, out.len() / to);
            let channel = plane % s.groups;
            transpose(&source[plane * from..], from, from, count, &mut turned, lanes);
            transpose(&w[channel * taps..], taps, taps, count, &mut weights, lanes);
            if let Some(bias) = bias {
                init[..count].copy_from_slice(&bias[channel..channel + count]);
            }
            for (plan, grid) in plans.iter().zip(&mut grids) {
                (T::tiles().spread)(&turned, plan.step, &plan.rows, grid);
                for (to, k) in picked.chunks_exact_mut(lanes).zip(&plan.kernel) {
                    to.copy_from_slice(&weights[k * lanes..][..lanes]);
                }
                let weights = &picked[..plan.kernel.len() * lanes];
                (T::tiles().channel_lanes)(
                    grid,
                    &plan.segments,
                    &plan.offsets,
                    weights,
                    &init,
                    plan.stride,
                    &mut results,
                );
            }
            transpose(&results, lanes, count, to, out, to);
        }
    });
}

/// See [`super::backward_weight`].
pub fn backward_weight<T: ConvElem>(s: &ConvShape, grad_out: &[T], x: &[T], grad_w: &mut [T]) {
    let (lanes, taps) = (T::tiles().lanes, s.taps());
    let (from, to) = (s.input_plane(), s.output_plane());
    let plan = Plan::new(s, &PhaseSplitInput::forward(s), 1);
    // In elements, as each position is a whole vector.
    let whole = |p: &Segment| Segment { at: p.at * lanes, to: p.to * lanes, len: lanes };
    let segments: Vec<Segment> = plan.segments.iter().map(whole).collect();
    let mut offsets: Vec<usize> = plan.offsets.iter().map(|offset| offset * lanes).collect();
    offsets.resize(taps.next_multiple_of(SHIFTS), 0);
    let channels = GRAIN.div_ceil((s.n * to * taps * lanes).max(1)) * lanes;
    let bounds: Vec<usize> =
        (0..s.groups).step_by(channels).chain([s.groups]).map(|channel| channel * taps).collect();
    for_parts_mut(grad_w, &bounds, |part, out| {
        let mut turned = vec![T::ZERO; from * lanes];
        let mut grads = vec![T::ZERO; to * lanes];
        let mut grid = vec![T::ZERO; plan.extent * lanes];
        let mut sums = vec![T::ZERO; offsets.len() * lanes];
        for (i, out) in out.chunks_mut(lanes * taps).enumerate() {
            let (channel, count) = (bounds[part] / taps + i * lanes, out.len() / taps);
            sums.fill(T::ZERO);
            for image in 0..s.n {
                let plane = image * s.groups + channel;
                transpose(&x[plane * from..], from, from, count, &mut turned, lanes);
                transpose(&grad_out[plane * to..], to, to, count, &mut grads, lanes);
                (T::tiles().spread)(&turned, plan.step, &plan.rows, &mut grid);
                for (offsets, sums) in
                    offsets.as_chunks::<SHIFTS>().0.iter().zip(sums.chunks_mut(SHIFTS * lanes))
                {
                    (T::tiles().shifts)(&grads, &grid, &segments, offsets, sums);
                }
            }
            for (k, sums) in plan.kernel.iter().zip(sums.chunks_exact(lanes)) {
                out[*k..].iter_mut().step_by(taps).zip(sums).for_each(|(out, sum)| *out = *sum);
            }
        }
    });
}
