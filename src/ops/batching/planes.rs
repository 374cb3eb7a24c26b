//! Convolutions, poolings and norms, whose values get a batch dimension or channels that stand for the slices.

use super::BatchCall;
use super::call::Values;
use super::shared;
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
pub(super) fn fuse(t: &Tensor, dim: usize) -> Result<Tensor> {
    view::flatten(t, dim as i64, dim as i64 + 1)
}

/// A dimension as two, the first of size `n`.
pub(super) fn part(t: &Tensor, dim: usize, n: usize) -> Result<Tensor> {
    let rest = t.shape()[dim].checked_div(n).unwrap_or(0);
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
    let constant =
        c.op_name() == "constant_pad_nd" || matches!(c.value("mode"), Value::Str(m) if m == "constant");
    if constant {
        return super::simple::leading(c);
    }
    let whole = if c.op_name() == "pad" || c.op_name() == "interpolate" {
        t.rank() > 2
    } else {
        t.rank() == spatial(c, t) + 2
    };
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
    let out = if let Some(out) = shared::convolution(c, x, w, n)? {
        out
    } else if let Some(out) = by_windows(c, x, w, transposed || groups != 1)? {
        out
    } else if !w.is_batched() {
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
            let mut value =
                if bias.is_batched() { view::unsqueeze(&c.merged(bias)?, 1)? } else { bias.clone() };
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

/// A convolution of pictures with a weight for each slice as a product with their windows; None where that does not pay.
///
/// Groups compute the derivative of the weight as well as that of the input. Where only the first is asked for, as in a
/// network's first layer, a product of matrices takes less than half of the time.
fn by_windows(c: &BatchCall, x: &Tensor, w: &Tensor, excluded: bool) -> Result<Option<Tensor>> {
    let (value, _) = super::parts_of(x);
    let (Value::Ints(stride), Value::Ints(padding), Value::Ints(dilation)) =
        (c.value("stride"), c.value("padding"), c.value("dilation"))
    else {
        return Ok(None);
    };
    let of = |values: &[i64], d: usize| values.get(d).or_else(|| values.first()).copied().unwrap_or(0);
    let pays = spatial(c, x) == 2
        && w.is_batched()
        && x.is_batched()
        && !excluded
        && !value.requires_grad()
        && dilation.iter().all(|&d| d == 1)
        && w.shape()[1..].iter().product::<usize>() <= 64;
    let (height, width) = (w.shape()[2], w.shape().get(3).copied().unwrap_or(1));
    let fits = |d: usize, size: usize| {
        x.shape()[x.rank() - 2 + d] as i64 + 2 * of(padding, d) >= size as i64
            && size > 0
            && of(stride, d) > 0
            && of(padding, d) >= 0
    };
    if !pays || !fits(0, height) || !fits(1, width) || x.shape()[x.rank() - 3] != w.shape()[1] {
        return Ok(None);
    }
    let lone = x.rank() == 3;
    let pictures = c.merged(x)?;
    let pictures = if lone { view::unsqueeze(&pictures, 1)? } else { pictures };
    let (vertical, horizontal) = (of(padding, 0), of(padding, 1));
    let padded = match (vertical, horizontal) {
        (0, 0) => pictures,
        _ => crate::ops::nn::pad_constant(
            &pictures,
            &[horizontal, horizontal, vertical, vertical],
            Scalar::Int(0),
        )?,
    };
    // (slices, pictures, channels, rows, columns, height, width) to (slices, pictures, values of a window, places).
    let windows = view::cut::unfold(&padded, 3, height as i64, of(stride, 0))?;
    let windows = view::cut::unfold(&windows, 4, width as i64, of(stride, 1))?;
    let (rows, columns) = (windows.shape()[3] as i64, windows.shape()[4] as i64);
    let windows = view::permute(&windows, &[0, 1, 2, 5, 6, 3, 4])?;
    let windows = view::flatten(&view::flatten(&windows, 2, 4)?, 3, 4)?;
    let weight = view::unsqueeze(&view::flatten(&c.merged(w)?, 2, -1)?, 1)?;
    let out = crate::ops::matmul::matmul(&weight, &windows)?;
    view::unflatten(&out, 3, &[rows, columns]).map(Some)
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
    let running: Vec<&Tensor> =
        [c.tensor("running_mean"), c.tensor("running_var")].into_iter().flatten().collect();
    if training && running.iter().any(|t| super::parts_of(t).1 != c.levels) {
        bail!(
            Runtime,
            "vmap: Batch norm got a batched tensor as input while the running_mean or running_var, which training \
             updates in place, is the same for all slices.\nUse a norm without running statistics, such as group_norm, or \
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
