//! Interpretation of formulas without a compiled loop: step by step, on blocks that fit in the L1 cache.
//!
//! Note [Interpreted formulas]: each step calls the compiled loop of the pointwise operation of the same name on a
//! block. So steps and pointwise operations share their code, and the result is bit-identical to that of separate
//! operations on every instruction set. Only the memory traffic differs: operands are read once, results are written
//! once, and intermediates never leave the cache. Blocks are allocated like registers: a block is reused after the
//! last use of its value. Booleans are represented as 0 and 1 of the compute type, as the loops of pointwise
//! operations expect.

use std::ops::Range;

use bytemuck::Zeroable;
use smallvec::{SmallVec, smallvec};

use super::copy::{BLOCK, GRAIN, View, Writer};
use super::output::{Cells, Output};
use super::parallel::{for_ranges_mut, parallel_for};
use super::pointwise::{Lane, OperandAccess, OperandCursor};
pub use crate::backend::pointwise::Primitives;
use crate::backend::pointwise::{Applied, Kernel, Loop, Operand};
use crate::dtype::{Bool8, DType, Element, Scalar};
use crate::error::Result;
use crate::formula::record::Step;
use crate::formula::{ARGS, Arith, Formula, Int};

/// A type that formulas are interpreted in.
pub(super) trait Interpreted: Lane + Arith {
    fn same(kernel: Kernel) -> Option<Loop<Self, Self>>;
    fn truth(kernel: Kernel) -> Option<Loop<Self, Bool8>>;
    fn of_truth(b: Bool8) -> Self;
}

macro_rules! interpreted {
    ($($t:ty, $field:ident, $one:expr;)*) => { $(impl Interpreted for $t {
        fn same(kernel: Kernel) -> Option<Loop<Self, Self>> {
            if let Kernel::Same { $field: l, .. } = kernel { l } else { None }
        }
        fn truth(kernel: Kernel) -> Option<Loop<Self, Bool8>> {
            if let Kernel::Truth { $field: l, .. } = kernel { l } else { None }
        }
        #[inline(always)]
        fn of_truth(b: Bool8) -> Self {
            let one: fn(u8) -> Self = $one;
            one(b.0)
        }
    })* };
}
interpreted! { f32, f32, |b| b as f32; f64, f64, |b| b as f64; Int<i32>, i32, |b| Int(b as i32); Int<i64>, i64, |b| Int(b as i64); }

/// The location of a step's value.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Slot {
    Operand(usize),
    Constant(usize),
    Block(usize),
    /// The memory of the first result.
    Out,
}

#[derive(Clone, Copy)]
enum Code<T> {
    Same(Loop<T, T>),
    Truth(Loop<T, Bool8>),
}

struct Instruction<T> {
    code: Code<T>,
    operands: SmallVec<[Slot; 3]>,
    out: Slot,
}

/// A formula compiled to instructions for one type and one call; shared by all workers.
pub(super) struct Plan<T> {
    instructions: Vec<Instruction<T>>,
    /// Each constant fills a block.
    constants: Vec<Vec<T>>,
    /// The parameters of a compiled loop; the loops of single steps have none.
    params: Vec<T>,
    blocks: usize,
    /// The location of each result after the last instruction.
    results: SmallVec<[Slot; 4]>,
}

impl<T: Interpreted> Plan<T> {
    /// A plan for `n` elements; None if a step has no loop for this type. `direct`: whether the first result may be
    /// computed directly in its memory.
    fn new(f: &Formula, primitives: Primitives, params: &[Scalar], n: usize, direct: bool) -> Option<Self> {
        let steps = f.steps();
        let mut last = vec![0; steps.len()];
        for (i, step) in steps.iter().enumerate() {
            if let Step::Do(p, operands) = step {
                operands[..p.arity()].iter().for_each(|&o| last[o] = i);
            }
        }
        f.results().iter().for_each(|&r| last[r] = steps.len());
        let first = f.results()[0];
        let is_read = steps.iter().any(|s| matches!(s, Step::Do(p, o) if o[..p.arity()].contains(&first)));
        let in_place = direct && !is_read && !f.is_truth_at(first) && !f.results()[1..].contains(&first);
        let mut plan = Plan {
            instructions: Vec::new(),
            constants: Vec::new(),
            params: Vec::new(),
            blocks: 0,
            results: SmallVec::new(),
        };
        let mut slots: Vec<Slot> = Vec::with_capacity(steps.len());
        let mut free: Vec<usize> = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            let constant = |plan: &mut Self, v: T| {
                plan.constants.push(vec![v; n.min(BLOCK)]);
                Slot::Constant(plan.constants.len() - 1)
            };
            slots.push(match *step {
                Step::Arg(k) => Slot::Operand(k),
                Step::Param(k) => constant(&mut plan, T::number(*params.get(k)?)),
                Step::Lit(v) => constant(&mut plan, T::lit(v)),
                Step::Do(p, operands) => {
                    let kernel = primitives(p)?;
                    let code = match p.is_truth() {
                        true => Code::Truth(T::truth(kernel)?),
                        false => Code::Same(T::same(kernel)?),
                    };
                    let operands: SmallVec<[Slot; 3]> =
                        operands[..p.arity()].iter().map(|&o| slots[o]).collect();
                    // Allocated before the operands' blocks are released, so that no loop writes to its inputs.
                    let out = match free.pop() {
                        _ if in_place && i == first => Slot::Out,
                        Some(b) => Slot::Block(b),
                        None => {
                            plan.blocks += 1;
                            Slot::Block(plan.blocks - 1)
                        }
                    };
                    plan.instructions.push(Instruction { code, operands, out });
                    out
                }
            });
            if let Step::Do(p, operands) = step {
                let mut ended: SmallVec<[usize; 3]> =
                    operands[..p.arity()].iter().copied().filter(|&o| last[o] == i).collect();
                ended.sort_unstable();
                ended.dedup();
                free.extend(
                    ended.iter().filter_map(|&o| if let Slot::Block(b) = slots[o] { Some(b) } else { None }),
                );
            }
        }
        plan.results = f.results().iter().map(|&r| slots[r]).collect();
        Some(plan)
    }

    /// A plan for `n` elements of a formula with one result, which may be computed directly in its memory: the
    /// compiled loop if there is one for this type, else the steps. None also if an operand is missing.
    pub(super) fn of(a: &Applied, n: usize) -> Option<Self> {
        let code = T::same(a.kernel).map(Code::Same);
        let Some(code) = code.or_else(|| T::truth(a.kernel).map(Code::Truth)) else {
            let is_given = is_given(a.formula, a.operands) && a.formula.results().len() == 1;
            return if is_given { Plan::new(a.formula, a.primitives, a.params, n, true) } else { None };
        };
        // A compiled loop requires that all operands have the same length, so unread ones are replaced by one that is
        // read.
        let is_read = |k: &usize| !matches!(a.operands[*k], Operand::Unread);
        let some = (0..a.operands.len()).find(is_read)?;
        let shown = |k: usize| Slot::Operand(if is_read(&k) { k } else { some });
        let out = if let Code::Same(_) = code { Slot::Out } else { Slot::Block(0) };
        Some(Plan {
            instructions: vec![Instruction {
                code,
                operands: (0..a.operands.len()).map(shown).collect(),
                out,
            }],
            constants: Vec::new(),
            params: a.params.iter().map(|s| T::number(*s)).collect(),
            blocks: (out != Slot::Out) as usize,
            results: smallvec![out],
        })
    }

    /// The operand that the formula returns unchanged, if it does.
    pub(super) fn passes(&self) -> Option<usize> {
        match (&self.instructions[..], &self.results[..]) {
            ([], [Slot::Operand(k)]) => Some(*k),
            _ => None,
        }
    }
}

/// Whether all operands that a formula reads are given.
fn is_given(f: &Formula, operands: &[Operand]) -> bool {
    let is_given = |k: usize| matches!(operands.get(k), Some(Operand::View(_) | Operand::Number(_)));
    f.steps().iter().all(|s| !matches!(s, Step::Arg(k) if !is_given(*k)))
}

/// Applies a formula that computes in `compute` to operands of any dtype and layout, all expanded to the shape of the
/// results; false if a step has no loop for that type, or an operand or parameter is missing.
pub fn run(
    f: &Formula,
    primitives: Primitives,
    compute: DType,
    operands: &[Operand],
    params: &[Scalar],
    outs: &[View],
) -> Result<bool> {
    match compute {
        DType::F32 => run_as::<f32>(f, primitives, operands, params, outs),
        DType::F64 => run_as::<f64>(f, primitives, operands, params, outs),
        DType::I32 => run_as::<Int<i32>>(f, primitives, operands, params, outs),
        DType::I64 => run_as::<Int<i64>>(f, primitives, operands, params, outs),
        _ => Ok(false),
    }
}

fn run_as<T: Interpreted>(
    f: &Formula,
    primitives: Primitives,
    operands: &[Operand],
    params: &[Scalar],
    outs: &[View],
) -> Result<bool> {
    if !is_given(f, operands) || outs.len() != f.results().len() {
        return Ok(false);
    }
    let n = outs[0].layout.numel();
    let direct = outs[0].dtype == T::Stored::DTYPE && outs[0].layout.is_contiguous() && outs[0].is_aligned();
    let Some(plan) = Plan::<T>::new(f, primitives, params, n, direct) else { return Ok(false) };
    let origins: Vec<OperandAccess> = (0..f.args())
        .map(|k| match operands.get(k).filter(|_| f.reads(k)) {
            Some(Operand::View(v)) if outs.iter().any(|o| o.storage.overlaps(v.storage)) => {
                OperandAccess::Blocks(*v)
            }
            operand => OperandAccess::of::<T>(operand, outs[0]),
        })
        .collect();
    let grain = OperandAccess::grain(&origins, GRAIN);
    // The first result may be computed directly in its memory; all others are scattered from blocks.
    if plan.results.first() == Some(&Slot::Out) {
        let mut first = Output::<T::Stored>::of(outs[0])?;
        let cells = scattered(&plan.results, outs)?;
        for_ranges_mut(&mut first, grain, |range, part| {
            run_range(&plan, &origins, outs, &cells, range, part)
        });
    } else {
        let cells = scattered(&plan.results, outs)?;
        parallel_for(n, grain, |range| run_range(&plan, &origins, outs, &cells, range, &mut []));
    }
    Ok(true)
}

fn scattered<'a>(results: &[Slot], outs: &[View<'a>]) -> Result<Scattered<'a>> {
    let places = outs.iter().zip(results);
    places.map(|(out, slot)| (*slot != Slot::Out).then(|| Cells::of(*out)).transpose()).collect()
}

/// For each result its memory, unless it is computed directly in its memory.
type Scattered<'a> = SmallVec<[Option<Cells<'a>>; 4]>;

/// Computes a range of positions; `first` is the memory of the first result in this range if it is computed directly.
fn run_range<T: Interpreted>(
    plan: &Plan<T>,
    origins: &[OperandAccess],
    outs: &[View],
    cells: &Scattered<'_>,
    range: Range<usize>,
    first: &mut [T::Stored],
) {
    let mut interpreter = Interpreter::new(plan, origins, &range);
    let mut writers: SmallVec<[Option<Writer>; 4]> = cells
        .iter()
        .zip(outs)
        .map(|(cells, out)| cells.as_ref().map(|c| Writer::new(c, *out, range.start)))
        .collect();
    while interpreter.at < range.end {
        let at = interpreter.at - range.start;
        let n = interpreter.reach(range.len() - at);
        interpreter.compute(n, first.get_mut(at..at + n).unwrap_or_default());
        for (writer, &slot) in writers.iter_mut().zip(&plan.results) {
            if let Some(writer) = writer {
                writer.write::<T::Stored>(bytemuck::cast_slice(interpreter.value(slot, n)));
            }
        }
        interpreter.pass(n);
    }
}

/// One worker's state of evaluating a formula; `at` is the next position. An iteration processes `n` elements: it
/// begins with [`Interpreter::reach`] and ends with [`Interpreter::pass`].
pub(super) struct Interpreter<'p, 'a, T: Interpreted> {
    plan: &'p Plan<T>,
    cursors: SmallVec<[OperandCursor<'a, T>; 4]>,
    blocks: Vec<Vec<T>>,
    truth: Vec<Bool8>,
    room: usize,
    at: usize,
}

impl<'p, 'a, T: Interpreted> Interpreter<'p, 'a, T> {
    /// Starts at the beginning of `range`. No iteration may process more elements than `range` has.
    pub(super) fn new(plan: &'p Plan<T>, origins: &[OperandAccess<'a>], range: &Range<usize>) -> Self {
        let room = BLOCK.min(range.len());
        let tells = plan.instructions.iter().any(|i| matches!(i.code, Code::Truth(_)));
        Interpreter {
            plan,
            cursors: origins.iter().map(|o| OperandCursor::new(o, range)).collect(),
            blocks: (0..plan.blocks).map(|_| vec![T::zeroed(); room]).collect(),
            truth: vec![Bool8::zeroed(); if tells { room } else { 0 }],
            room,
            at: range.start,
        }
    }

    /// The number of elements, at most `n`, that the next iteration processes. Prepares their operands.
    #[inline]
    fn reach(&mut self, n: usize) -> usize {
        let at = self.at;
        let n = self.cursors.iter().map(|c| c.left(at)).fold(self.room.min(n), usize::min);
        self.cursors.iter_mut().for_each(|c| c.reach(at, n));
        n
    }

    /// Executes the instructions on the next `n` elements. `first` is the memory of the first result if it is computed
    /// directly.
    fn compute(&mut self, n: usize, first: &mut [T::Stored]) {
        for instruction in &self.plan.instructions {
            // The written buffers are moved out of `self`, because the other blocks are borrowed for reading.
            let mut truth = std::mem::take(&mut self.truth);
            let mut own = match instruction.out {
                Slot::Block(b) => std::mem::take(&mut self.blocks[b]),
                _ => Vec::new(),
            };
            let mut ins: [&[T]; ARGS] = [&[]; ARGS];
            for (slot, &s) in ins.iter_mut().zip(&instruction.operands) {
                *slot = self.value(s, n);
            }
            let (ins, params) = (&ins[..instruction.operands.len()], &self.plan.params[..]);
            match (instruction.code, instruction.out) {
                (Code::Same(l), Slot::Out) => l.run(ins, params, bytemuck::cast_slice_mut(&mut first[..n])),
                (Code::Same(l), _) => l.run(ins, params, &mut own[..n]),
                (Code::Truth(l), _) => {
                    l.run(ins, params, &mut truth[..n]);
                    own[..n].iter_mut().zip(&truth).for_each(|(v, t)| *v = T::of_truth(*t));
                }
            }
            self.truth = truth;
            if let Slot::Block(b) = instruction.out {
                self.blocks[b] = own;
            }
        }
    }

    #[inline]
    fn value(&self, slot: Slot, n: usize) -> &[T] {
        match slot {
            Slot::Operand(k) => self.cursors[k].get(self.at, n),
            Slot::Constant(k) => &self.plan.constants[k][..n],
            Slot::Block(b) => &self.blocks[b][..n],
            // No instruction reads a result that is computed directly in its memory.
            Slot::Out => &[],
        }
    }

    #[inline]
    fn pass(&mut self, n: usize) {
        self.cursors.iter_mut().for_each(|c| c.pass(n));
        self.at += n;
    }

    /// Sets the next position.
    #[inline]
    pub(super) fn seek(&mut self, at: usize) {
        if at != self.at {
            self.cursors.iter_mut().for_each(|c| c.seek(at));
            self.at = at;
        }
    }

    /// Computes the next elements of a formula with one result.
    pub(super) fn read(&mut self, mut out: &mut [T::Stored]) {
        while !out.is_empty() {
            let n = self.reach(out.len());
            let (part, rest) = out.split_at_mut(n);
            self.compute(n, part);
            if let Some(&slot) = self.plan.results.first().filter(|s| **s != Slot::Out) {
                part.copy_from_slice(bytemuck::cast_slice(self.value(slot, n)));
            }
            self.pass(n);
            out = rest;
        }
    }

    /// Computes the next elements with `values` as the [`OperandAccess::Given`] operand, and overwrites `values` with
    /// them.
    pub(super) fn replace(&mut self, values: &mut [T::Stored]) {
        for part in values.chunks_mut(BLOCK) {
            self.cursors.iter_mut().for_each(|c| c.give(bytemuck::cast_slice(part)));
            self.read(part);
        }
    }
}
