//! `P A = L U` with partial pivoting.

use std::ops::Range;

use smallvec::SmallVec;

use super::product::{Part, Place, Product};
use super::triangle::Triangle;
use super::{NARROW, half};
use crate::multiversion;

/// Computes `P A = L U` in place in `a`, whose rows have `n` elements. Returns the row that each row was exchanged with, in
/// this order.
pub fn lu(a: &mut [f64], n: usize) -> SmallVec<[usize; NARROW]> {
    let square = n.min(a.len() / n.max(1));
    let mut pivots: SmallVec<_> = (0..square).collect();
    factor(a, n, 0..square, &mut pivots);
    if square < n {
        exchange(a, n, square..n, 0..square, &pivots);
        let diagonal = Place { other: None, start: 0, stride: n };
        Triangle { a: diagonal, n: square, upper: false, unit: true }.solve(a, square, n, n - square);
    }
    pivots
}

/// Exchanges the elements at `columns` of each row in `rows` with those of its pivot row.
#[inline(always)]
pub fn exchange(a: &mut [f64], n: usize, columns: Range<usize>, rows: Range<usize>, pivots: &[usize]) {
    for i in rows.filter(|&i| pivots[i] != i) {
        let (low, high) = a.split_at_mut(pivots[i] * n);
        low[i * n..][columns.clone()].swap_with_slice(&mut high[columns.clone()]);
    }
}

/// Factors `columns` from the row of their first diagonal element on; see Note [Halves].
fn factor(a: &mut [f64], n: usize, columns: Range<usize>, pivots: &mut [usize]) {
    let (Range { start, end }, rows) = (columns.clone(), a.len() / n.max(1));
    if end - start <= NARROW {
        return factor_panel(a, n, columns, pivots);
    }
    let middle = start + half(end - start);
    let (left, right) = (start..middle, middle..end);
    factor(a, n, left.clone(), pivots);
    exchange(a, n, right.clone(), left.clone(), pivots);
    let at = |row, column| Place { other: None, start: row * n + column, stride: n };
    Triangle { a: at(start, start), n: left.len(), upper: false, unit: true }.solve(
        a,
        start * n + middle,
        n,
        right.len(),
    );
    let product = Product {
        a: at(middle, start),
        b: at(start, middle),
        turned: false,
        rows: rows - middle,
        depth: left.len(),
        columns: right.len(),
    };
    product.subtract_from(a, middle * n + middle, n, Part::All);
    factor(a, n, right.clone(), pivots);
    exchange(a, n, left, right, pivots);
}

multiversion! {
    /// Factors at most [`NARROW`] columns.
    fn factor_panel(a: &mut [f64], n: usize, columns: Range<usize>, pivots: &mut [usize]) {
        for step in columns.clone() {
            let (mut best, mut most) = (step, a[step * n + step].abs());
            for row in step + 1..a.len() / n {
                let size = a[row * n + step].abs();
                if size > most {
                    (best, most) = (row, size);
                }
            }
            pivots[step] = best;
            exchange(a, n, columns.clone(), step..step + 1, pivots);
            let pivot = a[step * n + step];
            if pivot == 0.0 {
                continue;
            }
            let (done, rest) = a.split_at_mut((step + 1) * n);
            let row = &done[step * n..][step + 1..columns.end];
            for other in rest.chunks_exact_mut(n) {
                other[step] /= pivot;
                let factor = other[step];
                for (x, y) in other[step + 1..columns.end].iter_mut().zip(row) {
                    *x -= factor * y;
                }
            }
        }
    }
}
