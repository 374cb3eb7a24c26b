//! Modes: interpreters at the bottom of a thread's stack.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::calls::compute;
use super::hosting::meet_dispatch;
use super::nodes::compute_node;
use crate::error::Result;
use crate::graph::{BelowAutograd, Grads};
use crate::ops::interpreter::{self, Interpreter, Next, NodeCall, OpCall};
use crate::ops::schema::{Out, Value};

/// A mode as an interpreter.
pub(super) struct Mode(pub(super) Py<PyAny>);

impl Interpreter for Mode {
    fn concerns(&self, _: &OpCall) -> bool {
        !DISABLED.get()
    }

    fn call(&self, call: &OpCall, values: &[Value], _: Next) -> Result<Out> {
        compute(call, values, Some(&self.0))
    }

    fn call_node(&self, call: &NodeCall) -> Result<Grads> {
        if DISABLED.get() { call.run(call.grads.clone()) } else { compute_node(call, Some(&self.0)) }
    }

    fn is_at_bottom(&self) -> bool {
        true
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// A mode on the stack until this is dropped.
pub(super) struct Pushed(Arc<dyn Interpreter>);

impl Pushed {
    pub(super) fn new(mode: Mode) -> Pushed {
        let mode: Arc<dyn Interpreter> = Arc::new(mode);
        interpreter::push(mode.clone());
        Pushed(mode)
    }
}

impl Drop for Pushed {
    fn drop(&mut self) {
        interpreter::remove(&self.0);
    }
}

pub(super) fn as_mode(i: &Arc<dyn Interpreter>) -> Option<&Mode> {
    i.as_any()?.downcast_ref()
}

/// The innermost mode of this thread, and its place on the stack; None where modes are ignored.
pub(super) fn innermost(py: Python<'_>) -> Option<(usize, Py<PyAny>)> {
    if !interpreter::active() || DISABLED.get() {
        return None;
    }
    let stack = interpreter::capture();
    stack.iter().enumerate().rev().find_map(|(at, i)| Some((at, as_mode(i)?.0.clone_ref(py))))
}

/// Whether a mode of this thread sees calls.
#[inline(always)]
pub fn any_mode() -> bool {
    interpreter::active() && !DISABLED.get() && interpreter::capture().iter().any(|i| as_mode(i).is_some())
}

/// Pushes a mode on this thread's stack.
#[pyfunction(name = "_push_on_torch_dispatch_stack")]
pub fn push_dispatch_mode(mode: Py<PyAny>) {
    meet_dispatch();
    interpreter::push(Arc::new(Mode(mode)));
}

/// Pops the innermost mode.
#[pyfunction(name = "_pop_torch_dispatch_stack")]
pub fn pop_dispatch_mode(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let stack = interpreter::capture();
    let innermost = stack.iter().rev().find(|i| as_mode(i).is_some());
    match innermost {
        Some(i) if interpreter::remove(i) => {
            as_mode(i).map(|m| m.0.clone_ref(py)).ok_or_else(|| PyRuntimeError::new_err("not a mode"))
        }
        _ => Err(PyRuntimeError::new_err("trying to pop from empty mode stack")),
    }
}

/// The modes of this thread, the outermost first.
#[pyfunction(name = "_torch_dispatch_stack")]
pub fn dispatch_modes(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let stack = interpreter::capture();
    PyList::new(py, stack.iter().filter_map(as_mode).map(|m| m.0.clone_ref(py)).collect::<Vec<_>>())
}

thread_local! {
    /// Whether classes and modes are ignored.
    static DISABLED: Cell<bool> = const { Cell::new(false) };
}

/// Whether classes and modes are ignored on this thread.
pub fn disabled() -> bool {
    DISABLED.get()
}

/// Ignores classes and modes on this thread; returns the previous setting.
#[pyfunction(name = "_set_torch_dispatch_disabled")]
pub fn set_dispatch_disabled(disabled: bool) -> bool {
    DISABLED.replace(disabled)
}

/// Whether classes and modes are ignored on this thread.
#[pyfunction(name = "_torch_dispatch_disabled")]
pub fn dispatch_disabled() -> bool {
    DISABLED.get()
}

/// Suspends recording below autograd, or ends that, on this thread; returns the previous setting.
#[pyfunction(name = "_set_below_autograd")]
pub fn set_below_autograd(below: bool) -> bool {
    BelowAutograd::replace(below)
}
