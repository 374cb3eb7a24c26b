//! Triangular parts of matrices.

use super::copy::bits;
use super::device::of;
use super::packed_kernel::PackedKernel;
use super::window::{excess, expect_words, fits, halves, rows_of, shown, too_large};
use crate::backend::View;
use crate::backend::pointwise::compute_type;
use crate::error::Result;

const TRIANGLE: &str = crate::formula::shader_text!("triangle.wgsl");

pub fn triangle(x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
    let n = out.layout.numel();
    if n == 0 {
        return Ok(());
    }
    let (gpu, matrices) = (of(out)?, n / (rows * columns));
    let views = [x, out];
    if fits(gpu, &views) {
        return whole(x, rows, columns, k, lower, out);
    }
    let Some(bytes) = views.iter().find_map(|v| excess(gpu, v)) else {
        expect_words(gpu, "triangle", &views)?;
        return shown(gpu, &views, &mut |v| whole(v[0], rows, columns, k, lower, v[1]));
    };
    // Split into some matrices, or into some rows of one matrix; the diagonal shifts right by the number of rows
    // skipped.
    let lines = if matrices > 1 { matrices } else { rows };
    if lines < 2 {
        return Err(too_large(gpu, "triangle", bytes));
    }
    for (start, length) in halves(lines) {
        let layouts = views.map(|v| rows_of(&v, lines, (start, length)));
        let [x, out] = [0, 1].map(|i| View { layout: &layouts[i], ..views[i] });
        let (rows, k) = if matrices > 1 { (rows, k) } else { (length, k.saturating_add(start as i64)) };
        triangle(x, rows, columns, k, lower, out)?;
    }
    Ok(())
}

fn whole(x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
    let dtype = bits(x.dtype);
    // Diagonals beyond the corners are equivalent.
    let k = k.clamp(-(rows as i64), columns as i64) as i32;
    PackedKernel {
        op: "triangle",
        kernel: "triangle",
        frame: TRIANGLE,
        compute: compute_type(dtype),
        variant: &[],
        out: View { dtype, ..out },
        read: &[("x", View { dtype, ..x })],
        slots: &Vec::new,
        params: &|p| {
            p.u32(rows as u32).u32(columns as u32).u32(k as u32).u32(lower as u32);
        },
    }
    .run()
}
