//! Autocast: products run in a half type where it is on.

use std::borrow::Cow;
use std::cell::Cell;

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

thread_local!(static AUTOCAST: Cell<Option<DType>> = const { Cell::new(None) });

/// The dtype that products are cast to on this thread.
pub fn dtype() -> Option<DType> {
    AUTOCAST.with(Cell::get)
}

/// Sets it and returns the one before.
pub fn set(dtype: Option<DType>) -> Option<DType> {
    AUTOCAST.with(|a| a.replace(dtype))
}

/// `t` as a product takes it under autocast. float64 is left alone, as PyTorch leaves it.
#[inline]
pub fn cast(t: &Tensor) -> Result<Cow<'_, Tensor>> {
    match dtype() {
        Some(d) if t.dtype() != d && t.dtype().is_float() && t.dtype() != DType::F64 => {
            Ok(Cow::Owned(super::arith::to_dtype(t, d)?))
        }
        _ => Ok(Cow::Borrowed(t)),
    }
}

pub fn cast_opt(t: Option<&Tensor>) -> Result<Option<Cow<'_, Tensor>>> {
    t.map(cast).transpose()
}
