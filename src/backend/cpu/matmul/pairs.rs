//! Products of matrices of half types, whose sums are float32.
//!
//! // Note [Pairs of halves] An instruction of AVX-512 multiplies two bfloat16 elements of each lane with two others and adds
//! both products to a float32. To the kernels and to Note [Blocking], two elements that follow each other along the depth are
//! therefore one element of 32 bits, and the depth is half as long. An operand that is contiguous along the depth consists of such
//! pairs as it lies in memory. Of one that is contiguous across it, two rows are interleaved, block by block; a last odd row
//! is paired with zeros.
//!
//! Dot products of few rows, which wait for memory, read pairs of both half types in place on all processors that have AVX2, where
//! the elements of a pair are widened in registers. All other products are of float32, to which operands are widened block by block.
//!
//! Blocks of sums are kept in scratch memory over the whole depth, and rounded once, with the bias.

use std::cell::Cell;

use bytemuck::{cast_slice, cast_slice_mut, try_cast_slice};

use super::{
    Block, GemmElem, K_BLOCK, K_STEP_LOW, MatRef, N_BLOCK, SMALL_ROWS, Scratch, dots, has_long_rows, small,
    with_scratch,
};
use crate::backend::cpu::copy::cast_run;
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::microkernel::{Half, Kernels, Store, View, ViewMut};
use crate::backend::cpu::parallel::{for_chunks_mut, num_threads};
use crate::backend::cpu::simd::Isa;
use crate::multiversion;

/// Rows of a block of sums, which the columns of a block of [`super::Block`] make at most 8 MB.
const M_BLOCK: usize = 1024;
/// Elements of a task that only moves them.
const MOVED: usize = 1 << 15;
/// Elements that are rounded or gathered at a time.
const STAGE: usize = 256;

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

/// Computes `batch` products `c = a @ b + bias` of matrices of m x k and k x n elements, none of which is 0, with the strides of
/// [`super::batched_gemm`] and the kernels for `isa`. `bias` has a value for each column.
///
/// # Panics
/// As [`super::batched_gemm`].
pub fn batched_gemm<H: Half>(
    isa: Isa,
    batch: usize,
    sizes: Sizes,
    (a, a_step): (MatRef<H>, usize),
    (b, b_step): (MatRef<H>, usize),
    bias: Option<&[H]>,
    c: &mut [H],
) {
    let Sizes { m, n, k } = sizes;
    assert_eq!(c.len(), batch * m * n);
    assert!(bias.is_none_or(|bias| bias.len() == n));
    if c.is_empty() {
        return;
    }
    let (a, b) = (a.view(), b.view());
    if b_step == 0 && (batch == 1 || a_step == m * a.rs) {
        return product(isa, Sizes { m: batch * m, n, k }, a, b, bias, c);
    }
    let one = |i: usize, c: &mut [H]| {
        let a = View { data: &a.data[i * a_step..], ..a };
        let b = View { data: &b.data[i * b_step..], ..b };
        product(isa, sizes, a, b, bias, c);
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

/// What kernels take for an element of the depth.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Pairs,
    Widened,
}

impl Form {
    /// The elements that a depth of `k` has in this form.
    fn depth(self, k: usize) -> usize {
        if self == Form::Pairs { k.div_ceil(2) } else { k }
    }
}

fn product<H: Half>(
    isa: Isa,
    Sizes { m, n, k }: Sizes,
    a: View<H>,
    b: View<H>,
    bias: Option<&[H]>,
    c: &mut [H],
) {
    if (has_long_rows(m, k / 2, b.rs) || has_long_rows(n, k / 2, a.cs))
        && let Some(kernels) = H::dot_kernels(isa)
        && let (Some(a), Some(b)) = (in_pairs(a, k), in_pairs(b.transposed(), k))
    {
        return block(m * n, c, n, 0, n, bias, |sums| {
            dots(kernels, k / 2, a, b.transposed(), ViewMut::new(sums, m, n), &PLAIN);
        });
    }
    // One row or column is no tile.
    let (form, kernels) = match H::tile_kernels(isa) {
        Some(kernels) if m.min(n) > 1 => (Form::Pairs, kernels),
        _ => (Form::Widened, f32::kernels(isa)),
    };
    for j in (0..n).step_by(N_BLOCK) {
        let cols = N_BLOCK.min(n - j);
        for (i, c) in (0..m).step_by(M_BLOCK).zip(c.chunks_mut(M_BLOCK * n)) {
            let rows = M_BLOCK.min(m - i);
            block(rows * cols, c, n, j, cols, bias, |sums| {
                for p in (0..k).step_by(2 * K_BLOCK) {
                    let depth = (2 * K_BLOCK).min(k - p);
                    let store = PLAIN.step(p == 0, p + depth == k);
                    in_scratch(&LEFT, form, a.from(i, p), rows, depth, |a| {
                        in_scratch(&RIGHT, form, b.from(p, j).transposed(), cols, depth, |b| {
                            let c = ViewMut::new(sums, rows, cols);
                            of_block(kernels, form, form.depth(depth), a, b.transposed(), c, &store);
                        });
                    });
                }
            });
        }
    }
}

fn of_block(
    kernels: &'static Kernels<f32>,
    form: Form,
    depth: usize,
    a: View<f32>,
    b: View<f32>,
    c: ViewMut<f32>,
    store: &Store<f32>,
) {
    if form == Form::Widened {
        super::product_into(kernels, depth, a, b, c, *store);
    } else if c.cols() <= kernels.nr && depth <= K_STEP_LOW && c.rows() <= SMALL_ROWS {
        small(kernels, depth, a, b, c, store);
    } else {
        Block::new(kernels, depth, a, b, [c.rows(), c.cols()], *store).compute(c);
    }
}

/// The epilogue that overwrites C.
const PLAIN: Store<'static, f32> = Store { alpha: 1.0, beta: 0.0, row: None, col: None, relu: false };

/// Calls `compute` with memory for the sums of all rows of `c` in the columns from `j` on, then rounds them into `c`, whose
/// rows have `n` elements.
fn block<H: Half>(
    len: usize,
    c: &mut [H],
    n: usize,
    j: usize,
    cols: usize,
    bias: Option<&[H]>,
    compute: impl FnOnce(&mut [f32]),
) {
    with_scratch(&SUMS, len, |sums: &mut [f32]| {
        compute(sums);
        let bias = bias.map(|bias| {
            let mut wide = vec![0.0f32; cols];
            cast_run(&bias[j..j + cols], &mut wide);
            wide
        });
        let rows = MOVED.div_ceil(cols);
        let sums = &*sums;
        for_chunks_mut(c, rows * n, |t, c| {
            let mut last = [0.0f32; STAGE];
            for (c, sums) in c.chunks_mut(n).zip(sums[t * rows * cols..].chunks(cols)) {
                let c = &mut c[j..j + cols];
                let Some(bias) = &bias else {
                    cast_run(sums, c);
                    continue;
                };
                for ((c, sums), bias) in c.chunks_mut(STAGE).zip(sums.chunks(STAGE)).zip(bias.chunks(STAGE)) {
                    let last = &mut last[..sums.len()];
                    last.iter_mut().zip(sums).zip(bias).for_each(|((last, sum), bias)| *last = sum + bias);
                    cast_run(last, c);
                }
            }
        });
    });
}

/// The pairs of `k` elements of depth of an operand (its columns) that lie beside each other in memory.
fn in_pairs<'a, H: Half>(x: View<'a, H>, k: usize) -> Option<View<'a, f32>> {
    if x.cs != 1 || !k.is_multiple_of(2) || !x.rs.is_multiple_of(2) {
        return None;
    }
    let whole = &x.data[..x.data.len() & !1];
    try_cast_slice(whole).ok().map(|data| View { data, rs: x.rs / 2, cs: 1 })
}

/// Calls `f` with an operand of `width` rows and `k` columns of depth in a form: in place, or in scratch memory.
fn in_scratch<H: Half>(
    scratch: &'static Scratch,
    form: Form,
    x: View<H>,
    width: usize,
    k: usize,
    f: impl FnOnce(View<f32>),
) {
    if form == Form::Pairs
        && let Some(pairs) = in_pairs(x, k)
    {
        return f(pairs);
    }
    let depth = form.depth(k);
    // A copy has the operand's contiguous dimension innermost.
    let inner = if x.rs == 1 { width } else { depth };
    with_scratch(scratch, depth * width, |out: &mut [f32]| {
        let rows = MOVED.div_ceil(inner);
        for_chunks_mut(out, rows * inner, |t, out| {
            for (i, out) in (t * rows..).zip(out.chunks_mut(inner)) {
                match form {
                    Form::Pairs if x.rs == 1 => {
                        let row = |p: usize| cast_slice::<H, u16>(&x.data[p * x.cs..][..width]);
                        let second = if 2 * i + 1 < k { row(2 * i + 1) } else { &[] };
                        interleave(row(2 * i), second, cast_slice_mut(out));
                    }
                    Form::Pairs => {
                        let bits: &mut [[u16; 2]] = cast_slice_mut(out);
                        let at =
                            |p: usize| if p < k { bytemuck::cast(x.data[i * x.rs + p * x.cs]) } else { 0 };
                        bits.iter_mut().enumerate().for_each(|(p, pair)| *pair = [at(2 * p), at(2 * p + 1)]);
                    }
                    Form::Widened if x.rs == 1 || x.cs == 1 => {
                        let from = i * if x.rs == 1 { x.cs } else { x.rs };
                        cast_run(&x.data[from..][..inner], out);
                    }
                    Form::Widened => {
                        let mut gathered = [H::zeroed(); STAGE];
                        for (s, out) in out.chunks_mut(STAGE).enumerate() {
                            let gathered = &mut gathered[..out.len()];
                            let from = |p: usize| x.data[i * x.rs + (s * STAGE + p) * x.cs];
                            gathered.iter_mut().enumerate().for_each(|(p, v)| *v = from(p));
                            cast_run(gathered, out);
                        }
                    }
                }
            }
        });
        f(if x.rs == 1 {
            View { data: out, rs: 1, cs: width }
        } else {
            View { data: out, rs: depth, cs: 1 }
        });
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
