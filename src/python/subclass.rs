//! Subclasses of Tensor: what operations on them return, which `__torch_function__` decides.
//!
//! Note [Functions on subclasses]
//! As in PyTorch, a function with an argument of a subclass is handed to the `__torch_function__` of that class; the one
//! that Tensor has makes the results tensors of the class. Operations of the table ask here before they look at their
//! arguments, and the operators of a subclass are wrapped when the class is made (`rgrad/_subclass.py`), so that plain
//! tensors and parameters, whose class takes no part, pay one load.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use super::tensor::PyTensor;
use crate::ops::autocast::WATCHED;

/// Whether there is a subclass that takes part.
static MET: AtomicBool = AtomicBool::new(false);

thread_local! {
    static DISABLED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a call needs looking at: for the classes of its arguments, or for autocast.
#[inline(always)]
pub fn is_watched() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// To be called when a subclass that takes part is made.
#[pyfunction(name = "_meet_subclass")]
pub fn meet_subclass() {
    if !MET.swap(true, Ordering::Relaxed) {
        WATCHED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets whether `__torch_function__` is passed over on this thread; returns what was set before.
#[pyfunction(name = "_set_torch_function_disabled")]
pub fn set_torch_function_disabled(disabled: bool) -> bool {
    DISABLED.replace(disabled)
}

/// The `__torch_function__` of classes that take no part, such as Parameter.
#[pyfunction(name = "_disabled_torch_function_impl")]
#[pyo3(signature = (func, types, args=None, kwargs=None))]
pub fn disabled_torch_function<'py>(
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyTuple>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = types;
    let before = DISABLED.replace(true);
    let out = func.call(args.unwrap_or(&PyTuple::empty(func.py())), kwargs);
    DISABLED.set(before);
    out
}

/// Adds the class of an argument to those that take part, a subclass before what it inherits from.
fn note<'py>(classes: &mut Vec<Bound<'py, PyType>>, arg: &Bound<'py, PyAny>) -> PyResult<()> {
    if arg.cast::<PyTensor>().is_err() {
        return Ok(());
    }
    let py = arg.py();
    let class = arg.get_type();
    if classes.iter().any(|c| c.is(&class)) || !class.getattr(intern!(py, "_takes_part"))?.is_truthy()? {
        return Ok(());
    }
    let mut at = classes.len();
    for (i, c) in classes.iter().enumerate() {
        if class.is_subclass(c)? {
            at = i;
            break;
        }
    }
    classes.insert(at, class);
    Ok(())
}

fn classes_of<'a, 'py: 'a>(
    args: impl Iterator<Item = &'a Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyType>>> {
    let mut classes = Vec::new();
    for arg in args {
        note(&mut classes, arg)?;
        match (arg.cast::<PyTuple>(), arg.cast::<PyList>()) {
            (Ok(t), _) => t.iter().try_for_each(|x| note(&mut classes, &x))?,
            (_, Ok(l)) => l.iter().try_for_each(|x| note(&mut classes, &x))?,
            _ => {}
        }
    }
    Ok(classes)
}

/// What the subclasses among the arguments make of a call of the function that `func` finds; None where there are none.
pub fn overridden<'py>(
    func: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    args: &[&Bound<'py, PyAny>],
    kwargs: &[(&Bound<'py, PyAny>, &Bound<'py, PyAny>)],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !MET.load(Ordering::Relaxed) || DISABLED.get() {
        return Ok(None);
    }
    let classes = classes_of(args.iter().copied().chain(kwargs.iter().map(|(_, v)| *v)))?;
    let Some(first) = classes.first() else { return Ok(None) };
    let py = first.py();
    let (func, types) = (func()?, PyTuple::new(py, &classes)?);
    let args = PyTuple::new(py, args.iter().copied())?;
    let named = if kwargs.is_empty() { None } else { Some(PyDict::new(py)) };
    for (name, value) in kwargs {
        named.as_ref().map_or(Ok(()), |named| named.set_item(name, value))?;
    }
    for class in &classes {
        let out = class.call_method1(intern!(py, "__torch_function__"), (&func, &types, &args, &named))?;
        if !out.is(py.NotImplemented()) {
            return Ok(Some(out));
        }
    }
    let name: String = func.getattr("__name__")?.extract()?;
    let names: Vec<String> =
        classes.iter().map(|c| c.repr().map(|r| r.to_string())).collect::<PyResult<_>>()?;
    Err(PyTypeError::new_err(format!(
        "Multiple dispatch failed for 'torch.{name}'; all __torch_function__ handlers returned NotImplemented:\n\n  - tensor \
         subclass {}",
        names.join("\n  - tensor subclass ")
    )))
}

/// Calls a function as an operation of the table would be: by way of `__torch_function__`, if that is asked for.
#[pyfunction(name = "_call_torch_function")]
pub fn call_torch_function<'py>(
    func: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let positional: Vec<_> = args.iter().collect();
    let named: Vec<_> = kwargs.iter().collect();
    let out = overridden(
        || Ok(func.clone()),
        &positional.iter().collect::<Vec<_>>(),
        &named.iter().map(|(k, v)| (k, v)).collect::<Vec<_>>(),
    )?;
    out.map_or_else(|| func.call(args, Some(kwargs)), Ok)
}
