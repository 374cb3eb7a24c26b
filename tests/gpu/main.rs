//! Compares the GPU with the CPU. Also runs on a software adapter.
#![cfg(feature = "gpu")]

mod families;
mod folds;
mod kernels;
mod pointwise;
mod runtime;

use rgrad::backend::gpu;
use rgrad::dtype::Element;
use rgrad::ops::rows;
use rgrad::{DType, Device, Tensor};

const GPU: Device = Device::Gpu(0);

/// Whether there is an adapter; fails if there is none and `RGRAD_REQUIRE_GPU=1`.
fn there_is_a_gpu() -> bool {
    let found = !gpu::instance::adapters().is_empty();
    assert!(found || std::env::var("RGRAD_REQUIRE_GPU").is_err(), "no adapter was found");
    found
}

/// Returns from a test if there is no adapter.
macro_rules! needs_gpu {
    () => {
        if !crate::there_is_a_gpu() {
            eprintln!("no adapter: skipped");
            return;
        }
    };
}

pub(crate) use needs_gpu;

fn on_gpu<T: Element>(data: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(data, shape).unwrap().on_device(GPU).unwrap()
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 - n as f32 / 2.0).collect()
}

#[test]
fn elements_come_back_as_they_went() {
    needs_gpu!();
    for n in [0, 1, 3, 4, 5, 1000] {
        let bytes: Vec<u8> = (0..n).map(|i| i as u8).collect();
        assert_eq!(on_gpu(&bytes, &[n]).values::<u8>().unwrap(), bytes);
        assert_eq!(on_gpu(&ramp(n), &[n]).values::<f32>().unwrap(), ramp(n));
    }
}

#[test]
fn tensors_are_added_on_the_device() {
    needs_gpu!();
    let (a, b) = (on_gpu(&ramp(1001), &[7, 143]), on_gpu(&ramp(1001), &[7, 143]));
    let sum = rows::add.call(&[(&a).into(), (&b).into()], &[]).unwrap();
    assert_eq!(sum.device(), GPU);
    assert_eq!(sum.values::<f32>().unwrap(), ramp(1001).iter().map(|v| v + v).collect::<Vec<_>>());
}

/// Asserts that two tensors agree within a tolerance of the dtype, relative to the element or to `size` if that is
/// larger.
fn near(found: &Tensor, wanted: &Tensor, size: f64, what: &str) {
    assert_eq!((found.dtype(), found.shape()), (wanted.dtype(), wanted.shape()), "{what}");
    let eps = match wanted.dtype() {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F32 => 4e-6,
        _ => 0.0,
    };
    for (i, (f, w)) in found.values::<f64>().unwrap().iter().zip(wanted.to_vec::<f64>()).enumerate() {
        let same = *f == w || (f.is_nan() && w.is_nan()) || (f - w).abs() <= eps * w.abs().max(size);
        assert!(same, "{what}: element {i} is {f}, not {w}");
    }
}
