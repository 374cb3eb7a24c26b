//! Reductions with a state of several numbers: mean and variance, and scaled sums of exponentials.

use std::marker::PhantomData;

use super::{
    Elements, Finish, Max, Monoid, ReduceDims, Reduction, Sum, TILE, finished, fold, fold_columns, max_nan,
    reduce,
};
use crate::backend::cpu::math::ExpNonpositive;
use crate::backend::cpu::math::Math;
use crate::backend::cpu::simd::Isa;
use crate::dtype::Real;

/// Count, mean, and sum of squared deviations from the mean.
#[derive(Clone, Copy)]
struct Moment<T> {
    count: T,
    mean: T,
    m2: T,
}

struct Moments<T>(PhantomData<fn(T)>);

impl<T: Math> Reduction for Moments<T> {
    type In = T;
    type Acc = Moment<T>;

    #[inline(always)]
    fn run(&self, x: &[T], _: usize) -> Moment<T> {
        let count = T::of(x.len() as f64);
        let mean = fold(Sum(PhantomData), x) / count;
        Moment { count, mean, m2: fold(SquaredDeviations(mean), x) }
    }

    #[inline(always)]
    fn columns(&self, x: &[T], rows: usize, stride: usize, _: usize, acc: &mut [Moment<T>]) {
        let w = acc.len();
        let (mut mean, mut m2) = ([T::ZERO; TILE], [T::ZERO; TILE]);
        let (mean, m2) = (&mut mean[..w], &mut m2[..w]);
        fold_columns(Sum(PhantomData), x, rows, stride, mean);
        let count = T::of(rows as f64);
        mean.iter_mut().for_each(|m| *m = *m / count);
        for i in 0..rows {
            let row = &x[i * stride..][..w];
            for j in 0..w {
                let d = row[j] - mean[j];
                m2[j] += d * d;
            }
        }
        for (acc, (&mean, &m2)) in acc.iter_mut().zip(mean.iter().zip(m2.iter())) {
            *acc = Moment { count, mean, m2 };
        }
    }

    /// Chan's update formula, which introduces no cancellation.
    #[inline(always)]
    fn merge(&self, a: Moment<T>, b: Moment<T>) -> Moment<T> {
        let count = a.count + b.count;
        let delta = b.mean - a.mean;
        let share = b.count / count;
        Moment { count, mean: a.mean + delta * share, m2: a.m2 + b.m2 + delta * delta * a.count * share }
    }
}

#[derive(Clone, Copy)]
struct SquaredDeviations<T>(T);

impl<T: Real> Monoid for SquaredDeviations<T> {
    type In = T;
    type Acc = T;
    #[inline(always)]
    fn identity(self) -> T {
        T::ZERO
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        (x - self.0) * (x - self.0)
    }
    #[inline(always)]
    fn combine(self, a: T, b: T) -> T {
        a + b
    }
}

/// The mean and the sum of squared deviations, in two passes per block. NaN and 0 when empty.
pub fn moments<T: Math>(x: &[T], d: ReduceDims, mean: &mut [T], m2: &mut [T]) {
    let mut acc = vec![Moment { count: T::ZERO, mean: T::ZERO, m2: T::ZERO }; d.lanes()];
    reduce(&Moments(PhantomData), Elements::Slice(x), d, None, &mut acc);
    for ((mean, m2), a) in mean.iter_mut().zip(m2).zip(acc) {
        (*mean, *m2) = (a.mean, a.m2);
    }
}

/// A sum of exponentials, represented as `scaled * exp(max)`. The maximum propagates NaN; if it is infinite, `scaled`
/// is 1 (plus infinity) or 0 (minus infinity), so that infinities are never subtracted.
#[derive(Clone, Copy)]
pub(crate) struct ExpSum<T> {
    pub max: T,
    pub scaled: T,
}

impl<T: Math> ExpSum<T> {
    /// The logarithm of the sum.
    #[inline(always)]
    pub(super) fn log(self) -> T {
        self.max + self.scaled.m_log()
    }
}

pub(super) struct ExpSums<T>(PhantomData<fn(T)>);

impl<T> ExpSums<T> {
    pub(super) fn new() -> Self {
        ExpSums(PhantomData)
    }
}

/// `scaled` if the maximum alone determines it.
#[inline(always)]
fn without_terms<T: Real>(max: T) -> Option<T> {
    let infinite = max.abs() == T::INFINITY;
    infinite.then_some(if max > T::ZERO { T::ONE } else { T::ZERO })
}

#[derive(Clone, Copy)]
struct ShiftedExp<T>(T);

impl<T: ExpNonpositive> Monoid for ShiftedExp<T> {
    type In = T;
    type Acc = T;
    #[inline(always)]
    fn identity(self) -> T {
        T::ZERO
    }
    #[inline(always)]
    fn lift(self, x: T) -> T {
        (x - self.0).exp_nonpositive()
    }
    #[inline(always)]
    fn combine(self, a: T, b: T) -> T {
        a + b
    }
}

impl<T: ExpNonpositive> Reduction for ExpSums<T> {
    /// As for extrema, float64 is rarely a bottleneck.
    const BEST: Isa = if size_of::<T>() == 4 { Isa::Avx512 } else { Isa::Baseline };
    type In = T;
    type Acc = ExpSum<T>;

    #[inline(always)]
    fn run(&self, x: &[T], _: usize) -> ExpSum<T> {
        let max = fold(Max(PhantomData), x);
        let scaled = without_terms(max).unwrap_or_else(|| fold(ShiftedExp(max), x));
        ExpSum { max, scaled }
    }

    #[inline(always)]
    fn columns(&self, x: &[T], rows: usize, stride: usize, _: usize, acc: &mut [ExpSum<T>]) {
        let w = acc.len();
        let (mut max, mut scaled) = ([T::ZERO; TILE], [T::ZERO; TILE]);
        let (max, scaled) = (&mut max[..w], &mut scaled[..w]);
        fold_columns(Max(PhantomData), x, rows, stride, max);
        for i in 0..rows {
            let row = &x[i * stride..][..w];
            for j in 0..w {
                scaled[j] += (row[j] - max[j]).exp_nonpositive();
            }
        }
        for (acc, (&max, &scaled)) in acc.iter_mut().zip(max.iter().zip(scaled.iter())) {
            *acc = ExpSum { max, scaled: without_terms(max).unwrap_or(scaled) };
        }
    }

    #[inline(always)]
    fn merge(&self, a: ExpSum<T>, b: ExpSum<T>) -> ExpSum<T> {
        let max = max_nan(a.max, b.max);
        let to_max =
            |e: ExpSum<T>| if e.max == max { e.scaled } else { e.scaled * (e.max - max).exp_nonpositive() };
        ExpSum { max, scaled: to_max(a) + to_max(b) }
    }
}

/// The sums of exponentials for `logsumexp` and `softmax`.
pub(crate) fn exp_sums<T: ExpNonpositive>(x: &[T], d: ReduceDims) -> Vec<ExpSum<T>> {
    exp_sums_of(Elements::Slice(x), d)
}

fn exp_sums_of<T: ExpNonpositive>(x: Elements<T>, d: ReduceDims) -> Vec<ExpSum<T>> {
    let mut acc = vec![ExpSum { max: T::ZERO, scaled: T::ZERO }; d.lanes()];
    reduce(&ExpSums::new(), x, d, None, &mut acc);
    acc
}

/// `log(sum(exp(x)))` without overflow; minus infinity when empty.
pub fn logsumexp<T: ExpNonpositive>(x: &[T], d: ReduceDims, out: &mut [T]) {
    logsumexp_of(Elements::Slice(x), d, None, out)
}

pub(super) fn logsumexp_of<T: ExpNonpositive>(
    x: Elements<T>,
    d: ReduceDims,
    finish: Finish<T>,
    out: &mut [T],
) {
    for (out, e) in out.iter_mut().zip(exp_sums_of(x, d)) {
        *out = e.log();
    }
    finished(finish, 0, out);
}
