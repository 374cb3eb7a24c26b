//! Attributes that users give to tensors.
//!
//! Note [A tensor's dict is made when it is first needed]
//! CPython 3.11 and 3.12 make the instance dict of a class that has one together with the object, which costs more
//! than a small operation itself. The class therefore has none; the first assignment of an attribute that no
//! descriptor takes makes one here. Python subclasses such as Parameter have an ordinary dict.

use pyo3::exceptions::PyAttributeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::dtype::type_name;
use super::interop;
use super::tensor::PyTensor;

fn dict<'py>(slf: &Bound<'py, PyTensor>) -> Bound<'py, PyDict> {
    let py = slf.py();
    slf.borrow_mut().attributes.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone()
}

/// Whether the class knows the name, so that an error about it stands.
fn declared(slf: &Bound<'_, PyTensor>, name: &Bound<'_, PyString>) -> bool {
    slf.get_type().hasattr(name).unwrap_or(false)
}

#[pymethods]
impl PyTensor {
    // The dict has this one owner, so the collector may follow it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.attributes)
    }

    fn __clear__(&mut self) {
        self.attributes = None;
    }

    #[getter]
    fn __dict__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyDict> {
        dict(slf)
    }

    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let known = slf.borrow().attributes.as_ref().map(|d| d.clone_ref(py));
        if let Some(value) = known.and_then(|d| d.bind(py).get_item(name).ok().flatten()) {
            return Ok(value);
        }
        Err(PyAttributeError::new_err(format!("'{}' object has no attribute '{name}'", type_name(slf))))
    }

    fn __setattr__<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyString>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        match interop::set_attribute(slf, name, Some(&value)) {
            Err(e) if e.is_instance_of::<PyAttributeError>(slf.py()) && !declared(slf, name) => {
                dict(slf).set_item(name, value)
            }
            done => done,
        }
    }

    fn __delattr__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyString>) -> PyResult<()> {
        match interop::set_attribute(slf, name, None) {
            Err(e) if e.is_instance_of::<PyAttributeError>(slf.py()) && !declared(slf, name) => {
                dict(slf).del_item(name).map_err(|_| e)
            }
            done => done,
        }
    }
}
