//! The driver of all pointwise shaders: selects the form and fills in the parameters.

use smallvec::{SmallVec, smallvec};

use super::device::{Gpu, of};
use super::params::{MAX_PARAMS, Params};
use super::pipeline::{KEY, Launch};
use super::window::{fits, pieces};
use crate::backend::View;
use crate::backend::pointwise::{Kernel, Operand, Program, compute_type};
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::formula::blocks::Blocks;
use crate::formula::template::lanes;
use crate::formula::wgsl::{Form, Input, Pointwise};
use crate::formula::{ARGS, Formula, recorded};
use crate::layout::collapse;

/// Invocations per workgroup in `shaders/pointwise.wgsl`.
const GROUP: usize = 64;

/// Sizes and strides after merging adjacent dimensions: of the operands in order, then of the result.
type Collapsed = (SmallVec<[usize; 6]>, [SmallVec<[isize; 6]>; ARGS + 1]);

/// Applies a formula that exists only on this backend.
pub(super) fn formula(name: &'static str, formula: &Formula, operands: &[View], out: View) -> Result<()> {
    let operands: SmallVec<[Operand; ARGS]> = operands.iter().map(|v| Operand::View(*v)).collect();
    run(
        &Program { name, kernel: Kernel::NONE, formula: &|| formula },
        compute_type(out.dtype),
        &operands,
        &[],
        out,
    )
}

/// Applies a formula that uses all of its operands.
///
/// # Errors
/// `NotImplementedError` if the adapter lacks a type, or the shaders lack a function for that type.
pub fn run(
    program: &Program,
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    out: View,
) -> Result<()> {
    let n = out.layout.numel();
    if n == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    let views: SmallVec<[View; ARGS + 1]> = operands.iter().filter_map(read).chain([out]).collect();
    if fits(gpu, &views) {
        return whole(program, compute, operands, numbers, out);
    }
    pieces(gpu, program.name, &views, &mut |piece| {
        let Some(out) = piece.last() else { return Ok(()) };
        let mut pieces = piece.iter();
        let operands: SmallVec<[Operand; ARGS]> = operands
            .iter()
            .map(|o| match o {
                Operand::View(v) => Operand::View(*pieces.next().unwrap_or(v)),
                Operand::Number(n) => Operand::Number(*n),
                Operand::Unread => Operand::Unread,
            })
            .collect();
        whole(program, compute, &operands, numbers, *out)
    })
}

/// Minimum number of elements for blocks on a software adapter: below, compiling more pipelines would not pay off.
const BLOCKS: usize = 1 << 16;

/// The sum of two numbers.
const SUM: Program =
    Program { name: "sum_of_parts", kernel: Kernel::NONE, formula: &|| recorded!(|a| a[0] + a[1]) };

/// Adds a tensor to another one of the same shape and dtype.
pub fn add_to(out: View, x: View) -> Result<()> {
    run(&SUM, compute_type(out.dtype), &[Operand::View(out), Operand::View(x)], &[], out)
}

fn read<'a>(operand: &Operand<'a>) -> Option<View<'a>> {
    if let Operand::View(v) = operand { Some(*v) } else { None }
}

/// As `run`, in one launch.
fn whole(
    program: &Program,
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    out: View,
) -> Result<()> {
    let n = out.layout.numel();
    let gpu = of(out)?;
    gpu.expect(program.name, compute)?;
    gpu.expect(program.name, out.dtype)?;
    let mut inputs: SmallVec<[Input; ARGS]> = SmallVec::new();
    let mut views: SmallVec<[View; ARGS]> = SmallVec::new();
    for o in operands {
        inputs.push(match o {
            Operand::View(v) => {
                gpu.expect(program.name, v.dtype)?;
                views.push(*v);
                Input::Tensor(v.dtype)
            }
            Operand::Number(_) => Input::Number,
            Operand::Unread => Input::Unread,
        });
    }
    let collapsed = collapsed(operands, out);
    let form = match n >= BLOCKS && gpu.caps.is_cpu && gpu.caps.int64 {
        true => blocks(program, operands, out, &collapsed, n),
        false => None,
    };
    let form = form.unwrap_or_else(|| self::form(operands, out, &collapsed, n));
    let params = layout_params(compute, operands, numbers, out, form, &collapsed, n);
    ensure!(
        params.bytes().len() <= MAX_PARAMS,
        Runtime,
        "{}: the strides of {} dimensions are more than a GPU takes; make the tensors contiguous",
        program.name,
        collapsed.0.len()
    );
    let invocations = match form {
        Form::Quads | Form::Rows(..) => n.div_ceil(4),
        Form::Blocks(b) => n / (b.run * b.rows),
        Form::Scattered(_) => n,
        Form::Dense | Form::Strided(_) => n.div_ceil(lanes(out.dtype).0),
    };
    let formula = (program.formula)();
    let source = || {
        let shader = Pointwise {
            formula,
            inputs: &inputs,
            params: numbers.len(),
            compute,
            results: &[out.dtype],
            form,
        };
        shader.render().map_err(|why| not_here(gpu, program.name, &why))
    };
    let launch = Launch {
        op: program.name,
        kernel: program.name,
        variant: &variant(formula, numbers.len(), compute, &inputs, out.dtype, form),
        source: &source,
        written: &[out],
        read: &views,
        params: &params,
        groups: invocations.div_ceil(GROUP),
    };
    gpu.launch(launch)
}

fn collapsed(operands: &[Operand], out: View) -> Collapsed {
    let strides: [&[isize]; ARGS + 1] = std::array::from_fn(|k| match operands.get(k) {
        Some(Operand::View(v)) => &v.layout.strides[..],
        _ => &out.layout.strides[..],
    });
    collapse(&out.layout.shape, strides)
}

/// Whether the words of the result, from its first element on, contain only its elements or padding at the end.
pub(super) fn owns_its_words(out: View, lanes: usize, n: usize) -> bool {
    let (first, size) = (out.layout.offset, out.dtype.size());
    first.is_multiple_of(lanes) && (n.is_multiple_of(lanes) || (first + n) * size == out.storage.len())
}

fn form(operands: &[Operand], out: View, collapsed: &Collapsed, n: usize) -> Form {
    let rank = collapsed.0.len().max(1);
    if !out.layout.is_contiguous() || !owns_its_words(out, lanes(out.dtype).0, n) {
        return Form::Scattered(rank);
    }
    let views = || operands.iter().filter_map(read);
    let quads = |v: &View| v.dtype.size() == 4 && v.layout.offset.is_multiple_of(4);
    if views().all(|v| v.layout.is_contiguous()) {
        let in_quads = quads(&out) && views().all(|v| quads(&v)) && owns_its_words(out, 4, n);
        return if in_quads { Form::Quads } else { Form::Dense };
    }
    match splats(operands, collapsed) {
        Some(splat) if quads(&out) => Form::Rows(rank, splat),
        _ => Form::Strided(rank),
    }
}

/// The block form for a result, if its sizes allow it and the formula is short enough to be unrolled.
fn blocks(
    program: &Program,
    operands: &[Operand],
    out: View,
    (shape, strides): &Collapsed,
    n: usize,
) -> Option<Form> {
    let formula = (program.formula)();
    let short = formula.steps().len() <= 10 && formula.is_simple();
    let views = || operands.iter().enumerate().filter_map(|(k, o)| Some((k, read(o)?)));
    if !out.layout.is_contiguous() {
        return None;
    }
    let same = |v: View| v.layout.offset == out.layout.offset && v.dtype.size() == out.dtype.size();
    if views().all(|(_, v)| v.layout.is_contiguous()) {
        let run = if short { 16 } else { 8 };
        let whole = |v: View| v.layout.offset.is_multiple_of(run);
        let fits = n.is_multiple_of(run) && whole(out) && views().all(|(_, v)| whole(v));
        let level = views().filter(|(_, v)| same(*v)).fold(0, |m, (k, _)| m | 1 << k);
        return fits.then_some(Form::Blocks(Blocks { rank: 0, run, rows: 1, splat: 0, once: 0, level }));
    }
    let (run, rows) = (8, 4);
    let last = shape.len().checked_sub(1).filter(|d| *d > 0)?;
    let fits = short
        && shape[last].is_multiple_of(run)
        && shape[last - 1].is_multiple_of(rows)
        && out.layout.offset.is_multiple_of(run);
    if !fits {
        return None;
    }
    let (mut splat, mut once, mut level) = (0, 0, 0);
    for (k, v) in views() {
        let in_runs = || {
            let whole = strides[k][..last].iter().all(|s| s % run as isize == 0);
            whole && v.layout.offset.is_multiple_of(run)
        };
        match strides[k][last] {
            0 => splat |= 1 << k,
            1 if in_runs() => {}
            _ => return None,
        }
        once |= u8::from(strides[k][last - 1] == 0) << k;
        level |= u8::from(same(v) && strides[k] == strides[ARGS]) << k;
    }
    Some(Form::Blocks(Blocks { rank: shape.len(), run, rows, splat, once, level }))
}

/// The operands that are broadcast along the last dimension, if all others can be read in quads along it.
fn splats(operands: &[Operand], (shape, strides): &Collapsed) -> Option<u8> {
    let last = shape.len().checked_sub(1).filter(|d| shape[*d].is_multiple_of(4))?;
    let mut splat = 0;
    for (k, o) in operands.iter().enumerate() {
        let Operand::View(v) = o else { continue };
        let fours = || strides[k][..last].iter().all(|s| s % 4 == 0) && v.layout.offset.is_multiple_of(4);
        match strides[k][last] {
            _ if v.dtype.size() != 4 => return None,
            0 => splat |= 1 << k,
            1 if fours() => {}
            _ => return None,
        }
    }
    Some(splat)
}

/// The parameters, in the order declared by `Pointwise::render`.
fn layout_params(
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    out: View,
    form: Form,
    (shape, strides): &Collapsed,
    n: usize,
) -> Params {
    // Elements per invocation along the last dimension, and along the dimension before it.
    let (by, rows) = match form {
        Form::Quads | Form::Rows(..) => (4, 1),
        Form::Blocks(b) => (b.run, b.rows),
        Form::Dense | Form::Strided(_) | Form::Scattered(_) => (1, 1),
    };
    let mut p = Params::new(n.div_ceil(by * rows) as u32);
    for s in numbers {
        p.number(*s, compute);
    }
    for o in operands {
        if let Operand::Number(s) = o {
            p.number(*s, compute);
        }
    }
    // The number of elements per unit of an operand's offset.
    let unit = |k: usize, v: View| match form {
        Form::Rows(_, splat) if splat >> k & 1 == 0 => 4,
        Form::Blocks(b) if !b.is_splat(k) => b.vector(v.dtype),
        _ => 1,
    };
    let views = || operands.iter().enumerate().filter_map(|(k, o)| Some((k, read(o)?)));
    views().for_each(|(k, v)| {
        p.u32((v.layout.offset / unit(k, v)) as u32);
    });
    let words = match form {
        Form::Dense | Form::Strided(_) => lanes(out.dtype).0,
        Form::Blocks(b) => b.vector(out.dtype),
        Form::Quads | Form::Rows(..) | Form::Scattered(_) => 1,
    };
    p.u32((out.layout.offset / words) as u32);
    let rank = match form {
        Form::Dense | Form::Quads => return p,
        Form::Rows(rank, _) | Form::Strided(rank) | Form::Scattered(rank) => rank,
        Form::Blocks(b) => b.rank,
    };
    // A single element has no dimensions; use one of size 1.
    for d in 0..rank {
        let size = shape.get(d).copied().unwrap_or(1);
        let of = [by, rows, 1][(rank - 1 - d).min(2)];
        p.u32((size / of) as u32);
    }
    let mut all = |k: usize, by: isize| {
        for d in 0..rank {
            // Negative strides wrap, and so do the sums. Elements of a vector are contiguous.
            let stride = strides[k].get(d).copied().unwrap_or(0);
            p.u32(if d + 1 == rank { stride } else { stride / by } as u32);
        }
    };
    views().for_each(|(k, v)| all(k, unit(k, v) as isize));
    if let Form::Scattered(_) = form {
        all(ARGS, 1);
    }
    p
}

/// The part of the pipeline key that distinguishes shaders of one formula.
fn variant(
    formula: &Formula,
    params: usize,
    compute: DType,
    inputs: &[Input],
    result: DType,
    form: Form,
) -> SmallVec<[u8; KEY]> {
    let (tag, rank, splat) = match form {
        Form::Dense => (0, 0, 0),
        Form::Quads => (1, 0, 0),
        Form::Strided(rank) => (2, rank as u8, 0),
        Form::Scattered(rank) => (3, rank as u8, 0),
        Form::Rows(rank, splat) => (4, rank as u8, splat),
        Form::Blocks(b) => (5, b.rank as u8, b.splat),
    };
    let mut v: SmallVec<[u8; KEY]> = smallvec![params as u8, compute as u8, result as u8, tag, rank, splat];
    v.extend(formula.identity().to_le_bytes());
    if let Form::Blocks(b) = form {
        v.extend([b.run as u8, b.once, b.level]);
    }
    v.extend(inputs.iter().map(input_tag));
    v
}

/// The part of the pipeline key for an input.
pub(super) fn input_tag(i: &Input) -> u8 {
    match i {
        Input::Unread => 0,
        Input::Number => 1,
        Input::Tensor(dtype) => 2 + *dtype as u8,
    }
}

#[cold]
pub(super) fn not_here(gpu: &Gpu, name: &str, why: &str) -> Error {
    Error::NotImplemented(format!(
        "'{name}' is not implemented on {}: {why}; cast the tensor, or move it with .cpu()",
        gpu.caps.name
    ))
}
