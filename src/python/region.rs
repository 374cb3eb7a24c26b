//! Regions of deferred operations: `rgrad.compiler` and `rgrad.defer`.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::error::IntoPy;
use crate::backend::defer;

thread_local!(static COMPILED_CALLS: Cell<usize> = const { Cell::new(0) });

/// Opens a region on this thread; with `log`, collects what is computed together; with `whole`, a value that is read
/// before the end is an error.
#[pyfunction(name = "_enter_region")]
#[pyo3(signature = (log=false, whole=false))]
pub fn enter_region(log: bool, whole: bool) {
    defer::enter(log, whole);
}

/// Tells the layer below what it needs of those above.
pub fn connect() {
    defer::set_steps(crate::ops::pointwise::step);
    defer::set_where(line_of_the_program);
}

/// The line of the program that runs now.
fn line_of_the_program() -> String {
    Python::attach(|py| {
        let line = py.import("rgrad.compiler").and_then(|m| m.call_method0("_where"));
        line.and_then(|line| line.extract()).unwrap_or_default()
    })
}

/// Closes the innermost region of this thread; the outermost runs what is deferred. Returns the log.
#[pyfunction(name = "_exit_region")]
pub fn exit_region() -> PyResult<Vec<String>> {
    defer::exit().py()
}

/// Calls a function in a region.
#[pyfunction(name = "_call_in_region")]
pub fn call_in_region<'py>(
    function: Bound<'py, PyAny>,
    args: Bound<'py, PyTuple>,
    kwargs: Bound<'py, PyDict>,
    whole: bool,
) -> PyResult<Bound<'py, PyAny>> {
    enter_region(false, whole);
    COMPILED_CALLS.set(COMPILED_CALLS.get() + 1);
    let result = function.call(args, Some(&kwargs));
    COMPILED_CALLS.set(COMPILED_CALLS.get() - 1);
    // The first error is the one to see.
    let ended = defer::exit().py();
    let result = result?;
    ended.map(|_| result)
}

/// Whether a compiled function runs on this thread, and is not in a part that was taken out.
#[pyfunction(name = "_is_compiling")]
pub fn is_compiling() -> bool {
    COMPILED_CALLS.get() > 0 && defer::is_deferring()
}

/// Turns deferring off (or on) in this thread's region; returns whether it was off.
#[pyfunction(name = "_pause_region")]
pub fn pause_region(paused: bool) -> PyResult<bool> {
    defer::pause(paused).py()
}

/// Whether operations of this thread are deferred.
#[pyfunction(name = "_is_deferring")]
pub fn is_deferring() -> bool {
    defer::is_deferring()
}

/// A region as a context manager.
#[pyclass(name = "_Region", module = "rgrad._C", subclass, frozen)]
pub struct Region;

#[pymethods]
impl Region {
    #[new]
    fn new() -> Region {
        Region
    }

    fn __enter__(&self) {
        enter_region(false, false);
    }

    #[pyo3(signature = (kind, error, traceback))]
    fn __exit__(
        &self,
        kind: Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
        traceback: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (error, traceback);
        let ended = defer::exit().py();
        // The first error is the one to see.
        if kind.is_none() { ended.map(drop) } else { Ok(()) }
    }
}
