//! The graph tasks running on this thread: queries by hooks, and nesting depth.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::task::inputs_first;
use crate::error::Result;
use crate::graph::{Edge, GradFn, ThreadState};
use crate::ops::{autocast, interpreter};
use crate::{bail, ensure};

/// A graph task, as hooks see it.
struct Running {
    id: u32,
    roots: SmallVec<[Edge; 1]>,
    wanted: Option<Vec<Edge>>,
    /// Whether the wanted gradients are returned, so that no leaf accumulates.
    returns: bool,
    /// Whether saved tensors are kept.
    keeps_graph: bool,
    /// Addresses of the nodes that it executes; computed on the first query.
    runs: Option<HashSet<usize>>,
    /// Callbacks for after the last node.
    at_end: VecDeque<Callback>,
}

/// A callback for the end of a graph task.
pub type Callback = Box<dyn FnOnce() -> Result<()>>;

/// Whether any was ever queued; until then the end of a task skips the list.
static ANY_AT_END: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

#[cfg(not(loom))]
thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

// Under loom all modelled threads run on one system thread.
#[cfg(loom)]
loom::thread_local! {
    static DEPTH: Cell<u32> = Cell::new(0);
}

/// Removes the innermost task when dropped.
pub struct Entry(());

/// Registers a task.
pub fn enter(id: u32, roots: &[Edge], wanted: Option<&[Edge]>, returns: bool, keeps_graph: bool) -> Entry {
    let running = Running {
        id,
        roots: roots.iter().cloned().collect(),
        wanted: wanted.map(<[Edge]>::to_vec),
        returns,
        keeps_graph,
        runs: None,
        at_end: VecDeque::new(),
    };
    RUNNING.with_borrow_mut(|r| r.push(running));
    Entry(())
}

impl Drop for Entry {
    fn drop(&mut self) {
        let done = RUNNING.with_borrow_mut(Vec::pop);
        drop(done);
    }
}

/// The number of this thread's innermost task.
pub fn id() -> Option<u32> {
    RUNNING.with_borrow(|r| r.last().map(|r| r.id))
}

/// Whether this thread's innermost task keeps saved tensors; None outside a task.
pub fn keeps_graph() -> Option<bool> {
    RUNNING.with_borrow(|r| r.last().map(|r| r.keeps_graph))
}

/// Queues `callback` for the end of this thread's innermost task; returns whether there is a task.
pub fn queue(callback: Callback) -> bool {
    ANY_AT_END.store(true, Ordering::Relaxed);
    // A callback that was not queued is dropped after the borrow, since dropping it may run user code.
    let refused = RUNNING.with_borrow_mut(|r| match r.last_mut() {
        Some(r) => {
            r.at_end.push_back(callback);
            None
        }
        None => Some(callback),
    });
    refused.is_none()
}

/// Runs the queued callbacks in order, including those that they queue.
#[inline(always)]
pub fn finish() -> Result<()> {
    if ANY_AT_END.load(Ordering::Relaxed) { call_queued() } else { Ok(()) }
}

#[cold]
fn call_queued() -> Result<()> {
    while let Some(callback) = RUNNING.with_borrow_mut(|r| r.last_mut()?.at_end.pop_front()) {
        callback()?;
    }
    Ok(())
}

/// Whether this thread's innermost task executes `node` or returns one of its input gradients; None outside a task.
///
/// # Errors
/// `RuntimeError` for a leaf whose gradient is returned.
pub fn runs(node: &GradFn) -> Result<Option<bool>> {
    RUNNING.with_borrow_mut(|r| {
        let Some(r) = r.last_mut() else { return Ok(None) };
        let set = r.runs.get_or_insert_with(|| what_runs(&r.roots, r.wanted.as_deref()));
        let found = set.contains(&node.address());
        ensure!(
            !(found && r.returns && node.function().as_accumulator().is_some()),
            Runtime,
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(), which \
             returns its gradient without executing it."
        );
        Ok(Some(found))
    })
}

/// Whether every task of this thread accumulates into all leaves, which a nested backward requires.
pub fn all_accumulate() -> bool {
    RUNNING.with_borrow(|r| r.iter().all(|r| r.wanted.is_none()))
}

fn what_runs(roots: &[Edge], wanted: Option<&[Edge]>) -> HashSet<usize> {
    let mut seen = HashSet::new();
    let mut open: Vec<&GradFn> = roots.iter().map(|e| &e.node).collect();
    let mut order = Vec::new();
    while let Some(node) = open.pop() {
        if seen.insert(node.address()) {
            order.push(node);
            open.extend(node.edges().iter().flatten().map(|e| &e.node));
        }
    }
    let Some(wanted) = wanted else { return seen };
    let mut runs: HashSet<usize> = wanted.iter().map(|e| e.node.address()).collect();
    for (_, i) in inputs_first(order.iter().copied()) {
        let node = order[i];
        if node.edges().iter().flatten().any(|e| runs.contains(&e.node.address())) {
            runs.insert(node.address());
        }
    }
    runs
}

/// Tasks nested deeper than this on one thread continue on a new thread.
const MAX_DEPTH: u32 = 60;

/// Stack size of such a thread, which includes the interpreter's frames.
const STACK: usize = 16 << 20;

/// Calls `f`, which may recursively call this function.
///
/// Note [Runs inside runs] A hook or custom function may run backward, whose hooks may run backward again, and so on.
/// Each level uses stack, here and in the interpreter, so after every sixty levels the next one runs on a new thread
/// with the same thread state, and the level above waits for it.
///
/// # Errors
/// `RuntimeError` when the system cannot create a thread.
pub fn nested<R: Send>(f: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    let depth = DEPTH.with(Cell::get);
    if depth < MAX_DEPTH {
        let _deeper = Deeper::enter(depth);
        return f();
    }
    let (state, casts, interpreters) = (ThreadState::capture(), autocast::casts(), interpreter::capture());
    let run = move || {
        state.install();
        autocast::install(casts);
        interpreter::install(interpreters);
        nested(f)
    };
    std::thread::scope(|s| match std::thread::Builder::new().stack_size(STACK).spawn_scoped(s, run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(e) => bail!(Runtime, "no thread for a backward inside {depth} others: {e}"),
    })
}

struct Deeper(u32);

impl Deeper {
    fn enter(depth: u32) -> Deeper {
        DEPTH.with(|d| d.set(depth + 1));
        Deeper(depth)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(self.0));
    }
}
