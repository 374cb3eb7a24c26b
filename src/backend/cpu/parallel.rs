//! The thread pool: parallel loops over fixed-size chunks.
//!
//! A loop is divided into chunks according to its `grain` alone, never to the number of threads, so that results do
//! not depend on how many threads run it. Worker threads are started by the first loop that needs them. Their number
//! is `RGRAD_NUM_THREADS`, else `OMP_NUM_THREADS`, else what CPU affinity and cgroup quota grant the process.
//!
//! // Note [Regions] A parallel loop in progress is a region. The pool holds one at a time: its task, and two
//! counters, `unclaimed` and `finished`. The caller publishes the region by storing `unclaimed`, and then claims
//! chunks exactly as the workers do, by decrementing it. Only a thread with a claimed chunk may read the task: the
//! region cannot end before that chunk is counted in `finished`. So the caller waits only for chunks that a running
//! thread has already started, and a worker that the system does not schedule causes no delay.
//!
//! A caller that finds the pool taken (by another thread, or by the loop of which it is itself a chunk) runs its loop
//! alone, so that nested and concurrent loops cannot deadlock. After `fork` the child drops the inherited pool, whose
//! threads do not exist there, and creates a new one on demand.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::heed_interrupt;

/// How long a thread polls for work, or for the last chunks, before it sleeps. Waking a sleeping thread takes longer
/// than most regions, and the operations of one training step follow each other within this time.
const SPIN: Duration = Duration::from_micros(40);

/// After a spinning thread was preempted, this many waits sleep at once, since other threads compete for the cores.
const WAITS_WITHOUT_SPIN: u32 = 64;

/// The number of threads in use; 0 until first requested.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The pool, null until a region needs it. Pools are never freed: a caller may still use a replaced one.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// The number of threads used by parallel loops, including the calling thread.
pub fn num_threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => {
            let n = default_threads();
            // An earlier or concurrent set_num_threads wins.
            THREADS.compare_exchange(0, n, Relaxed, Relaxed).err().unwrap_or(n)
        }
        n => n,
    }
}

/// Uses `n` threads (at least one) from the next parallel loop on.
pub fn set_num_threads(n: usize) {
    let n = n.max(1);
    if num_threads() != n {
        THREADS.store(n, Relaxed);
        let old = POOL.swap(ptr::null_mut(), SeqCst);
        // SAFETY: POOL holds null or a pool that is never freed.
        if let Some(old) = unsafe { old.as_ref() } {
            old.retire();
        }
    }
}

fn default_threads() -> usize {
    ["RGRAD_NUM_THREADS", "OMP_NUM_THREADS"]
        .iter()
        .filter_map(|name| std::env::var(name).ok()?.trim().parse().ok())
        .find(|&n: &usize| n > 0)
        .unwrap_or_else(available_cpus)
}

/// The number of CPUs available to this process; the standard library respects both affinity and cgroup quotas.
fn available_cpus() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

/// The body of a region. Not `dyn Fn`, whose vtable contains each closure twice: the `FnOnce` entry is a copy of the
/// body.
trait Job: Sync {
    fn chunk(&self, i: usize);
}

impl<F: Fn(usize) + Sync> Job for F {
    fn chunk(&self, i: usize) {
        self(i)
    }
}

/// Calls `f` in parallel, in any order, with the chunks of `0..len`, each of `grain` indices except the last.
///
/// A panic in `f` is propagated to the caller once all started chunks have ended.
pub fn parallel_for(len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    let grain = grain.max(1);
    let chunk = |i: usize| f(i * grain..len.min((i + 1) * grain));
    run(len.div_ceil(grain), &chunk);
}

/// Calls `f(i, chunk)` in parallel with the chunks of `out`, each of `chunk` elements except the last.
pub fn for_chunks_mut<T: Send>(out: &mut [T], chunk: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let out = Chunks::new(out, chunk);
    // SAFETY: `run` passes each chunk number once.
    run(out.count(), &|i: usize| f(i, unsafe { out.get(i) }));
}

/// Calls `f(range, part)` in parallel with the chunks of `out`, each of `grain` elements except the last, and their
/// ranges.
pub fn for_ranges_mut<T: Send>(out: &mut [T], grain: usize, f: impl Fn(Range<usize>, &mut [T]) + Sync) {
    let grain = grain.max(1);
    let out = Chunks::new(out, grain);
    // SAFETY: `run` passes each chunk number once.
    run(out.count(), &|i: usize| f(i * grain..out.len.min((i + 1) * grain), unsafe { out.get(i) }));
}

/// Calls `f(i, part)` in parallel with the parts of `out` between consecutive `bounds`.
///
/// # Panics
/// If the bounds are not ascending or exceed the length.
pub fn for_parts_mut<T: Send>(out: &mut [T], bounds: &[usize], f: impl Fn(usize, &mut [T]) + Sync) {
    assert!(bounds.is_sorted() && bounds.last().is_none_or(|&end| end <= out.len()), "not bounds of parts");
    let out = Chunks::new(out, 1);
    run(bounds.len().saturating_sub(1), &|i: usize| {
        // SAFETY: `run` passes each number once, and parts between ascending bounds are disjoint.
        f(i, unsafe { out.part(bounds[i]..bounds[i + 1]) });
    });
}

/// Calls `f(matrix, range, parts)` in parallel with the same range of each row of a matrix of `out`, which consists of
/// row-major matrices of these sizes. All ranges but the last of a matrix have `grain` columns.
pub fn for_columns_mut<T: Send>(
    out: &mut [T],
    [rows, columns]: [usize; 2],
    grain: usize,
    f: impl Fn(usize, Range<usize>, &mut [&mut [T]]) + Sync,
) {
    let grain = grain.max(1);
    // A size that overflows is larger than `out`, and so of no matrix.
    let (size, ranges) = (rows.saturating_mul(columns), columns.div_ceil(grain));
    let out = Chunks::new(out, 1);
    run(out.len.checked_div(size).map_or(0, |matrices| matrices * ranges), &|i: usize| {
        let (matrix, start) = (i / ranges, i % ranges * grain);
        let range = start..columns.min(start + grain);
        let row = |r: usize| matrix * size + r * columns;
        // SAFETY: `run` passes each number once, and ranges of columns are disjoint, as are rows.
        let part = |r: usize| unsafe { out.part(row(r) + range.start..row(r) + range.end) };
        f(matrix, range.clone(), &mut (0..rows).map(part).collect::<Vec<_>>());
    });
}

/// Calls `f(i, chunk of a, chunk of b)` in parallel with corresponding chunks of two slices.
///
/// # Panics
/// If `a` in chunks of `ca` and `b` in chunks of `cb` have different numbers of chunks.
pub fn for_chunks_mut2<T: Send, U: Send>(
    a: &mut [T],
    ca: usize,
    b: &mut [U],
    cb: usize,
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (a, b) = (Chunks::new(a, ca), Chunks::new(b, cb));
    assert_eq!(a.count(), b.count(), "the two slices have different numbers of chunks");
    // SAFETY: `run` passes each chunk number once.
    run(a.count(), &|i: usize| f(i, unsafe { a.get(i) }, unsafe { b.get(i) }));
}

/// A mutable slice whose disjoint chunks are given to several threads.
struct Chunks<T> {
    data: *mut T,
    len: usize,
    chunk: usize,
}

// SAFETY: each chunk is given to one thread only (the contract of `get`), which requires only T: Send.
unsafe impl<T: Send> Sync for Chunks<T> {}

impl<T> Chunks<T> {
    fn new(data: &mut [T], chunk: usize) -> Self {
        Chunks { data: data.as_mut_ptr(), len: data.len(), chunk: chunk.max(1) }
    }

    fn count(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    /// # Safety
    /// Each `i` is requested at most once while the slice given to `new` is borrowed.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, i: usize) -> &mut [T] {
        let start = i * self.chunk;
        assert!(start < self.len);
        // SAFETY: chunks of different numbers are disjoint.
        unsafe { self.part(start..self.len.min(start + self.chunk)) }
    }

    /// # Safety
    /// No index is requested twice while the slice given to `new` is borrowed.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range is within the slice, and nothing else refers to its elements.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

/// Calls `f` once for each of `0..chunks`. Not generic, so that hundreds of loops share the code.
fn run(chunks: usize, f: &dyn Job) {
    if chunks > 1 && chunks <= u32::MAX as usize && num_threads() > 1 {
        let pool = Pool::current();
        if !pool.taken.swap(true, Acquire) {
            return pool.run(chunks, f);
        }
    }
    if chunks <= 1 {
        return (0..chunks).for_each(|i| f.chunk(i));
    }
    for i in 0..chunks {
        f.chunk(i);
        heed_interrupt();
    }
}

/// The body of a region. The closure outlives the region: see Note [Regions].
#[derive(Clone, Copy)]
struct Task {
    closure: *const dyn Job,
    chunks: usize,
}

impl Task {
    fn new<'a>(f: &'a (dyn Job + 'a), chunks: usize) -> Self {
        // SAFETY: only the lifetime changes, and a raw pointer guarantees none.
        let closure = unsafe { std::mem::transmute::<*const (dyn Job + 'a), *const (dyn Job + 'static)>(f) };
        Task { closure, chunks }
    }
}

/// The end of the range of unclaimed chunks from which a thread claims.
///
/// Note [Who claims which chunks]
/// The caller claims chunks in ascending order, the workers in descending order. So each core finds most of the memory
/// of a previous loop in its own cache when the next loop uses the same memory.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// The number of chunks in a value of `Pool::unclaimed`.
fn left(range: u64) -> u64 {
    (range >> 32) - (range & u32::MAX as u64)
}

/// Aligns a counter to a cache line of its own (two, because of the adjacent-line prefetcher).
#[repr(align(128))]
struct Alone<T>(T);

struct Pool {
    /// Whether a caller owns the region. See Note [Regions].
    taken: AtomicBool,
    /// The range of unclaimed chunks: its start in the lower half, its end in the upper half.
    unclaimed: Alone<AtomicU64>,
    finished: Alone<AtomicUsize>,
    task: UnsafeCell<Option<Task>>,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Set when this pool was replaced: its workers terminate.
    retired: AtomicBool,
    /// Number of sleeping workers, and whether the caller sleeps; modified under `lock`.
    sleepers: AtomicUsize,
    caller_sleeps: AtomicBool,
    lock: Mutex<()>,
    work: Condvar,
    done: Condvar,
    may_spin: bool,
    waits_without_spin: AtomicU32,
}

// SAFETY: `task` is written only by the owner of the region while `unclaimed` is 0 and all chunks have finished, and
// read only by threads that hold a claimed, unfinished chunk. See Note [Regions].
unsafe impl Sync for Pool {}

impl Pool {
    /// The current pool, created on demand.
    fn current() -> &'static Pool {
        let pool = POOL.load(Acquire);
        // SAFETY: POOL holds null or a pool that is never freed.
        unsafe { pool.as_ref() }.unwrap_or_else(Pool::start)
    }

    #[cold]
    fn start() -> &'static Pool {
        forget_the_pool_after_fork();
        let threads = num_threads();
        let pool: &'static Pool = Box::leak(Box::new(Pool {
            taken: AtomicBool::new(false),
            unclaimed: Alone(AtomicU64::new(0)),
            finished: Alone(AtomicUsize::new(0)),
            task: UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            retired: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            lock: Mutex::new(()),
            work: Condvar::new(),
            done: Condvar::new(),
            may_spin: threads <= available_cpus(),
            waits_without_spin: AtomicU32::new(0),
        }));
        let new = ptr::from_ref(pool).cast_mut();
        if let Err(other) = POOL.compare_exchange(ptr::null_mut(), new, Release, Acquire) {
            // SAFETY: another thread was first; its pool is never freed.
            return unsafe { &*other };
        }
        for i in 1..threads {
            // If the system cannot create a thread, the others do the work.
            let _ = thread::Builder::new().name(format!("rgrad-{i}")).spawn(|| pool.work());
        }
        pool
    }

    fn retire(&self) {
        self.retired.store(true, SeqCst);
        let _guard = self.guard();
        self.work.notify_all();
    }

    fn guard(&self) -> MutexGuard<'_, ()> {
        // Nothing panics while this lock is held.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a region; the caller has set `taken`.
    fn run(&self, chunks: usize, f: &dyn Job) {
        // SAFETY: this thread owns the region and none is published, so no other thread reads the task.
        unsafe { *self.task.get() = Some(Task::new(f, chunks)) };
        self.finished.0.store(0, Relaxed);
        // SeqCst here and in `wait_for_work`: either this thread sees the sleeping worker, or the worker sees the new
        // work.
        self.unclaimed.0.store((chunks as u64) << 32, SeqCst);
        let sleepers = self.sleepers.load(SeqCst);
        if sleepers > 0 {
            let _guard = self.guard();
            (1..chunks).take(sleepers).for_each(|_| self.work.notify_one());
        }
        while self.run_chunk(End::First) {
            // An interrupt by the user ends the region as a panic does.
            self.guarded(heed_interrupt);
        }
        self.wait_for_chunks(chunks);
        let panic = if self.panicked.swap(false, Relaxed) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            None
        };
        self.taken.store(false, Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Claims and runs a chunk of the current region; false if none is left.
    fn run_chunk(&self, end: End) -> bool {
        let claim = self.unclaimed.0.fetch_update(Acquire, Relaxed, |range| match (left(range), end) {
            (0, _) => None,
            (_, End::First) => Some(range + 1),
            (_, End::Last) => Some(range - (1 << 32)),
        });
        let Ok(range) = claim else { return false };
        let chunk = match end {
            End::First => range as u32 as usize,
            End::Last => (range >> 32) as usize - 1,
        };
        // SAFETY: a claimed, unfinished chunk keeps the task valid (Note [Regions]).
        let Some(task) = (unsafe { *self.task.get() }) else { return false };
        if !self.panicked.load(Relaxed) {
            // SAFETY: the closure lives until the region's caller has seen this chunk finished.
            self.guarded(|| unsafe { (*task.closure).chunk(chunk) });
        }
        // After this increment the region may have ended, but the pool still exists.
        if self.finished.0.fetch_add(1, SeqCst) + 1 == task.chunks && self.caller_sleeps.load(SeqCst) {
            let _guard = self.guard();
            self.done.notify_all();
        }
        true
    }

    /// Calls `f`. A panic is stored until the end of the region, and the remaining chunks are skipped.
    fn guarded(&self, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
            self.panicked.store(true, Relaxed);
        }
    }

    /// The main loop of a worker.
    fn work(&self) {
        while !self.retired.load(Relaxed) {
            while self.run_chunk(End::Last) {}
            self.wait_for_work();
        }
    }

    fn wait_for_work(&self) {
        if self.spin_until(|| left(self.unclaimed.0.load(Relaxed)) > 0) {
            return;
        }
        let mut guard = self.guard();
        self.sleepers.fetch_add(1, SeqCst);
        while left(self.unclaimed.0.load(SeqCst)) == 0 && !self.retired.load(SeqCst) {
            guard = self.work.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    fn wait_for_chunks(&self, chunks: usize) {
        if self.finished.0.load(Acquire) == chunks
            || self.spin_until(|| self.finished.0.load(Acquire) == chunks)
        {
            return;
        }
        let mut guard = self.guard();
        self.caller_sleeps.store(true, SeqCst);
        while self.finished.0.load(SeqCst) != chunks {
            guard = self.done.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_sleeps.store(false, SeqCst);
    }

    /// Polls `ready` for a while, unless threads compete for cores; returns whether it became true.
    fn spin_until(&self, ready: impl Fn() -> bool) -> bool {
        let quiet = self.waits_without_spin.load(Relaxed);
        if !self.may_spin || quiet > 0 {
            self.waits_without_spin.store(quiet.saturating_sub(1), Relaxed);
            return ready();
        }
        let start = Instant::now();
        loop {
            for _ in 0..32 {
                if ready() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let spun = start.elapsed();
            if spun > SPIN {
                // A poll takes far less than a microsecond, so a longer overshoot means that this thread was
                // preempted.
                if spun > SPIN * 5 {
                    self.waits_without_spin.store(WAITS_WITHOUT_SPIN, Relaxed);
                }
                return false;
            }
        }
    }
}

/// Resets the pool in a forked child, where the inherited pool's threads do not exist.
#[cfg(unix)]
fn forget_the_pool_after_fork() {
    extern "C" fn forget() {
        POOL.store(ptr::null_mut(), SeqCst);
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, SeqCst) {
        // SAFETY: the handler is a function of the correct type that only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    }
}

#[cfg(not(unix))]
fn forget_the_pool_after_fork() {}

/// Runs a test's closure with `n` threads, then restores the previous number. Tests run one at a time.
#[cfg(test)]
pub(crate) fn with_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_num_threads(self.0);
        }
    }
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _restore = Restore(num_threads());
    set_num_threads(n);
    f()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Counts how often a loop visits each index.
    fn visits(len: usize, grain: usize) -> Vec<usize> {
        let counts: Vec<_> = (0..len).map(|_| AtomicUsize::new(0)).collect();
        parallel_for(len, grain, |range| {
            range.for_each(|i| {
                counts[i].fetch_add(1, Relaxed);
            })
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn the_users_wish_ends_a_loop_where_somebody_waits_for_it() {
        static WISH: AtomicBool = AtomicBool::new(false);
        crate::error::set_interrupt_check(|| match WISH.load(Relaxed) {
            true => Err(crate::error::Error::Runtime("stop".into())),
            false => Ok(()),
        });
        for threads in [1, 2] {
            with_threads(threads, || {
                let done = AtomicUsize::new(0);
                let count = || {
                    parallel_for(200, 1, |_| {
                        thread::sleep(Duration::from_millis(1));
                        done.fetch_add(1, Relaxed);
                    });
                    Ok(())
                };
                WISH.store(true, Relaxed);
                let ended = crate::error::interruptible(count).map_err(|e| e.to_string());
                assert_eq!(ended, Err("stop".into()));
                assert!(done.swap(0, Relaxed) < 200);
                // There is no enclosing [`interruptible`] to catch the error.
                count().unwrap();
                assert_eq!(done.swap(0, Relaxed), 200);
                WISH.store(false, Relaxed);
                crate::error::interruptible(count).unwrap();
                assert_eq!(done.swap(0, Relaxed), 200);
            });
        }
    }

    #[test]
    fn every_index_is_visited_once() {
        for threads in [1, 2, 5] {
            with_threads(threads, || {
                for (len, grain) in [(0, 1), (1, 1), (7, 3), (1000, 1), (1000, 17), (1000, 5000), (64, 0)] {
                    assert_eq!(visits(len, grain), vec![1; len], "{len} by {grain} on {threads} threads");
                }
            });
        }
    }

    #[test]
    fn chunks_are_fixed_by_the_grain_whatever_the_threads() {
        let ranges = |threads| {
            with_threads(threads, || {
                let seen = Mutex::new(HashSet::new());
                parallel_for(103, 10, |r| assert!(seen.lock().unwrap().insert((r.start, r.end))));
                seen.into_inner().unwrap()
            })
        };
        let expected: HashSet<_> = (0..11).map(|i| (i * 10, (i * 10 + 10).min(103))).collect();
        assert_eq!(ranges(1), expected);
        assert_eq!(ranges(4), expected);
    }

    #[test]
    fn work_is_shared_between_threads() {
        with_threads(2, || {
            let names = Mutex::new(HashSet::new());
            // Each chunk lasts long enough for a worker to wake, so that only a dead pool leaves all of them to the
            // caller.
            parallel_for(40, 1, |_| {
                thread::sleep(Duration::from_millis(5));
                names.lock().unwrap().insert(thread::current().id());
            });
            assert_eq!(names.into_inner().unwrap().len(), 2);
        });
    }

    #[test]
    fn mutable_chunks_are_disjoint_and_the_last_may_be_short() {
        with_threads(3, || {
            let mut out = vec![0; 1003];
            for_chunks_mut(&mut out, 10, |i, chunk| {
                assert_eq!(chunk.len(), if i == 100 { 3 } else { 10 });
                chunk.iter_mut().for_each(|v| *v += i + 1);
            });
            assert!(out.iter().enumerate().all(|(i, &v)| v == i / 10 + 1));
        });
    }

    #[test]
    fn chunks_of_two_slices_go_together() {
        with_threads(3, || {
            let (mut a, mut b) = (vec![0; 95], vec![0u8; 10]);
            for_chunks_mut2(&mut a, 10, &mut b, 1, |i, a, b| {
                a.fill(i);
                b[0] = a.len() as u8;
            });
            assert!(a.iter().enumerate().all(|(i, &v)| v == i / 10));
            assert_eq!(b, [10, 10, 10, 10, 10, 10, 10, 10, 10, 5]);
        });
    }

    #[test]
    fn ranges_and_parts_are_disjoint_and_cover_what_they_should() {
        with_threads(3, || {
            let mut out = vec![0; 1003];
            for_ranges_mut(&mut out, 10, |range, part| {
                assert_eq!(range.len(), part.len());
                part.iter_mut().zip(range).for_each(|(v, i)| *v += i);
            });
            assert!(out.iter().enumerate().all(|(i, &v)| v == i));
            for_parts_mut(&mut out, &[3, 3, 10, 1000], |i, part| {
                assert_eq!(part.len(), [0, 7, 990][i]);
                part.iter_mut().for_each(|v| *v = 0);
            });
            assert_eq!(out.iter().sum::<usize>(), 3 + 1000 + 1001 + 1002);
        });
    }

    #[test]
    #[should_panic(expected = "not bounds of parts")]
    fn bounds_that_fall_are_refused() {
        for_parts_mut(&mut [0; 10], &[0, 5, 4, 10], |_, _| {});
    }

    #[test]
    #[should_panic(expected = "different numbers of chunks")]
    fn slices_with_different_numbers_of_chunks_are_refused() {
        for_chunks_mut2(&mut [0; 10], 2, &mut [0; 10], 3, |_, _, _| {});
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_pool_usable() {
        for threads in [1, 3] {
            with_threads(threads, || {
                for _ in 0..3 {
                    let panic = catch_unwind(|| {
                        parallel_for(100, 1, |r| assert!(r.start != 40, "chunk forty"));
                    });
                    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"chunk forty"));
                    assert_eq!(visits(100, 1), vec![1; 100]);
                }
            });
        }
    }

    #[test]
    fn nested_loops_finish() {
        with_threads(3, || {
            let total = AtomicUsize::new(0);
            parallel_for(20, 1, |_| {
                parallel_for(30, 1, |_| {
                    total.fetch_add(1, Relaxed);
                });
            });
            assert_eq!(total.into_inner(), 600);
        });
    }

    #[test]
    fn callers_on_several_threads_do_not_disturb_each_other() {
        with_threads(3, || {
            thread::scope(|s| {
                for len in [50, 60, 70, 80] {
                    s.spawn(move || (0..200).for_each(|_| assert_eq!(visits(len, 1), vec![1; len])));
                }
            });
        });
    }

    #[test]
    fn the_number_of_threads_can_change_between_loops() {
        with_threads(1, || {
            for n in [3, 1, 2, 6, 2] {
                set_num_threads(n);
                assert_eq!(num_threads(), n);
                assert_eq!(visits(50, 1), vec![1; 50]);
            }
            set_num_threads(0);
            assert_eq!(num_threads(), 1);
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_forked_child_has_a_pool_of_its_own() {
        with_threads(2, || {
            assert_eq!(visits(100, 1), vec![1; 100]);
            // SAFETY: the child runs two loops on the inherited heap and exits by _exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let fresh = POOL.load(SeqCst).is_null();
                let ok = fresh && (0..2).all(|_| visits(100, 1) == vec![1; 100]);
                // SAFETY: always allowed.
                unsafe { libc::_exit(if ok { 0 } else { 1 }) };
            }
            let mut status = -1;
            // SAFETY: `child` is a child of this process and `status` is a valid pointer.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
            assert_eq!(visits(100, 1), vec![1; 100]);
        });
    }
}
