//! The GPU: memory, transfers, pointwise operations in every layout, errors. Runs on a software adapter too.
#![cfg(feature = "gpu")]

use rgrad::backend::gpu;
use rgrad::dtype::Element;
use rgrad::layout::Layout;
use rgrad::ops::pointwise::{Arg, Class, Row};
use rgrad::ops::rows;
use rgrad::{DType, Device, Tensor};

const GPU: Device = Device::Gpu(0);

/// Whether there is an adapter; where `RGRAD_REQUIRE_GPU=1`, there must be.
fn there_is_a_gpu() -> bool {
    let found = !gpu::instance::adapters().is_empty();
    assert!(found || std::env::var("RGRAD_REQUIRE_GPU").is_err(), "no adapter was found");
    found
}

macro_rules! needs_gpu {
    () => {
        if !there_is_a_gpu() {
            eprintln!("no adapter: skipped");
            return;
        }
    };
}

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

/// Numbers in the middle of where a row samples its inputs, of either sign where it takes both.
fn samples(row: &Row, n: usize, seed: usize) -> Vec<f64> {
    let (low, high) = row.meta.on;
    (0..n).map(|i| low + (high - low) * (((i * 7 + seed * 3) % 23) as f64 + 0.5) / 23.0).collect()
}

/// A tensor of shape [3, 4, 5] that lies in memory as `layout` says: dense, transposed, broadcast, at an odd offset.
fn laid_out(data: &[f64], dtype: DType, layout: &str) -> Tensor {
    let make = |shape: &[usize]| {
        let n: usize = shape.iter().product();
        Tensor::from_slice(&data[..n], shape).unwrap().copied(dtype).unwrap()
    };
    match layout {
        "dense" => make(&[3, 4, 5]),
        "transposed" => {
            let t = make(&[5, 4, 3]);
            t.with_layout(t.layout().permute(&[2, 1, 0]))
        }
        "broadcast" => {
            let t = make(&[4, 1]);
            t.with_layout(t.layout().expand(&[3, 4, 5]).unwrap())
        }
        _ => {
            let t = make(&[61]);
            t.with_layout(Layout { offset: 1, ..Layout::contiguous([3, 4, 5].into()) })
        }
    }
}

/// The same view of a copy of the memory on the device.
fn moved(t: &Tensor) -> Tensor {
    let held = t.storage().len() / t.dtype().size();
    let memory = t.with_layout(Layout::contiguous([held].into())).on_device(GPU).unwrap();
    memory.with_layout(t.layout().clone())
}

fn near(found: &Tensor, wanted: &Tensor, what: &str) {
    assert_eq!((found.dtype(), found.shape()), (wanted.dtype(), wanted.shape()), "{what}");
    let eps = match wanted.dtype() {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F32 => 4e-6,
        _ => 0.0,
    };
    for (i, (f, w)) in found.values::<f64>().unwrap().iter().zip(wanted.to_vec::<f64>()).enumerate() {
        let same = *f == w || (f.is_nan() && w.is_nan()) || (f - w).abs() <= eps * (w.abs() + 0.1);
        assert!(same, "{what}: element {i} is {f}, not {w}");
    }
}

#[test]
fn every_row_gives_what_the_cpu_gives_in_every_layout() {
    needs_gpu!();
    let caps = &gpu::device::gpu(0).unwrap().caps;
    for row in rows::ROWS.iter().copied() {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::U8, DType::Bool, DType::I64] {
            if (dtype == DType::I64 && !caps.int64) || (row.class == Class::Bits && dtype.is_float()) {
                continue;
            }
            for layout in ["dense", "transposed", "broadcast", "odd offset"] {
                // The other layouts differ in how elements are found, which one dtype of each width shows.
                if layout != "dense" && !matches!(dtype, DType::F32 | DType::F16) {
                    continue;
                }
                let what = format!("{} of {} {layout}", row.name, dtype.name());
                let inputs: Vec<Tensor> = (0..row.inputs.len())
                    .map(|k| {
                        let mut data = samples(row, 61, k);
                        if row.meta.divides && k == 1 && !dtype.is_float() {
                            data.iter_mut().for_each(|v| *v = v.abs() + 1.0);
                        }
                        laid_out(&data, dtype, layout)
                    })
                    .collect();
                let args: Vec<Arg> = inputs.iter().map(Arg::T).collect();
                let params = vec![rgrad::Scalar::Float(0.75); row.params.len()];
                let Ok(wanted) = row.call(&args, &params) else { continue };
                let there: Vec<Tensor> = inputs.iter().map(moved).collect();
                let args: Vec<Arg> = there.iter().map(Arg::T).collect();
                match row.call(&args, &params) {
                    Ok(found) => near(&found, &wanted, &what),
                    Err(e) => panic!("{what}: {e}"),
                }
            }
        }
    }
}
