//! Softmax and its logarithm along n of dense tensors seen as `[outer, n, inner]`, and the losses made of them.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::reduce::Along;

use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::{bail, with_dtype};

/// Which of the two functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Softmax,
    LogSoftmax,
}

/// Runs a block for the dtype of a view, which is float32 or float64.
macro_rules! real {
    ($v:expr, $T:ident => $body:expr) => {
        with_dtype!(float $v.dtype, $T => $body, else bail!(Error::DtypeNotImplemented { op: "softmax", dtype: $v.dtype }))
    };
}

pub fn softmax(kind: Kind, x: View, d: Along, out: View) -> Result<()> {
    by_device!(same_device([out, x])?,
        cpu => {
            real!(x, T => match kind {
                Kind::Softmax => cpu::softmax::softmax::<T>(elements(x), d, results(out)),
                Kind::LogSoftmax => cpu::softmax::log_softmax::<T>(elements(x), d, results(out)),
            });
            Ok(())
        },
        gpu => gpu::softmax::softmax(kind, x, d, out)
    )
}

/// The gradient of the input, from the result `y` and the gradient `g` of that.
pub fn softmax_backward(kind: Kind, g: View, y: View, d: Along, out: View) -> Result<()> {
    by_device!(same_device([out, g, y])?,
        cpu => {
            real!(y, T => {
                let (g, y, out) = (elements::<T>(g), elements(y), results(out));
                match kind {
                    Kind::Softmax => cpu::softmax::softmax_backward::<T>(g, y, d, out),
                    Kind::LogSoftmax => cpu::softmax::log_softmax_backward::<T>(g, y, d, out),
                }
            });
            Ok(())
        },
        gpu => gpu::softmax::softmax_backward(kind, g, y, d, out)
    )
}

/// What selects the terms of a negative log likelihood: a class (int64) per position, the weights of the classes, and
/// the class that does not count.
#[derive(Clone, Copy)]
pub struct Targets<'a> {
    pub class: View<'a>,
    pub weight: Option<View<'a>>,
    pub ignore_index: i64,
}

impl<'a> Targets<'a> {
    fn on_host<T: Element>(&self) -> cpu::softmax::Targets<'a, T> {
        cpu::softmax::Targets {
            class: elements(self.class),
            weight: self.weight.map(elements),
            ignore_index: self.ignore_index,
        }
    }

    fn views(&self) -> impl Iterator<Item = View<'a>> {
        std::iter::once(self.class).chain(self.weight)
    }
}

/// The error for a class that is none.
pub fn out_of_bounds(class: i64) -> Error {
    Error::Index(format!("Target {class} is out of bounds."))
}

/// The negative log likelihoods of `logp`, seen as `[n, classes, inner]`; 0 where ignored. The total weight is
/// returned where the host knows it; else each position's is written to `weights`, and a class that is none is an
/// error of the next call that waits for the device.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "the GPU's weights"))]
pub fn nll(
    logp: View,
    d: Along,
    targets: Targets,
    losses: View,
    weights: Option<View>,
) -> Result<Option<f64>> {
    by_device!(same_device([losses, logp].into_iter().chain(targets.views()))?,
        cpu => real!(logp, T => {
            let total = cpu::softmax::nll_forward::<T>(elements(logp), d, targets.on_host(), results(losses));
            Ok(Some(total.map_err(out_of_bounds)?.to_f64()))
        }),
        gpu => gpu::softmax::nll(logp, d, targets, losses, weights.unwrap_or(losses)).map(|()| None)
    )
}

/// The gradient of `logp` in [`nll`], or, with `logits`, of what it is the logarithm of the softmax of. `g` holds one
/// value for all losses or one per loss.
pub fn nll_backward(g: View, logp: View, d: Along, targets: Targets, logits: bool, out: View) -> Result<()> {
    by_device!(same_device([out, g, logp].into_iter().chain(targets.views()))?,
        cpu => {
            real!(out, T => {
                let (g, t, dx) = (elements::<T>(g), targets.on_host(), results(out));
                if logits {
                    cpu::softmax::cross_entropy_backward(g, elements(logp), d, t, dx).map_err(out_of_bounds)?;
                } else {
                    cpu::softmax::nll_backward(g, d, t, dx).map_err(out_of_bounds)?;
                }
            });
            Ok(())
        },
        gpu => gpu::softmax::nll_backward(g, logp, d, targets, logits, out)
    )
}
