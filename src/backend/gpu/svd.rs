//! Singular value decomposition.

use super::copy;
use super::device::of;
use super::factor::{Sizes, Work, rotations};
use super::softmax::Walk;
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::svd::Matrices;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Dims, Layout};

const KERNELS: &str = crate::formula::shader_text!("svd.wgsl");

/// The type to compute in: float64 if the adapter supports it, as on the CPU, else float32.
pub fn compute_type(x: View) -> Result<DType> {
    Ok(if of(x)?.caps.float64 { DType::F64 } else { DType::F32 })
}

pub fn decompose(m: &Matrices, w: View, out: View) -> Result<()> {
    let gpu = of(out)?;
    let dtype = out.dtype;
    gpu.expect("svd", dtype)?;
    // The columns are rotated in a copy.
    let n = m.count * m.rows * m.columns;
    // Empty buffers cannot be bound.
    let turned = Workspace::new(gpu, n.max(1), dtype)?;
    let flat = |offset| Layout { offset, ..Layout::contiguous(Dims::from([n])) };
    copy::copy(View { layout: &flat(w.layout.offset), ..w }, View { layout: &flat(0), ..turned.view() })?;
    let keeps = m.columns * m.columns + m.columns + 3 + m.left + m.rows;
    let work = Work {
        op: "svd",
        kernels: KERNELS,
        walk: Walk::Alone,
        count: m.count,
        size: m.rows * m.columns,
        each: m.each(),
        keeps,
        sizes: Sizes { n: m.columns, m: m.rows, left: m.left, right: m.right, ..Sizes::default() },
        a: turned.view(),
        out,
        kept: Workspace::new(gpu, m.count * keeps, dtype)?,
    };
    let simple = |kernel, pieces| work.launch(kernel, 0, (1, pieces), [0; 3]);
    if m.columns > 0 {
        simple("start_svd", m.columns)?;
        simple("divide_columns", m.columns)?;
        let loops = 2 * m.rows + m.columns;
        rotations(m.columns, loops, &mut |turns| work.launch("sweep_columns", 0, (1, 1), turns))?;
        simple("measure", m.columns)?;
        simple("put_in_order", m.columns)?;
    }
    for vector in 0..m.left {
        let all = |kernel| work.launch(kernel, vector, (1, m.rows), [0; 3]);
        all("measure_axes")?;
        all("choose_axis")?;
        // The second pass removes the rounding error of the first.
        for _ in 0..2 {
            all("share")?;
            all("subtract_shares")?;
        }
        all("measure_vector")?;
        all("divide_vector")?;
    }
    Ok(())
}
