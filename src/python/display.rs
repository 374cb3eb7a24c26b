//! Printing tensors.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::convert::scalar;
use super::error::IntoPy;
use super::object::{PyTensor, TensorObject, is_exact};
use crate::device::Device;
use crate::ops::{self, view};
use crate::tensor::Tensor;
use crate::tensor::display::{self, PrintOptions};

#[pymethods]
impl PyTensor {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let class = slf.get_type().name()?.to_string();
        // `repr` of a Parameter precedes this text with its class name.
        let class = if matches!(class.as_str(), "Tensor" | "Parameter") { "tensor" } else { &class };
        Ok(repr_of(&slf.tensor(), class))
    }

    /// A 0-d tensor is formatted like its number.
    fn __format__(slf: &Bound<'_, Self>, spec: &str) -> PyResult<String> {
        let py = slf.py();
        let t = slf.tensor();
        if t.rank() == 0 && is_exact(slf) && t.device() != Device::Meta {
            return scalar(py, t.item().py()?)?.call_method1(py, "__format__", (spec,))?.extract(py);
        }
        if spec.is_empty() {
            return slf.str()?.extract();
        }
        Err(PyTypeError::new_err(format!(
            "unsupported format string passed to {}.__format__",
            slf.get_type().name()?
        )))
    }
}

/// Sets the print options. `threshold` and `linewidth` may be infinite.
#[pyfunction(name = "_set_printoptions")]
pub fn set_printoptions(
    precision: usize,
    threshold: f64,
    edgeitems: usize,
    linewidth: f64,
    sci_mode: Option<bool>,
) {
    display::set_options(PrintOptions {
        precision,
        threshold,
        edgeitems,
        linewidth: linewidth as usize,
        sci_mode,
    });
}

/// The precision, threshold, edge items, line width and scientific mode.
#[pyfunction(name = "_get_printoptions")]
pub fn get_printoptions() -> (usize, f64, usize, usize, Option<bool>) {
    let o = display::options();
    (o.precision, o.threshold, o.edgeitems, o.linewidth, o.sci_mode)
}

/// The text of a tensor; of one that stands for the slices of another, that of the other by levels, the innermost first.
fn repr_of(t: &Tensor, class: &str) -> String {
    let Some(batch) = t.batch() else { return display::repr(t, class, ops::default_dtype()) };
    let (levels, innermost) = (batch.levels(), batch.levels().len() - 1);
    // As `vmap` was given it. A tensor that was moved has a history of its own, which is not shown.
    let moved = |to: usize| view::movedim(&batch.value().detach(), &[innermost as i64], &[to as i64]);
    let given = (batch.entered() != 0).then(|| moved(innermost + batch.entered())).transpose();
    let mut text = repr_of(given.ok().flatten().as_ref().unwrap_or(batch.value()), class);
    for (i, level) in levels.iter().enumerate() {
        let dim = if i == innermost { batch.entered() } else { 0 };
        text =
            format!("BatchedTensor(lvl={level}, bdim={dim}, value=\n    {}\n)", text.replace('\n', "\n    "));
    }
    text
}
