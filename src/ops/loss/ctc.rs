//! Connectionist temporal classification.

use smallvec::smallvec;

use crate::backend::ctc::{self as kernel, Sequences};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{
    Attribute, Cx, Function, Grads, NotImplemented, SavedTensor, Visit, grad_enabled, record,
};
use crate::ops::index::masked_fill;
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;
use crate::{ensure, ops};

/// The sequences of labels, dense int64, of samples `[steps, samples, classes]`.
fn sequences(log_probs: &Tensor, labels: &Tensor, a: &Args) -> Result<Sequences> {
    let [rows, count, classes] = log_probs.shape()[..] else {
        return Err(Error::Runtime(format!(
            "ctc_loss: expected 3D log_probs, but got {}",
            log_probs.shape()
        )));
    };
    ensure!(rows > 0, Runtime, "log_probs tensor must not be empty");
    let sizes = |name: &str, values: &[i64]| -> Result<Vec<usize>> {
        ensure!(values.len() == count, Runtime, "{name} must be of size batch_size");
        ensure!(values.iter().all(|&n| n >= 0), Runtime, "{name} must be non-negative");
        Ok(values.iter().map(|&n| n as usize).collect())
    };
    let (steps, lengths) = (sizes("input_lengths", a.ints(2)?)?, sizes("target_lengths", a.ints(3)?)?);
    let at_most = |given: usize, most: usize, name: &str| {
        ensure!(given <= most, Runtime, "ctc_loss: {name} has {most} of the {given} that the lengths name");
        Ok(())
    };
    at_most(steps.iter().copied().max().unwrap_or(0), rows, "log_probs")?;
    let blank = a.int(4)?;
    ensure!((0..classes as i64).contains(&blank), Runtime, "blank must be in label range");
    let starts = match labels.shape()[..] {
        [found] => {
            at_most(
                lengths.iter().try_fold(0usize, |s, &n| s.checked_add(n)).unwrap_or(usize::MAX),
                found,
                "targets",
            )?;
            lengths.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect()
        }
        [samples, longest] => {
            at_most(count, samples, "targets")?;
            at_most(lengths.iter().copied().max().unwrap_or(0), longest, "targets")?;
            (0..count).map(|n| n * longest).collect()
        }
        _ => {
            return Err(Error::Runtime(format!(
                "ctc_loss: expected 1D or 2D targets, but got {}",
                labels.shape()
            )));
        }
    };
    Ok(Sequences { steps, starts, lengths, blank: blank as usize, classes })
}

fn expect_classes(s: &Sequences, labels: &Tensor) -> Result<()> {
    let all = labels.slice::<i64>()?;
    let of = |(&start, &n): (&usize, &usize)| &all[start..][..n];
    let outside = s.starts.iter().zip(&s.lengths).flat_map(of).find(|&&c| c < 0 || c >= s.classes as i64);
    let Some(class) = outside else { return Ok(()) };
    Err(Error::Index(format!("Target {class} is out of bounds.")))
}

fn losses(a: &Args) -> Result<Out> {
    let (log_probs, zero_infinity) = (a.tensor(0)?, a.bool(5)?);
    let (probs, labels) = (log_probs.dense(log_probs.dtype())?, a.tensor(1)?.dense(DType::I64)?);
    let (op, device, dtype) = ("ctc_loss", probs.device(), probs.dtype());
    ensure!(matches!(dtype, DType::F32 | DType::F64), Error::DtypeNotImplemented { op, dtype });
    let s = sequences(&probs, &labels, a)?;
    expect_classes(&s, &labels)?;
    let known = probs.new_empty([s.count()])?;
    let alpha = probs.new_empty([s.count(), probs.shape()[0], s.width()])?;
    let ran = kernel::losses(&s, probs.raw(), labels.raw(), known.raw(), alpha.raw())?;
    ensure!(ran, Error::DeviceNotImplemented { op: Some(op.into()), device, what: String::new() });
    let out = if zero_infinity {
        let is_impossible = rows::eq.call(&[(&known).into(), f64::INFINITY.into()], &[])?;
        masked_fill(&known, &is_impossible, Scalar::Int(0).into())?
    } else {
        known.detach()
    };
    let out = record(out, &[log_probs], |_| CtcLoss {
        log_probs: SavedTensor::input(log_probs),
        labels: SavedTensor::input(&labels),
        losses: SavedTensor::input(&known),
        alpha: SavedTensor::input(&alpha),
        sequences: s,
        zero_infinity,
    })?;
    Ok(out.into())
}

struct CtcLoss {
    log_probs: SavedTensor,
    labels: SavedTensor,
    /// Infinite where no path has the labels.
    losses: SavedTensor,
    alpha: SavedTensor,
    sequences: Sequences,
    zero_infinity: bool,
}

impl Function for CtcLoss {
    fn name(&self) -> &'static str {
        "CtcLossBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("_ctc_loss_backward")
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let log_probs = self.log_probs.get(cx)?;
        let [labels, losses, alpha] = [self.labels.get(cx)?, self.losses.get(cx)?, self.alpha.get(cx)?];
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        // With `create_graph`, the Jacobian is a constant times the recorded gradient: a derivative by the log-probabilities is
        // not implemented, as in PyTorch.
        let factor = if grad_enabled() { g.detach().new_full(g.shape().clone(), 1.0)? } else { g.clone() };
        let (probs, dense) = (log_probs.dense(log_probs.dtype())?, factor.dense(log_probs.dtype())?);
        let out = probs.new_empty(probs.shape().clone())?;
        let inputs = [probs.raw(), labels.raw(), losses.raw(), alpha.raw()];
        let (op, device) = (Some("ctc_loss_backward".into()), probs.device());
        let ran = kernel::backward(&self.sequences, dense.raw(), inputs, self.zero_infinity, out.raw())?;
        ensure!(ran, Error::DeviceNotImplemented { op, device, what: String::new() });
        if !grad_enabled() {
            return Ok(smallvec![Some(out)]);
        }
        let out = record(out, &[&log_probs], |_| NotImplemented { op: "_ctc_loss_backward" })?;
        Ok(smallvec![Some(arith::mul(&out, &view::unsqueeze(g, 1)?)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("log_probs", &self.log_probs);
        visit("targets", &self.labels);
        visit("result0", &self.losses);
        visit("result1", &self.alpha);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("blank", Attribute::Number(Scalar::Int(self.sequences.blank as i64)));
        visit("zero_infinity", Attribute::Bool(self.zero_infinity));
    }
}

ops! {
    /// The negative logarithm of the probability of label sequences, over all their alignments, for each sample of log-probabilities
    /// (T, N, C). The labels are (N, S), padded, or in one dimension one after the other.
    "ctc_losses" NN | NATIVE, batch SLICES {
        (log_probs: Tensor, targets: Tensor, input_lengths: int[], target_lengths: int[], blank: int = 0,
         zero_infinity: bool = False) =>
            losses;
    }
}
