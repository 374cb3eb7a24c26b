//! A formula applied to tensors: compiled loops on the CPU, shaders rendered from recorded steps on a GPU.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, same_device};
pub use cpu::pointwise::{Kernel, Loop, Operand, compute_type, run_few};
use smallvec::SmallVec;

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::ARGS;
use crate::formula::record::Steps;
use crate::layout::Layout;

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
    if !out.layout.is_contiguous()
        && let Some(order) = out.layout.memory_order()
    {
        return run_in_order(program, compute, operands, params, out, &order);
    }
    let views = operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None });
    by_device!(same_device(std::iter::once(out).chain(views))?,
        cpu => Ok(cpu::pointwise::run(program.kernel, compute, operands, params, out)),
        gpu => gpu::pointwise::run(program, compute, operands, params, out).map(|()| true)
    )
}

/// Walks the dimensions in the order that the result has in memory, in which operands that lie alike are contiguous.
#[cold]
fn run_in_order(
    program: &Program,
    compute: DType,
    operands: &[Operand],
    params: &[Scalar],
    out: View,
    order: &[usize],
) -> Result<bool> {
    let turned: SmallVec<[Layout; ARGS]> = operands
        .iter()
        .map(|o| if let Operand::View(v) = o { v.layout.permute(order) } else { Layout::default() })
        .collect();
    let operands: SmallVec<[Operand; ARGS]> = operands
        .iter()
        .zip(&turned)
        .map(|(o, layout)| if let Operand::View(v) = o { Operand::View(View { layout, ..*v }) } else { *o })
        .collect();
    run(program, compute, &operands, params, View { layout: &out.layout.permute(order), ..out })
}
