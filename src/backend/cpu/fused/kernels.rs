//! Calls of the machine code of a group.

use std::ops::Range;

use smallvec::SmallVec;

use super::prefetch::Prefetch;
use super::program::{Extent, Instruction, Place};
use super::types::Grouped;
use super::worker::{Block, Taken, Worker};
use crate::backend::cpu::machine::{In, Kernel, Out, Pool};
use crate::backend::cpu::output::Rows;
use crate::backend::reduce::ReduceOp;
use crate::error::{Error, Result};

impl<'p, 'a, T: Grouped> Worker<'p, 'a, T> {
    /// Runs a kernel, whose destinations were taken but for the accumulators of columns.
    pub(super) fn run_machine(
        &self,
        instruction: &Instruction<T>,
        (kernel, pool): (&Kernel, &Pool),
        block: Block,
        taken: &mut [Taken<'a, T>],
        columns: &mut [T],
    ) -> Result<()> {
        let extent = instruction.extent;
        if extent == Extent::Elements && taken.iter().any(|own| self.is_of_tile(own)) {
            return self.sum_tile_by(instruction, (kernel, pool), block, taken);
        }
        let outs = taken.iter_mut().filter_map(|own| self.out(own, extent, block));
        let mut outs: SmallVec<[Out<T>; 4]> = outs.collect();
        let accumulators = columns.chunks_mut(self.program.n).enumerate();
        let added = accumulators.filter(|(k, _)| instruction.outs.contains(&Place::Columns(*k)));
        outs.extend(added.map(|(_, sums)| Out::Columns(sums)));
        let ins = self.ins(instruction, kernel, block, 0..block.rows);
        let prefetched: SmallVec<[usize; 4]> =
            instruction.prefetches.iter().map(|of| self.address(*of, block)).collect();
        let rows = if kernel.has_rows() { block.rows } else { 1 };
        // The last run of a total is shorter than a row.
        let n = if rows == 1 { self.span(block, extent).1 } else { self.program.width(extent) };
        if kernel.run(&ins, &mut outs, &prefetched, pool, rows, n) {
            return Ok(());
        }
        Err(Error::Runtime("a fused kernel was given operands of other lengths".into()))
    }

    /// The arguments of a kernel in some rows of a block.
    fn ins(
        &self,
        instruction: &Instruction<T>,
        kernel: &Kernel,
        block: Block,
        rows: Range<usize>,
    ) -> SmallVec<[In<'_, T>; 8]> {
        let (from, count) = self.span(block, instruction.extent);
        let (part, elements) = match rows.len() == block.rows {
            true => (block, 0..count),
            false => {
                let elements = rows.start * self.program.n..rows.end * self.program.n;
                let (at, row) = (block.at + elements.start, block.row + rows.start);
                (Block { at, len: elements.len(), row, rows: rows.len() }, elements)
            }
        };
        let of = |(k, place): (usize, &Place)| match place {
            Place::Rows(o) => self.rows(*o, part),
            Place::EachRow(b) => In::Strided(self.value(Place::Buffer(*b), from, self.program.n), 0),
            Place::Part(p) => self.part(*p, part),
            Place::Narrow(o) => self.narrow(*o, from + elements.start),
            Place::Result(_) if instruction.outs.contains(place) => {
                In::Replaced(instruction.outs.iter().position(|p| p == place).unwrap_or_default())
            }
            _ if kernel.is_per_row(k) => In::PerRow(&self.value(*place, block.row, block.rows)[rows.clone()]),
            _ => In::Elements(&self.value(*place, from, count)[elements.clone()]),
        };
        instruction.args.iter().enumerate().map(of).collect()
    }

    /// Whether a destination has the column sums of a tile.
    fn is_of_tile(&self, own: &Taken<'a, T>) -> bool {
        matches!(own, Taken::Buffer(b, _) if self.program.buffers[*b].extent == Extent::Tile)
    }

    /// Has a kernel sum the columns of a tile, as `reduce_tile` does.
    fn sum_tile_by(
        &self,
        instruction: &Instruction<T>,
        (kernel, pool): (&Kernel, &Pool),
        block: Block,
        taken: &mut [Taken<'a, T>],
    ) -> Result<()> {
        let (Some(blocks), Some(sum)) = (self.program.tiles, T::columns(ReduceOp::Sum)) else {
            return Err(Error::Runtime("a fused kernel sums columns of no tile".into()));
        };
        let n = self.program.n;
        let mut accumulators: SmallVec<[&mut [T]; 2]> = SmallVec::new();
        for own in taken {
            if let Taken::Buffer(_, own) = own {
                let own = &mut own[..blocks.cuts() * n];
                own.fill(T::zeroed());
                accumulators.push(own);
            }
        }
        for cut in 0..blocks.cuts() {
            let rows = blocks.rows(cut);
            let ins = self.ins(instruction, kernel, block, rows.clone());
            let of_cut = accumulators.iter_mut().map(|all| Out::Columns(&mut all[cut * n..][..n]));
            let mut outs: SmallVec<[Out<T>; 4]> = of_cut.collect();
            if !kernel.run(&ins, &mut outs, &[], pool, rows.len(), n) {
                return Err(Error::Runtime("a fused kernel was given operands of other lengths".into()));
            }
        }
        accumulators.iter_mut().for_each(|all| sum.fold(blocks, all));
        Ok(())
    }

    /// The address of memory to prefetch: Note [Prefetched memory].
    pub(super) fn address(&self, of: Prefetch, block: Block) -> usize {
        let (view, at) = match of {
            Prefetch::NextOperand(k) => (self.group.operands[k].view, block.at + block.len),
            Prefetch::Operand(k) => (self.group.operands[k].view, block.at),
            Prefetch::Result(k) => (self.group.results[k].1, block.at),
        };
        view.storage.address().wrapping_add((view.layout.offset + at) * size_of::<T>())
    }

    /// The rows of an operand in a block.
    fn rows(&self, operand: usize, block: Block) -> In<'_, T> {
        let view = self.group.operands[operand].view;
        let apart = self.program.apart[operand].as_ref();
        let (stride, place) = apart.map_or((0, 0), |a| (a.stride, a.place(block.row)));
        let first = view.layout.offset.wrapping_add_signed(place);
        let all = view.storage.slice::<T::Stored>().get(first..).unwrap_or_default();
        In::Strided(
            bytemuck::cast_slice(&all[..all.len().min(block.rows * stride.max(1) + self.program.n)]),
            stride,
        )
    }

    /// The part of a destination in a block.
    fn out<'t>(&'t self, own: &'t mut Taken<'a, T>, extent: Extent, block: Block) -> Option<Out<'t, T>> {
        Some(match own {
            Taken::Buffer(b, own) => {
                let (_, count) = self.span(block, self.program.buffers[*b].extent);
                Out::Elements(&mut own[..count])
            }
            Taken::Result(k, own) => {
                let (from, count) = self.span(block, extent);
                Out::Elements(bytemuck::cast_slice_mut(&mut own[from - self.first[*k]..][..count]))
            }
            Taken::Spread(k) => Out::Spread(self.spread(*k, extent, block)?),
            Taken::Halves(k, own) => {
                let (from, count) = self.span(block, extent);
                Out::Halves(&mut own[from - self.first[*k]..][..count])
            }
        })
    }

    /// The rows of a result that is written where it is stored.
    fn spread(&self, k: usize, extent: Extent, block: Block) -> Option<Rows<'p, T>> {
        let (cells, apart) = (&self.stores.cells[self.stores.of[k]?], self.program.spread[k].as_ref()?);
        let at = self.group.results[k].1.layout.offset.wrapping_add_signed(apart.place(block.row));
        cells.rows(at, apart.stride, block.rows, self.program.width(extent))
    }

    /// A part of each row of a value in a block.
    fn part(&self, part: usize, block: Block) -> In<'_, T> {
        let (whole, from) = self.program.parts[part];
        In::Strided(&self.value(whole, block.at, block.len)[from..], self.program.n)
    }

    /// The bytes of a narrower operand from a position on.
    fn narrow(&self, operand: usize, from: usize) -> In<'_, T> {
        let view = self.group.operands[operand].view;
        let first = (view.layout.offset + from) * view.dtype.size();
        In::Narrow(view.storage.slice::<u8>().get(first..).unwrap_or_default())
    }
}
