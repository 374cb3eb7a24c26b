//! Which entries of a queue are computed together, and which results need memory.
//!
//! Note [Plans] Entries are taken in program order. Each joins the last group that it may: one that is not before a group
//! whose results it reads from memory, or whose reads or writes it would overtake, and whose elements are as many as its own.
//! An operand that an entry of the same group computed at the same position is passed within the group. What positions
//! mean is the order in which a view is walked, so shapes need not agree, and a view of other memory order, an
//! offset, or a slice is read from memory after its group, but for a part of each row (Note [Groups]). A result is stored if somebody outside still has its
//! storage, or an entry reads it from memory. A product opens a group, which only entries join that use its elements, or a value that was
//! computed from them (Note [Epilogues]).
//!
//! Entries without a value in common gain little by one group, the start of a loop, and lose by it where they are large: they
//! share the cache, and the rows of some are not those of others. So on the CPU large ones are taken apart at the end. Likewise a reduction of rows of
//! an operand in memory, if all else in its group are values per row. On a GPU a dispatch costs more.

mod rematerialize;
mod separate;
mod tiles;

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

pub use rematerialize::CHEAP;

use super::queue::{Entry, Held, In, Work};
use super::walks::{Part, are_apart, part_of_rows, repeats_columns, repeats_rows, same_walk};
use super::with_room;
use crate::backend::group::{Fusion, LONGEST_ROW, Level, SHORTEST_PART};
use crate::backend::pointwise::Kernel;
use crate::backend::reduce::ReduceDims;
use crate::device::Device;
use crate::dtype::DType;
use crate::layout::Layout;
use crate::storage::Storage;

/// Entries that are computed together.
#[derive(Clone)]
pub struct Planned {
    pub entries: Vec<usize>,
    /// By entry.
    pub levels: Vec<Level>,
    /// As of an entry.
    pub compute: DType,
    pub numel: usize,
    /// Elements per row; 0 if there are no rows.
    pub n: usize,
    /// Elements of a part of a row; 0 if there are no parts.
    pub part: usize,
    /// The dimensions of column sums.
    pub columns: Option<ReduceDims>,
    /// The columns of a tile; 0 if the group is not computed in tiles.
    pub tile: usize,
    /// The first entry, if it is a product.
    pub producer: Option<usize>,
    has_total: bool,
    /// Whether no entry may join.
    closed: bool,
}

impl Planned {
    /// Whether a layout walks each value per row of `of` once for each element of a row, or of a part of it, or each value per column
    /// once for each row.
    fn repeats_values(&self, v: &Layout, of: &Layout) -> bool {
        repeats_rows(v, of, self.n)
            || self.part > 0 && repeats_rows(v, of, self.part)
            || self.columns.is_some_and(|d| repeats_columns(v, of, d))
    }

    /// The first and the last entries of two and more, or the product and its epilogue, each as a group.
    pub fn halves(&self) -> (Planned, Planned) {
        let middle = if self.producer.is_some() { 1 } else { self.entries.len() / 2 };
        let part = |range: Range<usize>| Planned {
            producer: self.producer.filter(|_| range.start == 0),
            entries: self.entries[range.clone()].to_vec(),
            levels: self.levels[range].to_vec(),
            ..*self
        };
        (part(0..middle), part(middle..self.entries.len()))
    }
}

#[derive(Clone)]
pub struct Plan {
    pub groups: Vec<Planned>,
    /// The entries in no group, whose results nobody reads.
    pub unread: Vec<usize>,
    /// By entry: whether its result needs memory.
    pub stored: Vec<bool>,
    /// By entry and operand: the entry of the same group that computes it.
    pub passed: Vec<SmallVec<[Option<usize>; 3]>>,
}

/// The most entries of a group: its buffers have to stay in the cache, and a GPU binds few of them.
const MOST: usize = 48;

/// The elements from which on entries without a value in common are apart.
const LARGE: usize = 1 << 18;

/// The elements for which another thread is worth its start.
const THREAD: usize = 1 << 15;

/// The number of last groups that an entry may join.
const REACH: usize = 12;

/// A use of a storage by an entry.
struct Use {
    entry: usize,
    writes: bool,
    /// The operand, if it is read.
    operand: usize,
}

/// How an entry joins a group: the level of its result, and the lengths of rows, parts and tiles that it needs.
#[derive(Clone, Copy)]
struct Fit {
    level: Level,
    n: usize,
    part: usize,
    /// The columns of a tile, if the group is computed in tiles.
    tile: usize,
}

struct Planner<'e> {
    entries: &'e [Entry],
    uses: FxHashMap<usize, SmallVec<[Use; 4]>>,
    plan: Plan,
    /// By entry: its group and its position there.
    group_of: Vec<(usize, Level)>,
}

/// The plan of a queue; `is_kept` tells whether somebody outside of it has a storage, `fusion` which calls the backend of a device
/// computes in groups.
pub fn plan(
    entries: &[Entry],
    is_kept: impl Fn(&Storage) -> bool,
    fusion: impl Fn(Device) -> Fusion,
) -> Plan {
    let mut planner = Planner {
        entries,
        uses: with_room(2 * entries.len()),
        plan: Plan {
            groups: Vec::new(),
            unread: Vec::new(),
            stored: vec![false; entries.len()],
            passed: Vec::new(),
        },
        group_of: Vec::new(),
    };
    let is_read = read_entries(entries, &is_kept);
    for (at, e) in entries.iter().enumerate() {
        if is_read[at] {
            planner.place(at, fusion(e.out.storage.device()));
            continue;
        }
        // Its operands need not be stored for it, and no group has to have a place for it.
        planner.plan.unread.push(at);
        planner.group_of.push((usize::MAX, Level::Elements));
        planner.plan.passed.push(SmallVec::from_elem(None, e.ins.len()));
    }
    planner.store_what_is_kept(&is_kept);
    let is_apart = |group: &Planned| fusion(entries[group.entries[0]].out.storage.device()).apart;
    let mut groups = Vec::with_capacity(planner.plan.groups.len());
    for group in std::mem::take(&mut planner.plan.groups) {
        if group.entries.len() > 1 && group.numel >= LARGE && is_apart(&group) {
            planner.separate(group, &mut groups);
        } else {
            groups.push(group);
        }
    }
    if groups.iter().all(is_apart) {
        planner.rematerialize(&mut groups, is_kept);
        planner.take_out_reductions(&mut groups);
    }
    planner.plan.groups = groups;
    planner.plan
}

/// By entry: whether somebody outside of the queue may read its result, or such an entry does. `is_kept` as of [`plan`].
fn read_entries(entries: &[Entry], is_kept: impl Fn(&Storage) -> bool) -> Vec<bool> {
    let mut read: FxHashSet<usize> = FxHashSet::default();
    let mut is_read = vec![true; entries.len()];
    for (at, e) in entries.iter().enumerate().rev() {
        let s = &e.out.storage;
        is_read[at] = read.contains(&s.id()) || is_kept(s);
        if is_read[at] {
            read.extend(e.ins.iter().filter_map(In::held).map(id));
        }
    }
    is_read
}

/// The dtype that entries of two dtypes compute in together: booleans do in any.
fn common(a: DType, b: DType) -> Option<DType> {
    match (a, b) {
        (DType::Bool, other) | (other, DType::Bool) => Some(other),
        _ => (a == b).then_some(a),
    }
}

fn id(v: &Held) -> usize {
    v.storage.id()
}

impl Entry {
    /// The number of positions that it goes over.
    fn positions(&self) -> usize {
        match self.work {
            Work::Map { .. } | Work::Copy | Work::Matmul | Work::Convolution(_) => self.out.layout.numel(),
            Work::Reduce(_, d) | Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) => d.len(),
        }
    }

    /// Of a product, the elements of which the pieces that it is computed in are whole multiples; else 0.
    fn unit(&self) -> usize {
        match &self.work {
            Work::Matmul => self.out.layout.shape.last().copied().unwrap_or(1),
            Work::Convolution(of) => of.1.plane_of(of.0),
            _ => 0,
        }
    }

    /// Whether a reduction is one of all elements, or of each of several long rows.
    fn is_total(&self, d: ReduceDims, fusion: Fusion) -> bool {
        let of_rows = fusion.long_rows && d.n.is_multiple_of(LONGEST_ROW) && self.out.layout.is_contiguous();
        d.inner == 1 && d.n > LONGEST_ROW && (d.outer == 1 || of_rows)
    }

    /// Whether its result is what a reader of its memory would find.
    fn is_exact(&self) -> bool {
        let truth = matches!(self.work, Work::Map { kernel: Kernel::Truth { .. }, .. });
        match self.out.dtype {
            DType::Bool => truth || self.compute == DType::Bool,
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
        // The first group that it may join, and the first before which it may have one of its own.
        let (mut least, mut before) = (0, 0);
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
                let whole = !e.work.is_product()
                    && writer.is_exact()
                    && writer.out.dtype == v.dtype
                    && (same_walk(&v.layout, &writer.out.layout)
                        || self.plan.groups[group].repeats_values(&v.layout, &writer.out.layout)
                        || part_of_rows(&v.layout, &writer.out.layout).is_some());
                if whole {
                    writers.push((k, used.entry));
                    break;
                }
                least = least.max(group + 1);
                self.plan.stored[used.entry] = true;
            }
        }
        writers.iter().for_each(|(_, writer)| before = before.max(self.group_of[*writer].0 + 1));
        for used in self.uses.get(&id(&e.out)).into_iter().flatten() {
            let other = &self.entries[used.entry];
            let view =
                if used.writes { &other.out } else { other.ins[used.operand].held().unwrap_or(&other.out) };
            if are_apart(&e.out, view) {
                continue;
            }
            let group = self.group_of[used.entry].0;
            // A product reads its operands in another order.
            let passes = !other.work.is_product() && same_walk(&e.out.layout, &view.layout);
            least = least.max(group + !passes as usize);
            before = before.max(group + 1);
        }
        let count = self.plan.groups.len();
        let candidates = (least.max(count.saturating_sub(REACH))..count).rev();
        let joined = candidates.into_iter().find_map(|g| Some((g, self.fit_in(at, g, &writers, fusion)?)));
        let (group, fit) = joined.unwrap_or_else(|| self.open(at, before.max(least), fusion));
        self.join(at, group, fit);
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

    /// Adds the next entry to a group.
    fn join(&mut self, at: usize, group: usize, Fit { level, n, part, tile }: Fit) {
        let e = &self.entries[at];
        let planned = &mut self.plan.groups[group];
        planned.compute = common(planned.compute, e.compute).unwrap_or(planned.compute);
        planned.n = planned.n.max(n);
        planned.part = planned.part.max(part);
        planned.has_total |= level == Level::Total;
        if let (Level::Columns | Level::Tile, Work::Reduce(_, d)) = (level, &e.work) {
            planned.columns = Some(*d);
        }
        if tile > 0 && planned.tile == 0 {
            planned.tile = tile;
            for (of, level) in planned.entries.iter().zip(&mut planned.levels) {
                if *level == Level::Columns {
                    (*level, self.group_of[*of].1) = (Level::Tile, Level::Tile);
                }
            }
        }
        planned.entries.push(at);
        planned.levels.push(level);
        self.group_of.push((group, level));
    }

    /// The length of the rows that an entry at a level needs.
    fn row_length(&self, at: usize, level: Level) -> usize {
        match self.entries[at].work {
            Work::Reduce(_, d) if level == Level::Rows => d.n,
            Work::Reduce(_, d) if matches!(level, Level::Columns | Level::Tile) => d.inner,
            Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) if d.n <= LONGEST_ROW && d.inner == 1 => d.n,
            _ => 0,
        }
    }

    /// How an entry joins a group; None if it may not.
    fn fit_in(&self, at: usize, g: usize, writers: &[(usize, usize)], fusion: Fusion) -> Option<Fit> {
        let (e, group) = (&self.entries[at], &self.plan.groups[g]);
        let inside = |(_, w): &&(usize, usize)| self.group_of[*w].0 == g;
        if group.closed
            || e.work.is_product()
            || group.producer.is_some() && !writers.iter().any(|w| inside(&w))
            || common(group.compute, e.compute).is_none()
            || group.entries.len() >= MOST
            || writers.iter().any(|(_, w)| self.group_of[*w].0 > g)
            || e.out.storage.device() != self.entries[group.entries[0]].out.storage.device()
        {
            return None;
        }
        let positions = e.positions();
        let columns = group.columns.filter(|d| positions == d.outer * d.inner);
        let reads_sums = |(_, w): &(usize, usize)| matches!(self.group_of[*w], (of, Level::Columns | Level::Tile) if of == g);
        let level = match e.work {
            Work::Matmul | Work::Convolution(_) => return None,
            Work::Map { .. } | Work::Copy if columns.is_some() && writers.iter().any(reads_sums) => {
                // Tiles are worth it where elements are read again.
                if group.tile == 0 && !columns.is_some_and(|d| self.is_read_in_tiles(at, d, fusion)) {
                    return None;
                }
                Level::Tile
            }
            Work::Map { .. } | Work::Copy if positions == group.numel => Level::Elements,
            // Goes over as many elements as the parts of the group's rows have, or is apart.
            Work::Map { .. } | Work::Copy if !writers.iter().any(|w| inside(&w)) => {
                if group.part == 0 || positions * group.n != group.numel * group.part {
                    return None;
                }
                Level::Parts
            }
            Work::Map { .. } | Work::Copy if group.n > 0 && positions * group.n == group.numel => Level::Rows,
            Work::Map { .. } | Work::Copy if group.has_total && positions == 1 && fusion.totals => {
                Level::Total
            }
            Work::Map { .. } | Work::Copy if fusion.parts => Level::Parts,
            Work::Map { .. } | Work::Copy => return None,
            Work::Reduce(_, d) if d.inner != 1 => {
                let others = group.columns.is_some_and(|other| other != d);
                let is_computed = writers.iter().any(|w| inside(&w));
                if others || positions != group.numel || !self.reduces_columns(at, d, is_computed, fusion) {
                    return None;
                }
                if group.tile > 0 { Level::Tile } else { Level::Columns }
            }
            Work::Reduce(_, d) => {
                if !fusion.reductions || positions != group.numel {
                    return None;
                }
                if e.is_total(d, fusion) {
                    if group.n > 0 {
                        return None;
                    }
                    Level::Total
                } else {
                    Level::Rows
                }
            }
            Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) => {
                if !fusion.softmax || d.inner != 1 || d.n > LONGEST_ROW || positions != group.numel {
                    return None;
                }
                Level::Elements
            }
        };
        let tile = match group.columns {
            Some(d) if writers.iter().any(reads_sums) || group.tile > 0 => {
                self.tile_with(at, level, g, d, fusion)?
            }
            _ => 0,
        };
        let mut fit = Fit { level, n: self.row_length(at, level), part: 0, tile };
        if level == Level::Parts {
            let parts = writers
                .iter()
                .filter(inside)
                .filter_map(|(k, w)| part_of_rows(&e.ins[*k].held()?.layout, &self.entries[*w].out.layout));
            (fit.n, fit.part) = match (group.part, parts.into_iter().next()) {
                (0, Some(part)) => (part.n, part.len),
                (0, None) => return None,
                (part, _) => (group.n, part),
            };
            let fits = fit.n <= LONGEST_ROW && fit.part >= SHORTEST_PART;
            if !fits || positions * fit.n != group.numel * fit.part {
                return None;
            }
        }
        let n = fit.n;
        if level == Level::Rows && matches!(e.work, Work::Reduce(..)) && !(2..=LONGEST_ROW).contains(&n) {
            return None;
        }
        if n > 0 && (group.has_total || group.n > 0 && group.n != n) {
            return None;
        }
        if let Some(producer) = group.producer
            && (level.is_of_group() || n > 0 && !self.entries[producer].unit().is_multiple_of(n))
        {
            return None;
        }
        // Whether what is passed within the group is where it is needed.
        let takes_rows = level == Level::Rows && !matches!(e.work, Work::Reduce(..));
        let fits = |(k, w): &(usize, usize)| {
            let In::View(v) = &e.ins[*k] else { return false };
            let (v, of) = (&v.layout, &self.entries[*w].out.layout);
            let is_part = |p: Part| p.len == fit.part && p.n == fit.n;
            match (self.group_of[*w].1, level) {
                (Level::Columns | Level::Tile, Level::Elements) => {
                    group.columns.is_some_and(|d| repeats_columns(v, of, d))
                }
                (Level::Columns | Level::Tile, Level::Tile) if matches!(e.work, Work::Reduce(..)) => {
                    group.columns.is_some_and(|d| repeats_columns(v, of, d))
                }
                (Level::Columns | Level::Tile, Level::Tile) => same_walk(v, of),
                (Level::Elements, Level::Tile) if !matches!(e.work, Work::Reduce(..)) => false,
                (Level::Elements, Level::Parts) => part_of_rows(v, of).is_some_and(is_part),
                (Level::Parts, Level::Parts) => same_walk(v, of),
                (Level::Rows, Level::Parts) => v.numel() == positions && repeats_rows(v, of, fit.part),
                (Level::Elements, _) => !takes_rows && same_walk(v, of),
                (Level::Rows, _) if takes_rows => same_walk(v, of),
                (Level::Rows, _) => v.numel() == group.numel && repeats_rows(v, of, group.n),
                (Level::Total, Level::Total) => same_walk(v, of),
                (Level::Parts | Level::Columns | Level::Tile | Level::Total, _) => false,
            }
        };
        writers.iter().filter(inside).all(fits).then_some(fit)
    }

    /// Opens a group for an entry that may be computed before group `before`. A group with fewer elements than a later one is put before that, so
    /// that an entry that reads the results of both may join the later one: with `m = x.amax(0)`, the group of `m.isnan()` is put before that of
    /// `x == m`, which then has `(x == m) | m.isnan()` too.
    fn open(&mut self, at: usize, before: usize, fusion: Fusion) -> (usize, Fit) {
        let e = &self.entries[at];
        let count = self.plan.groups.len();
        let is_larger =
            |g: &usize| !self.plan.groups[*g].closed && self.plan.groups[*g].numel > e.positions();
        let group = (before.max(count.saturating_sub(REACH))..count).find(is_larger).unwrap_or(count);
        for moved in self.plan.groups[group..].iter().flat_map(|g| &g.entries) {
            self.group_of[*moved].0 += 1;
        }
        let (level, closed) = match e.work {
            Work::Map { .. } | Work::Copy | Work::Matmul | Work::Convolution(_) => (Level::Elements, false),
            Work::Reduce(_, d) if e.is_total(d, fusion) => (Level::Total, !fusion.reductions),
            Work::Reduce(_, d) if d.inner != 1 && self.reduces_columns(at, d, false, fusion) => {
                (Level::Columns, false)
            }
            Work::Reduce(_, d) => {
                (Level::Rows, !fusion.reductions || d.inner != 1 || !(2..=LONGEST_ROW).contains(&d.n))
            }
            Work::Softmax(_, d) | Work::SoftmaxBackward(_, d) => {
                (Level::Elements, !fusion.softmax || d.inner != 1 || d.n > LONGEST_ROW)
            }
        };
        self.plan.groups.insert(
            group,
            Planned {
                entries: Vec::new(),
                levels: Vec::new(),
                compute: e.compute,
                numel: e.positions(),
                n: 0,
                part: 0,
                columns: None,
                tile: 0,
                producer: e.work.is_product().then_some(at),
                has_total: false,
                closed,
            },
        );
        (group, Fit { level, n: self.row_length(at, level), part: 0, tile: 0 })
    }

    /// Marks the results that somebody outside of the queue may read.
    fn store_what_is_kept(&mut self, is_kept: impl Fn(&Storage) -> bool) {
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
            if !is_kept(storage) {
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
