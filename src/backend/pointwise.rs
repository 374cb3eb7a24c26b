//! A formula applied to tensors: compiled loops on the CPU, shaders rendered from recorded steps on a GPU.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::interpret::Primitives;
pub use cpu::pointwise::{FEW, Few, Kernel, Loop, Operand, compute_type, run_few, run_pair};
use smallvec::SmallVec;

use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::formula::{ARGS, Formula};
#[cfg(feature = "gpu")]
use crate::formula::{Num, recorded};
use crate::layout::Layout;
use crate::{ensure, with_dtype};

/// A formula, as each device wants it.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// The operation's name, for messages and profiles.
    pub name: &'static str,
    pub kernel: Kernel,
    /// The recorded steps, made when a device first asks for them.
    pub formula: &'a dyn Fn() -> &'a Formula,
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

/// Applies a formula with one result or more, each of the shape that all operands are expanded to, to any number of
/// operands: block by block with the loops of the rows on the host, in one launch on a GPU.
///
/// # Errors
/// Where a step is not defined in `compute`.
pub fn run_all(
    name: &'static str,
    formula: &Formula,
    primitives: Primitives,
    compute: DType,
    operands: &[Operand],
    params: &[Scalar],
    outs: &[View],
) -> Result<()> {
    let Some(first) = outs.first() else { return Ok(()) };
    if let (false, Some(order)) = (first.layout.is_contiguous(), first.layout.memory_order()) {
        let turn = |v: &View| v.layout.permute(&order);
        let results: SmallVec<[Layout; 4]> = outs.iter().map(turn).collect();
        let inputs: SmallVec<[Layout; ARGS]> = operands
            .iter()
            .map(|o| if let Operand::View(v) = o { turn(v) } else { Layout::default() })
            .collect();
        let outs: SmallVec<[View; 4]> =
            outs.iter().zip(&results).map(|(v, layout)| View { layout, ..*v }).collect();
        let operands: SmallVec<[Operand; ARGS]> = operands
            .iter()
            .zip(&inputs)
            .map(
                |(o, layout)| {
                    if let Operand::View(v) = o { Operand::View(View { layout, ..*v }) } else { *o }
                },
            )
            .collect();
        return run_all(name, formula, primitives, compute, &operands, params, &outs);
    }
    let views = operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None });
    by_device!(same_device(outs.iter().copied().chain(views))?,
        cpu => {
            let done = cpu::interpret::run(formula, primitives, compute, operands, params, outs)?;
            ensure!(done, NotImplemented, "a step of '{name}' is not defined in {}", compute.name());
            Ok(())
        },
        gpu => match outs {
            // One result is stored in wider words.
            [out] if operands.len() <= ARGS && (0..operands.len()).all(|k| formula.reads(k)) => {
                let program = Program { name, kernel: Kernel::NONE, formula: &|| formula };
                gpu::pointwise::run(&program, compute, operands, params, *out)
            }
            _ => gpu::fused::run(name, formula, compute, operands, params, outs),
        }
    )
}

/// The formula of [`integer_power`].
#[cfg(feature = "gpu")]
const INTEGER_POWER: Program =
    Program { name: "pow", kernel: Kernel::NONE, formula: &|| recorded!(|a| a[0].pow(a[1])) };

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
