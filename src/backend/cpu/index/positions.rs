//! Checks, offsets and counts of the entries of an index.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::HostGrid;
use crate::backend::cpu::copy::GRAIN;
use crate::backend::cpu::parallel::{for_chunks_mut, for_ranges_mut, parallel_for};
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::backend::index::{IndexGrid, Pick};
use crate::backend::{View, elements};
use crate::error::Result;
use crate::multiversion;
use crate::storage::Storage;

/// Whether no entry of a dense index is negative.
///
/// # Errors
/// When an entry is out of bounds.
pub fn expect_in_bounds(p: &Pick) -> Result<bool> {
    let index = elements::<i64>(p.index);
    let all_within = |least: i64| {
        let outside = AtomicBool::new(false);
        parallel_for(index.len(), 4 * GRAIN, |r| {
            if !within(&index[r], least, p.size as i64) {
                outside.store(true, Relaxed);
            }
        });
        !outside.into_inner()
    };
    let plain = all_within(0);
    if !(plain || p.rule.wraps() && all_within(-(p.size as i64))) {
        index.iter().try_for_each(|&i| p.rule.position(i, p.size).map(|_| ()))?;
    }
    Ok(plain)
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn within(index: &[i64], least: i64, end: i64) -> bool {
        // Without an early end, so that it is vectorized.
        index.iter().fold(true, |all, &i| all & (i >= least) & (i < end))
    }
}

/// A divisor of numbers below 2^32: their quotients are the high halves of products with 2^64 / divisor, rounded up (Lemire,
/// Kaser and Kurz, "Faster remainder by direct computation", 2019).
#[derive(Clone, Copy)]
struct Divisor {
    by: u64,
    inverse: u64,
}

impl Divisor {
    fn new(by: u64) -> Divisor {
        Divisor { by, inverse: (u64::MAX / by).wrapping_add(1) }
    }

    #[inline(always)]
    fn quotient(self, n: u64) -> u64 {
        if self.by == 1 { n } else { ((n as u128 * self.inverse as u128) >> 64) as u64 }
    }
}

/// The index that each position in a tensor, none of which is negative, has in a dimension of a size: `step` is the product of the sizes after it.
pub fn unravel(positions: &[i64], step: u64, size: u64, out: &mut [i64]) {
    let (by_step, by_size) = (Divisor::new(step), Divisor::new(size));
    for_ranges_mut(out, GRAIN, |r, out| {
        let positions = &positions[r];
        let is_narrow = positions.iter().fold(0, |all, p| all | p) >> 32 == 0;
        if is_narrow && step.max(size) >> 32 == 0 {
            for (o, p) in out.iter_mut().zip(positions) {
                let index = by_step.quotient(*p as u64);
                *o = (index - by_size.quotient(index) * size) as i64;
            }
        } else {
            out.iter_mut().zip(positions).for_each(|(o, p)| *o = (*p as u64 / step % size) as i64);
        }
    });
}

/// Calls `f`, which writes to `written`, with the offsets of a grid's entries.
///
/// # Errors
/// When an entry is out of bounds.
pub fn on_host_grid<T>(grid: &IndexGrid, written: View, f: impl FnOnce(&HostGrid) -> Result<T>) -> Result<T> {
    let mut plain = true;
    for p in grid.picks {
        plain &= expect_in_bounds(p)?;
    }
    let on = |offsets: &[i64]| f(&HostGrid { before: grid.before, offsets, after: grid.after });
    if let ([p], true) = (grid.picks, plain)
        && p.stride == 1
        && !p.index.overlaps(&written)
    {
        return on(&elements(p.index)[..grid.n]);
    }
    let mut storage = Storage::new(grid.n * size_of::<i64>())?;
    let offsets = storage.slice_mut::<i64>().unwrap_or_default();
    for_ranges_mut(offsets, GRAIN, |range, offsets| {
        offsets.fill(0);
        for p in grid.picks {
            for (o, &i) in offsets.iter_mut().zip(&elements::<i64>(p.index)[range.clone()]) {
                *o += (if i < 0 { i + p.size as i64 } else { i }) * p.stride as i64;
            }
        }
    });
    on(offsets)
}

/// Adds to `counts` how often each of its positions occurs in `index`; other entries are left out.
pub fn bincount(index: &[i64], counts: &mut [i64]) {
    const TASKS: usize = 8;
    /// Most bins that a task counts in memory of its own.
    const MOST_BINS: usize = 1 << 15;
    let count = |index: &[i64], counts: &mut [i64]| {
        for &i in index {
            if let Some(count) = counts.get_mut(i as usize) {
                *count += 1;
            }
        }
    };
    let each = index.len().div_ceil(TASKS);
    if each < counts.len() || each < GRAIN || counts.len() > MOST_BINS {
        return count(index, counts);
    }
    let mut parts = vec![0; TASKS * counts.len()];
    for_chunks_mut(&mut parts, counts.len(), |task, part| {
        count(&index[(task * each).min(index.len())..((task + 1) * each).min(index.len())], part);
    });
    for part in parts.chunks_exact(counts.len()) {
        counts.iter_mut().zip(part).for_each(|(all, part)| *all += part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_by_multiplication_are_those_of_division() {
        for by in [1, 2, 3, 5, 7, 10, 127, 128, 641, 65_535, 65_537, 1 << 31, u32::MAX as u64] {
            let (divisor, most) = (Divisor::new(by), u32::MAX as u64);
            let multiples = (0..1000).map(|k| (k * (most / 999)) / by * by);
            let numbers = multiples.flat_map(|m| [m, m + 1, m.saturating_sub(1)]).chain([most, most - 1]);
            for n in numbers.filter(|n| *n <= most) {
                assert_eq!(divisor.quotient(n), n / by, "{n} / {by}");
            }
        }
    }

    #[test]
    fn tasks_count_what_one_thread_counts() {
        for (bins, n) in [(7, 10 * GRAIN), (1 << 16, 1000), (3, 0)] {
            let index: Vec<i64> = (0..n as i64).map(|i| i * i % (bins as i64 + 1)).collect();
            let mut counts = vec![1; bins];
            bincount(&index, &mut counts);
            for (i, count) in counts.into_iter().enumerate() {
                assert_eq!(
                    count,
                    1 + index.iter().filter(|&&at| at == i as i64).count() as i64,
                    "{bins} {i}"
                );
            }
        }
    }
}
