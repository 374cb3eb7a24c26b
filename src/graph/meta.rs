//! The autograd metadata of one tensor.

use std::any::Any;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use super::function::{AccumulateGrad, Edge, GradFn, Node};
use super::held::{GcVisitor, visit_hook};
use super::hooks::{Handle, Hooks, PostAccumulateHook, TensorHook};
use super::sync::{Guarded, change_shared};
use crate::dtype::DType;
use crate::storage::in_turn::{InTurn, drop_in_turn};
use crate::tensor::Tensor;

// How operations treat the tensor: no grad required, a leaf that requires grad, or a recorded result.
const UNTRACKED: u8 = 0;
const LEAF: u8 = 1;
const RECORDED: u8 = 2;

/// Gradient, history and hooks of a tensor. Two tensors share it only when one replaced the data of the other.
pub struct AutogradMeta {
    tracked: AtomicU8,
    /// The dtype of a leaf's gradient: 0 for the leaf's own, 1 for any, else 2 plus the index of the dtype.
    grad_dtype: AtomicU8,
    state: Guarded<State>,
}

#[derive(Default)]
struct State {
    leaf: bool,
    output: u32,
    grad: Option<Tensor>,
    grad_fn: Option<GradFn>,
    /// Kept alive by the graphs that contain it.
    accumulator: Option<Weak<Node<AccumulateGrad>>>,
    hooks: Option<Arc<LeafHooks>>,
}

impl State {
    fn keeps_grad_object(&self) -> bool {
        self.hooks.as_ref().is_some_and(|h| h.grad_object.is_some())
    }
}

/// The hooks of a leaf; those of a non-leaf are on its node.
#[derive(Default, Clone)]
pub struct LeafHooks {
    /// On its gradient, before accumulation.
    pub grad: Hooks<dyn TensorHook>,
    /// On the leaf, after accumulation.
    pub post: Hooks<dyn PostAccumulateHook>,
    /// What the host language keeps about a tensor whose operations it computes; see Note [Hosted tensors].
    host: Option<Arc<HostData>>,
    /// The object of the gradient, where the host language keeps something there that a new object would lack.
    grad_object: Option<Arc<HostData>>,
}

/// Data whose type only the binding knows.
pub type HostData = dyn Any + Send + Sync;

/// A gradient, and hooks, which may have its object.
type Owned = (Option<Tensor>, Option<Arc<LeafHooks>>);

thread_local!(static OWNED: InTurn<Owned> = const { InTurn::new() });

/// The gradient of a gradient and so on: see Note [Dropping a long chain].
impl Drop for AutogradMeta {
    #[inline]
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let owned = (state.grad.take(), state.hooks.take());
        if owned.0.is_some() || owned.1.is_some() {
            drop_in_turn(&OWNED, owned);
        }
    }
}

impl AutogradMeta {
    pub(crate) fn new() -> AutogradMeta {
        AutogradMeta {
            tracked: AtomicU8::new(UNTRACKED),
            grad_dtype: AtomicU8::new(0),
            state: Guarded::default(),
        }
    }

    /// The metadata of a new recorded result.
    #[inline(always)]
    pub(crate) fn with_history(grad_fn: GradFn, output: usize) -> AutogradMeta {
        let state = State {
            leaf: false,
            output: output as u32,
            grad: None,
            grad_fn: Some(grad_fn),
            accumulator: None,
            hooks: None,
        };
        AutogradMeta {
            tracked: AtomicU8::new(RECORDED),
            grad_dtype: AtomicU8::new(0),
            state: Guarded::new(state),
        }
    }

    #[inline(always)]
    pub fn is_tracked(&self) -> bool {
        self.tracked.load(Ordering::Relaxed) != UNTRACKED
    }

    /// Whether the tensor is a recorded result.
    #[inline(always)]
    pub fn is_recorded(&self) -> bool {
        self.tracked.load(Ordering::Relaxed) == RECORDED
    }

    pub fn set_leaf(&self, on: bool) {
        self.state.with(|s| {
            s.leaf = on;
            self.tracked.store(if on { LEAF } else { UNTRACKED }, Ordering::Relaxed);
        });
    }

    /// The required dtype of the gradient of a leaf of dtype `own`; None when any is allowed.
    pub fn grad_dtype(&self, own: DType) -> Option<DType> {
        match self.grad_dtype.load(Ordering::Relaxed) {
            0 => Some(own),
            n => DType::ALL.get(usize::from(n).wrapping_sub(2)).copied(),
        }
    }

    pub fn set_grad_dtype(&self, dtype: Option<DType>) {
        let place = dtype.and_then(|d| DType::ALL.iter().position(|&o| o == d));
        self.grad_dtype.store(place.map_or(1, |p| p as u8 + 2), Ordering::Relaxed);
    }

    pub fn grad(&self) -> Option<Tensor> {
        self.state.with(|s| s.grad.clone())
    }

    pub fn set_grad(&self, grad: Option<Tensor>) {
        let (old, kept) = self.state.with(|s| (std::mem::replace(&mut s.grad, grad), s.keeps_grad_object()));
        if kept {
            self.keep_grad_object(None);
        }
        drop(old);
    }

    /// Keeps an object for as long as the gradient is the one that it is now.
    pub fn keep_grad_object(&self, object: Option<Arc<HostData>>) {
        let old = self.change_hooks(|h| std::mem::replace(&mut h.grad_object, object.clone()));
        drop(old);
    }

    /// Sets the gradient to `new` if it is still `old`; otherwise returns `new`.
    pub fn replace_grad(&self, old: Option<&Tensor>, new: Tensor) -> Result<(), Tensor> {
        let replaced = self.state.with(|s| {
            let is_old = match (&s.grad, old) {
                (Some(now), Some(old)) => now.same(old),
                (now, old) => now.is_none() && old.is_none(),
            };
            if is_old { Ok((s.grad.replace(new), s.keeps_grad_object())) } else { Err(new) }
        });
        let (_old, kept) = replaced?;
        if kept {
            self.keep_grad_object(None);
        }
        Ok(())
    }

    /// Whether `t` currently is the gradient.
    pub fn has_grad(&self, t: &Tensor) -> bool {
        self.state.with(|s| s.grad.as_ref().is_some_and(|g| g.same(t)))
    }

    pub fn grad_fn(&self) -> Option<GradFn> {
        self.state.with(|s| s.grad_fn.clone())
    }

    /// The node that produced the tensor, and the output number.
    pub fn history(&self) -> Option<(GradFn, usize)> {
        self.state.with(|s| s.grad_fn.clone().map(|node| (node, s.output as usize)))
    }

    /// The output number of the tensor in its node.
    pub fn output(&self) -> usize {
        self.state.with(|s| s.output as usize)
    }

    /// Makes the tensor output `output` of `grad_fn`.
    pub fn set_history(&self, grad_fn: GradFn, output: usize) {
        let old = self.state.with(|s| {
            s.output = output as u32;
            s.leaf = false;
            self.tracked.store(RECORDED, Ordering::Relaxed);
            s.grad_fn.replace(grad_fn)
        });
        drop(old);
    }

    /// Clears the history, as `detach_` does.
    pub fn clear_history(&self) {
        let old = self.state.with(|s| {
            s.output = 0;
            s.leaf = false;
            self.tracked.store(UNTRACKED, Ordering::Relaxed);
            s.grad_fn.take()
        });
        drop(old);
    }

    /// Writes the edge to the node of `t` or to its accumulator to `place`, which is empty; leaves it empty if `t` has
    /// neither.
    pub(crate) fn put_edge(&self, t: &Tensor, place: &mut Option<Edge>) {
        let needs_accumulator = self.state.with(|s| {
            if let Some(node) = &s.grad_fn {
                *place = Some(Edge::new(node.clone(), s.output as usize));
                return false;
            }
            if s.leaf
                && let Some(node) = s.accumulator.as_ref().and_then(Weak::upgrade)
            {
                *place = Some(Edge::new(GradFn::new(node), 0));
                return false;
            }
            s.leaf
        });
        if needs_accumulator {
            *place = Some(Edge::new(GradFn::new(self.accumulator(t)), 0));
        }
    }

    /// The accumulator of a leaf, created if absent.
    fn accumulator(&self, t: &Tensor) -> Arc<Node<AccumulateGrad>> {
        let new = AccumulateGrad::node(t);
        // Another thread may have been first. The replaced weak handle may be the last one to the old node's memory.
        let (found, _old) = self.state.with(|s| match s.accumulator.as_ref().and_then(Weak::upgrade) {
            Some(found) => (Some(found), None),
            None => (None, s.accumulator.replace(Arc::downgrade(&new))),
        });
        found.unwrap_or(new)
    }

    /// Lets the next graph create another accumulator, for a leaf whose shape, dtype or device has changed.
    pub(crate) fn forget_accumulator(&self) {
        // The weak handle may be the last one to the node's memory, which is freed without the lock.
        let _old = self.state.with(|s| s.accumulator.take());
    }

    // ---- hooks of a leaf

    /// The hooks, if any were ever registered.
    pub fn hooks(&self) -> Option<Arc<LeafHooks>> {
        self.state.with(|s| s.hooks.clone())
    }

    fn change_hooks<R>(&self, change: impl FnMut(&mut LeafHooks) -> R) -> R {
        change_shared(&self.state, |s| &mut s.hooks, change)
    }

    pub fn add_hook(&self, hook: Arc<dyn TensorHook>) -> Handle {
        self.change_hooks(|h| h.grad.add(hook.clone()))
    }

    pub fn add_post_hook(&self, hook: Arc<dyn PostAccumulateHook>) -> Handle {
        self.change_hooks(|h| h.post.add(hook.clone()))
    }

    pub fn remove_hook(&self, handle: Handle) -> bool {
        self.hooks().is_some() && self.change_hooks(|h| h.grad.remove(handle) | h.post.remove(handle))
    }

    /// What the host language keeps about a hosted tensor.
    pub fn host(&self) -> Option<Arc<HostData>> {
        self.hooks().and_then(|h| h.host.clone())
    }

    pub fn set_host(&self, host: Arc<HostData>) {
        self.change_hooks(|h| h.host = Some(host.clone()));
    }

    /// Visits what this tensor holds for Python's garbage collector; see Note [Cycles through the graph].
    pub(super) fn visit_held(&self, held: &mut GcVisitor, visit: &mut dyn FnMut(&dyn Any)) {
        self.state.try_with(|state| {
            // A running graph task may hold the hooks too.
            if let Some(hooks) = state.hooks.as_ref().filter(|h| Arc::strong_count(h) == 1) {
                hooks.grad.iter().for_each(|h| visit_hook(h, h.as_any(), visit));
                hooks.post.iter().for_each(|h| visit_hook(h, h.as_any(), visit));
                hooks.host.iter().for_each(|h| visit_hook(h, Some(&**h), visit));
                hooks.grad_object.iter().for_each(|h| visit_hook(h, Some(&**h), visit));
            }
            state.grad.iter().for_each(|g| held.tensor(g));
            state.grad_fn.iter().for_each(|f| held.node(f));
        });
    }
}
