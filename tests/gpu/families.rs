//! Reductions, softmax, products, losses, optimizers.

use rgrad::ops::loss::{Reduction, cross_entropy};
use rgrad::ops::{arith, matmul, reduce, rows, softmax};
use rgrad::optim::{self, Adam, Sgd};
use rgrad::{DType, Device, Error, Tensor, engine};

use crate::{GPU, near, needs_gpu};

/// Numbers that look random, the same on every run.
fn numbers(shape: &[usize], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let data: Vec<f32> = (0..n).map(|_| next()).collect();
    Tensor::from_slice(&data, shape).unwrap()
}

/// Applies a function on both devices.
fn both(inputs: &[Tensor], what: &str, f: impl Fn(&[Tensor]) -> rgrad::Result<Tensor>) {
    let there: Vec<Tensor> = inputs.iter().map(|t| t.on_device(GPU).unwrap()).collect();
    let found = f(&there).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(found.device(), GPU, "{what}");
    near(&found, &f(inputs).unwrap(), 2.0, what);
}

#[test]
fn reductions_over_any_dimensions_agree() {
    needs_gpu!();
    for (shape, mask) in [
        (&[7, 5, 9][..], 0b010),
        (&[7, 5, 9], 0b111),
        (&[7, 5, 9], 0b101),
        (&[3, 4000], 0b10),
        (&[5000, 3], 1),
    ] {
        let x = numbers(shape, 3);
        let what = format!("{shape:?} over {mask:b}");
        let sum = |t: &[Tensor]| reduce::sum_mask(&t[0], mask, false, None);
        both(&[x.copied(DType::F64).unwrap()], &format!("sum of float64 {what}"), |t| {
            // The order of the sum differs, which float64 hides once rounded.
            sum(t)?.copied(DType::F32)
        });
        both(&[x.copied(DType::I32).unwrap()], &format!("sum of integers {what}"), sum);
        both(&[x.clone()], &format!("mean {what}"), |t| reduce::mean_mask(&t[0], mask, true, None));
        both(&[x.clone()], &format!("variance {what}"), |t| reduce::var_mask(&t[0], mask, true, 1.0));
        let dims: Vec<i64> = (0..shape.len() as i64).filter(|d| mask >> d & 1 == 1).collect();
        both(&[x.clone()], &format!("amax {what}"), |t| reduce::amax(&t[0], Some(&dims), false));
        both(&[x.clone()], &format!("logsumexp {what}"), |t| reduce::logsumexp(&t[0], Some(&dims), false));
        both(&[x.clone()], &format!("norm {what}"), |t| {
            reduce::vector_norm(&t[0], 3.0, Some(&dims), false, None)
        });
    }
}

#[test]
fn the_first_of_equal_extrema_is_found_and_nan_beats_all() {
    needs_gpu!();
    let mut data = vec![0.0f32; 3000];
    (data[700], data[900], data[2100]) = (5.0, f32::NAN, f32::NAN);
    let x = Tensor::from_slice(&data, [3, 1000]).unwrap();
    for largest in [true, false] {
        let found = |t: &[Tensor]| reduce::argument_extremum("argmax", &t[0], Some(1), false, largest);
        both(&[x.clone()], "argument", found);
        let values = |t: &[Tensor]| Ok(reduce::extremum_along(&t[0], 1, false, largest)?[0].clone());
        both(&[x.clone()], "values", values);
    }
}

#[test]
fn softmax_agrees_forward_and_backward() {
    needs_gpu!();
    for (shape, dim) in [(&[6, 50][..], 1), (&[4, 7, 3], 1), (&[300], 0)] {
        let (x, g) = (numbers(shape, 5), numbers(shape, 6));
        for f in [softmax::softmax, softmax::log_softmax] {
            both(&[x.clone()], "forward", |t| f(&t[0], dim));
            both(&[x.clone(), g.clone()], "backward", |t| {
                let x = t[0].detach();
                x.set_requires_grad(true)?;
                engine::backward(&[f(&x, dim)?], &[Some(t[1].clone())], None, engine::Options::default())?;
                Ok(x.grad().unwrap())
            });
        }
    }
}

#[test]
fn products_of_any_shape_and_strides_agree() {
    needs_gpu!();
    for (m, k, n) in [(1, 1, 1), (5, 3, 7), (33, 65, 34), (64, 128, 10), (2, 0, 3)] {
        let (a, b) = (numbers(&[m, k], 1), numbers(&[k, n], 2));
        let what = format!("{m} {k} {n}");
        both(&[a.clone(), b.clone()], &what, |t| matmul::mm(&t[0], &t[1]));
        let turned = |t: &Tensor| t.with_layout(t.layout().transpose(0, 1));
        both(&[numbers(&[k, m], 1), numbers(&[n, k], 2)], &what, |t| {
            matmul::mm(&turned(&t[0]), &turned(&t[1]))
        });
        both(&[a, numbers(&[n, k], 2), numbers(&[n], 4)], &what, |t| {
            matmul::linear(&t[0], &t[1], Some(&t[2]))
        });
        both(&[numbers(&[3, m, k], 1), numbers(&[3, k, n], 2)], &what, |t| matmul::bmm(&t[0], &t[1]));
    }
}

#[test]
fn cross_entropy_agrees_and_tells_of_a_class_that_is_none() {
    needs_gpu!();
    let x = numbers(&[6, 5], 9);
    let class = Tensor::from_slice(&[0i64, 4, 2, -100, 1, 3], [6]).unwrap();
    let weight = Tensor::from_slice(&[1.0f32, 2.0, 0.5, 1.5, 3.0], [5]).unwrap();
    for how in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        both(&[x.clone(), class.clone(), weight.clone()], "cross entropy", |t| {
            let x = t[0].detach();
            x.set_requires_grad(true)?;
            let loss = cross_entropy(&x, &t[1], Some(&t[2]), -100, how, 0.0)?;
            let g =
                if how == Reduction::None { Some(loss.new_full(loss.shape().clone(), 0.5)?) } else { None };
            engine::backward(&[loss.clone()], &[g], None, engine::Options::default())?;
            arith::add(&x.grad().unwrap(), &reduce::sum_mask(&loss, u64::MAX, false, None)?)
        });
    }
    let wrong = Tensor::from_slice(&[0i64, 5, 2, 1, 1, 3], [6]).unwrap().on_device(GPU).unwrap();
    let there = x.on_device(GPU).unwrap();
    let loss = cross_entropy(&there, &wrong, None, -100, Reduction::Mean, 0.0).unwrap();
    match loss.item() {
        Err(Error::Index(m)) => assert_eq!(m, "Target 5 is out of bounds."),
        other => panic!("{other:?}"),
    }
    // Afterwards the device goes on.
    assert!(
        cross_entropy(&there, &class.on_device(GPU).unwrap(), None, -100, Reduction::Mean, 0.0)
            .unwrap()
            .item()
            .is_ok()
    );
}

/// Trains a network of two layers and returns its losses.
fn train(device: Device, adam: bool) -> Vec<f64> {
    let to = |t: Tensor| t.on_device(device).unwrap().detach();
    let x = to(numbers(&[32, 12], 1));
    let class = to(Tensor::from_slice(&(0..32).map(|i| i % 4).collect::<Vec<i64>>(), [32]).unwrap());
    let params = [numbers(&[24, 12], 2), numbers(&[24], 3), numbers(&[4, 24], 4), numbers(&[4], 5)].map(to);
    params.iter().for_each(|p| p.set_requires_grad(true).unwrap());
    let zeros = || params.iter().map(|p| p.new_zeros(p.shape().clone()).unwrap()).collect::<Vec<_>>();
    let (m, v) = (zeros(), zeros());
    let steps: Vec<Tensor> = params.iter().map(|_| Tensor::scalar(0.0, DType::F32).unwrap()).collect();
    let mut buffers: Vec<Option<Tensor>> = vec![None; 4];
    (0..10)
        .map(|_| {
            params.iter().for_each(|p| p.set_grad(None));
            let h =
                rows::relu.call(&[(&matmul::linear(&x, &params[0], Some(&params[1])).unwrap()).into()], &[]);
            let y = matmul::linear(&h.unwrap(), &params[2], Some(&params[3])).unwrap();
            let loss = cross_entropy(&y, &class, None, -100, Reduction::Mean, 0.0).unwrap();
            engine::backward(&[loss.clone()], &[None], None, engine::Options::default()).unwrap();
            let grads: Vec<Tensor> = params.iter().map(|p| p.grad().unwrap()).collect();
            if adam {
                let s = Adam {
                    lr: 0.01,
                    beta1: 0.9,
                    beta2: 0.999,
                    eps: 1e-8,
                    weight_decay: 0.01,
                    amsgrad: false,
                    maximize: false,
                    decoupled: true,
                };
                optim::adam(&params, &grads, &m, &v, &[], &steps, s).unwrap();
            } else {
                let s = Sgd {
                    lr: 0.1,
                    momentum: 0.9,
                    dampening: 0.0,
                    weight_decay: 1e-3,
                    nesterov: true,
                    maximize: false,
                };
                if let Some(made) = optim::sgd(&params, &grads, &buffers, s).unwrap() {
                    buffers = made.into_iter().map(Some).collect();
                }
            }
            loss.item().unwrap().to_f64()
        })
        .collect()
}

#[test]
fn a_network_trains_as_on_the_cpu() {
    needs_gpu!();
    for adam in [false, true] {
        let (here, there) = (train(Device::Cpu, adam), train(GPU, adam));
        assert!(there[9] < 0.8 * there[0], "{there:?}");
        for (a, b) in here.iter().zip(&there) {
            assert!((a - b).abs() < 1e-4 * a.abs(), "{here:?} {there:?}");
        }
    }
}

#[test]
fn a_steady_training_step_makes_no_buffer_group_or_pipeline() {
    use std::sync::atomic::Ordering::Relaxed;
    needs_gpu!();
    train(GPU, false);
    let c = &rgrad::backend::gpu::device::gpu(0).unwrap().counters;
    let counts = || [&c.buffers, &c.bind_groups, &c.pipelines].map(|n| n.load(Relaxed));
    let before = counts();
    train(GPU, false);
    assert_eq!(counts()[2], before[2]);
}
