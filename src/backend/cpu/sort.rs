//! Stable sort along the last dimension, top-k selection, and binary search in sorted rows.
//!
//! Note [Sort keys]: every element maps to an unsigned integer with PyTorch's order: numbers by value, the two zeros
//! equal, NaN above everything. A key with its position forms an item. Items are distinct and ordered as by a stable
//! sort, so any sorting algorithm yields a stable sort. Descending order complements the keys, not the positions. Long
//! rows are radix sorted, least significant digit first, skipping digits in which all items agree.

use crate::backend::cpu::parallel::{for_chunks_mut, for_chunks_mut2};
use crate::backend::cpu::reduce::{row_pieces, rows_of};
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::dtype::{DType, Element};
use crate::multiversion;

/// Bits per digit: 2048 counters fit in the L1 cache, and three digits cover a 32-bit key.
const DIGIT: u32 = 11;
/// Below this number of items, comparison sort is faster than radix sort.
const SMALL_NUMEL: usize = 256;

/// The order-preserving key of an element, in the low bits.
#[inline(always)]
#[allow(clippy::eq_op)] // only NaN differs from itself
fn key_of<T: Element>(x: T) -> u64 {
    let bits = 8 * size_of::<T>() as u32;
    let all = u64::MAX >> (64 - bits);
    let top = 1u64 << (bits - 1);
    match T::DTYPE {
        DType::Bool | DType::U8 => x.to_i64() as u64,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => (x.to_i64() as u64 & all) ^ top,
        _ if x != x => all,
        // Both zeros.
        _ if x == T::from_i64(0) => top,
        _ => {
            let mut raw = [0; 8];
            raw[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&x));
            let raw = u64::from_le_bytes(raw);
            if raw & top != 0 { !raw & all } else { raw | top }
        }
    }
}

/// A key and the position of its element, ordered by key, then by position.
trait Item: Copy + Ord + Default + Send + Sync {
    fn new(key: u64, position: usize) -> Self;
    fn key(self) -> u64;
    fn position(self) -> usize;
}

/// Items with keys up to 32 bits: one word, with the key in the upper half.
impl Item for u64 {
    #[inline(always)]
    fn new(key: u64, position: usize) -> u64 {
        key << 32 | position as u64
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn position(self) -> usize {
        self as u32 as usize
    }
}

impl Item for (u64, u64) {
    #[inline(always)]
    fn new(key: u64, position: usize) -> Self {
        (key, position as u64)
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn position(self) -> usize {
        self.1 as usize
    }
}

/// Whether items for `T` in a row of `n` fit in one word.
fn fits_word<T: Element>(n: usize) -> bool {
    size_of::<T>() <= 4 && n <= u32::MAX as usize
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn make_items[T: Element, I: Item](x: &[T], descending: bool, items: &mut [I]) {
        let flip = if descending { u64::MAX >> (64 - 8 * size_of::<T>()) } else { 0 };
        for (i, (item, &x)) in items.iter_mut().zip(x).enumerate() {
            *item = I::new(key_of(x) ^ flip, i);
        }
    }
}

/// Sorts items by the low `bits` of their keys; `spare` has the length of `items`.
fn sort_items(items: &mut [u64], spare: &mut [u64], bits: u32) {
    if items.len() < SMALL_NUMEL {
        return items.sort_unstable();
    }
    let digits = bits.div_ceil(DIGIT) as usize;
    if digits == 0 {
        return;
    }
    // Count all digits in one pass.
    let mut counts = vec![[0usize; 1 << DIGIT]; digits];
    for item in items.iter() {
        let key = item.key();
        for (d, count) in counts.iter_mut().enumerate() {
            count[digit(key, d)] += 1;
        }
    }
    let (mut from, mut to) = (items, spare);
    let mut swapped = false;
    for (d, count) in counts.iter_mut().enumerate() {
        if count[digit(from[0].key(), d)] == from.len() {
            continue;
        }
        let mut next = 0;
        for c in count.iter_mut() {
            next += std::mem::replace(c, next);
        }
        for &item in from.iter() {
            let slot = &mut count[digit(item.key(), d)];
            to[*slot] = item;
            *slot += 1;
        }
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    if swapped {
        to.copy_from_slice(from);
    }
}

#[inline(always)]
fn digit(key: u64, d: usize) -> usize {
    (key >> (d as u32 * DIGIT)) as usize & ((1 << DIGIT) - 1)
}

/// Sorts rows of up to `u32::MAX` elements. Each item is one word: 32 bits of the key's distance from the smallest key
/// of the row, and the position. When the keys span more than 32 bits, ties are resolved by the complete keys.
fn sort_rows<T: Element>(x: &[T], n: usize, descending: bool, values: &mut [T], indices: &mut [i64]) {
    let mut items = vec![0u64; n];
    let mut spare = vec![0u64; if n < SMALL_NUMEL { 0 } else { n }];
    let rows = x.chunks_exact(n).zip(values.chunks_exact_mut(n)).zip(indices.chunks_exact_mut(n));
    for ((x, values), indices) in rows {
        let (low, high) = key_range(x);
        let bits = u64::BITS - (high - low).leading_zeros();
        let shift = bits.saturating_sub(32);
        pack_items(x, if descending { high } else { low }, descending, shift, &mut items);
        sort_items(&mut items, &mut spare, bits - shift);
        // The size is a compile-time constant, so this is eliminated for short keys.
        if size_of::<T>() > 4 && shift > 0 {
            for ties in items.chunk_by_mut(|a, b| a.key() == b.key()).filter(|ties| ties.len() > 1) {
                ties.sort_unstable_by_key(|item| {
                    let key = key_of(x[item.position()]);
                    (if descending { !key } else { key }, item.position())
                });
            }
        }
        for ((value, index), item) in values.iter_mut().zip(indices).zip(&items) {
            (*value, *index) = (x[item.position()], item.position() as i64);
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn key_range[T: Element](x: &[T]) -> (u64, u64) {
        x.iter().fold((u64::MAX, 0), |(low, high), &x| (low.min(key_of(x)), high.max(key_of(x))))
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Items with the key's distance from `base` (the first key in sort order), without its low `shift` bits.
    fn pack_items[T: Element](x: &[T], base: u64, descending: bool, shift: u32, items: &mut [u64]) {
        for (i, (item, &x)) in items.iter_mut().zip(x).enumerate() {
            let key = key_of(x);
            let distance = if descending { base - key } else { key - base };
            *item = Item::new(distance >> shift, i);
        }
    }
}

/// Sorts rows of any length.
fn sort_long_rows<T: Element>(x: &[T], n: usize, descending: bool, values: &mut [T], indices: &mut [i64]) {
    let mut items = vec![(0, 0); n];
    let rows = x.chunks_exact(n).zip(values.chunks_exact_mut(n)).zip(indices.chunks_exact_mut(n));
    for ((x, values), indices) in rows {
        make_items(x, descending, &mut items);
        items.sort_unstable();
        for ((value, index), item) in values.iter_mut().zip(indices).zip(&items) {
            (*value, *index) = (x[item.position()], item.position() as i64);
        }
    }
}

/// Sorts each row of `x` (`[rows, n]`), stably; NaN is largest. `indices` receives the original positions.
pub fn sort<T: Element>(x: &[T], n: usize, descending: bool, values: &mut [T], indices: &mut [i64]) {
    if n == 0 {
        return;
    }
    let chunk = rows_of(x.len(), n) * n;
    for_chunks_mut2(values, chunk, indices, chunk, |i, values, indices| {
        let x = &x[i * chunk..][..values.len()];
        if n <= u32::MAX as usize {
            sort_rows(x, n, descending, values, indices);
        } else {
            sort_long_rows(x, n, descending, values, indices);
        }
    });
}

/// The first `k` items of a row in order, in `best`. Candidates better than the worst kept item are appended, and the
/// list is cut to `k` whenever it reaches twice that length.
fn select<I: Item>(items: &[I], k: usize, best: &mut Vec<I>) {
    best.clear();
    if k == 0 {
        return;
    }
    let room = (2 * k).max(64);
    let mut rest = items.chunks(64);
    while best.len() < room.min(items.len()) {
        best.extend_from_slice(rest.next().unwrap_or_default());
    }
    let cut = |best: &mut Vec<I>| {
        if best.len() > k {
            best.select_nth_unstable(k - 1);
            best.truncate(k);
        }
        best.iter().max().copied().unwrap_or_default()
    };
    let mut worst = cut(best);
    for chunk in rest {
        if !chunk.iter().fold(false, |any, &item| any | (item < worst)) {
            continue;
        }
        best.extend(chunk.iter().filter(|&&item| item < worst));
        if best.len() > room {
            worst = cut(best);
        }
    }
    cut(best);
}

fn topk_rows<T: Element, I: Item>(
    x: &[T],
    n: usize,
    k: usize,
    largest: bool,
    sorted: bool,
    values: &mut [T],
    indices: &mut [i64],
) {
    let mut items = vec![I::default(); n];
    let mut best = Vec::new();
    let rows = x.chunks_exact(n).zip(values.chunks_exact_mut(k)).zip(indices.chunks_exact_mut(k));
    for ((x, values), indices) in rows {
        make_items(x, largest, &mut items);
        select(&items, k, &mut best);
        if sorted {
            best.sort_unstable();
        }
        for ((value, index), item) in values.iter_mut().zip(indices).zip(&best) {
            (*value, *index) = (x[item.position()], item.position() as i64);
        }
    }
}

/// The `k` largest or smallest elements of each row of `x` (`[rows, n]`), in order if `sorted`. NaN is largest; equal
/// elements come in order of position. `k` is at most `n`.
pub fn topk<T: Element>(
    x: &[T],
    n: usize,
    k: usize,
    largest: bool,
    sorted: bool,
    values: &mut [T],
    indices: &mut [i64],
) {
    if k == 0 || k > n {
        return;
    }
    let rows = rows_of(x.len(), n);
    for_chunks_mut2(values, rows * k, indices, rows * k, |i, values, indices| {
        let x = &x[i * rows * n..][..values.len() / k * n];
        if fits_word::<T>(n) {
            topk_rows::<T, u64>(x, n, k, largest, sorted, values, indices);
        } else {
            topk_rows::<T, (u64, u64)>(x, n, k, largest, sorted, values, indices);
        }
    });
}

fn kth_rows<T: Element, I: Item>(
    x: &[T],
    n: usize,
    rank: impl Fn(&[T]) -> usize,
    values: &mut [T],
    indices: &mut [i64],
) {
    let mut items = vec![I::default(); n];
    for ((x, value), index) in x.chunks_exact(n).zip(values).zip(indices) {
        make_items(x, false, &mut items);
        let position = items.select_nth_unstable(rank(x).min(n - 1)).1.position();
        (*value, *index) = (x[position], position as i64);
    }
}

/// The element at a position (from 0) of each row of `x` (`[rows, n]`) after sorting, and its original position. `rank` gives the position in
/// a row, which is less than `n`.
pub fn ranked<T: Element>(
    x: &[T],
    n: usize,
    rank: impl Fn(&[T]) -> usize + Sync,
    values: &mut [T],
    indices: &mut [i64],
) {
    if n == 0 {
        return;
    }
    let rows = rows_of(x.len(), n);
    for_chunks_mut2(values, rows, indices, rows, |i, values, indices| {
        let x = &x[i * rows * n..][..values.len() * n];
        if fits_word::<T>(n) {
            kth_rows::<T, u64>(x, n, &rank, values, indices);
        } else {
            kth_rows::<T, (u64, u64)>(x, n, &rank, values, indices);
        }
    });
}

/// As [`ranked`], with one position `k` for all rows.
pub fn kthvalue<T: Element>(x: &[T], n: usize, k: usize, values: &mut [T], indices: &mut [i64]) {
    if k < n {
        ranked(x, n, |_| k, values, indices);
    }
}

/// The first position in a row of `n` for which `reached` is true. The binary search is branchless, since its branches
/// would be mispredicted half of the time. It looks at the same positions as PyTorch's, so that it ends at the same one
/// in a row that is not sorted.
#[inline(always)]
fn first_reached(n: usize, reached: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut len) = (0, n);
    while len > 0 {
        let half = len / 2;
        (low, len) = if reached(low + half) { (low, half) } else { (low + half + 1, len - half - 1) };
    }
    low
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// One row of [`searchsorted`]. All comparisons with NaN are false, so NaN goes to the end.
    fn search_row[T: Element](row: &[T], sorter: Option<&[i64]>, values: &[T], right: bool, out: &mut [i64]) {
        for (out, &v) in out.iter_mut().zip(values) {
            *out = match (sorter, right) {
                (None, false) => first_reached(row.len(), |i| row[i] >= v),
                (None, true) => first_reached(row.len(), |i| row[i] > v),
                (Some(s), false) => first_reached(row.len(), |i| row[s[i] as usize] >= v),
                (Some(s), true) => first_reached(row.len(), |i| row[s[i] as usize] > v),
            } as i64;
        }
    }
}

/// Insertion points of `values` (`[rows, m]`) in the sorted rows of `sorted` (`[rows, n]`, or one row for all): before
/// equal elements, or after them if `right`. `sorter` holds the sort order of unsorted rows.
pub fn searchsorted<T: Element>(
    sorted: &[T],
    n: usize,
    sorter: Option<&[i64]>,
    values: &[T],
    m: usize,
    right: bool,
    out: &mut [i64],
) {
    const CHUNK: usize = 1 << 10;
    let shared = sorted.len() == n;
    for_chunks_mut(out, CHUNK, |i, out| {
        let values = &values[i * CHUNK..][..out.len()];
        for (row, _, at) in row_pieces(i * CHUNK, values.len(), m) {
            let row = if shared { 0 } else { row };
            let range = row * n..(row + 1) * n;
            let sorter = sorter.map(|s| &s[range.clone()]);
            search_row(&sorted[range.clone()], sorter, &values[at.clone()], right, &mut out[at]);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use half::f16;

    use super::*;
    use crate::backend::cpu::reduce::tests::{noise, on_each_isa};
    use crate::dtype::Bool8;

    /// PyTorch's order of two elements: by value, NaN above everything.
    fn order<T: Element>(a: T, b: T) -> Ordering {
        a.partial_cmp(&b).unwrap_or_else(|| a.to_f64().is_nan().cmp(&b.to_f64().is_nan()))
    }

    fn sorted_positions<T: Element>(x: &[T], descending: bool) -> Vec<i64> {
        let mut p: Vec<i64> = (0..x.len() as i64).collect();
        p.sort_by(|&i, &j| {
            let o = order(x[i as usize], x[j as usize]);
            if descending { o.reverse() } else { o }
        });
        p
    }

    fn check_sort<T: Element>(x: &[T], n: usize) {
        for descending in [false, true] {
            let (mut values, mut indices) = (x.to_vec(), vec![-1; x.len()]);
            sort(x, n, descending, &mut values, &mut indices);
            for (r, row) in x.chunks_exact(n).enumerate() {
                let got = &indices[r * n..(r + 1) * n];
                assert_eq!(
                    got,
                    sorted_positions(row, descending),
                    "{:?} n {n} descending {descending}",
                    T::DTYPE
                );
                for (i, &p) in got.iter().enumerate() {
                    assert_eq!(bytemuck::bytes_of(&values[r * n + i]), bytemuck::bytes_of(&row[p as usize]));
                }
            }
        }
    }

    /// Values derived from the integers -20..20, with many ties, both zeros, infinities and NaN.
    fn with_specials(len: usize, seed: u64) -> Vec<f64> {
        noise(len, seed)
            .into_iter()
            .map(|v| match (v * 20.0) as i32 {
                17 => f64::NAN,
                18 => f64::INFINITY,
                -18 => f64::NEG_INFINITY,
                0 => 0.0 * v,
                k => k as f64 / 2.0,
            })
            .collect()
    }

    #[test]
    fn sort_is_stable_in_both_directions_for_every_dtype_and_length() {
        for n in [1, 2, 7, SMALL_NUMEL - 1, SMALL_NUMEL, 3000] {
            let x = with_specials(2 * n, n as u64);
            check_sort::<f64>(&x, n);
            check_sort::<f32>(&x.iter().map(|&v| v as f32).collect::<Vec<_>>(), n);
            check_sort::<f16>(&x.iter().map(|&v| f16::from_f64(v)).collect::<Vec<_>>(), n);
            let whole: Vec<i64> = noise(2 * n, 5).iter().map(|&v| (v * 1e12) as i64).collect();
            check_sort::<i64>(&whole, n);
            check_sort::<i32>(&whole.iter().map(|&v| v as i32).collect::<Vec<_>>(), n);
            check_sort::<i16>(&whole.iter().map(|&v| v as i16).collect::<Vec<_>>(), n);
            check_sort::<i8>(&whole.iter().map(|&v| v as i8).collect::<Vec<_>>(), n);
            check_sort::<u8>(&whole.iter().map(|&v| v as u8).collect::<Vec<_>>(), n);
            check_sort::<Bool8>(&whole.iter().map(|&v| Bool8(v as u8 & 1)).collect::<Vec<_>>(), n);
        }
    }

    #[test]
    fn topk_is_the_head_of_the_sorted_row() {
        on_each_isa(|| {
            for (n, k) in [(1, 1), (10, 3), (10, 10), (500, 0), (500, 7), (3000, 40), (3000, 2999)] {
                let x: Vec<f32> = with_specials(3 * n, k as u64).iter().map(|&v| v as f32).collect();
                for largest in [false, true] {
                    let (mut values, mut indices) = (vec![0.0; 3 * k], vec![0; 3 * k]);
                    topk(&x, n, k, largest, true, &mut values, &mut indices);
                    for (r, row) in x.chunks_exact(n).enumerate() {
                        assert_eq!(
                            indices[r * k..(r + 1) * k],
                            sorted_positions(row, largest)[..k],
                            "n {n} k {k}"
                        );
                    }
                }
            }
        });
    }

    #[test]
    fn topk_of_a_rising_row_keeps_replacing_its_candidates() {
        let x: Vec<i64> = (0..5000).collect();
        let (mut values, mut indices) = ([0; 5], [0; 5]);
        topk(&x, 5000, 5, true, true, &mut values, &mut indices);
        assert_eq!(values, [4999, 4998, 4997, 4996, 4995]);
        assert_eq!(indices, values);
    }

    #[test]
    fn kthvalue_is_an_element_of_the_sorted_row() {
        let x = with_specials(2 * 301, 4);
        for k in [0, 1, 150, 300] {
            let (mut values, mut indices) = ([0.0; 2], [0; 2]);
            kthvalue(&x, 301, k, &mut values, &mut indices);
            for (r, row) in x.chunks_exact(301).enumerate() {
                assert_eq!(indices[r], sorted_positions(row, false)[k]);
                assert_eq!(values[r].to_bits(), row[indices[r] as usize].to_bits());
            }
        }
    }

    #[test]
    fn searchsorted_finds_the_ends_of_equal_runs_and_sends_nan_to_the_end() {
        let sorted = [1.0, 2.0, 2.0, 2.0, 5.0];
        let values = [0.0, 1.0, 2.0, 3.0, 9.0, f64::NAN];
        let mut out = [0; 6];
        searchsorted(&sorted, 5, None, &values, 6, false, &mut out);
        assert_eq!(out, [0, 0, 1, 4, 5, 5]);
        searchsorted(&sorted, 5, None, &values, 6, true, &mut out);
        assert_eq!(out, [0, 1, 4, 4, 5, 5]);
    }

    #[test]
    fn searchsorted_takes_a_sorter_and_one_sequence_per_row() {
        let (x, order) = ([30, 10, 20, 3, 2, 1], [1, 2, 0, 2, 1, 0]);
        let mut out = [0; 4];
        searchsorted::<i64>(&x, 3, Some(&order), &[15, 30, 0, 3], 2, false, &mut out);
        assert_eq!(out, [1, 2, 0, 2]);
    }
}
