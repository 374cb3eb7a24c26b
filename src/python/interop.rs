//! Memory shared with NumPy arrays and buffers; conversion from nested lists.
#![allow(unsafe_code)]

use std::any::Any;

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple, PyType};

use super::convert::{dtype_argument, integer, number, numpy_bool, scalar};
use super::dispatch::asks_class;
use super::dtype::type_name;
use super::error::{IntoPy, warn};
use super::storage::PyStorage;
use super::subclass::made_by_mode;
use super::tensor::{PyTensor, TensorObject, detach_for, wrap};
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::{DType, Element, Scalar, promote};
use crate::graph::grad_enabled;
use crate::layout::{Dims, Layout, checked_numel};
use crate::ops;
use crate::storage::{Storage, empty_vec, expect_room};
use crate::tensor::Tensor;

/// Whether an object has an attribute. Unlike `hasattr` this makes no exception where it has not, which would take longer than all else
/// that is done for a number.
fn has(obj: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> bool {
    // SAFETY: both are live objects.
    unsafe { pyo3::ffi::PyObject_HasAttr(obj.as_ptr(), name.as_ptr()) != 0 }
}

/// Whether an object is a NumPy array or scalar, or has the array interface.
pub fn is_array(obj: &Bound<'_, PyAny>) -> bool {
    has(obj, intern!(obj.py(), "__array_interface__"))
}

/// Whether an object is a NumPy array; NumPy is imported only for objects with the array interface.
pub fn is_ndarray(obj: &Bound<'_, PyAny>) -> bool {
    static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    is_array(obj)
        && NDARRAY.import(obj.py(), "numpy", "ndarray").is_ok_and(|c| obj.is_instance(c).unwrap_or(false))
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
fn share_writable_array(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
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

/// A new tensor with the values of a number, a nested list, an array or a tensor.
pub fn tensor_from(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    if let Ok(t) = data.cast::<PyTensor>() {
        let t = t.tensor();
        return detach_for(data.py(), &t, t.device(), || t.copied(dtype.unwrap_or(t.dtype()))).py();
    }
    if !is_array(data)
        && let Some(s) = element(data, dtype)?
    {
        let dtype = match dtype {
            Some(dtype) => dtype,
            None => Seen::of(s).dtype()?,
        };
        return Tensor::scalar(stored(s, dtype)?, dtype).py();
    }
    if is_array(data) {
        let array = if is_ndarray(data) {
            data.clone()
        } else {
            data.py().import("numpy")?.getattr("asarray")?.call1((data,))?
        };
        let t = share_array(&array)?;
        return t.copied(dtype.unwrap_or(t.dtype())).py();
    }
    if let Some((storage, stored)) = storage_of(data) {
        let bytes = storage.get().bytes_tensor();
        let dtype = dtype.or(stored).unwrap_or_else(ops::default_dtype);
        check_stored(stored, dtype)?;
        let layout = Layout::contiguous([bytes.numel() / dtype.size()].into());
        return Tensor::from_parts(bytes.storage().clone(), layout, dtype).copied(dtype).py();
    }
    let mut shape = Vec::new();
    let mut leaf = data.clone();
    while let Some(n) = sequence_len(&leaf) {
        shape.push(n);
        // A range, or a custom sequence class, may report a length that does not fit in memory.
        checked_numel(&shape).and_then(expect_room::<Scalar>).py()?;
        if n == 0 {
            break;
        }
        leaf = leaf.get_item(0).map_err(|_| {
            PyValueError::new_err(format!(
                "could not determine the shape of object type '{}'",
                type_name(&leaf)
            ))
        })?;
        if shape.len() > 64 {
            return Err(PyValueError::new_err("too many dimensions"));
        }
    }
    if data.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", type_name(data))));
    }
    if shape.is_empty() {
        return Err(PyRuntimeError::new_err(format!("Could not infer dtype of {}", type_name(data))));
    }
    // An array adds its own dimensions; a tensor stands for a number.
    if is_array(&leaf) {
        shape.extend(tensor_from(&leaf, None)?.shape().iter());
    }
    let mut values = Vec::new();
    let mut seen = Seen::default();
    collect(data, &shape, 0, dtype, &mut values, &mut seen)?;
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => seen.dtype()?,
    };
    let mut bytes = empty_vec::<u8>(values.len() * dtype.size()).py()?;
    for v in values {
        bytes.extend_from_slice(&stored(v, dtype)?.bytes(dtype)[..dtype.size()]);
    }
    let storage = Storage::from_slice(&bytes).py()?;
    Ok(Tensor::from_parts(storage, Layout::contiguous(Dims::from(&shape[..])), dtype))
}

/// Whether an object is a sequence by Python's C API: lists, tuples, ranges, strings.
pub fn is_sequence(obj: &Bound<'_, PyAny>) -> bool {
    // SAFETY: only inspects the type of a live object.
    unsafe { pyo3::ffi::PySequence_Check(obj.as_ptr()) != 0 }
}

fn sequence_len(obj: &Bound<'_, PyAny>) -> Option<usize> {
    if let Ok(l) = obj.cast::<PyList>() {
        return Some(l.len());
    }
    if let Ok(t) = obj.cast::<PyTuple>() {
        return Some(t.len());
    }
    if obj.cast::<PyTensor>().is_ok() || is_array(obj) || obj.is_instance_of::<PyString>() {
        return None;
    }
    if is_sequence(obj) { obj.len().ok() } else { None }
}

fn tensor_like(obj: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if obj.cast::<PyTensor>().is_ok() || is_array(obj) { tensor_from(obj, None).map(Some) } else { Ok(None) }
}

/// A number as an element; integers beyond 64 bits are accepted for floating point dtypes only.
fn element(obj: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Option<Scalar>> {
    if dtype == Some(DType::U64) {
        return unsigned_element(obj);
    }
    if !obj.is_instance_of::<PyInt>() {
        return match numpy_bool(obj).map(Scalar::Bool).or_else(|| number(obj)) {
            None => dtype.map_or(Ok(None), |d| convertible(obj, d)),
            found => Ok(found),
        };
    }
    match integer(obj) {
        Err(_) if dtype == Some(DType::Bool) => Ok(Some(Scalar::Bool(true))),
        Err(_) if dtype.is_some_and(DType::is_float) => obj.extract().map(Scalar::Float).map(Some),
        s => s.map(Some),
    }
}

/// An object that is no number but converts to one, such as a fraction; None if it has no such method. Only a given
/// dtype says which conversion is meant.
#[cold]
fn convertible(obj: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Option<Scalar>> {
    let py = obj.py();
    let converts = || has(obj, intern!(py, "__float__")) || has(obj, intern!(py, "__index__"));
    if obj.cast::<PyTensor>().is_ok() || !converts() {
        Ok(None)
    } else if dtype.is_float() {
        obj.extract().map(|f| Some(Scalar::Float(f)))
    } else {
        obj.extract().map(|i| Some(Scalar::Int(i)))
    }
}

/// A number as a uint64 element: neither a negative integer nor a floating point number.
fn unsigned_element(obj: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    match number(obj) {
        _ if obj.is_exact_instance_of::<PyInt>() => Ok(Some(obj.extract::<u64>()?.to_scalar())),
        Some(Scalar::Int(i)) if i < 0 => {
            Err(PyOverflowError::new_err("can't convert negative int to unsigned"))
        }
        Some(Scalar::Float(_)) => Err(PyTypeError::new_err("an integer is required")),
        s => Ok(s),
    }
}

/// Checks that an integer dtype can represent an element.
fn stored(s: Scalar, dtype: DType) -> PyResult<Scalar> {
    if dtype.is_int() && s.overflows(dtype) {
        return Err(PyRuntimeError::new_err(format!(
            "value cannot be converted to type {} without overflow",
            dtype.name()
        )));
    }
    Ok(s)
}

/// What determines the dtype of a tensor that is made of nested sequences.
#[derive(Default)]
struct Seen {
    /// The promoted dtype of the tensors and arrays among the elements.
    tensors: Option<DType>,
    /// The highest category of the numbers.
    numbers: Option<u8>,
}

impl Seen {
    fn of(number: Scalar) -> Seen {
        Seen { tensors: None, numbers: Some(number.category()) }
    }

    fn dtype(&self) -> PyResult<DType> {
        let numbers = self.numbers.map(|category| match category {
            0 => DType::Bool,
            1 => DType::I64,
            _ => ops::default_dtype(),
        });
        match (self.tensors, numbers) {
            (Some(a), Some(b)) => promote(a, b).py(),
            (a, b) => Ok(a.or(b).unwrap_or_else(ops::default_dtype)),
        }
    }
}

/// Whether a list is one of its own elements.
fn holds_itself(obj: &Bound<'_, PyAny>) -> bool {
    obj.cast::<PyList>().is_ok_and(|l| l.iter().any(|x| x.is(obj)))
}

fn collect(
    obj: &Bound<'_, PyAny>,
    shape: &[usize],
    depth: usize,
    dtype: Option<DType>,
    out: &mut Vec<Scalar>,
    seen: &mut Seen,
) -> PyResult<()> {
    if let Some(t) = tensor_like(obj)? {
        let (found, wanted) = (t.shape(), &shape[depth..]);
        if let Some(d) = found.iter().zip(wanted).position(|(n, m)| n != m) {
            return Err(PyValueError::new_err(format!(
                "expected sequence of length {} at dim {} (got {})",
                wanted[d],
                depth + d,
                found[d]
            )));
        }
        if found.len() < wanted.len() {
            return Err(PyTypeError::new_err("not a sequence"));
        }
        if found[wanted.len()..].iter().any(|&n| n != 1) {
            return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars"));
        }
        seen.tensors = Some(seen.tensors.map_or(Ok(t.dtype()), |d| promote(d, t.dtype())).py()?);
        out.extend(t.scalars().py()?);
        return Ok(());
    }
    if depth == shape.len() {
        return match element(obj, dtype)? {
            Some(s) => {
                seen.numbers = seen.numbers.max(Some(s.category()));
                out.push(s);
                Ok(())
            }
            None if holds_itself(obj) => {
                Err(PyTypeError::new_err("new(): self-referential lists are incompatible with tensors"))
            }
            None if sequence_len(obj).is_some() => Err(PyValueError::new_err(format!(
                "expected a number at dim {depth}, but found a sequence (the nesting is uneven)"
            ))),
            None if obj.is_instance_of::<PyString>() && !out.is_empty() => {
                Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", type_name(obj))))
            }
            None if obj.is_instance_of::<PyString>() => {
                Err(PyValueError::new_err(format!("too many dimensions '{}'", type_name(obj))))
            }
            None => Err(PyRuntimeError::new_err(format!("Could not infer dtype of {}", type_name(obj)))),
        };
    }
    let Some(n) = sequence_len(obj) else {
        return Err(PyTypeError::new_err("not a sequence"));
    };
    if n != shape[depth] {
        return Err(PyValueError::new_err(format!(
            "expected sequence of length {} at dim {depth} (got {n})",
            shape[depth]
        )));
    }
    if let Ok(l) = obj.cast::<PyList>() {
        return l.iter().try_for_each(|x| collect(&x, shape, depth + 1, dtype, out, seen));
    }
    (0..n).try_for_each(|i| {
        if i % 4096 == 4095 {
            obj.py().check_signals()?;
        }
        collect(&obj.get_item(i)?, shape, depth + 1, dtype, out, seen)
    })
}

/// `torch.tensor`: always a copy, always a leaf.
#[pyfunction]
#[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false, pin_memory=false))]
pub fn tensor(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&Bound<'_, PyAny>>,
    requires_grad: bool,
    pin_memory: bool,
) -> PyResult<Py<PyAny>> {
    let _ = pin_memory;
    let wishes = [("dtype", dtype), ("device", device)];
    if let Some(made) = made_by_mode(py, "tensor", data, &wishes, requires_grad)? {
        return Ok(made.unbind());
    }
    let device = match (device, data.cast::<PyTensor>()) {
        (Some(d), _) => super::dtype::device_of(d)?,
        (None, Ok(t)) => t.tensor().device(),
        (None, Err(_)) => ops::default_device(),
    };
    if data.cast::<PyTensor>().is_ok() {
        warn(
            py,
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or \
             sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
        )?;
    }
    let t = tensor_from(data, dtype_of(dtype)?)?;
    if requires_grad && !t.dtype().is_float() {
        return Err(PyRuntimeError::new_err(
            "Only Tensors of floating point and complex dtype can require gradients",
        ));
    }
    let t = detach_for(py, &t, device, || t.on_device(device)).py()?;
    t.set_requires_grad(requires_grad).py()?;
    wrap(py, t)
}

/// `torch.as_tensor`: shares memory if possible.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None))]
pub fn as_tensor<'py>(
    data: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    if let Some(made) =
        made_by_mode(data.py(), "as_tensor", data, &[("dtype", dtype), ("device", device)], false)?
    {
        return Ok(made.unbind());
    }
    let device = device.map(super::dtype::device_of).transpose()?;
    let wanted = dtype_of(dtype)?;
    let t = match data.cast::<PyTensor>() {
        Ok(t) => {
            let t = t.tensor();
            let (device, dtype) = (device.unwrap_or(t.device()), wanted.unwrap_or(t.dtype()));
            if device == t.device() && dtype == t.dtype() {
                return Ok(data.clone().unbind());
            }
            let moved = detach_for(data.py(), &t, device, || ops::arith::to(&t, device, dtype));
            return wrap(data.py(), moved.py()?);
        }
        Err(_) if is_ndarray(data) => {
            let shared = share_writable_array(data)?;
            match wanted {
                Some(d) if d != shared.dtype() => shared.copied(d).py()?,
                _ => shared,
            }
        }
        Err(_) => tensor_from(data, wanted)?,
    };
    let device = device.unwrap_or(ops::default_device());
    wrap(data.py(), detach_for(data.py(), &t, device, || t.on_device(device)).py()?)
}

pub fn dtype_of(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    obj.map(|d| {
        dtype_argument(d).ok_or_else(|| {
            PyTypeError::new_err(format!("argument 'dtype' must be torch.dtype, not {}", type_name(d)))
        })
    })
    .transpose()
}

/// A tensor's values as nested lists; a number for a 0-d tensor.
pub fn to_list(py: Python<'_>, t: &Tensor) -> PyResult<Py<PyAny>> {
    // Each number and each list, even an empty one, is a separate object.
    let lists = t.shape().split_last().map_or(1, |(_, outer)| outer.iter().product());
    expect_room::<[usize; 5]>(t.numel()).and(expect_room::<[usize; 7]>(lists)).py()?;
    let values = detach_for(py, t, t.device(), || t.scalars()).py()?;
    fn nest(py: Python<'_>, shape: &[usize], values: &mut std::slice::Iter<Scalar>) -> PyResult<Py<PyAny>> {
        match shape.split_first() {
            None => scalar(py, values.next().copied().unwrap_or(Scalar::Int(0))),
            Some((&n, rest)) => {
                py.check_signals()?;
                let items = (0..n).map(|_| nest(py, rest, values)).collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, items)?.into_any().unbind())
            }
        }
    }
    nest(py, t.shape(), &mut values.iter())
}

/// The memory of a storage object, and the dtype of its elements if it has one.
pub fn storage_of<'py>(obj: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyStorage>, Option<DType>)> {
    if let Ok(s) = obj.cast::<PyStorage>() {
        return Some((s.clone(), None));
    }
    if obj.get_type().name().is_ok_and(|n| n == "TypedStorage") {
        let storage = obj.getattr("_untyped_storage").ok()?.cast_into().ok()?;
        return Some((storage, dtype_argument(&obj.getattr("dtype").ok()?)));
    }
    None
}

/// Errors if elements of a storage would be read as another dtype.
pub fn check_stored(stored: Option<DType>, dtype: DType) -> PyResult<()> {
    match stored {
        Some(found) if found != dtype => Err(PyRuntimeError::new_err(format!(
            "Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 'storage'",
            dtype.scalar_name(),
            found.scalar_name()
        ))),
        _ => Ok(()),
    }
}
