//! The queue of a region: operations in program order.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use smallvec::SmallVec;

use super::{late, run};
use crate::backend::View;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::pointwise::Kernel;
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::backend::softmax::Kind;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::layout::Layout;
use crate::storage::{Access, Storage};

/// A view that keeps its storage.
#[derive(Clone)]
pub struct Held {
    pub storage: Storage,
    pub layout: Layout,
    pub dtype: DType,
}

impl Held {
    pub fn of(v: View) -> Held {
        Held { storage: v.storage.clone(), layout: v.layout.clone(), dtype: v.dtype }
    }

    pub fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: self.dtype }
    }
}

#[derive(Clone)]
pub enum In {
    View(Held),
    Number(Scalar),
    /// An operand that the formula does not read.
    Unread,
}

impl In {
    pub fn held(&self) -> Option<&Held> {
        if let In::View(v) = self { Some(v) } else { None }
    }
}

/// What an entry computes from its operands.
#[derive(Clone)]
pub enum Work {
    /// A pointwise operation.
    Map {
        kernel: Kernel,
        formula: Arc<Formula>,
        params: SmallVec<[Scalar; 3]>,
    },
    /// A copy with a cast, or the number.
    Copy,
    Reduce(ReduceOp, ReduceDims),
    Softmax(Kind, ReduceDims),
    /// Of the gradient and the result.
    SoftmaxBackward(Kind, ReduceDims),
    /// The product of two matrices or batches of them, plus a row if there is a third operand.
    Matmul,
    /// Of two operands, with one bias per channel if there is a third.
    Convolution(Box<(Product, ConvShape)>),
}

impl Work {
    /// Whether it may be the producer of a group, and nothing else in it: Note [Epilogues].
    pub fn is_product(&self) -> bool {
        matches!(self, Work::Matmul | Work::Convolution(_))
    }
}

/// A deferred operation.
#[derive(Clone)]
pub struct Entry {
    pub name: &'static str,
    pub work: Work,
    /// The dtype that it computes in; bool if it takes and makes booleans, with the same results in any dtype.
    pub compute: DType,
    pub ins: SmallVec<[In; 3]>,
    pub out: Held,
}

impl Entry {
    pub fn uses(&self) -> impl Iterator<Item = (&Storage, Access)> {
        let reads = self.ins.iter().filter_map(In::held).map(|v| (&v.storage, Access::Read));
        reads.chain([(&self.out.storage, Access::Write)])
    }
}

/// Entries after which a queue is run: their operands stay in memory until then.
const MOST: usize = 256;

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// The ids of the storages of the entries that some thread runs now.
    running: Option<Vec<usize>>,
    log: Option<Vec<String>>,
    /// Whether nothing may be run before the end.
    whole: bool,
    /// An error of entries that were run where it could not be returned.
    failed: Option<Error>,
}

/// Note [Queues of several threads] A queue belongs to the region of one thread, and any thread may run it, one at a time and
/// in order. A program that orders its threads' uses of a tensor, by a lock say, has them in that order: an operation
/// that is queued first has other threads' queues run if one of them writes what it uses, or uses what it writes.
pub struct Queue {
    state: Mutex<State>,
    /// Signals the end of a batch.
    done: Condvar,
}

/// The queues of open regions.
static OPEN: Mutex<Vec<Weak<Queue>>> = Mutex::new(Vec::new());

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_queues() -> Vec<Arc<Queue>> {
    lock(&OPEN).iter().filter_map(Weak::upgrade).collect()
}

impl Queue {
    pub fn open(log: bool, whole: bool) -> Arc<Queue> {
        let state = State { log: log.then(Vec::new), whole, ..State::default() };
        let queue = Arc::new(Queue { state: Mutex::new(state), done: Condvar::new() });
        lock(&OPEN).push(Arc::downgrade(&queue));
        queue
    }

    pub fn close(self: &Arc<Self>) {
        lock(&OPEN).retain(|q| q.strong_count() > 0 && !std::ptr::eq(q.as_ptr(), Arc::as_ptr(self)));
    }

    pub fn take_log(&self) -> Vec<String> {
        lock(&self.state).log.take().unwrap_or_default()
    }

    /// Queues an operation; afterwards runs the queue if it is full.
    pub fn push(self: &Arc<Self>, entry: Entry) -> Result<()> {
        if super::are_several() {
            self.run_conflicting(&entry);
        }
        late::read_now(&entry.out.storage);
        let mut state = lock(&self.state);
        let noted = entry.uses().take_while(|(s, access)| s.wait(*access)).count();
        if noted < entry.uses().count() {
            drop(state);
            entry.uses().take(noted).for_each(|(s, access)| s.unwait(access));
            entry.uses().for_each(|(s, _)| run_for(s, Access::Write));
            return self.push(entry);
        }
        state.entries.push(entry);
        let (count, failed) = (state.entries.len(), state.failed.take());
        drop(state);
        if let Some(e) = failed {
            return Err(e);
        }
        if count >= MOST { self.run("the number of operations") } else { Ok(()) }
    }

    /// Runs the queues of other threads that an operation must not overtake: Note [Queues of several threads].
    fn run_conflicting(self: &Arc<Self>, entry: &Entry) {
        for (s, access) in entry.uses() {
            if s.is_written_later() || access == Access::Write && s.is_used_later() {
                let others = open_queues().into_iter().filter(|q| !Arc::ptr_eq(q, self) && q.involves(s));
                others.for_each(|q| q.run_early());
            }
        }
    }

    fn involves(&self, s: &Storage) -> bool {
        let state = lock(&self.state);
        let runs = state.running.as_ref().is_some_and(|ids| ids.contains(&s.id()));
        runs || state.entries.iter().any(|e| e.uses().any(|(used, _)| used.same(s)))
    }

    /// Runs all entries, after those that another thread runs now.
    pub fn run(&self, why: &'static str) -> Result<()> {
        let mut state = lock(&self.state);
        while state.running.is_some() && !run::is_running() {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let entries = std::mem::take(&mut state.entries);
        let mut log = state.log.is_some().then(Vec::new);
        let failed = state.failed.take();
        if entries.is_empty() {
            return failed.map_or(Ok(()), Err);
        }
        state.running = Some(entries.iter().flat_map(Entry::uses).map(|(s, _)| s.id()).collect());
        drop(state);
        let batch = Batch { queue: self, entries };
        if let Some(log) = &mut log {
            log.push(format!("{} operations, run by {why}:", batch.entries.len()));
        }
        let done = run::run(&batch.entries, &mut log);
        drop(batch);
        if let (Some(all), Some(lines)) = (&mut lock(&self.state).log, log) {
            all.extend(lines);
        }
        failed.map_or(done, Err)
    }

    /// Runs all entries for somebody whom their errors do not concern; the region's thread gets them.
    fn run_early(&self) {
        let whole = lock(&self.state).whole;
        let mut done = self.run("a value that is needed");
        if whole && done.is_ok() {
            let line = super::WHERE.get().map_or_else(String::new, |line| line());
            done = Err(Error::Runtime(format!(
                "fullgraph=True: a value was needed before the end of the compiled function ({line})"
            )));
        }
        if let Err(e) = done {
            lock(&self.state).failed.get_or_insert(e);
        }
    }
}

/// The entries of a batch while they run. Dropping it wakes the threads that wait for the batch, also if a kernel panics.
struct Batch<'q> {
    queue: &'q Queue,
    entries: Vec<Entry>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        for (storage, access) in self.entries.iter().flat_map(Entry::uses) {
            storage.unwait(access);
        }
        state.running = None;
        drop(state);
        self.queue.done.notify_all();
        // The entries are dropped after this: the owner of memory may be an object of the host language.
    }
}

impl Drop for Queue {
    /// The thread ended with its region: values that it computed may be elsewhere.
    fn drop(&mut self) {
        // Nobody is left to whom an error could be given.
        let _ = self.run("the end of the thread");
    }
}

/// Runs the queues of all threads that a reader or a writer of a storage waits for, or waits until they have run; for a writer, has
/// late readers read.
pub fn run_for(s: &Storage, access: Access) {
    while s.waits(access) {
        match open_queues().iter().find(|q| q.involves(s)) {
            Some(queue) => queue.run_early(),
            // The storage is about to be written, so that the readers cannot be queued. Perhaps another thread reads
            // at this moment.
            None if super::at_once(|| late::read_now(s)) => std::thread::yield_now(),
            // Between an operation that could not be noted and the retreat.
            None => std::thread::yield_now(),
        }
    }
}
