//! User code that runs during backward, in order of registration.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::Grads;
use crate::error::Result;
use crate::tensor::Tensor;

/// Receives the gradient of a tensor (None if undefined) and may replace it.
pub trait TensorHook: Send + Sync {
    fn call(&self, grad: Option<&Tensor>) -> Result<Option<Tensor>>;

    /// For downcasts in the binding, which defines hooks of its own.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Receives a leaf after a gradient was accumulated into it.
pub trait PostAccumulateHook: Send + Sync {
    fn call(&self, leaf: &Tensor) -> Result<()>;

    /// For downcasts in the binding.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Receives the gradients that enter a node (`outputs` is None) or those it returned, and may replace the latter.
pub trait NodeHook: Send + Sync {
    fn call(&self, grads: &Grads, outputs: Option<&Grads>) -> Result<Option<Grads>>;

    /// For downcasts in the binding.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Packs tensors that nodes save.
pub trait SavedTensorHooks: Send + Sync {
    fn pack(&self, t: &Tensor) -> Result<Box<dyn PackedTensor>>;
}

/// The packed form of a saved tensor.
pub trait PackedTensor: Send + Sync {
    fn unpack(&self) -> Result<Tensor>;

    /// For downcasts in the binding.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Identifies a registered hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(u64);

impl Handle {
    pub fn new() -> Handle {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Handle(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number by which the host language refers to the hook.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl Default for Handle {
    fn default() -> Self {
        Handle::new()
    }
}

/// Hooks of one kind, in order. Copied on change, so that a hook may register and remove hooks while it runs.
pub struct Hooks<H: ?Sized>(SmallVec<[(Handle, std::sync::Arc<H>); 1]>);

impl<H: ?Sized> Default for Hooks<H> {
    fn default() -> Self {
        Hooks(SmallVec::new())
    }
}

impl<H: ?Sized> Clone for Hooks<H> {
    fn clone(&self) -> Self {
        Hooks(self.0.clone())
    }
}

impl<H: ?Sized> Hooks<H> {
    pub fn add(&mut self, hook: std::sync::Arc<H>) -> Handle {
        let handle = Handle::new();
        self.0.push((handle, hook));
        handle
    }

    /// Removes the hook if present.
    pub fn remove(&mut self, handle: Handle) -> bool {
        let before = self.0.len();
        self.0.retain(|(h, _)| *h != handle);
        self.0.len() != before
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The hooks with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &std::sync::Arc<H>)> {
        self.0.iter().map(|(handle, h)| (handle.number(), h))
    }

    pub fn iter(&self) -> impl Iterator<Item = &std::sync::Arc<H>> {
        self.0.iter().map(|(_, h)| h)
    }
}
