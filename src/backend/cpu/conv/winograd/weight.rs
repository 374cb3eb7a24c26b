//! The gradient of the weight by Winograd's algorithm, `Gᵀ (Σ (A g Aᵀ) ⊙ (Bᵀ x B)) G` with the sum over tiles.
//!
//! Some tiles of the source and of the gradient are transformed at a time, in panels of channels. A task then computes the
//! products of some panels of the gradient with all panels of the source, and adds what they are transformed back to.

use std::cell::Cell;

use super::picture::Picture;
use super::transforms::{OUT, POINTS, transforms};
use super::{MOST, PANEL, TAPS, Winograd, all_finite};
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::matmul::{product_of_tiles, with_scratch};
use crate::backend::cpu::microkernel::{GemmElem, View, ViewMut};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::isa;
use crate::backend::cpu::transpose::transpose;

thread_local! {
    /// Transformed sources and gradients, on the thread that calls.
    static OPERANDS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// The products of a task.
    static PRODUCTS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// The most tiles that are transformed at a time.
const TILES: usize = 128;
/// Elements between products of points, which in a power of two would evict each other from the L1 cache.
const PLANE: usize = PANEL * PANEL + 16;

/// Whether it is faster than the definition, by what was measured, and its errors are less than four times as large, which
/// they need not be with few tiles.
pub fn pays(s: &Winograd) -> bool {
    let [rows, columns] = s.tiles();
    let (tiles, channels) = (s.images * rows * columns, s.from * s.to);
    let direct = channels * TAPS * s.images * s.target[0] * s.target[1];
    let passes = tiles.div_ceil(TILES);
    tiles >= 16 && channels * (POINTS * tiles + 400 * passes) + 900 * tiles * (s.from + s.to) < direct
}

/// Writes the gradient of the weight of `s`, from that of its result and its source; false if it is not finite.
pub fn run(s: &Winograd, grad: &[f32], x: &[f32], out: &mut [f32]) -> bool {
    let (kernels, transforms) = (f32::kernels(isa()), transforms());
    let source = s.picture(x);
    let gradient = Picture {
        data: grad,
        channels: s.to,
        size: s.target,
        padding: [0; 2],
        grid: s.tiles(),
        side: OUT,
        transform: transforms.gradient,
    };
    let (from, to) = (s.from.div_ceil(PANEL), s.to.div_ceil(PANEL));
    let tiles = s.images * gradient.grid[0] * gradient.grid[1];
    if tiles == 0 || out.is_empty() {
        return false;
    }
    let most = (MOST / (POINTS * PANEL * (from + to))).clamp(16, TILES);
    let ranges = tiles.div_ceil(most);
    for i in 0..ranges {
        let range = i * tiles / ranges..(i + 1) * tiles / ranges;
        let n = range.len();
        let (source_runs, gradient_runs) = (source.runs(range.clone()), gradient.runs(range));
        let plane = n * PANEL + 16;
        let len = POINTS * plane;
        with_scratch(&OPERANDS, (from + to) * len, |operands: &mut [f32]| {
            for_chunks_mut(operands, len, |i, out| {
                let panel = if i < from { i } else { i - from };
                let channels = |all: usize| panel * PANEL..all.min((panel + 1) * PANEL);
                if i < from {
                    source.transform(&source_runs, channels(s.from), out, plane, PANEL);
                } else {
                    gradient.transform(&gradient_runs, channels(s.to), out, plane, PANEL);
                }
            });
            let (sources, gradients) = operands.split_at(from * len);
            let task = if to >= 16 { 2 } else { 1 };
            let row = s.from * TAPS;
            for_chunks_mut(out, task * PANEL * row, |t, out| {
                with_scratch(&PRODUCTS, POINTS * PLANE, |products: &mut [f32]| {
                    for c in 0..from {
                        let sources = &sources[c * len..][..len];
                        let columns = PANEL.min(s.from - c * PANEL);
                        for (k, out) in out.chunks_mut(PANEL * row).enumerate() {
                            let gradients = &gradients[(t * task + k) * len..][..len];
                            let rows = out.len() / row;
                            for p in 0..POINTS {
                                let sums = &mut products[p * PLANE..][..PANEL * PANEL];
                                let mut sums = ViewMut::new(sums, PANEL, PANEL);
                                let mut sums = sums.part(0, 0, rows, columns);
                                let a = View { data: &gradients[p * plane..], rs: 1, cs: PANEL };
                                let b = View { data: &sources[p * plane..], rs: PANEL, cs: 1 };
                                product_of_tiles(kernels, n, a, b, &mut sums, false);
                            }
                            for (k, out) in out.chunks_exact_mut(row).enumerate() {
                                let mut taps = [0.0; TAPS * PANEL];
                                let mut filters = [0.0; TAPS * PANEL];
                                (transforms.weight)(&products[k * PANEL..], PLANE, &mut taps, PANEL);
                                transpose(&taps, PANEL, columns, TAPS, &mut filters, TAPS);
                                let out = &mut out[c * PANEL * TAPS..][..columns * TAPS];
                                if i == 0 {
                                    out.copy_from_slice(&filters[..out.len()]);
                                } else {
                                    out.iter_mut().zip(&filters).for_each(|(o, f)| *o += f);
                                }
                            }
                        }
                    }
                });
            });
        });
    }
    all_finite(out)
}
