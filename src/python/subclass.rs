//! `__torch_function__`: overrides by subclasses of Tensor, tensor-like objects, and modes.
//!
//! Note [Functions that can be overridden] As in PyTorch, a call goes first to the innermost mode of the thread, then
//! to the `__torch_function__` of those arguments that have one. While a mode handles a call, only the outer modes are
//! active. Operations of the table and operators check for overrides before they convert arguments, but only if
//! [`is_watched`] reports a mode or a participating subclass, so plain tensors and parameters pay for a single load.
//! An argument that matches no signature is asked if nothing else matches. Everything else of Tensor (properties,
//! methods outside the table) is wrapped by `rgrad/_subclass.py`: for a subclass when it is created, for Tensor when
//! the first mode is entered.
//!
//! This layer is above the interpreters of the core (Note [One door]), since it handles the Python callable and the
//! original arguments, which need not be tensors.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::tensor::PyTensor;
use crate::ops::interpreter::{INTERPRETERS, active};

/// Whether any participating subclass was created.
static MET: AtomicBool = AtomicBool::new(false);

/// Which overrides are disabled.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Disabled {
    Nothing,
    /// Those of arguments.
    Arguments,
    /// Also those of modes.
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

/// Removes the innermost mode from the stack; restores it when dropped.
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

/// Whether a call must check for overrides before its arguments are matched; also true if any interpreter is active.
#[inline(always)]
pub fn is_watched() -> bool {
    active()
}

/// Must be called when a participating subclass is created.
#[pyfunction(name = "_meet_subclass")]
pub fn meet_subclass() {
    if !MET.swap(true, Ordering::Relaxed) {
        INTERPRETERS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Disables overrides on this thread: 0 for none, 1 for those of arguments, 2 also for modes. Returns the previous
/// setting.
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

/// Pushes a mode on this thread's stack.
#[pyfunction(name = "_push_on_torch_function_stack")]
pub fn push_mode(mode: Py<PyAny>) {
    MODES.with(|m| m.push(mode));
}

/// Pops the innermost mode.
#[pyfunction(name = "_pop_torch_function_stack")]
pub fn pop_mode() -> PyResult<Py<PyAny>> {
    MODES.with(Modes::pop).ok_or_else(|| PyRuntimeError::new_err("trying to pop from empty mode stack"))
}

#[pyfunction(name = "_len_torch_function_stack")]
pub fn count_modes() -> usize {
    MODES.with(Modes::len)
}

/// The mode at a level of the stack; the outermost is at 0.
#[pyfunction(name = "_get_function_stack_at")]
pub fn mode_at(py: Python<'_>, level: usize) -> PyResult<Py<PyAny>> {
    let mode = MODES.with(|m| m.0.borrow().get(level).map(|mode| mode.clone_ref(py)));
    mode.ok_or_else(|| PyIndexError::new_err(format!("there is no mode at level {level}")))
}

/// The `__torch_function__` of classes that do not participate, such as Parameter.
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

/// Whether an argument is of a class that overrides nothing, asked before its attributes are.
const BUILTIN: [fn(&Bound<'_, PyAny>) -> bool; 5] = [
    |arg| arg.is_none(),
    |arg| arg.is_exact_instance_of::<PyInt>(),
    |arg| arg.is_exact_instance_of::<PyFloat>(),
    |arg| arg.is_exact_instance_of::<PyBool>(),
    |arg| arg.is_exact_instance_of::<PyString>(),
];

/// Whether a class overrides functions. Plain tensors have the method, but do not participate.
fn takes_part(arg: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = arg.py();
    let class = arg.get_type();
    if super::object::is_plain(arg) || BUILTIN.iter().any(|is| is(arg)) {
        return Ok(false);
    }
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

/// The arguments of a call that override functions: one per class, subclasses before their base classes.
#[derive(Default)]
struct Overloaded<'py> {
    args: Vec<Bound<'py, PyAny>>,
    /// Whether plain tensors are among the arguments.
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

    /// Collects them from arguments and from lists and tuples among these. `all` includes plain tensors.
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

/// The result of overrides of a call by modes and arguments, or None if there are no overrides; `func` returns the
/// called function. With `all`, the types include plain tensors, as for functions that PyTorch implements in Python.
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
    /// Calls the innermost mode, then the arguments in order.
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

/// Calls the innermost mode and the `__torch_function__` of the arguments `relevant`.
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

/// Operators that PyTorch implements in Python, for which the types include plain tensors.
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

/// As [`overridden`], for an operator reported as the method `name`; a TypeError becomes NotImplemented.
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

/// Whether `__torch_function__` handled an in-place operator, reported as the method `name`.
#[cold]
pub fn inplace_overridden(name: &str, slf: &Bound<'_, PyTensor>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = slf.py();
    let all = SHOWN_WITH_PLAIN.contains(&name);
    Ok(overridden(py, || tensor_attribute(py, name), &[slf.as_any(), other], &[], all)?.is_some())
}

/// Calls the `__torch_function__` of the tensor, the index or the value that is written; None if none of them has one.
#[inline]
pub fn index_overridden<'py>(name: &str, args: &[&Bound<'py, PyAny>]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(first) = args.first().filter(|_| is_watched() && !is_torch_function_mode_enabled()) else {
        return Ok(None);
    };
    let py = first.py();
    overridden(py, || tensor_attribute(py, name), args, &[], false)
}

/// A method of the class `Tensor`.
pub fn tensor_attribute<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    super::object::class_object(py).getattr(name)
}

/// The override of `rgrad.tensor` and similar constructors by a mode; their data is not searched for overrides.
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

/// Calls a function as if it were an operation of the table, through `__torch_function__` if needed.
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

/// Whether a mode is active or any of the arguments has a `__torch_function__` to call.
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
