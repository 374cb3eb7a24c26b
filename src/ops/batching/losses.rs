//! Losses: those of all elements, reduced for each slice.

use super::BatchCall;
use super::call::Values;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Out, Value};
use crate::ops::{arith, reduce, rows, view};
use crate::tensor::Tensor;

/// The arguments without reduction; None if older arguments decide about it.
fn unreduced(c: &BatchCall) -> Option<(String, Values)> {
    let older = ["size_average", "reduce"].iter().any(|name| !matches!(c.value(name), Value::None));
    let Value::Str(reduction) = c.value("reduction") else { return None };
    if older || !matches!(&reduction[..], "none" | "mean" | "sum" | "batchmean") {
        return None;
    }
    let at = c.position("reduction")?;
    let mut values: Values = c.values.iter().cloned().collect();
    values[at] = Value::Str("none".into());
    Some((reduction.clone(), values))
}

/// The loss of each slice, from those of its elements.
fn reduced(c: &BatchCall, loss: Tensor, reduction: &str, samples: usize) -> Result<Out> {
    let n = c.n();
    let dims: Vec<i64> = (n as i64..loss.rank() as i64).collect();
    if reduction == "none" || dims.is_empty() {
        return Ok(Out::Tensor(c.batched(loss)?));
    }
    let mask = reduce::dim_mask(Some(&dims), loss.rank())?;
    let out = match reduction {
        "mean" => reduce::mean_mask(&loss, mask, false, None)?,
        "batchmean" => {
            let sum = reduce::sum_mask(&loss, mask, false, None)?;
            arith::div(Arg::T(&sum), Arg::S(Scalar::Int(samples as i64)))?
        }
        _ => reduce::sum_mask(&loss, mask, false, None)?,
    };
    Ok(Out::Tensor(c.batched(out)?))
}

/// Losses between tensors that broadcast.
pub fn pointwise(c: &BatchCall) -> Result<Out> {
    let Some((reduction, mut values)) = unreduced(c) else { return super::slices::by_slices(c) };
    let rank = c.rank();
    for v in values.iter_mut() {
        if let Value::Tensor(t) = v {
            *t = c.expanded(t, rank)?;
        }
    }
    let samples = c.first()?.shape().first().copied().unwrap_or(1);
    let loss = c.run(&values)?.tensor()?;
    reduced(c, loss, &reduction, samples)
}

/// Losses of scores of classes against indices of classes.
pub fn of_classes(c: &BatchCall) -> Result<Out> {
    let (Some(x), Some(target)) = (c.tensor("input"), c.tensor("target")) else {
        return super::slices::by_slices(c);
    };
    let indices = !target.dtype().is_float();
    let Some((reduction, mut values)) = unreduced(c) else { return super::slices::by_slices(c) };
    let weighted = c.tensor("weight");
    let smoothed = matches!(c.value("label_smoothing"), Value::Number(s) if s.to_f64() != 0.0);
    let mean = reduction == "mean";
    if !indices
        || x.rank() == 0
        || weighted.is_some_and(Tensor::is_batched)
        || (mean && weighted.is_some() && smoothed)
    {
        return super::slices::by_slices(c);
    }
    // Slices are more samples.
    let lone = x.rank() == 1;
    let samples = |t: &Tensor| -> Result<Tensor> {
        let t = c.merged(t)?;
        if lone { Ok(t) } else { view::flatten(&t, 0, 1) }
    };
    values[0] = Value::Tensor(samples(x)?);
    values[1] = Value::Tensor(samples(target)?);
    let loss = c.run(&values)?.tensor()?;
    let shape = c.sizes.iter().chain(target.shape().iter()).copied().collect();
    let loss = view::reshape_to(&loss, &shape)?;
    if !mean {
        return reduced(c, loss, &reduction, 1);
    }
    // The mean is that of the targets that count, by their weights.
    let Value::Number(ignored) = c.value("ignore_index") else { return super::slices::by_slices(c) };
    let target = c.with_all(target, 0)?;
    let counts = rows::ne.call(&[Arg::T(&target), Arg::S(*ignored)], &[])?;
    let weights = match weighted {
        Some(weight) => {
            // A weight has no derivative.
            let weight = &weight.detached()?;
            let kept = crate::ops::index::select_where(&counts, Arg::T(&target), Arg::S(Scalar::Int(0)))?;
            let each = crate::ops::index::index(weight, &[Some(kept)])?;
            arith::mul(&each, &arith::to_dtype(&counts, weight.dtype())?)?
        }
        None => arith::to_dtype(&counts, loss.dtype())?,
    };
    let n = c.n();
    let sum = |t: &Tensor| -> Result<Tensor> {
        let dims: Vec<i64> = (n as i64..t.rank() as i64).collect();
        if dims.is_empty() {
            Ok(t.clone())
        } else {
            reduce::sum_mask(t, reduce::dim_mask(Some(&dims), t.rank())?, false, None)
        }
    };
    let out = arith::div(&sum(&loss)?, &sum(&weights)?)?;
    Ok(Out::Tensor(c.batched(out)?))
}
