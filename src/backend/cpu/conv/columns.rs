//! Strided kernels, as products with columns of elements.
//!
//! Note [Convolutions as products of columns] An output position is a product of the weight, `[c_out, c_in * taps]`, with a
//! column of all elements of the image under the kernel. The columns of an image would be many times the image, so they
//! are never in memory: a task of Note [Shared left operands] gathers those of its positions when it packs them.
//!
//! In the gradient of the input, positions that lie a stride apart get terms from the same taps. Such a *phase* is a
//! convolution without stride of the gradient of the output, with some of the taps, and its results are scattered.
//!
//! The direct form has consecutive positions of a row as lanes, so it loses where rows are short.

use std::ops::Range;

use super::tile::ConvElem;
use crate::backend::conv::ConvShape;
use crate::backend::cpu::matmul::shared::{Part, products};
use crate::backend::cpu::matmul::{Bias, Epilogue, MatRef};
use crate::backend::cpu::parallel::for_chunks_mut;

/// With fewer channels on either side, each gathered element is multiplied too seldom, or a column has too few terms.
const LEAST_TARGETS: usize = 32;
const LEAST_SOURCES: usize = 16;
/// Rows of the output from which on the direct form is faster, but for kernels of one element.
const LONG_ROWS: usize = 64;
/// More positions than these are gathered too slowly for the gradient of the weight.
const FEW_POSITIONS: usize = 512;

/// Marks an element outside of the image; no plane is as large.
const OUTSIDE: usize = usize::MAX;

/// Whether this is faster than the direct form.
pub fn pays(s: &ConvShape) -> bool {
    let strided = s.groups == 1 && s.stride != [1; 3] && (s.taps() == 1 || s.output[2] < LONG_ROWS);
    strided && s.c_in.min(s.c_out) >= LEAST_SOURCES && s.c_in.max(s.c_out) >= LEAST_TARGETS
}

/// The same of the gradient of the weight: its columns have a term each, for which all positions are gathered.
pub fn pays_for_weight(s: &ConvShape) -> bool {
    pays(s) && s.taps() == 1 && s.output_plane() < FEW_POSITIONS
}

/// The convolution.
pub fn forward<T: ConvElem>(s: &ConvShape, x: &[T], w: &[T], bias: Option<&[T]>, out: &mut [T]) {
    let ep = Epilogue { bias: bias.map_or(Bias::None, Bias::Col), ..Epilogue::default() };
    let columns = Columns::of_input(s);
    let terms = columns.terms();
    let pack = |part: Part, to: &mut [T], stride: usize| columns.pack(x, part, to, stride);
    products([s.c_out, s.output_plane(), terms], MatRef::row_major(w, terms), &pack, out, ep);
}

/// The gradient of the input.
pub fn backward_input<T: ConvElem>(s: &ConvShape, grad_out: &[T], w: &[T], grad_x: &mut [T]) {
    grad_x.fill(T::ZERO);
    let mut results = Vec::new();
    // A stride may be far larger than the input.
    let phases = [0, 1, 2].map(|axis| s.stride[axis].min(s.input[axis]));
    for phase in 0..phases.iter().product() {
        let first = unflatten(phase, phases);
        let Some((columns, taps)) = Columns::of_phase(s, first) else { continue };
        let (terms, positions) = (columns.terms(), columns.positions());
        results.resize(s.n * s.c_in * positions, T::ZERO);
        let pack = |part: Part, to: &mut [T], stride: usize| columns.pack(grad_out, part, to, stride);
        // The weights of these taps, a row for each channel of the input.
        let mut weights = vec![T::ZERO; s.c_in * terms];
        for_chunks_mut(&mut weights, terms, |channel, row| {
            for (from, row) in row.chunks_exact_mut(taps.len()).enumerate() {
                let w = &w[(from * s.c_in + channel) * s.taps()..][..s.taps()];
                row.iter_mut().zip(&taps).for_each(|(to, &tap)| *to = w[tap]);
            }
        });
        let left = MatRef::row_major(&weights, terms);
        products([s.c_in, positions, terms], left, &pack, &mut results, Epilogue::default());
        scatter(s, first, columns.target, &results, grad_x);
    }
}

/// The gradient of the weight, summed over images one after the other. For kernels of one element.
pub fn backward_weight<T: ConvElem>(s: &ConvShape, grad_out: &[T], x: &[T], grad_w: &mut [T]) {
    let (columns, positions) = (Columns::of_input(s), s.output_plane());
    if s.n * positions == 0 {
        return grad_w.fill(T::ZERO);
    }
    for image in 0..s.n {
        let g = MatRef::row_major(&grad_out[image * s.c_out * positions..], positions);
        let x = &x[image * s.c_in * columns.plane()..][..s.c_in * columns.plane()];
        let pack = |part: Part, to: &mut [T], stride: usize| columns.pack_turned(x, part, to, stride);
        let beta = if image == 0 { T::ZERO } else { T::ONE };
        let ep = Epilogue { beta, ..Epilogue::default() };
        products([s.c_out, columns.terms(), positions], g, &pack, grad_w, ep);
    }
}

/// Writes the results of a phase to where its positions are in the gradient of the input.
fn scatter<T: ConvElem>(
    s: &ConvShape,
    first: [usize; 3],
    count: [usize; 3],
    results: &[T],
    grad_x: &mut [T],
) {
    let (positions, plane) = (count.iter().product::<usize>(), s.input_plane());
    if plane == 0 {
        return;
    }
    let planes = ((1 << 14) / plane).max(1);
    for_chunks_mut(grad_x, planes * plane, |chunk, grad_x| {
        let results = &results[chunk * planes * positions..];
        for (grad_x, results) in grad_x.chunks_exact_mut(plane).zip(results.chunks_exact(positions)) {
            for (row, results) in results.chunks_exact(count[2]).enumerate() {
                let depth = first[0] + row / count[1] * s.stride[0];
                let height = first[1] + row % count[1] * s.stride[1];
                let at = (depth * s.input[1] + height) * s.input[2] + first[2];
                let to = grad_x[at..].iter_mut().step_by(s.stride[2]);
                to.zip(results).for_each(|(to, &v)| *to = v);
            }
        }
    });
}

/// For each position of a target, the elements of all channels of a source at some taps. Terms are ordered by channel, then tap.
struct Columns {
    channels: usize,
    source: [usize; 3],
    target: [usize; 3],
    /// Elements of the source between neighbouring positions of the target.
    step: [usize; 3],
    /// Where each tap is relative to the position.
    shifts: Vec<[isize; 3]>,
}

impl Columns {
    fn of_input(s: &ConvShape) -> Columns {
        let shift = |tap: usize| {
            let tap = unflatten(tap, s.kernel);
            [0, 1, 2].map(|axis| (tap[axis] * s.dilation[axis]) as isize - s.padding[axis] as isize)
        };
        let shifts = (0..s.taps()).map(shift).collect();
        Columns { channels: s.c_in, source: s.input, target: s.output, step: s.stride, shifts }
    }

    /// The columns of the gradient of the output for the phase of a position of the input, and which taps they have. None
    /// if the phase has no positions or no taps.
    fn of_phase(s: &ConvShape, first: [usize; 3]) -> Option<(Columns, Vec<usize>)> {
        let target = [0, 1, 2].map(|axis| s.input[axis].saturating_sub(first[axis]).div_ceil(s.stride[axis]));
        let (mut taps, mut shifts) = (Vec::new(), Vec::new());
        for tap in 0..s.taps() {
            let at = unflatten(tap, s.kernel);
            let distance = [0, 1, 2].map(|axis| {
                (first[axis] + s.padding[axis]) as isize - (at[axis] * s.dilation[axis]) as isize
            });
            let stride = s.stride.map(|stride| stride as isize);
            if (0..3).all(|axis| distance[axis].rem_euclid(stride[axis]) == 0) {
                taps.push(tap);
                shifts.push([0, 1, 2].map(|axis| distance[axis].div_euclid(stride[axis])));
            }
        }
        let columns = Columns { channels: s.c_out, source: s.output, target, step: [1; 3], shifts };
        (columns.positions() > 0 && !taps.is_empty()).then_some((columns, taps))
    }

    fn terms(&self) -> usize {
        self.channels * self.shifts.len()
    }

    fn positions(&self) -> usize {
        self.target.iter().product()
    }

    fn plane(&self) -> usize {
        self.source.iter().product()
    }

    /// Packs the terms `part.depth` of the positions `part.columns`.
    fn pack<T: ConvElem>(&self, source: &[T], part: Part, to: &mut [T], stride: usize) {
        let (taps, plane, width) = (self.shifts.len(), self.plane(), part.columns.len());
        let offsets = self.offsets(part.columns);
        let source = &source[part.product * self.channels * plane..];
        for (term, to) in part.depth.zip(to.chunks_mut(stride)) {
            let plane = &source[term / taps * plane..][..plane];
            let from = &offsets[term % taps * width..][..width];
            for (to, &at) in to.iter_mut().zip(from) {
                *to = plane.get(at).copied().unwrap_or(T::ZERO);
            }
        }
    }

    /// As [`Columns::pack`] of the first source, with positions as depth and terms as columns.
    fn pack_turned<T: ConvElem>(&self, source: &[T], part: Part, to: &mut [T], stride: usize) {
        let (taps, plane, width) = (self.shifts.len(), self.plane(), part.depth.len());
        let offsets = self.offsets(part.depth);
        for (j, term) in part.columns.enumerate() {
            let plane = &source[term / taps * plane..][..plane];
            let from = &offsets[term % taps * width..][..width];
            for (to, &at) in to.chunks_mut(stride).zip(from) {
                to[j] = plane.get(at).copied().unwrap_or(T::ZERO);
            }
        }
    }

    /// For each tap, where the elements for some positions are in a plane.
    fn offsets(&self, positions: Range<usize>) -> Vec<usize> {
        let mut found = Vec::with_capacity(self.shifts.len() * positions.len());
        for shift in &self.shifts {
            found.extend(positions.clone().map(|position| {
                let position = unflatten(position, self.target);
                let mut offset = 0;
                for axis in 0..3 {
                    let at = (position[axis] * self.step[axis]).checked_add_signed(shift[axis]);
                    let Some(at) = at.filter(|at| *at < self.source[axis]) else { return OUTSIDE };
                    offset = offset * self.source[axis] + at;
                }
                offset
            }));
        }
        found
    }
}

/// The coordinates of an element of a volume.
fn unflatten(at: usize, [_, rows, columns]: [usize; 3]) -> [usize; 3] {
    [at / (rows * columns), at / columns % rows, at % columns]
}
