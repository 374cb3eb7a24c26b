//! Conversion of core errors to Python exceptions.

use std::ffi::CString;

use pyo3::create_exception;
use pyo3::exceptions::{
    PyAssertionError, PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyUserWarning,
    PyValueError,
};
use pyo3::prelude::*;

use crate::error::{Error, Kind};

create_exception!(
    rgrad._C,
    _LinAlgError,
    PyRuntimeError,
    "An algorithm of linear algebra found no answer: `linalg.LinAlgError`."
);
pyo3::create_exception!(rgrad, OutOfMemoryError, PyRuntimeError, "The memory of a device is used up.");

/// The only mapping of errors to exceptions.
pub fn to_py(e: Error) -> PyErr {
    if let Error::Foreign(any) = e {
        return match any.downcast::<PyErr>() {
            Ok(err) => *err,
            Err(_) => PyRuntimeError::new_err("an error of unknown origin passed through the engine"),
        };
    }
    if matches!(e, Error::ZeroDivision) {
        return PyRuntimeError::new_err("ZeroDivisionError");
    }
    let text = e.to_string();
    match e.kind() {
        Kind::Runtime | Kind::Foreign => PyRuntimeError::new_err(text),
        Kind::OutOfMemory => OutOfMemoryError::new_err(text + &owners()),
        Kind::Index => PyIndexError::new_err(text),
        Kind::Type => PyTypeError::new_err(text),
        Kind::Value => PyValueError::new_err(text),
        Kind::NotImplemented => PyNotImplementedError::new_err(text),
        Kind::Assertion => PyAssertionError::new_err(text),
        Kind::LinAlg => _LinAlgError::new_err(text),
    }
}

/// A summary of the owners of GPU memory (`rgrad.gpu._owners_summary`). If it fails, the out-of-memory error is still
/// raised.
#[cold]
fn owners() -> String {
    Python::attach(|py| {
        let text = py.import("rgrad.gpu").and_then(|gpu| gpu.call_method0("_owners_summary"));
        text.and_then(|text| text.extract()).unwrap_or_default()
    })
}

/// Wraps a Python exception to pass it through the core.
pub fn foreign(e: PyErr) -> Error {
    Error::Foreign(Box::new(e))
}

/// A Rust panic: a bug in rgrad, reported without ending the process.
pub fn panicked(payload: Box<dyn std::any::Any + Send>) -> PyErr {
    let what = payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    PyRuntimeError::new_err(format!("rgrad panicked: {what}. This is a bug in rgrad; please report it."))
}

/// Issues a `UserWarning` at the current line of Python code.
pub fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(text)?, 1)
}

/// Maps errors to Python exceptions.
pub trait IntoPy<T> {
    fn py(self) -> PyResult<T>;
}

impl<T> IntoPy<T> for crate::error::Result<T> {
    #[inline(always)]
    fn py(self) -> PyResult<T> {
        self.map_err(to_py)
    }
}
