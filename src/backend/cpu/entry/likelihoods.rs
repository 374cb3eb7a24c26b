//! Softmax and negative log likelihoods: half types by rows, all else whole.

use crate::backend::cpu::softmax;
use crate::backend::reduce::ReduceDims;
use crate::backend::softmax::{Kind, Targets, TotalWeight, out_of_bounds};
use crate::backend::{View, elements, results};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::{bail, ensure, with_dtype};

pub(super) fn softmax(kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
    if x.dtype.is_half() {
        with_dtype!(half x.dtype, T => {
            softmax::rows_of_halves::<T>(kind, elements(x), d.n, &mut results(out)?);
        });
        return Ok(());
    }
    real!("softmax", x, T => match kind {
        Kind::Softmax => softmax::softmax::<T>(elements(x), d, &mut results(out)?),
        Kind::LogSoftmax => softmax::log_softmax::<T>(elements(x), d, &mut results(out)?),
    });
    Ok(())
}

pub(super) fn softmax_backward(kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
    if y.dtype.is_half() {
        with_dtype!(half y.dtype, T => {
            let operands = [g, y].map(elements::<T>);
            softmax::rows_of_halves_backward(kind, operands, d.n, &mut results(out)?);
        });
        return Ok(());
    }
    real!("softmax", y, T => {
        let (g, y, out) = (elements::<T>(g), elements(y), &mut *results(out)?);
        match kind {
            Kind::Softmax => softmax::softmax_backward::<T>(g, y, d, out),
            Kind::LogSoftmax => softmax::log_softmax_backward::<T>(g, y, d, out),
        }
    });
    Ok(())
}

pub(super) fn nll(logp: View, d: ReduceDims, targets: Targets, losses: View) -> Result<TotalWeight> {
    if logp.dtype.is_half() {
        return with_dtype!(half logp.dtype, T => {
            let (x, targets) = (elements::<T>(logp), host_targets(&targets));
            let total = softmax::nll_forward::<f32>(|i| x[i].to_f32(), d, targets, &mut results(losses)?);
            Ok(TotalWeight::Known(total.map_err(out_of_bounds)?.to_f64()))
        });
    }
    real!("softmax", logp, T => {
        let (x, targets) = (elements::<T>(logp), host_targets(&targets));
        let total = softmax::nll_forward::<T>(|i| x[i], d, targets, &mut results(losses)?);
        Ok(TotalWeight::Known(total.map_err(out_of_bounds)?.to_f64()))
    })
}

pub(super) fn nll_backward(
    g: View,
    logp: View,
    d: ReduceDims,
    targets: Targets,
    logits: bool,
    out: View,
) -> Result<()> {
    if out.dtype.is_half() {
        ensure!(logits, Error::DtypeNotImplemented { op: "nll_loss", dtype: out.dtype });
        let (g, t) = (elements::<f32>(g), host_targets(&targets));
        return with_dtype!(half out.dtype, T => {
            let (x, mut dx) = (elements::<T>(logp), results(out)?);
            softmax::cross_entropy_backward_of_halves(g, x, d, t, &mut dx).map_err(out_of_bounds)
        });
    }
    real!("softmax", out, T => {
        let (g, t, dx) = (elements::<T>(g), host_targets(&targets), &mut *results(out)?);
        if logits {
            softmax::cross_entropy_backward(g, elements(logp), d, t, dx).map_err(out_of_bounds)?;
        } else {
            softmax::nll_backward(g, d, t, dx).map_err(out_of_bounds)?;
        }
    });
    Ok(())
}

fn host_targets<'a, T: Element>(t: &Targets<'a>) -> softmax::Targets<'a, T> {
    softmax::Targets {
        class: elements(t.class),
        weight: t.weight.map(elements),
        ignore_index: t.ignore_index,
    }
}
