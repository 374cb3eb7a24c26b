//! Autocast: products run in a half type where it is on.

use std::borrow::Cow;
use std::cell::Cell;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

/// The dtypes that products are cast to, by the kind of their device.
#[derive(Clone, Copy, Default)]
pub struct Casts {
    cpu: Option<DType>,
    gpu: Option<DType>,
}

thread_local!(static AUTOCAST: Cell<Casts> = const { Cell::new(Casts { cpu: None, gpu: None }) });

/// Those of this thread.
pub fn casts() -> Casts {
    AUTOCAST.with(Cell::get)
}

/// Sets all of them.
pub fn restore(casts: Casts) {
    AUTOCAST.with(|a| a.set(casts));
}

/// The dtype that products on a kind of device are cast to on this thread.
pub fn dtype(device: Device) -> Option<DType> {
    if device.is_gpu() { casts().gpu } else { casts().cpu }
}

/// Sets it and returns the one before.
pub fn set(device: Device, dtype: Option<DType>) -> Option<DType> {
    let mut now = casts();
    let slot = if device.is_gpu() { &mut now.gpu } else { &mut now.cpu };
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
