//! Loops on vectors of float64 that factorizations share.

use crate::multiversion;

/// The length of (x, y).
#[inline]
pub fn hypotenuse(x: f64, y: f64) -> f64 {
    let square = x * x + y * y;
    // Squares vanish or overflow otherwise.
    if (1e-200..1e300).contains(&square) { square.sqrt() } else { x.hypot(y) }
}

multiversion! {
    /// The product of two vectors.
    pub fn dot(x: &[f64], y: &[f64]) -> f64 {
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
    /// Rotates the elements of two vectors.
    pub fn rotate(x: &mut [f64], y: &mut [f64], c: f64, s: f64) {
        for (a, b) in x.iter_mut().zip(y) {
            (*a, *b) = (c * *a - s * *b, s * *a + c * *b);
        }
    }
}

multiversion! {
    /// Subtracts a multiple of `y` from `x`.
    pub fn subtract(x: &mut [f64], by: f64, y: &[f64]) {
        for (a, b) in x.iter_mut().zip(y) {
            *a -= by * b;
        }
    }
}

multiversion! {
    /// Subtracts multiples of two vectors from `x`.
    pub fn update(x: &mut [f64], by: f64, y: &[f64], bz: f64, z: &[f64]) {
        for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
            *x -= by * y + bz * z;
        }
    }
}

multiversion! {
    /// As [`update`]; returns the product with `other`.
    pub fn update_and_dot(x: &mut [f64], by: f64, y: &[f64], bz: f64, z: &[f64], other: &[f64]) -> f64 {
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

/// Reproducible numbers between -1 and 1.
#[cfg(test)]
pub fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
