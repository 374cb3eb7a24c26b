//! Which column sums are in groups, and which groups are computed in tiles: Note [Tiles of columns].

use smallvec::SmallVec;

use super::{Planner, THREAD, id};
use crate::backend::defer::queue::{In, Work};
use crate::backend::group::{Fusion, Level, SUMMED_ROWS, rows_of_block, tile_of};
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::layout::Dims;

impl Planner<'_> {
    /// Whether a reduction is a column sum that groups have.
    pub(super) fn is_column_sum(&self, at: usize, d: ReduceDims, fusion: Fusion) -> bool {
        let e = &self.entries[at];
        let usual = matches!(e.work, Work::Reduce(ReduceOp::Sum, _)) && e.out.dtype == e.compute;
        if fusion.columns == 0 || !usual || d.n < 2 || !e.out.layout.is_contiguous() {
            return false;
        }
        // Of few blocks of rows a group would keep fewer threads busy than its operations do alone.
        let busy = d.outer * d.n.div_ceil(rows_of_block(d.inner.max(1)));
        let is_busy = busy >= fusion.columns.min(d.len() / THREAD);
        let has_tiles = || {
            let is_tiled = fusion.tiles && tile_of(d, fusion.columns).is_some();
            is_tiled && self.is_read_by_elements(at, d.len())
        };
        is_busy && SUMMED_ROWS.contains(&d.inner) || d.inner >= *SUMMED_ROWS.start() && has_tiles()
    }

    /// Whether elements of a group of so many read the result of an entry per column, or what is made of it per column.
    pub(super) fn is_read_by_elements(&self, at: usize, numel: usize) -> bool {
        let mut made: SmallVec<[usize; 4]> = SmallVec::from_elem(id(&self.entries[at].out), 1);
        self.entries[at + 1..].iter().any(|e| {
            let reads = e.ins.iter().filter_map(In::held).any(|v| made.contains(&id(v)));
            if reads && e.positions() < numel {
                made.push(id(&e.out));
            }
            reads && e.positions() == numel
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
        // Operands and results have to be walked tile by tile.
        let shape = Dims::from([d.outer, d.n, d.inner / tile, tile]);
        let fits = |at: usize| {
            let e = &self.entries[at];
            let rows = matches!(e.work, Work::Softmax(..) | Work::SoftmaxBackward(..));
            let all = e.ins.iter().filter_map(In::held).chain([&e.out]).map(|v| &v.layout);
            !rows && all.filter(|v| v.numel() == group.numel).all(|v| v.reshape(&shape).is_some())
        };
        let joined = if group.tile > 0 { &[][..] } else { &group.entries[..] };
        joined.iter().copied().chain([at]).all(fits).then_some(tile)
    }
}
