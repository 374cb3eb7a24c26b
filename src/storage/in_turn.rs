//! Long chains of values that own each other are dropped without recursion.
//!
//! Note [Dropping a long chain] A naive drop of a chain of a million values, each of which owns the next, would recurse a million
//! levels deep. So the drop of a link hands what it owns to [`drop_in_turn`]: while a thread drops a value, the
//! values that it finds on the way only join a list, and the outermost drop then empties the list in a loop.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

/// The values that a thread has yet to drop.
pub struct InTurn<T> {
    is_dropping: Cell<bool>,
    waiting: RefCell<Vec<T>>,
}

impl<T> InTurn<T> {
    pub const fn new() -> Self {
        InTurn { is_dropping: Cell::new(false), waiting: RefCell::new(Vec::new()) }
    }
}

impl<T> Default for InTurn<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Drops a value, or while this thread already drops one, leaves it to that drop. While the thread ends, values are dropped at
/// once.
#[inline(never)]
pub fn drop_in_turn<T>(list: &'static LocalKey<InTurn<T>>, value: T) {
    let mut value = Some(value);
    let is_outermost = list.try_with(|list| {
        let waits = list.is_dropping.replace(true);
        if waits {
            list.waiting.borrow_mut().extend(value.take());
        }
        !waits
    });
    if is_outermost != Ok(true) {
        return;
    }
    while value.is_some() {
        drop(value);
        value = list.try_with(|list| list.waiting.borrow_mut().pop()).ok().flatten();
    }
    let _ = list.try_with(|list| list.is_dropping.set(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Link(Option<Box<Link>>);

    thread_local!(static LINKS: InTurn<Box<Link>> = const { InTurn::new() });

    impl Drop for Link {
        fn drop(&mut self) {
            if let Some(next) = self.0.take() {
                drop_in_turn(&LINKS, next);
            }
        }
    }

    #[test]
    fn a_chain_of_a_million_values_is_dropped_on_a_small_stack() {
        let dropped = std::thread::Builder::new().stack_size(1 << 16).spawn(|| {
            let mut head = None;
            for _ in 0..1_000_000 {
                head = Some(Box::new(Link(head)));
            }
            drop(head);
        });
        dropped.unwrap().join().unwrap();
    }
}
