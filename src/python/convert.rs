//! Conversions between Python and Rust values.

use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use smallvec::SmallVec;

use super::dtype::{PyDType, PyGenerator, PyMemoryFormat, device_of, dtype_object, type_name};

use super::arrays::is_ndarray;
use super::interop::storage_of;
use super::object::{as_tensor, exact_int, tuple_of_sizes};
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::dtype::Scalar;
use crate::layout::{Dims, Layout};
use crate::ops::schema::{Out, Value};
use crate::tensor::Tensor;

/// The type of a parameter, as written in its signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    Tensor,
    Tensors,
    /// As `Tensors`; also accepts them as separate arguments.
    VarTensors,
    OptTensors,
    Operand,
    Number,
    Int,
    Ints,
    /// As `Ints`, but without a single number; as the first parameter after the tensor it also accepts separate
    /// arguments.
    Size,
    Float,
    Floats,
    Bool,
    DType,
    Device,
    MemoryFormat,
    Str,
    Generator,
    /// Accepted and ignored.
    Ignored,
    Layout,
    /// The storage of a tensor, passed as a uint8 tensor of its bytes.
    Storage,
    /// A dtype, a tensor class or its name, such as "torch.FloatTensor"; passed as the name.
    TypeName,
}

impl Ty {
    pub fn parse(s: &str) -> Option<Ty> {
        Some(match s {
            "Tensor" => Ty::Tensor,
            "Tensor[]" => Ty::Tensors,
            "Tensor*" => Ty::VarTensors,
            "Tensor?[]" => Ty::OptTensors,
            "Operand" => Ty::Operand,
            "Number" => Ty::Number,
            "int" => Ty::Int,
            "int[]" => Ty::Ints,
            "size" => Ty::Size,
            "float" => Ty::Float,
            "float[]" => Ty::Floats,
            "bool" => Ty::Bool,
            "dtype" => Ty::DType,
            "device" => Ty::Device,
            "str" => Ty::Str,
            "Generator" => Ty::Generator,
            "memory_format" => Ty::MemoryFormat,
            "layout" => Ty::Layout,
            "Storage" => Ty::Storage,
            "typename" => Ty::TypeName,
            "any" => Ty::Ignored,
            _ => return None,
        })
    }

    /// The name in PyTorch's messages.
    pub fn describe(self) -> &'static str {
        match self {
            Ty::Tensor => "Tensor",
            Ty::Tensors | Ty::VarTensors | Ty::OptTensors => "tuple of Tensors",
            Ty::Operand => "Tensor",
            Ty::Number => "Number",
            Ty::Int => "int",
            Ty::Ints | Ty::Size => "tuple of ints",
            Ty::Float => "float",
            Ty::Floats => "tuple of floats",
            Ty::Bool => "bool",
            Ty::DType => "torch.dtype",
            Ty::Device => "torch.device",
            Ty::MemoryFormat => "torch.memory_format",
            Ty::Str => "str",
            Ty::Generator => "torch.Generator",
            Ty::Ignored => "object",
            Ty::Layout => "torch.layout",
            Ty::Storage => "torch.Storage",
            Ty::TypeName => "type, str, or dtype object",
        }
    }
}

/// A Python or NumPy number; None for anything else.
pub fn number(obj: &Bound<'_, PyAny>) -> Option<Scalar> {
    if obj.is_exact_instance_of::<PyFloat>() {
        return obj.extract::<f64>().ok().map(Scalar::Float);
    }
    if obj.is_exact_instance_of::<PyInt>() {
        return int_scalar(obj);
    }
    if obj.is_instance_of::<PyBool>() {
        return obj.extract::<bool>().ok().map(Scalar::Bool);
    }
    slow_number(obj)
}

/// An integer that fits in 64 bits.
fn int_scalar(obj: &Bound<'_, PyAny>) -> Option<Scalar> {
    match obj.extract::<i64>() {
        Ok(i) => Some(Scalar::Int(i)),
        Err(_) => obj.extract::<u64>().map(Scalar::Long).ok(),
    }
}

/// The error for an integer that does not fit in any number type, as an operand or as an argument of type `ty`.
#[cold]
pub fn check_range(obj: &Bound<'_, PyAny>, ty: Ty) -> PyResult<()> {
    if !obj.is_instance_of::<PyInt>() || obj.extract::<i64>().is_ok() {
        return Ok(());
    }
    match ty {
        Ty::Operand | Ty::Number => obj.extract::<u64>().map(drop),
        Ty::Int | Ty::Ints => Err(PyValueError::new_err(OVERFLOW)),
        _ => Ok(()),
    }
}

pub const OVERFLOW: &str = "Overflow when unpacking long long";

/// Converts an integer to be stored in a tensor, as PyTorch does.
pub fn integer(obj: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Ok(b) = obj.cast::<PyBool>() {
        return Ok(Scalar::Bool(b.is_true()));
    }
    obj.extract().map(Scalar::Int).map_err(|_| PyValueError::new_err(OVERFLOW))
}

#[cold]
fn slow_number(obj: &Bound<'_, PyAny>) -> Option<Scalar> {
    if obj.is_instance_of::<PyFloat>() {
        return obj.extract::<f64>().ok().map(Scalar::Float);
    }
    if obj.is_instance_of::<PyInt>() {
        return int_scalar(obj);
    }
    if obj.cast::<PyTensor>().is_ok() || obj.is_instance_of::<PyString>() {
        return None;
    }
    // NumPy scalars, distinguished by the kind of their dtype.
    let kind =
        obj.getattr("dtype").and_then(|d| d.getattr("kind")).and_then(|k| k.extract::<String>()).ok()?;
    if obj.getattr("ndim").and_then(|n| n.extract::<usize>()).is_ok_and(|n| n > 0) || is_ndarray(obj) {
        return None;
    }
    match kind.as_str() {
        // NumPy's bool is no Python bool; as an operand PyTorch treats it as a float.
        "b" => obj.is_truthy().ok().map(|b| Scalar::Float(b.into())),
        "i" | "u" => obj.call_method0("__int__").ok().and_then(|i| int_scalar(&i)),
        "f" => obj.call_method0("__float__").ok().and_then(|f| f.extract().ok()).map(Scalar::Float),
        _ => None,
    }
}

/// The value of a `numpy.bool`.
pub fn numpy_bool(obj: &Bound<'_, PyAny>) -> Option<bool> {
    let class = obj.get_type();
    let named =
        class.module().is_ok_and(|m| m == "numpy") && class.name().is_ok_and(|n| n == "bool" || n == "bool_");
    if named { obj.is_truthy().ok() } else { None }
}

/// A number, or the value of a 0-d tensor.
fn number_or_item(obj: &Bound<'_, PyAny>) -> Option<Scalar> {
    if let Some(s) = number(obj) {
        return Some(s);
    }
    let t = obj.cast::<PyTensor>().ok()?.tensor();
    if t.rank() == 0 && !t.requires_grad() { t.item().ok() } else { None }
}

/// A Python integer, or an object with `__index__`.
pub fn int(obj: &Bound<'_, PyAny>) -> Option<i64> {
    if let Some(i) = exact_int(obj) {
        return Some(i);
    }
    if obj.is_instance_of::<PyBool>() {
        return None;
    }
    if obj.is_instance_of::<PyInt>() {
        return obj.extract().ok();
    }
    if let Ok(t) = obj.cast::<PyTensor>() {
        let t = t.tensor();
        return match t.item() {
            Ok(s @ Scalar::Int(_)) if t.numel() == 1 => Some(s.to_i64()),
            _ => None,
        };
    }
    // Common types without it: an attribute that is missing is an exception, which takes longer than most calls.
    if obj.is_none()
        || obj.is_instance_of::<PyTuple>()
        || obj.is_instance_of::<PyList>()
        || obj.is_instance_of::<PyFloat>()
        || obj.is_instance_of::<PyString>()
    {
        return None;
    }
    obj.call_method0("__index__").ok().and_then(|i| i.extract().ok())
}

/// Fills `place` with a sequence of integers.
#[inline]
fn fill_ints(place: &mut Value, obj: &Bound<'_, PyAny>) -> bool {
    *place = Value::Ints(SmallVec::new());
    let Value::Ints(into) = place else { return false };
    if let Ok(t) = obj.cast::<PyTuple>() {
        return all_ints(into, t.iter_borrowed().map(|x| int(&x)));
    }
    obj.cast::<PyList>().is_ok_and(|l| all_ints(into, l.iter().map(|x| int(&x))))
}

/// Fills `place` with one integer as a sequence.
#[inline]
fn fill_one_int(place: &mut Value, obj: &Bound<'_, PyAny>) -> bool {
    *place = Value::Ints(SmallVec::new());
    let Value::Ints(into) = place else { return false };
    all_ints(into, std::iter::once(int(obj)))
}

#[inline(always)]
fn all_ints(into: &mut SmallVec<[i64; 6]>, mut ints: impl Iterator<Item = Option<i64>>) -> bool {
    ints.all(|i| i.map(|i| into.push(i)).is_some())
}

fn tensors<'py>(obj: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(t) = obj.cast::<PyTuple>() {
        return Some(t.iter().collect());
    }
    obj.cast::<PyList>().ok().map(|l| l.iter().collect())
}

/// Converts an argument for a parameter of type `ty` and writes it to `place`; Ok(false) if it does not match.
///
/// Note [Values are made where they stay] A `Value` is large. When one is returned and then stored, it is copied by
/// loads wider than the stores that just built it, which a processor cannot forward from its store buffer: each copy
/// stalls for a dozen cycles, in total a tenth of the time of a call on small tensors. So every function that produces
/// a value writes it directly to its final place, where it is only read afterwards.
#[inline]
pub fn fill(place: &mut Value, obj: &Bound<'_, PyAny>, ty: Ty, optional: bool) -> PyResult<bool> {
    if optional && obj.is_none() {
        return Ok(true);
    }
    match ty {
        Ty::Tensor | Ty::Operand => {
            if let Some(t) = as_tensor(obj) {
                *place = Value::Tensor(t.tensor());
                return Ok(true);
            }
            if ty == Ty::Tensor {
                return Ok(false);
            }
        }
        // A number is accepted as a sequence of one; the more frequent type is tried first.
        Ty::Ints => {
            let number = exact_int(obj).is_some();
            return Ok((!number && fill_ints(place, obj)) || fill_one_int(place, obj));
        }
        Ty::Size => return Ok(fill_ints(place, obj)),
        Ty::Int => {
            if let Some(i) = exact_int(obj) {
                *place = Value::Number(Scalar::Int(i));
                return Ok(true);
            }
        }
        Ty::Bool => {
            if let Ok(b) = obj.cast::<PyBool>() {
                *place = Value::Number(Scalar::Bool(b.is_true()));
                return Ok(true);
            }
        }
        _ => (),
    }
    let value = rare(obj, ty)?;
    let fits = value.is_some();
    *place = value.unwrap_or(Value::None);
    Ok(fits)
}

/// Writes a default to `place`.
#[inline]
pub fn fill_default(place: &mut Value, default: &Value) {
    match default {
        Value::None => (),
        Value::Number(s) => *place = Value::Number(*s),
        other => *place = other.clone(),
    }
}

/// The types that [`fill`] does not handle itself.
#[inline(never)]
fn rare(obj: &Bound<'_, PyAny>, ty: Ty) -> PyResult<Option<Value>> {
    Ok(match ty {
        Ty::Tensor | Ty::Ints | Ty::Size => None,
        Ty::Operand => number(obj).map(Value::Number),
        Ty::Tensors | Ty::VarTensors => tensors(obj).and_then(|v| {
            v.iter()
                .map(|x| x.cast::<PyTensor>().ok().map(|t| t.tensor()))
                .collect::<Option<Vec<_>>>()
                .map(Value::Tensors)
        }),
        Ty::OptTensors => tensors(obj).and_then(|v| {
            v.iter()
                .map(|x| {
                    if x.is_none() {
                        return Some(None);
                    }
                    x.cast::<PyTensor>().ok().map(|t| Some(t.tensor()))
                })
                .collect::<Option<Vec<_>>>()
                .map(Value::OptTensors)
        }),
        Ty::Number => number_or_item(obj).map(Value::Number),
        // Of tensors only 0-d ones; within a size any tensor of one element is accepted.
        Ty::Int if obj.cast::<PyTensor>().is_ok_and(|t| t.tensor().rank() > 0) => None,
        Ty::Int => int(obj).map(|i| Value::Number(Scalar::Int(i))),
        Ty::Float => match number_or_item(obj) {
            Some(s) => Some(Value::Number(Scalar::Float(s.to_f64()))),
            None if obj.is_instance_of::<PyInt>() => Some(Value::Number(Scalar::Float(obj.extract()?))),
            None => None,
        },
        Ty::Bool => numpy_bool(obj).map(|b| Value::Number(Scalar::Bool(b))),
        Ty::Floats => match number(obj) {
            Some(s) => Some(Value::Floats(vec![s.to_f64()])),
            None => tensors(obj).and_then(|v| {
                v.iter().map(|x| number(x).map(Scalar::to_f64)).collect::<Option<Vec<_>>>().map(Value::Floats)
            }),
        },
        Ty::DType => dtype_argument(obj).map(Value::DType),
        Ty::Device => Some(Value::Device(device_of(obj)?)),
        Ty::MemoryFormat => obj.cast::<PyMemoryFormat>().ok().map(|f| Value::MemoryFormat(f.get().0)),
        Ty::Str => obj.extract::<String>().ok().map(Value::Str),
        Ty::Generator => obj.cast::<PyGenerator>().ok().map(|g| Value::Generator(g.get().0.clone())),
        Ty::Ignored => Some(Value::None),
        Ty::Storage => {
            storage_of(obj).map(|(s, dtype)| Value::Tensor(as_stored(s.get().bytes_tensor(), dtype)))
        }
        Ty::TypeName => tensor_type_name(obj)?.map(Value::Str),
        // The class is defined in Python; strided is the only layout, so there is nothing to convert.
        Ty::Layout if obj.get_type().name().is_ok_and(|n| n == "layout") => {
            match obj.repr()?.to_cow()?.as_ref() {
                "torch.strided" => Some(Value::None),
                other => {
                    return Err(PyNotImplementedError::new_err(format!(
                        "tensors are strided: there are none of layout {other}"
                    )));
                }
            }
        }
        Ty::Layout => None,
    })
}

/// The bytes of a storage as elements of its dtype; as rows of one byte if it has none.
fn as_stored(bytes: Tensor, dtype: Option<crate::dtype::DType>) -> Tensor {
    let layout = match dtype {
        Some(d) => Layout::contiguous([bytes.numel() / d.size()].into()),
        None => Layout::contiguous([bytes.numel(), 1].into()),
    };
    Tensor::from_parts(bytes.storage().clone(), layout, dtype.unwrap_or(bytes.dtype()))
}

/// A `torch.dtype`, or a Python number type that stands for one.
pub fn dtype_argument(obj: &Bound<'_, PyAny>) -> Option<crate::dtype::DType> {
    use crate::dtype::DType;
    if let Ok(d) = obj.cast::<PyDType>() {
        return Some(d.get().0);
    }
    let py = obj.py();
    if obj.is(py.get_type::<PyFloat>()) {
        Some(DType::F64)
    } else if obj.is(py.get_type::<PyInt>()) {
        Some(DType::I64)
    } else if obj.is(py.get_type::<PyBool>()) {
        Some(DType::Bool)
    } else {
        None
    }
}

/// The name that `Tensor.type` uses for a type given as a dtype, a class or its name.
fn tensor_type_name(obj: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(d) = obj.cast::<PyDType>() {
        return Ok(Some(d.get().0.to_string()));
    }
    if let Ok(name) = obj.extract::<String>() {
        return Ok(Some(name));
    }
    let Ok(name) = obj.getattr("__name__").and_then(|n| n.extract::<String>()) else { return Ok(None) };
    // `Tensor`, the only tensor class without a dtype, stands for the default type.
    let typed = obj.hasattr("dtype")? && !name.contains('.');
    Ok(Some(if typed { format!("torch.{name}") } else { name }))
}

static SIZE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static RETURN_TYPES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A shape as `torch.Size`.
pub fn size(py: Python<'_>, shape: &Dims) -> PyResult<Py<PyAny>> {
    tuple_of_sizes(SIZE.import(py, "rgrad._size", "Size")?, shape).map(Bound::unbind)
}

/// A result of the core as a Python object.
pub fn out(py: Python<'_>, out: Out) -> PyResult<Py<PyAny>> {
    let all = |v: Vec<crate::Tensor>| v.into_iter().map(|t| wrap(py, t)).collect::<PyResult<Vec<_>>>();
    Ok(match out {
        Out::Tensor(t) => wrap(py, t)?,
        Out::Tuple(v) => PyTuple::new(py, all(v)?)?.into_any().unbind(),
        Out::List(v) => PyList::new(py, all(v)?)?.into_any().unbind(),
        Out::Named(name, _, v) => named(py, name, all(v)?)?,
        Out::Number(s) => scalar(py, s)?,
        Out::Str(s) => s.into_pyobject(py)?.into_any().unbind(),
        Out::Ints(v) => PyTuple::new(py, v)?.into_any().unbind(),
        Out::DType(d) => dtype_object(py, d)?.into_any(),
        Out::None => py.None(),
    })
}

/// Several results as a named tuple of `rgrad.return_types`.
pub fn named<'py, T: IntoPyObject<'py>>(py: Python<'py>, name: &str, values: Vec<T>) -> PyResult<Py<PyAny>> {
    let types = RETURN_TYPES
        .get_or_try_init(py, || py.import("rgrad.return_types").map(|m| m.into_any().unbind()))?;
    types.getattr(py, name)?.call1(py, (PyTuple::new(py, values)?,))
}

#[inline(always)]
pub fn scalar(py: Python<'_>, s: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match s {
        Scalar::Bool(b) => b.into_pyobject(py)?.to_owned().into_any().unbind(),
        Scalar::Int(i) => i.into_pyobject(py)?.into_any().unbind(),
        Scalar::Long(u) => u.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float(f) => f.into_pyobject(py)?.into_any().unbind(),
    })
}

/// The tensors of a Python sequence.
pub fn tensor_list(obj: &Bound<'_, PyAny>) -> PyResult<Vec<crate::Tensor>> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        return Ok(vec![t.tensor()]);
    }
    obj.try_iter()?
        .map(|x| {
            let x = x?;
            let t = x
                .cast::<PyTensor>()
                .map_err(|_| PyTypeError::new_err(format!("expected a Tensor, got {}", type_name(&x))))?;
            Ok(t.tensor())
        })
        .collect()
}

/// As `tensor_list`, None allowed.
pub fn opt_tensor_list(obj: &Bound<'_, PyAny>) -> PyResult<Vec<Option<crate::Tensor>>> {
    if obj.is_none() {
        return Ok(Vec::new());
    }
    if obj.cast::<PyTensor>().is_ok() {
        return Ok(tensor_list(obj)?.into_iter().map(Some).collect());
    }
    tensors_or_none(obj, |found| format!("expected a Tensor or None, got {found}"))
}

/// The tensors of a Python sequence, None allowed; `wrong` formats the error for other types.
pub fn tensors_or_none(
    obj: &Bound<'_, PyAny>,
    wrong: impl Fn(String) -> String,
) -> PyResult<Vec<Option<crate::Tensor>>> {
    obj.try_iter()?
        .map(|x| {
            let x = x?;
            if x.is_none() {
                return Ok(None);
            }
            let t = x.cast::<PyTensor>().map_err(|_| PyTypeError::new_err(wrong(type_name(&x))))?;
            Ok(Some(t.tensor()))
        })
        .collect()
}
