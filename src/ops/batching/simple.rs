//! Rules that follow from the signature.

use super::BatchCall;
use super::call::{Values, operation};
use super::plan::Param;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Dims, MemoryFormat, wrap_dim};
use crate::ops::pointwise::{Arg, result_type};
use crate::ops::schema::{Exposure, Out, Overload, Value};
use crate::ops::{arith, mirror, view};
use crate::tensor::Tensor;
use crate::{bail, ops};

/// Aligns the tensors, which then broadcast.
pub fn pointwise(c: &BatchCall) -> Result<Out> {
    let rank = if c.writes() { c.first()?.rank() } else { c.rank() };
    let dtype = common_dtype(c, rank)?;
    let values = c.map(|t| {
        let mut value = c.aligned(t, rank)?;
        if rank == 0 && !t.is_batched() && c.slices() > 0 {
            // So that it takes part in the promotion of types as the others do.
            value = view::unsqueeze(&value, 0)?;
        }
        match dtype {
            Some(dtype) if t.rank() == 0 && t.dtype() != dtype => arith::to_dtype(&value, dtype),
            _ => Ok(value),
        }
    })?;
    c.finish(&values)
}

/// The dtype to which tensors of rank 0 are cast first: they have dimensions as values, and would take precedence.
fn common_dtype(c: &BatchCall, rank: usize) -> Result<Option<crate::dtype::DType>> {
    let operands: Vec<&Tensor> = c
        .params()
        .iter()
        .zip(c.values)
        .filter(|(p, _)| !matches!(p.name, "mask" | "condition"))
        .filter_map(|(_, v)| if let Value::Tensor(t) = v { Some(t) } else { None })
        .collect();
    let mixed = operands.windows(2).any(|w| w[0].dtype() != w[1].dtype());
    if !mixed || !operands.iter().any(|t| t.rank() == 0) || (c.writes() && rank > 0) {
        return Ok(None);
    }
    let args: Vec<Arg> = operands.into_iter().map(Arg::T).collect();
    result_type(&args).map(Some)
}

/// Passes values with all mapped dimensions, those of batched tensors with equal ranks.
pub fn leading(c: &BatchCall) -> Result<Out> {
    if let Some(format) = c.values.iter().find_map(|v| match v {
        Value::MemoryFormat(f @ (MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d)) => Some(f),
        _ => None,
    }) {
        // A format is one of whole tensors, which have more dimensions than their slices.
        bail!(
            Runtime,
            "vmap: Tensor.{}(memory_format) inside vmap is only supported with memory_format torch.preserve_format or \
             torch.contiguous_format (got torch.{}). {}",
            c.op_name(),
            format.name(),
            super::NO_FORMAT
        );
    }
    let batched = mirror::tensors(c.values).into_iter().filter(Tensor::is_batched);
    let rank = batched.map(|t| t.rank()).max().unwrap_or(0);
    let values = c.map(|t| if t.is_batched() { c.with_all(t, rank) } else { Ok(t.clone()) })?;
    c.finish(&values)
}

/// Runs an operation that is composed of others; one of them may be a kernel after all.
pub fn parts(c: &BatchCall) -> Result<Out> {
    let out = match c.run_inside() {
        Ok(out) => out,
        Err(e) if c.writes() => return Err(e),
        // What it calls may be a kernel after all; an error of the arguments comes again.
        Err(_) => return super::slices::by_slices(c),
    };
    let lost = |t: &Tensor| t.device() == crate::device::Device::Meta && !t.is_hosted();
    let given = mirror::tensors(c.values).iter().any(lost);
    if !given && mirror::results(&out).iter().any(lost) {
        return super::slices::by_slices(c);
    }
    Ok(out)
}

/// Whether an argument names dimensions of the first tensor.
pub fn names_dims(p: &Param) -> bool {
    matches!(
        p.name,
        "dim"
            | "dims"
            | "dim0"
            | "dim1"
            | "dim2"
            | "axis0"
            | "axis1"
            | "source"
            | "destination"
            | "dimension"
            | "start_dim"
            | "end_dim"
    ) && p.ty != "Tensor"
}

/// The number of a dimension of the slices as one of values, counted from behind the mapped ones.
pub fn shifted(dim: i64, rank: usize, n: usize) -> Result<i64> {
    Ok((wrap_dim(dim, rank)? + n) as i64)
}

/// The arguments with dimensions of slices of rank `rank` as dimensions of values.
pub fn with_shifted_dims(c: &BatchCall, mut values: Values, rank: usize) -> Result<Values> {
    let n = c.n();
    for (p, value) in c.params().iter().zip(values.iter_mut()).filter(|(p, _)| names_dims(p)) {
        match value {
            Value::Number(s) => *s = Scalar::Int(shifted(s.to_i64(), rank, n)?),
            Value::Ints(dims) => {
                for d in dims.iter_mut() {
                    *d = shifted(*d, rank, n)?;
                }
            }
            _ if p.ty.ends_with("[]?") => {
                *value = Value::Ints((n as i64..(n + rank.max(1)) as i64).collect())
            }
            _ if p.ty == "int?" && rank == 0 => *value = Value::Number(Scalar::Int(n as i64)),
            _ => {}
        }
    }
    Ok(values)
}

/// Shifts the dimensions that arguments name. A tensor without dimensions gets one for the time of the call.
pub fn dims(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let rank = t.rank();
    // These name a dimension of the result.
    let inserts = matches!(c.op_name(), "unsqueeze" | "unsqueeze_copy" | "diag_embed");
    if rank == 0 && !inserts {
        return without_dims(c);
    }
    let extra = usize::from(inserts);
    // A number in a tensor, such as where `narrow` starts, is none of the slices.
    if c.values.iter().skip(1).any(|v| matches!(v, Value::Tensor(t) if t.is_batched())) {
        return super::slices::by_slices(c);
    }
    let mut values = c.map(|o| if o.same(t) { c.with_all(o, rank) } else { Ok(o.clone()) })?;
    // The elements of all dimensions in one.
    let all = c
        .params()
        .iter()
        .zip(c.values)
        .any(|(p, v)| p.ty == "int?" && names_dims(p) && matches!(v, Value::None));
    if all {
        let Some(Value::Tensor(value)) = values.first() else { return c.finish(&values) };
        let flat = view::flatten(value, c.n() as i64, -1)?;
        values[0] = Value::Tensor(flat);
        for (p, v) in c.params().iter().zip(values.iter_mut()) {
            if names_dims(p) {
                *v = Value::Number(Scalar::Int(c.n() as i64));
            }
        }
        let out = c.run(&values)?;
        return kept_all(c, out, rank);
    }
    let values = with_shifted_dims(c, values, rank + extra)?;
    c.finish(&values)
}

/// The results of a reduction of all dimensions, with dimensions of size 1 if these are kept.
fn kept_all(c: &BatchCall, out: Out, rank: usize) -> Result<Out> {
    if !c.value("keepdim").is_true() {
        return c.wrap(out);
    }
    let mut shape: Dims = c.sizes.iter().copied().collect();
    shape.resize(c.n() + rank, 1);
    let tensors = mirror::results(&out).iter().map(|t| view::reshape_to(t, &shape)).collect::<Result<_>>()?;
    c.wrap(mirror::with_results(out, tensors))
}

fn without_dims(c: &BatchCall) -> Result<Out> {
    let n = c.n();
    let values = c.map(|t| view::unsqueeze(&c.with_all(t, 0)?, n as i64))?;
    let values = with_shifted_dims(c, values, 0)?;
    let out = c.run(&values)?;
    let keeps = matches!(c.op_name(), "flatten" | "unflatten" | "unfold" | "unfold_copy");
    if c.writes() || keeps {
        return c.wrap(out);
    }
    let own = |t: &Tensor| if t.rank() == n + 1 { view::squeeze(t, &[n as i64]) } else { Ok(t.clone()) };
    let tensors = mirror::results(&out).iter().map(own).collect::<Result<_>>()?;
    c.wrap(mirror::with_results(out, tensors))
}

/// A reduction of named dimensions, or of all by a signature that names none.
pub fn reduction(c: &BatchCall) -> Result<Out> {
    if c.values.iter().skip(1).any(|v| matches!(v, Value::Tensor(_))) {
        return pointwise(c);
    }
    if c.params().iter().any(names_dims) {
        let nothing = matches!(c.value("dim"), Value::Ints(dims) if dims.is_empty());
        let all = nothing && !matches!(c.op_name(), "logsumexp");
        return if all { reduce_empty(c) } else { dims(c) };
    }
    let (op, overload) = match c.op_name() {
        // Ties share the gradient.
        "max" => named(operation("amax", Exposure::FUNCTION)?, c)?,
        "min" => named(operation("amin", Exposure::FUNCTION)?, c)?,
        _ => named(c.call.op, c)?,
    };
    let rank = c.first()?.rank();
    let value = c.with_all(c.first()?, rank)?;
    let n = c.n() as i64;
    let value = if rank == 0 { view::unsqueeze(&value, n)? } else { view::flatten(&value, n, -1)? };
    let mut values = Values::new();
    for p in super::plan::params(overload) {
        values.push(match p.name {
            "input" => Value::Tensor(value.clone()),
            "dim" if p.ty.starts_with("int[]") => Value::Ints([n].into_iter().collect()),
            "dim" => Value::Number(Scalar::Int(n)),
            name if c.position(name).is_some() => c.value(name).clone(),
            _ => match p.default_value() {
                Some(value) => value,
                None => bail!(Runtime, "vmap: {}() has a parameter {} without a default", op.name, p.name),
            },
        });
    }
    let out = c.run_other(op, overload, &values)?;
    match mirror::results(&out) {
        // Over a dimension, medians come with their indices.
        [first, _] if c.op_name().ends_with("median") => Ok(Out::Tensor(c.batched(first.clone())?)),
        _ => c.wrap(out),
    }
}

/// An empty list of dimensions, by which most reductions mean all of them.
fn reduce_empty(c: &BatchCall) -> Result<Out> {
    let rank = c.first()?.rank();
    if rank == 0 {
        return without_dims(c);
    }
    let mut values = c.map(|t| c.with_all(t, rank))?;
    for (p, v) in c.params().iter().zip(values.iter_mut()) {
        if p.name == "dim" {
            *v = Value::Ints((c.n() as i64..(c.n() + rank) as i64).collect());
        }
    }
    c.finish(&values)
}

/// The signature of a reduction that names dimensions and has all parameters of the call.
fn named(
    op: &'static ops::schema::Op,
    c: &BatchCall,
) -> Result<(&'static ops::schema::Op, &'static Overload)> {
    let fits = |o: &&'static Overload| {
        let params = super::plan::params(o);
        params.iter().any(names_dims)
            && params.iter().filter(|p| p.ty == "Tensor").count() == 1
            && c.params().iter().all(|own| params.iter().any(|p| p.name == own.name))
    };
    let found = op.overloads.iter().find(fits);
    found.map(|o| (op, o)).ok_or_else(|| Error::Runtime(format!("vmap: {}() names no dimension", op.name)))
}
