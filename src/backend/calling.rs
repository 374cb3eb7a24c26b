//! The operation that is being called on this thread, or the node that runs backward: the name that goes with a fault
//! which a device finds later.

use std::cell::Cell;

thread_local!(static NAME: Cell<&'static str> = const { Cell::new("") });

/// Names what is called until it is dropped.
pub struct Calling {
    before: &'static str,
}

impl Calling {
    #[inline]
    pub fn new(name: &'static str) -> Calling {
        Calling { before: NAME.with(|n| n.replace(name)) }
    }
}

impl Drop for Calling {
    #[inline]
    fn drop(&mut self) {
        NAME.with(|n| n.set(self.before));
    }
}

/// The innermost name; empty outside of any.
pub fn called() -> &'static str {
    NAME.with(Cell::get)
}
