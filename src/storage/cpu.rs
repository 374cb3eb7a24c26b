//! Storage: owned or borrowed memory, reference counted, shared by views, with one version counter.
//!
//! Note [Tensor data and aliasing] Two tensors may share elements, and nothing stops two threads from writing them at
//! once; as in PyTorch, the values then read are unspecified. The core itself guarantees this much:
//! - only [`Storage::slice_mut`] returns a `&mut [T]` of all elements, and only when there is a single handle;
//! - a kernel that writes memory with other handles goes through the types of `backend/cpu/output.rs`, which
//!   write only elements of its result, and hand out no element twice on one thread;
//! - a `&[T]` is taken within a kernel and not kept; a kernel whose input may overlap its output reads the input in
//!   blocks ([`Storage::overlaps`] compares addresses).
//!
//! That leaves a `&[T]` over elements that another thread writes meanwhile. By Rust's rules that is a data race, and
//! no program should rely on the values read; since every bit pattern is a valid element, some number is read. Only a
//! lock per storage would exclude it, and it would serialize programs that deliberately train without locks.
//!
//! Note [Deferred storages] In a region (`backend/defer`) a storage may have no memory yet ([`Storage::deferred`]), and
//! deferred operations may be about to read or write its memory ([`Storage::wait`]). Whoever asks for the bytes runs those
//! operations first: for reading if any of them writes, for writing if there are any. The question is one load of
//! a word beside the address. The operations themselves work on other storages over the same memory
//! ([`Storage::alias`]) or on memory that the storage then adopts, so they ask nothing, and a thread that comes
//! meanwhile waits until they have run. Code that does not ask, as it has the address of the memory ([`Storage::lend`]), would
//! read too early: nothing is deferred on memory that was lent. A storage for which there is no memory when it is needed stays
//! without, and the host can address none of its bytes.
#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};

use super::alloc;
use super::in_turn::{InTurn, drop_in_turn};
use super::shared::OnceShared;
use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, Result};

/// Precedes the data in an owned block; allocated alone for borrowed memory and for device memory.
#[repr(C, align(64))]
struct Header {
    refs: AtomicUsize,
    /// Null while a deferred storage has no memory.
    data: AtomicPtr<u8>,
    /// Bytes of data that the host can address: all of them, or none on a device.
    host: usize,
    /// Bytes of data.
    len: usize,
    /// Version counter shared with tensors that kept the old storage after `set_` or `.data =`; replaces `version`
    /// once present.
    counter: OnceShared<AtomicU32>,
    version: AtomicU32,
    /// What deferred operations are about to do with the memory: [`MISSING`], and numbers of [`WRITE`]s and [`READ`]s.
    waits: AtomicU32,
    readonly: bool,
    /// Whether a NumPy array shows the memory, which must then stay where it is.
    shown: AtomicBool,
    /// Whether code that does not ask may read or write the memory: Note [Deferred storages].
    lent: AtomicBool,
    /// Whether a program may write the memory without counting.
    uncounted: AtomicBool,
    device: Device,
    /// The owner of memory that is not in this block, or null; set once.
    owner: AtomicPtr<Owner>,
}

/// What keeps memory alive that is not in the storage's block.
enum Owner {
    /// Of borrowed memory; on a device, the backend's handle to the memory.
    Other(Box<dyn Any + Send + Sync>),
    /// The storage that has the memory: adopted by a deferred storage, or of an alias.
    Storage(Storage),
}

/// In [`Header::waits`]: the storage has no memory yet.
const MISSING: u32 = 1 << 31;
/// In [`Header::waits`]: one deferred write.
const WRITE: u32 = 1;
/// In [`Header::waits`]: one deferred read.
const READ: u32 = 1 << 16;
/// In [`Header::waits`]: what a reader has to wait for.
const UNREADABLE: u32 = MISSING | (READ - 1);

/// How a deferred operation uses a storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

impl Access {
    const fn one(self) -> u32 {
        match self {
            Access::Read => READ,
            Access::Write => WRITE,
        }
    }
}

/// Runs the deferred operations that a reader or a writer of a storage waits for, and gives it memory.
static SETTLE: OnceLock<fn(&Storage, Access)> = OnceLock::new();

/// Installs what runs deferred operations, once, before any are deferred.
pub fn set_settle(settle: fn(&Storage, Access)) {
    SETTLE.get_or_init(|| settle);
}

/// A reference-counted piece of memory. `clone` is another handle to the same memory.
pub struct Storage(NonNull<Header>);

// SAFETY: the header is shared through atomics; the data is covered by Note [Tensor data and aliasing].
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

const HEADER: usize = size_of::<Header>();
// Larger, it would cost every small tensor a cache line.
const _: () = assert!(HEADER == 64);

impl Storage {
    /// Uninitialized memory in the sense of `torch.empty`: readable, with unspecified contents.
    ///
    /// # Errors
    /// `RuntimeError` when out of memory.
    #[inline]
    pub fn new(len: usize) -> Result<Storage> {
        let p = match len.checked_add(HEADER) {
            Some(size) if size <= isize::MAX as usize / 2 => alloc::alloc(size),
            _ => std::ptr::null_mut(),
        };
        let Some(p) = NonNull::new(p) else { return Err(out_of_memory(len)) };
        // SAFETY: the block has at least HEADER bytes and the header's alignment.
        unsafe {
            p.cast::<Header>().write(Header {
                refs: AtomicUsize::new(1),
                data: AtomicPtr::new(p.as_ptr().add(HEADER)),
                host: len,
                len,
                counter: OnceShared::empty(),
                version: AtomicU32::new(0),
                waits: AtomicU32::new(0),
                readonly: false,
                shown: AtomicBool::new(false),
                lent: AtomicBool::new(false),
                uncounted: AtomicBool::new(false),
                device: Device::Cpu,
                owner: AtomicPtr::new(std::ptr::null_mut()),
            });
        }
        Ok(Storage(p.cast()))
    }

    /// New memory holding a copy of `values`.
    pub fn from_slice<T: Element>(values: &[T]) -> Result<Storage> {
        let mut s = Storage::new(size_of_val(values))?;
        if let Some(elements) = s.slice_mut() {
            elements.copy_from_slice(values);
        }
        Ok(s)
    }

    pub fn zeroed(len: usize) -> Result<Storage> {
        let s = Storage::new(len)?;
        // SAFETY: a fresh block of `len` bytes.
        unsafe { s.data_ptr().write_bytes(0, len) };
        Ok(s)
    }

    /// Wraps memory that is owned elsewhere; `owner` is dropped with the last handle.
    ///
    /// # Safety
    /// `data` is valid for reads of `len` bytes (and for writes unless `readonly`) while `owner` lives.
    pub unsafe fn borrowed(
        data: *mut u8,
        len: usize,
        readonly: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Storage> {
        let s = Storage::new(0)?;
        // SAFETY: the handle is unique, so nobody else reads the header.
        let h = unsafe { &mut *s.0.as_ptr() };
        *h.data.get_mut() = data;
        h.host = len;
        h.len = len;
        h.readonly = readonly;
        *h.owner.get_mut() = Box::into_raw(Box::new(Owner::Other(owner)));
        BORROWED.fetch_add(1, Ordering::Relaxed);
        Ok(s)
    }

    /// `len` bytes on a device, which the host cannot address: its slices are empty. `memory` is the backend's handle
    /// to them, dropped with the last handle of the storage.
    pub fn on_device(device: Device, len: usize, memory: Box<dyn Any + Send + Sync>) -> Result<Storage> {
        let s = Storage::new(0)?;
        // SAFETY: the handle is unique, so nobody else reads the header.
        let h = unsafe { &mut *s.0.as_ptr() };
        h.len = len;
        h.device = device;
        *h.owner.get_mut() = Box::into_raw(Box::new(Owner::Other(memory)));
        Ok(s)
    }

    /// A storage of `len` bytes on a device that gets its memory when it is first used: Note [Deferred storages].
    ///
    /// # Errors
    /// `RuntimeError` if the machine does not have as much memory.
    pub fn deferred(device: Device, len: usize) -> Result<Storage> {
        expect_room::<u8>(len)?;
        let s = Storage::new(0)?;
        // SAFETY: the handle is unique, so nobody else reads the header.
        let h = unsafe { &mut *s.0.as_ptr() };
        *h.data.get_mut() = std::ptr::null_mut();
        h.host = if device == Device::Cpu { len } else { 0 };
        h.len = len;
        h.device = device;
        *h.waits.get_mut() = MISSING;
        Ok(s)
    }

    /// Another storage over the memory of this one, for deferred operations that write it: Note [Deferred storages].
    pub fn alias(&self) -> Result<Storage> {
        let s = Storage::new(0)?;
        // SAFETY: the handle is unique, so nobody else reads the header.
        let h = unsafe { &mut *s.0.as_ptr() };
        let of = self.header();
        *h.data.get_mut() = of.data.load(Ordering::Acquire);
        (h.host, h.len, h.readonly, h.device) = (of.host, of.len, of.readonly, of.device);
        *h.owner.get_mut() = Box::into_raw(Box::new(Owner::Storage(self.clone())));
        Ok(s)
    }

    /// Makes the memory of `other`, which has the same size, that of this storage, unless it has memory.
    pub fn adopt(&self, other: Storage) {
        let (h, data) = (self.header(), other.header().data.load(Ordering::Acquire));
        if h.device != other.device() || h.len > other.len() {
            return;
        }
        if !self.is_missing() {
            return;
        }
        let owner = Box::into_raw(Box::new(Owner::Storage(other)));
        let set = h.owner.compare_exchange(std::ptr::null_mut(), owner, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // SAFETY: made above, and nobody else has it.
            drop(unsafe { Box::from_raw(owner) });
            return;
        }
        h.data.store(data, Ordering::Release);
        h.waits.fetch_and(!MISSING, Ordering::Release);
    }

    /// Whether the storage has no memory yet.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.header().waits.load(Ordering::Acquire) & MISSING != 0
    }

    /// Whether a deferred operation is about to write the memory, or there is none yet.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        self.header().waits.load(Ordering::Acquire) & UNREADABLE != 0
    }

    /// Whether a deferred operation is about to write the memory.
    #[inline]
    pub fn is_written_later(&self) -> bool {
        self.header().waits.load(Ordering::Acquire) & (READ - 1) != 0
    }

    /// Whether there are deferred operations on the memory.
    #[inline]
    pub fn is_used_later(&self) -> bool {
        self.header().waits.load(Ordering::Acquire) & !MISSING != 0
    }

    /// Whether an operation that is not deferred would overtake one that is.
    #[inline]
    pub fn waits(&self, access: Access) -> bool {
        match access {
            Access::Read => self.is_written_later(),
            Access::Write => self.is_used_later(),
        }
    }

    /// Notes a deferred operation; false if there are too many.
    pub fn wait(&self, access: Access) -> bool {
        let before = self.header().waits.fetch_add(access.one(), Ordering::AcqRel);
        let half = if access == Access::Write { before & (READ - 1) } else { (before & !MISSING) >> 16 };
        if half < 0x7000 {
            return true;
        }
        self.unwait(access);
        false
    }

    /// Takes back one [`Storage::wait`].
    pub fn unwait(&self, access: Access) {
        self.header().waits.fetch_sub(access.one(), Ordering::AcqRel);
    }

    /// Runs what is deferred, for a reader (or a writer) of the memory.
    #[inline(always)]
    pub fn settle(&self, access: Access) {
        let waits = self.header().waits.load(Ordering::Acquire);
        if waits != 0 && (access == Access::Write || waits & UNREADABLE != 0) {
            self.settle_now(access);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_now(&self, access: Access) {
        if let Some(settle) = SETTLE.get() {
            settle(self, access);
        }
    }

    #[inline(always)]
    fn owner(&self) -> Option<&Owner> {
        // SAFETY: set once to a box that lives as long as the header; null otherwise.
        unsafe { self.header().owner.load(Ordering::Acquire).as_ref() }
    }

    #[inline(always)]
    pub fn device(&self) -> Device {
        self.header().device
    }

    /// The backend's handle that was given to [`Storage::on_device`]. Runs all deferred operations on the memory.
    pub fn memory(&self) -> Option<&(dyn Any + Send + Sync)> {
        if self.device() == Device::Cpu {
            return None;
        }
        self.settle(Access::Write);
        match self.owner()? {
            Owner::Other(memory) => Some(&**memory),
            Owner::Storage(s) => s.memory(),
        }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as any handle.
        unsafe { self.0.as_ref() }
    }

    /// The address of the memory, for reading and writing.
    #[inline(always)]
    pub fn data_ptr(&self) -> *mut u8 {
        self.settle(Access::Write);
        self.header().data.load(Ordering::Acquire)
    }

    /// The address of the memory as a number, for comparisons; 0 if there is no memory yet.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.header().data.load(Ordering::Acquire) as usize
    }

    /// Bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.header().len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the memory is read-only (a read-only NumPy array or a mapped file).
    pub fn is_readonly(&self) -> bool {
        self.header().readonly
    }

    /// Whether there is another owner: borrowed memory, or memory of a device.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        matches!(self.owner(), Some(Owner::Other(_)))
    }

    /// A number that no other live storage has.
    pub fn id(&self) -> usize {
        self.0.addr().get()
    }

    /// Whether nobody reads or writes the memory without a handle to this storage.
    #[inline]
    pub fn is_private(&self) -> bool {
        (!self.is_borrowed() || self.device() != Device::Cpu) && !self.header().lent.load(Ordering::Acquire)
    }

    /// The address of the memory for code that reads and writes it without asking, while the storage lives. No operation
    /// on it is deferred from now on.
    ///
    /// # Errors
    /// `RuntimeError` when out of memory.
    pub fn lend(&self) -> Result<*mut u8> {
        self.header().lent.store(true, Ordering::Release);
        let data = self.data_ptr();
        self.expect_memory().map(|()| data)
    }

    /// Whether this crate allocated the memory and no NumPy array shows it, so that a larger block can replace it.
    pub fn is_resizable(&self) -> bool {
        (!self.is_borrowed() || self.device() != Device::Cpu) && !self.header().shown.load(Ordering::Relaxed)
    }

    /// Makes the memory not resizable, as a NumPy array is about to show it.
    pub fn show(&self) {
        self.header().shown.store(true, Ordering::Relaxed);
        self.header().lent.store(true, Ordering::Release);
    }

    /// Whether this is the only handle to memory that this crate allocated.
    #[inline]
    pub fn is_unique(&self) -> bool {
        let h = self.header();
        h.refs.load(Ordering::Acquire) == 1
            && match self.owner() {
                None => true,
                Some(Owner::Storage(s)) => s.is_unique(),
                Some(Owner::Other(_)) => h.device != Device::Cpu,
            }
    }

    pub fn same(&self, other: &Storage) -> bool {
        self.0 == other.0
    }

    /// Whether this storage and `other` share any byte. Borrowed memory is compared by address, since the same memory
    /// may be wrapped several times.
    #[inline(always)]
    pub fn overlaps(&self, other: &Storage) -> bool {
        self.same(other) || self.is_borrowed() && other.is_borrowed() && self.meets(other)
    }

    /// Whether the address ranges of two host storages intersect.
    #[cold]
    fn meets(&self, other: &Storage) -> bool {
        let range = |s: &Storage| (s.address(), s.address() + s.header().host);
        let ((a, a_end), (b, b_end)) = (range(self), range(other));
        a.max(b) < a_end.min(b_end)
    }

    /// The number of handles that no deferred operation has. More while another thread defers or runs operations on it.
    pub fn owners(&self) -> usize {
        let waits = || self.header().waits.load(Ordering::Acquire) & !MISSING;
        let (before, handles, after) = (waits(), self.handles(), waits());
        let deferred = if before == after { (after & (READ - 1)) + after / READ } else { 0 };
        handles.saturating_sub(deferred as usize)
    }

    /// Whether the memory is the crate's own, and all other handles to it are those of deferred operations.
    pub fn is_unique_but_for_deferred(&self) -> bool {
        self.owners() == 1 && self.owner().is_none()
    }

    /// The reference count.
    pub fn handles(&self) -> usize {
        self.header().refs.load(Ordering::Acquire)
    }

    #[inline]
    fn versions(&self) -> &AtomicU32 {
        let h = self.header();
        h.counter.get().map_or(&h.version, |c| c)
    }

    /// The number of in-place writes so far.
    #[inline]
    pub fn version(&self) -> u32 {
        self.versions().load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set_version(&self, version: u32) {
        self.versions().store(version, Ordering::Relaxed);
    }

    pub fn bump_version(&self) {
        self.versions().fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that writes may follow that the version does not count.
    pub fn leave_uncounted(&self) {
        self.header().uncounted.store(true, Ordering::Release);
    }

    /// Whether all writes that may follow are counted.
    pub fn is_counted(&self) -> bool {
        !self.header().uncounted.load(Ordering::Acquire)
    }

    /// The version counter, to be shared with a tensor that moves to other memory.
    pub fn counter(&self) -> Arc<AtomicU32> {
        let h = self.header();
        h.counter.get_or_init(|| Arc::new(AtomicU32::new(h.version.load(Ordering::Relaxed)))).clone()
    }

    /// Counts writes together with another storage, if this one counts alone so far.
    pub fn share_counter(&self, other: &Storage) {
        self.header().counter.get_or_init(|| other.counter());
    }

    /// Bytes of data that the host can address: none if a deferred storage finds no memory.
    #[inline(always)]
    pub fn host_len(&self) -> usize {
        if self.is_missing() { self.host_len_now() } else { self.header().host }
    }

    #[cold]
    #[inline(never)]
    fn host_len_now(&self) -> usize {
        self.settle_now(Access::Read);
        if self.is_missing() { 0 } else { self.header().host }
    }

    /// # Errors
    /// `RuntimeError` if a deferred storage finds no memory.
    #[cold]
    pub fn expect_memory(&self) -> Result<()> {
        if self.is_missing() { Err(out_of_memory(self.len())) } else { Ok(()) }
    }

    /// Whether the data is aligned to `size`, a power of two. Allocated memory is aligned for every element type,
    /// borrowed memory may start at any address.
    #[inline(always)]
    pub fn is_aligned(&self, size: usize) -> bool {
        self.address() & (size - 1) == 0
    }

    /// All elements as `T`; empty when the memory is not aligned for `T`, or not on the host.
    #[inline(always)]
    pub fn slice<T: Element>(&self) -> &[T] {
        self.settle(Access::Read);
        let h = self.header();
        let data = h.data.load(Ordering::Acquire).cast_const();
        if data as usize & (align_of::<T>() - 1) != 0 || data.is_null() {
            return &[];
        }
        // SAFETY: the memory is valid for `host` bytes, aligned, and every bit pattern is a T (Pod). For concurrent
        // writers see Note [Tensor data and aliasing].
        unsafe { std::slice::from_raw_parts(data.cast(), h.host / size_of::<T>()) }
    }

    /// As [`Storage::slice`], but empty where a reader would have to run deferred operations.
    #[inline(always)]
    pub fn slice_now<T: Element>(&self) -> &[T] {
        if self.is_awaited() { &[] } else { self.slice() }
    }

    /// All elements, writable; None unless this is the only handle to memory that this crate allocated.
    #[inline(always)]
    pub fn slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        if !self.is_unique() {
            return None;
        }
        let data = self.data_ptr();
        if data.is_null() {
            return None;
        }
        // SAFETY: allocated memory is valid for `host` bytes, aligned for every element type, and every bit pattern is
        // a T. The only handle is mutably borrowed, so that no other slice of this memory exists.
        Some(unsafe { std::slice::from_raw_parts_mut(data.cast(), self.header().host / size_of::<T>()) })
    }
}

impl Clone for Storage {
    #[inline(always)]
    fn clone(&self) -> Self {
        self.header().refs.fetch_add(1, Ordering::Relaxed);
        Storage(self.0)
    }
}

impl Drop for Storage {
    #[inline(always)]
    fn drop(&mut self) {
        if self.header().refs.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            release(self.0);
        }
    }
}

thread_local!(static OWNERS: InTurn<Box<Owner>> = const { InTurn::new() });

fn release(p: NonNull<Header>) {
    // SAFETY: the last handle is gone, so nobody else accesses the header; owner and counter are moved out once and
    // the block is freed once.
    unsafe {
        let h = p.as_ptr();
        let (len, device, owner) = ((*h).len, (*h).device, *(*h).owner.get_mut());
        let missing = *(*h).waits.get_mut() & MISSING != 0;
        drop((&raw const (*h).counter).read());
        // When there is an owner, or no memory, the block holds only the header.
        alloc::free(h.cast(), HEADER + if owner.is_null() && !missing { len } else { 0 });
        if !owner.is_null() {
            let owner = Box::from_raw(owner);
            let borrowed = matches!(*owner, Owner::Other(_)) && device == Device::Cpu;
            // The owner may be an array over the memory of a tensor over the memory of an array, and so on.
            drop_in_turn(&OWNERS, owner);
            BORROWED.fetch_sub(borrowed as usize, Ordering::Relaxed);
        }
    }
}

/// The number of live storages over borrowed memory.
static BORROWED: AtomicUsize = AtomicUsize::new(0);

/// Whether any storage borrows memory, whose owner may be an object of the host language.
#[inline(always)]
pub fn anything_borrowed() -> bool {
    BORROWED.load(Ordering::Relaxed) != 0
}

/// A vector of `n` equal values, where `n` derives from numbers of the user: the standard library's vectors abort the
/// process when out of memory.
///
/// # Errors
/// `RuntimeError` when out of memory.
pub fn vec_of<T: Clone>(value: T, n: usize) -> Result<Vec<T>> {
    let mut out = empty_vec(n)?;
    out.resize(n, value);
    Ok(out)
}

/// An empty vector with room for `n` values; see [`vec_of`].
pub fn empty_vec<T>(n: usize) -> Result<Vec<T>> {
    let bytes = expect_room::<T>(n)?;
    let mut out = Vec::new();
    out.try_reserve_exact(n).map_err(|_| out_of_memory(bytes))?;
    Ok(out)
}

/// Errors unless the machine has memory for `n` values. Returns their size in bytes.
pub fn expect_room<T>(n: usize) -> Result<usize> {
    let bytes = n.saturating_mul(size_of::<T>());
    if bytes > alloc::memory() { Err(out_of_memory(bytes)) } else { Ok(bytes) }
}

#[cold]
fn out_of_memory(len: usize) -> Error {
    Error::Runtime(format!(
        "[enforce fail at alloc] DefaultCPUAllocator: can't allocate memory: you tried to allocate {len} bytes."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_share_memory_and_version() {
        let mut a = Storage::zeroed(16).unwrap();
        a.slice_mut::<f32>().unwrap()[2] = 3.0;
        let b = a.clone();
        assert!(a.slice_mut::<f32>().is_none());
        b.bump_version();
        assert_eq!(b.slice::<f32>()[2], 3.0);
        assert_eq!(a.version(), 1);
        assert!(!a.is_unique());
        drop(b);
        assert!(a.is_unique());
    }

    #[test]
    fn a_counter_that_is_shared_outlives_the_memory() {
        let a = Storage::zeroed(16).unwrap();
        a.bump_version();
        let counter = a.counter();
        counter.fetch_add(1, Ordering::Relaxed);
        a.bump_version();
        assert_eq!(a.version(), 3);
        drop(a);
        assert_eq!((counter.load(Ordering::Relaxed), Arc::strong_count(&counter)), (3, 1));
    }

    #[test]
    fn the_owner_of_borrowed_memory_lives_as_long_as_the_last_handle() {
        let owner = Arc::new(vec![1.0f32, 2.0]);
        // SAFETY: the owner keeps the vector alive.
        let s = unsafe { Storage::borrowed(owner.as_ptr() as *mut u8, 8, true, Box::new(owner.clone())) }
            .unwrap();
        assert_eq!(Arc::strong_count(&owner), 2);
        let t = s.clone();
        drop(s);
        assert_eq!(t.slice::<f32>(), &[1.0, 2.0]);
        drop(t);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    #[test]
    fn memory_of_others_is_lent_where_it_is_aligned_and_never_for_writing() {
        let owner = Arc::new(vec![1u64, 2, 3]);
        let start = owner.as_ptr() as *mut u8;
        let at = |start: *mut u8, len| {
            // SAFETY: the owner keeps the vector alive, and it is only read.
            unsafe { Storage::borrowed(start, len, false, Box::new(owner.clone())) }.unwrap()
        };
        let (mut whole, odd) = (at(start, 24), at(start.wrapping_add(1), 8));
        assert_eq!((whole.slice::<i64>().len(), whole.slice_mut::<i64>()), (3, None));
        assert_eq!((odd.slice::<i64>().len(), odd.slice::<u8>().len()), (0, 8));
        assert!(whole.is_aligned(8) && odd.is_aligned(1) && !odd.is_aligned(2));
    }

    #[test]
    fn memory_that_is_wrapped_twice_overlaps_where_its_addresses_do() {
        let owner = Arc::new(vec![0u8; 16]);
        let wrap = |from: usize, to: usize| {
            // SAFETY: the owner keeps the vector alive.
            unsafe {
                let data = owner.as_ptr().add(from) as *mut u8;
                Storage::borrowed(data, to - from, true, Box::new(owner.clone())).unwrap()
            }
        };
        let (a, b, c, none) = (wrap(0, 8), wrap(4, 16), wrap(8, 16), wrap(4, 4));
        assert!(a.overlaps(&b) && b.overlaps(&a) && b.overlaps(&c) && a.overlaps(&a));
        assert!(!a.overlaps(&c) && !a.overlaps(&none));
        let own = Storage::new(16).unwrap();
        assert!(own.overlaps(&own.clone()) && !own.overlaps(&a) && !own.overlaps(&Storage::new(16).unwrap()));
    }

    #[test]
    fn memory_of_a_device_has_a_size_but_no_elements_for_the_host() {
        let s = Storage::on_device(Device::Gpu(0), 16, Box::new(7u32)).unwrap();
        assert_eq!((s.len(), s.slice::<f32>().len(), s.is_unique()), (16, 0, true));
        assert_eq!(s.memory().and_then(|m| m.downcast_ref::<u32>()), Some(&7));
        assert!(Storage::new(16).unwrap().memory().is_none());
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(Storage::new(usize::MAX - 10).is_err());
        assert!(vec_of(0i64, usize::MAX).is_err());
        assert!(empty_vec::<u8>(usize::MAX / 2).is_err());
    }

    #[test]
    fn an_alias_is_no_unique_handle_while_what_it_shows_lives() {
        let mut a = Storage::from_slice(&[1.0f32, 2.0]).unwrap();
        let mut b = a.alias().unwrap();
        assert!(a.slice_mut::<f32>().is_none() && b.slice_mut::<f32>().is_none());
        drop(a);
        assert_eq!(b.slice_mut::<f32>().unwrap(), &[1.0, 2.0]);
    }

    #[test]
    fn a_storage_that_finds_no_memory_has_no_bytes_for_anybody() {
        // Nothing is installed that would give it memory.
        let s = Storage::deferred(Device::Cpu, 16).unwrap();
        assert_eq!((s.len(), s.host_len(), s.slice::<f32>().len()), (16, 0, 0));
        assert!(s.expect_memory().is_err() && s.lend().is_err() && !s.is_private());
        s.adopt(Storage::from_slice(&[1.0f32; 4]).unwrap());
        assert_eq!((s.host_len(), s.slice::<f32>().len()), (16, 4));
    }

    #[test]
    fn more_than_the_machine_has_is_refused_before_anything_is_reserved() {
        let message = Storage::new(alloc::memory() + 1).err().map(|e| e.to_string());
        assert!(message.is_some_and(|m| m.contains("can't allocate memory: you tried to allocate")));
    }
}
