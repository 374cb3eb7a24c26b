//! The one driver of every pointwise shader: chooses the form, lays out the parameters.

use smallvec::{SmallVec, smallvec};

use super::device::of;
use super::params::{MAX_PARAMS, Params};
use super::pipeline::Launch;
use super::window::{Window, fits, pieces};
use crate::backend::View;
use crate::backend::pointwise::{Operand, Program};
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::formula::ARGS;
use crate::formula::template::lanes;
use crate::formula::wgsl::{Form, Input, Pointwise};
use crate::layout::collapse;

/// Invocations in a workgroup of `shaders/pointwise.wgsl`.
const GROUP: usize = 64;

/// Sizes and strides after neighbouring dimensions were merged: of the operands by position, then of the result.
type Collapsed = (SmallVec<[usize; 6]>, [SmallVec<[isize; 6]>; ARGS + 1]);

/// Applies a formula, all of whose operands it reads.
///
/// # Errors
/// `NotImplementedError` where the adapter lacks a type, or the shaders a function of it.
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
        return whole(program, compute, operands, numbers, out, &[]);
    }
    pieces(gpu, &views, &mut |piece, windows| {
        let Some((out, (last, others))) = piece.last().zip(windows.split_last()) else { return Ok(()) };
        let mut pieces = piece.iter();
        let operands: SmallVec<[Operand; ARGS]> = operands
            .iter()
            .map(|o| match o {
                Operand::View(v) => Operand::View(*pieces.next().unwrap_or(v)),
                Operand::Number(n) => Operand::Number(*n),
                Operand::Unread => Operand::Unread,
            })
            .collect();
        // Bindings begin with the result.
        let windows: SmallVec<[Window; ARGS + 1]> = [last].into_iter().chain(others).copied().collect();
        whole(program, compute, &operands, numbers, *out, &windows)
    })
}

fn read<'a>(operand: &Operand<'a>) -> Option<View<'a>> {
    if let Operand::View(v) = operand { Some(*v) } else { None }
}

/// As `run`, in one launch; `windows` say what of the result and of each view to bind, where that is not everything.
fn whole(
    program: &Program,
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    out: View,
    windows: &[Window],
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
    let form = form(&views, out, &collapsed, n);
    let params = layout_params(compute, operands, numbers, out, form, &collapsed, n);
    ensure!(
        params.bytes().len() <= MAX_PARAMS,
        Runtime,
        "{}: the strides of {} dimensions are more than a GPU takes; make the tensors contiguous",
        program.name,
        collapsed.0.len()
    );
    let invocations = match form {
        Form::Quads => n.div_ceil(4),
        Form::Scattered(_) => n,
        Form::Dense | Form::Strided(_) => n.div_ceil(lanes(out.dtype).0),
    };
    let source = || {
        let steps = (program.steps)();
        let shader = Pointwise {
            steps: &steps,
            inputs: &inputs,
            params: numbers.len(),
            compute,
            result: out.dtype,
            form,
        };
        shader.render().map_err(|why| {
            Error::NotImplemented(format!(
                "'{}' is not implemented on {}: {why}; cast the tensor, or move it with .cpu()",
                program.name, gpu.caps.name
            ))
        })
    };
    let launch = Launch {
        op: program.name,
        kernel: program.name,
        variant: &variant(program.part, compute, &inputs, out.dtype, form),
        source: &source,
        written: &[out],
        read: &views,
        params: &params,
        groups: invocations.div_ceil(GROUP),
    };
    gpu.launch_in(launch, windows)
}

fn collapsed(operands: &[Operand], out: View) -> Collapsed {
    let strides: [&[isize]; ARGS + 1] = std::array::from_fn(|k| match operands.get(k) {
        Some(Operand::View(v)) => &v.layout.strides[..],
        _ => &out.layout.strides[..],
    });
    collapse(&out.layout.shape, strides)
}

/// Whether words of the result from its first element on hold nothing but its elements, or padding at the end.
fn owns_its_words(out: View, lanes: usize, n: usize) -> bool {
    let (first, size) = (out.layout.offset, out.dtype.size());
    first.is_multiple_of(lanes) && (n.is_multiple_of(lanes) || (first + n) * size == out.storage.len())
}

fn form(views: &[View], out: View, (shape, _): &Collapsed, n: usize) -> Form {
    let rank = shape.len().max(1);
    if !out.layout.is_contiguous() || !owns_its_words(out, lanes(out.dtype).0, n) {
        return Form::Scattered(rank);
    }
    if !views.iter().all(|v| v.layout.is_contiguous()) {
        return Form::Strided(rank);
    }
    let quads = |v: &View| v.dtype.size() == 4 && v.layout.offset.is_multiple_of(4);
    if quads(&out) && views.iter().all(quads) && owns_its_words(out, 4, n) {
        Form::Quads
    } else {
        Form::Dense
    }
}

/// The parameters in the order that `Pointwise::render` declares them.
fn layout_params(
    compute: DType,
    operands: &[Operand],
    numbers: &[Scalar],
    out: View,
    form: Form,
    (shape, strides): &Collapsed,
    n: usize,
) -> Params {
    let mut p = Params::new(if form == Form::Quads { n.div_ceil(4) } else { n } as u32);
    for s in numbers {
        p.number(*s, compute);
    }
    for o in operands {
        if let Operand::Number(s) = o {
            p.number(*s, compute);
        }
    }
    let views = || operands.iter().enumerate().filter(|(_, o)| matches!(o, Operand::View(_)));
    for o in operands {
        if let Operand::View(v) = o {
            p.u32(v.layout.offset as u32);
        }
    }
    let words = match form {
        Form::Dense | Form::Strided(_) => lanes(out.dtype).0,
        Form::Quads | Form::Scattered(_) => 1,
    };
    p.u32((out.layout.offset / words) as u32);
    let (Form::Strided(rank) | Form::Scattered(rank)) = form else { return p };
    // A tensor of one element has no dimension left: one of size 1 stands in.
    for d in 0..rank {
        p.u32(shape.get(d).copied().unwrap_or(1) as u32);
    }
    let mut all = |k: usize| {
        for d in 0..rank {
            // Strides may be negative: the sums wrap.
            p.u32(strides[k].get(d).copied().unwrap_or(0) as u32);
        }
    };
    views().for_each(|(k, _)| all(k));
    if let Form::Scattered(_) = form {
        all(ARGS);
    }
    p
}

/// What tells the shaders of one formula apart.
fn variant(part: u8, compute: DType, inputs: &[Input], result: DType, form: Form) -> SmallVec<[u8; 24]> {
    let (tag, rank) = match form {
        Form::Dense => (0, 0),
        Form::Quads => (1, 0),
        Form::Strided(rank) => (2, rank as u8),
        Form::Scattered(rank) => (3, rank as u8),
    };
    let mut v: SmallVec<[u8; 24]> = smallvec![part, compute as u8, result as u8, tag, rank];
    v.extend(inputs.iter().map(|i| match i {
        Input::Unread => 0,
        Input::Number => 1,
        Input::Tensor(dtype) => 2 + *dtype as u8,
    }));
    v
}
