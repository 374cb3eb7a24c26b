//! Interpreters: code that intercepts the calls of operations, such as autocast, transforms and modes.
//!
//! Note [One door]
//! Every call of an [`Op`] asks [`active`], one relaxed load, whether some thread has interpreters. If so, the innermost
//! one of this thread that the call concerns is handed the call, and while it runs, the stack is what lies below it:
//! what it calls is seen by those below alone, and so is the operation itself once it calls `next`. Calls that the core
//! makes itself (backward functions, operations made of others) pass here as well, marked [`Caller::Core`]: they go to the
//! functions that `ops!` declares, or to `call` of a row, and never to what stands behind these in another family.
//!
//! At the bottom of every stack stand the interpreters that see a call below autograd and autocast: the modes of
//! `__torch_dispatch__`, and below these, on all threads, the one that hands calls to the classes of hosted tensors.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::batching;
use super::schema::{Op, Out, Overload, Value};
use crate::device::Device;
use crate::error::Result;
use crate::graph::{Cx, GradFn, Grads, ModeGuard, grad_enabled, set_interpreted, with_saved};
use crate::tensor::Tensor;
use crate::tensor::batched::any_alive;

pub use crate::graph::INTERPRETERS;

/// Whether any thread may have an interpreter.
#[inline(always)]
pub fn active() -> bool {
    INTERPRETERS.load(Ordering::Relaxed) != 0
}

/// Where the result of an operation is stored.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// In a new tensor, which is returned.
    New,
    /// Stored in the first argument: the `_` form.
    InPlace,
    /// Stored in these tensors: the `out=` form, whose result is [`Out::List`].
    Into(&'a [Tensor]),
}

/// The caller of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The program, by name.
    Program,
    /// The core: a backward function, or another operation.
    Core,
}

/// A call of an operation, without its arguments.
#[derive(Clone, Copy)]
pub struct OpCall<'a> {
    pub op: &'static Op,
    pub overload: &'static Overload,
    pub form: Form<'a>,
    pub caller: Caller,
}

/// Intercepts the calls of operations on a thread.
pub trait Interpreter: Send + Sync {
    /// Whether this interpreter handles a call; it is skipped otherwise. Must not call operations.
    fn concerns(&self, _call: &OpCall) -> bool {
        true
    }

    /// Executes the call, through `next` or in another way.
    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out>;

    /// Computes the gradients of a node that calls kernels, if it is at the bottom; see Note [Nodes as operations].
    fn call_node(&self, call: &NodeCall) -> Result<Grads> {
        call.run(call.grads.clone())
    }

    /// Whether it stands below those that are not at the bottom, though they may have been pushed before.
    fn is_at_bottom(&self) -> bool {
        false
    }

    /// For downcasts in the binding, which defines interpreters of its own.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Calls operations on hosted tensors; see Note [Hosted tensors].
pub trait HostInterpreter: Send + Sync {
    /// The result of a call; None if no argument is hosted.
    fn call(&self, call: &OpCall, values: &[Value]) -> Option<Result<Out>>;

    /// As [`Interpreter::call_node`]; None if neither a gradient nor what the node saved is hosted.
    fn call_node(&self, call: &NodeCall) -> Option<Result<Grads>>;

    /// Gives the gradients that a node has computed the history of that computation.
    fn record_node(&self, call: &NodeCall, outs: Grads) -> Result<Grads>;
}

/// The backward call of a node whose function calls kernels.
///
/// Note [Nodes as operations] The operations that a backward function calls pass here as all others do. What it computes by
/// kernels would pass unseen, and a kernel cannot read a hosted tensor. So such a function has the name of an operation
/// ([`Function::kernel`]), whose arguments are the gradients and the saved tensors. Who calls it with other tensors in their
/// place runs the function with these ([`with_saved`]). A recorded backward calls operations as a rule. Where it does not, it is
/// computed in this way too, and what it returns gets a node that runs the function again to be differentiated.
///
/// [`Function::kernel`]: crate::graph::Function::kernel
pub struct NodeCall<'a> {
    pub name: String,
    pub node: &'a GradFn,
    pub cx: &'a Cx<'a>,
    pub grads: &'a Grads,
    pub saved: Vec<Tensor>,
}

impl NodeCall<'_> {
    /// Runs the function with the saved tensors, which may be unpacked only once.
    pub fn run(&self, grads: Grads) -> Result<Grads> {
        with_saved(self.node, self.saved.clone(), || self.node.function().backward(self.cx, grads))
    }

    /// Has the interpreter at the bottom compute the gradients.
    fn compute(&self) -> Result<Grads> {
        let bottom = STACK.with(|s| s.0.borrow().iter().rposition(|i| i.is_at_bottom()));
        if let Some(at) = bottom {
            let suspended = Suspended::from(at);
            return suspended.inner[0].call_node(self);
        }
        let hosted = HOST.get().and_then(|host| host.call_node(self));
        hosted.unwrap_or_else(|| self.run(self.grads.clone()))
    }
}

/// The gradients of a node's inputs, where an interpreter may be active.
#[cold]
pub fn backward(node: &GradFn, cx: &Cx, grads: Grads) -> Result<Grads> {
    if grads.iter().flatten().any(Tensor::is_batched) {
        return batching::backward(node, cx, grads);
    }
    if !sees_node(node, &grads) {
        return node.function().backward(cx, grads);
    }
    if !grad_enabled()
        && let Some(name) = node.function().kernel()
    {
        let name = if name.is_empty() { operation_name(&node.name()) } else { name.into() };
        return as_operation(name, node, cx, &grads);
    }
    let plain_meta = |g: &Tensor| g.device() == Device::Meta && !g.is_hosted();
    let given_meta = grads.iter().flatten().any(plain_meta);
    let outs = node.function().backward(cx, grads.clone());
    let by_kernels = match &outs {
        Ok(outs) => outs.iter().flatten().any(plain_meta),
        // Memory beside what has none.
        Err(_) => node.function().saves_all() && grads.iter().flatten().any(Tensor::is_hosted),
    };
    if given_meta || !by_kernels {
        return outs;
    }
    node_as_operation(node, cx, &grads)
}

/// The gradients that a node computes, as the result of an operation of its name.
pub fn node_as_operation(node: &GradFn, cx: &Cx, grads: &Grads) -> Result<Grads> {
    as_operation(operation_name(&node.name()), node, cx, grads)
}

/// Whether an interpreter at the bottom sees the backward call of a node. Packed tensors are not unpacked to be asked.
fn sees_node(node: &GradFn, grads: &Grads) -> bool {
    if HOST.get().is_none() {
        return false;
    }
    let mut sees = sees_steps(grads.iter().flatten());
    if !sees {
        node.function().saved(&mut |_, saved| sees |= saved.kept().is_some_and(|t| t.is_hosted()));
    }
    sees
}

/// The name of a node as one of an operation: `convolution_backward` for `ConvolutionBackward0`.
fn operation_name(node: &str) -> String {
    let node = node.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut name = String::new();
    for c in node.chars() {
        if c.is_ascii_uppercase() && name.ends_with(|before: char| before.is_ascii_lowercase()) {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The tensors that a node saved.
pub fn saved_by(node: &GradFn, cx: &Cx) -> Result<Vec<Tensor>> {
    let mut found = Vec::new();
    let mut failed = Ok(());
    node.function().saved(&mut |_, s| match s.try_get(cx) {
        Ok(t) => found.extend(t),
        Err(e) => failed = Err(e),
    });
    failed.map(|()| found)
}

fn as_operation(name: String, node: &GradFn, cx: &Cx, grads: &Grads) -> Result<Grads> {
    let call = NodeCall { name, node, cx, grads, saved: saved_by(node, cx)? };
    if !grad_enabled() {
        return call.compute();
    }
    let unrecorded = ModeGuard::grad(false);
    let outs = call.compute()?;
    drop(unrecorded);
    match HOST.get() {
        Some(host) => host.record_node(&call, outs),
        None => Ok(outs),
    }
}

static HOST: OnceLock<&'static dyn HostInterpreter> = OnceLock::new();

/// Installs the interpreter below all others, once.
pub fn set_host(host: &'static dyn HostInterpreter) {
    if HOST.set(host).is_ok() {
        INTERPRETERS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The rest of the chain: the interpreters below, and finally the operation.
pub struct Next(());

impl Next {
    /// The same rest, for an interpreter that makes a call of its own before it goes on.
    pub fn again(&self) -> Next {
        Next(())
    }

    pub fn call(&self, call: &OpCall, values: &[Value]) -> Result<Out> {
        interpreted(call, values).unwrap_or_else(|| super::run(call, values))
    }
}

/// Runs a call below all interpreters.
pub fn run(call: &OpCall, values: &[Value]) -> Result<Out> {
    super::run(call, values)
}

type Interpreters = Vec<Arc<dyn Interpreter>>;

/// The interpreters of a thread, the outermost first.
struct Stack(RefCell<Interpreters>);

thread_local!(static STACK: Stack = const { Stack(RefCell::new(Vec::new())) });

impl Stack {
    /// Modifies the stack and updates the number of threads with interpreters.
    fn change<R>(&self, f: impl FnOnce(&mut Interpreters) -> R) -> R {
        let mut stack = self.0.borrow_mut();
        let before = stack.is_empty();
        let out = f(&mut stack);
        match (before, stack.is_empty()) {
            (true, false) => INTERPRETERS.fetch_add(1, Ordering::Relaxed),
            (false, true) => INTERPRETERS.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        set_interpreted(!stack.is_empty());
        out
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let rest = self.change(std::mem::take);
        drop(rest);
    }
}

/// Pushes an interpreter on this thread's stack.
pub fn push(interpreter: Arc<dyn Interpreter>) {
    STACK.with(|s| {
        s.change(|stack| {
            let bottom = stack.iter().filter(|i| i.is_at_bottom()).count();
            let at = if interpreter.is_at_bottom() { bottom } else { stack.len() };
            stack.insert(at, interpreter);
        });
    });
}

/// Removes an interpreter from this thread's stack, at any position; returns whether it was there.
pub fn remove(interpreter: &Arc<dyn Interpreter>) -> bool {
    let same = |i: &Arc<dyn Interpreter>| std::ptr::addr_eq(Arc::as_ptr(i), Arc::as_ptr(interpreter));
    let removed = STACK.with(|s| s.change(|stack| Some(stack.remove(stack.iter().rposition(same)?))));
    removed.is_some()
}

/// The interpreters of this thread, for another thread that continues its work.
pub fn capture() -> Vec<Arc<dyn Interpreter>> {
    STACK.with(|s| s.0.borrow().clone())
}

/// Replaces the interpreters of this thread.
pub fn install(interpreters: Vec<Arc<dyn Interpreter>>) {
    let before = STACK.with(|s| s.change(|stack| std::mem::replace(stack, interpreters)));
    drop(before);
}

/// The interpreters from one position inward, which are off the stack until this is dropped, also on errors and
/// panics.
struct Suspended {
    at: usize,
    inner: Interpreters,
}

impl Suspended {
    fn from(at: usize) -> Suspended {
        Suspended { at, inner: STACK.with(|s| s.change(|stack| stack.split_off(at))) }
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let inner = std::mem::take(&mut self.inner);
        let left = STACK.with(|s| {
            s.change(|stack| {
                let left = stack.split_off(self.at.min(stack.len()));
                stack.extend(inner);
                left
            })
        });
        drop(left);
    }
}

/// The result of the innermost interpreter that handles a call; None if there is none.
#[cold]
pub fn interpreted(call: &OpCall, values: &[Value]) -> Option<Result<Out>> {
    let Some(at) = innermost(call) else {
        return match batching::refuse_escaped(call, values) {
            Err(e) => Some(Err(e)),
            Ok(()) => HOST.get()?.call(call, values),
        };
    };
    let suspended = Suspended::from(at);
    Some(suspended.inner[0].call(call, values, Next(())))
}

/// Calls `f` with one more interpreter on this thread, the innermost, also if it fails.
pub fn within<R>(interpreter: Arc<dyn Interpreter>, f: impl FnOnce() -> R) -> R {
    struct Pushed(Arc<dyn Interpreter>);
    impl Drop for Pushed {
        fn drop(&mut self) {
            remove(&self.0);
        }
    }
    push(interpreter.clone());
    let _pushed = Pushed(interpreter);
    f()
}

/// Calls `f` with what lies below an interpreter of this thread; with the whole stack if it is not there.
pub fn below<R>(interpreter: &Arc<dyn Interpreter>, f: impl FnOnce(Next) -> R) -> R {
    let same = |i: &Arc<dyn Interpreter>| std::ptr::addr_eq(Arc::as_ptr(i), Arc::as_ptr(interpreter));
    let at = STACK.with(|s| s.0.borrow().iter().rposition(same));
    let _suspended = at.map(Suspended::from);
    f(Next(()))
}

/// Calls `f` without the interpreters of this thread.
pub fn without<R>(f: impl FnOnce() -> R) -> R {
    outside(0, f)
}

/// Calls `f` without those interpreters of this thread that stand at a position or further inward.
pub fn outside<R>(at: usize, f: impl FnOnce() -> R) -> R {
    let _suspended = Suspended::from(at);
    f()
}

/// Whether an interpreter at the bottom sees operations on these tensors, so that nothing may be computed at once that
/// is several operations.
#[cold]
pub fn sees_steps<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    STACK.with(|s| s.0.borrow().iter().any(|i| i.is_at_bottom()))
        || tensors.into_iter().any(Tensor::is_hosted)
}

/// The position of the innermost interpreter that handles a call.
fn innermost(call: &OpCall) -> Option<usize> {
    STACK.with(|s| s.0.borrow().iter().rposition(|i| i.concerns(call)))
}

/// Whether no interpreter can see a call of this thread.
pub fn none_here() -> bool {
    HOST.get().is_none() && !any_alive() && STACK.with(|s| s.0.borrow().is_empty())
}

/// Whether a call may concern an interpreter.
pub fn concerned(call: &OpCall) -> Option<()> {
    if HOST.get().is_some() || any_alive() { Some(()) } else { innermost(call).map(drop) }
}

/// As [`interpreted`], for a row that the core calls; its values are made only where somebody looks at them.
#[cold]
pub fn interpreted_core<'v, V: AsRef<[Value]> + 'v>(
    op: &'static Op,
    overload: usize,
    values: impl FnOnce() -> V,
) -> Option<Result<Out>> {
    let overload = op.overloads.get(overload)?;
    let call = OpCall { op, overload, form: Form::New, caller: Caller::Core };
    concerned(&call)?;
    interpreted(&call, values().as_ref())
}
