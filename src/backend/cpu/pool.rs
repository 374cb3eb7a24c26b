//! Pooling and nearest-neighbor interpolation over `planes` contiguous volumes (images times channels).
//!
//! Lower ranks fill the leading spatial dimensions with size 1. Work is divided by planes, and one thread computes a
//! plane, so that the order of sums is fixed. The outer loops run over the taps of a window and the inner loop along a
//! row of results, which the compiler vectorizes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::backend::cpu::parallel::{for_chunks_mut, for_chunks_mut2};
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::plane::{Divisor, PoolShape, ResizeShape, nearest_sources, volume};
use crate::dtype::Real;
use crate::error::Result;
use crate::{ensure, multiversion};
pub use weighted::{weighted, weighted_backward};

mod weighted;

/// Planes per work item, given the number of elements that each accesses.
fn planes_per_piece(elements: usize) -> usize {
    ((1 << 15) / elements.max(1)).max(1)
}

/// Calls `f(plane, chunk)` in parallel for each plane of `out`, of `len` elements.
fn for_planes<T: Real>(out: &mut [T], len: usize, cost: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let each = planes_per_piece(cost);
    for_chunks_mut(out, each * len.max(1), |piece, out| {
        for (i, out) in out.chunks_mut(len.max(1)).enumerate() {
            f(piece * each + i, out);
        }
    });
}

/// As [`for_planes`], with the corresponding plane of indices.
fn for_planes2<T: Real>(
    out: &mut [T],
    indices: &mut [i64],
    len: usize,
    cost: usize,
    f: impl Fn(usize, &mut [T], &mut [i64]) + Sync,
) {
    let each = planes_per_piece(cost);
    let chunk = each * len.max(1);
    for_chunks_mut2(out, chunk, indices, chunk, |piece, out, indices| {
        let planes = out.chunks_mut(len.max(1)).zip(indices.chunks_mut(len.max(1)));
        for (i, (out, indices)) in planes.enumerate() {
            f(piece * each + i, out, indices);
        }
    });
}

impl PoolShape {
    /// The input coordinate that tap `k` of result `o` reads along axis `a`; None for padding.
    #[inline(always)]
    fn read(&self, a: usize, o: usize, k: usize) -> Option<usize> {
        let i = (o * self.stride[a] + k * self.dilation[a]).wrapping_sub(self.padding[a]);
        (i < self.input[a]).then_some(i)
    }

    /// The first input coordinate that result `o` reads along axis `a`; 0 if it reads padding only.
    fn first(&self, a: usize, o: usize) -> usize {
        (0..self.kernel[a]).find_map(|k| self.read(a, o, k)).unwrap_or(0)
    }

    /// The results along the last axis for which tap `k` is not padding, and the input coordinate of the first of
    /// them.
    #[inline(always)]
    fn columns(&self, k: usize) -> (Range<usize>, usize) {
        let (stride, shift, pad) = (self.stride[2], k * self.dilation[2], self.padding[2]);
        let first_at =
            |coordinate: usize| coordinate.saturating_sub(shift).div_ceil(stride).min(self.output[2]);
        let range = first_at(pad)..first_at(pad + self.input[2]);
        let first = (range.start * stride + shift).saturating_sub(pad);
        (range, first)
    }

    fn windows(&self) -> usize {
        volume(self.output) * volume(self.kernel)
    }

    /// Whether windows are of two columns in one or two rows, next to each other and without padding.
    fn is_of_pairs(&self) -> bool {
        let tall = self.kernel[1];
        let adjacent = (1..3).all(|a| self.output[a] == self.input[a] / self.kernel[a]);
        let pairs = PoolShape {
            kernel: [1, tall, 2],
            stride: [1, tall, 2],
            padding: [0; 3],
            dilation: [1; 3],
            ..*self
        };
        matches!(tall, 1 | 2) && *self == pairs && adjacent && self.input[0] == self.output[0]
    }
}

/// Whether `v` replaces `best`: if it is greater or NaN.
#[inline(always)]
fn beats<T: Real>(v: T, best: T) -> bool {
    (v > best) | v.is_nan()
}

/// The maximum of each window and its index in the plane: the first among equals, the last among NaNs.
pub fn max_pool<T: Real>(s: &PoolShape, x: &[T], out: &mut [T], indices: &mut [i64]) {
    let (input, output) = (volume(s.input), volume(s.output));
    if s.is_of_pairs() {
        return for_planes2(out, indices, output, s.windows(), |p, out, indices| {
            max_of_pairs_plane(s, &x[p * input..][..input], out, indices);
        });
    }
    let first_columns: Vec<usize> = (0..s.output[2]).map(|w| s.first(2, w)).collect();
    for_planes2(out, indices, output, s.windows(), |p, out, indices| {
        max_plane(s, &x[p * input..][..input], &first_columns, out, indices);
    });
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn max_plane[T: Real](s: &PoolShape, x: &[T], first_columns: &[usize], out: &mut [T], indices: &mut [i64]) {
        let [_, height, width] = s.input;
        let rows = out.chunks_exact_mut(s.output[2]).zip(indices.chunks_exact_mut(s.output[2]));
        for (row, (out, indices)) in rows.enumerate() {
            let (od, oh) = (row / s.output[1], row % s.output[1]);
            let start = (s.first(0, od) * height + s.first(1, oh)) * width;
            out.fill(T::ZERO - T::INFINITY);
            for (index, &column) in indices.iter_mut().zip(first_columns) {
                *index = (start + column) as i64;
            }
            for d in (0..s.kernel[0]).filter_map(|k| s.read(0, od, k)) {
                for h in (0..s.kernel[1]).filter_map(|k| s.read(1, oh, k)) {
                    let start = (d * height + h) * width;
                    for k in 0..s.kernel[2] {
                        let (columns, from) = s.columns(k);
                        let (out, indices) = (&mut out[columns.clone()], &mut indices[columns]);
                        max_row(&x[start..start + width], from, s.stride[2], start as i64, out, indices);
                    }
                }
            }
        }
    }
}

/// Updates the maxima with elements `from`, `from + stride`, ... of an input row that starts at index `start`.
#[inline(always)]
fn max_row<T: Real>(row: &[T], from: usize, stride: usize, start: i64, out: &mut [T], indices: &mut [i64]) {
    if out.is_empty() {
        return;
    }
    let row = &row[from..];
    let start = start + from as i64;
    // Common strides are compile-time constants, which allows the loop to be vectorized.
    match stride {
        1 => max_strided::<T, 1>(row, start, out, indices),
        2 => max_strided::<T, 2>(row, start, out, indices),
        _ => {
            let results = out.iter_mut().zip(indices);
            for (i, ((out, index), &v)) in results.zip(row.iter().step_by(stride)).enumerate() {
                if beats(v, *out) {
                    (*out, *index) = (v, start + (i * stride) as i64);
                }
            }
        }
    }
}

#[inline(always)]
fn max_strided<T: Real, const STRIDE: usize>(row: &[T], start: i64, out: &mut [T], indices: &mut [i64]) {
    let n = out.len();
    let (row, indices) = (&row[..(n - 1) * STRIDE + 1], &mut indices[..n]);
    for i in 0..n {
        let v = row[i * STRIDE];
        let take = beats(v, out[i]);
        out[i] = if take { v } else { out[i] };
        indices[i] = if take { start + (i * STRIDE) as i64 } else { indices[i] };
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Adjacent windows of two columns: every input element is read once.
    fn max_of_pairs_plane[T: Real](s: &PoolShape, x: &[T], out: &mut [T], indices: &mut [i64]) {
        let ([_, height, width], columns, tall) = (s.input, s.output[2], s.kernel[1]);
        let rows = out.chunks_exact_mut(columns).zip(indices.chunks_exact_mut(columns));
        for (row, (out, indices)) in rows.enumerate() {
            let start = (row / s.output[1] * height + row % s.output[1] * tall) * width;
            let pairs = |start: usize| &x[start..][..2 * columns].as_chunks::<2>().0[..columns];
            let upper = pairs(start);
            if tall == 1 {
                for i in 0..columns {
                    let (best, index) = greatest(upper[i][0], [(upper[i][1], 1)]);
                    (out[i], indices[i]) = (best, (start + 2 * i + index) as i64);
                }
            } else {
                let lower = pairs(start + width);
                for i in 0..columns {
                    let others = [(upper[i][1], 1), (lower[i][0], width), (lower[i][1], width + 1)];
                    let (best, index) = greatest(upper[i][0], others);
                    (out[i], indices[i]) = (best, (start + 2 * i + index) as i64);
                }
            }
        }
    }
}

/// The greatest of the first, at offset 0, and others at theirs, with its offset.
#[inline(always)]
fn greatest<T: Real, const N: usize>(first: T, others: [(T, usize); N]) -> (T, usize) {
    others.into_iter().fold((first, 0), |(best, at), (v, offset)| {
        let take = beats(v, best);
        (if take { v } else { best }, if take { offset } else { at })
    })
}

/// The input gradient of max pooling: each output gradient is added at its index. `input` and `output` are the numbers
/// of elements per plane.
///
/// # Errors
/// `IndexError` for an index beyond the plane, which a program can have written through shared memory.
pub fn max_pool_backward<T: Real>(
    input: usize,
    output: usize,
    grad_out: &[T],
    indices: &[i64],
    grad_x: &mut [T],
) -> Result<()> {
    let beyond = AtomicBool::new(false);
    for_planes(grad_x, input, input + output, |p, grad_x| {
        grad_x.fill(T::ZERO);
        let plane = p * output..(p + 1) * output;
        for (&g, &index) in grad_out[plane.clone()].iter().zip(&indices[plane]) {
            match grad_x.get_mut(index as usize) {
                Some(sum) => *sum += g,
                None => beyond.store(true, Relaxed),
            }
        }
    });
    expect_within(beyond, input)
}

/// The adjoint of [`max_pool_backward`]: the element of each window at its index.
///
/// # Errors
/// As [`max_pool_backward`].
pub fn pick<T: Real>(input: usize, output: usize, x: &[T], indices: &[i64], out: &mut [T]) -> Result<()> {
    let beyond = AtomicBool::new(false);
    for_chunks_mut(out, output.max(1), |p, out| {
        let (x, indices) = (&x[p * input..][..input], &indices[p * output..]);
        for (o, &index) in out.iter_mut().zip(indices) {
            match x.get(index as usize) {
                Some(x) => *o = *x,
                None => beyond.store(true, Relaxed),
            }
        }
    });
    expect_within(beyond, input)
}

fn expect_within(beyond: AtomicBool, input: usize) -> Result<()> {
    ensure!(
        !beyond.into_inner(),
        Index,
        "an index of pooling is out of range for a plane of {input} elements"
    );
    Ok(())
}

impl Divisor {
    /// The divisors of all results of a plane, as a product over the axes times a common factor.
    fn of(self, s: &PoolShape) -> Divisors {
        let axis = |a: usize| {
            let count = |o: usize| {
                let (start, pad) = (o * s.stride[a], s.padding[a]);
                match self {
                    Divisor::Fixed(_) => 1,
                    Divisor::WithPadding => {
                        (start + s.kernel[a]).min(s.input[a] + 2 * pad).saturating_sub(start)
                    }
                    Divisor::WithoutPadding => {
                        (0..s.kernel[a]).filter(|&k| s.read(a, o, k).is_some()).count()
                    }
                }
            };
            (0..s.output[a]).map(|o| count(o).max(1) as f64).collect()
        };
        let factor = if let Divisor::Fixed(n) = self { n as f64 } else { 1.0 };
        Divisors { factor, axes: [axis(0), axis(1), axis(2)] }
    }
}

struct Divisors {
    factor: f64,
    axes: [Vec<f64>; 3],
}

impl Divisors {
    /// Divides row `row` of the results; rows are numbered over depth and height.
    #[inline(always)]
    fn divide<T: Real>(&self, row: usize, values: &mut [T]) {
        let [depth, height, width] = &self.axes;
        let common = self.factor * depth[row / height.len()] * height[row % height.len()];
        for (v, &count) in values.iter_mut().zip(width) {
            *v = *v / T::of(common * count);
        }
    }
}

/// The mean of each window. `s.dilation` is 1.
pub fn avg_pool<T: Real>(s: &PoolShape, divisor: Divisor, x: &[T], out: &mut [T]) {
    let (input, output) = (volume(s.input), volume(s.output));
    let divisors = divisor.of(s);
    for_planes(out, output, s.windows(), |p, out| avg_plane(s, &divisors, &x[p * input..][..input], out));
}

/// The input gradient of [`avg_pool`].
pub fn avg_pool_backward<T: Real>(s: &PoolShape, divisor: Divisor, grad_out: &[T], grad_x: &mut [T]) {
    let (input, output) = (volume(s.input), volume(s.output));
    let divisors = divisor.of(s);
    for_planes(grad_x, input, s.windows(), |p, grad_x| {
        avg_plane_backward(s, &divisors, &grad_out[p * output..][..output], grad_x);
    });
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn avg_plane[T: Real](s: &PoolShape, divisors: &Divisors, x: &[T], out: &mut [T]) {
        let [_, height, width] = s.input;
        for (row, out) in out.chunks_exact_mut(s.output[2]).enumerate() {
            let (od, oh) = (row / s.output[1], row % s.output[1]);
            out.fill(T::ZERO);
            for d in (0..s.kernel[0]).filter_map(|k| s.read(0, od, k)) {
                for h in (0..s.kernel[1]).filter_map(|k| s.read(1, oh, k)) {
                    let x = &x[(d * height + h) * width..][..width];
                    for k in 0..s.kernel[2] {
                        let (columns, from) = s.columns(k);
                        let out = &mut out[columns];
                        if !out.is_empty() {
                            match s.stride[2] {
                                1 => add_strided::<T, 1>(&x[from..], out),
                                2 => add_strided::<T, 2>(&x[from..], out),
                                stride => out.iter_mut().zip(x[from..].iter().step_by(stride)).for_each(|(o, &v)| *o += v),
                            }
                        }
                    }
                }
            }
            divisors.divide(row, out);
        }
    }
}

#[inline(always)]
fn add_strided<T: Real, const STRIDE: usize>(row: &[T], out: &mut [T]) {
    let n = out.len();
    let row = &row[..(n - 1) * STRIDE + 1];
    for i in 0..n {
        out[i] += row[i * STRIDE];
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn avg_plane_backward[T: Real](s: &PoolShape, divisors: &Divisors, grad_out: &[T], grad_x: &mut [T]) {
        let [_, height, width] = s.input;
        let mut shares = vec![T::ZERO; s.output[2]];
        grad_x.fill(T::ZERO);
        for (row, grad_out) in grad_out.chunks_exact(s.output[2].max(1)).enumerate() {
            let (od, oh) = (row / s.output[1], row % s.output[1]);
            shares.copy_from_slice(grad_out);
            divisors.divide(row, &mut shares);
            for d in (0..s.kernel[0]).filter_map(|k| s.read(0, od, k)) {
                for h in (0..s.kernel[1]).filter_map(|k| s.read(1, oh, k)) {
                    let grad_x = &mut grad_x[(d * height + h) * width..][..width];
                    for k in 0..s.kernel[2] {
                        let (columns, from) = s.columns(k);
                        let shares = &shares[columns];
                        if !shares.is_empty() {
                            let reads = grad_x[from..].iter_mut().step_by(s.stride[2]);
                            reads.zip(shares).for_each(|(x, &g)| *x += g);
                        }
                    }
                }
            }
        }
    }
}

impl ResizeShape {
    /// The input range of result `o` along axis `a`: from floor(o·in/out) to ceil((o + 1)·in/out).
    #[inline(always)]
    fn window(&self, a: usize, o: usize) -> Range<usize> {
        let (input, output) = (self.input[a], self.output[a]);
        o * input / output..((o + 1) * input).div_ceil(output)
    }

    /// Calls `f(result, windows)` for all results of a plane in order.
    #[inline(always)]
    fn for_windows(&self, mut f: impl FnMut(usize, [Range<usize>; 3])) {
        let mut result = 0;
        for d in 0..self.output[0] {
            for h in 0..self.output[1] {
                for w in 0..self.output[2] {
                    f(result, [self.window(0, d), self.window(1, h), self.window(2, w)]);
                    result += 1;
                }
            }
        }
    }

    /// Calls `f` with the contiguous runs of a window in a plane, in order; windows of full width give one run per
    /// slice.
    #[inline(always)]
    fn for_runs(&self, windows: &[Range<usize>; 3], mut f: impl FnMut(Range<usize>)) {
        let [depth, height, width] = windows;
        let pitch = self.input[2];
        for d in depth.clone() {
            let rows = d * self.input[1] + height.start..d * self.input[1] + height.end;
            if width.len() == pitch {
                f(rows.start * pitch..rows.end * pitch);
            } else {
                rows.for_each(|row| f(row * pitch + width.start..row * pitch + width.end));
            }
        }
    }
}

/// Divides by the length of the window along each axis in turn, which gives PyTorch's rounding.
#[inline(always)]
fn share<T: Real>(v: T, windows: &[Range<usize>; 3]) -> T {
    windows.iter().fold(v, |v, window| v / T::of(window.len() as f64))
}

/// The mean of each window.
pub fn adaptive_avg_pool<T: Real>(s: &ResizeShape, x: &[T], out: &mut [T]) {
    let (input, output) = (volume(s.input), volume(s.output));
    for_planes(out, output, input + output, |p, out| {
        let x = &x[p * input..][..input];
        s.for_windows(|result, windows| {
            let mut sum = T::ZERO;
            s.for_runs(&windows, |run| sum = sum_run(&x[run], sum));
            out[result] = share(sum, &windows);
        });
    });
}

/// Adds a run to `sum`: sequentially if it is short, with sixteen accumulators if it is long.
#[inline(always)]
fn sum_run<T: Real>(run: &[T], sum: T) -> T {
    let (chunks, rest) = run.as_chunks::<16>();
    let mut sums = [T::ZERO; 16];
    for chunk in chunks {
        for l in 0..16 {
            sums[l] += chunk[l];
        }
    }
    let long = if chunks.is_empty() { sum } else { sum + sums.iter().copied().sum() };
    rest.iter().fold(long, |sum, &v| sum + v)
}

/// The input gradient of [`adaptive_avg_pool`].
pub fn adaptive_avg_pool_backward<T: Real>(s: &ResizeShape, grad_out: &[T], grad_x: &mut [T]) {
    let (input, output) = (volume(s.input), volume(s.output));
    for_planes(grad_x, input, input + output, |p, grad_x| {
        let grad_out = &grad_out[p * output..][..output];
        grad_x.fill(T::ZERO);
        s.for_windows(|result, windows| {
            let g = share(grad_out[result], &windows);
            s.for_runs(&windows, |run| grad_x[run].iter_mut().for_each(|x| *x += g));
        });
    });
}

/// The maximum of each window and its index in the plane, by the rules of [`max_pool`]. The backward pass is
/// [`max_pool_backward`].
pub fn adaptive_max_pool<T: Real>(s: &ResizeShape, x: &[T], out: &mut [T], indices: &mut [i64]) {
    let (input, output) = (volume(s.input), volume(s.output));
    for_planes2(out, indices, output, input + output, |p, out, indices| {
        let x = &x[p * input..][..input];
        s.for_windows(|result, windows| {
            let [d, h, w] = [windows[0].start, windows[1].start, windows[2].start];
            let (mut best, mut index) = (T::ZERO - T::INFINITY, (d * s.input[1] + h) * s.input[2] + w);
            s.for_runs(&windows, |run| {
                for i in run {
                    if beats(x[i], best) {
                        (best, index) = (x[i], i);
                    }
                }
            });
            (out[result], indices[result]) = (best, index as i64);
        });
    });
}

/// Resizes each plane by copying the nearest element.
pub fn interpolate_nearest<T: Real>(s: &ResizeShape, scales: [Option<f64>; 3], x: &[T], out: &mut [T]) {
    let (input, output) = (volume(s.input), volume(s.output));
    if output == 0 {
        return;
    }
    let sources = [0, 1, 2].map(|a| nearest_sources::<T>(s.input[a], s.output[a], scales[a]));
    for_planes(out, output, output, |p, out| {
        let x = &x[p * input..][..input];
        let mut copied: Option<(usize, usize)> = None;
        for row in 0..s.output[0] * s.output[1] {
            let from =
                (sources[0][row / s.output[1]] * s.input[1] + sources[1][row % s.output[1]]) * s.input[2];
            let at = row * s.output[2];
            match copied {
                // Adjacent results often read the same input row: the second is copied from the first.
                Some((source, done)) if source == from => out.copy_within(done..done + s.output[2], at),
                _ => {
                    let x = &x[from..from + s.input[2]];
                    for (o, &w) in out[at..at + s.output[2]].iter_mut().zip(&sources[2]) {
                        *o = x[w];
                    }
                    copied = Some((from, at));
                }
            }
        }
    });
}

/// The input gradient of [`interpolate_nearest`].
pub fn interpolate_nearest_backward<T: Real>(
    s: &ResizeShape,
    scales: [Option<f64>; 3],
    grad_out: &[T],
    grad_x: &mut [T],
) {
    let (input, output) = (volume(s.input), volume(s.output));
    let sources = [0, 1, 2].map(|a| nearest_sources::<T>(s.input[a], s.output[a], scales[a]));
    for_planes(grad_x, input, input + output, |p, grad_x| {
        grad_x.fill(T::ZERO);
        let rows = grad_out[p * output..][..output].chunks(s.output[2].max(1));
        for (row, grad_out) in rows.enumerate() {
            let from =
                (sources[0][row / s.output[1]] * s.input[1] + sources[1][row % s.output[1]]) * s.input[2];
            let grad_x = &mut grad_x[from..from + s.input[2]];
            for (&g, &w) in grad_out.iter().zip(&sources[2]) {
                grad_x[w] += g;
            }
        }
    });
}

#[cfg(test)]
mod tests;
