//! Tensors that stand for each slice of a batch.
//!
//! Note [Batched tensors] `vmap` calls a function once, with tensors that stand for all slices of a mapped dimension. Such a
//! tensor has the shape, strides and dtype of one slice and no memory: what it stands for is its *value*, an ordinary
//! tensor with the mapped dimensions in front, in the order of their *levels*, those of an outer `vmap` first. Histories
//! are those of values: a batched tensor is never recorded itself, and an operation on it is recorded by what
//! [`crate::ops::batching`] calls with values. So derivatives of any order, views and writes in place need no rules
//! of their own. It is a hosted tensor to the core: no kernel may touch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::Tensor;
use crate::backend::memory;
use crate::device::Device;
use crate::ensure;
use crate::error::Result;
use crate::graph::INTERPRETERS;
use crate::layout::{Dims, Layout};

/// The levels of the mapped dimensions of a tensor, ascending.
pub type Levels = SmallVec<[u32; 2]>;

/// What a batched tensor stands for.
///
/// Calls are intercepted while there is one, so that one that is used after its `vmap` has ended is an error.
pub struct Batched {
    value: Tensor,
    levels: Levels,
    /// Where the innermost mapped dimension was in the tensor that was given to `vmap`; 0 for results of operations.
    entered: usize,
}

/// The number of batched tensors.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether there is a batched tensor.
pub fn any_alive() -> bool {
    ALIVE.load(Ordering::Relaxed) != 0
}

impl Drop for Batched {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        INTERPRETERS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Batched {
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    pub fn entered(&self) -> usize {
        self.entered
    }
}

impl Tensor {
    /// The tensor that stands for the slices of `value`, whose first dimensions are mapped; `value` itself if none is.
    pub fn batched_over(value: Tensor, levels: Levels) -> Result<Tensor> {
        Tensor::batched_at(value, levels, 0)
    }

    /// As [`Tensor::batched_over`], for a tensor whose innermost mapped dimension was moved from `entered` to the front.
    pub fn batched_at(value: Tensor, levels: Levels, entered: usize) -> Result<Tensor> {
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
        ALIVE.fetch_add(1, Ordering::Relaxed);
        INTERPRETERS.fetch_add(1, Ordering::Relaxed);
        t.become_hosted(Arc::new(Batched { value, levels, entered }));
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
