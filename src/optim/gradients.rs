//! Operations on the gradients of a whole model: unscaling, scaling, norm.

use super::expect_writable;
use crate::backend::optim::scale;
use crate::backend::reduce::norm_of_all;
use crate::dtype::{DType, promote};
use crate::error::Result;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// Multiplies every gradient in place by a number (a single-element tensor on the same device). Returns a
/// single-element float32 tensor: 1 if any element was infinite or NaN, else 0.
pub fn unscale(grads: &[Tensor], inv_scale: &Tensor) -> Result<Tensor> {
    let found = inv_scale.new_full(Dims::default(), 0.0)?.copied(DType::F32)?;
    scale_by(grads, inv_scale, Some(&found))?;
    Ok(found)
}

/// Multiplies every gradient in place by a number (a single-element tensor on the same device).
pub fn scale_all(grads: &[Tensor], factor: &Tensor) -> Result<()> {
    scale_by(grads, factor, None)
}

fn scale_by(grads: &[Tensor], factor: &Tensor, found: Option<&Tensor>) -> Result<()> {
    ensure!(factor.numel() == 1, Runtime, "expected a factor of one element, got {}", factor.shape());
    expect_writable(grads)?;
    let views: Vec<_> = grads.iter().map(Tensor::raw).collect();
    scale(&views, factor.raw(), found.map(Tensor::raw))?;
    grads.iter().for_each(Tensor::bump_version);
    Ok(())
}

/// The norm of order `p` (positive or infinite) over all elements of all tensors.
pub fn total_norm(tensors: &[Tensor], p: f64) -> Result<Tensor> {
    let Some((first, rest)) = tensors.split_first() else {
        return Tensor::scalar(0.0, DType::F32);
    };
    let dtype = rest.iter().try_fold(first.dtype(), |all, t| promote(all, t.dtype()))?;
    if !(dtype.is_float() && p > 0.0) {
        bail!(Value, "total_norm() expects floating point tensors and a positive order, got {dtype} and {p}");
    }
    let compute = |t: &Tensor| if t.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let dense = tensors.iter().map(|t| t.dense(compute(t))).collect::<Result<Vec<_>>>()?;
    let norm = Tensor::empty_on(Dims::default(), dtype, tensors[0].device())?;
    let views: Vec<_> = dense.iter().map(Tensor::raw).collect();
    norm_of_all(p, &views, norm.raw())?;
    Ok(norm)
}
