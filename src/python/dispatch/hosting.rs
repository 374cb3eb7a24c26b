//! Hosted tensors and their objects.
//!
//! Note [Objects of hosted tensors] What a subclass computes with is in the attributes of its Python object, so the object has
//! to live as long as the tensor does, also where only the graph holds it. A tensor cannot own its object, which owns the
//! tensor. So when an object is deallocated whose tensor has other handles, [`keep_object`] moves its attributes to a new
//! object of the class, which holds no tensor and which the tensor keeps, until [`kept_object`] gives it back to Python.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::calls::PythonHost;
use super::modes;
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::HeldGuard;
use crate::layout::{Dims, Layout, checked_numel};
use crate::ops::interpreter;
use crate::python::convert;
use crate::python::dtype::{device_of, type_name};
use crate::python::error::{IntoPy, foreign};
use crate::python::legacy::object_of;
use crate::python::object::{PyTensor, TensorObject, wrap};
use crate::tensor::{Host, Tensor};

/// What the binding keeps about a hosted tensor.
pub struct Hosted {
    /// The device that the object reports.
    device: Device,
    /// Whether the tensor is a view, of which a write would have to reach the base.
    pub(super) view: AtomicBool,
    /// The object, while Python has none; see Note [Objects of hosted tensors].
    kept: Mutex<Option<Py<PyAny>>>,
    _held: HeldGuard,
}

/// The number of objects that tensors keep.
static KEPT: AtomicUsize = AtomicUsize::new(0);

impl Hosted {
    fn exchange(&self, object: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        std::mem::replace(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner), object)
    }

    pub fn visit_objects(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        if let Ok(kept) = self.kept.try_lock() {
            kept.iter().for_each(visit);
        }
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        if self.exchange(None).is_some() {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Calls `f` with what the binding keeps about a tensor, if it is hosted.
pub(super) fn hosted<R>(t: &Tensor, f: impl FnOnce(&Hosted) -> R) -> Option<R> {
    let data = t.meta()?.host()?;
    let data: &(dyn Any + Send + Sync) = &*data;
    data.downcast_ref().map(f)
}

/// The device that a tensor's object reports.
pub fn shown_device(t: &Tensor) -> Device {
    match t.device() {
        Device::Meta if interpreter::active() => match t.batch() {
            Some(batch) => shown_device(batch.value()),
            None => hosted(t, |h| h.device).unwrap_or(Device::Meta),
        },
        device => device,
    }
}

/// The object that a tensor keeps, given back to Python.
#[inline(always)]
pub fn kept_object(py: Python<'_>, t: &Tensor) -> Option<Py<PyAny>> {
    if KEPT.load(Ordering::Relaxed) == 0 { None } else { give_back(py, t) }
}

#[cold]
fn give_back(py: Python<'_>, t: &Tensor) -> Option<Py<PyAny>> {
    let object = hosted(t, |h| h.exchange(None))??;
    KEPT.fetch_sub(1, Ordering::Relaxed);
    PyTensor::replace(object.bind(py).cast::<PyTensor>().ok()?, t.clone());
    Some(object)
}

/// Keeps the object of a tensor that has other handles: the `__del__` of hosted classes.
#[pyfunction(name = "_keep_object")]
pub fn keep_object(object: &Bound<'_, PyTensor>) -> PyResult<()> {
    let py = object.py();
    let t = object.tensor();
    // One handle is the object's, one is `t`.
    if t.handles() <= 2 || !t.is_hosted() {
        return Ok(());
    }
    let nothing = || Tensor::empty([0], DType::F32).py();
    let other = object_of(object.get_type().as_any(), nothing()?)?;
    py.import("rgrad._dispatch")?.getattr("move_attributes")?.call1((object, &other))?;
    // Whoever wraps the tensor from here on gets the other object.
    PyTensor::exchange(object, nothing()?);
    if hosted(&t, |h| h.exchange(Some(other.unbind()))).flatten().is_none() {
        KEPT.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Makes a tensor hosted.
fn host(t: &Tensor, device: Device) {
    let data =
        Hosted { device, view: AtomicBool::new(false), kept: Mutex::new(None), _held: HeldGuard::new() };
    t.become_hosted(Arc::new(data));
}

/// Whether any class has a `__torch_dispatch__`.
static MET: AtomicBool = AtomicBool::new(false);

/// Must be called before the first class or mode with a `__torch_dispatch__` is used.
#[pyfunction(name = "_meet_dispatch")]
pub fn meet_dispatch() {
    if !MET.swap(true, Ordering::Relaxed) {
        interpreter::set_host(&PythonHost);
        crate::tensor::set_host(&PythonHost);
    }
}

/// Makes the tensor of an object hosted if its class has a `__torch_dispatch__`.
pub fn host_by_class(class: &Bound<'_, PyAny>, t: &Tensor) -> PyResult<()> {
    let dispatches = MET.load(Ordering::Relaxed)
        && class.getattr(intern!(class.py(), "_dispatches"))?.is_truthy()?
        && !t.is_hosted();
    if dispatches {
        host(t, t.device());
    }
    Ok(())
}

/// An object of class `cls` without memory, whose operations its `__torch_dispatch__` computes.
#[pyfunction(name = "_make_wrapper")]
#[pyo3(signature = (cls, size, strides, storage_offset, dtype, device, requires_grad))]
pub fn make_wrapper<'py>(
    cls: &Bound<'py, PyAny>,
    size: Vec<usize>,
    strides: Option<Vec<usize>>,
    storage_offset: usize,
    dtype: &Bound<'py, PyAny>,
    device: &Bound<'py, PyAny>,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let shape: Dims = size.into_iter().collect();
    let strides = match strides {
        Some(strides) if strides.len() != shape.len() => {
            return Err(PyRuntimeError::new_err("mismatch in length of strides and shape"));
        }
        Some(strides) => strides.into_iter().map(|s| s as isize).collect(),
        None => Layout::contiguous(shape.clone()).strides,
    };
    let dtype = convert::dtype_argument(dtype).ok_or_else(|| {
        PyTypeError::new_err(format!("dtype must be a torch.dtype, not {}", type_name(dtype)))
    })?;
    let layout = Layout { shape, strides, offset: storage_offset };
    checked_numel(&layout.shape).py()?;
    let elements = layout.extent().map_or(0, |(_, last)| last.unsigned_abs().saturating_add(1));
    let bytes = elements.checked_mul(dtype.size());
    let bytes = bytes.ok_or_else(|| PyRuntimeError::new_err("Storage size calculation overflowed"))?;
    let t = Tensor::from_parts(memory::alloc(bytes, Device::Meta).py()?, layout, dtype);
    host(&t, device_of(device)?);
    t.set_requires_grad(requires_grad).py()?;
    object_of(cls, t)
}

impl Host for PythonHost {
    fn detach(&self, t: &Tensor) -> Result<Tensor> {
        if modes::disabled() { Ok(t.detach()) } else { through_python("detach", t) }
    }

    fn ones_like(&self, t: &Tensor) -> Result<Tensor> {
        through_python("ones_like", t)
    }

    fn watches(&self) -> bool {
        modes::any_mode()
    }
}

/// Calls a function of `rgrad._dispatch` with a hosted tensor.
fn through_python(name: &str, t: &Tensor) -> Result<Tensor> {
    let call = |py: Python<'_>| -> PyResult<Tensor> {
        let out = py.import("rgrad._dispatch")?.getattr(name)?.call1((wrap(py, t.clone())?,))?;
        match out.cast::<PyTensor>() {
            Ok(t) => Ok(t.tensor()),
            Err(_) => Err(PyRuntimeError::new_err(format!("Unable to cast {out} to Tensor"))),
        }
    };
    Python::attach(call).map_err(foreign)
}

/// Whether operations on a tensor that are not in the table have to ask its class.
#[inline(always)]
pub fn asks_class(t: &Tensor) -> bool {
    interpreter::active() && !modes::disabled() && t.is_hosted() && !t.is_batched()
}

/// Whether an index or a value is a tensor whose class has to be asked, or a tuple with one.
#[cold]
pub fn any_asks_class(obj: &Bound<'_, PyAny>) -> bool {
    let asks = |o: &Bound<'_, PyAny>| o.cast::<PyTensor>().is_ok_and(|t| asks_class(&t.tensor()));
    asks(obj) || obj.cast::<PyTuple>().is_ok_and(|all| all.iter().any(|o| asks(&o)))
}

/// The value of a hosted tensor of one element.
#[cold]
pub fn value_by_class(py: Python<'_>, t: &Tensor) -> PyResult<Scalar> {
    let value = py.import("rgrad._dispatch")?.getattr("item")?.call1((wrap(py, t.clone())?,))?;
    convert::number(&value).ok_or_else(|| PyRuntimeError::new_err(format!("Cannot cast {value} to number")))
}

/// Has the class of a tensor compute what the function of `rgrad._dispatch` names.
#[cold]
pub fn by_class<'py>(
    t: &Bound<'py, PyTensor>,
    name: &str,
    args: impl IntoIterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let args: Vec<_> = std::iter::once(t.clone().into_any()).chain(args).collect();
    t.py().import("rgrad._dispatch")?.getattr(name)?.call1(PyTuple::new(t.py(), args)?)
}

/// Whether the class of a tensor computes its operations, and it has no memory.
#[pyfunction(name = "_is_wrapper")]
pub fn wraps(t: &Bound<'_, PyTensor>) -> bool {
    is_wrapper(&t.tensor())
}

/// Whether a tensor has no memory because its class computes its operations.
pub fn is_wrapper(t: &Tensor) -> bool {
    t.is_hosted() && t.device() == Device::Meta && shown_device(t) != Device::Meta
}
