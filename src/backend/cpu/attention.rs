//! Scaled dot product attention in tiles, forward and backward.
//!
//! // Note [Tiles of attention] The scores of a block of queries and a block of keys are computed with the tiles of the matrix
//! product, transposed: a row holds the scores of one key. So a block of queries, packed by depth, is the right operand, and
//! keys and values are read in place; and what softmax does for each query (maximum, exponentials, sum) is done for
//! neighbouring queries in the lanes of a vector. Forward goes through the blocks of keys with a running maximum and sum per
//! query, and rescales the result where the maximum grows. Backward recomputes the probabilities from the logarithm of the sum
//! of exponentials. The blocks follow from the shape alone, so that results do not depend on the number of threads.

mod backward;
mod few;
mod forward;
mod mask;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::f64::consts::LOG2_E;
use std::ops::Range;

use crate::backend::View;
use crate::backend::attention::Attention;
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::math::Math;
use crate::backend::cpu::matmul::product_of_tiles as product;
use crate::backend::cpu::microkernel::{GemmElem, Kernels, View as Matrix, ViewMut};
use crate::backend::cpu::simd;
use crate::dtype::{DType, Element};
use mask::Mask;

pub(super) use backward::backward;
pub(super) use forward::forward;

/// Queries in the lanes of a strip.
const STRIP: usize = 32;
/// Most keys of a block: its keys, values and scores stay in the L2 cache.
const KEYS: usize = 272;
/// Fewest multiplications of a parallel task.
const TASK: usize = 1 << 19;
/// Most elements of a row of queries, keys or values, which bounds the scratch memory of a thread.
const WIDEST: usize = 1024;

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// The element types of attention.
///
/// Scores are scaled by log2 e together with the queries, as powers of two take fewer steps than those of e.
pub(super) trait Number: Math + GemmElem {
    /// 2^x for x below 127; results below the smallest normal number are zero.
    fn power_of_two(self) -> Self;
}

impl Number for f64 {
    #[inline(always)]
    fn power_of_two(self) -> f64 {
        self.m_exp2()
    }
}

impl Number for f32 {
    /// `x = n + r` with integer n, and a polynomial for 2^r of which the relative error is at most 1e-7.
    #[inline(always)]
    #[allow(clippy::approx_constant)] // not ln 2, but what makes the largest error least
    fn power_of_two(self) -> f32 {
        // Adding this to |x| < 2^22 rounds x to an integer, held in the low bits of the sum.
        const ROUND: f32 = 12582912.0;
        // At -127 the power of two is zero. NaN passes the comparison.
        let x = if self < -127.0 { -127.0 } else { self };
        let shifted = x + ROUND;
        let r = x - (shifted - ROUND);
        let tail = 0.24022242 + r * (0.055507336 + r * (0.009671513 + r * 0.0013264726));
        (1.0 + r * (0.693147 + r * tail)) * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
    }
}

/// The dtypes that are computed in.
pub(super) fn attends(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// A tensor of rank 4 whose rows are contiguous.
#[derive(Clone, Copy)]
struct Heads<'a, T> {
    data: &'a [T],
    strides: [usize; 3],
}

/// The strides of a view, none of which is negative.
fn strides_of<const N: usize>(v: &View) -> Option<[usize; N]> {
    let mut out = [0; N];
    if v.layout.rank() < N {
        return None;
    }
    for (i, out) in out.iter_mut().enumerate() {
        let many = v.layout.shape[i] > 1;
        *out = if many { usize::try_from(v.layout.strides[i]).ok()? } else { 0 };
    }
    Some(out)
}

impl<'a, T: Element> Heads<'a, T> {
    fn new(v: View<'a>) -> Option<Self> {
        let rows = v.layout.rank() == 4 && (v.layout.shape[3] == 1 || v.layout.strides[3] == 1);
        let data = v.storage.slice::<T>().get(v.layout.offset..)?;
        strides_of(&v).filter(|_| rows).map(|strides| Heads { data, strides })
    }

    /// The rows of a head from `row` on.
    fn rows(&self, [batch, head]: [usize; 2], row: usize) -> Matrix<'a, T> {
        let [b, h, rs] = self.strides;
        Matrix { data: &self.data[batch * b + head * h + row * rs..], rs, cs: 1 }
    }
}

/// One call: the operands and how they are divided.
struct Problem<'a, T: 'static> {
    kernels: &'static Kernels<T>,
    query: Heads<'a, T>,
    key: Heads<'a, T>,
    value: Heads<'a, T>,
    mask: Mask<'a, T>,
    causal: bool,
    scale: T,
    /// The factor of the packed queries.
    log2_scale: T,
    batch: usize,
    heads: usize,
    /// Heads of the query that share a head of key and value.
    group: usize,
    queries: usize,
    keys: usize,
    /// The sizes of a row of query and key, and of value.
    sizes: [usize; 2],
    /// Keys per block.
    block: usize,
}

impl<'a, T: Number> Problem<'a, T> {
    /// None if the operands are not laid out as the kernels read them.
    fn new(a: &Attention<'a>) -> Option<Self> {
        let (q, v) = (&a.query.layout.shape, &a.value.layout.shape);
        let kernels = T::kernels(simd::isa());
        let keys = v[2];
        if q[3].max(v[3]) > WIDEST {
            return None;
        }
        let most = KEYS / kernels.mr * kernels.mr;
        Some(Problem {
            kernels,
            query: Heads::new(a.query)?,
            key: Heads::new(a.key)?,
            value: Heads::new(a.value)?,
            mask: Mask::new(a.mask)?,
            causal: a.causal,
            scale: T::of(a.scale),
            log2_scale: T::of(a.scale * LOG2_E),
            batch: q[0],
            heads: q[1],
            group: q[1] / v[1].max(1),
            queries: q[2],
            keys,
            sizes: [q[3], v[3]],
            block: keys.div_ceil(keys.div_ceil(most).max(1)).next_multiple_of(kernels.mr),
        })
    }

    /// Batch and head by the number of a head of the query.
    fn head(&self, i: usize) -> [usize; 2] {
        [i / self.heads, i % self.heads]
    }

    /// The head of key and value that a head of the query attends to.
    fn shared(&self, [batch, head]: [usize; 2]) -> [usize; 2] {
        [batch, head / self.group]
    }

    /// The first `queries.end` keys are all that these queries attend to under a causal mask.
    fn keys_of(&self, queries: &Range<usize>) -> usize {
        if self.causal { self.keys.min(queries.end) } else { self.keys }
    }

    /// The scores of keys and a block of packed queries, before masks.
    fn scores(&self, rows: Matrix<T>, packed: Matrix<T>, size: usize, mut c: ViewMut<T>) {
        product(self.kernels, size, rows, packed, &mut c, false);
    }
}

/// Takes the first `n` elements of scratch memory.
fn take<'s, T>(rest: &mut &'s mut [T], n: usize) -> &'s mut [T] {
    let (part, left) = std::mem::take(rest).split_at_mut(n);
    *rest = left;
    part
}
