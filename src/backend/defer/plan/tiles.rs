//! Which reductions of columns are in groups, and which groups are computed in tiles: Note [Tiles of columns].

use smallvec::SmallVec;

use super::{Planner, THREAD};
use crate::backend::defer::queue::{Entry, Held, In, Work};
use crate::backend::defer::walks::repeats_columns;
use crate::backend::group::{Fusion, Level, SUMMED_ROWS, rows_of_block, tile_of};
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::layout::Dims;

impl Planner<'_> {
    /// Whether a reduction is one of columns that groups have; `is_computed` tells whether the group computes its operand.
    pub(super) fn reduces_columns(
        &self,
        at: usize,
        d: ReduceDims,
        is_computed: bool,
        fusion: Fusion,
    ) -> bool {
        let e = &self.entries[at];
        let Work::Reduce(op, _) = e.work else { return false };
        let usual = matches!(op, ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min) && e.out.dtype == e.compute;
        if fusion.columns == 0 || !usual || d.n < 2 || !e.out.layout.is_contiguous() {
            return false;
        }
        // Of few blocks of rows a group would keep fewer threads busy than its operations do alone.
        let busy = d.outer * d.n.div_ceil(rows_of_block(d.inner.max(1)));
        let is_busy = busy >= fusion.columns.min(d.len() / THREAD);
        // The extrema of columns have no machine code: their own kernel is faster if the group saves no pass over memory.
        is_busy && (op == ReduceOp::Sum || is_computed) && SUMMED_ROWS.contains(&d.inner)
            || d.inner >= *SUMMED_ROWS.start() && self.is_read_in_tiles(at, d, fusion)
    }

    /// Whether an entry over elements reads the values per column that an entry makes, or values per column that are computed from them, and
    /// can be computed in tiles.
    pub(super) fn is_read_in_tiles(&self, at: usize, d: ReduceDims, fusion: Fusion) -> bool {
        let Some(tile) = tile_of(d, fusion.columns).filter(|_| fusion.tiles) else { return false };
        let mut made: SmallVec<[&Held; 4]> = SmallVec::from_elem(&self.entries[at].out, 1);
        self.entries[at + 1..].iter().any(|e| {
            let of = |v: &'_ Held| made.iter().copied().find(|m| m.storage.same(&v.storage));
            let mut read = e.ins.iter().filter_map(In::held).filter_map(|v| Some((v, of(v)?)));
            if e.positions() == d.len() {
                let repeats = |(v, of): (&Held, &Held)| repeats_columns(&v.layout, &of.layout, d);
                return read.any(repeats) && walks_in_tiles(e, d, tile);
            }
            if e.positions() == d.outer * d.inner && read.next().is_some() {
                made.push(&e.out);
            }
            false
        })
    }

    /// The columns of a tile of a group that an entry joins at a level, as it reads column sums or the group has tiles already; None if the
    /// group can't be computed in tiles then.
    pub(super) fn tile_with(
        &self,
        at: usize,
        level: Level,
        g: usize,
        d: ReduceDims,
        fusion: Fusion,
    ) -> Option<usize> {
        let group = &self.plan.groups[g];
        let tile =
            if group.tile > 0 { group.tile } else { tile_of(d, fusion.columns).filter(|_| fusion.tiles)? };
        let is_tiled = |level: Level| matches!(level, Level::Elements | Level::Columns | Level::Tile);
        if !is_tiled(level)
            || !group.levels.iter().copied().all(is_tiled)
            || group.part > 0
            || group.producer.is_some()
        {
            return None;
        }
        let joined = if group.tile > 0 { &[][..] } else { &group.entries[..] };
        let mut all = joined.iter().copied().chain([at]);
        all.all(|at| walks_in_tiles(&self.entries[at], d, tile)).then_some(tile)
    }
}

/// Whether the elements that an entry reads and writes can be walked tile by tile.
fn walks_in_tiles(e: &Entry, d: ReduceDims, tile: usize) -> bool {
    let shape = Dims::from([d.outer, d.n, d.inner / tile, tile]);
    let needs_rows = matches!(e.work, Work::Softmax(..) | Work::SoftmaxBackward(..));
    let all = e.ins.iter().filter_map(In::held).chain([&e.out]).map(|v| &v.layout);
    !needs_rows && all.filter(|v| v.numel() == d.len()).all(|v| v.reshape(&shape).is_some())
}
