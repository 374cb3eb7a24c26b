//! Entries that gain nothing by their group, taken apart: Note [Plans].

use super::{Planned, Planner};
use crate::backend::defer::queue::{Entry, Held, In, Work};
use crate::backend::defer::walks::same_walk;
use crate::backend::group::Level;

impl Planner<'_> {
    /// Takes the entries of a large group apart that have no value in common.
    pub(super) fn separate(&self, group: Planned, all: &mut Vec<Planned>) {
        let parts = self.parts_of(&group);
        for part in 0..group.entries.len() {
            let members: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] == part).collect();
            if members.len() == parts.len() {
                return all.push(group);
            }
            if members.is_empty() {
                continue;
            }
            let entries: Vec<usize> = members.iter().map(|&i| group.entries[i]).collect();
            let levels: Vec<Level> = members.iter().map(|&i| group.levels[i]).collect();
            let n = entries.iter().zip(&levels).map(|(&at, &level)| self.row_length(at, level)).max();
            let has_tiles = levels.contains(&Level::Tile);
            let part = if levels.contains(&Level::Parts) { group.part } else { 0 };
            let n = if part > 0 { group.n } else { n.unwrap_or(0) };
            all.push(Planned {
                has_total: levels.contains(&Level::Total),
                columns: group.columns.filter(|_| levels.contains(&Level::Columns) || has_tiles),
                tile: if has_tiles { group.tile } else { 0 },
                entries,
                levels,
                n,
                part,
                ..group
            });
        }
    }

    /// Takes the reduction out of each group whose other entries are values per row.
    pub(super) fn take_out_reductions(&mut self, groups: &mut Vec<Planned>) {
        for k in (0..groups.len()).rev() {
            let group = &groups[k];
            let reduction = group.entries[0];
            let is_reduction = |at: usize| matches!(self.entries[at].work, Work::Reduce(..));
            let is_alone = group.entries.len() > 1
                && is_reduction(reduction)
                && group.levels.iter().all(|level| *level == Level::Rows)
                && !group.entries[1..].iter().any(|at| is_reduction(*at));
            if !is_alone {
                continue;
            }
            let per_row = Planned {
                entries: group.entries[1..].to_vec(),
                levels: vec![Level::Elements; group.entries.len() - 1],
                numel: group.numel / group.n,
                n: 0,
                ..*group
            };
            for at in &per_row.entries {
                let from_reduction = self.plan.passed[*at].iter_mut().filter(|w| **w == Some(reduction));
                from_reduction.for_each(|writer| *writer = None);
            }
            self.plan.stored[reduction] = true;
            groups[k].entries.truncate(1);
            groups[k].levels.truncate(1);
            groups.insert(k + 1, per_row);
        }
    }

    /// By position in a group, the first entry with which an entry has a value in common, through others or not.
    fn parts_of(&self, group: &Planned) -> Vec<usize> {
        fn join(parts: &mut [usize], a: usize, b: usize) {
            let (first, other) = (parts[a].min(parts[b]), parts[a].max(parts[b]));
            parts.iter_mut().filter(|p| **p == other).for_each(|p| *p = first);
        }
        let mut parts: Vec<usize> = (0..group.entries.len()).collect();
        for (i, at) in group.entries.iter().enumerate() {
            for writer in self.plan.passed[*at].iter().flatten() {
                if let Some(j) = group.entries.iter().position(|other| other == writer) {
                    join(&mut parts, i, j);
                }
            }
        }
        for i in 0..parts.len() {
            for j in 0..i {
                if parts[i] != parts[j] && self.are_linked(group.entries[i], group.entries[j]) {
                    join(&mut parts, i, j);
                }
            }
        }
        parts
    }

    /// Whether two entries read the same elements, or one writes a storage that the other uses.
    fn are_linked(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.entries[a], &self.entries[b]);
        let reads = |e: &Entry, v: &Held| {
            let mut ins = e.ins.iter().filter_map(In::held);
            ins.any(|own| own.storage.same(&v.storage) && same_walk(&own.layout, &v.layout))
        };
        let uses = |e: &Entry, v: &Held| e.uses().any(|(s, _)| s.same(&v.storage));
        uses(a, &b.out) || uses(b, &a.out) || a.ins.iter().filter_map(In::held).any(|v| reads(b, v))
    }
}
