//! `__torch_function__`: what subclasses of Tensor, objects that pass for tensors, and modes make of calls.
//!
//! Note [Functions that can be overridden]
//! As in PyTorch, a call is first handed to the innermost mode of the thread, then to the `__torch_function__` of the
//! arguments that have one. While a mode runs, the modes are those below it. Operations of the table and the operators
//! ask here before they look at their arguments, once [`is_watched`] says that a mode or a subclass is about; so plain
//! tensors and parameters, whose class takes no part, pay one load. An argument that no signature takes is asked when
//! nothing else fits. Whatever else Tensor has (properties, methods that are not in the table) is wrapped by
//! `rgrad/_subclass.py`: on a subclass when it is made, on Tensor when the first mode is entered.
//!
//! This stands above the interpreters of the core (Note [One door]), as it sees the callable and the arguments that
//! Python passed, which need not be tensors.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::tensor::PyTensor;
use crate::ops::interpreter::{INTERPRETERS, active};

/// Whether there is a subclass that takes part.
static MET: AtomicBool = AtomicBool::new(false);

/// What is passed over.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Disabled {
    Nothing,
    /// What arguments have.
    Arguments,
    /// Modes as well.
    All,
}

/// The modes of a thread, outermost first.
struct Modes(RefCell<Vec<Py<PyAny>>>);

thread_local! {
    static DISABLED: Cell<Disabled> = const { Cell::new(Disabled::Nothing) };
    static MODES: Modes = const { Modes(RefCell::new(Vec::new())) };
}

impl Modes {
    fn push(&self, mode: Py<PyAny>) {
        let mut modes = self.0.borrow_mut();
        if modes.is_empty() {
            INTERPRETERS.fetch_add(1, Ordering::Relaxed);
        }
        modes.push(mode);
    }

    fn pop(&self) -> Option<Py<PyAny>> {
        let mut modes = self.0.borrow_mut();
        let mode = modes.pop();
        if mode.is_some() && modes.is_empty() {
            INTERPRETERS.fetch_sub(1, Ordering::Relaxed);
        }
        mode
    }

    fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The innermost mode, which is off the stack until this is dropped.
struct Stashed(Option<Py<PyAny>>);

impl Stashed {
    fn innermost() -> Stashed {
        Stashed(MODES.with(Modes::pop))
    }
}

impl Drop for Stashed {
    fn drop(&mut self) {
        if let Some(mode) = self.0.take() {
            MODES.with(|m| m.push(mode));
        }
    }
}

/// Whether a call needs looking at before its arguments are matched; true for the sake of any interpreter.
#[inline(always)]
pub fn is_watched() -> bool {
    active()
}

/// To be called when a subclass that takes part is made.
#[pyfunction(name = "_meet_subclass")]
pub fn meet_subclass() {
    if !MET.swap(true, Ordering::Relaxed) {
        INTERPRETERS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets what is passed over on this thread: 0 for nothing, 1 for what arguments have, 2 for modes as well. Returns what
/// was set before.
#[pyfunction(name = "_set_torch_function_disabled")]
pub fn set_torch_function_disabled(disabled: u8) -> u8 {
    let to = match disabled {
        0 => Disabled::Nothing,
        1 => Disabled::Arguments,
        _ => Disabled::All,
    };
    DISABLED.replace(to) as u8
}

#[pyfunction(name = "_is_torch_function_enabled")]
pub fn is_torch_function_enabled() -> bool {
    DISABLED.get() == Disabled::Nothing
}

#[pyfunction(name = "_is_torch_function_mode_enabled")]
pub fn is_torch_function_mode_enabled() -> bool {
    DISABLED.get() != Disabled::All && MODES.with(Modes::len) > 0
}

/// Makes a mode the innermost one of this thread.
#[pyfunction(name = "_push_on_torch_function_stack")]
pub fn push_mode(mode: Py<PyAny>) {
    MODES.with(|m| m.push(mode));
}

/// Takes the innermost mode off the stack.
#[pyfunction(name = "_pop_torch_function_stack")]
pub fn pop_mode() -> PyResult<Py<PyAny>> {
    MODES.with(Modes::pop).ok_or_else(|| PyRuntimeError::new_err("trying to pop from empty mode stack"))
}

#[pyfunction(name = "_len_torch_function_stack")]
pub fn count_modes() -> usize {
    MODES.with(Modes::len)
}

/// The mode at a place of the stack, the outermost being at 0.
#[pyfunction(name = "_get_function_stack_at")]
pub fn mode_at(py: Python<'_>, level: usize) -> PyResult<Py<PyAny>> {
    let mode = MODES.with(|m| m.0.borrow().get(level).map(|mode| mode.clone_ref(py)));
    mode.ok_or_else(|| PyIndexError::new_err(format!("there is no mode at level {level}")))
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
    let before = DISABLED.get();
    if before == Disabled::Nothing {
        DISABLED.set(Disabled::Arguments);
    }
    let out = func.call(args.unwrap_or(&PyTuple::empty(func.py())), kwargs);
    DISABLED.set(before);
    out
}

/// Whether a class overrides functions. Plain tensors have the method, but leave functions as they are.
fn takes_part(arg: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = arg.py();
    let class = arg.get_type();
    if arg.cast::<PyTensor>().is_ok() {
        return class.getattr(intern!(py, "_takes_part"))?.is_truthy();
    }
    match class.getattr_opt(intern!(py, "__torch_function__"))? {
        Some(function) => {
            let name = function.getattr_opt(intern!(py, "__name__"))?;
            Ok(!name.is_some_and(|n| n.eq("_disabled_torch_function_impl").unwrap_or(false)))
        }
        None => Ok(false),
    }
}

/// The arguments of a call that override functions, one of each class, a subclass before what it inherits from.
#[derive(Default)]
struct Overloaded<'py> {
    args: Vec<Bound<'py, PyAny>>,
    /// Plain tensors are among them.
    any_plain: bool,
}

impl<'py> Overloaded<'py> {
    fn note(&mut self, arg: &Bound<'py, PyAny>, all: bool) -> PyResult<()> {
        let class = arg.get_type();
        if self.args.iter().any(|a| a.get_type().is(&class)) {
            return Ok(());
        }
        if !takes_part(arg)? {
            if !(all && super::object::is_plain(arg)) {
                return Ok(());
            }
            self.any_plain = true;
        }
        let mut at = self.args.len();
        for (i, a) in self.args.iter().enumerate() {
            if class.is_subclass(&a.get_type())? {
                at = i;
                break;
            }
        }
        self.args.insert(at, arg.clone());
        Ok(())
    }

    /// Those of the arguments and of lists and tuples among them. `all` counts plain tensors too.
    fn of<'a>(args: impl Iterator<Item = &'a Bound<'py, PyAny>>, all: bool) -> PyResult<Overloaded<'py>>
    where
        'py: 'a,
    {
        let mut found = Overloaded::default();
        for arg in args {
            match (arg.cast::<PyTuple>(), arg.cast::<PyList>()) {
                (Ok(t), _) => t.iter().try_for_each(|x| found.note(&x, all))?,
                (_, Ok(l)) => l.iter().try_for_each(|x| found.note(&x, all))?,
                _ => found.note(arg, all)?,
            }
        }
        Ok(found)
    }
}

/// What modes and arguments make of a call of the function that `func` finds; None where there are none. With `all`,
/// plain tensors are shown among the types, as functions show them that PyTorch has written in Python.
pub fn overridden<'py>(
    py: Python<'py>,
    func: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    args: &[&Bound<'py, PyAny>],
    kwargs: &[(&Bound<'py, PyAny>, &Bound<'py, PyAny>)],
    all: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let disabled = DISABLED.get();
    let has_mode = is_torch_function_mode_enabled();
    if disabled == Disabled::All || disabled == Disabled::Arguments && !has_mode {
        return Ok(None);
    }
    let found = match disabled {
        Disabled::Nothing => Overloaded::of(args.iter().copied().chain(kwargs.iter().map(|(_, v)| *v)), all)?,
        _ => Overloaded::default(),
    };
    let only_plain = found.any_plain && found.args.len() == 1;
    if !has_mode && (found.args.is_empty() || only_plain) {
        return Ok(None);
    }
    let args = PyTuple::new(py, args.iter().copied())?;
    let named = if kwargs.is_empty() { None } else { Some(PyDict::new(py)) };
    for (name, value) in kwargs {
        named.as_ref().map_or(Ok(()), |named| named.set_item(name, value))?;
    }
    found.handle(&func()?, &args, named.as_ref()).map(Some)
}

impl<'py> Overloaded<'py> {
    /// Asks the innermost mode, then the arguments in order.
    fn handle(
        &self,
        func: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = func.py();
        let types = PyTuple::new(py, self.args.iter().map(|a| a.get_type()))?;
        let handler = intern!(py, "__torch_function__");
        let mut refused = Vec::new();
        if is_torch_function_mode_enabled()
            && let Stashed(Some(mode)) = &Stashed::innermost()
        {
            let out = mode.bind(py).call_method1(handler, (func, &types, args, kwargs))?;
            if !out.is(py.NotImplemented()) {
                return Ok(out);
            }
            refused.push(format!("mode object {}", mode.bind(py).repr()?));
        }
        for arg in &self.args {
            let out = arg.call_method1(handler, (func, &types, args, kwargs))?;
            if !out.is(py.NotImplemented()) {
                return Ok(out);
            }
            refused.push(format!("tensor subclass {}", arg.get_type().repr()?));
        }
        let name: String = func.getattr("__name__")?.extract()?;
        Err(PyTypeError::new_err(format!(
            "Multiple dispatch failed for 'torch.{name}'; all __torch_function__ handlers returned NotImplemented:\n\n  - {}",
            refused.join("\n  - ")
        )))
    }
}

/// Asks the innermost mode and those of the arguments `relevant` that have a `__torch_function__` for a call.
#[pyfunction(name = "_handle_torch_function")]
pub fn handle_torch_function<'py>(
    func: &Bound<'py, PyAny>,
    relevant: &Bound<'py, PyTuple>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut found = Overloaded::default();
    relevant.iter().try_for_each(|arg| found.note(&arg, true))?;
    found.handle(func, args, Some(kwargs))
}

/// Operators that PyTorch has written in Python, whose types show plain tensors.
const SHOWN_WITH_PLAIN: [&str; 10] = [
    "__rsub__",
    "__rtruediv__",
    "__floordiv__",
    "__rfloordiv__",
    "__rmod__",
    "__rlshift__",
    "__rrshift__",
    "__pow__",
    "__rpow__",
    "__ipow__",
];

/// As [`overridden`], for an operator that is seen as the method `name`. What it does not take, another operand may.
#[cold]
pub fn operator_overridden<'py>(
    name: &str,
    slf: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = slf.py();
    let all = SHOWN_WITH_PLAIN.contains(&name);
    match overridden(py, || tensor_attribute(py, name), &[slf, other], &[], all) {
        Err(e) if e.is_instance_of::<PyTypeError>(py) => Ok(Some(py.NotImplemented().into_bound(py))),
        out => out,
    }
}

/// Whether `__torch_function__` computes an operator in place, that is seen as the method `name`.
#[cold]
pub fn inplace_overridden(name: &str, slf: &Bound<'_, PyTensor>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = slf.py();
    let all = SHOWN_WITH_PLAIN.contains(&name);
    Ok(overridden(py, || tensor_attribute(py, name), &[slf.as_any(), other], &[], all)?.is_some())
}

/// A method of the class that users see.
pub fn tensor_attribute<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    super::object::class_object(py).getattr(name)
}

/// What a mode makes of `rgrad.tensor` and its kin, which look into their data for no `__torch_function__`.
pub fn made_by_mode<'py>(
    py: Python<'py>,
    name: &str,
    data: &Bound<'py, PyAny>,
    wishes: &[(&str, Option<&Bound<'py, PyAny>>)],
    requires_grad: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !is_watched() || !is_torch_function_mode_enabled() {
        return Ok(None);
    }
    let kwargs = PyDict::new(py);
    wishes.iter().try_for_each(|(name, value)| value.map_or(Ok(()), |v| kwargs.set_item(name, v)))?;
    if requires_grad {
        kwargs.set_item("requires_grad", true)?;
    }
    let named: Vec<_> = kwargs.iter().collect();
    let named: Vec<_> = named.iter().map(|(name, value)| (name, value)).collect();
    overridden(py, || py.import("rgrad._C")?.getattr(name), &[data], &named, false)
}

/// Calls a function as an operation of the table would be: by way of `__torch_function__`, if that is asked for.
#[pyfunction(name = "_call_torch_function")]
#[pyo3(signature = (func, args, kwargs, all=false, seen=None))]
pub fn call_torch_function<'py>(
    func: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    all: bool,
    seen: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let positional: Vec<_> = args.iter().collect();
    let named: Vec<_> = kwargs.iter().collect();
    let out = overridden(
        func.py(),
        || Ok(seen.unwrap_or(func).clone()),
        &positional.iter().collect::<Vec<_>>(),
        &named.iter().map(|(k, v)| (k, v)).collect::<Vec<_>>(),
        all,
    )?;
    out.map_or_else(|| func.call(args, Some(kwargs)), Ok)
}

/// Whether a mode is active or one of these has a `__torch_function__` that is to be called.
#[pyfunction(name = "_has_torch_function")]
pub fn has_torch_function(args: &Bound<'_, PyAny>) -> PyResult<bool> {
    if is_torch_function_mode_enabled() {
        return Ok(true);
    }
    if DISABLED.get() != Disabled::Nothing {
        return Ok(false);
    }
    for arg in args.try_iter()? {
        if takes_part(&arg?)? {
            return Ok(true);
        }
    }
    Ok(false)
}
