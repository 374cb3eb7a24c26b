//! Rows in order: sorting, selection, and search in sorted rows. All views are dense; NaN counts as the largest, and
//! equal elements stay in the order in which they stood. On the host elements are of the dtype that they are compared in.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
use crate::error::Result;
use crate::{bail, with_dtype};

/// The rows of `x` (`[rows, n]`) in order, and where the elements stood.
pub fn sort(x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()> {
    by_device!(same_device([x, values, indices])?,
        cpu => {
            with_dtype!(ordered x.dtype, T => {
                cpu::sort::sort::<T>(elements(x), n, descending, results(values), results(indices));
            });
            Ok(())
        },
        gpu => gpu::sort::select(x, n, descending, 0, n, values, indices)
    )
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
    by_device!(same_device([x, values, indices])?,
        cpu => {
            with_dtype!(ordered x.dtype, T => {
                cpu::sort::topk::<T>(elements(x), n, k, largest, sorted, results(values), results(indices));
            });
            Ok(())
        },
        gpu => gpu::sort::select(x, n, largest, 0, k, values, indices)
    )
}

/// The element that stands at `k` (from 0) in each sorted row, and its position.
pub fn kthvalue(x: View, n: usize, k: usize, values: View, indices: View) -> Result<()> {
    by_device!(same_device([x, values, indices])?,
        cpu => {
            with_dtype!(ordered x.dtype, T => {
                cpu::sort::kthvalue::<T>(elements(x), n, k, results(values), results(indices));
            });
            Ok(())
        },
        gpu => gpu::sort::select(x, n, false, k, 1, values, indices)
    )
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
    by_device!(same_device([sorted, values, out].into_iter().chain(sorter))?,
        cpu => {
            let order = sorter.map(elements::<i64>);
            if let Some(bad) = order.and_then(|o| o.iter().find(|&&i| i < 0 || i as usize >= n)) {
                bail!(Index, "torch.searchsorted(): sorter index {bad} out of range");
            }
            with_dtype!(ordered sorted.dtype, T => {
                cpu::sort::searchsorted::<T>(elements(sorted), n, order, elements(values), m, right, results(out));
            });
            Ok(())
        },
        gpu => gpu::sort::search(sorted, n, sorter, values, m, right, out)
    )
}
