//! Integer division by zero, reported like an out-of-range index.

use super::device::of;
use super::device_assert;
use super::packed_kernel::{GROUP, loader, render};
use super::params::Params;
use super::pipeline::Launch;
use crate::backend::View;
use crate::backend::pointwise::compute_type;
use crate::error::Result;
use crate::formula::template::{binding, stored};

const FRAME: &str = crate::formula::shader_text!("divisor.wgsl");

/// Checks dense integers for zero; reports at once on a software adapter, otherwise at the next synchronization.
pub fn expect_divisors(x: View) -> Result<()> {
    let n = x.layout.numel();
    if n == 0 {
        return Ok(());
    }
    let (gpu, compute) = (of(x)?, compute_type(x.dtype));
    gpu.expect("division", x.dtype)?;
    let mut params = Params::new(n as u32);
    params.u32(x.layout.offset as u32).u32(device_assert::DIVISION);
    let source = || {
        let (bindings, load) = (binding(2, "read", "x", stored(x.dtype)), loader("x", x.dtype));
        render("division", FRAME, compute, &[("bindings", &*bindings), ("load", &*load)])
    };
    gpu.launch(Launch {
        op: "division",
        kernel: "divisor",
        variant: &[x.dtype as u8],
        source: &source,
        written: &[gpu.faults()?.view()],
        read: &[x],
        params: &params,
        groups: n.div_ceil(GROUP),
    })?;
    if gpu.caps.is_cpu { gpu.finish() } else { Ok(()) }
}
