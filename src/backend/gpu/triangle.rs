//! Triangles of matrices.

use super::copy::bits;
use super::elements::Elements;
use crate::backend::View;
use crate::backend::pointwise::compute_type;
use crate::error::Result;

const TRIANGLE: &str = include_str!("../../../shaders/triangle.wgsl");

pub fn triangle(x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
    let dtype = bits(x.dtype);
    // Beyond the corners every diagonal is alike.
    let k = k.clamp(-(rows as i64), columns as i64) as i32;
    Elements {
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
