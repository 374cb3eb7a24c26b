//! Per-thread modes: grad mode and inference mode.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::saved;

#[derive(Clone, Copy)]
struct Modes {
    grad: bool,
    inference: bool,
}

const START: Modes = Modes { grad: true, inference: false };

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
        m.grad && !m.inference
    })
}

fn change(f: impl FnOnce(&mut Modes)) {
    MODES.with(|m| {
        let mut v = m.get();
        f(&mut v);
        m.set(v);
    });
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

/// The number of threads in inference mode; while it is 0, a new tensor skips the thread-local check.
static INFERRING: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
pub fn inference_enabled() -> bool {
    INFERRING.load(Ordering::Relaxed) != 0 && MODES.with(|m| m.get().inference)
}

pub fn set_inference_enabled(on: bool) -> bool {
    let before = inference_enabled();
    match (before, on) {
        (false, true) => INFERRING.fetch_add(1, Ordering::Relaxed),
        (true, false) => INFERRING.fetch_sub(1, Ordering::Relaxed),
        _ => 0,
    };
    change(|m| m.inference = on);
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
