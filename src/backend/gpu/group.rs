//! Groups of deferred operations as one formula: see Note [Groups].

use smallvec::SmallVec;

use super::device::of;
use super::entry::Wgpu;
use super::params::MAX_PARAMS;
use crate::backend::View;
use crate::backend::group::{Call, Group, Level, Value, Work};
use crate::backend::interface::Backend;
use crate::backend::pointwise::Operand;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::compose::Composer;
use crate::layout::Layout;

/// The most steps of a shader: drivers compile longer ones for seconds.
const MOST_STEPS: usize = 400;

/// Computes a group of calls per element in one launch; false if it has other calls, or more tensors than an adapter binds.
pub fn run(group: &Group) -> Result<bool> {
    let plain = |c: &Call| {
        c.level == Level::Elements && matches!(c.work, Work::Map { .. } | Work::Pass) && c.rounded.is_none()
    };
    if group.compute != DType::F32 || !group.calls.iter().all(plain) {
        return Ok(false);
    }
    let Some(views) = alike(group) else { return Ok(false) };
    let (operands, outs) = views.split_at(group.operands.len());
    let mut composer = Composer::default();
    let mut numbers: Vec<Scalar> = Vec::new();
    let mut values: Vec<usize> = Vec::with_capacity(group.calls.len());
    for call in group.calls {
        let mut args: SmallVec<[usize; 4]> = SmallVec::new();
        for arg in &call.args {
            args.push(match *arg {
                Value::Operand(k) => composer.arg(k),
                Value::Call(k) => values[k],
                Value::Number(s) => number(s, &mut numbers, &mut composer),
            });
        }
        let value = match &call.work {
            Work::Map { formula, params, .. } => {
                let params: SmallVec<[usize; 4]> =
                    params.iter().map(|s| number(*s, &mut numbers, &mut composer)).collect();
                composer.call(formula, &args, &params)
            }
            _ => args.first().copied(),
        };
        let Some(value) = value else { return Ok(false) };
        values.push(value);
    }
    let results: SmallVec<[usize; 4]> = group.results.iter().map(|(call, _)| values[*call]).collect();
    let formula = composer.finish(&results);
    let read = (0..operands.len()).filter(|k| formula.reads(*k)).count();
    let tensors = read + outs.len();
    // The count, the sizes, and for each tensor the offset and the strides.
    let words = 2 + numbers.len() + views[0].layout.shape.len() * (1 + tensors) + tensors;
    if formula.steps().len() > MOST_STEPS
        || tensors > of(outs[0].of)?.caps.max_buffers
        || words * size_of::<f32>() > MAX_PARAMS
    {
        return Ok(false);
    }
    let operands: Vec<Operand> = operands.iter().map(|l| Operand::View(l.view())).collect();
    let outs: SmallVec<[View; 4]> = outs.iter().map(Placed::view).collect();
    Wgpu.pointwise_all("fused", &formula, &|_| None, group.compute, &operands, &numbers, &outs)?;
    Ok(true)
}

/// A number as a parameter, so that the shader does not depend on it.
fn number(s: Scalar, numbers: &mut Vec<Scalar>, composer: &mut Composer) -> usize {
    numbers.push(s);
    composer.param(numbers.len() - 1)
}

/// A tensor with the layout that a launch takes.
struct Placed<'a> {
    of: View<'a>,
    layout: Layout,
}

impl Placed<'_> {
    fn view(&self) -> View<'_> {
        View { layout: &self.layout, ..self.of }
    }
}

/// The operands and results as tensors of one shape; None where their elements are in the same order, but their shapes
/// are not the same and their strides need them.
fn alike<'a>(group: &Group<'a>) -> Option<Vec<Placed<'a>>> {
    let views: Vec<View<'a>> =
        group.operands.iter().map(|o| o.view).chain(group.results.iter().map(|(_, v)| *v)).collect();
    let shape = &views.iter().find(|v| !v.layout.is_contiguous()).unwrap_or(&views[0]).layout.shape;
    let placed = |of: View<'a>| {
        let layout = match of.layout.shape == *shape {
            true => of.layout.clone(),
            false if of.layout.is_contiguous() && of.layout.numel() == group.numel => {
                Layout { offset: of.layout.offset, ..Layout::contiguous(shape.clone()) }
            }
            false => return None,
        };
        Some(Placed { of, layout })
    };
    views.into_iter().map(placed).collect()
}
