//! Compares reductions, softmax, products, losses and optimizers with the CPU.

use rgrad::backend::plane::{self, Divisor, PoolShape, ResizeShape, SpatialLinearMap, Windows};
use rgrad::backend::random::{self, Draw, Philox};
use rgrad::engine::Target;
use rgrad::ops::loss::{Reduction, cross_entropy};
use rgrad::ops::{arith, conv, index, matmul, nn, norm, reduce, rows, softmax, view};
use rgrad::optim::{self, Adam, Sgd};
use rgrad::{DType, Device, Error, Tensor, engine};

use smallvec::smallvec;

use crate::{GPU, near, needs_gpu};

/// Reproducible pseudo-random numbers.
pub fn numbers(shape: &[usize], seed: u64) -> Tensor {
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

/// Applies a function on both devices and compares the results.
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
            // The order of the sum differs, which rounding a float64 sum hides.
            sum(t)?.copied(DType::F32)
        });
        both(&[x.copied(DType::I32).unwrap()], &format!("sum of integers {what}"), sum);
        both(&[x.clone()], &format!("mean {what}"), |t| reduce::mean_mask(&t[0], mask, true, None));
        both(&[x.clone()], &format!("variance {what}"), |t| reduce::var_mask(&t[0], mask, true, 1.0));
        let dims: Vec<i64> = (0..shape.len() as i64).filter(|d| mask >> d & 1 == 1).collect();
        both(&[x.clone()], &format!("amax {what}"), |t| reduce::amax(&t[0], Some(&dims), false));
        both(&[x.clone()], &format!("logsumexp {what}"), |t| reduce::logsumexp(&t[0], &dims, false));
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
                engine::backward(
                    &[Target::Tensor(f(&x, dim)?)],
                    &[Some(t[1].clone())],
                    None,
                    engine::Options::default(),
                )?;
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
            engine::backward(&[Target::Tensor(loss.clone())], &[g], None, engine::Options::default())?;
            arith::add(&x.grad().unwrap(), &reduce::sum_mask(&loss, u64::MAX, false, None)?)
        });
    }
    let wrong = Tensor::from_slice(&[0i64, 5, 2, 1, 1, 3], [6]).unwrap().on_device(GPU).unwrap();
    let there = x.on_device(GPU).unwrap();
    let loss = cross_entropy(&there, &wrong, None, -100, Reduction::Mean, 0.0).unwrap();
    match loss.item() {
        Err(Error::Index(m)) => {
            assert!(m.starts_with("Target 5 is out of bounds. ('nll_loss' on gpu:0"), "{m}")
        }
        other => panic!("{other:?}"),
    }
    // The device remains usable.
    assert!(
        cross_entropy(&there, &class.on_device(GPU).unwrap(), None, -100, Reduction::Mean, 0.0)
            .unwrap()
            .item()
            .is_ok()
    );
}

/// The result of a function and its gradient with respect to the first input, for a pseudo-random output gradient.
fn with_gradient(x: &Tensor, f: impl Fn(&Tensor) -> rgrad::Result<Tensor>) -> rgrad::Result<Tensor> {
    let x = x.detach();
    x.set_requires_grad(true)?;
    let y = f(&x)?;
    let g = numbers(y.shape(), 8).on_device(x.device())?;
    engine::backward(&[Target::Tensor(y.clone())], &[Some(g)], None, engine::Options::default())?;
    let flat = |t: &Tensor| view::reshape_to(&t.detach(), &[t.numel()].into());
    rgrad::ops::join::cat(&[flat(&y)?, flat(&x.grad().unwrap())?], 0)
}

#[test]
fn convolutions_agree_with_their_gradients() {
    needs_gpu!();
    for (stride, padding, dilation, groups) in [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 1, 6)] {
        let o = conv::Options {
            stride: smallvec![stride; 2],
            padding: smallvec![padding; 2],
            dilation: smallvec![dilation; 2],
            output_padding: smallvec![0; 2],
            groups,
            transposed: false,
        };
        let what = format!("stride {stride} padding {padding} dilation {dilation} groups {groups}");
        let (x, w) = (numbers(&[3, 6, 9, 8], 1), numbers(&[12, 6 / groups as usize, 3, 3], 2));
        let inputs = [x, w, numbers(&[12], 3)];
        let f = |x: &Tensor, w: &Tensor, b: &Tensor| conv::convolution("conv2d", x, w, Some(b), &o);
        both(&inputs, &what, |t| with_gradient(&t[0], |x| f(x, &t[1], &t[2])));
        both(&inputs, &what, |t| with_gradient(&t[1], |w| f(&t[0], w, &t[2])));
        both(&inputs, &what, |t| with_gradient(&t[2], |b| f(&t[0], &t[1], b)));
    }
}

#[test]
fn rows_and_elements_are_read_and_summed_by_index() {
    needs_gpu!();
    let x = numbers(&[7, 5], 1);
    let rows = Tensor::from_slice(&[6i64, 0, 0, 3], [4]).unwrap();
    let each = Tensor::from_slice(&[4i64, 0, 2, 2, 1, 1], [3, 2]).unwrap();
    both(&[x.clone(), rows.clone()], "index_select", |t| {
        with_gradient(&t[0], |x| index::index_select(x, 0, &t[1]))
    });
    both(&[x.clone(), each.clone()], "gather", |t| with_gradient(&t[0], |x| index::gather(x, 1, &t[1])));
    both(&[x.clone(), rows.clone()], "embedding", |t| {
        with_gradient(&t[0], |x| nn::embedding(&t[1], x, Default::default()))
    });
    for dtype in [DType::F16, DType::U8, DType::I64, DType::Bool] {
        let x = x.copied(dtype).unwrap();
        both(&[x, each.clone()], &format!("gather of {dtype}"), |t| index::gather(&t[0], 1, &t[1]));
    }
    let wrong = Tensor::from_slice(&[7i64], [1]).unwrap().on_device(GPU).unwrap();
    let x = x.on_device(GPU).unwrap();
    // A software adapter reports it at the call, a GPU when the result is read.
    let picked = index::index_select(&x, 0, &wrong).and_then(|picked| picked.values::<f32>());
    assert!(matches!(picked, Err(Error::Index(_))));
    assert!(x.values::<f32>().is_ok());
}

#[test]
fn pools_agree_forward_and_backward() {
    needs_gpu!();
    let shape = |kernel, stride, padding, dilation, output| PoolShape {
        planes: 6,
        input: [1, 9, 8],
        kernel: [1, kernel, kernel],
        stride: [1, stride, stride],
        padding: [0, padding, padding],
        dilation: [1, dilation, dilation],
        output,
    };
    let out_of = |t: &Tensor, s: [usize; 3]| t.new_empty([6, s[0], s[1], s[2]]);
    for s in [shape(3, 2, 1, 1, [1, 5, 4]), shape(2, 2, 0, 1, [1, 4, 4]), shape(3, 1, 1, 2, [1, 7, 6])] {
        let x = numbers(&[6, 1, 9, 8], 1);
        let picked = |t: &[Tensor]| -> rgrad::Result<Tensor> {
            let out = out_of(&t[0], s.output)?;
            let indices = Tensor::empty_on(out.shape().clone(), DType::I64, out.device())?;
            plane::max_pool(&s, t[0].raw(), out.raw(), indices.raw())?;
            let map = SpatialLinearMap::Pick { indices: indices.raw(), windows: Windows::Fixed(s) };
            let (again, back) = (out.empty_like()?, t[0].empty_like()?);
            plane::forward(&map, t[0].raw(), again.raw())?;
            plane::adjoint(&map, out.raw(), back.raw())?;
            let flat = |t: &Tensor| view::reshape_to(t, &[t.numel()].into());
            rgrad::ops::join::cat(&[flat(&out)?, flat(&again)?, flat(&back)?], 0)
        };
        both(&[x.clone()], &format!("maxima {s:?}"), picked);
        for divisor in [Divisor::WithPadding, Divisor::WithoutPadding, Divisor::Fixed(3)] {
            let s = PoolShape { dilation: [1; 3], ..s };
            both(&[x.clone()], &format!("means {s:?} {divisor:?}"), |t| {
                let out = out_of(&t[0], s.output)?;
                plane::forward(&SpatialLinearMap::Average(s, divisor), t[0].raw(), out.raw())?;
                let back = t[0].empty_like()?;
                plane::adjoint(&SpatialLinearMap::Average(s, divisor), out.raw(), back.raw())?;
                Ok(back)
            });
        }
    }
    for output in [[1, 1, 1], [1, 4, 3], [1, 9, 8]] {
        let map = SpatialLinearMap::AdaptiveAverage(ResizeShape { planes: 6, input: [1, 9, 8], output });
        both(&[numbers(&[6, 1, 9, 8], 1)], &format!("shares {output:?}"), |t| {
            let (out, back) = (out_of(&t[0], output)?, t[0].empty_like()?);
            plane::forward(&map, t[0].raw(), out.raw())?;
            plane::adjoint(&map, out.raw(), back.raw())?;
            Ok(back)
        });
    }
}

#[test]
fn norms_agree_with_their_gradients() {
    needs_gpu!();
    let inputs = [numbers(&[4, 6, 5], 1), numbers(&[6], 2), numbers(&[6], 3)];
    both(&inputs, "batch_norm", |t| {
        let running = norm::Running { mean: None, var: None, momentum: 0.1 };
        with_gradient(&t[0], |x| {
            let running = norm::Running { ..running };
            norm::batch_norm(x, running, Some(&t[1]), Some(&t[2]), true, 1e-5)
        })
    });
    both(&inputs, "group_norm", |t| {
        with_gradient(&t[0], |x| norm::group_norm(x, 3, Some(&t[1]), Some(&t[2]), 1e-5))
    });
    let inputs = [numbers(&[4, 6], 1), numbers(&[6], 2), numbers(&[6], 3)];
    both(&inputs, "layer_norm", |t| {
        with_gradient(&t[0], |x| norm::layer_norm(x, &[6], Some(&t[1]), Some(&t[2]), 1e-5))
    });
}

#[test]
fn draws_have_the_bits_of_the_cpu() {
    needs_gpu!();
    let p = Philox { seed: 0x1234_5678_9abc_def0, offset: u32::MAX as u64 - 3 };
    for (draw, dtype, exact) in [
        (Draw::Uniform(-2.0, 3.0), DType::F32, true),
        (Draw::Bernoulli(0.3), DType::U8, true),
        (Draw::Integers(-5, 1000), DType::I64, true),
        (Draw::Integers(0, 1 << 32), DType::I64, true),
        (Draw::Normal(1.0, 2.0), DType::F32, false),
        (Draw::Exponential(0.5), DType::F32, false),
    ] {
        let made = |device| {
            let out = Tensor::empty_on([1003], dtype, device).unwrap();
            random::fill(draw, p, out.raw()).unwrap();
            out.values::<f64>().unwrap()
        };
        for (a, b) in made(Device::Cpu).iter().zip(made(GPU)) {
            assert!(*a == b || (!exact && (a - b).abs() <= 4e-6 * a.abs().max(1.0)), "{draw:?}: {a} {b}");
        }
    }
}

/// Trains a two-layer network and returns its losses.
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
            engine::backward(&[Target::Tensor(loss.clone())], &[None], None, engine::Options::default())
                .unwrap();
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
    let c = &rgrad::backend::gpu::device::gpu(0).unwrap().counters;
    let counts = || [&c.buffers, &c.bind_groups, &c.pipelines].map(|n| n.load(Relaxed));
    let (x, w) = (numbers(&[16, 8], 1).on_device(GPU).unwrap(), numbers(&[4, 8], 2).on_device(GPU).unwrap());
    let step = || {
        let y = matmul::linear(&x, &w, None).unwrap();
        let change = matmul::mm(&y.with_layout(y.layout().transpose(0, 1)), &x).unwrap();
        let scaled = arith::mul(&change, 1e-3).unwrap();
        assert!(rows::sub.call_inplace(&[(&w).into(), (&scaled).into()], &[]).unwrap());
    };
    (0..20).for_each(|_| step());
    let before = counts();
    (0..100).for_each(|_| step());
    assert!(w.values::<f32>().unwrap().iter().all(|v| v.is_finite()));
    assert_eq!(counts(), before);
}
