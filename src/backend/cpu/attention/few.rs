//! The forward pass of a few queries, as they come when a sequence is generated: their scores are dot products, with keys in the lanes of
//! a vector, where those of Note [Tiles of attention] would leave most lanes empty.

use std::f64::consts::LN_2;

use super::{Number, Problem, SCRATCH, TASK, take};
use crate::backend::cpu::matmul::{product_of_row, with_scratch};
use crate::backend::cpu::microkernel::{DOT_ROWS, Store, View as Matrix, ViewMut};
use crate::backend::cpu::parallel::parallel_for;
use crate::backend::cpu::simd::IsaDispatch;
use crate::multiversion;

/// Most keys, whose scores the scratch memory of a thread holds.
const MOST_KEYS: usize = 1 << 15;
/// Scores that are reduced together.
const LANES: usize = 32;

multiversion! { version = IsaDispatch::worth::<T>();
    /// Replaces scores by the powers of two of their distances to the maximum; returns that and the sum of powers.
    fn powers_of_row[T: Number](scores: &mut [T]) -> (T, T) {
        let (lanes, rest) = scores.as_chunks::<LANES>();
        let greater = |a: T, b: T| if a > b { a } else { b };
        let mut best = [-T::INFINITY; LANES];
        for row in lanes {
            for j in 0..LANES {
                best[j] = greater(row[j], best[j]);
            }
        }
        let top = best.into_iter().chain(rest.iter().copied()).fold(-T::INFINITY, |a, b| greater(b, a));
        let shift = if top == -T::INFINITY { T::ZERO } else { top };
        let mut sums = [T::ZERO; LANES];
        let (lanes, rest) = scores.as_chunks_mut::<LANES>();
        for row in lanes {
            for j in 0..LANES {
                row[j] = (row[j] - shift).power_of_two();
                sums[j] += row[j];
            }
        }
        let mut sum = sums.into_iter().sum::<T>();
        for score in rest {
            *score = (*score - shift).power_of_two();
            sum += *score;
        }
        (top, sum)
    }
}

impl<T: Number> Problem<'_, T> {
    /// Whether there are so few queries, and nothing to mask.
    pub(super) fn has_few_queries(&self) -> bool {
        let few = self.queries <= DOT_ROWS && (1..=MOST_KEYS).contains(&self.keys);
        few && !self.causal && !self.mask.is_some()
    }

    /// Passes on the number of each head of the query, the query, its result and the logarithm of the sum of its exponentials.
    pub(super) fn attend_few(&self, put: impl Fn(usize, usize, &[T], T) + Sync) {
        let count = self.batch * self.heads;
        let work = self.queries * self.keys * (self.sizes[0] + self.sizes[1]);
        parallel_for(count, (TASK / 4 / work.max(1)).clamp(1, count.max(1)), |heads| {
            for head in heads {
                self.attend_few_of(head, |query, row, log| put(head, query, row, log));
            }
        });
    }

    fn attend_few_of(&self, number: usize, put: impl Fn(usize, &[T], T)) {
        let ([size, width], kernels, keys, queries) = (self.sizes, self.kernels, self.keys, self.queries);
        let (head, shared) = (self.head(number), self.shared(self.head(number)));
        with_scratch(&SCRATCH, queries * (size + keys + width), |mut rest: &mut [T]| {
            let scaled = take(&mut rest, queries * size);
            let scores = take(&mut rest, queries * keys);
            let out = take(&mut rest, queries * width);
            for (query, to) in scaled.chunks_exact_mut(size.max(1)).enumerate() {
                let from = &self.query.rows(head, query).data[..size];
                to.iter_mut().zip(from).for_each(|(to, &x)| *to = x * self.log2_scale);
            }
            let left = Matrix { data: &*scaled, rs: size, cs: 1 };
            let mut key = 0;
            while key < keys {
                let cols = if keys - key < kernels.dot_cols { 1 } else { kernels.dot_cols };
                let mut sums = [T::ZERO; DOT_ROWS * DOT_ROWS];
                if size > 0 {
                    kernels.dot(size, left, queries, self.key.rows(shared, key), cols, &mut sums);
                }
                for (scores, sums) in scores.chunks_exact_mut(keys).zip(sums.chunks_exact(cols)) {
                    scores[key..key + cols].copy_from_slice(sums);
                }
                key += cols;
            }
            let mut logs = [T::ZERO; DOT_ROWS];
            let mut factors = [T::ZERO; DOT_ROWS];
            for ((scores, log), factor) in scores.chunks_exact_mut(keys).zip(&mut logs).zip(&mut factors) {
                let (top, sum) = powers_of_row(scores);
                let blind = top == -T::INFINITY && !sum.is_nan();
                // Without a key that is not infinitely far this is 0 / 0.
                *factor = T::ONE / sum;
                *log = if blind { top } else { (top + sum.m_log2()) * T::of(LN_2) };
            }
            let values = self.value.rows(shared, 0);
            let weights = Matrix { data: &*scores, rs: keys, cs: 1 };
            let store = Store { alpha: T::ONE, beta: T::ZERO, row: None, col: None, relu: false };
            let mut c = ViewMut::new(out, queries, width);
            if queries == 1 {
                product_of_row(keys, weights, values, c, &store);
            } else {
                // A tile reads the values once for all queries.
                for column in (0..width).step_by(kernels.nr) {
                    let cols = kernels.nr.min(width - column);
                    let c = &mut c.part(0, column, queries, cols);
                    kernels.tile(keys, weights, values.from(0, column), c, &store);
                }
            }
            for (query, row) in out.chunks_exact_mut(width.max(1)).enumerate() {
                row.iter_mut().for_each(|x| *x = *x * factors[query]);
                put(query, row, logs[query]);
            }
        });
    }
}
