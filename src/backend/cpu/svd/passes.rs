//! Rotations of the rows of a matrix, as iterations on tridiagonal and bidiagonal matrices produce them.
//!
//! Note [Passes of rotations]
//! A pass rotates a row with the next, that one with the row after it, and so on. Passes are collected, and applied
//! to a few columns at a time: these stay in the L1 cache for all of the passes, and a row that is rotated twice in a
//! pass stays in registers between.

use crate::backend::cpu::vectors::hypotenuse;
use crate::multiversion;

/// The cosine and the sine of a rotation.
pub type Turn = (f64, f64);

/// Columns that are rotated at once.
const LANES: usize = 16;
type Lanes = [[f64; 4]; LANES / 4];

/// Passes that are collected at most.
const COLLECTED: usize = 32;

/// The rotation that maps (x, y) to (length, 0), and the length.
#[inline]
pub fn turn(x: f64, y: f64) -> (Turn, f64) {
    let length = hypotenuse(x, y);
    if length == 0.0 { ((1.0, 0.0), 0.0) } else { ((x / length, y / length), length) }
}

/// Whether element `i` beside a diagonal is lost in rounding of its neighbours.
pub fn vanishes(diagonal: &[f64], beside: &[f64], i: usize) -> bool {
    let near = diagonal[i].abs() + diagonal[i + 1].abs();
    beside[i].abs() <= f64::EPSILON * near || beside[i].abs() < f64::MIN_POSITIVE
}

/// Collected passes; see Note [Passes of rotations].
pub struct Passes {
    turns: Vec<Turn>,
    /// The first row of each pass, and the end of its rotations in `turns`.
    passes: Vec<(usize, usize)>,
}

impl Passes {
    /// Space for the passes over a matrix of `n` rows.
    pub fn new(n: usize) -> Passes {
        let count = COLLECTED.min(2 * n);
        Passes { turns: Vec::with_capacity(count * n), passes: Vec::with_capacity(count) }
    }

    /// Begins a pass at a row.
    pub fn begin(&mut self, row: usize) {
        self.passes.push((row, self.turns.len()));
    }

    /// Continues the last pass.
    pub fn push(&mut self, turn: Turn) {
        self.turns.push(turn);
        if let Some((_, end)) = self.passes.last_mut() {
            *end = self.turns.len();
        }
    }

    pub fn are_many(&self) -> bool {
        self.passes.len() >= COLLECTED
    }

    /// Rotates the rows of a matrix of `n` columns, and forgets the passes.
    pub fn apply(&mut self, rows: &mut [f64], n: usize) {
        let mut part = vec![Lanes::default(); rows.len() / n.max(1)];
        for left in (0..if rows.is_empty() { 0 } else { n }).step_by(LANES) {
            let columns = left..n.min(left + LANES);
            for (part, row) in part.iter_mut().zip(rows.chunks_exact(n)) {
                part.as_flattened_mut()[..columns.len()].copy_from_slice(&row[columns.clone()]);
            }
            let mut start = 0;
            for &(row, end) in &self.passes {
                rotate(&mut part[row..], &self.turns[start..end]);
                start = end;
            }
            for (part, row) in part.iter().zip(rows.chunks_exact_mut(n)) {
                row[columns.clone()].copy_from_slice(&part.as_flattened()[..columns.len()]);
            }
        }
        self.turns.clear();
        self.passes.clear();
    }
}

multiversion! {
    /// Applies a pass that begins with the first row.
    fn rotate(rows: &mut [Lanes], turns: &[Turn]) {
        let Some(mut upper) = rows.first().copied() else { return };
        for (i, &(c, s)) in turns.iter().enumerate() {
            let lower = rows[i + 1];
            for v in 0..LANES / 4 {
                for l in 0..4 {
                    rows[i][v][l] = c * upper[v][l] + s * lower[v][l];
                    upper[v][l] = c * lower[v][l] - s * upper[v][l];
                }
            }
        }
        rows[turns.len()] = upper;
    }
}
