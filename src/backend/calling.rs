//! The name of the operation running on this thread, or of the node running backward, for errors that a device reports
//! asynchronously.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local!(static NAME: Cell<&'static str> = const { Cell::new("") });

/// Whether any device reports errors asynchronously.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Enables recording of names.
pub fn name_calls() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Sets the current name until dropped.
pub struct OpScope {
    before: Option<&'static str>,
}

impl OpScope {
    #[inline]
    pub fn new(name: impl FnOnce() -> &'static str) -> OpScope {
        OpScope { before: WANTED.load(Ordering::Relaxed).then(|| NAME.with(|n| n.replace(name()))) }
    }
}

impl Drop for OpScope {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            NAME.with(|n| n.set(before));
        }
    }
}

/// The innermost name; empty outside any operation.
pub fn called() -> &'static str {
    NAME.with(Cell::get)
}
