//! Arguments of calls as Python objects, and the tensors among them.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::ops;
use crate::ops::interpreter::{Form, OpCall};
use crate::ops::schema::Value;
use crate::python::convert::{self, Ty};
use crate::python::dtype::{PyDevice, PyGenerator, PyMemoryFormat, dtype_object};
use crate::python::error::IntoPy;
use crate::python::object::{PyTensor, TensorObject, wrap};
use crate::python::signature::Parameters;
use crate::tensor::Tensor;

pub(super) fn form_name(form: &Form) -> &'static str {
    match form {
        Form::New => "",
        Form::InPlace => "_",
        Form::Into(_) => "out",
    }
}

/// Arguments with `tensors` in place of the tensors among them.
pub(super) fn with_objects<'py>(
    py: Python<'py>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    tensors: &[Tensor],
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    let mut tensors = tensors.iter();
    let args = args.iter().map(|a| mirrored(&a, &mut tensors)).collect::<PyResult<Vec<_>>>()?;
    let named = PyDict::new(py);
    for (name, value) in kwargs.iter() {
        named.set_item(name, mirrored(&value, &mut tensors)?)?;
    }
    Ok((PyTuple::new(py, args)?, named))
}

/// The tensors of an argument, in lists and tuples as well.
pub(super) fn collect(obj: &Bound<'_, PyAny>, into: &mut Vec<Tensor>) {
    if let Ok(t) = obj.cast::<PyTensor>() {
        into.push(t.tensor());
    } else if let Ok(items) = obj.cast::<PyTuple>() {
        items.iter().for_each(|x| collect(&x, into));
    } else if let Ok(items) = obj.cast::<PyList>() {
        items.iter().for_each(|x| collect(&x, into));
    }
}

/// An argument with the next of these in place of its tensors.
pub(super) fn mirrored<'py>(
    obj: &Bound<'py, PyAny>,
    images: &mut std::slice::Iter<Tensor>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = obj.py();
    let mut all = |items: Vec<Bound<'py, PyAny>>| {
        items.iter().map(|x| mirrored(x, images)).collect::<PyResult<Vec<_>>>()
    };
    if let Ok(items) = obj.cast::<PyTuple>() {
        return Ok(PyTuple::new(py, all(items.iter().collect())?)?.into_any());
    }
    if let Ok(items) = obj.cast::<PyList>() {
        return Ok(PyList::new(py, all(items.iter().collect())?)?.into_any());
    }
    match (obj.cast::<PyTensor>(), obj) {
        (Ok(t), _) => Ok(wrap(py, images.next().cloned().unwrap_or(t.tensor()))?.into_bound(py)),
        (_, other) => Ok(other.clone()),
    }
}

/// A value as a Python object.
fn object(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    let all = |ts: &[Tensor]| ts.iter().map(|t| wrap(py, t.clone())).collect::<PyResult<Vec<_>>>();
    Ok(match value {
        Value::None => py.None(),
        Value::Tensor(t) => wrap(py, t.clone())?,
        Value::Tensors(ts) => PyList::new(py, all(ts)?)?.into_any().unbind(),
        Value::OptTensors(ts) => {
            let items = ts.iter().map(|t| t.as_ref().map_or(Ok(py.None()), |t| wrap(py, t.clone())));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
        }
        Value::Number(s) => convert::scalar(py, *s)?,
        Value::Ints(v) => PyList::new(py, v.iter())?.into_any().unbind(),
        Value::Floats(v) => PyList::new(py, v)?.into_any().unbind(),
        Value::DType(d) => dtype_object(py, *d)?.into_any(),
        Value::Device(d) => Py::new(py, PyDevice::of(*d))?.into_any(),
        Value::MemoryFormat(f) => Py::new(py, PyMemoryFormat(*f))?.into_any(),
        Value::Str(s) => s.into_pyobject(py)?.into_any().unbind(),
        Value::Generator(g) => Py::new(py, PyGenerator(g.clone()))?.into_any(),
    })
}

/// A number as a tensor without dimensions.
fn tensor_of(s: Scalar) -> Result<Tensor> {
    let dtype = match s {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) | Scalar::Long(_) => DType::I64,
        Scalar::Float(_) => ops::default_dtype(),
    };
    Tensor::scalar(s, dtype)
}

/// Whether an argument is the default of its parameter.
fn is_default(value: &Value, default: Option<&Value>) -> bool {
    match (value, default) {
        (Value::None, Some(Value::None)) => true,
        (Value::Number(a), Some(Value::Number(b))) => a == b,
        (Value::Ints(a), Some(Value::Ints(b))) => a == b,
        (Value::Str(a), Some(Value::Str(b))) => a == b,
        _ => false,
    }
}

/// The arguments of a call as PyTorch's dispatcher passes them: without trailing defaults, and by name where only a name
/// is accepted.
pub(super) fn python_arguments<'py>(
    py: Python<'py>,
    call: &OpCall,
    values: &[Value],
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    let parameters = Parameters::parse(py, call.overload.sig).map_err(PyRuntimeError::new_err)?;
    let mut args = Vec::new();
    let mut filled = 0;
    let kwargs = PyDict::new(py);
    for (param, value) in parameters.params.iter().zip(values) {
        let default = is_default(value, param.default.as_ref());
        // A number that the core passes for a tensor. As the first operand it chooses a form of its own.
        let scalar = match (param.ty, value) {
            (Ty::Tensor, Value::Number(s)) if !args.is_empty() => Some(Value::Tensor(tensor_of(*s).py()?)),
            _ => None,
        };
        let value = scalar.as_ref().unwrap_or(value);
        if param.keyword_only {
            if !default {
                kwargs.set_item(param.name, object(py, value)?)?;
            }
            continue;
        }
        args.push(object(py, value)?);
        if !default {
            filled = args.len();
        }
    }
    args.truncate(filled);
    if let Form::Into(outs) = call.form {
        let objects = outs.iter().map(|t| wrap(py, t.clone())).collect::<PyResult<Vec<_>>>()?;
        match &objects[..] {
            [one] => kwargs.set_item("out", one)?,
            _ => kwargs.set_item("out", PyTuple::new(py, &objects)?)?,
        }
    }
    Ok((PyTuple::new(py, args)?, kwargs))
}
