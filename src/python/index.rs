//! What stands between the brackets of `x[...]`.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use smallvec::SmallVec;

use super::convert;
use super::dtype::type_name;
use super::error::IntoPy;
use super::interop;
use super::object::slice_bounds;
use super::tensor::{DETACH_FROM, PyTensor, wrap};
use crate::ops::index::{Index, getitem, setitem};
use crate::ops::pointwise::Arg;
use crate::tensor::Tensor;

type Indices = SmallVec<[Index; 4]>;

fn one(key: &Bound<'_, PyAny>) -> PyResult<Index> {
    if key.is_exact_instance_of::<PyInt>() {
        return key.extract().map(Index::Int);
    }
    if let Ok(s) = key.cast::<PySlice>() {
        return match slice_bounds(s) {
            Ok((start, stop, step)) => {
                Ok(Index::Slice(Some(start as i64), Some(stop as i64), Some(step as i64)))
            }
            Err(e) if e.is_instance_of::<PyValueError>(key.py()) => {
                Err(PyValueError::new_err("step must be greater than zero"))
            }
            Err(e) => Err(e),
        };
    }
    if key.is_none() {
        return Ok(Index::NewAxis);
    }
    if key.cast::<PyEllipsis>().is_ok() {
        return Ok(Index::Ellipsis);
    }
    if let Ok(b) = key.cast::<PyBool>() {
        return Ok(Index::Bool(b.is_true()));
    }
    if let Ok(t) = key.cast::<PyTensor>() {
        return Ok(Index::Tensor(t.get().inner()));
    }
    if key.cast::<PyList>().is_ok() || key.cast::<PyTuple>().is_ok() || interop::is_array(key) {
        let t = interop::tensor_from(key, None)?;
        // An empty list selects nothing; its dtype says nothing.
        let t = if t.numel() == 0 && t.dtype().is_float() {
            t.copied(crate::dtype::DType::I64).py()?
        } else {
            t
        };
        return Ok(Index::Tensor(t));
    }
    if let Some(i) = convert::int(key) {
        return Ok(Index::Int(i));
    }
    Err(PyIndexError::new_err(format!(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
        type_name(key)
    )))
}

fn indices(key: &Bound<'_, PyAny>) -> PyResult<Indices> {
    let mut out = Indices::new();
    match key.cast::<PyTuple>() {
        Ok(t) => {
            for k in t.iter_borrowed() {
                out.push(one(&k)?);
            }
        }
        Err(_) => out.push(one(key)?),
    }
    Ok(out)
}

pub fn get(py: Python<'_>, t: &Tensor, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let indices = indices(key)?;
    let advanced = indices.iter().any(|i| matches!(i, Index::Tensor(_)));
    let out = if advanced { py.detach(|| getitem(t, &indices)) } else { getitem(t, &indices) };
    wrap(py, out.py()?)
}

pub fn set(py: Python<'_>, t: &Tensor, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let indices = indices(key)?;
    if let Some(s) = convert::number(value) {
        let set = || setitem(t, &indices, Arg::S(s));
        return if t.numel() < DETACH_FROM { set() } else { py.detach(set) }.py();
    }
    let value = match value.cast::<PyTensor>() {
        Ok(v) => v.get().inner(),
        Err(_) if interop::is_array(value) => interop::tensor_from(value, None)?,
        Err(_) => {
            return Err(PyTypeError::new_err(format!(
                "can't assign a {} to a torch.{}Tensor",
                type_name(value),
                t.dtype().scalar_name()
            )));
        }
    };
    let set = || setitem(t, &indices, Arg::T(&value));
    if t.numel().max(value.numel()) < DETACH_FROM { set() } else { py.detach(set) }.py()
}
