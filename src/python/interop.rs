//! Tensors from numbers, nested lists, arrays, storages and buffers, and lists of their values.
#![allow(unsafe_code)]

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString, PyTuple};

use super::arrays::{has, is_array, is_ndarray, share_array, share_writable_array};
use super::convert::{dtype_argument, integer, number, numpy_bool, scalar};
use super::dispatch::shown_device;
use super::dtype::type_name;
use super::error::{IntoPy, warn};
use super::storage::PyStorage;
use super::subclass::made_by_mode;
use super::tensor::{PyTensor, TensorObject, detach_for, wrap};
use crate::dtype::{DType, Element, Scalar, promote};
use crate::layout::{Dims, Layout, checked_numel};
use crate::ops::{self, arith};
use crate::storage::{Storage, empty_vec, expect_room};
use crate::tensor::Tensor;

/// A new tensor with the values of a number, a nested list, an array or a tensor.
pub fn tensor_from(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    if let Ok(t) = data.cast::<PyTensor>() {
        let t = t.tensor();
        if let Some(batch) = t.batch() {
            let value = batch.value().copied(dtype.unwrap_or(t.dtype())).py()?;
            return Tensor::batched_over(value, batch.levels().into()).py();
        }
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
        (None, Ok(t)) if t.tensor().is_batched() => shown_device(&t.tensor()),
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
    let t = match t.is_batched() {
        true => arith::to(&t, device, t.dtype()),
        false => detach_for(py, &t, device, || t.on_device(device)),
    }
    .py()?;
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
            let moved = detach_for(data.py(), &t, device, || arith::to(&t, device, dtype));
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
