//! Functions, nodes and edges; how a result gets its history; how a long graph is dropped.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use smallvec::{SmallVec, smallvec};

use super::attribute::Visit;
use super::hooks::{Handle, Hooks, NodeHook, TensorHook};
use super::named::NamedDims;
use super::saved::{SavedTensor, check_saved};
use super::sync::{Guarded, Scratch, change_shared};
use super::{AutogradMeta, anomaly, grad_enabled};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::storage::shared::shared;
use crate::tensor::Tensor;

/// Gradients, by output of a forward or by input; None stands for zero.
pub type Grads = SmallVec<[Option<Tensor>; 2]>;
/// Where the gradients by input go; None where nobody wants one.
pub type Edges = SmallVec<[Option<Edge>; 2]>;

/// The derivative of an operation: what it kept, and how gradients pass through it.
pub trait Function: Send + Sync + 'static {
    /// PyTorch's name of the node, such as `MulBackward0`.
    fn name(&self) -> &'static str;

    /// Names made at run time (a user's class) override the static one.
    fn full_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.name())
    }

    /// Gradients by input from the gradients by output. Written with operations, so that it is itself
    /// differentiable where grad mode is on. A gradient may have the broadcast shape: the engine sums it.
    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads>;

    /// Visits what was saved, by PyTorch's names.
    fn saved(&self, _visit: &mut dyn FnMut(&'static str, &SavedTensor)) {}

    /// Visits what PyTorch's node keeps beside tensors, by its names.
    fn attributes(&self, _visit: &mut Visit<'_>) {}

    /// The edges that PyTorch's node has, where they are not all of this one's.
    fn shown_edges(&self, edges: &Edges) -> Edges {
        edges.clone()
    }

    /// Frees what was saved; called when the node has run and the graph is not retained.
    fn release(&self) {
        self.saved(&mut |_, s| s.free());
    }

    /// Whether the function calls code outside the core.
    fn is_foreign(&self) -> bool {
        false
    }

    /// The accumulator of a leaf, which the engine treats itself.
    fn as_accumulator(&self) -> Option<&AccumulateGrad> {
        None
    }

    /// For the binding, which knows its own functions.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// What a function knows of the run that calls it.
pub struct Cx<'a> {
    pub node: &'a GradFn,
    needs: u64,
}

impl<'a> Cx<'a> {
    pub fn new(node: &'a GradFn, needs: u64) -> Cx<'a> {
        Cx { node, needs }
    }

    /// Whether the gradient by input `i` is wanted.
    #[inline(always)]
    pub fn needs(&self, i: usize) -> bool {
        i >= 63 || self.needs >> i & 1 == 1
    }
}

/// An input of a node.
#[derive(Clone)]
pub struct Edge {
    pub node: GradFn,
    /// One more than the number of the input, which leaves the absent edge no word of its own.
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

/// What the gradient by an output must look like.
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

/// A function in the graph.
pub struct Node<F: ?Sized = dyn Function> {
    /// Nodes are numbered as they are made: backward runs the highest ready number first.
    pub seq: u64,
    /// The run that is visiting this node and its place there; see Note [Scratch in nodes] in the engine.
    pub scratch: Scratch,
    edges: Edges,
    outputs: SmallVec<[OutputMeta; 1]>,
    extras: OnceLock<Box<Extras>>,
    /// Note [Dimensions as they were named].
    pub named_dims: NamedDims,
    f: F,
}

/// What few nodes have.
#[derive(Default)]
struct Extras {
    hooks: Guarded<Option<Arc<NodeHooks>>>,
    host: OnceLock<HostData>,
}

/// What the host language keeps about a node; only the binding knows its type.
type HostData = Box<dyn Any + Send + Sync>;

/// Hooks on a node.
#[derive(Default, Clone)]
pub struct NodeHooks {
    /// On the gradient by one output: hooks of the tensor that this output is.
    pub tensor: SmallVec<[(usize, Hooks<dyn TensorHook>); 1]>,
    /// On the tensor whose `.grad` is to be kept, by output.
    pub retain: SmallVec<[(usize, Weak<AutogradMeta>); 1]>,
    pub pre: Hooks<dyn NodeHook>,
    pub post: Hooks<dyn NodeHook>,
}

/// A shared handle to a node.
pub struct GradFn(Option<Arc<Node>>);

static SEQUENCE: AtomicU64 = AtomicU64::new(1);

/// The number that accumulators carry: they run as soon as they are ready.
pub const LEAF_SEQUENCE: u64 = u64::MAX;

/// The number of the next node: those made from now on have it or a higher one.
pub fn next_sequence() -> u64 {
    SEQUENCE.load(Ordering::Relaxed)
}

/// Makes a node whose outputs look like `outputs`.
#[inline]
pub fn node<F: Function>(f: F, edges: Edges, outputs: &[&Tensor]) -> GradFn {
    made(Arc::new(Node {
        seq: SEQUENCE.fetch_add(1, Ordering::Relaxed),
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

/// Gives `out` its history if any input is tracked and grad mode is on. The only way that a result gets one.
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

/// As [`record`], for inputs that may be absent: these have no edge, and keep their place.
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

/// As [`record`], where something is tracked, for what is met most: `complete` fills in the function and its `count` edges
/// where they lie.
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
        // Now: the nodes of inputs, some of which are made when asked for, are older.
        node.seq = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    });
    let grad_fn = made(node);
    done?;
    check_saved()?;
    out.init_history(grad_fn, 0);
    Ok(out)
}

/// So many edges that lead nowhere.
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
    // What does not depend on the function is compiled once.
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
        // Indices have no gradient, so that the node does not count them.
        let differentiable: Vec<_> = outs.iter().filter(|o| o.dtype().is_float()).collect();
        let grad_fn = node(f, edges, &differentiable);
        hang(&mut outs, &grad_fn);
    }
    Ok(outs)
}

impl<F: Function + ?Sized> Node<F> {
    pub fn function(&self) -> &F {
        &self.f
    }

    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    pub fn outputs(&self) -> &[OutputMeta] {
        &self.outputs
    }

    /// The hooks, if there ever was one.
    pub fn hooks(&self) -> Option<Arc<NodeHooks>> {
        self.extras.get().and_then(|e| e.hooks.with(|hooks| hooks.clone()))
    }

    fn change_hooks<R>(&self, change: impl FnMut(&mut NodeHooks) -> R) -> R {
        change_shared(&self.extras.get_or_init(Box::default).hooks, |hooks| hooks, change)
    }

    /// What the host language keeps about this node, if anything.
    pub fn host(&self) -> Option<&HostData> {
        self.extras.get().and_then(|e| e.host.get())
    }

    /// As [`Node::host`], made if absent.
    pub fn host_or_new(&self, make: impl FnOnce() -> HostData) -> &HostData {
        self.extras.get_or_init(Box::default).host.get_or_init(make)
    }

    /// Calls `visit` with the hooks if nobody is at them or holds them at this moment.
    pub(super) fn visit_hooks(&self, visit: impl FnOnce(&NodeHooks)) {
        let Some(extras) = self.extras.get() else { return };
        extras.hooks.try_with(|hooks| {
            if let Some(hooks) = hooks.as_ref().filter(|h| Arc::strong_count(h) == 1) {
                visit(hooks);
            }
        });
    }

    /// Drops every hook.
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

    /// Keeps the gradient by `output` in the `.grad` of the tensor that `meta` belongs to.
    pub fn retain_grad(&self, output: usize, meta: &Arc<AutogradMeta>) {
        if !self.retains_grad(output, meta) {
            self.change_hooks(|h| h.retain.push((output, Arc::downgrade(meta))));
        }
    }

    /// Undoes [`Node::retain_grad`]; whether there was something to undo.
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
            // The handle is emptied only by its own drop.
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

    /// A handle that does not keep the node alive.
    pub fn downgrade(&self) -> Weak<Node> {
        Arc::downgrade(self.get())
    }

    /// The node of a weak handle, if it is still there.
    pub fn upgrade(weak: &Weak<Node>) -> Option<GradFn> {
        weak.upgrade().map(|n| GradFn(Some(n)))
    }

    /// Tells nodes apart.
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

thread_local! {
    static DRAINING: Cell<bool> = const { Cell::new(false) };
    static CONDEMNED: RefCell<Vec<Arc<Node>>> = const { RefCell::new(Vec::new()) };
}

// Note [Dropping a long graph]
// A node holds its inputs' nodes, by edges and through saved tensors, so dropping the last handle to a chain of a
// million nodes would recurse a million deep. Every handle to a node is a GradFn. While one of them drops a node,
// the handles inside only put their nodes on a list, and the outermost drop empties the list in a loop.
impl Drop for GradFn {
    fn drop(&mut self) {
        // If there is another handle and it is dropped at this moment, that drop or this one frees the node, and the
        // handles inside the node take care of what hangs below.
        if self.0.as_ref().is_some_and(|node| Arc::strong_count(node) == 1) {
            self.drop_last();
        }
    }
}

impl GradFn {
    #[inline(never)]
    fn drop_last(&mut self) {
        let outermost = DRAINING.try_with(|d| !d.replace(true)).unwrap_or(false);
        let mut node = self.0.take();
        if !outermost {
            // While the thread is ending the list may be gone; then the node is dropped here.
            let _ = CONDEMNED.try_with(|c| c.borrow_mut().extend(node.take()));
            return;
        }
        while node.is_some() {
            drop(node);
            node = CONDEMNED.try_with(|c| c.borrow_mut().pop()).ok().flatten();
        }
        let _ = DRAINING.try_with(|d| d.set(false));
    }
}

/// The node of an operation that has no derivative though its inputs may want one.
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

/// The node of a leaf: adds to its `.grad`. While there is one, every graph leads to the same.
pub struct AccumulateGrad {
    pub leaf: Tensor,
    /// Held while a gradient is added in place; see Note [Locks of the graph].
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
        // The engine recognises accumulators and does their work itself.
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
