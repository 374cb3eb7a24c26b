//! The operations. To add one, see CONTRIBUTING.md.

pub mod arith;
pub mod autocast;
pub mod batching;
pub mod cast;
pub mod conv;
pub mod creation;
pub mod declare;
pub mod index;
pub mod interpreter;
pub mod join;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod mirror;
pub mod nn;
pub mod norm;
mod out;
pub mod out_policy;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod row_macro;
pub mod rows;
pub mod scan;
pub mod schema;
pub mod softmax;
pub mod sort;
pub mod view;

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

use smallvec::SmallVec;

use crate::backend::calling::OpScope;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::graph::grad_enabled;
use crate::tensor::{Overlap, Tensor, assign, check_apart, check_inplace, overlap_error};
use interpreter::{Caller, Form, OpCall};
pub use out::call_out;
use pointwise::{Arg, PointwiseOp};
use schema::{Args, Call, Exposure, Op, Out, Overload, RowCall, Value};

/// The hand-written operations, by family.
static FAMILIES: &[&[Op]] = &[
    arith::OPS,
    cast::OPS,
    conv::OPS,
    creation::OPS,
    index::OPS,
    join::OPS,
    linalg::OPS,
    loss::OPS,
    loss::ctc::OPS,
    matmul::OPS,
    nn::OPS,
    norm::OPS,
    pool::OPS,
    random::OPS,
    reduce::OPS,
    scan::OPS,
    softmax::OPS,
    sort::OPS,
    view::OPS,
];

/// All operations, pointwise ones first.
pub fn all() -> &'static [Op] {
    static ALL: LazyLock<Vec<Op>> = LazyLock::new(|| {
        let rows = rows::ROWS.iter().filter(|r| r.meta.exposure != Exposure::NONE).map(|r| *r.op());
        rows.chain(FAMILIES.iter().copied().flatten().copied()).collect()
    });
    &ALL
}

/// The pointwise operations that only the core calls.
pub fn hidden() -> &'static [Op] {
    static HIDDEN: LazyLock<Vec<Op>> = LazyLock::new(|| {
        let rows = rows::ROWS.iter().filter(|r| r.meta.exposure == Exposure::NONE);
        // Others have the signatures of programs, and their name.
        rows.map(|r| *r.op()).filter(|op| all().iter().all(|other| other.name != op.name)).collect()
    });
    &HIDDEN
}

/// The table entry of a pointwise operation; unless it declares a signature, that of its inputs and parameters.
fn row_op(row: &'static PointwiseOp) -> Op {
    let mut sig = if row.meta.sig.is_empty() {
        let mut parts: Vec<String> = Vec::new();
        for (i, x) in row.inputs.iter().enumerate() {
            parts.push(format!("{x}: {}", if i == 0 { "Tensor" } else { "Operand" }));
        }
        let param = |(p, default): &(&str, &str)| match *default {
            "" => format!("{p}: Number"),
            default => format!("{p}: Number = {default}"),
        };
        parts.extend(row.params.iter().map(param));
        parts.join(", ")
    } else {
        row.meta.sig.to_string()
    };
    if row.meta.inplace_argument {
        sig.push_str(", inplace: bool = False");
    }
    // Leaked once per operation.
    let sig: &'static str = Box::leak(sig.into_boxed_str());
    let overloads: Vec<Overload> =
        sig.split(" | ").map(|sig| Overload { sig, call: Call::Row(row) }).collect();
    let overloads: &'static [Overload] = Box::leak(overloads.into_boxed_slice());
    let meta = &row.meta;
    Op {
        name: row.name,
        doc: row.doc,
        exposure: meta.exposure,
        aliases: meta.aliases,
        autocast: meta.autocast,
        out: row.torch.out,
        batch: batching::Batch::AUTO,
        samples: &[],
        overloads,
    }
}

/// Calls an overload whose signature matches the values, through the interpreters: Note [One door].
#[inline]
pub fn call(op: &'static Op, overload: &'static Overload, values: &[Value]) -> Result<Out> {
    match seen(op, overload, Form::New, values) {
        Some(out) => out,
        None => evaluate(op, overload, values),
    }
}

/// The result of an interpreter for a call by the program; None if there is none.
#[inline(always)]
fn seen(op: &'static Op, overload: &'static Overload, form: Form, values: &[Value]) -> Option<Result<Out>> {
    if !interpreter::active() {
        return None;
    }
    interpreter::interpreted(&OpCall { op, overload, form, caller: Caller::Program }, values)
}

/// Runs the operation itself, below all interpreters.
fn run(call: &OpCall, values: &[Value]) -> Result<Out> {
    match call.form {
        Form::New => evaluate(call.op, call.overload, values),
        Form::InPlace => evaluate_inplace(call.op, call.overload, values).map(Out::Tensor),
        Form::Into(outs) => out::evaluate_out(call.op, call.overload, values, outs),
    }
}

#[inline]
fn evaluate(op: &'static Op, overload: &'static Overload, values: &[Value]) -> Result<Out> {
    let _calling = OpScope::new(|| op.name);
    // Not `map_err`, which would copy the result.
    let result = call_unnamed(op, overload, values);
    if result.is_err() {
        return result.map_err(|e| e.of_operation(op.name));
    }
    result
}

#[inline(always)]
fn call_unnamed(op: &'static Op, overload: &'static Overload, values: &[Value]) -> Result<Out> {
    let args = Args { name: op.name, values };
    match &overload.call {
        Call::Fn(f) | Call::Composite(f) | Call::FnOrRow { call: f, .. } => f(&args),
        Call::Row(row) => {
            let RowCall { inputs, params, .. } = RowCall::of(row, &args)?;
            (row.meta.check)(&params)?;
            if row.meta.inplace_argument && values.last().is_some_and(Value::is_true) {
                let plain = &values[..values.len() - 1];
                return evaluate_inplace(op, overload, plain).map(Out::Tensor);
            }
            row.run(&inputs, &params).map(Out::Tensor)
        }
    }
}

/// The call of a pointwise operation that a call of an overload amounts to; None if there is none.
fn as_row<'a>(overload: &'static Overload, args: &'a Args<'_>) -> Result<Option<RowCall<'a>>> {
    match &overload.call {
        Call::Row(row) => {
            let call = RowCall::of(row, args)?;
            (row.meta.check)(&call.params)?;
            Ok(Some(call))
        }
        Call::FnOrRow { row, .. } => row(args),
        Call::Fn(_) | Call::Composite(_) => Ok(None),
    }
}

/// Calls an overload and stores its result in its first argument: the in-place form of an operation.
#[inline]
pub fn call_inplace(op: &'static Op, overload: &'static Overload, values: &[Value]) -> Result<Tensor> {
    match seen(op, overload, Form::InPlace, values) {
        Some(out) => out?.tensor(),
        None => evaluate_inplace(op, overload, values),
    }
}

/// As `call_inplace`, below all interpreters.
///
/// Note [What an operation in place saves] An in-place operation runs out of place and then overwrites its first
/// argument, so a derivative that reads this argument would see the new value. Therefore, if gradients are recorded,
/// the operation receives a copy of the elements with the argument's history; pointwise operations whose derivative
/// does not read the argument need no copy, and write their result to its memory at once. A result that they save is that
/// memory, so whoever writes it again makes backward fail, as in PyTorch.
fn evaluate_inplace(op: &'static Op, overload: &'static Overload, values: &[Value]) -> Result<Tensor> {
    let args = Args { name: op.name, values };
    let t = args.tensor(0)?.clone();
    let call = as_row(overload, &args).map_err(|e| e.of_operation(op.name))?;
    if let Some(RowCall { row, inputs, params }) = call {
        evaluate_row_inplace(row, &inputs, &params).map_err(|e| e.of_operation(op.name))?;
        return Ok(t);
    }
    let tracked = values.iter().any(|v| match v {
        Value::Tensor(t) => t.requires_grad(),
        Value::Tensors(ts) => ts.iter().any(Tensor::requires_grad),
        _ => false,
    });
    if t.layout().may_overlap_itself()
        && !(grad_enabled() && tracked)
        && index::overlapping::call(op.name, &args)?
    {
        return Ok(t);
    }
    check_inplace(&t, tracked)?;
    for value in &values[1..] {
        if let Value::Tensor(input) = value {
            check_apart(&t, input)?;
            ensure!(
                t.overlap(input) != Overlap::Same || !op.exposure.has(Exposure::BY_INDEX),
                overlap_error()
            );
        } else if let Value::OptTensors(indices) = value {
            ensure!(indices.iter().flatten().all(|i| t.overlap(i) == Overlap::Apart), overlap_error());
        }
    }
    let apart = |v: &Value| !matches!(v, Value::Tensor(input) if input.overlap(&t) != Overlap::Apart);
    let target = op.exposure.has(Exposure::TARGET) && t.is_contiguous() && values[1..].iter().all(apart);
    let result = if target || grad_enabled() && tracked {
        let mut values: SmallVec<[Value; 6]> = values.iter().cloned().collect();
        values[0] = Value::Tensor(if target { t.as_target()? } else { t.copy_with_history()? });
        evaluate(op, overload, &values)?.tensor()?
    } else {
        evaluate(op, overload, values)?.tensor()?
    };
    store(&t, &result, op.name)?;
    Ok(t)
}

/// Runs a pointwise operation and stores its result in its first operand; see Note [What an operation in place saves].
#[inline]
pub fn row_inplace(row: &'static PointwiseOp, inputs: &[Arg], params: &[Scalar]) -> Result<()> {
    if interpreter::active()
        && let Some(out) = seen(row.op(), &row.op().overloads[0], Form::InPlace, &row_values(inputs, params))
    {
        return out.map(drop);
    }
    evaluate_row_inplace(row, inputs, params)
}

/// The operands and parameters of a pointwise operation as values of a call.
fn row_values(inputs: &[Arg], params: &[Scalar]) -> SmallVec<[Value; 6]> {
    let inputs = inputs.iter().map(|a| match a {
        Arg::T(t) => Value::Tensor((*t).clone()),
        Arg::S(s) => Value::Number(*s),
    });
    inputs.chain(params.iter().map(|p| Value::Number(*p))).collect()
}

fn evaluate_row_inplace(row: &'static PointwiseOp, inputs: &[Arg], params: &[Scalar]) -> Result<()> {
    let Some(Arg::T(t)) = inputs.first().copied() else {
        return Err(Error::Type(format!("{}_(): the first operand must be a Tensor", row.name)));
    };
    check_inplace(t, inputs[1..].iter().any(|a| matches!(a, Arg::T(t) if t.requires_grad())))?;
    for input in &inputs[1..] {
        if let Arg::T(input) = input {
            check_apart(t, input)?;
        }
    }
    if row.call_inplace(inputs, params)? || grad_enabled() && row.call_inplace_recorded(inputs, params)? {
        return Ok(());
    }
    let result = if grad_enabled() && row.derivatives_read(0) {
        let copy = t.copy_with_history()?;
        let mut inputs: SmallVec<[Arg; 3]> = inputs.iter().copied().collect();
        inputs[0] = Arg::T(&copy);
        row.run(&inputs, params)?
    } else {
        row.run(inputs, params)?
    };
    store(t, &result, row.plan().node)
}

/// Writes the result of an operation to the tensor to be changed.
pub fn store(t: &Tensor, result: &Tensor, op: &'static str) -> Result<()> {
    pointwise::check_result_cast(result.dtype(), t.dtype())?;
    pointwise::check_inplace_shape(t, result.shape())?;
    assign(t, result, op)
}

thread_local!(static DEFAULT_DEVICE: Cell<Device> = const { Cell::new(Device::Cpu) });

/// The device of new tensors on this thread.
pub fn default_device() -> Device {
    DEFAULT_DEVICE.with(Cell::get)
}

/// Sets the default device and returns the previous one.
pub fn set_default_device(device: Device) -> Device {
    DEFAULT_DEVICE.with(|d| d.replace(device))
}

static DEFAULT_DTYPE: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The default dtype: of new floating point tensors, and of results to which integers are promoted.
#[inline]
pub fn default_dtype() -> DType {
    match DEFAULT_DTYPE.load(Ordering::Relaxed) {
        d if d == DType::F64 as u8 => DType::F64,
        d if d == DType::F16 as u8 => DType::F16,
        d if d == DType::BF16 as u8 => DType::BF16,
        _ => DType::F32,
    }
}

pub fn set_default_dtype(d: DType) -> Result<()> {
    ensure!(d.is_float(), Type, "only floating-point types are supported as the default type");
    ensure!(!d.is_limited(), Type, "couldn't find storage object {}Storage", d.scalar_name());
    DEFAULT_DTYPE.store(d as u8, Ordering::Relaxed);
    Ok(())
}
