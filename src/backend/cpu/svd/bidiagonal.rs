//! Singular values by a bidiagonal matrix.
//!
//! Note [Bidiagonal first]
//! Reflections from both sides make a square matrix upper bidiagonal, `A = Q B Pᵀ`, and passes of rotations from both
//! sides make B diagonal, an element in about two passes ("Matrix Computations", 8.6): with a shift, or without one
//! where the block is all but singular (Demmel and Kahan), which clears its last row at once. A matrix with more rows
//! than columns is replaced by the triangle R of its QR factorization. Vectors are rows here: a rotation of two of
//! them runs along memory.

use super::Factors;
use super::passes::{Passes, turn, vanishes};
use crate::backend::cpu::factor::householder::{Reflections, reflection};
use crate::backend::cpu::vectors::{hypotenuse, update, update_and_dot};
use crate::multiversion;

/// Passes per singular value at most; two suffice as a rule.
const PASSES: usize = 30;

/// The decomposition of a matrix without elements above 1 in size. Returns whether the iteration converged; the
/// results are undefined otherwise.
pub fn decompose(w: &[f64], rows: usize, columns: usize, out: &mut Factors) -> bool {
    let n = columns;
    let mut tall = if rows > n { w.to_vec() } else { vec![] };
    let outer = Reflections::that_clear(&mut tall, rows);
    let mut a = w[..n * n].to_vec();
    for (j, (to, from)) in a.chunks_exact_mut(n).zip(tall.chunks_exact(rows)).enumerate() {
        to[..=j].copy_from_slice(&from[..=j]);
        to[j + 1..].fill(0.0);
    }
    let mut b = Bidiagonal::of(&mut a, n);
    let basis = |is_wanted: bool, vectors: &[f64], scales: &[f64]| {
        let mut basis = vec![0.0; if is_wanted { n * n } else { 0 }];
        if is_wanted {
            Reflections::of(vectors, n, scales).product(&mut basis);
        }
        basis
    };
    let mut left = basis(!out.left.is_empty(), &a, &b.left_scales);
    let mut right = basis(!out.right.is_empty(), &b.vectors, &b.right_scales);
    if !b.diagonalize(&mut left, &mut right) {
        return false;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| b.diagonal[j].abs().total_cmp(&b.diagonal[i].abs()));
    for (to, &i) in out.values.iter_mut().zip(&order) {
        *to = b.diagonal[i].abs();
    }
    for (to, &i) in out.right.chunks_exact_mut(n).zip(&order) {
        // A value is not negative.
        let sign = 1f64.copysign(b.diagonal[i]);
        to.iter_mut().zip(&right[i * n..]).for_each(|(to, x)| *to = sign * x);
    }
    out.left.fill(0.0);
    for (k, to) in out.left.chunks_exact_mut(rows).enumerate() {
        match order.get(k) {
            Some(&i) => to[..n].copy_from_slice(&left[i * n..][..n]),
            None => to[k] = 1.0,
        }
    }
    outer.apply(out.left);
    true
}

/// An upper bidiagonal matrix, and the reflections that made it.
struct Bidiagonal {
    diagonal: Vec<f64>,
    /// Element `i` is beside element `i` of the diagonal, and above element `i + 1`.
    beside: Vec<f64>,
    left_scales: Vec<f64>,
    /// The vectors of the reflections from the right, below the diagonal: the first reflection changes nothing.
    vectors: Vec<f64>,
    right_scales: Vec<f64>,
}

impl Bidiagonal {
    /// Reduces a column-major matrix of `n` columns. The vectors of the reflections from the left are left in `a`.
    ///
    /// The block that remains after a step is `A - u yᵀ - z vᵀ`. It is computed when the next step reads it.
    fn of(a: &mut [f64], n: usize) -> Bidiagonal {
        let (mut left_scales, mut right_scales) = (vec![0.0; n], vec![0.0; n]);
        let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
        let mut vectors = vec![0.0; n * n];
        let (mut y, mut z, mut last_u) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for k in 0..n {
            let (done, rest) = a.split_at_mut((k + 1) * n);
            let u = &mut done[k * n + k..];
            let v = &vectors[k * n..][..n];
            update(u, y[k], &last_u[k..], v[k], &z[k..]);
            (diagonal[k], left_scales[k]) = reflection(u);
            if k + 1 == n {
                break;
            }
            let mut row = vec![0.0; n - k - 1];
            for (j, column) in rest.chunks_exact_mut(n).enumerate() {
                let j = k + 1 + j;
                let column = &mut column[k..];
                let along = update_and_dot(column, y[j], &last_u[k..], v[j], &z[k..], u);
                y[j] = left_scales[k] * along;
                row[j - k - 1] = column[0] - y[j];
            }
            (beside[k], right_scales[k + 1]) = reflection(&mut row);
            last_u[k..].copy_from_slice(u);
            let z = &mut z[k + 1..];
            z.fill(0.0);
            combine(z, rest, n, k + 1, &row);
            let along: f64 = row.iter().zip(&y[k + 1..]).map(|(v, y)| v * y).sum();
            for (z, u) in z.iter_mut().zip(&u[1..]) {
                *z = right_scales[k + 1] * (*z - along * u);
            }
            vectors[(k + 1) * n + k + 1..][..n - k - 1].copy_from_slice(&row);
        }
        beside.truncate(n.saturating_sub(1));
        Bidiagonal { diagonal, beside, left_scales, vectors, right_scales }
    }

    /// Makes the matrix diagonal, and rotates the rows of `left` and `right` likewise. Returns whether that
    /// converged.
    fn diagonalize(&mut self, left: &mut [f64], right: &mut [f64]) -> bool {
        let n = self.diagonal.len();
        let (mut last, mut passes) = (n.saturating_sub(1), PASSES * n);
        let (mut by_left, mut by_right) = (Passes::new(n), Passes::new(n));
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
            by_left.begin(first);
            by_right.begin(first);
            match self.shift(first, last) {
                Some(shift) => self.pass(first, last, shift, &mut by_left, &mut by_right),
                None => self.pass_without_shift(first, last, &mut by_left, &mut by_right),
            }
            if by_left.are_many() {
                by_left.apply(left, n);
                by_right.apply(right, n);
            }
        }
        by_left.apply(left, n);
        by_right.apply(right, n);
        true
    }

    /// The smaller singular value of the last two rows of a block, unless rounding would hide it or the block is all
    /// but singular.
    fn shift(&self, first: usize, last: usize) -> Option<f64> {
        let (d, e) = (&self.diagonal[first..=last], &self.beside[first..last]);
        let most = d.iter().chain(e).fold(0.0f64, |most, x| most.max(x.abs()));
        if d.iter().any(|x| x.abs() <= f64::EPSILON * most) {
            return None;
        }
        let (f, g, h) = (d[d.len() - 2].abs(), e[e.len() - 1], d[d.len() - 1].abs());
        let shift = f * (2.0 * h / (hypotenuse(f + h, g) + hypotenuse(f - h, g)));
        let share = shift / d[0];
        (share * share >= f64::EPSILON).then_some(shift)
    }

    /// One pass over a block without zeros beside its diagonal.
    fn pass(&mut self, first: usize, last: usize, shift: f64, left: &mut Passes, right: &mut Passes) {
        let (d, e) = (&mut self.diagonal, &mut self.beside);
        // In proportion to the first row of BᵀB - shift².
        let mut x = (d[first].abs() - shift) * (1f64.copysign(d[first]) + shift / d[first]);
        let mut outside = e[first];
        for k in first..last {
            // From the right, which leaves an element below the diagonal.
            let ((c, s), length) = turn(x, outside);
            right.push((c, s));
            if k > first {
                e[k - 1] = length;
            }
            x = c * d[k] + s * e[k];
            e[k] = c * e[k] - s * d[k];
            outside = s * d[k + 1];
            d[k + 1] *= c;
            // From the left, which leaves one above `beside`.
            let ((c, s), length) = turn(x, outside);
            left.push((c, s));
            d[k] = length;
            x = c * e[k] + s * d[k + 1];
            d[k + 1] = c * d[k + 1] - s * e[k];
            if k + 1 < last {
                outside = s * e[k + 1];
                e[k + 1] *= c;
            }
        }
        e[last - 1] = x;
    }

    /// As [`Self::pass`] with a shift of zero, in which case no differences are computed.
    fn pass_without_shift(&mut self, first: usize, last: usize, left: &mut Passes, right: &mut Passes) {
        let (d, e) = (&mut self.diagonal, &mut self.beside);
        let (mut by_right, mut by_left) = ((1.0, 0.0), (1.0, 0.0));
        for k in first..last {
            let length;
            (by_right, length) = turn(by_right.0 * d[k], e[k]);
            if k > first {
                e[k - 1] = by_left.1 * length;
            }
            (by_left, d[k]) = turn(by_left.0 * length, by_right.1 * d[k + 1]);
            right.push(by_right);
            left.push(by_left);
        }
        let rest = d[last] * by_right.0;
        (d[last], e[last - 1]) = (rest * by_left.0, rest * by_left.1);
    }
}

multiversion! {
    /// Adds the sum of columns times `factors` to `z`, without their first elements.
    fn combine(z: &mut [f64], columns: &[f64], n: usize, skipped: usize, factors: &[f64]) {
        let part = |j: usize| &columns[j * n + skipped..(j + 1) * n];
        let whole = factors.len() - factors.len() % 4;
        for j in (0..whole).step_by(4) {
            let f = &factors[j..j + 4];
            let (a, b, c, d) = (part(j), part(j + 1), part(j + 2), part(j + 3));
            for ((((z, a), b), c), d) in z.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *z += f[0] * a + f[1] * b + (f[2] * c + f[3] * d);
            }
        }
        for (j, factor) in factors.iter().enumerate().skip(whole) {
            z.iter_mut().zip(part(j)).for_each(|(z, a)| *z += factor * a);
        }
    }
}
