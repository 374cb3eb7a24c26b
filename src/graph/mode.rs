//! Per-thread modes: grad mode, inference mode, and the derivatives of functions that are being taken.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::saved;

/// The number of threads with interpreters, and of batched tensors. The binding also counts its own reasons to intercept
/// calls here, so that a call checks a single number.
pub static INTERPRETERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy)]
struct Modes {
    grad: bool,
    /// What suspends recording in grad mode: [`INFERENCE`] and [`BELOW`].
    suspended: u8,
    /// Whether the thread has interpreters.
    interpreted: bool,
    /// The number of functions of which a derivative is being taken, each called in the one before.
    depth: u32,
}

const START: Modes = Modes { grad: true, suspended: 0, interpreted: false, depth: 0 };

/// What a tensor keeps of the modes in which it was made.
#[derive(Clone, Copy, Default)]
pub struct Origin {
    /// Made in inference mode: excluded from autograd.
    pub inference: bool,
    /// In how many functions of which a derivative was being taken: see [`is_captured`].
    pub depth: u8,
}

/// Inference mode.
const INFERENCE: u8 = 1;

/// The host language computes an operation, whose history is recorded around it.
const BELOW: u8 = 2;

#[cfg(not(loom))]
thread_local! {
    static MODES: Cell<Modes> = const { Cell::new(START) };
}

// Under loom all modelled threads run on one system thread.
#[cfg(loom)]
loom::thread_local! {
    static MODES: Cell<Modes> = Cell::new(START);
}

/// Whether operations on tensors that require grad are recorded.
#[inline(always)]
pub fn grad_enabled() -> bool {
    MODES.with(|m| {
        let m = m.get();
        m.grad && m.suspended == 0
    })
}

fn change(f: impl FnOnce(&mut Modes)) {
    MODES.with(|m| {
        let mut v = m.get();
        f(&mut v);
        m.set(v);
    });
}

fn suspend(by: u8, on: bool) {
    change(|m| m.suspended = if on { m.suspended | by } else { m.suspended & !by });
}

/// Whether this thread has interpreters: autocast, transforms, modes that see the operations below autograd.
pub fn is_interpreted() -> bool {
    MODES.with(|m| m.get().interpreted)
}

/// Notes whether this thread has interpreters.
pub fn set_interpreted(on: bool) {
    change(|m| m.interpreted = on);
}

/// The grad mode as set; inference mode overrides it.
pub fn grad_mode() -> bool {
    MODES.with(|m| m.get().grad)
}

/// Sets the grad mode of this thread and returns the previous one.
pub fn set_grad_enabled(on: bool) -> bool {
    let before = grad_mode();
    change(|m| m.grad = on);
    before
}

/// The number of threads in inference mode and of derivatives being taken; while it is 0, a new tensor skips the
/// thread-local check.
static MARKING: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
pub fn inference_enabled() -> bool {
    MARKING.load(Ordering::Relaxed) != 0 && MODES.with(|m| m.get().suspended & INFERENCE != 0)
}

/// What a tensor that is made now keeps of this thread's modes.
#[inline(always)]
pub fn origin() -> Origin {
    if MARKING.load(Ordering::Relaxed) == 0 { Origin::default() } else { marked_origin() }
}

#[inline(never)]
fn marked_origin() -> Origin {
    MODES.with(|m| {
        let m = m.get();
        Origin { inference: m.suspended & INFERENCE != 0, depth: depth_mark(m.depth) }
    })
}

fn depth_mark(depth: u32) -> u8 {
    u8::try_from(depth).unwrap_or(u8::MAX)
}

/// Begins a derivative of a function on this thread.
pub fn enter_derivative() {
    MARKING.fetch_add(1, Ordering::Relaxed);
    change(|m| m.depth += 1);
}

/// Ends the innermost derivative.
pub fn exit_derivative() {
    if MODES.with(|m| m.get().depth) > 0 {
        MARKING.fetch_sub(1, Ordering::Relaxed);
        change(|m| m.depth -= 1);
    }
}

/// Whether a tensor of this origin was made outside of the function of which the innermost derivative is being taken.
pub fn is_captured(origin: Origin) -> bool {
    MARKING.load(Ordering::Relaxed) != 0 && MODES.with(|m| origin.depth < depth_mark(m.get().depth))
}

pub fn set_inference_enabled(on: bool) -> bool {
    let before = inference_enabled();
    match (before, on) {
        (false, true) => MARKING.fetch_add(1, Ordering::Relaxed),
        (true, false) => MARKING.fetch_sub(1, Ordering::Relaxed),
        _ => 0,
    };
    suspend(INFERENCE, on);
    before
}

/// Restores the grad mode when dropped.
pub struct ModeGuard(bool);

impl ModeGuard {
    pub fn grad(on: bool) -> ModeGuard {
        ModeGuard(set_grad_enabled(on))
    }
}

impl Drop for ModeGuard {
    fn drop(&mut self) {
        set_grad_enabled(self.0);
    }
}

/// Suspends recording below autograd, without a change of the mode that programs see; restores it when dropped.
pub struct BelowAutograd(bool);

impl BelowAutograd {
    pub fn enter() -> BelowAutograd {
        BelowAutograd::set(true)
    }

    /// Records again inside an operation that the host language computes.
    pub fn leave() -> BelowAutograd {
        BelowAutograd::set(false)
    }

    /// Sets whether this thread is below autograd; returns whether it was.
    pub fn replace(on: bool) -> bool {
        let before = MODES.with(|m| m.get().suspended & BELOW != 0);
        suspend(BELOW, on);
        before
    }

    fn set(on: bool) -> BelowAutograd {
        BelowAutograd(BelowAutograd::replace(on))
    }
}

impl Drop for BelowAutograd {
    fn drop(&mut self) {
        suspend(BELOW, self.0);
    }
}

/// The modes of a thread, for another thread that continues its work.
pub struct ThreadState {
    modes: Modes,
    hooks: saved::HookStack,
}

impl ThreadState {
    /// Captures those of this thread.
    pub fn capture() -> ThreadState {
        ThreadState { modes: MODES.with(Cell::get), hooks: saved::HookStack::capture() }
    }

    /// Installs them in this thread.
    pub fn install(self) {
        MODES.with(|m| m.set(self.modes));
        self.hooks.install();
    }
}
