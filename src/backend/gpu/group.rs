//! Groups of deferred operations as few launches: see Note [Groups].
//!
//! The calls of a group are composed into formulas. A reduction is one launch, whose formula computes the elements that it
//! reduces from the operands in memory and from earlier reductions; the results of the elements are one more. So what a
//! call per element computes is computed anew in each launch that needs it, and never stored for another. What alone uses a
//! reduction, such as the quotient that makes a mean of a sum, is computed and stored in its launch.

use smallvec::SmallVec;

use super::device::of;
use super::entry::Wgpu;
use super::params::MAX_PARAMS;
use crate::backend::View;
use crate::backend::group::{Group, Level, Value, Work};
use crate::backend::interface::Backend;
use crate::backend::pointwise::{Applied, Kernel, Operand};
use crate::backend::reduce::{Fold, ReduceDims, ReduceOp};
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::formula::compose::Composer;
use crate::layout::{Dims, Layout, collapse};
use crate::storage::Storage;

/// The most steps of a shader: drivers compile longer ones for seconds.
const MOST_STEPS: usize = 400;

/// The operands of a formula that is applied to a reduction: the shader replaces the number by the reduced value.
const REDUCED: [Operand<'static>; 1] = [Operand::Number(Scalar::Int(0))];

/// Computes a group; false if it has calls that shaders lack, or more tensors than an adapter binds.
pub fn run(group: &Group) -> Result<bool> {
    let Some(mut launches) = Launches::of(group) else { return Ok(false) };
    if !launches.fit(group)? {
        return Ok(false);
    }
    for at in 0..group.calls.len() {
        launches.call(group, at)?;
    }
    launches.store(group)?;
    Ok(true)
}

/// A tensor of the group, with the shape that all have.
struct Placed {
    storage: Storage,
    layout: Layout,
    dtype: DType,
}

impl Placed {
    #[inline]
    fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: self.dtype }
    }

    /// The values per row without the elements of the row.
    fn per_row(&self) -> Layout {
        Layout {
            shape: Dims::from(&self.layout.shape[..1]),
            strides: self.layout.strides[..1].into(),
            offset: self.layout.offset,
        }
    }
}

struct Launches {
    device: Device,
    /// The shape of all operands and of the results per element: `[rows, n]` if there are rows.
    shape: Dims,
    /// The operands in memory, then the results of reductions per row.
    operands: Vec<Placed>,
    results: Vec<Placed>,
    composer: Composer,
    numbers: Vec<Scalar>,
    /// By call: the step that computes it. A total is no value for calls of other launches.
    values: Vec<Option<usize>>,
    /// By call: whether the launch of a reduction has computed it.
    done: Vec<bool>,
}

impl Launches {
    /// The operands and results in place; None if the group is not of the kind that shaders compute, or the elements of some
    /// tensor have no place in the common shape.
    fn of(group: &Group) -> Option<Launches> {
        let plain = group.calls.iter().all(|c| {
            let complete = match c.work {
                Work::Map { formula, params, .. } => {
                    formula.args() <= c.args.len() && formula.params() <= params.len()
                }
                Work::Pass | Work::Reduce(_) => c.args.len() == 1,
                Work::Softmax(_) | Work::SoftmaxBackward(_) => false,
            };
            complete && c.rounded.is_none()
        });
        if group.compute != DType::F32 || !plain {
            return None;
        }
        let operands = group.operands.iter().map(|o| (o.view, o.level));
        let results = group.results.iter().map(|(call, v)| (*v, group.calls[*call].level));
        let views: Vec<(View, Level)> = operands.chain(results).collect();
        let elements = || views.iter().filter(|(_, level)| *level == Level::Elements);
        let shape = match group.n {
            0 => {
                let (first, _) = elements().find(|(v, _)| !v.layout.is_contiguous()).or(elements().next())?;
                first.layout.shape.clone()
            }
            n => Dims::from([group.numel / n, n]),
        };
        let place = |(v, level): &(View, Level)| {
            let layout = match level {
                Level::Total => Layout::contiguous(Dims::from([1])),
                Level::Rows => {
                    Layout { shape: shape.clone(), ..by_rows(v.layout, group.numel / group.n, 1)? }
                }
                Level::Elements if group.n > 0 => by_rows(v.layout, group.numel / group.n, group.n)?,
                Level::Elements if v.layout.shape == shape => v.layout.clone(),
                Level::Elements if v.layout.is_contiguous() => Layout::contiguous(shape.clone()),
                Level::Elements | Level::Parts | Level::Columns | Level::Tile => return None,
            };
            let layout = Layout { offset: v.layout.offset, ..layout };
            Some(Placed { storage: v.storage.clone(), layout, dtype: v.dtype })
        };
        let mut operands = views.iter().map(place).collect::<Option<Vec<Placed>>>()?;
        let results = operands.split_off(group.operands.len());
        let launches = Launches {
            device: group.results.first()?.1.device(),
            shape,
            operands,
            results,
            composer: Composer::default(),
            numbers: Vec::new(),
            values: vec![None; group.calls.len()],
            done: vec![false; group.calls.len()],
        };
        launches.are_apart(group).then_some(launches)
    }

    /// Whether the results that are stored before the last launch are dense and not what it reads.
    fn are_apart(&self, group: &Group) -> bool {
        group.results.iter().all(|(call, v)| {
            (group.calls[*call].level == Level::Elements)
                || v.layout.is_contiguous() && self.operands.iter().all(|o| !o.storage.overlaps(v.storage))
        })
    }

    /// Whether an adapter binds all tensors at once, and the parameters have room.
    fn fit(&self, group: &Group) -> Result<bool> {
        let Some(first) = self.operands.first().or(self.results.first()) else { return Ok(false) };
        let reductions = group.calls.iter().filter(|c| matches!(c.work, Work::Reduce(_))).count();
        let tensors = self.operands.len() + self.results.len() + reductions;
        let (mut numbers, mut steps) = (0, 0);
        for call in group.calls {
            numbers += call.args.iter().filter(|a| matches!(a, Value::Number(_))).count();
            if let Work::Map { formula, params, .. } = call.work {
                (numbers, steps) = (numbers + params.len(), steps + formula.steps().len());
            }
        }
        // The counts, the sizes, and for each tensor the offset and the strides.
        let words = 4 + numbers + self.shape.len() * (1 + tensors) + tensors;
        let caps = &of(first.view())?.caps;
        Ok(steps <= MOST_STEPS && tensors < caps.max_buffers && words * size_of::<f32>() <= MAX_PARAMS)
    }

    fn call(&mut self, group: &Group, at: usize) -> Result<()> {
        if self.done[at] {
            return Ok(());
        }
        let call = &group.calls[at];
        let mut args: SmallVec<[usize; 4]> = SmallVec::new();
        for arg in &call.args {
            args.push(match *arg {
                Value::Operand(k) => self.composer.arg(k),
                Value::Call(k) => self.values[k].ok_or_else(not_composed)?,
                Value::Part(..) | Value::Produced => return Err(not_composed()),
                Value::Number(s) => self.number(s),
            });
        }
        self.values[at] = match &call.work {
            Work::Map { formula, params, .. } => {
                let params: SmallVec<[usize; 4]> = params.iter().map(|s| self.number(*s)).collect();
                Some(self.composer.call(formula, &args, &params).ok_or_else(not_composed)?)
            }
            Work::Reduce(op) => {
                let formula = self.composer.formula(&args[..1]);
                return self.reduce(group, at, *op, &formula);
            }
            _ => args.first().copied(),
        };
        Ok(())
    }

    /// The calls that a reduction is for: the only one that uses its result, if that is of the same level and uses numbers
    /// besides, then the only one that uses that, and so on.
    fn after(&self, group: &Group, reduction: usize) -> Vec<usize> {
        let (mut chain, mut last) = (Vec::new(), reduction);
        loop {
            let is_stored = group.results.iter().any(|(call, _)| *call == last);
            let uses = |c: usize| group.calls[c].args.contains(&Value::Call(last));
            let mut users = (last + 1..group.calls.len()).filter(|c| uses(*c));
            let (Some(next), None, false) = (users.next(), users.next(), is_stored) else { return chain };
            let call = &group.calls[next];
            let alone = call.args.iter().all(|a| matches!(a, Value::Number(_)) || *a == Value::Call(last));
            if !alone || call.level != group.calls[reduction].level || matches!(call.work, Work::Reduce(_)) {
                return chain;
            }
            chain.push(next);
            last = next;
        }
    }

    /// A number as a parameter, so that the shader does not depend on it.
    fn number(&mut self, s: Scalar) -> usize {
        self.numbers.push(s);
        self.composer.param(self.numbers.len() - 1)
    }

    /// Reduces a formula, with the calls that alone use the result, into a result or new memory. Values per row become an
    /// operand.
    fn reduce(&mut self, group: &Group, at: usize, op: ReduceOp, formula: &Formula) -> Result<()> {
        let level = group.calls[at].level;
        let [rows, n] = match level {
            Level::Total => [1, self.shape.iter().product()],
            _ => [self.shape[0], self.shape[1]],
        };
        let after = self.after(group, at);
        let last = after.last().copied().unwrap_or(at);
        let (storage, offset) = match group.results.iter().position(|(call, _)| *call == last) {
            Some(k) => (self.results[k].storage.clone(), self.results[k].layout.offset),
            None => (Wgpu.allocate(self.device, rows * size_of::<f32>())?, 0),
        };
        let mut then = Composer::default();
        let mut value = then.arg(0);
        for call in after.iter().map(|c| &group.calls[*c]) {
            let mut number = |s: Scalar| {
                self.numbers.push(s);
                then.param(self.numbers.len() - 1)
            };
            let args: SmallVec<[usize; 4]> =
                call.args.iter().map(|a| if let Value::Number(s) = a { number(*s) } else { value }).collect();
            if let Work::Map { formula, params, .. } = call.work {
                let params: SmallVec<[usize; 4]> = params.iter().map(|s| number(*s)).collect();
                value = then.call(formula, &args, &params).ok_or_else(not_composed)?;
            }
        }
        let dense = Layout { offset, ..Layout::contiguous(Dims::from([rows])) };
        let (formula, read) = formula.packed();
        let operands: Vec<Operand> = read.iter().map(|k| Operand::View(self.operands[*k].view())).collect();
        let then = then.formula(&[value]);
        let applied = |formula, operands| Applied {
            name: "fused",
            kernel: Kernel::NONE,
            formula,
            primitives: &|_| None,
            operands,
            params: &self.numbers,
        };
        let fold = Fold {
            op,
            compute: DType::F32,
            shape: &self.shape,
            dims: ReduceDims::rows(rows, n),
            of: applied(&formula, &operands),
            then: (!after.is_empty()).then(|| applied(&then, &REDUCED)),
        };
        Wgpu.reduce_formula(&fold, View { storage: &storage, layout: &dense, dtype: DType::F32 })?;
        after.iter().for_each(|c| self.done[*c] = true);
        self.done[at] = true;
        if level != Level::Total {
            let layout = Layout { shape: self.shape.clone(), strides: [1, 0][..].into(), offset };
            self.operands.push(Placed { storage, layout, dtype: DType::F32 });
            self.values[last] = Some(self.composer.arg(self.operands.len() - 1));
        }
        Ok(())
    }

    /// Stores the results that no reduction has stored: those per element in one launch, those per row in another.
    fn store(&self, group: &Group) -> Result<()> {
        for level in [Level::Elements, Level::Rows] {
            let wanted = |call: &usize| group.calls[*call].level == level && !self.done[*call];
            let stored = || group.results.iter().zip(&self.results).filter(|((call, _), _)| wanted(call));
            let values = stored().map(|((call, _), _)| self.values[*call].ok_or_else(not_composed));
            let values = values.collect::<Result<SmallVec<[usize; 4]>>>()?;
            if values.is_empty() {
                continue;
            }
            let layout = |p: &Placed| if level == Level::Rows { p.per_row() } else { p.layout.clone() };
            // Without arguments that it does not read, a formula may have a launch of a faster form.
            let (formula, read) = self.composer.formula(&values).packed();
            let layouts: Vec<Layout> = read.iter().map(|k| layout(&self.operands[*k])).collect();
            let view = |(k, layout): (usize, _)| Operand::View(View { layout, ..self.operands[k].view() });
            let operands: Vec<Operand> = read.iter().copied().zip(&layouts).map(view).collect();
            let places: SmallVec<[Layout; 4]> = stored().map(|(_, p)| layout(p)).collect();
            let outs: SmallVec<[View; 4]> =
                stored().zip(&places).map(|((_, p), layout)| View { layout, ..p.view() }).collect();
            Wgpu.pointwise_all("fused", &formula, &|_| None, DType::F32, &operands, &self.numbers, &outs)?;
        }
        Ok(())
    }
}

/// The error of a group in which a call takes what no call before it has made.
#[cold]
fn not_composed() -> Error {
    Error::Runtime("a group of deferred operations is not in order".into())
}

/// A layout as `[rows, n]`, or with one element per row that is repeated `n` times; None if its strides are not of that kind.
fn by_rows(layout: &Layout, rows: usize, n: usize) -> Option<Layout> {
    let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
    let strides = match (&shape[..], &strides[..]) {
        ([], _) => [0, 0],
        ([all], [s]) if *all == rows * n => [s * n as isize, if n == 1 { 0 } else { *s }],
        ([a, b], [outer, inner]) if *a == rows && *b == n => [*outer, *inner],
        _ => return None,
    };
    Some(Layout { shape: Dims::from([rows, n]), strides: strides[..].into(), offset: layout.offset })
}
