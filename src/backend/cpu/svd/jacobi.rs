//! Singular values by rotations.
//!
//! Note [One-sided Jacobi]
//! Rotations from the right make two columns at a time orthogonal, until all pairs are orthogonal to machine
//! precision. Then the column norms are the singular values, the normalized columns the left singular vectors, and
//! the product of the rotations the right singular vectors. The method converges for every finite matrix and computes
//! small singular values with high relative accuracy.

use super::Factors;
use crate::backend::cpu::vectors::{dot, rotate, subtract};

/// Limit on the number of sweeps; about ten suffice.
const SWEEPS: usize = 60;

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

/// The decomposition of a matrix without elements above 1 in size.
pub fn decompose(mut w: Vec<f64>, rows: usize, columns: usize, out: &mut Factors) {
    let mut v = vec![0.0; if out.right.is_empty() { 0 } else { columns * columns }];
    v.iter_mut().step_by(columns + 1).for_each(|x| *x = 1.0);
    orthogonalize(&mut w, rows, &mut v, columns);
    let lengths: Vec<f64> = w.chunks_exact(rows.max(1)).map(|c| dot(c, c).sqrt()).collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    for (value, &k) in out.values.iter_mut().zip(&order) {
        *value = lengths[k];
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
