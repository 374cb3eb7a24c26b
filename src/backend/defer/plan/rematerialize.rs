//! Rematerialization: cheap values are computed again by the groups that read them.
//!
//! Note [Rematerialized values] A value over elements that a later group reads from memory costs a write and a read of all elements. If it is
//! cheap, nobody outside of the queue has it, and its operands still hold what they held, each such group computes it for itself:
//! of `d = x - x.amin(0); d / (d.amax(0) + eps)` both groups compute `d` in registers. As its operands are read in its place, they have at
//! most one tensor of as many elements that the group does not read anyway. The steps are the same, and so are the bits. What a value is computed
//! from is in both groups too. A group stores its entries that are needed outside, so none of these may be stored, or be written
//! in place later: the later group would store the old value over the new one.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{MOST, Planned, Planner};
use crate::backend::defer::queue::{Held, In, Work};
use crate::backend::defer::walks::same_walk;
use crate::backend::group::Level;
use crate::storage::Storage;

/// The most that a value may cost, with those that it is computed from in its group.
pub const CHEAP: u32 = 8;

impl Planner<'_> {
    /// Has groups compute values that are stored for them alone. `is_kept` as of [`super::plan`].
    pub(super) fn rematerialize(&mut self, groups: &mut Vec<Planned>, is_kept: impl Fn(&Storage) -> bool) {
        for g in 0..groups.len() {
            for k in (0..groups[g].entries.len()).rev() {
                // An entry may have left the group with one after it.
                let Some(&at) = groups[g].entries.get(k) else { continue };
                if self.plan.stored[at] && !is_kept(&self.entries[at].out.storage) {
                    self.rematerialize_one(groups, g, at);
                }
            }
        }
        groups.retain(|group| !group.entries.is_empty());
    }

    /// Has later groups compute an entry of group `g`, if all that read it can.
    fn rematerialize_one(&mut self, groups: &mut [Planned], g: usize, at: usize) -> Option<()> {
        let own = &self.entries[at].out;
        let chain = self.chain_of(&groups[g], at)?;
        // By later group, the entries that read the value, and their operands.
        let mut readers: SmallVec<[(usize, usize, usize); 4]> = SmallVec::new();
        for used in self.uses.get(&own.storage.id())? {
            if used.writes {
                if used.entry != at {
                    return None;
                }
                continue;
            }
            if self.plan.passed[used.entry][used.operand] == Some(at) {
                continue;
            }
            let h = groups.iter().rposition(|group| group.entries.contains(&used.entry))?;
            readers.push((h, used.entry, used.operand));
        }
        let mut later: SmallVec<[usize; 4]> = readers.iter().map(|(h, ..)| *h).collect();
        later.sort_unstable();
        later.dedup();
        let takes = |(h, reader, operand): &(usize, usize, usize)| {
            let e = &self.entries[*reader];
            let k = groups[*h].entries.iter().position(|of| of == reader);
            let reads_elements = match k.map(|k| groups[*h].levels[k]) {
                Some(Level::Elements) => !matches!(e.work, Work::Matmul | Work::Convolution(_)),
                Some(Level::Rows | Level::Columns | Level::Total) => matches!(e.work, Work::Reduce(..)),
                _ => false,
            };
            let same = |v: &Held| v.dtype == own.dtype && same_walk(&v.layout, &own.layout);
            *h > g && reads_elements && e.ins[*operand].held().is_some_and(same)
        };
        let fits = |h: &usize| self.fits_in(&groups[*h], &groups[g], &chain);
        if readers.is_empty() || !readers.iter().all(takes) || !later.iter().all(fits) {
            return None;
        }
        for h in later {
            let group = &mut groups[h];
            let new: SmallVec<[usize; 4]> =
                chain.iter().copied().filter(|of| !group.entries.contains(of)).collect();
            // Before all that read them, after those of the chain that the group computes already.
            let first = group.entries.iter().rposition(|of| chain.contains(of)).map_or(0, |last| last + 1);
            group.levels.splice(first..first, new.iter().map(|_| Level::Elements));
            group.entries.splice(first..first, new);
        }
        for (_, reader, operand) in readers {
            self.plan.passed[reader][operand] = Some(at);
        }
        self.plan.stored[at] = false;
        for of in chain.into_iter().rev() {
            let is_passed = groups[g].entries.iter().any(|e| self.plan.passed[*e].contains(&Some(of)));
            if !self.plan.stored[of] && !is_passed {
                remove(&mut groups[g], of);
            }
        }
        Some(())
    }

    /// The entries of a group from which an entry is computed, and itself, in order; None if they are not cheap, or memory that they read or
    /// would write is not as it was.
    fn chain_of(&self, group: &Planned, at: usize) -> Option<SmallVec<[usize; 4]>> {
        let (mut chain, mut cost): (SmallVec<[usize; 4]>, u32) = (SmallVec::new(), 0);
        let mut pending: SmallVec<[usize; 4]> = SmallVec::from_slice(&[at]);
        while let Some(next) = pending.pop() {
            if chain.contains(&next) {
                continue;
            }
            let e = &self.entries[next];
            cost += match &e.work {
                Work::Map { formula, .. } => formula.cost(),
                Work::Copy => 1,
                _ => return None,
            };
            let k = group.entries.iter().position(|of| *of == next)?;
            let is_replaced = self.is_written_from(&e.out.storage, next + 1);
            if group.levels[k] != Level::Elements
                || cost > CHEAP
                || !e.is_exact()
                || is_replaced
                || next != at && self.plan.stored[next]
            {
                return None;
            }
            for (v, passed) in e.ins.iter().zip(&self.plan.passed[next]) {
                match (v.held(), passed) {
                    (_, Some(writer)) => pending.push(*writer),
                    (Some(v), None) if self.is_written_from(&v.storage, next) => return None,
                    (Some(v), None) if is_large(v, group) && !v.layout.is_contiguous() => return None,
                    _ => {}
                }
            }
            chain.push(next);
        }
        chain.sort_unstable();
        Some(chain)
    }

    /// Whether an entry from `at` on writes a storage.
    fn is_written_from(&self, s: &Storage, at: usize) -> bool {
        self.uses.get(&s.id()).is_some_and(|uses| uses.iter().any(|u| u.writes && u.entry >= at))
    }

    /// Whether a group can compute a chain of entries of `from` at no cost of memory.
    fn fits_in(&self, group: &Planned, from: &Planned, chain: &[usize]) -> bool {
        let reads_of = |at: &usize| self.entries[*at].ins.iter().filter_map(In::held);
        let mut read: FxHashSet<usize> =
            group.entries.iter().flat_map(reads_of).map(|v| v.storage.id()).collect();
        let operands = chain.iter().flat_map(|at| {
            let passed = &self.plan.passed[*at];
            self.entries[*at]
                .ins
                .iter()
                .zip(passed)
                .filter(|(_, p)| p.is_none())
                .filter_map(|(v, _)| v.held())
        });
        let new = operands.filter(|v| is_large(v, from)).filter(|v| read.insert(v.storage.id())).count();
        new <= 1
            && group.numel == from.numel
            && group.compute == from.compute
            && from.tile + group.tile == 0
            && !group.closed
            && group.producer.is_none()
            && group.entries.len() + chain.len() <= MOST
    }
}

/// Whether an operand has as many elements in memory as a group.
fn is_large(v: &Held, group: &Planned) -> bool {
    v.layout.numel() == group.numel && !v.layout.strides.contains(&0)
}

fn remove(group: &mut Planned, at: usize) {
    let Some(k) = group.entries.iter().position(|of| *of == at) else { return };
    group.entries.remove(k);
    group.levels.remove(k);
}
