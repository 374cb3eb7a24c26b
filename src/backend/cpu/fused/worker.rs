//! The work of one thread on a group: the instructions of its program, block by block.

use std::ops::Range;

use bytemuck::Zeroable;
use smallvec::SmallVec;

use super::Stores;
use super::prefetch::Prefetch;
use super::program::{self, Buffer, Code, Extent, Fill, Instruction, Place, Program};
use super::types::Grouped;
use crate::backend::cpu::copy::{StridedCursor, Writer, repeat_each};
use crate::backend::cpu::lines::Aligned;
use crate::backend::cpu::output::Output;
use crate::backend::cpu::pointwise::{OperandAccess, OperandCursor};
use crate::backend::cpu::reduce::ColumnReduction;
use crate::backend::group::{Group, Level};
use crate::dtype::Bool8;
use crate::error::Result;
use crate::formula::ARGS;

/// The elements of one worker.
pub(super) struct Share<'p, T> {
    pub(super) rows: Range<usize>,
    /// The position of the first element of row 0, and that behind the last element.
    from: usize,
    to: usize,
    /// The elements, if a producer has made them.
    produced: &'p [T],
}

impl<'p, T: Grouped> Share<'p, T> {
    /// Rows of a group of so many elements.
    pub(super) fn of_rows(rows: Range<usize>, numel: usize) -> Self {
        Share { rows, from: 0, to: numel, produced: &[] }
    }

    /// A piece whose first element is at a position.
    pub(super) fn of_piece(first: usize, produced: &'p [T], program: &Program<T>) -> Self {
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
pub(super) struct Worker<'p, 'a, T: Grouped> {
    pub(super) program: &'p Program<T>,
    pub(super) group: &'p Group<'a>,
    pub(super) stores: &'p Stores<'a>,
    share: Share<'p, T>,
    /// The position of the first produced element.
    produced_at: usize,
    cursors: Vec<OperandCursor<'a, T>>,
    writers: Vec<Option<Writer<'p>>>,
    /// The ranges of results that are computed in place, and where they begin.
    outs: Vec<Option<Output<'a, T::Stored>>>,
    halves: Vec<Option<Output<'a, i16>>>,
    pub(super) first: Vec<usize>,
    pub(super) buffers: Vec<Aligned<T>>,
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
pub(super) enum Taken<'a, T: Grouped> {
    Buffer(usize, Aligned<T>),
    Result(usize, Output<'a, T::Stored>),
    /// Rows of a result that are apart.
    Spread(usize),
    Halves(usize, Output<'a, i16>),
}

/// The positions of a block: of elements and of rows.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) row: usize,
    pub(super) rows: usize,
}

impl<'p, 'a, T: Grouped> Worker<'p, 'a, T> {
    pub(super) fn new(
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
            Extent::Tile => program.columns_before(rows.start)..program.columns_before(rows.end),
            extent => rows.start * program.width(extent)..rows.end * program.width(extent),
        };
        let results = || group.results.iter().enumerate();
        let writers = results()
            .map(|(k, (call, view))| {
                let at = start(group.calls[*call].level).start;
                let follows = stores.alternating.iter().any(|set| set[1..].contains(&k));
                let cells = stores.of[k].filter(|_| program.spread[k].is_none() && !follows);
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
                Extent::Tile => program.accumulators(),
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
    pub(super) fn run(&mut self, rows: Range<usize>, sums: &mut [T]) -> Result<()> {
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
            self.scatter(block);
        }
        Ok(())
    }

    /// Stores the values of a block that were not computed where they are stored.
    fn scatter(&mut self, block: Block) {
        for k in 0..self.writers.len() {
            // Of results that alternate, only the first has a writer.
            let Some(mut writer) = self.writers[k].take() else { continue };
            let stored = |k: usize| {
                let (call, _) = self.group.results[k];
                let (from, count) = self.span(block, Extent::of(self.group.calls[call].level));
                bytemuck::cast_slice::<T, T::Stored>(self.value(self.program.places[call], from, count))
            };
            match self.stores.alternating.iter().find(|set| set[0] == k) {
                Some(set) => {
                    let values: SmallVec<[&[T::Stored]; 4]> = set.iter().map(|k| stored(*k)).collect();
                    writer.write_alternating(&values);
                }
                None => writer.write::<T::Stored>(stored(k)),
            }
            self.writers[k] = Some(writer);
        }
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
            (Code::ReduceTile(of), [Taken::Buffer(_, own), ..]) => {
                self.reduce_tile(instruction, of, block, own)
            }
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
    pub(super) fn span(&self, block: Block, extent: Extent) -> (usize, usize) {
        match extent {
            Extent::Elements => (block.at, block.len),
            Extent::Tile => (self.program.columns_before(block.row), self.program.n),
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
            Code::EachRow => Extent::Tile,
            _ => instruction.extent,
        };
        let (from, taken) = self.span(block, extent);
        let mut ins: [&[T]; ARGS] = [&[]; ARGS];
        for (slot, &place) in ins.iter_mut().zip(&instruction.args) {
            *slot = self.value(place, from, taken);
        }
        let (args, params) = (&ins[..instruction.args.len()], &instruction.params[..]);
        match &instruction.code {
            Code::Load(_) | Code::ReduceTile(_) | Code::Machine(..) => {}
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
                if let Some(blocks) = program.column_blocks {
                    let own = &mut runs[k * program.n..][..program.n];
                    program.columns[*k].1.add(blocks, ins[0], self.together, own);
                }
            }
            Code::Softmax(rows) => {
                let of = |of: &Prefetch| self.address(*of, block);
                let mut ahead: SmallVec<[usize; 4]> = instruction.prefetches.iter().map(of).collect();
                rows(ins[0], program.n, &mut ahead, out);
            }
            Code::SoftmaxBackward(rows) => rows([ins[0], ins[1]], program.n, out),
            Code::Round(_, round) => round(ins[0], out),
        }
        self.truth = truth;
    }

    /// The reduced columns of a tile, block by block of its rows in the order of the eager kernel.
    fn reduce_tile(
        &self,
        instruction: &Instruction<T>,
        of: &ColumnReduction<T>,
        block: Block,
        acc: &mut [T],
    ) {
        let Some(blocks) = self.program.tiles else { return };
        let (n, x) = (self.program.n, self.value(instruction.args[0], block.at, block.len));
        let acc = &mut acc[..blocks.cuts() * n];
        acc.fill(of.identity);
        for (cut, acc) in acc.chunks_mut(n).enumerate() {
            let rows = blocks.rows(cut);
            of.add(blocks, &x[rows.start * n..rows.end * n], rows.len(), acc);
        }
        of.fold(blocks, acc);
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
    pub(super) fn value(&self, place: Place, at: usize, n: usize) -> &[T] {
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
