//! Eigenvalues and eigenvectors of a symmetric matrix, in float64.
//!
//! Note [Tridiagonal first]
//! Reflections make the matrix tridiagonal, `A = Q T Qᵀ`, and rotations with Wilkinson's shift make T diagonal, an
//! eigenvalue in about two passes ("Matrix Computations", 8.3). Q is held transposed: the rotations that are applied
//! to T from both sides rotate two of its rows.

use super::factor::householder::{Reflections, reflection};
use super::svd::passes::{Passes, turn, vanishes};
use super::vectors::{dot, hypotenuse, subtract, update, update_and_dot};

/// Passes per eigenvalue at most; two or three suffice.
const PASSES: usize = 60;

/// The eigenvalues of a symmetric matrix in ascending order, and the eigenvectors as rows. Returns whether the
/// iteration converged. `a` is overwritten.
pub fn eigh(a: &mut [f64], n: usize, values: &mut [f64], vectors: &mut [f64]) -> bool {
    if !a.iter().all(|x| x.is_finite()) {
        return false;
    }
    // Squares neither overflow nor vanish.
    let scale = a.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    if scale > 0.0 {
        a.iter_mut().for_each(|x| *x /= scale);
    }
    let mut t = Tridiagonal::of(a, n);
    let mut basis = vec![0.0; n * n];
    // Row `k` holds a vector that begins at element `k + 1`; the first reflection changes nothing.
    a.copy_within(..n * n.saturating_sub(1), n.min(n * n));
    Reflections::of(a, n, &t.scales).product(&mut basis);
    let found = t.diagonalize(&mut basis);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| t.diagonal[i].total_cmp(&t.diagonal[j]));
    for (to, &i) in order.iter().enumerate() {
        let vector = &basis[i * n..][..n];
        values[to] = t.diagonal[i] * scale;
        let sign = sign_of(vector);
        vectors[to * n..][..n].iter_mut().zip(vector).for_each(|(to, x)| *to = sign * x);
    }
    found
}

/// What makes the first component of a vector positive that is at least two fifths of the largest. Eigenvectors have
/// no sign, and those of all devices are to be the same; the largest component would not do, as rounding decides
/// which of two equal ones it is.
fn sign_of(vector: &[f64]) -> f64 {
    let most = vector.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let first = vector.iter().find(|x| 5.0 * x.abs() >= 2.0 * most);
    if first.is_some_and(|x| *x < 0.0) { -1.0 } else { 1.0 }
}

/// A tridiagonal matrix, and the scales of the reflections that made it.
struct Tridiagonal {
    diagonal: Vec<f64>,
    /// Element `i` is beside elements `i` and `i + 1` of the diagonal.
    beside: Vec<f64>,
    scales: Vec<f64>,
}

impl Tridiagonal {
    /// Reduces `a`. Row `k` then holds the vector of reflection `k + 1`, behind the diagonal.
    ///
    /// The block that remains after a step is `A - v wᵀ - w vᵀ`. It is computed when the next step reads it.
    fn of(a: &mut [f64], n: usize) -> Tridiagonal {
        let (mut diagonal, mut beside, mut scales) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut last_v, mut w, mut product) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for k in 0..n {
            let (above, below) = a.split_at_mut((k + 1) * n);
            let row = &mut above[k * n + k..];
            update(row, last_v[k], &w[k..], w[k], &last_v[k..]);
            diagonal[k] = row[0];
            if k + 1 == n {
                break;
            }
            let v = &mut row[1..];
            let (next, scale) = reflection(v);
            (beside[k], scales[k + 1]) = (next, scale);
            for (i, row) in below.chunks_exact_mut(n).enumerate() {
                let i = k + 1 + i;
                let (row, w_part, v_part) = (&mut row[k + 1..], &w[k + 1..], &last_v[k + 1..]);
                product[i] = scale * update_and_dot(row, last_v[i], w_part, w[i], v_part, v);
            }
            // With p = scale A v: w = p - scale / 2 (p v) v.
            w[k + 1..].copy_from_slice(&product[k + 1..]);
            subtract(&mut w[k + 1..], 0.5 * scale * dot(&product[k + 1..], v), v);
            last_v[k + 1..].copy_from_slice(v);
        }
        beside.truncate(n.saturating_sub(1));
        Tridiagonal { diagonal, beside, scales }
    }

    /// Makes the matrix diagonal, and rotates the rows of `basis` likewise. Returns whether that converged.
    fn diagonalize(&mut self, basis: &mut [f64]) -> bool {
        let n = self.diagonal.len();
        let (mut last, mut passes) = (n.saturating_sub(1), PASSES * n);
        let mut rotations = Passes::new(n);
        while last > 0 {
            if vanishes(&self.diagonal, &self.beside, last - 1) {
                self.beside[last - 1] = 0.0;
                last -= 1;
                continue;
            }
            if passes == 0 {
                return false;
            }
            passes -= 1;
            let first =
                (0..last).rev().find(|&i| vanishes(&self.diagonal, &self.beside, i)).map_or(0, |i| i + 1);
            rotations.begin(first);
            self.pass(first, last, &mut rotations);
            if rotations.are_many() {
                rotations.apply(basis, n);
            }
        }
        rotations.apply(basis, n);
        true
    }

    /// One pass over a block without zeros beside its diagonal.
    fn pass(&mut self, first: usize, last: usize, rotations: &mut Passes) {
        let (d, e) = (&mut self.diagonal, &mut self.beside);
        // The shift is the eigenvalue of the last two rows that is nearer to the last element.
        let half = (d[last - 1] - d[last]) / 2.0;
        let far = half + hypotenuse(half, e[last - 1]).copysign(half);
        let shift = d[last] - e[last - 1] * (e[last - 1] / far);
        // Each rotation clears what the one before left outside of the three diagonals.
        let (mut x, mut outside) = (d[first] - shift, e[first]);
        for k in first..last {
            let ((c, s), length) = turn(x, outside);
            if k > first {
                e[k - 1] = length;
            }
            let (a, b, off) = (d[k], d[k + 1], e[k]);
            d[k] = c * c * a + 2.0 * c * s * off + s * s * b;
            d[k + 1] = s * s * a - 2.0 * c * s * off + c * c * b;
            e[k] = c * s * (b - a) + (c * c - s * s) * off;
            if k + 1 < last {
                (x, outside) = (e[k], s * e[k + 1]);
                e[k + 1] *= c;
            }
            rotations.push((c, s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A symmetric matrix of reproducible numbers, its values and vectors.
    fn check(a: &[f64], n: usize) {
        let (mut values, mut vectors) = (vec![f64::NAN; n], vec![f64::NAN; n * n]);
        assert!(eigh(&mut a.to_vec(), n, &mut values, &mut vectors));
        assert!(values.is_sorted());
        assert!(vectors.chunks_exact(n).all(|v| sign_of(v) == 1.0));
        let most = a.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        for (i, v) in vectors.chunks_exact(n).enumerate() {
            for (j, w) in vectors.chunks_exact(n).enumerate() {
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((dot(v, w) - expected).abs() < 1e-13 * n as f64, "vectors {i} and {j} of {n}");
            }
            for (row, x) in a.chunks_exact(n).zip(v) {
                let error = (dot(row, v) - values[i] * x).abs();
                assert!(error <= 1e-14 * n as f64 * most, "vector {i} of {n}: {error:e}");
            }
        }
    }

    #[test]
    fn vectors_are_orthonormal_and_scaled_by_their_values() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
        };
        for n in [1, 2, 3, 5, 17, 64] {
            let mut a = vec![0.0; n * n];
            for i in 0..n {
                for j in 0..=i {
                    let x = next();
                    (a[i * n + j], a[j * n + i]) = (x, x);
                }
            }
            check(&a, n);
            check(&a.iter().map(|x| x * 1e200).collect::<Vec<_>>(), n);
            check(&a.iter().map(|x| x * 1e-200).collect::<Vec<_>>(), n);
            // Of rank one, so that all values but one are equal; and diagonal already.
            let v: Vec<f64> = (0..n).map(|_| next()).collect();
            check(&(0..n * n).map(|i| v[i / n] * v[i % n]).collect::<Vec<_>>(), n);
            check(&(0..n * n).map(|i| if i % (n + 1) == 0 { v[i / n] } else { 0.0 }).collect::<Vec<_>>(), n);
            check(&vec![0.0; n * n], n);
            check(
                &(0..n * n).map(|i| if (i / n).abs_diff(i % n) == 1 { 1.0 } else { 0.0 }).collect::<Vec<_>>(),
                n,
            );
        }
    }

    #[test]
    fn a_matrix_with_an_infinity_has_no_eigenvalues() {
        let (mut values, mut vectors) = ([0.0; 2], [0.0; 4]);
        assert!(!eigh(&mut [1.0, f64::INFINITY, f64::INFINITY, 1.0], 2, &mut values, &mut vectors));
    }
}
