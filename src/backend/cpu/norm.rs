//! Layer, batch and group normalization, forward and backward.
//!
//! Note [Runs and columns]: batch and group normalization treat the array as runs of `inner` contiguous elements that
//! share a channel, and kernels take one set of coefficients per run. Runs shorter than a vector would waste lanes;
//! for these, batch normalization repeats the coefficients for each element of a sample and processes whole samples.
//!
//! Statistics take two passes over cached blocks (see `reduce`), and weight gradients are summed in fixed blocks of
//! rows, so results do not depend on the number of threads.

#[cfg(test)]
mod tests;

use crate::backend::cpu::copy::{StridedCursor, View, Writer};
use crate::backend::cpu::halves::in_float32;
use crate::backend::cpu::math::Math;
use crate::backend::cpu::output::Cells;
use crate::backend::cpu::parallel::{for_chunks_mut, for_chunks_mut2};
use crate::backend::cpu::reduce::{chunk_of, moments, row_pieces, rows_of, sum, sum_pairs};
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::norm::{gradient, normalize, passed_back, reciprocal_deviation, terms};
use crate::backend::reduce::ReduceDims;
use crate::dtype::{Element, Real};
use crate::error::Result;
use crate::formula::Num;
use crate::multiversion;

/// Rows per block in sums of weight gradients.
const BLOCK: usize = 256;
/// Shorter runs are processed as columns.
const SHORT_RUN: usize = 16;

/// `v`, or `len` copies of `default`.
fn or_filled<T: Real>(v: Option<&[T]>, len: usize, default: T) -> std::borrow::Cow<'_, [T]> {
    v.map_or_else(|| vec![default; len].into(), Into::into)
}

/// The types in which normalization is computed.
pub trait Number: Math + Num {}
impl Number for f32 {}
impl Number for f64 {}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Normalizes rows; `stats` receives the mean and reciprocal standard deviation of each.
    fn layer_norm_rows[T: Number](x: &[T], n: usize, weight: &[T], bias: &[T], eps: f64, out: &mut [T], stats: &mut [T]) {
        let count = T::of(n as f64);
        for ((x, out), stats) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)).zip(stats.chunks_exact_mut(2)) {
            let [total] = sum_pairs(x, x, |v, _| [v]);
            let mean = total / count;
            let [m2] = sum_pairs(x, x, |v, _| [(v - mean) * (v - mean)]);
            let rstd = reciprocal_deviation(m2 / count, T::of(eps));
            for (((out, &x), &w), &b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                *out = normalize(x, mean, rstd * w, b);
            }
            stats.copy_from_slice(&[mean, rstd]);
        }
    }
}

/// Normalizes each row of `x` (`[rows, n]`) and applies weight and bias; also returns each row's mean and reciprocal
/// standard deviation for the backward pass.
pub fn layer_norm<T: Number>(
    x: &[T],
    n: usize,
    weight: Option<&[T]>,
    bias: Option<&[T]>,
    eps: f64,
    out: &mut [T],
    mean: &mut [T],
    rstd: &mut [T],
) {
    if n == 0 {
        mean.fill(T::ZERO);
        rstd.fill(T::NAN);
        return;
    }
    let (weight, bias) = (or_filled(weight, n, T::ONE), or_filled(bias, n, T::ZERO));
    let mut stats = vec![T::ZERO; 2 * mean.len()];
    let grain = rows_of(x.len(), n);
    for_chunks_mut2(out, grain * n, &mut stats, 2 * grain, |i, out, stats| {
        layer_norm_rows(&x[i * grain * n..][..out.len()], n, &weight, &bias, eps, out, stats);
    });
    for ((mean, rstd), s) in mean.iter_mut().zip(rstd).zip(stats.chunks_exact(2)) {
        (*mean, *rstd) = (s[0], s[1]);
    }
}

/// As [`layer_norm`], of a half type. Parameters and statistics are float32.
pub fn layer_norm_of_halves<H: Element>(
    x: &[H],
    n: usize,
    [weight, bias]: [Option<&[f32]>; 2],
    eps: f64,
    out: &mut [H],
    mean: &mut [f32],
    rstd: &mut [f32],
) {
    let (weight, bias) = (or_filled(weight, n, 1.0), or_filled(bias, n, 0.0));
    let mut stats = vec![0.0; 2 * mean.len()];
    let grain = rows_of(x.len(), n);
    for_chunks_mut2(out, grain * n, &mut stats, 2 * grain, |i, out, stats| {
        in_float32([&x[i * grain * n..][..out.len()]], n, out, |rows, [x], out| {
            layer_norm_rows(x, n, &weight, &bias, eps, out, &mut stats[2 * rows.start..2 * rows.end]);
        });
    });
    for ((mean, rstd), s) in mean.iter_mut().zip(rstd).zip(stats.chunks_exact(2)) {
        (*mean, *rstd) = (s[0], s[1]);
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The backward pass for some rows; `sums` receives the column sums of `dy * xhat` and of `dy`.
    fn layer_norm_rows_backward[T: Number](dy: &[T], x: &[T], mean: &[T], rstd: &[T], weight: &[T], dx: &mut [T], sums: &mut [T]) {
        let n = weight.len();
        let count = T::of(n as f64);
        let (dw, db) = sums.split_at_mut(n);
        let rows = dy.chunks_exact(n).zip(x.chunks_exact(n)).zip(dx.chunks_exact_mut(n));
        for (((dy, x), dx), (&mean, &rstd)) in rows.zip(mean.iter().zip(rstd)) {
            // dx temporarily holds dy * weight, and xhat is recomputed: both are cheaper than a buffer.
            for ((((dx, &dy), &x), &w), (dw, db)) in dx.iter_mut().zip(dy).zip(x).zip(weight).zip(dw.iter_mut().zip(db.iter_mut())) {
                let [plain, product] = terms(dy, x, mean);
                *dw += product * rstd;
                *db += plain;
                *dx = dy * w;
            }
            let back = passed_back(sum_pairs(dx, x, |g, x| terms(g, x, mean)), rstd, count);
            for (dx, &x) in dx.iter_mut().zip(x) {
                *dx = gradient(*dx, x, mean, rstd, back);
            }
        }
    }
}

/// The gradients of the input, weight and bias of [`layer_norm`]; the latter two have length `n`.
pub fn layer_norm_backward<T: Number>(
    dy: &[T],
    x: &[T],
    n: usize,
    mean: &[T],
    rstd: &[T],
    weight: Option<&[T]>,
    dx: &mut [T],
    dweight: &mut [T],
    dbias: &mut [T],
) {
    let weight = or_filled(weight, n, T::ONE);
    in_blocks_of_rows(n, dx, [dweight, dbias], |at, dx, sums| {
        let (rows, range) = (at..at + dx.len() / n, at * n..at * n + dx.len());
        let stats = (&mean[rows.clone()], &rstd[rows]);
        layer_norm_rows_backward(&dy[range.clone()], &x[range], stats.0, stats.1, &weight, dx, sums);
    });
}

/// As [`layer_norm_backward`], of a half type. Parameters, their gradients and statistics are float32.
pub fn layer_norm_backward_of_halves<H: Element>(
    [dy, x]: [&[H]; 2],
    n: usize,
    [mean, rstd]: [&[f32]; 2],
    weight: Option<&[f32]>,
    dx: &mut [H],
    sums: [&mut [f32]; 2],
) {
    let weight = or_filled(weight, n, 1.0);
    in_blocks_of_rows(n, dx, sums, |at, dx, sums| {
        let range = at * n..at * n + dx.len();
        in_float32([&dy[range.clone()], &x[range]], n, dx, |rows, [dy, x], dx| {
            let rows = at + rows.start..at + rows.end;
            layer_norm_rows_backward(dy, x, &mean[rows.clone()], &rstd[rows], &weight, dx, sums);
        });
    });
}

/// Calls `f` in parallel with the first row and the elements of each block of rows of `dx`, and sums what it adds to `2 * n`
/// sums, which become the gradients of weight and bias.
fn in_blocks_of_rows<E: Element, T: Real>(
    n: usize,
    dx: &mut [E],
    [dweight, dbias]: [&mut [T]; 2],
    f: impl Fn(usize, &mut [E], &mut [T]) + Sync,
) {
    dweight.fill(T::ZERO);
    dbias.fill(T::ZERO);
    if dx.is_empty() {
        return;
    }
    let block = rows_of(dx.len(), n).min(BLOCK);
    let blocks = (dx.len() / n).div_ceil(block);
    let mut sums = vec![T::ZERO; blocks * 2 * n];
    for_chunks_mut2(dx, block * n, &mut sums, 2 * n, |i, dx, sums| f(i * block, dx, sums));
    let mut total = vec![T::ZERO; 2 * n];
    sum(&sums, ReduceDims::new(1, blocks, 2 * n), &mut total);
    dweight.copy_from_slice(&total[..n]);
    dbias.copy_from_slice(&total[n..]);
}

/// Coefficients, one value per run or per element of a sample; see Note [Runs and columns].
struct Coefficients<const N: usize, T> {
    values: [Vec<T>; N],
    /// Number of contiguous elements that share a value: the length of a run, or 1.
    share: usize,
}

impl<const N: usize, T: Real> Coefficients<N, T> {
    /// The coefficients that `of` returns for each channel, repeated as `inner` requires.
    fn per_channel(channels: usize, inner: usize, of: impl Fn(usize) -> [T; N]) -> Self {
        let (share, repeat) = if inner < SHORT_RUN { (1, inner) } else { (inner, 1) };
        let mut values = std::array::from_fn(|_| Vec::with_capacity(channels * repeat));
        for channel in 0..channels {
            for (values, v) in values.iter_mut().zip(of(channel)) {
                values.resize(values.len() + repeat, v);
            }
        }
        Coefficients { values, share }
    }

    #[inline(always)]
    fn of_run(&self, run: usize) -> [T; N] {
        std::array::from_fn(|k| self.values[k][run % self.values[k].len()])
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// `(x - center) * scale + shift`.
    fn affine[T: Number](x: &[T], k: &Coefficients<3, T>, start: usize, out: &mut [T]) {
        if k.share > 1 {
            for (run, _, at) in row_pieces(start, out.len(), k.share) {
                let [center, scale, shift] = k.of_run(run);
                for (out, &x) in out[at.clone()].iter_mut().zip(&x[at]) {
                    *out = normalize(x, center, scale, shift);
                }
            }
            return;
        }
        let [center, scale, shift] = &k.values;
        for (_, col, at) in row_pieces(start, out.len(), center.len()) {
            let k = center[col..].iter().zip(&scale[col..]).zip(&shift[col..]);
            for ((out, &x), ((&center, &scale), &shift)) in out[at.clone()].iter_mut().zip(&x[at]).zip(k) {
                *out = normalize(x, center, scale, shift);
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// `dy * scale - (x - center) * along - shift`.
    fn affine_backward[T: Number](dy: &[T], x: &[T], k: &Coefficients<4, T>, start: usize, dx: &mut [T]) {
        if k.share > 1 {
            for (run, _, at) in row_pieces(start, dx.len(), k.share) {
                let [center, scale, along, shift] = k.of_run(run);
                for ((dx, &dy), &x) in dx[at.clone()].iter_mut().zip(&dy[at.clone()]).zip(&x[at]) {
                    *dx = gradient(dy, x, center, scale, [along, shift]);
                }
            }
            return;
        }
        let [center, scale, along, shift] = &k.values;
        for (_, col, at) in row_pieces(start, dx.len(), center.len()) {
            let k = center[col..].iter().zip(&scale[col..]).zip(along[col..].iter().zip(&shift[col..]));
            let elements = dx[at.clone()].iter_mut().zip(&dy[at.clone()]).zip(&x[at]);
            for (((dx, &dy), &x), ((&center, &scale), (&along, &shift))) in elements.zip(k) {
                *dx = gradient(dy, x, center, scale, [along, shift]);
            }
        }
    }
}

fn apply<T: Number>(x: &[T], k: &Coefficients<3, T>, out: &mut [T]) {
    let chunk = chunk_of(x.len());
    for_chunks_mut(out, chunk, |i, out| affine(&x[i * chunk..][..out.len()], k, i * chunk, out));
}

fn apply_backward<T: Number>(dy: &[T], x: &[T], k: &Coefficients<4, T>, dx: &mut [T]) {
    let chunk = chunk_of(x.len());
    for_chunks_mut(dx, chunk, |i, dx| {
        let at = i * chunk..i * chunk + dx.len();
        affine_backward(&dy[at.clone()], &x[at], k, i * chunk, dx);
    });
}

/// Merges the moments of groups of `count` elements each, in float64; exact up to rounding.
fn merge_moments<T: Real>(count: usize, groups: impl Iterator<Item = (T, T)> + Clone) -> (f64, f64) {
    let number = groups.clone().count() as f64;
    let mean = groups.clone().map(|(mean, _)| mean.to_f64()).sum::<f64>() / number;
    let spread = |(m, m2): (T, T)| m2.to_f64() + count as f64 * (m.to_f64() - mean) * (m.to_f64() - mean);
    (mean, groups.map(spread).sum())
}

/// Mean and biased variance of every channel of `x` (`[n, c, inner]`).
pub fn channel_stats<T: Number>(x: &[T], n: usize, c: usize, inner: usize, mean: &mut [T], var: &mut [T]) {
    let as_columns = inner < SHORT_RUN;
    let d = if as_columns { ReduceDims::new(1, n, c * inner) } else { ReduceDims::rows(n * c, inner) };
    let (mut means, mut m2s) = (vec![T::ZERO; d.lanes()], vec![T::ZERO; d.lanes()]);
    moments(x, d, &mut means, &mut m2s);
    for ch in 0..c {
        let (groups, first, step) = if as_columns { (inner, ch * inner, 1) } else { (n, ch, c) };
        let group = (0..groups).map(|i| (means[first + i * step], m2s[first + i * step]));
        let (m, m2) = merge_moments(d.n, group);
        mean[ch] = T::of(m);
        var[ch] = T::of(m2 / (n * inner) as f64);
    }
}

/// Normalizes every channel of `x` (`[n, c, inner]`) with the given statistics.
pub fn batch_norm<T: Number>(
    x: &[T],
    c: usize,
    inner: usize,
    mean: &[T],
    rstd: &[T],
    weight: Option<&[T]>,
    bias: Option<&[T]>,
    out: &mut [T],
) {
    if x.is_empty() {
        return;
    }
    let (weight, bias) = (or_filled(weight, c, T::ONE), or_filled(bias, c, T::ZERO));
    let k = Coefficients::per_channel(c, inner, |ch| [mean[ch], rstd[ch] * weight[ch], bias[ch]]);
    apply(x, &k, out);
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The sums of `dy` and of `dy * (x - center)` over whole runs.
    fn run_sums[T: Number](dy: &[T], x: &[T], center: &[T], inner: usize, sums: &mut [T]) {
        for (((dy, x), &center), sums) in dy.chunks_exact(inner).zip(x.chunks_exact(inner)).zip(center).zip(sums.chunks_exact_mut(2)) {
            sums.copy_from_slice(&sum_pairs(dy, x, |g, x| terms(g, x, center)));
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// As [`run_sums`], over the columns of some samples; `sums` holds the sums of `dy`, followed by the others.
    fn column_sums[T: Number](dy: &[T], x: &[T], center: &[T], sums: &mut [T]) {
        let w = center.len();
        let (plain, product) = sums.split_at_mut(w);
        for (dy, x) in dy.chunks_exact(w).zip(x.chunks_exact(w)) {
            for ((((p, q), &dy), &x), &center) in plain.iter_mut().zip(product.iter_mut()).zip(dy).zip(x).zip(center) {
                let [plain, product] = terms(dy, x, center);
                *p += plain;
                *q += product;
            }
        }
    }
}

/// The sums of `dy` and of `dy * (x - center)` over each run, in pairs; `center` has one value per run.
fn sums_of_runs<T: Number>(dy: &[T], x: &[T], center: &[T], inner: usize) -> Vec<T> {
    let mut sums = vec![T::ZERO; 2 * center.len()];
    let grain = rows_of(x.len(), inner);
    for_chunks_mut(&mut sums, 2 * grain, |i, sums| {
        let (at, runs) = (i * grain, sums.len() / 2);
        let range = at * inner..(at + runs) * inner;
        run_sums(&dy[range.clone()], &x[range], &center[at..at + runs], inner, sums);
    });
    sums
}

/// The sums of `dy` and of `dy * (x - mean)` over each channel.
fn sums_of_channels<T: Number>(
    dy: &[T],
    x: &[T],
    n: usize,
    c: usize,
    inner: usize,
    mean: &[T],
) -> Vec<[T; 2]> {
    let mut total = vec![[T::ZERO; 2]; c];
    if inner >= SHORT_RUN {
        let center: Vec<T> = (0..n * c).map(|run| mean[run % c]).collect();
        let runs = sums_of_runs(dy, x, &center, inner);
        let mut sums = vec![T::ZERO; 2 * c];
        sum(&runs, ReduceDims::new(1, n, 2 * c), &mut sums);
        for (total, sums) in total.iter_mut().zip(sums.chunks_exact(2)) {
            total.copy_from_slice(sums);
        }
        return total;
    }
    let w = c * inner;
    let center: Vec<T> = (0..w).map(|j| mean[j / inner]).collect();
    let block = rows_of(x.len(), w).min(BLOCK);
    let blocks = n.div_ceil(block);
    let mut partial = vec![T::ZERO; blocks * 2 * w];
    for_chunks_mut(&mut partial, 2 * w, |i, partial| {
        let range = i * block * w..((i + 1) * block).min(n) * w;
        column_sums(&dy[range.clone()], &x[range], &center, partial);
    });
    let mut sums = vec![T::ZERO; 2 * w];
    sum(&partial, ReduceDims::new(1, blocks, 2 * w), &mut sums);
    for (j, &s) in sums.iter().enumerate() {
        total[j % w / inner][j / w] += s;
    }
    total
}

/// The gradients of [`batch_norm`], given the statistics that it used; when `training`, these are the statistics of
/// `x`. The gradients of weight and bias are per channel.
pub fn batch_norm_backward<T: Number>(
    dy: &[T],
    x: &[T],
    n: usize,
    c: usize,
    inner: usize,
    mean: &[T],
    rstd: &[T],
    weight: Option<&[T]>,
    training: bool,
    dx: &mut [T],
    dweight: &mut [T],
    dbias: &mut [T],
) {
    dweight.fill(T::ZERO);
    dbias.fill(T::ZERO);
    if dx.is_empty() {
        return;
    }
    let weight = or_filled(weight, c, T::ONE);
    let sums = sums_of_channels(dy, x, n, c, inner, mean);
    for (ch, &[plain, product]) in sums.iter().enumerate() {
        (dbias[ch], dweight[ch]) = (plain, product * rstd[ch]);
    }
    if !training {
        let k = Coefficients::per_channel(c, inner, |ch| [T::ZERO, rstd[ch] * weight[ch], T::ZERO]);
        return apply(dy, &k, dx);
    }
    let count = T::of((n * inner) as f64);
    let k = Coefficients::per_channel(c, inner, |ch| {
        // A channel has one weight, so the gradient sums are the unweighted sums times that weight.
        let sums = [sums[ch][0] * weight[ch], sums[ch][1] * weight[ch]];
        let [along, shift] = passed_back(sums, rstd[ch], count);
        [mean[ch], rstd[ch] * weight[ch], along, shift]
    });
    apply_backward(dy, x, &k, dx);
}

/// Mean and biased variance of each group of channels of each sample of `x` (`[n, c, inner]`).
pub fn group_stats<T: Number>(
    x: &[T],
    n: usize,
    c: usize,
    inner: usize,
    groups: usize,
    mean: &mut [T],
    var: &mut [T],
) {
    let each = c / groups.max(1) * inner;
    moments(x, ReduceDims::rows(n * groups, each), mean, var);
    var.iter_mut().for_each(|v| *v = *v / T::of(each as f64));
}

/// Normalizes each group of channels of each sample of `x` (`[n, c, inner]`, `groups` divides `c`); `mean` and `rstd`
/// have shape `[n, groups]`.
pub fn group_norm<T: Number>(
    x: &[T],
    n: usize,
    c: usize,
    inner: usize,
    groups: usize,
    weight: Option<&[T]>,
    bias: Option<&[T]>,
    eps: f64,
    out: &mut [T],
    mean: &mut [T],
    rstd: &mut [T],
) {
    let members = c / groups.max(1);
    group_stats(x, n, c, inner, groups, mean, rstd);
    rstd.iter_mut().for_each(|v| *v = reciprocal_deviation(*v, T::of(eps)));
    if x.is_empty() {
        return;
    }
    let (weight, bias) = (or_filled(weight, c, T::ONE), or_filled(bias, c, T::ZERO));
    let k = Coefficients::per_channel(n * c, inner, |run| {
        let (group, ch) = (run / members, run % c);
        [mean[group], rstd[group] * weight[ch], bias[ch]]
    });
    apply(x, &k, out);
}

/// The gradients of [`group_norm`]; those of weight and bias are per channel.
pub fn group_norm_backward<T: Number>(
    dy: &[T],
    x: &[T],
    n: usize,
    c: usize,
    inner: usize,
    groups: usize,
    mean: &[T],
    rstd: &[T],
    weight: Option<&[T]>,
    dx: &mut [T],
    dweight: &mut [T],
    dbias: &mut [T],
) {
    dweight.fill(T::ZERO);
    dbias.fill(T::ZERO);
    if dx.is_empty() {
        return;
    }
    let members = c / groups;
    let weight = or_filled(weight, c, T::ONE);
    let center: Vec<T> = (0..n * c).map(|run| mean[run / members]).collect();
    let sums = sums_of_runs(dy, x, &center, inner);
    // Per group: the weighted sums from which the gradients through mean and deviation follow.
    let mut passed = vec![[T::ZERO; 2]; n * groups];
    for (run, s) in sums.chunks_exact(2).enumerate() {
        let (group, ch) = (run / members, run % c);
        dbias[ch] += s[0];
        dweight[ch] += s[1] * rstd[group];
        passed[group][0] += s[0] * weight[ch];
        passed[group][1] += s[1] * weight[ch];
    }
    let count = T::of((members * inner) as f64);
    let k = Coefficients::per_channel(n * c, inner, |run| {
        let (group, r) = (run / members, rstd[run / members]);
        let [along, shift] = passed_back(passed[group], r, count);
        [mean[group], r * weight[run % c], along, shift]
    });
    apply_backward(dy, x, &k, dx);
}

/// The exponential moving average `old * kept + new * taken`, rounded once.
pub fn follow(old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> {
    let read = |v: View| {
        let mut values = vec![0.0f64; v.layout.numel()];
        StridedCursor::new(v, 0).read(&mut values);
        values
    };
    let values: Vec<f64> =
        read(old).iter().zip(read(new)).map(|(old, new)| kept * old + taken * new).collect();
    Writer::new(&Cells::of(out)?, out, 0).write(&values);
    Ok(())
}
