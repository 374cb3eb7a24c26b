//! Temporary memory that is used by several launches of one operation.

use super::device::Gpu;
use crate::backend::View;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Dims, Layout};
use crate::storage::Storage;

/// A one-dimensional temporary. It may be dropped as soon as the last launch that uses it is recorded; see Note [Reuse
/// in program order].
pub struct Workspace {
    storage: Storage,
    layout: Layout,
    dtype: DType,
}

impl Workspace {
    pub fn new(gpu: &'static Gpu, n: usize, dtype: DType) -> Result<Workspace> {
        Workspace::of_shape(gpu, &[n].into(), dtype)
    }

    pub fn of_shape(gpu: &'static Gpu, shape: &Dims, dtype: DType) -> Result<Workspace> {
        let layout = Layout::contiguous(shape.clone());
        Ok(Workspace { storage: gpu.allocate(layout.numel() * dtype.size())?, layout, dtype })
    }

    pub fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: self.dtype }
    }
}
