//! Storages as bytes: `UntypedStorage`, and tensors over Python buffers.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{
    PyBufferError, PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyUserWarning,
    PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyWeakrefMethods, PyWeakrefReference};

use super::arrays::adopt;
use super::convert::{dtype_argument, int};
use super::dispatch::is_wrapper;
use super::dtype::{PyDevice, device_of, type_name};
use super::error::IntoPy;
use super::tensor::{PyTensor, wrap};
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::layout::{Dims, Layout};
use crate::ops::arith;
use crate::ops::cast::copy_into;
use crate::ops::creation::fill_all;
use crate::ops::view::cut;
use crate::storage::{Storage, expect_room};
use crate::tensor::Tensor;

/// The storage of one or more tensors, as bytes. Only `resize_` replaces the memory of an object.
#[pyclass(frozen, subclass, dict, weakref, name = "UntypedStorage", module = "rgrad")]
pub struct PyStorage {
    memory: Mutex<Storage>,
    /// The key of the object in `OBJECTS`; 0 if it is not there.
    key: AtomicUsize,
    /// Whether it is that of a tensor whose class computes its operations, which has no memory.
    of_wrapper: AtomicBool,
}

/// The objects of storages that tensors were asked for, by the storage's id: a storage has one object while that lives.
static OBJECTS: Mutex<BTreeMap<usize, Py<PyWeakrefReference>>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The object of a storage.
fn object_of(py: Python<'_>, storage: &Storage) -> PyResult<Py<PyStorage>> {
    let id = storage.id();
    let known = locked(&OBJECTS).get(&id).map(|seen| seen.clone_ref(py));
    if let Some(object) = known.and_then(|seen| seen.bind(py).upgrade())
        && let Ok(object) = object.cast_into::<PyStorage>()
        && object.get().now().same(storage)
    {
        return Ok(object.unbind());
    }
    let made = Bound::new(py, PyStorage::over(storage.clone()))?;
    let seen = PyWeakrefReference::new(&made)?.unbind();
    made.get().key.store(id, Ordering::Relaxed);
    let before = locked(&OBJECTS).insert(id, seen);
    drop(before);
    Ok(made.unbind())
}

impl Drop for PyStorage {
    fn drop(&mut self) {
        let key = *self.key.get_mut();
        if key != 0 {
            let seen = locked(&OBJECTS).remove(&key);
            drop(seen);
        }
    }
}

impl PyStorage {
    fn over(storage: Storage) -> PyStorage {
        PyStorage {
            memory: Mutex::new(storage),
            key: AtomicUsize::new(0),
            of_wrapper: AtomicBool::new(false),
        }
    }

    fn now(&self) -> Storage {
        locked(&self.memory).clone()
    }

    fn at(&self, index: &Bound<'_, PyAny>) -> PyResult<usize> {
        let Some(i) = int(index) else {
            return Err(PyTypeError::new_err(format!(
                "can't index a torch.UntypedStorage with {}",
                type_name(index)
            )));
        };
        let n = self.now().len();
        let at = if i < 0 { i.checked_add_unsigned(n as u64) } else { Some(i) };
        match at.and_then(|at| usize::try_from(at).ok()) {
            Some(at) if at < n => Ok(at),
            _ => Err(PyIndexError::new_err(format!("index {i} out of range for storage of size {n}"))),
        }
    }

    /// The storage as a uint8 tensor.
    pub fn bytes_tensor(&self) -> Tensor {
        Tensor::from_parts(self.now(), Layout::contiguous([self.now().len()].into()), DType::U8)
    }

    fn moved(&self, device: Device) -> PyResult<PyStorage> {
        Ok(PyStorage::over(arith::to(&self.bytes_tensor(), device, DType::U8).py()?.storage().clone()))
    }

    /// The content, copied from any device.
    fn bytes(&self) -> PyResult<Vec<u8>> {
        self.bytes_tensor().values().py()
    }

    fn check_writable(&self) -> PyResult<()> {
        if self.now().is_readonly() {
            return Err(PyRuntimeError::new_err("the memory of this storage is read-only"));
        }
        Ok(())
    }
}

#[pymethods]
impl PyStorage {
    /// A storage of zeros of the given size, or with the bytes of a sequence.
    #[new]
    #[pyo3(signature = (data=None, *, device=None))]
    fn new(data: Option<&Bound<'_, PyAny>>, device: Option<&Bound<'_, PyAny>>) -> PyResult<PyStorage> {
        let storage = match data {
            None => Storage::zeroed(0),
            Some(data) => match int(data) {
                Some(n) => Storage::zeroed(usize::try_from(n)?),
                None => {
                    expect_room::<usize>(data.len().unwrap_or(0)).py()?;
                    Storage::from_slice(&data.extract::<Vec<u8>>()?)
                }
            },
        };
        let made = PyStorage::over(storage.py()?);
        device.map_or(Ok(Device::Cpu), device_of).and_then(|device| made.moved(device))
    }

    /// The storage itself, for compatibility with `TypedStorage.untyped`.
    fn untyped(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Address of the first byte; 0 if empty.
    fn data_ptr(&self) -> PyResult<usize> {
        if self.of_wrapper.load(Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err(
                "cannot access the data pointer of a storage without memory: the class of its tensor computes the \
                 operations",
            ));
        }
        if self.now().is_empty() || self.now().device() == Device::Meta {
            return Ok(0);
        }
        memory::lend(&self.now()).py().map(|at| at as usize)
    }

    /// Identifies the memory: equal for two objects exactly if they share it.
    #[getter]
    fn _cdata(&self) -> usize {
        self.now().data_ptr() as usize
    }

    fn nbytes(&self) -> usize {
        self.now().len()
    }

    fn size(&self) -> usize {
        self.now().len()
    }

    fn element_size(&self) -> usize {
        1
    }

    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.now().device())
    }

    #[getter]
    fn is_cuda(&self) -> bool {
        self.now().device().is_gpu()
    }

    /// Changes the number of bytes; the first ones stay. Not for a storage that tensors use: those have the memory that
    /// they were made with, and `Tensor.resize_` changes them.
    fn resize_<'py>(slf: Bound<'py, Self>, size: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let Some(size) = int(size).and_then(|n| usize::try_from(n).ok()) else {
            return Err(PyTypeError::new_err(format!("resize_ expects an int, but got {}", type_name(size))));
        };
        let mut held = locked(&slf.get().memory);
        if held.len() == size {
            drop(held);
            return Ok(slf);
        }
        if !held.is_resizable() {
            return Err(PyRuntimeError::new_err("Trying to resize storage that is not resizable"));
        }
        if held.owners() > 1 {
            return Err(PyNotImplementedError::new_err(
                "UntypedStorage.resize_: tensors use this storage, whose memory can't be replaced. Tensor.resize_ resizes \
                 a tensor.",
            ));
        }
        let (from, to) = (held.clone(), memory::alloc(size, held.device()).py()?);
        let first = |storage: Storage| {
            Tensor::from_parts(storage, Layout::contiguous([from.len().min(size)].into()), DType::U8)
        };
        copy_into(&first(to.clone()), &first(from.clone())).py()?;
        *held = to;
        drop(held);
        Ok(slf)
    }

    /// Whether a tensor over the storage can grow: not if other objects show the memory.
    fn resizable(&self) -> bool {
        self.now().is_resizable()
    }

    /// Whether other processes see writes: never.
    fn is_shared(&self) -> bool {
        false
    }

    fn share_memory_(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The storage on the CPU: itself if it is there already.
    fn cpu(&self) -> PyResult<PyStorage> {
        self.moved(Device::Cpu)
    }

    /// The storage on a GPU: itself if it is there already.
    #[pyo3(signature = (device=None, non_blocking=false))]
    fn cuda(&self, device: Option<&Bound<'_, PyAny>>, non_blocking: bool) -> PyResult<PyStorage> {
        let _ = non_blocking; // transfers are always asynchronous
        self.moved(device.map_or_else(|| Device::parse("gpu").py(), device_of)?)
    }

    /// The storage on a device: itself if it is there already.
    #[pyo3(signature = (*, device, non_blocking=false))]
    fn to(&self, device: &Bound<'_, PyAny>, non_blocking: bool) -> PyResult<PyStorage> {
        self.cuda(Some(device), non_blocking)
    }

    /// A copy with its own memory.
    fn clone(&self) -> PyResult<PyStorage> {
        Ok(PyStorage::over(self.bytes_tensor().copied(DType::U8).py()?.storage().clone()))
    }

    fn copy_<'py>(slf: Bound<'py, Self>, source: &Bound<'py, PyStorage>) -> PyResult<Bound<'py, Self>> {
        let (to, from) = (slf.get(), source.get());
        if to.now().len() != from.now().len() {
            return Err(PyRuntimeError::new_err("storages of different sizes can't be copied to each other"));
        }
        if !to.now().same(&from.now()) {
            to.check_writable()?;
            copy_into(&to.bytes_tensor(), &from.bytes_tensor()).py()?;
        }
        Ok(slf)
    }

    fn fill_(slf: Bound<'_, Self>, value: u8) -> PyResult<Bound<'_, Self>> {
        slf.get().check_writable()?;
        fill_all(&slf.get().bytes_tensor(), Scalar::from(i64::from(value))).py()?;
        Ok(slf)
    }

    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.bytes()?)
    }

    fn __len__(&self) -> usize {
        self.now().len()
    }

    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<u8> {
        let byte = cut::select(&self.bytes_tensor(), 0, self.at(index)? as i64).py()?;
        Ok(byte.item().py()?.to_i64() as u8)
    }

    fn __setitem__(&self, index: &Bound<'_, PyAny>, value: u8) -> PyResult<()> {
        self.check_writable()?;
        let byte = cut::select(&self.bytes_tensor(), 0, self.at(index)? as i64).py()?;
        fill_all(&byte, Scalar::from(i64::from(value))).py()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tolist(py)?.into_any().call_method0("__iter__")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStorage>().is_ok_and(|o| o.get().now().same(&self.now()))
    }

    fn __hash__(&self) -> usize {
        self._cdata() >> 4
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.bytes()?))
    }

    fn __repr__(&self) -> PyResult<String> {
        let lines: String = self.bytes()?.iter().map(|b| format!(" {b}\n")).collect();
        let (device, size) = (self.now().device(), self.now().len());
        Ok(format!("{lines}[torch.storage.UntypedStorage(device={device}) of size {size}]"))
    }

    /// # Safety Called by Python with a view to fill in.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let storage = &slf.get().now();
        if !storage.device().is_host_readable() {
            return Err(PyBufferError::new_err("the memory of a GPU has no buffer: call cpu() first"));
        }
        let at = memory::lend(storage).py()?;
        // SAFETY: the view takes a reference to the object, which keeps the memory alive.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                at.cast::<c_void>(),
                storage.len() as ffi::Py_ssize_t,
                storage.is_readonly().into(),
                flags,
            )
        };
        if status < 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}

#[pymethods]
impl PyTensor {
    /// The storage of this tensor, shared with its views.
    fn untyped_storage(&self, py: Python<'_>) -> PyResult<Py<PyStorage>> {
        let t = self.inner(py);
        if t.is_batched() {
            return Err(PyNotImplementedError::new_err(
                "Cannot access storage of BatchedTensorImpl: a tensor inside of vmap stands for slices and has no memory",
            ));
        }
        let object = object_of(py, t.storage())?;
        if is_wrapper(&t) {
            object.get().of_wrapper.store(true, Ordering::Relaxed);
        }
        Ok(object)
    }

    fn is_shared(&self) -> bool {
        false
    }

    /// The tensor itself: worker processes receive copies.
    fn share_memory_(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

/// The whole storage of a tensor as a memoryview of bytes, which keeps the storage alive.
#[pyfunction(name = "_storage_bytes")]
pub fn storage_bytes<'py>(t: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyMemoryView>> {
    PyMemoryView::from(t.get().untyped_storage(t.py())?.bind(t.py()).as_any())
}

/// A one-dimensional tensor over the memory of a buffer.
fn buffer_tensor(buffer: PyUntypedBuffer, dtype: DType, offset: usize, numel: usize) -> PyResult<Tensor> {
    let size = dtype.size();
    let end = numel.checked_mul(size).and_then(|n| n.checked_add(offset));
    if end.is_none_or(|end| end > buffer.len_bytes()) {
        return Err(PyValueError::new_err(format!(
            "requested buffer length ({numel} * {size} bytes) after offset ({offset} bytes) must not be greater than \
             actual buffer length ({} bytes)",
            buffer.len_bytes()
        )));
    }
    let layout = Layout::contiguous(Dims::from(&[numel][..]));
    let address = buffer.buf_ptr() as usize + offset;
    let readonly = buffer.readonly();
    // SAFETY: the bounds were checked above; a buffer does not move until its owner releases it.
    unsafe { adopt(address, layout, dtype, readonly, Box::new(buffer)) }
}

fn contiguous_buffer(obj: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    // A buffer without dimensions has no shape, which is an error there; as bytes it has one.
    let as_bytes = || PyUntypedBuffer::get(&PyMemoryView::from(obj)?.call_method1("cast", ("B",))?);
    let buffer = PyUntypedBuffer::get(obj)
        .or_else(|_| as_bytes())
        .map_err(|_| PyValueError::new_err("object does not implement Python buffer protocol."))?;
    if buffer.is_c_contiguous() {
        Ok(buffer)
    } else {
        Err(PyValueError::new_err("the buffer is not contiguous"))
    }
}

fn dtype_of(obj: &Bound<'_, PyAny>, function: &str) -> PyResult<DType> {
    dtype_argument(obj).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{function}(): argument 'dtype' must be torch.dtype, not {}",
            type_name(obj)
        ))
    })
}

/// A tensor over `numel` elements of a buffer, starting at byte `offset`.
#[pyfunction(name = "_tensor_from_buffer")]
pub fn tensor_from_buffer(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    offset: usize,
    numel: usize,
) -> PyResult<Py<PyAny>> {
    wrap(
        py,
        buffer_tensor(contiguous_buffer(buffer)?, dtype_of(dtype, "_tensor_from_buffer")?, offset, numel)?,
    )
}

/// A one-dimensional tensor over the memory of an object with the buffer protocol.
#[pyfunction]
#[pyo3(signature = (buffer, *, dtype, count=-1, offset=0, requires_grad=false))]
pub fn frombuffer(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
    count: i64,
    offset: i64,
    requires_grad: bool,
) -> PyResult<Py<PyAny>> {
    let dtype = dtype_of(dtype, "frombuffer")?;
    let buffer = contiguous_buffer(buffer)?;
    let (len, size) = (buffer.len_bytes(), dtype.size());
    if len == 0 || count == 0 {
        return Err(PyValueError::new_err(format!(
            "both buffer length ({len}) and count ({count}) must not be 0"
        )));
    }
    let offset = match usize::try_from(offset) {
        Ok(offset) if offset < len => offset,
        _ => {
            return Err(PyValueError::new_err(format!(
                "offset ({offset} bytes) must be non-negative and no greater than buffer length ({len} bytes) minus 1"
            )));
        }
    };
    let numel = match usize::try_from(count) {
        Ok(count) => count,
        Err(_) if (len - offset) % size == 0 => (len - offset) / size,
        Err(_) => {
            return Err(PyValueError::new_err(format!(
                "buffer length ({} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})",
                len - offset
            )));
        }
    };
    let t = buffer_tensor(buffer, dtype, offset, numel)?;
    if t.storage().is_readonly() {
        PyErr::warn(
            py,
            &py.get_type::<PyUserWarning>(),
            c"The given buffer is not writable, so the tensor over its memory can't be written in place. You may want \
              to copy the buffer to protect its data or make it writable before converting it to a tensor.",
            1,
        )?;
    }
    t.set_requires_grad(requires_grad).py()?;
    wrap(py, t)
}
