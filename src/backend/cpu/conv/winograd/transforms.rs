//! The transforms of Winograd's F(4×4, 3×3); see Note [Winograd's convolution].
//!
//! Each is applied along columns and then along rows. Lanes are channels.
// Loops over constants are unrolled, so that vectors stay in registers.
#![allow(clippy::needless_range_loop)]

use std::marker::PhantomData;

use crate::backend::cpu::conv::tile::{Fused256, Fused512, Lanes, MulAdd, Split};
use crate::backend::cpu::simd::{Isa, IsaDispatch, isa};

/// Channels of sources and results that are transformed together.
pub const GROUP: usize = 16;
/// Results of a tile along an axis.
pub const OUT: usize = 4;
/// Elements of a tile's source along an axis.
pub const SIDE: usize = 6;
/// Products per channel and tile.
pub const POINTS: usize = SIDE * SIDE;

// The polynomials are evaluated at 0, ±A, ±B and infinity.
const A: f32 = 0.75;
const B: f32 = 1.5;
const A2: f32 = A * A;
const B2: f32 = B * B;
/// The products of a point's distances from the other finite points.
const NORM_A: f64 = 2.0 * (A2 as f64) * (A2 as f64 - B2 as f64);
const NORM_B: f64 = 2.0 * (B2 as f64) * (B2 as f64 - A2 as f64);

/// The vector type and arithmetic of a transform.
type Kind<V, M> = PhantomData<(V, M)>;

/// A transform of tiles: their source, the places of a tile's elements, results, and the distances of points and tiles there.
pub type OfTiles = fn(&[f32], &[[u32; POINTS]], &mut [f32], usize, usize);
/// A transform of products: sums, their distances, the bias, results, and their rows and columns.
type OfProducts = fn(&[f32], [usize; 2], &[f32; GROUP], &mut [f32], [usize; 2]);

/// The transforms of one instruction set.
pub struct Transforms {
    /// Transforms tiles of `GROUP` channels: element `k` of a tile is the vector at `at[k]` of `source`. Point `p` of
    /// tile `t` is written to `out[p * plane + t * pitch]`.
    pub source: OfTiles,
    /// Transforms the filters of some source channels, each `[9][width]` with destination channels as lanes, to
    /// `[width]` for each point, at `out[p * plane]` for the first channel.
    pub filter: fn(filters: &[f32], width: usize, flipped: bool, out: &mut [f32], plane: usize),
    /// The same for the gradients of tiles of results, of `OUT`×`OUT` elements.
    pub gradient: OfTiles,
    /// Transforms sums of products back to gradients of filters, for `width` channels: point `p` is at `m[p * plane]`.
    /// Writes `[9][width]`.
    pub weight: fn(m: &[f32], plane: usize, out: &mut [f32], width: usize),
    /// Transforms products back, for `GROUP` channels and a row of tiles: point `p` of tile `t` is at
    /// `m[p * plane + t * pitch]`. Writes `rows` rows of `columns` vectors, with `bias` added.
    pub target: OfProducts,
}

#[inline(always)]
fn plus<V: Lanes<Elem = f32>, M: MulAdd>(mut sum: V, factor: f32, x: &V) -> V {
    sum.add_scaled::<M>(factor, x);
    sum
}

#[inline(always)]
fn source_line<V: Lanes<Elem = f32>, M: MulAdd>(x: [V; SIDE]) -> [V; SIDE] {
    let even_a = plus::<V, M>(x[4], -B2, &x[2]);
    let even_b = plus::<V, M>(x[4], -A2, &x[2]);
    let odd_a = plus::<V, M>(x[3], -B2, &x[1]);
    let odd_b = plus::<V, M>(x[3], -A2, &x[1]);
    [
        plus::<V, M>(plus::<V, M>(x[4], -(A2 + B2), &x[2]), A2 * B2, &x[0]),
        plus::<V, M>(even_a, A, &odd_a),
        plus::<V, M>(even_a, -A, &odd_a),
        plus::<V, M>(even_b, B, &odd_b),
        plus::<V, M>(even_b, -B, &odd_b),
        plus::<V, M>(plus::<V, M>(x[5], -(A2 + B2), &x[3]), A2 * B2, &x[1]),
    ]
}

#[inline(always)]
fn filter_line<V: Lanes<Elem = f32>, M: MulAdd>(w: [V; 3]) -> [V; SIDE] {
    let even = |norm: f64, square: f32| {
        let first = plus::<V, M>(V::ZERO, (1.0 / norm) as f32, &w[0]);
        plus::<V, M>(first, (square as f64 / norm) as f32, &w[2])
    };
    let (even_a, even_b) = (even(NORM_A, A2), even(NORM_B, B2));
    let (a, b) = ((A as f64 / NORM_A) as f32, (B as f64 / NORM_B) as f32);
    [
        plus::<V, M>(V::ZERO, (1.0 / (A2 as f64 * B2 as f64)) as f32, &w[0]),
        plus::<V, M>(even_a, a, &w[1]),
        plus::<V, M>(even_a, -a, &w[1]),
        plus::<V, M>(even_b, b, &w[1]),
        plus::<V, M>(even_b, -b, &w[1]),
        w[2],
    ]
}

#[inline(always)]
fn target_line<V: Lanes<Elem = f32>, M: MulAdd>(m: [V; SIDE]) -> [V; OUT] {
    let sum_a = plus::<V, M>(m[1], 1.0, &m[2]);
    let sum_b = plus::<V, M>(m[3], 1.0, &m[4]);
    let dif_a = plus::<V, M>(m[1], -1.0, &m[2]);
    let dif_b = plus::<V, M>(m[3], -1.0, &m[4]);
    let both = |start: V, a: f32, x: &V, b: f32, y: &V| plus::<V, M>(plus::<V, M>(start, a, x), b, y);
    [
        both(m[0], 1.0, &sum_a, 1.0, &sum_b),
        both(V::ZERO, A, &dif_a, B, &dif_b),
        both(V::ZERO, A2, &sum_a, B2, &sum_b),
        both(m[5], A * A2, &dif_a, B * B2, &dif_b),
    ]
}

#[inline(always)]
fn gradient_line<V: Lanes<Elem = f32>, M: MulAdd>(y: [V; OUT]) -> [V; SIDE] {
    let (even_a, even_b) = (plus::<V, M>(y[0], A2, &y[2]), plus::<V, M>(y[0], B2, &y[2]));
    let (odd_a, odd_b) = (plus::<V, M>(y[1], A2, &y[3]), plus::<V, M>(y[1], B2, &y[3]));
    [
        y[0],
        plus::<V, M>(even_a, A, &odd_a),
        plus::<V, M>(even_a, -A, &odd_a),
        plus::<V, M>(even_b, B, &odd_b),
        plus::<V, M>(even_b, -B, &odd_b),
        y[3],
    ]
}

#[inline(always)]
fn weight_line<V: Lanes<Elem = f32>, M: MulAdd>(m: [V; SIDE]) -> [V; 3] {
    let sum_a = plus::<V, M>(m[1], 1.0, &m[2]);
    let sum_b = plus::<V, M>(m[3], 1.0, &m[4]);
    let dif_a = plus::<V, M>(m[1], -1.0, &m[2]);
    let dif_b = plus::<V, M>(m[3], -1.0, &m[4]);
    let both = |start: V, a: f64, x: &V, b: f64, y: &V| {
        plus::<V, M>(plus::<V, M>(start, (a / NORM_A) as f32, x), (b / NORM_B) as f32, y)
    };
    let first = plus::<V, M>(V::ZERO, (1.0 / (A2 as f64 * B2 as f64)) as f32, &m[0]);
    [
        both(first, 1.0, &sum_a, 1.0, &sum_b),
        both(V::ZERO, A as f64, &dif_a, B as f64, &dif_b),
        both(m[5], A2 as f64, &sum_a, B2 as f64, &sum_b),
    ]
}

#[inline(always)]
fn load<V: Lanes<Elem = f32>>(from: &[f32], at: usize) -> V {
    V::vectors(&from[at..at + V::LEN])[0]
}

#[inline(always)]
fn store<V: Lanes<Elem = f32>>(to: &mut [f32], at: usize, v: V) {
    V::vectors_mut(&mut to[at..at + V::LEN])[0] = v;
}

crate::multiversion! { version = IsaDispatch::of(M::ISA);
    fn source_tiles[V: Lanes<Elem = f32>, M: MulAdd](
        _kind: Kind<V, M>, source: &[f32], tiles: &[[u32; POINTS]], out: &mut [f32], plane: usize, pitch: usize
    ) {
        for (t, at) in tiles.iter().enumerate() {
            for part in (0..GROUP).step_by(V::LEN) {
                let mut x = [[V::ZERO; SIDE]; SIDE];
                for j in 0..SIDE {
                    let mut column = [V::ZERO; SIDE];
                    for i in 0..SIDE {
                        column[i] = load::<V>(source, at[i * SIDE + j] as usize + part);
                    }
                    let column = source_line::<V, M>(column);
                    for i in 0..SIDE {
                        x[i][j] = column[i];
                    }
                }
                for i in 0..SIDE {
                    let row = source_line::<V, M>(x[i]);
                    for j in 0..SIDE {
                        store(out, (i * SIDE + j) * plane + t * pitch + part, row[j]);
                    }
                }
            }
        }
    }
}

crate::multiversion! { version = IsaDispatch::of(M::ISA);
    fn filter_tiles[V: Lanes<Elem = f32>, M: MulAdd](
        _kind: Kind<V, M>, filters: &[f32], width: usize, flipped: bool, out: &mut [f32], plane: usize
    ) {
        for (c, filter) in filters.chunks_exact(9 * width).enumerate() {
            for part in (0..width).step_by(V::LEN) {
                let mut x = [[V::ZERO; 3]; SIDE];
                for j in 0..3 {
                    let mut column = [V::ZERO; 3];
                    for i in 0..3 {
                        let tap = if flipped { 8 - (i * 3 + j) } else { i * 3 + j };
                        column[i] = load::<V>(filter, tap * width + part);
                    }
                    let column = filter_line::<V, M>(column);
                    for i in 0..SIDE {
                        x[i][j] = column[i];
                    }
                }
                for i in 0..SIDE {
                    let row = filter_line::<V, M>(x[i]);
                    for j in 0..SIDE {
                        store(out, (i * SIDE + j) * plane + c * width + part, row[j]);
                    }
                }
            }
        }
    }
}

crate::multiversion! { version = IsaDispatch::of(M::ISA);
    fn target_tiles[V: Lanes<Elem = f32>, M: MulAdd](
        _kind: Kind<V, M>, m: &[f32], strides: [usize; 2], bias: &[f32; GROUP], out: &mut [f32], size: [usize; 2]
    ) {
        let ([plane, pitch], [rows, columns]) = (strides, size);
        for t in 0..columns.div_ceil(OUT) {
            let valid = OUT.min(columns - t * OUT);
            for part in (0..GROUP).step_by(V::LEN) {
                let mut x = [[V::ZERO; SIDE]; OUT];
                for j in 0..SIDE {
                    let mut column = [V::ZERO; SIDE];
                    for i in 0..SIDE {
                        column[i] = load::<V>(m, (i * SIDE + j) * plane + t * pitch + part);
                    }
                    let column = target_line::<V, M>(column);
                    for i in 0..OUT {
                        x[i][j] = column[i];
                    }
                }
                let bias = load::<V>(bias, part);
                for i in 0..rows {
                    let row = target_line::<V, M>(x[i]);
                    let at = (i * columns + t * OUT) * GROUP + part;
                    for j in 0..valid {
                        store(out, at + j * GROUP, plus::<V, M>(row[j], 1.0, &bias));
                    }
                }
            }
        }
    }
}

crate::multiversion! { version = IsaDispatch::of(M::ISA);
    fn gradient_tiles[V: Lanes<Elem = f32>, M: MulAdd](
        _kind: Kind<V, M>, source: &[f32], tiles: &[[u32; POINTS]], out: &mut [f32], plane: usize, pitch: usize
    ) {
        for (t, at) in tiles.iter().enumerate() {
            for part in (0..GROUP).step_by(V::LEN) {
                let mut x = [[V::ZERO; OUT]; SIDE];
                for j in 0..OUT {
                    let mut column = [V::ZERO; OUT];
                    for i in 0..OUT {
                        column[i] = load::<V>(source, at[i * OUT + j] as usize + part);
                    }
                    let column = gradient_line::<V, M>(column);
                    for i in 0..SIDE {
                        x[i][j] = column[i];
                    }
                }
                for i in 0..SIDE {
                    let row = gradient_line::<V, M>(x[i]);
                    for j in 0..SIDE {
                        store(out, (i * SIDE + j) * plane + t * pitch + part, row[j]);
                    }
                }
            }
        }
    }
}

crate::multiversion! { version = IsaDispatch::of(M::ISA);
    fn weight_tile[V: Lanes<Elem = f32>, M: MulAdd](
        _kind: Kind<V, M>, m: &[f32], plane: usize, out: &mut [f32], width: usize
    ) {
        for part in (0..width).step_by(V::LEN) {
            let mut x = [[V::ZERO; SIDE]; 3];
            for j in 0..SIDE {
                let mut column = [V::ZERO; SIDE];
                for i in 0..SIDE {
                    column[i] = load::<V>(m, (i * SIDE + j) * plane + part);
                }
                let column = weight_line::<V, M>(column);
                for i in 0..3 {
                    x[i][j] = column[i];
                }
            }
            for i in 0..3 {
                let row = weight_line::<V, M>(x[i]);
                for j in 0..3 {
                    store(out, (i * 3 + j) * width + part, row[j]);
                }
            }
        }
    }
}

macro_rules! transforms {
    ($V:ty, $M:ty) => {
        Transforms {
            source: |source, tiles, out, plane, pitch| {
                source_tiles(PhantomData::<($V, $M)>, source, tiles, out, plane, pitch)
            },
            filter: |filters, width, flipped, out, plane| {
                filter_tiles(PhantomData::<($V, $M)>, filters, width, flipped, out, plane)
            },
            gradient: |source, tiles, out, plane, pitch| {
                gradient_tiles(PhantomData::<($V, $M)>, source, tiles, out, plane, pitch)
            },
            weight: |m, plane, out, width| weight_tile(PhantomData::<($V, $M)>, m, plane, out, width),
            target: |m, strides, bias, out, size| {
                target_tiles(PhantomData::<($V, $M)>, m, strides, bias, out, size)
            },
        }
    };
}

/// The transforms for the instruction set in use.
pub fn transforms() -> &'static Transforms {
    static WIDE: Transforms = transforms!([f32; 16], Fused512);
    static AVX2: Transforms = transforms!([f32; 8], Fused256);
    static BASELINE: Transforms = transforms!([f32; 4], Split);
    match isa() {
        Isa::Avx512 => &WIDE,
        Isa::Avx2 => &AVX2,
        Isa::Baseline => &BASELINE,
    }
}
