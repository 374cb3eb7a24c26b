//! Normalisation on a device: reductions, and formulas over what they leave.

use super::{Kind, Stats};
use crate::backend::norm as kernel;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::nn::float_compute;
use crate::ops::{arith, reduce, rows, view};
use crate::tensor::Tensor;

fn in_shape(t: &Tensor, compute: DType, shape: &Dims) -> Result<Tensor> {
    view::reshape_to(&arith::to_dtype(&t.detach(), compute)?, shape)
}

/// `(x - mean) * rstd * weight + bias`, of tensors that broadcast to `x`.
fn normalize(x: &Tensor, stats: [&Tensor; 2], affine: [Option<&Tensor>; 2]) -> Result<Tensor> {
    let wide = |t: &Tensor| view::expand_to(t, x.shape());
    let [mean, rstd] = [wide(stats[0])?, wide(stats[1])?];
    let [weight, bias] = [affine[0].map(wide).transpose()?, affine[1].map(wide).transpose()?];
    let out = x.new_empty(x.shape().clone())?;
    let affine = [&weight, &bias].map(|t| t.as_ref().map(Tensor::raw));
    kernel::normalize(x.raw(), mean.raw(), rstd.raw(), affine, out.raw())?;
    Ok(out)
}

/// The forward pass without history. Statistics are the given mean and variance, or those of the input; the last result
/// is the variance.
pub fn normalized(
    x: &Tensor,
    kind: Kind,
    [weight, bias]: [Option<&Tensor>; 2],
    eps: f64,
    given: Option<(&Tensor, &Tensor)>,
) -> Result<(Tensor, Stats, Tensor)> {
    let compute = float_compute(kind.node(), x.dtype())?;
    let b = kind.broadcast(x.numel());
    let xs = in_shape(x, compute, &b.x)?;
    let (mean, var) = match given {
        Some((mean, var)) => (in_shape(mean, compute, &b.weight)?, in_shape(var, compute, &b.weight)?),
        None => reduce::mean_and_var(&xs, b.stats)?,
    };
    let rstd = rows::rsqrt.call(&[(&arith::add(&var, eps)?).into()], &[])?;
    let param = |t: Option<&Tensor>| t.map(|t| in_shape(t, compute, &b.weight)).transpose();
    let (weight, bias) = (param(weight)?, param(bias)?);
    let out = normalize(&xs, [&mean, &rstd], [weight.as_ref(), bias.as_ref()])?;
    let flat = |t: &Tensor| view::reshape_to(t, &Dims::from([t.numel()]));
    let stats = Stats { mean: flat(&mean)?, rstd: flat(&rstd)? };
    // The result is a tensor of its own, no view: what follows may write it in place.
    Ok((view::reshape_to(&out, x.shape())?.detach(), stats, flat(&var)?))
}

/// The gradients of input, weight and bias without history, from the statistics of the forward pass.
pub fn gradients(
    kind: Kind,
    compute: DType,
    g: &Tensor,
    x: &Tensor,
    stats: [&Tensor; 2],
    weight: Option<&Tensor>,
) -> Result<[Tensor; 3]> {
    let b = kind.broadcast(x.numel());
    let (xs, g) = (in_shape(x, compute, &b.x)?, in_shape(g, compute, &b.x)?);
    let weight = weight.map(|w| in_shape(w, compute, &b.weight)).transpose()?;
    let mut one_each = b.x.clone();
    (0..one_each.len()).filter(|d| b.stats >> d & 1 == 1).for_each(|d| one_each[d] = 1);
    let [mean, rstd] = [view::reshape_to(stats[0], &one_each)?, view::reshape_to(stats[1], &one_each)?];
    let xhat = normalize(&xs, [&mean, &rstd], [None, None])?;
    let sum = |t: &Tensor| reduce::sum_mask(t, b.params, true, None);
    let (dw, db) = (sum(&arith::mul(&g, &xhat)?)?, sum(&g)?);
    let scaled = |t: &Tensor| weight.as_ref().map_or(Ok(t.clone()), |w| arith::mul(t, w));
    let dx = match kind {
        Kind::Batch { training: false, .. } => arith::mul(&g, &scaled(&rstd)?)?,
        // A channel has one weight, and what its gradients sum over is what the statistics were taken over.
        Kind::Batch { n, inner, .. } => {
            let mean_of = |t: &Tensor| arith::div(t, (n * inner) as f64);
            centred(&g, &mean_of(&db)?, &xhat, &mean_of(&dw)?, &scaled(&rstd)?)?
        }
        Kind::Layer { .. } | Kind::Group { .. } => {
            let mean_of = |t: &Tensor| reduce::mean_mask(t, b.stats, true, None);
            let g = scaled(&g)?;
            centred(&g, &mean_of(&g)?, &xhat, &mean_of(&arith::mul(&g, &xhat)?)?, &rstd)?
        }
    };
    let channels = Dims::from([kind.channels()]);
    let dx = arith::to_dtype(&view::reshape_to(&dx, x.shape())?, x.dtype())?;
    Ok([dx, view::reshape_to(&dw, &channels)?, view::reshape_to(&db, &channels)?])
}

/// `(g - mean_g - xhat * mean_gx) * scale`, of tensors that broadcast to `g`.
fn centred(g: &Tensor, mean_g: &Tensor, xhat: &Tensor, mean_gx: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let wide = |t: &Tensor| view::expand_to(t, g.shape());
    let (mean_g, mean_gx, scale) = (wide(mean_g)?, wide(mean_gx)?, wide(scale)?);
    let out = g.new_empty(g.shape().clone())?;
    kernel::centre([g, &mean_g, xhat, &mean_gx, &scale].map(Tensor::raw), out.raw())?;
    Ok(out)
}
