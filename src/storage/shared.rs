//! Reference-counted objects that are constructed in place, and a cell for one that is set once.
//!
//! Note [Objects made in place] `Arc::new` constructs its object on the stack, allocates, and copies the object over:
//! since the allocation might unwind, the stack copy has an address and the compiler cannot elide it. The copy is a
//! twentieth of a small recorded operation, and more where its loads are wider than the stores just before them,
//! because the processor then cannot forward those stores. So the hot allocations of an operation allocate first and
//! initialize in place.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An `Arc` whose object `make` constructs in place and `complete` then modifies; see Note [Objects made in place].
#[inline(always)]
pub fn shared<T>(make: impl FnOnce() -> T, complete: impl FnOnce(&mut T)) -> Arc<T> {
    let place = Arc::<T>::new_uninit();
    let object = Arc::as_ptr(&place).cast_mut().cast::<T>();
    // SAFETY: no other handle exists yet, the object is written before it is read, and is not dropped uninitialized.
    unsafe {
        object.write(make());
        let made = place.assume_init();
        complete(&mut *object);
        made
    }
}

/// As [`shared`], without support for weak handles.
#[inline(always)]
pub fn shared_strongly<T>(make: impl FnOnce() -> T) -> triomphe::Arc<T> {
    let mut place = triomphe::UniqueArc::<T>::new_uninit();
    place.write(make());
    // SAFETY: it was written just now.
    unsafe { triomphe::UniqueArc::assume_init(place) }.shareable()
}

/// A cell for an `Arc`, empty or set once. Unlike `OnceLock` it has no state word beside the pointer, which every new
/// tensor would have to initialize and every result to set.
pub struct OnceShared<T> {
    /// An `Arc<T>`, or null.
    object: AtomicPtr<()>,
    owns: PhantomData<Arc<T>>,
}

impl<T> OnceShared<T> {
    #[inline(always)]
    pub const fn empty() -> Self {
        OnceShared { object: AtomicPtr::new(null_mut()), owns: PhantomData }
    }

    #[inline(always)]
    pub fn holding(object: Arc<T>) -> Self {
        // SAFETY: an `Arc` is one non-null pointer; `drop` turns it back.
        let object = unsafe { mem::transmute::<Arc<T>, *mut ()>(object) };
        OnceShared { object: AtomicPtr::new(object), owns: PhantomData }
    }

    #[inline(always)]
    pub fn get(&self) -> Option<&Arc<T>> {
        if self.object.load(Ordering::Acquire).is_null() {
            return None;
        }
        // SAFETY: the bits are those of an `Arc`, and do not change once set, while `self` is borrowed.
        Some(unsafe { &*(&raw const self.object).cast() })
    }

    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> Arc<T>) -> &Arc<T> {
        if self.get().is_none() {
            let mut made = OnceShared::holding(make());
            let new = *made.object.get_mut();
            // If another thread was first, `made` is dropped.
            if self.object.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                mem::forget(made);
            }
        }
        // SAFETY: as in `get`; the cell is set by now.
        unsafe { &*(&raw const self.object).cast() }
    }
}

impl<T> Drop for OnceShared<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        if !object.is_null() {
            // SAFETY: the pointer came from an `Arc` and is turned back once.
            drop(unsafe { mem::transmute::<*mut (), Arc<T>>(object) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_made_in_place_is_dropped_once() {
        let held = Arc::new(());
        let a = shared(|| (held.clone(), 7), |object| object.1 += 1);
        let b = shared_strongly(|| (held.clone(), 8));
        assert_eq!((a.1, b.1, Arc::strong_count(&held)), (8, 8, 3));
        drop((a.clone(), a, b.clone(), b));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_place_is_filled_once_and_gives_back_what_it_held() {
        let held = Arc::new(7);
        let place = OnceShared::empty();
        assert!(place.get().is_none());
        assert_eq!(**place.get_or_init(|| held.clone()), 7);
        assert_eq!(**place.get_or_init(|| Arc::new(8)), 7);
        assert_eq!((place.get().map(|n| **n), Arc::strong_count(&held)), (Some(7), 2));
        drop((place, OnceShared::holding(held.clone())));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn of_many_threads_one_fills_a_place() {
        let (place, held) = (OnceShared::empty(), Arc::new(()));
        std::thread::scope(|s| {
            for i in 0..4 {
                let (place, held) = (&place, &held);
                s.spawn(move || place.get_or_init(|| Arc::new((held.clone(), i))).1);
            }
        });
        assert_eq!(Arc::strong_count(&held), 2);
    }
}
