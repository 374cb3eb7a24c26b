use super::*;
use crate::backend::cpu::parallel::{num_threads, set_num_threads};
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};
use std::sync::Mutex;

/// Locked by tests that change the instruction set or the number of threads.
static SETTINGS: Mutex<()> = Mutex::new(());

fn for_each_isa(f: impl Fn()) {
    let _settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) == isa {
            f();
        }
    }
    force_isa(best_isa());
}

/// Small integers, so that ties are frequent and sums are exact.
fn values(len: usize) -> Vec<f32> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 % 7.0 - 3.0).collect()
}

fn pool_shape(planes: usize, input: [usize; 3], window: [[usize; 3]; 4], ceil: bool) -> PoolShape {
    let [kernel, stride, padding, dilation] = window;
    let output = [0, 1, 2].map(|a| {
        let span = input[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1;
        let n = if ceil { span.div_ceil(stride[a]) } else { span / stride[a] } + 1;
        // The last window starts within the input or its left padding.
        if ceil && (n - 1) * stride[a] >= input[a] + padding[a] { n - 1 } else { n }
    });
    PoolShape { planes, input, output, kernel, stride, padding, dilation }
}

fn square(kernel: usize, stride: usize, padding: usize, dilation: usize) -> [[usize; 3]; 4] {
    [[1, kernel, kernel], [1, stride, stride], [0, padding, padding], [1, dilation, dilation]]
}

fn shapes() -> Vec<PoolShape> {
    vec![
        pool_shape(3, [1, 28, 28], square(2, 2, 0, 1), false),
        pool_shape(2, [1, 9, 37], square(2, 2, 0, 1), false),
        pool_shape(2, [1, 9, 37], square(2, 2, 0, 1), true),
        pool_shape(5, [1, 20, 41], square(3, 2, 1, 1), false),
        pool_shape(2, [1, 11, 40], square(3, 1, 1, 1), false),
        pool_shape(1, [1, 17, 16], square(3, 3, 1, 1), true),
        pool_shape(1, [1, 17, 16], square(3, 4, 0, 2), true),
        pool_shape(2, [1, 1, 30], [[1, 1, 5], [1, 1, 3], [0, 0, 2], [1, 1, 1]], false),
        pool_shape(2, [6, 7, 8], [[2, 3, 2], [2, 1, 3], [1, 1, 0], [1, 2, 1]], true),
    ]
}

/// For each result of a plane, the input elements of its window.
fn windows(s: &PoolShape) -> Vec<Vec<usize>> {
    let axis = |a: usize, o: usize| {
        let at = move |k: usize| (o * s.stride[a] + k * s.dilation[a]) as isize - s.padding[a] as isize;
        (0..s.kernel[a]).map(at).filter(move |i| (0..s.input[a] as isize).contains(i)).map(|i| i as usize)
    };
    let mut all = Vec::new();
    for (d, h, w) in results(s.output) {
        let mut window = Vec::new();
        for i in axis(0, d) {
            for j in axis(1, h) {
                window.extend(axis(2, w).map(|k| (i * s.input[1] + j) * s.input[2] + k));
            }
        }
        all.push(window);
    }
    all
}

fn results(output: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    let [depth, height, width] = output;
    (0..depth).flat_map(move |d| (0..height).flat_map(move |h| (0..width).map(move |w| (d, h, w))))
}

/// The index of the first maximum, or of the last NaN.
fn argmax(x: &[f32], window: &[usize]) -> usize {
    let nan = window.iter().rev().find(|&&i| x[i].is_nan());
    *nan.unwrap_or_else(|| window.iter().rev().max_by(|&&i, &&j| x[i].total_cmp(&x[j])).unwrap())
}

fn check_max(s: &PoolShape, x: &[f32]) {
    let (input, output) = (volume(s.input), volume(s.output));
    let mut out = vec![0.0; s.planes * output];
    let mut indices = vec![-1; s.planes * output];
    max_pool(s, x, &mut out, &mut indices);
    let windows = windows(s);
    for p in 0..s.planes {
        let x = &x[p * input..][..input];
        for (i, window) in windows.iter().enumerate() {
            let want = argmax(x, window);
            assert_eq!(indices[p * output + i], want as i64, "result {i} of plane {p} of {s:?}");
            assert_eq!(out[p * output + i].to_bits(), x[want].to_bits());
        }
    }
}

#[test]
fn max_pool_takes_the_first_of_equal_maxima() {
    for_each_isa(|| {
        for s in shapes() {
            check_max(&s, &values(s.planes * volume(s.input)));
        }
    });
}

#[test]
fn max_pool_passes_nan_on_and_finds_the_first_of_minus_infinities() {
    for_each_isa(|| {
        for s in shapes() {
            let mut x = values(s.planes * volume(s.input));
            for (i, v) in x.iter_mut().enumerate() {
                match i % 11 {
                    0 => *v = f32::NAN,
                    5 => *v = f32::INFINITY,
                    _ => {}
                }
            }
            check_max(&s, &x);
            check_max(&s, &vec![f32::NEG_INFINITY; x.len()]);
        }
    });
}

#[test]
fn max_pool_gradients_add_up_where_windows_share_their_maximum() {
    let s = pool_shape(2, [1, 3, 3], square(2, 1, 0, 1), false);
    let x = [0., 0., 0., 0., 9., 0., 0., 0., 0., 5., 0., 0., 0., 0., 0., 0., 0., 7.];
    let (mut out, mut indices, mut grad_x) = ([0f64; 8], [0i64; 8], [1f64; 18]);
    max_pool(&s, &x, &mut out, &mut indices);
    max_pool_backward(9, 4, &[1., 2., 3., 4., 5., 6., 7., 8.], &indices, &mut grad_x).unwrap();
    let want = [0., 0., 0., 0., 10., 0., 0., 0., 0., 5., 6., 0., 7., 0., 0., 0., 0., 8.];
    assert_eq!(grad_x, want);
}

fn divisors(s: &PoolShape) -> Vec<(Divisor, Vec<f32>)> {
    let clipped: Vec<f32> = windows(s).iter().map(|w| w.len().max(1) as f32).collect();
    let padded = results(s.output)
        .map(|(d, h, w)| {
            let size = |a: usize, o: usize| {
                let start = o * s.stride[a];
                (start + s.kernel[a]).min(s.input[a] + 2 * s.padding[a]) - start
            };
            (size(0, d) * size(1, h) * size(2, w)) as f32
        })
        .collect();
    let fixed = vec![-3.0; clipped.len()];
    vec![(Divisor::WithoutPadding, clipped), (Divisor::WithPadding, padded), (Divisor::Fixed(-3), fixed)]
}

#[test]
fn avg_pool_and_its_gradient_match_the_definition_for_each_divisor() {
    for_each_isa(|| {
        for s in shapes().into_iter().filter(|s| s.dilation == [1; 3]) {
            let (input, output) = (volume(s.input), volume(s.output));
            let (x, grad) = (values(s.planes * input), values(s.planes * output + 1)[1..].to_vec());
            for (divisor, by) in divisors(&s) {
                let (mut out, mut grad_x) = (vec![f32::NAN; grad.len()], vec![f32::NAN; x.len()]);
                avg_pool(&s, divisor, &x, &mut out);
                avg_pool_backward(&s, divisor, &grad, &mut grad_x);
                let mut want_grad = vec![0.0; x.len()];
                for p in 0..s.planes {
                    for (i, window) in windows(&s).iter().enumerate() {
                        let sum: f32 = window.iter().map(|&j| x[p * input + j]).sum();
                        assert_eq!(out[p * output + i], sum / by[i], "{divisor:?} of {s:?}");
                        for &j in window {
                            want_grad[p * input + j] += grad[p * output + i] / by[i];
                        }
                    }
                }
                for (g, w) in grad_x.iter().zip(&want_grad) {
                    assert!((g - w).abs() < 1e-5, "gradient for {divisor:?} of {s:?}");
                }
            }
        }
    });
}

/// All pairs of a third of the sizes, in one, two and three dimensions.
fn resizes() -> Vec<ResizeShape> {
    [
        ([1, 1, 10], [1, 1, 4]),
        ([1, 7, 7], [1, 1, 1]),
        ([1, 9, 50], [1, 4, 2]),
        ([1, 3, 5], [1, 6, 8]),
        ([4, 5, 6], [3, 5, 4]),
    ]
    .map(|(input, output)| ResizeShape { planes: 2, input, output })
    .to_vec()
}

fn adaptive_windows(s: &ResizeShape) -> Vec<Vec<usize>> {
    let range = |a: usize, o: usize| {
        let ratio = s.input[a] as f64 / s.output[a] as f64;
        (o as f64 * ratio + 1e-9).floor() as usize..((o + 1) as f64 * ratio - 1e-9).ceil() as usize
    };
    let window = |(d, h, w)| {
        let mut window = Vec::new();
        for i in range(0, d) {
            for j in range(1, h) {
                window.extend(range(2, w).map(|k| (i * s.input[1] + j) * s.input[2] + k));
            }
        }
        window
    };
    results(s.output).map(window).collect()
}

#[test]
fn adaptive_avg_pool_and_its_gradient_are_means_over_covered_shares() {
    for s in resizes() {
        let (input, output) = (volume(s.input), volume(s.output));
        let (x, grad) = (values(2 * input), values(2 * output));
        let (mut out, mut grad_x) = (vec![f32::NAN; grad.len()], vec![f32::NAN; x.len()]);
        adaptive_avg_pool(&s, &x, &mut out);
        adaptive_avg_pool_backward(&s, &grad, &mut grad_x);
        let mut want_grad = vec![0.0; x.len()];
        for p in 0..2 {
            for (i, window) in adaptive_windows(&s).iter().enumerate() {
                let mean = window.iter().map(|&j| x[p * input + j]).sum::<f32>() / window.len() as f32;
                assert!((out[p * output + i] - mean).abs() < 1e-5, "{s:?}");
                for &j in window {
                    want_grad[p * input + j] += grad[p * output + i] / window.len() as f32;
                }
            }
        }
        for (g, w) in grad_x.iter().zip(&want_grad) {
            assert!((g - w).abs() < 1e-5, "{s:?}");
        }
    }
}

#[test]
fn adaptive_max_pool_takes_the_first_maximum_or_the_last_nan() {
    for s in resizes() {
        let (input, output) = (volume(s.input), volume(s.output));
        let mut x = values(2 * input);
        x.iter_mut().step_by(13).for_each(|v| *v = f32::NAN);
        let (mut out, mut indices) = (vec![0.0; 2 * output], vec![-1; 2 * output]);
        adaptive_max_pool(&s, &x, &mut out, &mut indices);
        for p in 0..2 {
            let x = &x[p * input..][..input];
            for (i, window) in adaptive_windows(&s).iter().enumerate() {
                let want = argmax(x, window);
                assert_eq!(indices[p * output + i], want as i64, "{s:?}");
                assert_eq!(out[p * output + i].to_bits(), x[want].to_bits());
            }
        }
    }
}

#[test]
fn nearest_interpolation_copies_and_its_gradient_adds_up() {
    let s = ResizeShape { planes: 2, input: [1, 2, 3], output: [1, 4, 5] };
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let mut out = vec![0.0; 40];
    interpolate_nearest(&s, [None; 3], &x, &mut out);
    let first = [0., 0., 1., 1., 2., 0., 0., 1., 1., 2., 3., 3., 4., 4., 5., 3., 3., 4., 4., 5.];
    assert_eq!(out[..20], first);
    assert_eq!(out[20..], first.map(|v| v + 6.0));
    let mut grad_x = vec![9.0; 12];
    interpolate_nearest_backward(&s, [None; 3], &[1.0; 40], &mut grad_x);
    assert_eq!(grad_x, [4., 4., 2., 4., 4., 2., 4., 4., 2., 4., 4., 2.]);
}

#[test]
fn nearest_interpolation_follows_the_scale_factor_rather_than_the_sizes() {
    let s = ResizeShape { planes: 1, input: [1, 1, 4], output: [1, 1, 9] };
    let x = [0f32, 1., 2., 3.];
    let mut out = [0f32; 9];
    interpolate_nearest(&s, [None, None, Some(2.3)], &x, &mut out);
    assert_eq!(out, [0., 0., 0., 1., 1., 2., 2., 3., 3.]);
    interpolate_nearest(&s, [None; 3], &x, &mut out);
    assert_eq!(out, [0., 0., 0., 1., 1., 2., 2., 3., 3.]);
    interpolate_nearest(&s, [None, None, Some(3.0)], &x, &mut out);
    assert_eq!(out, [0., 0., 0., 1., 1., 1., 2., 2., 2.]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let _settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    let before = num_threads();
    let s = pool_shape(70, [1, 24, 24], square(3, 1, 1, 1), false);
    let x: Vec<f32> = (0..70 * 576).map(|i| (i as f32 * 0.7).sin()).collect();
    let results = [1, 2, 5].map(|threads| {
        set_num_threads(threads);
        let (mut out, mut grad_x) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        avg_pool(&s, Divisor::WithoutPadding, &x, &mut out);
        avg_pool_backward(&s, Divisor::WithoutPadding, &out, &mut grad_x);
        grad_x
    });
    set_num_threads(before);
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}
