//! Machine code in place of the instructions of a group.
//!
//! Note [Stages of a group] Pointwise instructions are compiled, all others are interpreted. In stage `s` first one
//! kernel computes what it can, then the interpreter what needs that, such as a reduction. An instruction is in the first
//! stage in which its arguments are there; a compiled one then moves to the last stage that computes them in time for its users, since
//! a value that stays within a kernel needs no buffer. Values per row are broadcast within kernels, in place of blocks that repeat
//! them. Sums of rows, and of the runs of a total, that consist of whole blocks of accumulators are made by the kernel that makes the
//! elements. Calls on parts of rows have a kernel of their own in each stage.

use smallvec::{SmallVec, smallvec};

use super::apart::SHORTEST_ROW;
use super::prefetch::{Prefetch, prefetches_of};
use super::program::{Buffer, Code, Extent, Fill, Instruction, Place, Program, identity};
use super::types::Grouped;
use crate::backend::cpu::machine::{
    self, Columns, LANES, Recipe, SHORT_ROWS, Source, WHOLE_VECTORS, Work, type_of,
};
use crate::backend::group::Group;
use crate::dtype::{DType, Element};
use crate::formula::Formula;

/// Compiles pointwise instructions to kernels, with the sums of their results. `formulas[i]` is the formula of instruction `i`,
/// `kept` the places of the group's results. Each buffer is written by one instruction still.
pub(super) fn compile<T: Grouped>(
    program: &mut Program<T>,
    formulas: &[Option<&Formula>],
    kept: &[Place],
    group: &Group,
) {
    if !machine::is_enabled() {
        return;
    }
    let joins: Vec<bool> = program
        .instructions
        .iter()
        .zip(formulas)
        .map(|(i, f)| {
            let is_round = matches!(i.code, Code::Round(..)) && T::Stored::DTYPE == DType::F32;
            is_round || f.is_some_and(|f| T::is_compiled(f))
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
    let reads = |place: &Place, i: usize| {
        let reader = &program.instructions[i];
        joins[i] && reader.extent == Extent::Elements && reader.args.contains(place)
    };
    // Runs of operands that some kernel reads anyway.
    let is_run = |i: &usize| matches!(program.instructions[*i].code, Code::Run(_));
    let of_operand = |i: &usize| {
        let place = &program.instructions[*i].args[0];
        let is_made = matches!(place, Place::Buffer(b) if made_by[*b].is_some_and(|d: usize| joins[d]));
        !is_made && (0..joins.len()).any(|reader| reads(place, reader))
    };
    let mut loose: Vec<usize> = (0..joins.len()).filter(is_run).filter(of_operand).collect();
    let sums = summed(program, group.numel, |i, place| {
        let is_made = matches!(place, Place::Buffer(of) if made_by[*of].is_some_and(|d| joins[d]));
        is_made || loose.contains(&i)
    });
    loose.retain(|&i| sums[i].is_some());
    let mut columns: Vec<usize> = (0..joins.len()).filter(|&i| sums_columns(program, i)).collect();
    made_by.resize(program.buffers.len(), None);
    let source = |place: &Place| if let Place::Buffer(b) = place { made_by[*b] } else { None };
    let mut stages = stages(program, &joins, kept, source);
    fn members(stages: &[usize], s: usize) -> impl Iterator<Item = usize> {
        (0..stages.len()).filter(move |&i| stages[i] == s)
    }
    let last = stages.iter().copied().max().unwrap_or(0);
    let prefetches = prefetches_of(program, group, &joins, &stages, kept, source);
    let mut kernels: Vec<Option<Compiled<T>>> = Vec::new();
    for s in 1..=last {
        for extent in EXTENTS {
            let has = |i: &usize| joins[*i] && program.instructions[*i].extent == extent;
            let members = members(&stages, s).filter(has).collect();
            let of_kernel = prefetches.iter().filter(|(of, _)| *of == s && extent == Extent::Elements);
            let prefetches = of_kernel.map(|(_, what)| *what).collect();
            // Others wait for the sums of a tile.
            let is_in_time =
                |i: &usize| stages[*i] == s || matches!(program.instructions[*i].code, Code::Columns(_));
            let of_stage: Vec<usize> = columns.iter().copied().filter(is_in_time).collect();
            let mut fusion = Fusion {
                program,
                formulas,
                kept,
                sums: &sums,
                loose: &loose,
                columns: &of_stage,
                members,
                prefetches,
            };
            let mut compiled = fusion.compiled(source);
            if compiled.is_none() && !of_stage.is_empty() {
                fusion.columns = &[];
                compiled = fusion.compiled(source);
            }
            for &i in compiled.iter().flat_map(|compiled| &compiled.sums) {
                stages[i] = s;
            }
            for ends in [&mut loose, &mut columns] {
                ends.retain(|i| !compiled.as_ref().is_some_and(|compiled| compiled.sums.contains(i)));
            }
            kernels.push(compiled);
        }
    }
    let mut old: Vec<Option<Instruction<T>>> = program.instructions.drain(..).map(Some).collect();
    for s in 0..=last {
        for (e, extent) in EXTENTS.into_iter().enumerate().filter(|_| s > 0) {
            let has = |i: &usize| joins[*i] && old[*i].as_ref().is_some_and(|i| i.extent == extent);
            let replaced: Vec<usize> = members(&stages, s).filter(has).collect();
            match kernels[(s - 1) * EXTENTS.len() + e].take() {
                Some(compiled) => {
                    // Results that are written row by row.
                    for (k, place) in kept.iter().enumerate() {
                        if compiled.instruction.outs.contains(&Place::Result(k)) {
                            let moved = program.places.iter_mut().filter(|p| *p == place);
                            moved.for_each(|p| *p = Place::Result(k));
                        }
                    }
                    program.instructions.push(compiled.instruction);
                    for i in compiled.sums {
                        old[i] = old[i].take().and_then(|reduction| kept_run(reduction, sums[i]));
                    }
                }
                None => program.instructions.extend(replaced.into_iter().filter_map(|i| old[i].take())),
            }
        }
        let interpreted = |i: &usize| !joins[*i];
        program.instructions.extend(members(&stages, s).filter(interpreted).filter_map(|i| old[i].take()));
    }
    let read: Vec<Place> = program.instructions.iter().flat_map(|i| i.args.iter().copied()).collect();
    program.instructions.retain(|i| {
        !matches!(i.code, Code::Repeat | Code::EachRow | Code::Load(_) | Code::Part(_))
            || i.outs.iter().any(|o| read.contains(o) || kept.contains(o))
    });
}

/// Those that kernels compute.
const EXTENTS: [Extent; 4] = [Extent::Rows, Extent::Tile, Extent::Elements, Extent::Parts];

/// The most bytes of accumulators in a kernel: they may be on its stack.
const ACCUMULATORS: usize = 2048;

/// By instruction, where kernels may store its result: those that sum the rows, or the runs of a total, that a kernel computes.
fn summed<T: Grouped>(
    program: &mut Program<T>,
    numel: usize,
    is_computed: impl Fn(usize, &Place) -> bool,
) -> Vec<Option<Place>> {
    let mut left = ACCUMULATORS / (LANES * size_of::<T>());
    let mut sums = Vec::with_capacity(program.instructions.len());
    for (i, instruction) in program.instructions.iter().enumerate() {
        let whole = program.n.is_multiple_of(LANES);
        let is_sum = match &instruction.code {
            Code::Reduce(r) => (whole || is_short(program.n)) && r.is_sum(),
            Code::Run(k) => {
                whole
                    && numel.is_multiple_of(LANES)
                    && program.blocks.rows == 1
                    && program.totals[*k].1.is_sum()
            }
            _ => false,
        };
        if !is_sum || left == 0 || !instruction.args.iter().all(|place| is_computed(i, place)) {
            sums.push(None);
            continue;
        }
        left -= 1;
        // A run is kept by its instruction, which has a place of its own.
        sums.push(Some(match instruction.code {
            Code::Run(_) => {
                program.buffers.push(Buffer { extent: Extent::Rows, fill: Fill::Nothing });
                Place::Buffer(program.buffers.len() - 1)
            }
            _ => instruction.outs[0],
        }));
    }
    sums
}

/// Whether an instruction is a column sum that a kernel can make: Note [Column sums of a kernel].
fn sums_columns<T: Grouped>(program: &Program<T>, i: usize) -> bool {
    let is_sum = match program.instructions[i].code {
        Code::Columns(k) => program.columns[k].1.is_sum,
        Code::ReduceTile(of) => of.is_sum,
        _ => false,
    };
    is_sum
        && program.n.is_multiple_of(WHOLE_VECTORS)
        && program.all_column_blocks().is_some_and(|of| of.has_whole_eights())
}

/// Whether rows are those of kernels with few accumulators.
fn is_short(n: usize) -> bool {
    n < LANES && n.is_multiple_of(SHORT_ROWS)
}

/// The instruction that remains of a reduction whose sums a kernel stores: none of rows; of a total, one that appends the sum
/// of the run to the list of runs.
fn kept_run<T: Grouped>(mut reduction: Instruction<T>, sum: Option<Place>) -> Option<Instruction<T>> {
    let Code::Run(k) = reduction.code else { return None };
    reduction.code = Code::Keep(k);
    reduction.args = smallvec![sum?];
    Some(reduction)
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
    /// By reduction, where a kernel may store its sums.
    sums: &'p [Option<Place>],
    /// The runs of operands that no kernel sums yet.
    loose: &'p [usize],
    /// The column sums that a kernel may make.
    columns: &'p [usize],
    members: Vec<usize>,
    prefetches: SmallVec<[Prefetch; 4]>,
}

/// The machine code of some instructions, and the reductions whose sums it makes.
struct Compiled<T: Grouped> {
    instruction: Instruction<T>,
    sums: Vec<usize>,
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

    fn each_row(&mut self, buffer: usize) -> Source {
        let source = self.place(Place::EachRow(buffer));
        mark(&mut self.recipe.strided, source)
    }

    fn part(&mut self, part: usize) -> Source {
        let source = self.place(Place::Part(part));
        mark(&mut self.recipe.strided, source)
    }

    fn narrow(&mut self, operand: usize, dtype: DType) -> Source {
        let source = self.place(Place::Narrow(operand));
        if let Source::Argument(k) = source
            && type_of(&self.recipe.narrow, k).is_none()
        {
            self.recipe.narrow.push((k, dtype));
        }
        source
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

    /// The only result that instruction `i` computes, if no other instruction reads it.
    fn stored_at(&self, i: usize) -> Option<usize> {
        let out = &self.program.instructions[i].outs[0];
        let (first, last) =
            (self.kept.iter().position(|p| p == out)?, self.kept.iter().rposition(|p| p == out)?);
        let is_read = self.program.parts.iter().any(|(of, _)| of == out)
            || self
                .program
                .instructions
                .iter()
                .enumerate()
                .any(|(j, other)| !self.members.contains(&j) && other.args.contains(out));
        (first == last && !is_read).then_some(first)
    }

    /// The result in whose memory machine code writes what instruction `i` computes, row by row.
    fn spread_at(&self, i: usize) -> Option<usize> {
        self.stored_at(i).filter(|k| self.program.spread[*k].is_some())
    }

    /// The result that machine code stores as a half type, and that type, which is what instruction `i` rounds to.
    fn half_at(&self, i: usize) -> Option<(usize, DType)> {
        let Code::Round(to, _) = self.program.instructions[i].code else { return None };
        let k = self.stored_at(i)?;
        (self.program.halves[k] == Some(to)).then_some((k, to))
    }

    /// How a kernel reads a value that it does not compute; `made` is the instruction that does.
    fn read(
        &self,
        draft: &mut Draft<'_, T>,
        place: Place,
        made: Option<usize>,
        has_long_rows: bool,
    ) -> Option<Source> {
        let program = self.program;
        Some(match (made.map(|d| (d, &program.instructions[d])), place) {
            (Some((_, Instruction { code: Code::Repeat, args, .. })), _) if has_long_rows => {
                draft.per_row(*args.first()?)
            }
            (Some((_, Instruction { code: Code::EachRow, args, .. })), _) if has_long_rows => match args[0] {
                Place::Buffer(b) => draft.each_row(b),
                _ => draft.place(place),
            },
            (Some((_, Instruction { code: Code::Load(k), .. })), _) if program.apart[*k].is_some() => {
                draft.rows(*k)
            }
            (Some((_, Instruction { code: Code::Part(k), .. })), _) if has_long_rows => draft.part(*k),
            (Some((_, Instruction { code: Code::Load(k), .. })), _) if program.narrow[*k].is_some() => {
                draft.narrow(*k, program.narrow[*k]?)
            }
            (Some((d, Instruction { code: Code::Load(k), .. })), _) => {
                draft.recipe.replaces |= self.is_replaced(*k, d);
                draft.place(place)
            }
            (None, Place::Buffer(b)) => match program.buffers[b].fill {
                Fill::Number(s) => draft.number(T::number(s)),
                Fill::Operand(k) if program.apart[k].is_some() => draft.rows(k),
                _ => draft.place(place),
            },
            _ => draft.place(place),
        })
    }

    /// The sums of the columns of these steps, of rows of which some arguments are apart.
    fn columns_of(&self, steps: SmallVec<[usize; 2]>, args: &[Place]) -> Option<Columns> {
        let stride = |(k, place): (usize, &Place)| match place {
            Place::Rows(o) => Some(Some((k, self.program.apart[*o].as_ref()?.stride))),
            Place::EachRow(_) => Some(Some((k, 0))),
            Place::Part(_) => None,
            _ => Some(None),
        };
        let strides: Vec<Option<(usize, usize)>> =
            args.iter().enumerate().map(stride).collect::<Option<_>>()?;
        Some(Columns { steps, n: self.program.n, strides: strides.into_iter().flatten().collect() })
    }

    /// The machine code that computes all members; None if it would not be worth it, or there is none.
    fn compiled(&self, source: impl Fn(&Place) -> Option<usize>) -> Option<Compiled<T>> {
        let instructions = &self.program.instructions;
        let extent = instructions[*self.members.first()?].extent;
        let has_long_rows = self.program.width(extent) >= SHORTEST_ROW;
        let mut draft =
            Draft { recipe: Recipe::default(), places: SmallVec::new(), numbers: SmallVec::<[T; 3]>::new() };
        let mut step_of = vec![None; instructions.len()];
        let read = |draft: &mut Draft<'_, T>, step_of: &[Option<usize>], place: &Place| {
            let made = source(place);
            match made.and_then(|d| step_of[d]) {
                Some(step) => Some(Source::Step(step)),
                None => self.read(draft, *place, made, has_long_rows),
            }
        };
        for &i in &self.members {
            let mut operands = SmallVec::new();
            for place in &instructions[i].args {
                operands.push(read(&mut draft, &step_of, place)?);
            }
            let work = match (&instructions[i].code, self.formulas[i]) {
                (Code::Round(to, _), _) => Work::Round(*to),
                (_, Some(formula)) => Work::Formula(formula, draft.numbers.len()),
                _ => return None,
            };
            draft.numbers.extend(instructions[i].params.iter().copied());
            step_of[i] = Some(draft.recipe.steps.len());
            draft.recipe.steps.push((work, operands));
        }
        let maker = |i: &usize| source(instructions[*i].args.first()?).filter(|d| self.members.contains(d));
        let mut sums: Vec<usize> =
            (0..instructions.len()).filter(|i| self.sums[*i].is_some() && maker(i).is_some()).collect();
        let made_sums = sums.len();
        let is_read = |i: &usize| {
            self.members.iter().any(|m| instructions[*m].args.contains(&instructions[*i].args[0]))
        };
        if extent == Extent::Elements {
            sums.extend(self.loose.iter().copied().filter(is_read));
        }
        let sums_of_rows = sums.len();
        if extent == Extent::Elements && sums.is_empty() {
            let is_made = |i: &usize| maker(i).is_some() || is_read(i);
            sums.extend(self.columns.iter().copied().filter(is_made));
        }
        let is_needed = |i: &usize| {
            let out = &instructions[*i].outs[0];
            let outside = |(j, other): (usize, &Instruction<T>)| {
                !self.members.contains(&j) && !sums.contains(&j) && other.args.contains(out)
            };
            self.kept.contains(out) || instructions.iter().enumerate().any(outside)
        };
        let results: SmallVec<[usize; 4]> = self.members.iter().copied().filter(is_needed).collect();
        let mut others: SmallVec<[usize; 2]> = SmallVec::new();
        for &i in &sums[made_sums..] {
            if let Some(step) = maker(&i).and_then(|d| step_of[d]) {
                others.push(step);
                continue;
            }
            let operand = read(&mut draft, &step_of, &instructions[i].args[0])?;
            others.push(draft.recipe.steps.len());
            draft.recipe.steps.push((Work::Formula(identity(), draft.numbers.len()), smallvec![operand]));
        }
        let Draft { mut recipe, places, numbers } = draft;
        // The interpreter would read a block of each number. Blocks of values per row are short.
        let is_alone = self.members.len() < 2
            && (numbers.is_empty() || extent == Extent::Rows)
            && recipe.rows | recipe.strided == 0
            && recipe.narrow.is_empty()
            && !recipe.replaces;
        let spread = results.iter().any(|i| self.spread_at(*i).is_some());
        if sums.is_empty() && (results.is_empty() || is_alone && !spread) {
            return None;
        }
        let steps = |i: usize| step_of[i];
        recipe.results = results.iter().copied().map(steps).collect::<Option<_>>()?;
        let mut outs: SmallVec<[Place; 1]> = SmallVec::new();
        if sums_of_rows < sums.len() && !results.is_empty() {
            return None;
        }
        let has_rows = recipe.rows | recipe.strided != 0 || spread || !sums.is_empty();
        // A vector of halves is not stored in part where another row follows.
        let has_halves = !has_rows || self.program.width(extent).is_multiple_of(WHOLE_VECTORS);
        for (r, &i) in results.iter().enumerate() {
            let place = instructions[i].outs[0];
            let spread = self.spread_at(i);
            recipe.spread |= u64::from(spread.is_some()) << r.min(63);
            let half = self.half_at(i).filter(|_| has_halves);
            recipe.halves.extend(half.map(|(_, to)| (r, to)));
            outs.push(spread.or(half.map(|(k, _)| k)).map_or(place, Place::Result));
        }
        recipe.has_short_rows = sums_of_rows > 0 && is_short(self.program.n);
        recipe.sums = sums[..made_sums].iter().map(|i| maker(i).and_then(steps)).collect::<Option<_>>()?;
        if sums_of_rows == sums.len() {
            recipe.sums.extend(others);
        } else {
            recipe.columns = self.columns_of(others, &places)?;
        }
        (recipe.args, recipe.numbers) = (places.len(), numbers.len());
        recipe.prefetches = self.prefetches.len();
        let kernel = T::machine(&recipe)?;
        let pool = kernel.pool(&numbers)?;
        outs.extend(sums.iter().filter_map(|i| match instructions[*i].code {
            Code::Columns(k) => Some(Place::Columns(k)),
            Code::ReduceTile(_) => Some(instructions[*i].outs[0]),
            _ => self.sums[*i],
        }));
        let code = Code::Machine(kernel, pool);
        Some(Compiled {
            instruction: Instruction {
                code,
                args: places,
                params: smallvec![],
                outs,
                extent,
                prefetches: self.prefetches.clone(),
            },
            sums,
        })
    }
}
