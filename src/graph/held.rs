//! Which objects of the host language the graph keeps alive, for that language's cycle collector.
//!
//! Note [Cycles through the graph]
//! A hook may close over its tensor, and a user's function may keep its output: cycles that run through handles that the
//! collector does not see. It is told of them by whatever holds a tensor or a node alone. What belongs to that owner is
//! found by counting: a node or a tensor is the owner's if every handle to it was met on the way there, and then what it
//! holds is looked at in turn. Nothing else can reach what was found, so it cannot change while the collector looks, and
//! to drop the owner's handle drops it all.
//!
//! A young collection comes every few hundred objects, and would walk all of a graph that grows by as many: it looks at a
//! thousand parts from each owner at most. What lies deeper passes for referenced from elsewhere, until a full one.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{AutogradMeta, GradFn, SavedTensor};
use crate::tensor::Tensor;

/// Objects of the host language that hooks and functions hold; while there are none, nobody searches.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// How many parts a search looks at.
static PARTS: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Has searches be those of a young collection, or of a full one. To be called between collections: one of them must
/// find the same whenever it searches.
pub fn set_young_collection(young: bool) {
    PARTS.store(if young { 1000 } else { usize::MAX }, Ordering::Relaxed);
}

/// Counts an object that the graph holds, for as long as it lives.
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

/// Whether the graph holds any object at all.
#[inline(always)]
pub fn anything_held() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// Something whose owners are counted.
enum Part {
    Tensor(Tensor),
    AutogradMeta(Arc<AutogradMeta>),
    Node(GradFn),
}

/// A search from one owner.
#[derive(Default)]
pub struct GcVisitor {
    /// Handles met so far, by address, of what has others too.
    met: HashMap<usize, usize>,
    open: Vec<Part>,
}

impl GcVisitor {
    /// Counts a handle to a tensor that was met. Here and in the next two the kept handle is cloned last: the strong
    /// count is compared above.
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

    fn meta(&mut self, meta: &Arc<AutogradMeta>) {
        if self.complete(Arc::as_ptr(meta) as usize, Arc::strong_count(meta)) {
            self.open.push(Part::AutogradMeta(meta.clone()));
        }
    }

    /// Visits a saved tensor, or what a hook packed in its place.
    pub fn saved(&mut self, s: &SavedTensor, visit: &mut dyn FnMut(&dyn Any)) {
        s.visit_held(&mut |t| self.tensor(t), visit);
    }

    fn complete(&mut self, address: usize, handles: usize) -> bool {
        if handles == 1 {
            return true;
        }
        let met = self.met.entry(address).or_default();
        *met += 1;
        *met == handles
    }

    /// Visits what belongs to the handles that were met, and all below.
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

/// Visits a hook that nobody else has: a running task may have copies.
pub(super) fn visit_hook<H: ?Sized>(
    hook: &Arc<H>,
    object: Option<&dyn Any>,
    visit: &mut dyn FnMut(&dyn Any),
) {
    if let (1, Some(object)) = (Arc::strong_count(hook), object) {
        visit(object);
    }
}
