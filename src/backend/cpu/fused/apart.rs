//! Operands and results whose rows are apart in memory, and that machine code uses where they lie.

use smallvec::SmallVec;

use super::types::Grouped;
use crate::backend::cpu::copy::BLOCK;
use crate::backend::cpu::machine;
use crate::backend::group::{Group, GroupOperand, LONGEST_ROW, Level};
use crate::dtype::Element;
use crate::layout::{Layout, collapse};

/// Elements of the shortest rows that machine code computes one by one. Of shorter ones a vector would be mostly masked: they
/// are copied one after the other, and values per row are repeated.
pub(super) const SHORTEST_ROW: usize = 16;

/// Elements of the shortest blocks for which rows are read in place. Measured: with blocks of 512 and 1,024 elements two chains took 1.6
/// and 1.8 times as long as with operands that are copied.
const SHORTEST_BLOCK: usize = 1 << 12;

/// The rows of an operand that machine code reads in place. They may form several dimensions, such as batch, head and position, and only in
/// the innermost of these are they equally far from each other. So no block crosses the end of that dimension ([`Blocks`]).
#[derive(Clone)]
pub(super) struct Apart {
    /// The elements from one row to the next.
    pub(super) stride: usize,
    /// The size of the innermost dimension of rows.
    inner: usize,
    /// The sizes and strides of the dimensions around it, the innermost first.
    outer: SmallVec<[(usize, isize); 3]>,
}

impl Apart {
    /// The rows of `n` elements of a layout.
    fn of(layout: &Layout, n: usize) -> Option<Apart> {
        let (mut shape, [mut strides]) = collapse(&layout.shape, [&layout.strides]);
        let (run, step) = (shape.pop()?, strides.pop()?);
        if step != 1 || !run.is_multiple_of(n) {
            return None;
        }
        let (inner, stride) = if run > n { (run / n, n as isize) } else { (shape.pop()?, strides.pop()?) };
        let outer = shape.into_iter().zip(strides).rev().collect();
        Some(Apart { stride: usize::try_from(stride).ok()?, inner, outer })
    }

    /// The place of a row beside that of the first.
    pub(super) fn place(&self, row: usize) -> isize {
        let mut place = (row % self.inner * self.stride) as isize;
        let mut rest = row / self.inner;
        for (size, stride) in &self.outer {
            place += (rest % size) as isize * stride;
            rest /= size;
        }
        place
    }

    /// Whether the rows of each block are equally far from each other.
    fn fits(&self, blocks: Blocks) -> bool {
        self.outer.is_empty() || blocks.within > 0 && self.inner.is_multiple_of(blocks.within)
    }
}

/// How rows are divided into blocks.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// Rows of a block; the last ones may have fewer.
    pub(super) rows: usize,
    /// The rows after each of which a block ends; 0 if blocks end anywhere.
    within: usize,
}

impl Blocks {
    pub(super) const fn of(rows: usize) -> Blocks {
        Blocks { rows, within: 0 }
    }

    /// Blocks of at most so many rows that are about equally long.
    fn ending_within(within: usize, most: usize) -> Blocks {
        let rows = if within == 0 { most } else { within.div_ceil(within.div_ceil(most.max(1))) };
        Blocks { rows, within }
    }

    /// Each up to `factor` of these as one, so that blocks begin where some of these do.
    pub(super) fn lengthened(self, factor: usize) -> Blocks {
        let together = match self.within {
            0 => factor,
            within => {
                let each = within.div_ceil(self.rows);
                each.div_ceil(each.div_ceil(factor))
            }
        };
        Blocks { rows: self.rows * together, ..self }
    }

    /// How many blocks so many rows have.
    pub(super) fn count(self, rows: usize) -> usize {
        match self.within {
            0 => rows.div_ceil(self.rows),
            within => rows / within * within.div_ceil(self.rows) + (rows % within).div_ceil(self.rows),
        }
    }

    /// The first row of a block.
    pub(super) fn first(self, block: usize) -> usize {
        match self.within {
            0 => block * self.rows,
            within => {
                let each = within.div_ceil(self.rows);
                block / each * within + block % each * self.rows
            }
        }
    }

    /// The rows of the block that begins with a row, if no rows end before.
    pub(super) fn rows_from(self, row: usize) -> usize {
        if self.within == 0 { self.rows } else { self.rows.min(self.within - row % self.within) }
    }

    /// The rows after each multiple of which a block ends.
    pub(super) fn ends_after(self) -> usize {
        self.within.max(1)
    }

    /// The rows of which the first row of each block is a multiple.
    pub(super) fn aligned(self) -> usize {
        gcd(self.within, self.rows)
    }
}

fn is_usable<T: Grouped>(o: &GroupOperand) -> bool {
    matches!(o.level, Level::Elements | Level::Parts)
        && o.view.dtype == T::Stored::DTYPE
        && o.view.is_aligned()
        && machine::is_enabled()
}

/// The rows of an operand, if they are contiguous and equally far from each other: their length, and the elements from one to the next.
pub(super) fn rows_of<T: Grouped>(o: &GroupOperand) -> Option<(usize, usize)> {
    let (shape, [strides]) = collapse(&o.view.layout.shape, [&o.view.layout.strides]);
    match (&shape[..], &strides[..]) {
        ([_, n], [stride, 1]) if is_usable::<T>(o) => Some((*n, usize::try_from(*stride).ok()?)),
        _ => None,
    }
}

/// The length of the rows of an operand or result, if machine code should compute row by row for their sake. A longer run is
/// several rows.
pub(super) fn run_of<T: Grouped>(o: &GroupOperand) -> Option<usize> {
    const LEAST: usize = 32;
    const MOST: usize = 2 * LONGEST_ROW;
    // The most elements of a part of a longer run: blocks have buffers of whole rows.
    const PART: usize = LONGEST_ROW / 2;
    // The divisors that are tried: a long run may have none.
    const TRIED: usize = 64;
    let (shape, [strides]) = collapse(&o.view.layout.shape, [&o.view.layout.strides]);
    let run = shape.last().copied().filter(|_| shape.len() > 1 && strides.last() == Some(&1))?;
    let parts = match run {
        ..=MOST => Some(1),
        _ => (run.div_ceil(PART)..).take(TRIED).find(|parts| run.is_multiple_of(*parts)),
    };
    Some(run / parts?).filter(|n| is_usable::<T>(o) && *n >= LEAST)
}

/// The rows of an operand, as long as its level has them in a group with rows of `n` elements.
fn rows_in<T: Grouped>(o: &GroupOperand, n: usize, group: &Group) -> Option<Apart> {
    let n = if o.level == Level::Parts { group.part } else { n };
    Apart::of(o.view.layout, n).filter(|_| is_usable::<T>(o) && n >= SHORTEST_ROW)
}

pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The blocks of a group, such that the rows of its operands are equally far from each other in each.
pub(super) fn blocks_of<T: Grouped>(group: &Group, n: usize) -> Blocks {
    let most = (2 * BLOCK / n).max(1);
    if let Some(d) = group.columns.filter(|_| group.tile > 0) {
        return Blocks::ending_within(d.n, d.n);
    }
    if group.columns.is_some() {
        // Column sums take eight rows at a time.
        return Blocks::of(most.next_multiple_of(8));
    }
    let results = group
        .results
        .iter()
        .map(|(call, view)| GroupOperand { view: *view, level: group.calls[*call].level });
    let all = group.operands.iter().copied().chain(results.filter(|o| !o.view.layout.is_contiguous()));
    let apart = all.filter_map(|o| rows_in::<T>(&o, n, group));
    let within = apart.filter(|a| !a.outer.is_empty()).fold(0usize, |common, a| gcd(common, a.inner));
    // Shorter blocks would lose more than operands in place gain.
    if within == 0 || within * n < SHORTEST_BLOCK {
        Blocks::of(most)
    } else {
        Blocks::ending_within(within, most)
    }
}

/// The rows of an operand that machine code can use where they lie, in these blocks.
pub(super) fn apart_of<T: Grouped>(
    o: &GroupOperand,
    n: usize,
    blocks: Blocks,
    group: &Group,
) -> Option<Apart> {
    let apart = rows_in::<T>(o, n, group).filter(|a| a.fits(blocks))?;
    let written = group.results.iter().any(|(_, r)| r.storage.overlaps(o.view.storage));
    (!written).then_some(apart)
}

/// As `apart_of`, for a result that is not dense and that machine code can write where it is stored.
pub(super) fn spread_of<T: Grouped>(k: usize, n: usize, blocks: Blocks, group: &Group) -> Option<Apart> {
    let (call, view) = group.results[k];
    let o = GroupOperand { view, level: group.calls[call].level };
    let apart = rows_in::<T>(&o, n, group).filter(|a| !view.layout.is_contiguous() && a.fits(blocks))?;
    let n = if o.level == Level::Parts { group.part } else { n };
    let read = group.operands.iter().any(|o| o.view.storage.overlaps(view.storage));
    (!read && apart.stride >= n).then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_rows_are_no_longer_equally_far_from_each_other() {
        let ranges = |blocks: Blocks, rows: usize| -> Vec<(usize, usize)> {
            let range = |b| (blocks.first(b), blocks.rows_from(blocks.first(b)).min(rows - blocks.first(b)));
            (0..blocks.count(rows)).map(range).collect()
        };
        assert_eq!(ranges(Blocks::of(4), 10), [(0, 4), (4, 4), (8, 2)]);
        let within = Blocks::ending_within(7, 4);
        assert_eq!(ranges(within, 21), [(0, 4), (4, 3), (7, 4), (11, 3), (14, 4), (18, 3)]);
        assert_eq!(ranges(within, 9), [(0, 4), (4, 3), (7, 2)]);
        assert_eq!((within.aligned(), Blocks::of(6).aligned()), (1, 6));
        // About equally long: 254 rows are 15 blocks of 17, the last of which has 16.
        assert_eq!(Blocks::ending_within(254, 17).rows, 17);
        assert_eq!(Blocks::ending_within(254, 250).rows, 127);
        // An operand that repeats itself every two rows does so in longer blocks too.
        let even = Blocks::ending_within(250, 32);
        assert_eq!((even.rows, even.aligned()), (32, 2));
        for factor in 1..10 {
            let (long, all) = (even.lengthened(factor), ranges(even.lengthened(factor), 500));
            assert!(long.rows <= 32 * factor && long.aligned().is_multiple_of(2), "{factor}");
            assert!(all.iter().all(|(first, _)| first % 250 % 32 == 0), "{factor}");
            assert_eq!(all.iter().map(|(_, rows)| rows).sum::<usize>(), 500);
        }
        assert_eq!(Blocks::of(6).lengthened(3).rows, 18);
    }
}
