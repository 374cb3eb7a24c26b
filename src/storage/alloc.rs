//! The caching allocator: size classes, free lists per thread, and a bounded shared pool for large blocks.
//!
//! Note [Why tensors have an allocator of their own] Tiny tensors are freed after one operation, and a general
//! allocator costs more than their arithmetic. Large tensors are also short-lived, and a fresh large block costs a
//! page fault per 4 KiB: writing a recycled 40 MB block is five times faster than writing a fresh one. So freed blocks
//! are cached by size class: small ones in free lists of the thread that freed them, large ones, and those of 32 KiB and more for which
//! these lists have no room, in one shared pool.
//! Both are bounded, and [`empty_cache`] releases both.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::LocalKey;

/// Alignment of every block: a cache line, which is also the widest vector.
pub const ALIGN: usize = 64;
/// The largest block that a thread's free lists keep.
const LOCAL_MAX: usize = 1 << 20;
/// The smallest block that the shared pool keeps: those for which a thread's free lists have no room. A fresh one costs page faults.
const SHARED_MIN: usize = 1 << 15;
/// Bytes that one free list of one thread may keep.
const BIN_BYTES: usize = 256 << 10;
/// Blocks of at least this size are aligned to huge pages, and the kernel is asked to back them with huge pages.
const HUGE: usize = 4 << 20;

/// Sizes are rounded up to 64, 128, 192, 256, then four steps to each power of two.
#[inline(always)]
fn class_of(size: usize) -> (usize, usize) {
    if size <= 256 {
        let c = size.saturating_sub(1) / 64;
        return (c, (c + 1) * 64);
    }
    let top = usize::BITS - 1 - (size - 1).leading_zeros();
    let quarter = 1usize << (top - 2);
    let step = (size - 1) >> (top - 2) & 3;
    (4 + (top as usize - 8) * 4 + step, (4 + step + 1) * quarter)
}

/// The size of the blocks of a class.
const fn size_of_class(class: usize) -> usize {
    match class.checked_sub(4) {
        None => (class + 1) * 64,
        Some(c) => (5 + c % 4) << (c / 4 + 6),
    }
}

const LOCAL_CLASSES: usize = 4 + 12 * 4;
const CLASSES: usize = 4 + (usize::BITS as usize - 8) * 4;

/// Free blocks of one thread: per size class a linked list, whose links are the first words of the blocks.
struct Bins<const N: usize> {
    /// How many blocks each list may hold. Precomputed, because a division on every free is measurable.
    limit: [u32; N],
    head: [Cell<*mut u8>; N],
    /// How many more blocks each list takes: none until the destructor that empties the lists is registered, and after
    /// it has run.
    room: [Cell<u32>; N],
}

impl<const N: usize> Bins<N> {
    /// Free lists for classes of these block sizes.
    const fn new(size: [usize; N]) -> Self {
        let mut limit = [0; N];
        let mut class = 0;
        while class < N {
            let blocks = BIN_BYTES / size[class];
            limit[class] = if blocks > 1024 {
                1024
            } else if blocks < 2 {
                2
            } else {
                blocks as u32
            };
            class += 1;
        }
        Bins { limit, head: [const { Cell::new(null_mut()) }; N], room: [const { Cell::new(0) }; N] }
    }

    /// Takes a block of a class; null if there is none.
    #[inline(always)]
    fn take(&self, class: usize) -> *mut u8 {
        let p = self.head[class].get();
        if !p.is_null() {
            // SAFETY: a block in a bin holds the pointer to the next one in its first word.
            self.head[class].set(unsafe { p.cast::<*mut u8>().read() });
            self.room[class].set(self.room[class].get() + 1);
        }
        p
    }

    /// Keeps a block; false if its list takes no more.
    ///
    /// # Safety
    /// `p` is a block of this class that nobody uses.
    #[inline(always)]
    unsafe fn keep(&self, class: usize, p: *mut u8) -> bool {
        if self.room[class].get() == 0 && !has_just_registered() {
            return false;
        }
        // SAFETY: the block is at least 64 bytes, aligned, and unused.
        unsafe { p.cast::<*mut u8>().write(self.head[class].get()) };
        self.head[class].set(p);
        self.room[class].set(self.room[class].get() - 1);
        true
    }

    /// Lets the lists take blocks: up to their limits, or none.
    fn open(&self, opened: bool) {
        for (room, limit) in self.room.iter().zip(self.limit) {
            room.set(if opened { limit } else { 0 });
        }
    }
}

/// The sizes of all classes in a const context, where closures cannot be called.
macro_rules! sizes {
    ($size:ident) => {{
        let mut sizes = [0; _];
        let mut class = 0;
        while class < sizes.len() {
            sizes[class] = $size(class);
            class += 1;
        }
        sizes
    }};
}

type Local<const N: usize> = LocalKey<Bins<N>>;

thread_local! {
    // No destructors here, as a list may be used by the registration of one. The destructor of `Return` releases the
    // blocks when the thread ends.
    static BINS: Bins<LOCAL_CLASSES> = const { Bins::new(sizes!(size_of_class)) };
    /// Small objects have lists of their own: with the alignment of tensor data each would take a cache line more.
    static OBJECTS: Bins<OBJECT_CLASSES> = const { Bins::new(sizes!(size_of_object)) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    static RETURN: Return = const { Return };
}

struct Return;
impl Drop for Return {
    fn drop(&mut self) {
        empty_local();
        open_local(false);
    }
}

/// Registers the destructor that empties this thread's lists, and opens them; false if that was done before.
#[cold]
fn has_just_registered() -> bool {
    // Set before, as the registration itself may allocate and free.
    if REGISTERED.replace(true) || RETURN.try_with(|_| ()).is_err() {
        return false;
    }
    open_local(true);
    true
}

fn open_local(opened: bool) {
    BINS.with(|b| b.open(opened));
    OBJECTS.with(|b| b.open(opened));
}

/// Free blocks that are too large for a thread's lists, or too many.
struct Pool {
    free: Vec<Vec<usize>>,
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), bytes: 0 });
static POOL_LIMIT: AtomicUsize = AtomicUsize::new(0);

// Only storages of at least a page are counted: for smaller ones the counting would cost more than the allocation.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn system_layout(size: usize) -> Layout {
    let align = if size >= HUGE { 2 << 20 } else { ALIGN };
    // SAFETY: both alignments are powers of two, and `size` comes from `class_of`, far below isize::MAX because
    // callers check the number of elements first.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}

fn system_alloc(size: usize) -> *mut u8 {
    // SAFETY: the layout has a non-zero size.
    let p = unsafe { System.alloc(system_layout(size)) };
    #[cfg(target_os = "linux")]
    if size >= HUGE && !p.is_null() {
        // SAFETY: the range is the block just allocated; the advice changes no contents.
        unsafe { libc::madvise(p.cast(), size, libc::MADV_HUGEPAGE) };
    }
    p
}

/// Allocates at least `size` bytes, aligned to [`ALIGN`]; null when out of memory.
#[inline]
pub fn alloc(size: usize) -> *mut u8 {
    let (class, size) = class_of(size);
    if size <= LOCAL_MAX {
        let mut p = BINS.with(|b| b.take(class));
        if p.is_null() {
            p = if size < SHARED_MIN { system_alloc(size) } else { take_shared(class, size) };
        }
        if size >= 4096 && !p.is_null() {
            count(size);
        }
        return p;
    }
    let p = take_shared(class, size);
    if !p.is_null() {
        count(size);
    }
    p
}

fn count(size: usize) {
    let now = ALLOCATED.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(now, Relaxed);
}

/// Frees a block of [`alloc`], given the requested size.
///
/// # Safety
/// The block came from `alloc` with this size and is not used afterwards.
#[inline]
pub unsafe fn free(p: *mut u8, size: usize) {
    let (class, size) = class_of(size);
    if size >= 4096 {
        ALLOCATED.fetch_sub(size, Relaxed);
    }
    if size <= LOCAL_MAX {
        // SAFETY: the caller handed over the block, so nobody else uses it.
        let kept = BINS.with(|b| unsafe { b.keep(class, p) });
        if kept {
            return;
        }
        if size < SHARED_MIN {
            // SAFETY: the block came from the system allocator with this layout.
            return unsafe { System.dealloc(p, system_layout(size)) };
        }
    }
    // SAFETY: as above.
    unsafe { keep_shared(class, size, p) };
}

#[cold]
fn take_shared(class: usize, size: usize) -> *mut u8 {
    if let Ok(mut pool) = POOL.lock()
        && let Some(p) = pool.free.get_mut(class).and_then(Vec::pop)
    {
        pool.bytes -= size;
        return p as *mut u8;
    }
    if size > memory() {
        return null_mut();
    }
    let p = system_alloc(size);
    if p.is_null() {
        empty_cache();
        return system_alloc(size);
    }
    p
}

/// # Safety
/// `p` is a block of this class and size that nobody uses.
#[cold]
unsafe fn keep_shared(class: usize, size: usize, p: *mut u8) {
    if let Ok(mut pool) = POOL.lock()
        && pool.bytes + size <= pool_limit()
    {
        if pool.free.is_empty() {
            pool.free.resize_with(CLASSES, Vec::new);
        }
        pool.bytes += size;
        pool.free[class].push(p as usize);
        return;
    }
    // SAFETY: the block came from the system allocator with this layout.
    unsafe { System.dealloc(p, system_layout(size)) };
}

/// A quarter of physical memory, at least 1 GiB.
fn pool_limit() -> usize {
    match POOL_LIMIT.load(Relaxed) {
        0 => {
            let limit = (physical_memory() / 4).max(1 << 30);
            POOL_LIMIT.store(limit, Relaxed);
            limit
        }
        limit => limit,
    }
}

/// Physical memory in bytes; 0 when unknown.
fn physical_memory() -> usize {
    // SAFETY: sysconf only reads.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages.max(0) as usize).saturating_mul(page.max(0) as usize)
}

/// The largest request that may be granted: physical memory and swap. A system that overcommits would grant more, and
/// kill the process when it writes there.
pub fn memory() -> usize {
    static MEMORY: AtomicUsize = AtomicUsize::new(0);
    match MEMORY.load(Relaxed) {
        0 => {
            let most = match physical_memory() {
                0 => usize::MAX,
                physical => physical.saturating_add(swap()),
            };
            MEMORY.store(most, Relaxed);
            most
        }
        most => most,
    }
}

#[cfg(target_os = "linux")]
fn swap() -> usize {
    // SAFETY: all zeros is a valid value of the structure, which the call fills in.
    let (failed, info) = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        (libc::sysinfo(&mut info) != 0, info)
    };
    if failed { 0 } else { (info.totalswap as usize).saturating_mul(info.mem_unit as usize) }
}

/// Unlimited: on these systems swap grows on demand.
#[cfg(not(target_os = "linux"))]
fn swap() -> usize {
    usize::MAX
}

fn empty_local() {
    empty(&BINS, |class| system_layout(size_of_class(class)));
    empty(&OBJECTS, object_layout);
}

fn empty<const N: usize>(bins: &'static Local<N>, layout: fn(usize) -> Layout) {
    for class in 0..N {
        loop {
            let p = bins.with(|b| b.take(class));
            if p.is_null() {
                break;
            }
            // SAFETY: the block came from the system allocator with the layout of its class.
            unsafe { System.dealloc(p, layout(class)) };
        }
    }
}

/// Releases the cached blocks of the shared pool and of the calling thread to the system.
pub fn empty_cache() {
    empty_local();
    let Ok(mut pool) = POOL.lock() else { return };
    pool.bytes = 0;
    let free = std::mem::take(&mut pool.free);
    drop(pool);
    for (class, blocks) in free.into_iter().enumerate() {
        for p in blocks {
            // SAFETY: the block came from the system allocator with the layout of its class.
            unsafe { System.dealloc(p as *mut u8, system_layout(size_of_class(class))) };
        }
    }
}

/// Bytes in live storages of a page or more, their peak, and bytes cached in the shared pool.
pub fn stats() -> (usize, usize, usize) {
    (ALLOCATED.load(Relaxed), PEAK.load(Relaxed), POOL.lock().map_or(0, |p| p.bytes))
}

/// Resets the peak to the current number of live bytes.
pub fn reset_peak() {
    PEAK.store(ALLOCATED.load(Relaxed), Relaxed);
}

/// A global allocator that keeps small objects of the core (tensor handles, nodes, edge lists) in such lists. The
/// Python module installs it; a Rust program that links the crate chooses its own.
pub struct SmallObjects;

const OBJECT_MAX: usize = 1024;
const OBJECT_STEP: usize = 64;
const OBJECT_CLASSES: usize = OBJECT_MAX / OBJECT_STEP;

const fn size_of_object(class: usize) -> usize {
    (class + 1) * OBJECT_STEP
}

#[inline(always)]
fn class_of_object(size: usize) -> usize {
    size.saturating_sub(1) / OBJECT_STEP
}

/// The alignment that the system allocator guarantees.
const OBJECT_ALIGN: usize = 16;

fn object_layout(class: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and the size that of a small class.
    unsafe { Layout::from_size_align_unchecked(size_of_object(class), OBJECT_ALIGN) }
}

// SAFETY: blocks of up to OBJECT_MAX bytes come from and return to the bins under the class of their size; all
// others are the system's. Which of the two applies depends on the layout alone, equal at both ends.
unsafe impl GlobalAlloc for SmallObjects {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() <= OBJECT_MAX && layout.align() <= OBJECT_ALIGN {
            let class = class_of_object(layout.size());
            let p = OBJECTS.with(|b| b.take(class));
            // SAFETY: the layout has a non-zero size.
            return if p.is_null() { unsafe { System.alloc(object_layout(class)) } } else { p };
        }
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.alloc(layout) }
    }

    // Inlined copies at every drop would be between 1 % and 3 % of the library.
    #[inline(never)]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        if layout.size() <= OBJECT_MAX && layout.align() <= OBJECT_ALIGN {
            let class = class_of_object(layout.size());
            // SAFETY: the block came from `alloc` under the same class, and is unused from now on.
            let kept = OBJECTS.with(|b| unsafe { b.keep(class, p) });
            if !kept {
                // SAFETY: it came from the system allocator with the layout of its class.
                unsafe { System.dealloc(p, object_layout(class)) };
            }
            return;
        }
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.dealloc(p, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_sizes_and_waste_at_most_a_quarter() {
        for size in (1..5000).chain([1 << 20, (1 << 20) + 1, 40_000_000, (1 << 33) + 7]) {
            let (class, rounded) = class_of(size);
            assert!(rounded >= size && class < CLASSES);
            assert!(rounded <= size.max(64) + size / 4 + 64, "{size} became {rounded}");
            assert_eq!(class_of(rounded), (class, rounded));
            assert_eq!(size_of_class(class), rounded);
        }
        assert_eq!(class_of(LOCAL_MAX).0, LOCAL_CLASSES - 1);
        for size in 1..=OBJECT_MAX {
            let rounded = size_of_object(class_of_object(size));
            assert!(rounded >= size && rounded < size + OBJECT_STEP);
        }
        assert_eq!(class_of_object(OBJECT_MAX), OBJECT_CLASSES - 1);
    }

    #[test]
    fn a_freed_block_is_handed_out_again() {
        let p = alloc(1000);
        // SAFETY: freed once, with its size.
        unsafe { free(p, 1000) };
        let q = alloc(1000);
        assert_eq!(p, q);
        // SAFETY: as above.
        unsafe { free(q, 1000) };
    }

    #[test]
    fn blocks_for_which_a_list_has_no_room_are_handed_out_again() {
        // More than a list keeps. Other tests may take some of those in the pool.
        const SIZE: usize = 700_000;
        let take = || (0..8).map(|_| alloc(SIZE)).collect::<std::collections::BTreeSet<_>>();
        let first = take();
        for p in &first {
            // SAFETY: freed once, with its size.
            unsafe { free(*p, SIZE) };
        }
        let second = take();
        let limit = BINS.with(|b| b.limit[class_of(SIZE).0]) as usize;
        assert!(first.intersection(&second).count() > limit);
        for p in second {
            // SAFETY: as above.
            unsafe { free(p, SIZE) };
        }
    }

    /// How many lists of this thread hold a block.
    fn kept() -> usize {
        BINS.with(|b| b.head.iter().filter(|head| !head.get().is_null()).count())
    }

    #[test]
    fn a_thread_that_only_frees_leaves_no_block_behind() {
        static FREED_AND_KEPT: AtomicUsize = AtomicUsize::new(0);
        /// Frees a block when the thread ends, after the destructor of `RETURN`: the last registered is the first to run.
        struct Last(Cell<*mut u8>);
        impl Drop for Last {
            fn drop(&mut self) {
                // SAFETY: freed once, with its size.
                unsafe { free(self.0.get(), 1000) };
                FREED_AND_KEPT.store(1 << 16 | kept(), Relaxed);
            }
        }
        thread_local! {
            static LAST: Last = const { Last(Cell::new(null_mut())) };
        }
        let (p, q) = (alloc(1000) as usize, alloc(1000) as usize);
        let thread = std::thread::spawn(move || {
            LAST.with(|last| last.0.set(q as *mut u8));
            // SAFETY: freed once, with its size.
            unsafe { free(p as *mut u8, 1000) };
            kept()
        });
        assert_eq!(thread.join().ok(), Some(1));
        assert_eq!(FREED_AND_KEPT.load(Relaxed), 1 << 16);
    }

    #[test]
    fn large_blocks_are_recycled_until_the_cache_is_emptied() {
        let size = 3 << 20;
        let p = alloc(size);
        assert_eq!(p as usize % ALIGN, 0);
        // SAFETY: freed once, with its size.
        unsafe { free(p, size) };
        assert!(stats().2 >= size);
        empty_cache();
    }
}
