//! `C -= A B` in float64, to which the factorizations reduce most of their work.
//!
//! Note [Tiles of a factorization]
//! A tile of C stays in registers over the whole depth. A slab of B, as wide as a tile, is packed, so that tiles read
//! it in order; A is read along its rows where it lies. Products are rounded before they are summed: all instruction
//! sets compute the same numbers.

use std::ops::Range;

use crate::backend::cpu::parallel::for_parts_mut;
use crate::multiversion;

/// The size of a tile.
const ROWS: usize = 4;
const COLUMNS: usize = 8;
/// The depth that is packed at once: a slab fits into the L1 cache beside the rows of A.
const DEPTH: usize = 128;
/// Elements that are packed at once: they stay in the L2 cache.
const PACKED: usize = 96 * DEPTH;
/// Fewest multiplications of a task.
const TASK: usize = 1 << 17;

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
        let width = (PACKED / self.depth.clamp(1, DEPTH)).next_multiple_of(COLUMNS).min(self.columns);
        let mut slabs = vec![[0.0; COLUMNS]; self.depth.min(DEPTH) * width.div_ceil(COLUMNS)];
        for first in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - first);
            for left in (0..self.columns).step_by(width) {
                let columns = left..self.columns.min(left + width);
                self.pack(c, first, columns.clone(), &mut slabs, depth);
                let above = if part == Part::Lower { left } else { 0 };
                let a = self.a.from(0, first);
                let c = Target { c, start, stride, part, above: 0 };
                c.subtract(a, &slabs, depth, columns, above..self.rows);
            }
        }
    }

    /// Packs some columns of B from row `first` on.
    fn pack(
        &self,
        c: &[f64],
        first: usize,
        columns: Range<usize>,
        slabs: &mut [[f64; COLUMNS]],
        depth: usize,
    ) {
        for (slab, left) in slabs.chunks_exact_mut(depth).zip(columns.clone().step_by(COLUMNS)) {
            let width = COLUMNS.min(columns.end - left);
            if self.turned {
                for column in 0..width {
                    let row = self.b.from(left + column, first).row(c, 0, depth);
                    slab.iter_mut().zip(row).for_each(|(to, x)| to[column] = *x);
                }
            } else {
                for (row, to) in slab.iter_mut().enumerate() {
                    copy(self.b.from(first + row, left).row(c, 0, width), to);
                }
            }
        }
    }
}

/// C; see [`Product::subtract_from`].
struct Target<'a> {
    c: &'a mut [f64],
    start: usize,
    stride: usize,
    part: Part,
    /// The number of rows above these.
    above: usize,
}

impl Target<'_> {
    /// Subtracts the product of A and slabs, with the rows divided among threads.
    fn subtract(
        self,
        a: Place<'_>,
        slabs: &[[f64; COLUMNS]],
        depth: usize,
        columns: Range<usize>,
        rows: Range<usize>,
    ) {
        let step = (TASK / (depth * columns.len()).max(1)).next_multiple_of(ROWS).max(ROWS);
        // Rows of A that lie in C have to lie in the same rows.
        let base = if a.other.is_some() { self.start } else { self.start.min(a.start) };
        let end = self.start + columns.end;
        let apart =
            a.other.is_some() || a.stride == self.stride && end.max(a.start + depth) <= base + self.stride;
        if rows.len() <= step || !apart {
            return subtract_slabs(a, slabs, depth, self, columns, rows);
        }
        let at = |row: usize| self.c.len().min(base + row * self.stride);
        let bounds: Vec<usize> = rows.clone().step_by(step).chain([rows.end]).map(at).collect();
        for_parts_mut(self.c, &bounds, |task, c| {
            let above = rows.start + task * step;
            let a = match a.other {
                Some(_) => a.from(above, 0),
                None => Place { start: a.start - base, ..a },
            };
            let part = Target { c, start: self.start - base, above, ..self };
            subtract_slabs(a, slabs, depth, part, columns.clone(), 0..step.min(rows.end - above));
        });
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
    /// Subtracts the product of A and slabs from some columns and rows of C.
    fn subtract_slabs(
        a: Place<'_>,
        slabs: &[[f64; COLUMNS]],
        depth: usize,
        to: Target<'_>,
        columns: Range<usize>,
        rows: Range<usize>,
    ) {
        for top in rows.clone().step_by(ROWS) {
            let last = if to.part == Part::Lower { to.above + top + ROWS } else { usize::MAX };
            let lefts = columns.clone().step_by(COLUMNS).take_while(|left| *left < last);
            for (slab, left) in slabs.chunks_exact(depth).zip(lefts) {
                // The last row takes the place of missing ones.
                let row = |i: usize| a.row(to.c, (top + i).min(rows.end - 1), depth);
                let sums = tile([row(0), row(1), row(2), row(3)], slab);
                let c = &mut to.c[to.start + top * to.stride + left..];
                let width = columns.end - left;
                if width >= COLUMNS && top + ROWS <= rows.end {
                    for i in 0..ROWS {
                        let to = &mut c[i * to.stride..][..COLUMNS];
                        for j in 0..COLUMNS {
                            to[j] -= sums[i][j];
                        }
                    }
                } else {
                    for (i, sums) in sums.iter().enumerate().take(rows.end - top) {
                        let c = &mut c[i * to.stride..][..width.min(COLUMNS)];
                        c.iter_mut().zip(sums).for_each(|(to, x)| *to -= x);
                    }
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
