//! The runs that are under way on this thread: what hooks may ask about them, and how deep they nest.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::task::inputs_first;
use crate::bail;
use crate::error::Result;
use crate::graph::{Edge, GradFn, ThreadState};
use crate::ops::{autocast, interpreter};

/// A run, as hooks see it.
struct Running {
    id: u32,
    roots: SmallVec<[Edge; 1]>,
    wanted: Option<Vec<Edge>>,
    /// Addresses of the nodes that it runs, once somebody has asked.
    runs: Option<HashSet<usize>>,
    /// What is to be called when all nodes have run.
    at_end: VecDeque<Callback>,
}

/// Something to be called at the end of a run.
pub type Callback = Box<dyn FnOnce() -> Result<()>>;

/// Whether there ever was one: while there was none, the end of a run looks no further.
static ANY_AT_END: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

#[cfg(not(loom))]
thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

// The threads of a model run on one thread of the system.
#[cfg(loom)]
loom::thread_local! {
    static DEPTH: Cell<u32> = Cell::new(0);
}

/// Takes the innermost run off the list when it ends.
pub struct Entry(());

/// Puts a run on the list.
pub fn enter(id: u32, roots: &[Edge], wanted: Option<&[Edge]>) -> Entry {
    let roots = roots.iter().cloned().collect();
    let running =
        Running { id, roots, wanted: wanted.map(<[Edge]>::to_vec), runs: None, at_end: VecDeque::new() };
    RUNNING.with_borrow_mut(|r| r.push(running));
    Entry(())
}

impl Drop for Entry {
    fn drop(&mut self) {
        let done = RUNNING.with_borrow_mut(Vec::pop);
        drop(done);
    }
}

/// The number of this thread's innermost run.
pub fn id() -> Option<u32> {
    RUNNING.with_borrow(|r| r.last().map(|r| r.id))
}

/// Has this thread's innermost run call `callback` when it has run all nodes; whether there is a run.
pub fn queue(callback: Callback) -> bool {
    ANY_AT_END.store(true, Ordering::Relaxed);
    // What nobody takes is dropped when the list is not borrowed: its drop may run user code.
    let refused = RUNNING.with_borrow_mut(|r| match r.last_mut() {
        Some(r) => {
            r.at_end.push_back(callback);
            None
        }
        None => Some(callback),
    });
    refused.is_none()
}

/// Calls what was queued, in order, and what that queues.
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

/// Whether this thread's innermost run runs `node`, or returns a gradient that enters it; None outside a run.
pub fn runs(node: &GradFn) -> Option<bool> {
    RUNNING.with_borrow_mut(|r| {
        let r = r.last_mut()?;
        let set = r.runs.get_or_insert_with(|| what_runs(&r.roots, r.wanted.as_deref()));
        Some(set.contains(&node.address()))
    })
}

/// Whether every run of this thread accumulates into all leaves, as a backward inside must to be of use.
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

/// Runs nested deeper than this on one thread continue on another.
const MAX_DEPTH: u32 = 60;

/// What a nested run may use of stack, the interpreter's frames included.
const STACK: usize = 16 << 20;

/// Calls `f`, which may call this again from inside.
///
/// Note [Runs inside runs]
/// A hook or a user's function may run backward, whose hooks may run backward, and so on. Each level takes stack, here
/// and in the interpreter, so every sixty levels go to a thread of their own, in the same state, for which the level
/// above waits.
///
/// # Errors
/// `RuntimeError` where the system has no more threads.
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
