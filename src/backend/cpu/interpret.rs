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
use smallvec::SmallVec;

use super::copy::{BLOCK, GRAIN, View, Writer};
use super::output::{Cells, Output};
use super::parallel::{for_ranges_mut, parallel_for};
use super::pointwise::{Lane, OperandAccess, OperandCursor};
use crate::backend::pointwise::{Kernel, Loop, Operand};
use crate::dtype::{Bool8, DType, Element, Scalar};
use crate::error::Result;
use crate::formula::record::{Prim, Step};
use crate::formula::{Arith, Formula, Int};

/// The compiled loops of the pointwise operation that computes a primitive.
pub type Primitives<'a> = &'a (dyn Fn(Prim) -> Option<Kernel> + Sync);

/// A type in which formulas are interpreted.
trait Interpreted: Lane + Arith {
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

/// A formula compiled to instructions for one type and one call.
struct Plan<T> {
    instructions: Vec<Instruction<T>>,
    constants: Vec<T>,
    blocks: usize,
    /// The location of each result after the last instruction.
    results: SmallVec<[Slot; 4]>,
}

impl<T: Interpreted> Plan<T> {
    /// None if a step has no loop for this type. `direct`: the first result may be computed directly in its memory.
    fn new(f: &Formula, primitives: Primitives, params: &[Scalar], direct: bool) -> Option<Self> {
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
        let mut plan =
            Plan { instructions: Vec::new(), constants: Vec::new(), blocks: 0, results: SmallVec::new() };
        let mut slots: Vec<Slot> = Vec::with_capacity(steps.len());
        let mut free: Vec<usize> = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            let constant = |plan: &mut Self, v: T| {
                plan.constants.push(v);
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
    let is_given = |k: usize| matches!(operands.get(k), Some(Operand::View(_) | Operand::Number(_)));
    let read = f.steps().iter().all(|s| !matches!(s, Step::Arg(k) if !is_given(*k)));
    if !read || outs.len() != f.results().len() {
        return Ok(false);
    }
    let direct = outs[0].dtype == T::Stored::DTYPE && outs[0].layout.is_contiguous() && outs[0].is_aligned();
    let Some(plan) = Plan::<T>::new(f, primitives, params, direct) else { return Ok(false) };
    let n = outs[0].layout.numel();
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
    let room = BLOCK.min(range.len());
    let mut cursors: Vec<OperandCursor<T>> = origins.iter().map(|o| OperandCursor::new(o, &range)).collect();
    let constants: Vec<Vec<T>> = plan.constants.iter().map(|&v| vec![v; room]).collect();
    let mut blocks = vec![vec![T::zeroed(); room]; plan.blocks];
    let mut truth = vec![Bool8::zeroed(); room];
    let mut writers: SmallVec<[Option<Writer>; 4]> = cells
        .iter()
        .zip(outs)
        .map(|(cells, out)| cells.as_ref().map(|c| Writer::new(c, *out, range.start)))
        .collect();
    let mut at = range.start;
    while at < range.end {
        let n = cursors.iter().map(|c| c.left(at)).fold(room.min(range.end - at), usize::min);
        cursors.iter_mut().for_each(|c| c.reach(at, n));
        for instruction in &plan.instructions {
            // Take the output block out of the list while the input blocks are borrowed.
            let mut own = match instruction.out {
                Slot::Block(b) => std::mem::take(&mut blocks[b]),
                _ => Vec::new(),
            };
            let mut ins: [&[T]; 3] = [&[]; 3];
            for (slot, &s) in ins.iter_mut().zip(&instruction.operands) {
                *slot = value(s, &cursors, &constants, &blocks, at, n);
            }
            let ins = &ins[..instruction.operands.len()];
            match (instruction.code, instruction.out) {
                (Code::Same(l), Slot::Out) => {
                    let part = &mut first[at - range.start..][..n];
                    l.run(ins, &[], bytemuck::cast_slice_mut(part));
                }
                (Code::Same(l), _) => l.run(ins, &[], &mut own[..n]),
                (Code::Truth(l), _) => {
                    l.run(ins, &[], &mut truth[..n]);
                    own[..n].iter_mut().zip(&truth).for_each(|(v, t)| *v = T::of_truth(*t));
                }
            }
            if let Slot::Block(b) = instruction.out {
                blocks[b] = own;
            }
        }
        for (writer, &slot) in writers.iter_mut().zip(&plan.results) {
            if let Some(writer) = writer {
                let values = value(slot, &cursors, &constants, &blocks, at, n);
                writer.write::<T::Stored>(bytemuck::cast_slice(values));
            }
        }
        cursors.iter_mut().for_each(|c| c.pass(n));
        at += n;
    }
}

#[inline]
fn value<'a, T: Interpreted>(
    slot: Slot,
    cursors: &'a [OperandCursor<T>],
    constants: &'a [Vec<T>],
    blocks: &'a [Vec<T>],
    at: usize,
    n: usize,
) -> &'a [T] {
    match slot {
        Slot::Operand(k) => cursors[k].get(at, n),
        Slot::Constant(k) => &constants[k][..n],
        Slot::Block(b) => &blocks[b][..n],
        // The first result's memory is never an input of an instruction.
        Slot::Out => &[],
    }
}
