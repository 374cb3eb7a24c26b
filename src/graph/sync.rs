//! Synchronization primitives for the state that threads share in the graph.
//!
//! Note [Locks of the graph] While a lock of the graph is held, values may be moved and compared and handles to them
//! cloned, and nothing else may happen: no kernel, no allocation of a tensor or node, no drop of a tensor, node or
//! hook, no user code, no other lock. Any of these may need the held lock again: recording a sum asks the leaf for its
//! edge; dropping a Python hook runs `__del__`, which may register another hook; and a thread waiting here may hold
//! the interpreter's lock.
//!
//! The types below enforce this. There is no lock guard to pass around: [`Guarded::with`] takes a closure, and a
//! replaced value is returned from it and dropped afterwards. An update that needs work reads the value, computes
//! without the lock, and stores the result if the value is still the one that was read; otherwise it starts over
//! ([`change_shared`], `AutogradMeta::replace_grad`). There are two exceptions:
//! - A leaf's `turn` (in `AccumulateGrad`) is held while a gradient is added in place to `.grad`, which two threads must
//!   not do at once. Under it runs the kernel of that addition, unrecorded. Only accumulation takes it, before any other
//!   lock and never with the interpreter's.
//! - The visitor of Python's garbage collector reads a protected value while it holds the lock. It only tries to take the
//!   lock, and the collector calls nothing that takes one.
//!
//! `tests/loom.rs` runs these types, and the engine on top of them, through all thread interleavings: with `--cfg
//! loom` they use loom's mutex and atomics.

use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64, atomic::Ordering};
#[cfg(not(loom))]
use parking_lot::{Mutex, MutexGuard};

/// A value behind a lock; see Note [Locks of the graph].
#[derive(Default)]
pub struct Guarded<T>(Mutex<T>);

impl<T> Guarded<T> {
    #[inline(always)]
    pub fn new(value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    /// Calls `f` with the lock held. `f` must return any value that it takes out, so that it is dropped without the
    /// lock.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // The value is consistent between any two statements of `f`, so a panic in `f` does not invalidate it.
        f(&mut self.lock())
    }

    /// The value without locking: `&mut self` proves that no other thread uses it.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    #[cfg(loom)]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// As [`Guarded::with`]; None while another thread holds the lock.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.try_lock().map(|mut value| f(&mut value))
    }
}

#[cfg(not(loom))]
impl<T> Guarded<T> {
    #[inline(always)]
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

#[cfg(loom)]
impl<T> Guarded<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// Replaces the shared value protected by `lock` with a changed copy. Holders of the old value keep the old one.
///
/// `change` runs without the lock, and runs again if another thread replaced the value meanwhile.
pub fn change_shared<S, T: Clone + Default, R>(
    lock: &Guarded<S>,
    place: impl Fn(&mut S) -> &mut Option<Arc<T>>,
    mut change: impl FnMut(&mut T) -> R,
) -> R {
    loop {
        let old = lock.with(|s| place(s).clone());
        let mut new = old.as_deref().cloned().unwrap_or_default();
        let result = change(&mut new);
        let new = Arc::new(new);
        let is_old = |now: &Option<Arc<T>>| match (now, &old) {
            (Some(now), Some(old)) => Arc::ptr_eq(now, old),
            (now, old) => now.is_none() && old.is_none(),
        };
        // The old value, or a new one that came too late, is dropped after the lock.
        let stored = lock.with(|s| {
            let place = place(s);
            if is_old(place) { Ok(place.replace(new)) } else { Err(new) }
        });
        if stored.is_ok() {
            return result;
        }
    }
}

/// A word in each node, claimed by one graph task at a time; see Note [Scratch in nodes] in the engine.
///
/// The upper half is the number of the task and the lower half the index of its state; zero when unclaimed.
#[derive(Default)]
pub struct Scratch(AtomicU64);

impl Scratch {
    fn word(run: u32, place: u32) -> u64 {
        u64::from(run) << 32 | u64::from(place)
    }

    /// The index stored by task `run`, if it claimed the word.
    #[inline]
    pub fn place(&self, run: u32) -> Option<u32> {
        // Relaxed suffices: a task uses only the value that it stored itself, and needs no order with other tasks.
        let word = self.0.load(Ordering::Relaxed);
        ((word >> 32) as u32 == run).then_some(word as u32)
    }

    /// Claims the word for task `run`, which is not zero; false if another task has it.
    #[inline]
    pub fn claim(&self, run: u32, place: u32) -> bool {
        self.0.compare_exchange(0, Scratch::word(run, place), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Releases the word if task `run` claimed it with this index.
    #[inline]
    pub fn release(&self, run: u32, place: u32) {
        let _ = self.0.compare_exchange(Scratch::word(run, place), 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_changed_copy_leaves_those_alone_who_hold_the_old_value() {
        let lock = Guarded::new(None::<Arc<Vec<u32>>>);
        change_shared(&lock, |s| s, |v| v.push(1));
        let before = lock.with(|s| s.clone());
        assert_eq!(change_shared(&lock, |s| s, |v| v.pop()), Some(1));
        assert_eq!((before.unwrap().len(), lock.with(|s| s.as_ref().unwrap().len())), (1, 0));
    }

    #[test]
    fn a_change_that_another_overtakes_is_made_again() {
        let lock = Guarded::new(None::<Arc<Vec<u32>>>);
        let mut first = true;
        change_shared(
            &lock,
            |s| s,
            |v| {
                if std::mem::take(&mut first) {
                    change_shared(&lock, |s| s, |v| v.push(1));
                }
                v.push(2);
            },
        );
        assert_eq!(lock.with(|s| s.clone()).unwrap().as_slice(), [1, 2]);
    }

    #[test]
    fn a_word_belongs_to_one_run_until_it_gives_it_back() {
        let word = Scratch::default();
        assert!(word.claim(7, 3) && !word.claim(8, 4));
        assert_eq!((word.place(7), word.place(8)), (Some(3), None));
        word.release(8, 3);
        word.release(7, 4);
        assert_eq!(word.place(7), Some(3));
        word.release(7, 3);
        assert!(word.claim(8, 4));
    }
}
