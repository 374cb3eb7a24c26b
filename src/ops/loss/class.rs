//! Losses of multi-class classification.

use smallvec::smallvec;

use super::{Reduction, wide};
use crate::backend::softmax::{self as kernel, ReduceDims, Targets, TotalWeight};
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record};
use crate::layout::Dims;
use crate::ops::schema::{Args, Out};
use crate::ops::softmax::{lanes, log_softmax, log_softmax_under_loss};
use crate::ops::{arith, nn, reduce, rows, view};
use crate::tensor::Tensor;

// Note [Cross entropy in one pass] As in PyTorch, the graph of a cross entropy is NllLoss after LogSoftmax. The
// gradient of the log-probabilities is non-zero for only one class per position, so storing it just for the next node
// to read would double the memory traffic. Unless backward itself is differentiated, the loss therefore computes the
// gradient of the logits directly, and the node of the log-softmax, which nothing else can reach, passes it through.

/// The dimension of classes.
fn class_dim(t: &Tensor) -> usize {
    if t.rank() == 1 { 0 } else { 1 }
}

/// `-weight[target] * logp[target]`, reduced.
pub fn nll_loss(
    logp: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    ignore_index: i64,
    how: Reduction,
) -> Result<Tensor> {
    negative_log_likelihood(logp, target, weight, ignore_index, how, false)
}

fn check(logp: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    ensure!(logp.rank() > 0, Value, "Expected 1 or more dimensions (got 0)");
    if logp.rank() > 1 {
        let batch = target.shape().first().copied();
        ensure!(
            batch == Some(logp.shape()[0]) || (target.rank() == 0 && logp.shape()[0] == 1),
            Value,
            "Expected input batch_size ({}) to match target batch_size ({}).",
            logp.shape()[0],
            batch.unwrap_or(0)
        );
    }
    let dim = class_dim(logp);
    let mut wanted = logp.shape().clone();
    wanted.remove(dim);
    if logp.rank() <= 2 {
        ensure!(target.rank() <= 1, Runtime, "0D or 1D target tensor expected, multi-target not supported");
        ensure!(
            target.numel() == wanted.numel(),
            Runtime,
            "size mismatch (got input: {}, target: {})",
            logp.shape(),
            target.shape()
        );
    } else {
        ensure!(
            logp.rank() != 4 || target.rank() == 3,
            Runtime,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
            target.rank()
        );
        ensure!(
            logp.rank() != 4 || wanted == *target.shape(),
            Runtime,
            "size mismatch (got input: {} , target: {}",
            logp.shape(),
            target.shape()
        );
        ensure!(wanted == *target.shape(), Runtime, "Expected target size {wanted}, got {}", target.shape());
    }
    ensure!(
        matches!(target.dtype(), DType::I64 | DType::U8),
        Runtime,
        "expected target dtype to be Long or Byte, but got {}",
        target.dtype().scalar_name()
    );
    if let Some(w) = weight {
        let classes = logp.shape()[dim];
        ensure!(
            w.rank() == 1 && w.numel() == classes,
            Runtime,
            "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of \
             shape: {}",
            w.shape()
        );
        ensure!(
            w.dtype() == logp.dtype(),
            Runtime,
            "expected scalar type {} but found {}",
            logp.dtype().scalar_name(),
            w.dtype().scalar_name()
        );
    }
    Ok(())
}

fn negative_log_likelihood(
    logp: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    ignore_index: i64,
    how: Reduction,
    fused: bool,
) -> Result<Tensor> {
    check(logp, target, weight)?;
    let op = "nll_loss_out_frame";
    let compute = nn::float_compute(op, logp.dtype())?;
    let d = lanes(logp, class_dim(logp));
    let x = logp.dense(kernel::likelihood_dtype(logp.raw(), d, compute)?)?;
    let class = target.dense(DType::I64)?;
    let weight = weight.map(|w| w.dense(compute)).transpose()?;
    let losses = Tensor::empty_on(target.shape().clone(), compute, logp.device())?;
    let targets = targets(&class, weight.as_ref(), ignore_index);
    let total = match (how, kernel::nll(x.raw(), d, targets, losses.raw())?) {
        (Reduction::Mean, TotalWeight::Known(total)) => Some(Total::Number(total)),
        (Reduction::Mean, TotalWeight::PerPosition(weights)) => {
            Some(Total::OnDevice(super::total(&losses.dense_like(weights))?))
        }
        _ => None,
    };
    let out = match (how, &total) {
        (Reduction::None, _) => losses,
        (_, None) => super::total(&losses)?,
        (_, Some(total)) => total.divide(&super::total(&losses)?)?,
    };
    record(nn::rounded(out, logp.dtype())?, &[logp], |_| NllLoss {
        logp: SavedTensor::input(logp),
        class: SavedTensor::input(&class),
        weight: SavedTensor::optional(weight.as_ref()),
        ignore_index,
        total,
        each: how == Reduction::None,
        fused,
        image: logp.rank() > 2,
    })
}

fn targets<'a>(class: &'a Tensor, weight: Option<&'a Tensor>, ignore_index: i64) -> Targets<'a> {
    Targets { class: class.raw(), weight: weight.map(Tensor::raw), ignore_index }
}

/// The total weight by which a mean is divided: a number on the host, or a 0-d tensor.
enum Total {
    Number(f64),
    OnDevice(Tensor),
}

impl Total {
    fn divide(&self, t: &Tensor) -> Result<Tensor> {
        match self {
            Total::Number(total) => arith::div(t, *total),
            Total::OnDevice(total) => arith::div(t, total),
        }
    }

    /// The quotient for a gradient: 0 if the total weight is 0, where the loss itself is NaN.
    fn divide_gradient(&self, g: &Tensor) -> Result<Tensor> {
        match self {
            Total::Number(total) => arith::mul(g, if *total == 0.0 { 0.0 } else { 1.0 / total }),
            Total::OnDevice(total) => {
                let none = rows::eq.call(&[total.into(), 0.0.into()], &[])?;
                let share = arith::div(g, total)?;
                rows::select_where.call(&[(&none).into(), 0.0.into(), (&share).into()], &[])
            }
        }
    }
}

struct NllLoss {
    logp: SavedTensor,
    class: SavedTensor,
    weight: SavedTensor,
    ignore_index: i64,
    /// The total weight, for a mean.
    total: Option<Total>,
    /// Whether the result has one loss per position.
    each: bool,
    /// See Note [Cross entropy in one pass].
    fused: bool,
    /// Whether a sample has several positions.
    image: bool,
}

impl NllLoss {
    /// The gradient of the log-probabilities, or of the logits, for an output gradient with one number or one per
    /// position; no history.
    fn gradient(&self, cx: &Cx, logp: &Tensor, g: &Tensor, fused: bool) -> Result<Tensor> {
        let (class, weight) = (self.class.get(cx)?, self.weight.try_get(cx)?);
        let compute = nn::float_compute(self.name(), logp.dtype())?;
        let d: ReduceDims = lanes(logp, class_dim(logp));
        let stored = if fused { kernel::likelihood_dtype(logp.raw(), d, compute)? } else { compute };
        let (g, x) = (g.dense(compute)?, logp.dense(stored)?);
        let out = x.empty_like()?;
        let targets = targets(&class, weight.as_ref(), self.ignore_index);
        kernel::nll_backward(g.raw(), x.raw(), d, targets, fused, out.raw())?;
        nn::rounded(out, logp.dtype())
    }
}

impl Function for NllLoss {
    fn name(&self) -> &'static str {
        if self.image { "NllLoss2DBackward0" } else { "NllLossBackward0" }
    }

    fn kernel(&self) -> Option<&'static str> {
        Some(if self.image { "nll_loss2d_backward" } else { "nll_loss_backward" })
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let logp = self.logp.get(cx)?;
        let g = arith::to_dtype(g, wide(g.dtype()))?;
        let g = match &self.total {
            None => g,
            Some(total) => total.divide_gradient(&g)?,
        };
        if !grad_enabled() {
            return Ok(smallvec![Some(self.gradient(cx, &logp, &g, self.fused)?)]);
        }
        // Linear in the gradient: compute it for a gradient of ones, then multiply.
        let slope = self.gradient(cx, &logp, &g.new_full([1usize], 1i64)?, false)?;
        let g = if self.each {
            let mut shape: Dims = logp.shape().clone();
            shape[class_dim(&logp)] = 1;
            view::reshape_to(&g, &shape)?
        } else {
            g
        };
        Ok(smallvec![Some(arith::mul(&slope, &g)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.logp);
        visit("target", &self.class);
        visit("weight", &self.weight);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        let reduction = if self.each {
            0
        } else if self.total.is_some() {
            1
        } else {
            2
        };
        visit("reduction", Attribute::Int(reduction));
        visit("ignore_index", Attribute::Int(self.ignore_index));
    }
}

/// Cross entropy of scores with class indices or, if the shapes are equal, with probabilities.
pub fn cross_entropy(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    ignore_index: i64,
    how: Reduction,
    smoothing: f64,
) -> Result<Tensor> {
    ensure!(
        (0.0..=1.0).contains(&smoothing),
        Runtime,
        "label_smoothing must be between 0.0 and 1.0. Got: {smoothing}"
    );
    let dim = class_dim(x);
    if x.shape() == target.shape() && x.rank() > 0 {
        ensure!(
            target.dtype().is_float(),
            Runtime,
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().scalar_name()
        );
        ensure!(ignore_index < 0, Runtime, "ignore_index is not supported for floating point target");
        return with_probabilities(x, target, weight, how, smoothing);
    }
    if smoothing == 0.0 {
        let logp = log_softmax_under_loss(x, dim as i64)?;
        return negative_log_likelihood(&logp, target, weight, ignore_index, how, true);
    }
    smoothed(x, target, weight, ignore_index, how, smoothing)
}

/// `weight`, shaped to broadcast along the classes of `x`.
fn along_classes(weight: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut shape: Dims = x.shape().iter().map(|_| 1).collect();
    shape[class_dim(x)] = x.shape()[class_dim(x)];
    ensure!(
        weight.rank() == 1 && weight.numel() == shape.numel(),
        Runtime,
        "cross_entropy: weight tensor should be defined either for all {} classes or no classes but got weight tensor \
         of shape: {}",
        shape.numel(),
        weight.shape()
    );
    view::reshape_to(weight, &shape)
}

fn with_probabilities(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    how: Reduction,
    smoothing: f64,
) -> Result<Tensor> {
    let dim = class_dim(x);
    let classes = x.shape()[dim];
    let smooth = |t: &Tensor| arith::add(&arith::mul(t, 1.0 - smoothing)?, smoothing / classes as f64);
    let target = if smoothing > 0.0 { smooth(target)? } else { target.clone() };
    let terms = arith::mul(&log_softmax(x, dim as i64)?, &target)?;
    let terms = match weight {
        Some(w) => arith::mul(&terms, &along_classes(w, x)?)?,
        None => terms,
    };
    match how {
        Reduction::None => arith::neg(&reduce::sum_mask(&terms, 1 << dim, false, None)?),
        Reduction::Sum => arith::neg(&super::total(&terms)?),
        Reduction::Mean => {
            let positions = x.numel() as f64 / classes as f64;
            arith::div(&arith::neg(&super::total(&terms)?)?, positions)
        }
    }
}

/// Label smoothing: mixes the loss with the mean loss over all classes.
fn smoothed(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    ignore_index: i64,
    how: Reduction,
    smoothing: f64,
) -> Result<Tensor> {
    let dim = class_dim(x);
    let logp = log_softmax(x, dim as i64)?;
    let picked = nll_loss(&logp, target, weight, ignore_index, how)?;
    let terms = match weight {
        Some(w) => arith::mul(&logp, &along_classes(w, x)?)?,
        None => logp.clone(),
    };
    let all = arith::neg(&reduce::sum_mask(&terms, 1 << dim, false, None)?)?;
    let ignored = rows::eq.call(&[target.into(), ignore_index.into()], &[])?;
    let all = rows::select_where.call(&[(&ignored).into(), 0.0.into(), (&all).into()], &[])?;
    let spread = match how {
        Reduction::None => all,
        Reduction::Sum => super::total(&all)?,
        Reduction::Mean => arith::div(&super::total(&all)?, &total_weight(&ignored, target, weight)?)?,
    };
    let share = smoothing / x.shape()[dim] as f64;
    arith::add(&arith::mul(&picked, 1.0 - smoothing)?, &arith::mul(&spread, share)?)
}

/// The sum of the weights of the targets that are not ignored.
fn total_weight(ignored: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let counts = match weight {
        // An ignored class may be out of range.
        Some(w) => {
            let class = rows::select_where.call(&[ignored.into(), 0i64.into(), target.into()], &[])?;
            let of_class = crate::ops::index::take(&w.detach(), &class)?;
            rows::select_where.call(&[ignored.into(), 0.0.into(), (&of_class).into()], &[])?
        }
        None => rows::logical_not.call(&[ignored.into()], &[])?,
    };
    super::total(&counts)
}

pub fn nll_loss_op(a: &Args) -> Result<Out> {
    let how = Reduction::of_argument(a, 6)?;
    Ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, a.int(4)?, how)?.into())
}

pub fn cross_entropy_op(a: &Args) -> Result<Out> {
    let how = Reduction::of_argument(a, 6)?;
    Ok(cross_entropy(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, a.int(4)?, how, a.float(7)?)?.into())
}
