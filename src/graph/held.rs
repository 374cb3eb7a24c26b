//! Finds the objects of the host language that a part of the graph owns, for that language's cycle collector.
//!
//! Note [Cycles through the graph] A hook may capture its tensor, and a custom function may save its output. Such
//! cycles run through Rust handles that the collector cannot see. So each object that owns a tensor or a node reports,
//! when it is traversed, the host objects that are reachable only through it. These are found by counting references:
//! a node or tensor belongs to the owner if the traversal found as many handles to it as its reference count, and only
//! then is its own content visited. Nothing outside can reach what was found, so it cannot change during the
//! collection, and dropping the owner's handle frees all of it.
//!
//! Young collections run every few hundred objects and would traverse the whole of a graph that grows as fast, so they
//! visit at most a thousand parts per owner. Anything deeper counts as externally referenced until a full collection.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{AutogradMeta, GradFn, SavedTensor};
use crate::tensor::Tensor;

/// The number of host objects held by hooks and functions; while it is 0, nothing is traversed.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The largest number of parts that one traversal visits.
static PARTS: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Selects the limit for a young or a full collection. Must be called between collections: within one, all traversals
/// of an owner must give the same answer.
pub fn set_young_collection(young: bool) {
    PARTS.store(if young { 1000 } else { usize::MAX }, Ordering::Relaxed);
}

/// Increments the number of held objects for as long as it lives.
pub struct HeldGuard(());

impl HeldGuard {
    pub fn new() -> HeldGuard {
        HELD.fetch_add(1, Ordering::Relaxed);
        HeldGuard(())
    }
}

impl Default for HeldGuard {
    fn default() -> Self {
        HeldGuard::new()
    }
}

impl Drop for HeldGuard {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the graph holds any host object.
#[inline(always)]
pub fn anything_held() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// A reference-counted part of the graph.
enum Part {
    Tensor(Tensor),
    AutogradMeta(Arc<AutogradMeta>),
    Node(GradFn),
}

/// A traversal from one owner.
#[derive(Default)]
pub struct GcVisitor {
    /// Handles found so far, by address, for parts with several handles.
    met: HashMap<usize, usize>,
    open: Vec<Part>,
}

impl GcVisitor {
    /// Counts a handle to a tensor. In this method and the next two, clone the kept handle last: the strong count is
    /// compared before.
    pub fn tensor(&mut self, t: &Tensor) {
        if self.complete(t.address(), t.handles()) {
            self.open.push(Part::Tensor(t.clone()));
        }
    }

    /// As [`GcVisitor::tensor`], for a node.
    pub fn node(&mut self, node: &GradFn) {
        if self.complete(node.address(), Arc::strong_count(node.get())) {
            self.open.push(Part::Node(node.clone()));
        }
    }

    pub(super) fn meta(&mut self, meta: &Arc<AutogradMeta>) {
        if self.complete(Arc::as_ptr(meta) as usize, Arc::strong_count(meta)) {
            self.open.push(Part::AutogradMeta(meta.clone()));
        }
    }

    /// Visits a saved tensor, or the packed object in its place.
    pub fn saved(&mut self, s: &SavedTensor, visit: &mut dyn FnMut(&dyn Any)) {
        s.visit_held(self, visit);
    }

    fn complete(&mut self, address: usize, handles: usize) -> bool {
        if handles == 1 {
            return true;
        }
        let met = self.met.entry(address).or_default();
        *met += 1;
        *met == handles
    }

    /// Visits the host objects owned through the handles counted so far.
    pub fn visit(mut self, visit: &mut dyn FnMut(&dyn Any)) {
        for _ in 0..PARTS.load(Ordering::Relaxed) {
            let Some(part) = self.open.pop() else { return };
            match &part {
                Part::Tensor(t) => {
                    t.base().into_iter().for_each(|base| self.tensor(base));
                    t.meta().into_iter().for_each(|meta| self.meta(meta));
                }
                Part::AutogradMeta(meta) => meta.visit_held(&mut self, visit),
                Part::Node(node) => self.visit_node(node, visit),
            }
        }
    }

    fn visit_node(&mut self, node: &GradFn, visit: &mut dyn FnMut(&dyn Any)) {
        node.visit_hooks(|hooks| {
            let tensor = hooks.tensor.iter().flat_map(|(_, h)| h.iter());
            tensor.for_each(|h| visit_hook(h, h.as_any(), visit));
            hooks.pre.iter().chain(hooks.post.iter()).for_each(|h| visit_hook(h, h.as_any(), visit));
        });
        if let Some(host) = node.host() {
            visit(&**host);
        }
        if let Some(f) = node.function().as_any() {
            visit(f);
        }
        if let Some(accumulator) = node.function().as_accumulator() {
            self.tensor(&accumulator.leaf);
        }
        node.function().saved(&mut |_, s| self.saved(s, visit));
        node.edges().iter().flatten().for_each(|e| self.node(&e.node));
    }
}

/// Visits a hook that has no other handle, such as that of a running graph task.
pub(super) fn visit_hook<H: ?Sized>(
    hook: &Arc<H>,
    object: Option<&dyn Any>,
    visit: &mut dyn FnMut(&dyn Any),
) {
    if let (1, Some(object)) = (Arc::strong_count(hook), object) {
        visit(object);
    }
}
