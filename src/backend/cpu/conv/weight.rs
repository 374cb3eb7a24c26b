//! The gradient of the weight: sums over positions of source elements times output gradients (Note [Phase-split input]).
//!
//! Element `[o][k]` is `Σ_position grad[o][position] · source[position + offset[k]]`. With many output channels it is
//! computed by outer products with channels as lanes: the gradients of all channels at one position times the source
//! elements of a dozen weights. With few channels it is computed by dot products with positions as lanes; the
//! gradients are then stored on the source's grid, with zeros between the result positions. Several small images are
//! concatenated to make the sums longer.

use std::ops::Range;

use super::phase_split::{PhaseSplitInput, SLACK};
use super::tile::{ConvElem, OuterTile};
use super::{ConvShape, channels_per_piece};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::cpu::transpose::transpose;
use crate::multiversion;

/// Positions per block: their source elements and gradients fit in the cache.
const POSITIONS: usize = 1024;
/// Target number of work items.
const PIECES: usize = 8;
/// Maximum number of elements of all partial gradients together.
const PARTIALS: usize = 1 << 22;

pub fn backward<T: ConvElem>(s: &ConvShape, grad_out: &[T], x: &[T], grad_w: &mut [T]) {
    if grad_w.is_empty() {
        return;
    }
    if s.n == 0 || s.output_plane() == 0 {
        grad_w.fill(T::ZERO);
        return;
    }
    let len = grad_w.len();
    // Images are divided among work items too, each with its own partial gradient, within the limit on memory.
    let shares = s.n.min(PIECES.div_ceil(s.groups)).min((PARTIALS / len).max(1));
    let images = s.n.div_ceil(shares);
    let shares = s.n.div_ceil(images);
    let channels = channels_per_piece(s.c_out_per_group(), shares * s.groups, PIECES, T::tiles().lanes);
    let chunk = channels * s.c_in_per_group() * s.taps();
    let lattice = PhaseSplitInput::forward(s);
    let job = |partial: &mut [T]| {
        for_chunks_mut(partial, chunk, |i, out| {
            let (share, piece) = (i * chunk / len, i % (len / chunk));
            let end = s.n.min((share + 1) * images);
            let channels = piece * channels..(piece + 1) * channels;
            Piece::new(s, &lattice, share * images..end, channels).run(grad_out, x, out);
        })
    };
    if shares == 1 {
        job(grad_w);
        return;
    }
    let mut partials = vec![T::ZERO; shares * len];
    job(&mut partials);
    for_chunks_mut(grad_w, 1 << 14, |i, out| {
        let first = i << 14;
        out.copy_from_slice(&partials[first..first + out.len()]);
        for share in 1..shares {
            for (o, &p) in out.iter_mut().zip(&partials[share * len + first..]) {
                *o += p;
            }
        }
    });
}

/// A work item: `channels` output channels from `first` on, over a range of images.
struct Piece<'a, T> {
    s: &'a ConvShape,
    lattice: &'a PhaseSplitInput,
    images: Range<usize>,
    first: usize,
    channels: usize,
    /// Number of images concatenated.
    together: usize,
    offsets: Vec<usize>,
    /// The source on its phase-split grids, if it had to be copied.
    grid: Vec<T>,
}

impl<'a, T: ConvElem> Piece<'a, T> {
    fn new(
        s: &'a ConvShape,
        lattice: &'a PhaseSplitInput,
        images: Range<usize>,
        channels: Range<usize>,
    ) -> Piece<'a, T> {
        let together = (POSITIONS / lattice.cell().max(1)).clamp(1, images.len());
        let pitch = lattice.pitch(together);
        let taps = lattice.taps(s, together);
        let offsets = (0..s.c_in_per_group())
            .flat_map(|c| taps.iter().map(move |&(_, offset)| c * pitch + offset))
            .collect();
        let (first, channels) = (channels.start, channels.len());
        Piece { s, lattice, images, first, channels, together, offsets, grid: Vec::new() }
    }

    /// The source of some images on the grids: used in place if the layout allows it, else copied.
    fn source<'x>(&'x mut self, images: Range<usize>, x: &'x [T]) -> &'x [T] {
        let (s, pitch) = (self.s, self.lattice.pitch(self.together));
        // Dot products read whole cells from every offset, so they read past the grid by the shift of the last tap.
        let cells = (self.together * self.lattice.cell()).next_multiple_of(T::tiles().lanes);
        let reach = self.offsets.iter().max().map_or(0, |offset| offset + cells);
        let first = self.first / s.c_out_per_group() * s.c_in_per_group();
        if self.together == 1 {
            let from = (images.start * s.c_in + first) * s.input_plane();
            if x.len() >= from + reach
                && let Some(x) = self.lattice.in_place(&x[from..], s.c_in_per_group())
            {
                return x;
            }
        }
        self.grid.resize((s.c_in_per_group() * pitch + SLACK).max(reach), T::ZERO);
        for (i, image) in images.enumerate() {
            for (c, grid) in self.grid.chunks_exact_mut(pitch).take(s.c_in_per_group()).enumerate() {
                let plane = &x[(image * s.c_in + first + c) * s.input_plane()..][..s.input_plane()];
                self.lattice.fill(plane, grid, i, self.together);
            }
        }
        &self.grid
    }

    /// The output gradients of some channels of this work item.
    fn grads<'g>(&self, grad_out: &'g [T], image: usize, channels: Range<usize>) -> &'g [T] {
        let plane = self.s.output_plane();
        &grad_out[(image * self.s.c_out + self.first + channels.start) * plane..][..channels.len() * plane]
    }

    /// The groups of concatenated images.
    fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (images, together) = (self.images.clone(), self.together);
        images.clone().step_by(together).map(move |from| from..images.end.min(from + together))
    }

    fn run(self, grad_out: &[T], x: &[T], out: &mut [T]) {
        let tiles = T::tiles();
        let [depth, height, width] = &self.lattice.axes;
        let lines = depth.count * height.count;
        // Cycles per image: outer products waste lanes on missing channels, dot products on padding and on horizontal
        // sums.
        let outer = |tile: &OuterTile<T>| {
            let blocks =
                self.channels.div_ceil(tile.vectors * tiles.lanes) * self.offsets.len().div_ceil(tile.rows);
            blocks * tile.rows * tile.vectors * lines * (width.count + 1) / 2
        };
        let dot = (self.lattice.cell().div_ceil(tiles.lanes) + 32) * self.channels * self.offsets.len() / 2;
        match tiles.outer.iter().min_by_key(|tile| outer(tile)) {
            Some(tile) if outer(tile) < dot => self.run_outer(tile, grad_out, x, out),
            _ => self.run_dot(grad_out, x, out),
        }
    }

    /// Computes outer products of the gradients of all channels and the source elements of all weights, position by
    /// position.
    fn run_outer(mut self, tile: &OuterTile<T>, grad_out: &[T], x: &[T], out: &mut [T]) {
        let [depth, height, width] = &self.lattice.axes;
        let (run, plane, together) = (tile.vectors * T::tiles().lanes, self.s.output_plane(), self.together);
        let blocks = self.channels.div_ceil(run);
        let terms = self.offsets.len();
        // Weights beyond the last full tile repeat the last offset.
        let mut offsets = self.offsets.clone();
        offsets.resize(terms.next_multiple_of(tile.rows), self.offsets[terms - 1]);
        // One block of channels after another; within a block, the channels of each weight or position are contiguous.
        let mut sums = vec![T::ZERO; blocks * offsets.len() * run];
        let mut grads = vec![T::ZERO; blocks * together * plane * run];
        let lines: Vec<usize> = (0..together * depth.count * height.count)
            .map(|i| {
                let (image, d, h) =
                    (i / (depth.count * height.count), i / height.count % depth.count, i % height.count);
                image * self.lattice.cell() + (d * height.extent + h) * width.extent
            })
            .collect();
        for images in self.groups() {
            let positions = images.len() * plane;
            for (i, image) in images.clone().enumerate() {
                for b in 0..blocks {
                    let channels = b * run..self.channels.min((b + 1) * run);
                    let planes = self.grads(grad_out, image, channels);
                    let to = (b * together + i) * plane * run;
                    interleave(planes, plane, &mut grads[to..to + plane * run], run);
                }
            }
            let source = self.source(images.clone(), x);
            let lines = &lines[..images.len() * depth.count * height.count];
            for (b, sums) in sums.chunks_exact_mut(offsets.len() * run).enumerate() {
                let grads = &grads[b * together * plane * run..][..positions * run];
                for (offsets, sums) in
                    offsets.chunks_exact(tile.rows).zip(sums.chunks_exact_mut(tile.rows * run))
                {
                    (tile.run)(grads, source, lines, width.count, offsets, sums);
                }
            }
        }
        for (out, sums) in out.chunks_mut(run * terms).zip(sums.chunks_exact(offsets.len() * run)) {
            transpose(sums, run, out.len() / terms, terms, out, terms);
        }
    }

    /// Computes dot products with positions as lanes. A non-finite source element is also multiplied by the zeros
    /// between result positions, and so can make weights NaN to which it does not contribute.
    fn run_dot(mut self, grad_out: &[T], x: &[T], out: &mut [T]) {
        let lanes = T::tiles().lanes;
        let (cell, channels) = (self.lattice.cell(), self.channels);
        let pitch = (self.together * cell).next_multiple_of(lanes);
        // One extra row for tiles that exceed the channels, and whole vectors; both stay zero.
        let mut grads = vec![T::ZERO; (self.channels + 1) * pitch];
        let aligned = self.lattice.aligned();
        let offsets = self.offsets.clone();
        out.fill(T::ZERO);
        for images in self.groups() {
            if images.len() < self.together {
                grads.fill(T::ZERO);
            }
            for (i, image) in images.clone().enumerate() {
                for (c, grads) in grads.chunks_exact_mut(pitch).take(self.channels).enumerate() {
                    aligned.fill(self.grads(grad_out, image, c..c + 1), grads, i, self.together);
                }
            }
            let source = self.source(images.clone(), x);
            let end = (images.len() * cell).next_multiple_of(lanes);
            for from in (0..end).step_by(POSITIONS) {
                let len = POSITIONS.min(end - from);
                accumulate(&grads[from..], pitch, &source[from..], &offsets, len, channels, out);
            }
        }
    }
}

/// Transposes rows `planes`, each of `len` elements, into columns of `out`, whose rows have stride `run`.
fn interleave<T: ConvElem>(planes: &[T], len: usize, out: &mut [T], run: usize) {
    // Blocks of positions small enough that the output stays in the L1 cache.
    for (block, out) in out.chunks_mut(64 * run).enumerate() {
        transpose(&planes[block * 64..], len, out.len() / run, planes.len() / len, out, run);
    }
}

/// Adds the sums over one block of positions to the gradients of `channels` output channels.
fn accumulate<T: ConvElem>(
    grads: &[T],
    pitch: usize,
    source: &[T],
    offsets: &[usize],
    len: usize,
    channels: usize,
    out: &mut [T],
) {
    let terms = offsets.len();
    let mut first = 0;
    while first < channels {
        let left = channels - first;
        let exact = T::tiles().dot.iter().rev().find(|t| t.rows == left || t.rows == left + 1);
        let Some(tile) = exact.or_else(|| T::tiles().dot.iter().find(|t| t.rows <= left)) else { return };
        let rows = tile.rows.min(left);
        for (block, offsets) in offsets.chunks(tile.columns).enumerate() {
            // A short last block repeats its last offset.
            let mut reads = [offsets[offsets.len() - 1]; MAX_COLUMNS];
            reads[..offsets.len()].copy_from_slice(offsets);
            let mut lanes = [T::ZERO; MAX_TILE * MAX_LANES];
            let mut sums = [T::ZERO; MAX_TILE];
            (tile.run)(&grads[first * pitch..], pitch, source, &reads, len, &mut lanes);
            sum_runs(&lanes, T::tiles().lanes, &mut sums[..tile.rows * tile.columns]);
            for i in 0..rows {
                let out = &mut out[(first + i) * terms + block * tile.columns..][..offsets.len()];
                for (o, &sum) in out.iter_mut().zip(&sums[i * tile.columns..]) {
                    *o += sum;
                }
            }
        }
        first += rows;
    }
}

const MAX_COLUMNS: usize = 8;
const MAX_TILE: usize = 24;
const MAX_LANES: usize = 16;

multiversion! { version = IsaDispatch::worth::<T>();
    /// The sums of consecutive runs of `lanes` elements.
    fn sum_runs[T: ConvElem](runs: &[T], lanes: usize, sums: &mut [T]) {
        match lanes {
            16 => sum_arrays::<T, 16>(runs, sums),
            8 => sum_arrays::<T, 8>(runs, sums),
            4 => sum_arrays::<T, 4>(runs, sums),
            _ => sum_arrays::<T, 2>(runs, sums),
        }
    }
}

#[inline(always)]
fn sum_arrays<T: ConvElem, const L: usize>(runs: &[T], sums: &mut [T]) {
    for (sum, run) in sums.iter_mut().zip(runs.as_chunks::<L>().0) {
        *sum = tree_sum(*run);
    }
}

/// Pairwise sum of an array; `L` is a power of two.
#[inline(always)]
fn tree_sum<T: ConvElem, const L: usize>(mut values: [T; L]) -> T {
    let mut half = L / 2;
    while half > 0 {
        for l in 0..half {
            values[l] += values[l + half];
        }
        half /= 2;
    }
    values[0]
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The sum of a slice, with sixteen accumulators.
    pub fn sum[T: ConvElem](values: &[T]) -> T {
        let (vectors, rest) = values.as_chunks::<16>();
        let mut sums = [T::ZERO; 16];
        for v in vectors {
            for l in 0..16 {
                sums[l] += v[l];
            }
        }
        tree_sum(sums) + rest.iter().copied().sum::<T>()
    }
}
