//! Equations with a triangular matrix.

use super::product::{Part, Place, Product};
use super::{NARROW, half};
use crate::multiversion;

/// A triangle of a matrix of `n` rows.
#[derive(Clone, Copy)]
pub struct Triangle<'a> {
    pub a: Place<'a>,
    pub n: usize,
    pub upper: bool,
    /// Whether the diagonal is taken as ones.
    pub unit: bool,
}

impl Triangle<'_> {
    /// Solves `A X = B` in place for `k` columns; see Note [Halves].
    pub fn solve(self, b: &mut [f64], start: usize, stride: usize, k: usize) {
        let (n, middle) = (self.n, half(self.n));
        if n <= NARROW {
            return substitute(self, b, start, stride, k);
        }
        let below = start + middle * stride;
        let first = Triangle { n: middle, ..self };
        let second = Triangle { a: self.a.from(middle, middle), n: n - middle, ..self };
        let factors = |a, rows, depth, from| Product {
            a,
            b: Place { other: None, start: from, stride },
            turned: false,
            rows,
            depth,
            columns: k,
        };
        if self.upper {
            second.solve(b, below, stride, k);
            factors(self.a.from(0, middle), middle, n - middle, below).subtract_from(
                b,
                start,
                stride,
                Part::All,
            );
            first.solve(b, start, stride, k);
        } else {
            first.solve(b, start, stride, k);
            factors(self.a.from(middle, 0), n - middle, middle, start).subtract_from(
                b,
                below,
                stride,
                Part::All,
            );
            second.solve(b, below, stride, k);
        }
    }
}

multiversion! {
    /// Solves for at most [`NARROW`] unknowns.
    fn substitute(t: Triangle<'_>, b: &mut [f64], start: usize, stride: usize, k: usize) {
        let mut left = 0;
        while left < k {
            let at = start + left;
            left += match k - left {
                16.. => substitute_lanes::<4, 4>(t, b, at, stride),
                4.. => substitute_lanes::<1, 4>(t, b, at, stride),
                _ => substitute_lanes::<1, 1>(t, b, at, stride),
            };
        }
    }
}

/// Solves for `V` vectors of `L` columns, which stay in registers while a row is computed. Returns their number.
#[inline(always)]
fn substitute_lanes<const V: usize, const L: usize>(
    t: Triangle,
    b: &mut [f64],
    start: usize,
    stride: usize,
) -> usize {
    for step in 0..t.n {
        let i = if t.upper { t.n - 1 - step } else { step };
        let at = |row: usize| start + row * stride;
        let row = t.a.row(b, i, t.n);
        let mut rest = [[0.0; L]; V];
        rest.as_flattened_mut().copy_from_slice(&b[at(i)..][..V * L]);
        for j in if t.upper { i + 1..t.n } else { 0..i } {
            let known = &b[at(j)..][..V * L];
            for v in 0..V {
                for l in 0..L {
                    rest[v][l] -= row[j] * known[v * L + l];
                }
            }
        }
        if !t.unit {
            rest.as_flattened_mut().iter_mut().for_each(|r| *r /= row[i]);
        }
        b[at(i)..][..V * L].copy_from_slice(rest.as_flattened());
    }
    V * L
}
