//! Which entries of a queue are computed together, and which results need memory.
//!
//! Note [Plans] Entries are taken in program order. Each joins the last group that it may: one that is not before a group
//! whose results it reads from memory, or whose reads or writes it would overtake, and whose elements are as many as its own.
//! An operand that an entry of the same group computed at the same position is passed within the group. What positions
//! mean is the order in which a view is walked, so shapes need not agree, and a view of other memory order, an
//! offset, or a slice is read from memory after its group. A result is stored if somebody outside still has its
//! storage, or an entry reads it from memory.

use std::ops::Range;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::queue::{Entry, Held, In, Work};
use crate::backend::group::{Fusion, LONGEST_ROW, Level};
use crate::backend::pointwise::Kernel;
use crate::dtype::DType;
use crate::layout::{Layout, collapse};

/// Entries that are computed together.
pub struct Planned {
    pub entries: Vec<usize>,
    /// By entry.
    pub levels: Vec<Level>,
    pub compute: DType,
    pub numel: usize,
    /// Elements per row; 0 if there are no rows.
    pub n: usize,
    has_total: bool,
    /// Whether no entry may join.
    closed: bool,
}

impl Planned {
    /// The first and the last entries of two and more, each as a group.
    pub fn halves(&self) -> (Planned, Planned) {
        let middle = self.entries.len() / 2;
        let part = |range: Range<usize>| Planned {
            entries: self.entries[range.clone()].to_vec(),
            levels: self.levels[range].to_vec(),
            ..*self
        };
        (part(0..middle), part(middle..self.entries.len()))
    }
}

pub struct Plan {
    pub groups: Vec<Planned>,
    /// By entry: whether its result needs memory.
    pub stored: Vec<bool>,
    /// By entry and operand: the entry of the same group that computes it.
    pub passed: Vec<SmallVec<[Option<usize>; 3]>>,
}

/// The most entries of a group: its buffers have to stay in the cache, and a GPU binds few of them.
const MOST: usize = 48;

/// The number of last groups that an entry may join.
const REACH: usize = 12;

/// A use of a storage by an entry.
struct Use {
    entry: usize,
    writes: bool,
    /// The operand, if it is read.
    operand: usize,
}

struct Planner<'e> {
    entries: &'e [Entry],
    uses: FxHashMap<usize, SmallVec<[Use; 4]>>,
    plan: Plan,
    /// By entry: its group and its position there.
    group_of: Vec<(usize, Level)>,
}

/// The plan of a queue for a backend that computes such calls in groups.
pub fn plan(entries: &[Entry], fusion: Fusion) -> Plan {
    let mut planner = Planner {
        entries,
        uses: FxHashMap::default(),
        plan: Plan { groups: Vec::new(), stored: vec![false; entries.len()], passed: Vec::new() },
        group_of: Vec::new(),
    };
    for at in 0..entries.len() {
        planner.place(at, fusion);
    }
    planner.store_what_is_kept();
    planner.plan
}

fn id(v: &Held) -> usize {
    v.storage.id()
}

/// Whether two layouts walk the same elements in the same order.
fn same_walk(a: &Layout, b: &Layout) -> bool {
    a.offset == b.offset
        && (a.shape == b.shape && a.strides == b.strides
            || a.is_contiguous() && b.is_contiguous() && a.numel() == b.numel())
}

/// Whether a layout walks each element of a dense row of `rows` elements `n` times before the next.
fn repeats_rows(v: &Layout, of: &Layout, n: usize) -> bool {
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

/// Whether two views of one storage certainly have no element in common.
fn are_apart(a: &Held, b: &Held) -> bool {
    if !a.view().overlaps(&b.view()) {
        return true;
    }
    let (la, lb) = (&a.layout, &b.layout);
    if a.dtype.size() != b.dtype.size() || la.shape != lb.shape || la.strides != lb.strides {
        return false;
    }
    // Pieces of rows, as `cat` and `chunk` have.
    let rank = la.shape.len();
    if rank < 2 || la.strides[rank - 1] != 1 {
        return false;
    }
    let outer = || (0..rank - 1).filter(|&d| la.shape[d] > 1).map(|d| la.strides[d]);
    let Some(row) = outer().min().filter(|&row| row > 0) else { return false };
    let n = la.shape[rank - 1] as isize;
    let gap = (la.offset as isize - lb.offset as isize).rem_euclid(row);
    outer().all(|s| s % row == 0) && gap >= n && row - gap >= n
}

impl Entry {
    /// The number of positions that it goes over.
    fn positions(&self) -> usize {
        match self.work {
            Work::Map { .. } | Work::Copy => self.out.layout.numel(),
            Work::Reduce(_, d) | Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) => d.len(),
        }
    }

    /// Whether its result is what a reader of its memory would find.
    fn is_exact(&self) -> bool {
        let truth = matches!(self.work, Work::Map { kernel: Kernel::Truth { .. }, .. });
        match self.out.dtype {
            DType::Bool => truth,
            dtype => !truth && (dtype == self.compute || self.rounded().is_some()),
        }
    }

    /// The half type that its result is rounded to.
    pub fn rounded(&self) -> Option<DType> {
        Some(self.out.dtype).filter(|d| d.is_half() && self.compute == DType::F32)
    }
}

impl Planner<'_> {
    fn place(&mut self, at: usize, fusion: Fusion) {
        let e = &self.entries[at];
        let mut least = 0;
        // The last writers whose whole results operands are.
        let mut writers: SmallVec<[(usize, usize); 3]> = SmallVec::new();
        for (k, v) in e.ins.iter().enumerate() {
            let In::View(v) = v else { continue };
            for used in self.uses.get(&id(v)).into_iter().flatten().rev().filter(|u| u.writes) {
                let writer = &self.entries[used.entry];
                if are_apart(v, &writer.out) {
                    continue;
                }
                let group = self.group_of[used.entry].0;
                let whole = writer.is_exact()
                    && writer.out.dtype == v.dtype
                    && (same_walk(&v.layout, &writer.out.layout)
                        || repeats_rows(&v.layout, &writer.out.layout, self.plan.groups[group].n));
                if whole {
                    writers.push((k, used.entry));
                    break;
                }
                least = least.max(group + 1);
                self.plan.stored[used.entry] = true;
            }
        }
        for used in self.uses.get(&id(&e.out)).into_iter().flatten() {
            let other = &self.entries[used.entry];
            let view =
                if used.writes { &other.out } else { other.ins[used.operand].held().unwrap_or(&other.out) };
            if are_apart(&e.out, view) {
                continue;
            }
            let group = self.group_of[used.entry].0;
            least = least.max(group + !same_walk(&e.out.layout, &view.layout) as usize);
        }
        let count = self.plan.groups.len();
        let candidates = (least.max(count.saturating_sub(REACH))..count).rev();
        let joined = candidates.into_iter().find_map(|g| Some((g, self.level_in(at, g, &writers, fusion)?)));
        let (group, level) = joined.unwrap_or_else(|| self.open(at, fusion));
        let n = self.row_length(at, level);
        let planned = &mut self.plan.groups[group];
        planned.n = planned.n.max(n);
        planned.has_total |= level == Level::Total;
        planned.entries.push(at);
        planned.levels.push(level);
        self.group_of.push((group, level));
        let mut passed: SmallVec<[Option<usize>; 3]> = SmallVec::from_elem(None, e.ins.len());
        for (k, writer) in writers {
            if self.group_of[writer].0 == group {
                passed[k] = Some(writer);
            } else {
                self.plan.stored[writer] = true;
            }
        }
        self.plan.passed.push(passed);
        for (operand, v) in e.ins.iter().enumerate() {
            if let In::View(v) = v {
                self.uses.entry(id(v)).or_default().push(Use { entry: at, writes: false, operand });
            }
        }
        self.uses.entry(id(&e.out)).or_default().push(Use { entry: at, writes: true, operand: 0 });
    }

    /// The length of the rows that an entry at a level needs.
    fn row_length(&self, at: usize, level: Level) -> usize {
        match self.entries[at].work {
            Work::Reduce(_, d) if level == Level::Rows => d.n,
            Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) if d.n <= LONGEST_ROW && d.inner == 1 => d.n,
            _ => 0,
        }
    }

    /// The level of an entry's result if it joins a group; None if it may not.
    fn level_in(&self, at: usize, g: usize, writers: &[(usize, usize)], fusion: Fusion) -> Option<Level> {
        let (e, group) = (&self.entries[at], &self.plan.groups[g]);
        if group.closed
            || group.compute != e.compute
            || group.entries.len() >= MOST
            || writers.iter().any(|(_, w)| self.group_of[*w].0 > g)
            || e.out.storage.device() != self.entries[group.entries[0]].out.storage.device()
        {
            return None;
        }
        let inside = |(_, w): &&(usize, usize)| self.group_of[*w].0 == g;
        let positions = e.positions();
        let level = match e.work {
            Work::Map { .. } | Work::Copy if positions == group.numel => Level::Elements,
            Work::Map { .. } | Work::Copy => {
                let per_row = group.n > 0 && positions * group.n == group.numel;
                if !per_row || !writers.iter().any(|w| inside(&w)) {
                    return None;
                }
                Level::Rows
            }
            Work::Reduce(_, d) => {
                if fusion < Fusion::Reductions || d.inner != 1 || positions != group.numel {
                    return None;
                }
                if d.outer == 1 && d.n > LONGEST_ROW {
                    if group.n > 0 {
                        return None;
                    }
                    Level::Total
                } else {
                    Level::Rows
                }
            }
            Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) => {
                if fusion < Fusion::Softmax || d.inner != 1 || d.n > LONGEST_ROW || positions != group.numel {
                    return None;
                }
                Level::Elements
            }
        };
        let n = self.row_length(at, level);
        if level == Level::Rows && matches!(e.work, Work::Reduce(..)) && !(2..=LONGEST_ROW).contains(&n) {
            return None;
        }
        if n > 0 && (group.has_total || group.n > 0 && group.n != n) {
            return None;
        }
        // Whether what is passed within the group is where it is needed.
        let takes_rows = level == Level::Rows && !matches!(e.work, Work::Reduce(..));
        let fits = |(k, w): &(usize, usize)| {
            let In::View(v) = &e.ins[*k] else { return false };
            match self.group_of[*w].1 {
                Level::Elements => !takes_rows && same_walk(&v.layout, &self.entries[*w].out.layout),
                Level::Rows if takes_rows => same_walk(&v.layout, &self.entries[*w].out.layout),
                Level::Rows => {
                    v.layout.numel() == group.numel
                        && repeats_rows(&v.layout, &self.entries[*w].out.layout, group.n)
                }
                Level::Total => false,
            }
        };
        writers.iter().filter(inside).all(fits).then_some(level)
    }

    /// Opens a group for an entry.
    fn open(&mut self, at: usize, fusion: Fusion) -> (usize, Level) {
        let e = &self.entries[at];
        let (level, closed) = match e.work {
            Work::Map { .. } | Work::Copy => (Level::Elements, false),
            Work::Reduce(_, d) if d.inner == 1 && d.outer == 1 && d.n > LONGEST_ROW => {
                (Level::Total, fusion < Fusion::Reductions)
            }
            Work::Reduce(_, d) => (
                Level::Rows,
                fusion < Fusion::Reductions || d.inner != 1 || !(2..=LONGEST_ROW).contains(&d.n),
            ),
            Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) => {
                (Level::Elements, fusion < Fusion::Softmax || d.inner != 1 || d.n > LONGEST_ROW)
            }
        };
        self.plan.groups.push(Planned {
            entries: Vec::new(),
            levels: Vec::new(),
            compute: e.compute,
            numel: e.positions(),
            n: 0,
            has_total: false,
            closed,
        });
        (self.plan.groups.len() - 1, level)
    }

    /// Marks the results that somebody outside of the queue may read.
    fn store_what_is_kept(&mut self) {
        for uses in self.uses.values() {
            let Some(first) = uses.first() else { continue };
            let e = &self.entries[first.entry];
            let storage = if first.writes {
                &e.out.storage
            } else {
                match e.ins[first.operand].held() {
                    Some(v) => &v.storage,
                    None => continue,
                }
            };
            if storage.handles() <= uses.len() {
                continue;
            }
            for (k, used) in uses.iter().enumerate().filter(|(_, u)| u.writes) {
                let out = &self.entries[used.entry].out;
                let replaced = uses[k + 1..].iter().any(|later| {
                    later.writes && {
                        let by = &self.entries[later.entry].out;
                        by.dtype.size() == out.dtype.size() && same_walk(&by.layout, &out.layout)
                    }
                });
                self.plan.stored[used.entry] |= !replaced;
            }
        }
    }
}
