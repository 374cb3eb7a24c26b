//! Steps of optimizers on a device. The host's rules run on slices, in `optim`.

use smallvec::SmallVec;

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, same_device};
use crate::error::{Error, Result};

/// Numbers that a rule takes at most.
pub const NUMBERS: usize = 12;

/// A rule as a device takes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule {
    /// One that reads gradients, by its name in `shaders/optim.wgsl`.
    Step(&'static str),
    /// Multiplies by the number that the shared tensor holds.
    Scale,
    /// Multiplies likewise, and sets the second shared tensor to 1 where an element was infinite or NaN.
    Unscale,
}

/// What a rule takes beside a parameter's tensors, the same for all of them.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub numbers: &'a [f32],
    /// A float32 that is read, and one that is written.
    pub factor: Option<View<'a>>,
    pub found: Option<View<'a>>,
}

/// The tensors of a parameter, of one shape: the gradient, and the parameter with its state.
#[derive(Clone)]
pub struct Part<'a> {
    pub gradient: Option<View<'a>>,
    pub written: SmallVec<[View<'a>; 5]>,
}

/// Applies a rule to corresponding elements of dense float32 tensors, of each of some parameters.
pub fn step(rule: Rule, shared: Shared, parts: &[Part]) -> Result<()> {
    let views = parts.iter().flat_map(|p| p.gradient.iter().chain(&p.written)).copied();
    by_device!(same_device(views.chain(shared.factor).chain(shared.found))?,
        cpu => Err(Error::Runtime(format!("{rule:?}: the rules of the host run on slices"))),
        gpu => gpu::optim::step(rule, shared, parts)
    )
}
