//! Maximum and minimum with their positions.

use std::marker::PhantomData;

use super::{
    Elements, Finish, Monoid, ReduceDims, ReduceOp, Reduction, TILE, finished, fold, max_nan, reduce,
};
use crate::backend::cpu::simd::Isa;
use crate::dtype::Element;

/// Numbers whose order can be reversed, so that one kernel computes maximum and minimum.
pub trait Ordered: Element {
    const LEAST: Self;
    /// The argument of [`Ordered::turned`] that keeps (false) or reverses the order.
    fn turn(round: bool) -> Self;
    /// Maps to a number with reversed order; an involution. NaN maps to itself.
    fn turned(self, turn: Self) -> Self;
}

macro_rules! ordered {
    ($($t:ty: $least:expr, $keep:expr, $round:expr, |$x:ident, $by:ident| $turned:expr;)*) => { $(
        impl Ordered for $t {
            const LEAST: Self = $least;
            fn turn(round: bool) -> Self { if round { $round } else { $keep } }
            #[inline(always)]
            fn turned(self, $by: Self) -> Self { let $x = self; $turned }
        }
    )* };
}
ordered! {
    f32: f32::NEG_INFINITY, 1.0, -1.0, |x, by| x * by;
    f64: f64::NEG_INFINITY, 1.0, -1.0, |x, by| x * by;
    i32: i32::MIN, 0, -1, |x, by| x ^ by;
    i64: i64::MIN, 0, -1, |x, by| x ^ by;
}

/// The greatest in the order of [`Ordered::turned`]; NaN if an element is NaN.
#[derive(Clone, Copy)]
pub(super) struct Greatest<T>(pub PhantomData<fn(T)>, pub T);

/// Pairs of elements that are compared side by side.
const LANES: usize = 32;

impl<T: Ordered> Monoid for Greatest<T> {
    type In = T;
    type Acc = T;
    #[inline(always)]
    fn identity(self) -> T {
        T::LEAST
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        x.turned(self.1)
    }
    #[inline(always)]
    fn combine(self, a: T, b: T) -> T {
        max_nan(a, b)
    }

    /// Takes maxima that a NaN may leave out, and notes whether there was one: for two elements that is one comparison.
    #[inline(always)]
    #[allow(clippy::eq_op)] // only NaN differs from itself
    fn fold(self, x: &[T]) -> T {
        let (chunks, rest) = x.as_chunks::<{ 2 * LANES }>();
        if chunks.is_empty() {
            return fold(self, x);
        }
        let (mut best, mut odd) = ([T::LEAST; LANES], [0u32; LANES]);
        for chunk in chunks {
            for l in 0..LANES {
                let (a, b) = (self.lift(chunk[l]), self.lift(chunk[l + LANES]));
                let larger = if a > b { a } else { b };
                best[l] = if larger > best[l] { larger } else { best[l] };
                odd[l] |= ((a != a) | (b != b)) as u32;
            }
        }
        if odd.iter().any(|&o| o != 0) {
            return x.iter().fold(T::LEAST, |a, &v| max_nan(a, self.lift(v)));
        }
        let mut width = LANES / 2;
        while width > 0 {
            for l in 0..width {
                best[l] = if best[l + width] > best[l] { best[l + width] } else { best[l] };
            }
            width /= 2;
        }
        max_nan(fold(self, rest), best[0])
    }
}

/// The maximum or minimum and, if requested, its first position. NaN takes precedence over all numbers.
///
/// With `n == 0` there is no extremum, and the outputs are unchanged.
pub fn extremum<T: Ordered>(
    x: &[T],
    d: ReduceDims,
    largest: bool,
    values: &mut [T],
    indices: Option<&mut [i64]>,
) {
    if d.n == 0 {
        return;
    }
    let turn = T::turn(!largest);
    let Some(indices) = indices else {
        return greatest(Elements::Slice(x), d, largest, None, values);
    };
    let mut best = vec![(T::zeroed(), 0); d.lanes()];
    reduce(&Located(Greatest(PhantomData, turn)), Elements::Slice(x), d, None, &mut best);
    for ((value, index), best) in values.iter_mut().zip(indices).zip(best) {
        (*value, *index) = (best.0.turned(turn), best.1);
    }
}

/// The largest or smallest element, without its index; `n` is not 0.
pub(super) fn greatest<T: Ordered>(
    x: Elements<T>,
    d: ReduceDims,
    largest: bool,
    finish: Finish<T>,
    values: &mut [T],
) {
    let turn = T::turn(!largest);
    let turned = |lane: usize, values: &mut [T]| {
        values.iter_mut().for_each(|v| *v = v.turned(turn));
        finished(finish, lane, values);
    };
    reduce(&ReduceOp(Greatest(PhantomData, turn)), x, d, Some(&turned), values);
}

/// The extremum in the order of [`Ordered::turned`], with the index of its first occurrence.
struct Located<T: Ordered>(Greatest<T>);

/// Whether `b`, at a later position, replaces `a`: the first NaN is kept, else the first of the maxima.
#[inline(always)]
#[allow(clippy::eq_op)]
fn replaces<T: Element>(a: T, b: T) -> bool {
    a == a && !(b <= a)
}

impl<T: Ordered> Reduction for Located<T> {
    /// AVX2 is instantiated for 4-byte types only; extrema of 8-byte numbers are rarely a bottleneck.
    const BEST: Isa = if size_of::<T>() == 4 { Isa::Avx2 } else { Isa::Baseline };
    const HAS_SHORT_ROWS: bool = true;
    type In = T;
    type Acc = (T, i64);

    /// Finds the value, then its position: both passes are vectorized, and the run is in the L1 cache.
    #[inline(always)]
    #[allow(clippy::eq_op)]
    fn run(&self, x: &[T], first: usize) -> Self::Acc {
        const CHUNK: usize = 64;
        if let (1..8, [first_value, others @ ..]) = (x.len(), x) {
            // Without branches, which would be mispredicted in each row.
            let start = (self.0.lift(*first_value), 0);
            let (best, at) = others.iter().zip(1..).fold(start, |(best, at), (v, i)| {
                let v = self.0.lift(*v);
                let replaced = replaces(best, v);
                (if replaced { v } else { best }, if replaced { i } else { at })
            });
            return (best, first as i64 + at);
        }
        let best = self.0.fold(x);
        let nan = best != best;
        let hit = |v: T| if nan { v != v } else { self.0.lift(v) == best };
        let mut at = 0;
        for chunk in x.chunks_exact(CHUNK) {
            if chunk.iter().fold(false, |any, &v| any | hit(v)) {
                break;
            }
            at += CHUNK;
        }
        at += x[at..].iter().position(|&v| hit(v)).unwrap_or(0);
        (best, (first + at) as i64)
    }

    #[inline(always)]
    fn columns(&self, x: &[T], rows: usize, stride: usize, first: usize, acc: &mut [Self::Acc]) {
        let w = acc.len();
        let (mut best, mut at) = ([T::zeroed(); TILE], [0i32; TILE]);
        let (best, at) = (&mut best[..w], &mut at[..w]);
        best.iter_mut().zip(&x[..w]).for_each(|(b, &v)| *b = self.0.lift(v));
        let step = |row: &[T], i: usize, j: usize, (b, a): (T, i32)| {
            let v = self.0.lift(row[j]);
            if replaces(b, v) { (v, i as i32) } else { (b, a) }
        };
        let mut i = 1;
        while i + 4 <= rows {
            let r: [&[T]; 4] = std::array::from_fn(|k| &x[(i + k) * stride..][..w]);
            for j in 0..w {
                let two = step(r[1], i + 1, j, step(r[0], i, j, (best[j], at[j])));
                (best[j], at[j]) = step(r[3], i + 3, j, step(r[2], i + 2, j, two));
            }
            i += 4;
        }
        while i < rows {
            let row = &x[i * stride..][..w];
            for j in 0..w {
                (best[j], at[j]) = step(row, i, j, (best[j], at[j]));
            }
            i += 1;
        }
        for (acc, (&b, &a)) in acc.iter_mut().zip(best.iter().zip(at.iter())) {
            *acc = (b, first as i64 + a as i64);
        }
    }

    #[inline(always)]
    fn merge(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc {
        if replaces(a.0, b.0) { b } else { a }
    }
}
