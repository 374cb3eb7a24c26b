//! Triangles of matrices, in dense tensors.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, elements, results, same_device};
use crate::dtype::Element;
use crate::error::Result;
use crate::with_dtype;

/// The lower (or upper) triangle of each matrix, up to (from) diagonal `k`, with zeros elsewhere.
pub fn triangle(x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
    by_device!(same_device([x, out])?,
        cpu => {
            with_dtype!(bits x.dtype, T => on_host::<T>(elements(x), rows, columns, k, lower, results(out)));
            Ok(())
        },
        gpu => gpu::triangle::triangle(x, rows, columns, k, lower, out)
    )
}

fn on_host<T: Element>(x: &[T], rows: usize, columns: usize, k: i64, lower: bool, out: &mut [T]) {
    out.copy_from_slice(x);
    for (at, row) in out.chunks_exact_mut(columns.max(1)).enumerate() {
        // The first column beyond diagonal `k`, and with it beyond the lower triangle.
        let i = (at % rows.max(1)) as i64;
        let split = |from: i64| (i.saturating_add(from)).clamp(0, columns as i64) as usize;
        let zeros = if lower { split(k.saturating_add(1))..columns } else { 0..split(k) };
        row[zeros].fill(T::from_i64(0));
    }
}
