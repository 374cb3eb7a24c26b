//! `vmap`: its levels, and the values of batched tensors.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::error::IntoPy;
use super::object::{PyTensor, TensorObject, wrap};
use crate::layout::Dims;
use crate::ops::batching::{self, Randomness};
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::batched::Levels;

/// Begins a `vmap` over `size` slices; returns its level.
#[pyfunction(name = "_vmap_enter")]
pub fn enter_vmap(size: usize, randomness: &str) -> PyResult<u32> {
    let randomness = match randomness {
        "error" => Randomness::Error,
        "different" => Randomness::Different,
        "same" => Randomness::Same,
        other => {
            return Err(PyRuntimeError::new_err(format!(
                "Only allowed values for randomness are 'error', 'different', or 'same'. Got {other}"
            )));
        }
    };
    Ok(batching::enter(size, randomness))
}

/// Ends the innermost `vmap`.
#[pyfunction(name = "_vmap_exit")]
pub fn exit_vmap() {
    batching::exit();
}

/// The running levels, the outermost first.
#[pyfunction(name = "_vmap_levels")]
pub fn running_levels() -> Vec<u32> {
    batching::levels().iter().map(|l| l.id).collect()
}

/// What the running levels do with random numbers.
#[pyfunction(name = "_vmap_randomness")]
pub fn randomness() -> Vec<&'static str> {
    let text = |r: Randomness| match r {
        Randomness::Error => "error",
        Randomness::Different => "different",
        Randomness::Same => "same",
    };
    batching::levels().iter().map(|l| text(l.randomness)).collect()
}

/// Calls a function without the running levels.
#[pyfunction(name = "_outside_vmap")]
pub fn outside_vmap<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    batching::without(|| function.call0())
}

/// Calls a function in which operations that draw random numbers are errors.
#[pyfunction(name = "_refusing_random")]
pub fn refusing_random<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    batching::refusing(|| function.call0())
}

/// A tensor that stands for the slices of a dimension of `t` at a level inside all that `t` has.
#[pyfunction(name = "_add_batch_dim")]
pub fn add_batch_dim(py: Python<'_>, t: &Bound<'_, PyTensor>, dim: i64, level: u32) -> PyResult<Py<PyAny>> {
    let t = t.tensor();
    let dim = crate::layout::wrap_dim(dim, t.rank()).py()?;
    let (value, mut levels) = batching::parts_of(&t);
    if levels.last().is_some_and(|&last| last >= level) {
        return Err(PyValueError::new_err("vmap: the tensor has an inner level already"));
    }
    let n = levels.len();
    let value = if dim == 0 { Ok(value) } else { view::movedim(&value, &[(n + dim) as i64], &[n as i64]) };
    levels.push(level);
    wrap(py, Tensor::batched_at(value.py()?, levels, dim).py()?)
}

/// The tensor whose slices at a level `t` stands for, in dimension `dim`; `t` in each of `size` slices if it stands for none.
#[pyfunction(name = "_remove_batch_dim")]
pub fn remove_batch_dim(
    py: Python<'_>,
    t: &Bound<'_, PyTensor>,
    level: u32,
    size: usize,
    dim: i64,
) -> PyResult<Py<PyAny>> {
    let t = t.tensor();
    let dim = crate::layout::wrap_dim(dim, t.rank() + 1).py()?;
    let (value, mut levels) = batching::parts_of(&t);
    let out = match levels.iter().position(|&l| l == level) {
        Some(at) => {
            levels.remove(at);
            let to = levels.len() + dim;
            // A function that returns its argument as it is returns the whole tensor itself.
            if at == to { Ok(value) } else { view::movedim(&value, &[at as i64], &[to as i64]) }
        }
        None => {
            let at = levels.len() + dim;
            view::unsqueeze(&value, at as i64).and_then(|wide| {
                let mut shape: Dims = wide.shape().clone();
                shape[at] = size;
                view::expand_to(&wide, &shape)
            })
        }
    };
    wrap(py, Tensor::batched_over(out.py()?, levels).py()?)
}

/// The value of a tensor, with its mapped dimensions in front, and their levels.
#[pyfunction(name = "_batch_value")]
pub fn value_of(py: Python<'_>, t: &Bound<'_, PyTensor>) -> PyResult<(Py<PyAny>, Vec<u32>)> {
    let (value, levels) = batching::parts_of(&t.tensor());
    Ok((wrap(py, value)?, levels.to_vec()))
}

/// Where the innermost mapped dimension of a tensor was in the one that was given to `vmap`; 0 for results of operations.
#[pyfunction(name = "_batch_entered")]
pub fn entered(t: &Bound<'_, PyTensor>) -> usize {
    t.tensor().batch().map_or(0, |batch| batch.entered())
}

/// The value of a tensor with the dimensions of all running levels, and these.
#[pyfunction(name = "_batch_everywhere")]
pub fn everywhere(py: Python<'_>, t: &Bound<'_, PyTensor>) -> PyResult<(Py<PyAny>, Vec<u32>)> {
    let (mut value, own) = batching::parts_of(&t.tensor());
    let running = batching::levels();
    let mut shape: Dims = Dims::default();
    for (i, level) in running.iter().enumerate() {
        if !own.contains(&level.id) {
            value = view::unsqueeze(&value, i as i64).py()?;
        }
        shape.push(level.size);
    }
    shape.extend(value.shape()[running.len()..].iter().copied());
    let value = if *value.shape() == shape { value } else { view::expand_to(&value, &shape).py()? };
    Ok((wrap(py, value)?, running.iter().map(|l| l.id).collect()))
}

/// The tensor that stands for the slices of a value, whose first dimensions are mapped at these levels.
#[pyfunction(name = "_batched")]
pub fn batched(py: Python<'_>, value: &Bound<'_, PyTensor>, levels: Vec<u32>) -> PyResult<Py<PyAny>> {
    let value = value.tensor();
    if levels.len() > value.rank() {
        return Err(PyValueError::new_err("vmap: the value has fewer dimensions than there are levels"));
    }
    wrap(py, Tensor::batched_over(value, Levels::from_vec(levels)).py()?)
}

#[pyfunction(name = "_is_batched")]
pub fn is_batched(t: &Bound<'_, PyTensor>) -> bool {
    t.tensor().is_batched()
}

/// Sets whether operations warn that are called for each slice.
#[pyfunction(name = "_debug_only_display_vmap_fallback_warnings")]
pub fn set_fallback_warning(on: bool) {
    batching::set_warns(on);
}

/// Whether operations warn that are called for each slice.
#[pyfunction(name = "_debug_only_are_vmap_fallback_warnings_enabled")]
pub fn fallback_warning() -> bool {
    batching::warns()
}

/// Sets whether operations without a batching rule are called for each slice; otherwise they are errors.
#[pyfunction(name = "_set_vmap_fallback_enabled")]
pub fn set_fallback_enabled(on: bool) {
    batching::set_enabled(on);
}

/// Whether operations without a batching rule are called for each slice.
#[pyfunction(name = "_is_vmap_fallback_enabled")]
pub fn fallback_enabled() -> bool {
    batching::is_enabled()
}

/// Warns that something without a batching rule is called for each slice, or raises where that is disabled.
#[pyfunction(name = "_announce_vmap_fallback")]
pub fn announce_fallback(name: &str) -> PyResult<()> {
    batching::announce(name).py()
}
