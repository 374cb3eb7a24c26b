//! Normalisation on a device: a launch where statistics are those of lanes; else reductions, and formulas over what they
//! leave.

use super::{Broadcast, Kind, Stats, param};
use crate::backend::norm::{self as kernel, Lanes};
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

impl Broadcast {
    /// Statistics in the shape that broadcasts to the input.
    fn of_stats(&self, t: &Tensor) -> Result<Tensor> {
        let mut shape = self.x.clone();
        (0..shape.len()).filter(|d| self.stats >> d & 1 == 1).for_each(|d| shape[d] = 1);
        view::reshape_to(t, &shape)
    }
}

/// The lanes that statistics are taken over, if those are beside one another and a launch goes through them.
fn lanes(kind: Kind, x: &Tensor) -> Result<Option<Lanes>> {
    let d = match kind {
        Kind::Layer { n } if n > 0 => Lanes { count: x.numel() / n, n, inner: 1, groups: 1 },
        Kind::Group { n, c, inner, groups } => {
            Lanes { count: n * groups, n: c / groups * inner, inner, groups }
        }
        Kind::Layer { .. } | Kind::Batch { .. } => return Ok(None),
    };
    Ok((x.numel() > 0 && kernel::in_lanes(x.raw(), d)?).then_some(d))
}

/// The forward pass over statistics of the input itself, without history.
pub fn normalized_by_itself(
    x: &Tensor,
    kind: Kind,
    affine: [Option<&Tensor>; 2],
    eps: f64,
) -> Result<(Tensor, Stats)> {
    let Some(d) = lanes(kind, x)? else {
        let (out, stats, _) = normalized(x, kind, affine, eps, None)?;
        return Ok((out, stats));
    };
    let compute = float_compute(kind.node(), x.dtype())?;
    let (xs, [weight, bias]) = (x.detach().dense(compute)?, affine);
    let (weight, bias) = (param(weight, compute)?, param(bias, compute)?);
    let affine = [&weight, &bias].map(|t| t.as_ref().map(Tensor::raw));
    let out = xs.new_empty(x.shape().clone())?;
    let stat = || xs.new_empty(Dims::from([d.count]));
    let (mean, rstd) = (stat()?, stat()?);
    kernel::lanes(xs.raw(), affine, eps, d, [out.raw(), mean.raw(), rstd.raw()])?;
    Ok((out, Stats { mean, rstd }))
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
    if let Some(d) = lanes(kind, x)? {
        return lane_gradients(kind, d, compute, g, x, stats, weight);
    }
    let (xs, g) = (in_shape(x, compute, &b.x)?, in_shape(g, compute, &b.x)?);
    let weight = weight.map(|w| in_shape(w, compute, &b.weight)).transpose()?;
    let [mean, rstd] = [b.of_stats(stats[0])?, b.of_stats(stats[1])?];
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

/// As [`gradients`], a launch for what goes to the input and one for what the gradient of the weight sums.
fn lane_gradients(
    kind: Kind,
    d: Lanes,
    compute: DType,
    g: &Tensor,
    x: &Tensor,
    [mean, rstd]: [&Tensor; 2],
    weight: Option<&Tensor>,
) -> Result<[Tensor; 3]> {
    let b = kind.broadcast(x.numel());
    let (xs, g) = (x.detach().dense(compute)?, g.detach().dense(compute)?);
    let weight = param(weight, compute)?;
    let dx = xs.new_empty(x.shape().clone())?;
    let stats = [mean.raw(), rstd.raw()];
    kernel::lanes_backward(g.raw(), xs.raw(), stats, weight.as_ref().map(Tensor::raw), d, dx.raw())?;
    let wide = |t: &Tensor| view::expand_to(&b.of_stats(t)?, &b.x);
    let (mean, rstd) = (wide(mean)?, wide(rstd)?);
    let (xs, g) = (view::reshape_to(&xs, &b.x)?, view::reshape_to(&g, &b.x)?);
    let terms = xs.new_empty(b.x.clone())?;
    kernel::weight_terms([&g, &xs, &mean, &rstd].map(Tensor::raw), terms.raw())?;
    let channels = Dims::from([kind.channels()]);
    let sum = |t: &Tensor| view::reshape_to(&reduce::sum_mask(t, b.params, true, None)?, &channels);
    Ok([arith::to_dtype(&dx, x.dtype())?, sum(&terms)?, sum(&g)?])
}

/// `(g - mean_g - xhat * mean_gx) * scale`, of tensors that broadcast to `g`.
fn centred(g: &Tensor, mean_g: &Tensor, xhat: &Tensor, mean_gx: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let wide = |t: &Tensor| view::expand_to(t, g.shape());
    let (mean_g, mean_gx, scale) = (wide(mean_g)?, wide(mean_gx)?, wide(scale)?);
    let out = g.new_empty(g.shape().clone())?;
    kernel::centre([g, &mean_g, xhat, &mean_gx, &scale].map(Tensor::raw), out.raw())?;
    Ok(out)
}
