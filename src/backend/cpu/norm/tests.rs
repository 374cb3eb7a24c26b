//! Compares normalizations with plain loops, and their gradients with finite differences.

use super::*;
use crate::backend::cpu::reduce::tests::{noise, on_each_isa};

/// A forward pass as a function of input, weight and bias.
type Forward<'a> = &'a dyn Fn(&[f64], &[f64], &[f64]) -> Vec<f64>;

/// Compares gradients with central differences of `sum(out * dy)`.
fn check_gradients(forward: Forward, at: [&[f64]; 3], dy: &[f64], grads: [&[f64]; 3]) {
    const STEP: f64 = 1e-5;
    for (which, grad) in grads.iter().enumerate() {
        for i in (0..at[which].len()).step_by(at[which].len() / 17 + 1) {
            let value = |step: f64| {
                let mut moved = at.map(<[f64]>::to_vec);
                moved[which][i] += step;
                let [x, w, b] = &moved;
                forward(x, w, b).iter().zip(dy).map(|(o, g)| o * g).sum::<f64>()
            };
            let want = (value(STEP) - value(-STEP)) / (2.0 * STEP);
            assert!(
                (grad[i] - want).abs() < 1e-6 * (1.0 + want.abs()),
                "argument {which}, element {i}: {} for {want}",
                grad[i]
            );
        }
    }
}

/// Normalizes every channel with its own statistics, and returns them.
fn batch_norm_of_itself<T: Number>(
    x: &[T],
    n: usize,
    c: usize,
    inner: usize,
    weight: Option<&[T]>,
    bias: Option<&[T]>,
    eps: f64,
    out: &mut [T],
    mean: &mut [T],
    var: &mut [T],
    rstd: &mut [T],
) {
    channel_stats(x, n, c, inner, mean, var);
    rstd.iter_mut().zip(var.iter()).for_each(|(r, &v)| *r = reciprocal_deviation(v, T::of(eps)));
    batch_norm(x, c, inner, mean, rstd, weight, bias, out);
}

#[test]
fn layer_norm_normalises_and_its_gradients_are_right() {
    on_each_isa(|| {
        for (rows, n) in [(1, 1), (3, 5), (130, 33), (2, 700)] {
            let (x, w, b, dy) = (noise(rows * n, 1), noise(n, 2), noise(n, 3), noise(rows * n, 4));
            let (mut mean, mut rstd, mut out) = (vec![0.0; rows], vec![0.0; rows], x.clone());
            layer_norm(&x, n, Some(&w), Some(&b), 1e-5, &mut out, &mut mean, &mut rstd);
            for r in 0..rows {
                let row = &x[r * n..(r + 1) * n];
                let m = row.iter().sum::<f64>() / n as f64;
                let v = row.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64;
                for j in 0..n {
                    let want = (row[j] - m) / (v + 1e-5).sqrt() * w[j] + b[j];
                    assert!((out[r * n + j] - want).abs() < 1e-12);
                }
            }
            let (mut dx, mut dw, mut db) = (x.clone(), w.clone(), b.clone());
            layer_norm_backward(&dy, &x, n, &mean, &rstd, Some(&w), &mut dx, &mut dw, &mut db);
            let forward = |x: &[f64], w: &[f64], b: &[f64]| {
                let (mut out, mut mean, mut rstd) = (x.to_vec(), vec![0.0; rows], vec![0.0; rows]);
                layer_norm(x, n, Some(w), Some(b), 1e-5, &mut out, &mut mean, &mut rstd);
                out
            };
            // A row of one element has a constant result, and its finite difference is only noise.
            if n > 1 {
                check_gradients(&forward, [&x, &w, &b], &dy, [&dx, &dw, &db]);
            }
        }
    });
}

/// Samples, channels, inner: runs, and columns of several lengths.
const IMAGES: [[usize; 3]; 5] = [[3, 4, 50], [70, 6, 1], [5, 3, 9], [2, 2, 16], [1, 1, 40]];

#[test]
fn batch_norm_gives_channels_mean_zero_and_variance_one() {
    on_each_isa(|| {
        for [n, c, inner] in IMAGES {
            let x: Vec<f32> = noise(n * c * inner, 1).iter().map(|&v| 100.0 + v as f32).collect();
            let (mut mean, mut var, mut rstd) = (vec![0.0; c], vec![0.0; c], vec![0.0; c]);
            let mut out = x.clone();
            batch_norm_of_itself(&x, n, c, inner, None, None, 0.0, &mut out, &mut mean, &mut var, &mut rstd);
            for (ch, &got) in mean.iter().enumerate() {
                let channel = (0..n * inner).map(|i| (i / inner * c + ch) * inner + i % inner);
                let count = (n * inner) as f64;
                let m = channel.clone().map(|p| out[p] as f64).sum::<f64>() / count;
                let v = channel.clone().map(|p| (out[p] as f64 - m).powi(2)).sum::<f64>() / count;
                assert!(m.abs() < 1e-3 && (v - 1.0).abs() < 1e-3, "{n} {c} {inner}: mean {m} variance {v}");
                let plain = channel.map(|p| x[p] as f64).sum::<f64>() / count;
                assert!((got as f64 - plain).abs() < 1e-4);
            }
        }
    });
}

#[test]
fn batch_norm_gradients_are_right_in_training_and_evaluation() {
    for [n, c, inner] in IMAGES {
        let len = n * c * inner;
        let (x, w, b, dy) = (noise(len, 1), noise(c, 2), noise(c, 3), noise(len, 4));
        for training in [true, false] {
            let (mut mean, mut var, mut rstd) = (noise(c, 5), vec![0.0; c], vec![1.5; c]);
            let (mut dx, mut dw, mut db) = (x.clone(), w.clone(), b.clone());
            if training {
                let mut out = x.clone();
                batch_norm_of_itself(
                    &x,
                    n,
                    c,
                    inner,
                    Some(&w),
                    Some(&b),
                    1e-5,
                    &mut out,
                    &mut mean,
                    &mut var,
                    &mut rstd,
                );
            }
            batch_norm_backward(
                &dy,
                &x,
                n,
                c,
                inner,
                &mean,
                &rstd,
                Some(&w),
                training,
                &mut dx,
                &mut dw,
                &mut db,
            );
            let forward = |x: &[f64], w: &[f64], b: &[f64]| {
                let mut out = x.to_vec();
                if training {
                    let (mut mean, mut var, mut rstd) = (vec![0.0; c], vec![0.0; c], vec![0.0; c]);
                    batch_norm_of_itself(
                        x,
                        n,
                        c,
                        inner,
                        Some(w),
                        Some(b),
                        1e-5,
                        &mut out,
                        &mut mean,
                        &mut var,
                        &mut rstd,
                    );
                } else {
                    batch_norm(x, c, inner, &mean, &rstd, Some(w), Some(b), &mut out);
                }
                out
            };
            check_gradients(&forward, [&x, &w, &b], &dy, [&dx, &dw, &db]);
        }
    }
}

#[test]
fn group_norm_gradients_are_right_for_any_number_of_groups() {
    for ([n, c, inner], groups) in [([3, 4, 50], 2), ([2, 6, 1], 2), ([5, 3, 9], 1), ([2, 4, 16], 4)] {
        let len = n * c * inner;
        let (x, w, b, dy) = (noise(len, 1), noise(c, 2), noise(c, 3), noise(len, 4));
        let forward_with = |x: &[f64], w: &[f64], b: &[f64], mean: &mut [f64], rstd: &mut [f64]| {
            let mut out = x.to_vec();
            group_norm(x, n, c, inner, groups, Some(w), Some(b), 1e-5, &mut out, mean, rstd);
            out
        };
        let (mut mean, mut rstd) = (vec![0.0; n * groups], vec![0.0; n * groups]);
        forward_with(&x, &w, &b, &mut mean, &mut rstd);
        let (mut dx, mut dw, mut db) = (x.clone(), w.clone(), b.clone());
        group_norm_backward(&dy, &x, n, c, inner, groups, &mean, &rstd, Some(&w), &mut dx, &mut dw, &mut db);
        let forward = |x: &[f64], w: &[f64], b: &[f64]| {
            forward_with(x, w, b, &mut vec![0.0; n * groups], &mut vec![0.0; n * groups])
        };
        check_gradients(&forward, [&x, &w, &b], &dy, [&dx, &dw, &db]);
    }
}

#[test]
fn group_norm_of_one_group_is_layer_norm_of_the_sample() {
    let (n, c, inner) = (3, 4, 25);
    let x = noise(n * c * inner, 9);
    let (mut a, mut b) = (x.clone(), x.clone());
    let (mut mean, mut rstd) = ([0.0; 3], [0.0; 3]);
    group_norm(&x, n, c, inner, 1, None, None, 1e-5, &mut a, &mut mean, &mut rstd);
    layer_norm(&x, c * inner, None, None, 1e-5, &mut b, &mut mean, &mut rstd);
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12));
}

#[test]
fn weight_gradients_do_not_depend_on_the_number_of_threads() {
    use crate::backend::cpu::parallel::{num_threads, set_num_threads};
    let (rows, n) = (500, 128);
    let f = |seed| noise(rows * n, seed).iter().map(|&v| v as f32).collect::<Vec<f32>>();
    let (x, dy, threads) = (f(1), f(2), num_threads());
    let results = [1, 2, 3].map(|t| {
        set_num_threads(t);
        let (mut dx, mut dw, mut db) = (x.clone(), vec![0.0; n], vec![0.0; n]);
        let (mean, rstd) = (vec![0.1; rows], vec![1.7; rows]);
        layer_norm_backward(&dy, &x, n, &mean, &rstd, None, &mut dx, &mut dw, &mut db);
        (dx, dw, db)
    });
    set_num_threads(threads);
    assert!(results[0] == results[1] && results[0] == results[2]);
}
