//! Layer, batch and group normalisation, forward and backward.
//!
//! Note [Formulas of normalisation]: a result is `normalize` of an element, the statistics of its lane and the weight and
//! bias of its channel; the gradient of the input is `gradient` of the same and of two sums over the lane. These functions
//! are generic over the numbers: the kernels of the CPU run them on elements in the cache, recorded they are the steps of a
//! device's shaders. Kernels differ in where statistics and coefficients come from, not in what is computed.

use super::{View, of, same_device};
use crate::error::Result;
use crate::formula::Num;

/// `x` less the mean, times the reciprocal deviation (and weight), plus the bias.
#[inline(always)]
pub fn normalize<E: Num>(x: E, mean: E, scale: E, shift: E) -> E {
    (x - mean) * scale + shift
}

/// What backward sums over a lane, of the gradient `g` (times the weight): it, and it times what is left of the mean.
#[inline(always)]
pub fn terms<E: Num>(g: E, x: E, mean: E) -> [E; 2] {
    [g, g * (x - mean)]
}

/// What a lane passes back to each of its `count` elements, from the sums of [`terms`]: `along` the centred input, and
/// what is the same for all.
#[inline(always)]
pub fn passed_back<E: Num>([plain, product]: [E; 2], rstd: E, count: E) -> [E; 2] {
    [product * rstd * rstd / count * rstd, plain / count * rstd]
}

/// The gradient of the input; `scale` as in [`normalize`].
#[inline(always)]
pub fn gradient<E: Num>(g: E, x: E, mean: E, scale: E, [along, shift]: [E; 2]) -> E {
    g * scale - (x - mean) * along - shift
}

/// The reciprocal deviation.
#[inline(always)]
pub fn reciprocal_deviation<E: Num>(var: E, eps: E) -> E {
    E::one() / (var + eps).sqrt()
}

/// Over which elements statistics are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Each row of `[rows, n]`; weight and bias have `n` elements.
    Layer { n: usize },
    /// Each group of channels of each sample of `[n, c, inner]`.
    Group { n: usize, c: usize, inner: usize, groups: usize },
    /// Each channel of `[n, c, inner]` over the batch, or as given statistics say.
    Batch { n: usize, c: usize, inner: usize, training: bool },
}

/// What a forward pass leaves: mean, variance (of a batch alone) and reciprocal deviation. Given statistics are read.
#[derive(Clone, Copy)]
pub struct Stats<'a> {
    pub mean: View<'a>,
    pub var: Option<View<'a>>,
    pub rstd: View<'a>,
}

/// Normalises a tensor that has elements; all views are dense and of one floating dtype. False where the device has no
/// kernel for it: reductions and the formulas then do the same.
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
    /// PyTorch's name of the kernel, in messages.
    pub const fn kernel(self) -> &'static str {
        match self {
            Kind::Layer { .. } => "LayerNormKernelImpl",
            Kind::Group { .. } => "GroupNormKernelImpl",
            Kind::Batch { .. } => "batch_norm",
        }
    }
}

/// Which gradients a kernel made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    Nothing,
    /// That of the input.
    Input,
    All,
}

/// The gradients of input, weight and bias, the latter two per channel, from the statistics of the forward pass; all views
/// are dense and of one floating dtype. Tells which of them the device has made.
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

/// `old * kept + new * taken`: how running statistics follow a batch; all views are of one element per channel.
pub fn follow(old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> {
    of(same_device([old, new, out])?)?.follow(old, new, kept, taken, out)
}

/// Lanes of `n` elements beside one another, each over channels of `inner` elements; `groups` of them have the channels of
/// a sample.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub count: usize,
    pub n: usize,
    pub inner: usize,
    pub groups: usize,
}
