//! Batch, layer and group normalization.
//!
//! All three subtract a mean and divide by a standard deviation over some dimensions, then scale and shift along
//! others. Forward and first-order backward have separate kernels; the differentiable backward is shared.

mod composite;

use smallvec::smallvec;

use super::nn::{float_compute, rounded};
use super::schema::{Args, Out};
use super::{arith, reduce, rows, view};
use crate::backend::norm::{self as kernel, Kind, Made};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{
    Attribute, Cx, Function, Grads, Operands, Recipe, SavedTensor, Visit, grad_enabled, record_optional,
};
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::{Tensor, write_untracked};
use crate::{bail, ensure, ops};

const fn node(kind: Kind) -> &'static str {
    match kind {
        Kind::Layer { .. } => "NativeLayerNormBackward0",
        Kind::Group { .. } => "NativeGroupNormBackward0",
        Kind::Batch { .. } => "NativeBatchNormBackward0",
    }
}

/// The memory format of a result: that of `x` if there are channels. Where dimensions of size 1 leave its strides open to
/// both readings, `batch_norm` takes `x` as channels-last unless it is in row-major order too.
fn format(kind: Kind, x: &Tensor) -> MemoryFormat {
    match kind {
        Kind::Layer { .. } => MemoryFormat::Contiguous,
        Kind::Group { .. } => x.layout().suggested_format(),
        Kind::Batch { .. } => [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d]
            .into_iter()
            .find(|&f| !x.is_contiguous() && x.layout().is_in(f))
            .unwrap_or_else(|| x.layout().suggested_format()),
    }
}

/// The number of elements of weight and bias.
const fn channels(kind: Kind) -> usize {
    match kind {
        Kind::Layer { n } => n,
        Kind::Group { c, .. } | Kind::Batch { c, .. } => c,
    }
}

/// The shapes in which the input, the statistics and the weight broadcast.
fn broadcast(kind: Kind, numel: usize) -> Broadcast {
    match kind {
        Kind::Layer { n } => {
            let rows = numel.checked_div(n).unwrap_or(0);
            Broadcast { x: Dims::from([rows, n]), stats: 0b10, weight: Dims::from([1, n]), params: 0b01 }
        }
        Kind::Group { n, c, inner, groups } => Broadcast {
            x: Dims::from([n, groups, c / groups, inner]),
            stats: 0b1100,
            weight: Dims::from([1, groups, c / groups, 1]),
            params: 0b1001,
        },
        Kind::Batch { n, c, inner, .. } => Broadcast {
            x: Dims::from([n, c, inner]),
            stats: 0b101,
            weight: Dims::from([1, c, 1]),
            params: 0b101,
        },
    }
}

struct Broadcast {
    x: Dims,
    /// The dimensions over which statistics are computed.
    stats: u64,
    weight: Dims,
    /// The dimensions over which the gradients of weight and bias are summed.
    params: u64,
}

/// Weight or bias, dense and in the compute type.
fn param(t: Option<&Tensor>, compute: DType) -> Result<Option<Tensor>> {
    t.map(|t| t.dense(compute)).transpose()
}

/// Parameters must have the input's dtype, or float32 with an input of a half type.
fn check_dtypes(x: &Tensor, params: &[Option<&Tensor>]) -> Result<()> {
    // Of an empty input no element meets a parameter.
    if x.numel() == 0 {
        return Ok(());
    }
    let mut dtypes = params.iter().flatten().map(|t| t.dtype());
    let Some(first) = dtypes.clone().next() else { return Ok(()) };
    if first != x.dtype() {
        ensure!(
            dtypes.all(|d| d == DType::F32),
            Runtime,
            "mixed dtype (CPU): expect parameter to have scalar type of Float"
        );
        ensure!(x.dtype().is_half(), Runtime, "mixed dtype (CPU): all inputs must share same datatype.");
    } else if let Some(other) = dtypes.find(|&d| d != first) {
        bail!(Runtime, "expected scalar type {} but found {}", first.scalar_name(), other.scalar_name());
    }
    Ok(())
}

/// The results of a forward pass that backward needs.
struct Saved {
    mean: Tensor,
    rstd: Tensor,
}

/// Casts the result to the input's dtype and records it.
fn finish(
    out: Tensor,
    kind: Kind,
    eps: f64,
    x: &Tensor,
    [weight, bias]: [Option<&Tensor>; 2],
    stats: Saved,
) -> Result<Tensor> {
    let out = rounded(out, x.dtype())?.laid_as(format(kind, x))?;
    record_optional(out, &[Some(x), weight, bias], |y| NormBackward {
        x: SavedTensor::input(x),
        weight: SavedTensor::optional(weight),
        mean: SavedTensor::input(&stats.mean),
        rstd: SavedTensor::input(&stats.rstd),
        bias: bias.map(|b| b.shape().clone()),
        operands: match kind {
            // Of batches none: they have running statistics, which the program may write.
            Kind::Batch { .. } => Operands::default(),
            _ => {
                let affine = weight.map(|w| (w, true)).into_iter().chain(bias.map(|b| (b, false)));
                Operands::of(y, std::iter::once((x, true)).chain(affine))
            }
        },
        kind,
        eps,
    })
}

struct NormBackward {
    x: SavedTensor,
    weight: SavedTensor,
    mean: SavedTensor,
    rstd: SavedTensor,
    /// The shape of the bias, if there is one.
    bias: Option<Dims>,
    operands: Operands,
    kind: Kind,
    eps: f64,
}

impl NormBackward {
    fn fused(&self, cx: &Cx, g: &Tensor, x: &Tensor, weight: Option<&Tensor>) -> Result<[Tensor; 3]> {
        let compute = float_compute(node(self.kind), x.dtype())?;
        let (mean, rstd) = (self.mean.get(cx)?, self.rstd.get(cx)?);
        let same = g.dtype() == x.dtype();
        let stored = if same { kernel::operand_dtype(self.kind, x.raw(), compute)? } else { compute };
        let (gs, xs, w) = (g.dense(stored)?, x.dense(stored)?, param(weight, compute)?);
        let channels = Dims::from([channels(self.kind)]);
        let dx = xs.new_empty(x.shape().clone())?;
        let (dw, db) = (rstd.new_zeros(channels.clone())?, rstd.new_zeros(channels)?);
        if x.numel() > 0 {
            let (stats, weight) = ([mean.raw(), rstd.raw()], w.as_ref().map(Tensor::raw));
            let out = [dx.raw(), dw.raw(), db.raw()];
            let made = kernel::backward(self.kind, gs.raw(), xs.raw(), stats, weight, out)?;
            if made != Made::All {
                let dx = (made == Made::Input).then_some(dx);
                return composite::gradients(self.kind, compute, &gs, &xs, [&mean, &rstd], w.as_ref(), dx)
                    .and_then(|[dx, dw, db]| Ok([self.as_input(dx, x)?, dw, db]));
            }
        }
        Ok([self.as_input(dx, x)?, dw, db])
    }

    /// Casts a gradient of the input to its dtype and memory format.
    fn as_input(&self, dx: Tensor, x: &Tensor) -> Result<Tensor> {
        rounded(dx, x.dtype())?.laid_as(format(self.kind, x))
    }

    /// The gradients composed of recorded operations, with the statistics recomputed from the input.
    fn composed(&self, cx: &Cx, g: &Tensor, x: &Tensor, weight: Option<&Tensor>) -> Result<[Tensor; 3]> {
        let compute = float_compute(node(self.kind), x.dtype())?;
        let b = broadcast(self.kind, x.numel());
        let shape = x.shape().clone();
        let x = view::reshape_to(&arith::to_dtype(x, compute)?, &b.x)?;
        let g = view::reshape_to(&arith::to_dtype(g, compute)?, &b.x)?;
        let fixed = matches!(self.kind, Kind::Batch { training: false, .. });
        let mean_of = |t: &Tensor| reduce::mean_mask(t, b.stats, true, None);
        let (centred, rstd) = if fixed {
            let stat = |s: &SavedTensor| view::reshape_to(&s.get(cx)?, &b.weight);
            (arith::sub(&x, &stat(&self.mean)?)?, stat(&self.rstd)?)
        } else {
            let centred = arith::sub(&x, &mean_of(&x)?)?;
            let var = mean_of(&arith::mul(&centred, &centred)?)?;
            (centred, rows::rsqrt.call(&[(&arith::add(&var, self.eps)?).into()], &[])?)
        };
        let xhat = arith::mul(&centred, &rstd)?;
        let gx = arith::mul(&g, &xhat)?;
        let dxhat = match weight {
            Some(w) => arith::mul(&g, &view::reshape_to(&arith::to_dtype(w, compute)?, &b.weight)?)?,
            None => g.clone(),
        };
        let dx = if fixed {
            arith::mul(&dxhat, &rstd)?
        } else {
            let along = arith::mul(&xhat, &mean_of(&arith::mul(&dxhat, &xhat)?)?)?;
            let rest = arith::sub(&arith::sub(&dxhat, &mean_of(&dxhat)?)?, &along)?;
            arith::mul(&rest, &rstd)?
        };
        let channels = Dims::from([channels(self.kind)]);
        let param = |t: &Tensor| view::reshape_to(&reduce::sum_mask(t, b.params, false, None)?, &channels);
        Ok([view::reshape_to(&dx, &shape)?, param(&gx)?, param(&g)?])
    }
}

impl Function for NormBackward {
    fn name(&self) -> &'static str {
        node(self.kind)
    }

    fn kernel(&self) -> Option<&'static str> {
        Some(match self.kind {
            Kind::Batch { .. } => "native_batch_norm_backward",
            Kind::Group { .. } => "native_group_norm_backward",
            _ => "native_layer_norm_backward",
        })
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let (x, weight) = (self.x.get(cx)?, self.weight.try_get(cx)?);
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None, None]) };
        let [dx, dw, db] = if grad_enabled() {
            self.composed(cx, g, &x, weight.as_ref())?
        } else {
            self.fused(cx, g, &x, weight.as_ref())?
        };
        let mut out: Grads = smallvec![Some(dx), None, None];
        if let Some(w) = &weight {
            out[1] = Some(view::reshape_to(&dw, w.shape())?);
        }
        if let Some(shape) = &self.bias {
            out[2] = Some(view::reshape_to(&db, shape)?);
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("input", &self.x);
        visit("weight", &self.weight);
        visit("result1", &self.mean);
        visit("result2", &self.rstd);
    }

    fn release(&self) {
        self.saved(&mut |_, s| s.free());
        self.operands.free();
    }

    fn recipe(&self) -> Option<Recipe> {
        let (kind, eps, scaled) = (self.kind, self.eps, self.weight.is_kept());
        self.operands.recipe(12, move |operands| {
            let (x, affine) = operands.split_first().ok_or(Error::NoTensor { op: kind.kernel() })?;
            let (weight, bias) =
                if scaled { (affine.first(), affine.get(1)) } else { (None, affine.first()) };
            let (out, ..) = forward(x, kind, [weight, bias], eps, None)?;
            rounded(out, x.dtype())?.laid_as(format(kind, x))
        })
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        match self.kind {
            Kind::Layer { .. } => {}
            Kind::Group { n, c, inner, groups } => {
                for (name, value) in [("N", n), ("C", c), ("HxW", inner), ("group", groups)] {
                    visit(name, Attribute::Int(value as i64));
                }
            }
            Kind::Batch { training, .. } => {
                visit("training", Attribute::Bool(training));
                visit("eps", Attribute::Number(Scalar::Float(self.eps)));
            }
        }
    }
}

/// Normalizes the trailing dimensions, which have shape `normalized`.
pub fn layer_norm(
    x: &Tensor,
    normalized: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    ensure!(
        !normalized.is_empty(),
        Runtime,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got \
         normalized_shape = []"
    );
    for (name, t) in [("weight", weight), ("bias", bias)] {
        ensure!(
            t.is_none_or(|t| t.shape()[..] == *normalized),
            Runtime,
            "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = \
             {normalized:?}",
            t.map(|t| t.shape().to_string()).unwrap_or_default()
        );
    }
    check_dtypes(x, &[weight, bias])?;
    let lead = x.rank().checked_sub(normalized.len());
    if lead.is_none_or(|lead| x.shape()[lead..] != *normalized) {
        let sizes: Vec<String> = normalized.iter().map(|n| n.to_string()).collect();
        bail!(
            Runtime,
            "Given normalized_shape={normalized:?}, expected input with shape [*, {}], but got input of size{}",
            sizes.join(", "),
            x.shape()
        );
    }
    by_itself(x, Kind::Layer { n: normalized.iter().product() }, [weight, bias], eps)
}

/// Normalizes by statistics of the input, with history.
fn by_itself(x: &Tensor, kind: Kind, affine: [Option<&Tensor>; 2], eps: f64) -> Result<Tensor> {
    let (out, stats, _) = forward(x, kind, affine, eps, None)?;
    finish(out, kind, eps, x, affine, stats)
}

/// The forward pass, without history. The statistics are the given mean and variance, or those of the input; the last
/// result is the variance, for a batch.
fn forward(
    x: &Tensor,
    kind: Kind,
    affine: [Option<&Tensor>; 2],
    eps: f64,
    given: Option<(&Tensor, &Tensor)>,
) -> Result<(Tensor, Saved, Option<Tensor>)> {
    let compute = float_compute(kind.kernel(), x.dtype())?;
    let xs = x.detach().dense(kernel::operand_dtype(kind, x.raw(), compute)?)?;
    let [weight, bias] = [param(affine[0], compute)?, param(affine[1], compute)?];
    let lanes = match kind {
        Kind::Layer { n } => x.numel().checked_div(n).unwrap_or(0),
        Kind::Group { n, groups, .. } => n * groups,
        Kind::Batch { c, .. } => c,
    };
    let stat = |of: Option<&Tensor>| match of {
        Some(t) => t.copied(compute),
        None => Tensor::empty_on(Dims::from([lanes]), compute, x.device()),
    };
    let (mean, rstd) = (stat(given.map(|g| g.0))?, stat(None)?);
    let is_batch = matches!(kind, Kind::Batch { .. });
    let var = is_batch.then(|| stat(given.map(|g| g.1))).transpose()?;
    let out = xs.new_empty(x.shape().clone())?;
    if x.numel() == 0 {
        return Ok((out, Saved { mean, rstd }, var));
    }
    let views = [&weight, &bias].map(|t| t.as_ref().map(Tensor::raw));
    let stats = kernel::Stats { mean: mean.raw(), var: var.as_ref().map(Tensor::raw), rstd: rstd.raw() };
    if kernel::forward(kind, xs.raw(), views, eps, out.raw(), stats)? {
        return Ok((out, Saved { mean, rstd }, var));
    }
    let (out, stats, var) = composite::normalized(&xs, kind, affine, eps, given)?;
    Ok((out, stats, Some(var)))
}

/// The batch size, the number of channels, and the elements per channel of one sample.
fn channels_of(x: &Tensor) -> (usize, usize, usize) {
    (x.shape()[0], x.shape()[1], x.shape()[2..].iter().product())
}

/// Normalizes `groups` groups of channels in each sample.
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    ensure!(
        x.rank() >= 2,
        Runtime,
        "Expected at least 2 dimensions for input tensor but received {}",
        x.rank()
    );
    check_dtypes(x, &[weight, bias])?;
    let (n, c, inner) = channels_of(x);
    ensure!(groups > 0, Runtime, "Expected num groups to be greater than 0, got {groups}");
    ensure!(c > 0, Runtime, "Expected number of channels to be greater than 0, got {c}");
    ensure!(inner > 0, Runtime, "Expected HxW to be greater than 0, got {inner}");
    ensure!(
        c % groups == 0,
        Runtime,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and \
         num_groups={groups}",
        x.shape()
    );
    for (name, t) in [("weight", weight), ("bias", bias)] {
        ensure!(
            t.is_none_or(|t| t.rank() == 1 && t.numel() == c),
            Runtime,
            "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} \
             and input of shape {}",
            t.map(|t| t.shape().to_string()).unwrap_or_default(),
            x.shape()
        );
    }
    by_itself(x, Kind::Group { n, c, inner, groups }, [weight, bias], eps)
}

/// Running statistics and their momentum.
pub struct Running<'a> {
    pub mean: Option<&'a Tensor>,
    pub var: Option<&'a Tensor>,
    pub momentum: f64,
}

/// Normalizes each channel by the statistics of the batch (`training`) or by the running statistics.
pub fn batch_norm(
    x: &Tensor,
    running: Running,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    eps: f64,
) -> Result<Tensor> {
    if x.rank() == 1 && x.numel() == 0 {
        return arith::clone(x);
    }
    ensure!(!training || eps > 0.0, Value, "batch_norm eps must be positive during training, but got {eps}");
    ensure!(
        x.rank() >= 2,
        Runtime,
        "Expected 2D or more dimensional input to batch_norm, but got input of size: {}",
        x.shape()
    );
    let (n, c, inner) = channels_of(x);
    let named =
        [("running_mean", running.mean), ("running_var", running.var), ("weight", weight), ("bias", bias)];
    for (name, t) in named {
        ensure!(
            training || t.is_some() || !name.starts_with("running"),
            Runtime,
            "{name} must be defined in evaluation mode"
        );
        ensure!(
            t.is_none_or(|t| t.numel() == c),
            Runtime,
            "{name} should contain {c} elements not {}",
            t.map_or(0, Tensor::numel)
        );
        ensure!(
            !name.starts_with("running") || !grad_enabled() || t.is_none_or(|t| !t.requires_grad()),
            Runtime,
            "The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input cannot \
             have requires_grad True."
        );
    }
    check_dtypes(x, &[weight, bias, running.mean, running.var])?;
    let count = (n * inner) as f64;
    let kind = Kind::Batch { n, c, inner, training };
    let given = running.mean.zip(running.var).filter(|_| !training);
    let (out, stats, var) = forward(x, kind, [weight, bias], eps, given)?;
    if let (true, Some(var)) = (training && x.numel() > 0, &var) {
        follow(running.mean, &stats.mean, running.momentum, 1.0)?;
        // The running variance is unbiased.
        follow(running.var, var, running.momentum, count / (count - 1.0))?;
    }
    finish(out, kind, eps, x, [weight, bias], stats)
}

/// `running = (1 - momentum) * running + momentum * scale * new`, in place and without history.
fn follow(running: Option<&Tensor>, new: &Tensor, momentum: f64, scale: f64) -> Result<()> {
    let Some(running) = running else { return Ok(()) };
    let value = running.new_empty(running.shape().clone())?;
    let new = view::reshape_to(new, running.shape())?;
    kernel::follow(running.raw(), new.raw(), 1.0 - momentum, momentum * scale, value.raw())?;
    write_untracked(running, &value)
}

fn layer_norm_op(a: &Args) -> Result<Out> {
    Ok(layer_norm(a.tensor(0)?, &a.size(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?)?.into())
}

fn group_norm_op(a: &Args) -> Result<Out> {
    let groups = a.int(1)?;
    ensure!(groups > 0, Runtime, "Expected num groups to be greater than 0, got {groups}");
    let (x, g) = (a.tensor(0)?, groups as usize);
    if x.rank() >= 2 && x.shape()[1] % g == 0 {
        let mut seen = x.shape().clone();
        (seen[0], seen[1]) = (x.shape()[0] * x.shape()[1] / g, g);
        let values = seen[0] * seen[2..].iter().product::<usize>();
        ensure!(
            values != 1,
            Value,
            "Expected more than 1 value per channel when training, got input size {seen}"
        );
    }
    Ok(group_norm(x, g, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?)?.into())
}

fn batch_norm_op(a: &Args) -> Result<Out> {
    let running = Running { mean: a.opt_tensor(1)?, var: a.opt_tensor(2)?, momentum: a.float(6)? };
    let x = a.tensor(0)?;
    let batch = x.shape().iter().enumerate().filter(|&(d, _)| d != 1).map(|(_, &n)| n).product::<usize>();
    ensure!(
        !a.bool(5)? || x.rank() == 0 || batch != 1,
        Value,
        "Expected more than 1 value per channel when training, got input size torch.Size({})",
        x.shape()
    );
    Ok(batch_norm(x, running, a.opt_tensor(3)?, a.opt_tensor(4)?, a.bool(5)?, a.float(7)?)?.into())
}

ops! {
    /// Normalises the trailing dimensions of `normalized_shape`, then scales and shifts their elements.
    "layer_norm" FUNCTION | NN, autocast FULL_ON_GPU, batch NORM {
        (input: Tensor, normalized_shape: size, weight: Tensor? = None, bias: Tensor? = None, eps: float = 1e-05) =>
            layer_norm_op;
    }
    /// Normalises groups of channels of each sample, then scales and shifts each channel.
    "group_norm" FUNCTION | NN, autocast FULL_ON_GPU, batch NORM {
        (input: Tensor, num_groups: int, weight: Tensor? = None, bias: Tensor? = None, eps: float = 1e-05) =>
            group_norm_op;
    }
    /// Normalises each channel over the batch or by running statistics, then scales and shifts it.
    "batch_norm" NN, batch BATCH_NORM {
        (input: Tensor, running_mean: Tensor?, running_var: Tensor?, weight: Tensor? = None, bias: Tensor? = None,
         training: bool = False, momentum: float = 0.1, eps: float = 1e-05) =>
            batch_norm_op;
    }
}
