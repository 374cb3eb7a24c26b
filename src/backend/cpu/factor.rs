//! Factorizations of one matrix and operations based on them, in float64. Matrices are row-major unless stated
//! otherwise.

use super::svd::{dot, subtract};

/// Computes `P A = L U` in place in `a`, `n` by `n`. Returns the sign of P and the position of the first zero on the
/// diagonal of U, counted from 1 (0 if there is none). Applies the same row operations to the rows of `b`, of `k`
/// elements.
fn lu(a: &mut [f64], n: usize, b: &mut [f64], k: usize) -> (f64, usize) {
    let (mut sign, mut zero) = (1.0, 0);
    for step in 0..n {
        let mut best = step;
        for row in step + 1..n {
            if a[row * n + step].abs() > a[best * n + step].abs() {
                best = row;
            }
        }
        if best != step {
            sign = -sign;
            for (matrix, width) in [(&mut *a, n), (&mut *b, k)] {
                let (low, high) = matrix.split_at_mut(best * width);
                low[step * width..][..width].swap_with_slice(&mut high[..width]);
            }
        }
        let pivot = a[step * n + step];
        if pivot == 0.0 {
            zero = if zero == 0 { step + 1 } else { zero };
            continue;
        }
        let (done, rest) = a.split_at_mut((step + 1) * n);
        let row = &done[step * n + step + 1..];
        for other in rest.chunks_exact_mut(n) {
            other[step] /= pivot;
            let factor = other[step];
            subtract(&mut other[step + 1..], factor, row);
        }
    }
    (sign, zero)
}

/// Solves `A X = B` in place in `b`, whose rows have `k` elements, where A is a triangle of `a`.
pub fn triangular(a: &[f64], n: usize, b: &mut [f64], k: usize, upper: bool, unit: bool) {
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let known = if upper { i + 1..n } else { 0..i };
        for j in known {
            let (low, high) = b.split_at_mut(i.max(j) * k);
            let (row, other) = if j > i {
                (&mut low[i * k..][..k], &high[..k])
            } else {
                (&mut high[..k], &low[j * k..][..k])
            };
            subtract(row, a[i * n + j], other);
        }
        if !unit {
            b[i * k..][..k].iter_mut().for_each(|x| *x /= a[i * n + i]);
        }
    }
}

/// Solves `A X = B` in place in `b`, whose rows have `k` elements. Returns the position of the first zero pivot,
/// counted from 1, or 0. With `lenient` a zero pivot is replaced by a tiny one.
pub fn solve(a: &mut [f64], n: usize, b: &mut [f64], k: usize, lenient: bool) -> f64 {
    let (_, zero) = lu(a, n, b, k);
    if lenient {
        a.iter_mut().step_by(n + 1).filter(|x| **x == 0.0).for_each(|x| *x = f64::EPSILON);
    }
    triangular(a, n, b, k, false, true);
    triangular(a, n, b, k, true, false);
    zero as f64
}

/// The determinant, its sign, and the logarithm of its absolute value.
pub fn determinant(a: &mut [f64], n: usize) -> [f64; 3] {
    let (sign, _) = lu(a, n, &mut [], 0);
    let diagonal = || a.iter().step_by(n + 1);
    let signs = diagonal().map(|x| if *x == 0.0 || x.is_nan() { 0.0 } else { x.signum() });
    [
        sign * diagonal().product::<f64>(),
        sign * signs.product::<f64>(),
        diagonal().map(|x| x.abs().ln()).sum(),
    ]
}

/// Computes `A = L Lᵀ` in place in `a`, reading its lower triangle. Returns 0, or the order of the first leading minor
/// that is not positive.
pub fn cholesky(a: &mut [f64], n: usize) -> f64 {
    for i in 0..n {
        let (above, below) = a.split_at_mut(i * n);
        let row = &mut below[..n];
        for j in 0..i {
            let other = &above[j * n..][..n];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let square = row[i] - dot(&row[..i], &row[..i]);
        if square.is_nan() || square <= 0.0 {
            return (i + 1) as f64;
        }
        row[i] = square.sqrt();
        row[i + 1..].fill(0.0);
    }
    0.0
}

/// Computes `A = Q R` for a column-major matrix with columns of `m` elements. `q` and `r` are column-major too, and
/// receive as many columns of Q and rows of R as fit.
pub fn qr(a: &mut [f64], m: usize, q: &mut [f64], r: &mut [f64]) {
    let n = a.len() / m.max(1);
    let steps = m.min(n);
    let mut scales = vec![0.0; steps];
    // The Householder reflection that clears column `k` below the diagonal, with LAPACK's choice of sign.
    for k in 0..steps {
        let (done, rest) = a.split_at_mut((k + 1) * m);
        let column = &mut done[k * m + k..];
        let below = column[1..].iter().fold(0.0, |norm, x| f64::hypot(norm, *x));
        if below == 0.0 {
            continue;
        }
        let (head, beta) = (column[0], -column[0].hypot(below).copysign(column[0]));
        scales[k] = (beta - head) / beta;
        column[1..].iter_mut().for_each(|x| *x /= head - beta);
        column[0] = beta;
        rest.chunks_exact_mut(m).for_each(|other| reflect(&mut other[k..], &column[1..], scales[k]));
    }
    let rows = r.len() / n.max(1);
    for (j, (to, from)) in r.chunks_exact_mut(rows.max(1)).zip(a.chunks_exact(m)).enumerate() {
        let filled = rows.min(j + 1);
        to[..filled].copy_from_slice(&from[..filled]);
        to[filled..].fill(0.0);
    }
    for (j, column) in q.chunks_exact_mut(m).enumerate() {
        column.fill(0.0);
        column[j] = 1.0;
        for k in (0..steps).rev() {
            reflect(&mut column[k..], &a[k * m + k + 1..][..m - k - 1], scales[k]);
        }
    }
}

/// Subtracts `scale` times the projection of `x` on the vector (1, `tail`).
fn reflect(x: &mut [f64], tail: &[f64], scale: f64) {
    let along = scale * (x[0] + dot(&x[1..], tail));
    x[0] -= along;
    subtract(&mut x[1..], along, tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 9] = [4.0, 1.0, 2.0, 1.0, 3.0, 0.5, 2.0, 0.5, 5.0];

    fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
        let at = |i: usize| (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).sum();
        (0..n * n).map(at).collect()
    }

    fn near(a: &[f64], b: &[f64]) -> bool {
        a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-12)
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        let eye = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let mut inverse = eye;
        assert_eq!(solve(&mut A.to_vec(), 3, &mut inverse, 3, false), 0.0);
        assert!(near(&product(&A, &inverse, 3), &eye));
        assert_eq!(solve(&mut [1.0, 2.0, 2.0, 4.0], 2, &mut [1.0, 0.0], 1, false), 2.0);
    }

    #[test]
    fn factors_multiply_to_the_matrix() {
        let mut l = A;
        assert_eq!(cholesky(&mut l, 3), 0.0);
        let transposed: Vec<f64> = (0..9).map(|i| l[i % 3 * 3 + i / 3]).collect();
        assert!(near(&product(&l, &transposed, 3), &A));
        let (mut q, mut r) = ([0.0; 9], [0.0; 9]);
        qr(&mut A.to_vec(), 3, &mut q, &mut r);
        // In column-major order the product of the transposes is the transpose of the product; A is symmetric.
        assert!(near(&product(&r, &q, 3), &A));
    }
}
