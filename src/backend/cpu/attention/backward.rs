//! The backward pass; see Note [Tiles of attention].
//!
//! With the probabilities P and the gradients G of the result, the gradient of the scores is `P * (G Vᵀ - D)`, where D is the
//! sum of a query's gradients times results. One pass over all pairs of blocks adds to the gradients of queries, keys and
//! values, and is a task for each head of keys and values. Where there are too few heads for the threads, two passes compute
//! the probabilities twice: one is a task for each block of keys, one for each block of queries. Sums have the same order in
//! both.

use std::f64::consts::LOG2_E;
use std::ops::Range;

use super::{Heads, Number, Problem, SCRATCH, STRIP, TASK, product, take};
use crate::backend::attention::Attention;
use crate::backend::cpu::matmul::with_scratch;
use crate::backend::cpu::microkernel::{View as Matrix, ViewMut};
use crate::backend::cpu::parallel::{for_chunks_mut, num_threads};
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::{View, elements, results};
use crate::error::Result;
use crate::multiversion;

/// Queries of a block.
const WIDTH: usize = 4 * STRIP;

multiversion! { version = IsaDispatch::worth::<T>();
    /// Replaces scores by probabilities, and the gradients of probabilities by those of scores. `shift` is the logarithm of
    /// the sum of exponentials of each query, `dots` its sum of gradients times results.
    fn gradients[T: Number](scores: &mut [T], slopes: &mut [T], shift: &[T], dots: &[T], scale: T) {
        let n = shift.len().min(WIDTH);
        for (scores, slopes) in scores.chunks_exact_mut(WIDTH).zip(slopes.chunks_exact_mut(WIDTH)) {
            let (scores, slopes, shift, dots) = (&mut scores[..n], &mut slopes[..n], &shift[..n], &dots[..n]);
            for j in 0..n {
                let p = (scores[j] - shift[j]).power_of_two();
                scores[j] = p;
                slopes[j] = p * (slopes[j] - dots[j]) * scale;
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The dot product of two rows.
    fn dot[T: Number](a: &[T], b: &[T]) -> T {
        let [sum] = crate::backend::cpu::reduce::sum_pairs(a, b, |a, b| [a * b]);
        sum
    }
}

/// The operands of a backward pass.
struct Backward<'a, T: 'static> {
    p: Problem<'a, T>,
    out: Heads<'a, T>,
    grad: Heads<'a, T>,
    /// The logarithms of the sums of exponentials, dense.
    lse: &'a [T],
}

/// The gradients of one head of keys and values and of the heads of queries that share it.
struct Job<'g, T> {
    query: &'g mut [T],
    key: &'g mut [T],
    value: &'g mut [T],
}

/// Writes the gradients of query, key and value; false if the operands are not laid out as the kernels read them.
pub(in super::super) fn backward<T: Number>(
    a: &Attention,
    out: View,
    lse: View,
    grad: View,
    grads: [View; 3],
) -> Result<bool> {
    let (Some(p), Some(out), Some(grad)) = (Problem::<T>::new(a), Heads::new(out), Heads::new(grad)) else {
        return Ok(false);
    };
    let b = Backward { p, out, grad, lse: elements::<T>(lse) };
    let [query, key, value] = grads;
    let (mut query, mut key, mut value) = (results::<T>(query)?, results::<T>(key)?, results::<T>(value)?);
    b.run(&mut query, &mut key, &mut value, num_threads());
    Ok(true)
}

impl<T: Number> Backward<'_, T> {
    fn run(&self, query: &mut [T], key: &mut [T], value: &mut [T], threads: usize) {
        let p = &self.p;
        let [size, width] = p.sizes;
        let shared = p.batch * p.heads / p.group;
        if p.causal {
            // No query may reach the last keys.
            key.fill(T::ZERO);
            value.fill(T::ZERO);
        }
        // Five products for each pair of blocks in one pass, seven in two.
        if shared.div_ceil(threads) * threads * 5 <= shared * 7 {
            let work = p.group * p.queries * p.keys * (size + width);
            let per_task = (TASK / work.max(1)).clamp(1, shared);
            let mut jobs: Vec<_> = query
                .chunks_mut(p.group * p.queries * size)
                .zip(key.chunks_mut(p.keys * size))
                .zip(value.chunks_mut(p.keys * width))
                .map(|((query, key), value)| Job { query, key, value })
                .collect();
            return for_chunks_mut(&mut jobs, per_task, |i, jobs| {
                for (j, job) in jobs.iter_mut().enumerate() {
                    self.of_head(
                        i * per_task + j,
                        0..p.keys,
                        Some(&mut *job.query),
                        Some((&mut *job.key, &mut *job.value)),
                    );
                }
            });
        }
        let key = key.chunks_mut(p.keys * size).flat_map(|head| head.chunks_mut(p.block * size));
        let value = value.chunks_mut(p.keys * width).flat_map(|head| head.chunks_mut(p.block * width));
        let mut blocks: Vec<_> = key.zip(value).collect();
        let count = p.keys.div_ceil(p.block);
        for_chunks_mut(&mut blocks, 1, |i, blocks| {
            let (key, value) = &mut blocks[0];
            let start = i % count * p.block;
            self.of_head(i / count, start..p.keys.min(start + p.block), None, Some((key, value)));
        });
        let mut blocks: Vec<_> =
            query.chunks_mut(p.queries * size).flat_map(|head| head.chunks_mut(WIDTH * size)).collect();
        let count = p.queries.div_ceil(WIDTH);
        for_chunks_mut(&mut blocks, 1, |i, blocks| {
            // Late queries have the most keys under a causal mask, but these tasks are many.
            let start = i % count * WIDTH;
            self.with_pairs(|pairs| {
                let queries = start..p.queries.min(start + WIDTH);
                pairs.run(p.head(i / count), queries, 0..p.keys, Some(&mut *blocks[0]), None, true);
            });
        });
    }

    fn with_pairs(&self, f: impl FnOnce(&mut Pairs<T>)) {
        let p = &self.p;
        let [size, width] = p.sizes;
        let len = (size + width + 2 * p.block + 2) * WIDTH + p.mask_scratch();
        with_scratch(&SCRATCH, len, |mut rest: &mut [T]| {
            f(&mut Pairs {
                b: self,
                query: take(&mut rest, size * WIDTH),
                grad: take(&mut rest, width * WIDTH),
                scores: take(&mut rest, p.block * WIDTH),
                slopes: take(&mut rest, p.block * WIDTH),
                shift: take(&mut rest, WIDTH),
                dots: take(&mut rest, WIDTH),
                mask: rest,
            });
        });
    }

    /// Adds what some keys of a head contribute, and all queries that share it. `query` holds these heads' queries, the others
    /// these keys.
    fn of_head(
        &self,
        shared: usize,
        keys: Range<usize>,
        mut query: Option<&mut [T]>,
        mut key_value: Option<(&mut [T], &mut [T])>,
    ) {
        let p = &self.p;
        let size = p.sizes[0];
        self.with_pairs(|pairs| {
            for g in 0..p.group {
                for start in (0..p.queries).step_by(WIDTH) {
                    let queries = start..p.queries.min(start + WIDTH);
                    let at = |q: usize| (g * p.queries + q) * size;
                    let query = query.as_deref_mut().map(|q| &mut q[at(queries.start)..at(queries.end)]);
                    let key_value = key_value.as_mut().map(|(k, v)| (&mut **k, &mut **v));
                    let add = p.causal || g > 0 || start > 0;
                    pairs.run(p.head(shared * p.group + g), queries, keys.clone(), query, key_value, add);
                }
            }
        });
    }
}

/// Scratch memory for pairs of blocks of queries and keys.
struct Pairs<'s, 'b, 'a, T: 'static> {
    b: &'b Backward<'a, T>,
    /// Scaled queries and gradients of the result, packed by depth.
    query: &'s mut [T],
    grad: &'s mut [T],
    /// Scores and then probabilities; gradients of the probabilities and then of the scores. A row for each key.
    scores: &'s mut [T],
    slopes: &'s mut [T],
    shift: &'s mut [T],
    dots: &'s mut [T],
    mask: &'s mut [T],
}

impl<T: Number> Pairs<'_, '_, '_, T> {
    /// Packs a block of queries.
    fn load(&mut self, head: [usize; 2], queries: &Range<usize>) {
        let (b, n) = (self.b, queries.len());
        let p = &b.p;
        let [size, width] = p.sizes;
        let grads = b.grad.rows(head, queries.start);
        p.kernels.pack(n, size, p.query.rows(head, queries.start), self.query, WIDTH);
        self.query.iter_mut().for_each(|x| *x = *x * p.log2_scale);
        p.kernels.pack(n, width, grads, self.grad, WIDTH);
        let out = b.out.rows(head, queries.start);
        let first = (head[0] * p.heads + head[1]) * p.queries + queries.start;
        for i in 0..n {
            self.dots[i] = dot(&grads.data[i * grads.rs..][..width], &out.data[i * out.rs..][..width]);
            // The probabilities of a query without keys are 0.
            let lse = b.lse[first + i];
            self.shift[i] = if lse == -T::INFINITY { T::INFINITY } else { lse * T::of(LOG2_E) };
        }
    }

    /// Computes what a block of queries and some keys contribute to the gradients of these queries, and of these keys and
    /// values, and adds it to the latter with `add`.
    fn run(
        &mut self,
        head: [usize; 2],
        queries: Range<usize>,
        keys: Range<usize>,
        mut query: Option<&mut [T]>,
        mut key_value: Option<(&mut [T], &mut [T])>,
        add: bool,
    ) {
        let b = self.b;
        let p = &b.p;
        let end = keys.end.min(p.keys_of(&queries));
        if keys.start >= end {
            return;
        }
        self.load(head, &queries);
        let ([size, width], n, shared) = (p.sizes, queries.len(), p.shared(head));
        for start in (keys.start..end).step_by(p.block) {
            let block = start..end.min(start + p.block);
            let m = block.len();
            self.pair(head, &queries, &block);
            let (weights, slopes) = (
                Matrix { data: &*self.scores, rs: WIDTH, cs: 1 },
                Matrix { data: &*self.slopes, rs: WIDTH, cs: 1 },
            );
            if let Some((key, value)) = &mut key_value {
                let at = |size: usize| (start - keys.start) * size..(block.end - keys.start) * size;
                let mut value = ViewMut::new(&mut value[at(width)], m, width);
                product(p.kernels, n, weights, b.grad.rows(head, queries.start), &mut value, add);
                let mut key = ViewMut::new(&mut key[at(size)], m, size);
                product(p.kernels, n, slopes, p.query.rows(head, queries.start), &mut key, add);
            }
            if let Some(query) = &mut query {
                let mut query = ViewMut::new(query, n, size);
                product(p.kernels, m, slopes.transposed(), p.key.rows(shared, start), &mut query, start > 0);
            }
        }
    }

    /// The probabilities and the gradients of the scores of a block of queries and a block of keys.
    fn pair(&mut self, head: [usize; 2], queries: &Range<usize>, keys: &Range<usize>) {
        let p = &self.b.p;
        let ([size, width], n, m, shared) = (p.sizes, queries.len(), keys.len(), p.shared(head));
        let (scores, slopes) = (&mut self.scores[..m * WIDTH], &mut self.slopes[..m * WIDTH]);
        let packed = |data| Matrix { data, rs: WIDTH, cs: 1 };
        let mut c = ViewMut::new(scores, m, WIDTH);
        product(
            p.kernels,
            size,
            p.key.rows(shared, keys.start),
            packed(&*self.query),
            &mut c.part(0, 0, m, n),
            false,
        );
        let mut c = ViewMut::new(slopes, m, WIDTH);
        product(
            p.kernels,
            width,
            p.value.rows(shared, keys.start),
            packed(&*self.grad),
            &mut c.part(0, 0, m, n),
            false,
        );
        for start in (0..n).step_by(STRIP) {
            let strip = queries.start + start..queries.end.min(queries.start + start + STRIP);
            p.mask_strip(head, &strip, keys, &mut scores[start..], WIDTH, self.mask);
        }
        gradients(scores, slopes, &self.shift[..n], &self.dots[..n], p.scale);
    }
}
