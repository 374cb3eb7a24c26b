//! Tensors whose operations the host language computes.
//!
//! Note [Hosted tensors] A tensor of a Python class with `__torch_dispatch__` is *hosted*: its autograd metadata hold data of
//! the binding, and the interpreter at the bottom of all stacks ([`crate::ops::interpreter`]) hands every call with such an
//! argument to its class. One that wraps other tensors has no memory and is on the meta device, whatever device its object
//! reports. What the core does with a tensor outside operations must ask [`Tensor::is_hosted`] first: kernels must not write
//! it, and it is detached by its class.

use std::sync::OnceLock;

use super::Tensor;
use crate::error::Result;

/// The part of the host language that the core calls for its tensors.
pub trait Host: Send + Sync {
    /// A tensor of the same class without history.
    fn detach(&self, t: &Tensor) -> Result<Tensor>;

    /// A tensor of ones like a hosted one.
    fn ones_like(&self, t: &Tensor) -> Result<Tensor>;
}

static HOST: OnceLock<&'static dyn Host> = OnceLock::new();

/// Installs the host, once.
pub fn set_host(host: &'static dyn Host) {
    let _ = HOST.set(host);
}

impl Tensor {
    /// Whether the host language computes operations on this tensor.
    #[inline]
    pub fn is_hosted(&self) -> bool {
        HOST.get().is_some() && self.meta().is_some_and(|m| m.host().is_some())
    }

    /// As [`Tensor::detach`], by the host for a hosted tensor.
    pub fn detached(&self) -> Result<Tensor> {
        match HOST.get() {
            Some(host) if self.is_hosted() => host.detach(self),
            _ => Ok(self.detach()),
        }
    }

    /// Ones like this tensor.
    pub fn ones_like(&self) -> Result<Tensor> {
        match HOST.get() {
            Some(host) if self.is_hosted() => host.ones_like(self),
            _ => Tensor::full_on(self.shape().clone(), 1i64, self.dtype(), self.device()),
        }
    }
}
