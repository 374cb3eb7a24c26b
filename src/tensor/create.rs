//! Constructors of tensors.

use std::borrow::Cow;

use super::Tensor;
use crate::backend::{copy, memory};
use crate::device::Device;
use crate::dtype::{DType, Element, Scalar};
use crate::ensure;
use crate::error::Result;
use crate::layout::{Dims, Layout, MemoryFormat, dense_numel};
use crate::storage::Storage;

impl Tensor {
    /// A contiguous tensor with unspecified contents.
    #[inline]
    pub fn empty(shape: impl Into<Dims>, dtype: DType) -> Result<Tensor> {
        Tensor::empty_on(shape, dtype, Device::Cpu)
    }

    /// As [`Tensor::empty`], on a device.
    #[inline]
    pub fn empty_on(shape: impl Into<Dims>, dtype: DType, device: Device) -> Result<Tensor> {
        let shape = shape.into();
        let storage = memory::alloc(dense_numel(&shape)? * dtype.size(), device)?;
        Ok(Tensor::dense_over(storage, &shape, dtype))
    }

    /// A contiguous tensor with unspecified contents, of the dtype and on the device of this tensor.
    pub fn new_empty(&self, shape: impl Into<Dims>) -> Result<Tensor> {
        Tensor::empty_on(shape, self.dtype(), self.device())
    }

    /// A tensor filled with a value, of the dtype and on the device of this tensor.
    pub fn new_full(&self, shape: impl Into<Dims>, value: impl Into<Scalar>) -> Result<Tensor> {
        let out = self.new_empty(shape)?;
        copy::fill(out.raw(), value.into())?;
        Ok(out)
    }

    pub fn new_zeros(&self, shape: impl Into<Dims>) -> Result<Tensor> {
        self.new_full(shape, 0i64)
    }

    /// Copies the tensor to a device, without history; returns the tensor itself if it is there already.
    pub fn on_device(&self, device: Device) -> Result<Tensor> {
        if self.device() == device {
            return Ok(self.clone());
        }
        let out = Tensor::empty_on(self.shape().clone(), self.dtype(), device)?;
        memory::transfer(self.raw(), out.raw())?;
        Ok(out)
    }

    /// A tensor filled with a value, on a device.
    pub fn full_on(
        shape: impl Into<Dims>,
        value: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let out = Tensor::empty_on(shape, dtype, device)?;
        copy::fill(out.raw(), value.into())?;
        Ok(out)
    }

    pub fn full(shape: impl Into<Dims>, value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
        let out = Tensor::empty(shape, dtype)?;
        copy::fill(out.raw(), value.into())?;
        Ok(out)
    }

    pub fn zeros(shape: impl Into<Dims>, dtype: DType) -> Result<Tensor> {
        let out = Tensor::empty(shape, dtype)?;
        copy::fill(out.raw(), Scalar::Int(0))?;
        Ok(out)
    }

    pub fn zeros_on(shape: impl Into<Dims>, dtype: DType, device: Device) -> Result<Tensor> {
        let out = Tensor::empty_on(shape, dtype, device)?;
        copy::fill(out.raw(), Scalar::Int(0))?;
        Ok(out)
    }

    pub fn ones(shape: impl Into<Dims>, dtype: DType) -> Result<Tensor> {
        Tensor::full(shape, 1i64, dtype)
    }

    /// A 0-d tensor.
    pub fn scalar(value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
        Tensor::full([0usize; 0], value, dtype)
    }

    /// A tensor of the given shape whose elements are copied from `data`, in row-major order.
    ///
    /// # Errors
    /// `RuntimeError` when the length of `data` differs from the number of elements of `shape`.
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Dims>) -> Result<Tensor> {
        let mut out = Tensor::empty(shape, T::DTYPE)?;
        ensure!(
            out.numel() == data.len(),
            Runtime,
            "shape '{}' is invalid for input of size {}",
            out.shape(),
            data.len()
        );
        out.slice_mut::<T>()?.copy_from_slice(data);
        Ok(out)
    }

    /// A new row-major tensor of the same shape.
    pub fn empty_like(&self) -> Result<Tensor> {
        Tensor::empty_on(self.shape().clone(), self.dtype(), self.device())
    }

    /// A new contiguous tensor of the same shape. Cheaper than [`Tensor::empty`], which checks the shape.
    #[inline]
    pub fn empty_as(&self, dtype: DType) -> Result<Tensor> {
        if !self.is_contiguous() {
            return Tensor::empty_on(self.shape().clone(), dtype, self.device());
        }
        let storage = memory::alloc(self.numel() * dtype.size(), self.device())?;
        Ok(Tensor::dense_over(storage, self.shape(), dtype))
    }

    /// A contiguous tensor over new memory, of the same shape and dtype.
    #[inline]
    pub fn dense_like(&self, storage: Storage) -> Tensor {
        Tensor::dense_over(storage, self.shape(), self.dtype())
    }

    /// A tensor with unspecified contents, of a layout without gaps.
    pub fn empty_dense(layout: Layout, dtype: DType, device: Device) -> Result<Tensor> {
        let storage = memory::alloc(dense_numel(&layout.shape)? * dtype.size(), device)?;
        Ok(Tensor::from_parts(storage, layout, dtype))
    }

    /// A new tensor of the same shape in memory format `format`.
    pub fn empty_in(&self, format: MemoryFormat, dtype: DType) -> Result<Tensor> {
        Tensor::empty_dense(self.layout().in_format(format)?, dtype, self.device())
    }

    /// Converts a kernel's row-major result to `format`.
    pub fn laid_as(self, format: MemoryFormat) -> Result<Tensor> {
        if format == MemoryFormat::Contiguous {
            return Ok(self);
        }
        let layout = self.layout().in_format(format)?;
        self.laid_in(layout)
    }

    /// Converts a kernel's row-major result to the strides of `model`, which has its shape.
    pub fn laid_like(self, model: &Tensor) -> Result<Tensor> {
        if model.strides() == self.strides() {
            return Ok(self);
        }
        self.laid_in(model.layout().in_format(MemoryFormat::Preserve)?)
    }

    /// Converts a kernel's row-major result to a dense layout of its shape.
    pub fn laid_in(self, layout: Layout) -> Result<Tensor> {
        if layout.is_contiguous() {
            // Only strides of dimensions of size 1 can differ here, so no element moves.
            return Ok(self.with_layout(layout));
        }
        let out = Tensor::empty_dense(layout, self.dtype(), self.device())?;
        copy::copy(self.raw(), out.raw())?;
        Ok(out)
    }

    /// A copy in memory format `format` and of `dtype`, without history.
    pub fn copied_in(&self, format: MemoryFormat, dtype: DType) -> Result<Tensor> {
        let out = self.empty_in(format, dtype)?;
        copy::copy(self.raw(), out.raw())?;
        Ok(out)
    }

    /// A contiguous copy of `dtype`, without history.
    pub fn copied(&self, dtype: DType) -> Result<Tensor> {
        let out = Tensor::empty_on(self.shape().clone(), dtype, self.device())?;
        copy::copy(self.raw(), out.raw())?;
        Ok(out)
    }

    /// This tensor if it is contiguous and of `dtype`, else a copy that is. For kernels: no history.
    pub fn dense(&self, dtype: DType) -> Result<Tensor> {
        if self.is_contiguous() && self.dtype() == dtype { Ok(self.clone()) } else { self.copied(dtype) }
    }

    /// As [`Tensor::dense`], of a tensor that is not needed afterwards.
    #[inline]
    pub fn into_dense(self, dtype: DType) -> Result<Tensor> {
        if self.is_contiguous() && self.dtype() == dtype { Ok(self) } else { self.copied(dtype) }
    }

    /// As [`Tensor::dense`], borrowed if it is this tensor.
    #[inline]
    pub fn as_dense(&self, dtype: DType) -> Result<Cow<'_, Tensor>> {
        let dense = self.is_contiguous() && self.dtype() == dtype;
        Ok(if dense { Cow::Borrowed(self) } else { Cow::Owned(self.copied(dtype)?) })
    }
}
