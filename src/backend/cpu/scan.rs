//! Cumulative sums, products and extrema along one dimension.
//!
//! Note [Scanning columns]: a scan has dependencies along the dimension only, so several columns are scanned together
//! in vector registers, in strips that are divided among threads. A single row is one chain of dependent operations;
//! for cumulative sums the chain is shortened to one addition per group of elements, see Note [Sums along a row].

use crate::backend::cpu::parallel::{for_chunks_mut, for_chunks_mut2};
use crate::backend::cpu::reduce::rows_of;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::backend::reduce::ReduceDims;
use crate::dtype::{Element, Real};
use crate::multiversion;

/// Columns per strip.
const STRIP: usize = 256;

/// A scan: a state per lane, updated by each element, and an output derived from it.
trait Scan: Sync {
    type In: Element;
    type State: Copy + Send + Sync;
    type Out: Copy + Send + Sync;
    fn start(&self) -> Self::State;
    /// The next state; `i` is the position along the dimension.
    fn step(&self, state: Self::State, x: Self::In, i: usize) -> Self::State;
    fn emit(&self, state: Self::State) -> Self::Out;
    /// Scans rows of `n` elements.
    #[inline(always)]
    fn rows(&self, x: &[Self::In], n: usize, reverse: bool, out: &mut [Self::Out]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            let mut state = self.start();
            for k in 0..n {
                let i = if reverse { n - 1 - k } else { k };
                state = self.step(state, x[i], i);
                out[i] = self.emit(state);
            }
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn scan_rows[S: Scan](s: &S, x: &[S::In], n: usize, reverse: bool, out: &mut [S::Out]) {
        s.rows(x, n, reverse, out);
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Scans the columns from `col` on; `out` holds a part of each row.
    fn scan_columns[S: Scan](s: &S, x: &[S::In], inner: usize, col: usize, reverse: bool, out: &mut [&mut [S::Out]]) {
        let mut state = [s.start(); STRIP];
        for k in 0..out.len() {
            let i = if reverse { out.len() - 1 - k } else { k };
            let out = &mut *out[i];
            let w = out.len().min(STRIP);
            let x = &x[i * inner + col..][..w];
            for ((out, state), &x) in out.iter_mut().zip(&mut state[..w]).zip(x) {
                *state = s.step(*state, x, i);
                *out = s.emit(*state);
            }
        }
    }
}

fn scan<S: Scan>(s: &S, x: &[S::In], d: ReduceDims, reverse: bool, out: &mut [S::Out]) {
    let ReduceDims { n, inner, .. } = d;
    if d.is_empty() {
        return;
    }
    if inner == 1 {
        let chunk = rows_of(x.len(), n) * n;
        return for_chunks_mut(out, chunk, |i, out| {
            scan_rows(s, &x[i * chunk..][..out.len()], n, reverse, out);
        });
    }
    let mut jobs = strips(out, d, STRIP);
    let grain = rows_of(x.len(), n * inner.min(STRIP));
    for_chunks_mut(&mut jobs, grain, |i, jobs| {
        for (k, rows) in jobs.iter_mut().enumerate() {
            let (start, col) = strip_start(i * grain + k, d, STRIP);
            scan_columns(s, &x[start..], inner, col, reverse, rows);
        }
    });
}

/// Splits the columns of an array into strips of `width`: for each strip, the parts of its rows, which have stride
/// `inner`.
pub(crate) fn strips<T>(out: &mut [T], d: ReduceDims, width: usize) -> Vec<Vec<&mut [T]>> {
    let per_row = d.inner.div_ceil(width);
    let mut strips: Vec<Vec<&mut [T]>> = (0..d.outer * per_row).map(|_| Vec::with_capacity(d.n)).collect();
    for (row, out) in out.chunks_mut(d.inner).enumerate() {
        for (strip, piece) in out.chunks_mut(width).enumerate() {
            strips[row / d.n * per_row + strip].push(piece);
        }
    }
    strips
}

/// The position of the first lane of a strip, and its first column.
pub(crate) fn strip_start(strip: usize, d: ReduceDims, width: usize) -> (usize, usize) {
    let per_row = d.inner.div_ceil(width);
    (strip / per_row * d.n * d.inner, strip % per_row * width)
}

struct CumSum<T>(std::marker::PhantomData<fn(T)>);
struct CumProd<T>(std::marker::PhantomData<fn(T)>);
struct CumSumInt<T>(std::marker::PhantomData<fn(T)>);
struct CumProdInt<T>(std::marker::PhantomData<fn(T)>);

/// Elements compared with the current extremum at a time.
const CHUNK: usize = 32;
/// Elements that are summed among themselves before being added to the cumulative sum.
const GROUP: usize = 8;
/// Elements of a group that are summed in one vector of float64.
const HALF: usize = GROUP / 2;

/// Sums are accumulated in float64, as in PyTorch: a float32 cumulative sum would drift.
impl<T: Real> Scan for CumSum<T> {
    type In = T;
    type State = f64;
    type Out = T;
    #[inline(always)]
    fn start(&self) -> f64 {
        0.0
    }
    #[inline(always)]
    fn step(&self, state: f64, x: T, _: usize) -> f64 {
        state + x.to_f64()
    }
    #[inline(always)]
    fn emit(&self, state: f64) -> T {
        T::of(state)
    }
    #[inline(always)]
    fn rows(&self, x: &[T], n: usize, reverse: bool, out: &mut [T]) {
        if reverse { sum_rows::<T, true>(x, n, out) } else { sum_rows::<T, false>(x, n, out) }
    }
}

/// The cumulative sums of rows of `n` elements.
///
/// Note [Sums along a row]: a prefix sum is a chain of dependent additions. Here each group of elements has prefix sums
/// of its own, and the chain is one addition per group. That also rounds less often than a sequential sum. Interleaved
/// running sums, each over every eighth element, would shorten the chain as well, but where large terms cancel, their
/// separate rounding errors would remain to the end of the row.
#[inline(always)]
fn sum_rows<T: Real, const REVERSE: bool>(x: &[T], n: usize, out: &mut [T]) {
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        // The sum of the groups before, once for each lane of a vector.
        let mut sum = [0.0; HALF];
        let groups = n / GROUP;
        for k in 0..groups {
            let start = if REVERSE { n - (k + 1) * GROUP } else { k * GROUP };
            let (x, out) = (&x[start..start + GROUP], &mut out[start..start + GROUP]);
            let place = |l: usize| if REVERSE { GROUP - 1 - l } else { l };
            let half = |from: usize| {
                let term = |l: usize| x[place(from + l)].to_f64();
                let pair = term(0) + term(1);
                [term(0), pair, pair + term(2), pair + (term(2) + term(3))]
            };
            let first = half(0);
            let second = half(HALF).map(|s| first[HALF - 1] + s);
            for l in 0..HALF {
                out[place(l)] = T::of(sum[l] + first[l]);
                out[place(HALF + l)] = T::of(sum[l] + second[l]);
            }
            for lane in &mut sum {
                *lane += second[HALF - 1];
            }
        }
        let mut sum = sum[0];
        for k in groups * GROUP..n {
            let i = if REVERSE { n - 1 - k } else { k };
            sum += x[i].to_f64();
            out[i] = T::of(sum);
        }
    }
}

impl<T: Real> Scan for CumProd<T> {
    type In = T;
    type State = f64;
    type Out = T;
    #[inline(always)]
    fn start(&self) -> f64 {
        1.0
    }
    #[inline(always)]
    fn step(&self, state: f64, x: T, _: usize) -> f64 {
        state * x.to_f64()
    }
    #[inline(always)]
    fn emit(&self, state: f64) -> T {
        T::of(state)
    }
}

impl<T: Element> Scan for CumSumInt<T> {
    type In = T;
    type State = i64;
    type Out = i64;
    #[inline(always)]
    fn start(&self) -> i64 {
        0
    }
    #[inline(always)]
    fn step(&self, state: i64, x: T, _: usize) -> i64 {
        state.wrapping_add(x.to_i64())
    }
    #[inline(always)]
    fn emit(&self, state: i64) -> i64 {
        state
    }
}

impl<T: Element> Scan for CumProdInt<T> {
    type In = T;
    type State = i64;
    type Out = i64;
    #[inline(always)]
    fn start(&self) -> i64 {
        1
    }
    #[inline(always)]
    fn step(&self, state: i64, x: T, _: usize) -> i64 {
        state.wrapping_mul(x.to_i64())
    }
    #[inline(always)]
    fn emit(&self, state: i64) -> i64 {
        state
    }
}

/// Cumulative `log(sum(exp(x)))` in float64: each step adds one term without leaving the logarithm.
struct LogCumSumExp<T>(std::marker::PhantomData<fn(T)>);

impl<T: Real> Scan for LogCumSumExp<T> {
    type In = T;
    type State = f64;
    type Out = T;
    #[inline(always)]
    fn start(&self) -> f64 {
        f64::NEG_INFINITY
    }
    #[inline(always)]
    fn step(&self, state: f64, x: T, _: usize) -> f64 {
        let x = x.to_f64();
        let (max, min) = if state > x || state.is_nan() { (state, x) } else { (x, state) };
        // Equal infinities, whose difference would be NaN, are returned as they are.
        if max == min && max.is_infinite() { max } else { max + (min - max).exp().ln_1p() }
    }
    #[inline(always)]
    fn emit(&self, state: f64) -> T {
        T::of(state)
    }
}

/// Whether `x` replaces the current extremum: if it is at least as good, or NaN.
#[inline(always)]
#[allow(clippy::eq_op)] // only NaN differs from itself
fn replaces<T: Element>(best: T, x: T, largest: bool) -> bool {
    let as_good = if largest { x >= best } else { x <= best };
    x != x || (best == best && as_good)
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Most chunks of a row do not change its extremum, which is tested by vector code.
    fn extremum_rows[T: Element](x: &[T], n: usize, largest: bool, values: &mut [T], indices: &mut [i64]) {
        for ((x, values), indices) in x.chunks_exact(n).zip(values.chunks_exact_mut(n)).zip(indices.chunks_exact_mut(n)) {
            let (mut best, mut at) = (x[0], 0);
            for start in (0..n).step_by(CHUNK) {
                let range = start..n.min(start + CHUNK);
                let (x, values, indices) = (&x[range.clone()], &mut values[range.clone()], &mut indices[range]);
                if !x.iter().fold(false, |any, &x| any | replaces(best, x, largest)) {
                    values.fill(best);
                    indices.fill(at);
                    continue;
                }
                for i in 0..x.len() {
                    if replaces(best, x[i], largest) {
                        (best, at) = (x[i], (start + i) as i64);
                    }
                    (values[i], indices[i]) = (best, at);
                }
            }
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Scans the columns from `col` on; `values` and `indices` hold parts of each row.
    fn extremum_columns[T: Element](x: &[T], inner: usize, col: usize, largest: bool, values: &mut [&mut [T]], indices: &mut [&mut [i64]]) {
        let mut at = [0; STRIP];
        for i in 0..values.len() {
            let (done, rest) = values.split_at_mut(i);
            let (value, index) = (&mut *rest[0], &mut *indices[i]);
            let w = value.len().min(STRIP);
            let x = &x[i * inner + col..][..w];
            let best = done.last().map_or(x, |row| &row[..w]);
            for ((((value, index), &x), &best), at) in value.iter_mut().zip(index).zip(x).zip(best).zip(&mut at) {
                let take = replaces(best, x, largest);
                *value = if take { x } else { best };
                *at = if take { i as i64 } else { *at };
                *index = *at;
            }
        }
    }
}

/// The cumulative sum; with `reverse`, from the end.
pub fn cumsum<T: Real>(x: &[T], d: ReduceDims, reverse: bool, out: &mut [T]) {
    scan(&CumSum(std::marker::PhantomData), x, d, reverse, out);
}

/// The cumulative product.
pub fn cumprod<T: Real>(x: &[T], d: ReduceDims, out: &mut [T]) {
    scan(&CumProd(std::marker::PhantomData), x, d, false, out);
}

/// The cumulative sum in wrapping int64; with `reverse`, from the end.
pub fn cumsum_int<T: Element>(x: &[T], d: ReduceDims, reverse: bool, out: &mut [i64]) {
    scan(&CumSumInt(std::marker::PhantomData), x, d, reverse, out);
}

/// The cumulative product in wrapping int64.
pub fn cumprod_int<T: Element>(x: &[T], d: ReduceDims, out: &mut [i64]) {
    scan(&CumProdInt(std::marker::PhantomData), x, d, false, out);
}

/// `log(cumsum(exp(x)))` without overflow.
pub fn logcumsumexp<T: Real>(x: &[T], d: ReduceDims, out: &mut [T]) {
    scan(&LogCumSumExp(std::marker::PhantomData), x, d, false, out);
}

/// The cumulative maximum (`largest`) or minimum, and the index of its latest occurrence. Propagates NaN.
pub fn cum_extremum<T: Element>(
    x: &[T],
    d: ReduceDims,
    largest: bool,
    values: &mut [T],
    indices: &mut [i64],
) {
    let ReduceDims { n, inner, .. } = d;
    if d.is_empty() {
        return;
    }
    if inner == 1 {
        let chunk = rows_of(x.len(), n) * n;
        return for_chunks_mut2(values, chunk, indices, chunk, |i, values, indices| {
            extremum_rows(&x[i * chunk..][..values.len()], n, largest, values, indices);
        });
    }
    let mut values = strips(values, d, STRIP);
    let mut indices = strips(indices, d, STRIP);
    for_chunks_mut2(&mut values, 1, &mut indices, 1, |job, values, indices| {
        let (start, col) = strip_start(job, d, STRIP);
        extremum_columns(&x[start..], inner, col, largest, &mut values[0], &mut indices[0]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::reduce::tests::{noise, on_each_isa};

    const SHAPES: [ReduceDims; 7] = [
        ReduceDims::new(1, 1, 1),
        ReduceDims::new(3, 7, 1),
        ReduceDims::new(1, 9000, 1),
        ReduceDims::new(2, 4096, 1),
        ReduceDims::new(2, 5, 3),
        ReduceDims::new(3, 40, 300),
        ReduceDims::new(1, 9, 1025),
    ];

    /// The elements of each lane in order, as positions in the array.
    fn lanes(d: ReduceDims) -> impl Iterator<Item = Vec<usize>> {
        (0..d.lanes()).map(move |l| {
            let start = l / d.inner * d.n * d.inner + l % d.inner;
            (0..d.n).map(|i| start + i * d.inner).collect()
        })
    }

    #[test]
    fn cumsum_adds_along_the_lane_in_both_directions() {
        on_each_isa(|| {
            for d in SHAPES {
                let x = noise(d.len(), 1);
                let narrow: Vec<f32> = x.iter().map(|&v| v as f32).collect();
                let (mut out, mut out32) = (x.clone(), narrow.clone());
                for reverse in [false, true] {
                    cumsum(&x, d, reverse, &mut out);
                    cumsum(&narrow, d, reverse, &mut out32);
                    for mut lane in lanes(d) {
                        if reverse {
                            lane.reverse();
                        }
                        let mut total = 0.0;
                        for p in lane {
                            total += x[p];
                            assert!((out[p] - total).abs() < 1e-10, "{d:?}");
                            assert!((out32[p] as f64 - total).abs() < 1e-4, "{d:?}");
                        }
                    }
                }
            }
        });
    }

    #[test]
    fn cumprod_and_integer_scans_agree_with_a_plain_loop() {
        for d in SHAPES {
            let x: Vec<f64> = noise(d.len(), 2).iter().map(|v| 1.0 + v / 100.0).collect();
            let ints: Vec<i32> = noise(d.len(), 3).iter().map(|v| (v * 9.0) as i32).collect();
            let mut out = x.clone();
            let (mut sums, mut products) = (vec![0; d.len()], vec![0; d.len()]);
            cumprod(&x, d, &mut out);
            cumsum_int(&ints, d, false, &mut sums);
            cumprod_int(&ints, d, &mut products);
            for lane in lanes(d) {
                let (mut p, mut s, mut q) = (1.0, 0i64, 1i64);
                for i in lane {
                    p *= x[i];
                    s += ints[i] as i64;
                    q = q.wrapping_mul(ints[i] as i64);
                    assert_eq!((out[i], sums[i], products[i]), (p, s, q), "{d:?}");
                }
            }
        }
    }

    #[test]
    fn cumsum_recovers_after_large_terms_that_cancel() {
        on_each_isa(|| {
            for before in 0..9 {
                let mut x = vec![0.0f32; before];
                x.extend([1e20, -1e20]);
                x.resize(64, 1.0);
                let mut out = x.clone();
                cumsum(&x, ReduceDims::rows(1, 64), false, &mut out);
                let rest = before + 2;
                for (i, sum) in out.iter().enumerate().skip(rest + GROUP) {
                    assert!((sum - (i + 1 - rest) as f32).abs() <= GROUP as f32, "{before} {i}: {sum}");
                }
                assert!(out[rest + GROUP..].windows(2).all(|w| w[1] == w[0] + 1.0), "{before}");
            }
        });
    }

    #[test]
    fn cumsum_after_an_infinity_stays_infinite_and_before_it_finite() {
        let mut x = vec![1.0f32; 5000];
        x[2100] = f32::INFINITY;
        let mut out = x.clone();
        cumsum(&x, ReduceDims::rows(1, 5000), false, &mut out);
        assert_eq!((out[2099], out[2100], out[4999]), (2100.0, f32::INFINITY, f32::INFINITY));
    }

    #[test]
    fn a_running_maximum_takes_the_last_of_equals_and_keeps_nan() {
        let x = [1.0, 3.0, 3.0, 2.0, f32::NAN, 9.0, f32::NAN];
        let (mut values, mut indices) = (x, [0; 7]);
        cum_extremum(&x, ReduceDims::rows(1, 7), true, &mut values, &mut indices);
        assert_eq!(values[..4], [1.0, 3.0, 3.0, 3.0]);
        assert!(values[4..].iter().all(|v| v.is_nan()));
        assert_eq!(indices, [0, 1, 2, 2, 4, 4, 6]);
    }

    #[test]
    fn running_minima_of_columns_are_those_of_their_lanes() {
        let d = ReduceDims::new(2, 9, 300);
        let x: Vec<i32> = noise(d.len(), 4).iter().map(|v| (v * 5.0) as i32).collect();
        let (mut values, mut indices) = (x.clone(), vec![0; d.len()]);
        cum_extremum(&x, d, false, &mut values, &mut indices);
        for lane in lanes(d) {
            for k in 0..d.n {
                let least = *lane[..=k].iter().map(|&p| &x[p]).min().unwrap();
                let last = lane[..=k].iter().rposition(|&p| x[p] == least).unwrap();
                assert_eq!((values[lane[k]], indices[lane[k]]), (least, last as i64));
            }
        }
    }

    #[test]
    fn logcumsumexp_neither_overflows_nor_turns_infinities_into_nan() {
        let x = [f32::NEG_INFINITY, 1000.0, 1000.0, f32::NEG_INFINITY, f32::INFINITY, f32::INFINITY, 0.0];
        let mut out = x;
        logcumsumexp(&x, ReduceDims::rows(1, 7), &mut out);
        let two = 1000.0 + 2f32.ln();
        assert_eq!(out[..2], [f32::NEG_INFINITY, 1000.0]);
        assert!((out[2] - two).abs() < 1e-3 && (out[3] - two).abs() < 1e-3);
        assert_eq!(out[4..], [f32::INFINITY; 3]);
    }

    #[test]
    fn logcumsumexp_propagates_nan() {
        let mut out = [0.0; 3];
        logcumsumexp(&[1.0, f64::NAN, 2.0], ReduceDims::rows(1, 3), &mut out);
        assert!(out[0] == 1.0 && out[1].is_nan() && out[2].is_nan());
    }
}
