//! In which order layouts walk over memory.

use super::queue::Held;
use crate::backend::reduce::ReduceDims;
use crate::layout::{Layout, collapse};

/// Whether two layouts walk the same elements in the same order.
pub fn same_walk(a: &Layout, b: &Layout) -> bool {
    a.offset == b.offset
        && (a.shape == b.shape && a.strides == b.strides
            || a.is_contiguous() && b.is_contiguous() && a.numel() == b.numel())
}

/// Whether a layout walks each element of a dense row of `rows` elements `n` times before the next.
pub fn repeats_rows(v: &Layout, of: &Layout, n: usize) -> bool {
    if v.offset != of.offset || !of.is_contiguous() {
        return false;
    }
    let (shape, [strides]) = collapse(&v.shape, [&v.strides]);
    match (&shape[..], &strides[..]) {
        ([rows, k], [1, 0]) => *rows == of.numel() && *k == n,
        ([k], [0]) => of.numel() == 1 && *k == n,
        _ => false,
    }
}

/// Whether a layout walks each dense row of `d.inner` elements, of which there are `d.outer`, `d.n` times before the next.
pub fn repeats_columns(v: &Layout, of: &Layout, d: ReduceDims) -> bool {
    if v.offset != of.offset || !of.is_contiguous() || of.numel() != d.outer * d.inner {
        return false;
    }
    let (shape, [strides]) = collapse(&v.shape, [&v.strides]);
    match (&shape[..], &strides[..]) {
        ([outer, n, inner], [step, 0, 1]) => {
            *step == d.inner as isize && [*outer, *n, *inner] == [d.outer, d.n, d.inner]
        }
        ([n, inner], [0, 1]) => d.outer == 1 && [*n, *inner] == [d.n, d.inner],
        _ => false,
    }
}

/// A part of each row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub from: usize,
    pub len: usize,
    /// Elements of a row.
    pub n: usize,
}

/// The part of each row of a dense `of` that a layout walks: rows are as long as it is from one part to the next.
pub fn part_of_rows(v: &Layout, of: &Layout) -> Option<Part> {
    let from = v.offset.checked_sub(of.offset)?;
    let (shape, [strides]) = collapse(&v.shape, [&v.strides]);
    let ([rows, len], [n, 1]) = (&shape[..], &strides[..]) else { return None };
    let part = Part { from, len: *len, n: usize::try_from(*n).ok()? };
    let fits = part.len > 1 && from + part.len <= part.n && Some(of.numel()) == rows.checked_mul(part.n);
    (fits && part.len < part.n && of.is_contiguous()).then_some(part)
}

/// Whether two views of one storage certainly have no element in common.
pub fn are_apart(a: &Held, b: &Held) -> bool {
    if !a.view().overlaps(&b.view()) {
        return true;
    }
    let (la, lb) = (&a.layout, &b.layout);
    if a.dtype.size() != b.dtype.size() || la.shape != lb.shape || la.strides != lb.strides {
        return false;
    }
    // Pieces of rows, as `cat`, `stack` and `chunk` have, or single elements.
    let (shape, [strides]) = collapse(&la.shape, [&la.strides]);
    let (n, outer) = match (&shape[..], &strides[..]) {
        ([.., n], [outer @ .., 1]) => (*n as isize, outer),
        (_, all) => (1, all),
    };
    let Some(row) = outer.iter().copied().min().filter(|&row| row > 0) else { return false };
    let gap = (la.offset as isize - lb.offset as isize).rem_euclid(row);
    outer.iter().all(|s| s % row == 0) && gap >= n && row - gap >= n
}
