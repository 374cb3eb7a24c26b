//! Selects the kernel for a kind of normalization and a dtype.

use crate::backend::cpu::norm;
pub(super) use crate::backend::norm::Kind;
use crate::backend::norm::{Stats, reciprocal_deviation};
use crate::backend::{View, elements, results};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::with_dtype;

pub(super) fn forward(
    kind: Kind,
    x: View,
    affine: [Option<View>; 2],
    eps: f64,
    out: View,
    stats: Stats,
) -> Result<()> {
    if x.dtype.is_half() {
        return with_dtype!(half x.dtype, T => forward_of_halves::<T>(kind, x, affine, eps, out, stats));
    }
    with_dtype!(float x.dtype, T => forward_in::<T>(kind, x, affine, eps, out, stats), else Err(not_of(kind, x)))
}

pub(super) fn backward(
    kind: Kind,
    g: View,
    x: View,
    stats: [View; 2],
    weight: Option<View>,
    out: [View; 3],
) -> Result<()> {
    if x.dtype.is_half() {
        return with_dtype!(half x.dtype, T => backward_of_halves::<T>(kind, [g, x], stats, weight, out));
    }
    with_dtype!(float x.dtype, T => backward_in::<T>(kind, g, x, stats, weight, out), else Err(not_of(kind, x)))
}

/// The mean and the biased variance of each channel of a batch, or each group of channels of a sample; false of rows.
pub(super) fn norm_moments(kind: Kind, x: View, mean: View, var: View) -> Result<bool> {
    with_dtype!(float x.dtype, T => {
        let (x, mean, var) = (elements::<T>(x), &mut *results::<T>(mean)?, &mut *results::<T>(var)?);
        match kind {
            Kind::Layer { .. } => return Ok(false),
            Kind::Group { n, c, inner, groups } => norm::group_stats(x, n, c, inner, groups, mean, var),
            Kind::Batch { n, c, inner, .. } => norm::channel_stats(x, n, c, inner, mean, var),
        }
    }, else return Ok(false));
    Ok(true)
}

fn forward_in<T: norm::Number>(
    kind: Kind,
    x: View,
    affine: [Option<View>; 2],
    eps: f64,
    out: View,
    stats: Stats,
) -> Result<()> {
    let (x, out, [w, b]) = (elements::<T>(x), &mut *results::<T>(out)?, affine.map(|v| v.map(elements::<T>)));
    let (mean, rstd) = (&mut *results::<T>(stats.mean)?, &mut *results::<T>(stats.rstd)?);
    match kind {
        Kind::Layer { n } => norm::layer_norm(x, n, w, b, eps, out, mean, rstd),
        Kind::Group { n, c, inner, groups } => {
            norm::group_norm(x, n, c, inner, groups, w, b, eps, out, mean, rstd);
        }
        Kind::Batch { n, c, inner, training } => {
            let mut var = stats.var.map(results::<T>).transpose()?;
            let var = var.as_deref_mut().unwrap_or_default();
            if training {
                norm::channel_stats(x, n, c, inner, mean, var);
            }
            for (rstd, &var) in rstd.iter_mut().zip(var.iter()) {
                *rstd = reciprocal_deviation(var, T::of(eps));
            }
            norm::batch_norm(x, c, inner, mean, rstd, w, b, out);
        }
    }
    Ok(())
}

/// As [`forward`], of a half type, which layer normalization has.
fn forward_of_halves<T: Element>(
    kind: Kind,
    x: View,
    affine: [Option<View>; 2],
    eps: f64,
    out: View,
    stats: Stats,
) -> Result<()> {
    let Kind::Layer { n } = kind else { return Err(not_of(kind, x)) };
    let (x, out, affine) =
        (elements::<T>(x), &mut *results::<T>(out)?, affine.map(|v| v.map(elements::<f32>)));
    let (mean, rstd) = (&mut *results::<f32>(stats.mean)?, &mut *results::<f32>(stats.rstd)?);
    norm::layer_norm_of_halves(x, n, affine, eps, out, mean, rstd);
    Ok(())
}

/// As [`backward`], of a half type.
fn backward_of_halves<T: Element>(
    kind: Kind,
    operands: [View; 2],
    stats: [View; 2],
    weight: Option<View>,
    out: [View; 3],
) -> Result<()> {
    let Kind::Layer { n } = kind else { return Err(not_of(kind, operands[1])) };
    let [dx, dw, db] = out;
    let (dx, dw, db) = (&mut *results::<T>(dx)?, &mut *results::<f32>(dw)?, &mut *results::<f32>(db)?);
    let weight = weight.map(elements::<f32>);
    norm::layer_norm_backward_of_halves(
        operands.map(elements::<T>),
        n,
        stats.map(elements::<f32>),
        weight,
        dx,
        [dw, db],
    );
    Ok(())
}

fn not_of(kind: Kind, x: View) -> Error {
    Error::DtypeNotImplemented { op: kind.kernel(), dtype: x.dtype }
}

fn backward_in<T: norm::Number>(
    kind: Kind,
    g: View,
    x: View,
    [mean, rstd]: [View; 2],
    weight: Option<View>,
    out: [View; 3],
) -> Result<()> {
    let (g, x, w) = (elements::<T>(g), elements::<T>(x), weight.map(elements::<T>));
    let (mean, rstd) = (elements::<T>(mean), elements::<T>(rstd));
    let [dx, dw, db] = out;
    let (dx, dw, db) = (&mut *results::<T>(dx)?, &mut *results::<T>(dw)?, &mut *results::<T>(db)?);
    match kind {
        Kind::Layer { n } => norm::layer_norm_backward(g, x, n, mean, rstd, w, dx, dw, db),
        Kind::Group { n, c, inner, groups } => {
            norm::group_norm_backward(g, x, n, c, inner, groups, mean, rstd, w, dx, dw, db);
        }
        Kind::Batch { n, c, inner, training } => {
            norm::batch_norm_backward(g, x, n, c, inner, mean, rstd, w, training, dx, dw, db);
        }
    }
    Ok(())
}
