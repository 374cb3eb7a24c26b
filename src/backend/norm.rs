//! Formulas of normalisation over statistics that lie on a device. The host's kernels take their statistics on the way, in
//! `cpu::norm`.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, same_device};
use crate::error::{Error, Result};

/// `(x - mean) * rstd`, then times a weight and plus a bias where there are any; all views have the shape of the result.
pub fn normalize(x: View, mean: View, rstd: View, affine: [Option<View>; 2], out: View) -> Result<()> {
    by_device!(same_device([x, mean, rstd, out].into_iter().chain(affine.into_iter().flatten()))?,
        cpu => Err(not_here()),
        gpu => gpu::norm::normalize(x, mean, rstd, affine, out)
    )
}

/// `(g - mean_g - xhat * mean_gx) * scale` of the five; all views have the shape of the result.
pub fn centre(operands: [View; 5], out: View) -> Result<()> {
    by_device!(same_device(operands.into_iter().chain([out]))?,
        cpu => Err(not_here()),
        gpu => gpu::norm::centre(operands, out)
    )
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

/// Whether the device of `x` goes through such lanes in one launch.
pub fn in_lanes(x: View, d: Lanes) -> Result<bool> {
    by_device!(same_device([x])?, cpu => Ok(false), gpu => gpu::norm::in_lanes(x, d))
}

/// Forward: the result, and the statistics of each lane.
pub fn lanes(x: View, affine: [Option<View>; 2], eps: f64, d: Lanes, out: [View; 3]) -> Result<()> {
    by_device!(same_device(out.into_iter().chain([x]).chain(affine.into_iter().flatten()))?,
        cpu => Err(not_here()),
        gpu => gpu::norm::lanes(x, affine, eps, d, out)
    )
}

/// The gradient of the input, from the gradient `g` of the result.
pub fn lanes_backward(
    g: View,
    x: View,
    stats: [View; 2],
    weight: Option<View>,
    d: Lanes,
    out: View,
) -> Result<()> {
    by_device!(same_device([g, x, out].into_iter().chain(stats).chain(weight))?,
        cpu => Err(not_here()),
        gpu => gpu::norm::lanes_backward(g, x, stats, weight, d, out)
    )
}

/// `g * (x - mean) * rstd`, which gradients of weights sum; all views have the shape of the result.
pub fn weight_terms(operands: [View; 4], out: View) -> Result<()> {
    by_device!(same_device(operands.into_iter().chain([out]))?,
        cpu => Err(not_here()),
        gpu => gpu::norm::weight_terms(operands, out)
    )
}

#[cold]
fn not_here() -> Error {
    Error::Runtime("normalisation: the formulas of devices are not those of the host".into())
}
