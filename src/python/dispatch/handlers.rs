//! Calling `__torch_dispatch__`.

use std::cell::RefCell;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::arguments::{form_name, python_arguments};
use super::calls::Computed;
use super::modes::{Mode, Pushed, as_mode};
use crate::ops::interpreter::{self, OpCall};
use crate::ops::schema::Value;
use crate::python::method::operation_of;
use crate::python::object::wrap;
use crate::tensor::Tensor;

/// Calls the `__torch_dispatch__` of a mode, then those of the arguments.
pub(super) fn call_handlers(
    py: Python<'_>,
    call: &OpCall,
    values: &[Value],
    arguments: &[Tensor],
    mode: Option<&Py<PyAny>>,
) -> PyResult<Computed> {
    let (args, kwargs) = python_arguments(py, call, values)?;
    let module = py.import(intern!(py, "rgrad._dispatch"))?;
    let own = operation_of(call).map(|own| Bound::new(py, own)).transpose()?;
    let name = (call.op.name, call.overload.sig, form_name(&call.form), &args, &kwargs, own);
    let shown = module.getattr(intern!(py, "operation"))?.call1(name)?;
    let shown = Shown::of(&shown)?;
    let out = handle(py, &shown, arguments, mode)?;
    Computed::of(&out)
}

/// A call as handlers get it.
pub(super) struct Shown<'py> {
    pub(super) func: Bound<'py, PyAny>,
    pub(super) args: Bound<'py, PyTuple>,
    pub(super) kwargs: Bound<'py, PyDict>,
    /// What `func` calls while a handler runs.
    pub(super) function: Bound<'py, PyAny>,
}

impl<'py> Shown<'py> {
    pub(super) fn of(shown: &Bound<'py, PyAny>) -> PyResult<Shown<'py>> {
        let (func, args, kwargs, function) = shown.extract()?;
        Ok(Shown { func, args, kwargs, function })
    }
}

pub(super) fn handle<'py>(
    py: Python<'py>,
    shown: &Shown<'py>,
    arguments: &[Tensor],
    mode: Option<&Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Shown { func, args, kwargs, function, .. } = shown;
    let module = py.import(intern!(py, "rgrad._dispatch"))?;
    module.getattr(intern!(py, "begin"))?.call1((func, function))?;
    let out = ask(py, func, args, kwargs, arguments, mode);
    module.getattr(intern!(py, "end"))?.call0()?;
    let out = out?;
    // Until the next call, so that the result of this one is the object that the handler returned.
    let earlier = LAST.replace(Some(out.clone().unbind()));
    drop(earlier);
    Ok(out)
}

thread_local! {
    /// What the last handler on this thread returned.
    static LAST: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

fn ask<'py>(
    py: Python<'py>,
    func: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    arguments: &[Tensor],
    mode: Option<&Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = intern!(py, "__torch_dispatch__");
    let mut objects: Vec<Bound<PyAny>> = Vec::new();
    for t in arguments.iter().filter(|t| t.is_hosted()) {
        let object = wrap(py, t.clone())?.into_bound(py);
        let class = object.get_type();
        if objects.iter().any(|o| o.get_type().is(&class)) {
            continue;
        }
        let mut at = objects.len();
        for (i, o) in objects.iter().enumerate() {
            if class.is_subclass(&o.get_type())? {
                at = i;
                break;
            }
        }
        objects.insert(at, object);
    }
    let types = PyTuple::new(py, objects.iter().map(|o| o.get_type()))?;
    let mut refused = Vec::new();
    if let Some(mode) = mode {
        let out = mode.bind(py).call_method1(name, (func, &types, args, kwargs))?;
        if !out.is(py.NotImplemented()) {
            return Ok(out);
        }
        refused.push(format!("mode object {}", mode.bind(py).repr()?));
        let outer = interpreter::capture();
        for (at, mode) in outer.iter().enumerate().rev() {
            let Some(mode) = as_mode(mode) else { continue };
            let out = interpreter::outside(at, || {
                mode.0.bind(py).call_method1(name, (func, &types, args, kwargs))
            })?;
            if !out.is(py.NotImplemented()) {
                return Ok(out);
            }
            refused.push(format!("mode object {}", mode.0.bind(py).repr()?));
        }
    }
    for object in &objects {
        // A mode that left the call to the classes sees what these call.
        let _refused = mode.map(|mode| Pushed::new(Mode(mode.clone_ref(py))));
        let out = object.call_method1(name, (func, &types, args, kwargs))?;
        if !out.is(py.NotImplemented()) {
            return Ok(out);
        }
        refused.push(format!("tensor subclass {}", object.get_type().repr()?));
    }
    Err(PyTypeError::new_err(format!(
        "Multiple dispatch failed for 'torch.ops.{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n  - {}",
        refused.join("\n  - ")
    )))
}

/// Drops what the last handler returned, after Python has got it.
#[cold]
pub fn forget_last() {
    drop(LAST.take());
}
