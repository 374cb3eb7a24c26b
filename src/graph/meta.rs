//! What autograd keeps about one tensor.

use std::any::Any;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::function::{AccumulateGrad, Edge, GradFn, Node};
use super::held::{Held, visit_hook};
use super::hooks::{Handle, Hooks, PostAccumulateHook, TensorHook};
use crate::dtype::DType;
use crate::tensor::Tensor;

// How a tensor takes part in recorded operations: not, as a leaf, or with a history.
const UNTRACKED: u8 = 0;
const LEAF: u8 = 1;
const RECORDED: u8 = 2;

/// Gradient, history and hooks of a tensor. Two tensors share it only when one replaced the other's data.
pub struct Meta {
    tracked: AtomicU8,
    /// The dtype of a leaf's gradient: 0 for the leaf's own, 1 for any, else its place among all dtypes and 2.
    grad_dtype: AtomicU8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leaf: bool,
    output: u32,
    grad: Option<Tensor>,
    grad_fn: Option<GradFn>,
    /// A leaf's accumulator lives as long as a graph holds it.
    accumulator: Option<Weak<Node<AccumulateGrad>>>,
    hooks: Option<Box<LeafHooks>>,
}

/// A leaf's hooks; those of a tensor with history sit on its node.
#[derive(Default)]
struct LeafHooks {
    grad: Hooks<dyn TensorHook>,
    post: Hooks<dyn PostAccumulateHook>,
}

impl Meta {
    pub(crate) fn new() -> Meta {
        Meta { tracked: AtomicU8::new(UNTRACKED), grad_dtype: AtomicU8::new(0), state: Mutex::default() }
    }

    /// The meta of a fresh result of a recorded operation.
    #[inline(always)]
    pub(crate) fn with_history(grad_fn: GradFn, output: usize) -> Meta {
        let state = State {
            leaf: false,
            output: output as u32,
            grad: None,
            grad_fn: Some(grad_fn),
            accumulator: None,
            hooks: None,
        };
        Meta { tracked: AtomicU8::new(RECORDED), grad_dtype: AtomicU8::new(0), state: Mutex::new(state) }
    }

    // The state is consistent between any two statements, so a panic elsewhere does not make it unusable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub fn is_tracked(&self) -> bool {
        self.tracked.load(Ordering::Relaxed) != UNTRACKED
    }

    /// Whether the tensor has a history.
    #[inline(always)]
    pub fn is_recorded(&self) -> bool {
        self.tracked.load(Ordering::Relaxed) == RECORDED
    }

    pub fn set_leaf(&self, on: bool) {
        self.state().leaf = on;
        self.tracked.store(if on { LEAF } else { UNTRACKED }, Ordering::Relaxed);
    }

    /// The dtype that a gradient of a leaf of dtype `own` is to have; None where it may have any.
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
        self.state().grad.clone()
    }

    pub fn set_grad(&self, grad: Option<Tensor>) {
        // The old gradient is dropped after the lock: its drop may run a long graph's.
        let old = std::mem::replace(&mut self.state().grad, grad);
        drop(old);
    }

    /// Lets `f` see and replace the gradient with no other thread in between.
    pub fn update_grad<R>(&self, f: impl FnOnce(&mut Option<Tensor>) -> R) -> R {
        f(&mut self.state().grad)
    }

    pub fn grad_fn(&self) -> Option<GradFn> {
        self.state().grad_fn.clone()
    }

    /// Which output of its node the tensor is.
    pub fn output(&self) -> usize {
        self.state().output as usize
    }

    /// The tensor is from now on output `output` of `grad_fn`.
    pub fn set_history(&self, grad_fn: GradFn, output: usize) {
        let mut s = self.state();
        s.output = output as u32;
        s.leaf = false;
        let old = s.grad_fn.replace(grad_fn);
        drop(s);
        drop(old);
        self.tracked.store(RECORDED, Ordering::Relaxed);
    }

    /// Forgets the history, as `detach_` does.
    pub fn clear_history(&self) {
        let mut s = self.state();
        s.leaf = false;
        s.output = 0;
        let old = s.grad_fn.take();
        drop(s);
        drop(old);
        self.tracked.store(UNTRACKED, Ordering::Relaxed);
    }

    /// Writes the edge to what made `t`, or to its accumulator, where there is one.
    pub(crate) fn put_edge(&self, t: &Tensor, place: &mut Option<Edge>) {
        let mut s = self.state();
        if let Some(node) = &s.grad_fn {
            *place = Some(Edge::new(node.clone(), s.output as usize));
            return;
        }
        if !s.leaf {
            return;
        }
        let node = match s.accumulator.as_ref().and_then(Weak::upgrade) {
            Some(node) => node,
            None => {
                let node = AccumulateGrad::node(t);
                s.accumulator = Some(Arc::downgrade(&node));
                node
            }
        };
        *place = Some(Edge::new(GradFn::new(node), 0));
    }

    // ---- hooks of a leaf

    pub fn add_hook(&self, hook: Arc<dyn TensorHook>) -> Handle {
        self.state().hooks.get_or_insert_default().grad.add(hook)
    }

    pub fn add_post_hook(&self, hook: Arc<dyn PostAccumulateHook>) -> Handle {
        self.state().hooks.get_or_insert_default().post.add(hook)
    }

    pub fn remove_hook(&self, handle: Handle) -> bool {
        self.state().hooks.as_mut().is_some_and(|h| h.grad.remove(handle) | h.post.remove(handle))
    }

    /// Meets what only this tensor holds; see Note [Cycles through the graph].
    pub(super) fn visit_held(&self, held: &mut Held, visit: &mut dyn FnMut(&dyn Any)) {
        let Ok(state) = self.state.try_lock() else { return };
        if let Some(hooks) = &state.hooks {
            hooks.grad.iter().for_each(|h| visit_hook(h, h.as_any(), visit));
            hooks.post.iter().for_each(|h| visit_hook(h, h.as_any(), visit));
        }
        state.grad.iter().for_each(|g| held.tensor(g));
        state.grad_fn.iter().for_each(|f| held.node(f));
    }

    pub fn hooks(&self) -> Hooks<dyn TensorHook> {
        self.state().hooks.as_ref().map_or_else(Hooks::default, |h| h.grad.clone())
    }

    pub fn post_hooks(&self) -> Hooks<dyn PostAccumulateHook> {
        self.state().hooks.as_ref().map_or_else(Hooks::default, |h| h.post.clone())
    }
}
