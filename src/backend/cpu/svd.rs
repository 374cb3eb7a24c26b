//! Singular value decomposition of one matrix in float64.
//!
//! Small matrices are decomposed by rotations alone, Note [One-sided Jacobi], and others by Note [Bidiagonal first].

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
