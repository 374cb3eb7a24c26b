//! Random choices: dropout and sampling of categories.

use super::copy::{BLOCK, GRAIN, StridedCursor, Writer};
use super::output::Cells;
use super::parallel::{for_chunks_mut, parallel_for};
use crate::backend::{View, elements, results};
use crate::dtype::Real;
use crate::error::Result;

/// Writes `x * mask * scale` to `out`, which is dense and has the dtype of `x`; computed in `T`.
pub fn dropout<T: Real>(x: View, mask: &[u8], scale: T, out: View) -> Result<()> {
    let kept = |x: &[T], mask: &[u8], out: &mut [T]| {
        for ((out, &x), &m) in out.iter_mut().zip(x).zip(mask) {
            *out = x * (if m == 1 { scale } else { T::ZERO });
        }
    };
    if x.dtype == T::DTYPE && out.dtype == T::DTYPE && x.layout.is_contiguous() && x.is_aligned() {
        let x = elements::<T>(x);
        for_chunks_mut(&mut results::<T>(out)?, GRAIN, |i, out| {
            kept(&x[i * GRAIN..], &mask[i * GRAIN..], out);
        });
        return Ok(());
    }
    let cells = Cells::of(out)?;
    parallel_for(out.layout.numel(), GRAIN, |range| {
        let (mut reader, mut writer) =
            (StridedCursor::new(x, range.start), Writer::new(&cells, out, range.start));
        let (mut read, mut written) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
        for start in range.clone().step_by(BLOCK) {
            let n = BLOCK.min(range.end - start);
            reader.read(&mut read[..n]);
            kept(&read[..n], &mask[start..], &mut written[..n]);
            writer.write(&written[..n]);
        }
    });
    Ok(())
}

/// Samples categories for rows of `samples`; see [`crate::backend::random::pick_categories`].
pub fn categories(weights: &[f64], draws: &[f64], replacement: bool, samples: usize, out: &mut [i64]) {
    let rows = (out.len() / samples.max(1)).max(1);
    let (categories, per_row) = (weights.len() / rows, draws.len() / rows);
    for_chunks_mut(out, samples.max(1), |row, out| {
        let weights = &weights[row * categories..][..categories];
        let draws = &draws[row * per_row..][..per_row];
        if replacement { pick_independently(weights, draws, out) } else { pick_distinct(weights, draws, out) }
    });
}

/// Samples with replacement: inverts the cumulative weights at each of the uniform `draws`.
fn pick_independently(weights: &[f64], draws: &[f64], out: &mut [i64]) {
    let mut sum = 0.0;
    let upto: Vec<f64> = weights
        .iter()
        .map(|w| {
            sum += w;
            sum
        })
        .collect();
    for (o, u) in out.iter_mut().zip(draws) {
        *o = upto.partition_point(|&c| c <= u * sum) as i64;
    }
}

/// Samples without replacement: the smallest of exponential times whose rates are the weights; `waits` have rate 1.
fn pick_distinct(weights: &[f64], waits: &[f64], out: &mut [i64]) {
    let times: Vec<f64> = weights.iter().zip(waits).map(|(w, wait)| wait / w).collect();
    let mut order: Vec<usize> = (0..times.len()).collect();
    let by_time = |a: &usize, b: &usize| times[*a].total_cmp(&times[*b]);
    if out.len() < order.len() {
        order.select_nth_unstable_by(out.len() - 1, by_time);
    }
    let first = &mut order[..out.len()];
    first.sort_unstable_by(by_time);
    out.iter_mut().zip(first).for_each(|(o, i)| *o = *i as i64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_replacement_are_distinct_and_prefer_weight() {
        let mut out = [0i64; 3];
        pick_distinct(&[1.0, 0.0, 2.0, 4.0], &[1.0, 1.0, 1.0, 1.0], &mut out);
        assert_eq!(out, [3, 2, 0]);
    }

    #[test]
    fn samples_with_replacement_skip_categories_without_weight() {
        let mut out = [9i64; 4];
        pick_independently(&[0.0, 1.0, 0.0, 3.0], &[0.0, 0.2, 0.25, 0.99], &mut out);
        assert_eq!(out, [1, 1, 3, 3]);
    }
}
