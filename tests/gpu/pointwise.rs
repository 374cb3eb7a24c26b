//! Every pointwise operation in every layout.

use rgrad::backend::gpu;
use rgrad::layout::Layout;
use rgrad::ops::pointwise::{Arg, Class, PointwiseOp};
use rgrad::ops::rows;
use rgrad::{DType, Tensor};

use crate::{GPU, near, needs_gpu};

/// Values in the middle of an operation's sampling range, of both signs if it accepts both.
fn samples(row: &PointwiseOp, n: usize, seed: usize) -> Vec<f64> {
    let (low, high) = row.meta.on;
    (0..n).map(|i| low + (high - low) * (((i * 7 + seed * 3) % 23) as f64 + 0.5) / 23.0).collect()
}

/// A tensor of shape [3, 4, 5] with memory layout `layout`: dense, transposed, broadcast, at an odd offset.
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

/// The same view of a copy of the storage on the device.
fn moved(t: &Tensor) -> Tensor {
    let held = t.storage().len() / t.dtype().size();
    let memory = t.with_layout(Layout::contiguous([held].into())).on_device(GPU).unwrap();
    memory.with_layout(t.layout().clone())
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
                // Layouts differ only in how elements are addressed, for which one operation of each arity and one
                // dtype of each size suffice.
                let shows = ["exp", "add", "lt", "select_where"].contains(&row.name);
                if layout != "dense" && !(shows && matches!(dtype, DType::F32 | DType::F16 | DType::U8)) {
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
                    Ok(found) => near(&found, &wanted, 0.1, &what),
                    Err(e) => panic!("{what}: {e}"),
                }
            }
        }
    }
}
