//! Functions, nodes and edges; recording; dropping a long graph.

use std::any::Any;
use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use smallvec::{SmallVec, smallvec};

use super::attribute::Visit;
use super::hooks::{Handle, Hooks, NodeHook, TensorHook};
use super::named::NamedDims;
use super::recompute::{Recipe, Recomputed};
use super::saved::{SavedTensor, check_saved};
use super::sync::{Guarded, Scratch, change_shared};
use super::{AutogradMeta, anomaly, grad_enabled};
use crate::backend::defer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::storage::in_turn::{InTurn, drop_in_turn};
use crate::storage::shared::shared;
use crate::tensor::Tensor;

/// Gradients, by output or by input of the forward; None is an undefined (zero) gradient.
pub type Grads = SmallVec<[Option<Tensor>; 2]>;
/// The next edges, by input; None for inputs that need no gradient.
pub type Edges = SmallVec<[Option<Edge>; 2]>;

/// The backward function of an operation and its saved state.
pub trait Function: Send + Sync + 'static {
    /// PyTorch's name of the node, for example `MulBackward0`.
    fn name(&self) -> &'static str;

    /// The name at run time: that of a custom function's class replaces the static one.
    fn full_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.name())
    }

    /// Computes gradients by input from gradients by output. Written with operations, so that it is itself
    /// differentiable in grad mode. A gradient may have the broadcast shape; the engine reduces it.
    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads>;

    /// Adds the gradient of the only input to `sum`, a dense tensor of the input's shape, if that takes less than to make
    /// the gradient; false, and nothing done, if it does not.
    fn add_to(&self, _grad: &Tensor, _sum: &Tensor) -> Result<bool> {
        Ok(false)
    }

    /// Visits the saved tensors, by PyTorch's names.
    fn saved(&self, _visit: &mut dyn FnMut(&'static str, &SavedTensor)) {}

    /// Visits PyTorch's other saved attributes, by name.
    fn attributes(&self, _visit: &mut Visit<'_>) {}

    /// The edges to show as PyTorch's `next_functions` where they differ from this node's edges.
    fn shown_edges(&self, edges: &Edges) -> Edges {
        edges.clone()
    }

    /// Frees the saved tensors; called after the node has run unless the graph is retained.
    fn release(&self) {
        self.saved(&mut |_, s| s.free());
    }

    /// PyTorch's name of the operation that computes the gradients, for a function that calls kernels and not operations
    /// unless its backward is recorded; "" for that of the node's name. See Note [Nodes as operations].
    fn kernel(&self) -> Option<&'static str> {
        None
    }

    /// Whether backward depends on nothing but the gradients, the saved tensors, and what was known of shapes and numbers
    /// before the operation ran; see Note [Second runs] in the binding.
    fn saves_all(&self) -> bool {
        false
    }

    /// How the only result of the forward pass is computed again from what the node has saved: Note [Values that are computed
    /// again]. None if that takes more than it has, or more time than memory is worth.
    fn recipe(&self) -> Option<Recipe> {
        None
    }

    /// Whether the function runs user code.
    fn is_foreign(&self) -> bool {
        false
    }

    /// The accumulator of a leaf, which the engine runs itself.
    fn as_accumulator(&self) -> Option<&AccumulateGrad> {
        None
    }

    /// For downcasts in the binding, which defines functions of its own.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// The context of one call of `backward`.
pub struct Cx<'a> {
    pub node: &'a GradFn,
    needs: u64,
}

impl<'a> Cx<'a> {
    pub fn new(node: &'a GradFn, needs: u64) -> Cx<'a> {
        Cx { node, needs }
    }

    /// Whether the gradient of input `i` is needed.
    #[inline(always)]
    pub fn needs(&self, i: usize) -> bool {
        i >= 63 || self.needs >> i & 1 == 1
    }
}

/// One input of a node.
#[derive(Clone)]
pub struct Edge {
    pub node: GradFn,
    /// The input number plus one, so that `Option<Edge>` needs no tag.
    input: NonZeroU32,
}

impl Edge {
    #[inline]
    pub fn new(node: GradFn, input: usize) -> Edge {
        Edge { node, input: NonZeroU32::MIN.saturating_add(input as u32) }
    }

    #[inline(always)]
    pub fn input(&self) -> usize {
        self.input.get() as usize - 1
    }
}

/// The expected shape, dtype and device of the gradient of one output.
#[derive(Clone, Debug)]
pub struct OutputMeta {
    pub shape: Dims,
    pub dtype: DType,
    pub device: Device,
}

impl OutputMeta {
    fn of(t: &Tensor) -> OutputMeta {
        OutputMeta { shape: t.shape().clone(), dtype: t.dtype(), device: t.device() }
    }
}

/// A function with its place in the graph.
pub struct Node<F: ?Sized = dyn Function> {
    /// Creation order: backward runs the ready node with the highest number first. Odd if the node was recorded in a
    /// region, see [`Node::is_deferred`].
    pub seq: u64,
    /// The graph task visiting this node, and the node's slot in it; see Note [Scratch in nodes] in the engine.
    pub scratch: Scratch,
    edges: Edges,
    outputs: SmallVec<[OutputMeta; 1]>,
    extras: OnceLock<Box<Extras>>,
    /// See Note [Dimensions as they were named].
    pub named_dims: NamedDims,
    f: F,
}

/// Fields that few nodes need.
#[derive(Default)]
struct Extras {
    hooks: Guarded<Option<Arc<NodeHooks>>>,
    host: OnceLock<HostData>,
    /// The result, while saved tensors or recipes have it as a value that is computed again.
    again: Guarded<Weak<Recomputed>>,
}

/// The host language's data for a node; only the binding knows its type.
type HostData = Box<dyn Any + Send + Sync>;

/// The hooks of a node.
#[derive(Default, Clone)]
pub struct NodeHooks {
    /// Pre-hooks of output gradients: the hooks of the tensors that are these outputs.
    pub tensor: SmallVec<[(usize, Hooks<dyn TensorHook>); 1]>,
    /// Tensors that retain their gradient, by output.
    pub retain: SmallVec<[(usize, Weak<AutogradMeta>); 1]>,
    pub pre: Hooks<dyn NodeHook>,
    pub post: Hooks<dyn NodeHook>,
}

/// A shared pointer to a node.
pub struct GradFn(Option<Arc<Node>>);

static SEQUENCE: AtomicU64 = AtomicU64::new(2);

/// The sequence number of accumulators: they run as soon as they are ready.
pub const LEAF_SEQUENCE: u64 = u64::MAX;

/// A new sequence number.
#[inline(always)]
fn take_sequence() -> u64 {
    SEQUENCE.fetch_add(2, Ordering::Relaxed) | u64::from(defer::any_region() && defer::is_deferring())
}

/// The next sequence number to be given out.
pub fn next_sequence() -> u64 {
    SEQUENCE.load(Ordering::Relaxed)
}

/// Makes a node with outputs like `outputs`.
#[inline]
pub fn node<F: Function>(f: F, edges: Edges, outputs: &[&Tensor]) -> GradFn {
    made(Arc::new(Node {
        seq: take_sequence(),
        scratch: Scratch::default(),
        edges,
        outputs: match outputs {
            [t] => SmallVec::from_buf([OutputMeta::of(t)]),
            all => all.iter().map(|t| OutputMeta::of(t)).collect(),
        },
        extras: OnceLock::new(),
        named_dims: NamedDims::default(),
        f,
    }))
}

#[inline(always)]
fn made<F: Function>(node: Arc<Node<F>>) -> GradFn {
    let made = GradFn::new(node);
    if anomaly::enabled() {
        anomaly::node_made(&made);
    }
    made
}

/// Records `out` if grad mode is on and any input requires grad. Every result gets its history through this function
/// or its variants below.
#[inline]
pub fn record<F: Function>(
    mut out: Tensor,
    inputs: &[&Tensor],
    make: impl FnOnce(&Tensor) -> F,
) -> Result<Tensor> {
    if !grad_enabled() || !inputs.iter().any(|t| t.requires_grad()) || !out.dtype().is_float() {
        return Ok(out);
    }
    let mut edges = no_edges(inputs.len());
    for (t, edge) in inputs.iter().zip(&mut edges) {
        t.put_grad_edge(edge)?;
    }
    let f = make(&out);
    check_saved()?;
    out.init_history(node(f, edges, &[&out]), 0);
    Ok(out)
}

/// As [`record`], with optional inputs: an absent one has an empty edge.
pub fn record_optional<F: Function>(
    mut out: Tensor,
    inputs: &[Option<&Tensor>],
    make: impl FnOnce(&Tensor) -> F,
) -> Result<Tensor> {
    if !grad_enabled() || !inputs.iter().flatten().any(|t| t.requires_grad()) || !out.dtype().is_float() {
        return Ok(out);
    }
    let mut edges = no_edges(inputs.len());
    for (t, edge) in inputs.iter().zip(&mut edges) {
        t.map_or(Ok(()), |t| t.put_grad_edge(edge))?;
    }
    let f = make(&out);
    check_saved()?;
    out.init_history(node(f, edges, &[&out]), 0);
    Ok(out)
}

/// As [`record`], optimized for the most frequent operations, when some input requires grad: `complete` fills in the
/// function and its `count` edges in place.
#[inline(always)]
pub fn record_in_place<F: Function>(
    mut out: Tensor,
    count: usize,
    make: impl FnOnce() -> F,
    complete: impl FnOnce(&Tensor, &mut F, &mut [Option<Edge>]) -> Result<()>,
) -> Result<Tensor> {
    let mut done = Ok(());
    let node = || Node {
        seq: 0,
        scratch: Scratch::default(),
        edges: no_edges(count),
        outputs: SmallVec::from_buf([OutputMeta::of(&out)]),
        extras: OnceLock::new(),
        named_dims: NamedDims::default(),
        f: make(),
    };
    let node = shared(node, |node| {
        done = complete(&out, &mut node.f, &mut node.edges);
        // Numbered only now, after the nodes of inputs that are made on demand.
        node.seq = take_sequence();
    });
    let grad_fn = made(node);
    done?;
    check_saved()?;
    out.init_history(grad_fn, 0);
    Ok(out)
}

/// `count` empty edges.
#[inline(always)]
fn no_edges(count: usize) -> Edges {
    const NONE: [Option<Edge>; 2] = [const { None }; 2];
    if count <= NONE.len() {
        Edges::from_buf_and_len(NONE, count)
    } else {
        std::iter::repeat_n(None, count).collect()
    }
}

/// As [`record`], for an operation with several outputs.
pub fn record_all<F: Function>(
    mut outs: Vec<Tensor>,
    inputs: &[&Tensor],
    make: impl FnOnce(&[Tensor]) -> F,
) -> Result<Vec<Tensor>> {
    // Compiled once, since it does not depend on the function type.
    #[inline(never)]
    fn edges(inputs: &[&Tensor]) -> Result<Option<Edges>> {
        if !grad_enabled() || !inputs.iter().any(|t| t.requires_grad()) {
            return Ok(None);
        }
        inputs.iter().map(|t| t.grad_edge()).collect::<Result<_>>().map(Some)
    }
    #[inline(never)]
    fn hang(outs: &mut [Tensor], grad_fn: &GradFn) {
        for (i, out) in outs.iter_mut().filter(|o| o.dtype().is_float()).enumerate() {
            out.init_history(grad_fn.clone(), i);
        }
    }
    if let Some(edges) = edges(inputs)? {
        let f = make(&outs);
        check_saved()?;
        // Integer outputs (indices) have no gradient and are not outputs of the node.
        let differentiable: Vec<_> = outs.iter().filter(|o| o.dtype().is_float()).collect();
        let grad_fn = node(f, edges, &differentiable);
        hang(&mut outs, &grad_fn);
    }
    Ok(outs)
}

impl<F: Function + ?Sized> Node<F> {
    /// Whether the node was recorded in a region of deferred operations, so that its derivative is deferred too.
    #[inline]
    pub fn is_deferred(&self) -> bool {
        self.seq & 1 == 1 && self.seq != LEAF_SEQUENCE
    }

    pub fn function(&self) -> &F {
        &self.f
    }

    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    pub fn outputs(&self) -> &[OutputMeta] {
        &self.outputs
    }

    /// The hooks, if any were ever registered.
    pub fn hooks(&self) -> Option<Arc<NodeHooks>> {
        self.extras.get().and_then(|e| e.hooks.with(|hooks| hooks.clone()))
    }

    fn change_hooks<R>(&self, change: impl FnMut(&mut NodeHooks) -> R) -> R {
        change_shared(&self.extras.get_or_init(Box::default).hooks, |hooks| hooks, change)
    }

    /// The host language's data for this node, if any.
    pub fn host(&self) -> Option<&HostData> {
        self.extras.get().and_then(|e| e.host.get())
    }

    /// As [`Node::host`], created if absent.
    pub fn host_or_new(&self, make: impl FnOnce() -> HostData) -> &HostData {
        self.extras.get_or_init(Box::default).host.get_or_init(make)
    }

    /// The result as a value that is computed again: one for all that save it, made by `make`.
    pub(super) fn again(&self, make: impl FnOnce() -> Option<Arc<Recomputed>>) -> Option<Arc<Recomputed>> {
        let extras = self.extras.get_or_init(Box::default);
        let known = extras.again.with(|again| again.upgrade());
        known.or_else(|| {
            let made = make()?;
            let old = extras.again.with(|again| std::mem::replace(again, Arc::downgrade(&made)));
            drop(old);
            Some(made)
        })
    }

    /// Calls `visit` with the hooks unless they are locked or shared at the moment.
    pub(super) fn visit_hooks(&self, visit: impl FnOnce(&NodeHooks)) {
        let Some(extras) = self.extras.get() else { return };
        extras.hooks.try_with(|hooks| {
            if let Some(hooks) = hooks.as_ref().filter(|h| Arc::strong_count(h) == 1) {
                visit(hooks);
            }
        });
    }

    /// Removes all hooks.
    pub fn clear_hooks(&self) {
        let old = self.extras.get().and_then(|e| e.hooks.with(Option::take));
        drop(old);
    }

    pub fn add_tensor_hook(&self, output: usize, hook: Arc<dyn TensorHook>) -> Handle {
        self.change_hooks(|h| {
            if let Some((_, hooks)) = h.tensor.iter_mut().find(|(o, _)| *o == output) {
                return hooks.add(hook.clone());
            }
            let mut hooks = Hooks::default();
            let handle = hooks.add(hook.clone());
            h.tensor.push((output, hooks));
            handle
        })
    }

    /// Stores the gradient of `output` in the `.grad` of the tensor with metadata `meta`.
    pub fn retain_grad(&self, output: usize, meta: &Arc<AutogradMeta>) {
        if !self.retains_grad(output, meta) {
            self.change_hooks(|h| h.retain.push((output, Arc::downgrade(meta))));
        }
    }

    /// Undoes [`Node::retain_grad`]; returns whether it was set.
    pub(crate) fn drop_retained_grad(&self, meta: &Arc<AutogradMeta>) -> bool {
        let is_it = |(_, m): &(usize, Weak<AutogradMeta>)| m.as_ptr() == Arc::as_ptr(meta);
        if !self.hooks().is_some_and(|h| h.retain.iter().any(is_it)) {
            return false;
        }
        self.change_hooks(|h| {
            let before = h.retain.len();
            h.retain.retain(|entry| !is_it(entry));
            h.retain.len() != before
        })
    }

    pub fn retains_grad(&self, output: usize, meta: &Arc<AutogradMeta>) -> bool {
        self.hooks()
            .is_some_and(|h| h.retain.iter().any(|(o, m)| *o == output && m.as_ptr() == Arc::as_ptr(meta)))
    }

    pub fn add_pre_hook(&self, hook: Arc<dyn NodeHook>) -> Handle {
        self.change_hooks(|h| h.pre.add(hook.clone()))
    }

    pub fn add_post_hook(&self, hook: Arc<dyn NodeHook>) -> Handle {
        self.change_hooks(|h| h.post.add(hook.clone()))
    }

    pub fn remove_hook(&self, handle: Handle) -> bool {
        self.hooks().is_some()
            && self.change_hooks(|h| {
                h.tensor.iter_mut().any(|(_, hooks)| hooks.remove(handle))
                    | h.pre.remove(handle)
                    | h.post.remove(handle)
            })
    }
}

impl GradFn {
    pub fn new<F: Function>(node: Arc<Node<F>>) -> GradFn {
        GradFn(Some(node))
    }

    #[inline(always)]
    pub fn get(&self) -> &Arc<Node> {
        match &self.0 {
            Some(n) => n,
            // Only `drop` takes the pointer out.
            None => unreachable!(),
        }
    }

    pub fn name(&self) -> Cow<'static, str> {
        self.get().f.full_name()
    }

    pub fn same(&self, other: &GradFn) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(self.get()), Arc::as_ptr(other.get()))
    }

    /// Whether this is the only handle to the node.
    pub fn is_sole_owner(&self) -> bool {
        Arc::strong_count(self.get()) == 1
    }

    /// A weak reference to the node.
    pub fn downgrade(&self) -> Weak<Node> {
        Arc::downgrade(self.get())
    }

    /// The node of a weak reference, if still alive.
    pub fn upgrade(weak: &Weak<Node>) -> Option<GradFn> {
        weak.upgrade().map(|n| GradFn(Some(n)))
    }

    /// Identifies the node.
    pub fn address(&self) -> usize {
        Arc::as_ptr(self.get()).cast::<()>() as usize
    }
}

impl std::ops::Deref for GradFn {
    type Target = Node;
    #[inline(always)]
    fn deref(&self) -> &Node {
        self.get()
    }
}

impl Clone for GradFn {
    #[inline]
    fn clone(&self) -> Self {
        GradFn(self.0.clone())
    }
}

thread_local!(static CONDEMNED: InTurn<Arc<Node>> = const { InTurn::new() });

// Note [Dropping a long graph] A node owns the nodes of its inputs, through edges and saved tensors. All owning pointers to
// nodes are GradFns, so that these are the links of Note [Dropping a long chain].
impl Drop for GradFn {
    fn drop(&mut self) {
        // If another handle is dropped at the same moment, one of the two drops frees the node, and the GradFns inside
        // it then take care of the nodes below.
        if self.0.as_ref().is_some_and(|node| Arc::strong_count(node) == 1)
            && let Some(node) = self.0.take()
        {
            drop_in_turn(&CONDEMNED, node);
        }
    }
}

/// The node of an operation without a derivative, recorded when an input requires grad. Its backward is an error.
pub struct NotImplemented {
    pub op: &'static str,
}

impl NotImplemented {
    pub const NAME: &'static str = "torch::autograd::NotImplemented";
}

impl Function for NotImplemented {
    fn name(&self) -> &'static str {
        NotImplemented::NAME
    }

    fn backward(&self, _: &Cx, _: Grads) -> Result<Grads> {
        Err(Error::Runtime(format!("derivative for aten::{} is not implemented", self.op)))
    }
}

/// The node of a result that has no derivative although its operation has one. Its backward is an error.
pub struct DelayedError {
    pub message: &'static str,
}

impl Function for DelayedError {
    fn name(&self) -> &'static str {
        "torch::autograd::Error"
    }

    fn backward(&self, _: &Cx, _: Grads) -> Result<Grads> {
        Err(Error::Runtime(self.message.into()))
    }
}

/// The node of a leaf: accumulates into its `.grad`. All graphs share one accumulator per leaf while it is alive.
pub struct AccumulateGrad {
    pub leaf: Tensor,
    /// Locked while a gradient is added in place; see Note [Locks of the graph].
    pub(crate) turn: Guarded<()>,
}

impl AccumulateGrad {
    pub(super) fn node(t: &Tensor) -> Arc<Node<AccumulateGrad>> {
        let node = || Node {
            seq: LEAF_SEQUENCE,
            scratch: Scratch::default(),
            edges: Edges::new(),
            outputs: SmallVec::from_buf([OutputMeta::of(t)]),
            extras: OnceLock::new(),
            named_dims: NamedDims::default(),
            f: AccumulateGrad { leaf: t.clone(), turn: Guarded::default() },
        };
        shared(node, |_| ())
    }
}

impl Function for AccumulateGrad {
    fn name(&self) -> &'static str {
        "torch::autograd::AccumulateGrad"
    }

    fn backward(&self, _: &Cx, _: Grads) -> Result<Grads> {
        // The engine recognizes accumulators and accumulates itself.
        Ok(smallvec![])
    }

    fn as_accumulator(&self) -> Option<&AccumulateGrad> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_absent_edge_takes_no_word_of_its_own() {
        assert_eq!(size_of::<Option<super::Edge>>(), 24);
    }
}
