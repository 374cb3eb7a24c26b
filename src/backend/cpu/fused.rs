//! Groups of calls on the CPU: see Note [Groups].
//!
//! A group becomes a list of instructions on blocks, which one thread runs for block after block. A block is a number
//! of whole rows that stays in the cache. Values are registers: a buffer of the block's elements, or of one element per row.
//! A value per row that elements need is repeated along its row first.

pub mod alone;
mod apart;
mod cache;
mod compile;
mod kernels;
mod parts;
mod prefetch;
mod producer;
mod program;
mod rowwise;
mod tiles;
mod types;

use std::ops::Range;
use std::sync::OnceLock;

use bytemuck::Zeroable;
use smallvec::SmallVec;

use super::copy::{GRAIN, StridedCursor, Writer, repeat_each};
use super::lines::Aligned;
use super::output::{Cells, Output, write_one};
use super::parallel::{for_chunks_mut, num_threads, parallel_for};
use super::pointwise::{OperandAccess, OperandCursor};
use super::reduce::ColumnSums;
use crate::backend::View;
use crate::backend::group::{Call, Group, GroupOperand, Level, Producer, Work};
use crate::backend::pointwise::Operand;
use crate::dtype::{Bool8, DType};
use crate::error::Result;
use crate::formula::{ARGS, Int};
use crate::storage::expect_room;
use parts::Sunk;
pub use producer::has_pieces;
use program::{Buffer, Code, Extent, Fill, Instruction, Place, Program};
use rowwise::{Gathered, Rowwise};
use tiles::Tiles;
use types::Grouped;

/// The most chunks for each thread: each takes time beside its elements. No result depends on the number of chunks.
const CHUNKS: usize = 8;

/// Computes a group; false if a call is not defined for its type, or computes with a total.
pub fn run(group: &Group) -> Result<bool> {
    let is_last = |c: &Call| !c.level.is_of_group() || matches!(c.work, Work::Reduce(_));
    if !group.calls.iter().all(is_last) {
        return Ok(false);
    }
    match group.compute {
        DType::F32 => run_as::<f32>(group),
        DType::F64 => run_as::<f64>(group),
        DType::I32 => run_as::<Int<i32>>(group),
        DType::I64 => run_as::<Int<i64>>(group),
        _ => Ok(false),
    }
}

/// Whether a group was computed.
enum Done {
    Yes,
    No,
    /// Not yet: its buffers leave room for tiles of so many columns.
    Narrower(usize),
}

fn run_as<T: Grouped>(group: &Group) -> Result<bool> {
    let mut tile = group.tile;
    loop {
        let tiles = match tile {
            0 => None,
            _ => match Tiles::of(&Group { tile, ..*group }) {
                None => return Ok(false),
                tiles => tiles,
            },
        };
        let done = match &tiles {
            None => run_in_order::<T>(group)?,
            Some(tiles) => {
                let (operands, results) = (tiles.operands(group), tiles.results(group));
                run_in_order::<T>(&Group { n: tile, tile, operands: &operands, results: &results, ..*group })?
            }
        };
        match done {
            Done::Yes => return Ok(true),
            Done::No => return Ok(false),
            Done::Narrower(narrower) => tile = narrower,
        }
    }
}

/// Computes a group whose elements are in the order of its rows.
fn run_in_order<T: Grouped>(group: &Group) -> Result<Done> {
    let sunk = Sunk::of(group);
    let operands = sunk.as_ref().map(|sunk| sunk.operands(group));
    let group = &match (&sunk, &operands) {
        (Some(sunk), Some(operands)) => {
            Group { calls: &sunk.calls, results: &sunk.results, operands, ..*group }
        }
        _ => Group { ..*group },
    };
    let rowwise = Rowwise::of::<T>(group);
    let operands: Vec<GroupOperand> = rowwise.operands(group);
    let group = &Group { n: rowwise.n, operands: &operands, ..*group };
    let gathered = Gathered::of::<T>(group)?;
    let operands = gathered.as_ref().map(|gathered| gathered.operands::<T>(group));
    let group = &Group { operands: operands.as_deref().unwrap_or(group.operands), ..*group };
    let access: Vec<OperandAccess> = group.operands.iter().map(|o| access_of::<T>(o, group)).collect();
    let Some(program) = cache::program::<T>(group, &access) else { return Ok(Done::No) };
    let program = &*program;
    if let Some(tile) = program.narrower {
        return Ok(Done::Narrower(tile));
    }
    let stores = Stores::of(program, group)?;
    if let Some(producer) = &group.producer {
        let is_done = compute_pieces(program, producer, |share| {
            let rows = share.rows.clone();
            Worker::new(program, group, &access, &stores, share)?.run(rows, &mut [])
        })?;
        return Ok(if is_done { Done::Yes } else { Done::No });
    }
    let least = OperandAccess::grain(&access, GRAIN);
    let start = |rows| Worker::new(program, group, &access, &stores, Share::of_rows(rows, group.numel));
    let chunks = group.numel.div_ceil(least).min(CHUNKS * num_threads());
    let mut reduced = match program.sums {
        Some((sums, _)) => sum_columns(program, sums, chunks, start)?,
        None => compute_blocks(program, group, chunks, start)?,
    };
    drop(stores);
    store_columns(program, group, &mut reduced)?;
    store_totals(program, group, &reduced)?;
    Ok(Done::Yes)
}

/// Computes a group with a producer, one piece of its results after the other: Note [Epilogues]. False, and nothing done, if the producer has no
/// pieces.
fn compute_pieces<T: Grouped>(
    program: &Program<T>,
    producer: &Producer,
    compute: impl Fn(Share<T>) -> Result<()> + Sync,
) -> Result<bool> {
    let failed = OnceLock::new();
    let is_done = T::produce(producer, &|first, piece| {
        let share = Share::of_piece(first, piece, program);
        compute(share).unwrap_or_else(|e| drop(failed.set(e)));
    });
    failed.into_inner().map_or(Ok(is_done), Err)
}

/// Computes a group with column sums in about so many chunks: for each block of their rows, the sums of all such calls.
fn sum_columns<'p, 'a: 'p, T: Grouped>(
    program: &'p Program<T>,
    sums: ColumnSums,
    chunks: usize,
    start: impl Fn(Range<usize>) -> Result<Worker<'p, 'a, T>> + Sync,
) -> Result<Vec<T>> {
    let (width, failed) = (program.columns.len() * program.n, OnceLock::new());
    expect_room::<T>(sums.blocks().saturating_mul(width))?;
    let mut partial = vec![T::zeroed(); sums.blocks() * width];
    let grain = sums.blocks().div_ceil(chunks.max(1)).max(1);
    for_chunks_mut(&mut partial, grain * width, |chunk, partial| {
        let first = chunk * grain;
        let last = first + (partial.len() / width).max(1) - 1;
        let done = start(sums.rows(first).start..sums.rows(last).end).and_then(|mut worker| {
            let mut blocks = partial.chunks_mut(width).enumerate();
            blocks.try_for_each(|(k, acc)| worker.run(sums.rows(first + k), acc))
        });
        done.unwrap_or_else(|e| drop(failed.set(e)));
    });
    failed.into_inner().map_or(Ok(partial), Err)
}

/// Computes a group without column sums in about so many chunks, which are equally long: for each block, the run of each total.
fn compute_blocks<'p, 'a: 'p, T: Grouped>(
    program: &'p Program<T>,
    group: &Group,
    chunks: usize,
    start: impl Fn(Range<usize>) -> Result<Worker<'p, 'a, T>> + Sync,
) -> Result<Vec<T>> {
    let rows = group.numel.div_ceil(program.n);
    let (blocks, failed) = (program.blocks.count(rows), OnceLock::new());
    let grain = blocks.div_ceil(chunks.max(1)).max(1);
    let work = |range: Range<usize>, runs: &mut [T]| {
        let rows = program.blocks.first(range.start)..program.blocks.first(range.end).min(rows);
        let done = start(rows.clone()).and_then(|mut worker| worker.run(rows, runs));
        done.unwrap_or_else(|e| drop(failed.set(e)));
    };
    let count = program.totals.len();
    let mut runs = vec![T::zeroed(); blocks * count];
    if count == 0 {
        parallel_for(blocks, grain, |range| work(range, &mut []));
    } else {
        for_chunks_mut(&mut runs, grain * count, |chunk, runs| {
            let first = chunk * grain;
            work(first..first + runs.len() / count, runs);
        });
    }
    failed.into_inner().map_or(Ok(runs), Err)
}

fn store_columns<T: Grouped>(program: &Program<T>, group: &Group, partial: &mut [T]) -> Result<()> {
    let Some((sums, of)) = program.sums else { return Ok(()) };
    let mut apart = Vec::new();
    for (k, at) in program.columns.iter().enumerate() {
        let Some((_, view)) = group.results.iter().find(|(call, _)| call == at) else { continue };
        let mut out = Output::<T::Stored>::part(*view, 0..view.layout.numel())?;
        let out = bytemuck::cast_slice_mut(&mut out);
        if program.columns.len() == 1 {
            (of.merge)(sums, partial, out);
            continue;
        }
        apart.clear();
        for block in partial.chunks(program.columns.len() * program.n) {
            apart.extend_from_slice(&block[k * program.n..][..program.n]);
        }
        (of.merge)(sums, &mut apart, out);
    }
    Ok(())
}

fn store_totals<T: Grouped>(program: &Program<T>, group: &Group, runs: &[T]) -> Result<()> {
    for (k, (at, reduction)) in program.totals.iter().enumerate() {
        let Some((_, view)) = group.results.iter().find(|(call, _)| call == at) else { continue };
        let mut of: Vec<T> = runs.iter().skip(k).step_by(program.totals.len()).copied().collect();
        let totals = view.layout.numel();
        if totals == 1 {
            write_one::<T::Stored>(*view, bytemuck::cast(reduction.total(&mut of)))?;
            continue;
        }
        // The rows of several are whole runs.
        let each = of.len() / totals.max(1);
        let mut out = Output::<T::Stored>::part(*view, 0..totals)?;
        for (total, of) in out.iter_mut().zip(of.chunks_mut(each.max(1))) {
            *total = bytemuck::cast(reduction.total(of));
        }
    }
    Ok(())
}

/// How results are stored that are not computed in place: by result. Results in one storage, such as the parts of a
/// concatenation, share its cells.
struct Stores<'a> {
    cells: Vec<Cells<'a>>,
    /// By result, its cells.
    of: Vec<Option<usize>>,
}

impl<'a> Stores<'a> {
    fn of<T: Grouped>(program: &Program<T>, group: &Group<'a>) -> Result<Self> {
        let mut stores = Stores { cells: Vec::new(), of: Vec::new() };
        let mut seen: Vec<View> = Vec::new();
        for (k, (call, view)) in group.results.iter().enumerate() {
            let scattered = (program.places[*call] != Place::Result(k) || program.spread[k].is_some())
                && !group.calls[*call].level.is_of_group();
            let known = |v: &View| v.storage.same(view.storage) && v.dtype.size() == view.dtype.size();
            stores.of.push(match seen.iter().position(known) {
                _ if !scattered => None,
                Some(cells) => Some(cells),
                None => {
                    let same = |r: &&(usize, View)| known(&r.1);
                    let cells = match group.results.iter().filter(same).count() {
                        1 => Cells::of(*view)?,
                        _ => Cells::whole(*view)?,
                    };
                    stores.cells.push(cells);
                    seen.push(*view);
                    Some(seen.len() - 1)
                }
            });
        }
        Ok(stores)
    }
}

/// How an operand is read. Memory that is also written is read block by block, before its block is written.
fn access_of<'a, T: Grouped>(o: &GroupOperand<'a>, group: &Group<'a>) -> OperandAccess<'a> {
    let written = |r: &&(usize, View<'a>)| r.1.storage.overlaps(o.view.storage);
    match group.results.iter().find(written) {
        Some(_) => OperandAccess::Blocks(o.view),
        None => OperandAccess::of::<T>(Some(&Operand::View(o.view)), o.view_apart()),
    }
}

impl<'a> GroupOperand<'a> {
    /// A view without elements, which overlaps nothing.
    fn view_apart(&self) -> View<'a> {
        static NONE: std::sync::LazyLock<crate::layout::Layout> =
            std::sync::LazyLock::new(|| crate::layout::Layout::contiguous([0].into()));
        View { layout: &NONE, ..self.view }
    }
}

/// The elements of one worker.
struct Share<'p, T> {
    rows: Range<usize>,
    /// The position of the first element of row 0, and that behind the last element.
    from: usize,
    to: usize,
    /// The elements, if a producer has made them.
    produced: &'p [T],
}

impl<'p, T: Grouped> Share<'p, T> {
    /// Rows of a group of so many elements.
    fn of_rows(rows: Range<usize>, numel: usize) -> Self {
        Share { rows, from: 0, to: numel, produced: &[] }
    }

    /// A piece whose first element is at a position.
    fn of_piece(first: usize, produced: &'p [T], program: &Program<T>) -> Self {
        let (n, to) = (program.n, first + produced.len());
        match program.has_rows {
            true => Share { rows: first / n..to.div_ceil(n), from: 0, to, produced },
            false => Share { rows: 0..produced.len().div_ceil(n), from: first, to, produced },
        }
    }

    /// The positions of some rows of `n` elements.
    fn elements(&self, rows: &Range<usize>, n: usize) -> Range<usize> {
        self.from + rows.start * n..(self.from + rows.end * n).min(self.to)
    }
}

/// One thread's state: the blocks of a range.
struct Worker<'p, 'a, T: Grouped> {
    program: &'p Program<T>,
    group: &'p Group<'a>,
    stores: &'p Stores<'a>,
    share: Share<'p, T>,
    /// The position of the first produced element.
    produced_at: usize,
    cursors: Vec<OperandCursor<'a, T>>,
    writers: Vec<Option<Writer<'p>>>,
    /// The ranges of results that are computed in place, and where they begin.
    outs: Vec<Option<Output<'a, T::Stored>>>,
    halves: Vec<Option<Output<'a, i16>>>,
    first: Vec<usize>,
    buffers: Vec<Aligned<T>>,
    /// By buffer, the elements of a block that are read where they lie, in place of the buffer's.
    lent: Vec<Option<&'a [T]>>,
    /// The rows whose columns are summed together.
    together: usize,
    truth: Vec<Bool8>,
}

/// Buffers that a thread keeps for its next chunk of blocks: their elements are in its cache, and need no clearing.
const SPARE: usize = 16;

/// A buffer of at least so many elements, which have any values: the shortest that is long enough, or else the longest.
fn spare<T: Grouped>(length: usize) -> Aligned<T> {
    let fitting = |spare: &mut Vec<Aligned<T>>| {
        let key = |b: &Aligned<T>| (b.len() < length, b.len().abs_diff(length));
        let best = (0..spare.len()).min_by_key(|&at| key(&spare[at]))?;
        Some(spare.swap_remove(best))
    };
    let mut buffer = T::with_spare(fitting).flatten().unwrap_or_default();
    buffer.grow(length);
    buffer
}

impl<T: Grouped> Drop for Worker<'_, '_, T> {
    fn drop(&mut self) {
        let used = self.buffers.drain(..).filter(|b| b.len() <= program::IN_CACHE);
        T::with_spare(|spare| {
            let room = SPARE.saturating_sub(spare.len());
            spare.extend(used.take(room));
        });
    }
}

/// The destination of an instruction while it is run.
enum Taken<'a, T: Grouped> {
    Buffer(usize, Aligned<T>),
    Result(usize, Output<'a, T::Stored>),
    /// Rows of a result that are apart.
    Spread(usize),
    Halves(usize, Output<'a, i16>),
}

/// The positions of a block: of elements and of rows.
#[derive(Clone, Copy)]
struct Block {
    at: usize,
    len: usize,
    row: usize,
    rows: usize,
}

impl<'p, 'a, T: Grouped> Worker<'p, 'a, T> {
    fn new(
        program: &'p Program<T>,
        group: &'p Group<'a>,
        access: &'p [OperandAccess<'a>],
        stores: &'p Stores<'a>,
        share: Share<'p, T>,
    ) -> Result<Self> {
        let rows = &share.rows;
        let elements = share.elements(rows, program.n);
        let start = |level: Level| match Extent::of(level) {
            Extent::Elements => elements.clone(),
            Extent::Columns => program.columns_before(rows.start)..program.columns_before(rows.end),
            extent => rows.start * program.width(extent)..rows.end * program.width(extent),
        };
        let results = || group.results.iter().enumerate();
        let writers = results()
            .map(|(k, (call, view))| {
                let at = start(group.calls[*call].level).start;
                let cells = stores.of[k].filter(|_| program.spread[k].is_none());
                cells.map(|cells| Writer::new(&stores.cells[cells], *view, at))
            })
            .collect();
        let outs = results()
            .map(|(k, (call, view))| {
                let inside = program.places[*call] == Place::Result(k)
                    && program.spread[k].is_none()
                    && program.halves[k].is_none();
                inside.then(|| Output::part(*view, start(group.calls[*call].level))).transpose()
            })
            .collect::<Result<_>>()?;
        let halves = results()
            .map(|(k, (call, view))| {
                let half = program.halves[k];
                half.map(|_| Output::part(*view, start(group.calls[*call].level))).transpose()
            })
            .collect::<Result<_>>()?;
        let unit = program.n * program.blocks.rows;
        let filled = |b: &Buffer| {
            let count = match b.extent {
                Extent::Elements => unit.min(elements.len()),
                Extent::Columns => program.accumulators(),
                extent => program.blocks.rows * program.width(extent),
            };
            let mut values = spare::<T>(count);
            match b.fill {
                Fill::Nothing => {}
                Fill::Number(s) => values[..count].fill(T::number(s)),
                Fill::Operand(k) => StridedCursor::new(group.operands[k].view, elements.start)
                    .read::<T::Stored>(bytemuck::cast_slice_mut(&mut values[..count])),
            }
            values
        };
        let tells = program.instructions.iter().any(|i| matches!(i.code, Code::Truth(_)));
        Ok(Worker {
            cursors: access
                .iter()
                .zip(group.operands)
                .map(|(a, o)| OperandCursor::new(a, &start(o.level)))
                .collect(),
            writers,
            outs,
            halves,
            first: results().map(|(_, (call, _))| start(group.calls[*call].level).start).collect(),
            buffers: program.buffers.iter().map(filled).collect(),
            lent: vec![None; program.buffers.len()],
            together: 0,
            truth: vec![Bool8::zeroed(); if tells { unit } else { 0 }],
            produced_at: elements.start,
            share,
            program,
            group,
            stores,
        })
    }

    /// Computes the next rows block by block; `sums` gets one value per total and block, or has the sums of each column.
    fn run(&mut self, rows: Range<usize>, sums: &mut [T]) -> Result<()> {
        let program = self.program;
        self.together = rows.len();
        let following =
            |row: &usize| Some(row + program.blocks.rows_from(*row)).filter(|next| *next < rows.end);
        let starts = std::iter::successors(Some(rows.start).filter(|first| *first < rows.end), following);
        for (k, row) in starts.enumerate() {
            let count = program.blocks.rows_from(row).min(rows.end - row);
            let elements = self.share.elements(&(row..row + count), program.n);
            let block = Block { at: elements.start, len: elements.len(), row, rows: count };
            let runs = sums.get_mut(k * program.totals.len()..).unwrap_or_default();
            for instruction in &program.instructions {
                self.step(instruction, block, runs)?;
            }
            for (k, (call, _)) in self.group.results.iter().enumerate() {
                let Some(mut writer) = self.writers[k].take() else { continue };
                let (from, count) = self.span(block, Extent::of(self.group.calls[*call].level));
                let values = self.value(program.places[*call], from, count);
                writer.write::<T::Stored>(bytemuck::cast_slice(values));
                self.writers[k] = Some(writer);
            }
        }
        Ok(())
    }

    fn step(&mut self, instruction: &Instruction<T>, block: Block, runs: &mut [T]) -> Result<()> {
        if let (Code::Load(k), [Place::Buffer(b)]) = (&instruction.code, &instruction.outs[..]) {
            let (_, count) = self.span(block, instruction.extent);
            self.lent[*b] = self.cursors[*k].lend(count);
            if self.lent[*b].is_some() {
                return Ok(());
            }
        }
        // Destinations are moved out of `self`, as the sources are borrowed from it.
        let mut taken: SmallVec<[Taken<T>; 2]> =
            instruction.outs.iter().filter_map(|place| self.take(*place)).collect();
        match (&instruction.code, &mut taken[..]) {
            (Code::Machine(kernel, pool), taken) => {
                self.run_machine(instruction, (kernel, pool), block, taken, runs)?
            }
            (Code::SumTile, [Taken::Buffer(_, own), ..]) => self.sum_tile(instruction, block, own),
            (_, [Taken::Buffer(b, own), ..]) => {
                let (_, count) = self.span(block, self.program.buffers[*b].extent);
                self.compute(instruction, block, runs, &mut own[..count]);
            }
            (_, [Taken::Result(k, own), ..]) => {
                let (from, count) = self.span(block, instruction.extent);
                let out = &mut own[from - self.first[*k]..][..count];
                self.compute(instruction, block, runs, bytemuck::cast_slice_mut(out));
            }
            _ => {}
        }
        for own in taken {
            match own {
                Taken::Buffer(b, own) => self.buffers[b] = own,
                Taken::Result(k, own) => self.outs[k] = Some(own),
                Taken::Halves(k, own) => self.halves[k] = Some(own),
                Taken::Spread(_) => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, place: Place) -> Option<Taken<'a, T>> {
        match place {
            Place::Buffer(b) => {
                self.lent[b] = None;
                Some(Taken::Buffer(b, std::mem::take(&mut self.buffers[b])))
            }
            Place::Result(k) if self.program.spread[k].is_some() => Some(Taken::Spread(k)),
            Place::Result(k) if self.program.halves[k].is_some() => {
                Some(Taken::Halves(k, self.halves[k].take()?))
            }
            Place::Result(k) => Some(Taken::Result(k, self.outs[k].take()?)),
            Place::Operand(_) | Place::Rows(_) | Place::Part(_) | Place::Narrow(_) => None,
            Place::Columns(_) | Place::EachRow(_) | Place::Produced => None,
        }
    }

    /// The first position and the number of values of an extent in a block.
    fn span(&self, block: Block, extent: Extent) -> (usize, usize) {
        match extent {
            Extent::Elements => (block.at, block.len),
            Extent::Columns => (self.program.columns_before(block.row), self.program.n),
            _ => (block.row * self.program.width(extent), block.rows * self.program.width(extent)),
        }
    }

    fn compute(&mut self, instruction: &Instruction<T>, block: Block, runs: &mut [T], out: &mut [T]) {
        let program = self.program;
        if let Code::Load(k) = instruction.code {
            return self.load(k, self.span(block, instruction.extent).0, out);
        }
        let mut truth = std::mem::take(&mut self.truth);
        let extent = match instruction.code {
            Code::Reduce(_) | Code::Run(_) | Code::Columns(_) | Code::Part(_) => Extent::Elements,
            Code::Repeat | Code::Keep(_) => Extent::Rows,
            Code::EachRow => Extent::Columns,
            _ => instruction.extent,
        };
        let (from, taken) = self.span(block, extent);
        let mut ins: [&[T]; ARGS] = [&[]; ARGS];
        for (slot, &place) in ins.iter_mut().zip(&instruction.args) {
            *slot = self.value(place, from, taken);
        }
        let (args, params) = (&ins[..instruction.args.len()], &instruction.params[..]);
        match &instruction.code {
            Code::Load(_) | Code::SumTile | Code::Machine(..) => {}
            Code::Pass => out.copy_from_slice(ins[0]),
            Code::Same(l) => l.run(args, params, out),
            Code::Truth(l) => {
                let truth = &mut truth[..out.len()];
                l.run(args, params, truth);
                out.iter_mut().zip(truth).for_each(|(v, t)| *v = T::of_truth(*t));
            }
            Code::Repeat => repeat_each(ins[0], 1, program.width(instruction.extent), out),
            Code::EachRow => {
                out.chunks_mut(program.n).for_each(|row| row.copy_from_slice(&ins[0][..row.len()]))
            }
            Code::Part(k) => {
                let (_, from) = program.parts[*k];
                for (part, row) in out.chunks_mut(program.part).zip(ins[0].chunks(program.n)) {
                    part.copy_from_slice(&row[from..from + part.len()]);
                }
            }
            Code::Reduce(r) => r.rows(ins[0], program.n, out),
            Code::Run(k) => runs[*k] = program.totals[*k].1.run(ins[0]),
            Code::Keep(k) => runs[*k] = ins[0][0],
            Code::Columns(k) => {
                if let Some((sums, of)) = program.sums {
                    (of.add)(sums, ins[0], self.together, &mut runs[k * program.n..][..program.n]);
                }
            }
            Code::Softmax(rows) => rows([ins[0]], program.n, out),
            Code::SoftmaxBackward(rows) => rows([ins[0], ins[1]], program.n, out),
            Code::Round(_, round) => round(ins[0], out),
        }
        self.truth = truth;
    }

    /// The column sums of a tile, block by block of its rows in the order of the eager kernel.
    fn sum_tile(&self, instruction: &Instruction<T>, block: Block, acc: &mut [T]) {
        let Some((sums, of)) = self.program.tiles else { return };
        let (n, x) = (self.program.n, self.value(instruction.args[0], block.at, block.len));
        let acc = &mut acc[..sums.cuts() * n];
        acc.fill(T::zeroed());
        for (cut, acc) in acc.chunks_mut(n).enumerate() {
            let rows = sums.rows(cut);
            (of.add)(sums, &x[rows.start * n..rows.end * n], rows.len(), acc);
        }
        (of.fold)(sums, acc);
    }

    /// The next elements of an operand.
    fn load(&mut self, k: usize, mut at: usize, mut out: &mut [T]) {
        let cursor = &mut self.cursors[k];
        if let OperandCursor::Blocks(reader, _) = cursor {
            return reader.read::<T::Stored>(bytemuck::cast_slice_mut(out));
        }
        while !out.is_empty() {
            let n = cursor.left(at).min(out.len());
            let (part, rest) = out.split_at_mut(n);
            cursor.reach(at, n);
            part.copy_from_slice(cursor.get(at, n));
            cursor.pass(n);
            (at, out) = (at + n, rest);
        }
    }

    #[inline]
    fn value(&self, place: Place, at: usize, n: usize) -> &[T] {
        match place {
            Place::Operand(k) => self.cursors[k].get(at, n),
            Place::Produced => &self.share.produced[at - self.produced_at..][..n],
            Place::Buffer(b) => self.lent[b].map_or_else(|| &self.buffers[b][..n], |lent| &lent[..n]),
            // Used by machine code alone, row by row.
            Place::Rows(_) | Place::Part(_) | Place::Narrow(_) => &[],
            Place::Columns(_) | Place::EachRow(_) => &[],
            Place::Result(k) => {
                let out = self.outs[k].as_deref().unwrap_or_default();
                bytemuck::cast_slice(&out[at - self.first[k]..][..n])
            }
        }
    }
}
