//! A formula applied to tensors: compiled loops on the CPU, shaders rendered from recorded steps on a GPU.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, same_device};
pub use cpu::pointwise::{Kernel, Loop, Operand, compute_type, run_small, run_small_number};

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::record::Steps;

/// A formula, as each device wants it.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// The operation's name; with `part` it tells the formula from every other.
    pub name: &'static str,
    /// 0 for the operation itself, then its derivatives.
    pub part: u8,
    pub kernel: Kernel,
    pub steps: &'a dyn Fn() -> Steps,
}

/// Applies a formula that computes in `compute`; false where it has no loop for that.
#[inline]
pub fn run(
    program: &Program,
    compute: DType,
    operands: &[Operand],
    params: &[Scalar],
    out: View,
) -> Result<bool> {
    let views = operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None });
    by_device!(same_device(std::iter::once(out).chain(views))?,
        cpu => Ok(cpu::pointwise::run(program.kernel, compute, operands, params, out)),
        gpu => gpu::pointwise::run(program, compute, operands, params, out).map(|()| true)
    )
}
