//! Softmax and log-softmax.

use smallvec::smallvec;

use super::nn::{float_compute, rounded};
use super::schema::{Args, Out};
use super::{arith, reduce, rows};
use crate::backend::softmax::{self as kernel, Kind, ReduceDims};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{self, Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record};
use crate::layout::wrap_dim;
use crate::ops;
use crate::tensor::Tensor;

/// The shape of `t` around dimension `dim`, for the kernels.
pub fn lanes(t: &Tensor, dim: usize) -> ReduceDims {
    if t.rank() == 0 {
        return ReduceDims::rows(1, 1);
    }
    let (outer, inner) = (&t.shape()[..dim], &t.shape()[dim + 1..]);
    ReduceDims::new(outer.iter().product(), t.shape()[dim], inner.iter().product())
}

/// `exp(t) / sum(exp(t))` along `dim`.
fn softmax_impl(t: &Tensor, dim: i64) -> Result<Tensor> {
    let dim = wrap_dim(dim, t.rank())?;
    let out = forward(t, dim, Kind::Softmax)?;
    record(out, &[t], |y| SoftmaxBackward { y: SavedTensor::output(y), dim, kind: Kind::Softmax })
}

/// `t - log(sum(exp(t)))` along `dim`.
fn log_softmax_impl(t: &Tensor, dim: i64) -> Result<Tensor> {
    let dim = wrap_dim(dim, t.rank())?;
    let out = forward(t, dim, Kind::LogSoftmax)?;
    record(out, &[t], |y| SoftmaxBackward { y: SavedTensor::output(y), dim, kind: Kind::LogSoftmax })
}

/// As [`log_softmax`], for a loss that computes its first-order backward; see Note [Cross entropy in one pass].
fn log_softmax_under_loss_impl(t: &Tensor, dim: i64) -> Result<Tensor> {
    let dim = wrap_dim(dim, t.rank())?;
    let out = forward(t, dim, Kind::LogSoftmax)?;
    record(out, &[t], |y| {
        UnderLoss(SoftmaxBackward { y: SavedTensor::output(y), dim, kind: Kind::LogSoftmax })
    })
}

fn forward(t: &Tensor, dim: usize, kind: Kind) -> Result<Tensor> {
    let op = match kind {
        Kind::Softmax => "softmax_lastdim_kernel_impl",
        Kind::LogSoftmax => "log_softmax_lastdim_kernel_impl",
    };
    let compute = float_compute(op, t.dtype())?;
    let d = lanes(t, dim);
    let x = t.dense(kernel::operand_dtype(t.raw(), d, compute)?)?;
    let out = x.empty_like()?;
    kernel::softmax(kind, x.raw(), d, out.raw())?;
    rounded(out, t.dtype())
}

struct SoftmaxBackward {
    y: SavedTensor,
    dim: usize,
    kind: Kind,
}

impl SoftmaxBackward {
    fn gradient(&self, g: &Tensor, y: &Tensor) -> Result<Tensor> {
        if grad_enabled() {
            return self.composed(g, y);
        }
        let compute = float_compute(self.name(), g.dtype())?;
        let d = lanes(y, self.dim);
        let same = g.dtype() == y.dtype();
        let stored = if same { kernel::operand_dtype(y.raw(), d, compute)? } else { compute };
        let (gs, ys) = (g.dense(stored)?, y.dense(stored)?);
        let out = ys.empty_like()?;
        kernel::softmax_backward(self.kind, gs.raw(), ys.raw(), d, out.raw())?;
        rounded(out, y.dtype())
    }

    /// The same, composed of recorded operations.
    fn composed(&self, g: &Tensor, y: &Tensor) -> Result<Tensor> {
        let sum = |t: &Tensor| reduce::sum_mask(t, if t.rank() == 0 { 0 } else { 1 << self.dim }, true, None);
        match self.kind {
            Kind::Softmax => arith::mul(&arith::sub(g, &sum(&arith::mul(g, y)?)?)?, y),
            Kind::LogSoftmax => arith::sub(g, &arith::mul(&rows::exp.call(&[y.into()], &[])?, &sum(g)?)?),
        }
    }
}

impl Function for SoftmaxBackward {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Softmax => "SoftmaxBackward0",
            Kind::LogSoftmax => "LogSoftmaxBackward0",
        }
    }

    fn kernel(&self) -> Option<&'static str> {
        Some(match self.kind {
            Kind::Softmax => "_softmax_backward_data",
            Kind::LogSoftmax => "_log_softmax_backward_data",
        })
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(self.gradient(g, &self.y.get(cx)?)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("result", &self.y);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
    }
}

/// Passes through the gradient of the logits, which the loss has already computed; except in a differentiable
/// backward.
struct UnderLoss(SoftmaxBackward);

impl Function for UnderLoss {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        if !grad_enabled() {
            return Ok(grads);
        }
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        // Gradients that reach the output from now on are true gradients of it, so they need the regular node.
        let y = self.0.y.get(cx)?.detach();
        let plain = SoftmaxBackward { y: SavedTensor::output(&y), dim: self.0.dim, kind: self.0.kind };
        y.meta_or_new().set_history(graph::node(plain, cx.node.edges().clone(), &[&y]), 0);
        Ok(smallvec![Some(self.0.composed(g, &y)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        self.0.saved(visit);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        self.0.attributes(visit);
    }
}

type Along1 = fn(&Tensor, i64) -> Result<Tensor>;

fn converted(a: &Args, dim: i64, dtype: Option<DType>, f: Along1) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(match dtype {
        Some(d) => f(&arith::to_dtype(t, d)?, dim)?,
        None => f(t, dim)?,
    }
    .into())
}

/// `torch.softmax` and the method, for which the dimension is required.
fn explicit(a: &Args, f: Along1) -> Result<Out> {
    converted(a, a.int(1)?, a.opt_dtype(2)?, f)
}

/// The function of `nn.functional`, which by default chooses the dimension by rank.
fn implicit(a: &Args, f: Along1) -> Result<Out> {
    let by_rank = if matches!(a.tensor(0)?.rank(), 0 | 1 | 3) { 0 } else { 1 };
    converted(a, a.opt_int(1)?.unwrap_or(by_rank), a.opt_dtype(3)?, f)
}

ops! {
    /// Exponentials divided by their sum along `dim`.
    "softmax" BOTH | OUT, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, dim: int, dtype: dtype? = None) => |a| explicit(a, softmax_impl);
        /// As `softmax`.
        pub fn softmax(t: &Tensor, dim: i64) -> Tensor as (t, dim, None::<DType>) = softmax_impl;
    }
    /// Exponentials divided by their sum along `dim`.
    "softmax" NN, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, dim: int? = None, _stacklevel: int = 3, dtype: dtype? = None) => |a| implicit(a, softmax_impl);
    }
    /// Logarithm of the softmax along `dim`, without overflow.
    "log_softmax" BOTH | OUT, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, dim: int, dtype: dtype? = None) => |a| explicit(a, log_softmax_impl);
        /// As `log_softmax`.
        pub fn log_softmax(t: &Tensor, dim: i64) -> Tensor as (t, dim, None::<DType>) = log_softmax_impl;
        /// As `log_softmax`, for a loss that takes over its first-order backward; see Note [Cross entropy in one pass].
        pub(super) fn log_softmax_under_loss(t: &Tensor, dim: i64) -> Tensor as (t, dim, None::<DType>) =
            log_softmax_under_loss_impl;
    }
    /// Logarithm of the softmax along `dim`, without overflow.
    "log_softmax" NN, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, dim: int? = None, _stacklevel: int = 3, dtype: dtype? = None) => |a| implicit(a, log_softmax_impl);
    }
}
