//! Order statistics of rows: medians, modes, and ranks of quantiles.

use std::cmp::Ordering;

use super::sort;
use crate::backend::reduce::ReduceDims;
use crate::backend::sort::{Interpolation, QuantileRanks, Statistic};
use crate::backend::{View, results};
use crate::dtype::{DType, Element};
use crate::error::Result;

/// The indices of the rows of `n` elements in lexicographic order.
pub fn of_rows<T: Element>(x: &[T], n: usize, order: &mut [i64]) {
    // NaN is the largest, and equal to itself.
    let compared =
        |a: T, b: T| a.partial_cmp(&b).unwrap_or_else(|| a.to_f64().is_nan().cmp(&b.to_f64().is_nan()));
    let row = |i: i64| &x[i as usize * n..][..n];
    let rows = |&a: &i64, &b: &i64| {
        let differing = row(a).iter().zip(row(b)).map(|(a, b)| compared(*a, *b)).find(|o| o.is_ne());
        differing.unwrap_or(Ordering::Equal)
    };
    order.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
    order.sort_by(rows);
}

/// Selects from each row of `n` elements the given order statistic and its index in the unsorted row.
pub fn choose<T: Element>(what: Statistic, x: &[T], n: usize, values: &mut [T], indices: &mut [i64]) {
    if let Statistic::Median { ignore_nan } = what {
        return sort::ranked(x, n, |row| median_rank(row, ignore_nan), values, indices);
    }
    let (mut sorted, mut order) = (x.to_vec(), vec![0; x.len()]);
    sort::sort::<T>(x, n, false, &mut sorted, &mut order);
    for (row, (value, index)) in values.iter_mut().zip(indices).enumerate() {
        let at = row * n + mode_rank(&sorted[row * n..][..n]);
        (*value, *index) = (sorted[at], order[at]);
    }
}

/// The position of the median of a row once it is sorted, NaN last: the lower of two, or the first NaN if there is one.
fn median_rank<T: Element>(row: &[T], ignore_nan: bool) -> usize {
    let numbers = row.iter().filter(|v| !v.to_f64().is_nan()).count();
    match (numbers == row.len(), ignore_nan) {
        (false, false) => numbers,
        (_, _) => numbers.max(1).div_ceil(2) - 1,
    }
}

/// The position of the last element of the longest run of equal elements; of several longest runs, the first.
fn mode_rank<T: Element>(sorted: &[T]) -> usize {
    let (mut start, mut best, mut length) = (0, 0, 0);
    for i in 0..sorted.len() {
        let both_nan = sorted[i].to_f64().is_nan() && sorted[start].to_f64().is_nan();
        start = if sorted[i] == sorted[start] || both_nan { start } else { i };
        if i - start + 1 > length {
            (best, length) = (i, i - start + 1);
        }
    }
    best
}

/// See [`crate::backend::sort::quantile_ranks`].
pub fn quantile_ranks(
    sorted: View,
    d: ReduceDims,
    q: View,
    how: Interpolation,
    ignore_nan: bool,
    out: QuantileRanks,
) -> Result<()> {
    let (mut values, mut quantiles) = (vec![0f64; sorted.layout.numel()], vec![0f64; q.layout.numel()]);
    super::copy::StridedCursor::new(sorted, 0).read(&mut values);
    super::copy::StridedCursor::new(q, 0).read(&mut quantiles);
    let (lower, upper) = (&mut *results::<i64>(out.lower)?, &mut *results::<i64>(out.upper)?);
    let (weight, scale) = (&mut *results::<f64>(out.weight)?, &mut *results::<f64>(out.scale)?);
    let narrow = sorted.dtype == DType::F32;
    for lane in 0..d.lanes() {
        let (outer, inner) = (lane / d.inner, lane % d.inner);
        let at = |i: usize| values[(outer * d.n + i) * d.inner + inner];
        let numbers = (0..d.n).take_while(|&i| !at(i).is_nan()).count();
        for (j, &q) in quantiles.iter().enumerate() {
            let rank = if numbers == d.n || (ignore_nan && numbers > 0) {
                let rank = q * (numbers - 1) as f64;
                // The rank is computed in float32 for float32 elements.
                if narrow { (q as f32 * (numbers - 1) as f32) as f64 } else { rank }
            } else {
                // If there is a NaN, it is the quantile, and it is sorted last.
                (d.n - 1) as f64
            };
            let (from, to) = (rank.floor(), rank.ceil());
            let (from, to, share) = match how {
                Interpolation::Linear => (from, to, rank - from),
                Interpolation::Lower => (from, from, 0.0),
                Interpolation::Higher => (to, to, 0.0),
                Interpolation::Midpoint => (from, to, 0.5),
                Interpolation::Nearest => (rank.round_ties_even(), rank.round_ties_even(), 0.0),
            };
            let place = (outer * quantiles.len() + j) * d.inner + inner;
            (lower[place], upper[place], weight[place]) = (from as i64, to as i64, share);
            scale[place] = numbers.saturating_sub(1) as f64;
        }
    }
    Ok(())
}
