//! Groups of calls on the CPU: see Note [Groups].
//!
//! A group becomes a list of instructions on blocks, which one thread runs for block after block. A block is a number
//! of whole rows that stays in the cache. Values are registers: a buffer of the block's elements, or of one element per row.
//! A value per row that elements need is repeated along its row first.

use std::ops::Range;
use std::sync::OnceLock;

use bytemuck::Zeroable;
use half::{bf16, f16};
use smallvec::SmallVec;

use super::copy::{BLOCK, GRAIN, STAGE, StridedCursor, Writer, cast_run};
use super::interpret::Interpreted;
use super::math::Math;
use super::output::{Cells, Output, write_one};
use super::parallel::{for_chunks_mut, parallel_for};
use super::pointwise::{OperandAccess, OperandCursor};
use super::reduce::{BlockReduction, Ordered, RUN, block_reduction};
use super::softmax;
use crate::backend::View;
use crate::backend::group::{Group, GroupOperand, Level, Value, Work};
use crate::backend::pointwise::{Loop, Operand};
use crate::backend::softmax::Kind;
use crate::dtype::{Bool8, DType, Element, Real, Scalar};
use crate::error::Result;
use crate::formula::ARGS;

/// A type that groups are computed in.
trait Grouped: Interpreted {
    fn reduction(op: crate::backend::reduce::ReduceOp) -> Option<BlockReduction<Self::Stored>>;
    fn softmax(kind: Kind) -> Option<Rows<Self, 1>>;
    fn softmax_backward(kind: Kind) -> Option<Rows<Self, 2>>;
    fn round(to: DType, x: &[Self], out: &mut [Self]);
    fn total(r: &BlockReduction<Self::Stored>, runs: &mut [Self]) -> Self;
    fn run(r: &BlockReduction<Self::Stored>, x: &[Self]) -> Self;
    fn rows(r: &BlockReduction<Self::Stored>, x: &[Self], n: usize, out: &mut [Self]);
}

/// A kernel of whole rows: inputs, length of a row, output.
type Rows<T, const N: usize> = fn([&[T]; N], usize, &mut [T]);

macro_rules! floats {
    ($($t:ty)*) => { $(impl Grouped for $t {
        fn reduction(op: crate::backend::reduce::ReduceOp) -> Option<BlockReduction<$t>> {
            block_reduction(op)
        }
        fn softmax(kind: Kind) -> Option<Rows<$t, 1>> {
            Some(match kind {
                Kind::Softmax => |[x], n, out| softmax::softmax_rows(x, n, out),
                Kind::LogSoftmax => |[x], n, out| softmax::log_softmax_rows(x, n, out),
            })
        }
        fn softmax_backward(kind: Kind) -> Option<Rows<$t, 2>> {
            Some(match kind {
                Kind::Softmax => |[g, y], n, out| softmax::softmax_backward_rows(g, y, n, out),
                Kind::LogSoftmax => |[g, y], n, out| softmax::log_softmax_backward_rows(g, y, n, out),
            })
        }
        fn round(to: DType, x: &[$t], out: &mut [$t]) {
            match to {
                DType::F16 => round_through::<$t, f16>(x, out),
                _ => round_through::<$t, bf16>(x, out),
            }
        }
        fn total(r: &BlockReduction<$t>, runs: &mut [$t]) -> $t {
            r.total(runs)
        }
        fn run(r: &BlockReduction<$t>, x: &[$t]) -> $t {
            r.run(x)
        }
        fn rows(r: &BlockReduction<$t>, x: &[$t], n: usize, out: &mut [$t]) {
            r.rows(x, n, out);
        }
    })* };
}
floats!(f32 f64);

/// Rounds numbers to those that a narrower type has.
fn round_through<T: Element, H: Element>(x: &[T], out: &mut [T]) {
    let mut narrow = [H::zeroed(); STAGE];
    for (x, out) in x.chunks(STAGE).zip(out.chunks_mut(STAGE)) {
        let narrow = &mut narrow[..x.len()];
        cast_run(x, narrow);
        cast_run(narrow, out);
    }
}

/// The place of a value while a block is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// A dense operand, used where it lies.
    Operand(usize),
    Buffer(usize),
    /// A result, computed where it is stored.
    Result(usize),
}

enum Code<T: Grouped> {
    /// The next elements of an operand.
    Load(usize),
    Same(Loop<T, T>),
    Truth(Loop<T, Bool8>),
    /// Each of the values per row, `n` times.
    Repeat,
    Reduce(BlockReduction<T::Stored>),
    /// Into the list of runs of a total.
    Run(usize),
    Softmax(Rows<T, 1>),
    SoftmaxBackward(Rows<T, 2>),
    /// To the values of a half type.
    Round(DType),
}

struct Instruction<T: Grouped> {
    code: Code<T>,
    args: SmallVec<[Place; 4]>,
    params: SmallVec<[T; 3]>,
    out: Place,
    per_row: bool,
}

/// What fills a buffer before the first block.
#[derive(Clone, Copy)]
enum Fill {
    Nothing,
    Number(Scalar),
    /// An operand that repeats itself within a block.
    Operand(usize),
}

/// A buffer of a value per row or per element.
#[derive(Clone, Copy)]
struct Buffer {
    per_row: bool,
    fill: Fill,
}

impl Buffer {
    fn is_constant(&self) -> bool {
        !matches!(self.fill, Fill::Nothing)
    }
}

struct Program<T: Grouped> {
    instructions: Vec<Instruction<T>>,
    buffers: Vec<Buffer>,
    /// By call.
    places: Vec<Place>,
    totals: Vec<(usize, BlockReduction<T::Stored>)>,
    n: usize,
    /// Rows of a block; without rows, blocks are rows.
    rows: usize,
}

/// Assigns places to values while instructions are made.
struct Builder<'g, 'a, T: Grouped> {
    group: &'g Group<'a>,
    program: Program<T>,
    access: &'g [OperandAccess<'a>],
    operands: Vec<Option<Place>>,
    repeated: Vec<(Place, Place)>,
    constants: Vec<(T, bool, Place)>,
}

impl<T: Grouped> Builder<'_, '_, T> {
    fn buffer(&mut self, per_row: bool, fill: Fill) -> usize {
        self.program.buffers.push(Buffer { per_row, fill });
        self.program.buffers.len() - 1
    }

    fn push(
        &mut self,
        code: Code<T>,
        args: SmallVec<[Place; 4]>,
        params: SmallVec<[T; 3]>,
        per_row: bool,
    ) -> Place {
        let out = Place::Buffer(self.buffer(per_row, Fill::Nothing));
        self.program.instructions.push(Instruction { code, args, params, out, per_row });
        out
    }

    /// The place of an argument of a call that computes a value per row or per element.
    fn place(&mut self, v: Value, per_row: bool) -> Option<Place> {
        let (place, level) = match v {
            Value::Number(s) => {
                let number = T::number(s);
                // By bits: zeros of both signs are two numbers.
                let same = |(c, rows, _): &&(T, bool, Place)| {
                    bytemuck::bytes_of(c) == bytemuck::bytes_of(&number) && *rows == per_row
                };
                if let Some((.., place)) = self.constants.iter().find(same) {
                    return Some(*place);
                }
                let place = Place::Buffer(self.buffer(per_row, Fill::Number(s)));
                self.constants.push((number, per_row, place));
                return Some(place);
            }
            Value::Call(c) => (self.program.places[c], self.group.calls[c].level),
            Value::Operand(k) => {
                let level = self.group.operands[k].level;
                let place = match self.operands[k] {
                    Some(place) => place,
                    None => {
                        let place = match self.access[k] {
                            OperandAccess::Direct(_) => Place::Operand(k),
                            OperandAccess::Period(_, period)
                                if level == Level::Elements
                                    && (self.program.n * self.program.rows).is_multiple_of(period) =>
                            {
                                Place::Buffer(self.buffer(false, Fill::Operand(k)))
                            }
                            _ => self.push(
                                Code::Load(k),
                                SmallVec::new(),
                                SmallVec::new(),
                                level == Level::Rows,
                            ),
                        };
                        self.operands[k] = Some(place);
                        place
                    }
                };
                (place, level)
            }
        };
        match (level, per_row) {
            (Level::Elements, false) | (Level::Rows, true) => Some(place),
            (Level::Rows, false) => {
                if let Some((_, repeated)) = self.repeated.iter().find(|(of, _)| *of == place) {
                    return Some(*repeated);
                }
                let repeated =
                    self.push(Code::Repeat, SmallVec::from_slice(&[place]), SmallVec::new(), false);
                self.repeated.push((place, repeated));
                Some(repeated)
            }
            (Level::Elements, true) | (Level::Total, _) => None,
        }
    }

    fn call(&mut self, at: usize) -> Option<Place> {
        let call = &self.group.calls[at];
        let per_row = call.level == Level::Rows;
        // What is taken: elements by a reduction of rows, rows by a call per row.
        let takes_rows = per_row && !matches!(call.work, Work::Reduce(_));
        let args =
            call.args.iter().map(|v| self.place(*v, takes_rows)).collect::<Option<SmallVec<[Place; 4]>>>()?;
        if args.len() > ARGS {
            return None;
        }
        let none = SmallVec::new();
        let place = match call.work {
            Work::Pass => match args[..] {
                [place] => place,
                _ => return None,
            },
            Work::Map { kernel, params, .. } => {
                let params = params.iter().map(|s| T::number(*s)).collect();
                match (T::same(kernel), T::truth(kernel)) {
                    (Some(l), _) => self.push(Code::Same(l), args, params, per_row),
                    (None, Some(l)) => self.push(Code::Truth(l), args, params, per_row),
                    (None, None) => return None,
                }
            }
            Work::Reduce(op) if call.level == Level::Total => {
                self.program.totals.push((at, T::reduction(op)?));
                self.push(Code::Run(self.program.totals.len() - 1), args, none, true)
            }
            Work::Reduce(op) => self.push(Code::Reduce(T::reduction(op)?), args, none, true),
            Work::Softmax(kind) => self.push(Code::Softmax(T::softmax(kind)?), args, none, false),
            Work::SoftmaxBackward(kind) => {
                self.push(Code::SoftmaxBackward(T::softmax_backward(kind)?), args, none, false)
            }
        };
        Some(match call.rounded {
            Some(to) => self.push(Code::Round(to), SmallVec::from_slice(&[place]), SmallVec::new(), per_row),
            None => place,
        })
    }
}

impl<T: Grouped> Program<T> {
    fn of(group: &Group, access: &[OperandAccess<'_>]) -> Option<Self> {
        let totals = group.calls.iter().any(|c| c.level == Level::Total);
        let n = match group.n {
            0 if totals => RUN,
            0 => BLOCK,
            n => n,
        };
        let rows = if group.n == 0 { 1 } else { (2 * BLOCK / n).max(1) };
        let mut builder = Builder {
            group,
            program: Program {
                instructions: Vec::new(),
                buffers: Vec::new(),
                places: Vec::new(),
                totals: Vec::new(),
                n,
                rows,
            },
            access,
            operands: vec![None; group.operands.len()],
            repeated: Vec::new(),
            constants: Vec::new(),
        };
        for at in 0..group.calls.len() {
            let place = builder.call(at)?;
            builder.program.places.push(place);
        }
        let mut program = builder.program;
        program.compute_in_place(group);
        program.reuse_buffers(group);
        Some(program)
    }

    /// Has instructions write results where they are stored, if these are dense and apart from all else.
    fn compute_in_place(&mut self, group: &Group) {
        for (k, (call, view)) in group.results.iter().enumerate() {
            let (place, level) = (self.places[*call], group.calls[*call].level);
            let others = group.results.iter().enumerate().filter(|(other, _)| *other != k).map(|(_, r)| r.1);
            let mut others = others.chain(group.operands.iter().map(|o| o.view));
            let dense =
                view.dtype == T::Stored::DTYPE && view.layout.is_contiguous() && view.storage.is_aligned(8);
            let Place::Buffer(b) = place else { continue };
            if level != Level::Elements
                || !dense
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
                moved(&mut instruction.out);
                instruction.args.iter_mut().for_each(moved);
            }
            self.places.iter_mut().for_each(moved);
        }
    }

    /// Gives values whose lives do not overlap one buffer, so that a block of all buffers stays in the cache.
    fn reuse_buffers(&mut self, group: &Group) {
        let mut last = vec![0; self.buffers.len()];
        for (i, instruction) in self.instructions.iter().enumerate() {
            for place in &instruction.args {
                if let Place::Buffer(b) = place {
                    last[*b] = i;
                }
            }
        }
        for (call, _) in group.results {
            if let Place::Buffer(b) = self.places[*call] {
                last[b] = usize::MAX;
            }
        }
        let mut new: Vec<usize> = vec![0; self.buffers.len()];
        let mut kept: Vec<Buffer> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        for (b, buffer) in self.buffers.iter().enumerate().filter(|(_, b)| b.is_constant()) {
            new[b] = kept.len();
            kept.push(*buffer);
        }
        for (i, instruction) in self.instructions.iter_mut().enumerate() {
            let mut ended: SmallVec<[usize; 5]> = SmallVec::new();
            if let Place::Buffer(out) = instruction.out {
                let per_row = instruction.per_row;
                new[out] = match free.iter().position(|&f| kept[f].per_row == per_row) {
                    Some(at) => free.swap_remove(at),
                    None => {
                        kept.push(Buffer { per_row, fill: Fill::Nothing });
                        kept.len() - 1
                    }
                };
                // A value that nothing reads ends at once.
                if last[out] <= i {
                    ended.push(new[out]);
                }
                instruction.out = Place::Buffer(new[out]);
            }
            for place in &mut instruction.args {
                if let Place::Buffer(b) = place {
                    if last[*b] == i && !self.buffers[*b].is_constant() {
                        ended.push(new[*b]);
                    }
                    *place = Place::Buffer(new[*b]);
                }
            }
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
        }
        for place in &mut self.places {
            if let Place::Buffer(b) = place {
                *place = Place::Buffer(new[*b]);
            }
        }
        self.buffers = kept;
    }
}

/// Computes a group; false if a call is not defined for its type.
pub fn run(group: &Group) -> Result<bool> {
    match group.compute {
        DType::F32 => run_as::<f32>(group),
        DType::F64 => run_as::<f64>(group),
        _ => Ok(false),
    }
}

fn run_as<T: Grouped>(group: &Group) -> Result<bool>
where
    T::Stored: Real + Ordered + Math,
{
    let access: Vec<OperandAccess> = group.operands.iter().map(|o| access_of::<T>(o, group)).collect();
    let Some(program) = Program::<T>::of(group, &access) else { return Ok(false) };
    let unit = program.n * program.rows;
    let blocks = group.numel.div_ceil(unit);
    let grain = OperandAccess::grain(&access, GRAIN).div_ceil(unit).max(1);
    let stores = Stores::of(&program, group)?;
    let failed = OnceLock::new();
    let work = |range: Range<usize>, runs: &mut [T]| {
        let worker = Worker::new(&program, group, &access, &stores, range);
        worker.map(|mut worker| worker.run(runs)).unwrap_or_else(|e| drop(failed.set(e)));
    };
    if program.totals.is_empty() {
        parallel_for(blocks, grain, |range| work(range, &mut []));
        return failed.into_inner().map_or(Ok(true), Err);
    }
    let count = program.totals.len();
    let mut runs = vec![T::zeroed(); blocks * count];
    for_chunks_mut(&mut runs, grain * count, |chunk, runs| {
        let first = chunk * grain;
        work(first..first + runs.len() / count, runs);
    });
    if let Some(e) = failed.into_inner() {
        return Err(e);
    }
    drop(stores);
    for (call, view) in group.results.iter().filter(|(call, _)| group.calls[*call].level == Level::Total) {
        if let Some(k) = program.totals.iter().position(|(at, _)| at == call) {
            let mut of: Vec<T> = runs.iter().skip(k).step_by(count).copied().collect();
            let total = T::total(&program.totals[k].1, &mut of);
            write_one::<T::Stored>(*view, bytemuck::cast(total))?;
        }
    }
    Ok(true)
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
            let scattered =
                program.places[*call] != Place::Result(k) && group.calls[*call].level != Level::Total;
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

/// One thread's state: the blocks of a range.
struct Worker<'p, 'a, T: Grouped> {
    program: &'p Program<T>,
    group: &'p Group<'a>,
    cursors: Vec<OperandCursor<'a, T>>,
    writers: Vec<Option<Writer<'p>>>,
    /// The parts of results that are computed in place, from `first` on.
    outs: Vec<Option<Output<'a, T::Stored>>>,
    first: usize,
    buffers: Vec<Vec<T>>,
    truth: Vec<Bool8>,
    blocks: Range<usize>,
}

/// The positions of a block: of elements and of rows.
#[derive(Clone, Copy)]
struct Block {
    at: usize,
    len: usize,
    row: usize,
    rows: usize,
}

impl Block {
    /// The first position and the number of values of a kind.
    fn span(self, per_row: bool) -> (usize, usize) {
        if per_row { (self.row, self.rows) } else { (self.at, self.len) }
    }
}

impl<'p, 'a, T: Grouped> Worker<'p, 'a, T> {
    fn new(
        program: &'p Program<T>,
        group: &'p Group<'a>,
        access: &'p [OperandAccess<'a>],
        stores: &'p Stores<'a>,
        blocks: Range<usize>,
    ) -> Result<Self> {
        let rows =
            blocks.start * program.rows..(blocks.end * program.rows).min(group.numel.div_ceil(program.n));
        let elements = rows.start * program.n..(rows.end * program.n).min(group.numel);
        let start = |level: Level| if level == Level::Rows { &rows } else { &elements };
        let results = || group.results.iter().enumerate();
        let writers = results()
            .map(|(k, (call, view))| {
                let at = start(group.calls[*call].level).start;
                stores.of[k].map(|cells| Writer::new(&stores.cells[cells], *view, at))
            })
            .collect();
        let outs = results()
            .map(|(k, (call, view))| {
                let inside = program.places[*call] == Place::Result(k);
                inside.then(|| Output::part(*view, elements.clone())).transpose()
            })
            .collect::<Result<_>>()?;
        let unit = program.n * program.rows;
        let filled = |b: &Buffer| {
            let length = if b.per_row { program.rows } else { unit.min(elements.len()) };
            match b.fill {
                Fill::Nothing => vec![T::zeroed(); length],
                Fill::Number(s) => vec![T::number(s); length],
                Fill::Operand(k) => {
                    let mut values = vec![T::zeroed(); length];
                    StridedCursor::new(group.operands[k].view, elements.start)
                        .read::<T::Stored>(bytemuck::cast_slice_mut(&mut values));
                    values
                }
            }
        };
        let tells = program.instructions.iter().any(|i| matches!(i.code, Code::Truth(_)));
        Ok(Worker {
            cursors: access
                .iter()
                .zip(group.operands)
                .map(|(a, o)| OperandCursor::new(a, start(o.level)))
                .collect(),
            writers,
            outs,
            first: elements.start,
            buffers: program.buffers.iter().map(filled).collect(),
            truth: vec![Bool8::zeroed(); if tells { unit } else { 0 }],
            program,
            group,
            blocks,
        })
    }

    /// Computes all blocks; `runs` gets one value per total and block.
    fn run(&mut self, runs: &mut [T]) {
        let (program, numel) = (self.program, self.group.numel);
        let (unit, totals) = (program.n * program.rows, program.totals.len());
        for block in self.blocks.clone() {
            let at = block * unit;
            let len = unit.min(numel - at);
            let runs = runs.get_mut((block - self.blocks.start) * totals..).unwrap_or_default();
            let block = Block { at, len, row: block * program.rows, rows: len.div_ceil(program.n) };
            for instruction in &program.instructions {
                self.step(instruction, block, runs);
            }
            for (k, (call, _)) in self.group.results.iter().enumerate() {
                let Some(mut writer) = self.writers[k].take() else { continue };
                let (from, count) = block.span(self.group.calls[*call].level == Level::Rows);
                let values = self.value(program.places[*call], from, count);
                writer.write::<T::Stored>(bytemuck::cast_slice(values));
                self.writers[k] = Some(writer);
            }
        }
    }

    fn step(&mut self, instruction: &Instruction<T>, block: Block, runs: &mut [T]) {
        let (from, count) = block.span(instruction.per_row);
        // What is written is moved out of `self`, because the others are borrowed for reading.
        match instruction.out {
            Place::Buffer(b) => {
                let mut own = std::mem::take(&mut self.buffers[b]);
                self.compute(instruction, block, runs, &mut own[..count]);
                self.buffers[b] = own;
            }
            Place::Result(k) => {
                let Some(mut own) = self.outs[k].take() else { return };
                let part = &mut own[from - self.first..][..count];
                self.compute(instruction, block, runs, bytemuck::cast_slice_mut(part));
                self.outs[k] = Some(own);
            }
            Place::Operand(_) => {}
        }
    }

    fn compute(&mut self, instruction: &Instruction<T>, block: Block, runs: &mut [T], out: &mut [T]) {
        let program = self.program;
        if let Code::Load(k) = instruction.code {
            return self.load(k, block.span(instruction.per_row).0, out);
        }
        let mut truth = std::mem::take(&mut self.truth);
        let takes_rows = match instruction.code {
            Code::Reduce(_) | Code::Run(_) => false,
            Code::Repeat => true,
            _ => instruction.per_row,
        };
        let (from, taken) = block.span(takes_rows);
        let mut ins: [&[T]; ARGS] = [&[]; ARGS];
        for (slot, &place) in ins.iter_mut().zip(&instruction.args) {
            *slot = self.value(place, from, taken);
        }
        let (args, params) = (&ins[..instruction.args.len()], &instruction.params[..]);
        match &instruction.code {
            Code::Load(_) => {}
            Code::Same(l) => l.run(args, params, out),
            Code::Truth(l) => {
                let truth = &mut truth[..out.len()];
                l.run(args, params, truth);
                out.iter_mut().zip(truth).for_each(|(v, t)| *v = T::of_truth(*t));
            }
            Code::Repeat => {
                for (row, &v) in out.chunks_mut(program.n).zip(ins[0]) {
                    row.fill(v);
                }
            }
            Code::Reduce(r) => T::rows(r, ins[0], program.n, out),
            Code::Run(k) => runs[*k] = T::run(&program.totals[*k].1, ins[0]),
            Code::Softmax(rows) => rows([ins[0]], program.n, out),
            Code::SoftmaxBackward(rows) => rows([ins[0], ins[1]], program.n, out),
            Code::Round(to) => T::round(*to, ins[0], out),
        }
        self.truth = truth;
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
            Place::Buffer(b) => &self.buffers[b][..n],
            Place::Result(k) => {
                let out = self.outs[k].as_deref().unwrap_or_default();
                bytemuck::cast_slice(&out[at - self.first..][..n])
            }
        }
    }
}
