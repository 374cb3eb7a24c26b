//! Expresses a convolution of any stride, dilation and padding as sums over a padded copy of the source.
//!
//! Note [Phase-split input]
//! A source plane is copied once into a zero-padded grid, split by the residue of each coordinate modulo the stride:
//! one grid per *phase*. On these grids every tap of the kernel is a constant shift, whatever the stride. With the
//! grid's rows stored contiguously,
//!
//! ```text
//!     result[position] = Σ_k weight[k] · source[position + offset[k]]      k = (channel, tap)
//! ```
//!
//! holds for consecutive positions, so that vector registers load them directly: there is no im2col. Positions in the
//! padding at the end of a row are computed and discarded. The gradient of the input is the same sum over the padded
//! output gradient, once per phase of the input.

use super::ConvShape;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::dtype::Real;
use crate::multiversion;

/// Elements that tiles may read past the last position; they are zero and the results are discarded.
pub const SLACK: usize = 256;

/// One kernel element along one axis: the phase it reads and its shift there.
#[derive(Clone)]
struct Tap {
    kernel: usize,
    phase: usize,
    shift: usize,
}

/// One spatial axis of a phase-split input.
#[derive(Clone)]
pub struct Axis {
    /// Source elements along this axis.
    source: usize,
    /// Source coordinate of grid coordinate `i` in phase `f`: `phases[f] + step * i`.
    phases: Vec<isize>,
    pub step: usize,
    /// Grid elements along this axis.
    pub extent: usize,
    taps: Vec<Tap>,
    /// Number of results along this axis; result `i` is element `first + stride * i` of the destination.
    pub count: usize,
    pub first: usize,
    pub stride: usize,
    /// Destination elements along this axis.
    pub target: usize,
}

impl Axis {
    fn forward(s: &ConvShape, a: usize) -> Axis {
        let (stride, pad) = (s.stride[a], s.padding[a] as isize);
        let residue = |tap: usize| tap * s.dilation[a] % stride;
        let mut residues: Vec<usize> = (0..s.kernel[a]).map(residue).collect();
        residues.sort_unstable();
        residues.dedup();
        let taps: Vec<Tap> = (0..s.kernel[a])
            .map(|kernel| Tap {
                kernel,
                phase: residues.iter().position(|&r| r == residue(kernel)).unwrap_or(0),
                shift: kernel * s.dilation[a] / stride,
            })
            .collect();
        Axis {
            source: s.input[a],
            phases: residues.iter().map(|&r| r as isize - pad).collect(),
            step: stride,
            extent: s.output[a] + taps.last().map_or(0, |t| t.shift),
            taps,
            count: s.output[a],
            first: 0,
            stride: 1,
            target: s.output[a],
        }
    }

    /// The axes for the gradient of the input: one for each residue of the padded input coordinate that has a tap.
    fn backward(s: &ConvShape, a: usize) -> Vec<Axis> {
        let (stride, pad) = (s.stride[a] as isize, s.padding[a] as isize);
        let axis = |residue: isize| {
            // Input i with i + pad = stride * t + residue contributes through tap r to output t - (r * dilation -
            // residue) / stride.
            let backs: Vec<(usize, isize)> = (0..s.kernel[a])
                .map(|r| (r, (r * s.dilation[a]) as isize - residue))
                .filter(|&(_, d)| d.rem_euclid(stride) == 0)
                .map(|(r, d)| (r, d.div_euclid(stride)))
                .collect();
            let reach = backs.last().map_or(0, |&(_, back)| back);
            let first_t = (pad - residue + stride - 1).div_euclid(stride);
            let first = stride * first_t + residue - pad;
            let count = (s.input[a] as isize - first + stride - 1).div_euclid(stride).max(0) as usize;
            let taps: Vec<Tap> = backs
                .iter()
                .map(|&(kernel, back)| Tap { kernel, phase: 0, shift: (reach - back) as usize })
                .collect();
            Axis {
                source: s.output[a],
                phases: vec![first_t - reach],
                step: 1,
                extent: count + taps.first().map_or(0, |t| t.shift),
                taps,
                count,
                first: first as usize,
                stride: s.stride[a],
                target: s.input[a],
            }
        };
        // Coordinates of the other residues have no tap.
        let mut residues: Vec<isize> =
            (0..s.kernel[a]).map(|r| (r * s.dilation[a]) as isize % stride).collect();
        residues.sort_unstable();
        residues.dedup();
        residues.into_iter().map(axis).filter(|axis| axis.count > 0).collect()
    }

    /// The axis of the output gradient, stored on the grid of [`Axis::forward`] so that positions match.
    fn aligned(&self) -> Axis {
        Axis { source: self.count, phases: vec![0], step: 1, taps: Vec::new(), ..self.clone() }
    }

    /// The grid coordinates of a phase that hold source elements, and the source coordinate of the first.
    fn inside(&self, phase: usize) -> (std::ops::Range<usize>, usize) {
        let (start, step) = (self.phases[phase], self.step as isize);
        let from_source = |coordinate: isize| {
            (coordinate - start + step - 1).div_euclid(step).clamp(0, self.extent as isize) as usize
        };
        let range = from_source(0)..from_source(self.source as isize);
        let first = (start + step * range.start as isize).max(0) as usize;
        (range, first)
    }
}

/// A phase-split input: the grids of all three axes. See Note [Phase-split input].
pub struct PhaseSplitInput {
    pub axes: [Axis; 3],
}

impl PhaseSplitInput {
    pub fn forward(s: &ConvShape) -> PhaseSplitInput {
        PhaseSplitInput { axes: [0, 1, 2].map(|a| Axis::forward(s, a)) }
    }

    /// One phase-split input for each phase that has taps, and whether their results together cover the input;
    /// elsewhere the gradient is zero.
    pub fn backward(s: &ConvShape) -> (Vec<PhaseSplitInput>, bool) {
        let [depth, height, width] = [0, 1, 2].map(|a| Axis::backward(s, a));
        let covers =
            |axes: &[Axis], a: usize| axes.iter().map(|axis| axis.count).sum::<usize>() == s.input[a];
        let whole = covers(&depth, 0) && covers(&height, 1) && covers(&width, 2);
        let mut lattices = Vec::new();
        for d in &depth {
            for h in &height {
                for w in &width {
                    lattices.push(PhaseSplitInput { axes: [d.clone(), h.clone(), w.clone()] });
                }
            }
        }
        (lattices, whole)
    }

    /// The phase-split output gradient whose positions are those of `self`'s results.
    pub fn aligned(&self) -> PhaseSplitInput {
        PhaseSplitInput { axes: [0, 1, 2].map(|a| self.axes[a].aligned()) }
    }

    /// Elements of the grid of one phase.
    pub fn cell(&self) -> usize {
        self.axes.iter().map(|a| a.extent).product()
    }

    fn phases(&self) -> usize {
        self.axes.iter().map(|a| a.phases.len()).product()
    }

    /// The source itself, if its planes equal the grids and enough elements follow its `channels` planes for tiles to
    /// read past them.
    pub fn in_place<'x, T>(&self, source: &'x [T], channels: usize) -> Option<&'x [T]> {
        let same = |a: &Axis| a.step == 1 && a.phases == [0] && a.extent == a.source;
        (self.axes.iter().all(same) && source.len() >= channels * self.cell() + SLACK).then_some(source)
    }

    /// Elements of one source plane.
    pub fn source_plane(&self) -> usize {
        self.axes.iter().map(|a| a.source).product()
    }

    /// Elements of one destination plane.
    pub fn target_plane(&self) -> usize {
        self.axes.iter().map(|a| a.target).product()
    }

    /// Elements from one channel to the next when `images` images are stored side by side.
    pub fn pitch(&self, images: usize) -> usize {
        self.phases() * images * self.cell()
    }

    /// Number of positions from the first result of a depth slice to its last.
    pub fn slice_positions(&self) -> usize {
        let [_, h, w] = &self.axes;
        if h.count == 0 || w.count == 0 { 0 } else { (h.count - 1) * w.extent + w.count }
    }

    /// For each tap, its index in the kernel volume and its offset in the grids of `images` images.
    pub fn taps(&self, s: &ConvShape, images: usize) -> Vec<(usize, usize)> {
        let [depth, height, width] = &self.axes;
        let mut taps = Vec::with_capacity(depth.taps.len() * height.taps.len() * width.taps.len());
        for d in &depth.taps {
            for h in &height.taps {
                for w in &width.taps {
                    let kernel = (d.kernel * s.kernel[1] + h.kernel) * s.kernel[2] + w.kernel;
                    let phase = (d.phase * height.phases.len() + h.phase) * width.phases.len() + w.phase;
                    let shift = (d.shift * height.extent + h.shift) * width.extent + w.shift;
                    taps.push((kernel, phase * images * self.cell() + shift));
                }
            }
        }
        taps
    }

    /// The results of a plane by rows, at most `longest` at a time.
    pub fn segments(&self, longest: usize) -> Vec<Segment> {
        let [depth, height, width] = &self.axes;
        let mut segments = Vec::new();
        for d in 0..depth.count {
            for h in 0..height.count {
                let at = (d * height.extent + h) * width.extent;
                let row = (depth.first + d * depth.stride) * height.target + height.first + h * height.stride;
                let to = row * width.target + width.first;
                segments.extend((0..width.count).step_by(longest).map(|w| Segment {
                    at: at + w,
                    to: to + w * width.stride,
                    len: longest.min(width.count - w),
                }));
            }
        }
        segments
    }

    /// Copies one channel of image `image` of `images` into the channel's grids, `grid`. The padding is not written;
    /// the caller has zeroed it.
    pub fn fill<T: Real>(&self, source: &[T], grid: &mut [T], image: usize, images: usize) {
        self.copy(source, grid, &self.rows(image, images));
    }

    /// The rows of the source in the grids of one of `images` images.
    pub fn rows(&self, image: usize, images: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        self.for_each_row(|phase, row| {
            rows.push(Row { to: (phase * images + image) * self.cell() + row.to, ..row });
        });
        rows
    }

    /// Copies rows of the source to their grids.
    pub fn copy<T: Real>(&self, source: &[T], grid: &mut [T], rows: &[Row]) {
        copy_rows(source, self.axes[2].step, grid, rows);
    }

    /// Calls `f` with each phase and the rows of the source in its grid.
    fn for_each_row(&self, mut f: impl FnMut(usize, Row)) {
        let [depth, height, width] = &self.axes;
        let mut phase = 0;
        for fd in 0..depth.phases.len() {
            let (ds, d0) = depth.inside(fd);
            for fh in 0..height.phases.len() {
                let (hs, h0) = height.inside(fh);
                for fw in 0..width.phases.len() {
                    let (ws, w0) = width.inside(fw);
                    for (i, d) in ds.clone().enumerate() {
                        for (j, h) in hs.clone().enumerate().filter(|_| !ws.is_empty()) {
                            let row = (d0 + i * depth.step) * height.source + h0 + j * height.step;
                            let to = (d * height.extent + h) * width.extent + ws.start;
                            f(phase, Row { to, from: row * width.source + w0, len: ws.len() });
                        }
                    }
                    phase += 1;
                }
            }
        }
    }
}

/// Consecutive results of a row.
#[derive(Clone, Copy)]
pub struct Segment {
    /// The position of the first in the grid.
    pub at: usize,
    /// The first in a plane of results.
    pub to: usize,
    pub len: usize,
}

/// Elements of a row of the source in a grid: where they begin there and in the source, and how many they are.
#[derive(Clone, Copy)]
pub struct Row {
    pub to: usize,
    pub from: usize,
    pub len: usize,
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn copy_rows[T: Real](source: &[T], step: usize, grid: &mut [T], rows: &[Row]) {
        for row in rows {
            copy_spaced(&source[row.from..], step, &mut grid[row.to..][..row.len]);
        }
    }
}

/// Copies elements that are `step` apart. Rows are short and many, and their lengths and the common steps few, so that loops of
/// known length, which compile to loads and shuffles, take a fraction of the time of those that depend on both.
#[inline(always)]
pub fn copy_spaced<T: Real>(from: &[T], step: usize, to: &mut [T]) {
    match (step, to.len()) {
        (1, 8..) => copy_blocks::<T, 8, 8>(from, to),
        (1, 4..) => copy_blocks::<T, 4, 4>(from, to),
        (2, 8..) => copy_blocks::<T, 8, 16>(from, to),
        (2, 4..) => copy_blocks::<T, 4, 8>(from, to),
        _ => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, v)| *to = *v),
    }
}

/// Copies at least `N` elements, `N` at a time, each block from `SPAN` elements. The last block overlaps with that before.
#[inline(always)]
fn copy_blocks<T: Real, const N: usize, const SPAN: usize>(from: &[T], to: &mut [T]) {
    let (step, last) = (SPAN / N, to.len() - N);
    let mut start = 0;
    loop {
        let (from, to) = (&from[start * step..], &mut to[start..start + N]);
        match (from.first_chunk::<SPAN>(), to.first_chunk_mut::<N>()) {
            (Some(from), Some(to)) => *to = std::array::from_fn(|i| from[i * step]),
            // Nothing follows the last element.
            _ => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, v)| *to = *v),
        }
        if start == last {
            break;
        }
        start = last.min(start + N);
    }
}
