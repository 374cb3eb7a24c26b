//! Regions of deferred operations: `rgrad.compiler` and `rgrad.defer`.

use pyo3::prelude::*;

use super::error::IntoPy;
use crate::backend::defer;

/// Opens a region on this thread; with `log`, collects what is computed together; with `whole`, a value that is read
/// before the end is an error.
#[pyfunction(name = "_enter_region")]
#[pyo3(signature = (log=false, whole=false))]
pub fn enter_region(log: bool, whole: bool) {
    defer::set_steps(crate::ops::pointwise::step);
    defer::set_where(line_of_the_program);
    defer::enter(log, whole);
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
