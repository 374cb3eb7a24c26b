//! Autocast: products run in a half type where it is on, and what a half type is too coarse for in float32.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::schema::{Op, Out, Overload, Value};
use crate::device::Device;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::tensor::Tensor;

/// The dtypes that products are cast to, by the kind of their device.
#[derive(Clone, Copy, Default)]
pub struct Casts {
    cpu: Option<DType>,
    gpu: Option<DType>,
}

/// Why calls by name must be looked at before they are made: threads that have autocast on, and what the binding adds.
/// One number, as every call asks for it.
pub static WATCHED: AtomicUsize = AtomicUsize::new(0);

thread_local!(static AUTOCAST: Cell<Casts> = const { Cell::new(Casts { cpu: None, gpu: None }) });

/// Those of this thread.
pub fn casts() -> Casts {
    AUTOCAST.with(Cell::get)
}

/// Sets all of them.
pub fn restore(casts: Casts) {
    let before = AUTOCAST.with(|a| a.replace(casts));
    let on = |c: Casts| c.cpu.is_some() || c.gpu.is_some();
    match (on(before), on(casts)) {
        (false, true) => WATCHED.fetch_add(1, Ordering::Relaxed),
        (true, false) => WATCHED.fetch_sub(1, Ordering::Relaxed),
        _ => 0,
    };
}

/// The dtype that products on a kind of device are cast to on this thread.
pub fn dtype(device: Device) -> Option<DType> {
    if device == Device::Cpu { casts().cpu } else { casts().gpu }
}

/// Sets it and returns the one before.
pub fn set(device: Device, dtype: Option<DType>) -> Option<DType> {
    let mut now = casts();
    let slot = if device == Device::Cpu { &mut now.cpu } else { &mut now.gpu };
    let before = std::mem::replace(slot, dtype);
    restore(now);
    before
}

/// `t` as a product takes it under autocast. float64 is left alone, as PyTorch leaves it.
#[inline]
pub fn cast(t: &Tensor) -> Result<Cow<'_, Tensor>> {
    match dtype(t.device()) {
        Some(d) if t.dtype() != d && t.dtype().is_float() && t.dtype() != DType::F64 => {
            Ok(Cow::Owned(super::arith::to_dtype(t, d)?))
        }
        _ => Ok(Cow::Borrowed(t)),
    }
}

pub fn cast_opt(t: Option<&Tensor>) -> Result<Option<Cow<'_, Tensor>>> {
    t.map(cast).transpose()
}

/// What autocast makes of the arguments of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Of the half type.
    Lower,
    /// Of float32.
    Full,
    /// Of the widest type among them.
    Widest,
    Refused,
}

/// As PyTorch has it, whose lists for the CPU and for GPUs differ. `matmul`, `linear` and convolutions are not named:
/// they cast by themselves, wherever they are called from.
fn policy(operation: &str, gpu: bool) -> Option<Policy> {
    use Policy::*;
    Some(match operation {
        "addbmm"
        | "addmm"
        | "baddbmm"
        | "bmm"
        | "mm"
        | "prelu"
        | "scaled_dot_product_attention"
        | "vecdot"
        | "_einsum"
        | "_chain_matmul" => Lower,
        "_tensordot" => {
            if gpu {
                Widest
            } else {
                Lower
            }
        }
        "binary_cross_entropy_with_logits"
        | "cdist"
        | "huber_loss"
        | "kl_div"
        | "l1_loss"
        | "mse_loss"
        | "nll_loss"
        | "prod"
        | "smooth_l1_loss"
        | "cross_entropy" => Full,
        "index_copy" => Widest,
        "addmv" | "addr" | "mv" if gpu => Lower,
        "acos" | "arccos" | "asin" | "arcsin" | "cosh" | "cumprod" | "cumsum" | "dist" | "erfinv" | "exp"
        | "expm1" | "group_norm" | "interpolate" | "layer_norm" | "log" | "log10" | "log1p" | "log2"
        | "log_softmax" | "logsumexp" | "matrix_norm" | "norm" | "pow" | "reciprocal" | "rsqrt" | "sinh"
        | "softmax" | "softplus" | "sum" | "tan" | "vector_norm"
            if gpu =>
        {
            Full
        }
        "addcdiv" | "addcmul" | "atan2" | "arctan2" | "cross" | "dot" | "index_put" | "scatter_add"
        | "vdot"
            if gpu =>
        {
            Widest
        }
        "binary_cross_entropy" if gpu => Refused,
        "adaptive_avg_pool3d"
        | "avg_pool3d"
        | "binary_cross_entropy"
        | "max_pool3d"
        | "nanquantile"
        | "quantile"
        | "svd"
        | "svdvals"
        | "trace"
            if !gpu =>
        {
            Full
        }
        _ => return None,
    })
}

/// Whether autocast of this thread may have to do with a call of an operation.
pub fn concerns(operation: &str) -> bool {
    let on = casts();
    on.cpu.is_some() && policy(operation, false).is_some()
        || on.gpu.is_some() && policy(operation, true).is_some()
}

fn tensors(values: &mut [Value]) -> impl Iterator<Item = &mut Tensor> {
    values.iter_mut().flat_map(|v| match v {
        Value::Tensor(t) => std::slice::from_mut(t).iter_mut().chain(&mut []),
        Value::Tensors(ts) => ts.iter_mut().chain(&mut []),
        _ => [].iter_mut().chain(&mut []),
    })
}

/// Calls an operation with its arguments cast. Inside it nothing is cast any more.
///
/// # Errors
/// `RuntimeError` where PyTorch refuses the operation under autocast; those of the operation.
pub fn call(op: &'static Op, overload: &'static Overload, values: &mut [Value]) -> Result<Out> {
    let device = Device::of_result(tensors(values).map(|t| t.device()));
    let gpu = device != Device::Cpu;
    let (Some(half), Some(policy)) = (dtype(device), policy(op.name, gpu)) else {
        return super::call(op, overload, values);
    };
    ensure!(
        policy != Policy::Refused,
        Runtime,
        // Broken where a line would hold the word that marks files with code of that kind.
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are un\
         safe to autocast.\nMany models use a sigmoid layer right before the binary cross entropy layer.\nIn this \
         case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\nor \
         torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
    );
    let takes_part =
        |t: &Tensor| t.device().kind() == device.kind() && t.dtype().is_float() && t.dtype() != DType::F64;
    let mut any_full = || tensors(values).any(|t| takes_part(t) && t.dtype() == DType::F32);
    let to = match policy {
        Policy::Lower => half,
        Policy::Widest if !any_full() => half,
        _ => DType::F32,
    };
    for t in tensors(values).filter(|t| takes_part(t) && t.dtype() != to) {
        *t = super::arith::to_dtype(t, to)?;
    }
    let before = set(device, None);
    let out = super::call(op, overload, values);
    set(device, before);
    out
}
