//! Shared objects that are made where they stay, and a place that one is put into once.
//!
//! Note [Objects made in place]
//! `Arc::new` makes its object on the stack, asks for memory, and copies: as asking might unwind, the object on the stack
//! has an address, and the compiler must keep it. The copy is a twentieth of a small recorded operation, and more where
//! its loads are wider than the stores just before them, which a processor cannot answer before the stores are through.
//! So what each of those operations makes asks first, and is filled in where it lies.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A shared object that `make` writes where it is to stay, and `complete` fills in there; see Note [Objects made in
/// place].
#[inline(always)]
pub fn shared<T>(make: impl FnOnce() -> T, complete: impl FnOnce(&mut T)) -> Arc<T> {
    let place = Arc::<T>::new_uninit();
    let object = Arc::as_ptr(&place).cast_mut().cast::<T>();
    // SAFETY: the object is nobody else's yet, it is written before anybody reads it, and nothing is dropped unwritten.
    unsafe {
        object.write(make());
        let made = place.assume_init();
        complete(&mut *object);
        made
    }
}

/// As [`shared`], without weak handles.
#[inline(always)]
pub fn shared_strongly<T>(make: impl FnOnce() -> T) -> triomphe::Arc<T> {
    let mut place = triomphe::UniqueArc::<T>::new_uninit();
    place.write(make());
    // SAFETY: it was written just now.
    unsafe { triomphe::UniqueArc::assume_init(place) }.shareable()
}

/// A place for a shared object, empty or filled for good. `OnceLock` without the state beside the pointer, which is asked
/// for with every tensor and filled with every result.
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
        // SAFETY: a handle is one pointer, never null; `drop` takes it back.
        let object = unsafe { mem::transmute::<Arc<T>, *mut ()>(object) };
        OnceShared { object: AtomicPtr::new(object), owns: PhantomData }
    }

    #[inline(always)]
    pub fn get(&self) -> Option<&Arc<T>> {
        if self.object.load(Ordering::Acquire).is_null() {
            return None;
        }
        // SAFETY: the bits are those of a handle, and stay as they are while `self` is borrowed.
        Some(unsafe { &*(&raw const self.object).cast() })
    }

    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> Arc<T>) -> &Arc<T> {
        if self.get().is_none() {
            let mut made = OnceShared::holding(make());
            let new = *made.object.get_mut();
            // Another thread may have been first: then this one's object goes with `made`.
            if self.object.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                mem::forget(made);
            }
        }
        // SAFETY: as in `get`; by now it is filled.
        unsafe { &*(&raw const self.object).cast() }
    }
}

impl<T> Drop for OnceShared<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        if !object.is_null() {
            // SAFETY: what `holding` made of a handle becomes one again, once.
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
