//! Triangular parts of matrices.

use super::copy::GRAIN;
use super::parallel::for_ranges_mut;
use crate::dtype::Element;

/// The lower (upper) triangle of each matrix, up to (from) diagonal `k`, with zeros elsewhere.
pub fn triangle<T: Element>(x: &[T], rows: usize, columns: usize, k: i64, lower: bool, out: &mut [T]) {
    let (rows, columns) = (rows.max(1), columns.max(1));
    for_ranges_mut(out, GRAIN.next_multiple_of(columns), |range, out| {
        let first = range.start / columns;
        let given = x[range].chunks_exact(columns);
        for (at, (to, from)) in (first..).zip(out.chunks_exact_mut(columns).zip(given)) {
            let i = (at % rows) as i64;
            // The column of diagonal `d` in this row.
            let split = |d: i64| i.saturating_add(d).clamp(0, columns as i64) as usize;
            let kept = if lower { 0..split(k.saturating_add(1)) } else { split(k)..columns };
            to[..kept.start].fill(T::from_i64(0));
            to[kept.clone()].copy_from_slice(&from[kept.clone()]);
            to[kept.end..].fill(T::from_i64(0));
        }
    });
}
