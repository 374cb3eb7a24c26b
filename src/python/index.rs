//! Conversion of the index in `x[...]`.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyString, PyTuple};
use smallvec::SmallVec;

use super::arrays;
use super::convert;
use super::dtype::type_name;
use super::error::{IntoPy, warn};
use super::interop;
use super::object::slice_bounds;
use super::tensor::{DETACH_FROM, PyTensor, TensorObject, wrap};
use crate::dtype::DType;
use crate::error::interruptible;
use crate::ops::index::{Index, getitem, setitem, slice};
use crate::ops::pointwise::Arg;
use crate::tensor::Tensor;

type Indices = SmallVec<[Index; 4]>;

/// The bounds of a slice, which are integers or single-element tensors.
fn bounds(s: &Bound<'_, PySlice>) -> PyResult<[i64; 3]> {
    match slice_bounds(s) {
        Ok((_, _, step)) if step < 0 => Err(PyValueError::new_err("step must be greater than zero")),
        Ok((start, stop, step)) => Ok([start as i64, stop as i64, step as i64]),
        Err(e) => Err(e),
    }
}

fn one(key: &Bound<'_, PyAny>) -> PyResult<Index> {
    if key.is_exact_instance_of::<PyInt>() {
        return key.extract().map(Index::Int).map_err(|_| overflow());
    }
    if let Ok(s) = key.cast::<PySlice>() {
        return bounds(s).map(|[start, stop, step]| Index::Slice(Some(start), Some(stop), Some(step)));
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
        let t = t.tensor();
        if t.dtype() == DType::U8 && t.rank() > 0 {
            warn(key.py(), BYTE_MASK)?;
        }
        return Ok(Index::Tensor(t));
    }
    if let Some(i) = convert::int(key) {
        return Ok(Index::Int(i));
    }
    if interop::is_sequence(key) || arrays::is_ndarray(key) {
        return sequence(key).map(Index::Tensor);
    }
    Ok(Index::Strange(type_name(key)))
}

const BYTE_MASK: &str =
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.";

fn overflow() -> PyErr {
    PyValueError::new_err("Overflow when unpacking long long")
}

/// Converts a sequence or an array to an index tensor, or to a mask if its elements are bool or uint8.
fn sequence(key: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if key.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", type_name(key))));
    }
    let t = interop::tensor_from(key, None)?;
    // An empty list selects nothing, whatever its dtype.
    if matches!(t.dtype(), DType::Bool | DType::U8 | DType::I64) { Ok(t) } else { t.copied(DType::I64).py() }
}

/// Whether a non-tuple sequence is interpreted as a tuple of indices, by NumPy's former rule, which PyTorch keeps: if
/// it is short and any element is itself a sequence, a tensor, a slice, an ellipsis or None.
fn stands_for_tuple(key: &Bound<'_, PyAny>) -> bool {
    let is_sequence = |x: &Bound<'_, PyAny>| interop::is_sequence(x);
    // An array is one index, whatever its rows are.
    let one =
        key.is_exact_instance_of::<PyInt>() || key.cast::<PyTensor>().is_ok() || arrays::is_ndarray(key);
    if one || !is_sequence(key) {
        return false;
    }
    let Ok(n) = key.len() else { return false };
    n < 32
        && (0..n).any(|i| {
            key.get_item(i).is_ok_and(|x| {
                x.is_none()
                    || x.cast::<PyTensor>().is_ok()
                    || x.cast::<PySlice>().is_ok()
                    || x.cast::<PyEllipsis>().is_ok()
                    || is_sequence(&x)
                    || arrays::is_ndarray(&x)
            })
        })
}

fn indices(t: &Tensor, key: &Bound<'_, PyAny>) -> PyResult<Indices> {
    let mut out = Indices::new();
    if let Ok(keys) = key.cast::<PyTuple>() {
        for k in keys.iter_borrowed() {
            match one(&k) {
                Ok(index) => out.push(index),
                // The first index that is none is what the error tells.
                Err(_) if out.iter().any(|i| matches!(i, Index::Strange(_))) => break,
                Err(e) => return Err(e),
            }
        }
        // A single index outside a tuple has a more specific error.
        if t.rank() == 0 && matches!(out[..], [Index::Int(_) | Index::Slice(..)]) {
            return Err(PyIndexError::new_err("too many indices for tensor of dimension 0"));
        }
    } else if stands_for_tuple(key) {
        warn(key.py(), NOT_A_TUPLE)?;
        for i in 0..key.len()? {
            out.push(one(&key.get_item(i)?)?);
        }
    } else {
        out.push(one(key)?);
    }
    Ok(out)
}

const NOT_A_TUPLE: &str = "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in \
                           pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as \
                           tensor index, x[torch.tensor(seq)], which will result either in an error or a different result";

pub fn get(py: Python<'_>, t: &Tensor, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if let Ok(s) = key.cast::<PySlice>() {
        let [start, stop, step] = bounds(s)?;
        return wrap(py, slice(t, start, stop, step).py()?);
    }
    let indices = indices(t, key)?;
    let advanced = indices.iter().any(|i| matches!(i, Index::Tensor(_)));
    let out =
        if advanced { py.detach(|| interruptible(|| getitem(t, &indices))) } else { getitem(t, &indices) };
    wrap(py, out.py()?)
}

pub fn set(py: Python<'_>, t: &Tensor, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let indices = indices(t, key)?;
    let number = match value.is_instance_of::<PyInt>() && t.dtype() != DType::U64 {
        true => Some(convert::integer(value)?),
        false => convert::number(value),
    };
    if let Some(s) = number {
        let set = || setitem(t, &indices, Arg::S(s));
        return if t.numel() < DETACH_FROM { set() } else { py.detach(set) }.py();
    }
    let value = match value.cast::<PyTensor>() {
        Ok(v) => v.tensor(),
        Err(_) if arrays::is_array(value) => interop::tensor_from(value, None)?,
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
