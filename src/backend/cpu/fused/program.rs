//! The instructions of a group, and the places of its values.

use std::sync::Arc;

use smallvec::SmallVec;

use super::apart::{Apart, Blocks, apart_of, blocks_of, run_of, spread_of};
use super::build::Builder;
use super::compile::compile;
use super::prefetch::Prefetch;
use super::types::{Grouped, Reduction, Rounding, Rows, RowsAhead};
use crate::backend::View;
use crate::backend::cpu::copy::{BLOCK, GRAIN};
use crate::backend::cpu::machine::{self, Kernel, Pool};
use crate::backend::cpu::pointwise::OperandAccess;
use crate::backend::cpu::reduce::{ColumnBlocks, ColumnReduction, RUN};
use crate::backend::group::{Group, GroupOperand, Level, Producer, TILE, tile_within};
use crate::backend::pointwise::Loop;
use crate::dtype::{Bool8, DType, Element, Scalar};
use crate::formula::{Formula, recorded};

/// Elements of a block where nothing needs a buffer: those of a chunk.
const LONGEST: usize = GRAIN;
/// Bytes of the buffers of a block: a part of the second-level cache.
pub(super) const IN_CACHE: usize = 1 << 16;

fn narrow_of<T: Grouped>(o: &GroupOperand, group: &Group) -> Option<DType> {
    let is_narrow = |d: &DType| match d {
        DType::Bool | DType::U8 | DType::I8 | DType::I16 => true,
        DType::I32 => T::Stored::DTYPE != DType::I32,
        d => d.is_half() && T::Stored::DTYPE == DType::F32,
    };
    let dtype = Some(o.view.dtype).filter(is_narrow)?;
    let written = group.results.iter().any(|(_, r)| r.storage.overlaps(o.view.storage));
    let usable = matches!(o.level, Level::Elements | Level::Parts) && o.view.layout.is_contiguous();
    (usable && !written && machine::is_enabled()).then_some(dtype)
}

/// Whether instructions may write a result where it is stored.
pub(super) fn is_dense<T: Grouped>(view: &View) -> bool {
    view.dtype == T::Stored::DTYPE && view.layout.is_contiguous() && view.storage.is_aligned(8)
}

/// The type of a result that machine code can store as the half type to which it is rounded.
fn half_of<T: Grouped>(k: usize, group: &Group) -> Option<DType> {
    let (call, view) = group.results[k];
    let half =
        group.calls[call].rounded.filter(|half| *half == view.dtype && T::Stored::DTYPE == DType::F32)?;
    let dense =
        view.layout.is_contiguous() && view.storage.is_aligned(8) && !group.calls[call].level.is_of_group();
    let overlaps = |v: View| v.storage.overlaps(view.storage);
    let others = group.results.iter().enumerate().filter(|(other, _)| *other != k).map(|(_, r)| r.1);
    let apart = !others.chain(group.operands.iter().map(|o| o.view)).any(overlaps);
    (dense && apart && machine::is_enabled()).then_some(half)
}

/// The result whose elements are those of the operand, which it reads and replaces.
fn replaced_by<T: Grouped>(o: &GroupOperand, group: &Group) -> Option<usize> {
    let same = |r: &View| {
        r.storage.same(o.view.storage)
            && r.dtype == o.view.dtype
            && r.layout.offset == o.view.layout.offset
            && [r, &o.view].iter().all(|v| v.layout.is_contiguous() && v.layout.numel() == group.numel)
    };
    if o.level != Level::Elements || o.view.dtype != T::Stored::DTYPE {
        return None;
    }
    group.results.iter().position(|(_, r)| same(r))
}

/// The place of a value while a block is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// A dense operand, used where it lies.
    Operand(usize),
    Buffer(usize),
    /// A result, computed where it is stored.
    Result(usize),
    /// An operand whose rows are apart, used by machine code where it lies.
    Rows(usize),
    /// A part of each row of a value, likewise.
    Part(usize),
    /// A dense operand of a narrower type, likewise.
    Narrow(usize),
    /// The accumulators of a column sum, to which machine code adds.
    Columns(usize),
    /// The values of the columns of a tile in a buffer, in each row, for machine code.
    EachRow(usize),
    /// The elements of the producer.
    Produced,
}

pub(super) enum Code<T: Grouped> {
    /// The next elements of an operand.
    Load(usize),
    Same(Loop<T, T>),
    Truth(Loop<T, Bool8>),
    /// Each of the values per row, once per element.
    Repeat,
    /// A part of each row.
    Part(usize),
    Reduce(Reduction<T>),
    /// Into the list of runs of a total.
    Run(usize),
    /// As `Run`, of a run that machine code has summed.
    Keep(usize),
    /// Into the accumulators of a column sum, by its position among them.
    Columns(usize),
    /// Its argument, for a kernel that reads it where it lies.
    Pass,
    /// The columns of a tile, reduced.
    ReduceTile(ColumnReduction<T>),
    /// The values of the columns of a tile, once per row.
    EachRow,
    Softmax(RowsAhead<T>),
    SoftmaxBackward(Rows<T>),
    /// To the values of a half type.
    Round(DType, Rounding<T>),
    /// Several of these in one loop.
    Machine(Arc<Kernel>, Pool),
}

pub(super) struct Instruction<T: Grouped> {
    pub(super) code: Code<T>,
    pub(super) args: SmallVec<[Place; 4]>,
    pub(super) params: SmallVec<[T; 3]>,
    /// One, except of machine code.
    pub(super) outs: SmallVec<[Place; 1]>,
    pub(super) extent: Extent,
    /// What machine code, or a softmax, prefetches.
    pub(super) prefetches: SmallVec<[Prefetch; 4]>,
}

/// What fills a buffer before the first block.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    Nothing,
    Number(Scalar),
    /// An operand that repeats itself within a block.
    Operand(usize),
}

/// How many values of each row there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    Elements,
    Parts,
    /// One.
    Rows,
    /// One per column of a tile.
    Tile,
}

impl Extent {
    pub(super) fn of(level: Level) -> Extent {
        match level {
            Level::Elements => Extent::Elements,
            Level::Parts => Extent::Parts,
            Level::Tile => Extent::Tile,
            // The last two are no results of a block.
            Level::Rows | Level::Columns | Level::Total => Extent::Rows,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) extent: Extent,
    pub(super) fill: Fill,
}

impl Buffer {
    fn is_constant(&self) -> bool {
        !matches!(self.fill, Fill::Nothing)
    }
}

pub(super) struct Program<T: Grouped> {
    pub(super) instructions: Vec<Instruction<T>>,
    pub(super) buffers: Vec<Buffer>,
    /// By call.
    pub(super) places: Vec<Place>,
    pub(super) totals: Vec<(usize, Reduction<T>)>,
    /// The calls that reduce columns.
    pub(super) columns: Vec<(usize, ColumnReduction<T>)>,
    /// How the rows of these are divided.
    pub(super) column_blocks: Option<ColumnBlocks>,
    /// The same of tiles, whose rows are a block each.
    pub(super) tiles: Option<ColumnBlocks>,
    /// The columns of tiles that stay in the cache with the buffers of this program, which is not run if there are any.
    pub(super) narrower: Option<usize>,
    /// By operand, its rows, if machine code can use them where they lie.
    pub(super) apart: Vec<Option<Apart>>,
    /// By operand, the type of its elements if they are narrower ones that machine code can use where they lie.
    pub(super) narrow: Vec<Option<DType>>,
    /// By operand, the result that replaces each of its elements.
    pub(super) replaced: Vec<Option<usize>>,
    /// The values of which parts of rows are used, and where the parts begin.
    pub(super) parts: Vec<(Place, usize)>,
    /// By result, its rows, if they are apart and machine code can write them where they are stored.
    pub(super) spread: Vec<Option<Apart>>,
    /// By result, the half type as which machine code can store it.
    pub(super) halves: Vec<Option<DType>>,
    pub(super) n: usize,
    /// Whether the elements are rows of `n`. Otherwise `n` is the length of a block, and the first block of a worker begins with its
    /// first element.
    pub(super) has_rows: bool,
    /// Elements of a part of a row.
    pub(super) part: usize,
    /// How rows are divided into blocks. A group without rows has `n` elements in a block, as one row.
    pub(super) blocks: Blocks,
}

pub(super) fn identity() -> &'static Formula {
    recorded!(|a| a[0])
}

fn renamed(place: &mut Place, new: &[usize]) {
    if let Place::Buffer(b) | Place::EachRow(b) = place {
        *b = new[*b];
    }
}

impl<T: Grouped> Program<T> {
    /// The program of a group; None if a call is not defined for the type.
    pub(super) fn of(group: &Group, access: &[OperandAccess<'_>]) -> Option<Self> {
        let totals = group.calls.iter().any(|c| c.level == Level::Total);
        let results = group.results.iter().map(|(call, view)| (*view, group.calls[*call].level));
        let results = results.map(|(view, level)| GroupOperand { view, level });
        let run = group.operands.iter().copied().chain(results).find_map(|o| run_of::<T>(&o));
        let has_rows = group.n > 0 || run.is_some() && !totals;
        let (n, blocks) = match group.n {
            0 if totals => (RUN, Blocks::of(1)),
            0 => run.map_or((BLOCK, Blocks::of(1)), |n| (n, blocks_of::<T>(group, n))),
            n => (n, blocks_of::<T>(group, n)),
        };
        // Pieces have to begin where blocks may.
        let unit = |producer: &Producer| producer.unit().is_multiple_of(n * blocks.ends_after());
        if has_rows && !group.producer.as_ref().is_none_or(unit) {
            return None;
        }
        let column_blocks = match group.columns {
            Some(dims) if group.tile == 0 => Some(ColumnBlocks::of(dims)?),
            _ => None,
        };
        let tiles = match group.columns.filter(|_| group.tile > 0) {
            Some(dims) => Some(ColumnBlocks::of_tiles(dims, group.tile)?),
            None => None,
        };
        let program = Program {
            instructions: Vec::new(),
            buffers: Vec::new(),
            places: Vec::new(),
            totals: Vec::new(),
            columns: Vec::new(),
            column_blocks,
            tiles,
            narrower: None,
            apart: group
                .operands
                .iter()
                .map(|o| apart_of::<T>(o, n, blocks, group).filter(|_| has_rows))
                .collect(),
            narrow: group.operands.iter().map(|o| narrow_of::<T>(o, group)).collect(),
            replaced: group.operands.iter().map(|o| replaced_by::<T>(o, group)).collect(),
            parts: Vec::new(),
            spread: (0..group.results.len())
                .map(|k| spread_of::<T>(k, n, blocks, group).filter(|_| has_rows))
                .collect(),
            halves: (0..group.results.len()).map(|k| half_of::<T>(k, group)).collect(),
            n,
            has_rows,
            part: group.part,
            blocks,
        };
        let mut builder = Builder::new(group, program, access);
        for at in 0..group.calls.len() {
            let place = builder.call(at)?;
            builder.program.places.push(place);
        }
        let (mut program, formulas) = (builder.program, builder.formulas);
        let kept: Vec<Place> = group.results.iter().map(|(call, _)| program.places[*call]).collect();
        compile(&mut program, &formulas, &kept, group);
        for (k, (call, _)) in group.results.iter().enumerate() {
            if !matches!(program.places[*call], Place::Result(_)) {
                (program.spread[k], program.halves[k]) = (None, None);
            }
        }
        program.compute_in_place(group);
        program.prefetch_by_softmax(group);
        program.reuse_buffers(group);
        if let Some(d) = group.columns.filter(|_| group.tile > 0) {
            let buffers = program.buffers.iter().filter(|b| b.extent == Extent::Elements).count();
            program.narrower = tile_within(d, TILE / (1 + buffers)).filter(|tile| *tile < group.tile);
        } else if !totals {
            program.lengthen_blocks();
        }
        Some(program)
    }

    /// Makes blocks as long as their buffers fit in the cache.
    fn lengthen_blocks(&mut self) {
        let buffers = self.buffers.iter().filter(|b| b.extent == Extent::Elements).count();
        let longest = match buffers {
            0 => LONGEST,
            count => IN_CACHE / size_of::<T>() / count,
        };
        let factor = (longest / (self.n * self.blocks.rows)).max(1);
        if self.blocks.rows == 1 && self.n == BLOCK {
            self.n *= factor;
        } else {
            self.blocks = self.blocks.lengthened(factor);
        }
    }

    /// Has instructions write results where they are stored, if these are dense and apart from all else but the operand that
    /// they replace in machine code.
    fn compute_in_place(&mut self, group: &Group) {
        for (k, (call, view)) in group.results.iter().enumerate() {
            let (place, level) = (self.places[*call], group.calls[*call].level);
            let replaced = self.replaced_in_place(k, place);
            let others = group.results.iter().enumerate().filter(|(other, _)| *other != k).map(|(_, r)| r.1);
            let operands = group.operands.iter().enumerate();
            let operands = operands.filter(|(o, _)| replaced.is_none_or(|(replaced, _)| *o != replaced));
            let mut others = others.chain(operands.map(|(_, o)| o.view));
            let Place::Buffer(b) = place else { continue };
            if !matches!(level, Level::Elements | Level::Parts)
                || !is_dense::<T>(view)
                || self.buffers[b].is_constant()
                || others.any(|v| v.storage.overlaps(view.storage))
            {
                continue;
            }
            let moved = |p: &mut Place| {
                if *p == place {
                    *p = Place::Result(k);
                }
            };
            for instruction in &mut self.instructions {
                instruction.outs.iter_mut().for_each(moved);
                instruction.args.iter_mut().for_each(moved);
            }
            self.places.iter_mut().chain(self.parts.iter_mut().map(|(of, _)| of)).for_each(moved);
            if let Some((operand, loaded)) = replaced {
                self.instructions.retain(|i| !matches!(i.code, Code::Load(o) if o == operand));
                for arg in self.instructions.iter_mut().flat_map(|i| &mut i.args).filter(|p| **p == loaded) {
                    *arg = Place::Result(k);
                }
            }
        }
    }

    /// The operand that result `k` at `place` replaces, and the place to which it is loaded, if nothing but the machine code of
    /// the result reads it.
    fn replaced_in_place(&self, k: usize, place: Place) -> Option<(usize, Place)> {
        let made = self.instructions.iter().position(|i| i.outs.contains(&place))?;
        if !matches!(&self.instructions[made].code, Code::Machine(kernel, _) if kernel.replaces()) {
            return None;
        }
        let operand = self.replaced.iter().position(|r| *r == Some(k))?;
        let load = self.instructions.iter().find(|i| matches!(i.code, Code::Load(o) if o == operand))?;
        let loaded = *load.outs.first()?;
        let elsewhere = |(i, other): (usize, &Instruction<T>)| i != made && other.args.contains(&loaded);
        (!self.instructions.iter().enumerate().any(elsewhere) && !self.places.contains(&loaded))
            .then_some((operand, loaded))
    }

    /// Gives values whose lives do not overlap one buffer, so that a block of all buffers stays in the cache.
    fn reuse_buffers(&mut self, group: &Group) {
        let mut last = vec![0; self.buffers.len()];
        let mut is_read = vec![false; self.buffers.len()];
        for (i, instruction) in self.instructions.iter().enumerate() {
            for place in &instruction.args {
                if let Place::Buffer(b) = self.whole(*place) {
                    last[b] = i;
                    is_read[b] = true;
                }
            }
        }
        for (call, _) in group.results {
            if let Place::Buffer(b) = self.places[*call] {
                last[b] = usize::MAX;
                is_read[b] = true;
            }
        }
        let mut new: Vec<usize> = vec![0; self.buffers.len()];
        let mut kept: Vec<Buffer> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        for (b, buffer) in self.buffers.iter().enumerate().filter(|(b, of)| of.is_constant() && is_read[*b]) {
            new[b] = kept.len();
            kept.push(*buffer);
        }
        for (i, instruction) in self.instructions.iter_mut().enumerate() {
            let mut ended: SmallVec<[usize; 5]> = SmallVec::new();
            for place in &mut instruction.outs {
                let Place::Buffer(out) = *place else { continue };
                let extent = self.buffers[out].extent;
                new[out] = match free.iter().position(|&f| kept[f].extent == extent) {
                    Some(at) => free.swap_remove(at),
                    None => {
                        kept.push(Buffer { extent, fill: Fill::Nothing });
                        kept.len() - 1
                    }
                };
                // A value that nothing reads ends at once.
                if last[out] <= i {
                    ended.push(new[out]);
                }
                *place = Place::Buffer(new[out]);
            }
            for place in &mut instruction.args {
                let whole = match *place {
                    Place::Part(k) => self.parts[k].0,
                    Place::EachRow(b) => Place::Buffer(b),
                    place => place,
                };
                if let Place::Buffer(b) = whole
                    && last[b] == i
                    && !self.buffers[b].is_constant()
                {
                    ended.push(new[b]);
                }
                renamed(place, &new);
            }
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
        }
        let parts = self.parts.iter_mut().map(|(of, _)| of);
        self.places.iter_mut().chain(parts).for_each(|place| renamed(place, &new));
        self.buffers = kept;
    }

    /// The place of the value that a place is a part of or repeats, or itself.
    fn whole(&self, place: Place) -> Place {
        match place {
            Place::Part(k) => self.parts[k].0,
            Place::EachRow(b) => Place::Buffer(b),
            place => place,
        }
    }

    /// The columns of all tiles before the one that begins with a row.
    pub(super) fn columns_before(&self, row: usize) -> usize {
        self.tiles.map_or(0, |of| row / of.height() * self.n)
    }

    /// The results that the blocks of a tile have.
    pub(super) fn accumulators(&self) -> usize {
        self.tiles.map_or(0, |of| of.cuts() * self.n)
    }

    /// How the rows of reductions of columns are divided, of tiles or not.
    pub(super) fn all_column_blocks(&self) -> Option<ColumnBlocks> {
        self.column_blocks.or(self.tiles)
    }

    /// The values of each row that an extent has.
    pub(super) fn width(&self, extent: Extent) -> usize {
        match extent {
            Extent::Elements | Extent::Tile => self.n,
            Extent::Parts => self.part,
            Extent::Rows => 1,
        }
    }
}
