//! Interpreters: code that intercepts the calls of operations, such as autocast, transforms and modes.
//!
//! Note [One door]
//! Every call of an [`Op`] asks [`active`], one relaxed load, whether some thread has interpreters. If so, the innermost
//! one of this thread that the call concerns is handed the call, and while it runs, the stack is what lies below it:
//! what it calls is seen by those below alone, and so is the operation itself once it calls `next`. Calls that the core
//! makes itself (backward functions, operations made of others) pass here as well, marked [`Caller::Core`]: they go to the
//! functions that `ops!` declares, or to `call` of a row, and never to what stands behind these in another family.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::schema::{Op, Out, Overload, Value};
use crate::error::Result;
use crate::tensor::Tensor;

/// The number of threads with interpreters. The binding also counts its own reasons to intercept calls here, so that a
/// call from Python checks a single number.
pub static INTERPRETERS: AtomicUsize = AtomicUsize::new(0);

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
}

/// The rest of the chain: the interpreters below, and finally the operation.
pub struct Next(());

impl Next {
    pub fn call(&self, call: &OpCall, values: &[Value]) -> Result<Out> {
        interpreted(call, values).unwrap_or_else(|| super::run(call, values))
    }
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
    STACK.with(|s| s.change(|stack| stack.push(interpreter)));
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
    let at = innermost(call)?;
    let suspended = Suspended::from(at);
    Some(suspended.inner[0].call(call, values, Next(())))
}

/// The position of the innermost interpreter that handles a call.
fn innermost(call: &OpCall) -> Option<usize> {
    STACK.with(|s| s.0.borrow().iter().rposition(|i| i.concerns(call)))
}

/// Whether this thread has no interpreter.
pub fn none_here() -> bool {
    STACK.with(|s| s.0.borrow().is_empty())
}

/// Whether a call concerns an interpreter of this thread.
pub fn concerned(call: &OpCall) -> Option<()> {
    innermost(call).map(drop)
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
    innermost(&call)?;
    interpreted(&call, values().as_ref())
}
