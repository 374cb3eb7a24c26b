//! Register tiles of the convolution: small blocks of results kept in vector registers during the whole reduction.
//!
//! All tiles are plain loops. Each accumulator is a separate variable (an array with the lanes of one vector), and
//! macros unroll the loop over accumulators, so that the compiler keeps each in a register.

use std::marker::PhantomData;

use super::phase_split::{Row, Segment};
use crate::backend::cpu::matmul::GemmElem;
use crate::backend::cpu::microkernel::prefetch;
use crate::backend::cpu::simd::{Isa, IsaDispatch, isa};
use crate::multiversion;

/// The instruction set that a tile is compiled for, with its `a * b + c`: fused where the set supports it, otherwise
/// rounded twice, since a fused operation would be a library call.
pub trait MulAdd {
    const ISA: Isa;
    fn mul_add<T: ConvElem>(a: T, b: T, c: T) -> T;
}

pub struct Fused512;
pub struct Fused256;
pub struct Split;

impl MulAdd for Fused512 {
    const ISA: Isa = Isa::Avx512;
    #[inline(always)]
    fn mul_add<T: ConvElem>(a: T, b: T, c: T) -> T {
        a.fused_mul_add(b, c)
    }
}

impl MulAdd for Fused256 {
    const ISA: Isa = Isa::Avx2;
    #[inline(always)]
    fn mul_add<T: ConvElem>(a: T, b: T, c: T) -> T {
        a.fused_mul_add(b, c)
    }
}

impl MulAdd for Split {
    const ISA: Isa = Isa::Baseline;
    #[inline(always)]
    fn mul_add<T: ConvElem>(a: T, b: T, c: T) -> T {
        a * b + c
    }
}

/// The lanes of one vector register: `[f32; 16]`, `[f64; 4]` and so on.
pub trait Lanes: Copy {
    type Elem: ConvElem;
    const LEN: usize;
    const ZERO: Self;
    fn splat(v: Self::Elem) -> Self;
    /// Splits `s` into whole vectors, dropping a remainder.
    fn vectors(s: &[Self::Elem]) -> &[Self];
    fn vectors_mut(s: &mut [Self::Elem]) -> &mut [Self];
    /// `self += a * b` for a scalar `a`.
    fn add_scaled<M: MulAdd>(&mut self, a: Self::Elem, b: &Self);
    /// `self += a * b` lane by lane.
    fn add_product<M: MulAdd>(&mut self, a: &Self, b: &Self);
    /// The first `len` lanes from the beginning of `s`, and zeros.
    fn first(s: &[Self::Elem], len: usize) -> Self;
    /// Two vectors from the beginning of `s`.
    fn window(s: &[Self::Elem]) -> &[Self; 2];
    /// The lanes of a window from `shift` on, which is at most a vector.
    fn shifted(window: &[Self; 2], shift: usize) -> &Self;
    /// Writes lanes to elements that are `stride` apart, until either ends.
    fn put(&self, to: &mut [Self::Elem], stride: usize);
}

impl<T: ConvElem, const L: usize> Lanes for [T; L] {
    type Elem = T;
    const LEN: usize = L;
    const ZERO: Self = [T::ZERO; L];

    #[inline(always)]
    fn splat(v: T) -> Self {
        [v; L]
    }

    #[inline(always)]
    fn vectors(s: &[T]) -> &[Self] {
        s.as_chunks::<L>().0
    }

    #[inline(always)]
    fn vectors_mut(s: &mut [T]) -> &mut [Self] {
        s.as_chunks_mut::<L>().0
    }

    #[inline(always)]
    fn add_scaled<M: MulAdd>(&mut self, a: T, b: &Self) {
        for l in 0..L {
            self[l] = M::mul_add(a, b[l], self[l]);
        }
    }

    #[inline(always)]
    fn add_product<M: MulAdd>(&mut self, a: &Self, b: &Self) {
        for l in 0..L {
            self[l] = M::mul_add(a[l], b[l], self[l]);
        }
    }

    #[inline(always)]
    fn first(s: &[T], len: usize) -> Self {
        let mut v = [T::ZERO; L];
        match s.first_chunk::<L>() {
            Some(all) => {
                for l in 0..L {
                    v[l] = if l < len { all[l] } else { T::ZERO };
                }
            }
            None => v[..len].copy_from_slice(&s[..len]),
        }
        v
    }

    #[inline(always)]
    fn window(s: &[T]) -> &[Self; 2] {
        &s.as_chunks::<L>().0.as_chunks::<2>().0[0]
    }

    #[inline(always)]
    fn shifted(window: &[Self; 2], shift: usize) -> &Self {
        &window.as_flattened()[shift..].as_chunks::<L>().0[0]
    }

    #[inline(always)]
    fn put(&self, to: &mut [T], stride: usize) {
        to.iter_mut().step_by(stride).zip(self).for_each(|(to, v)| *to = *v);
    }
}

/// The vector type and arithmetic of a tile.
type Kind<V, M> = PhantomData<(V, M)>;

/// A tile of results, accumulated over all terms. There are two kinds:
///
/// - *pixel lanes*: `rows` output channels by `vectors` vectors of consecutive positions; `weights` holds `rows` values
///   per term and `init` the initial value of each channel;
/// - *channel lanes*: `rows` consecutive positions by `vectors` vectors of output channels; `weights` holds `vectors`
///   vectors per term and `init` the initial vectors.
///
/// `out` receives `rows` runs of `vectors` vectors.
pub struct CorrelationTile<T: 'static> {
    pub rows: usize,
    pub vectors: usize,
    pub run: CorrelationRun<T>,
}

type CorrelationRun<T> =
    fn(source: &[T], position: usize, offsets: &[usize], weights: &[T], init: &[T], out: &mut [T]);

/// Outer products: a tile of `rows` weights by `vectors` vectors of output channels, summed over lines of positions.
/// `grads` holds `vectors` vectors per position, and `lines` the start in the source of each line of `len` positions.
/// The sums are added to `out`, which holds `rows` runs of `vectors` vectors.
pub struct OuterTile<T: 'static> {
    pub rows: usize,
    pub vectors: usize,
    pub run: OuterRun<T>,
}

type OuterRun<T> =
    fn(grads: &[T], source: &[T], lines: &[usize], len: usize, offsets: &[usize], out: &mut [T]);

/// Dot products over positions: a tile of `rows` output channels by `columns` weights. `grads` holds `rows` runs of
/// `pitch` elements, whole vectors. `out` receives `rows` runs of `columns` vectors, whose lanes the caller sums.
pub struct DotTile<T: 'static> {
    pub rows: usize,
    pub columns: usize,
    pub run: DotRun<T>,
}

type DotRun<T> = fn(grads: &[T], pitch: usize, source: &[T], offsets: &[usize], len: usize, out: &mut [T]);

/// One row of a tile's accumulators, unrolled.
macro_rules! across {
    ($acc:ident, $add:ident::<$m:ident>, $a:expr, $x:ident, [$($v:literal)*]) => {
        $($acc[$v].$add::<$m>($a, &$x[$v]);)*
    };
}

/// Prefetch distance in terms: the weights do not fit in the L1 cache together with the data of a tile.
const AHEAD: usize = 16;

/// Prefetches the weights of the term `AHEAD` terms after that of `$w`.
macro_rules! fetch_ahead {
    ($w:ident, $nv:literal, [$($v:literal)*]) => {
        $(prefetch($w.as_ptr().wrapping_add(AHEAD * $nv + $v));)*
    };
}

macro_rules! pixel_tile {
    ($name:ident, $rows:literal x $nv:literal $vs:tt: $($acc:ident $i:literal),*) => {
        $crate::multiversion! { version = IsaDispatch::of(M::ISA);
            fn $name[V: Lanes, M: MulAdd](
                _kind: Kind<V, M>, source: &[V::Elem], position: usize, offsets: &[usize], weights: &[V::Elem], init: &[V::Elem],
                out: &mut [V::Elem]
            ) {
                $(let mut $acc = [V::splat(init[$i]); $nv];)*
                let source = &source[position..];
                for (&offset, w) in offsets.iter().zip(weights.as_chunks::<$rows>().0) {
                    let x = &V::vectors(&source[offset..offset + $nv * V::LEN]).as_chunks::<$nv>().0[0];
                    $(across!($acc, add_scaled::<M>, w[$i], x, $vs);)*
                }
                let out = V::vectors_mut(&mut out[..$rows * $nv * V::LEN]);
                $(out[$i * $nv..($i + 1) * $nv].copy_from_slice(&$acc);)*
            }
        }
    };
}

macro_rules! channel_tile {
    ($name:ident, $rows:literal x $nv:literal $vs:tt: $($acc:ident $i:literal),*) => {
        $crate::multiversion! { version = IsaDispatch::of(M::ISA);
            fn $name[V: Lanes, M: MulAdd](
                _kind: Kind<V, M>, source: &[V::Elem], position: usize, offsets: &[usize], weights: &[V::Elem], init: &[V::Elem],
                out: &mut [V::Elem]
            ) {
                let init = V::vectors(init).as_chunks::<$nv>().0[0];
                $(let mut $acc = init;)*
                let source = &source[position..];
                for (&offset, w) in offsets.iter().zip(V::vectors(weights).as_chunks::<$nv>().0) {
                    let x = &source[offset..offset + $rows];
                    fetch_ahead!(w, $nv, $vs);
                    $(across!($acc, add_scaled::<M>, x[$i], w, $vs);)*
                }
                let out = V::vectors_mut(&mut out[..$rows * $nv * V::LEN]);
                $(out[$i * $nv..($i + 1) * $nv].copy_from_slice(&$acc);)*
            }
        }
    };
}

macro_rules! outer_tile {
    ($name:ident, $rows:literal x $nv:literal $vs:tt: $($acc:ident $x:ident $i:literal),*) => {
        $crate::multiversion! { version = IsaDispatch::of(M::ISA);
            fn $name[V: Lanes, M: MulAdd](
                _kind: Kind<V, M>, grads: &[V::Elem], source: &[V::Elem], lines: &[usize], len: usize,
                offsets: &[usize], out: &mut [V::Elem]
            ) {
                let out = V::vectors_mut(&mut out[..$rows * $nv * V::LEN]).as_chunks_mut::<$nv>().0;
                $(let mut $acc = out[$i];)*
                let grads = V::vectors(grads).as_chunks::<$nv>().0;
                for (&line, grads) in lines.iter().zip(grads.chunks_exact(len)) {
                    let n = grads.len();
                    $(let $x = &source[line + offsets[$i]..][..n];)*
                    for p in 0..n {
                        let g = &grads[p];
                        $(across!($acc, add_scaled::<M>, $x[p], g, $vs);)*
                    }
                }
                $(out[$i] = $acc;)*
            }
        }
    };
}

macro_rules! dot_tile {
    ($name:ident, $rows:literal x $columns:literal $js:tt: $($acc:ident $a:ident $i:literal),*) => {
        $crate::multiversion! { version = IsaDispatch::of(M::ISA);
            fn $name[V: Lanes, M: MulAdd](
                _kind: Kind<V, M>, grads: &[V::Elem], pitch: usize, source: &[V::Elem], offsets: &[usize], len: usize,
                out: &mut [V::Elem]
            ) {
                $(let mut $acc = [V::ZERO; $columns];)*
                let n = len / V::LEN;
                $(let $a = &V::vectors(&grads[$i * pitch..])[..n];)*
                let x: [&[V]; $columns] = std::array::from_fn(|j| &V::vectors(&source[offsets[j]..])[..n]);
                for s in 0..n {
                    let x: [V; $columns] = std::array::from_fn(|j| x[j][s]);
                    $(across!($acc, add_product::<M>, &$a[s], x, $js);)*
                }
                let out = V::vectors_mut(&mut out[..$rows * $columns * V::LEN]);
                $(out[$i * $columns..($i + 1) * $columns].copy_from_slice(&$acc);)*
            }
        }
    };
}

/// The results for the segments of a plane, whole tiles of them, from its grid, and the weights of all taps in order. `place`
/// says where results go.
type SegmentsRun<T> = fn(
    grid: &[T],
    segments: &[Segment],
    taps: &[TapRun],
    weights: &[T],
    init: T,
    place: Place,
    out: &mut [T],
);

/// Taps with consecutive shifts, at most as many as a vector has elements, nor more than seven.
pub struct TapRun {
    /// The first shift.
    pub offset: usize,
    pub count: usize,
}

/// The most taps of a run.
pub const LONGEST_RUN: usize = 7;

/// Where the results of a plane go.
#[derive(Clone, Copy)]
pub struct Place {
    /// From a result to the next of a row.
    pub stride: usize,
    /// What follows a segment may be written too.
    pub is_dense: bool,
}

/// Adds the products of `grads` with the grid at each of some shifts to `sums`, a vector per shift. Lanes beyond the end of a
/// segment get the product of zero with what follows in the grid.
type ShiftsRun<T> =
    fn(grads: &[T], grid: &[T], segments: &[Segment], offsets: &[usize; SHIFTS], sums: &mut [T]);

/// The results of a plane of vectors, whose lanes are channels, by segments of at most [`POSITIONS`], from its grid of vectors.
/// `weights` holds a vector for each of `offsets`; results are `stride` apart.
type ChannelLanesRun<T> = fn(
    grid: &[T],
    segments: &[Segment],
    offsets: &[usize],
    weights: &[T],
    init: &[T],
    stride: usize,
    out: &mut [T],
);

/// Copies vectors that are `step` apart, rows of them, to their grid.
type SpreadRun<T> = fn(source: &[T], step: usize, rows: &[Row], grid: &mut [T]);

/// Results of a row that a tile keeps in registers where lanes are channels.
pub const POSITIONS: usize = 8;

/// Segments that a tile keeps in registers.
pub const SEGMENTS: usize = 4;

/// Shifts whose sums are in registers together: those of a kernel of 3 x 3.
pub const SHIFTS: usize = 9;

multiversion! { version = IsaDispatch::of(M::ISA);
    fn segments[V: Lanes, M: MulAdd](
        _kind: Kind<V, M>, grid: &[V::Elem], segments: &[Segment], taps: &[TapRun], weights: &[V::Elem], init: V::Elem,
        place: Place, out: &mut [V::Elem]
    ) {
        for &[s, t, u, v] in segments.as_chunks::<SEGMENTS>().0 {
            let [mut a, mut b, mut c, mut d] = [V::splat(init); SEGMENTS];
            let mut weights = weights;
            for taps in taps {
                let (w, rest) = weights.split_at(taps.count);
                weights = rest;
                let grid = &grid[taps.offset..];
                let [s, t] = [V::window(&grid[s.at..]), V::window(&grid[t.at..])];
                let [u, v] = [V::window(&grid[u.at..]), V::window(&grid[v.at..])];
                // The shifts are constants, so that only the windows are checked to be within the grid.
                macro_rules! shifted { ($($k:literal)*) => {{ $(
                    a.add_scaled::<M>(w[$k], V::shifted(s, $k));
                    b.add_scaled::<M>(w[$k], V::shifted(t, $k));
                    c.add_scaled::<M>(w[$k], V::shifted(u, $k));
                    d.add_scaled::<M>(w[$k], V::shifted(v, $k));
                )* }} }
                match taps.count {
                    1 => shifted!(0),
                    2 => shifted!(0 1),
                    3 => shifted!(0 1 2),
                    4 => shifted!(0 1 2 3),
                    5 => shifted!(0 1 2 3 4),
                    6 => shifted!(0 1 2 3 4 5),
                    _ => shifted!(0 1 2 3 4 5 6),
                }
            }
            for (segment, result) in [(s, a), (t, b), (u, c), (v, d)] {
                let out = &mut out[segment.to..];
                match V::vectors_mut(out) {
                    [first, ..] if place.is_dense => *first = result,
                    _ => result.put(&mut out[..(segment.len - 1) * place.stride + 1], place.stride),
                }
            }
        }
    }
}

multiversion! { version = IsaDispatch::of(M::ISA);
    fn shifts[V: Lanes, M: MulAdd](
        _kind: Kind<V, M>, grads: &[V::Elem], grid: &[V::Elem], segments: &[Segment], offsets: &[usize; SHIFTS],
        sums: &mut [V::Elem]
    ) {
        let sums = &mut V::vectors_mut(sums).as_chunks_mut::<SHIFTS>().0[0];
        let mut acc = *sums;
        for s in segments {
            let g = &V::first(&grads[s.to..], s.len);
            let grid = &grid[s.at..];
            macro_rules! x { ($($i:literal)*) => { [$(&V::vectors(&grid[offsets[$i]..offsets[$i] + V::LEN])[0]),*] } }
            let x: [&V; SHIFTS] = x!(0 1 2 3 4 5 6 7 8);
            across!(acc, add_product::<M>, g, x, [0 1 2 3 4 5 6 7 8]);
        }
        *sums = acc;
    }
}

multiversion! { version = IsaDispatch::of(M::ISA);
    fn channel_lanes[V: Lanes, M: MulAdd](
        _kind: Kind<V, M>, grid: &[V::Elem], segments: &[Segment], offsets: &[usize], weights: &[V::Elem],
        init: &[V::Elem], stride: usize, out: &mut [V::Elem]
    ) {
        let (grid, weights, out) = (V::vectors(grid), V::vectors(weights), V::vectors_mut(out));
        let init = V::vectors(init)[0];
        for s in segments {
            let mut acc = [init; POSITIONS];
            for (offset, w) in offsets.iter().zip(weights) {
                let x = &grid[s.at + offset..].as_chunks::<POSITIONS>().0[0];
                across!(acc, add_product::<M>, w, x, [0 1 2 3 4 5 6 7]);
            }
            out[s.to..].iter_mut().step_by(stride).zip(&acc[..s.len]).for_each(|(to, v)| *to = *v);
        }
    }
}

multiversion! { version = IsaDispatch::of(M::ISA);
    fn spread[V: Lanes, M: MulAdd](
        _kind: Kind<V, M>, source: &[V::Elem], step: usize, rows: &[Row], grid: &mut [V::Elem]
    ) {
        let (source, grid) = (V::vectors(source), V::vectors_mut(grid));
        for row in rows {
            let from = source[row.from..].iter().step_by(step);
            grid[row.to..][..row.len].iter_mut().zip(from).for_each(|(to, v)| *to = *v);
        }
    }
}

// For 32 registers: about 24 accumulators, enough to hide the latency at two multiply-adds per cycle.
pixel_tile!(pixel_8x3, 8 x 3 [0 1 2]: a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7);
pixel_tile!(pixel_6x4, 6 x 4 [0 1 2 3]: a 0, b 1, c 2, d 3, e 4, f 5);
pixel_tile!(pixel_4x4, 4 x 4 [0 1 2 3]: a 0, b 1, c 2, d 3);
pixel_tile!(pixel_2x6, 2 x 6 [0 1 2 3 4 5]: a 0, b 1);
pixel_tile!(pixel_1x8, 1 x 8 [0 1 2 3 4 5 6 7]: a 0);
channel_tile!(channel_14x2, 14 x 2 [0 1]: a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11, m 12, n 13);
channel_tile!(channel_7x2, 7 x 2 [0 1]: a 0, b 1, c 2, d 3, e 4, f 5, g 6);
channel_tile!(channel_14x1, 14 x 1 [0]: a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9, k 10, l 11, m 12, n 13);
channel_tile!(channel_10x1, 10 x 1 [0]: a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7, i 8, j 9);
outer_tile!(outer_12x2, 12 x 2 [0 1]: a p 0, b q 1, c r 2, d s 3, e t 4, f u 5, g v 6, h w 7, i x 8, j y 9, k z 10, l o 11);
outer_tile!(outer_12x1, 12 x 1 [0]: a p 0, b q 1, c r 2, d s 3, e t 4, f u 5, g v 6, h w 7, i x 8, j y 9, k z 10, l o 11);
dot_tile!(dot_6x4, 6 x 4 [0 1 2 3]: a p 0, b q 1, c r 2, d t 3, e u 4, f v 5);
dot_tile!(dot_4x5, 4 x 5 [0 1 2 3 4]: a p 0, b q 1, c r 2, d t 3);
dot_tile!(dot_1x8, 1 x 8 [0 1 2 3 4 5 6 7]: a p 0);

// For 16 registers.
pixel_tile!(pixel_6x2, 6 x 2 [0 1]: a 0, b 1, c 2, d 3, e 4, f 5);
pixel_tile!(pixel_4x2, 4 x 2 [0 1]: a 0, b 1, c 2, d 3);
pixel_tile!(pixel_2x4, 2 x 4 [0 1 2 3]: a 0, b 1);
channel_tile!(channel_6x2, 6 x 2 [0 1]: a 0, b 1, c 2, d 3, e 4, f 5);
outer_tile!(outer_6x2, 6 x 2 [0 1]: a p 0, b q 1, c r 2, d s 3, e t 4, f u 5);
dot_tile!(dot_2x4, 2 x 4 [0 1 2 3]: a p 0, b q 1);

/// The tiles of one element type and instruction set, in descending order of rows.
pub struct Tiles<T: 'static> {
    /// Elements of one vector.
    pub lanes: usize,
    pub pixel: &'static [CorrelationTile<T>],
    pub channel: &'static [CorrelationTile<T>],
    pub outer: &'static [OuterTile<T>],
    pub dot: &'static [DotTile<T>],
    pub segments: SegmentsRun<T>,
    pub shifts: ShiftsRun<T>,
    pub channel_lanes: ChannelLanesRun<T>,
    pub spread: SpreadRun<T>,
}

/// An element type in which convolutions are computed: `f32` or `f64`.
pub trait ConvElem: GemmElem {
    #[doc(hidden)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self;
    /// The register tiles for the instruction set in use.
    #[doc(hidden)]
    fn tiles() -> &'static Tiles<Self>;
}

macro_rules! outer {
    ($V:ty, $M:ty, $name:ident $rows:literal $vectors:literal) => {
        OuterTile {
            rows: $rows,
            vectors: $vectors,
            run: |grads, source, lines, len, offsets, out| {
                $name(PhantomData::<($V, $M)>, grads, source, lines, len, offsets, out)
            },
        }
    };
}

macro_rules! tile {
    ($V:ty, $M:ty, $name:ident $rows:literal $vectors:literal) => {
        CorrelationTile {
            rows: $rows,
            vectors: $vectors,
            run: |source, position, offsets, weights, init, out| {
                $name(PhantomData::<($V, $M)>, source, position, offsets, weights, init, out)
            },
        }
    };
    (dot $V:ty, $M:ty, $name:ident $rows:literal $columns:literal) => {
        DotTile {
            rows: $rows,
            columns: $columns,
            run: |grads, pitch, source, offsets, len, out| {
                $name(PhantomData::<($V, $M)>, grads, pitch, source, offsets, len, out)
            },
        }
    };
    (segments $V:ty, $M:ty) => {
        |grid, at, taps, weights, init, place, out| {
            segments(PhantomData::<($V, $M)>, grid, at, taps, weights, init, place, out)
        }
    };
    (channel_lanes $V:ty, $M:ty) => {
        |grid, segments, offsets, weights, init, stride, out| {
            channel_lanes(PhantomData::<($V, $M)>, grid, segments, offsets, weights, init, stride, out)
        }
    };
    (spread $V:ty, $M:ty) => {
        |source, step, rows, grid| spread(PhantomData::<($V, $M)>, source, step, rows, grid)
    };
    (shifts $V:ty, $M:ty) => {
        |grads, grid, at, offsets, sums| shifts(PhantomData::<($V, $M)>, grads, grid, at, offsets, sums)
    };
}

macro_rules! narrow_tiles {
    ($T:ty, $V:ty, $M:ty) => {
        Tiles {
            lanes: <$V as Lanes>::LEN,
            pixel: &[
                tile!($V, $M, pixel_6x2 6 2),
                tile!($V, $M, pixel_4x2 4 2),
                tile!($V, $M, pixel_2x4 2 4),
                tile!($V, $M, pixel_1x8 1 8),
            ],
            channel: &[tile!($V, $M, channel_10x1 10 1), tile!($V, $M, channel_6x2 6 2)],
            outer: &[outer!($V, $M, outer_6x2 6 2)],
            dot: &[tile!(dot $V, $M, dot_2x4 2 4), tile!(dot $V, $M, dot_1x8 1 8)],
            segments: tile!(segments $V, $M),
            shifts: tile!(shifts $V, $M),
            channel_lanes: tile!(channel_lanes $V, $M),
            spread: tile!(spread $V, $M),
        }
    };
}

/// The 32 registers of AVX-512 allow larger tiles.
static WIDE: Tiles<f32> = Tiles {
    lanes: 16,
    pixel: &[
        tile!([f32; 16], Fused512, pixel_8x3 8 3),
        tile!([f32; 16], Fused512, pixel_6x4 6 4),
        tile!([f32; 16], Fused512, pixel_4x4 4 4),
        tile!([f32; 16], Fused512, pixel_2x6 2 6),
        tile!([f32; 16], Fused512, pixel_1x8 1 8),
    ],
    channel: &[
        tile!([f32; 16], Fused512, channel_14x2 14 2),
        tile!([f32; 16], Fused512, channel_14x1 14 1),
        tile!([f32; 16], Fused512, channel_10x1 10 1),
        tile!([f32; 16], Fused512, channel_7x2 7 2),
    ],
    outer: &[outer!([f32; 16], Fused512, outer_12x2 12 2), outer!([f32; 16], Fused512, outer_12x1 12 1)],
    dot: &[
        tile!(dot [f32; 16], Fused512, dot_6x4 6 4),
        tile!(dot [f32; 16], Fused512, dot_4x5 4 5),
        tile!(dot [f32; 16], Fused512, dot_1x8 1 8),
    ],
    segments: tile!(segments [f32; 16], Fused512),
    shifts: tile!(shifts [f32; 16], Fused512),
    channel_lanes: tile!(channel_lanes [f32; 16], Fused512),
    spread: tile!(spread [f32; 16], Fused512),
};

macro_rules! conv_elem {
    ($T:ident $avx2:literal $baseline:literal, $wide:expr) => {
        impl ConvElem for $T {
            #[inline(always)]
            fn fused_mul_add(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }

            fn tiles() -> &'static Tiles<Self> {
                static AVX2: Tiles<$T> = narrow_tiles!($T, [$T; $avx2], Fused256);
                static BASELINE: Tiles<$T> = narrow_tiles!($T, [$T; $baseline], Split);
                match isa() {
                    Isa::Avx512 => $wide.unwrap_or(&AVX2),
                    Isa::Avx2 => &AVX2,
                    Isa::Baseline => &BASELINE,
                }
            }
        }
    };
}
conv_elem!(f32 8 4, Some(&WIDE));
// float64 convolutions are rare, so AVX-512 uses the AVX2 tiles too.
conv_elem!(f64 4 2, None);
