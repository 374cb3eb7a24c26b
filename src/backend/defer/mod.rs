//! Deferred execution: inside a region, kernels on large tensors are queued instead of run, and run in groups.
//!
//! Note [Regions] `compile` and `defer` open a region on their thread. The seam ([`super::of`]) then returns
//! [`entry::Deferred`] in place of the backend: calls that can wait become entries of the region's queue, and new
//! memory is reserved only when it is needed (Note [Deferred storages]). All else runs the queue first, then itself as
//! always. The queue is also run at the end of the region, and whenever anybody asks for bytes that it is to write, or
//! is about to write bytes that it is to read, on whichever thread that is. Shapes, dtypes, errors of arguments,
//! versions and histories are those of an eager program: they belong to the layers above, which do not know of regions.
//!
//! [`plan`] divides the entries into groups (Note [Groups]), [`run`] has them computed.

mod cache;
mod composed;
mod entry;
mod late;
mod plan;
mod queue;
mod rewrite;
mod run;
mod touches;
mod walks;

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::interface::{Backend, of_now};
use super::pointwise::Kernel;
use crate::device::Device;
use crate::error::Result;
use crate::formula::Formula;
use crate::formula::record::Prim;
use crate::storage::{Access, Storage, set_settle};
pub use late::{LateRead, LateReader, Watch};
use queue::{Entry, Queue};

/// Elements from which an operation is queued although its operands are there: below, what is saved is less than what
/// queueing costs.
const LEAST: usize = 1 << 15;

/// [`LEAST`], or what tests set so that they queue small operations too.
static FROM: AtomicUsize = AtomicUsize::new(LEAST);

/// A map for so many keys, which need not grow.
fn with_room<V>(keys: usize) -> FxHashMap<usize, V> {
    FxHashMap::with_capacity_and_hasher(keys, FxBuildHasher)
}

#[inline]
fn least() -> usize {
    FROM.load(Ordering::Relaxed)
}

/// The pointwise operation that computes a single step of formulas; the operations belong to a layer above.
type StepOf = fn(Prim) -> Option<(Kernel, &'static Formula)>;

static STEPS: OnceLock<StepOf> = OnceLock::new();

/// Installs the operations of steps.
pub fn set_steps(steps: StepOf) {
    STEPS.get_or_init(|| steps);
}

/// The line of the program that runs, for messages.
static WHERE: OnceLock<fn() -> String> = OnceLock::new();

/// Installs what tells the line of the program that runs.
pub fn set_where(line: fn() -> String) {
    WHERE.get_or_init(|| line);
}

fn step(p: Prim) -> Option<(Kernel, &'static Formula)> {
    STEPS.get().and_then(|steps| steps(p))
}

/// The number of regions of all threads.
static REGIONS: AtomicUsize = AtomicUsize::new(0);

struct Region {
    /// Made for the first operation.
    queue: Option<Arc<Queue>>,
    log: bool,
    whole: bool,
    /// Regions inside of each other share the queue; the outermost runs it at its end.
    depth: usize,
}

impl Drop for Region {
    fn drop(&mut self) {
        REGIONS.fetch_sub(1, Ordering::Release);
        if let Some(queue) = &self.queue {
            queue.close();
        }
    }
}

thread_local! {
    static REGION: RefCell<Option<Region>> = const { RefCell::new(None) };
    /// Whether this thread is in a region that is not paused.
    static DEFERS: Cell<bool> = const { Cell::new(false) };
    /// Whether the queue of this thread's region may have entries.
    static PENDING: Cell<bool> = const { Cell::new(false) };
}

/// Whether any thread is in a region.
#[inline(always)]
pub fn any_region() -> bool {
    REGIONS.load(Ordering::Relaxed) != 0
}

/// Whether several threads are in regions.
fn are_several() -> bool {
    REGIONS.load(Ordering::Relaxed) > 1
}

/// The backend of a device, or what defers its kernels if this thread is in a region.
#[cold]
pub fn backend_of(device: Device) -> Result<&'static dyn Backend> {
    if DEFERS.get() { entry::deferring(device) } else { of_now(device) }
}

/// The queue of this thread's region.
fn here() -> Option<Arc<Queue>> {
    REGION.with_borrow(|r| r.as_ref().and_then(|r| r.queue.clone()))
}

/// Queues an operation of this thread.
fn push(entry: Entry) -> Result<()> {
    let queue = REGION.with_borrow_mut(|r| {
        let r = r.as_mut()?;
        Some(r.queue.get_or_insert_with(|| Queue::open(r.log, r.whole)).clone())
    });
    PENDING.set(true);
    queue.map_or(Ok(()), |queue| queue.push(entry))
}

/// Runs the queue of this thread.
fn run_here(why: &'static str) -> Result<()> {
    match PENDING.replace(false) {
        true => here().map_or(Ok(()), |queue| queue.run(why)),
        false => Ok(()),
    }
}

/// Opens a region on this thread. `log` collects what is computed together and why; in a `whole` region a value that is
/// needed before the end is an error.
pub fn enter(log: bool, whole: bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_settle(settle);
        if let Some(set) = std::env::var("RGRAD_DEFER_FROM").ok().and_then(|v| v.parse().ok()) {
            FROM.store(set, Ordering::Relaxed);
        }
    });
    REGION.with_borrow_mut(|region| match region {
        Some(region) => region.depth += 1,
        None => {
            REGIONS.fetch_add(1, Ordering::Relaxed);
            *region = Some(Region { queue: None, log, whole, depth: 1 });
            DEFERS.set(true);
        }
    });
}

/// Closes the innermost region of this thread; the outermost runs the queue. Returns the log.
///
/// # Errors
/// Those of deferred operations.
pub fn exit() -> Result<Vec<String>> {
    let closed = REGION.with_borrow_mut(|region| {
        let open = region.as_mut()?;
        open.depth -= 1;
        if open.depth == 0 { region.take() } else { None }
    });
    let Some(region) = closed else { return Ok(Vec::new()) };
    DEFERS.set(false);
    PENDING.set(false);
    let Some(queue) = &region.queue else { return Ok(Vec::new()) };
    queue.run("the end of the region").map(|()| queue.take_log())
}

/// A region that ends with this value.
pub struct Entered(bool);

impl Entered {
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Entered {
        enter(false, false);
        Entered(true)
    }

    /// Closes the region.
    ///
    /// # Errors
    /// Those of deferred operations.
    pub fn finish(mut self) -> Result<()> {
        self.0 = false;
        exit().map(drop)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0 {
            // The error that ends the region early is the one to report.
            let _ = exit();
        }
    }
}

/// Turns deferring off or on for this thread's region; returns whether it was off. Runs the queue.
pub fn pause(on: bool) -> Result<bool> {
    run_here("a part of the region that runs at once")?;
    let is_open = REGION.with_borrow(Option::is_some);
    Ok(is_open && !DEFERS.replace(!on))
}

/// Calls `f`, whose operations are not deferred.
fn at_once<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEFERS.set(self.0);
        }
    }
    let _restore = Restore(DEFERS.replace(false));
    f()
}

/// Whether this thread defers.
pub fn is_deferring() -> bool {
    DEFERS.get()
}

/// Whether values of so many elements are computed again for backward. On a GPU none are: its buffers are asked for reading and
/// writing alike, so that every reader of an operand would be taken for a writer (Note [Late readers]).
pub fn recomputes(device: Device, numel: usize) -> bool {
    device == Device::Cpu && numel >= least()
}

/// New memory, reserved when it is needed.
fn reserve(device: Device, len: usize) -> Result<Storage> {
    let now = of_now(device)?;
    if len < 4 * least() || !DEFERS.get() || device == Device::Meta || !now.has_room(device, len) {
        return now.allocate(device, len);
    }
    Storage::deferred(device, len)
}

/// Runs the deferred operations that a reader or a writer of a storage waits for, and gives it memory.
fn settle(s: &Storage, access: Access) {
    if !run::is_running() {
        queue::run_for(s, access);
    }
    if s.is_missing()
        && let Ok(memory) = of_now(s.device()).and_then(|b| b.allocate(s.device(), s.len()))
    {
        s.adopt(memory);
    }
}
