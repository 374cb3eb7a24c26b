//! Loss functions. Pointwise losses are pointwise operations with a reduction; the others are in `class`.

mod class;
pub mod ctc;

use smallvec::smallvec;

use super::pointwise::{Arg, PointwiseOp, result_type};
use super::schema::{Args, Out};
use super::{arith, reduce, rows, view};
use crate::backend::inspect::{Question, known};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result, warn};
use crate::graph::{Attribute, Cx, Function, GradFn, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, broadcast};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

pub use class::{cross_entropy, nll_loss};

/// How the losses of elements are reduced to the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    /// # Errors
    /// `ValueError` for an unknown reduction, and for None, which signatures accept to produce this message.
    fn of_argument(a: &Args, i: usize) -> Result<Reduction> {
        Reduction::parse(a.opt_str(i)?.unwrap_or("None"))
    }

    pub fn parse(text: &str) -> Result<Reduction> {
        Ok(match text {
            "none" => Reduction::None,
            "mean" => Reduction::Mean,
            "sum" => Reduction::Sum,
            _ => bail!(Value, "{text} is not a valid value for reduction"),
        })
    }

    /// Reduces losses by operations with nodes of their own.
    fn of(self, losses: Tensor) -> Result<Tensor> {
        match self {
            Reduction::None => Ok(losses),
            Reduction::Mean => reduce::mean_all(&losses),
            Reduction::Sum => total(&losses),
        }
    }
}

fn total(t: &Tensor) -> Result<Tensor> {
    reduce::sum_all(t, None)
}

/// The dtype in which sums of `dtype` are computed.
fn wide(dtype: DType) -> DType {
    if dtype.is_half() { DType::F32 } else { dtype }
}

/// A pointwise loss.
struct Pointwise {
    row: &'static PointwiseOp,
    /// PyTorch's name of the kernel, for the error when it does not support a dtype.
    kernel: &'static str,
}

// Note [A reduced loss is one node] The element losses are computed by a pointwise operation, whose node implements
// the derivative: fused normally, composed of operations if backward itself is differentiated. The node of the reduced
// loss owns that node, which is in no graph, and calls it with the gradient of the result, scaled and expanded. The
// element losses are not kept; above a size they are not even stored, but fused into the reduction.
impl Pointwise {
    fn call(
        &self,
        a: &Tensor,
        b: &Tensor,
        params: &[Scalar],
        weight: Option<&Tensor>,
        how: Reduction,
    ) -> Result<Tensor> {
        let common = result_type(&[a.into(), b.into()])?;
        ensure!(common.is_float(), Error::DtypeNotImplemented { op: self.kernel, dtype: common });
        if weight.is_none()
            && how != Reduction::None
            && let Some((out, row)) =
                self.row.reduced(&[a.into(), b.into()], params, how == Reduction::Mean)?
        {
            return self.recorded(out, row, [a, b], None, how, (a.shape().clone(), common));
        }
        let losses = self.row.call(&[a.into(), b.into()], params)?;
        match weight {
            None if how == Reduction::None => return Ok(losses),
            Some(w) if w.requires_grad() => return how.of(arith::mul(&losses, w)?),
            _ => {}
        }
        let (row, plain) = (losses.grad_fn(), losses.detach());
        let plain = weight.map_or(Ok(plain.clone()), |w| arith::mul(&plain, &w.detach()))?;
        let count = plain.numel() as f64;
        let out = if how == Reduction::None {
            plain
        } else {
            let sum =
                reduce::sum_mask(&plain, reduce::dim_mask(None, plain.rank())?, false, Some(wide(common)))?;
            let value = if how == Reduction::Mean { arith::div(&sum, count)? } else { sum };
            super::nn::rounded(value, common)?
        };
        self.recorded(out, row, [a, b], weight, how, (losses.shape().clone(), common))
    }

    /// The reduced loss of losses of a shape and dtype, whose node is `row`.
    fn recorded(
        &self,
        out: Tensor,
        row: Option<GradFn>,
        [a, b]: [&Tensor; 2],
        weight: Option<&Tensor>,
        how: Reduction,
        (shape, dtype): (Dims, DType),
    ) -> Result<Tensor> {
        let Some(row) = row else { return Ok(out) };
        let weight = SavedTensor::optional(weight);
        let scale = if how == Reduction::Mean { 1.0 / shape.iter().product::<usize>() as f64 } else { 1.0 };
        record(out, &[a, b], |_| ReducedLoss { row, weight, scale, shape, dtype, how })
    }
}

/// See Note [A reduced loss is one node].
struct ReducedLoss {
    row: GradFn,
    weight: SavedTensor,
    scale: f64,
    shape: Dims,
    dtype: DType,
    how: Reduction,
}

impl Function for ReducedLoss {
    fn name(&self) -> &'static str {
        self.row.function().name()
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        // Scaled in float32, since 1 / count may underflow in a half type.
        let mut g = arith::to_dtype(g, wide(self.dtype))?;
        if self.scale != 1.0 {
            g = arith::mul(&g, self.scale)?;
        }
        if let Some(w) = self.weight.try_get(cx)? {
            g = arith::mul(&g, &w)?;
        }
        let g = view::expand_to(&g, &self.shape)?;
        let needs = u64::from(cx.needs(0)) | u64::from(cx.needs(1)) << 1;
        self.row.function().backward(&Cx::new(&self.row, needs), smallvec![Some(g)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        self.row.function().saved(visit);
        visit("weight", &self.weight);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        self.row.function().attributes(&mut |name, value| {
            // The pointwise operation itself does not reduce.
            let value = if name == "reduction" { Attribute::Int(self.how as i64) } else { value };
            visit(name, value);
        });
    }
}

static SQUARED_ERROR: Pointwise = Pointwise { row: &rows::squared_error, kernel: "mse_cpu" };
static SMOOTH_L1: Pointwise = Pointwise { row: &rows::smooth_l1, kernel: "smooth_l1_cpu" };
static HUBER: Pointwise = Pointwise { row: &rows::huber, kernel: "huber_cpu" };
static BCE: Pointwise = Pointwise { row: &rows::bce, kernel: "binary_cross_entropy" };
static BCE_LOGITS: Pointwise =
    Pointwise { row: &rows::bce_logits, kernel: "binary_cross_entropy_with_logits" };

/// The weighted losses; a mean divides by the sum of the weights.
fn weighted(losses: &Tensor, input: &Tensor, weight: &Tensor, how: Reduction) -> Result<Tensor> {
    ensure!(weight.shape() == input.shape(), Value, "Weights and input must have the same size.");
    let losses = arith::mul(losses, weight)?;
    match how {
        Reduction::Mean => arith::div(&total(&losses)?, &total(weight)?),
        _ => how.of(losses),
    }
}

/// Warns about broadcasting, which is allowed but probably a mistake.
fn warn_of_sizes(x: &Tensor, y: &Tensor) -> Result<()> {
    if x.shape() == y.shape() {
        return Ok(());
    }
    warn(&format!(
        "Using a target size ({}) that is different to the input size ({}). This will likely lead to incorrect results \
         due to broadcasting. Please ensure they have the same size.",
        size(y),
        size(x)
    ))
}

fn mse_loss(a: &Args) -> Result<Out> {
    let (x, y, how) = (a.tensor(0)?, a.tensor(1)?, Reduction::of_argument(a, 4)?);
    warn_of_sizes(x, y)?;
    Ok(match a.opt_tensor(5)? {
        Some(w) => weighted(&SQUARED_ERROR.call(x, y, &[], None, Reduction::None)?, x, w, how)?,
        None => SQUARED_ERROR.call(x, y, &[], None, how)?,
    }
    .into())
}

fn absolute_error(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    rows::abs.call(&[Arg::T(&arith::sub(x, y)?)], &[])
}

fn l1_loss(a: &Args) -> Result<Out> {
    let (x, y, how) = (a.tensor(0)?, a.tensor(1)?, Reduction::of_argument(a, 4)?);
    warn_of_sizes(x, y)?;
    let losses = absolute_error(x, y)?;
    Ok(match a.opt_tensor(5)? {
        Some(w) => weighted(&losses, x, w, how)?,
        None => how.of(losses)?,
    }
    .into())
}

fn smooth_l1_loss(a: &Args) -> Result<Out> {
    let (x, y, how, beta) = (a.tensor(0)?, a.tensor(1)?, Reduction::of_argument(a, 4)?, a.float(5)?);
    warn_of_sizes(x, y)?;
    ensure!(beta >= 0.0, Runtime, "smooth_l1_loss does not support negative values for beta.");
    Ok(if beta == 0.0 {
        how.of(absolute_error(x, y)?)?
    } else {
        SMOOTH_L1.call(x, y, &[beta.into()], None, how)?
    }
    .into())
}

fn huber_loss(a: &Args) -> Result<Out> {
    let (x, y, how, delta) = (a.tensor(0)?, a.tensor(1)?, Reduction::of_argument(a, 2)?, a.float(3)?);
    warn_of_sizes(x, y)?;
    ensure!(delta > 0.0, Runtime, "huber_loss does not support non-positive values for delta.");
    Ok(match a.opt_tensor(4)? {
        Some(w) => weighted(&HUBER.call(x, y, &[delta.into()], None, Reduction::None)?, x, w, how)?,
        None => HUBER.call(x, y, &[delta.into()], None, how)?,
    }
    .into())
}

/// A shape as in messages: `torch.Size([2, 3])`.
fn size(t: &Tensor) -> String {
    format!("torch.Size({})", t.shape())
}

fn binary_cross_entropy(a: &Args) -> Result<Out> {
    let (x, y, how) = (a.tensor(0)?, a.tensor(1)?, Reduction::of_argument(a, 5)?);
    ensure!(
        x.shape() == y.shape(),
        Value,
        "Using a target size ({}) that is different to the input size ({}) is deprecated. Please ensure they have the \
         same size.",
        size(y),
        size(x)
    );
    x.expect_float(BCE.kernel)?;
    ensure!(
        x.dtype() == y.dtype(),
        Runtime,
        "Found dtype {} but expected {}",
        y.dtype().scalar_name(),
        x.dtype().scalar_name()
    );
    ensure!(
        known(Question::AllInUnitInterval, x.raw())? != Some(false),
        Runtime,
        "all elements of input should be between 0 and 1"
    );
    let weight = a.opt_tensor(2)?;
    if let Some(w) = weight {
        broadcast("binary_cross_entropy", x.shape(), w.shape())?;
    }
    Ok(BCE.call(x, y, &[], weight, how)?.into())
}

fn binary_cross_entropy_with_logits(a: &Args) -> Result<Out> {
    let (x, y, how) = (a.tensor(0)?, a.tensor(1)?, Reduction::of_argument(a, 5)?);
    ensure!(
        x.shape() == y.shape(),
        Value,
        "Target size ({}) must be the same as input size ({})",
        size(y),
        size(x)
    );
    let weight = a.opt_tensor(2)?;
    let Some(positive) = a.opt_tensor(6)? else {
        return Ok(BCE_LOGITS.call(x, y, &[], weight, how)?.into());
    };
    // (1 - t) x - (1 + (p - 1) t) log sigmoid(x)
    let log_weight = arith::add(&arith::mul(&arith::sub(positive, 1.0)?, y)?, 1.0)?;
    let log_sigmoid = rows::logsigmoid.call(&[x.into()], &[])?;
    let negative = arith::mul(&arith::sub(1.0, y)?, x)?;
    let losses = arith::sub(&negative, &arith::mul(&log_weight, &log_sigmoid)?)?;
    let losses = weight.map_or(Ok(losses.clone()), |w| arith::mul(&losses, w))?;
    Ok(how.of(losses)?.into())
}

fn kl_div(a: &Args) -> Result<Out> {
    let (x, y, how, log_target) = (a.tensor(0)?, a.tensor(1)?, a.str(4)?, a.bool(5)?);
    ensure!(x.dtype().is_float() && y.dtype().is_float(), Runtime, "kl_div: Integral inputs not supported.");
    if how == "mean" {
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides \
             only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the \
             same as 'batchmean' in the next major release.",
        )?;
    }
    let losses = if log_target {
        arith::mul(&rows::exp.call(&[y.into()], &[])?, &arith::sub(y, x)?)?
    } else {
        arith::sub(&rows::xlogy.call(&[y.into(), y.into()], &[])?, &arith::mul(y, x)?)?
    };
    if how == "batchmean" {
        let batch = if x.rank() == 0 { 1 } else { x.shape()[0] };
        return Ok(arith::div(&total(&losses)?, batch as f64)?.into());
    }
    Ok(Reduction::parse(how)?.of(losses)?.into())
}

ops! {
    /// Squared differences.
    "mse_loss" NN, autocast FULL, batch LOSS {
        (input: Tensor, target: Tensor, size_average: bool? = None, reduce: bool? = None, reduction: str? = "mean",
         weight: Tensor? = None) =>
            mse_loss;
    }
    /// Absolute differences.
    "l1_loss" NN, autocast FULL, batch LOSS {
        (input: Tensor, target: Tensor, size_average: bool? = None, reduce: bool? = None, reduction: str? = "mean",
         weight: Tensor? = None) =>
            l1_loss;
    }
    /// Squared differences below `beta`, absolute ones above.
    "smooth_l1_loss" NN, autocast FULL, batch LOSS {
        (input: Tensor, target: Tensor, size_average: bool? = None, reduce: bool? = None, reduction: str? = "mean",
         beta: float = 1.0) =>
            smooth_l1_loss;
    }
    /// Huber's function of the differences.
    "huber_loss" NN, autocast FULL, batch LOSS {
        (input: Tensor, target: Tensor, reduction: str? = "mean", delta: float = 1.0, weight: Tensor? = None) =>
            huber_loss;
    }
    /// Cross entropy of probabilities of two classes.
    "binary_cross_entropy" NN, autocast FULL_OR_REFUSED, batch LOSS {
        (input: Tensor, target: Tensor, weight: Tensor? = None, size_average: bool? = None, reduce: bool? = None,
         reduction: str? = "mean") =>
            binary_cross_entropy;
    }
    /// Cross entropy of two classes, from logits.
    "binary_cross_entropy_with_logits" NN, autocast FULL, batch LOSS {
        (input: Tensor, target: Tensor, weight: Tensor? = None, size_average: bool? = None, reduce: bool? = None,
         reduction: str? = "mean", pos_weight: Tensor? = None) =>
            binary_cross_entropy_with_logits;
    }
    /// Kullback-Leibler divergence of the target from log-probabilities.
    "kl_div" NN, autocast FULL, batch LOSS {
        (input: Tensor, target: Tensor, size_average: bool? = None, reduce: bool? = None, reduction: str? = "mean",
         log_target: bool = False) =>
            kl_div;
    }
    /// Negative log-probabilities of the target classes.
    "nll_loss" NN, autocast FULL, batch CLASS_LOSS {
        (input: Tensor, target: Tensor, weight: Tensor? = None, size_average: bool? = None, ignore_index: int = -100,
         reduce: bool? = None, reduction: str? = "mean") =>
            class::nll_loss_op;
    }
    /// Cross entropy of logits with target classes or probabilities.
    "cross_entropy" NN, autocast FULL, batch CLASS_LOSS {
        (input: Tensor, target: Tensor, weight: Tensor? = None, size_average: bool? = None, ignore_index: int = -100,
         reduce: bool? = None, reduction: str? = "mean", label_smoothing: float = 0.0) =>
            class::cross_entropy_op;
    }
}
