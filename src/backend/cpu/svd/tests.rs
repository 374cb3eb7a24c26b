//! Decompositions by both methods, of matrices that are easy and of those that are not.

use super::*;
use crate::backend::cpu::vectors::{dot, numbers};

/// The decomposition of a column-major matrix with all left vectors.
fn decompose(w: &[f64], rows: usize, columns: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut u, mut s, mut v) =
        (vec![f64::NAN; rows * rows], vec![f64::NAN; columns], vec![f64::NAN; columns * columns]);
    svd(w.to_vec(), rows, columns, Factors { left: &mut u, values: &mut s, right: &mut v });
    (u, s, v)
}

fn expect_orthonormal(vectors: &[f64], n: usize) {
    for (i, a) in vectors.chunks_exact(n).enumerate() {
        for (j, b) in vectors.chunks_exact(n).enumerate() {
            assert!((dot(a, b) - (i == j) as u8 as f64).abs() < 1e-13, "{i} {j}");
        }
    }
}

/// Decomposes a matrix, checks what makes a decomposition, and returns the values.
#[track_caller]
fn check(w: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let (u, s, v) = decompose(w, rows, columns);
    expect_orthonormal(&u, rows);
    expect_orthonormal(&v, columns);
    assert!(s.is_sorted_by(|a, b| a >= b) && s.iter().all(|s| *s >= 0.0), "{s:?}");
    let tolerance = 1e-13 * s[0];
    for (i, x) in w.iter().enumerate() {
        let (row, column) = (i % rows, i / rows);
        let y: f64 = (0..columns).map(|k| u[k * rows + row] * s[k] * v[k * columns + column]).sum();
        assert!((x - y).abs() <= tolerance, "{rows} x {columns}: {x} and {y}");
    }
    // Without vectors and with some of them the values are the same.
    let (mut thin, mut only) = (vec![0.0; columns], vec![0.0; columns]);
    svd(w.to_vec(), rows, columns, Factors { left: &mut [], values: &mut only, right: &mut [] });
    let mut left = vec![0.0; columns * rows];
    svd(w.to_vec(), rows, columns, Factors { left: &mut left, values: &mut thin, right: &mut [] });
    assert!(only == s && thin == s && u.starts_with(&left));
    s
}

const SHAPES: [(usize, usize); 11] =
    [(1, 1), (5, 1), (2, 2), (12, 12), (13, 13), (17, 16), (23, 7), (33, 33), (90, 20), (64, 63), (70, 70)];

#[test]
fn the_factors_are_orthonormal_and_their_product_is_the_matrix() {
    for (rows, columns) in SHAPES {
        check(&numbers(rows * columns, 1), rows, columns);
    }
}

#[test]
fn both_methods_find_the_same_values() {
    for (rows, columns) in SHAPES {
        let w = numbers(rows * columns, 2);
        let mut values = [vec![0.0; columns], vec![0.0; columns]];
        let [first, second] = &mut values;
        jacobi::decompose(
            w.clone(),
            rows,
            columns,
            &mut Factors { left: &mut [], values: first, right: &mut [] },
        );
        let mut out = Factors { left: &mut [], values: second, right: &mut [] };
        assert!(bidiagonal::decompose(&w, rows, columns, &mut out));
        for (a, b) in values[0].iter().zip(&values[1]) {
            assert!((a - b).abs() <= 1e-14 * values[0][0], "{rows} x {columns}: {a} and {b}");
        }
    }
}

#[test]
fn a_matrix_of_deficient_rank_has_whole_bases() {
    let (u, s, v) = decompose(&[1.0, 2.0, 3.0, 2.0, 4.0, 6.0], 3, 2);
    expect_orthonormal(&u, 3);
    expect_orthonormal(&v, 2);
    assert!((s[0] - 70f64.sqrt()).abs() < 1e-14 && s[1] < 1e-14);
    for (rows, columns, rank) in [(40, 40, 1), (40, 40, 5), (50, 30, 29), (20, 20, 0)] {
        let (a, b) = (numbers(rows * rank, 3), numbers(columns * rank, 4));
        let at = |i: usize| (0..rank).map(|k| a[k * rows + i % rows] * b[k * columns + i / rows]).sum();
        let s = check(&(0..rows * columns).map(at).collect::<Vec<f64>>(), rows, columns);
        assert_eq!(s.iter().filter(|x| **x > 1e-13 * s[0]).count(), rank);
    }
}

#[test]
fn the_bases_of_zero_are_the_axes() {
    for n in [2, 20] {
        let mut eye = vec![0.0; n * n];
        eye.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
        assert_eq!(decompose(&vec![0.0; n * n], n, n), (eye.clone(), vec![0.0; n], eye));
    }
}

#[test]
fn huge_and_tiny_elements_keep_their_precision() {
    for scale in [1e-300, 1e300] {
        let (_, s, _) = decompose(&[3.0 * scale, 0.0, 0.0, 4.0 * scale], 2, 2);
        assert!((s[0] / scale - 4.0).abs() < 1e-14 && (s[1] / scale - 3.0).abs() < 1e-14);
        let plain = numbers(20 * 20, 5);
        let s = check(&plain.iter().map(|x| x * scale).collect::<Vec<_>>(), 20, 20);
        for (a, b) in s.iter().zip(check(&plain, 20, 20)) {
            assert!((a / scale - b).abs() < 1e-13);
        }
    }
}

/// The column-major matrix with `d` on the diagonal and `e` above it.
fn bidiagonal(d: &[f64], e: &[f64]) -> Vec<f64> {
    let n = d.len();
    let mut w = vec![0.0; n * n];
    (0..n).for_each(|i| w[i * n + i] = d[i]);
    (0..n - 1).for_each(|i| w[(i + 1) * n + i] = e[i]);
    w
}

#[test]
fn bidiagonal_matrices_with_zeros_and_of_all_magnitudes_converge() {
    let n = 30;
    let falling: Vec<f64> = (0..n).map(|i| 10f64.powi(-i)).collect();
    let rising: Vec<f64> = falling.iter().rev().copied().collect();
    let n = n as usize;
    let ones = vec![1.0; n];
    for at in [0, 1, 14, 28, 29] {
        let mut zero = ones.clone();
        zero[at] = 0.0;
        let s = check(&bidiagonal(&zero, &ones[1..]), n, n);
        assert!(s[n - 1] < 1e-15 && s[n - 2] > 1e-3);
    }
    for d in [&falling, &rising, &ones, &vec![0.0; n]] {
        for e in [&falling[1..], &rising[1..], &ones[1..], &vec![0.0; n - 1], &vec![1e-200; n - 1]] {
            check(&bidiagonal(d, e), n, n);
        }
    }
    // Equal values, and a matrix whose inverse grows exponentially.
    check(&bidiagonal(&ones, &vec![1e-8; n - 1]), n, n);
    let element = |row: usize, column: usize| f64::from(row == column) - f64::from(row < column);
    let grown: Vec<f64> = (0..n * n).map(|i| element(i % n, i / n)).collect();
    check(&grown, n, n);
}
