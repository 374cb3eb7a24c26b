//! Anomaly mode: nodes remember where they were made, and a run that fails tells.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::GradFn;
use crate::error::Result;

const ON: u8 = 1;
const CHECK_NAN: u8 = 2;

/// As in PyTorch, the mode is the process's, not a thread's.
static MODE: AtomicU8 = AtomicU8::new(CHECK_NAN);

thread_local! {
    /// The node whose backward this thread runs: what is made meanwhile is its doing.
    static RUNNING: RefCell<Option<GradFn>> = const { RefCell::new(None) };
}

/// What the host language does about nodes in anomaly mode.
pub struct Observer {
    /// Notes where a node was made, and in the backward of which other.
    pub made: fn(node: &GradFn, during: Option<&GradFn>),
    /// Tells where the node that failed was made.
    pub failed: fn(node: &GradFn) -> Result<()>,
}

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Installs the observer. The first call counts.
pub fn set_observer(observer: Observer) {
    OBSERVER.get_or_init(|| observer);
}

#[inline(always)]
pub fn enabled() -> bool {
    MODE.load(Ordering::Relaxed) & ON != 0
}

/// Whether gradients that hold NaN are errors while the mode is on.
pub fn checks_nan() -> bool {
    MODE.load(Ordering::Relaxed) & CHECK_NAN != 0
}

/// Sets whether the mode is on and whether it looks for NaN; returns both as they were.
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

/// Runs the backward of `node` under observation.
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
