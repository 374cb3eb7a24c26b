//! Per-thread switches: gradients, inference, anomaly mode.

use std::cell::Cell;

#[derive(Clone, Copy)]
struct Modes {
    grad: bool,
    inference: bool,
    anomaly: bool,
}

thread_local! {
    static MODES: Cell<Modes> = const { Cell::new(Modes { grad: true, inference: false, anomaly: false }) };
}

/// Whether operations on tracked tensors are recorded.
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

/// Sets the mode of this thread and returns the one before.
pub fn set_grad_enabled(on: bool) -> bool {
    let before = MODES.with(|m| m.get().grad);
    change(|m| m.grad = on);
    before
}

pub fn inference_enabled() -> bool {
    MODES.with(|m| m.get().inference)
}

pub fn set_inference_enabled(on: bool) -> bool {
    let before = inference_enabled();
    change(|m| m.inference = on);
    before
}

pub fn anomaly() -> bool {
    MODES.with(|m| m.get().anomaly)
}

pub fn set_anomaly(on: bool) -> bool {
    let before = anomaly();
    change(|m| m.anomaly = on);
    before
}

/// Restores the grad mode when it goes out of scope.
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
