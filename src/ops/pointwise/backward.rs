//! The node of all pointwise operations: its saved tensors, its fused derivatives, and their replay as operations.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::{Arg, PointwiseOp, Rounds, empty_among, operand};
use crate::backend::pointwise::{Operand, SMALL_NUMEL, SmallOperand, compute_type, run, run_few};
use crate::bail;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::formula::record::{Prim, Step};
use crate::formula::{ARGS, Formula};
use crate::graph::{
    Attribute, Cx, Edges, Function, Grads, ModeGuard, Operands, Recipe, SavedTensor, Visit, grad_enabled,
    record,
};
use crate::layout::Layout;
use crate::ops::{interpreter, rows};
use crate::tensor::Tensor;

/// The node of a pointwise operation.
pub(super) struct PointwiseBackward {
    row: &'static PointwiseOp,
    /// Saved values of the inputs, then of the result. Operations with three inputs must not read their result
    /// (tested).
    kept: [Kept; PLACES],
    /// The number of inputs.
    count: u8,
    params: SmallVec<[Scalar; 1]>,
    /// The compute type.
    common: DType,
    /// A derivative reads a number that PyTorch saves as a tensor, and which can therefore be freed.
    reads_number: bool,
    /// Whether the node has run and such a number was freed.
    freed: AtomicBool,
}

/// The maximum number of inputs of an operation.
const PLACES: usize = ARGS - 2;

/// The saved operands of a derivative at their positions: after the gradient the inputs, then the result.
type Saved = [Option<Tensor>; ARGS];

/// The saved form of an input.
enum Kept {
    Tensor(SavedTensor),
    Number(Scalar),
    /// In the last place, where nothing else is: the operands of the recipe.
    Operands(Operands),
    Nothing,
}

impl Kept {
    #[inline]
    fn get(&self, cx: &Cx) -> Result<Option<Tensor>> {
        match self {
            Kept::Tensor(s) => s.try_get(cx),
            _ => Ok(None),
        }
    }
}

impl PointwiseBackward {
    /// A node without saved values.
    #[inline(always)]
    pub(super) fn new(row: &'static PointwiseOp, args: &[Arg], params: &[Scalar], common: DType) -> Self {
        PointwiseBackward {
            row,
            kept: [const { Kept::Nothing }; PLACES],
            count: args.len() as u8,
            params: SmallVec::from_slice(params),
            common,
            reads_number: false,
            freed: AtomicBool::new(false),
        }
    }

    /// Saves the values that the required derivatives read.
    #[inline(always)]
    pub(super) fn keep(&mut self, args: &[Arg], y: &Tensor) {
        let plan = self.row.plan();
        let read = args.iter().zip(&plan.reads).fold(0, |bits, (a, reads)| match a {
            Arg::T(t) if t.requires_grad() => bits | reads,
            _ => bits,
        });
        for i in plan.saving.map(usize::from) {
            let (Some(a), Some(kept)) = (args.get(i), self.kept.get_mut(i)) else { continue };
            let is_read = read >> (i + 1) & 1 == 1;
            match *a {
                Arg::S(s) => {
                    // PyTorch converts a number with an edge to a tensor.
                    self.reads_number |= is_read && self.row.numbers_have_edges(i);
                    *kept = Kept::Number(s);
                }
                Arg::T(t) if is_read => {
                    *kept = Kept::Tensor(SavedTensor::unused());
                    if let Kept::Tensor(saved) = kept {
                        saved.put_input(t);
                    }
                }
                Arg::T(_) => (),
            }
        }
        if read >> (args.len() + 1) & 1 == 1
            && let Some(result) = self.kept.get_mut(args.len())
        {
            *result = Kept::Tensor(SavedTensor::output(y));
        }
        let tensors = args.iter().enumerate().filter_map(|(i, a)| match a {
            Arg::T(t) => Some((*t, read >> (i + 1) & 1 == 1)),
            Arg::S(_) => None,
        });
        if let (true, Some(free @ Kept::Nothing)) = (args.len() < PLACES, self.kept.last_mut()) {
            let operands = Operands::of(y, tensors);
            if !operands.is_empty() {
                *free = Kept::Operands(operands);
            }
        }
    }

    #[inline(always)]
    fn inputs(&self) -> &[Kept] {
        &self.kept[..usize::from(self.count).min(PLACES)]
    }

    /// The inputs that have an edge, in order.
    #[inline]
    fn edges(&self) -> impl Iterator<Item = usize> {
        let has_edge = |i: &usize| match self.kept[*i] {
            Kept::Number(_) => self.row.numbers_have_edges(*i),
            _ => true,
        };
        (0..self.inputs().len()).filter(has_edge)
    }

    /// The fast path for small operands that need no conversion: each has the shape of the result or is a number. None
    /// for others.
    #[inline]
    fn backward_few(&self, cx: &Cx, g: &Tensor, saved: &Saved) -> Option<Grads> {
        let n = g.numel();
        if n > SMALL_NUMEL {
            return None;
        }
        let plan = self.row.plan();
        let gradient = few(g, g)?;
        let result = self.inputs().len() + 1;
        let mut out = Grads::new();
        for k in self.edges() {
            if !cx.needs(out.len()) {
                out.push(None);
                continue;
            }
            if plan.passes >> k & 1 == 1 {
                out.push(Some(g.clone()));
                continue;
            }
            let read = |i: usize| plan.reads[k] >> i & 1 == 1;
            let mut operands = [SmallOperand::Unread; ARGS];
            operands[0] = gradient;
            for (i, kept) in self.inputs().iter().enumerate().filter(|(i, _)| read(i + 1)) {
                operands[i + 1] = match (kept, &saved[i + 1]) {
                    (Kept::Number(s), _) => SmallOperand::Number(*s),
                    (_, Some(t)) => few(t, g)?,
                    _ => return None,
                };
            }
            if read(result) {
                operands[result] = few(saved[result].as_ref()?, g)?;
            }
            let storage = run_few(&self.row.grads[k], self.common, n, &operands[..=result], &self.params)?;
            out.push(Some(g.dense_like(storage)));
        }
        Some(out)
    }

    /// A constant derivative that depends on its inputs in PyTorch's graph.
    #[cold]
    fn flat(&self, k: usize, operands: &[Option<Arg>], g: &Tensor) -> Result<Tensor> {
        if g.is_batched() {
            // Its history is that of its value, which operations record.
            return replay(&self.row.plan().grads[k], operands, &self.params, g);
        }
        let plain = ModeGuard::grad(false);
        let out = replay(&self.row.plan().grads[k], operands, &self.params, g)?;
        drop(plain);
        let reads = self.row.plan().reads[k];
        let read = (1..).zip(&operands[1..]).filter(|(i, _)| reads >> i & 1 == 1);
        let read = read.filter_map(|(i, a)| if let Some(Arg::T(t)) = a { Some((i, *t)) } else { None });
        let read: SmallVec<[(usize, &Tensor); 2]> = read.collect();
        let inputs: SmallVec<[&Tensor; 3]> = std::iter::once(g).chain(read.iter().map(|(_, t)| *t)).collect();
        record(out, &inputs, |_| Flat {
            row: self.row,
            k,
            read: read.iter().map(|(i, t)| (*i, SavedTensor::input(t))).collect(),
            params: self.params.clone(),
        })
    }

    /// Computes the derivative in one pass over memory without temporaries.
    fn fused(&self, k: usize, operands: &[Option<Arg>], g: &Tensor) -> Result<Tensor> {
        // The gradient is always passed, since kernels take their length from an operand.
        let reads = self.row.plan().reads[k] | 1;
        let read =
            || (0..).zip(operands).filter(|(i, _)| reads >> i & 1 == 1).filter_map(|(_, a)| a.as_ref());
        let shape = g.shape();
        let plain = read().all(|a| matches!(a, Arg::T(t) if t.is_contiguous()) || matches!(a, Arg::S(_)));
        let out = if plain {
            g.empty_as(self.common)?
        } else {
            empty_among(shape, read(), self.common, self.common, g.device())?
        };
        let mut expanded: [Option<Layout>; 5] = [const { None }; 5];
        for (e, a) in expanded.iter_mut().zip(operands) {
            if let Some(Arg::T(t)) = a
                && t.shape() != shape
            {
                *e = t.layout().expand(shape);
                if e.is_none() {
                    // An unpack hook returned a different tensor. The operations report what does not match.
                    return replay(&self.row.plan().grads[k], operands, &self.params, g);
                }
            }
        }
        let mut views = [Operand::Unread; 5];
        for (i, (view, a)) in views.iter_mut().zip(operands).enumerate().filter(|(i, _)| reads >> i & 1 == 1)
        {
            *view = match a {
                None => Operand::Unread,
                Some(Arg::S(s)) => Operand::Number(*s),
                Some(Arg::T(t)) => operand(t, expanded[i].as_ref(), out.device())?,
            };
        }
        let views = &views[..operands.len()];
        let formula = || &self.row.plan().grads[k];
        let program = self.row.program(self.row.grads[k], &formula);
        let done = run(&program, compute_type(self.common), views, &self.params, out.raw())?;
        ensure!(done, Error::DtypeNotImplemented { op: self.row.name, dtype: self.common });
        Ok(out)
    }
}

impl Function for PointwiseBackward {
    fn name(&self) -> &'static str {
        let number =
            self.inputs().iter().zip(self.row.torch.number_nodes).find(|(i, _)| matches!(i, Kept::Number(_)));
        match number {
            Some((_, name)) if !name.is_empty() => name,
            _ => self.row.plan().node,
        }
    }

    fn kernel(&self) -> Option<&'static str> {
        (!self.row.torch.backward.is_empty()).then_some(self.row.torch.backward)
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn recipe(&self) -> Option<Recipe> {
        let number = |kept: &Kept| if let Kept::Number(s) = kept { Some(*s) } else { None };
        let numbers: SmallVec<[Option<Scalar>; 3]> = self.inputs().iter().map(number).collect();
        let (row, params) = (self.row, self.params.clone());
        let cost = row.plan().formula.cost();
        let Some(Kept::Operands(operands)) = self.kept.last() else { return None };
        operands.recipe(cost, move |operands| {
            let mut tensors = operands.iter();
            let arg = |number: &Option<Scalar>| number.map(Arg::S).or_else(|| tensors.next().map(Arg::T));
            let args: SmallVec<[Arg; 3]> = numbers.iter().filter_map(arg).collect();
            row.run(&args, &params)
        })
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let plan = self.row.plan();
        ensure!(!self.freed.load(Ordering::Relaxed), Error::FreedGraph);
        let Some(g) = &grads[0] else { return Ok(self.edges().map(|_| None).collect()) };
        // Unpacked only once, since hooks may be involved.
        let mut saved: Saved = [const { None }; ARGS];
        let inputs = plan.saving.map(usize::from).into_iter().filter(|&i| i < self.inputs().len());
        for i in inputs.chain(self.inputs().len()..PLACES) {
            saved[i + 1] = self.kept[i].get(cx)?;
        }
        let once = matches!(self.row.meta.rounds, Rounds::Once);
        if once
            && !grad_enabled()
            && !interpreter::active()
            && let Some(out) = self.backward_few(cx, g, &saved)
        {
            return Ok(out);
        }
        // Gradient, inputs, result.
        let mut operands: [Option<Arg>; ARGS] = saved.each_ref().map(|t| t.as_ref().map(Arg::T));
        operands[0] = Some(Arg::T(g));
        for (operand, kept) in operands[1..].iter_mut().zip(self.inputs()) {
            if let Kept::Number(s) = kept {
                *operand = Some(Arg::S(*s));
            }
        }
        let count = self.inputs().len() + 2;
        let operands = &operands[..count];
        let rounds = match self.row.meta.rounds {
            Rounds::Once => false,
            Rounds::Mixed => saved.iter().flatten().any(|t| t.dtype().is_half() && t.dtype() != self.common),
            Rounds::Steps => self.common.is_half(),
        };
        // One kernel would hide the steps.
        let steps = interpreter::active() && interpreter::sees_steps(saved.iter().flatten().chain([g]));
        let mut out = Grads::new();
        for (edge, k) in self.edges().enumerate() {
            out.push(if !cx.needs(edge) {
                None
            } else if plan.passes >> k & 1 == 1 {
                Some(g.clone())
            } else if grad_enabled() && !self.row.torch.flat.is_empty() {
                Some(self.flat(k, operands, g)?)
            } else if grad_enabled() || rounds || steps {
                Some(replay(&plan.grads[k], operands, &self.params, g)?)
            } else {
                Some(self.fused(k, operands, g)?)
            });
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        let nothing = SavedTensor::unused();
        for (i, (kept, &name)) in self.inputs().iter().zip(self.row.inputs).enumerate() {
            let name = self.row.shown(name);
            match kept {
                Kept::Tensor(s) => visit(name, s),
                Kept::Nothing if self.row.derivatives_read(i) => visit(name, &nothing),
                _ => {}
            }
        }
        if self.row.derivatives_read(self.inputs().len()) {
            visit(
                self.row.shown("result"),
                if let Some(Kept::Tensor(s)) = self.kept.get(self.inputs().len()) { s } else { &nothing },
            );
        }
    }

    /// In PyTorch a condition has no edge.
    fn shown_edges(&self, edges: &Edges) -> Edges {
        edges.iter().skip(usize::from(self.row.meta.conditional)).cloned().collect()
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        let gone = self.freed.load(Ordering::Relaxed);
        for (i, (kept, &name)) in self.inputs().iter().zip(self.row.inputs).enumerate() {
            let Kept::Number(s) = *kept else { continue };
            let unbounded = self.row.meta.bounds && s.to_f64().is_infinite();
            visit(
                self.row.shown(name),
                match s {
                    _ if unbounded => Attribute::Nothing,
                    s if i > 0 && self.row.torch.number_nodes.is_empty() => Attribute::Tensor(s, gone),
                    s => Attribute::Number(s),
                },
            );
        }
        for ((name, _), &value) in self.row.params.iter().zip(&self.params) {
            visit(self.row.shown(name), Attribute::Number(value));
        }
        if let Some((name, value)) = self.row.torch.shows {
            visit(name, value);
        }
    }

    fn release(&self) {
        if self.reads_number {
            self.freed.store(true, Ordering::Relaxed);
        }
        for kept in &self.kept {
            match kept {
                Kept::Tensor(s) => s.free(),
                Kept::Operands(operands) => operands.free(),
                Kept::Number(_) | Kept::Nothing => {}
            }
        }
    }
}

/// The node of a constant derivative.
struct Flat {
    row: &'static PointwiseOp,
    /// The index of the derivative.
    k: usize,
    /// The operands that it reads, by position.
    read: SmallVec<[(usize, SavedTensor); 1]>,
    params: SmallVec<[Scalar; 1]>,
}

impl Function for Flat {
    fn name(&self) -> &'static str {
        self.row.torch.flat
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let mut out = Grads::from_elem(None, 1 + self.read.len());
        let Some(g) = &grads[0] else { return Ok(out) };
        let saved = self.read.iter().map(|(i, s)| Ok((*i, s.get(cx)?))).collect::<Result<Vec<_>>>()?;
        let mut operands: [Option<Arg>; ARGS] = [None; ARGS];
        operands[0] = Some(Arg::T(g));
        saved.iter().for_each(|(i, t)| operands[*i] = Some(Arg::T(t)));
        if cx.needs(0) {
            out[0] = Some(replay(&self.row.plan().grads[self.k], &operands, &self.params, g)?);
        }
        for (j, (_, t)) in (1..).zip(&saved) {
            out[j] = cx.needs(j).then(|| t.new_zeros(t.shape().clone())).transpose()?;
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        self.read.iter().for_each(|(_, s)| visit("self", s));
    }
}

/// A tensor as operand of a small kernel, if it has the gradient's shape and can be read in place.
#[inline(always)]
fn few<'a>(t: &'a Tensor, g: &Tensor) -> Option<SmallOperand<'a>> {
    match t.raw() {
        _ if t.shape() != g.shape() => None,
        v if t.is_contiguous() => Some(SmallOperand::Dense(v)),
        v if v.layout.is_one_element() => Some(SmallOperand::One(v)),
        _ => None,
    }
}

/// Replays recorded steps as tensor operations, which are recorded in turn.
pub(in crate::ops) fn replay(
    formula: &Formula,
    operands: &[Option<Arg>],
    params: &[Scalar],
    like: &Tensor,
) -> Result<Tensor> {
    enum Val<'a> {
        Owned(Tensor),
        Arg(Arg<'a>),
    }
    let mut values: Vec<Val> = Vec::with_capacity(formula.steps().len());
    for step in formula.steps() {
        let v = match *step {
            Step::Arg(a) => match operands.get(a) {
                Some(Some(a)) => Val::Arg(*a),
                _ => bail!(Runtime, "a derivative reads an operand that was not saved"),
            },
            Step::Param(p) => Val::Arg(Arg::S(params[p])),
            Step::Lit(v) => Val::Arg(Arg::S(Scalar::Float(v))),
            Step::Do(p, o) => {
                let args: SmallVec<[Arg; 3]> = o[..p.arity()]
                    .iter()
                    .map(|&i| match &values[i] {
                        Val::Owned(t) => Arg::T(t),
                        Val::Arg(a) => *a,
                    })
                    .collect();
                let row = prim_row(p)?;
                // Operations without a derivative are locally constant here, so nothing needs to be recorded.
                let _flat = row.grads.is_empty().then(|| ModeGuard::grad(false));
                Val::Owned(if args.iter().all(|a| matches!(a, Arg::S(_))) {
                    // If all operands are numbers, one becomes a 0-d tensor to determine the dtype.
                    let Arg::S(s) = args[0] else { bail!(Runtime, "a step without operands") };
                    let first = like.new_full([0usize; 0], s)?;
                    let mut args: SmallVec<[Arg; 3]> = args.iter().copied().collect();
                    args[0] = Arg::T(&first);
                    row.call(&args, &[])?
                } else {
                    row.call(&args, &[])?
                })
            }
        };
        values.push(v);
    }
    match formula.results().first().map(|&r| values.swap_remove(r)) {
        Some(Val::Owned(t)) => Ok(t),
        Some(Val::Arg(Arg::T(t))) => Ok(t.clone()),
        Some(Val::Arg(Arg::S(s))) => like.new_full(like.shape().clone(), s),
        None => bail!(Runtime, "an empty derivative"),
    }
}

/// The pointwise operation that computes a primitive.
pub fn prim_row(p: Prim) -> Result<&'static PointwiseOp> {
    static ROWS: OnceLock<Vec<Option<&'static PointwiseOp>>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        Prim::ALL.iter().map(|p| rows::ROWS.iter().copied().find(|r| r.name == p.row())).collect()
    });
    match Prim::ALL.iter().position(|q| *q == p).and_then(|i| rows[i]) {
        Some(row) => Ok(row),
        None => bail!(NotImplemented, "no row computes the step {}", p.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;

    #[test]
    fn a_node_fits_a_block_of_320_bytes_with_its_reference_counts() {
        assert!(size_of::<Node<PointwiseBackward>>() + 16 <= 320, "{}", size_of::<Node<PointwiseBackward>>());
    }

    #[test]
    fn what_a_derivative_of_any_row_reads_has_a_place_in_the_node() {
        for row in rows::ROWS.iter() {
            let places = row.inputs.len() + usize::from(row.derivatives_read(row.inputs.len()));
            assert!(places <= PLACES, "{}: {places} places", row.name);
        }
    }
}
