//! Rows in order: sorting, selection, and search in sorted rows. All views are dense; NaN counts as the largest, and
//! equal elements stay in the order in which they stood. On the host elements are of the dtype that they are compared in.

use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// The dtype in which the device of `x` sorts and searches elements of a dtype.
pub fn compare_dtype(x: View, dtype: DType) -> Result<DType> {
    Ok(of(x.device())?.sort_dtype(dtype))
}

/// What names an element of a sorted row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// The lower middle, and NaN if there is one that counts.
    Median { ignore_nan: bool },
    /// The last of the longest run of equal elements, the first such run.
    Mode,
}

/// Per row of `x` (`[rows, n]`), the element that the statistic names and where it stood. False where the device has no
/// kernel for that, which leaves it to sorts and selections.
pub fn order_statistic(what: Statistic, x: View, n: usize, values: View, indices: View) -> Result<bool> {
    of(same_device([x, values, indices])?)?.order_statistic(what, x, n, values, indices)
}

/// How a quantile that falls between two elements is made of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    Linear,
    Lower,
    Higher,
    Midpoint,
    Nearest,
}

/// For each lane and each quantile: the two sorted positions around it (int64), the weight of the upper one, and the
/// number of steps between the lane's ends (float64).
#[derive(Clone, Copy)]
pub struct QuantileRanks<'a> {
    pub lower: View<'a>,
    pub upper: View<'a>,
    pub weight: View<'a>,
    pub scale: View<'a>,
}

/// The ranks of the quantiles `q` of sorted lanes. False where the device has no kernel for that.
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

/// The rows of `x` (`[rows, n]`) in order, and where the elements stood.
pub fn sort(x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()> {
    of(same_device([x, values, indices])?)?.sort(x, n, descending, values, indices)
}

/// The `k` largest or smallest of each row, in order if `sorted`.
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

/// The element that stands at `k` (from 0) in each sorted row, and its position.
pub fn kthvalue(x: View, n: usize, k: usize, values: View, indices: View) -> Result<()> {
    of(same_device([x, values, indices])?)?.kthvalue(x, n, k, values, indices)
}

/// Where each of `values` (`[rows, m]`) would go into the sorted rows of `sorted` (`[rows, n]`, or one row for all):
/// before equal elements, or after them if `right`. `sorter` holds the order of rows that are not sorted themselves.
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
