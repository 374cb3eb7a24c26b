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

mod entry;
mod plan;
mod queue;
mod run;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once, OnceLock};

use super::interface::{Backend, of_now};
use super::pointwise::Kernel;
use crate::device::Device;
use crate::error::Result;
use crate::formula::Formula;
use crate::formula::record::Prim;
use crate::storage::{Storage, set_settle};
use queue::Queue;

/// Elements from which an operation is queued although its operands are there: below, what is saved is less than what
/// queueing costs.
const LEAST: usize = 1 << 13;

/// [`LEAST`], or what tests set so that they queue small operations too.
fn least() -> usize {
    static SET: LazyLock<usize> = LazyLock::new(|| {
        let set = std::env::var("RGRAD_DEFER_FROM").ok().and_then(|v| v.parse().ok());
        set.unwrap_or(LEAST)
    });
    *SET
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
    queue: Arc<Queue>,
    /// Regions inside of each other share the queue; the outermost runs it at its end.
    depth: usize,
    /// Whether the innermost code has turned deferring off.
    paused: bool,
}

thread_local!(static REGION: RefCell<Option<Region>> = const { RefCell::new(None) });

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
    match here() {
        Some(_) => entry::deferring(device),
        None => of_now(device),
    }
}

/// The queue of this thread's region.
fn here() -> Option<Arc<Queue>> {
    REGION.with_borrow(|r| r.as_ref().filter(|r| !r.paused).map(|r| r.queue.clone()))
}

/// Opens a region on this thread. `log` collects what is computed together and why; in a `whole` region a value that is
/// needed before the end is an error.
pub fn enter(log: bool, whole: bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_settle(settle));
    REGION.with_borrow_mut(|region| match region {
        Some(region) => region.depth += 1,
        None => {
            REGIONS.fetch_add(1, Ordering::Relaxed);
            *region = Some(Region { queue: Queue::open(log, whole), depth: 1, paused: false });
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
    let done = region.queue.run("the end of the region");
    REGIONS.fetch_sub(1, Ordering::Release);
    region.queue.close();
    done.map(|()| region.queue.take_log())
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
    if let Some(queue) = here() {
        queue.run("a part of the region that runs at once")?;
    }
    Ok(REGION.with_borrow_mut(|r| r.as_mut().is_some_and(|r| std::mem::replace(&mut r.paused, on))))
}

/// Whether this thread defers.
pub fn is_deferring() -> bool {
    any_region() && here().is_some()
}

/// New memory, reserved when it is needed.
fn reserve(device: Device, len: usize) -> Result<Storage> {
    let now = of_now(device)?;
    if here().is_none() || len < 4 * least() || device == Device::Meta || !now.has_room(device, len) {
        return now.allocate(device, len);
    }
    Storage::deferred(device, len)
}

/// Runs whatever is deferred on a storage, and gives it memory.
fn settle(s: &Storage) {
    if !run::is_running() {
        queue::run_for(s);
    }
    if s.is_missing()
        && let Ok(memory) = of_now(s.device()).and_then(|b| b.allocate(s.device(), s.len()))
    {
        s.adopt(memory);
    }
}
