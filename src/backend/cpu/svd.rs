//! Singular value decomposition of one matrix in float64.
//!
//! Note [One-sided Jacobi]
//! Rotations from the right make two columns at a time orthogonal, until all pairs are orthogonal to machine
//! precision. Then the column norms are the singular values, the normalized columns the left singular vectors, and the
//! product of the rotations the right singular vectors. The method converges for every finite matrix and computes
//! small singular values with high relative accuracy.

use crate::multiversion;

/// The outputs of [`svd`]. Left vectors are stored one after the other with `rows` elements each, right vectors with
/// `columns` each; the slice lengths determine how many are computed, from 0 to the length of a vector.
pub struct Factors<'a> {
    pub left: &'a mut [f64],
    pub values: &'a mut [f64],
    pub right: &'a mut [f64],
}

/// Limit on the number of sweeps; about ten suffice.
const SWEEPS: usize = 60;

multiversion! {
    pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
        const LANES: usize = 16;
        let mut sums = [0.0; LANES];
        let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(a, b)| a * b).sum();
        for (a, b) in xs.zip(ys) {
            for l in 0..LANES {
                sums[l] += a[l] * b[l];
            }
        }
        sums.iter().sum::<f64>() + rest
    }
}

multiversion! {
    pub(super) fn rotate(x: &mut [f64], y: &mut [f64], c: f64, s: f64) {
        for (a, b) in x.iter_mut().zip(y) {
            (*a, *b) = (c * *a - s * *b, s * *a + c * *b);
        }
    }
}

multiversion! {
    pub(super) fn subtract(x: &mut [f64], by: f64, y: &[f64]) {
        for (a, b) in x.iter_mut().zip(y) {
            *a -= by * b;
        }
    }
}

/// Columns `p < q` of a column-major matrix with columns of `n` elements.
fn pair(columns: &mut [f64], n: usize, p: usize, q: usize) -> (&mut [f64], &mut [f64]) {
    let (low, high) = columns.split_at_mut(q * n);
    (&mut low[p * n..][..n], &mut high[..n])
}

/// Orthogonalizes the `k` columns of `w`, of `n` elements each, and applies the rotations to the columns of `v`, if
/// any.
fn orthogonalize(w: &mut [f64], n: usize, v: &mut [f64], k: usize) {
    let tolerance = f64::EPSILON * (n as f64).sqrt();
    let mut squares = vec![0.0; k];
    for _ in 0..SWEEPS {
        for (square, column) in squares.iter_mut().zip(w.chunks_exact(n.max(1))) {
            *square = dot(column, column);
        }
        let mut turned = false;
        for p in 0..k {
            for q in p + 1..k {
                let (x, y) = pair(w, n, p, q);
                let gamma = dot(x, y);
                if gamma.abs() <= tolerance * (squares[p] * squares[q]).sqrt() {
                    continue;
                }
                turned = true;
                // The smaller of the two rotation angles that make the columns orthogonal.
                let zeta = (squares[q] - squares[p]) / (2.0 * gamma);
                let t = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                rotate(x, y, c, c * t);
                (squares[p], squares[q]) = ((squares[p] - t * gamma).max(0.0), squares[q] + t * gamma);
                if !v.is_empty() {
                    let (x, y) = pair(v, k, p, q);
                    rotate(x, y, c, c * t);
                }
            }
        }
        if !turned {
            return;
        }
    }
}

/// Sets the vectors after the first `known`, of `n` elements each, such that all are orthonormal.
fn complete(vectors: &mut [f64], n: usize, known: usize) {
    let mut axis = 0;
    for k in known..vectors.len() / n.max(1) {
        let (before, rest) = vectors.split_at_mut(k * n);
        let vector = &mut rest[..n];
        // At least one axis has a component of squared length 1/n or more outside the span of fewer than n vectors.
        for _ in 0..n {
            vector.fill(0.0);
            vector[axis % n] = 1.0;
            axis += 1;
            // The second pass removes the rounding error of the first.
            for _ in 0..2 {
                for other in before.chunks_exact(n) {
                    let share = dot(vector, other);
                    subtract(vector, share, other);
                }
            }
            let square = dot(vector, vector);
            if square * n as f64 > 0.5 {
                let length = square.sqrt();
                vector.iter_mut().for_each(|x| *x /= length);
                break;
            }
        }
    }
}

/// The singular value decomposition of a finite column-major matrix with at least as many rows as columns. Singular
/// values are in descending order.
pub fn svd(mut w: Vec<f64>, rows: usize, columns: usize, out: Factors) {
    let largest = w.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    if largest > 0.0 {
        // Avoids overflow and underflow of squares.
        w.iter_mut().for_each(|x| *x /= largest);
    }
    let mut v = vec![0.0; if out.right.is_empty() { 0 } else { columns * columns }];
    v.iter_mut().step_by(columns + 1).for_each(|x| *x = 1.0);
    orthogonalize(&mut w, rows, &mut v, columns);
    let lengths: Vec<f64> = w.chunks_exact(rows.max(1)).map(|c| dot(c, c).sqrt()).collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    for (value, &k) in out.values.iter_mut().zip(&order) {
        *value = lengths[k] * largest;
    }
    let longest = order.first().map_or(0.0, |&k| lengths[k]);
    // Shorter columns consist of rounding errors and have no meaningful direction.
    let known = order.iter().take_while(|&&k| lengths[k] > longest * f64::EPSILON * rows as f64).count();
    for (to, &k) in out.right.chunks_exact_mut(columns.max(1)).zip(&order) {
        to.copy_from_slice(&v[k * columns..][..columns]);
    }
    if out.left.is_empty() {
        return;
    }
    for (to, &k) in out.left.chunks_exact_mut(rows.max(1)).zip(&order[..known]) {
        for (to, x) in to.iter_mut().zip(&w[k * rows..][..rows]) {
            *to = x / lengths[k];
        }
    }
    complete(out.left, rows, known);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decomposition of a column-major matrix with all left vectors.
    fn decompose(w: &[f64], rows: usize, columns: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let (mut u, mut s, mut v) =
            (vec![0.0; rows * rows], vec![0.0; columns], vec![0.0; columns * columns]);
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

    #[test]
    fn the_factors_are_orthonormal_and_their_product_is_the_matrix() {
        let (rows, columns) = (23, 7);
        let w: Vec<f64> = (0..rows * columns).map(|i| ((i * i) as f64 * 0.7).sin()).collect();
        let (u, s, v) = decompose(&w, rows, columns);
        expect_orthonormal(&u, rows);
        expect_orthonormal(&v, columns);
        assert!(s.is_sorted_by(|a, b| a >= b));
        for (i, x) in w.iter().enumerate() {
            let (row, column) = (i % rows, i / rows);
            let y: f64 = (0..columns).map(|k| u[k * rows + row] * s[k] * v[k * columns + column]).sum();
            assert!((x - y).abs() < 1e-13);
        }
    }

    #[test]
    fn a_matrix_of_deficient_rank_has_whole_bases() {
        let (u, s, v) = decompose(&[1.0, 2.0, 3.0, 2.0, 4.0, 6.0], 3, 2);
        expect_orthonormal(&u, 3);
        expect_orthonormal(&v, 2);
        assert!((s[0] - 70f64.sqrt()).abs() < 1e-14 && s[1] < 1e-14);
    }

    #[test]
    fn the_bases_of_zero_are_the_axes() {
        let (u, s, v) = decompose(&[0.0; 4], 2, 2);
        assert_eq!((u, s, v), (vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 2], vec![1.0, 0.0, 0.0, 1.0]));
    }

    #[test]
    fn huge_and_tiny_elements_keep_their_precision() {
        for scale in [1e-300, 1e300] {
            let (_, s, _) = decompose(&[3.0 * scale, 0.0, 0.0, 4.0 * scale], 2, 2);
            assert!((s[0] / scale - 4.0).abs() < 1e-14 && (s[1] / scale - 3.0).abs() < 1e-14);
        }
    }
}
