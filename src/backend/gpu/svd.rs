//! Singular values and vectors.

use super::copy;
use super::device::of;
use super::factor::rotations;
use super::params::Params;
use super::pipeline::Launch;
use super::temporary::Temporary;
use crate::backend::View;
use crate::backend::svd::Matrices;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};
use crate::layout::{Dims, Layout};

const FRAME: &str = crate::formula::shader_text!("svd.wgsl");

/// Invocations in a workgroup.
const GROUP: usize = 64;

/// The type that matrices are decomposed in: float64 where there is one, as on the CPU.
pub fn compute_type(x: View) -> Result<DType> {
    Ok(if of(x)?.caps.float64 { DType::F64 } else { DType::F32 })
}

pub fn decompose(m: &Matrices, w: View, out: View) -> Result<()> {
    let gpu = of(out)?;
    let dtype = out.dtype;
    gpu.expect("svd", dtype)?;
    // The columns are turned in a copy.
    let n = m.count * m.rows * m.columns;
    // Nothing empty can be bound.
    let turned = Temporary::new(gpu, n.max(1), dtype)?;
    let flat = |offset| Layout { offset, ..Layout::contiguous(Dims::from([n])) };
    copy::copy(View { layout: &flat(w.layout.offset), ..w }, View { layout: &flat(0), ..turned.view() })?;
    let keeps = m.columns * m.columns + m.columns + 3 + m.left + m.rows;
    let kept = Temporary::new(gpu, m.count * keeps, dtype)?;
    let launch = |kernel: &'static str, pieces: usize, turns: [usize; 3], vector: usize| {
        let mut params = Params::new(m.count as u32);
        let sizes = [pieces, m.rows, m.columns, m.left, m.right, out.layout.offset];
        for v in sizes.iter().chain(&turns).chain(&[vector]) {
            params.u32(*v as u32);
        }
        params.f32(if dtype == DType::F64 { f64::EPSILON as f32 } else { f32::EPSILON });
        let source = || {
            let bind = |(i, name): (usize, &&str)| binding(i + 1, "read_write", name, stored(dtype));
            let bindings: String = ["result", "w", "kept"].iter().enumerate().map(bind).collect();
            let slots = [("bindings", &*bindings), ("body", &*format!("    {kernel}();\n"))];
            template::shader(FRAME, dtype, &slots).map_err(Error::NotImplemented)
        };
        gpu.launch(Launch {
            op: "svd",
            kernel,
            variant: &[dtype as u8],
            source: &source,
            written: &[out, turned.view(), kept.view()],
            read: &[],
            params: &params,
            groups: (m.count * pieces).div_ceil(GROUP),
        })
    };
    let simple = |kernel, pieces| launch(kernel, pieces, [0; 3], 0);
    if m.columns > 0 {
        simple("start_svd", m.columns)?;
        simple("divide_columns", m.columns)?;
        let loops = 2 * m.rows + m.columns;
        rotations(m.columns, loops, &mut |turns| launch("sweep_columns", 1, turns, 0))?;
        simple("measure", m.columns)?;
        simple("put_in_order", m.columns)?;
    }
    for vector in 0..m.left {
        let all = |kernel| launch(kernel, m.rows, [0; 3], vector);
        all("measure_axes")?;
        all("choose_axis")?;
        // The second time removes what rounding left.
        for _ in 0..2 {
            all("share")?;
            all("subtract_shares")?;
        }
        all("measure_vector")?;
        all("divide_vector")?;
    }
    Ok(())
}
