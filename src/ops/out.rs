//! The `out=` form of operations: allocation of results, and checks of outputs.

use super::interpreter::Form;
use super::out_policy::{Mismatch, OutPolicy};
use super::pointwise::PointwiseOp;
use super::schema::{Args, Call, Exposure, Op, Out, Overload, RowCall, Value};
use super::{as_row, evaluate, seen};
use crate::backend::calling::OpScope;
use crate::error::Result;
use crate::graph::{NotImplemented, grad_enabled};
use crate::layout::{Layout, MemoryFormat};
use crate::tensor::{
    Overlap, Tensor, assign, check_inference, check_memory, overlap_error, self_overlap, write_untracked,
};
use crate::{bail, ensure};

/// Calls an overload and stores its results in `outs`: the `out=` form of an operation. An output of the wrong shape
/// is replaced by a new tensor, whose storage the binding gives to the caller's tensor. Returns the stored tensors, as a
/// list or under their names.
pub fn call_out(
    op: &'static Op,
    overload: &'static Overload,
    values: &[Value],
    outs: &[Tensor],
) -> Result<Out> {
    match seen(op, overload, Form::Into(outs), values) {
        Some(Ok(stored @ (Out::List(_) | Out::Named(..)))) => Ok(stored),
        Some(Ok(_)) => bail!(Type, "{}(): an interpreter returned no list of results", op.name),
        Some(Err(e)) => Err(e),
        None => evaluate_out(op, overload, values, outs),
    }
}

/// As `call_out`, below all interpreters.
pub(super) fn evaluate_out(
    op: &'static Op,
    overload: &'static Overload,
    values: &[Value],
    outs: &[Tensor],
) -> Result<Out> {
    if let [out] = outs
        && write_row(op, overload, values, out)?
    {
        return Ok(Out::List(outs.to_vec()));
    }
    let creates = overload.sig.contains("device: device?");
    let given = if creates { created_as(overload, values, outs)? } else { None };
    let values = given.as_deref().unwrap_or(values);
    let mut names = None;
    let results = match evaluate(op, overload, values)? {
        Out::Tensor(t) => vec![t],
        Out::Tuple(v) | Out::List(v) => v,
        Out::Named(name, fields, v) => {
            names = Some((name, fields));
            v
        }
        _ => Vec::new(),
    };
    // A result that may be created on any device, with no device requested, is created on the output's device.
    let anywhere = creates && !values.iter().any(|v| matches!(v, Value::Device(_)));
    let results = match outs.first() {
        Some(out) if anywhere => results.iter().map(|t| t.on_device(out.device())).collect::<Result<_>>()?,
        _ => results,
    };
    // What is created has no history, and whether it requires grad is then asked of the output.
    let leaf = creates && results.iter().any(Tensor::requires_grad);
    let results = if leaf { results.iter().map(Tensor::detach).collect() } else { results };
    let tracked = |t: &Tensor| grad_enabled() && t.requires_grad();
    // A history that ends in an error anyway is accepted.
    let dead_end = |t: &Tensor| t.grad_fn().is_some_and(|f| f.name() == NotImplemented::NAME);
    let composite = op.exposure.has(Exposure::COMPOSITE)
        || matches!(overload.call, Call::Composite(_))
        || results.iter().any(dead_end);
    ensure!(
        composite || !results.iter().chain(outs).any(tracked),
        Runtime,
        "{}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments \
         requires grad.",
        op.name
    );
    ensure!(results.len() == outs.len(), Type, "{}(): expected {} outputs", op.name, results.len());
    for out in outs {
        check_inference(out)?;
        ensure!(!out.layout().may_overlap_itself(), self_overlap());
        for v in values {
            let inputs: &[Tensor] = match v {
                Value::Tensor(t) => std::slice::from_ref(t),
                Value::Tensors(ts) => ts,
                _ => continue,
            };
            let allowed = |t: &Tensor| match t.overlap(out) {
                Overlap::Apart => true,
                Overlap::Same => !op.out.apart,
                Overlap::Partial => false,
            };
            ensure!(inputs.iter().all(allowed), overlap_error());
        }
    }
    let mut stored = Vec::with_capacity(outs.len());
    let asked = values.iter().find_map(|v| if let Value::DType(d) = v { Some(*d) } else { None });
    for (i, (result, out)) in results.iter().zip(outs).enumerate() {
        ensure!(
            result.device() == out.device(),
            Runtime,
            "Expected out tensor to have device {}, but got {} instead",
            result.device(),
            out.device()
        );
        let mismatch =
            |found| Mismatch { op: op.name, number: i, sig: overload.sig, found, out: out.dtype() };
        if let Some(dtype) = asked
            && dtype != out.dtype()
        {
            (OutPolicy::SAME.check)(&mismatch(dtype))?;
        }
        if result.dtype() != out.dtype() {
            (op.out.check)(&mismatch(result.dtype()))?;
        }
        let shaped = match op.out.fills && result.numel() == out.numel() {
            true => Some(result.with_layout(Layout::contiguous(out.shape().clone()))),
            false => None,
        };
        let result = shaped.as_ref().unwrap_or(result);
        if result.shape() == out.shape() {
            check_memory(out)?;
            if composite {
                assign(out, result, op.name)?;
            } else {
                write_untracked(out, result)?;
            }
            stored.push(out.clone());
        } else {
            let bytes = result.numel() * out.dtype().size();
            ensure!(
                out.storage().is_resizable() || bytes <= out.storage().len(),
                Runtime,
                "Trying to resize storage that is not resizable"
            );
            stored.push(result.copied_in(MemoryFormat::Preserve, out.dtype())?);
        }
        if leaf && let Some(t) = stored.last() {
            t.set_requires_grad(true)?;
        }
    }
    Ok(match names {
        Some((name, fields)) => Out::Named(name, fields, stored),
        None => Out::List(stored),
    })
}

/// Runs a pointwise operation whose kernel writes to `out`. Returns false, with nothing written, if the caller has to compute a
/// separate result and copy it, or to raise an error.
fn write_row(op: &'static Op, overload: &'static Overload, values: &[Value], out: &Tensor) -> Result<bool> {
    if op.out.apart
        || out.layout().may_overlap_itself()
        || check_inference(out).is_err()
        || check_memory(out).is_err()
    {
        return Ok(false);
    }
    let args = Args { name: op.name, values };
    let _calling = OpScope::new(|| op.name);
    let in_place = |row: &PointwiseOp| row.meta.inplace_argument && values.last().is_some_and(Value::is_true);
    let call = as_row(overload, &args).map_err(|e| e.of_operation(op.name))?;
    let written = match call {
        Some(RowCall { row, inputs, params }) if !in_place(row) => row.call_into(&inputs, &params, out),
        _ => return Ok(false),
    };
    written.map_err(|e| e.of_operation(op.name))
}

/// The values of a call that creates a tensor of the dtype of the output; None if they stay as they are.
fn created_as(overload: &Overload, values: &[Value], outs: &[Tensor]) -> Result<Option<Vec<Value>>> {
    let (Some(at), [out]) = (overload.sig.find("dtype: dtype?"), outs) else { return Ok(None) };
    let before = overload.sig[..at].split(',').filter(|p| !matches!(p.trim(), "" | "*")).count();
    match values.get(before) {
        Some(Value::None) => {
            let mut values = values.to_vec();
            values[before] = Value::DType(out.dtype());
            Ok(Some(values))
        }
        Some(Value::DType(d)) if *d != out.dtype() => bail!(
            Runtime,
            "dtype {} does not match dtype of out parameter ({})",
            d.scalar_name(),
            out.dtype().scalar_name()
        ),
        _ => Ok(None),
    }
}
