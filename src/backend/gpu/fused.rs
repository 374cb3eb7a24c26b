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
use crate::formula::blocks::Blocks;
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
    let read_tensor = |k: &usize| formula.reads(*k) && matches!(operands[*k], Operand::View(_));
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
    let arguments: SmallVec<[usize; 8]> = (0..operands.len()).filter(read_tensor).collect();
    let walk = Walk { tensors, arguments: &arguments, shape: &shape, strides: &strides, n };
    let vectors = match (outs.iter().all(in_order), outs) {
        (true, [out]) if gpu.caps.is_cpu && gpu.caps.int64 => {
            walk.in_blocks(formula, *out).or_else(|| walk.in_fours(*out))
        }
        (true, [out]) => walk.in_fours(*out),
        _ => None,
    };
    let form = vectors.unwrap_or_else(|| match outs.iter().all(in_order) {
        true if tensors.iter().all(|v| v.layout.is_contiguous()) => Form::Dense,
        true => Form::Strided(rank),
        false => Form::Scattered(rank),
    });
    // Elements per invocation along the last dimension, and rows.
    let (run, rows) = match form {
        Form::Quads | Form::Rows(..) => (4, 1),
        Form::Blocks(b) => (b.run, b.rows),
        Form::Dense | Form::Strided(_) | Form::Scattered(_) => (1, 1),
    };
    let mut p = Params::new(n.div_ceil(run * rows) as u32);
    for s in numbers {
        p.number(*s, compute);
    }
    for (k, o) in operands.iter().enumerate() {
        if let (Operand::Number(s), true) = (o, formula.reads(k)) {
            p.number(*s, compute);
        }
    }
    // Elements per unit of a tensor's offset and strides: those of a vector that it is read in.
    let unit = |v: &View, k: usize| match form {
        Form::Rows(_, splat) if splat >> k & 1 == 0 => 4,
        Form::Blocks(b) if !b.is_splat(k) => b.vector(v.dtype),
        _ => 1,
    };
    let units: SmallVec<[usize; 8]> = tensors.iter().zip(&arguments).map(|(v, k)| unit(v, *k)).collect();
    for (v, unit) in tensors.iter().zip(&units) {
        p.u32((v.layout.offset / unit) as u32);
    }
    for v in outs {
        let per_word = match form {
            Form::Scattered(_) => 1,
            Form::Blocks(b) => b.vector(v.dtype),
            _ => lanes(v.dtype).0,
        };
        p.u32((v.layout.offset / per_word) as u32);
    }
    if form.rank() > 0 {
        // A single element has no dimensions; use one of size 1.
        (0..rank).for_each(|d| {
            let size = shape.get(d).copied().unwrap_or(1);
            p.u32((size / [run, rows, 1][(rank - 1 - d).min(2)]) as u32);
        });
        let stored = if let Form::Scattered(_) = form { strides.len() } else { tensors.len() };
        for (k, strides) in strides[..stored].iter().enumerate() {
            let unit = units.get(k).map_or(1, |u| *u as isize);
            (0..rank).for_each(|d| {
                let stride = strides.get(d).copied().unwrap_or(0);
                p.u32(if d + 1 == rank { stride } else { stride / unit } as u32);
            });
        }
    }
    ensure!(
        p.bytes().len() <= MAX_PARAMS,
        Runtime,
        "{name}: the strides of {rank} dimensions are more than a GPU takes; make the tensors contiguous"
    );
    let (tag, rank, masks) = match form {
        Form::Dense => (0, 0, [0; 4]),
        Form::Strided(rank) => (1, rank as u8, [0; 4]),
        Form::Scattered(rank) => (2, rank as u8, [0; 4]),
        Form::Quads => (3, 0, [0; 4]),
        Form::Rows(rank, splat) => (4, rank as u8, [splat, 0, 0, 0]),
        Form::Blocks(b) => (5, b.rank as u8, [b.splat, b.once, b.level, b.run as u8]),
    };
    let mut variant: SmallVec<[u8; KEY]> = SmallVec::new();
    variant.extend(formula.identity().to_le_bytes());
    variant.extend([numbers.len() as u8, compute as u8, tag, rank, results.len() as u8]);
    variant.extend(masks);
    variant.extend(results.iter().map(|d| *d as u8));
    variant.extend(inputs.iter().map(input_tag));
    let source = || {
        let shader =
            Pointwise { formula, inputs: &inputs, params: numbers.len(), compute, results: &results, form };
        shader.render().map_err(|why| not_here(gpu, name, &why))
    };
    let at_once = if let Form::Scattered(_) = form { 1 } else { elements_at_once(&results).max(run * rows) };
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

/// The tensors that a formula reads, as they are walked in the order of the result.
struct Walk<'a> {
    tensors: &'a [View<'a>],
    /// Their numbers in the formula.
    arguments: &'a [usize],
    shape: &'a [usize],
    strides: &'a [SmallVec<[isize; 6]>],
    n: usize,
}

/// The fewest elements for blocks: below, compiling more pipelines would not pay off.
const BLOCKS: usize = 1 << 16;

/// The most steps of a formula that is computed in blocks, where it stands once for each element.
const UNROLLED: usize = 24;

impl Walk<'_> {
    fn are_dense(&self) -> bool {
        self.tensors.iter().all(|v| v.layout.is_contiguous())
    }

    /// The mask of the tensors with one element for the last dimension, if all others are in vectors of `by` elements along it.
    fn splats(&self, by: usize) -> Option<u8> {
        let last = self.shape.len().checked_sub(1).filter(|d| self.shape[*d].is_multiple_of(by))?;
        let mut splat = 0;
        for ((v, strides), k) in self.tensors.iter().zip(self.strides).zip(self.arguments) {
            let whole = || {
                let rows = strides[..last].iter().all(|s| s % by as isize == 0);
                rows && v.layout.offset.is_multiple_of(by)
            };
            match strides[last] {
                _ if v.dtype.size() != 4 || *k >= u8::BITS as usize => return None,
                0 => splat |= 1 << k,
                1 if whole() => {}
                _ => return None,
            }
        }
        Some(splat)
    }

    /// The form in which an invocation computes four elements.
    fn in_fours(&self, out: View) -> Option<Form> {
        let whole = |v: &View| v.dtype.size() == 4 && v.layout.offset.is_multiple_of(4);
        if !whole(&out) || !owns_its_words(out, 4, self.n) {
            return None;
        }
        if self.are_dense() {
            return self.tensors.iter().all(whole).then_some(Form::Quads);
        }
        self.splats(4).map(|splat| Form::Rows(self.shape.len(), splat))
    }

    /// The form in which an invocation computes several rows of eight elements, for short formulas of rows.
    fn in_blocks(&self, formula: &Formula, out: View) -> Option<Form> {
        let (run, rows, rank) = (8, 4, self.shape.len());
        let short = formula.steps().len() <= UNROLLED && formula.is_simple();
        let fits = rank >= 2
            && self.n >= BLOCKS
            && out.dtype.size() == 4
            && out.layout.offset.is_multiple_of(run)
            && self.shape[rank - 2].is_multiple_of(rows);
        if !short || !fits || self.are_dense() {
            return None;
        }
        let splat = self.splats(run)?;
        let once = |(k, strides): (&usize, &SmallVec<[isize; 6]>)| u8::from(strides[rank - 2] == 0) << k;
        let once = self.arguments.iter().zip(self.strides).map(once).fold(0, |all, one| all | one);
        Some(Form::Blocks(Blocks { rank, run, rows, splat, once, level: 0 }))
    }
}
