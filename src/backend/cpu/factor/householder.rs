//! `A = Q R` by Householder reflections.
//!
//! Note [Blocks of reflections]
//! The product of the reflections of a panel is `I - V T Vᵀ`: the columns of V are their vectors, and T is a small
//! upper triangle (Schreiber and Van Loan's compact WY form). So the rest of the matrix is reflected by products,
//! once per panel, and Q is made of identity columns likewise, from the last panel to the first. Matrices are
//! column-major, so what is stored are the rows of the transposes: `Cᵀ - (Cᵀ V) T Vᵀ`.

use std::ops::Range;

use super::NARROW;
use super::product::{Part, Place, Product};
use crate::backend::cpu::vectors::{dot, hypotenuse, subtract};

/// Up to this many reflections gain nothing from products.
const FEW: usize = 8;

/// Computes `A = Q R` for a column-major matrix with columns of `m` elements. `q` and `r` are column-major too, and
/// receive as many columns of Q and rows of R as fit.
pub fn qr(a: &mut [f64], m: usize, q: &mut [f64], r: &mut [f64]) {
    let reflections = Reflections::that_clear(a, m);
    let rows = r.len() / (a.len() / m.max(1)).max(1);
    for (j, (to, from)) in r.chunks_exact_mut(rows.max(1)).zip(a.chunks_exact(m)).enumerate() {
        let filled = rows.min(j + 1);
        to[..filled].copy_from_slice(&from[..filled]);
        to[filled..].fill(0.0);
    }
    reflections.product(q);
}

/// Reflections of vectors of `m` elements, each of which leaves one element more at the beginning as it is.
pub struct Reflections {
    m: usize,
    blocks: Vec<Block>,
}

impl Reflections {
    /// The reflections that make a column-major matrix a triangle, of which `a` then holds the elements on and above
    /// the diagonal.
    pub fn that_clear(a: &mut [f64], m: usize) -> Reflections {
        let steps = m.min(a.len() / m.max(1));
        let mut blocks = vec![];
        for first in (0..steps).step_by(NARROW) {
            let panel = first..steps.min(first + NARROW);
            let scales = factor_panel(a, m, panel.clone());
            let block = Block::of(a, m, panel.clone(), &scales[..panel.len()]);
            block.reflect(&mut a[panel.end * m..], m, true);
            blocks.push(block);
        }
        Reflections { m, blocks }
    }

    /// The reflections whose vectors lie below the diagonal of `a`, behind a first element of 1.
    pub fn of(a: &[f64], m: usize, scales: &[f64]) -> Reflections {
        let block = |(i, scales): (usize, &[f64])| {
            let first = i * NARROW;
            Block::of(a, m, first..first + scales.len(), scales)
        };
        Reflections { m, blocks: scales.chunks(NARROW).enumerate().map(block).collect() }
    }

    /// Reflects columns, by the last reflection first.
    pub fn apply(&self, c: &mut [f64]) {
        self.blocks.iter().rev().for_each(|block| block.reflect(c, self.m, false));
    }

    /// The first columns of the product of the reflections.
    pub fn product(&self, q: &mut [f64]) {
        q.fill(0.0);
        q.iter_mut().step_by(self.m + 1).for_each(|x| *x = 1.0);
        for block in self.blocks.iter().rev() {
            // The columns before have zeros in the rows that are reflected.
            if let Some(columns) = q.get_mut(block.first * self.m..) {
                block.reflect(columns, self.m, false);
            }
        }
    }
}

/// Makes of `x` the vector, with a first element of 1, whose reflection clears all elements but the first, with
/// LAPACK's choice of sign. Returns the first element and the scale of the reflection, 0 if there is nothing to
/// clear.
pub fn reflection(x: &mut [f64]) -> (f64, f64) {
    let Some((head, tail)) = x.split_first_mut() else { return (0.0, 0.0) };
    let (below, old) = (norm(tail), std::mem::replace(head, 1.0));
    if below == 0.0 {
        return (old, 0.0);
    }
    let new = -hypotenuse(old, below).copysign(old);
    tail.iter_mut().for_each(|x| *x /= old - new);
    (new, (new - old) / new)
}

/// Clears the columns of a panel below the diagonal, and leaves the vectors of the reflections there. Returns the
/// scales of the reflections.
fn factor_panel(a: &mut [f64], m: usize, panel: Range<usize>) -> [f64; NARROW] {
    let mut scales = [0.0; NARROW];
    for (k, to) in panel.clone().zip(&mut scales) {
        let (done, rest) = a[..panel.end * m].split_at_mut((k + 1) * m);
        let column = &mut done[k * m + k..];
        let (head, scale) = reflection(column);
        if scale != 0.0 {
            rest.chunks_exact_mut(m).for_each(|other| reflect(&mut other[k..], column, scale));
        }
        (column[0], *to) = (head, scale);
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
    /// The rows of T; only the diagonal if the reflections are few.
    t: Vec<f64>,
}

impl Block {
    fn of(a: &[f64], m: usize, panel: Range<usize>, scales: &[f64]) -> Block {
        let (count, length) = (panel.len(), m - panel.start);
        let (mut v, mut t) = (vec![0.0; count * length], vec![0.0; count * count]);
        for k in 0..count {
            let (before, rest) = v.split_at_mut(k * length);
            let vector = &mut rest[..length];
            vector[k] = 1.0;
            vector[k + 1..].copy_from_slice(&a[(panel.start + k) * m..][panel.start + k + 1..m]);
            t[k * count + k] = scales[k];
            if count <= FEW {
                continue;
            }
            // With one reflection more, T has the column -scale T Vᵀ v, above the scale itself.
            let mut along = [0.0; NARROW];
            for (along, other) in along.iter_mut().zip(before.chunks_exact(length)) {
                *along = scales[k] * dot(&other[k..], &vector[k..]);
            }
            for i in 0..k {
                t[i * count + k] = -dot(&t[i * count..][i..k], &along[i..k]);
            }
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
