//! Random numbers: Philox4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", 2011), and the fills that draw from it.
//!
//! Block `b` of a draw is Philox of the counter `offset + b` with the key `seed`: four 32-bit words. Element i of a
//! draw depends only on `(seed, offset, i)`, so a draw can be computed in any order, by any number of threads and on
//! any device. A 32-bit element uses word i mod 4 of block i / 4, a 64-bit element half i mod 2 of block i / 2. A fill
//! of n elements uses at most [`counters_for`]`(n)` blocks.

use std::hint::black_box;

use super::math::{cos_sin_turns_f64, log_f32, log_f64};
use super::parallel::for_chunks_mut;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::backend::random::Philox;
use crate::dtype::{DType, Element, Real};
use crate::error::Result;
use crate::multiversion;
use crate::storage::empty_vec;

/// Blocks computed together, one per vector lane.
const LANES: usize = 32;
/// Elements per task; a multiple of 4·LANES, so that a chunk starts at a block boundary.
const CHUNK: usize = 16384;

/// Words of LANES consecutive blocks; `words[j][l]` is word j of block l.
type Words = [[u32; LANES]; 4];

/// Ten rounds of Philox4x32 on the counters `c`.
#[inline(always)]
fn encrypt([mut c0, mut c1, mut c2, mut c3]: Words, key: u64) -> Words {
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    // Not unrolled: one round on this many blocks already saturates the execution units.
    for _ in 0..black_box(10) {
        for l in 0..LANES {
            let a = c0[l] as u64 * 0xd2511f53;
            let b = c2[l] as u64 * 0xcd9e8d57;
            c0[l] = (b >> 32) as u32 ^ c1[l] ^ k0;
            c2[l] = (a >> 32) as u32 ^ c3[l] ^ k1;
            c1[l] = b as u32;
            c3[l] = a as u32;
        }
        k0 = k0.wrapping_add(0x9e3779b9);
        k1 = k1.wrapping_add(0xbb67ae85);
    }
    [c0, c1, c2, c3]
}

impl Philox {
    /// LANES blocks starting at block `first`.
    #[inline(always)]
    fn blocks(self, first: usize) -> Words {
        let (mut low, mut high) = ([0; LANES], [0; LANES]);
        for l in 0..LANES {
            let counter = self.offset.wrapping_add((first + l) as u64);
            low[l] = counter as u32;
            high[l] = (counter >> 32) as u32;
        }
        encrypt([low, high, [0; LANES], [0; LANES]], self.seed)
    }

    /// The stream starting at block `by`.
    fn skip(self, by: usize) -> Self {
        Philox { offset: self.offset.wrapping_add(by as u64), ..self }
    }
}

multiversion! {
    /// Fills `out` with the words of consecutive blocks.
    fn words(p: Philox, out: &mut [u32]) {
        for (g, out) in out.chunks_mut(4 * LANES).enumerate() {
            let w = p.blocks(g * LANES);
            let mut v = [[0; 4]; LANES];
            for l in 0..LANES {
                v[l] = [w[0][l], w[1][l], w[2][l], w[3][l]];
            }
            out.copy_from_slice(&v.as_flattened()[..out.len()]);
        }
    }
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// A multiple of 2^-24 in [0, 1).
#[inline(always)]
fn unit32(w: u32) -> f32 {
    (w >> 8) as i32 as f32 * (1.0 / 16777216.0)
}

/// A multiple of 2^-53 in [0, 1).
#[inline(always)]
fn unit64(low: u32, high: u32) -> f64 {
    (join(low, high) >> 11) as i64 as f64 * (1.0 / 9007199254740992.0)
}

/// In (0, 1), with all 32 bits used near zero, where a logarithm turns them into the tail of a distribution.
#[inline(always)]
fn open32(w: u32) -> f32 {
    let u = ((w >> 1) as i32 as f32 + 0.25) * (1.0 / 2147483648.0);
    // A value that rounds to 1 would have the logarithm zero.
    if u < 1.0 { u } else { 1.0 - f32::EPSILON / 2.0 }
}

/// In (0, 1), with 53 bits.
#[inline(always)]
fn open64(low: u32, high: u32) -> f64 {
    let u = unit64(low, high) + f64::EPSILON / 4.0;
    if u < 1.0 { u } else { 1.0 - f64::EPSILON / 2.0 }
}

/// Two independent standard normal numbers from two words, by the Box-Muller method.
#[inline(always)]
fn normals32(a: u32, b: u32) -> [f32; 2] {
    let r = (-2.0 * log_f32(open32(a))).sqrt();
    // The angle is b·2^-32 turns: the nearest quadrant from the upper bits, the rest as a signed number.
    let t = ((b << 2) as i32) as f32 * (std::f32::consts::FRAC_PI_2 / 4294967296.0);
    let quadrant = b.wrapping_add(1 << 29) >> 30;
    let z = t * t;
    let s = t + t * z * ((-0.00019516978 * z + 0.008332176) * z - 0.16666655);
    let c = (1.0 - 0.5 * z) + z * z * ((2.4438092e-5 * z - 0.0013887364) * z + 0.041666646);
    let odd = quadrant & 1 == 1;
    let (x, y) = (if odd { s } else { c }, if odd { c } else { s });
    let flip = |v: f32, q: u32| f32::from_bits(v.to_bits() ^ (q & 2) << 30);
    [r * flip(x, quadrant + 1), r * flip(y, quadrant)]
}

#[inline(always)]
fn normals64(a: [u32; 2], b: [u32; 2]) -> [f64; 2] {
    let r = (-2.0 * log_f64(open64(a[0], a[1]))).sqrt();
    let (c, s) = cos_sin_turns_f64(unit64(b[0], b[1]));
    [r * c, r * s]
}

// Kernels that turn words into numbers: each number takes one word, or two (low and high).

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn uniform32(w: &[u32], lo: f32, hi: f32, out: &mut [f32]) {
        let span = hi - lo;
        for (o, &w) in out.iter_mut().zip(w) {
            let v = lo + unit32(w) * span;
            // The sum may round up to the excluded upper bound.
            *o = if v < hi { v } else { lo };
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn uniform64(w: &[u32], lo: f64, hi: f64, out: &mut [f64]) {
        let span = hi - lo;
        for (o, w) in out.iter_mut().zip(w.as_chunks::<2>().0) {
            let v = lo + unit64(w[0], w[1]) * span;
            *o = if v < hi { v } else { lo };
        }
    }
}

multiversion! {
    fn normal32(w: &[u32], mean: f32, std: f32, out: &mut [[f32; 2]]) {
        for (o, w) in out.iter_mut().zip(w.as_chunks::<2>().0) {
            let [a, b] = normals32(w[0], w[1]);
            *o = [mean + std * a, mean + std * b];
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn normal64(w: &[u32], mean: f64, std: f64, out: &mut [[f64; 2]]) {
        for (o, w) in out.iter_mut().zip(w.as_chunks::<4>().0) {
            let [a, b] = normals64([w[0], w[1]], [w[2], w[3]]);
            *o = [mean + std * a, mean + std * b];
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn below(w: &[u32], threshold: u32, out: &mut [u8]) {
        for (o, &w) in out.iter_mut().zip(w) {
            *o = (w < threshold) as u8;
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn exponential32(w: &[u32], lambda: f32, out: &mut [f32]) {
        for (o, &w) in out.iter_mut().zip(w) {
            *o = -log_f32(open32(w)) / lambda;
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn exponential64(w: &[u32], lambda: f64, out: &mut [f64]) {
        for (o, w) in out.iter_mut().zip(w.as_chunks::<2>().0) {
            *o = -log_f64(open64(w[0], w[1])) / lambda;
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn integers[T: Element](w: &[u32], lo: i64, span: u64, out: &mut [T]) {
        // The upper half of 64 random bits times the span: the bias is below span / 2^64.
        let words = out.iter_mut().zip(w.as_chunks::<2>().0);
        if span <= 1 << 32 {
            for (o, w) in words {
                let v = (w[1] as u64 * span).wrapping_add((w[0] as u64 * span) >> 32) >> 32;
                *o = T::from_i64(lo.wrapping_add(v as i64));
            }
        } else {
            for (o, w) in words {
                let v = (join(w[0], w[1]) as u128 * span as u128) >> 64;
                *o = T::from_i64(lo.wrapping_add(v as i64));
            }
        }
    }
}

multiversion! {
    /// Replaces each number in `u` by whether it is below the corresponding `bound`.
    fn compare[T: Real](bound: &[T], u: &mut [T]) {
        for (u, &b) in u.iter_mut().zip(bound) {
            *u = if *u < b { T::ONE } else { T::ZERO };
        }
    }
}

/// Downcasts a slice of `Real`.
enum Reals<'a> {
    Single(&'a mut [f32]),
    Double(&'a mut [f64]),
}

fn reals<T: Real>(out: &mut [T]) -> Reals<'_> {
    match T::DTYPE {
        DType::F64 => Reals::Double(bytemuck::cast_slice_mut(out)),
        _ => Reals::Single(bytemuck::cast_slice_mut(out)),
    }
}

fn uniform<T: Real>(w: &[u32], lo: f64, hi: f64, out: &mut [T]) {
    match reals(out) {
        Reals::Single(out) => uniform32(w, lo as f32, hi as f32, out),
        Reals::Double(out) => uniform64(w, lo, hi, out),
    }
}

/// Calls `kernel` with pairs of numbers; an odd last number takes the words of a pair too.
fn in_pairs<T: Real>(w: &[u32], out: &mut [T], kernel: impl Fn(&[u32], &mut [[T; 2]])) {
    let (pairs, last) = out.as_chunks_mut();
    kernel(w, pairs);
    if let [last] = last {
        let mut pair = [[T::ZERO; 2]];
        kernel(&w[2 * pairs.len() * words_of::<T>()..], &mut pair);
        *last = pair[0][0];
    }
}

/// Words drawn at a time; they fit in the L1 cache.
const BATCH: usize = 256;

/// Calls `f` with disjoint parts of `out`, the words for each (`per` per element, in whole blocks), and its first
/// index.
fn fill<T: Send>(p: Philox, per: usize, out: &mut [T], f: impl Fn(&[u32], usize, &mut [T]) + Sync) {
    for_chunks_mut(out, CHUNK, |i, out| {
        let mut batch = [0; BATCH];
        for (k, out) in out.chunks_mut(BATCH / per).enumerate() {
            let first = i * CHUNK + k * (BATCH / per);
            let batch = &mut batch[..(out.len() * per).next_multiple_of(4)];
            words(p.skip(first * per / 4), batch);
            f(batch, first, out);
        }
    });
}

/// Words per floating point element.
const fn words_of<T>() -> usize {
    size_of::<T>() / 4
}

/// Uniform in [lo, hi): `lo` plus a multiple of 2^-24 (`f32`) or 2^-53 (`f64`) of the span.
pub fn fill_uniform<T: Real>(p: Philox, lo: f64, hi: f64, out: &mut [T]) {
    fill(p, words_of::<T>(), out, |w, _, out| uniform(w, lo, hi, out));
}

/// Normal with the given mean and standard deviation.
pub fn fill_normal<T: Real>(p: Philox, mean: f64, std: f64, out: &mut [T]) {
    fill(p, words_of::<T>(), out, |w, _, out| match reals(out) {
        Reals::Single(out) => in_pairs(w, out, |w, out| normal32(w, mean as f32, std as f32, out)),
        Reals::Double(out) => in_pairs(w, out, |w, out| normal64(w, mean, std, out)),
    });
}

/// 1 with probability `prob` (a multiple of 2^-32), else 0.
pub fn fill_bernoulli_u8(p: Philox, prob: f64, out: &mut [u8]) {
    if prob >= 1.0 {
        out.fill(1);
        return;
    }
    // The conversion saturates, so a negative probability gives threshold 0.
    let threshold = (prob * 4294967296.0) as u32;
    fill(p, 1, out, |w, _, out| below(w, threshold, out));
}

/// Element i is 1 with probability `probs[i]`, else 0: whether element i of [`fill_uniform`] on [0, 1) is below it.
/// The slices have the same length.
pub fn fill_bernoulli_each<T: Real>(p: Philox, probs: &[T], out: &mut [T]) {
    fill(p, words_of::<T>(), out, |w, at, out| {
        uniform(w, 0.0, 1.0, out);
        compare(&probs[at..], out);
    });
}

/// Integers in [lo, hi), or `lo` if the interval is empty.
pub fn fill_int<T: Element>(p: Philox, lo: i64, hi: i64, out: &mut [T]) {
    let span = if hi > lo { hi.wrapping_sub(lo) as u64 } else { 1 };
    fill(p, 2, out, |w, _, out| integers(w, lo, span, out));
}

/// Exponential with rate `lambda`; never zero, so that division by it is finite.
pub fn fill_exponential<T: Real>(p: Philox, lambda: f64, out: &mut [T]) {
    fill(p, words_of::<T>(), out, |w, _, out| match reals(out) {
        Reals::Single(out) => exponential32(w, lambda as f32, out),
        Reals::Double(out) => exponential64(w, lambda, out),
    });
}

/// A permutation of 0..n by the Fisher-Yates shuffle: position i, in descending order, is swapped with one at or
/// before it.
///
/// # Errors
/// `RuntimeError` when out of memory.
pub fn permutation(p: Philox, n: usize) -> Result<Vec<i64>> {
    let mut out = empty_vec(n)?;
    out.extend(0..n as i64);
    let mut random = [0; BATCH];
    for (g, last) in (0..n).rev().step_by(BATCH / 2).enumerate() {
        words(p.skip(g * (BATCH / 4)), &mut random);
        for (w, i) in random.as_chunks::<2>().0.iter().zip((1..=last).rev()) {
            out.swap(i, ((join(w[0], w[1]) as u128 * (i as u128 + 1)) >> 64) as usize);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::parallel::{num_threads, set_num_threads};
    use super::*;

    const P: Philox = Philox { seed: 0x1234_5678_9abc_def0, offset: 77 };

    fn moments(x: &[f64]) -> (f64, f64) {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64)
    }

    fn drawn<T: Real>(n: usize, f: impl Fn(&mut [T])) -> Vec<f64> {
        let mut out = vec![T::ZERO; n];
        f(&mut out);
        out.iter().map(|v| v.to_f64()).collect()
    }

    #[test]
    fn philox_gives_the_known_answers_of_its_authors() {
        let one = |c: [u32; 4], key| encrypt(c.map(|c| [c; LANES]), key).map(|w| w[LANES - 1]);
        assert_eq!(one([0; 4], 0), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(one([u32::MAX; 4], u64::MAX), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        assert_eq!(one(pi, 0x299f31d0_a4093822), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn element_i_depends_on_seed_offset_and_i_alone() {
        let whole = drawn::<f32>(50_000, |o| fill_uniform(P, 0.0, 1.0, o));
        let later = Philox { offset: P.offset + 1000, ..P };
        assert_eq!(whole[4000..4999], drawn::<f32>(999, |o| fill_uniform(later, 0.0, 1.0, o)));
        let whole = drawn::<f64>(50_000, |o| fill_normal(P, 0.0, 1.0, o));
        assert_eq!(whole[2000..2999], drawn::<f64>(999, |o| fill_normal(later, 0.0, 1.0, o)));
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_draw() {
        let threads = num_threads();
        let all = || {
            let mut ints = vec![0i64; 100_003];
            fill_int(P, -5, 1 << 40, &mut ints);
            (drawn::<f32>(100_003, |o| fill_normal(P, 0.0, 1.0, o)), ints)
        };
        set_num_threads(1);
        let one = all();
        set_num_threads(3);
        let three = all();
        set_num_threads(threads);
        assert_eq!(one, three);
    }

    #[test]
    fn uniform_numbers_have_their_moments_and_never_the_upper_end() {
        for x in [
            drawn::<f32>(200_000, |o| fill_uniform(P, -1.0, 3.0, o)),
            drawn::<f64>(200_000, |o| fill_uniform(P, -1.0, 3.0, o)),
        ] {
            assert!(x.iter().all(|v| (-1.0..3.0).contains(v)));
            let (mean, var) = moments(&x);
            assert!((mean - 1.0).abs() < 0.01 && (var - 4.0 / 3.0).abs() < 0.02, "{mean} {var}");
        }
        // A span of one ulp, where half of the sums round up.
        let x = drawn::<f32>(1000, |o| fill_uniform(P, 1.0, 1.0000001, o));
        assert!(x.iter().all(|&v| v == 1.0));
    }

    #[test]
    fn normal_numbers_have_the_moments_and_tails_of_the_normal_distribution() {
        for x in [
            drawn::<f32>(400_000, |o| fill_normal(P, 2.0, 3.0, o)),
            drawn::<f64>(400_000, |o| fill_normal(P, 2.0, 3.0, o)),
        ] {
            let z: Vec<f64> = x.iter().map(|v| (v - 2.0) / 3.0).collect();
            let (mean, var) = moments(&z);
            assert!(mean.abs() < 0.007 && (var - 1.0).abs() < 0.01, "{mean} {var}");
            let share = |f: &dyn Fn(f64) -> bool| z.iter().filter(|&&v| f(v)).count() as f64 / z.len() as f64;
            assert!((share(&|v| v.abs() < 1.0) - 0.682689).abs() < 0.004);
            assert!((share(&|v| v > 3.0) - 0.00135).abs() < 0.0003);
            let kurtosis = z.iter().map(|v| v.powi(4)).sum::<f64>() / z.len() as f64;
            assert!((kurtosis - 3.0).abs() < 0.06, "{kurtosis}");
            let neighbours = z.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / z.len() as f64;
            assert!(neighbours.abs() < 0.007, "{neighbours}");
        }
    }

    #[test]
    fn two_words_become_the_radius_and_the_angle_of_a_normal_pair() {
        for i in 0..5000u32 {
            let (a, b) = (i.wrapping_mul(2654435761), i.wrapping_mul(2246822519));
            let r = (-2.0 * ((a as f64 + 0.5) / 4294967296.0).ln()).sqrt();
            let (sin, cos) = (b as f64 / 4294967296.0 * std::f64::consts::TAU).sin_cos();
            let [x, y] = normals32(a, b);
            assert!((x as f64 - r * cos).abs() < 2e-6 && (y as f64 - r * sin).abs() < 2e-6, "{a} {b}");
            let [x, y] = normals64([1 << 31, a], [0, b]);
            assert!((x - r * cos).abs() < 1e-6 && (y - r * sin).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn bernoulli_numbers_have_their_probability_and_are_certain_at_its_ends() {
        let mut out = vec![9u8; 200_000];
        fill_bernoulli_u8(P, 0.3, &mut out);
        assert!(out.iter().all(|&v| v <= 1));
        assert!((out.iter().map(|&v| v as f64).sum::<f64>() / 2e5 - 0.3).abs() < 0.004);
        for (prob, sure) in [(0.0, 0), (1.0, 1)] {
            fill_bernoulli_u8(P, prob, &mut out);
            assert!(out.iter().all(|&v| v == sure));
        }
        let probs: Vec<f32> = (0..200_000).map(|i| [0.0, 1.0, 0.25, 0.75][i % 4]).collect();
        let x = drawn::<f32>(200_000, |o| fill_bernoulli_each(P, &probs, o));
        for (k, want) in [0.0, 1.0, 0.25, 0.75].into_iter().enumerate() {
            let mean = x.iter().skip(k).step_by(4).sum::<f64>() / 5e4;
            assert!(
                (mean - want).abs() < if want == 0.0 || want == 1.0 { 1e-9 } else { 0.008 },
                "{mean} {want}"
            );
        }
    }

    #[test]
    fn integers_cover_their_range_evenly_and_only_it() {
        let mut out = vec![0i32; 70_000];
        fill_int(P, -3, 4, &mut out);
        for want in -3..4 {
            let count = out.iter().filter(|&&v| v == want).count();
            assert!((9_500..10_500).contains(&count), "{want} comes {count} times");
        }
        assert!(out.iter().all(|v| (-3..4).contains(v)));
        let mut wide = vec![0i64; 1000];
        fill_int(P, i64::MIN, i64::MAX, &mut wide);
        assert!(wide.iter().any(|&v| v < i64::MIN / 2) && wide.iter().any(|&v| v > i64::MAX / 2));
    }

    #[test]
    fn both_ways_of_drawing_integers_agree_where_they_meet() {
        // Spans 2^32 and 2^32 + 1 use different code paths; values differ rarely and by one.
        let (mut a, mut b) = (vec![0i64; 1000], vec![0i64; 1000]);
        fill_int(P, 0, 1 << 32, &mut a);
        fill_int(P, 0, (1 << 32) + 1, &mut b);
        assert!(a.iter().zip(&b).all(|(a, b)| b - a == 0 || b - a == 1));
    }

    #[test]
    fn exponential_numbers_are_positive_with_the_mean_of_their_rate() {
        for x in [
            drawn::<f32>(200_000, |o| fill_exponential(P, 2.0, o)),
            drawn::<f64>(200_000, |o| fill_exponential(P, 2.0, o)),
        ] {
            assert!(x.iter().all(|&v| v > 0.0 && v.is_finite()));
            let (mean, var) = moments(&x);
            assert!((mean - 0.5).abs() < 0.005 && (var - 0.25).abs() < 0.01, "{mean} {var}");
        }
        assert!(log_f32(open32(u32::MAX)) < 0.0 && log_f32(open32(0)) > -30.0);
        assert!(log_f64(open64(u32::MAX, u32::MAX)) < 0.0 && log_f64(open64(0, 0)) > -40.0);
    }

    #[test]
    fn a_permutation_has_every_index_once_and_is_made_by_its_stream() {
        for n in [0, 1, 2, 3, 1023, 1024, 1025, 5000] {
            let drawn = |p| permutation(p, n).unwrap();
            let mut x = drawn(P);
            assert_eq!(x, drawn(P));
            assert!(n < 1000 || x != drawn(Philox { seed: 1, ..P }));
            x.sort_unstable();
            assert_eq!(x, (0..n as i64).collect::<Vec<_>>());
        }
        // Each of the six permutations of three occurs with probability 1/6.
        let mut counts = std::collections::HashMap::new();
        for offset in 0..6000 {
            *counts.entry(permutation(Philox { seed: 3, offset }, 3).unwrap()).or_insert(0) += 1;
        }
        assert!(counts.len() == 6 && counts.values().all(|c| (850..1150).contains(c)), "{counts:?}");
    }
}
