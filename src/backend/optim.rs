//! Steps of optimizers on a device. The host's rules run on slices, in `optim`.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, same_device};
use crate::error::{Error, Result};

/// Numbers that a rule takes at most.
pub const NUMBERS: usize = 12;

/// A rule as a device takes it.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The name of the rule in `shaders/optim.wgsl`, which says what its numbers are.
    pub rule: &'static str,
    pub numbers: &'a [f32],
}

/// Applies a rule to corresponding elements of dense float32 tensors: the gradient, and the parameter with its state.
pub fn step(step: &Step, gradient: View, written: &[View]) -> Result<()> {
    by_device!(same_device(std::iter::once(gradient).chain(written.iter().copied()))?,
        cpu => Err(Error::Runtime(format!("{}: the rules of the host run on slices", step.rule))),
        gpu => gpu::optim::step(step, gradient, written)
    )
}
