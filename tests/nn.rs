//! First and second derivatives of the operations of `nn.functional`, and their edge cases.

use rgrad::dtype::{DType, Scalar};
use rgrad::engine::gradcheck::{gradcheck, gradgradcheck};
use rgrad::ops::loss::{Reduction, cross_entropy};
use rgrad::ops::nn::{AttentionOptions, attention, pad_constant};
use rgrad::ops::norm::{Running, batch_norm, group_norm, layer_norm};
use rgrad::ops::schema::{Exposure, Out, Value};
use rgrad::ops::softmax::{log_softmax, softmax};
use rgrad::{Error, Result, Tensor};

/// Distinct numbers in (-1, 1).
fn sample(shape: &[usize], seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let at = |i: usize| ((i * 7 + 3 * seed + 1) as f64 * 0.618_034).fract() * 2.0 - 1.0;
    Tensor::from_slice(&(0..n).map(at).collect::<Vec<_>>(), shape).unwrap()
}

fn check(f: &dyn Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) {
    gradcheck(f, inputs).unwrap();
    gradgradcheck(f, inputs).unwrap();
}

/// Calls an operation of `nn.functional` by name, with a value for each parameter.
fn nn(name: &str, values: &[Value]) -> Result<Out> {
    let op = rgrad::ops::all().iter().find(|o| o.name == name && o.exposure.has(Exposure::NN)).unwrap();
    rgrad::ops::call(op, &op.overloads[0], values)
}

fn t(x: &Tensor) -> Value {
    Value::Tensor(x.clone())
}

fn ints(v: &[i64]) -> Value {
    Value::Ints(v.iter().copied().collect())
}

fn number(v: impl Into<Scalar>) -> Value {
    Value::Number(v.into())
}

fn classes(v: &[i64]) -> Tensor {
    Tensor::from_slice(v, [v.len()]).unwrap()
}

#[test]
fn softmaxes_have_right_gradients_along_every_dimension() {
    let x = sample(&[2, 3, 4], 0);
    for dim in 0..3 {
        check(&|x| softmax(&x[0], dim), std::slice::from_ref(&x));
        check(&|x| log_softmax(&x[0], dim), std::slice::from_ref(&x));
    }
}

#[test]
fn cross_entropy_has_right_gradients_however_it_is_reduced() {
    let x = sample(&[4, 3], 0);
    let (y, w) = (classes(&[2, -100, 0, 1]), sample(&[3], 1).copied(DType::F64).unwrap());
    for how in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        for smoothing in [0.0, 0.2] {
            check(&|x| cross_entropy(&x[0], &y, None, -100, how, smoothing), std::slice::from_ref(&x));
            check(&|x| cross_entropy(&x[0], &y, Some(&w), -100, how, smoothing), std::slice::from_ref(&x));
        }
        check(&|x| cross_entropy(&x[0], &x[1], Some(&w), -100, how, 0.1), &[x.clone(), sample(&[4, 3], 5)]);
    }
}

#[test]
fn cross_entropy_of_classes_is_a_likelihood_over_a_log_softmax() {
    let x = sample(&[2, 3], 0);
    x.set_requires_grad(true).unwrap();
    let loss = cross_entropy(&x, &classes(&[0, 2]), None, -100, Reduction::Mean, 0.0).unwrap();
    let node = loss.grad_fn().unwrap();
    assert_eq!(node.name(), "NllLossBackward0");
    assert_eq!(node.edges()[0].as_ref().unwrap().node.name(), "LogSoftmaxBackward0");
}

#[test]
fn a_class_out_of_range_is_an_index_error() {
    let e =
        cross_entropy(&sample(&[2, 3], 0), &classes(&[0, 5]), None, -100, Reduction::Mean, 0.0).unwrap_err();
    assert!(matches!(&e, Error::Index(text) if text == "Target 5 is out of bounds."), "{e}");
}

#[test]
fn pointwise_losses_have_right_gradients_and_are_one_node() {
    let losses: [(&str, &str, &[Value]); 3] = [
        ("mse_loss", "MseLossBackward0", &[Value::None]),
        ("smooth_l1_loss", "SmoothL1LossBackward0", &[Value::Number(Scalar::Float(0.4))]),
        ("binary_cross_entropy_with_logits", "BinaryCrossEntropyWithLogitsBackward0", &[Value::None]),
    ];
    for (name, node, last) in losses {
        for how in ["none", "sum", "mean"] {
            let call = |x: &[Tensor]| {
                let weight = if name.starts_with("binary") { vec![Value::None] } else { vec![] };
                let legacy = [Value::None, Value::None, Value::Str(how.into())];
                let values = [vec![t(&x[0]), t(&x[1])], weight, legacy.to_vec(), last.to_vec()].concat();
                nn(name, &values)?.tensor()
            };
            check(&call, &[sample(&[3, 4], 0), sample(&[3, 4], 1)]);
            let x = sample(&[3, 4], 2);
            x.set_requires_grad(true).unwrap();
            assert_eq!(call(&[x, sample(&[3, 4], 3)]).unwrap().grad_fn().unwrap().name(), node);
        }
    }
}

#[test]
fn norms_have_right_gradients() {
    let (x, w, b) = (sample(&[3, 4, 5], 0), sample(&[4], 1), sample(&[4], 2));
    let all = [x.clone(), w, b];
    check(&|x| group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-3), &all);
    let none = || Running { mean: None, var: None, momentum: 0.1 };
    check(&|x| batch_norm(&x[0], none(), Some(&x[1]), Some(&x[2]), true, 1e-3), &all);
    let (mean, var) = (sample(&[4], 3), Tensor::full([4], 2.0, DType::F64).unwrap());
    let fixed = || Running { mean: Some(&mean), var: Some(&var), momentum: 0.1 };
    check(&|x| batch_norm(&x[0], fixed(), Some(&x[1]), Some(&x[2]), false, 1e-3), &all);
    let rows = [x, sample(&[4, 5], 4), sample(&[4, 5], 5)];
    check(&|x| layer_norm(&x[0], &[4, 5], Some(&x[1]), Some(&x[2]), 1e-3), &rows);
    check(&|x| layer_norm(&x[0], &[4, 5], None, Some(&x[1]), 1e-3), &rows[..2]);
}

#[test]
fn training_a_batch_norm_moves_its_running_statistics_by_the_momentum() {
    let x = Tensor::from_slice(&[1.0f64, 3.0], [2, 1]).unwrap();
    let (mean, var) = (Tensor::zeros([1], DType::F64).unwrap(), Tensor::ones([1], DType::F64).unwrap());
    let running = Running { mean: Some(&mean), var: Some(&var), momentum: 0.5 };
    batch_norm(&x, running, None, None, true, 1e-5).unwrap();
    // The mean is 2, and so is the unbiased sample variance.
    assert_eq!((mean.to_vec::<f64>(), var.to_vec::<f64>()), (vec![1.0], vec![1.5]));
}

#[test]
fn convolutions_and_their_transposes_have_right_gradients() {
    let numbers = |v: [&[i64]; 3], groups: i64| [ints(v[0]), ints(v[1]), ints(v[2]), number(groups)];
    for groups in [1, 2] {
        let [stride, padding, dilation, g] = numbers([&[2, 1], &[1, 0], &[1, 2]], groups);
        let w = sample(&[4, 2 / groups as usize, 3, 2], 1);
        let call = |x: &[Tensor]| {
            let [s, p, d, g] = [&stride, &padding, &dilation, &g].map(Clone::clone);
            nn("conv2d", &[t(&x[0]), t(&x[1]), t(&x[2]), s, p, d, g])?.tensor()
        };
        check(&call, &[sample(&[2, 2, 5, 5], 0), w.clone(), sample(&[4], 2)]);
        let call = |x: &[Tensor]| {
            let [s, p, d, g] = [&stride, &padding, &dilation, &g].map(Clone::clone);
            nn("conv_transpose2d", &[t(&x[0]), t(&x[1]), t(&x[2]), s, p, ints(&[1, 1]), g, d])?.tensor()
        };
        check(&call, &[sample(&[2, 4, 3, 3], 0), w, sample(&[2], 2)]);
    }
}

#[test]
fn a_convolution_of_the_wrong_channels_says_which_it_got() {
    let (x, w) = (sample(&[1, 3, 8, 8], 0), sample(&[6, 1, 5, 5], 1));
    let one = || ints(&[1]);
    let e = nn("conv2d", &[t(&x), t(&w), Value::None, one(), ints(&[0]), one(), number(1i64)]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Given groups=1, weight of size [6, 1, 5, 5], expected input[1, 3, 8, 8] to have 1 channels, but got 3 channels \
         instead"
    );
}

#[test]
fn pools_have_right_gradients() {
    let x = sample(&[2, 5, 6], 0);
    let window = || [ints(&[3]), ints(&[2]), ints(&[1])];
    let max = |x: &[Tensor]| {
        let [k, s, p] = window();
        nn("max_pool2d", &[t(&x[0]), k, s, p, ints(&[1]), number(true), number(false)])?.tensor()
    };
    check(&max, std::slice::from_ref(&x));
    for padded in [false, true] {
        let mean = |x: &[Tensor]| {
            let [k, s, p] = window();
            nn("avg_pool2d", &[t(&x[0]), k, s, p, number(true), number(padded), Value::None])?.tensor()
        };
        check(&mean, std::slice::from_ref(&x));
    }
    check(&|x| nn("adaptive_avg_pool2d", &[t(&x[0]), ints(&[2, 4])])?.tensor(), std::slice::from_ref(&x));
    let adaptive =
        |x: &[Tensor]| nn("adaptive_max_pool2d", &[t(&x[0]), ints(&[2, 4]), number(false)])?.tensor();
    check(&adaptive, &[x]);
}

#[test]
fn resizing_has_right_gradients_in_every_mode() {
    for (mode, corners) in [
        ("nearest", None),
        ("nearest-exact", None),
        ("area", None),
        ("bilinear", Some(false)),
        ("bicubic", Some(true)),
    ] {
        let call = |x: &[Tensor]| {
            let corners = corners.map_or(Value::None, number);
            let mode = Value::Str(mode.into());
            nn(
                "interpolate",
                &[t(&x[0]), ints(&[5, 3]), Value::None, mode, corners, Value::None, number(false)],
            )?
            .tensor()
        };
        check(&call, &[sample(&[1, 2, 3, 4], 0)]);
    }
}

#[test]
fn bilinear_resizing_keeps_a_plane_that_is_linear() {
    let x = Tensor::from_slice(&[0.0f64, 1.0, 2.0, 3.0], [1, 1, 2, 2]).unwrap();
    let mode = Value::Str("bilinear".into());
    let y = nn(
        "interpolate",
        &[t(&x), ints(&[3, 3]), Value::None, mode, number(true), Value::None, number(false)],
    );
    let want = vec![0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0];
    assert_eq!(y.unwrap().tensor().unwrap().to_vec::<f64>(), want);
}

#[test]
fn padding_crops_where_it_is_negative_and_has_right_gradients() {
    let x = sample(&[3, 4], 0);
    check(&|x| pad_constant(&x[0], &[1, -2, -1, 2], Scalar::Float(0.5)), std::slice::from_ref(&x));
    let y = pad_constant(&x, &[-1, 1, 0, 0], Scalar::Int(7)).unwrap();
    assert_eq!(y.to_vec::<f64>()[..4], [&x.to_vec::<f64>()[1..4], &[7.0]].concat()[..]);
}

#[test]
fn embeddings_sum_the_gradients_of_a_row_and_leave_out_the_padding() {
    let index = Tensor::from_slice(&[1i64, 3, 1, 0, 2, 3], [2, 3]).unwrap();
    for by_frequency in [false, true] {
        let call = |w: &[Tensor]| {
            let rest = [Value::None, Value::None, number(2.0), number(by_frequency), number(false)];
            nn("embedding", &[vec![t(&index), t(&w[0])], rest.to_vec()].concat())?.tensor()
        };
        if by_frequency {
            // The gradient deliberately differs from the derivative.
            assert!(gradcheck(&call, &[sample(&[4, 3], 0)]).is_err());
        } else {
            check(&call, &[sample(&[4, 3], 0)]);
        }
    }
}

#[test]
fn attention_has_right_gradients_and_a_query_that_sees_nothing_gives_zero() {
    let inputs = [sample(&[2, 3, 4], 0), sample(&[2, 5, 4], 1), sample(&[2, 5, 2], 2)];
    check(&|x| attention(&x[0], &x[1], &x[2], AttentionOptions::default()), &inputs);
    check(
        &|x| attention(&x[0], &x[1], &x[2], AttentionOptions { causal: true, ..Default::default() }),
        &inputs,
    );
    let bits: Vec<f64> = (0..15).map(|i| (i >= 5) as u8 as f64).collect();
    let mask = Tensor::from_slice(&bits, [3, 5]).unwrap().copied(DType::Bool).unwrap();
    let o = AttentionOptions { mask: Some(&mask), ..Default::default() };
    check(&|x| attention(&x[0], &x[1], &x[2], o), &inputs);
    assert_eq!(attention(&inputs[0], &inputs[1], &inputs[2], o).unwrap().to_vec::<f64>()[..2], [0.0, 0.0]);
}

#[test]
fn dropout_keeps_about_its_share_and_scales_it() {
    let x = Tensor::ones([10_000], DType::F64).unwrap();
    let y = rgrad::ops::nn::dropout(&x, 0.25).unwrap().to_vec::<f64>();
    let kept = y.iter().filter(|&&v| v == 1.0 / 0.75).count();
    assert_eq!(kept + y.iter().filter(|&&v| v == 0.0).count(), y.len());
    assert!((7_300..7_700).contains(&kept), "{kept}");
}

#[test]
fn a_bias_that_lies_within_a_larger_tensor_is_read_where_it_lies() {
    let whole = Tensor::from_slice(&[9.0f64, 2.0], [2]).unwrap();
    let bias = whole.with_layout(whole.layout().slice(0, 1, 1, 1));
    let (x, w) = (Tensor::ones([1, 1, 1], DType::F64).unwrap(), Tensor::ones([1, 1, 1], DType::F64).unwrap());
    let (one, zero) = (|| ints(&[1]), || ints(&[0]));
    let call = |x: &[Tensor]| {
        let rest = [one(), zero(), zero(), number(1i64), one()];
        nn("conv_transpose1d", &[vec![t(&x[0]), t(&x[1]), t(&x[2])], rest.to_vec()].concat())?.tensor()
    };
    assert_eq!(call(&[x, w, bias]).unwrap().to_vec::<f64>(), [3.0]);
}
