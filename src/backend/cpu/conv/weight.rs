//! The gradient of the weight: dot products over positions (Note [Lattice]).
//!
//! Element `[o][k]` is `Σ_position grad[o][position] · source[position + offset[k]]`, with the output gradient laid
//! out on the source's grid and zero at the positions in between. Several small images stand side by side, so that
//! the sums are long enough to be worth their reduction.

use super::lattice::{Lattice, SLACK};
use super::tile::ConvElem;
use super::{ConvShape, channels_per_piece};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::multiversion;

/// Positions that a block of sums runs over: sources and gradients of as many stay in the cache.
const POSITIONS: usize = 2048;
/// Pieces of work to aim for.
const PIECES: usize = 16;
/// Elements of all partial gradients together.
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
    // Images are shared out too, each share with its own partial gradient, as far as their memory is worth it.
    let shares = s.n.min(PIECES.div_ceil(s.groups)).min((PARTIALS / len).max(1));
    let images = s.n.div_ceil(shares);
    let shares = s.n.div_ceil(images);
    let channels = channels_per_piece(s.c_out_per_group(), shares * s.groups, PIECES);
    let chunk = channels * s.c_in_per_group() * s.taps();
    let lattice = Lattice::forward(s);
    let job = |partial: &mut [T]| {
        for_chunks_mut(partial, chunk, |i, out| {
            let (share, piece) = (i * chunk / len, i % (len / chunk));
            let end = s.n.min((share + 1) * images);
            piece_of_gradient(s, &lattice, share * images..end, piece * channels, channels, grad_out, x, out);
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

/// The gradient of the weights of `channels` output channels from `first` on, over `images`.
fn piece_of_gradient<T: ConvElem>(
    s: &ConvShape,
    lattice: &Lattice,
    images: std::ops::Range<usize>,
    first: usize,
    channels: usize,
    grad_out: &[T],
    x: &[T],
    out: &mut [T],
) {
    let tiles = T::tiles();
    let (c_in, c_out) = (s.c_in_per_group(), s.c_out_per_group());
    let first_in = first / c_out * c_in;
    let cell = lattice.cell();
    let together = (POSITIONS / cell.max(1)).clamp(1, images.len());
    let (pitch, grad_pitch) = (lattice.pitch(together), (together * cell).next_multiple_of(tiles.lanes));
    let mut grid = vec![T::ZERO; c_in * pitch + SLACK];
    // One row more for tiles that overhang, and whole vectors: both stay zero.
    let mut grads = vec![T::ZERO; (channels + 1) * grad_pitch];
    let aligned = lattice.aligned();
    let taps = lattice.taps(s, together);
    let offsets: Vec<usize> =
        (0..c_in).flat_map(|c| taps.iter().map(move |&(_, offset)| c * pitch + offset)).collect();

    out.fill(T::ZERO);
    let mut from = images.start;
    while from < images.end {
        let count = together.min(images.end - from);
        if count < together {
            grads.fill(T::ZERO);
        }
        for image in 0..count {
            for c in 0..c_in {
                let plane = &x[((from + image) * s.c_in + first_in + c) * s.input_plane()..][..s.input_plane()];
                lattice.fill(plane, &mut grid[c * pitch..][..pitch], image, together);
            }
            for c in 0..channels {
                let plane = &grad_out[((from + image) * s.c_out + first + c) * s.output_plane()..];
                let grads = &mut grads[c * grad_pitch..][..grad_pitch];
                aligned.fill(&plane[..s.output_plane()], grads, image, together);
            }
        }
        let end = (count * cell).next_multiple_of(tiles.lanes);
        for position in (0..end).step_by(POSITIONS) {
            let len = POSITIONS.min(end - position);
            accumulate(&grads[position..], grad_pitch, &grid[position..], &offsets, len, channels, out);
        }
        from += count;
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
    let (terms, lanes) = (offsets.len(), T::tiles().lanes);
    let mut first = 0;
    while first < channels {
        let left = channels - first;
        let exact = T::tiles().dot.iter().rev().find(|t| t.rows == left || t.rows == left + 1);
        let Some(tile) = exact.or_else(|| T::tiles().dot.iter().find(|t| t.rows <= left)) else { return };
        let rows = tile.rows.min(left);
        for (block, offsets) in offsets.chunks(tile.columns).enumerate() {
            // A last block that is short repeats its last offset.
            let mut reads = [offsets[offsets.len() - 1]; MAX_COLUMNS];
            reads[..offsets.len()].copy_from_slice(offsets);
            let mut sums = [T::ZERO; MAX_TILE];
            (tile.run)(&grads[first * pitch..], pitch, source, &reads, len, &mut sums);
            for i in 0..rows {
                let out = &mut out[(first + i) * terms + block * tile.columns..][..offsets.len()];
                add_sums(&sums[i * tile.columns * lanes..], lanes, out);
            }
        }
        first += rows;
    }
}

const MAX_COLUMNS: usize = 8;
const MAX_TILE: usize = 24 * 16;

multiversion! {
    /// Adds the sum of each run of `lanes` elements to the results in turn.
    fn add_sums[T: ConvElem](runs: &[T], lanes: usize, out: &mut [T]) {
        match lanes {
            16 => add_runs::<T, 16>(runs, out),
            8 => add_runs::<T, 8>(runs, out),
            4 => add_runs::<T, 4>(runs, out),
            _ => add_runs::<T, 2>(runs, out),
        }
    }
}

#[inline(always)]
fn add_runs<T: ConvElem, const L: usize>(runs: &[T], out: &mut [T]) {
    for (o, run) in out.iter_mut().zip(runs.as_chunks::<L>().0) {
        *o += tree_sum(*run);
    }
}

/// The sum of an array, half added to half: `L` is a power of two.
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

multiversion! {
    /// The sum of a slice, in sixteen running sums.
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
