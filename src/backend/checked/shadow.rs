//! Which bytes of the host's memory hold what somebody has written.
//!
//! Note [Unwritten memory]
//! Memory from [`super::Backend::allocate`] holds nothing until a kernel writes it. A table keeps those storages of which
//! some byte is still unwritten; what is not in it counts as written: memory that entered from outside, and memory whose
//! address has left the core, as nobody can tell what is done there. A storage is known by its counter of writes, which is
//! its own; the table holds a handle to the counter, so that the address stands for no other storage, and an entry whose
//! counter has no second handle is that of a storage that is gone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::backend::View;
use crate::layout::{Layout, Odometer};
use crate::storage::Storage;

/// A storage that is not written all over.
struct Entry {
    counter: Arc<AtomicU32>,
    /// By byte, whether it is written. Empty where none is.
    written: Vec<bool>,
    /// How many are not.
    missing: usize,
}

#[derive(Default)]
struct Table {
    entries: HashMap<usize, Entry>,
    /// So many entries have the table looked through for those of storages that are gone.
    full: usize,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(counter: &Arc<AtomicU32>) -> usize {
    Arc::as_ptr(counter) as usize
}

impl Table {
    fn add(&mut self, entry: Entry) -> &mut Entry {
        if self.entries.len() >= self.full {
            self.entries.retain(|_, e| Arc::strong_count(&e.counter) > 1);
            self.full = 2 * self.entries.len() + 64;
        }
        self.entries.entry(key(&entry.counter)).or_insert(entry)
    }
}

/// Counts all bytes of new memory as unwritten.
pub(super) fn watch(s: &Storage) {
    if !s.is_empty() {
        table().add(Entry { counter: s.counter(), written: Vec::new(), missing: s.len() });
    }
}

/// Counts all bytes as written.
pub(super) fn forget(s: &Storage) {
    table().entries.remove(&key(&s.counter()));
}

#[cfg(test)]
pub(super) fn entries() -> usize {
    table().entries.len()
}

/// Whether a byte is unwritten.
#[cfg(test)]
pub(super) fn is_watched(s: &Storage) -> bool {
    table().entries.contains_key(&key(&s.counter()))
}

/// Counts the elements of a view as written.
pub(super) fn mark(v: &View) {
    let key = key(&v.storage.counter());
    let mut table = table();
    let Some(entry) = table.entries.get_mut(&key) else { return };
    if entry.written.is_empty() {
        entry.written = vec![false; v.storage.len()];
    }
    let (written, missing) = (&mut entry.written, &mut entry.missing);
    runs(v, |bytes| {
        let run = &mut written[bytes];
        *missing -= run.iter().filter(|w| !**w).count();
        run.fill(true);
    });
    if *missing == 0 {
        table.entries.remove(&key);
    }
}

/// The position, in row-major order, of the first element with an unwritten byte.
pub(super) fn first_unwritten(v: &View) -> Option<usize> {
    unwritten(v).into_iter().next()
}

/// The positions of the elements with an unwritten byte.
fn unwritten(v: &View) -> Vec<usize> {
    let table = table();
    let Some(entry) = table.entries.get(&key(&v.storage.counter())) else { return Vec::new() };
    let (size, mut at, mut found) = (v.dtype.size(), 0, Vec::new());
    runs(v, |bytes| {
        let n = bytes.len() / size;
        found.extend(
            (0..n)
                .filter(|i| {
                    let element = bytes.start + i * size..bytes.start + (i + 1) * size;
                    entry.written.get(element).is_none_or(|e| e.contains(&false))
                })
                .map(|i| at + i),
        );
        at += n;
    });
    found
}

/// What was copied from unwritten elements is unwritten too. The views have one shape.
pub(super) fn carry(src: &View, out: &View) {
    let positions = unwritten(src);
    if positions.is_empty() || out.storage.is_borrowed() {
        return;
    }
    let counter = out.storage.counter();
    let mut table = table();
    let entry = table.add(Entry { counter, written: vec![true; out.storage.len()], missing: 0 });
    if entry.written.is_empty() {
        return;
    }
    let size = out.dtype.size();
    let (mut next, mut at) = (positions.into_iter().peekable(), 0);
    runs(out, |bytes| {
        let n = bytes.len() / size;
        while let Some(i) = next.next_if(|i| *i < at + n) {
            let element = &mut entry.written[bytes.start + (i - at) * size..][..size];
            entry.missing += element.iter().filter(|w| **w).count();
            element.fill(false);
        }
        at += n;
    });
}

/// The bytes of the storage that the elements of a view lie in, by runs of neighbours in row-major order. The elements lie
/// within the storage.
pub(super) fn runs(v: &View, mut f: impl FnMut(Range<usize>)) {
    let (l, size) = (v.layout, v.dtype.size());
    let n = l.numel();
    if n == 0 {
        return;
    }
    if l.is_contiguous() {
        return f(l.offset * size..(l.offset + n) * size);
    }
    let last = l.rank() - 1;
    let run = if l.strides[last] == 1 { l.shape[last] } else { 1 };
    let outer = if run == 1 { l.clone() } else { Layout { shape: l.shape[..last].into(), ..l.clone() } };
    let strides = &l.strides[..outer.rank()];
    let mut at = Odometer::new(&outer.shape, [strides], [l.offset as isize], 0);
    for _ in 0..n / run {
        let start = at.offsets[0] as usize * size;
        f(start..start + run * size);
        at.step();
    }
}
