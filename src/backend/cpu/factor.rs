//! Factorizations of one matrix and operations based on them, in float64. Matrices are row-major unless stated
//! otherwise.
//!
//! Note [Halves]
//! LU, Cholesky and substitution work on two halves of a matrix in turn: the first half is factored, the second is
//! updated by a product, and factored as well. Halves are halved in turn until they are narrow, so that nearly all
//! the work is in products, at every size.

pub use cholesky::cholesky;
pub use householder::qr;
use lu::exchange;
pub use lu::lu;
use product::Place;
use triangle::Triangle;

mod cholesky;
pub(super) mod householder;
mod lu;
mod product;
mod triangle;

/// The most rows or columns that are factored without products.
const NARROW: usize = 16;

/// Where `n > NARROW` rows or columns are divided.
fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(NARROW)
}

/// Solves `A X = B` in place in `b`, whose rows have `k` elements, where A is a triangle of `a`.
pub fn triangular(a: &[f64], n: usize, b: &mut [f64], k: usize, upper: bool, unit: bool) {
    Triangle { a: Place { other: Some(a), start: 0, stride: n }, n, upper, unit }.solve(b, 0, k, k);
}

/// Solves `A X = B` in place in `b`, whose rows have `k` elements. Returns the position of the first zero pivot,
/// counted from 1, or 0. With `lenient` a zero pivot is replaced by a tiny one.
pub fn solve(a: &mut [f64], n: usize, b: &mut [f64], k: usize, lenient: bool) -> f64 {
    let pivots = lu(a, n);
    exchange(b, k, 0..k, 0..n, &pivots);
    let zero = a.iter().step_by(n + 1).position(|x| *x == 0.0).map_or(0, |i| i + 1);
    if lenient {
        a.iter_mut().step_by(n + 1).filter(|x| **x == 0.0).for_each(|x| *x = f64::EPSILON);
    }
    triangular(a, n, b, k, false, true);
    triangular(a, n, b, k, true, false);
    zero as f64
}

/// The determinant, its sign, and the logarithm of its absolute value.
pub fn determinant(a: &mut [f64], n: usize) -> [f64; 3] {
    let exchanges = lu(a, n).iter().enumerate().filter(|(i, pivot)| i != *pivot).count();
    let sign = if exchanges % 2 == 0 { 1.0 } else { -1.0 };
    let diagonal = || a.iter().step_by(n + 1);
    let signs = diagonal().map(|x| if *x == 0.0 || x.is_nan() { 0.0 } else { x.signum() });
    [
        sign * diagonal().product::<f64>(),
        sign * signs.product::<f64>(),
        diagonal().map(|x| x.abs().ln()).sum(),
    ]
}

#[cfg(test)]
mod tests;
