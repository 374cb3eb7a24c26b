//! The memory layout of the result of a pointwise operation.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Arg;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Dims, Layout, MemoryFormat, result_layout};
use crate::tensor::Tensor;

/// Whether all operands are contiguous, and have the strides of a new tensor if numbers are among them; otherwise see
/// [`result_layout`].
#[inline]
pub(super) fn lie_plainly(args: &[Arg]) -> bool {
    let numbers = args.iter().any(|a| matches!(a, Arg::S(_)));
    args.iter().all(|a| match a {
        Arg::T(t) => t.is_contiguous() && (!numbers || t.layout().has_plain_strides()),
        Arg::S(_) => true,
    })
}

/// A new tensor of the broadcast shape with the memory layout derived from the operands. In PyTorch, operands that
/// need a cast are copies.
#[cold]
pub(super) fn empty_among<'a>(
    shape: &Dims,
    args: impl IntoIterator<Item = &'a Arg<'a>>,
    common: DType,
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    let mut layouts: SmallVec<[Cow<Layout>; 5]> = SmallVec::new();
    let mut numbers = false;
    for a in args {
        match a {
            Arg::T(t) if t.dtype() == common => layouts.push(Cow::Borrowed(t.layout())),
            Arg::T(t) => layouts.push(Cow::Owned(t.layout().in_format(MemoryFormat::Preserve)?)),
            Arg::S(_) => numbers = true,
        }
    }
    let layouts: SmallVec<[&Layout; 5]> = layouts.iter().map(|l| &**l).collect();
    Tensor::empty_dense(result_layout(shape, &layouts, numbers), dtype, device)
}
