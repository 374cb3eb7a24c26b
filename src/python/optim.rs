//! The steps of the optimizers: `rgrad._C._optim`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCFunction, PyDict, PyList, PyTuple};

use super::convert::{opt_tensor_list, tensor_list};
use super::error::IntoPy;
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::optim::{self, Optimizer, TensorList};

type Any<'a, 'py> = &'a Bound<'py, PyAny>;

/// Adds a function for an optimizer, which takes its lists by position and its settings by name.
fn add_optimizer(module: &Bound<'_, PyModule>, o: &'static Optimizer) -> PyResult<()> {
    let call = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| step(o, args, kwargs);
    let function = PyCFunction::new_closure(module.py(), Some(o.name), None, call)?;
    module.add(name(o), function)
}

fn name(o: &'static Optimizer) -> &'static str {
    o.name.to_str().unwrap_or_default()
}

fn step(
    o: &'static Optimizer,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let py = args.py();
    let (lists, wanted) = (args.len(), o.lists.len());
    let given = kwargs.map_or(0, |k| k.len());
    if lists != wanted || given != o.settings.len() {
        return Err(PyTypeError::new_err(format!(
            "{}() takes {wanted} lists of tensors and {} settings, got {lists} and {given}",
            name(o),
            o.settings.len()
        )));
    }
    let lists = o
        .lists
        .iter()
        .zip(args.iter())
        .map(|(name, list)| match name.ends_with('?') {
            true => opt_tensor_list(&list).map(TensorList::Optional),
            false => tensor_list(&list).map(TensorList::Given),
        })
        .collect::<PyResult<Vec<_>>>()?;
    let settings = o
        .settings
        .iter()
        .map(|setting| match kwargs.map(|k| k.get_item(setting)).transpose()?.flatten() {
            Some(value) => match value.cast::<PyBool>() {
                Ok(flag) => Ok(f64::from(u8::from(flag.is_true()))),
                Err(_) => value.extract::<f64>(),
            },
            None => Err(PyTypeError::new_err(format!("{}() is missing the setting '{setting}'", name(o)))),
        })
        .collect::<PyResult<Vec<f64>>>()?;
    match py.detach(|| (o.step)(&lists, &settings)).py()? {
        None => Ok(py.None()),
        Some(all) => {
            let all = all.into_iter().map(|t| wrap(py, t)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, all)?.into_any().unbind())
        }
    }
}

/// Multiplies gradients by one over the loss scale; a tensor of 1 where any was infinite or NaN, else of 0.
#[pyfunction]
fn unscale(py: Python<'_>, grads: Any, inv_scale: &Bound<'_, PyTensor>) -> PyResult<Py<PyAny>> {
    let (grads, inv_scale) = (tensor_list(grads)?, inv_scale.tensor());
    wrap(py, py.detach(|| optim::unscale(&grads, &inv_scale)).py()?)
}

/// Multiplies gradients by a number.
#[pyfunction]
fn scale_all(py: Python<'_>, grads: Any, factor: &Bound<'_, PyTensor>) -> PyResult<()> {
    let (grads, factor) = (tensor_list(grads)?, factor.tensor());
    py.detach(|| optim::scale_all(&grads, &factor)).py()
}

/// The norm of all elements of all tensors.
#[pyfunction]
#[pyo3(signature = (tensors, p=2.0))]
fn total_norm(py: Python<'_>, tensors: Any, p: f64) -> PyResult<Py<PyAny>> {
    let tensors = tensor_list(tensors)?;
    wrap(py, py.detach(|| optim::total_norm(&tensors, p)).py()?)
}

/// Adds the submodule `_optim`.
pub fn add_optim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = PyModule::new(m.py(), "rgrad._C._optim")?;
    optim::OPTIMIZERS.iter().try_for_each(|o| add_optimizer(&module, o))?;
    module.add_function(wrap_pyfunction!(unscale, &module)?)?;
    module.add_function(wrap_pyfunction!(scale_all, &module)?)?;
    module.add_function(wrap_pyfunction!(total_norm, &module)?)?;
    m.add("_optim", module)
}
