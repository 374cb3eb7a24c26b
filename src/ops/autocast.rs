//! Autocast: runs products in a half type, and operations for which a half type is too inaccurate in float32. It is an
//! interpreter (Note [One door]); the policy of an operation is part of its declaration.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::interpreter::{self, Caller, Form, Interpreter, Next, OpCall};
use super::schema::{Out, Value};
use crate::device::Device;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::tensor::Tensor;

/// The dtypes that products are cast to, by device type.
#[derive(Clone, Copy, Default)]
pub struct Casts {
    cpu: Option<DType>,
    gpu: Option<DType>,
}

impl Casts {
    fn of(self, gpu: bool) -> Option<DType> {
        if gpu { self.gpu } else { self.cpu }
    }
}

thread_local!(static AUTOCAST: Cell<Casts> = const { Cell::new(Casts { cpu: None, gpu: None }) });

static INTERPRETER: LazyLock<Arc<dyn Interpreter>> = LazyLock::new(|| Arc::new(Autocast));

/// The settings of this thread.
pub fn casts() -> Casts {
    AUTOCAST.with(Cell::get)
}

/// Replaces the settings of this thread, and pushes or pops the autocast interpreter accordingly.
pub fn restore(casts: Casts) {
    let before = AUTOCAST.with(|a| a.replace(casts));
    let on = |c: Casts| c.cpu.is_some() || c.gpu.is_some();
    match (on(before), on(casts)) {
        (false, true) => interpreter::push(INTERPRETER.clone()),
        (true, false) => {
            interpreter::remove(&INTERPRETER);
        }
        _ => {}
    }
}

/// Sets the settings of a thread whose interpreter stack was installed along with them.
pub fn install(casts: Casts) {
    AUTOCAST.with(|a| a.set(casts));
}

/// The dtype that products on this type of device are cast to on this thread.
pub fn dtype(device: Device) -> Option<DType> {
    casts().of(device.is_accelerator())
}

/// Sets that dtype and returns the previous one.
pub fn set(device: Device, dtype: Option<DType>) -> Option<DType> {
    let mut now = casts();
    let slot = if device.is_accelerator() { &mut now.gpu } else { &mut now.cpu };
    let before = std::mem::replace(slot, dtype);
    restore(now);
    before
}

/// How autocast casts the floating point arguments of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// Not at all.
    Unchanged,
    /// To the half type.
    Lower,
    /// To float32.
    Full,
    /// To the widest dtype among the arguments.
    Widest,
    /// The call is an error.
    Refused,
}

/// The cast of an operation on each type of device. PyTorch's lists for the CPU and for GPUs differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CastPolicy {
    pub cpu: Cast,
    pub gpu: Cast,
}

impl CastPolicy {
    pub const UNCHANGED: CastPolicy = CastPolicy::on(Cast::Unchanged, Cast::Unchanged);
    pub const LOWER: CastPolicy = CastPolicy::on(Cast::Lower, Cast::Lower);
    pub const LOWER_ON_GPU: CastPolicy = CastPolicy::on(Cast::Unchanged, Cast::Lower);
    pub const FULL: CastPolicy = CastPolicy::on(Cast::Full, Cast::Full);
    pub const FULL_ON_CPU: CastPolicy = CastPolicy::on(Cast::Full, Cast::Unchanged);
    pub const FULL_ON_GPU: CastPolicy = CastPolicy::on(Cast::Unchanged, Cast::Full);
    pub const WIDEST: CastPolicy = CastPolicy::on(Cast::Widest, Cast::Widest);
    pub const WIDEST_ON_GPU: CastPolicy = CastPolicy::on(Cast::Unchanged, Cast::Widest);

    pub const LOWER_OR_WIDEST: CastPolicy = CastPolicy::on(Cast::Lower, Cast::Widest);
    pub const FULL_OR_REFUSED: CastPolicy = CastPolicy::on(Cast::Full, Cast::Refused);

    /// Separate casts for the CPU and for GPUs.
    pub const fn on(cpu: Cast, gpu: Cast) -> CastPolicy {
        CastPolicy { cpu, gpu }
    }

    fn of(self, gpu: bool) -> Cast {
        if gpu { self.gpu } else { self.cpu }
    }
}

/// Operations that autocast leaves as they are, by name and whether on a GPU: those with a fallthrough of a `Library`.
static LEFT: RwLock<Vec<(String, bool)>> = RwLock::new(Vec::new());
static ANY_LEFT: AtomicBool = AtomicBool::new(false);

/// Has autocast leave an operation on a type of device as it is, or cast it again.
pub fn leave(op: &str, device: Device, left: bool) {
    let gpu = device.is_accelerator();
    let mut all = LEFT.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(name, on)| name != op || *on != gpu);
    if left {
        all.push((op.to_string(), gpu));
    }
    ANY_LEFT.store(!all.is_empty(), Ordering::Relaxed);
}

/// The cast of a call on a type of device.
fn cast_of(call: &OpCall, gpu: bool) -> Cast {
    let left = || {
        let all = LEFT.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|(name, on)| name == call.op.name && *on == gpu)
    };
    if ANY_LEFT.load(Ordering::Relaxed) && left() { Cast::Unchanged } else { call.op.autocast.of(gpu) }
}

fn tensors(values: &mut [Value]) -> impl Iterator<Item = &mut Tensor> {
    values.iter_mut().flat_map(|v| match v {
        Value::Tensor(t) => std::slice::from_mut(t).iter_mut().chain(&mut []),
        Value::Tensors(ts) => ts.iter_mut().chain(&mut []),
        _ => [].iter_mut().chain(&mut []),
    })
}

struct Autocast;

impl Interpreter for Autocast {
    /// Casts to the half type also apply to calls by the core itself. Casts to float32 apply only to calls by the
    /// program: the operations of the core accumulate in float32 anyway.
    fn concerns(&self, call: &OpCall) -> bool {
        let casts = casts();
        let by_device = |gpu: bool| match cast_of(call, gpu) {
            Cast::Unchanged => false,
            Cast::Lower => casts.of(gpu).is_some(),
            _ => casts.of(gpu).is_some() && call.caller == Caller::Program,
        };
        matches!(call.form, Form::New) && (by_device(false) || by_device(true))
    }

    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
        let mut values = values.to_vec();
        let device = Device::of_result(tensors(&mut values).map(|t| t.device()));
        let gpu = device.is_accelerator();
        let cast = cast_of(call, gpu);
        let Some(half) = casts().of(gpu).filter(|_| cast != Cast::Unchanged) else {
            return next.call(call, &values);
        };
        ensure!(
            cast != Cast::Refused,
            Runtime,
            // The literal is split to keep the word that marks unsafe code off the line.
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are un\
             safe to autocast.\nMany models use a sigmoid layer right before the binary cross entropy layer.\nIn this \
             case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\nor \
             torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
        );
        let takes_part = |t: &Tensor| {
            t.device().kind() == device.kind() && t.dtype().is_float() && t.dtype() != DType::F64
        };
        let mut any_full = || tensors(&mut values).any(|t| takes_part(t) && t.dtype() == DType::F32);
        let to = match cast {
            Cast::Lower => half,
            Cast::Widest if !any_full() => half,
            _ => DType::F32,
        };
        for t in tensors(&mut values).filter(|t| takes_part(t) && t.dtype() != to) {
            *t = super::arith::to_dtype(t, to)?;
        }
        next.call(call, &values)
    }
}
