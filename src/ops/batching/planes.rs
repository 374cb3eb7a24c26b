//! Convolutions, poolings and norms, whose values get a batch dimension or channels that stand for the slices.

use super::BatchCall;
use super::call::Values;
use crate::bail;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Out, Value};
use crate::ops::{arith, mirror, view};
use crate::tensor::Tensor;

/// The number of spatial dimensions, from the digit in the name.
fn spatial(c: &BatchCall, t: &Tensor) -> usize {
    let digit = c.op_name().chars().find_map(|c| c.to_digit(10));
    digit.map_or_else(|| t.rank().saturating_sub(2), |d| d as usize)
}

/// Two neighbouring dimensions as one.
fn fuse(t: &Tensor, dim: usize) -> Result<Tensor> {
    view::flatten(t, dim as i64, dim as i64 + 1)
}

/// A dimension as two, the first of size `n`.
fn part(t: &Tensor, dim: usize, n: usize) -> Result<Tensor> {
    let rest = if n == 0 { 0 } else { t.shape()[dim] / n };
    view::unflatten(t, dim as i64, &[n as i64, rest as i64])
}

/// The dimension of the slices moved into another one.
fn into_dim(t: &Tensor, dim: usize) -> Result<Tensor> {
    fuse(&view::movedim(t, &[0], &[dim as i64])?, dim)
}

/// Operations on the last dimensions of pictures, for which slices are more pictures.
pub fn planes(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let others = mirror::tensors(c.values).len() > 1;
    if others {
        return super::slices::by_slices(c);
    }
    let constant = c.op_name() == "constant_pad_nd" || matches!(c.value("mode"), Value::Str(m) if m == "constant");
    if constant {
        return super::simple::leading(c);
    }
    let whole = if c.op_name() == "pad" || c.op_name() == "interpolate" { t.rank() > 2 } else { t.rank() == spatial(c, t) + 2 };
    // With a mode other than a constant, `pad` accepts tensors without a batch dimension, as poolings do.
    let pad_of = |padded: usize| t.rank() == padded + 2;
    let whole = match c.value("pad") {
        Value::Ints(pad) => pad_of(pad.len() / 2),
        _ => whole,
    };
    let merged = c.merged(t)?;
    let value = if whole { fuse(&merged, 0)? } else { merged };
    let mut values: Values = c.values.iter().cloned().collect();
    values[0] = Value::Tensor(value);
    let out = c.run(&values)?;
    let restore = |t: &Tensor| c.unmerged(if whole { part(t, 0, c.slices())? } else { t.clone() });
    let tensors = mirror::results(&out).iter().map(restore).collect::<Result<_>>()?;
    Ok(mirror::with_results(out, tensors))
}

/// Convolutions. Slices of the input alone are more pictures, slices of the weight alone are more channels of the
/// result, and slices of both are groups.
pub fn convolution(c: &BatchCall) -> Result<Out> {
    let (Some(x), Some(w)) = (c.tensor("input"), c.tensor("weight")) else {
        bail!(Type, "{}(): arguments must be Tensors", c.op_name())
    };
    let n = spatial(c, x);
    if w.rank() != n + 2 || !(x.rank() == n + 1 || x.rank() == n + 2) {
        return super::slices::by_slices(c);
    }
    let transposed = c.op_name().starts_with("conv_transpose");
    let groups = match c.value("groups") {
        Value::Number(s) => s.to_i64().max(1) as usize,
        _ => 1,
    };
    let bias = c.tensor("bias");
    let separate = bias.filter(|b| b.is_batched() || w.is_batched());
    let lone = x.rank() == n + 1;
    let slices = c.slices();
    let run = |x: Tensor, w: Tensor, groups: usize| -> Result<Tensor> {
        let mut values: Values = c.values.iter().cloned().collect();
        for (p, v) in c.params().iter().zip(values.iter_mut()) {
            match p.name {
                "input" => *v = Value::Tensor(x.clone()),
                "weight" => *v = Value::Tensor(w.clone()),
                "bias" if separate.is_some() => *v = Value::None,
                "groups" => *v = Value::Number(Scalar::Int(groups as i64)),
                _ => {}
            }
        }
        c.run(&values)?.tensor()
    };
    // The result as (slices, pictures, channels, ...).
    let out = if !w.is_batched() {
        let value = c.merged(x)?;
        let value = if lone { view::unsqueeze(&value, 1)? } else { value };
        part(&run(fuse(&value, 0)?, w.clone(), groups)?, 0, slices)?
    } else if !x.is_batched() && groups == 1 && !transposed {
        let x = if lone { view::unsqueeze(x, 0)? } else { x.clone() };
        let out = run(x, fuse(&c.merged(w)?, 0)?, 1)?;
        view::movedim(&part(&out, 1, slices)?, &[1], &[0])?
    } else {
        let value = c.merged(x)?;
        let value = if lone { view::unsqueeze(&value, 1)? } else { value };
        // (pictures, slices x channels, ...); the weight's channels of each slice follow those of the one before.
        let out = run(into_dim(&value, 1)?, fuse(&c.merged(w)?, 0)?, groups * slices)?;
        view::movedim(&part(&out, 1, slices)?, &[1], &[0])?
    };
    let out = match separate {
        Some(bias) => {
            let mut value = if bias.is_batched() { view::unsqueeze(&c.merged(bias)?, 1)? } else { bias.clone() };
            for _ in 0..n {
                value = view::unsqueeze(&value, -1)?;
            }
            arith::add(&out, &value)?
        }
        None => out,
    };
    let out = if lone { view::squeeze(&out, &[1])? } else { out };
    Ok(Out::Tensor(c.unmerged(out)?))
}

/// `layer_norm`, `group_norm` and kin: the statistics are those of slices; scales of slices are applied after.
pub fn norm(c: &BatchCall) -> Result<Out> {
    let x = c.first()?;
    let (weight, bias) = (c.tensor("weight"), c.tensor("bias"));
    let affine = [weight, bias].into_iter().flatten().any(Tensor::is_batched);
    let mut values: Values = c.values.iter().cloned().collect();
    if affine {
        for (p, v) in c.params().iter().zip(values.iter_mut()) {
            if matches!(p.name, "weight" | "bias") {
                *v = Value::None;
            }
        }
    }
    let by_channel = c.op_name() == "group_norm";
    let value = if by_channel && x.is_batched() { fuse(&c.merged(x)?, 0)? } else { c.aligned(x, 0)? };
    values[0] = Value::Tensor(value);
    let mut out = c.run(&values)?.tensor()?;
    if by_channel && x.is_batched() {
        out = part(&out, 0, c.slices())?;
        out = super::parts_of(&c.unmerged(out)?).0;
    }
    if !affine {
        return Ok(Out::Tensor(c.batched(out)?));
    }
    // The result as one with all mapped dimensions, of the rank of the input.
    let plain = Tensor::batched_over(out, super::parts_of(x).1)?;
    let mut out = c.with_all(&plain, x.rank())?;
    let scale = |t: &Tensor| -> Result<Tensor> {
        let mut value = c.aligned(t, if by_channel { 1 } else { x.rank() })?;
        if by_channel {
            for _ in 2..x.rank() {
                value = view::unsqueeze(&value, -1)?;
            }
            if t.is_batched() {
                value = view::unsqueeze(&value, c.n() as i64)?;
            }
        }
        Ok(value)
    };
    if let Some(weight) = weight {
        out = arith::mul(&out, &scale(weight)?)?;
    }
    if let Some(bias) = bias {
        out = arith::add(&out, &scale(bias)?)?;
    }
    Ok(Out::Tensor(c.batched(out)?))
}

/// `batch_norm`, in which the channels of slices are channels of their own.
pub fn batch_norm(c: &BatchCall) -> Result<Out> {
    let x = c.first()?;
    let training = c.value("training").is_true();
    let running: Vec<&Tensor> = [c.tensor("running_mean"), c.tensor("running_var")].into_iter().flatten().collect();
    if training && running.iter().any(|t| super::parts_of(t).1 != c.levels) {
        bail!(
            Runtime,
            "vmap: Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated \
             in place, were not batched.\nUse a norm without running statistics, such as group_norm, or \
             track_running_stats=False, or map the buffers as well"
        );
    }
    let shape: Dims = x.shape().clone();
    let value = c.merged(x)?;
    if x.rank() < 2 {
        return super::slices::by_slices(c);
    }
    let mut values: Values = c.values.iter().cloned().collect();
    values[0] = Value::Tensor(into_dim(&value, 1)?);
    let mut written = Vec::new();
    for (p, v) in c.params().iter().zip(values.iter_mut()) {
        match (p.name, &*v) {
            ("running_mean" | "running_var", Value::Tensor(t)) => {
                let flat = view::reshape_to(&c.merged(t)?, &Dims::from([c.slices() * t.numel()]))?;
                // A copy, or a view of the memory of the statistics.
                if training {
                    written.push((t.clone(), flat.clone()));
                }
                *v = Value::Tensor(flat);
            }
            ("weight" | "bias", _) => *v = Value::None,
            _ => {}
        }
    }
    let out = part(&c.run(&values)?.tensor()?, 1, c.slices())?;
    for (t, flat) in written {
        let (memory, _) = super::parts_of(&t);
        if memory.storage().same(flat.storage()) {
            continue;
        }
        crate::ops::cast::copy_into(&memory, &view::reshape_to(&flat, &memory.shape().clone())?)?;
    }
    let mut out = super::parts_of(&c.unmerged(view::movedim(&out, &[1], &[0])?)?).0;
    for (name, times) in [("weight", true), ("bias", false)] {
        let Some(t) = c.tensor(name) else { continue };
        let mut value = c.aligned(t, 1)?;
        for _ in 2..shape.len() {
            value = view::unsqueeze(&value, -1)?;
        }
        if t.is_batched() {
            value = view::unsqueeze(&value, c.n() as i64)?;
        }
        let value = Arg::T(&value);
        out = if times { arith::mul(Arg::T(&out), value)? } else { arith::add(Arg::T(&out), value)? };
    }
    Ok(Out::Tensor(c.batched(out)?))
}
