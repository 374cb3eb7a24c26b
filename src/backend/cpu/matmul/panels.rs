//! Products of few rows on one thread, panel by panel, for kernels that hold their operands in the cache themselves.

use std::ops::Range;

use crate::backend::cpu::microkernel::{Kernels, Store, View, ViewMut};
use crate::dtype::Real;

/// `c = a @ b`, or with `add` `c += a @ b`, on this thread and without packing. Rows of `b` and `c` are contiguous.
#[inline]
pub fn product_of_tiles<T: Real>(
    kernels: &Kernels<T>,
    depth: usize,
    a: View<T>,
    b: View<T>,
    c: &mut ViewMut<T>,
    add: bool,
) {
    product_of_rows(kernels, depth, |rows| a.from(rows.start, 0), b, c, add);
}

/// As [`product_of_tiles`], for the rows that [`pack_panels`] packed.
#[inline]
pub fn product_of_panels<T: Real>(
    kernels: &Kernels<T>,
    depth: usize,
    packed: &[T],
    b: View<T>,
    c: &mut ViewMut<T>,
    add: bool,
) {
    let panel = |rows: Range<usize>| View { data: &packed[rows.start * depth..], rs: 1, cs: rows.len() };
    product_of_rows(kernels, depth, panel, b, c, add);
}

/// Packs rows of a left operand that several products read, panel after panel: [`product_of_panels`].
pub fn pack_panels<T: Real>(kernels: &Kernels<T>, depth: usize, rows: usize, a: View<T>, packed: &mut [T]) {
    for rows in panels(kernels, rows) {
        let to = &mut packed[rows.start * depth..rows.end * depth];
        kernels.pack(rows.len(), depth, a.from(rows.start, 0), to, rows.len());
    }
}

/// The rows of each panel, whose heights differ by at most one.
#[inline]
pub fn panels<T>(kernels: &Kernels<T>, rows: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.div_ceil(kernels.mr);
    (0..count).map(move |panel| first_row(rows, count, panel)..first_row(rows, count, panel + 1))
}

/// The first row of one of `count` panels.
#[inline]
pub fn first_row(rows: usize, count: usize, panel: usize) -> usize {
    panel * rows / count
}

#[inline]
fn product_of_rows<'a, T: Real>(
    kernels: &Kernels<T>,
    depth: usize,
    a: impl Fn(Range<usize>) -> View<'a, T>,
    b: View<T>,
    c: &mut ViewMut<T>,
    add: bool,
) {
    let (rows, cols) = (c.rows(), c.cols());
    let store =
        Store { alpha: T::ONE, beta: if add { T::ONE } else { T::ZERO }, row: None, col: None, relu: false };
    for col in (0..cols).step_by(kernels.nr) {
        let (b, width) = (b.from(0, col), kernels.nr.min(cols - col));
        for rows in panels(kernels, rows) {
            let mut c = c.part(rows.start, col, rows.len(), width);
            kernels.tile(depth, a(rows), b, &mut c, &store);
        }
    }
}
