//! Kernels of rows on half types: they compute in float32, a few rows at a time.

use std::ops::Range;

use crate::backend::cpu::copy::cast_run;
use crate::dtype::Element;

/// Elements that are widened at a time, which stay in the L1 cache with those of other operands.
const WIDENED: usize = 1 << 11;

/// Widens a few rows of `n` elements of each operand at a time, calls `f(row numbers, rows of the operands, rows of the result)`, and
/// rounds the result to `out`.
pub fn in_float32<H: Element, const N: usize>(
    operands: [&[H]; N],
    n: usize,
    out: &mut [H],
    mut f: impl FnMut(Range<usize>, [&[f32]; N], &mut [f32]),
) {
    let rows = (WIDENED / n.max(1)).max(1);
    let mut wide = vec![0.0; (N + 1) * rows * n];
    for (block, out) in out.chunks_mut(rows * n).enumerate() {
        let (at, len) = (block * rows, out.len());
        let mut parts = wide.chunks_mut(rows * n);
        let mut part = || parts.next().unwrap_or_default();
        let ins = operands.map(|x| {
            let part = &mut part()[..len];
            cast_run(&x[at * n..][..len], part);
            &*part
        });
        let results = &mut part()[..len];
        f(at..at + len / n, ins, results);
        cast_run(results, out);
    }
}
