//! A formula applied to tensors: compiled loops on the CPU, shaders rendered from recorded steps on a GPU.

pub use super::cpu::pointwise::{SMALL_NUMEL, SmallOperand, run_few, run_pair};
use super::{View, of, same_device};
use smallvec::SmallVec;

use crate::dtype::{Bool8, DType, Scalar};
use crate::error::Result;
use crate::formula::record::Prim;
use crate::formula::{ARGS, Formula, Int};
use crate::layout::Layout;

/// A compiled loop: inputs, number parameters, output. It computes the whole groups of [`GROUP`] elements of its output
/// and reads as many of each input: see Note [Whole groups].
type Whole<T, O> = fn(&[&[T]], &[T], &mut [O]);

/// Elements that a loop takes at a time: a multiple of what the vectoriser takes at a time of a formula of any length.
pub const GROUP: usize = 16;

// Note [Whole groups]: a loop that knows the number of its elements to be a multiple of its vectors is compiled to the
// vectors alone. Without that each formula is there a second time, for single elements, which is a third of the code
// and, for formulas of many steps, slower on the last 15 elements than on one more vector.

/// The loop of a formula for one type.
#[derive(Clone, Copy)]
pub struct Loop<T, O>(pub(super) Whole<T, O>);

impl<T, O> Loop<T, O> {
    pub const fn new(whole: Whole<T, O>) -> Self {
        Loop(whole)
    }
}

/// The loops of a formula, by the type that it computes in.
#[derive(Clone, Copy)]
pub enum Kernel {
    /// A result of the type computed in.
    Same {
        f32: Option<Loop<f32, f32>>,
        f64: Option<Loop<f64, f64>>,
        i32: Option<Loop<Int<i32>, Int<i32>>>,
        i64: Option<Loop<Int<i64>, Int<i64>>>,
    },
    /// A truth value.
    Truth {
        f32: Option<Loop<f32, Bool8>>,
        f64: Option<Loop<f64, Bool8>>,
        i32: Option<Loop<Int<i32>, Bool8>>,
        i64: Option<Loop<Int<i64>, Bool8>>,
    },
}

impl Kernel {
    /// No loops: a formula that is only rendered, or interpreted.
    pub const NONE: Kernel = Kernel::Same { f32: None, f64: None, i32: None, i64: None };

    /// Whether there is a loop that computes in a dtype.
    pub const fn computes(&self, dtype: DType) -> bool {
        macro_rules! has {
            ($f32:ident $f64:ident $i32:ident $i64:ident) => {
                match dtype {
                    DType::F32 => $f32.is_some(),
                    DType::F64 => $f64.is_some(),
                    DType::I32 => $i32.is_some(),
                    DType::I64 => $i64.is_some(),
                    _ => false,
                }
            };
        }
        match self {
            Kernel::Same { f32, f64, i32, i64 } => has!(f32 f64 i32 i64),
            Kernel::Truth { f32, f64, i32, i64 } => has!(f32 f64 i32 i64),
        }
    }
}

/// The loops of the row that computes a primitive step.
pub type Primitives<'a> = &'a (dyn Fn(Prim) -> Option<Kernel> + Sync);

/// An operand of a formula.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// Already expanded to the shape of the result.
    View(View<'a>),
    Number(Scalar),
    /// Not read by the formula.
    Unread,
}

/// The type that a formula computes in for a common dtype.
pub const fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => DType::F32,
        DType::F64 => DType::F64,
        DType::I64 => DType::I64,
        _ => DType::I32,
    }
}

/// A formula, as each device wants it.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// The operation's name, for messages and profiles.
    pub name: &'static str,
    pub kernel: Kernel,
    /// The recorded steps, made when a device first asks for them.
    pub formula: &'a dyn Fn() -> &'a Formula,
}

/// A formula with one result, and what it is applied to as part of another kernel.
#[derive(Clone, Copy)]
pub struct Applied<'a> {
    /// The operation's name, for messages and profiles.
    pub name: &'static str,
    pub kernel: Kernel,
    pub formula: &'a Formula,
    pub primitives: Primitives<'a>,
    pub operands: &'a [Operand<'a>],
    pub params: &'a [Scalar],
}

impl<'a> Applied<'a> {
    pub fn views(&self) -> impl Iterator<Item = View<'a>> {
        self.operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None })
    }
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
    of(same_device(std::iter::once(out).chain(views))?)?.pointwise(program, compute, operands, params, out)
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
    of(same_device(outs.iter().copied().chain(views))?)?
        .pointwise_all(name, formula, primitives, compute, operands, params, outs)
}

/// Errors where an integer among the divisors is zero; on a GPU that may be told later.
pub fn expect_divisors(x: View) -> Result<()> {
    of(x.device())?.expect_divisors(x)
}

/// Powers of int64, which wrap; a negative exponent leaves only those of 1 and -1. All are dense and of one shape.
pub fn integer_power(base: View, exponent: View, out: View) -> Result<()> {
    of(same_device([out, base, exponent])?)?.integer_power(base, exponent, out)
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
