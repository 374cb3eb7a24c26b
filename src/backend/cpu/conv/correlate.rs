//! Outputs and input gradients: sums of shifted source planes times weights (Note [Phase-split input]).

use super::phase_split::{PhaseSplitInput, SLACK};
use super::tile::{ConvElem, CorrelationTile};
use super::{ConvShape, channels_per_piece};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::pieces::{Destination, largest};
use crate::backend::cpu::transpose::transpose;

/// Target number of work items when images and groups are few.
const PIECES: usize = 8;
/// Minimum number of multiply-adds per work item.
const GRAIN: usize = 1 << 18;
/// Positions per block, so that their source elements stay in cache while the weights of all channels are applied.
const POSITIONS: usize = 384;

/// A correlation from `from` source channels per group to `to` destination channels, over one or more phase-split
/// inputs that together cover the destination.
pub struct Correlation<'a> {
    shape: &'a ConvShape,
    lattices: Vec<PhaseSplitInput>,
    from: usize,
    to: usize,
}

/// The tiles and offsets for one phase-split input.
struct Pass<'a, T: 'static> {
    lattice: &'a PhaseSplitInput,
    /// The offset of each term (source channel and tap) relative to the position.
    offsets: Vec<usize>,
    /// Whether vector lanes are positions, or else channels.
    pixel_lanes: bool,
    /// The blocks of destination channels, grouped by work item.
    blocks: Vec<Block<T>>,
    blocks_per_piece: usize,
}

/// Destination channels of one group that one tile computes.
struct Block<T: 'static> {
    tile: &'static CorrelationTile<T>,
    /// The first of them within the work item, and their number; the tile's remaining channels have zero weights.
    first: usize,
    count: usize,
    /// For each term, the weights of all channels of the tile.
    weights: Vec<T>,
    init: Vec<T>,
}

/// The index of the first weight of (group, destination channel, source channel).
pub type WeightAt<'a> = &'a (dyn Fn(usize, usize, usize) -> usize + Sync);

impl<'a> Correlation<'a> {
    pub fn new(shape: &'a ConvShape, lattices: Vec<PhaseSplitInput>, from: usize, to: usize) -> Self {
        Correlation { shape, lattices, from, to }
    }

    fn plane(&self) -> usize {
        self.lattices.first().map_or(0, PhaseSplitInput::target_plane)
    }

    /// Destination channels per work item.
    fn per_piece(&self) -> usize {
        channels_per_piece(self.to, self.shape.n * self.shape.groups, PIECES, 8)
    }

    /// Whether the results of a work item are a piece of a destination.
    pub fn has_pieces<T: ConvElem>(&self) -> bool {
        self.per_piece() * self.plane() <= largest::<T>()
    }

    pub fn run<T: ConvElem>(
        &self,
        source: &[T],
        w: &[T],
        at: WeightAt,
        bias: Option<&[T]>,
        out: Destination<T>,
    ) {
        let (n, groups) = (self.shape.n, self.shape.groups);
        let plane = self.plane();
        if n == 0 || groups == 0 || self.to == 0 || plane == 0 {
            return;
        }
        let per_piece = self.per_piece();
        let slices = self.to / per_piece;
        let passes: Vec<Pass<T>> =
            self.lattices.iter().map(|lattice| self.plan(lattice, per_piece, w, at, bias)).collect();

        let terms: usize = passes.iter().map(|p| p.offsets.len()).sum();
        let work = (plane * per_piece * terms / passes.len()).max(1);
        let mut pieces = GRAIN.div_ceil(work).min(n * groups * slices);
        if !out.takes(pieces * per_piece * plane) {
            pieces = 1;
        }
        out.for_chunks(pieces * per_piece * plane, |chunk, out| {
            for pass in &passes {
                let pitch = pass.lattice.pitch(1);
                let source_plane = pass.lattice.source_plane();
                let mut grid = Vec::new();
                let mut held = None;
                for (i, out) in out.chunks_mut(per_piece * plane).enumerate() {
                    let piece = chunk * pieces + i;
                    let (image_group, slice) = (piece / slices, piece % slices);
                    let planes = &source[image_group * self.from * source_plane..];
                    let place = pass.lattice.in_place(planes, self.from);
                    if place.is_none() && held.replace(image_group) != Some(image_group) {
                        grid.resize(self.from * pitch + SLACK, T::ZERO);
                        let planes = planes.chunks(source_plane.max(1)).take(self.from);
                        for (plane, grid) in planes.zip(grid.chunks_mut(pitch.max(1))) {
                            pass.lattice.fill(plane, grid, 0, 1);
                        }
                    }
                    pass.run(place.unwrap_or(&grid), image_group % groups * slices + slice, out);
                }
            }
        });
    }

    fn plan<'l, T: ConvElem>(
        &self,
        lattice: &'l PhaseSplitInput,
        per_piece: usize,
        w: &[T],
        at: WeightAt,
        bias: Option<&[T]>,
    ) -> Pass<'l, T> {
        let taps = lattice.taps(self.shape, 1);
        let pitch = lattice.pitch(1);
        let offsets: Vec<usize> =
            (0..self.from).flat_map(|c| taps.iter().map(move |&(_, offset)| c * pitch + offset)).collect();
        let (pixel_lanes, layout) = choose::<T>(lattice, per_piece, offsets.len());

        let lanes = T::tiles().lanes;
        let slices = self.to / per_piece;
        let mut blocks: Vec<Block<T>> = (0..self.shape.groups * slices)
            .flat_map(|_| &layout)
            .map(|&(tile, first, count)| Block { tile, first, count, weights: Vec::new(), init: Vec::new() })
            .collect();
        for_chunks_mut(&mut blocks, 1, |b, block| {
            let block = &mut block[0];
            let (group, slice) = (b / layout.len() / slices, b / layout.len() % slices);
            let channel = slice * per_piece + block.first;
            let width = if pixel_lanes { block.tile.rows } else { block.tile.vectors * lanes };
            block.init = vec![T::ZERO; width];
            if let Some(bias) = bias {
                block.init[..block.count].copy_from_slice(&bias[group * self.to + channel..][..block.count]);
            }
            block.weights = vec![T::ZERO; width * offsets.len()];
            for i in 0..block.count {
                let mut packed = block.weights.chunks_exact_mut(width);
                for from in 0..self.from {
                    let w = &w[at(group, channel + i, from)..][..self.shape.taps()];
                    for (&(kernel, _), packed) in taps.iter().zip(&mut packed) {
                        packed[i] = w[kernel];
                    }
                }
            }
        });
        Pass { lattice, offsets, pixel_lanes, blocks_per_piece: layout.len(), blocks }
    }
}

type Layout<T> = Vec<(&'static CorrelationTile<T>, usize, usize)>;

/// Chooses the tiles for `channels` destination channels by estimated cycles. Returns whether lanes are positions
/// (`true`) or channels, and for each block its tile, first channel and number of channels.
fn choose<T: ConvElem>(lattice: &PhaseSplitInput, channels: usize, terms: usize) -> (bool, Layout<T>) {
    let tiles = T::tiles();
    let [depth, height, width] = &lattice.axes;
    // Two multiply-adds or two loads per cycle, then the stores: whole vectors or single elements.
    let cycles = |arithmetic: usize, loads: usize, stores: usize| terms * arithmetic.max(loads) / 2 + stores;

    let mut layout: Layout<T> = Vec::new();
    let mut cost = 0;
    let mut first = 0;
    while first < channels {
        let left = channels - first;
        let exact = tiles.pixel.iter().rev().find(|t| t.rows == left || t.rows == left + 1);
        let Some(tile) = exact.or_else(|| tiles.pixel.iter().find(|t| t.rows <= left)) else { break };
        let count = tile.rows.min(left);
        layout.push((tile, first, count));
        first += count;
        let run = tile.vectors * tiles.lanes;
        let each = cycles(tile.rows * tile.vectors, tile.rows + 2 * tile.vectors, tile.rows * (16 + run / 8));
        cost += depth.count * lattice.slice_positions().div_ceil(run) * each;
    }

    let mut best = (true, layout);
    for tile in tiles.channel {
        let run = tile.vectors * tiles.lanes;
        let each =
            cycles(tile.rows * tile.vectors, tile.rows + tile.vectors, tile.rows * run.min(channels) * 3 / 2);
        let rows = depth.count * height.count * width.count.div_ceil(tile.rows);
        let estimate = channels.div_ceil(run) * rows * each;
        if estimate < cost {
            cost = estimate;
            let blocks = (0..channels).step_by(run).map(|c| (tile, c, run.min(channels - c)));
            best = (false, blocks.collect());
        }
    }
    best
}

impl<T: ConvElem> Pass<'_, T> {
    /// Computes the planes of one work item's destination channels from the filled grids.
    fn run(&self, grid: &[T], piece: usize, out: &mut [T]) {
        let blocks = &self.blocks[piece * self.blocks_per_piece..][..self.blocks_per_piece];
        let [depth, height, width] = &self.lattice.axes;
        for d in 0..depth.count {
            let base = d * height.extent * width.extent;
            let target = (depth.first + d * depth.stride) * height.target;
            if self.pixel_lanes {
                let positions = self.lattice.slice_positions();
                for from in (0..positions).step_by(POSITIONS) {
                    for block in blocks {
                        self.pixel_lanes(
                            block,
                            grid,
                            base,
                            from..positions.min(from + POSITIONS),
                            target,
                            out,
                        );
                    }
                }
            } else {
                for block in blocks {
                    for h in 0..height.count {
                        let target = (target + height.first + h * height.stride) * width.target + width.first;
                        self.channel_lanes(block, grid, base + h * width.extent, target, out);
                    }
                }
            }
        }
    }

    /// Computes positions `range` of a depth slice that starts at `base`; the output row is `target`.
    fn pixel_lanes(
        &self,
        block: &Block<T>,
        grid: &[T],
        base: usize,
        range: std::ops::Range<usize>,
        target: usize,
        out: &mut [T],
    ) {
        let [_, height, width] = &self.lattice.axes;
        let plane = self.lattice.target_plane();
        let mut results = [T::ZERO; MAX_TILE];
        let run = block.tile.vectors * T::tiles().lanes;
        for from in range.clone().step_by(run) {
            (block.tile.run)(grid, base + from, &self.offsets, &block.weights, &block.init, &mut results);
            let end = range.end.min(from + run);
            let mut position = from;
            while position < end {
                let (h, w) = (position / width.extent, position % width.extent);
                let next = end.min((h + 1) * width.extent);
                if w < width.count {
                    let len = (width.count - w).min(next - position);
                    let row = (target + height.first + h * height.stride) * width.target;
                    let to = block.first * plane + row + width.first + w * width.stride;
                    for i in 0..block.count {
                        let results = &results[i * run + position - from..][..len];
                        let out = &mut out[to + i * plane..];
                        if width.stride == 1 {
                            out[..len].copy_from_slice(results);
                        } else {
                            for (o, &r) in out.iter_mut().step_by(width.stride).zip(results) {
                                *o = r;
                            }
                        }
                    }
                }
                position = next;
            }
        }
    }

    /// Computes one row of positions from `base`; the first result goes to element `target` of a plane.
    fn channel_lanes(&self, block: &Block<T>, grid: &[T], base: usize, target: usize, out: &mut [T]) {
        let width = &self.lattice.axes[2];
        let plane = self.lattice.target_plane();
        let mut results = [T::ZERO; MAX_TILE];
        let run = block.tile.vectors * T::tiles().lanes;
        for w in (0..width.count).step_by(block.tile.rows) {
            (block.tile.run)(grid, base + w, &self.offsets, &block.weights, &block.init, &mut results);
            let len = block.tile.rows.min(width.count - w);
            let out = &mut out[block.first * plane + target + w * width.stride..];
            if width.stride == 1 {
                transpose(&results, run, block.count, len, out, plane);
                continue;
            }
            for (i, out) in out.chunks_mut(plane).take(block.count).enumerate() {
                let results = results[i..].iter().step_by(run);
                out.iter_mut().step_by(width.stride).take(len).zip(results).for_each(|(o, &r)| *o = r);
            }
        }
    }
}

/// Number of elements of the largest tile.
const MAX_TILE: usize = 14 * 2 * 16;
