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
#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

use super::alloc;
use super::shared::OnceShared;
use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, Result};

/// Precedes the data in an owned block; allocated alone for borrowed memory and for device memory.
#[repr(C, align(64))]
struct Header {
    refs: AtomicUsize,
    data: *mut u8,
    /// Bytes of data that the host can address: all of them, or none on a device.
    host: usize,
    /// Bytes of data.
    len: usize,
    /// Version counter shared with tensors that kept the old storage after `set_` or `.data =`; replaces `version`
    /// once present.
    counter: OnceShared<AtomicU32>,
    version: AtomicU32,
    readonly: bool,
    /// Whether a NumPy array shows the memory, which must then stay where it is.
    shown: AtomicBool,
    device: Device,
    /// Keeps borrowed memory alive; on a device, the backend's handle to the memory.
    owner: Option<Box<dyn Any + Send + Sync>>,
}

/// A reference-counted piece of memory. `clone` is another handle to the same memory.
pub struct Storage(NonNull<Header>);

// SAFETY: the header is shared through atomics; the data is covered by Note [Tensor data and aliasing].
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

const HEADER: usize = size_of::<Header>();

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
                data: p.as_ptr().add(HEADER),
                host: len,
                len,
                counter: OnceShared::empty(),
                version: AtomicU32::new(0),
                readonly: false,
                shown: AtomicBool::new(false),
                device: Device::Cpu,
                owner: None,
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
        h.data = data;
        h.host = len;
        h.len = len;
        h.readonly = readonly;
        h.owner = Some(owner);
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
        h.owner = Some(memory);
        Ok(s)
    }

    #[inline(always)]
    pub fn device(&self) -> Device {
        self.header().device
    }

    /// The backend's handle that was given to [`Storage::on_device`].
    pub fn memory(&self) -> Option<&(dyn Any + Send + Sync)> {
        let h = self.header();
        if h.device == Device::Cpu { None } else { h.owner.as_deref() }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as any handle.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub fn data_ptr(&self) -> *mut u8 {
        self.header().data
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

    /// Whether there is an owner: borrowed memory, or memory of a device.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        self.header().owner.is_some()
    }

    /// Whether this crate allocated the memory and no NumPy array shows it, so that a larger block can replace it.
    pub fn is_resizable(&self) -> bool {
        (!self.is_borrowed() || self.device() != Device::Cpu) && !self.header().shown.load(Ordering::Relaxed)
    }

    /// Makes the memory not resizable, as a NumPy array is about to show it.
    pub fn show(&self) {
        self.header().shown.store(true, Ordering::Relaxed);
    }

    /// Whether this is the only handle to memory that this crate allocated.
    #[inline]
    pub fn is_unique(&self) -> bool {
        let h = self.header();
        h.refs.load(Ordering::Acquire) == 1 && (h.owner.is_none() || h.device != Device::Cpu)
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
        let range = |h: &Header| (h.data as usize, h.data as usize + h.host);
        let ((a, a_end), (b, b_end)) = (range(self.header()), range(other.header()));
        a.max(b) < a_end.min(b_end)
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

    /// The version counter, to be shared with a tensor that moves to other memory.
    pub fn counter(&self) -> Arc<AtomicU32> {
        let h = self.header();
        h.counter.get_or_init(|| Arc::new(AtomicU32::new(h.version.load(Ordering::Relaxed)))).clone()
    }

    /// Bytes of data that the host can address.
    #[inline(always)]
    pub fn host_len(&self) -> usize {
        self.header().host
    }

    /// Whether the data is aligned to `size`, a power of two. Allocated memory is aligned for every element type,
    /// borrowed memory may start at any address.
    #[inline(always)]
    pub fn is_aligned(&self, size: usize) -> bool {
        self.header().data as usize & (size - 1) == 0
    }

    /// All elements as `T`; empty when the memory is not aligned for `T`, or not on the host.
    #[inline(always)]
    pub fn slice<T: Element>(&self) -> &[T] {
        let h = self.header();
        if !self.is_aligned(align_of::<T>()) {
            return &[];
        }
        // SAFETY: the memory is valid for `host` bytes, aligned, and every bit pattern is a T (Pod). For concurrent
        // writers see Note [Tensor data and aliasing].
        unsafe { std::slice::from_raw_parts(h.data.cast_const().cast(), h.host / size_of::<T>()) }
    }

    /// All elements, writable; None unless this is the only handle to memory that this crate allocated.
    #[inline(always)]
    pub fn slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        if !self.is_unique() {
            return None;
        }
        let h = self.header();
        // SAFETY: allocated memory is valid for `host` bytes, aligned for every element type, and every bit pattern is
        // a T. The only handle is mutably borrowed, so that no other slice of this memory exists.
        Some(unsafe { std::slice::from_raw_parts_mut(h.data.cast(), h.host / size_of::<T>()) })
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

fn release(p: NonNull<Header>) {
    // SAFETY: the last handle is gone, so nobody else accesses the header; owner and counter are moved out once and
    // the block is freed once.
    unsafe {
        let h = p.as_ptr();
        let (len, device, owner) = ((*h).len, (*h).device, (&raw const (*h).owner).read());
        drop((&raw const (*h).counter).read());
        // When there is an owner, the block holds only the header.
        alloc::free(h.cast(), HEADER + if owner.is_some() { 0 } else { len });
        if owner.is_some() {
            drop(owner);
            BORROWED.fetch_sub((device == Device::Cpu) as usize, Ordering::Relaxed);
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
    fn more_than_the_machine_has_is_refused_before_anything_is_reserved() {
        let message = Storage::new(alloc::memory() + 1).err().map(|e| e.to_string());
        assert!(message.is_some_and(|m| m.contains("can't allocate memory: you tried to allocate")));
    }
}
