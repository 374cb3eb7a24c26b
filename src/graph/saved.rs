//! Saved tensors, and hooks that pack them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::held::{GcVisitor, visit_hook};
use super::hooks::{PackedTensor, SavedTensorHooks};
use super::recompute::{self, Cost, SavedAgain};
use super::sync::Guarded;
use super::{AutogradMeta, Cx, Edge, GradFn, ModeGuard, grad_enabled};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, operation_of};
use crate::{bail, ensure};

/// A tensor with its version when it was saved. Freed when its node has run.
///
/// Note [Outputs that their own node saves] An output that is saved by its own node would form a reference cycle with
/// it. A saved output is therefore stored without history, and gets its node again when it is unpacked in a
/// differentiable backward.
pub struct SavedTensor(Guarded<Slot>);

#[derive(Clone)]
enum Slot {
    /// Not needed by backward.
    Unused,
    /// No tensor, but reported as freed once the node has run.
    Mark,
    Kept {
        tensor: Tensor,
        version: u32,
        /// The output number, if the tensor is an output of the node.
        number: u16,
        output: bool,
        /// It had a history when saved, which `detach_` may have removed since.
        recorded: bool,
    },
    Packed(Arc<Packed>),
    /// Of an input: Note [Values that are computed again].
    Again(Arc<(SavedAgain, History)>),
    /// A value that only the kernel of a hosted tensor has; see Note [Histories of hosted tensors].
    Unknown,
    Freed,
}

/// A packed tensor, and the history that the unpacked tensor gets.
struct Packed {
    object: Box<dyn PackedTensor>,
    history: History,
}

enum History {
    None,
    Leaf(Arc<AutogradMeta>),
    Recorded(Edge),
    Output(u16),
}

impl SavedTensor {
    /// Saves an input of the operation.
    #[inline]
    pub fn input(t: &Tensor) -> SavedTensor {
        let mut saved = SavedTensor::unused();
        saved.put_input(t);
        saved
    }

    /// As [`SavedTensor::input`], written in place.
    #[inline]
    pub fn put_input(&mut self, t: &Tensor) {
        self.put(t, recompute::CHEAP);
    }

    /// `most` is what computing it again may cost in a region: Note [Values that are computed again].
    #[inline]
    fn put(&mut self, t: &Tensor, most: Cost) {
        if t.is_inference() {
            *self = SavedTensor::failed(Error::Runtime(INFERENCE.into()));
        } else if saved_tensor_hooks_active() {
            *self = SavedTensor(Guarded::new(pack(t, || history_of(t))));
        } else if let Some(again) = SavedAgain::of(t, most) {
            *self = SavedTensor(Guarded::new(Slot::Again(Arc::new((again, history_of(t))))));
        } else {
            let (tensor, version, recorded) =
                (t.clone(), t.version(), t.meta().is_some_and(|m| m.is_recorded()));
            *self =
                SavedTensor(Guarded::new(Slot::Kept { tensor, version, number: 0, output: false, recorded }));
        }
    }

    /// Saves the output of the operation; see Note [Outputs that their own node saves].
    #[inline]
    pub fn output(t: &Tensor) -> SavedTensor {
        SavedTensor::numbered_output(t, 0)
    }

    /// As [`SavedTensor::output`], for an operation with several outputs.
    #[inline]
    pub fn numbered_output(t: &Tensor, number: usize) -> SavedTensor {
        let (tensor, number) = (t.detach(), number as u16);
        if saved_tensor_hooks_active() {
            return SavedTensor(Guarded::new(pack(&tensor, || History::Output(number))));
        }
        SavedTensor(Guarded::new(Slot::Kept {
            tensor,
            version: t.version(),
            number,
            output: true,
            recorded: false,
        }))
    }

    #[cold]
    fn failed(e: Error) -> SavedTensor {
        fail(e);
        SavedTensor(Guarded::new(Slot::Freed))
    }

    pub fn unused() -> SavedTensor {
        SavedTensor(Guarded::new(Slot::Unused))
    }

    /// Stands for a number or a shape that PyTorch saves as a tensor, so that it is freed like one.
    pub fn mark() -> SavedTensor {
        SavedTensor(Guarded::new(Slot::Mark))
    }

    /// Saves an input if backward will need it.
    pub fn input_if(wanted: bool, t: &Tensor) -> SavedTensor {
        if wanted { SavedTensor::input(t) } else { SavedTensor::unused() }
    }

    /// Saves a factor of a product if backward will need it.
    pub fn factor_if(wanted: bool, t: &Tensor) -> SavedTensor {
        let mut saved = SavedTensor::unused();
        if wanted {
            saved.put(t, recompute::FACTOR);
        }
        saved
    }

    pub fn optional(t: Option<&Tensor>) -> SavedTensor {
        t.map_or(SavedTensor::unused(), SavedTensor::input)
    }

    /// Unpacks the saved tensor.
    ///
    /// # Errors
    /// `RuntimeError` when it was freed by an earlier backward, or written in place since it was saved.
    pub fn get(&self, cx: &Cx) -> Result<Tensor> {
        match self.try_get(cx)? {
            Some(t) => Ok(t),
            None => Err(Error::Runtime("backward asked for a tensor that was not saved".into())),
        }
    }

    /// As [`SavedTensor::get`]; None when nothing was saved.
    pub fn try_get(&self, cx: &Cx) -> Result<Option<Tensor>> {
        self.unpack(Some(cx.node))
    }

    /// As [`SavedTensor::try_get`], given the node that saved it, if known.
    pub fn unpack(&self, node: Option<&GradFn>) -> Result<Option<Tensor>> {
        if SUBSTITUTING.load(Ordering::Relaxed) != 0
            && let Some(t) = substitute(self)
        {
            return Ok(Some(t));
        }
        match self.0.with(|slot| slot.clone()) {
            Slot::Unused | Slot::Mark => Ok(None),
            Slot::Freed => Err(Error::FreedGraph),
            Slot::Unknown => Err(Error::NotImplemented(format!(
                "the backward of {} reads a value that is neither an argument nor a result of the operation, and that \
                 __torch_dispatch__ therefore does not compute",
                node.map_or("an operation".into(), |n| operation_of(&n.name()).to_string())
            ))),
            Slot::Packed(packed) => packed.unpack(node).map(Some),
            Slot::Again(of) => {
                let (again, history) = &*of;
                let t = again.tensor()?;
                expect_version(&t, again.version, again.found(), again.producer(), node)?;
                ensure!(!again.is_detached(), Runtime, "{DETACHED}");
                history.give(t, node).map(Some)
            }
            Slot::Kept { tensor, version, number, output, recorded } => {
                let producer = || match node.filter(|_| output) {
                    Some(node) => Some((node.clone(), number as usize)),
                    None => tensor.grad_fn().map(|n| (n, tensor.meta().map_or(0, |m| m.output()))),
                };
                let found = tensor.version();
                if found != version {
                    expect_version(&tensor, version, found, producer(), node)?;
                }
                let is_recorded = || tensor.meta().is_some_and(|m| m.is_recorded());
                ensure!(!recorded || is_recorded(), Runtime, "{DETACHED}");
                if let (true, true, Some(node)) = (output, grad_enabled(), node) {
                    return with_history(&tensor, node.clone(), number as usize).map(Some);
                }
                Ok(Some(tensor))
            }
        }
    }

    /// As [`SavedTensor::unpack`], but an output has its history even in no-grad mode.
    pub fn unpack_with_history(&self, node: &GradFn) -> Result<Option<Tensor>> {
        let number = self.0.with(|slot| match slot {
            Slot::Kept { number, output: true, .. } => Some(*number as usize),
            _ => None,
        });
        let t = self.unpack(Some(node))?;
        match (t, number) {
            (Some(t), Some(number)) if !t.requires_grad() => with_history(&t, node.clone(), number).map(Some),
            (t, _) => Ok(t),
        }
    }

    /// The tensor, as it was saved.
    pub fn kept(&self) -> Option<Tensor> {
        self.0.with(|slot| match slot {
            Slot::Kept { tensor, .. } => Some(tensor.clone()),
            _ => None,
        })
    }

    /// Whether a tensor is kept, packed or not.
    pub fn is_kept(&self) -> bool {
        self.0
            .with(|slot| matches!(slot, Slot::Kept { .. } | Slot::Packed(_) | Slot::Again(_) | Slot::Unknown))
    }

    /// Whether an output of the node is kept that is this tensor, unchanged.
    pub fn is_result(&self, t: &Tensor) -> bool {
        self.0.with(|slot| match slot {
            Slot::Kept { tensor, version, output: true, .. } => {
                tensor.storage().same(t.storage()) && t.version() == *version
            }
            _ => false,
        })
    }

    /// Replaces a kept tensor by what `f` returns for it, or by an unknown value, and packs it with the hooks of this
    /// thread.
    pub fn exchange(&self, f: impl FnOnce(&Tensor) -> Result<Option<Tensor>>) -> Result<()> {
        let Slot::Kept { tensor, number, output, .. } = self.0.with(|slot| slot.clone()) else {
            return Ok(());
        };
        let new = match f(&tensor)? {
            Some(tensor) => {
                let recorded = tensor.meta().is_some_and(|m| m.is_recorded());
                Slot::Kept { version: tensor.version(), tensor, number, output, recorded }
            }
            None => Slot::Unknown,
        };
        let old = self.0.with(|slot| std::mem::replace(slot, new));
        drop(old);
        match innermost_hooks() {
            Some(hooks) if self.0.with(|slot| matches!(slot, Slot::Kept { .. })) => {
                self.register_hooks(&*hooks)
            }
            _ => Ok(()),
        }
    }

    /// Packs the saved tensor with `hooks`.
    ///
    /// # Errors
    /// `RuntimeError` when there is none or it is packed already; errors of the hook.
    pub fn register_hooks(&self, hooks: &dyn SavedTensorHooks) -> Result<()> {
        let (tensor, history) = match self.0.with(|slot| slot.clone()) {
            Slot::Unused | Slot::Mark | Slot::Unknown => {
                bail!(Runtime, "Calling register_hooks on a saved tensor with value None is forbidden")
            }
            Slot::Freed => bail!(
                Runtime,
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph \
                 are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward \
                 through the graph a second time or if you need to access saved variables after calling backward."
            ),
            Slot::Packed(_) => {
                bail!(
                    Runtime,
                    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks \
                     is allowed at a time."
                )
            }
            Slot::Kept { tensor, number, output: true, .. } => (tensor, History::Output(number)),
            Slot::Again(_) => {
                // Hooks see a tensor that is kept.
                let Some(tensor) = self.unpack(None)? else { return Ok(()) };
                let (version, recorded) = (tensor.version(), tensor.meta().is_some_and(|m| m.is_recorded()));
                let kept = Slot::Kept { tensor, version, number: 0, output: false, recorded };
                let old = self.0.with(|slot| match slot {
                    Slot::Again(_) => Ok(std::mem::replace(slot, kept)),
                    _ => Err(kept),
                });
                drop(old);
                return self.register_hooks(hooks);
            }
            Slot::Kept { tensor, .. } => {
                let history = history_of(&tensor);
                (tensor, history)
            }
        };
        let packed = Slot::Packed(Arc::new(Packed { object: run_pack(hooks, &tensor)?, history }));
        let replaced = self.0.with(|slot| match slot {
            Slot::Kept { .. } => Ok(std::mem::replace(slot, packed)),
            _ => Err(packed),
        });
        // While the hook ran, the tensor was freed or packed by others: trying again returns the error for that.
        replaced.map(drop).or_else(|_| self.register_hooks(hooks))
    }

    /// Visits the saved tensor for Python's garbage collector; see Note [Cycles through the graph].
    pub(super) fn visit_held(&self, held: &mut GcVisitor, visit: &mut dyn FnMut(&dyn Any)) {
        self.0.try_with(|slot| match slot {
            Slot::Kept { tensor: t, .. } => held.tensor(t),
            Slot::Packed(packed) => visit_hook(packed, packed.object.as_any(), visit),
            // Recipes hold only the memory of their operands.
            Slot::Again(of) if Arc::strong_count(of) == 1 => {
                of.0.meta().into_iter().for_each(|meta| held.meta(meta));
                if let History::Recorded(edge) = &of.1 {
                    held.node(&edge.node);
                }
            }
            Slot::Again(_) | Slot::Unused | Slot::Mark | Slot::Unknown | Slot::Freed => {}
        });
    }

    /// Frees the tensor.
    pub fn free(&self) {
        let old = self.0.with(|slot| match slot {
            Slot::Kept { .. } | Slot::Packed(_) | Slot::Again(_) | Slot::Mark | Slot::Unknown => {
                std::mem::replace(slot, Slot::Freed)
            }
            _ => Slot::Unused,
        });
        drop(old);
    }
}

const DETACHED: &str = "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, \
                        please use out-of-place `.detach()` instead";

/// Fails if a tensor was written since it was saved. `producer` has computed what it holds now, as its output of that number;
/// `saver` is the node that saved it.
fn expect_version(
    t: &Tensor,
    expected: u32,
    found: u32,
    producer: Option<(GradFn, usize)>,
    saver: Option<&GradFn>,
) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::SavedVersion {
        ty: t.dtype().scalar_name(),
        shape: Box::new(t.shape().clone()),
        output: producer.as_ref().map_or(0, |(_, output)| *output),
        producer: producer.map(|(n, _)| operation_of(&n.name()).to_string()),
        saver: saver.map(|n| n.name().into_owned()),
        found,
        expected,
        traced: super::anomaly::enabled(),
    })
}

fn with_history(t: &Tensor, node: GradFn, number: usize) -> Result<Tensor> {
    let t = t.detached()?;
    t.meta_or_new().set_history(node, number);
    Ok(t)
}

fn history_of(t: &Tensor) -> History {
    // `grad_edge` fails for a view whose history cannot be regenerated; making the saving node failed already then.
    match (t.grad_edge().unwrap_or(None), t.meta()) {
        (None, _) => History::None,
        (Some(_), Some(meta)) if t.is_leaf() => History::Leaf(meta.clone()),
        (Some(edge), _) => History::Recorded(edge),
    }
}

impl History {
    /// A tensor with this history, for the node that saved it.
    fn give(&self, t: Tensor, node: Option<&GradFn>) -> Result<Tensor> {
        match (self, node) {
            (History::Leaf(meta), _) => Ok(t.with_meta(meta)),
            (History::Recorded(e), _) => with_history(&t, e.node.clone(), e.input()),
            (History::Output(number), Some(node)) => with_history(&t, node.clone(), *number as usize),
            _ if t.requires_grad() => t.detached(),
            _ => Ok(t),
        }
    }
}

impl Packed {
    fn unpack(&self, node: Option<&GradFn>) -> Result<Tensor> {
        self.history.give(self.object.unpack()?, node)
    }
}

// ---- saved tensor hooks

thread_local! {
    static HOOKS: RefCell<Vec<Arc<dyn SavedTensorHooks>>> = const { RefCell::new(Vec::new()) };
    /// Set inside a pack hook, where tensors are saved unpacked.
    static PACKING: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<Option<Error>> = const { Cell::new(None) };
    static FORBIDDEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `f` without the hooks of this thread.
pub fn without_hooks<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PACKING.set(self.0);
        }
    }
    let _restore = Restore(PACKING.replace(true));
    f()
}

fn innermost_hooks() -> Option<Arc<dyn SavedTensorHooks>> {
    if saved_tensor_hooks_active() { HOOKS.with_borrow(|h| h.last().cloned()) } else { None }
}

/// The number of threads that substitute saved tensors; while it is 0, unpacking skips the thread-local check.
static SUBSTITUTING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The addresses of saved tensors, and what stands for them.
    static SUBSTITUTES: RefCell<Vec<(usize, Tensor)>> = const { RefCell::new(Vec::new()) };
}

fn address(saved: &SavedTensor) -> usize {
    std::ptr::from_ref(saved) as usize
}

#[cold]
fn substitute(saved: &SavedTensor) -> Option<Tensor> {
    SUBSTITUTES
        .with_borrow(|all| all.iter().rev().find(|(a, _)| *a == address(saved)).map(|(_, t)| t.clone()))
}

/// Calls `f`, for which the tensors that a node has saved are `tensors`, in the order of [`Function::saved`].
///
/// [`Function::saved`]: super::Function::saved
pub fn with_saved<R>(node: &GradFn, tensors: Vec<Tensor>, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            SUBSTITUTING.fetch_sub(1, Ordering::Relaxed);
            let ended = SUBSTITUTES.with_borrow_mut(|all| all.split_off(self.0));
            drop(ended);
        }
    }
    let _restore = SUBSTITUTES.with_borrow_mut(|all| {
        SUBSTITUTING.fetch_add(1, Ordering::Relaxed);
        let before = all.len();
        let mut tensors = tensors.into_iter();
        node.function().saved(&mut |_, saved| {
            if saved.is_kept() {
                all.extend(tensors.next().map(|t| (address(saved), t)));
            }
        });
        Restore(before)
    });
    f()
}

/// The number of hook pairs on the stacks of all threads; while it is 0, saving skips the thread-local check.
static PAIRS: AtomicUsize = AtomicUsize::new(0);

/// Whether hooks pack what this thread saves.
#[inline(always)]
pub fn saved_tensor_hooks_active() -> bool {
    PAIRS.load(Ordering::Relaxed) != 0 && active_here()
}

#[cold]
fn active_here() -> bool {
    !PACKING.get() && HOOKS.with_borrow(|h| !h.is_empty())
}

/// Makes `hooks` pack what this thread saves from now on.
///
/// # Errors
/// `RuntimeError` with the message given to [`forbid_saved_tensor_hooks`].
pub fn push_saved_tensor_hooks(hooks: Arc<dyn SavedTensorHooks>) -> Result<()> {
    if let Some(message) = FORBIDDEN.with_borrow(Clone::clone) {
        bail!(Error::Runtime(message));
    }
    HOOKS.with_borrow_mut(|h| h.push(hooks));
    PAIRS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Undoes the last push.
pub fn pop_saved_tensor_hooks() {
    let last = HOOKS.with_borrow_mut(Vec::pop);
    if last.is_some() {
        PAIRS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Undoes the pushes of this thread that come after it when dropped, as hooks that backward calls may enter contexts that they
/// do not leave.
pub struct PushesUndone(usize);

impl PushesUndone {
    pub fn from_now_on() -> PushesUndone {
        PushesUndone(hook_depth())
    }
}

impl Drop for PushesUndone {
    fn drop(&mut self) {
        while hook_depth() > self.0 {
            pop_saved_tensor_hooks();
        }
    }
}

/// The number of hook pairs of this thread.
pub fn hook_depth() -> usize {
    if PAIRS.load(Ordering::Relaxed) == 0 { 0 } else { HOOKS.with_borrow(Vec::len) }
}

/// While a message is set, pushing hooks fails with it. Returns the previous message.
///
/// # Errors
/// `RuntimeError` with the message when hooks are already in use.
pub fn forbid_saved_tensor_hooks(message: Option<String>) -> Result<Option<String>> {
    if let Some(message) = &message
        && HOOKS.with_borrow(|h| !h.is_empty())
    {
        bail!(Error::Runtime(message.clone()));
    }
    Ok(FORBIDDEN.replace(message))
}

/// The hooks of a thread, for another thread that continues its work.
pub(super) struct HookStack {
    hooks: Vec<Arc<dyn SavedTensorHooks>>,
    packing: bool,
    forbidden: Option<String>,
}

impl HookStack {
    pub(super) fn capture() -> HookStack {
        HookStack {
            hooks: HOOKS.with_borrow(Clone::clone),
            packing: PACKING.get(),
            forbidden: FORBIDDEN.with_borrow(Clone::clone),
        }
    }

    pub(super) fn install(self) {
        // PAIRS already includes them: the thread that pushed them waits for this one.
        HOOKS.replace(self.hooks);
        PACKING.set(self.packing);
        FORBIDDEN.replace(self.forbidden);
    }
}

const INFERENCE: &str = "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode \
                         in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor \
                         and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.";

/// The number of pending errors on all threads; while it is 0, checking skips the thread-local.
static FAILURES: AtomicUsize = AtomicUsize::new(0);

fn take_failure() -> Option<Error> {
    let e = FAILED.take();
    if e.is_some() {
        FAILURES.fetch_sub(1, Ordering::Relaxed);
    }
    e
}

/// Makes [`check_saved`] return an error, unless one is pending.
fn fail(e: Error) {
    let first = take_failure().unwrap_or(e);
    FAILED.set(Some(first));
    FAILURES.fetch_add(1, Ordering::Relaxed);
}

/// Takes the first pending error. Called by code that makes a node, after its function has saved.
#[inline(always)]
pub fn check_saved() -> Result<()> {
    if FAILURES.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    take_failure().map_or(Ok(()), Err)
}

/// Packs with the innermost hooks. An error stays pending until [`check_saved`]; until then nothing more is packed.
#[cold]
fn pack(t: &Tensor, history: impl FnOnce() -> History) -> Slot {
    let failed = FAILED.take();
    let packed = match (failed, HOOKS.with_borrow(|h| h.last().cloned())) {
        (None, Some(hooks)) => run_pack(&*hooks, t),
        (None, None) => return Slot::Freed,
        (earlier, _) => {
            FAILED.set(earlier);
            return Slot::Freed;
        }
    };
    match packed {
        Ok(object) => Slot::Packed(Arc::new(Packed { object, history: history() })),
        Err(e) => {
            fail(e);
            Slot::Freed
        }
    }
}

fn run_pack(hooks: &dyn SavedTensorHooks, t: &Tensor) -> Result<Box<dyn PackedTensor>> {
    let _off = ModeGuard::grad(false);
    let version = t.version();
    let outer = PACKING.replace(true);
    let packed = hooks.pack(t);
    PACKING.set(outer);
    ensure!(
        t.version() == version,
        Runtime,
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be \
         modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to \
         perform in-place operations on the input to a pack hook."
    );
    packed
}
