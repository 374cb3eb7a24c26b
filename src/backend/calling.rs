//! The operation that is being called on this thread, or the node that runs backward: the name that goes with a fault
//! which a device finds later.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local!(static NAME: Cell<&'static str> = const { Cell::new("") });

/// Whether there is a device that may find faults later.
static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on calls are named.
pub fn name_calls() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Names what is called until it is dropped.
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

/// The innermost name; empty outside of any.
pub fn called() -> &'static str {
    NAME.with(Cell::get)
}
