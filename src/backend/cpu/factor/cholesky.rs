//! `A = L Lᵀ`.

use std::ops::Range;

use super::product::{Part, Place, Product};
use super::{NARROW, half};
use crate::multiversion;

/// Computes `A = L Lᵀ` in place in `a`, reading its lower triangle. Returns 0, or the order of the first leading
/// minor that is not positive; L is undefined then.
pub fn cholesky(a: &mut [f64], n: usize) -> f64 {
    if n == 0 {
        return 0.0;
    }
    let order = factor(a, n, 0..n).map_or(0.0, |i| (i + 1) as f64);
    for (i, row) in a.chunks_exact_mut(n).enumerate() {
        row[i + 1..].fill(0.0);
    }
    order
}

/// Factors `columns` from their first diagonal element on; see Note [Halves]. Returns where that failed.
fn factor(a: &mut [f64], n: usize, columns: Range<usize>) -> Option<usize> {
    let Range { start, end } = columns;
    if end - start <= NARROW {
        let failed = factor_corner(a, n, columns.clone());
        if failed.is_none() {
            factor_below(a, n, columns);
        }
        return failed;
    }
    let middle = start + half(end - start);
    if let Some(i) = factor(a, n, start..middle) {
        return Some(i);
    }
    let below = Place { other: None, start: middle * n + start, stride: n };
    let product = Product {
        a: below,
        b: below,
        turned: true,
        rows: n - middle,
        depth: middle - start,
        columns: end - middle,
    };
    product.subtract_from(a, middle * n + middle, n, Part::Lower);
    factor(a, n, middle..end)
}

multiversion! {
    /// Factors the rows of at most [`NARROW`] columns that are on the diagonal.
    fn factor_corner(a: &mut [f64], n: usize, columns: Range<usize>) -> Option<usize> {
        for i in columns.clone() {
            let (above, below) = a.split_at_mut(i * n);
            let row = &mut below[columns.start..i + 1];
            for j in columns.start..i {
                let other = &above[j * n..][columns.start..j + 1];
                let known = j - columns.start;
                let sum: f64 = row[..known].iter().zip(other).map(|(x, y)| x * y).sum();
                row[known] = (row[known] - sum) / other[known];
            }
            let known = i - columns.start;
            let square = row[known] - row[..known].iter().map(|x| x * x).sum::<f64>();
            if square.is_nan() || square <= 0.0 {
                return Some(i);
            }
            row[known] = square.sqrt();
        }
        None
    }
}

/// Rows that [`factor_below`] computes at once.
const LANES: usize = 16;

multiversion! {
    /// Computes the rows below those of [`factor_corner`].
    fn factor_below(a: &mut [f64], n: usize, columns: Range<usize>) {
        let (done, rest) = a.split_at_mut(columns.end * n);
        for rows in rest.chunks_mut(LANES * n) {
            let mut x = [[[0.0; 4]; LANES / 4]; NARROW];
            for (k, column) in columns.clone().enumerate() {
                let known = &done[column * n..][columns.start..column + 1];
                let mut rest = [[0.0; 4]; LANES / 4];
                for (r, row) in rest.as_flattened_mut().iter_mut().zip(rows.chunks_exact(n)) {
                    *r = row[column];
                }
                for (factor, x) in known[..k].iter().zip(&x) {
                    for v in 0..LANES / 4 {
                        for l in 0..4 {
                            rest[v][l] -= factor * x[v][l];
                        }
                    }
                }
                rest.as_flattened_mut().iter_mut().for_each(|r| *r /= known[k]);
                for (r, row) in rest.as_flattened().iter().zip(rows.chunks_exact_mut(n)) {
                    row[column] = *r;
                }
                x[k] = rest;
            }
        }
    }
}
