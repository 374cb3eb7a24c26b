//! The gradients of a whole model: unscaled, clipped, measured.

use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::{GRAIN, Lists, Numbers, Rule, Step, pieces, starts};
use crate::backend::cpu::copy;
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::{Isa, Version};
use crate::backend::optim::Shared;
use crate::backend::reduce::norm_of_all;
use crate::dtype::{DType, Real, Scalar, promote};
use crate::error::Result;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, ensure, multiversion};

multiversion! { version = Version::up_to(Isa::Avx2);
    /// Multiplies and tells whether all elements were finite.
    fn scale[T: Real](factor: T, x: &mut [T]) -> bool {
        let mut finite = true;
        for v in x {
            finite &= v.abs() < T::INFINITY;
            *v = *v * factor;
        }
        finite
    }
}

struct Scale<'a> {
    factor: f64,
    found_inf: AtomicBool,
    /// The factor on a device, and what tells there of infinities, where they are asked for.
    there: &'a Tensor,
    found: Option<&'a Tensor>,
}

impl Rule for Scale<'_> {
    fn update<T: Real>(&self, _: usize, _: &[T], written: &mut [&mut [T]]) {
        for x in written {
            if !scale(T::of(self.factor), x) {
                self.found_inf.store(true, Ordering::Relaxed);
            }
        }
    }

    fn on_device(&self, _: usize) -> (Step, Numbers) {
        (if self.found.is_some() { Step::Unscale } else { Step::Scale }, Numbers::new())
    }

    fn shared(&self) -> Shared<'_> {
        Shared { numbers: &[], factor: Some(self.there.raw()), found: self.found.map(Tensor::raw) }
    }
}

/// Multiplies every gradient by a number (a tensor of one element, on their device), in place. A tensor of one float32
/// that says whether any element was infinite or NaN: 1 if so, else 0.
pub fn unscale(grads: &[Tensor], inv_scale: &Tensor) -> Result<Tensor> {
    scale_by(grads, inv_scale, true)
}

/// Multiplies every gradient by a number (a tensor of one element, on their device), in place.
pub fn scale_all(grads: &[Tensor], factor: &Tensor) -> Result<()> {
    scale_by(grads, factor, false).map(|_| ())
}

fn scale_by(grads: &[Tensor], factor: &Tensor, ask: bool) -> Result<Tensor> {
    ensure!(factor.numel() == 1, Runtime, "expected a factor of one element, got {}", factor.shape());
    let found = factor.new_full(Dims::default(), 0.0)?.copied(DType::F32)?;
    let there = factor.copied(DType::F32)?;
    let on_device = factor.device().is_gpu();
    let rule = Scale {
        // On a device the kernel reads it.
        factor: if on_device { 1.0 } else { factor.item()?.to_f64() },
        found_inf: AtomicBool::new(false),
        there: &there,
        found: ask.then_some(&found),
    };
    Lists { read: None, written: SmallVec::from_slice(&[grads]) }.apply(&rule)?;
    if rule.found_inf.load(Ordering::Relaxed) {
        copy::fill(found.on_host()?.raw(), Scalar::Float(1.0))?;
    }
    Ok(found)
}

const LANES: usize = 16;

multiversion! { version = Version::up_to(Isa::Avx2);
    fn sum_of[T: Real](order: f64, x: &[T]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        let (blocks, rest) = x.as_chunks::<LANES>();
        let power = |v: T| {
            let v = v.to_f64();
            if order == 2.0 { v * v } else if order == 1.0 { v.abs() } else { v.abs().powf(order) }
        };
        for block in blocks {
            for (lane, &v) in lanes.iter_mut().zip(block) {
                *lane += power(v);
            }
        }
        for (lane, &v) in lanes.iter_mut().zip(rest) {
            *lane += power(v);
        }
        lanes.iter().sum()
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    /// The greatest magnitude; NaN if there is one.
    fn greatest[T: Real](x: &[T]) -> f64 {
        let mut lanes = [T::ZERO; LANES];
        for block in x.chunks(LANES) {
            for (lane, &v) in lanes.iter_mut().zip(block) {
                let v = v.abs();
                *lane = if v <= *lane { *lane } else { v };
                // What is not comparable is kept.
                *lane = if v.is_nan() { v } else { *lane };
            }
        }
        lanes.iter().fold(0.0, |a, v| larger(a, v.to_f64()))
    }
}

/// The larger number, or NaN.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The norm of order `p` (a positive number or infinity) of all elements of all tensors.
pub fn total_norm(tensors: &[Tensor], p: f64) -> Result<Tensor> {
    let Some(dtype) = tensors.iter().map(|t| t.dtype()).reduce(promote) else {
        return Tensor::scalar(0.0, DType::F32);
    };
    if !(dtype.is_float() && p > 0.0) {
        bail!(Value, "total_norm() expects floating point tensors and a positive order, got {dtype} and {p}");
    }
    // Other dtypes of a device are refused below.
    if let Some(first) = tensors.iter().find(|t| t.device().is_gpu() && dtype == DType::F32) {
        let dense = tensors.iter().map(|t| t.dense(DType::F32)).collect::<Result<Vec<_>>>()?;
        let norm = Tensor::empty_on(Dims::default(), DType::F32, first.device())?;
        let views: Vec<_> = dense.iter().map(Tensor::raw).collect();
        norm_of_all(p, &views, norm.raw())?;
        return Ok(norm);
    }
    let dense = tensors
        .iter()
        .map(|t| t.on_host()?.dense(if t.dtype() == DType::F64 { DType::F64 } else { DType::F32 }))
        .collect::<Result<Vec<_>>>()?;
    let starts = starts(&dense);
    let total = starts[dense.len()];
    let combine = |a: f64, b: f64| if p == f64::INFINITY { larger(a, b) } else { a + b };
    let mut partial = vec![0.0; total.div_ceil(GRAIN)];
    for_chunks_mut(&mut partial, 1, |c, out| {
        pieces(&starts, c * GRAIN..total.min((c + 1) * GRAIN), |i, range| {
            let t = &dense[i];
            let at = t.layout().offset + range.start..t.layout().offset + range.end;
            let of_piece = match t.dtype() {
                DType::F64 => magnitude(&t.storage().slice::<f64>()[at], p),
                _ => magnitude(&t.storage().slice::<f32>()[at], p),
            };
            out[0] = combine(out[0], of_piece);
        });
    });
    let sum = partial.into_iter().fold(0.0, combine);
    let norm = if p == f64::INFINITY {
        sum
    } else if p == 2.0 {
        sum.sqrt()
    } else {
        sum.powf(1.0 / p)
    };
    Tensor::scalar(norm, dtype)
}

fn magnitude<T: Real>(x: &[T], p: f64) -> f64 {
    if p == f64::INFINITY { greatest(x) } else { sum_of(p, x) }
}
