//! The gradients of a whole model: unscaled, clipped, measured.

use super::expect_writable;
use crate::backend::optim::scale;
use crate::backend::reduce::norm_of_all;
use crate::dtype::{DType, promote};
use crate::error::Result;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// Multiplies every gradient by a number (a tensor of one element, on their device), in place. A tensor of one float32
/// that says whether any element was infinite or NaN: 1 if so, else 0.
pub fn unscale(grads: &[Tensor], inv_scale: &Tensor) -> Result<Tensor> {
    let found = inv_scale.new_full(Dims::default(), 0.0)?.copied(DType::F32)?;
    scale_by(grads, inv_scale, Some(&found))?;
    Ok(found)
}

/// Multiplies every gradient by a number (a tensor of one element, on their device), in place.
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

/// The norm of order `p` (a positive number or infinity) of all elements of all tensors.
pub fn total_norm(tensors: &[Tensor], p: f64) -> Result<Tensor> {
    let Some(dtype) = tensors.iter().map(|t| t.dtype()).reduce(promote) else {
        return Tensor::scalar(0.0, DType::F32);
    };
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
