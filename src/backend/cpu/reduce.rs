//! Reductions along one dimension of a contiguous array: sums, products, extrema, moments, norms, logsumexp.
//!
//! A [`Reduction`] defines how to reduce a contiguous run, how to reduce a block of rows column by column, and how to
//! merge two results. A common driver splits the dimension into blocks, reduces them in parallel and merges them
//! pairwise.
//!
//! Note [Blocks are fixed]: blocks depend on the shape alone, never on the number of threads, so results are
//! bit-identical on all machines with the same instruction set. Pairwise merging also bounds the rounding error of a
//! sum by the block length plus the logarithm of the number of blocks.

mod blocks;
mod computed;
mod extremum;
mod fold;
pub mod integers;
mod moments;
#[cfg(test)]
pub(crate) mod tests;

use crate::backend::cpu::math::Math;
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::backend::group::rows_of_block;
use crate::backend::reduce::ReduceDims;
use crate::dtype::{Element, Real};
use crate::multiversion;

pub(in crate::backend::cpu) use blocks::{
    BlockLogSumExp, BlockReduction, ColumnBlocks, ColumnReduction, block_reduction, column_reduction,
};
use computed::{Elements, Source};
pub use extremum::{Ordered, extremum};
pub use fold::{formula, of_halves};
pub(crate) use moments::exp_sums;
pub use moments::{logsumexp, moments};

/// Minimum number of elements per parallel chunk.
const LEAST_CHUNK: usize = 1 << 13;
/// Maximum number of elements per parallel chunk. Chunks of this length keep the hardware prefetchers busy: with
/// shorter ones, interleaved threads reach little more than half of the memory bandwidth.
const LONGEST_CHUNK: usize = 1 << 17;

/// Elements per parallel chunk of an array of length `len`: a sixteenth, within limits.
pub(crate) fn chunk_of(len: usize) -> usize {
    (len / 16).clamp(LEAST_CHUNK, LONGEST_CHUNK)
}

/// As [`chunk_of`], in rows of `n` elements.
pub(crate) fn rows_of(len: usize, n: usize) -> usize {
    (chunk_of(len) / n.max(1)).max(1)
}

/// Maximum length of a contiguous run that is reduced without merging; two passes over it stay in the L1 cache.
pub(in crate::backend::cpu) const RUN: usize = 1 << 13;
/// Maximum width of a column tile; its accumulators fit in the L1 cache.
const TILE: usize = 512;
/// Number of 4-byte elements in the widest vector.
const VECTOR: usize = 16;
/// Narrower rows are reduced several at a time, see [`reduce_narrow`].
const NARROW: usize = 32;

/// A reduction along one dimension. `first` is the index of the first element along it.
trait Reduction: Sync {
    /// The widest instruction set to compile for. With AVX2 it is already memory-bound.
    const BEST: Isa = Isa::Avx2;
    /// Whether the rows of a block may be merged in any order, independent of their positions.
    const REGROUPS: bool = false;
    /// Whether rows of a few usual lengths have loops of their own.
    const HAS_SHORT_ROWS: bool = false;
    type In: Element;
    type Acc: Copy + Send + Sync;
    /// Reduces at most [`RUN`] contiguous elements; an empty run gives the identity.
    fn run(&self, x: &[Self::In], first: usize) -> Self::Acc;
    /// Reduces `rows` rows with stride `stride` into one result per column, for at most [`TILE`] columns.
    fn columns(&self, x: &[Self::In], rows: usize, stride: usize, first: usize, acc: &mut [Self::Acc]);
    /// Merges two adjacent results; `a` precedes `b` along the dimension.
    fn merge(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

multiversion! { version = IsaDispatch::up_to(R::BEST);
    /// Reduces consecutive runs, into which the rows of `x` are split at multiples of [`RUN`], from run number `job`
    /// on.
    fn reduce_runs[R: Reduction](r: &R, x: &[R::In], n: usize, job: usize, acc: &mut [R::Acc]) {
        match n {
            2 if R::HAS_SHORT_ROWS => return reduce_short::<R, 2>(r, x, job, acc),
            3 if R::HAS_SHORT_ROWS => return reduce_short::<R, 3>(r, x, job, acc),
            4 if R::HAS_SHORT_ROWS => return reduce_short::<R, 4>(r, x, job, acc),
            8 if R::HAS_SHORT_ROWS => return reduce_short::<R, 8>(r, x, job, acc),
            16 if R::HAS_SHORT_ROWS => return reduce_short::<R, 16>(r, x, job, acc),
            32 if R::HAS_SHORT_ROWS => return reduce_short::<R, 32>(r, x, job, acc),
            _ => {}
        }
        let cuts = n.div_ceil(RUN).max(1);
        let (mut row, mut cut) = (job / cuts, job % cuts);
        for a in acc {
            let first = cut * RUN;
            *a = r.run(&x[row * n + first..row * n + (first + RUN).min(n)], first);
            cut += 1;
            if cut == cuts {
                (row, cut) = (row + 1, 0);
            }
        }
    }
}

/// Reduces rows of `N` elements, from row `first` on.
#[inline(always)]
fn reduce_short<R: Reduction, const N: usize>(r: &R, x: &[R::In], first: usize, acc: &mut [R::Acc]) {
    let (rows, _) = x.as_chunks::<N>();
    for (a, row) in acc.iter_mut().zip(&rows[first..]) {
        *a = r.run(row, 0);
    }
}

multiversion! { version = IsaDispatch::up_to(R::BEST);
    fn reduce_columns[R: Reduction](r: &R, x: &[R::In], rows: usize, stride: usize, first: usize, acc: &mut [R::Acc]) {
        r.columns(x, rows, stride, first, acc);
    }
}

/// The object-safe form of a reduction, so that the driver is compiled once per pair of types.
trait Kernel<I, A>: Sync {
    fn identity(&self) -> A;
    fn regroups(&self) -> bool;
    fn runs(&self, x: &[I], n: usize, job: usize, acc: &mut [A]);
    fn columns(&self, x: &[I], rows: usize, stride: usize, first: usize, acc: &mut [A]);
    /// Merges each element of `next` into the result of its column.
    fn merge_row(&self, acc: &mut [A], next: &[A]);
}

impl<R: Reduction> Kernel<R::In, R::Acc> for R {
    fn identity(&self) -> R::Acc {
        self.run(&[], 0)
    }
    fn regroups(&self) -> bool {
        R::REGROUPS
    }
    fn runs(&self, x: &[R::In], n: usize, job: usize, acc: &mut [R::Acc]) {
        reduce_runs(self, x, n, job, acc)
    }
    fn columns(&self, x: &[R::In], rows: usize, stride: usize, first: usize, acc: &mut [R::Acc]) {
        reduce_columns(self, x, rows, stride, first, acc)
    }
    fn merge_row(&self, acc: &mut [R::Acc], next: &[R::Acc]) {
        acc.iter_mut().zip(next).for_each(|(a, &b)| *a = self.merge(*a, b));
    }
}

/// Post-processes results while they are in the cache. Called with consecutive results and the lane index of the
/// first.
pub(crate) type Finish<'a, A> = Option<&'a (dyn Fn(usize, &mut [A]) + Sync)>;

/// Reduces `x` along `d`, into `out[outer, inner]`.
fn reduce<I: Element, A: Copy + Send + Sync>(
    r: &dyn Kernel<I, A>,
    x: Elements<I>,
    d: ReduceDims,
    finish: Finish<A>,
    out: &mut [A],
) {
    if d.lanes() == 0 {
        return;
    }
    // Rows of one element are one row of columns: otherwise each would be a loop of its own.
    let d = if d.n == 1 { ReduceDims::new(1, 1, d.lanes()) } else { d };
    let rows = match d.inner {
        1 => RUN,
        // Larger blocks, so that the final merge of a narrow block is a small part of the work.
        inner if inner < NARROW && r.regroups() => 4 * RUN / inner,
        inner => rows_of_block(inner),
    };
    let cuts = d.n.div_ceil(rows);
    if cuts <= 1 {
        return reduce_blocks(r, x, d, rows, finish, out);
    }
    let mut partial = vec![r.identity(); d.outer * cuts * d.inner];
    reduce_blocks(r, x, d, rows, None, &mut partial);
    for (o, (p, out)) in partial.chunks_mut(cuts * d.inner).zip(out.chunks_mut(d.inner)).enumerate() {
        merge_in_pairs(r, p, d.inner);
        out.copy_from_slice(&p[..d.inner]);
        finished(finish, o * d.inner, out);
    }
}

#[inline]
fn finished<A>(finish: Finish<A>, lane: usize, out: &mut [A]) {
    if let Some(finish) = finish {
        finish(lane, out);
    }
}

/// The first level of the reduction: `partial[outer, cuts, inner]`.
fn reduce_blocks<I: Element, A: Copy + Send + Sync>(
    r: &dyn Kernel<I, A>,
    x: Elements<I>,
    d: ReduceDims,
    rows: usize,
    finish: Finish<A>,
    partial: &mut [A],
) {
    let ReduceDims { n, inner, .. } = d;
    let cuts = n.div_ceil(rows).max(1);
    let cost = rows.min(n).max(1);
    if inner == 1 {
        let grain = rows_of(d.len(), cost);
        return for_chunks_mut(partial, grain, |i, acc| {
            match x {
                Elements::Slice(x) => r.runs(x, n, i * grain, acc),
                Elements::Computed(x) => computed::runs(r, x, n, i * grain, acc),
            }
            finished(finish, i * grain, acc);
        });
    }
    // Row `b` of `partial` is the result of block `b` of rows.
    let block = |source: &mut Source<I>, b: usize, col: usize, acc: &mut [A]| {
        let first = (b % cuts) * rows;
        let start = ((b / cuts) * n + first) * inner + col;
        let rows = rows.min(n - first);
        let (x, stride) = source.rows(start, rows, acc.len(), inner);
        if r.regroups() && inner < NARROW {
            reduce_narrow(r, &x[..rows * inner], acc);
        } else {
            r.columns(x, rows, stride, first, acc);
        }
    };
    if inner <= TILE {
        let grain = rows_of(d.len(), cost * inner);
        for_chunks_mut(partial, grain * inner, |i, chunk| {
            let mut source = x.source(cost * inner);
            for (k, acc) in chunk.chunks_mut(inner).enumerate() {
                block(&mut source, i * grain + k, 0, acc);
            }
            finished(finish, i * grain * inner, chunk);
        });
    } else {
        let tiles = inner.div_ceil(TILE);
        let mut jobs: Vec<_> = partial.chunks_mut(inner).flat_map(|row| row.chunks_mut(TILE)).collect();
        let grain = rows_of(d.len(), cost * TILE);
        for_chunks_mut(&mut jobs, grain, |i, chunk| {
            let mut source = x.source(cost * TILE);
            for (k, acc) in chunk.iter_mut().enumerate() {
                let (b, col) = ((i * grain + k) / tiles, (i * grain + k) % tiles * TILE);
                block(&mut source, b, col, acc);
                finished(finish, b * inner + col, acc);
            }
        });
    }
}

/// Reduces whole narrow rows: several are treated as one wide row, whose parts are merged at the end.
fn reduce_narrow<I: Element, A: Copy + Send + Sync>(r: &dyn Kernel<I, A>, x: &[I], acc: &mut [A]) {
    let w = acc.len();
    // Enough rows that the wide row consists of whole vectors.
    let rows = if w <= TILE / 32 { 32 } else { TILE / NARROW };
    if x.len() < rows * w {
        return r.columns(x, x.len() / w, w, 0, acc);
    }
    let mut wide = [r.identity(); TILE];
    let wide = &mut wide[..rows * w];
    let (groups, rest) = x.split_at(x.len() - x.len() % wide.len());
    r.columns(groups, groups.len() / wide.len(), wide.len(), 0, wide);
    r.columns(rest, rest.len() / w, w, 0, acc);
    wide.chunks_exact(w).for_each(|row| r.merge_row(acc, row));
}

/// Merges the rows of `p`, each of length `inner`, pairwise into the first row.
fn merge_in_pairs<I, A: Copy>(r: &dyn Kernel<I, A>, p: &mut [A], inner: usize) {
    let mut rows = p.len() / inner;
    while rows > 1 {
        for i in 0..rows / 2 {
            let (merged, pair) = p.split_at_mut(2 * i * inner);
            let (a, b) = pair[..2 * inner].split_at_mut(inner);
            r.merge_row(a, b);
            if i > 0 {
                merged[i * inner..(i + 1) * inner].copy_from_slice(a);
            }
        }
        if rows % 2 == 1 {
            p.copy_within((rows - 1) * inner..rows * inner, rows / 2 * inner);
        }
        rows = rows.div_ceil(2);
    }
}

/// A reduction whose elements may be combined in any order; it implements most reductions.
trait Monoid: Copy + Sync {
    /// Rarely used: optimize for code size and compile for the baseline only.
    const RARE: bool = false;
    /// Half of the accumulators of a run: [`LANES`] of 8 bytes would fill all registers. Results must not depend on it.
    const FEWER_LANES: bool = false;
    type In: Element;
    type Acc: Copy + Send + Sync;
    fn identity(self) -> Self::Acc;
    fn lift(self, x: Self::In) -> Self::Acc;
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Reduces a run.
    #[inline(always)]
    fn fold(self, x: &[Self::In]) -> Self::Acc {
        fold(self, x)
    }
}

/// Accumulators of the elements that fill no vector of all of them.
const REST: usize = 8;

/// Reduces a run of at least [`REST`] elements with `LANES` independent accumulators, which the compiler keeps in vector registers.
#[inline(always)]
fn fold_lanes<M: Monoid, const LANES: usize>(m: M, x: &[M::In]) -> M::Acc {
    let mut acc = [m.identity(); LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for l in 0..LANES {
            acc[l] = m.combine(acc[l], m.lift(chunk[l]));
        }
    }
    if !rest.is_empty() {
        let rest = fold_rest(m, x, rest);
        for l in 0..REST {
            acc[l] = m.combine(acc[l], rest[l]);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            acc[l] = m.combine(acc[l], acc[l + width]);
        }
        width /= 2;
    }
    acc[0]
}

/// The accumulators of the elements `rest` at the end of `x`. Those that fill no vector are read with elements before them, which
/// count as identities: a loop over fewer lanes would have the accumulators in memory.
#[inline(always)]
fn fold_rest<M: Monoid>(m: M, x: &[M::In], rest: &[M::In]) -> [M::Acc; REST] {
    let mut acc = [m.identity(); REST];
    let (chunks, last) = rest.as_chunks::<REST>();
    for chunk in chunks {
        for l in 0..REST {
            acc[l] = m.combine(acc[l], m.lift(chunk[l]));
        }
    }
    if let (1.., Some(end)) = (last.len(), x.last_chunk::<REST>()) {
        for l in 0..REST {
            let value = m.lift(end[l]);
            acc[l] = m.combine(acc[l], if l + last.len() >= REST { value } else { m.identity() });
        }
    }
    acc
}

#[inline(always)]
fn fold<M: Monoid>(m: M, x: &[M::In]) -> M::Acc {
    if x.len() < REST {
        return x.iter().fold(m.identity(), |a, &v| m.combine(a, m.lift(v)));
    }
    if M::RARE || x.len() < LANES {
        fold_lanes::<M, 8>(m, x)
    } else if M::FEWER_LANES {
        fold_lanes::<M, FEW_LANES>(m, x)
    } else {
        fold_lanes::<M, LANES>(m, x)
    }
}

/// Up to this many rows are added one by one, in PyTorch's order.
const FEW_ROWS: usize = 16;

/// Reduces columns eight rows at a time, pairwise, so that eight streams are read per pass over `acc`.
#[inline(always)]
fn fold_columns<M: Monoid>(m: M, x: &[M::In], rows: usize, stride: usize, acc: &mut [M::Acc]) {
    if rows <= FEW_ROWS && !M::RARE {
        return fold_few(m, x, rows, stride, acc);
    }
    acc.fill(m.identity());
    fold_more(m, x, rows, stride, !M::RARE, acc);
}

/// As [`fold_columns`], with the results of rows before these in `acc`; one by one, if not `pairwise`.
#[inline(always)]
fn fold_more<M: Monoid>(m: M, x: &[M::In], rows: usize, stride: usize, pairwise: bool, acc: &mut [M::Acc]) {
    let w = acc.len();
    let mut i = 0;
    while i + 8 <= rows && pairwise {
        let r: [&[M::In]; 8] = std::array::from_fn(|k| &x[(i + k) * stride..][..w]);
        for j in 0..w {
            let pair = |k: usize| m.combine(m.lift(r[k][j]), m.lift(r[k + 1][j]));
            let (low, high) = (m.combine(pair(0), pair(2)), m.combine(pair(4), pair(6)));
            acc[j] = m.combine(acc[j], m.combine(low, high));
        }
        i += 8;
    }
    while i < rows {
        for (a, &v) in acc.iter_mut().zip(&x[i * stride..][..w]) {
            *a = m.combine(*a, m.lift(v));
        }
        i += 1;
    }
}

/// Reduces columns of few rows one row after the other. As many columns as fit in registers are reduced at a time: a loop over all
/// would store a maximum under the mask of those that changed, and took 2.6 times as long.
#[inline(always)]
fn fold_few<M: Monoid>(m: M, x: &[M::In], rows: usize, stride: usize, acc: &mut [M::Acc]) {
    const WIDE: usize = 32;
    let (wide, rest) = acc.as_chunks_mut::<WIDE>();
    let first = WIDE * wide.len();
    for (k, wide) in wide.iter_mut().enumerate() {
        let mut sums = [m.identity(); WIDE];
        for i in 0..rows {
            let row = &x[i * stride + k * WIDE..][..WIDE];
            for l in 0..WIDE {
                sums[l] = m.combine(sums[l], m.lift(row[l]));
            }
        }
        *wide = sums;
    }
    rest.fill(m.identity());
    for i in 0..rows {
        for (a, &v) in rest.iter_mut().zip(&x[i * stride + first..]) {
            *a = m.combine(*a, m.lift(v));
        }
    }
}

/// Adapts a monoid to [`Reduction`].
struct ReduceOp<M>(M);

impl<M: Monoid> Reduction for ReduceOp<M> {
    const BEST: Isa = if M::RARE { Isa::Baseline } else { Isa::Avx2 };
    const REGROUPS: bool = !M::RARE;
    const HAS_SHORT_ROWS: bool = !M::RARE;
    type In = M::In;
    type Acc = M::Acc;
    #[inline(always)]
    fn run(&self, x: &[M::In], _: usize) -> M::Acc {
        self.0.fold(x)
    }
    #[inline(always)]
    fn columns(&self, x: &[M::In], rows: usize, stride: usize, _: usize, acc: &mut [M::Acc]) {
        fold_columns(self.0, x, rows, stride, acc)
    }
    #[inline(always)]
    fn merge(&self, a: M::Acc, b: M::Acc) -> M::Acc {
        self.0.combine(a, b)
    }
}

/// Declares a [`Monoid`] in one line: `Name<bound>(fields) @FLAG -> accumulator: identity, |self, x| lift, |a, b| combine`.
macro_rules! monoid {
    ($(#[$m:meta])* $name:ident<$b:ident> $(($p:ident: $pt:ty))? $(@$flag:ident)? -> $acc:ty: $id:expr, |$x:ident| $lift:expr, |$l:ident, $r:ident| $combine:expr) => {
        $(#[$m])*
        #[derive(Clone, Copy)]
        struct $name<T>(std::marker::PhantomData<fn(T)>, $($pt)?);
        impl<T: $b> Monoid for $name<T> {
            $(const $flag: bool = true;)?
            type In = T;
            type Acc = $acc;
            #[inline(always)] fn identity(self) -> $acc { $id }
            #[inline(always)] fn lift(self, $x: T) -> $acc { $(let $p = self.1;)? $lift }
            #[inline(always)] fn combine(self, $l: $acc, $r: $acc) -> $acc { $combine }
        }
    };
}

/// Maximum, NaN if either is NaN. The first choice is one instruction, in which NaN gives `b`.
#[inline(always)]
#[allow(clippy::eq_op)] // only NaN differs from itself
fn max_nan<T: Element>(a: T, b: T) -> T {
    let larger = if a > b { a } else { b };
    if a != a { a } else { larger }
}

/// Minimum, NaN if either is NaN.
#[inline(always)]
#[allow(clippy::eq_op)]
fn min_nan<T: Element>(a: T, b: T) -> T {
    let smaller = if a < b { a } else { b };
    if a != a { a } else { smaller }
}

monoid!(Sum<Real> -> T: T::ZERO, |x| x, |a, b| a + b);
monoid!(Product<Real> -> T: T::ONE, |x| x, |a, b| a * b);
monoid!(SumInt<Element> @FEWER_LANES -> i64: 0, |x| x.to_i64(), |a, b| a.wrapping_add(b));
monoid!(ProductInt<Element> @RARE -> i64: 1, |x| x.to_i64(), |a, b| a.wrapping_mul(b));
monoid!(All<Element> -> u8: 1, |x| (x != T::from_i64(0)) as u8, |a, b| a & b);
monoid!(Any<Element> -> u8: 0, |x| (x != T::from_i64(0)) as u8, |a, b| a | b);
monoid!(Max<Real> -> T: -T::INFINITY, |x| x, |a, b| max_nan(a, b));
monoid!(MaxNumber<Real> -> T: -T::INFINITY, |x| x, |a, b| if b > a { b } else { a });
monoid!(NonZeros<Real> @RARE -> T: T::ZERO, |x| if x == T::ZERO { T::ZERO } else { T::ONE }, |a, b| a + b);
monoid!(SumOfMagnitudes<Real> -> T: T::ZERO, |x| x.abs(), |a, b| a + b);
monoid!(SumOfSquares<Real> -> T: T::ZERO, |x| x * x, |a, b| a + b);
monoid!(MaxMagnitude<Real> @RARE -> T: T::ZERO, |x| x.abs(), |a, b| max_nan(a, b));
monoid!(MinMagnitude<Real> @RARE -> T: T::INFINITY, |x| x.abs(), |a, b| min_nan(a, b));
monoid!(SumOfPowers<Math>(p: T) @RARE -> T: T::ZERO, |x| x.abs().m_pow(p), |a, b| a + b);

macro_rules! folded {
    ($($(#[$m:meta])* $name:ident<$b:ident> = $monoid:ident -> $out:ty;)*) => { $(
        $(#[$m])*
        pub fn $name<T: $b>(x: &[T], d: ReduceDims, out: &mut [$out]) {
            reduce(&ReduceOp($monoid(std::marker::PhantomData)), Elements::Slice(x), d, None, out)
        }
    )* };
}
folded! {
    /// The sum; 0 when empty.
    sum<Real> = Sum -> T;
    /// The product; 1 when empty.
    prod<Real> = Product -> T;
    /// The product in wrapping int64.
    prod_int<Element> = ProductInt -> i64;
    /// 1 if every element is non-zero or NaN.
    all<Element> = All -> u8;
    /// 1 if any element is non-zero or NaN.
    any<Element> = Any -> u8;
}

/// The p-norm: 0 counts non-zero elements, ±infinity gives the extreme absolute value.
pub fn norm_p<T: Math>(p: f64, x: &[T], d: ReduceDims, out: &mut [T]) {
    norm_of(p, Elements::Slice(x), d, None, out)
}

fn norm_of<T: Math>(p: f64, x: Elements<T>, d: ReduceDims, finish: Finish<T>, out: &mut [T]) {
    use std::marker::PhantomData as P;
    if p == 0.0 {
        reduce(&ReduceOp(NonZeros(P)), x, d, finish, out);
    } else if p == 1.0 {
        reduce(&ReduceOp(SumOfMagnitudes(P)), x, d, finish, out);
    } else if p == 2.0 {
        let root = |lane: usize, out: &mut [T]| {
            out.iter_mut().for_each(|v| *v = v.sqrt());
            finished(finish, lane, out);
        };
        reduce(&ReduceOp(SumOfSquares(P)), x, d, Some(&root), out);
    } else if p == f64::INFINITY {
        reduce(&ReduceOp(MaxMagnitude(P)), x, d, finish, out);
    } else if p == f64::NEG_INFINITY {
        reduce(&ReduceOp(MinMagnitude(P)), x, d, finish, out);
    } else {
        let root = |lane: usize, out: &mut [T]| {
            out.iter_mut().for_each(|v| *v = v.m_pow(T::of(1.0 / p)));
            finished(finish, lane, out);
        };
        reduce(&ReduceOp(SumOfPowers(P, T::of(p))), x, d, Some(&root), out);
    }
}

/// Number of independent accumulators of the sum of a row of at least as many elements.
pub const LANES: usize = 64;
/// As [`LANES`], of [`sum_pairs`] of shorter rows and of [`Monoid::FEWER_LANES`]. Of rows of [`LANES`] elements both give the same sum.
const FEW_LANES: usize = 32;

/// Sums one or two functions of corresponding elements of two rows: those of each [`RUN`] with [`LANES`] accumulators, and the
/// runs of longer rows in float64, as accumulators that grow with the row would round off its later elements.
#[inline(always)]
pub(crate) fn sum_pairs<const N: usize, T: Real>(a: &[T], b: &[T], f: impl Fn(T, T) -> [T; N]) -> [T; N] {
    const { assert!(N == 1 || N == 2) }
    if a.len() <= LANES {
        return sum_run::<N, FEW_LANES, T>(a, b, f);
    }
    // One after the other, as the accumulators of both would not be in the registers of AVX2. Not in a loop, in which each element
    // would choose the function.
    let mut sums = [sum_row(a, b, |a, b| f(a, b)[0]); N];
    if N > 1 {
        sums[N - 1] = sum_row(a, b, |a, b| f(a, b)[N - 1]);
    }
    sums
}

/// As [`sum_pairs`], of one function.
#[inline(always)]
fn sum_row<T: Real>(a: &[T], b: &[T], f: impl Fn(T, T) -> T) -> T {
    let run = |a, b| sum_run::<1, LANES, T>(a, b, |a, b| [f(a, b)])[0];
    if a.len() <= RUN {
        return run(a, b);
    }
    let mut total = 0.0;
    for (a, b) in a.chunks(RUN).zip(b.chunks(RUN)) {
        total += run(a, b).to_f64();
    }
    T::of(total)
}

/// As [`sum_pairs`], of rows of one run.
#[inline(always)]
fn sum_run<const N: usize, const LANES: usize, T: Real>(
    a: &[T],
    b: &[T],
    f: impl Fn(T, T) -> [T; N],
) -> [T; N] {
    let mut acc = [[T::ZERO; LANES]; N];
    let n = a.len().min(b.len());
    let mut at = 0;
    while at + LANES <= n {
        let (a, b) = (&a[at..at + LANES], &b[at..at + LANES]);
        for l in 0..LANES {
            let terms = f(a[l], b[l]);
            for k in 0..N {
                acc[k][l] += terms[k];
            }
        }
        at += LANES;
    }
    while at < n {
        let end = n.min(at + VECTOR);
        for (l, (&a, &b)) in a[at..end].iter().zip(&b[at..end]).enumerate() {
            let terms = f(a, b);
            for k in 0..N {
                acc[k][l] += terms[k];
            }
        }
        at = end;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for acc in &mut acc {
            for l in 0..width {
                acc[l] += acc[l + width];
            }
        }
        width /= 2;
    }
    let mut sums = [T::ZERO; N];
    for k in 0..N {
        sums[k] = acc[k][0];
    }
    sums
}

/// The maximum ignoring NaN, for callers in which a NaN propagates anyway.
#[inline(always)]
pub(crate) fn max_of<T: Real>(x: &[T]) -> T {
    fold(MaxNumber(std::marker::PhantomData), x)
}

/// The parts of rows of `inner` elements in `start..start + len`: see [`row_pieces`].
pub(crate) struct RowPieces {
    row: usize,
    col: usize,
    at: usize,
    len: usize,
    inner: usize,
}

/// Iterates over `(row, first column, range)` of the parts of rows of `inner` elements in `start..start + len`; ranges
/// are relative to `start`.
#[inline(always)]
pub(crate) fn row_pieces(start: usize, len: usize, inner: usize) -> RowPieces {
    RowPieces { row: start / inner, col: start % inner, at: 0, len, inner }
}

impl Iterator for RowPieces {
    type Item = (usize, usize, std::ops::Range<usize>);
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.len {
            return None;
        }
        let end = self.len.min(self.at + self.inner - self.col);
        let piece = (self.row, self.col, self.at..end);
        (self.row, self.col, self.at) = (self.row + 1, 0, end);
        Some(piece)
    }
}
