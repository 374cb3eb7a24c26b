//! The autograd graph.
//!
//! ```text
//!   w (leaf) ──┐                       a result's tensor points to its node (grad_fn) and its output number
//!   x (leaf) ──┤ mul ── y ── sum ── s  a node has edges to the nodes of its inputs, and saved tensors
//!              ▼                       a leaf's edge leads to its accumulator, which adds to `.grad`
//!   AccumulateGrad(w) ◄── MulBackward0 ◄── SumBackward0
//! ```
//! *Node*: a [`Function`] with its edges. *Edge*: a node and one of its inputs. *Leaf*: a tensor without a node.
//! *Saved tensor*: a tensor kept by a function for backward, with its version at that time.

pub mod anomaly;
mod attribute;
mod function;
mod held;
mod hooks;
mod meta;
mod mode;
mod named;
mod recompute;
mod saved;
pub mod sync;

pub use attribute::{Attribute, Visit};
pub use function::{
    AccumulateGrad, Cx, DelayedError, Edge, Edges, Function, GradFn, Grads, LEAF_SEQUENCE, Node, NodeHooks,
    NotImplemented, OutputMeta, next_sequence, node, record, record_all, record_in_place, record_optional,
};
pub use held::{GcVisitor, HeldGuard, anything_held, set_young_collection};
pub use hooks::{Handle, Hooks, NodeHook, PackedTensor, PostAccumulateHook, SavedTensorHooks, TensorHook};
pub use meta::{AutogradMeta, HostData, LeafHooks};
pub use mode::{
    BelowAutograd, INTERPRETERS, ModeGuard, Origin, ThreadState, enter_derivative, exit_derivative,
    grad_enabled, grad_mode, inference_enabled, is_captured, is_interpreted, origin, set_grad_enabled,
    set_inference_enabled, set_interpreted,
};
pub use recompute::{Operands, Recipe, keep};
pub use saved::{
    PushesUndone, SavedTensor, check_saved, forbid_saved_tensor_hooks, hook_depth, pop_saved_tensor_hooks,
    push_saved_tensor_hooks, saved_tensor_hooks_active, with_saved, without_hooks,
};
