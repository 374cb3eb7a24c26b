//! Sorting, selection, and binary search in sorted rows. All views are dense; NaN is largest, and sorting is stable.
//! On the CPU elements have the dtype in which they are compared.

use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// The dtype in which the device of `x` sorts and searches elements of `dtype`.
pub fn compare_dtype(x: View, dtype: DType) -> Result<DType> {
    Ok(of(x.device())?.sort_dtype(dtype))
}

/// The indices of the rows of `n` elements of `x` in lexicographic order; equal rows keep theirs. False if the device has no kernel for it; the
/// caller then sorts column by column.
pub fn row_order(x: View, n: usize, order: View) -> Result<bool> {
    of(same_device([x, order])?)?.row_order(x, n, order)
}

/// An order statistic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// The lower median; NaN if there is any, unless ignored.
    Median { ignore_nan: bool },
    /// The last element of the longest run of equal elements; of several longest runs, the first.
    Mode,
}

/// The order statistic of each row of `x` (`[rows, n]`) and its index. False if the device has no kernel for it; the
/// caller then uses sorts and selections.
pub fn order_statistic(what: Statistic, x: View, n: usize, values: View, indices: View) -> Result<bool> {
    of(same_device([x, values, indices])?)?.order_statistic(what, x, n, values, indices)
}

/// How to interpolate a quantile between two elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    Linear,
    Lower,
    Higher,
    Midpoint,
    Nearest,
}

/// For each lane and quantile: the two sorted positions around it (int64), the weight of the upper one, and the rank
/// of the last element, n - 1 without NaN (float64).
#[derive(Clone, Copy)]
pub struct QuantileRanks<'a> {
    pub lower: View<'a>,
    pub upper: View<'a>,
    pub weight: View<'a>,
    pub scale: View<'a>,
}

/// The ranks of the quantiles `q` in sorted lanes. False if the device has no kernel for it.
pub fn quantile_ranks(
    sorted: View,
    d: ReduceDims,
    q: View,
    how: Interpolation,
    ignore_nan: bool,
    out: QuantileRanks,
) -> Result<bool> {
    of(same_device([sorted, q, out.lower])?)?.quantile_ranks(sorted, d, q, how, ignore_nan, out)
}

/// Sorts the rows of `x` (`[rows, n]`) and returns the original indices.
pub fn sort(x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()> {
    of(same_device([x, values, indices])?)?.sort(x, n, descending, values, indices)
}

/// The `k` largest or smallest elements of each row, in order if `sorted`.
pub fn topk(
    x: View,
    n: usize,
    k: usize,
    largest: bool,
    sorted: bool,
    values: View,
    indices: View,
) -> Result<()> {
    of(same_device([x, values, indices])?)?.topk(x, n, k, largest, sorted, values, indices)
}

/// The element at position `k` (from 0) of each sorted row, and its original index.
pub fn kthvalue(x: View, n: usize, k: usize, values: View, indices: View) -> Result<()> {
    of(same_device([x, values, indices])?)?.kthvalue(x, n, k, values, indices)
}

/// Insertion points of `values` (`[rows, m]`) in the sorted rows of `sorted` (`[rows, n]`, or one row for all): before
/// equal elements, or after them if `right`. `sorter` holds the sort order of unsorted rows.
pub fn searchsorted(
    sorted: View,
    n: usize,
    sorter: Option<View>,
    values: View,
    m: usize,
    right: bool,
    out: View,
) -> Result<()> {
    of(same_device([sorted, values, out].into_iter().chain(sorter))?)?
        .searchsorted(sorted, n, sorter, values, m, right, out)
}
