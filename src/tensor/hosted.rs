//! Tensors whose operations the host language computes.
//!
//! Note [Hosted tensors] A tensor of a Python class with `__torch_dispatch__` is *hosted*: its autograd metadata hold data of
//! the binding, and the interpreter at the bottom of all stacks ([`crate::ops::interpreter`]) hands every call with such an
//! argument to its class. One that wraps other tensors has no memory and is on the meta device, whatever device its object
//! reports. What the core does with a tensor outside operations must ask [`Tensor::is_hosted`] first: kernels must not write
//! it, and it is detached by its class.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::Tensor;
use crate::error::Result;
use crate::graph::HostData;

/// The part of the host language that the core calls for its tensors.
pub trait Host: Send + Sync {
    /// A tensor of the same class without history.
    fn detach(&self, t: &Tensor) -> Result<Tensor>;

    /// A tensor of ones like a hosted one.
    fn ones_like(&self, t: &Tensor) -> Result<Tensor>;

    /// Whether it computes operations on tensors that are not hosted too.
    fn watches(&self) -> bool;
}

static HOST: OnceLock<&'static dyn Host> = OnceLock::new();

/// Installs the host, once.
pub fn set_host(host: &'static dyn Host) {
    let _ = HOST.set(host);
}

/// Whether there may be a hosted tensor.
static ANY: AtomicBool = AtomicBool::new(false);

impl Tensor {
    /// Whether the host language, or `vmap`, computes operations on this tensor.
    #[inline]
    pub fn is_hosted(&self) -> bool {
        ANY.load(Ordering::Relaxed) && self.hosted_data().is_some()
    }

    /// The data of a hosted tensor: those of its class, or a [`super::batched::Batched`].
    pub(super) fn hosted_data(&self) -> Option<Arc<HostData>> {
        self.meta()?.host()
    }

    /// Makes this tensor a hosted one.
    pub fn become_hosted(&self, data: Arc<HostData>) {
        ANY.store(true, Ordering::Relaxed);
        self.meta_or_new().set_host(data);
    }

    /// As [`Tensor::detach`], by the host for a hosted tensor.
    pub fn detached(&self) -> Result<Tensor> {
        if let Some(batch) = self.batch() {
            return Tensor::batched_over(batch.value().detached()?, batch.levels().into());
        }
        match HOST.get() {
            Some(host) if self.is_hosted() => host.detach(self),
            _ => Ok(self.detach()),
        }
    }

    /// Ones like this tensor.
    pub fn ones_like(&self) -> Result<Tensor> {
        if let Some(batch) = self.batch() {
            return Tensor::batched_over(batch.value().ones_like()?, batch.levels().into());
        }
        match HOST.get() {
            Some(host) if self.is_hosted() || host.watches() => host.ones_like(self),
            _ => Tensor::full_on(self.shape().clone(), 1i64, self.dtype(), self.device()),
        }
    }
}
