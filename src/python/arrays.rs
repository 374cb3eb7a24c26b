//! Memory shared with NumPy arrays and other owners.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::dispatch::asks_class;
use super::dtype::type_name;
use super::error::IntoPy;
use super::tensor::{PyTensor, wrap};
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::DType;
use crate::graph::grad_enabled;
use crate::layout::{Dims, Layout, checked_numel};
use crate::storage::Storage;
use crate::tensor::Tensor;

/// Whether an object has an attribute. Unlike `hasattr` this makes no exception where it has not, which would take longer than all else
/// that is done for a number.
pub fn has(obj: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> bool {
    // SAFETY: both are live objects.
    unsafe { pyo3::ffi::PyObject_HasAttr(obj.as_ptr(), name.as_ptr()) != 0 }
}

/// NumPy's class of arrays, once an array was seen.
static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Whether an object is a NumPy array or scalar, or has the array interface.
pub fn is_array(obj: &Bound<'_, PyAny>) -> bool {
    // An array makes its interface, a dictionary, when it is asked for it.
    let known = NDARRAY.get(obj.py()).is_some_and(|class| obj.is_exact_instance(class.bind(obj.py())));
    known || has(obj, intern!(obj.py(), "__array_interface__"))
}

/// Whether an object is a NumPy array; NumPy is imported only for objects with the array interface.
pub fn is_ndarray(obj: &Bound<'_, PyAny>) -> bool {
    is_array(obj)
        && NDARRAY.import(obj.py(), "numpy", "ndarray").is_ok_and(|c| obj.is_instance(c).unwrap_or(false))
}

/// What an array says of itself in C: the structure behind `__array_struct__`, as NumPy's array interface documents it.
#[repr(C)]
struct ArrayStruct {
    two: c_int,
    rank: c_int,
    kind: c_char,
    size: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *mut c_void,
    description: *mut c_void,
}

impl ArrayStruct {
    const NATIVE_ORDER: c_int = 0x200;
    const WRITABLE: c_int = 0x400;

    fn dtype(&self) -> Option<DType> {
        let kind =
            format!("{}{}{}", if self.size == 1 { '|' } else { '<' }, self.kind as u8 as char, self.size);
        dtype_of_kind(&kind).filter(|_| self.flags & Self::NATIVE_ORDER != 0)
    }
}

/// As [`share_array`], for arrays of NumPy's own class with a dtype that tensors have, without the dictionary of the array interface. None for others.
fn share_ndarray(array: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    let py = array.py();
    if !NDARRAY.get(py).is_some_and(|class| array.is_exact_instance(class.bind(py))) {
        return Ok(None);
    }
    let capsule = array.getattr(intern!(py, "__array_struct__"))?;
    // SAFETY: NumPy's capsules have no name, and hold the structure while they are alive. It has `rank` sizes and strides.
    let (array_struct, shape, strides) = unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule.as_ptr(), std::ptr::null()) != 1 {
            return Ok(None);
        }
        let found =
            &*pyo3::ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()).cast::<ArrayStruct>();
        let rank = if found.two == 2 { found.rank as usize } else { return Ok(None) };
        let list = |p: *const isize| if rank == 0 { &[] } else { std::slice::from_raw_parts(p, rank) };
        (found, list(found.shape), list(found.strides))
    };
    let Some(dtype) = array_struct.dtype() else { return Ok(None) };
    let size = dtype.size() as isize;
    if strides.iter().any(|s| s % size != 0) {
        return Ok(None);
    }
    let shape: Dims = shape.iter().map(|&n| n as usize).collect();
    let layout = Layout { shape, strides: strides.iter().map(|s| s / size).collect(), offset: 0 };
    let (address, readonly) = (array_struct.data as usize, array_struct.flags & ArrayStruct::WRITABLE == 0);
    // SAFETY: an array has memory for every index of its shape while it is alive.
    unsafe { adopt(address, layout, dtype, readonly, Box::new(array.clone().unbind())) }.map(Some)
}

/// NumPy's type string for a dtype.
fn type_string(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        _ => return None,
    })
}

/// An object with the array interface, from which NumPy makes an array.
#[pyclass(frozen)]
struct ArrayInterface {
    tensor: Tensor,
    kind: &'static str,
}

#[pymethods]
impl ArrayInterface {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let t = &self.tensor;
        let size = t.dtype().size();
        let d = PyDict::new(py);
        d.set_item("shape", PyTuple::new(py, t.shape().iter())?)?;
        d.set_item("strides", PyTuple::new(py, t.strides().iter().map(|s| s * size as isize))?)?;
        let at = memory::lend(t.storage()).py()? as usize + t.layout().offset * size;
        d.set_item("data", (at, t.storage().is_readonly()))?;
        d.set_item("typestr", self.kind)?;
        d.set_item("version", 3)?;
        Ok(d)
    }
}

/// Fails for a tensor that stands for slices of another.
pub fn expect_data(t: &Tensor) -> PyResult<()> {
    if !t.is_batched() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err("Cannot access data pointer of Tensor that doesn't have storage"))
}

/// A NumPy array that shares the tensor's memory.
pub fn to_numpy(py: Python<'_>, t: &Tensor) -> PyResult<Py<PyAny>> {
    if !t.device().is_host_readable() {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            t.device()
        )));
    }
    let Some(kind) = type_string(t.dtype()) else {
        return Err(PyTypeError::new_err(format!("Got unsupported ScalarType {}", t.dtype().scalar_name())));
    };
    t.storage().show();
    let interface = Py::new(py, ArrayInterface { tensor: t.detach(), kind })?;
    Ok(py.import("numpy")?.getattr("asarray")?.call1((interface,))?.unbind())
}

#[pymethods]
impl PyTensor {
    /// Gives binary operators of the tensor precedence over those of an array on the left.
    #[classattr]
    fn __array_priority__() -> i64 {
        1000
    }

    /// A NumPy array that shares the tensor's memory; with `force`, detaches, moves and converts the tensor as needed.
    #[pyo3(signature = (*, force=false))]
    fn numpy(&self, py: Python<'_>, force: bool) -> PyResult<Py<PyAny>> {
        if self.inner(py).requires_grad() && grad_enabled() && !force {
            return Err(PyRuntimeError::new_err(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            ));
        }
        expect_data(&self.inner(py))?;
        if asks_class(&self.inner(py)) {
            return Err(PyRuntimeError::new_err(".numpy() is not supported for tensor subclasses."));
        }
        if force {
            return to_numpy(py, &self.inner(py).on_device(Device::Cpu).py()?);
        }
        to_numpy(py, &self.inner(py))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__(
        &self,
        py: Python<'_>,
        dtype: Option<Bound<'_, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let array = self.numpy(py, false)?;
        let numpy = py.import("numpy")?;
        let options = PyDict::new(py);
        options.set_item("dtype", dtype)?;
        match copy {
            Some(true) => options.set_item("copy", true)?,
            Some(false) => options.set_item("copy", false)?,
            None => return Ok(numpy.getattr("asarray")?.call((array,), Some(&options))?.unbind()),
        }
        Ok(numpy.getattr("array")?.call((array,), Some(&options))?.unbind())
    }

    /// Wraps the result of a NumPy function of tensors. As in PyTorch, bool results become uint8.
    #[pyo3(signature = (array, context=None, return_scalar=false))]
    fn __array_wrap__(
        &self,
        array: &Bound<'_, PyAny>,
        context: Option<&Bound<'_, PyAny>>,
        return_scalar: bool,
    ) -> PyResult<Py<PyAny>> {
        let _ = (context, return_scalar);
        let t = share_array(array)?;
        wrap(array.py(), if t.dtype() == DType::Bool { t.copied(DType::U8).py()? } else { t })
    }
}

/// A tensor that shares the memory of a NumPy array.
#[pyfunction]
pub fn from_numpy(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if !is_ndarray(array) {
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {})", type_name(array))));
    }
    wrap(py, share_writable_array(array)?)
}

/// As `share_array`, with a warning if the array is read-only.
pub fn share_writable_array(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let t = share_array(array)?;
    if t.storage().is_readonly() {
        let py = array.py();
        PyErr::warn(
            py,
            &py.get_type::<PyUserWarning>(),
            c"The given NumPy array is not writable, and the tensor over its non-writable memory can't be written in place. You may \
              want to copy the array to protect its data or make it writable before converting it to a tensor.",
            1,
        )?;
    }
    Ok(t)
}

/// A tensor that shares the memory of an array and keeps it alive.
pub fn share_array(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if let Some(shared) = share_ndarray(array)? {
        return Ok(shared);
    }
    let interface = array.getattr("__array_interface__")?;
    let interface = interface.cast::<PyDict>()?;
    let get = |k: &str| {
        interface
            .get_item(k)?
            .ok_or_else(|| PyValueError::new_err(format!("__array_interface__ has no '{k}'")))
    };
    let kind: String = get("typestr")?.extract()?;
    let dtype = dtype_of_kind(&kind).ok_or_else(|| unsupported_kind(array, &kind))?;
    let shape: Vec<usize> = get("shape")?.extract()?;
    let (address, readonly): (usize, bool) = get("data")?.extract()?;
    let strides: Option<Vec<isize>> = match interface.get_item("strides")? {
        Some(s) if !s.is_none() => Some(s.extract()?),
        _ => None,
    };
    let shape = Dims::from(&shape[..]);
    let size = dtype.size() as isize;
    let strides = match strides {
        None => shape.contiguous_strides(),
        Some(bytes) => {
            if bytes.iter().any(|s| s % size != 0) {
                return Err(PyValueError::new_err(
                    "given numpy array strides not a multiple of the element byte size. Copy the numpy array to \
                     reallocate the memory.",
                ));
            }
            bytes.iter().map(|s| s / size).collect()
        }
    };
    let layout = Layout { shape, strides, offset: 0 };
    // SAFETY: the array interface guarantees memory for every index of the shape while the array is alive.
    unsafe { adopt(address, layout, dtype, readonly, Box::new(array.clone().unbind())) }
}

fn dtype_of_kind(kind: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|&d| type_string(d) == Some(kind))
}

fn unsupported_kind(array: &Bound<'_, PyAny>, kind: &str) -> PyErr {
    let native = kind.strip_prefix('>').and_then(|rest| dtype_of_kind(&format!("<{rest}")));
    if native.is_some() {
        return PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is \
             currently not supported.",
        );
    }
    let class =
        array.getattr("dtype").and_then(|d| d.getattr("type")?.getattr("__name__")?.extract::<String>());
    PyTypeError::new_err(format!(
        "can't convert np.ndarray of type numpy.{}. The only supported types are: float64, float32, float16, int64, \
         int32, int16, int8, uint64, uint32, uint16, uint8, and bool.",
        class.unwrap_or_else(|_| kind.to_string())
    ))
}

/// A tensor over memory that `owner` keeps alive, at any address; see Note [Misaligned memory].
///
/// # Safety
/// All elements of `layout`, relative to `address`, may be read (and written unless `readonly`) while `owner` is
/// alive.
pub unsafe fn adopt(
    address: usize,
    layout: Layout,
    dtype: DType,
    readonly: bool,
    owner: Box<dyn Any + Send + Sync>,
) -> PyResult<Tensor> {
    if layout.shape.contains(&0) {
        return Tensor::empty(layout.shape, dtype).py();
    }
    let size = dtype.size() as isize;
    let too_large = || PyValueError::new_err("the memory has more elements than a tensor can");
    checked_numel(&layout.shape).map_err(|_| too_large())?;
    let (lo, hi) = layout.extent().ok_or_else(too_large)?;
    let bytes = (hi - lo).checked_add(1).and_then(|n| n.checked_mul(size)).ok_or_else(too_large)?;
    let start =
        lo.checked_mul(size).and_then(|lo| (address as isize).checked_add(lo)).ok_or_else(too_large)?;
    let layout = Layout { offset: (-lo) as usize, ..layout };
    // SAFETY: the caller's promise, for the extent of the layout.
    let storage = unsafe { Storage::borrowed(start as *mut u8, bytes as usize, readonly, owner) }.py()?;
    Ok(Tensor::from_parts(storage, layout, dtype))
}
