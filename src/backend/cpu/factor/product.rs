//! `C -= A B` in float64, to which the factorizations reduce most of their work.
//!
//! Note [Tiles of a factorization]
//! A tile of C stays in registers over the whole depth. A slab of B, as wide as a tile, is packed, so that tiles read
//! it in order; A is read along its rows where it lies. Products are rounded before they are summed: all instruction
//! sets compute the same numbers.

use std::ops::Range;

use crate::multiversion;

/// The size of a tile.
const ROWS: usize = 4;
const COLUMNS: usize = 8;
/// The depth that is packed at once: a slab fits into the L1 cache beside the rows of A.
const DEPTH: usize = 256;
/// Rows that slabs pass in turn: they stay in the L2 cache.
const BLOCK: usize = 128;

/// A matrix in a slice: its first element and the distance of its rows. The slice is the one that a function changes,
/// unless another is given.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub other: Option<&'a [f64]>,
    pub start: usize,
    pub stride: usize,
}

impl<'a> Place<'a> {
    /// The part that begins at an element.
    pub fn from(self, row: usize, column: usize) -> Self {
        Place { start: self.start + row * self.stride + column, ..self }
    }

    /// The first `length` elements of a row.
    #[inline(always)]
    pub fn row(self, changed: &'a [f64], row: usize, length: usize) -> &'a [f64] {
        &self.other.unwrap_or(changed)[self.start + row * self.stride..][..length]
    }
}

/// Which elements of C are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    All,
    /// Those on and below the diagonal, and some above it.
    Lower,
}

/// The factors of a product, and its size.
#[derive(Clone, Copy)]
pub struct Product<'a> {
    pub a: Place<'a>,
    pub b: Place<'a>,
    /// Whether the rows of `b` are the columns of B.
    pub turned: bool,
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
}

impl Product<'_> {
    /// Subtracts the product from C, whose elements lie in `c` from `start` on, in rows that are `stride` apart.
    pub fn subtract_from(&self, c: &mut [f64], start: usize, stride: usize, part: Part) {
        let mut slab = vec![[0.0; COLUMNS]; self.depth.min(DEPTH)];
        for first in (0..self.depth).step_by(DEPTH) {
            let slab = &mut slab[..DEPTH.min(self.depth - first)];
            for top in (0..self.rows).step_by(BLOCK) {
                let bottom = self.rows.min(top + BLOCK);
                for left in (0..self.columns).step_by(COLUMNS) {
                    let top = if part == Part::Lower { top.max(left) } else { top };
                    if top < bottom {
                        let width = COLUMNS.min(self.columns - left);
                        self.pack(c, first, left, width, slab);
                        subtract_slab(
                            self.a.from(0, first),
                            slab,
                            c,
                            start + left,
                            stride,
                            width,
                            top..bottom,
                        );
                    }
                }
            }
        }
    }

    /// Packs `width` columns of B from row `first` and column `left` on.
    fn pack(&self, changed: &[f64], first: usize, left: usize, width: usize, slab: &mut [[f64; COLUMNS]]) {
        if self.turned {
            for column in 0..width {
                let row = self.b.from(left + column, first).row(changed, 0, slab.len());
                slab.iter_mut().zip(row).for_each(|(to, x)| to[column] = *x);
            }
        } else {
            for (row, to) in slab.iter_mut().enumerate() {
                copy(self.b.from(first + row, left).row(changed, 0, width), to);
            }
        }
    }
}

/// Copies as many elements as there are in both; a whole array without a loop.
#[inline(always)]
fn copy<const N: usize>(from: &[f64], to: &mut [f64; N]) {
    match from.first_chunk::<N>() {
        Some(from) => *to = *from,
        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

multiversion! {
    /// Subtracts the product of A and a slab from `width` columns and some rows of C.
    fn subtract_slab(
        a: Place<'_>,
        slab: &[[f64; COLUMNS]],
        c: &mut [f64],
        start: usize,
        stride: usize,
        width: usize,
        rows: Range<usize>,
    ) {
        for top in rows.clone().step_by(ROWS) {
            // The last row takes the place of missing ones.
            let row = |i: usize| a.row(c, (top + i).min(rows.end - 1), slab.len());
            let sums = tile([row(0), row(1), row(2), row(3)], slab);
            let c = &mut c[start + top * stride..];
            if width == COLUMNS && top + ROWS <= rows.end {
                for i in 0..ROWS {
                    let to = &mut c[i * stride..][..COLUMNS];
                    for j in 0..COLUMNS {
                        to[j] -= sums[i][j];
                    }
                }
            } else {
                for (i, sums) in sums.iter().enumerate().take(rows.end - top) {
                    c[i * stride..][..width].iter_mut().zip(sums).for_each(|(to, x)| *to -= x);
                }
            }
        }
    }
}

/// The product of rows of A and a slab.
#[inline(always)]
fn tile(a: [&[f64]; ROWS], slab: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    let a = a.map(|row| &row[..slab.len()]);
    for (p, b) in slab.iter().enumerate() {
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                sums[i][j] += a[i][p] * b[j];
            }
        }
    }
    sums
}
