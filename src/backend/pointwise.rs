//! Pointwise formulas applied to tensors: compiled loops on the CPU, shaders rendered from recorded steps on a GPU.

pub use super::cpu::pointwise::{SMALL_NUMEL, SmallOperand, run_few, run_pair};
use super::{View, of, same_device};
use smallvec::SmallVec;

use crate::dtype::{Bool8, DType, Scalar};
use crate::error::Result;
use crate::formula::record::Prim;
use crate::formula::{ARGS, Formula, Int};
use crate::layout::Layout;

/// A compiled loop: inputs, parameters, output. It processes whole groups of [`GROUP`] elements and ignores a
/// remainder; see Note [Whole groups].
pub type Whole<T, O> = fn(&[&[T]], &[T], &mut [O]);

/// Elements per group: a multiple of the elements that the vectorizer processes per iteration, for formulas of any
/// length.
pub const GROUP: usize = 16;

// Note [Whole groups]: if the compiler knows that the number of elements is a multiple of its vectors, it emits vector
// code only. Otherwise every formula is compiled a second time for single elements, which is a third of the code and,
// for formulas of many steps, slower for the last 15 elements than one more vector.

/// The compiled loop of a formula for one type.
#[derive(Clone, Copy)]
pub struct Loop<T, O> {
    pub(super) whole: Whole<T, O>,
    pub(super) lean: Lean<T, O>,
}

/// Further loops of formulas that take less time than reading their operands.
#[derive(Clone, Copy)]
pub struct Lean<T, O> {
    /// With single elements, which every element of the result uses, as one of two operands, or as the last or the last two
    /// of three.
    pub column: Option<Whole<T, O>>,
    /// With the first operand in the memory of the result; the last ones may be single elements.
    pub in_place: Option<Whole<T, O>>,
}

impl<T, O> Loop<T, O> {
    pub const fn new(whole: Whole<T, O>) -> Self {
        Loop { whole, lean: Lean { column: None, in_place: None } }
    }

    #[cfg(test)]
    pub fn lean(&self) -> &Lean<T, O> {
        &self.lean
    }

    pub const fn with(self, lean: Lean<T, O>) -> Self {
        Loop { lean, ..self }
    }
}

// Note [Bytes]: bools and integers of 8 bits are computed in int32. The low bits of a sum or product depend on nothing but
// the low bits of its operands, and logic and comparisons of equal types need no others either. Such a formula is also
// compiled for bytes, with four times the elements per vector, and without blocks in which operands are widened and from
// which the result is narrowed. The order of elements holds for unsigned bytes and bools only, and
// what a bool may not hold (1 + 1) leaves bools to int32.

/// What [`Bytes`] compute with.
pub type Byte = Int<u8>;

/// A loop on the bytes of elements, and the dtypes on which it gives what the loop for int32 gives: Note [Bytes]. Its
/// parameters are the greatest byte of each operand.
#[derive(Clone, Copy)]
pub struct Bytes<O> {
    pub run: Loop<Byte, O>,
    pub on: &'static [DType],
}

/// The compiled loops of a formula, by compute type.
#[derive(Clone, Copy)]
pub enum Kernel {
    /// The result has the compute type.
    Same {
        f32: Option<Loop<f32, f32>>,
        f64: Option<Loop<f64, f64>>,
        i32: Option<Loop<Int<i32>, Int<i32>>>,
        i64: Option<Loop<Int<i64>, Int<i64>>>,
        bytes: Option<Bytes<Byte>>,
    },
    /// The result is a boolean.
    Truth {
        f32: Option<Loop<f32, Bool8>>,
        f64: Option<Loop<f64, Bool8>>,
        i32: Option<Loop<Int<i32>, Bool8>>,
        i64: Option<Loop<Int<i64>, Bool8>>,
        bytes: Option<Bytes<Bool8>>,
    },
}

impl Kernel {
    /// No loops, for a formula that is only rendered or interpreted.
    pub const NONE: Kernel = Kernel::Same { f32: None, f64: None, i32: None, i64: None, bytes: None };

    /// Whether there is a loop for a compute dtype.
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
            Kernel::Same { f32, f64, i32, i64, .. } => has!(f32 f64 i32 i64),
            Kernel::Truth { f32, f64, i32, i64, .. } => has!(f32 f64 i32 i64),
        }
    }
}

/// Returns the compiled loops of the pointwise operation that computes a primitive step.
pub type Primitives<'a> = &'a (dyn Fn(Prim) -> Option<Kernel> + Sync);

/// An operand of a formula.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// Expanded to the shape of the result.
    View(View<'a>),
    Number(Scalar),
    /// Not read by the formula.
    Unread,
}

/// The type in which a formula computes, given the promoted dtype.
pub const fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        DType::I64 | DType::U32 | DType::U64 => DType::I64,
        d if d.is_float() => DType::F32,
        _ => DType::I32,
    }
}

/// A formula in the forms that the devices need.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// The operation's name, for messages and profiles.
    pub name: &'static str,
    pub kernel: Kernel,
    /// The recorded steps, created on first use.
    pub formula: &'a dyn Fn() -> &'a Formula,
}

/// A formula with one result and its operands, evaluated as part of another kernel.
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
    pub fn views(&self) -> impl Iterator<Item = View<'a>> + Clone {
        self.operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None })
    }
}

/// Applies a formula that computes in `compute`; false if it has no loop for that dtype.
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

/// Applies a formula with any number of operands and one or more results. All operands are expanded to the shape of
/// the results. Interpreted block by block on the CPU, one launch on a GPU.
///
/// # Errors
/// If a step is not defined for `compute`.
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

/// Errors if an integer divisor is zero; a GPU may report it later.
pub fn expect_divisors(x: View) -> Result<()> {
    of(x.device())?.expect_divisors(x)
}

/// Powers of int64 with wraparound; for negative exponents only the powers of 1 and -1 are non-zero. All operands are
/// dense and of one shape.
pub fn integer_power(base: View, exponent: View, out: View) -> Result<()> {
    of(same_device([out, base, exponent])?)?.integer_power(base, exponent, out)
}

/// Iterates over dimensions in the result's memory order, in which operands with the same layout are contiguous.
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
