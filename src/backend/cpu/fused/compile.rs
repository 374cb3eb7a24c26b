//! Machine code in place of the instructions of a group.
//!
//! Note [Stages of a group] Pointwise instructions per element are compiled, all others are interpreted. In stage `s` first one
//! kernel computes what it can, then the interpreter what needs that, such as a reduction. An instruction is in the first
//! stage in which its arguments are there; a compiled one then moves to the last stage that computes them in time for its users, since
//! a value that stays within a kernel needs no buffer. Values per row are broadcast within kernels, in place of blocks that repeat
//! them.

use smallvec::{SmallVec, smallvec};

use super::program::{Code, Fill, Grouped, Instruction, Place, Program};
use crate::backend::cpu::machine::{self, Recipe, Source, Work};
use crate::dtype::{DType, Element};
use crate::formula::Formula;

/// Replaces pointwise instructions; `formulas` has theirs by instruction, `kept` the places of results that are stored.
/// Each buffer is written by one instruction still.
pub(super) fn compile<T: Grouped>(program: &mut Program<T>, formulas: &[Option<&Formula>], kept: &[Place]) {
    if !machine::is_enabled() {
        return;
    }
    let joins: Vec<bool> = program
        .instructions
        .iter()
        .zip(formulas)
        .map(|(i, f)| {
            let is_round = matches!(i.code, Code::Round(_)) && T::Stored::DTYPE == DType::F32;
            !i.per_row && (is_round || f.is_some_and(|f| T::is_compiled(f)))
        })
        .collect();
    if !joins.contains(&true) {
        return;
    }
    let mut made_by = vec![None; program.buffers.len()];
    for (i, instruction) in program.instructions.iter().enumerate() {
        for out in &instruction.outs {
            if let Place::Buffer(b) = out {
                made_by[*b] = Some(i);
            }
        }
    }
    let source = |place: &Place| if let Place::Buffer(b) = place { made_by[*b] } else { None };
    let stages = &stages(program, &joins, kept, source);
    let members = |s: usize| (0..joins.len()).filter(move |&i| stages[i] == s);
    let last = stages.iter().copied().max().unwrap_or(0);
    let mut kernels = Vec::new();
    for s in 1..=last {
        let members = members(s).filter(|&i| joins[i]).collect();
        kernels.push(Fusion { program, formulas, kept, members }.instruction(source));
    }
    let mut old: Vec<Option<Instruction<T>>> = program.instructions.drain(..).map(Some).collect();
    for s in 0..=last {
        let compiled = s.checked_sub(1).and_then(|k| kernels[k].take());
        let interpreted = |i: &usize| !joins[*i];
        if let Some(compiled) = compiled {
            program.instructions.push(compiled);
        } else {
            program.instructions.extend(members(s).filter(|&i| joins[i]).filter_map(|i| old[i].take()));
        }
        program.instructions.extend(members(s).filter(interpreted).filter_map(|i| old[i].take()));
    }
    let read: Vec<Place> = program.instructions.iter().flat_map(|i| i.args.iter().copied()).collect();
    program.instructions.retain(|i| {
        !matches!(i.code, Code::Repeat | Code::Load(_))
            || i.outs.iter().any(|o| read.contains(o) || kept.contains(o))
    });
}

/// By instruction, its stage. See Note [Stages of a group].
fn stages<T: Grouped>(
    program: &Program<T>,
    joins: &[bool],
    kept: &[Place],
    source: impl Fn(&Place) -> Option<usize>,
) -> Vec<usize> {
    let instructions = &program.instructions;
    let mut stages: Vec<usize> = Vec::with_capacity(instructions.len());
    for (i, instruction) in instructions.iter().enumerate() {
        let after = |d: usize| stages[d] + usize::from(joins[i] && !joins[d]);
        let earliest = instruction.args.iter().filter_map(&source).map(after).max().unwrap_or(0);
        stages.push(earliest.max(usize::from(joins[i])));
    }
    let mut latest = vec![usize::MAX; instructions.len()];
    kept.iter().filter_map(&source).for_each(|i| latest[i] = 0);
    for (i, instruction) in instructions.iter().enumerate().rev() {
        if joins[i] && latest[i] < usize::MAX {
            stages[i] = stages[i].max(latest[i]);
        }
        for d in instruction.args.iter().filter_map(&source) {
            latest[d] = latest[d].min(stages[i]);
        }
    }
    stages
}

/// Instructions that become one kernel.
struct Fusion<'p, T: Grouped> {
    program: &'p Program<T>,
    formulas: &'p [Option<&'p Formula>],
    kept: &'p [Place],
    members: Vec<usize>,
}

/// A recipe while it is made, with the places of its arguments and its numbers.
struct Draft<'f, T> {
    recipe: Recipe<'f>,
    places: SmallVec<[Place; 4]>,
    numbers: SmallVec<[T; 3]>,
}

/// Sets the bit of an argument. Recipes with more arguments than bits are refused later.
fn mark(bits: &mut u64, source: Source) -> Source {
    if let Source::Argument(k) = source {
        *bits |= 1 << k.min(63);
    }
    source
}

impl<T> Draft<'_, T> {
    fn place(&mut self, place: Place) -> Source {
        let k = self.places.iter().position(|p| *p == place).unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        });
        Source::Argument(k)
    }

    fn per_row(&mut self, place: Place) -> Source {
        let source = self.place(place);
        mark(&mut self.recipe.rows, source)
    }

    fn rows(&mut self, operand: usize) -> Source {
        let source = self.place(Place::Rows(operand));
        mark(&mut self.recipe.strided, source)
    }

    fn number(&mut self, v: T) -> Source {
        self.numbers.push(v);
        Source::Number(self.numbers.len() - 1)
    }
}

impl<T: Grouped> Fusion<'_, T> {
    /// Whether a result of this kernel replaces operand `k`, and nothing else reads what `load` loads.
    fn is_replaced(&self, k: usize, load: usize) -> bool {
        let instructions = &self.program.instructions;
        let Some(place) = self.program.replaced[k].and_then(|r| self.kept.get(r)) else { return false };
        let loaded = &instructions[load].outs[0];
        let elsewhere =
            |(i, other): (usize, &Instruction<T>)| !self.members.contains(&i) && other.args.contains(loaded);
        self.members.iter().any(|&i| instructions[i].outs.contains(place))
            && !instructions.iter().enumerate().any(elsewhere)
            && !self.kept.contains(loaded)
    }

    /// The instruction that computes all members; None if it would not be worth it, or has no machine code.
    fn instruction(&self, source: impl Fn(&Place) -> Option<usize>) -> Option<Instruction<T>> {
        let instructions = &self.program.instructions;
        let mut draft =
            Draft { recipe: Recipe::default(), places: SmallVec::new(), numbers: SmallVec::<[T; 3]>::new() };
        let mut step_of = vec![None; instructions.len()];
        for &i in &self.members {
            let mut operands = SmallVec::new();
            for place in &instructions[i].args {
                operands.push(match (source(place).map(|d| (d, &instructions[d])), *place) {
                    (Some((d, _)), _) if step_of[d].is_some() => Source::Step(step_of[d]?),
                    (Some((_, Instruction { code: Code::Repeat, args, .. })), _) => {
                        draft.per_row(*args.first()?)
                    }
                    (Some((_, Instruction { code: Code::Load(k), .. })), _)
                        if self.program.strides[*k].is_some() =>
                    {
                        draft.rows(*k)
                    }
                    (Some((d, Instruction { code: Code::Load(k), .. })), _) => {
                        draft.recipe.replaces |= self.is_replaced(*k, d);
                        draft.place(*place)
                    }
                    (None, Place::Buffer(b)) => match self.program.buffers[b].fill {
                        Fill::Number(s) => draft.number(T::number(s)),
                        Fill::Operand(k) if self.program.strides[k].is_some() => draft.rows(k),
                        _ => draft.place(*place),
                    },
                    _ => draft.place(*place),
                });
            }
            let work = match (&instructions[i].code, self.formulas[i]) {
                (Code::Round(to), _) => Work::Round(*to),
                (_, Some(formula)) => Work::Formula(formula, draft.numbers.len()),
                _ => return None,
            };
            draft.numbers.extend(instructions[i].params.iter().copied());
            step_of[i] = Some(draft.recipe.steps.len());
            draft.recipe.steps.push((work, operands));
        }
        let is_needed = |i: &usize| {
            let out = &instructions[*i].outs[0];
            let outside =
                |(j, other): (usize, &Instruction<T>)| !self.members.contains(&j) && other.args.contains(out);
            self.kept.contains(out) || instructions.iter().enumerate().any(outside)
        };
        let results: SmallVec<[usize; 4]> = self.members.iter().copied().filter(is_needed).collect();
        let Draft { mut recipe, places, numbers } = draft;
        if results.is_empty()
            || self.members.len() < 2 && recipe.rows | recipe.strided == 0 && !recipe.replaces
        {
            return None;
        }
        recipe.results = results.iter().map(|&i| step_of[i]).collect::<Option<_>>()?;
        (recipe.args, recipe.numbers) = (places.len(), numbers.len());
        let kernel = T::machine(&recipe)?;
        let pool = kernel.pool(&numbers)?;
        let outs = results.iter().map(|&i| instructions[i].outs[0]).collect();
        let code = Code::Machine(kernel, pool);
        Some(Instruction { code, args: places, params: smallvec![], outs, per_row: false })
    }
}
