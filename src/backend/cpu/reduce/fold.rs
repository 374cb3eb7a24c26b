//! Reductions of formulas: see Note [Reduced formulas].

use std::marker::PhantomData as P;

use half::bf16;
use smallvec::SmallVec;

use super::computed::{Compute, Converted, Elements, Reader, Widened};
use super::extremum::greatest;
use super::moments::logsumexp_of;
use super::{
    All, Any, Finish, Monoid, Ordered, Product, ProductInt, ReduceOp as Each, Sum, SumInt, norm_of, reduce,
};
use crate::backend::cpu::copy::View;
use crate::backend::cpu::interpret::{Interpreted, Interpreter, Plan};
use crate::backend::cpu::math::ExpNonpositive;
use crate::backend::cpu::output::Output;
use crate::backend::cpu::pointwise::OperandAccess;
use crate::backend::pointwise::{Applied, Operand};
use crate::backend::reduce::{Fold, ReduceDims, ReduceOp};
use crate::dtype::{Bool8, DType, Element};
use crate::error::Result;
use crate::formula::Int;

/// Reduces a formula; false if the elements must be stored in memory first.
pub fn formula(fold: &Fold, out: View) -> Result<bool> {
    // An output that overlaps an operand would be overwritten before the operand is read.
    let apart = fold.of.views().all(|v| !v.overlaps(&out))
        && fold.then.iter().flat_map(Applied::views).all(|v| !v.overlaps(&out));
    if !apart || fold.dims.is_empty() || out.dtype != fold.reduced() {
        return Ok(false);
    }
    match fold.compute {
        DType::F32 => of_floats::<f32>(fold, out),
        DType::F64 => of_floats::<f64>(fold, out),
        DType::I32 => of_whole::<Int<i32>>(fold, out),
        DType::I64 => of_whole::<Int<i64>>(fold, out),
        _ => Ok(false),
    }
}

fn of_floats<T: Interpreted<Stored = T> + ExpNonpositive + Ordered>(fold: &Fold, out: View) -> Result<bool> {
    let d = fold.dims;
    let Some(computed) = Computed::<T>::of(&fold.of, d.len(), out) else { return Ok(false) };
    let x = computed.elements();
    if fold.reduced() != T::DTYPE {
        return if fold.then.is_none() { of_bits::<T>(fold, x, out) } else { Ok(false) };
    }
    let then = match &fold.then {
        None => None,
        Some(then) => match Computed::<T>::after(then, d.lanes(), out) {
            Some(then) => Some(then),
            None => return Ok(false),
        },
    };
    let finish = |lane: usize, values: &mut [T]| {
        if let Some(then) = &then {
            let range = lane..lane + values.len();
            Interpreter::new(&then.plan, &then.origins, &range).replace(values);
        }
    };
    let finish: Finish<T> = if then.is_some() { Some(&finish) } else { None };
    of_elements(fold.op, x, d, finish, out)
}

/// A sum that widens each element, which for bfloat16 is a shift in the loop.
#[derive(Clone, Copy)]
struct SumOfBf16;

impl Monoid for SumOfBf16 {
    type In = bf16;
    type Acc = f32;
    #[inline(always)]
    fn identity(self) -> f32 {
        0.0
    }
    #[inline(always)]
    fn lift(self, x: bf16) -> f32 {
        f32::from_bits(u32::from(x.to_bits()) << 16)
    }
    #[inline(always)]
    fn combine(self, a: f32, b: f32) -> f32 {
        a + b
    }
}

/// Reduces elements of a half type, which are dense, in float32.
pub fn of_halves<T: Element>(op: ReduceOp, x: &[T], d: ReduceDims, out: View) -> Result<bool> {
    if T::DTYPE == DType::BF16
        && op == ReduceOp::Sum
        && let Ok(x) = bytemuck::try_cast_slice::<T, bf16>(x)
    {
        reduce(&Each(SumOfBf16), Elements::Slice(x), d, None, &mut Output::<f32>::of(out)?);
        return Ok(true);
    }
    of_elements::<f32>(op, Elements::Computed(&Widened(x)), d, None, out)
}

/// Reduces floating point numbers; false if the results are not of their dtype.
fn of_elements<T: ExpNonpositive + Ordered>(
    op: ReduceOp,
    x: Elements<T>,
    d: ReduceDims,
    finish: Finish<T>,
    out: View,
) -> Result<bool> {
    let out = &mut Output::<T>::of(out)?;
    match op {
        ReduceOp::Sum => reduce(&Each(Sum(P)), x, d, finish, out),
        ReduceOp::Product => reduce(&Each(Product(P)), x, d, finish, out),
        ReduceOp::Max => greatest(x, d, true, finish, out),
        ReduceOp::Min => greatest(x, d, false, finish, out),
        ReduceOp::Norm(p) => norm_of(p, x, d, finish, out),
        ReduceOp::LogSumExp => logsumexp_of(x, d, finish, out),
        // These have results of bytes and are handled by `of_bits`.
        ReduceOp::All | ReduceOp::Any => return Ok(false),
    }
    Ok(true)
}

fn of_whole<T: Interpreted>(fold: &Fold, out: View) -> Result<bool>
where
    T::Stored: Element,
{
    if fold.then.is_some() {
        return Ok(false);
    }
    let Some(computed) = Computed::<T>::of(&fold.of, fold.dims.len(), out) else { return Ok(false) };
    of_bits::<T>(fold, computed.elements(), out)
}

/// Reductions whose results are bytes or 64-bit integers. The elements are converted to bools or 64-bit integers first.
fn of_bits<T: Interpreted>(fold: &Fold, source: Elements<T::Stored>, out: View) -> Result<bool> {
    let d = fold.dims;
    let truth = Converted { source, convert: |v: T::Stored| Bool8((v != T::Stored::from_i64(0)) as u8) };
    let whole = Converted { source, convert: |v: T::Stored| v.to_i64() };
    let (truth, whole) = (Elements::Computed(&truth), Elements::Computed(&whole));
    match fold.op {
        ReduceOp::All => reduce(&Each(All(P)), truth, d, None, &mut Output::<u8>::of(out)?),
        ReduceOp::Any => reduce(&Each(Any(P)), truth, d, None, &mut Output::<u8>::of(out)?),
        ReduceOp::Sum => reduce(&Each(SumInt(P)), whole, d, None, &mut Output::<i64>::of(out)?),
        ReduceOp::Product => reduce(&Each(ProductInt(P)), whole, d, None, &mut Output::<i64>::of(out)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A formula and its operands, prepared for evaluation at any position.
struct Computed<'a, T> {
    plan: Plan<T>,
    origins: SmallVec<[OperandAccess<'a>; 4]>,
    n: usize,
}

impl<'a, T: Interpreted> Computed<'a, T> {
    /// A formula for `n` positions. None if a step is not defined for this type, an operand is missing, or an operand
    /// is transposed (see Note [Bands]).
    fn of(a: &Applied<'a>, n: usize, out: View) -> Option<Self> {
        Computed::new(Plan::of(a, n)?, a.operands, n, out)
    }

    fn new(plan: Plan<T>, operands: &[Operand<'a>], n: usize, out: View) -> Option<Self> {
        let origins: SmallVec<[OperandAccess; 4]> =
            operands.iter().map(|o| OperandAccess::of::<T>(Some(o), out)).collect();
        let turned = origins.iter().any(|o| matches!(o, OperandAccess::Bands(..)));
        (!turned).then_some(Computed { plan, origins, n })
    }

    /// Like `of`, with a first operand that is passed block by block.
    fn after(a: &Applied<'a>, n: usize, out: View) -> Option<Self> {
        let mut computed = Computed::new(Plan::of(a, n)?, a.operands, n, out)?;
        *computed.origins.first_mut()? = OperandAccess::Given;
        Some(computed)
    }

    fn elements(&self) -> Elements<'_, T::Stored> {
        match self.plan.passes().map(|k| &self.origins[k]) {
            Some(OperandAccess::Direct(v)) => {
                let elements = v.storage.slice::<T::Stored>().get(v.layout.offset..);
                Elements::Slice(&elements.unwrap_or_default()[..self.n])
            }
            _ => Elements::Computed(self),
        }
    }
}

impl<T: Interpreted> Compute<T::Stored> for Computed<'_, T> {
    fn reader(&self) -> Box<dyn Reader<T::Stored> + '_> {
        Box::new(Interpreter::new(&self.plan, &self.origins, &(0..self.n)))
    }
}

impl<T: Interpreted> Reader<T::Stored> for Interpreter<'_, '_, T> {
    fn read(&mut self, at: usize, out: &mut [T::Stored]) {
        self.seek(at);
        Interpreter::read(self, out);
    }
}
