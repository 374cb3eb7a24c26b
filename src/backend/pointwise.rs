//! A formula applied to tensors: compiled loops on the CPU, shaders rendered from recorded steps on a GPU.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::pointwise::{FEW, Few, Kernel, Loop, Operand, compute_type, run_few, run_pair};
use smallvec::SmallVec;

use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::formula::ARGS;
use crate::formula::record::Steps;
#[cfg(feature = "gpu")]
use crate::formula::record::{Prim, Step};
use crate::layout::Layout;
use crate::{ensure, with_dtype};

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
        cpu => cpu::pointwise::run(program.kernel, compute, operands, params, out),
        gpu => gpu::pointwise::run(program, compute, operands, params, out).map(|()| true)
    )
}

/// The formula of [`integer_power`].
#[cfg(feature = "gpu")]
const INTEGER_POWER: Program = Program {
    name: "pow",
    part: 0,
    kernel: Kernel::Same { f32: None, f64: None, i32: None, i64: None },
    steps: &|| vec![Step::Arg(0), Step::Arg(1), Step::Do(Prim::Pow, [0, 1, 0])],
};

/// Errors where an integer among the divisors is zero; on a GPU that may be told later.
pub fn expect_divisors(x: View) -> Result<()> {
    by_device!(x.device(),
        cpu => {
            let zero = with_dtype!(x.dtype, T => elements::<T>(x).iter().any(|v| v.to_f64() == 0.0));
            ensure!(!zero, Error::ZeroDivision);
            Ok(())
        },
        gpu => gpu::divide::expect_divisors(x)
    )
}

/// Powers of int64, which wrap; a negative exponent leaves only those of 1 and -1. All are dense and of one shape.
pub fn integer_power(base: View, exponent: View, out: View) -> Result<()> {
    by_device!(same_device([out, base, exponent])?,
        cpu => {
            cpu::pointwise::integer_power(elements(base), elements(exponent), results(out));
            Ok(())
        },
        gpu => {
            let operands = [Operand::View(base), Operand::View(exponent)];
            gpu::pointwise::run(&INTEGER_POWER, DType::I64, &operands, &[], out)
        }
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
