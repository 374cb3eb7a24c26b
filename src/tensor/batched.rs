//! Tensors that stand for each slice of a batch.
//!
//! Note [Batched tensors] `vmap` calls a function once, with tensors that stand for all slices of a mapped dimension. Such a
//! tensor has the shape, strides and dtype of one slice and no memory: what it stands for is its *value*, an ordinary
//! tensor with the mapped dimensions in front, in the order of their *levels*, those of an outer `vmap` first. Histories
//! are those of values: a batched tensor is never recorded itself, and an operation on it is recorded by what
//! [`crate::ops::batching`] calls with values. So derivatives of any order, hooks, views and writes in place need no rules
//! of their own. It is a hosted tensor to the core: no kernel may touch it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Tensor;
use crate::backend::memory;
use crate::device::Device;
use crate::ensure;
use crate::error::Result;
use crate::layout::{Dims, Layout};

/// The levels of the mapped dimensions of a tensor, ascending.
pub type Levels = SmallVec<[u32; 2]>;

/// What a batched tensor stands for.
pub struct Batched {
    value: Tensor,
    levels: Levels,
}

impl Batched {
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    pub fn levels(&self) -> &[u32] {
        &self.levels
    }
}

impl Tensor {
    /// The tensor that stands for the slices of `value`, whose first dimensions are mapped; `value` itself if none is.
    pub fn batched_over(value: Tensor, levels: Levels) -> Result<Tensor> {
        if levels.is_empty() {
            return Ok(value);
        }
        let n = levels.len();
        ensure!(
            n <= value.rank(),
            Runtime,
            "vmap: {n} mapped dimensions of a tensor of {} dimensions",
            value.rank()
        );
        let layout = Layout {
            shape: Dims::from(&value.shape()[n..]),
            strides: value.strides()[n..].iter().copied().collect(),
            offset: value.layout().offset,
        };
        let storage = memory::alloc(value.storage().len(), Device::Meta)?;
        let t = Tensor::from_parts(storage, layout, value.dtype());
        t.become_hosted(Arc::new(Batched { value, levels }));
        Ok(t)
    }

    /// What the tensor stands for, if it is batched.
    pub fn batch(&self) -> Option<Arc<Batched>> {
        self.hosted_data()?.downcast().ok()
    }

    #[inline]
    pub fn is_batched(&self) -> bool {
        self.is_hosted() && self.hosted_data().is_some_and(|data| data.is::<Batched>())
    }
}
