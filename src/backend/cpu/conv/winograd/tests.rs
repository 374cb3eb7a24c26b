use std::sync::Mutex;

use super::*;
use crate::backend::cpu::conv::tests::{SETTINGS, inputs, shape, square};
use crate::backend::cpu::conv::{ConvElem, backward_input, backward_weight, forward};
use crate::backend::cpu::parallel::{num_threads, set_num_threads};
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};

fn single(v: &[f64]) -> Vec<f32> {
    v.iter().map(|&v| v as f32).collect()
}

/// The results by Winograd's algorithm, and whether all are finite.
fn computed(s: &Winograd, x: &[f32], w: &[f32], bias: Option<&[f32]>) -> (Vec<f32>, bool) {
    let len = s.images * s.to * s.target[0] * s.target[1];
    let out = Mutex::new(vec![f32::NAN; len]);
    let finite =
        s.run(x, w, bias, &|at, values| out.lock().unwrap()[at..at + values.len()].copy_from_slice(values));
    (out.into_inner().unwrap(), finite)
}

/// Result and gradients of input and weight, by the definition in `T`.
fn direct<T: ConvElem>(s: &ConvShape, [x, w, bias, grad]: &[Vec<f64>; 4]) -> [Vec<f64>; 3] {
    let cast = |v: &[f64]| v.iter().map(|&v| T::of(v as f32 as f64)).collect::<Vec<T>>();
    let mut results = [grad.len(), x.len(), w.len()].map(|len| vec![T::NAN; len]);
    let [out, grad_x, grad_w] = &mut results;
    forward(s, &cast(x), &cast(w), Some(&cast(bias)), out);
    backward_input(s, &cast(grad), &cast(w), grad_x);
    backward_weight(s, &cast(grad), &cast(x), grad_w);
    results.map(|v| v.iter().map(|v| v.to_f64()).collect())
}

/// The same by Winograd's algorithm.
fn by_winograd(s: &ConvShape, [x, w, bias, grad]: &[Vec<f64>; 4]) -> [Vec<f32>; 3] {
    let (x, w, bias, grad) = (single(x), single(w), single(bias), single(grad));
    let winograd = Winograd::forward(s).unwrap();
    let (out, finite) = computed(&winograd, &x, &w, Some(&bias));
    let mut grad_w = vec![f32::NAN; w.len()];
    assert!(finite && weight::run(&winograd, &grad, &x, &mut grad_w), "{s:?}");
    [out, computed(&Winograd::backward_input(s).unwrap(), &grad, &w, None).0, grad_w]
}

fn root_mean_square(v: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = v.fold((0.0, 0), |(sum, n), v| (sum + v * v, n + 1));
    (sum / n as f64).sqrt()
}

fn for_each_isa(mut f: impl FnMut(Isa)) {
    let _settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) == isa {
            f(isa);
        }
    }
    force_isa(best_isa());
}

fn padded(n: usize, c_in: usize, c_out: usize, [h, w]: [usize; 2], padding: [usize; 2]) -> ConvShape {
    let mut s = shape(n, c_in, c_out, 1, [1, h, w], square(3, 1, 1, 1));
    s.padding = [0, padding[0], padding[1]];
    s.output = [1, h + 2 * padding[0] - 2, w + 2 * padding[1] - 2];
    s
}

#[test]
fn results_and_gradients_are_those_of_the_definition() {
    let shapes = [
        padded(1, 16, 16, [8, 8], [1, 1]),
        padded(2, 17, 33, [7, 9], [1, 1]),
        padded(1, 3, 5, [6, 6], [0, 0]),
        padded(3, 20, 40, [13, 5], [0, 2]),
        padded(1, 130, 70, [1, 1], [1, 1]),
        padded(1, 1, 1, [1, 2], [2, 1]),
        padded(1, 8, 8, [3, 300], [1, 1]),
        padded(1, 5, 66, [300, 3], [2, 1]),
        padded(2, 16, 24, [40, 41], [1, 0]),
        padded(40, 24, 16, [7, 7], [1, 1]),
        padded(1, 260, 32, [23, 90], [1, 1]),
    ];
    for_each_isa(|isa| {
        for s in &shapes {
            let operands = inputs(s);
            let wanted = direct::<f64>(s, &operands);
            for (got, wanted) in by_winograd(s, &operands).iter().zip(&wanted) {
                let size = root_mean_square(wanted.iter().copied());
                for (i, (&g, &w)) in got.iter().zip(wanted).enumerate() {
                    assert!((g as f64 - w).abs() <= 2e-5 * size, "[{i}]: {g} instead of {w}, {isa:?}, {s:?}");
                }
            }
        }
    });
}

/// Root mean square and largest of the differences.
fn error(got: impl Fn(usize) -> f64, exact: &[f64]) -> [f64; 2] {
    let each = || exact.iter().enumerate().map(|(i, e)| got(i) - e);
    [root_mean_square(each()), each().fold(0.0, |most: f64, e| most.max(e.abs()))]
}

#[test]
fn rounding_errors_are_below_four_times_those_of_the_definition() {
    for_each_isa(|isa| {
        for (channels, positive) in [(16, false), (16, true), (48, false), (160, false)] {
            let s = padded(2, channels, channels, [9, 12], [1, 1]);
            let mut operands = inputs(&s);
            if positive {
                operands.iter_mut().flatten().for_each(|v| *v = v.abs());
            }
            let (exact, plain) = (direct::<f64>(&s, &operands), direct::<f32>(&s, &operands));
            let got = by_winograd(&s, &operands);
            for ((exact, plain), got) in exact.iter().zip(&plain).zip(&got) {
                let (plain, got) = (error(|i| plain[i], exact), error(|i| got[i] as f64, exact));
                let times = [got[0] / plain[0], got[1] / plain[1]];
                assert!(times.iter().all(|&t| t < 4.0), "{times:?}, {channels} channels, {isa:?}");
            }
        }
    });
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let _settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    let before = num_threads();
    for s in [padded(9, 32, 48, [20, 21], [1, 1]), padded(1, 200, 70, [14, 14], [1, 1])] {
        let operands = inputs(&s);
        let results = [1, 2, 5].map(|threads| {
            set_num_threads(threads);
            by_winograd(&s, &operands)
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    }
    set_num_threads(before);
}

#[test]
fn results_that_are_not_finite_are_left_to_the_definition() {
    let s = padded(1, 16, 16, [20, 20], [1, 1]);
    let [x, w, ..] = inputs(&s);
    let (x, w) = (single(&x), single(&w));
    let winograd = Winograd::forward(&s).unwrap();
    assert!(computed(&winograd, &x, &w, None).1);
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3e38] {
        let mut x = x.clone();
        x[37] = value;
        assert!(!computed(&winograd, &x, &w, None).1);
    }
}

#[test]
fn other_convolutions_are_left_to_the_definition() {
    let plain = padded(1, 16, 16, [8, 8], [1, 1]);
    assert!(Winograd::forward(&plain).is_some());
    let others = [
        ConvShape { groups: 2, ..plain },
        ConvShape { stride: [1, 2, 1], ..plain },
        ConvShape { dilation: [1, 1, 2], ..plain },
        ConvShape { kernel: [1, 3, 5], ..plain },
        ConvShape { kernel: [3, 3, 3], ..plain },
        ConvShape { padding: [0, 3, 1], ..plain },
        ConvShape { input: [2, 8, 8], ..plain },
    ];
    assert!(others.iter().all(|s| Winograd::forward(s).is_none() && Winograd::backward_input(s).is_none()));
}
