//! `A = Q R` by Householder reflections.
//!
//! Note [Blocks of reflections]
//! The product of the reflections of a panel is `I - V T Vᵀ`: the columns of V are their vectors, and T is a small
//! upper triangle (Schreiber and Van Loan's compact WY form). So the rest of the matrix is reflected by products, once
//! per panel, and Q is made of identity columns likewise, from the last panel to the first. Matrices are column-major,
//! so what is stored are the rows of the transposes: `Cᵀ - (Cᵀ V) T Vᵀ`.

use std::ops::Range;

use super::NARROW;
use super::product::{Part, Place, Product};
use crate::backend::cpu::svd::{dot, subtract};

/// Up to this many reflections gain nothing from products.
const FEW: usize = 8;

/// Computes `A = Q R` for a column-major matrix with columns of `m` elements. `q` and `r` are column-major too, and
/// receive as many columns of Q and rows of R as fit.
pub fn qr(a: &mut [f64], m: usize, q: &mut [f64], r: &mut [f64]) {
    let n = a.len() / m.max(1);
    let steps = m.min(n);
    let mut blocks = vec![];
    for first in (0..steps).step_by(NARROW) {
        let panel = first..steps.min(first + NARROW);
        let scales = factor_panel(a, m, panel.clone());
        if panel.end == n && q.is_empty() {
            break;
        }
        let block = Block::of(a, m, panel.clone(), &scales);
        block.reflect(&mut a[panel.end * m..], m, true);
        blocks.push(block);
    }
    let rows = r.len() / n.max(1);
    for (j, (to, from)) in r.chunks_exact_mut(rows.max(1)).zip(a.chunks_exact(m)).enumerate() {
        let filled = rows.min(j + 1);
        to[..filled].copy_from_slice(&from[..filled]);
        to[filled..].fill(0.0);
    }
    q.fill(0.0);
    q.iter_mut().step_by(m + 1).for_each(|x| *x = 1.0);
    for block in blocks.iter().rev() {
        // The columns before have zeros in the rows that are reflected.
        if let Some(columns) = q.get_mut(block.first * m..) {
            block.reflect(columns, m, false);
        }
    }
}

/// Clears the columns of a panel below the diagonal, and leaves the vectors of the reflections there, whose first
/// elements are 1, with LAPACK's choice of sign. Returns the scales of the reflections.
fn factor_panel(a: &mut [f64], m: usize, panel: Range<usize>) -> [f64; NARROW] {
    let mut scales = [0.0; NARROW];
    for k in panel.clone() {
        let (done, rest) = a[..panel.end * m].split_at_mut((k + 1) * m);
        let column = &mut done[k * m + k..];
        let below = norm(&column[1..]);
        if below == 0.0 {
            continue;
        }
        let (head, beta) = (column[0], -column[0].hypot(below).copysign(column[0]));
        let scale = (beta - head) / beta;
        column[1..].iter_mut().for_each(|x| *x /= head - beta);
        column[0] = 1.0;
        rest.chunks_exact_mut(m).for_each(|other| reflect(&mut other[k..], column, scale));
        column[0] = beta;
        scales[k - panel.start] = scale;
    }
    scales
}

/// Subtracts `scale` times the projection of `x` on a vector.
fn reflect(x: &mut [f64], vector: &[f64], scale: f64) {
    let along = scale * dot(x, vector);
    subtract(x, along, vector);
}

/// The Euclidean norm.
fn norm(x: &[f64]) -> f64 {
    let square = dot(x, x);
    if (1e-200..1e300).contains(&square) {
        return square.sqrt();
    }
    // Squares vanish or overflow.
    x.iter().fold(0.0, |norm, x| f64::hypot(norm, *x))
}

/// The reflections of a panel, which change rows from `first` on; see Note [Blocks of reflections].
struct Block {
    first: usize,
    count: usize,
    /// The columns of V from row `first` on.
    v: Vec<f64>,
    /// The rows of T.
    t: Vec<f64>,
}

impl Block {
    fn of(a: &[f64], m: usize, panel: Range<usize>, scales: &[f64; NARROW]) -> Block {
        let (count, length) = (panel.len(), m - panel.start);
        let (mut v, mut t) = (vec![0.0; count * length], vec![0.0; count * count]);
        for k in 0..count {
            let (before, rest) = v.split_at_mut(k * length);
            let vector = &mut rest[..length];
            vector[k] = 1.0;
            vector[k + 1..].copy_from_slice(&a[(panel.start + k) * m..][panel.start + k + 1..m]);
            // With one reflection more, T has the column -scale T Vᵀ v, above the scale itself.
            let mut along = [0.0; NARROW];
            for (along, other) in along.iter_mut().zip(before.chunks_exact(length)) {
                *along = scales[k] * dot(&other[k..], &vector[k..]);
            }
            for i in 0..k {
                t[i * count + k] = -dot(&t[i * count..][i..k], &along[i..k]);
            }
            t[k * count + k] = scales[k];
        }
        Block { first: panel.start, count, v, t }
    }

    /// Reflects columns of `m` elements, in the order of the reflections or in reverse.
    fn reflect(&self, c: &mut [f64], m: usize, in_order: bool) {
        let (rows, count, length) = (c.len() / m, self.count, m - self.first);
        if count <= FEW {
            for step in 0..count {
                let k = if in_order { step } else { count - 1 - step };
                let (vector, scale) = (&self.v[k * length + k..][..length - k], self.t[k * count + k]);
                c.chunks_exact_mut(m)
                    .for_each(|column| reflect(&mut column[self.first + k..], vector, scale));
            }
            return;
        }
        let place = |data, stride| Place { other: Some(data), start: 0, stride };
        let v = place(&self.v, length);
        let (mut along, mut turned) = (vec![0.0; rows * count], vec![0.0; rows * count]);
        let columns = Place { other: Some(c), start: self.first, stride: m };
        Product { a: columns, b: v, turned: true, rows, depth: length, columns: count }.subtract_from(
            &mut along,
            0,
            count,
            Part::All,
        );
        let (a, b) = (place(&along, count), place(&self.t, count));
        Product { a, b, turned: !in_order, rows, depth: count, columns: count }.subtract_from(
            &mut turned,
            0,
            count,
            Part::All,
        );
        Product { a: place(&turned, count), b: v, turned: false, rows, depth: count, columns: length }
            .subtract_from(c, self.first, m, Part::All);
    }
}
