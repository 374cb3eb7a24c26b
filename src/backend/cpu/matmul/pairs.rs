//! Products of bfloat16 matrices whose sums are float32.
//!
//! // Note [Pairs of bfloat16] An instruction of AVX-512 multiplies two bfloat16 elements of each lane with two others and adds
//! both products to a float32. To the kernels and to Note [Blocking], two elements that follow each other along the depth are
//! therefore one element of 32 bits, and the depth is half as long. An operand that is contiguous along the depth consists of such
//! pairs as it lies in memory. Of one that is contiguous across it, two rows are interleaved, block by block; a last odd row
//! is paired with zeros. Blocks of sums are kept in scratch memory over the whole depth and rounded once, with the bias.
//!
//! Other processors widen both operands and multiply float32 ([`is_worth`]). Only dot products of few rows, which wait for memory,
//! read bfloat16 in place on all that have AVX2, where the elements of a pair are widened in registers.

use std::cell::Cell;

use bytemuck::{cast_slice, cast_slice_mut, try_cast_slice};
use half::bf16;

use super::{
    Block, K_BLOCK, K_STEP_LOW, MatRef, N_BLOCK, SMALL_ROWS, Scratch, dots, has_long_rows, small,
    with_scratch,
};
use crate::backend::cpu::copy::narrow_bf16;
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::microkernel::{Kernels, Store, View, ViewMut};

pub use crate::backend::cpu::microkernel::bf16_pairs;
use crate::backend::cpu::parallel::{for_chunks_mut, num_threads};
use crate::backend::cpu::simd::{isa, multiplies_bf16_pairs};
use crate::multiversion;

/// Rows of a block of sums, which the columns of a block of [`super::Block`] make at most 8 MB.
const M_BLOCK: usize = 1024;
/// Elements of a task that only moves them.
const MOVED: usize = 1 << 15;

thread_local! {
    static SUMS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    static LEFT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    static RIGHT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// The sizes of a product of m x k and k x n elements.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// Whether [`batched_gemm`] takes less time than a product of widened operands.
pub fn is_worth(Sizes { m, n, k }: Sizes, a: MatRef<bf16>, b: MatRef<bf16>) -> bool {
    if bf16_pairs(isa()).is_none() || k == 0 {
        return false;
    }
    let (a, b) = (a.view(), b.view().transposed());
    let of_dots = has_long_rows(m, k / 2, b.cs) || has_long_rows(n, k / 2, a.cs);
    let in_place = || in_pairs(a, k).is_some() && in_pairs(b, k).is_some();
    // One row or column is no tile.
    if m.min(n) == 1 || !multiplies_bf16_pairs(isa()) { of_dots && in_place() } else { true }
}

/// Computes `batch` products `c = a @ b + bias` of bfloat16 matrices, of m x k and k x n elements, with the strides of
/// [`super::batched_gemm`]. `bias` has a value for each column.
///
/// # Panics
/// As [`super::batched_gemm`].
pub fn batched_gemm(
    kernels: &'static Kernels<f32>,
    batch: usize,
    sizes: Sizes,
    (a, a_step): (MatRef<bf16>, usize),
    (b, b_step): (MatRef<bf16>, usize),
    bias: Option<&[bf16]>,
    c: &mut [bf16],
) {
    let Sizes { m, n, k } = sizes;
    assert_eq!(c.len(), batch * m * n);
    assert!(bias.is_none_or(|bias| bias.len() == n));
    if c.is_empty() {
        return;
    }
    let (a, b) = (a.view(), b.view());
    if b_step == 0 && (batch == 1 || a_step == m * a.rs) {
        return product(kernels, Sizes { m: batch * m, n, k }, a, b, bias, c);
    }
    let one = |i: usize, c: &mut [bf16]| {
        let a = View { data: &a.data[i * a_step..], ..a };
        let b = View { data: &b.data[i * b_step..], ..b };
        product(kernels, sizes, a, b, bias, c);
    };
    let work = m * n * k;
    if work >= 32 * super::TASK && batch < 4 * num_threads() {
        c.chunks_mut(m * n).enumerate().for_each(|(i, c)| one(i, c));
    } else {
        let group = (2 * super::TASK).div_ceil(work).min(batch);
        for_chunks_mut(c, m * n * group, |g, c| {
            c.chunks_mut(m * n).enumerate().for_each(|(i, c)| one(g * group + i, c));
        });
    }
}

fn product(
    kernels: &'static Kernels<f32>,
    Sizes { m, n, k }: Sizes,
    a: View<bf16>,
    b: View<bf16>,
    bias: Option<&[bf16]>,
    c: &mut [bf16],
) {
    let pairs = k.div_ceil(2);
    if has_long_rows(m, pairs, b.rs) || has_long_rows(n, pairs, a.cs) {
        return block(m * n, c, n, 0, n, bias, |sums| {
            in_scratch(&LEFT, a, m, k, |a| {
                in_scratch(&RIGHT, b.transposed(), n, k, |b| {
                    dots(kernels, pairs, a, b.transposed(), ViewMut::new(sums, m, n), &PLAIN);
                });
            });
        });
    }
    for j in (0..n).step_by(N_BLOCK) {
        let cols = N_BLOCK.min(n - j);
        for (i, c) in (0..m).step_by(M_BLOCK).zip(c.chunks_mut(M_BLOCK * n)) {
            let rows = M_BLOCK.min(m - i);
            block(rows * cols, c, n, j, cols, bias, |sums| {
                for p in (0..k).step_by(2 * K_BLOCK) {
                    let depth = (2 * K_BLOCK).min(k - p);
                    let store = PLAIN.step(p == 0, p + depth == k);
                    in_scratch(&LEFT, a.from(i, p), rows, depth, |a| {
                        in_scratch(&RIGHT, b.from(p, j).transposed(), cols, depth, |b| {
                            let (b, depth) = (b.transposed(), depth.div_ceil(2));
                            let c = ViewMut::new(sums, rows, cols);
                            if cols <= kernels.nr && depth <= K_STEP_LOW && rows <= SMALL_ROWS {
                                small(kernels, depth, a, b, c, &store);
                            } else {
                                Block::new(kernels, depth, a, b, &c, store).compute(c);
                            }
                        });
                    });
                }
            });
        }
    }
}

/// The sums of the first block of the depth replace what is there.
const PLAIN: Store<'static, f32> = Store { alpha: 1.0, beta: 0.0, row: None, col: None, relu: false };

/// Calls `compute` with memory for the sums of all rows of `c` in the columns from `j` on, then rounds them into `c`, whose
/// rows have `n` elements.
fn block(
    len: usize,
    c: &mut [bf16],
    n: usize,
    j: usize,
    cols: usize,
    bias: Option<&[bf16]>,
    compute: impl FnOnce(&mut [f32]),
) {
    with_scratch(&SUMS, len, |sums: &mut [f32]| {
        compute(sums);
        let bias: Option<Vec<f32>> = bias.map(|bias| bias[j..j + cols].iter().map(|v| v.to_f32()).collect());
        let rows = MOVED.div_ceil(cols);
        let sums = &*sums;
        for_chunks_mut(c, rows * n, |t, c| {
            let mut last = [0.0; 256];
            for (c, sums) in c.chunks_mut(n).zip(sums[t * rows * cols..].chunks(cols)) {
                let c = &mut c[j..j + cols];
                let Some(bias) = &bias else {
                    narrow_bf16(cast_slice(sums), cast_slice_mut(c));
                    continue;
                };
                for ((c, sums), bias) in c.chunks_mut(256).zip(sums.chunks(256)).zip(bias.chunks(256)) {
                    let last = &mut last[..sums.len()];
                    last.iter_mut().zip(sums).zip(bias).for_each(|((last, sum), bias)| *last = sum + bias);
                    narrow_bf16(cast_slice(last), cast_slice_mut(c));
                }
            }
        });
    });
}

/// The pairs of `k` elements of depth of an operand (its columns) that lie beside each other in memory.
fn in_pairs<'a>(x: View<'a, bf16>, k: usize) -> Option<View<'a, f32>> {
    if x.cs != 1 || !k.is_multiple_of(2) || !x.rs.is_multiple_of(2) {
        return None;
    }
    let whole = &x.data[..x.data.len() & !1];
    try_cast_slice(whole).ok().map(|data| View { data, rs: x.rs / 2, cs: 1 })
}

/// Calls `f` with the pairs of an operand of `width` rows and `k` columns of depth: in place, or in scratch memory.
fn in_scratch(scratch: &'static Scratch, x: View<bf16>, width: usize, k: usize, f: impl FnOnce(View<f32>)) {
    if let Some(pairs) = in_pairs(x, k) {
        return f(pairs);
    }
    let pairs = k.div_ceil(2);
    with_scratch(scratch, pairs * width, |out: &mut [f32]| {
        let bits: &mut [u32] = cast_slice_mut(out);
        let of = |value: bf16| u32::from(value.to_bits());
        if x.rs == 1 {
            let rows = MOVED.div_ceil(width);
            for_chunks_mut(bits, rows * width, |t, out| {
                for (p, out) in (t * rows..).zip(out.chunks_mut(width)) {
                    let row = |p: usize| cast_slice::<bf16, u16>(&x.data[p * x.cs..][..width]);
                    let second = if 2 * p + 1 < k { row(2 * p + 1) } else { &[] };
                    interleave(row(2 * p), second, out);
                }
            });
            return f(View { data: out, rs: 1, cs: width });
        }
        let rows = MOVED.div_ceil(pairs);
        for_chunks_mut(bits, rows * pairs, |t, out| {
            for (i, out) in (t * rows..).zip(out.chunks_mut(pairs)) {
                let at = |p: usize| of(x.data[i * x.rs + p * x.cs]);
                for (p, out) in out.iter_mut().enumerate() {
                    *out = at(2 * p) | if 2 * p + 1 < k { at(2 * p + 1) << 16 } else { 0 };
                }
            }
        });
        f(View { data: out, rs: pairs, cs: 1 });
    });
}

multiversion! {
    /// Writes pairs of the elements of two rows, or of one and zeros.
    fn interleave(first: &[u16], second: &[u16], out: &mut [u32]) {
        if second.is_empty() {
            return out.iter_mut().zip(first).for_each(|(out, &low)| *out = u32::from(low));
        }
        for ((out, &low), &high) in out.iter_mut().zip(first).zip(second) {
            *out = u32::from(low) | u32::from(high) << 16;
        }
    }
}
