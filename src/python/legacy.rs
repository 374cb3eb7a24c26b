//! The legacy constructors `Tensor(…)`, `LongTensor(…)`, `x.new(…)`; and tensors of subclasses.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::convert;
use super::dispatch::{host_by_class, shown_device};
use super::dtype::{PyDType, device_of, type_name};
use super::error::{IntoPy, warn};
use super::interop;
use super::tensor::{PyTensor, TensorObject, detach_for, wrap};
use crate::device::Device;
use crate::dtype::DType;
use crate::layout::Dims;
use crate::ops::{self, view};
use crate::storage::expect_room;
use crate::tensor::Tensor;

/// The arguments of a constructor.
enum Given<'py> {
    Nothing,
    Size(Vec<Bound<'py, PyAny>>),
    Tensor(Tensor),
    /// Bytes, and the dtype of the elements if it is known.
    Storage(Tensor, Option<DType>),
    Data(Bound<'py, PyAny>),
}

fn invalid(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyErr {
    let mut got: Vec<String> = args.iter().map(|a| type_name(&a)).collect();
    got.extend(kwargs.iter().flat_map(|k| k.iter()).map(|(name, v)| format!("{name}={}", type_name(&v))));
    PyTypeError::new_err(format!(
        "new() received an invalid combination of arguments - got ({}), but expected one of:\n * (*, torch.device device \
         = None)\n * (torch.Storage storage)\n * (Tensor other)\n * (tuple of ints size, *, torch.device device = \
         None)\n * (object data, *, torch.device device = None)",
        got.join(", ")
    ))
}

/// The meaning of a single positional argument.
fn single<'py>(arg: Bound<'py, PyAny>) -> PyResult<Given<'py>> {
    if let Ok(t) = arg.cast::<PyTensor>() {
        return Ok(Given::Tensor(t.tensor()));
    }
    if let Some((s, dtype)) = interop::storage_of(&arg) {
        return Ok(Given::Storage(s.get().bytes_tensor(), dtype));
    }
    // A tuple of integers is data, a `Size` is a size.
    if arg.get_type().name()? == "Size" {
        return Ok(Given::Size(arg.try_iter()?.collect::<PyResult<_>>()?));
    }
    Ok(if convert::int(&arg).is_some() { Given::Size(vec![arg]) } else { Given::Data(arg) })
}

/// Classifies the arguments; also returns the device.
fn sort<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Given<'py>, Option<Device>)> {
    let mut device = None;
    let mut given = match args.len() {
        0 => Given::Nothing,
        1 => single(args.get_item(0)?)?,
        // Several arguments are a size, which its first one tells from a form that the constructor lacks.
        _ if convert::int(&args.get_item(0)?).is_none() => return Err(invalid(args, kwargs)),
        _ => Given::Size(args.iter().collect()),
    };
    for (name, value) in kwargs.iter().flat_map(|k| k.iter()) {
        let name = name.cast::<PyString>()?.to_cow()?.into_owned();
        given = match (name.as_str(), given) {
            ("device", given) => {
                device = if value.is_none() { None } else { Some(device_of(&value)?) };
                given
            }
            ("size", Given::Nothing) => {
                expect_room::<Bound<'_, PyAny>>(value.len().unwrap_or(0)).py()?;
                Given::Size(value.try_iter()?.collect::<PyResult<_>>()?)
            }
            ("data", Given::Nothing) => Given::Data(value),
            ("other", Given::Nothing) => single(value)?,
            _ => return Err(invalid(args, kwargs)),
        };
    }
    Ok((given, device))
}

fn options(d: DType, device: Device) -> String {
    format!(
        "TensorOptions(dtype={}, device={device}, layout=Strided, requires_grad=false (default), pinned_memory=false \
         (default), memory_format=(nullopt))",
        d.type_name()
    )
}

fn dims(size: &[Bound<'_, PyAny>]) -> PyResult<Dims> {
    let mut dims = Vec::with_capacity(size.len());
    for (i, n) in size.iter().enumerate() {
        let n = convert::int(n).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "new(): argument 'size' failed to unpack the object at pos {} with error \"type must be tuple of ints,but \
                 got {}\"",
                i + 1,
                type_name(n)
            ))
        })?;
        dims.push(n);
    }
    match dims.iter().find(|&&n| n < 0) {
        Some(n) => Err(PyRuntimeError::new_err(format!(
            "Trying to create tensor with negative dimension {n}: {dims:?}"
        ))),
        None => Ok(dims.into_iter().map(|n| n as usize).collect()),
    }
}

/// `Tensor(…)`, or with a dtype the constructor of a typed tensor such as `LongTensor(…)`.
pub fn construct(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    typed: Option<DType>,
) -> PyResult<Tensor> {
    let (given, device) = sort(args, kwargs)?;
    if let (Given::Tensor(_), Some(_)) = (&given, device) {
        return Err(PyRuntimeError::new_err(
            "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported. Use \
             torch.tensor(...) or torch.as_tensor(...) instead.",
        ));
    }
    let dtype = typed.unwrap_or_else(ops::default_dtype);
    // These constructors know no context of devices; a default GPU is that of a default type.
    let device = device.unwrap_or_else(|| match ops::default_device() {
        Device::Meta => Device::Cpu,
        device => device,
    });
    let t = match given {
        Given::Nothing => Tensor::empty([0], dtype).py()?,
        Given::Size(size) => Tensor::zeros(dims(&size)?, dtype).py()?,
        Given::Tensor(t) => {
            if typed.is_some_and(|d| d != t.dtype()) {
                return Err(PyTypeError::new_err(format!(
                    "expected {} (got {})",
                    options(dtype, device),
                    options(t.dtype(), t.device())
                )));
            }
            return view::cut::alias(&t.detach()).py();
        }
        Given::Storage(bytes, stored) => {
            interop::check_stored(stored, dtype)?;
            let n = bytes.numel() / dtype.size();
            let layout = crate::layout::Layout::contiguous([n].into());
            return Ok(Tensor::from_parts(bytes.storage().clone(), layout, dtype));
        }
        Given::Data(data) => {
            if data.is_instance_of::<PyString>() {
                return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", type_name(&data))));
            }
            if !interop::is_sequence(&data) {
                return Err(PyTypeError::new_err(format!(
                    "new(): data must be a sequence (got {})",
                    type_name(&data)
                )));
            }
            interop::tensor_from(&data, Some(dtype))?
        }
    };
    detach_for(args.py(), &t, device, || t.on_device(device)).py()
}

/// The constructor of `FloatTensor` and the other typed tensors.
#[pyfunction(name = "_typed_tensor")]
#[pyo3(signature = (dtype, args, kwargs))]
pub fn typed_tensor(
    dtype: &Bound<'_, PyDType>,
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
) -> PyResult<Py<PyAny>> {
    wrap(args.py(), construct(args, Some(kwargs), Some(dtype.get().0))?)
}

/// Wraps a tensor in an object of class `cls`.
pub fn object_of<'py>(cls: &Bound<'py, PyAny>, t: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let py = cls.py();
    let class = cls
        .cast::<PyType>()
        .map_err(|_| PyTypeError::new_err(format!("cls must be a type (got {})", type_name(cls))))?;
    if !class.is_subclass_of::<PyTensor>()? {
        return Err(PyTypeError::new_err(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your \
             class inherits from Tensor.",
        ));
    }
    host_by_class(cls, &t)?;
    let obj = py.get_type::<PyTensor>().getattr("__new__")?.call1((class,))?;
    PyTensor::replace(obj.cast::<PyTensor>()?, t);
    Ok(obj)
}

/// Refuses a tensor whose class computes its operations as the data of an object of another class.
pub fn refuse_data_of_handler(cls: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = cls.py();
    let Ok(t) = data.cast::<PyTensor>() else { return Ok(()) };
    if !t.tensor().is_hosted() || t.tensor().is_batched() || data.is_instance(cls)? {
        return Ok(());
    }
    if !data.get_type().getattr(intern!(py, "_dispatches"))?.is_truthy()? {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "creating a tensor of subclass {} but its data is already associated to a python object of type {}, whose class \
         computes the operations on it",
        cls.getattr(intern!(py, "__name__"))?,
        type_name(data)
    )))
}

/// A tensor of class `cls` over the memory of `data`, without history; used for Parameter.
#[pyfunction(name = "_make_subclass")]
#[pyo3(signature = (cls, data, require_grad=false, *, dispatch_sizes_strides_policy=None, dispatch_device=false, dispatch_layout=false, device_for_backend_keys=None))]
pub fn make_subclass<'py>(
    cls: &Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
    require_grad: bool,
    dispatch_sizes_strides_policy: Option<&str>,
    dispatch_device: bool,
    dispatch_layout: bool,
    device_for_backend_keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let data = data.cast::<PyTensor>().map_err(|_| {
        PyTypeError::new_err(format!(
            "_make_subclass(): argument 'data' (position 2) must be Tensor, not {}",
            type_name(data)
        ))
    })?;
    // The device is that of the data.
    let _ = device_for_backend_keys;
    if cls.cast::<PyType>().is_ok() {
        refuse_data_of_handler(cls, data.as_any())?;
    }
    let t = data.tensor().detach();
    t.set_requires_grad(require_grad).py()?;
    let made = object_of(cls, t)?;
    if dispatch_sizes_strides_policy.is_some() || dispatch_device || dispatch_layout {
        let asked = (&made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout);
        cls.py().import("rgrad._dispatch")?.getattr("answer_for")?.call1(asked)?;
    }
    Ok(made)
}

/// Adds `_make_subclass` to the class as a static method: a built-in function does not bind to an object.
pub fn add_to_class(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.py().get_type::<PyTensor>().setattr("_make_subclass", m.getattr("_make_subclass")?)
}

#[pymethods]
impl PyTensor {
    /// A view of the tensor as an object of `cls`, a subclass of Tensor, with history.
    fn as_subclass<'py>(slf: &Bound<'py, Self>, cls: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if cls.cast::<PyType>().is_ok() {
            refuse_data_of_handler(cls, slf.as_any())?;
        }
        object_of(cls, view::cut::alias(&slf.tensor()).py()?)
    }

    /// A tensor with the values of `data`, by default of the dtype and on the device of this tensor.
    #[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false))]
    fn new_tensor(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
        requires_grad: bool,
    ) -> PyResult<Py<PyAny>> {
        if data.cast::<PyTensor>().is_ok() {
            warn(
                py,
                "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or \
                 sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor).",
            )?;
        }
        let like = self.inner(py);
        let dtype = interop::dtype_of(dtype)?.unwrap_or(like.dtype());
        let device = device.map_or(Ok(shown_device(&like)), device_of)?;
        let t = interop::tensor_from(data, Some(dtype))?;
        let t = py.detach(|| t.on_device(device)).py()?;
        t.set_requires_grad(requires_grad).py()?;
        wrap(py, t)
    }

    /// Calls the constructor of this tensor's type.
    #[pyo3(name = "new", signature = (*args, **kwargs))]
    fn new_like(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let like = self.inner(py);
        let t = construct(args, kwargs, Some(like.dtype()))?;
        wrap(args.py(), args.py().detach(|| t.on_device(like.device())).py()?)
    }
}
