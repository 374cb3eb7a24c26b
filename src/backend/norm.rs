//! Layer, batch and group normalization, forward and backward.
//!
//! Note [Formulas of normalization]: a result is `normalize` of an element, the statistics of its lane, and the weight
//! and bias of its channel; the gradient of the input is `gradient` of the same and two sums over the lane. These
//! functions are generic over the number type: CPU kernels instantiate them for elements in cache, and recorded they
//! become the steps of GPU shaders. Kernels differ only in where statistics and coefficients come from.

use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;
use crate::formula::Num;

/// `x` minus the mean, times the reciprocal deviation (and weight), plus the bias.
#[inline(always)]
pub fn normalize<E: Num>(x: E, mean: E, scale: E, shift: E) -> E {
    (x - mean) * scale + shift
}

/// The terms that backward sums over a lane: the gradient `g` (times the weight), and `g` times the centered input.
#[inline(always)]
pub fn terms<E: Num>(g: E, x: E, mean: E) -> [E; 2] {
    [g, g * (x - mean)]
}

/// The contributions of a lane's statistics to the gradient of each of its `count` elements, from the sums of
/// [`terms`]: the factor `along` of the centered input, and a constant `shift`.
#[inline(always)]
pub fn passed_back<E: Num>([plain, product]: [E; 2], rstd: E, count: E) -> [E; 2] {
    [product * rstd * rstd / count * rstd, plain / count * rstd]
}

/// The gradient of the input; `scale` as in [`normalize`].
#[inline(always)]
pub fn gradient<E: Num>(g: E, x: E, mean: E, scale: E, [along, shift]: [E; 2]) -> E {
    g * scale - (x - mean) * along - shift
}

/// The reciprocal standard deviation.
#[inline(always)]
pub fn reciprocal_deviation<E: Num>(var: E, eps: E) -> E {
    E::one() / (var + eps).sqrt()
}

/// The elements that share statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Each row of `[rows, n]`; weight and bias have `n` elements.
    Layer { n: usize },
    /// Each group of channels of each sample of `[n, c, inner]`.
    Group { n: usize, c: usize, inner: usize, groups: usize },
    /// Each channel of `[n, c, inner]` over the batch when training, else with given statistics.
    Batch { n: usize, c: usize, inner: usize, training: bool },
}

/// The statistics of a forward pass: mean, variance (batch normalization only) and reciprocal deviation. Inputs when
/// given.
#[derive(Clone, Copy)]
pub struct Stats<'a> {
    pub mean: View<'a>,
    pub var: Option<View<'a>>,
    pub rstd: View<'a>,
}

/// The dtype of the tensors of [`forward`] and [`backward`] that have the shape of the input, where `compute` is that of statistics
/// and parameters.
pub fn operand_dtype(kind: Kind, x: View, compute: DType) -> Result<DType> {
    let halves = x.dtype.is_half() && matches!(kind, Kind::Layer { n } if n > 0);
    Ok(if halves && of(x.device())?.takes_halves() { x.dtype } else { compute })
}

/// Normalizes a non-empty tensor; all views are dense and of one floating point dtype, but for that of [`operand_dtype`]. False if the device has no
/// kernel for it; the caller then uses reductions and the formulas.
pub fn forward(
    kind: Kind,
    x: View,
    affine: [Option<View>; 2],
    eps: f64,
    out: View,
    stats: Stats,
) -> Result<bool> {
    let views =
        [x, out, stats.mean, stats.rstd].into_iter().chain(stats.var).chain(affine.into_iter().flatten());
    of(same_device(views)?)?.norm_forward(kind, x, affine, eps, out, stats)
}

impl Kind {
    /// PyTorch's name of the kernel, for messages.
    pub const fn kernel(self) -> &'static str {
        match self {
            Kind::Layer { .. } => "LayerNormKernelImpl",
            Kind::Group { .. } => "GroupNormKernelImpl",
            Kind::Batch { .. } => "batch_norm",
        }
    }
}

/// The gradients that a kernel computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    Nothing,
    /// The gradient of the input.
    Input,
    All,
}

/// The gradients of input, weight and bias (the latter two per channel), from the statistics of the forward pass; all
/// views are dense and of the dtypes of [`forward`]. Returns which of them the device has computed.
pub fn backward(
    kind: Kind,
    g: View,
    x: View,
    [mean, rstd]: [View; 2],
    weight: Option<View>,
    out: [View; 3],
) -> Result<Made> {
    of(same_device(out.into_iter().chain([g, x, mean, rstd]).chain(weight))?)?.norm_backward(
        kind,
        g,
        x,
        [mean, rstd],
        weight,
        out,
    )
}

/// `old * kept + new * taken`: the moving average of running statistics; all views have one element per channel.
pub fn follow(old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> {
    of(same_device([old, new, out])?)?.follow(old, new, kept, taken, out)
}

/// Contiguous lanes of `n` elements, each with channels of `inner` elements; `groups` lanes contain the channels of a
/// sample.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub count: usize,
    pub n: usize,
    pub inner: usize,
    pub groups: usize,
}
