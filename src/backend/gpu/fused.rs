//! Formulas with several results or many operands in a single launch.

use smallvec::SmallVec;

use super::device::of;
use super::params::{MAX_PARAMS, Params};
use super::pipeline::{KEY, Launch};
use super::pointwise::{input_tag, not_here, owns_its_words};
use super::window::{fits, pieces};
use crate::backend::View;
use crate::backend::pointwise::Operand;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::Result;
use crate::formula::Formula;
use crate::formula::template::lanes;
use crate::formula::wgsl::{Form, Input, Pointwise, elements_at_once};
use crate::layout::collapse_all;

/// Invocations per workgroup in `shaders/pointwise.wgsl`.
const GROUP: usize = 64;

/// Applies a formula to operands expanded to the shape of the results.
///
/// # Errors
/// `NotImplementedError` if the adapter lacks a type or bindings, or the shaders lack a function for that type.
pub fn run(
    name: &'static str,
    formula: &Formula,
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    outs: &[View],
) -> Result<()> {
    if outs[0].layout.numel() == 0 {
        return Ok(());
    }
    let gpu = of(outs[0])?;
    let read = |k: &usize| formula.reads(*k) && matches!(operands[*k], Operand::View(_));
    let views: SmallVec<[View; 8]> = outs
        .iter()
        .copied()
        .chain((0..operands.len()).filter(read).filter_map(|k| match operands[k] {
            Operand::View(v) => Some(v),
            _ => None,
        }))
        .collect();
    if fits(gpu, &views) {
        return launch(name, formula, compute, operands, numbers, outs, &views[outs.len()..]);
    }
    pieces(gpu, name, &views, &mut |piece| {
        launch(name, formula, compute, operands, numbers, &piece[..outs.len()], &piece[outs.len()..])
    })
}

/// As [`run`], in one launch; `tensors` are the operands that are read.
fn launch(
    name: &'static str,
    formula: &Formula,
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    outs: &[View],
    tensors: &[View],
) -> Result<()> {
    let (gpu, n) = (of(outs[0])?, outs[0].layout.numel());
    gpu.expect(name, compute)?;
    for v in outs.iter().chain(tensors) {
        gpu.expect(name, v.dtype)?;
    }
    ensure!(
        outs.len() + tensors.len() <= gpu.caps.max_buffers,
        NotImplemented,
        "'{name}' reads and writes {} tensors, and {} binds {} at a time",
        outs.len() + tensors.len(),
        gpu.caps.name,
        gpu.caps.max_buffers
    );
    let inputs: SmallVec<[Input; 8]> = operands
        .iter()
        .enumerate()
        .map(|(k, o)| match o {
            _ if !formula.reads(k) => Input::Unread,
            Operand::View(v) => Input::Tensor(v.dtype),
            Operand::Number(_) => Input::Number,
            Operand::Unread => Input::Unread,
        })
        .collect();
    let results: SmallVec<[DType; 4]> = outs.iter().map(|v| v.dtype).collect();
    let strides: SmallVec<[&[isize]; 8]> =
        tensors.iter().chain(outs).map(|v| &v.layout.strides[..]).collect();
    let (shape, strides) = collapse_all(&outs[0].layout.shape, &strides);
    let rank = shape.len().max(1);
    let in_order = |v: &View| v.layout.is_contiguous() && owns_its_words(*v, lanes(v.dtype).0, n);
    let form = match outs.iter().all(in_order) {
        true if tensors.iter().all(|v| v.layout.is_contiguous()) => Form::Dense,
        true => Form::Strided(rank),
        false => Form::Scattered(rank),
    };
    let mut p = Params::new(n as u32);
    for s in numbers {
        p.number(*s, compute);
    }
    for (k, o) in operands.iter().enumerate() {
        if let (Operand::Number(s), true) = (o, formula.reads(k)) {
            p.number(*s, compute);
        }
    }
    for v in tensors {
        p.u32(v.layout.offset as u32);
    }
    for v in outs {
        let per_word = if let Form::Scattered(_) = form { 1 } else { lanes(v.dtype).0 };
        p.u32((v.layout.offset / per_word) as u32);
    }
    if form != Form::Dense {
        // A single element has no dimensions; use one of size 1.
        (0..rank).for_each(|d| {
            p.u32(shape.get(d).copied().unwrap_or(1) as u32);
        });
        let stored = if let Form::Scattered(_) = form { strides.len() } else { tensors.len() };
        for strides in &strides[..stored] {
            (0..rank).for_each(|d| {
                p.u32(strides.get(d).copied().unwrap_or(0) as u32);
            });
        }
    }
    ensure!(
        p.bytes().len() <= MAX_PARAMS,
        Runtime,
        "{name}: the strides of {rank} dimensions are more than a GPU takes; make the tensors contiguous"
    );
    let (tag, rank) = match form {
        Form::Strided(rank) => (1, rank as u8),
        Form::Scattered(rank) => (2, rank as u8),
        _ => (0, 0),
    };
    let mut variant: SmallVec<[u8; KEY]> = SmallVec::new();
    variant.extend(formula.identity().to_le_bytes());
    variant.extend([numbers.len() as u8, compute as u8, tag, rank, results.len() as u8]);
    variant.extend(results.iter().map(|d| *d as u8));
    variant.extend(inputs.iter().map(input_tag));
    let source = || {
        let shader =
            Pointwise { formula, inputs: &inputs, params: numbers.len(), compute, results: &results, form };
        shader.render().map_err(|why| not_here(gpu, name, &why))
    };
    let at_once = if let Form::Scattered(_) = form { 1 } else { elements_at_once(&results) };
    gpu.launch(Launch {
        op: name,
        kernel: name,
        variant: &variant,
        source: &source,
        written: outs,
        read: tensors,
        params: &p,
        groups: n.div_ceil(at_once).div_ceil(GROUP),
    })
}
