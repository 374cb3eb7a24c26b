//! Drawing categories by weight.

use super::stream;
use crate::backend::computes;
use crate::backend::cpu::parallel::for_chunks_mut;
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
    if t.device().is_gpu() {
        return draw_on_device(t, samples, replacement, a);
    }
    let out = Tensor::empty(shape, DType::I64)?;
    let weights = t.values::<f64>()?;
    check_weights(&weights, categories)?;
    let per_row = if replacement { samples } else { categories };
    let draws = Tensor::empty([out.numel() / samples, per_row], DType::F64)?;
    let p = stream(a.opt_generator(3)?, draws.numel());
    let d = if replacement { Draw::Uniform(0.0, 1.0) } else { Draw::Exponential(1.0) };
    kernel::fill(d, p, draws.raw())?;
    let draws = draws.slice::<f64>()?;
    for_chunks_mut(out.slice_mut::<i64>()?, samples, |row, out| {
        let weights = &weights[row * categories..][..categories];
        let draws = &draws[row * per_row..][..per_row];
        if replacement { pick_independently(weights, draws, out) } else { pick_distinct(weights, draws, out) }
    });
    Ok(out.into())
}

const NOT_A_WEIGHT: &str = "probability tensor contains either `inf`, `nan` or element < 0";
const NO_WEIGHT: &str = "invalid multinomial distribution (sum of probabilities <= 0)";

/// As on the host, from the same draws; the host waits for whether the weights are some.
fn draw_on_device(t: &Tensor, samples: usize, replacement: bool, a: &Args) -> Result<Out> {
    // Of float32 where the device has nothing wider: only the closest of calls go another way.
    let compute = if computes(t.device(), DType::F64) { DType::F64 } else { DType::F32 };
    let (last, weights) = (t.rank() - 1, t.detach().dense(compute)?);
    let finite = rows::isfinite.call(&[(&weights).into()], &[])?;
    let negative = rows::lt.call(&[(&weights).into(), 0.0.into()], &[])?;
    let valid = all(&rows::gt.call(&[(&finite).into(), (&negative).into()], &[])?, None, false)?;
    ensure!(!valid.item()?.is_zero(), Runtime, "{NOT_A_WEIGHT}");
    let positive = rows::lt.call(&[0.0.into(), (&weights).into()], &[])?;
    let valid = all(&any(&positive, Some(&[last as i64]), false)?, None, false)?;
    ensure!(!valid.item()?.is_zero(), Runtime, "{NO_WEIGHT}");
    let mut shape = t.shape().clone();
    shape[last] = if replacement { samples } else { t.shape()[last] };
    let draws = Tensor::empty(shape, DType::F64)?;
    let p = stream(a.opt_generator(3)?, draws.numel());
    let sent = |draws: &Tensor| arith::to(draws, t.device(), compute);
    if replacement {
        kernel::fill(Draw::Uniform(0.0, 1.0), p, draws.raw())?;
        let upto = cumsum(&weights, last, false, None)?;
        let total = narrow(&upto, last as i64, t.shape()[last] as i64 - 1, 1)?;
        return Ok(search(&upto, (&arith::mul(&sent(&draws)?, &total)?).into(), None, true, false)?.into());
    }
    kernel::fill(Draw::Exponential(1.0), p, draws.raw())?;
    let order =
        sort(&arith::div(&sent(&draws)?, &weights)?, last as i64, false, "SortBackward0")?.swap_remove(1);
    Ok(narrow(&order, last as i64, 0, samples as i64)?.dense(DType::I64)?.into())
}

fn check_weights(weights: &[f64], categories: usize) -> Result<()> {
    ensure!(weights.iter().all(|w| w.is_finite() && *w >= 0.0), Runtime, "{NOT_A_WEIGHT}");
    let positive = weights.chunks(categories).all(|row| row.iter().any(|&w| w > 0.0));
    ensure!(positive, Runtime, "{NO_WEIGHT}");
    Ok(())
}

/// The category in whose share of the total each of the uniform `draws` falls.
fn pick_independently(weights: &[f64], draws: &[f64], out: &mut [i64]) {
    let mut sum = 0.0;
    let upto: Vec<f64> = weights
        .iter()
        .map(|w| {
            sum += w;
            sum
        })
        .collect();
    for (o, u) in out.iter_mut().zip(draws) {
        *o = upto.partition_point(|&c| c <= u * sum) as i64;
    }
}

/// The first categories to arrive, where each waits a time of its weight's rate: `waits` are of rate 1.
fn pick_distinct(weights: &[f64], waits: &[f64], out: &mut [i64]) {
    let times: Vec<f64> = weights.iter().zip(waits).map(|(w, wait)| wait / w).collect();
    let mut order: Vec<usize> = (0..times.len()).collect();
    let by_time = |a: &usize, b: &usize| times[*a].total_cmp(&times[*b]);
    if out.len() < order.len() {
        order.select_nth_unstable_by(out.len() - 1, by_time);
    }
    let first = &mut order[..out.len()];
    first.sort_unstable_by(by_time);
    out.iter_mut().zip(first).for_each(|(o, i)| *o = *i as i64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_replacement_are_distinct_and_prefer_weight() {
        let mut out = [0i64; 3];
        pick_distinct(&[1.0, 0.0, 2.0, 4.0], &[1.0, 1.0, 1.0, 1.0], &mut out);
        assert_eq!(out, [3, 2, 0]);
    }

    #[test]
    fn samples_with_replacement_skip_categories_without_weight() {
        let mut out = [9i64; 4];
        pick_independently(&[0.0, 1.0, 0.0, 3.0], &[0.0, 0.2, 0.25, 0.99], &mut out);
        assert_eq!(out, [1, 1, 3, 3]);
    }
}
