//! The forward pass; see Note [Tiles of attention].

use std::f64::consts::LN_2;
use std::ops::Range;

use super::{Number, Problem, SCRATCH, STRIP, TASK, product, strides_of, take};
use crate::backend::View;
use crate::backend::attention::Attention;
use crate::backend::cpu::matmul::with_scratch;
use crate::backend::cpu::microkernel::{View as Matrix, ViewMut};
use crate::backend::cpu::output::Cells;
use crate::backend::cpu::parallel::parallel_for;
use crate::backend::cpu::simd::IsaDispatch;
use crate::dtype::Real;
use crate::error::Result;
use crate::multiversion;

/// Strips of queries per task.
const STRIPS: usize = 4;
/// How far scores may exceed the maximum that is subtracted from them; their powers of two stay small enough to be summed.
const SLACK: f64 = 8.0;

multiversion! { version = IsaDispatch::worth::<T>();
    /// Replaces the scores of a strip by the powers of two of their distances to a maximum, and updates this maximum `top` and
    /// the `sum` of powers of each query. What was summed before is to be multiplied with `factor`; whether any is not 1.
    fn powers[T: Number](scores: &mut [T], top: &mut [T], sum: &mut [T], factor: &mut [T]) -> bool {
        let (top, sum, factor) = (&mut top[..STRIP], &mut sum[..STRIP], &mut factor[..STRIP]);
        let mut best = [-T::INFINITY; STRIP];
        for row in scores.chunks_exact(STRIP) {
            for j in 0..STRIP {
                best[j] = if row[j] > best[j] { row[j] } else { best[j] };
            }
        }
        let mut shift = [T::ZERO; STRIP];
        for j in 0..STRIP {
            // A maximum that is exceeded by little stays, so that sums seldom have to be scaled.
            let new = if best[j] > top[j] + T::of(SLACK) { best[j] } else { top[j] };
            // Without a key so far the powers are those of minus infinity.
            shift[j] = if new == -T::INFINITY { T::ZERO } else { new };
            factor[j] = (top[j] - shift[j]).power_of_two();
            top[j] = new;
        }
        let mut total = [T::ZERO; STRIP];
        for row in scores.chunks_exact_mut(STRIP) {
            for j in 0..STRIP {
                let e = (row[j] - shift[j]).power_of_two();
                row[j] = e;
                total[j] += e;
            }
        }
        for j in 0..STRIP {
            sum[j] = sum[j] * factor[j] + total[j];
        }
        factor.iter().any(|f| *f != T::ONE)
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Multiplies each row of a strip with a factor per query.
    fn scale_columns[T: Real](rows: &mut [T], factor: &[T]) {
        let factor = &factor[..STRIP];
        for row in rows.chunks_exact_mut(STRIP) {
            for j in 0..STRIP {
                row[j] = row[j] * factor[j];
            }
        }
    }
}

/// Writes the result and the logarithms of the sums of exponentials; false if the operands are not laid out as the kernels
/// read them.
pub(in super::super) fn forward<T: Number>(a: &Attention, out: View, lse: View) -> Result<bool> {
    let Some(p) = Problem::<T>::new(a) else { return Ok(false) };
    let Some(places) = Places::of(&out) else { return Ok(false) };
    let (logs, first_log) = (Cells::of(lse)?, lse.layout.offset);
    let cells = Cells::of(out)?;
    if p.has_few_queries() {
        p.attend_few(|head, query, row, log| {
            cells.write(places.row(p.head(head), query), row);
            logs.set(first_log + head * p.queries + query, log);
        });
        return Ok(true);
    }
    let width = STRIPS * STRIP;
    let blocks = p.queries.div_ceil(width);
    let work = p.queries.min(width) * p.keys * (p.sizes[0] + p.sizes[1]);
    let count = p.batch * p.heads * blocks;
    parallel_for(count, (TASK / work.max(1)).clamp(1, count), |tasks| {
        for task in tasks {
            // Late queries have the most keys under a causal mask, and come first.
            let (head, block) = (task / blocks, blocks - 1 - task % blocks);
            let queries = block * width..p.queries.min((block + 1) * width);
            p.attend(p.head(head), queries, |query, row, log| {
                cells.write(places.row(p.head(head), query), row);
                logs.set(first_log + head * p.queries + query, log);
            });
        }
    });
    Ok(true)
}

/// Where the rows of the result begin.
struct Places {
    strides: [usize; 3],
    first: usize,
}

impl Places {
    fn of(out: &View) -> Option<Places> {
        let rows = out.layout.rank() == 4 && (out.layout.shape[3] == 1 || out.layout.strides[3] == 1);
        strides_of(out).filter(|_| rows).map(|strides| Places { strides, first: out.layout.offset })
    }

    fn row(&self, [batch, head]: [usize; 2], query: usize) -> usize {
        self.first + batch * self.strides[0] + head * self.strides[1] + query * self.strides[2]
    }
}

impl<T: Number> Problem<'_, T> {
    /// Computes the results of a block of queries and passes on each row with the logarithm of its sum.
    fn attend(&self, head: [usize; 2], queries: Range<usize>, mut put: impl FnMut(usize, &[T], T)) {
        let ([size, width], kernels) = (self.sizes, self.kernels);
        let strips = queries.len().div_ceil(STRIP);
        let per_strip = (size + width + 3) * STRIP;
        let len = strips * per_strip + self.block * STRIP + self.mask_scratch() + STRIP * width;
        with_scratch(&SCRATCH, len, |mut rest: &mut [T]| {
            let scores = take(&mut rest, self.block * STRIP);
            let mask = take(&mut rest, self.mask_scratch());
            let rows = take(&mut rest, STRIP * width);
            let strips = &mut rest[..strips * per_strip];
            let of_strip =
                |i: usize| queries.start + i * STRIP..queries.end.min(queries.start + (i + 1) * STRIP);
            for (i, strip) in strips.chunks_exact_mut(per_strip).enumerate() {
                let mut s = Strip::new(strip, size, width);
                kernels.pack(
                    of_strip(i).len(),
                    size,
                    self.query.rows(head, of_strip(i).start),
                    s.query,
                    STRIP,
                );
                s.query.iter_mut().for_each(|x| *x = *x * self.log2_scale);
                s.start();
            }
            let shared = self.shared(head);
            let end = self.keys_of(&queries);
            for start in (0..end).step_by(self.block) {
                for (i, strip) in strips.chunks_exact_mut(per_strip).enumerate() {
                    let queries = of_strip(i);
                    let keys = start..(start + self.block).min(self.keys_of(&queries));
                    if keys.is_empty() {
                        continue;
                    }
                    let (s, n) = (Strip::new(strip, size, width), queries.len());
                    let scores = &mut scores[..keys.len() * STRIP];
                    let packed = Matrix { data: &*s.query, rs: STRIP, cs: 1 };
                    let mut c = ViewMut::new(scores, keys.len(), STRIP);
                    self.scores(self.key.rows(shared, start), packed, size, c.part(0, 0, keys.len(), n));
                    self.mask_strip(head, &queries, &keys, scores, STRIP, mask);
                    if powers(scores, s.top, s.sum, s.factor) && start > 0 {
                        scale_columns(s.out, s.factor);
                    }
                    let values = self.value.rows(shared, start).transposed();
                    let weights = Matrix { data: &*scores, rs: STRIP, cs: 1 };
                    let mut out = ViewMut::new(s.out, width, STRIP);
                    product(kernels, keys.len(), values, weights, &mut out.part(0, 0, width, n), start > 0);
                }
            }
            for (i, strip) in strips.chunks_exact_mut(per_strip).enumerate() {
                let (mut s, queries) = (Strip::new(strip, size, width), of_strip(i));
                s.finish(self.mask.is_some());
                let columns = Matrix { data: &*s.out, rs: STRIP, cs: 1 };
                kernels.pack(width, queries.len(), columns, rows, width);
                for ((query, row), &log) in queries.zip(rows.chunks_exact(width)).zip(&*s.sum) {
                    put(query, row, log);
                }
            }
        });
    }
}

/// The state of a strip of queries, by columns.
struct Strip<'s, T> {
    /// The scaled queries, packed by depth.
    query: &'s mut [T],
    out: &'s mut [T],
    /// The running maximum of each query's scores, and the sum of the powers of two of their distances to it.
    top: &'s mut [T],
    sum: &'s mut [T],
    factor: &'s mut [T],
}

impl<'s, T: Number> Strip<'s, T> {
    fn new(mut rest: &'s mut [T], size: usize, width: usize) -> Self {
        Strip {
            query: take(&mut rest, size * STRIP),
            out: take(&mut rest, width * STRIP),
            top: take(&mut rest, STRIP),
            sum: take(&mut rest, STRIP),
            factor: take(&mut rest, STRIP),
        }
    }

    fn start(&mut self) {
        self.top.fill(-T::INFINITY);
        self.sum.fill(T::ZERO);
    }

    /// Divides by the sums, which are replaced by the logarithms of the sums of exponentials. Under a mask, a query without
    /// keys has the result 0.
    fn finish(&mut self, masked: bool) {
        for ((top, sum), factor) in self.top.iter().zip(self.sum.iter_mut()).zip(self.factor.iter_mut()) {
            let blind = *top == -T::INFINITY && !sum.is_nan();
            // Without a mask this is 0 / 0.
            *factor = if blind && masked { T::ZERO } else { T::ONE / *sum };
            *sum = if blind { *top } else { (*top + sum.m_log2()) * T::of(LN_2) };
        }
        scale_columns(self.out, self.factor);
    }
}
