//! Readers that may still need a storage long after the queue has run: values that are computed again.
//!
//! Note [Late readers] Whatever writes a storage runs the deferred operations that read it first (Note [Deferred
//! storages]). A value that backward computes again from its operands is such a read, but belongs to no queue: it
//! may never happen, and lasts until backward. So it is noted on each operand as a deferred read, and listed here. Before the
//! operand is written, the reader reads: it computes its value from what the operand holds now.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::storage::{Access, Storage};

/// What reads storages at some later time.
pub trait LateReader: Send + Sync {
    /// Reads now, if it has not read yet.
    fn read(&self);
}

type Readers = SmallVec<[Weak<dyn LateReader>; 2]>;

/// By the id of a storage. A reader holds the storage as long as it is listed, so that no other has the id.
static READERS: Mutex<Option<FxHashMap<usize, Readers>>> = Mutex::new(None);

fn with<R>(f: impl FnOnce(&mut FxHashMap<usize, Readers>) -> R) -> R {
    f(READERS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// The number of late reads; while it is 0, nothing is looked up.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A storage that a late reader holds; dropped when it has read.
pub struct LateRead {
    storage: Storage,
    reader: Weak<dyn LateReader>,
}

impl LateRead {
    /// Notes that a reader will read a storage; None if the storage has too many.
    pub fn note(s: &Storage, reader: &Weak<dyn LateReader>) -> Option<LateRead> {
        s.wait(Access::Read).then(|| {
            COUNT.fetch_add(1, Ordering::AcqRel);
            with(|all| all.entry(s.id()).or_default().push(reader.clone()));
            LateRead { storage: s.clone(), reader: reader.clone() }
        })
    }
}

impl Drop for LateRead {
    fn drop(&mut self) {
        let id = self.storage.id();
        let gone = with(|all| {
            let readers = all.get_mut(&id)?;
            let gone = readers.iter().position(|r| r.ptr_eq(&self.reader)).map(|at| readers.swap_remove(at));
            if readers.is_empty() {
                all.remove(&id);
            }
            gone
        });
        drop(gone);
        COUNT.fetch_sub(1, Ordering::AcqRel);
        self.storage.unwait(Access::Read);
    }
}

/// Tells whether a storage was written since the watch began.
pub struct Watch {
    written: AtomicBool,
    read: Mutex<Option<LateRead>>,
}

impl Watch {
    /// None if the storage has too many late readers.
    pub fn begin(s: &Storage) -> Option<Arc<Watch>> {
        let watch = Arc::new(Watch { written: AtomicBool::new(false), read: Mutex::new(None) });
        let reader: Weak<dyn LateReader> = Arc::downgrade(&(watch.clone() as Arc<dyn LateReader>));
        let read = LateRead::note(s, &reader)?;
        watch.take(Some(read));
        Some(watch)
    }

    pub fn is_untouched(&self) -> bool {
        !self.written.load(Ordering::Acquire)
    }

    fn take(&self, new: Option<LateRead>) {
        let old = std::mem::replace(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner), new);
        drop(old);
    }
}

impl LateReader for Watch {
    fn read(&self) {
        self.written.store(true, Ordering::Release);
        self.take(None);
    }
}

/// Has the late readers of a storage read; false if there are none.
pub fn read_now(s: &Storage) -> bool {
    if COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let readers = with(|all| all.get(&s.id()).cloned()).unwrap_or_default();
    readers.iter().filter_map(Weak::upgrade).for_each(|reader| reader.read());
    !readers.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_sees_the_first_write_and_is_a_reader_until_then() {
        let s = Storage::zeroed(16).unwrap();
        let (first, second) = (Watch::begin(&s).unwrap(), Watch::begin(&s).unwrap());
        assert!(first.is_untouched() && s.waits(Access::Write) && !s.waits(Access::Read));
        drop(second);
        assert!(s.waits(Access::Write) && read_now(&s));
        assert!(!first.is_untouched() && !s.waits(Access::Write) && !read_now(&s));
        assert_eq!(s.handles(), 1);
    }
}
