//! Compares gradients with finite differences in float64.

use super::{Options, Target, grad};
use crate::bail;
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::{arith, reduce};
use crate::tensor::Tensor;

/// A differentiable function of tensors.
pub type Checked<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;

const STEP: f64 = 1e-6;
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-6;

/// Weights that differ between elements, so that a permuted gradient is detected.
fn weights(like: &Tensor) -> Result<Tensor> {
    let w: Vec<f64> = (0..like.numel()).map(|i| 0.7 + ((i * 37 + 11) % 17) as f64 / 13.0).collect();
    Tensor::from_slice(&w, like.shape().clone())
}

/// The sum of `f(inputs)` times fixed weights.
fn weighted(f: Checked, inputs: &[Tensor]) -> Result<Tensor> {
    let y = f(inputs)?;
    let y = arith::mul(&y, &weights(&y)?)?;
    reduce::sum_mask(&y, u64::MAX, false, None)
}

fn leaves(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    inputs
        .iter()
        .map(|t| {
            let leaf = t.copied(t.dtype())?;
            if t.dtype() == DType::F64 {
                leaf.set_requires_grad(true)?;
            }
            Ok(leaf)
        })
        .collect()
}

/// Checks the gradient of `f` with respect to each float64 input, at `inputs`.
///
/// # Errors
/// `RuntimeError` that names the input and shows both numbers when they differ.
pub fn gradcheck(f: Checked, inputs: &[Tensor]) -> Result<()> {
    check(f, inputs, |f, leaves| {
        let y = weighted(f, leaves)?;
        gradients(&y, leaves, false)
    })
}

/// Checks the second derivatives.
pub fn gradgradcheck(f: Checked, inputs: &[Tensor]) -> Result<()> {
    let slope = |x: &[Tensor]| -> Result<Tensor> {
        let y = weighted(f, x)?;
        let mut total: Option<Tensor> = None;
        for g in gradients(&y, x, true)?.into_iter().flatten() {
            let part = reduce::sum_mask(&arith::mul(&g, &weights(&g)?)?, u64::MAX, false, None)?;
            total = Some(match total {
                Some(t) => arith::add(&t, &part)?,
                None => part,
            });
        }
        total.map_or_else(|| Tensor::zeros([0usize; 0], DType::F64), Ok)
    };
    check(&slope, inputs, |f, leaves| {
        let y = weighted(f, leaves)?;
        if y.requires_grad() { gradients(&y, leaves, false) } else { Ok(vec![None; leaves.len()]) }
    })
}

fn gradients(y: &Tensor, leaves: &[Tensor], create_graph: bool) -> Result<Vec<Option<Tensor>>> {
    let wanted: Vec<Target> =
        leaves.iter().filter(|t| t.requires_grad()).cloned().map(Target::Tensor).collect();
    let options =
        Options { allow_unused: true, create_graph, retain_graph: create_graph, ..Options::default() };
    let mut found = grad(&[y.clone().into()], &wanted, &[], options)?.into_iter();
    Ok(leaves.iter().map(|t| if t.requires_grad() { found.next().flatten() } else { None }).collect())
}

fn check(
    f: Checked,
    inputs: &[Tensor],
    analytic: impl Fn(Checked, &[Tensor]) -> Result<Vec<Option<Tensor>>>,
) -> Result<()> {
    let leaves = leaves(inputs)?;
    let found = analytic(f, &leaves)?;
    for (k, (input, g)) in inputs.iter().zip(found).enumerate() {
        if input.dtype() != DType::F64 {
            continue;
        }
        let g = g.map_or_else(|| vec![0.0; input.numel()], |g| g.to_vec::<f64>());
        let at = input.to_vec::<f64>();
        for (i, &claimed) in g.iter().enumerate() {
            let value = |d: f64| -> Result<f64> {
                let mut moved = at.clone();
                moved[i] += d;
                let mut x = inputs.to_vec();
                x[k] = Tensor::from_slice(&moved, input.shape().clone())?;
                // New leaves, since `f` may itself compute a gradient.
                Ok(weighted(f, &self::leaves(&x)?)?.item()?.to_f64())
            };
            let numeric = (value(STEP)? - value(-STEP)?) / (2.0 * STEP);
            if (numeric - claimed).abs() > ABSOLUTE + RELATIVE * numeric.abs().max(1.0) {
                bail!(
                    Runtime,
                    "Jacobian mismatch for output 0 with respect to input {k}, element {i}: numerical {numeric}, analytical \
                     {claimed}"
                );
            }
        }
    }
    Ok(())
}
