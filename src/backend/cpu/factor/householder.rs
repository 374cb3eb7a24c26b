//! `A = Q R` by Householder reflections.

use crate::backend::cpu::svd::{dot, subtract};

/// Computes `A = Q R` for a column-major matrix with columns of `m` elements. `q` and `r` are column-major too, and
/// receive as many columns of Q and rows of R as fit.
pub fn qr(a: &mut [f64], m: usize, q: &mut [f64], r: &mut [f64]) {
    let n = a.len() / m.max(1);
    let steps = m.min(n);
    let mut scales = vec![0.0; steps];
    // The Householder reflection that clears column `k` below the diagonal, with LAPACK's choice of sign.
    for k in 0..steps {
        let (done, rest) = a.split_at_mut((k + 1) * m);
        let column = &mut done[k * m + k..];
        let below = column[1..].iter().fold(0.0, |norm, x| f64::hypot(norm, *x));
        if below == 0.0 {
            continue;
        }
        let (head, beta) = (column[0], -column[0].hypot(below).copysign(column[0]));
        scales[k] = (beta - head) / beta;
        column[1..].iter_mut().for_each(|x| *x /= head - beta);
        column[0] = beta;
        rest.chunks_exact_mut(m).for_each(|other| reflect(&mut other[k..], &column[1..], scales[k]));
    }
    let rows = r.len() / n.max(1);
    for (j, (to, from)) in r.chunks_exact_mut(rows.max(1)).zip(a.chunks_exact(m)).enumerate() {
        let filled = rows.min(j + 1);
        to[..filled].copy_from_slice(&from[..filled]);
        to[filled..].fill(0.0);
    }
    for (j, column) in q.chunks_exact_mut(m).enumerate() {
        column.fill(0.0);
        column[j] = 1.0;
        for k in (0..steps).rev() {
            reflect(&mut column[k..], &a[k * m + k + 1..][..m - k - 1], scales[k]);
        }
    }
}

/// Subtracts `scale` times the projection of `x` on the vector (1, `tail`).
fn reflect(x: &mut [f64], tail: &[f64], scale: f64) {
    let along = scale * (x[0] + dot(&x[1..], tail));
    x[0] -= along;
    subtract(&mut x[1..], along, tail);
}
