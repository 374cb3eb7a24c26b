//! A tensor that a function keeps for its backward.

use std::sync::{Mutex, PoisonError};

use super::{Cx, GradFn, grad_enabled};
use crate::bail;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A tensor at the version that it had when it was saved. Freed when its node has run.
///
/// Note [Outputs that their own node saves]
/// A result that kept its node, saved by that node, would be a cycle that nothing frees. A saved result is
/// therefore stored without history, and given its node again when it is asked for in a differentiable backward.
pub struct SavedTensor(Mutex<Slot>);

enum Slot {
    /// Nothing was needed.
    Unused,
    Kept {
        tensor: Tensor,
        version: u32,
        output: bool,
    },
    Freed,
}

impl SavedTensor {
    /// Saves an input of the operation.
    #[inline]
    pub fn input(t: &Tensor) -> SavedTensor {
        SavedTensor(Mutex::new(Slot::Kept { tensor: t.clone(), version: t.version(), output: false }))
    }

    /// Saves an output of the operation; see Note [Outputs that their own node saves].
    #[inline]
    pub fn output(t: &Tensor) -> SavedTensor {
        SavedTensor(Mutex::new(Slot::Kept { tensor: t.detach(), version: t.version(), output: true }))
    }

    pub const fn unused() -> SavedTensor {
        SavedTensor(Mutex::new(Slot::Unused))
    }

    /// An input, or nothing where the caller knows that backward will not ask.
    pub fn input_if(wanted: bool, t: &Tensor) -> SavedTensor {
        if wanted { SavedTensor::input(t) } else { SavedTensor::unused() }
    }

    pub fn optional(t: Option<&Tensor>) -> SavedTensor {
        t.map_or(SavedTensor::unused(), SavedTensor::input)
    }

    /// The saved tensor.
    ///
    /// # Errors
    /// `RuntimeError` when it was freed by an earlier backward, or written in place since it was saved.
    pub fn get(&self, cx: &Cx) -> Result<Tensor> {
        match self.try_get(cx)? {
            Some(t) => Ok(t),
            None => Err(Error::Runtime("backward asked for a tensor that was not saved".into())),
        }
    }

    /// As [`SavedTensor::get`], with None where nothing was saved.
    pub fn try_get(&self, cx: &Cx) -> Result<Option<Tensor>> {
        self.unpack(Some(cx.node))
    }

    /// As [`SavedTensor::try_get`], for the node that saved it, if that is known.
    pub fn unpack(&self, node: Option<&GradFn>) -> Result<Option<Tensor>> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Slot::Unused => Ok(None),
            Slot::Freed => Err(Error::FreedGraph),
            Slot::Kept { tensor, version, output } => {
                if tensor.version() != *version {
                    let t = tensor;
                    let producer = if *output { node.cloned() } else { t.grad_fn() };
                    bail!(Error::SavedVersion {
                        ty: t.dtype().scalar_name(),
                        shape: Box::new(t.shape().clone()),
                        output: t.meta().map_or(0, |m| m.output()),
                        producer: producer
                            .map_or("an operation without history".into(), |n| n.name().to_string()),
                        found: t.version(),
                        expected: *version,
                    });
                }
                if let (true, true, Some(node)) = (*output, grad_enabled(), node) {
                    let t = tensor.detach();
                    t.meta_or_new().set_history(node.clone(), 0);
                    return Ok(Some(t));
                }
                Ok(Some(tensor.clone()))
            }
        }
    }

    /// Lets go of the tensor.
    pub fn free(&self) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = if matches!(*slot, Slot::Kept { .. }) {
            std::mem::replace(&mut *slot, Slot::Freed)
        } else {
            Slot::Unused
        };
        drop(slot);
        drop(old);
    }
}
