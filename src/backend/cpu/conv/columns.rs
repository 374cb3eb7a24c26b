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

use super::phase_split::copy_spaced;
use super::tile::ConvElem;
use crate::backend::conv::ConvShape;
use crate::backend::cpu::matmul::shared::{Part, products};
use crate::backend::cpu::matmul::{Bias, Epilogue, MatRef};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::multiversion;

/// With fewer channels of results each gathered element is multiplied too seldom, and with fewer terms a column has too little to
/// gather.
const LEAST_TARGETS: usize = 32;
const LEAST_SOURCES: usize = 16;
const LEAST_TERMS: usize = 128;
/// Rows of the output from which on the direct form is faster, but for kernels of one element, and for single images with few
/// channels, which it divides among threads by channels of results.
const LONG_ROWS: usize = 64;
/// More positions than these are gathered too slowly for the gradient of the weight.
const FEW_POSITIONS: usize = 512;

fn is_strided(s: &ConvShape) -> bool {
    s.groups == 1 && s.stride != [1; 3]
}

/// Whether this is faster than the direct form.
pub fn pays(s: &ConvShape) -> bool {
    let few = s.c_in < LEAST_SOURCES;
    let rows = s.taps() == 1 || s.output[2] < LONG_ROWS || few && s.n == 1;
    let terms = if few { s.c_in * s.taps() >= LEAST_TERMS } else { s.c_out >= LEAST_SOURCES };
    is_strided(s) && rows && terms && s.c_in.max(s.c_out) >= LEAST_TARGETS
}

/// The same of the gradient of the input.
pub fn pays_for_input(s: &ConvShape) -> bool {
    pays(s) && s.c_in >= LEAST_SOURCES
}

/// The same of the gradient of the weight: its columns have a term each, for which all positions are gathered.
pub fn pays_for_weight(s: &ConvShape) -> bool {
    pays_for_input(s) && s.output_plane() < FEW_POSITIONS
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
    taps: Vec<Tap>,
}

struct Tap {
    /// Where it is relative to the position.
    shift: [isize; 3],
    /// The positions of a row of the target for which it is within the source.
    inside: Range<usize>,
}

/// Consecutive positions of a panel that have consecutive elements of a row of the source, or some a step apart.
#[derive(Clone, Copy)]
struct Run {
    /// The first position.
    to: usize,
    len: usize,
    /// The first element in a plane.
    from: usize,
}

/// Positions of a row of the target.
struct Row {
    depth: usize,
    height: usize,
    wanted: Range<usize>,
    /// Where the first of them is in the panel.
    to: usize,
}

impl Columns {
    fn new(
        channels: usize,
        source: [usize; 3],
        target: [usize; 3],
        step: [usize; 3],
        shifts: Vec<[isize; 3]>,
    ) -> Columns {
        let taps = shifts.into_iter().map(|shift| {
            // The first position of a row that is not before an element of the source.
            let reaching = |element: usize| {
                let distance = (element as isize - shift[2]).max(0) as usize;
                distance.div_ceil(step[2]).min(target[2])
            };
            Tap { shift, inside: reaching(0)..reaching(source[2]) }
        });
        Columns { channels, source, target, step, taps: taps.collect() }
    }

    fn of_input(s: &ConvShape) -> Columns {
        let shift = |tap: usize| {
            let tap = unflatten(tap, s.kernel);
            [0, 1, 2].map(|axis| (tap[axis] * s.dilation[axis]) as isize - s.padding[axis] as isize)
        };
        Columns::new(s.c_in, s.input, s.output, s.stride, (0..s.taps()).map(shift).collect())
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
        let columns = Columns::new(s.c_out, s.output, target, [1; 3], shifts);
        (columns.positions() > 0 && !taps.is_empty()).then_some((columns, taps))
    }

    fn terms(&self) -> usize {
        self.channels * self.taps.len()
    }

    fn positions(&self) -> usize {
        self.target.iter().product()
    }

    fn plane(&self) -> usize {
        self.source.iter().product()
    }

    /// Packs the terms `part.depth` of the positions `part.columns`.
    fn pack<T: ConvElem>(&self, source: &[T], part: Part, to: &mut [T], stride: usize) {
        let source = &source[part.product * self.channels * self.plane()..];
        let (rows, width, step) = (self.rows(part.columns.clone()), part.columns.len(), self.step[2]);
        let (mut reads, mut runs) = (Vec::with_capacity(self.taps.len()), Vec::new());
        for tap in &self.taps {
            let first = runs.len();
            runs.extend(self.runs(tap, &rows));
            let read = match runs[first..] {
                [run] if run.len == LINE && width == LINE => Read::Line(run.from),
                ref some => Read::Runs {
                    runs: first..runs.len(),
                    all: some.iter().map(|run| run.len).sum::<usize>() == width,
                },
            };
            reads.push(read);
        }
        gather(source, self.plane(), step, (&reads, &runs), part, to, stride);
    }

    /// As [`Columns::pack`] of the first source, with positions as depth and terms as columns.
    fn pack_turned<T: ConvElem>(&self, source: &[T], part: Part, to: &mut [T], stride: usize) {
        let (rows, width) = (self.rows(part.depth), part.columns.len());
        to.chunks_mut(stride).for_each(|to| to[..width].fill(T::ZERO));
        for (j, term) in part.columns.enumerate() {
            let (channel, tap) = (term / self.taps.len(), term % self.taps.len());
            let plane = &source[channel * self.plane()..];
            for run in self.runs(&self.taps[tap], &rows) {
                let to = to[j..].chunks_mut(stride).skip(run.to).take(run.len);
                let from = plane[run.from..].iter().step_by(self.step[2]);
                to.zip(from).for_each(|(to, v)| to[0] = *v);
            }
        }
    }

    /// The rows of the target that have some of its positions.
    fn rows(&self, positions: Range<usize>) -> Vec<Row> {
        let width = self.target[2];
        let mut rows = Vec::with_capacity(positions.len() / width + 2);
        let mut next = positions.start;
        while next < positions.end {
            let [depth, height, first] = unflatten(next, self.target);
            let end = width.min(first + positions.end - next);
            rows.push(Row { depth, height, wanted: first..end, to: next - positions.start });
            next += end - first;
        }
        rows
    }

    /// The elements of a tap for positions in some rows.
    fn runs<'r>(&'r self, tap: &'r Tap, rows: &'r [Row]) -> impl Iterator<Item = Run> + 'r {
        rows.iter().filter_map(|row| {
            let source = |at: usize, axis: usize| {
                let at = (at * self.step[axis]).checked_add_signed(tap.shift[axis]);
                at.filter(|at| *at < self.source[axis])
            };
            let (d, h) = (source(row.depth, 0)?, source(row.height, 1)?);
            let start = row.wanted.start.max(tap.inside.start);
            let len = row.wanted.end.min(tap.inside.end).checked_sub(start).filter(|len| *len > 0)?;
            let from = (d * self.source[1] + h) * self.source[2] + source(start, 2)?;
            Some(Run { to: row.to + start - row.wanted.start, len, from })
        })
    }
}

/// Positions of a panel whose elements are gathered at once if they are a single run.
const LINE: usize = 16;

/// Where in a plane the elements of a tap are, for the positions of a panel.
enum Read {
    /// In a line of [`LINE`] positions, from this element on.
    Line(usize),
    /// In some runs, which may be all positions; others are outside of the image.
    Runs { runs: Range<usize>, all: bool },
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Packs a part of the im2col matrix: rows `part.depth` (source channel, then kernel tap) of columns `part.columns` (output
    /// positions). `plane` is the number of elements of a source channel; `places` holds, for each tap, what it reads of one.
    fn gather[T: ConvElem](source: &[T], plane: usize, step: usize, places: (&[Read], &[Run]), part: Part, to: &mut [T], stride: usize) {
        let ((reads, runs), width) = (places, part.columns.len());
        let (mut channel, mut tap) = (part.depth.start / reads.len(), part.depth.start % reads.len());
        for to in to.chunks_mut(stride).take(part.depth.len()) {
            let plane = &source[channel * plane..][..plane];
            match &reads[tap] {
                Read::Line(from) => copy_spaced(&plane[*from..], step, &mut to[..LINE]),
                Read::Runs { runs: some, all } => {
                    if !all {
                        to[..width].fill(T::ZERO);
                    }
                    for run in &runs[some.clone()] {
                        copy_spaced(&plane[run.from..], step, &mut to[run.to..][..run.len]);
                    }
                }
            }
            tap += 1;
            if tap == reads.len() {
                (channel, tap) = (channel + 1, 0);
            }
        }
    }
}

/// The coordinates of an element of a volume.
fn unflatten(at: usize, [_, rows, columns]: [usize; 3]) -> [usize; 3] {
    [at / (rows * columns), at / columns % rows, at % columns]
}
