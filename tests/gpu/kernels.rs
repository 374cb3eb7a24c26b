//! Compares each of the kernels among which an adapter chooses with the CPU.

use rgrad::backend::conv::{ConvShape, Product};
use rgrad::backend::factor::Factor;
use rgrad::backend::gpu::conv;
use rgrad::backend::gpu::factor::{How, factor_by};
use rgrad::backend::gpu::matmul::{DIRECT, Kernel, PAIRED, run};
use rgrad::backend::gpu::norm::{lanes_backward_by, lanes_by};
use rgrad::backend::gpu::softmax::{Walk, softmax_backward_by, softmax_by};
use rgrad::backend::norm::Lanes;
use rgrad::backend::softmax::{self, Kind, ReduceDims};
use rgrad::ops::matmul;
use rgrad::{DType, Device, Tensor};

use crate::families::numbers;
use crate::{GPU, near, needs_gpu};

/// The memory layout of a `rows` × `columns` matrix.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Rows,
    Columns,
    /// Every other column of a wider matrix.
    Apart,
    /// With a storage offset.
    Behind,
}

fn matrix(batch: usize, rows: usize, columns: usize, seed: u64, lie: Lie) -> Tensor {
    let turned = |t: Tensor| t.with_layout(t.layout().transpose(1, 2));
    match lie {
        Lie::Rows => numbers(&[batch, rows, columns], seed),
        Lie::Columns => turned(numbers(&[batch, columns, rows], seed)),
        Lie::Apart => {
            let wide = numbers(&[batch, rows, 2 * columns], seed);
            wide.with_layout(wide.layout().slice(2, 1, columns, 2))
        }
        Lie::Behind => {
            let long = numbers(&[batch + 1, rows, columns + 4], seed);
            let whole = long.layout().slice(0, 1, batch, 1);
            long.with_layout(whole.slice(2, 4, columns, 1))
        }
    }
}

#[test]
fn every_kernel_gives_the_numbers_of_the_cpu_for_odd_shapes_and_strides() {
    needs_gpu!();
    let wide = rgrad::backend::gpu::device::gpu(0).is_ok_and(|gpu| gpu.caps.int64);
    let paired = PAIRED.into_iter().filter(|_| wide);
    let kernels = DIRECT.into_iter().chain(paired).chain([Kernel::Tiled(64), Kernel::Tiled(128)]);
    let shapes =
        [(1, 1, 1, 1), (2, 5, 3, 7), (1, 33, 20, 36), (1, 130, 36, 68), (3, 8, 17, 4), (2, 24, 40, 16)];
    let lies = [
        (Lie::Rows, Lie::Rows),
        (Lie::Rows, Lie::Columns),
        (Lie::Columns, Lie::Rows),
        (Lie::Apart, Lie::Columns),
        (Lie::Behind, Lie::Behind),
    ];
    for kernel in kernels {
        for (batch, m, k, n) in shapes {
            for (left, right) in lies {
                let (a, b) = (matrix(batch, m, k, 1, left), matrix(batch, k, n, 2, right));
                let wanted = matmul::bmm(&a, &b).unwrap();
                let out = Tensor::empty_on([batch, m, n], DType::F32, GPU).unwrap();
                // Copies the whole storage, to keep the strides of views.
                let there = |t: &Tensor| {
                    let all =
                        t.with_layout(rgrad::layout::Layout::contiguous([t.storage().len() / 4].into()));
                    all.on_device(GPU).unwrap().with_layout(t.layout().clone())
                };
                run(kernel, there(&a).raw(), there(&b).raw(), None, out.raw()).unwrap();
                near(&out, &wanted, 8.0, &format!("{kernel:?} of {batch} {m} {k} {n}, {left:?} {right:?}"));
            }
        }
    }
}

#[test]
fn a_product_of_great_depth_and_few_results_is_summed_in_segments() {
    needs_gpu!();
    let (a, b, bias) = (numbers(&[3, 5000], 1), numbers(&[2, 5000], 2), numbers(&[2], 3));
    let there = [&a, &b, &bias].map(|t| t.on_device(GPU).unwrap());
    let found = matmul::linear(&there[0], &there[1], Some(&there[2])).unwrap();
    near(&found, &matmul::linear(&a, &b, Some(&bias)).unwrap(), 60.0, "linear");
}

/// A convolution of `kernel` over `input`, and its output sizes.
fn windows(
    n: usize,
    channels: [usize; 2],
    groups: usize,
    input: [usize; 3],
    kernel: [usize; 3],
    [stride, padding, dilation]: [[usize; 3]; 3],
) -> ConvShape {
    let output = std::array::from_fn(|d| {
        (input[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1
    });
    let [c_in, c_out] = channels;
    ConvShape { n, c_in, c_out, groups, input, kernel, stride, padding, dilation, output, winograd: true }
}

#[test]
fn every_kernel_of_a_convolution_gives_the_numbers_of_the_cpu() {
    needs_gpu!();
    let plain = [[1; 3], [0; 3], [1; 3]];
    let shapes = [
        windows(1, [1, 1], 1, [1, 1, 1], [1, 1, 1], plain),
        windows(2, [3, 5], 1, [1, 7, 6], [1, 3, 3], plain),
        windows(3, [8, 70], 1, [1, 9, 11], [1, 3, 2], [[1, 2, 1], [0, 1, 2], [1, 1, 2]]),
        windows(2, [6, 9], 3, [4, 5, 6], [2, 3, 2], [[2, 1, 2], [1, 1, 0], [1, 2, 1]]),
        windows(9, [66, 12], 2, [1, 1, 5], [1, 1, 3], [[1; 3], [0, 0, 1], [1; 3]]),
        windows(2, [4, 4], 4, [1, 8, 8], [1, 5, 5], [[1, 3, 3], [0, 2, 2], [1; 3]]),
        // More positions than one partial sum of a weight gradient has.
        windows(5, [4, 6], 2, [1, 18, 17], [1, 3, 3], [[1; 3], [0, 1, 1], [1; 3]]),
    ];
    for s in shapes {
        let sizes = |c: usize, of: [usize; 3]| [s.n, c, of[0], of[1], of[2]];
        let x = numbers(&sizes(s.c_in, s.input), 1);
        let y = numbers(&sizes(s.c_out, s.output), 2);
        let [d, h, w] = s.kernel;
        let weight = numbers(&[s.c_out, s.c_in / s.groups, d, h, w], 3);
        let bias = numbers(&[s.c_out], 4);
        let there = |t: &Tensor| t.on_device(GPU).unwrap();
        for (which, a, b, result) in [
            (Product::Output, &x, &weight, &y),
            (Product::Input, &y, &weight, &x),
            (Product::Weight, &y, &x, &weight),
        ] {
            let bias = (which == Product::Output).then_some(&bias);
            let wanted = result.empty_like().unwrap();
            rgrad::backend::conv::product(which, &s, a.raw(), b.raw(), bias.map(Tensor::raw), wanted.raw())
                .unwrap();
            let (a, b, bias) = (there(a), there(b), bias.map(there));
            for kernel in [conv::Kernel::Direct, conv::Kernel::Tiled(64), conv::Kernel::Tiled(128)] {
                let out = there(result).empty_like().unwrap();
                let bias = bias.as_ref().map(Tensor::raw);
                conv::run(kernel, which, &s, a.raw(), b.raw(), bias, out.raw()).unwrap();
                near(&out, &wanted, 40.0, &format!("{kernel:?}, {which:?} of {s:?}"));
            }
        }
    }
}

#[test]
fn a_softmax_is_the_same_by_an_invocation_and_by_a_workgroup() {
    needs_gpu!();
    for (outer, n) in [(3, 1), (5, 64), (2, 700)] {
        let d = ReduceDims { outer, n, inner: 1 };
        let (x, g) = (numbers(&[outer, n], 1), numbers(&[outer, n], 2));
        let there = [&x, &g].map(|t| t.on_device(GPU).unwrap());
        for kind in [Kind::Softmax, Kind::LogSoftmax] {
            let (y, dx) = (x.empty_like().unwrap(), x.empty_like().unwrap());
            softmax::softmax(kind, x.raw(), d, y.raw()).unwrap();
            softmax::softmax_backward(kind, g.raw(), y.raw(), d, dx.raw()).unwrap();
            for walk in [Walk::Alone, Walk::Together] {
                let found = [0, 1].map(|_| there[0].empty_like().unwrap());
                softmax_by(walk, kind, there[0].raw(), d, found[0].raw()).unwrap();
                softmax_backward_by(walk, kind, there[1].raw(), found[0].raw(), d, found[1].raw()).unwrap();
                near(&found[0], &y, 2.0, &format!("{kind:?} of {outer} × {n}, {walk:?}"));
                near(&found[1], &dx, 2.0, &format!("gradient of {kind:?} of {outer} × {n}, {walk:?}"));
            }
        }
    }
}

#[test]
fn a_norm_is_the_same_by_an_invocation_and_by_a_workgroup() {
    needs_gpu!();
    // Layer normalization, and groups of two channels with three elements each.
    for (count, n, inner, groups) in [(5, 700, 1, 1), (3, 1, 1, 1), (70, 6, 3, 2)] {
        let d = Lanes { count, n, inner, groups };
        let weights = n * groups / inner;
        let tensors = [(&[count, n][..], 1), (&[count, n], 2), (&[weights], 3), (&[weights], 4)];
        let [x, g, w, b] = tensors.map(|(shape, seed)| numbers(shape, seed).on_device(GPU).unwrap());
        let [alone, together] = [Walk::Alone, Walk::Together].map(|walk| {
            let like = |t: &Tensor, shape: &[usize]| t.new_empty(shape).unwrap();
            let (y, mean, rstd, dx) =
                (like(&x, &[count, n]), like(&x, &[count]), like(&x, &[count]), like(&x, &[count, n]));
            let (affine, out) = ([Some(w.raw()), Some(b.raw())], [y.raw(), mean.raw(), rstd.raw()]);
            lanes_by(walk, x.raw(), affine, 1e-5, d, out).unwrap();
            let stats = [mean.raw(), rstd.raw()];
            lanes_backward_by(walk, g.raw(), x.raw(), stats, Some(w.raw()), d, dx.raw()).unwrap();
            [y, mean, rstd, dx].map(|t| t.on_device(Device::Cpu).unwrap())
        });
        for (a, t) in alone.iter().zip(&together) {
            near(t, a, 8.0, &format!("{count} lanes of {n}"));
        }
    }
}

#[test]
fn a_factorization_is_the_same_whoever_has_the_matrix() {
    needs_gpu!();
    // A symmetric, diagonally dominant matrix.
    let n = 19;
    let beside = numbers(&[n, n], 1).to_vec::<f32>();
    let element = |i: usize| {
        let (row, column) = (i / n % n, i % n);
        beside[row.min(column) * n + row.max(column)] + if row == column { (n + row) as f32 } else { 0.0 }
    };
    let a = Tensor::from_slice(&(0..2 * n * n).map(element).collect::<Vec<f32>>(), [2, n, n]).unwrap();
    let kinds = [
        Factor::Solve { k: 5, lenient: false },
        Factor::Triangular { k: 300, upper: true, unit: false },
        Factor::Triangular { k: 5, upper: false, unit: true },
        Factor::Determinant,
        Factor::Cholesky,
        Factor::Qr { m: n, q: n, r: n },
        Factor::Eigh,
    ];
    for what in kinds {
        let found =
            [(Walk::Alone, true), (Walk::Alone, false), (Walk::Together, true), (Walk::Together, false)].map(
                |(walk, whole)| {
                    let there = a.on_device(GPU).unwrap();
                    let out = numbers(&[2, what.each(n)], 2).on_device(GPU).unwrap();
                    factor_by(How { walk, whole }, "test", what, n, there.raw(), out.raw()).unwrap();
                    out.on_device(Device::Cpu).unwrap()
                },
            );
        for other in &found[1..] {
            near(other, &found[0], 10.0, &format!("{what:?}"));
        }
    }
}
