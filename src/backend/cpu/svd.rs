//! Singular value decomposition of one matrix in float64.
//!
//! Small matrices are decomposed by rotations alone, Note [One-sided Jacobi], and others by Note [Bidiagonal first].

use crate::multiversion;

mod bidiagonal;
mod jacobi;
pub(super) mod passes;

/// The outputs of [`svd`]. Left vectors are stored one after the other with `rows` elements each, right vectors with
/// `columns` each; the slice lengths determine how many are computed, from 0 to the length of a vector.
pub struct Factors<'a> {
    pub left: &'a mut [f64],
    pub values: &'a mut [f64],
    pub right: &'a mut [f64],
}

/// Up to this many columns are rotated until they are orthogonal.
const FEW: usize = 8;

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
    fn rotate(x: &mut [f64], y: &mut [f64], c: f64, s: f64) {
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

multiversion! {
    /// Subtracts multiples of two vectors from `x`.
    pub(super) fn update(x: &mut [f64], by: f64, y: &[f64], bz: f64, z: &[f64]) {
        for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
            *x -= by * y + bz * z;
        }
    }
}

multiversion! {
    /// As [`update`]; returns the product with `other`.
    pub(super) fn update_and_dot(x: &mut [f64], by: f64, y: &[f64], bz: f64, z: &[f64], other: &[f64]) -> f64 {
        const LANES: usize = 16;
        let (y, z, other) = (&y[..x.len()], &z[..x.len()], &other[..x.len()]);
        let mut sums = [0.0; LANES];
        let whole = x.len() - x.len() % LANES;
        for i in (0..whole).step_by(LANES) {
            let (x, y, z, other) = (&mut x[i..][..LANES], &y[i..][..LANES], &z[i..][..LANES], &other[i..][..LANES]);
            for l in 0..LANES {
                x[l] -= by * y[l] + bz * z[l];
                sums[l] += x[l] * other[l];
            }
        }
        let mut rest = 0.0;
        for i in whole..x.len() {
            x[i] -= by * y[i] + bz * z[i];
            rest += x[i] * other[i];
        }
        sums.iter().sum::<f64>() + rest
    }
}

/// The singular value decomposition of a finite column-major matrix with at least as many rows as columns. Singular
/// values are in descending order.
pub fn svd(mut w: Vec<f64>, rows: usize, columns: usize, mut out: Factors) {
    let largest = w.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    if largest > 0.0 {
        // Avoids overflow and underflow of squares.
        w.iter_mut().for_each(|x| *x /= largest);
    }
    if columns <= FEW || !bidiagonal::decompose(&w, rows, columns, &mut out) {
        jacobi::decompose(w, rows, columns, &mut out);
    }
    out.values.iter_mut().for_each(|value| *value *= largest);
}

#[cfg(test)]
mod tests;
