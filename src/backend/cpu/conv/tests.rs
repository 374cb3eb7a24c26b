use super::*;
use crate::backend::cpu::parallel::set_num_threads;
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};
use std::sync::Mutex;

/// Locked by tests that change the instruction set or the number of threads.
pub(super) static SETTINGS: Mutex<()> = Mutex::new(());

/// Reproducible values between -1 and 1.
fn values(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

#[derive(Clone, Copy)]
pub(super) struct Geometry {
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

fn geometry(kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3], dilation: [usize; 3]) -> Geometry {
    Geometry { kernel, stride, padding, dilation }
}

pub(super) fn square(kernel: usize, stride: usize, padding: usize, dilation: usize) -> Geometry {
    geometry([1, kernel, kernel], [1, stride, stride], [0, padding, padding], [1, dilation, dilation])
}

pub(super) fn shape(
    n: usize,
    c_in: usize,
    c_out: usize,
    groups: usize,
    input: [usize; 3],
    g: Geometry,
) -> ConvShape {
    let Geometry { kernel, stride, padding, dilation } = g;
    let output =
        [0, 1, 2].map(|a| (input[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1);
    ConvShape { n, c_in, c_out, groups, input, kernel, stride, padding, dilation, output, winograd: true }
}

/// Calls `f` with the indices of input, weight and output for every multiplication of the convolution.
fn for_each_product(s: &ConvShape, mut f: impl FnMut(usize, usize, usize)) {
    let (c_in, c_out) = (s.c_in / s.groups, s.c_out / s.groups);
    let all = |e: [usize; 3]| {
        (0..e[0]).flat_map(move |d| (0..e[1]).flat_map(move |h| (0..e[2]).map(move |w| [d, h, w])))
    };
    let flat = |at: [usize; 3], e: [usize; 3]| (at[0] * e[1] + at[1]) * e[2] + at[2];
    for n in 0..s.n {
        for co in 0..s.c_out {
            for ci in 0..c_in {
                for o in all(s.output) {
                    for k in all(s.kernel) {
                        let i = [0, 1, 2]
                            .map(|a| (o[a] * s.stride[a] + k[a] * s.dilation[a]).wrapping_sub(s.padding[a]));
                        if (0..3).all(|a| i[a] < s.input[a]) {
                            f(
                                (n * s.c_in + co / c_out * c_in + ci) * s.input_plane() + flat(i, s.input),
                                (co * c_in + ci) * s.taps() + flat(k, s.kernel),
                                (n * s.c_out + co) * s.output_plane() + flat(o, s.output),
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Forward, input gradient, weight gradient and bias gradient.
fn all_four<T: ConvElem>(s: &ConvShape, x: &[f64], w: &[f64], bias: &[f64], grad: &[f64]) -> [Vec<f64>; 4] {
    let cast = |v: &[f64]| v.iter().map(|&v| T::of(v)).collect::<Vec<T>>();
    let (x, w, bias, grad) = (cast(x), cast(w), cast(bias), cast(grad));
    // The previous content of the outputs must not matter.
    let mut results = [grad.len(), x.len(), w.len(), bias.len()].map(|len| vec![T::NAN; len]);
    let [out, grad_x, grad_w, grad_b] = &mut results;
    forward(s, &x, &w, Some(&bias), out);
    backward_input(s, &grad, &w, grad_x);
    in_pieces(out, |out| forward_to(s, &x, &w, Some(&bias), out));
    in_pieces(grad_x, |grad_x| backward_input_to(s, &grad, &w, grad_x));
    backward_weight(s, &grad, &x, grad_w);
    backward_bias(s, &grad, grad_b);
    results.map(|v| v.iter().map(|v| v.to_f64()).collect())
}

/// Whether the pieces that `compute` gives are these results, to the bit.
fn in_pieces<T: ConvElem>(results: &[T], compute: impl FnOnce(Destination<T>)) {
    let found = Mutex::new(vec![None; results.len()]);
    compute(Destination::Pieces(results.len(), &|first, piece| {
        let mut found = found.lock().unwrap();
        for (found, v) in found[first..].iter_mut().zip(piece) {
            assert_eq!(found.replace(*v), None, "given twice");
        }
    }));
    let bits = |v: T| v.to_f64().to_bits();
    let found = found.into_inner().unwrap();
    assert!(found.iter().zip(results).all(|(found, v)| found.is_some_and(|found| bits(found) == bits(*v))));
}

fn naive(s: &ConvShape, x: &[f64], w: &[f64], bias: &[f64], grad: &[f64]) -> [Vec<f64>; 4] {
    let channel = |o: usize| o / s.output_plane() % s.c_out;
    let mut out: Vec<f64> = (0..grad.len()).map(|o| bias[channel(o)]).collect();
    let (mut grad_x, mut grad_w, mut grad_b) =
        (vec![0.0; x.len()], vec![0.0; w.len()], vec![0.0; bias.len()]);
    for_each_product(s, |i, k, o| {
        out[o] += x[i] * w[k];
        grad_x[i] += grad[o] * w[k];
        grad_w[k] += grad[o] * x[i];
    });
    for (o, g) in grad.iter().enumerate() {
        grad_b[channel(o)] += g;
    }
    [out, grad_x, grad_w, grad_b]
}

pub(super) fn inputs(s: &ConvShape) -> [Vec<f64>; 4] {
    [
        values(s.n * s.c_in * s.input_plane(), 1),
        values(s.c_out * (s.c_in / s.groups) * s.taps(), 2),
        values(s.c_out, 3),
        values(s.n * s.c_out * s.output_plane(), 4),
    ]
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str, s: &ConvShape) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}[{i}]: {g} instead of {w} for {s:?}");
    }
}

fn check(shapes: &[ConvShape]) {
    let _settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        if force_isa(isa) != isa {
            continue;
        }
        for s in shapes {
            let [x, w, bias, grad] = inputs(s);
            let want = naive(s, &x, &w, &bias, &grad);
            let single = all_four::<f32>(s, &x, &w, &bias, &grad);
            let double = all_four::<f64>(s, &x, &w, &bias, &grad);
            for (i, what) in
                ["forward", "input gradient", "weight gradient", "bias gradient"].iter().enumerate()
            {
                assert_close(&single[i], &want[i], 3e-5, what, s);
                assert_close(&double[i], &want[i], 1e-12, what, s);
            }
        }
    }
    force_isa(best_isa());
}

#[test]
fn two_dimensional_convolutions_match_the_definition() {
    check(&[
        shape(1, 1, 1, 1, [1, 1, 1], square(1, 1, 0, 1)),
        shape(2, 1, 6, 1, [1, 32, 32], square(5, 1, 0, 1)),
        shape(3, 6, 16, 1, [1, 14, 14], square(5, 1, 0, 1)),
        shape(2, 16, 24, 1, [1, 14, 14], square(3, 1, 1, 1)),
        shape(1, 3, 8, 1, [1, 17, 23], square(7, 2, 3, 1)),
        shape(2, 8, 33, 1, [1, 7, 7], square(3, 1, 1, 1)),
        shape(1, 5, 7, 1, [1, 9, 40], square(2, 1, 0, 1)),
        shape(1, 4, 3, 1, [1, 50, 60], square(3, 1, 1, 1)),
    ]);
}

#[test]
fn pointwise_convolutions_match_the_definition() {
    check(&[
        shape(2, 24, 40, 1, [1, 6, 5], square(1, 1, 0, 1)),
        shape(2, 16, 8, 1, [1, 9, 8], square(1, 2, 0, 1)),
        shape(3, 5, 70, 1, [2, 3, 7], square(1, 1, 0, 1)),
        shape(5, 12, 20, 1, [1, 1, 1], square(1, 1, 0, 1)),
        shape(1, 9, 4, 1, [1, 1, 1], square(1, 2, 0, 1)),
        shape(2, 8, 12, 4, [1, 6, 5], square(1, 1, 0, 1)),
        shape(8, 30, 50, 1, [1, 7, 7], square(1, 1, 0, 1)),
        shape(1, 12, 20, 1, [1, 50, 50], square(1, 1, 0, 1)),
        shape(1, 3, 2, 1, [1, 4, 4], square(1, 3, 2, 1)),
    ]);
}

#[test]
fn strides_dilations_and_paddings_of_any_size_match_the_definition() {
    check(&[
        shape(1, 2, 3, 1, [1, 13, 11], square(3, 2, 1, 2)),
        shape(1, 2, 3, 1, [1, 13, 11], square(3, 3, 4, 1)),
        shape(2, 2, 2, 1, [1, 16, 15], square(2, 3, 0, 3)),
        shape(1, 2, 2, 1, [1, 12, 12], square(4, 2, 3, 3)),
        shape(1, 2, 2, 1, [1, 4, 4], square(2, 1, 5, 1)),
        shape(1, 2, 5, 1, [1, 11, 19], geometry([1, 3, 2], [1, 1, 4], [0, 2, 0], [1, 2, 5])),
        shape(1, 1, 1, 1, [1, 10, 10], square(1, 4, 0, 1)),
    ]);
}

#[test]
fn strided_convolutions_of_many_channels_match_the_definition() {
    check(&[
        shape(2, 16, 40, 1, [1, 9, 8], square(3, 2, 1, 1)),
        shape(2, 40, 33, 1, [1, 9, 8], square(1, 2, 0, 1)),
        shape(1, 8, 48, 1, [1, 17, 23], square(5, 3, 4, 2)),
        shape(1, 6, 32, 1, [5, 6, 7], geometry([3, 3, 3], [2, 1, 2], [1, 0, 1], [1, 2, 1])),
        shape(3, 20, 35, 1, [1, 1, 60], geometry([1, 1, 4], [1, 1, 2], [0, 0, 1], [1, 1, 1])),
        // A stride far larger than the input, which decides how long the gradient takes.
        shape(1, 16, 32, 1, [1, 9, 8], square(3, 1 << 30, 1, 1)),
        // Rows that have all positions of a panel; single images of few channels; kernels that do not overlap.
        shape(1, 16, 32, 1, [1, 9, 75], square(3, 2, 1, 1)),
        shape(1, 3, 33, 1, [1, 20, 45], square(7, 2, 3, 1)),
        shape(2, 3, 32, 1, [1, 35, 50], square(16, 16, 0, 1)),
        // More terms than a block of the depth.
        shape(1, 130, 32, 1, [1, 5, 5], square(3, 2, 1, 1)),
    ]);
}

#[test]
fn grouped_and_depthwise_convolutions_match_the_definition() {
    check(&[
        shape(2, 6, 9, 3, [1, 8, 9], square(3, 1, 1, 1)),
        shape(2, 10, 10, 10, [1, 12, 12], square(3, 1, 1, 1)),
        shape(1, 5, 15, 5, [1, 10, 12], square(5, 2, 2, 1)),
        shape(1, 32, 32, 2, [1, 6, 6], square(3, 1, 1, 1)),
        shape(3, 9, 9, 9, [1, 7, 7], square(3, 1, 1, 1)),
        shape(1, 8, 8, 8, [1, 40, 37], square(3, 2, 1, 1)),
        shape(2, 8, 8, 8, [1, 19, 21], square(5, 3, 2, 1)),
        shape(1, 8, 8, 8, [1, 9, 20], square(3, 1, 2, 2)),
        shape(1, 8, 8, 8, [1, 12, 11], square(2, 3, 0, 1)),
        shape(2, 9, 9, 9, [1, 9, 20], square(9, 1, 4, 1)),
        shape(1, 8, 8, 8, [1, 3, 3], square(7, 1, 3, 1)),
        shape(2, 8, 8, 8, [1, 7, 9], square(5, 2, 2, 1)),
        shape(2, 8, 8, 8, [4, 5, 6], geometry([2, 3, 3], [2, 1, 2], [1, 0, 1], [1, 1, 1])),
        shape(1, 8, 8, 8, [1, 10, 18], geometry([1, 3, 3], [1, 2, 1], [0, 1, 1], [1, 1, 1])),
        shape(1, 8, 8, 8, [1, 12, 18], geometry([1, 1, 3], [1, 2, 1], [0, 0, 1], [1, 1, 1])),
        shape(0, 8, 8, 8, [1, 5, 5], square(3, 1, 1, 1)),
        // Channels as lanes: blocks that are full and one that is not, in each image.
        shape(3, 21, 21, 21, [1, 7, 9], square(3, 1, 1, 1)),
        shape(2, 40, 40, 40, [1, 15, 14], square(5, 2, 2, 1)),
        shape(2, 19, 19, 19, [3, 6, 5], geometry([3, 2, 3], [1, 2, 3], [1, 0, 2], [1, 1, 2])),
        // A dilation, and with it padding, far beyond the plane.
        shape(1, 9, 9, 9, [1, 5, 5], square(3, 1, 40, 40)),
        shape(1, 9, 9, 9, [1, 5, 5], square(3, 2, 60, 60)),
        // Rows as lanes.
        shape(2, 9, 9, 9, [1, 30, 33], square(3, 1, 1, 1)),
        shape(1, 9, 9, 9, [1, 60, 61], square(3, 2, 1, 1)),
    ]);
}

#[test]
fn one_and_three_dimensional_convolutions_match_the_definition() {
    check(&[
        shape(2, 4, 6, 1, [1, 1, 100], geometry([1, 1, 5], [1, 1, 2], [0, 0, 2], [1, 1, 1])),
        shape(1, 20, 20, 1, [1, 1, 7], geometry([1, 1, 3], [1, 1, 1], [0, 0, 1], [1, 1, 1])),
        shape(2, 3, 4, 1, [5, 6, 7], geometry([3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1])),
        shape(1, 2, 10, 2, [7, 6, 9], geometry([2, 3, 2], [2, 1, 3], [1, 0, 1], [2, 2, 1])),
        // The last tap is shifted by most of a plane.
        shape(1, 1, 1, 1, [10, 11, 12], geometry([4, 4, 4], [1, 1, 1], [4, 4, 4], [3, 3, 3])),
    ]);
}

#[test]
fn many_small_images_share_blocks_of_the_weight_gradient() {
    check(&[
        shape(19, 2, 3, 1, [1, 6, 6], square(3, 1, 1, 1)),
        shape(37, 1, 5, 1, [1, 5, 5], square(3, 2, 0, 1)),
    ]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let _settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    let before = crate::backend::cpu::parallel::num_threads();
    let shapes = [
        shape(2, 32, 64, 1, [1, 14, 14], square(3, 1, 1, 1)),
        shape(9, 3, 8, 1, [1, 20, 20], square(3, 2, 1, 1)),
        shape(1, 16, 16, 16, [1, 40, 40], square(3, 1, 1, 1)),
        shape(3, 40, 40, 40, [1, 9, 9], square(3, 1, 1, 1)),
        shape(9, 64, 128, 1, [1, 14, 14], square(1, 1, 0, 1)),
        shape(3, 128, 256, 1, [1, 28, 28], square(1, 1, 0, 1)),
        shape(2, 32, 64, 1, [1, 28, 28], square(3, 2, 1, 1)),
    ];
    for s in shapes {
        let [x, w, bias, grad] = inputs(&s);
        let results = [1, 2, 5].map(|threads| {
            set_num_threads(threads);
            all_four::<f32>(&s, &x, &w, &bias, &grad)
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    }
    set_num_threads(before);
}

#[test]
fn without_images_the_weight_and_bias_gradients_are_zero() {
    for (input, kernel) in [([1, 5, 5], 3), ([1, 5, 5], 1), ([1, 1, 1], 1)] {
        let s = shape(0, 2, 3, 1, input, square(kernel, 1, kernel / 2, 1));
        let (mut grad_w, mut grad_b) = (vec![1f32; 6 * s.taps()], vec![1f32; 3]);
        forward::<f32>(&s, &[], &vec![0.0; 6 * s.taps()], None, &mut []);
        backward_weight::<f32>(&s, &[], &[], &mut grad_w);
        backward_bias::<f32>(&s, &[], &mut grad_b);
        assert!(grad_w.iter().chain(&grad_b).all(|&g| g == 0.0));
    }
}

#[test]
fn values_in_the_padding_of_a_row_do_not_leak_into_results() {
    // Infinities at the end of each row are adjacent to the padding that tiles compute and discard.
    let s = shape(1, 1, 1, 1, [1, 6, 6], square(3, 1, 0, 1));
    let x: Vec<f32> = (0..36).map(|i| if i % 6 == 5 { f32::INFINITY } else { 1.0 }).collect();
    let mut out = vec![0f32; 16];
    forward(&s, &x, &[1.0; 9], None, &mut out);
    for (i, &v) in out.iter().enumerate() {
        assert_eq!(v, if i % 4 == 3 { f32::INFINITY } else { 9.0 });
    }
}

#[test]
fn infinities_beside_a_row_do_not_leak_into_the_gradient_of_a_depthwise_weight() {
    let s = shape(1, 8, 8, 8, [1, 6, 6], square(3, 1, 0, 1));
    let x: Vec<f32> = (0..288).map(|i| if i % 6 == 5 { f32::INFINITY } else { 1.0 }).collect();
    let mut grad_w = vec![0f32; 72];
    backward_weight(&s, &[1.0; 128], &x, &mut grad_w);
    for (i, &v) in grad_w.iter().enumerate() {
        assert_eq!(v, if i % 3 == 2 { f32::INFINITY } else { 16.0 });
    }
}
