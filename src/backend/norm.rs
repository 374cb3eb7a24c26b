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

#[cold]
fn not_here() -> Error {
    Error::Runtime("normalisation: the formulas of devices are not those of the host".into())
}
