//! Normalization composed of reductions and of formulas on their results, for backends without a kernel for it. See
//! Note [Formulas of normalization].

use std::sync::LazyLock;

use super::{Broadcast, Saved, broadcast, channels};
use crate::backend::norm::{Kind, gradient, normalize, passed_back, terms};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formula::record::record_all;
use crate::formula::{Arith, Formula, recorded};
use crate::layout::Dims;
use crate::ops::nn::float_compute;
use crate::ops::pointwise::{Applied, Arg, Rule, evaluate, sum_of};
use crate::ops::{arith, reduce, rows, view};
use crate::tensor::Tensor;

fn in_shape(t: &Tensor, compute: DType, shape: &Dims) -> Result<Tensor> {
    view::reshape_to(&arith::to_dtype(&t.detach(), compute)?, shape)
}

/// Applies the formula to tensors that broadcast.
fn apply(name: &'static str, formula: &Formula, args: &[&Tensor]) -> Result<Tensor> {
    let (args, dtype): (Vec<Arg>, _) = (args.iter().map(|t| Arg::T(t)).collect(), args[0].dtype());
    evaluate(name, formula, dtype, &args, &[], &[dtype])?
        .pop()
        .ok_or(Error::Runtime("a formula has a result".into()))
}

/// The sum of the formula over the dimensions of a mask, which are kept with size 1. The other tensors broadcast to the
/// first.
fn sum_over(name: &'static str, formula: &Formula, args: &[&Tensor], mask: u64) -> Result<Tensor> {
    let (args, dtype): (Vec<Arg>, _) = (args.iter().map(|t| Arg::T(t)).collect(), args[0].dtype());
    sum_of(Applied::new(Rule::Formula(name, formula), &args, &[]), dtype, mask)
}

/// Normalizes `x` with tensors that broadcast to it.
fn normalized_by(x: &Tensor, [mean, rstd]: [&Tensor; 2], affine: [Option<&Tensor>; 2]) -> Result<Tensor> {
    let mut args = vec![x, mean, rstd];
    args.extend(affine.into_iter().flatten());
    let formula = match affine.map(|v| v.is_some()) {
        [false, false] => recorded!(|a| normalize(a[0], a[1], a[2], Arith::zero())),
        [true, false] => recorded!(|a| normalize(a[0], a[1], a[2] * a[3], Arith::zero())),
        [false, true] => recorded!(|a| normalize(a[0], a[1], a[2], a[3])),
        [true, true] => recorded!(|a| normalize(a[0], a[1], a[2] * a[3], a[4])),
    };
    apply("normalize", formula, &args)
}

impl Broadcast {
    /// Reshapes statistics such that they broadcast to the input.
    fn of_stats(&self, t: &Tensor) -> Result<Tensor> {
        let mut shape = self.x.clone();
        (0..shape.len()).filter(|d| self.stats >> d & 1 == 1).for_each(|d| shape[d] = 1);
        view::reshape_to(t, &shape)
    }
}

/// The forward pass, without history. The statistics are the given mean and variance, or those of the input; the last
/// result is the variance.
pub fn normalized(
    x: &Tensor,
    kind: Kind,
    [weight, bias]: [Option<&Tensor>; 2],
    eps: f64,
    given: Option<(&Tensor, &Tensor)>,
) -> Result<(Tensor, Saved, Tensor)> {
    let compute = float_compute(kind.kernel(), x.dtype())?;
    let b = broadcast(kind, x.numel());
    let xs = in_shape(x, compute, &b.x)?;
    let (mean, var) = match given {
        Some((mean, var)) => (in_shape(mean, compute, &b.weight)?, in_shape(var, compute, &b.weight)?),
        None => reduce::mean_and_var(&xs, b.stats)?,
    };
    let rstd = rows::rsqrt.call(&[(&arith::add(&var, eps)?).into()], &[])?;
    let param = |t: Option<&Tensor>| t.map(|t| in_shape(t, compute, &b.weight)).transpose();
    let (weight, bias) = (param(weight)?, param(bias)?);
    let out = normalized_by(&xs, [&mean, &rstd], [weight.as_ref(), bias.as_ref()])?;
    let flat = |t: &Tensor| view::reshape_to(t, &Dims::from([t.numel()]));
    let stats = Saved { mean: flat(&mean)?, rstd: flat(&rstd)? };
    // Detached so that the result is not a view: the caller may write it in place.
    Ok((view::reshape_to(&out, x.shape())?.detach(), stats, flat(&var)?))
}

/// The gradients of weight and bias and, if the gradient of the input is wanted, the two sums over each lane that it
/// needs; without history, from the statistics of the forward pass.
pub fn gradients(
    kind: Kind,
    compute: DType,
    g: &Tensor,
    x: &Tensor,
    stats: [&Tensor; 2],
    weight: Option<&Tensor>,
    made: Option<Tensor>,
) -> Result<[Tensor; 3]> {
    let b = broadcast(kind, x.numel());
    let (xs, g) = (in_shape(x, compute, &b.x)?, in_shape(g, compute, &b.x)?);
    let [mean, rstd] = [b.of_stats(stats[0])?, b.of_stats(stats[1])?];
    let sum = |t: &Tensor| reduce::sum_mask(t, b.params, true, None);
    let of_weight = recorded!(|a| terms(a[0], a[1], a[2])[1] * a[3]);
    let dw = sum_over("weight_terms", of_weight, &[&g, &xs, &mean, &rstd], b.params)?;
    let db = sum(&g)?;
    let channels = Dims::from([channels(kind)]);
    let done = |dx: Tensor| Ok([dx, view::reshape_to(&dw, &channels)?, view::reshape_to(&db, &channels)?]);
    if let Some(dx) = made {
        return done(arith::to_dtype(&dx, x.dtype())?);
    }
    let weight = weight.map(|w| in_shape(w, compute, &b.weight)).transpose()?;
    let scaled = |t: &Tensor| weight.as_ref().map_or(Ok(t.clone()), |w| arith::mul(t, w));
    let dx = match kind {
        Kind::Batch { training: false, .. } => arith::mul(&g, &scaled(&rstd)?)?,
        Kind::Batch { n, inner, .. } => {
            // A channel has one weight, and its gradients are sums over the same elements as its statistics.
            let count = (n * inner) as f64;
            let scale = scaled(&rstd)?;
            let along = arith::div(&arith::mul(&arith::mul(&dw, &rstd)?, &scale)?, count)?;
            let shift = arith::div(&arith::mul(&db, &scale)?, count)?;
            input_gradient(&g, &xs, &mean, &scale, &along, &shift)?
        }
        Kind::Layer { .. } | Kind::Group { .. } => {
            let mean_of = |t: &Tensor| reduce::mean_mask(t, b.stats, true, None);
            let slope = scaled(&g)?;
            let product = recorded!(|a| terms(a[0], a[1], a[2])[1]);
            let product = sum_over("weight_terms", product, &[&slope, &xs, &mean], b.stats)?;
            let count = reduce::reduced_count(&xs, b.stats) as f64;
            // The inputs are means, so the count is 1.
            let sums = [&mean_of(&slope)?, &arith::div(&product, count)?, &rstd];
            let along = recorded!(|a| passed_back([a[0], a[1]], a[2], Arith::one())[0]);
            let shift = recorded!(|a| a[0] * a[1]);
            let (along, shift) =
                (apply("norm_backward", along, &sums)?, apply("norm_backward", shift, &[sums[0], sums[2]])?);
            input_gradient(&slope, &xs, &mean, &rstd, &along, &shift)?
        }
    };
    done(arith::to_dtype(&view::reshape_to(&dx, x.shape())?, x.dtype())?)
}

/// The gradient of the input, from tensors that broadcast to it.
fn input_gradient(
    g: &Tensor,
    x: &Tensor,
    mean: &Tensor,
    scale: &Tensor,
    along: &Tensor,
    shift: &Tensor,
) -> Result<Tensor> {
    static GRADIENT: LazyLock<Formula> =
        LazyLock::new(|| record_all(6, 0, |a, _| vec![gradient(a[0], a[1], a[2], a[3], [a[4], a[5]])]));
    apply("norm_backward", &GRADIENT, &[g, x, mean, scale, along, shift])
}
