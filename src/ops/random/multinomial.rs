//! Sampling of categories by weight.

use super::stream;
use crate::backend::computes;
use crate::backend::inspect::{Question, known};
use crate::backend::random::{self as kernel, Draw};
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::ops::reduce::{all, any};
use crate::ops::scan::cumsum;
use crate::ops::schema::{Args, Out};
use crate::ops::sort::{search, sort};
use crate::ops::view::cut::narrow;
use crate::ops::{arith, rows};
use crate::tensor::Tensor;

/// Draws `num_samples` indices per row of weights.
pub(super) fn multinomial(a: &Args) -> Result<Out> {
    let (t, samples, replacement) = (a.tensor(0)?, a.int(1)?, a.bool(2)?);
    ensure!(matches!(t.rank(), 1 | 2), Runtime, "prob_dist must be 1 or 2 dim");
    ensure!(
        t.dtype().is_float(),
        Runtime,
        "multinomial only supports floating-point dtypes for input, got: {}",
        t.dtype().scalar_name()
    );
    ensure!(samples > 0, Runtime, "cannot sample n_sample <= 0 samples");
    let categories = t.shape()[t.rank() - 1];
    let samples = samples as usize;
    ensure!(
        replacement || samples <= categories,
        Runtime,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    let mut shape = t.shape().clone();
    let last = shape.len() - 1;
    shape[last] = samples;
    if shape.contains(&0) {
        return Ok(Tensor::empty_on(shape, DType::I64, t.device())?.into());
    }
    let weights = checked_weights(t)?;
    shape[last] = if replacement { samples } else { categories };
    let draws = Tensor::empty(shape.clone(), DType::F64)?;
    let p = stream(a.opt_generator(3)?, &draws);
    let draw = if replacement { Draw::Uniform(0.0, 1.0) } else { Draw::Exponential(1.0) };
    kernel::fill(draw, p, draws.raw())?;
    let draws = arith::to(&draws, t.device(), weights.dtype())?;
    shape[last] = samples;
    let out = Tensor::empty_on(shape, DType::I64, t.device())?;
    if kernel::pick_categories(weights.raw(), draws.raw(), replacement, out.raw())? {
        return Ok(out.into());
    }
    if replacement {
        let upto = cumsum(&weights, last, None)?;
        let total = narrow(&upto, last as i64, categories as i64 - 1, 1)?;
        return Ok(search(&upto, (&arith::mul(&draws, &total)?).into(), None, true, false)?.into());
    }
    let order = sort(&arith::div(&draws, &weights)?, last as i64, false, "SortBackward0")?.swap_remove(1);
    Ok(narrow(&order, last as i64, 0, samples as i64)?.dense(DType::I64)?.into())
}

/// The weights as dense float64, or float32 if the device supports nothing wider, in which case nearly equal
/// comparisons may be decided differently. Checking them synchronizes with a GPU.
fn checked_weights(t: &Tensor) -> Result<Tensor> {
    let compute = if computes(t.device(), DType::F64) { DType::F64 } else { DType::F32 };
    let (last, weights) = (t.rank() - 1, t.detach().dense(compute)?);
    let valid = match known(Question::AllWeights, weights.raw())? {
        Some(valid) => valid,
        None => {
            let finite = rows::isfinite.call(&[(&weights).into()], &[])?;
            let negative = rows::lt.call(&[(&weights).into(), 0.0.into()], &[])?;
            let valid = rows::gt.call(&[(&finite).into(), (&negative).into()], &[])?;
            !all(&valid, None, false)?.item()?.is_zero()
        }
    };
    ensure!(valid, Runtime, "probability tensor contains either `inf`, `nan` or element < 0");
    let valid = match known(Question::EachRowPositive(t.shape()[last]), weights.raw())? {
        Some(valid) => valid,
        None => {
            let positive = rows::lt.call(&[0.0.into(), (&weights).into()], &[])?;
            !all(&any(&positive, Some(&[last as i64]), false)?, None, false)?.item()?.is_zero()
        }
    };
    ensure!(valid, Runtime, "invalid multinomial distribution (sum of probabilities <= 0)");
    Ok(weights)
}
