//! Optimizer steps: `rgrad._C._optim`.

use pyo3::prelude::*;

use super::convert::{opt_tensor_list, tensor_list};
use super::error::IntoPy;
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::optim;
use crate::tensor::Tensor;

type Any<'a, 'py> = &'a Bound<'py, PyAny>;

/// What a step makes, for Python.
trait Made {
    type Python;
    fn for_python(self, py: Python<'_>) -> PyResult<Self::Python>;
}

impl Made for () {
    type Python = ();
    fn for_python(self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}

impl Made for Option<Vec<Tensor>> {
    type Python = Option<Vec<Py<PyAny>>>;
    fn for_python(self, py: Python<'_>) -> PyResult<Self::Python> {
        self.map(|all| all.into_iter().map(|t| wrap(py, t)).collect()).transpose()
    }
}

macro_rules! list {
    (tensors $list:ident) => {
        tensor_list($list)?
    };
    (gaps $list:ident) => {
        opt_tensor_list($list)?
    };
}

/// The function of each optimizer, with arguments of its own: to read settings from a table costs a small step 2 µs.
macro_rules! functions {
    ($($name:ident($($list:ident: $kind:ident),+) -> $made:ty, $settings:ident { $($(#[$note:meta])* $field:ident: $type:ty,)+ })*) => {
        $(
            #[pyfunction]
            #[pyo3(signature = ($($list),+, *, $($field),+))]
            fn $name(py: Python<'_>, $($list: Any,)+ $($field: $type),+) -> PyResult<<$made as Made>::Python> {
                $(let $list = list!($kind $list);)+
                let settings = optim::$settings { $($field),+ };
                py.detach(|| optim::$name($(&$list,)+ settings)).py()?.for_python(py)
            }
        )*

        fn add_steps(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}
optim::optimizers!(functions);

/// Multiplies gradients by the inverse loss scale; returns a tensor of 1 if any was infinite or NaN, else of 0.
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

/// The norm over all elements of all tensors.
#[pyfunction]
#[pyo3(signature = (tensors, p=2.0))]
fn total_norm(py: Python<'_>, tensors: Any, p: f64) -> PyResult<Py<PyAny>> {
    let tensors = tensor_list(tensors)?;
    wrap(py, py.detach(|| optim::total_norm(&tensors, p)).py()?)
}

/// Adds the submodule `_optim`.
pub fn add_optim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let optim = PyModule::new(m.py(), "rgrad._C._optim")?;
    add_steps(&optim)?;
    optim.add_function(wrap_pyfunction!(unscale, &optim)?)?;
    optim.add_function(wrap_pyfunction!(scale_all, &optim)?)?;
    optim.add_function(wrap_pyfunction!(total_norm, &optim)?)?;
    m.add("_optim", optim)
}
