//! Entries that read rows that others wrote in parts, as one entry for each part.
//!
//! Note [Split entries] In `q * cos + cat([-b, a], -1) * sin`, as rotary embeddings have it, two entries write the halves of each row,
//! and the product reads whole rows. Values pass between entries of a group that go over the same positions, or from whole rows to
//! their parts, but not from parts to whole rows: these would be stored and read again. So a pointwise entry that reads such rows
//! is split into one for each part, and so are the entries that read its result, and those whose result only split entries read. Then all go
//! over the same parts, in one group. Each element is computed as before.

use rustc_hash::FxHashMap;

use super::{Used, is_whole, uses_of};
use crate::backend::defer::queue::{Entry, Held, In, Work};
use crate::backend::group::SHORTEST_PART;
use crate::layout::{Layout, collapse};

/// The most parts of a row.
const MOST: usize = 8;

/// Rows that are written in parts.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Rows {
    /// Elements of a row.
    n: usize,
    /// Elements of a part.
    part: usize,
}

impl Rows {
    /// The rows of which a layout at the beginning of its memory is one of several equal parts.
    fn of_part(layout: &Layout) -> Option<Rows> {
        if layout.is_contiguous() {
            return None;
        }
        let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
        let ([_, part], [n, 1]) = (&shape[..], &strides[..]) else { return None };
        let rows = Rows { n: usize::try_from(*n).ok()?, part: *part };
        let fits =
            *part >= SHORTEST_PART && rows.n.is_multiple_of(*part) && (2..=MOST).contains(&rows.parts());
        (fits && layout.offset < rows.n && layout.offset.is_multiple_of(*part)).then_some(rows)
    }

    fn parts(self) -> usize {
        self.n / self.part
    }
}

/// Whether an entry may be split along its rows.
fn can_split(e: &Entry, rows: Rows) -> bool {
    let alike = |v: &Held| {
        v.layout.shape == e.out.layout.shape && (!v.storage.same(&e.out.storage) || v.layout == e.out.layout)
    };
    matches!(e.work, Work::Map { .. } | Work::Copy)
        && is_whole(&e.out.layout)
        && e.out.layout.shape.last() == Some(&rows.n)
        && e.ins.iter().filter_map(In::held).all(alike)
}

/// The entries with some of them split; None if there are none to split. `is_grouped` tells whether the backend of an
/// entry's device has groups over parts of rows.
pub fn split(entries: &[Entry], is_grouped: impl Fn(&Entry) -> bool) -> Option<Vec<Entry>> {
    let pieces = |e: &Entry| Rows::of_part(&e.out.layout).filter(|_| is_grouped(e));
    if !entries.iter().any(|e| pieces(e).is_some()) {
        return None;
    }
    let used = uses_of(entries);
    let mut split_by: Vec<Option<Rows>> = vec![None; entries.len()];
    let mut in_parts: FxHashMap<usize, Rows> = FxHashMap::default();
    for (id, of) in &used {
        let rows = of.writers.first().and_then(|&at| pieces(&entries[at]));
        if let Some(rows) = rows.filter(|rows| are_parts(entries, of, *rows)) {
            in_parts.insert(*id, rows);
        }
    }
    // What reads them, and what reads that.
    for (at, e) in entries.iter().enumerate() {
        let whole = e.ins.iter().filter_map(In::held).filter(|v| is_whole(&v.layout));
        let rows = whole.filter_map(|v| in_parts.get(&v.storage.id()).copied()).next();
        if let Some(rows) = rows.filter(|rows| can_split(e, *rows)) {
            split_by[at] = Some(rows);
            in_parts.insert(e.out.storage.id(), rows);
        }
    }
    // What alone makes the other operands of these.
    for at in (0..entries.len()).rev() {
        let Some(rows) = split_by[at] else { continue };
        for v in entries[at].ins.iter().filter_map(In::held).filter(|v| is_whole(&v.layout)) {
            let Some(of) = used.get(&v.storage.id()) else { continue };
            if let Some(writer) = of.only_writer().filter(|writer| *writer < at)
                && split_by[writer].is_none()
                && can_split(&entries[writer], rows)
                && of.readers.iter().all(|reader| split_by[*reader] == Some(rows))
            {
                split_by[writer] = Some(rows);
            }
        }
    }
    if split_by.iter().all(Option::is_none) {
        return None;
    }
    let part = |(e, rows): (&Entry, &Option<Rows>)| match rows {
        None => vec![e.clone()],
        Some(rows) => (0..rows.parts()).map(|k| part_of(e, k * rows.part, rows.part)).collect(),
    };
    Some(entries.iter().zip(&split_by).flat_map(part).collect())
}

/// Whether entries write all parts of the rows of a storage, each once, before others read whole rows and nothing else.
fn are_parts(entries: &[Entry], of: &Used, rows: Rows) -> bool {
    let mut offsets: Vec<usize> = of.writers.iter().map(|&at| entries[at].out.layout.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let last = of.writers.last().copied().unwrap_or(0);
    let is_part = |&at: &usize| Rows::of_part(&entries[at].out.layout) == Some(rows);
    offsets.len() == rows.parts()
        && of.writers.len() == rows.parts()
        && of.writers.iter().all(is_part)
        && !of.readers.is_empty()
        && of.readers.iter().all(|&at| {
            let mut own = entries[at].ins.iter().filter_map(In::held).filter(|v| v.storage.same(of.storage));
            at > last && can_split(&entries[at], rows) && own.all(|v| is_whole(&v.layout))
        })
}

/// An entry for `len` elements of each row, from `from` on.
fn part_of(e: &Entry, from: usize, len: usize) -> Entry {
    let narrow = |v: &Held| {
        let mut layout = v.layout.clone();
        let stride = layout.strides.last().copied().unwrap_or(0);
        layout.offset = layout.offset.wrapping_add_signed(from as isize * stride);
        if let Some(n) = layout.shape.last_mut() {
            *n = len;
        }
        Held { layout, ..v.clone() }
    };
    let ins = e.ins.iter().map(|v| match v {
        In::View(v) => In::View(narrow(v)),
        other => other.clone(),
    });
    Entry { ins: ins.collect(), out: narrow(&e.out), ..e.clone() }
}
