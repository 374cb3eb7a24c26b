//! Anomaly mode: records where nodes were made, and reports it when their backward fails.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::GradFn;
use crate::error::Result;

const ON: u8 = 1;
const CHECK_NAN: u8 = 2;

/// The mode is per process, as in PyTorch, not per thread.
static MODE: AtomicU8 = AtomicU8::new(CHECK_NAN);

thread_local! {
    /// The node whose backward runs on this thread: the parent of nodes made meanwhile.
    static RUNNING: RefCell<Option<GradFn>> = const { RefCell::new(None) };
}

/// Callbacks of the host language for anomaly mode.
pub struct Observer {
    /// Records where a node was made, and the node (if any) whose backward made it.
    pub made: fn(node: &GradFn, during: Option<&GradFn>),
    /// Reports where the failed node was made.
    pub failed: fn(node: &GradFn) -> Result<()>,
}

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Installs the observer; later calls have no effect.
pub fn set_observer(observer: Observer) {
    OBSERVER.get_or_init(|| observer);
}

#[inline(always)]
pub fn enabled() -> bool {
    MODE.load(Ordering::Relaxed) & ON != 0
}

/// Whether the mode also makes gradients with NaN an error.
pub fn checks_nan() -> bool {
    MODE.load(Ordering::Relaxed) & CHECK_NAN != 0
}

/// Sets the mode and its NaN check; returns the previous values of both.
pub fn set(on: bool, check_nan: bool) -> (bool, bool) {
    let mode = if on { ON } else { 0 } | if check_nan { CHECK_NAN } else { 0 };
    let before = MODE.swap(mode, Ordering::Relaxed);
    (before & ON != 0, before & CHECK_NAN != 0)
}

#[cold]
pub(super) fn node_made(node: &GradFn) {
    if let Some(observer) = OBSERVER.get() {
        let during = RUNNING.with_borrow(Clone::clone);
        (observer.made)(node, during.as_ref());
    }
}

/// Runs the backward of `node` with the observer.
#[cold]
pub fn observe<R>(node: &GradFn, run: impl FnOnce() -> Result<R>) -> Result<R> {
    let outer = RUNNING.replace(Some(node.clone()));
    let result = run();
    drop(RUNNING.replace(outer));
    if let (Err(_), Some(observer)) = (&result, OBSERVER.get()) {
        (observer.failed)(node)?;
    }
    result
}
