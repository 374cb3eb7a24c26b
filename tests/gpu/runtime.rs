//! The runtime: lost devices, timed launches, kernels that do not compile.

use rgrad::backend::gpu::{custom_kernel, device};
use rgrad::ops::rows;
use rgrad::{DType, Tensor};

use crate::{GPU, needs_gpu, on_gpu, ramp};

#[test]
fn a_lost_device_tells_why_until_it_is_reset() {
    needs_gpu!();
    let x = on_gpu(&ramp(4), &[4]);
    device::gpu(0).unwrap().lose();
    for error in [
        rows::neg.call(&[(&x).into()], &[]).unwrap_err(),
        x.values::<f32>().unwrap_err(),
        Tensor::from_slice(&ramp(4), [4]).unwrap().on_device(GPU).unwrap_err(),
    ] {
        assert!(error.to_string().contains("the device was lost"), "{error}");
    }
    device::reset(0).unwrap();
    assert!(x.values::<f32>().is_err());
    let y = on_gpu(&ramp(4), &[4]);
    assert!(rows::add.call(&[(&x).into(), (&y).into()], &[]).is_err());
    let z = rows::add.call(&[(&y).into(), (&y).into()], &[]).unwrap();
    assert_eq!(z.values::<f32>().unwrap(), [-4.0, -2.0, 0.0, 2.0]);
}

#[test]
fn a_profile_holds_the_launches_in_order() {
    needs_gpu!();
    let (gpu, x) = (device::gpu(0).unwrap(), on_gpu(&ramp(1000), &[1000]));
    if !gpu.caps.timestamps {
        assert!(gpu.start_profile().is_err());
        return;
    }
    gpu.start_profile().unwrap();
    // More launches than fit in a batch.
    let mut y = x;
    for _ in 0..300 {
        y = rows::neg.call(&[(&y).into()], &[]).unwrap();
    }
    let timed = gpu.stop_profile().unwrap();
    let negations: Vec<_> = timed.iter().filter(|t| t.op == "neg").collect();
    assert_eq!(negations.len(), 300);
    assert!(timed.iter().all(|t| t.begin <= t.end));
    assert!(timed.is_sorted_by_key(|t| t.recorded) && timed.is_sorted_by_key(|t| t.begin));
    assert!(gpu.stop_profile().is_err());
}

#[test]
fn a_kernel_that_the_device_does_not_take_is_an_error_after_which_it_goes_on() {
    needs_gpu!();
    // Valid WGSL that requires a feature with which no device is opened.
    let source = "enable f16;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() { y[0] = f32(f16(y[0])); }";
    let kernel = custom_kernel::Kernel::new("half", source).unwrap();
    let y = on_gpu(&ramp(4), &[4]);
    let error = kernel.launch(device::gpu(0).unwrap(), &[y.raw()], &[], &[], 1).unwrap_err().to_string();
    assert!(error.contains("the kernel of 'half' does not compile"), "{error}");
    assert_eq!((y.dtype(), y.values::<f32>().unwrap()), (DType::F32, ramp(4)));
}
