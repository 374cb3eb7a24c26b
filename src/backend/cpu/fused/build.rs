//! The instructions of a group's calls.

use bytemuck::Zeroable;
use smallvec::{SmallVec, smallvec};

use super::program::{Buffer, Code, Extent, Fill, Instruction, Place, Program, identity};
use super::types::Grouped;
use crate::backend::cpu::copy::StridedCursor;
use crate::backend::cpu::pointwise::OperandAccess;
use crate::backend::group::{Group, Level, Value, Work};
use crate::dtype::{Element as _, Scalar};
use crate::formula::{ARGS, Formula};

/// Assigns places to values while instructions are made.
pub(super) struct Builder<'g, 'a, T: Grouped> {
    group: &'g Group<'a>,
    pub(super) program: Program<T>,
    access: &'g [OperandAccess<'a>],
    operands: Vec<Option<Place>>,
    repeated: Vec<(Place, Extent, Place)>,
    constants: Vec<(T, Extent, Place)>,
    /// By part of rows, where it is copied.
    parts: Vec<Place>,
    /// By instruction, the formula of a pointwise operation.
    pub(super) formulas: Vec<Option<&'a Formula>>,
}

impl<'g, 'a, T: Grouped> Builder<'g, 'a, T> {
    pub(super) fn new(group: &'g Group<'a>, program: Program<T>, access: &'g [OperandAccess<'a>]) -> Self {
        Builder {
            group,
            program,
            access,
            operands: vec![None; group.operands.len()],
            repeated: Vec::new(),
            constants: Vec::new(),
            parts: Vec::new(),
            formulas: Vec::new(),
        }
    }

    fn buffer(&mut self, extent: Extent, fill: Fill) -> usize {
        self.program.buffers.push(Buffer { extent, fill });
        self.program.buffers.len() - 1
    }

    fn push(
        &mut self,
        code: Code<T>,
        args: SmallVec<[Place; 4]>,
        params: SmallVec<[T; 3]>,
        extent: Extent,
    ) -> Place {
        let out = Place::Buffer(self.buffer(extent, Fill::Nothing));
        self.program.instructions.push(Instruction {
            code,
            args,
            params,
            outs: smallvec![out],
            extent,
            prefetches: smallvec![],
        });
        self.formulas.push(None);
        out
    }

    /// As `push`, for a pointwise operation.
    fn map(
        &mut self,
        formula: &'a Formula,
        code: Code<T>,
        args: SmallVec<[Place; 4]>,
        params: SmallVec<[T; 3]>,
        extent: Extent,
    ) -> Place {
        let out = self.push(code, args, params, extent);
        if let Some(last) = self.formulas.last_mut() {
            *last = Some(formula);
        }
        out
    }

    /// The place of an argument of a call that takes so many values of each row.
    fn place(&mut self, v: Value, extent: Extent) -> Option<Place> {
        let (place, of) = match v {
            Value::Number(s) => return Some(self.number(s, extent)),
            Value::Produced => (Place::Produced, Extent::Elements),
            Value::Call(c) => (self.program.places[c], Extent::of(self.group.calls[c].level)),
            Value::Part(c, from) => {
                let part = (self.program.places[c], from);
                let known = self.program.parts.iter().position(|p| *p == part);
                let place = known.and_then(|k| self.parts.get(k).copied()).unwrap_or_else(|| {
                    self.program.parts.push(part);
                    let code = Code::Part(self.program.parts.len() - 1);
                    let place = self.push(code, smallvec![part.0], smallvec![], Extent::Parts);
                    self.parts.push(place);
                    place
                });
                (place, Extent::Parts)
            }
            Value::Operand(k) => (self.operand(k), Extent::of(self.group.operands[k].level)),
        };
        let repeated = match (of, extent) {
            _ if of == extent => return Some(place),
            (Extent::Rows, _) => Code::Repeat,
            (Extent::Tile, Extent::Elements) => Code::EachRow,
            _ => return None,
        };
        let same = |(of, to, _): &&(Place, Extent, Place)| (*of, *to) == (place, extent);
        if let Some((.., known)) = self.repeated.iter().find(same) {
            return Some(*known);
        }
        let repeated = self.push(repeated, smallvec![place], smallvec![], extent);
        self.repeated.push((place, extent, repeated));
        Some(repeated)
    }

    fn number(&mut self, s: Scalar, extent: Extent) -> Place {
        let number = T::number(s);
        // By bits: zeros of both signs are two numbers.
        let same = |(c, of, _): &&(T, Extent, Place)| {
            bytemuck::bytes_of(c) == bytemuck::bytes_of(&number) && *of == extent
        };
        if let Some((.., place)) = self.constants.iter().find(same) {
            return *place;
        }
        let place = Place::Buffer(self.buffer(extent, Fill::Number(s)));
        self.constants.push((number, extent, place));
        place
    }

    /// The elements after which blocks may begin.
    fn repeating_rows(&self) -> usize {
        let rows = if self.program.column_blocks.is_some() { 1 } else { self.program.blocks.aligned() };
        self.program.n * rows
    }

    fn operand(&mut self, k: usize) -> Place {
        if let Some(place) = self.operands[k] {
            return place;
        }
        let extent = Extent::of(self.group.operands[k].level);
        let place = match self.access[k] {
            OperandAccess::Direct(_) => Place::Operand(k),
            // One element for all, such as a total.
            OperandAccess::Period(view, 1) if view.layout.numel() > 0 => {
                let mut one = [T::Stored::zeroed()];
                StridedCursor::new(view, 0).read::<T::Stored>(&mut one);
                self.number(one[0].to_scalar(), extent)
            }
            OperandAccess::Period(_, period)
                if extent == Extent::Elements && self.repeating_rows().is_multiple_of(period) =>
            {
                Place::Buffer(self.buffer(extent, Fill::Operand(k)))
            }
            _ => self.push(Code::Load(k), smallvec![], smallvec![], extent),
        };
        self.operands[k] = Some(place);
        place
    }

    pub(super) fn call(&mut self, at: usize) -> Option<Place> {
        let call = &self.group.calls[at];
        let extent = Extent::of(call.level);
        // A reduction reads elements, a pointwise call per row reads values per row.
        let taken = if matches!(call.work, Work::Reduce(_)) { Extent::Elements } else { extent };
        let args =
            call.args.iter().map(|v| self.place(*v, taken)).collect::<Option<SmallVec<[Place; 4]>>>()?;
        if args.len() > ARGS {
            return None;
        }
        let none = SmallVec::new();
        let place = match call.work {
            Work::Pass => match args[..] {
                [place] => place,
                _ => return None,
            },
            Work::Map { kernel, formula, params } => {
                let params = params.iter().map(|s| T::number(*s)).collect();
                match (T::same(kernel), T::truth(kernel)) {
                    (Some(l), _) => self.map(formula, Code::Same(l), args, params, extent),
                    (None, Some(l)) => self.map(formula, Code::Truth(l), args, params, extent),
                    (None, None) => return None,
                }
            }
            Work::Reduce(op) if call.level == Level::Total => {
                self.program.totals.push((at, T::reduction(op)?));
                self.push(Code::Run(self.program.totals.len() - 1), args, none, extent)
            }
            Work::Reduce(op) if call.level == Level::Columns => {
                self.program.columns.push((at, T::columns(op)?));
                self.push(Code::Columns(self.program.columns.len() - 1), args, none, extent)
            }
            Work::Reduce(op) if call.level == Level::Tile => {
                let reduction = T::columns(op)?;
                // Of an operand whose rows are apart, so that a kernel reads these where they lie.
                let of_operand = matches!(call.args[0], Value::Operand(k) if self.program.apart[k].is_some());
                let args = match of_operand && reduction.is_sum && T::is_compiled(identity()) {
                    true => smallvec![self.map(identity(), Code::Pass, args, none, Extent::Elements)],
                    false => args,
                };
                self.push(Code::ReduceTile(reduction), args, SmallVec::new(), extent)
            }
            Work::Reduce(op) => self.push(Code::Reduce(T::reduction(op)?), args, none, extent),
            Work::Softmax(kind) => self.push(Code::Softmax(T::softmax(kind)?), args, none, extent),
            Work::SoftmaxBackward(kind) => {
                self.push(Code::SoftmaxBackward(T::softmax_backward(kind)?), args, none, extent)
            }
        };
        Some(match call.rounded {
            Some(to) => self.push(Code::Round(to, T::rounding(to)?), smallvec![place], smallvec![], extent),
            None => place,
        })
    }
}
