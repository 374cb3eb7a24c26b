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

/// The rows of an operand that machine code reads in place. They may form several dimensions, such as batch, head and position, and only in
/// the innermost of these are they equally far from each other. So a block must not cross the end of that dimension.
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

    /// Whether blocks of so many rows do not cross the end of that dimension.
    pub(super) fn holds_blocks_of(&self, rows: usize) -> bool {
        self.outer.is_empty() || self.inner.is_multiple_of(rows)
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

/// The length of an operand's rows, if machine code should compute row by row for their sake.
pub(super) fn run_of<T: Grouped>(o: &GroupOperand) -> Option<usize> {
    const LEAST: usize = 32;
    let (shape, [strides]) = collapse(&o.view.layout.shape, [&o.view.layout.strides]);
    let run = shape.last().copied().filter(|_| shape.len() > 1 && strides.last() == Some(&1))?;
    (is_usable::<T>(o) && (LEAST..=LONGEST_ROW).contains(&run)).then_some(run)
}

/// The rows of an operand, as long as its level has them in a group with rows of `n` elements.
fn rows_in<T: Grouped>(o: &GroupOperand, n: usize, group: &Group) -> Option<Apart> {
    let n = if o.level == Level::Parts { group.part } else { n };
    Apart::of(o.view.layout, n).filter(|_| is_usable::<T>(o) && n >= SHORTEST_ROW)
}

pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The rows of a block, such that those of most operands are equally far from each other.
pub(super) fn rows_of_block<T: Grouped>(group: &Group, n: usize) -> usize {
    let most = (2 * BLOCK / n).max(1);
    if group.columns.is_some() {
        // Column sums take eight rows at a time.
        return most.next_multiple_of(8);
    }
    let apart = group.operands.iter().filter_map(|o| rows_in::<T>(o, n, group));
    let common = apart.filter(|a| !a.outer.is_empty()).fold(0usize, |common, a| gcd(common, a.inner));
    let fitting = (1..=most).rev().find(|rows| common.is_multiple_of(*rows)).unwrap_or(most);
    // Shorter blocks would lose more than operands in place gain.
    if 4 * fitting >= most { fitting } else { most }
}

/// The rows of an operand that machine code can use where they lie, in blocks of whole multiples of `rows`.
pub(super) fn apart_of<T: Grouped>(o: &GroupOperand, n: usize, rows: usize, group: &Group) -> Option<Apart> {
    let fits = |a: &Apart| a.outer.is_empty() || group.columns.is_none() && a.holds_blocks_of(rows);
    let apart = rows_in::<T>(o, n, group).filter(fits)?;
    let written = group.results.iter().any(|(_, r)| r.storage.overlaps(o.view.storage));
    (!written).then_some(apart)
}

/// As `apart_of`, for a result that machine code can write where it is stored.
pub(super) fn spread_of<T: Grouped>(k: usize, n: usize, group: &Group) -> Option<usize> {
    let (call, view) = group.results[k];
    let level = group.calls[call].level;
    let n = if level == Level::Parts { group.part } else { n };
    let (_, stride) = rows_of::<T>(&GroupOperand { view, level })
        .filter(|(length, _)| *length == n && n >= SHORTEST_ROW)?;
    let read = group.operands.iter().any(|o| o.view.storage.overlaps(view.storage));
    (!read && stride >= n).then_some(stride)
}
