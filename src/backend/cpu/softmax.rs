//! Softmax and log-softmax along one dimension, and the parts of cross entropy.
//!
//! Note [Two ways through a softmax]: a row, or a strip of all or at least 128 columns, that fits in the caches is processed by one thread
//! in three passes: maximum, exponentials with their sum, scaling. Other lanes are first reduced to a sum of
//! exponentials, block by block and in parallel, followed by one streaming pass; computing each exponential twice is
//! cheaper than loading the array a third time.

#[cfg(test)]
mod tests;

use crate::backend::cpu::halves::in_float32;
use crate::backend::cpu::math::ExpNonpositive;
use crate::backend::cpu::microkernel::{CACHE_LINE, prefetch_outer};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::reduce::{chunk_of, exp_sums, max_of, row_pieces, rows_of, sum_pairs};
use crate::backend::cpu::scan::{strip_start, strips};
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::reduce::ReduceDims;
use crate::backend::softmax::Kind;
use crate::dtype::{Element, Real};
use crate::multiversion;

/// Maximum length of rows that are processed as a whole; they fit in the L2 cache.
const LONGEST_ROW: usize = 1 << 16;
/// Maximum number of columns processed together, so that their sums fit in the L1 cache.
const TILE: usize = 512;
/// Minimum number of columns processed together; arrays with fewer columns are streamed.
const NARROW: usize = 16;
/// Elements per strip of columns, which fits in the L2 cache.
const STRIP: usize = 1 << 16;
/// Minimum width of a strip of wider rows: narrower pieces of rows take longer to read three times than the array twice.
const LEAST_STRIP: usize = 128;

/// e^(x - max) of the elements of a row. Before each piece, the lines of this piece of the rows that begin at the addresses `ahead` are
/// prefetched: Note [Prefetched memory].
#[inline(always)]
fn exponentials<T: ExpNonpositive>(x: &[T], max: T, ahead: &[usize], out: &mut [T]) {
    const PIECE: usize = 64;
    let (pieces, rest) = x.as_chunks::<PIECE>();
    let (outs, rest_of_out) = out.as_chunks_mut::<PIECE>();
    for (k, (out, x)) in outs.iter_mut().zip(pieces).enumerate() {
        for first in ahead {
            let piece = k * size_of::<[T; PIECE]>();
            for line in (piece..piece + size_of::<[T; PIECE]>()).step_by(CACHE_LINE) {
                prefetch_outer(first.wrapping_add(line));
            }
        }
        for l in 0..PIECE {
            out[l] = (x[l] - max).exp_nonpositive();
        }
    }
    for (out, &x) in rest_of_out.iter_mut().zip(rest) {
        *out = (x - max).exp_nonpositive();
    }
}

/// The same rows of the memory that begins at these addresses.
#[inline(always)]
fn next_row<T>(ahead: &mut [usize], n: usize) {
    ahead.iter_mut().for_each(|first| *first = first.wrapping_add(n * size_of::<T>()));
}

multiversion! { version = IsaDispatch::worth::<T>();
    pub(super) fn softmax_rows[T: ExpNonpositive](x: &[T], n: usize, ahead: &mut [usize], out: &mut [T]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            exponentials(x, max_of(x), ahead, out);
            let [sum] = sum_pairs(out, out, |e, _| [e]);
            let scale = T::ONE / sum;
            for out in out.iter_mut() {
                *out = *out * scale;
            }
            next_row::<T>(ahead, n);
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    pub(super) fn log_softmax_rows[T: ExpNonpositive](x: &[T], n: usize, ahead: &mut [usize], out: &mut [T]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            let max = max_of(x);
            exponentials(x, max, ahead, out);
            let [sum] = sum_pairs(out, out, |e, _| [e]);
            let log = sum.m_log();
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x - max - log;
            }
            next_row::<T>(ahead, n);
        }
    }
}

/// The softmax or log-softmax of each row of `n` elements of a half type.
pub fn rows_of_halves<H: Element>(kind: Kind, x: &[H], n: usize, out: &mut [H]) {
    over_rows(n, out, |at, out| {
        in_float32([&x[at..at + out.len()]], n, out, |_, [x], out| match kind {
            Kind::Softmax => softmax_rows(x, n, &mut [], out),
            Kind::LogSoftmax => log_softmax_rows(x, n, &mut [], out),
        });
    });
}

/// The gradient of [`rows_of_halves`], from that of its result `y`.
pub fn rows_of_halves_backward<H: Element>(kind: Kind, [g, y]: [&[H]; 2], n: usize, out: &mut [H]) {
    over_rows(n, out, |at, out| {
        let range = at..at + out.len();
        in_float32([&g[range.clone()], &y[range]], n, out, |_, [g, y], out| match kind {
            Kind::Softmax => softmax_backward_rows(g, y, n, out),
            Kind::LogSoftmax => log_softmax_backward_rows(g, y, n, out),
        });
    });
}

/// The maximum of each of `max.len()` columns, ignoring NaN.
#[inline(always)]
fn max_of_columns<T: Real>(x: &[T], n: usize, inner: usize, max: &mut [T]) {
    max.fill(-T::INFINITY);
    for i in 0..n {
        for (max, &x) in max.iter_mut().zip(&x[i * inner..]) {
            *max = if x > *max { x } else { *max };
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The softmax of a strip of columns that starts at `x[0]`; `out` holds its rows.
    fn softmax_columns[T: ExpNonpositive](x: &[T], inner: usize, out: &mut [&mut [T]]) {
        let (mut max, mut sum) = ([T::ZERO; TILE], [T::ZERO; TILE]);
        let w = out[0].len().min(TILE);
        let (max, sum) = (&mut max[..w], &mut sum[..w]);
        max_of_columns(x, out.len(), inner, max);
        for (i, out) in out.iter_mut().enumerate() {
            for (((out, &x), &max), sum) in out.iter_mut().zip(&x[i * inner..]).zip(max.iter()).zip(sum.iter_mut()) {
                let e = (x - max).exp_nonpositive();
                *out = e;
                *sum += e;
            }
        }
        sum.iter_mut().for_each(|s| *s = T::ONE / *s);
        for out in out {
            for (out, &scale) in out.iter_mut().zip(sum.iter()) {
                *out = *out * scale;
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// As [`softmax_columns`], for log-softmax.
    fn log_softmax_columns[T: ExpNonpositive](x: &[T], inner: usize, out: &mut [&mut [T]]) {
        let (mut max, mut sum) = ([T::ZERO; TILE], [T::ZERO; TILE]);
        let w = out[0].len().min(TILE);
        let (max, sum) = (&mut max[..w], &mut sum[..w]);
        max_of_columns(x, out.len(), inner, max);
        for i in 0..out.len() {
            for ((&x, &max), sum) in x[i * inner..].iter().zip(max.iter()).zip(sum.iter_mut()) {
                *sum += (x - max).exp_nonpositive();
            }
        }
        sum.iter_mut().for_each(|s| *s = s.m_log());
        for (i, out) in out.iter_mut().enumerate() {
            for (((out, &x), &max), &log) in out.iter_mut().zip(&x[i * inner..]).zip(max.iter()).zip(sum.iter()) {
                *out = x - max - log;
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// `exp(x - max) * scale`, with a maximum and a scale per lane.
    fn finish_softmax[T: ExpNonpositive](x: &[T], d: ReduceDims, max: &[T], scale: &[T], start: usize, out: &mut [T]) {
        let x = &x[start..start + out.len()];
        if d.inner == 1 {
            for (row, _, at) in row_pieces(start, x.len(), d.n) {
                for (out, &x) in out[at.clone()].iter_mut().zip(&x[at]) {
                    *out = (x - max[row]).exp_nonpositive() * scale[row];
                }
            }
            return;
        }
        for (row, col, at) in row_pieces(start, x.len(), d.inner) {
            let lane = row / d.n * d.inner + col;
            let (max, scale) = (&max[lane..][..at.len()], &scale[lane..][..at.len()]);
            for (((out, &x), &max), &scale) in out[at.clone()].iter_mut().zip(&x[at]).zip(max).zip(scale) {
                *out = (x - max).exp_nonpositive() * scale;
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// `x - max - log`, with both per lane.
    fn finish_log_softmax[T: ExpNonpositive](x: &[T], d: ReduceDims, max: &[T], log: &[T], start: usize, out: &mut [T]) {
        let x = &x[start..start + out.len()];
        if d.inner == 1 {
            for (row, _, at) in row_pieces(start, x.len(), d.n) {
                for (out, &x) in out[at.clone()].iter_mut().zip(&x[at]) {
                    *out = x - max[row] - log[row];
                }
            }
            return;
        }
        for (row, col, at) in row_pieces(start, x.len(), d.inner) {
            let lane = row / d.n * d.inner + col;
            let (max, log) = (&max[lane..][..at.len()], &log[lane..][..at.len()]);
            for (((out, &x), &max), &log) in out[at.clone()].iter_mut().zip(&x[at]).zip(max).zip(log) {
                *out = x - max - log;
            }
        }
    }
}

/// Calls a kernel in parallel on chunks of whole rows.
fn over_rows<T: Send>(n: usize, out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    let chunk = rows_of(out.len(), n) * n;
    for_chunks_mut(out, chunk, |i, out| f(i * chunk, out));
}

/// Calls `f` in parallel on strips of columns, given by their first element in `x` and their rows in `out`.
fn over_strips<T: Real>(x: &[T], d: ReduceDims, out: &mut [T], f: impl Fn(&[T], &mut [&mut [T]]) + Sync) {
    let width = (STRIP / d.n).clamp(NARROW, TILE);
    let mut jobs = strips(out, d, width);
    let grain = rows_of(x.len(), d.n * d.inner.min(width));
    for_chunks_mut(&mut jobs, grain, |i, jobs| {
        for (k, rows) in jobs.iter_mut().enumerate() {
            let (start, col) = strip_start(i * grain + k, d, width);
            f(&x[start + col..], rows);
        }
    });
}

fn rows_fit(d: ReduceDims) -> bool {
    d.inner == 1 && d.n <= LONGEST_ROW
}

fn strips_fit(d: ReduceDims) -> bool {
    d.inner >= NARROW && d.n * d.inner.min(LEAST_STRIP) <= STRIP
}

/// `v`, or NaN if the maximum is infinite, when no softmax is defined.
fn unless_infinite<T: Real>(max: T, v: T) -> T {
    if max.abs() == T::INFINITY { T::NAN } else { v }
}

/// `exp(x) / sum(exp(x))` along `d`. A lane that is all minus infinity, or contains NaN or infinity, gives NaN.
pub fn softmax<T: ExpNonpositive>(x: &[T], d: ReduceDims, out: &mut [T]) {
    if d.is_empty() {
        return;
    }
    if rows_fit(d) {
        return over_rows(d.n, out, |at, out| softmax_rows(&x[at..at + out.len()], d.n, &mut [], out));
    }
    if strips_fit(d) {
        return over_strips(x, d, out, |x, out| softmax_columns(x, d.inner, out));
    }
    let sums = exp_sums(x, d);
    let max: Vec<T> = sums.iter().map(|e| e.max).collect();
    let scale: Vec<T> = sums.iter().map(|e| unless_infinite(e.max, T::ONE / e.scaled)).collect();
    let chunk = chunk_of(out.len());
    for_chunks_mut(out, chunk, |i, out| finish_softmax(x, d, &max, &scale, i * chunk, out));
}

/// `x - log(sum(exp(x)))` along `d`.
pub fn log_softmax<T: ExpNonpositive>(x: &[T], d: ReduceDims, out: &mut [T]) {
    if d.is_empty() {
        return;
    }
    if rows_fit(d) {
        return over_rows(d.n, out, |at, out| log_softmax_rows(&x[at..at + out.len()], d.n, &mut [], out));
    }
    if strips_fit(d) {
        return over_strips(x, d, out, |x, out| log_softmax_columns(x, d.inner, out));
    }
    let sums = exp_sums(x, d);
    let max: Vec<T> = sums.iter().map(|e| e.max).collect();
    let log: Vec<T> = sums.iter().map(|e| unless_infinite(e.max, e.scaled.m_log())).collect();
    let chunk = chunk_of(out.len());
    for_chunks_mut(out, chunk, |i, out| finish_log_softmax(x, d, &max, &log, i * chunk, out));
}

/// The differences between the two backward passes, given the saved output `y` and its gradient `g`.
trait Backward<T>: Sync {
    /// The term that is summed along the lane.
    fn term(g: T, y: T) -> T;
    /// The gradient of the input, given that sum.
    fn grad(g: T, y: T, sum: T) -> T;
}

struct OfSoftmax;
struct OfLogSoftmax;

impl<T: ExpNonpositive> Backward<T> for OfSoftmax {
    #[inline(always)]
    fn term(g: T, y: T) -> T {
        g * y
    }
    #[inline(always)]
    fn grad(g: T, y: T, sum: T) -> T {
        (g - sum) * y
    }
}

impl<T: ExpNonpositive> Backward<T> for OfLogSoftmax {
    #[inline(always)]
    fn term(g: T, _: T) -> T {
        g
    }
    #[inline(always)]
    fn grad(g: T, y: T, sum: T) -> T {
        g - y.exp_nonpositive() * sum
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn backward_rows[T: ExpNonpositive, B: Backward<T>](_b: &B, g: &[T], y: &[T], n: usize, dx: &mut [T]) {
        for ((g, y), dx) in g.chunks_exact(n).zip(y.chunks_exact(n)).zip(dx.chunks_exact_mut(n)) {
            let [sum] = sum_pairs(g, y, |g, y| [B::term(g, y)]);
            for ((dx, &g), &y) in dx.iter_mut().zip(g).zip(y) {
                *dx = B::grad(g, y, sum);
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The sums of the terms for columns `col..col + sums.len()`, four rows at a time.
    fn backward_sums[T: ExpNonpositive, B: Backward<T>](_b: &B, g: &[T], y: &[T], inner: usize, col: usize, sums: &mut [T]) {
        let w = sums.len();
        sums.fill(T::ZERO);
        for (g, y) in g.chunks(4 * inner).zip(y.chunks(4 * inner)) {
            let row = |k: usize| (&g[k * inner + col..][..w], &y[k * inner + col..][..w]);
            if g.len() == 4 * inner {
                let ((ga, ya), (gb, yb), (gc, yc), (gd, yd)) = (row(0), row(1), row(2), row(3));
                for j in 0..w {
                    let (ab, cd) = (B::term(ga[j], ya[j]) + B::term(gb[j], yb[j]), B::term(gc[j], yc[j]) + B::term(gd[j], yd[j]));
                    sums[j] += ab + cd;
                }
            } else {
                for k in 0..g.len() / inner {
                    let (g, y) = row(k);
                    for j in 0..w {
                        sums[j] += B::term(g[j], y[j]);
                    }
                }
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn backward_finish[T: ExpNonpositive, B: Backward<T>](_b: &B, g: &[T], y: &[T], d: ReduceDims, sums: &[T], start: usize, dx: &mut [T]) {
        let (g, y) = (&g[start..start + dx.len()], &y[start..start + dx.len()]);
        for (row, col, at) in row_pieces(start, g.len(), d.inner) {
            let sums = &sums[row / d.n * d.inner + col..][..at.len()];
            for (((dx, &g), &y), &sum) in dx[at.clone()].iter_mut().zip(&g[at.clone()]).zip(&y[at]).zip(sums) {
                *dx = B::grad(g, y, sum);
            }
        }
    }
}

fn backward<T: ExpNonpositive, B: Backward<T>>(b: &B, g: &[T], y: &[T], d: ReduceDims, dx: &mut [T]) {
    if d.is_empty() {
        return;
    }
    if d.inner == 1 {
        return over_rows(d.n, dx, |at, dx| {
            backward_rows(b, &g[at..at + dx.len()], &y[at..at + dx.len()], d.n, dx);
        });
    }
    let mut sums = vec![T::ZERO; d.lanes()];
    let tiles = d.inner.div_ceil(TILE);
    let mut jobs: Vec<_> = sums.chunks_mut(d.inner).flat_map(|row| row.chunks_mut(TILE)).collect();
    let grain = rows_of(g.len(), d.n * d.inner.min(TILE));
    for_chunks_mut(&mut jobs, grain, |i, jobs| {
        for (k, sums) in jobs.iter_mut().enumerate() {
            let (outer, tile) = ((i * grain + k) / tiles, (i * grain + k) % tiles);
            let block = outer * d.n * d.inner..(outer + 1) * d.n * d.inner;
            backward_sums(b, &g[block.clone()], &y[block], d.inner, tile * TILE, sums);
        }
    });
    let chunk = chunk_of(dx.len());
    for_chunks_mut(dx, chunk, |i, dx| backward_finish(b, g, y, d, &sums, i * chunk, dx));
}

/// The gradient of the input of [`softmax`], from its output `y` and the gradient `g` of the output.
pub fn softmax_backward<T: ExpNonpositive>(g: &[T], y: &[T], d: ReduceDims, dx: &mut [T]) {
    backward(&OfSoftmax, g, y, d, dx);
}

/// The gradient of the input of [`log_softmax`], from its output `y` and the gradient `g` of the output.
pub fn log_softmax_backward<T: ExpNonpositive>(g: &[T], y: &[T], d: ReduceDims, dx: &mut [T]) {
    backward(&OfLogSoftmax, g, y, d, dx);
}

/// [`softmax_backward`] of whole rows, on this thread.
pub(super) fn softmax_backward_rows<T: ExpNonpositive>(g: &[T], y: &[T], n: usize, dx: &mut [T]) {
    backward_rows(&OfSoftmax, g, y, n, dx);
}

/// [`log_softmax_backward`] of whole rows, on this thread.
pub(super) fn log_softmax_backward_rows<T: ExpNonpositive>(g: &[T], y: &[T], n: usize, dx: &mut [T]) {
    backward_rows(&OfLogSoftmax, g, y, n, dx);
}

/// The targets of a negative log likelihood: a class per position, class weights, and the ignored class.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a, T> {
    pub class: &'a [i64],
    pub weight: Option<&'a [T]>,
    pub ignore_index: i64,
}

impl<T: Real> Targets<'_, T> {
    /// Class and weight at a position, None if it is ignored; `Err` for a class outside `0..c`.
    #[inline(always)]
    fn at(&self, position: usize, c: usize) -> Result<Option<(usize, T)>, i64> {
        let class = self.class[position];
        if class == self.ignore_index {
            return Ok(None);
        }
        if class < 0 || class as u64 >= c as u64 {
            return Err(class);
        }
        Ok(Some((class as usize, self.weight.map_or(T::ONE, |w| w[class as usize]))))
    }
}

/// The negative log likelihoods `[n, inner]` of log-probabilities `[n, classes, inner]`; 0 where ignored. `logp` returns the element at a
/// row-major position.
///
/// Returns the total weight, by which the caller divides a mean. `Err` contains the first class out of range.
pub fn nll_forward<T: Real>(
    logp: impl Fn(usize) -> T,
    d: ReduceDims,
    targets: Targets<T>,
    loss: &mut [T],
) -> Result<T, i64> {
    let mut total = 0.0;
    for (position, loss) in loss.iter_mut().enumerate() {
        *loss = T::ZERO;
        if let Some((class, weight)) = targets.at(position, d.n)? {
            let (outer, inner) = (position / d.inner, position % d.inner);
            *loss = -weight * logp((outer * d.n + class) * d.inner + inner);
            total += weight.to_f64();
        }
    }
    Ok(T::of(total))
}

/// The gradient at a position: `grad` holds one value for all positions, or one per position.
#[inline(always)]
fn grad_at<T: Real>(grad: &[T], position: usize) -> T {
    if grad.len() == 1 { grad[0] } else { grad[position] }
}

/// The gradient of `logp` in [`nll_forward`]; `grad` holds one value for all losses (for a sum, or for a mean already
/// divided by the total weight) or one per loss.
pub fn nll_backward<T: Real>(
    grad: &[T],
    d: ReduceDims,
    targets: Targets<T>,
    dlogp: &mut [T],
) -> Result<(), i64> {
    dlogp.fill(T::ZERO);
    for position in 0..d.lanes() {
        if let Some((class, weight)) = targets.at(position, d.n)? {
            let (outer, inner) = (position / d.inner, position % d.inner);
            dlogp[(outer * d.n + class) * d.inner + inner] = -weight * grad_at(grad, position);
        }
    }
    Ok(())
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// `exp(logp) * scale` with a scale per lane.
    fn scaled_exp[T: ExpNonpositive](logp: &[T], d: ReduceDims, scale: &[T], start: usize, dx: &mut [T]) {
        let y = &logp[start..start + dx.len()];
        if d.inner == 1 {
            for (row, _, at) in row_pieces(start, y.len(), d.n) {
                for (dx, &y) in dx[at.clone()].iter_mut().zip(&y[at]) {
                    *dx = y.exp_nonpositive() * scale[row];
                }
            }
            return;
        }
        for (row, col, at) in row_pieces(start, y.len(), d.inner) {
            let scale = &scale[row / d.n * d.inner + col..][..at.len()];
            for ((dx, &y), &scale) in dx[at.clone()].iter_mut().zip(&y[at]).zip(scale) {
                *dx = y.exp_nonpositive() * scale;
            }
        }
    }
}

/// The gradient of the logits through both [`nll_forward`] and [`log_softmax`]: `(softmax - one_hot) * weight * grad`,
/// in one pass over `logp`. `grad` as in [`nll_backward`].
pub fn cross_entropy_backward<T: ExpNonpositive>(
    grad: &[T],
    logp: &[T],
    d: ReduceDims,
    targets: Targets<T>,
    dx: &mut [T],
) -> Result<(), i64> {
    if d.is_empty() {
        return Ok(());
    }
    let scale = scales(grad, d, &targets)?;
    let chunk = chunk_of(dx.len());
    for_chunks_mut(dx, chunk, |i, dx| scaled_exp(logp, d, &scale, i * chunk, dx));
    for (position, &scale) in scale.iter().enumerate() {
        if let Some((class, _)) = targets.at(position, d.n)? {
            let (outer, inner) = (position / d.inner, position % d.inner);
            let dx = &mut dx[(outer * d.n + class) * d.inner + inner];
            *dx = *dx - scale;
        }
    }
    Ok(())
}

/// The factor of the softmax at each position.
fn scales<T: Real>(grad: &[T], d: ReduceDims, targets: &Targets<T>) -> Result<Vec<T>, i64> {
    let of = |position| {
        let target = targets.at(position, d.n)?;
        Ok(target.map_or(T::ZERO, |(_, weight)| weight * grad_at(grad, position)))
    };
    (0..d.lanes()).map(of).collect()
}

/// As [`cross_entropy_backward`], for rows of a half type.
pub fn cross_entropy_backward_of_halves<H: Element>(
    grad: &[f32],
    logp: &[H],
    d: ReduceDims,
    targets: Targets<f32>,
    dx: &mut [H],
) -> Result<(), i64> {
    let scale = scales(grad, d, &targets)?;
    over_rows(d.n, dx, |at, dx| {
        let first = at / d.n;
        in_float32([&logp[at..at + dx.len()]], d.n, dx, |rows, [logp], dx| {
            let scale = &scale[first + rows.start..first + rows.end];
            scaled_exp(logp, ReduceDims::rows(scale.len(), d.n), scale, 0, dx);
            for ((position, dx), &scale) in (first + rows.start..).zip(dx.chunks_mut(d.n)).zip(scale) {
                if let Ok(Some((class, _))) = targets.at(position, d.n) {
                    dx[class] -= scale;
                }
            }
        });
    });
    Ok(())
}
