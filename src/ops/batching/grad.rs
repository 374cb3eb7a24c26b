//! Gradients of batched tensors.
//!
//! The history of a batched tensor is that of its value. As slices are independent, the gradient of a value holds the
//! gradients of all slices. A gradient may have levels that its tensor does not have, as when the rows of a Jacobian are
//! computed at once: it stays a batched tensor for these, and backward functions run by the rules.

use super::parts_of;
use crate::error::Result;
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::batched::Levels;
use crate::{bail, ensure};

/// A gradient `g` of `output` in the form of the value of `output`: batched by the levels that `output` lacks.
fn gradient_of_value(g: &Tensor, output: &Tensor) -> Result<Tensor> {
    let (value, levels) = parts_of(output);
    let (mut own, own_levels) = parts_of(g);
    ensure!(
        g.shape() == output.shape(),
        Runtime,
        "Mismatch in shape: grad_output has a shape of torch.Size({}) and output has a shape of torch.Size({}).",
        g.shape(),
        output.shape()
    );
    let extra: Levels = own_levels.iter().copied().filter(|l| !levels.contains(l)).collect();
    // To (extra levels, levels of the output, slices).
    let mut at = own_levels;
    for level in &levels {
        if !at.contains(level) {
            own = view::unsqueeze(&own, at.len() as i64)?;
            at.push(*level);
        }
    }
    let order: Vec<i64> = extra
        .iter()
        .chain(&levels)
        .filter_map(|l| at.iter().position(|a| a == l))
        .chain(at.len()..own.rank())
        .map(|d| d as i64)
        .collect();
    let own = view::permute(&own, &order)?;
    let shape = own.shape()[..extra.len()].iter().chain(value.shape().iter()).copied().collect();
    Tensor::batched_over(view::expand_to(&own, &shape)?, extra)
}

/// The gradient of the value of an input as one of the input.
fn gradient_of_slices(g: Tensor, input: &Tensor) -> Result<Tensor> {
    let (_, levels) = parts_of(input);
    if levels.is_empty() {
        return Ok(g);
    }
    let (value, extra) = parts_of(&g);
    if extra.is_empty() {
        return Tensor::batched_over(value, levels);
    }
    let at: Vec<u32> = extra.iter().chain(&levels).copied().collect();
    let mut sorted: Levels = at.iter().copied().collect();
    sorted.sort_unstable();
    let order: Vec<i64> = sorted
        .iter()
        .filter_map(|l| at.iter().position(|a| a == l))
        .chain(at.len()..value.rank())
        .map(|d| d as i64)
        .collect();
    Tensor::batched_over(view::permute(&value, &order)?, sorted)
}

/// Gradients of outputs by inputs, through `run`, which gets the values, the values and their gradients. Returns None if
/// nothing is batched.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grads: &[Option<Tensor>],
    run: impl FnOnce(&[Tensor], &[Tensor], &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>,
) -> Result<Option<Vec<Option<Tensor>>>> {
    if !outputs.iter().chain(inputs).any(Tensor::is_batched) {
        return Ok(None);
    }
    let mut of_values = Vec::with_capacity(outputs.len());
    for (i, output) in outputs.iter().enumerate() {
        of_values.push(Some(match grads.get(i).cloned().flatten() {
            Some(g) => gradient_of_value(&g, output)?,
            None if output.numel() == 1 => parts_of(output).0.ones_like()?,
            None => bail!(Runtime, "grad can be implicitly created only for scalar outputs"),
        }));
    }
    let values = |ts: &[Tensor]| ts.iter().map(|t| parts_of(t).0).collect::<Vec<_>>();
    let found = run(&values(outputs), &values(inputs), &of_values)?;
    let found = found.into_iter().zip(inputs);
    found.map(|(g, t)| g.map(|g| gradient_of_slices(g, t)).transpose()).collect::<Result<Vec<_>>>().map(Some)
}
