//! Singular values and vectors.

use super::copy;
use super::device::of;
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
    let turns = Temporary::new(gpu, (m.count * (m.columns + 1) * m.columns).max(1), dtype)?;
    let mut params = Params::new(m.count as u32);
    params.u32(m.rows as u32).u32(m.columns as u32).u32(m.left as u32).u32(m.right as u32);
    params.u32(0).u32(out.layout.offset as u32);
    params.f32(if dtype == DType::F64 { f64::EPSILON as f32 } else { f32::EPSILON });
    let source = || {
        let kind = stored(dtype);
        let bindings = ["result", "w", "turns"]
            .iter()
            .enumerate()
            .map(|(i, name)| binding(i + 1, "read_write", name, kind))
            .collect::<String>();
        template::shader(FRAME, dtype, &[("bindings", &bindings)]).map_err(Error::NotImplemented)
    };
    gpu.launch(Launch {
        op: "svd",
        kernel: "svd",
        variant: &[dtype as u8],
        source: &source,
        written: &[out, turned.view(), turns.view()],
        read: &[],
        params: &params,
        groups: m.count.div_ceil(GROUP),
    })
}
