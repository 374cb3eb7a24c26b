//! The steps of integers.
//!
//! Quotients have no machine code, as no vector instruction divides integers. AVX2 has neither the product nor the minimum nor the signed shift of integers of 8 bytes: there they are sequences.

use super::code::{Compare, Index, Inst, Shift, Truth, Two, is_512, push};
use super::lower::Compiled;
use crate::dtype::DType;
use crate::formula::Int;
use crate::formula::record::Prim;

macro_rules! compiled {
    ($($t:ident)*) => { $(impl Compiled for Int<$t> {
        const IS_INTEGER: bool = true;
        const OWN: &'static [Prim] = &[Prim::BitAnd, Prim::BitOr, Prim::BitXor, Prim::Shl, Prim::Shr];
        const FUNCTIONS: &'static [Prim] = &[];
        fn literal(v: f64) -> u64 {
            u64::from((v as $t).cast_unsigned())
        }
        fn step(p: Prim, of: [Index; 3]) -> Option<Index> {
            step(p, of, $t::BITS == 64)
        }
        fn round(_to: DType, _x: Index) -> Option<Index> {
            None
        }
        fn equal(x: Index, y: Index) -> Truth {
            Truth(push(Inst::Compare(Compare::EqualBits, x, y)))
        }
    })* };
}
compiled! { i32 i64 }

fn two(op: Two, x: Index, y: Index) -> Index {
    push(Inst::Two(op, x, y))
}

fn less(x: Index, y: Index) -> Index {
    push(Inst::Compare(Compare::LessBits, x, y))
}

fn step(p: Prim, [a, b, c]: [Index; 3], is_long: bool) -> Option<Index> {
    let zero = || push(Inst::Literal(0));
    let in_sequence = is_long && !is_512();
    Some(match p {
        Prim::Add => two(Two::AddBits, a, b),
        Prim::Sub => two(Two::SubBits, a, b),
        Prim::Mul if in_sequence => product(a, b),
        Prim::Mul => two(Two::MulBits, a, b),
        Prim::Neg => two(Two::SubBits, zero(), a),
        Prim::Abs => maximum(a, two(Two::SubBits, zero(), a), in_sequence),
        Prim::Lt => less(a, b),
        Prim::Le => push(Inst::Not(less(b, a))),
        Prim::Eq => push(Inst::Compare(Compare::EqualBits, a, b)),
        Prim::Select => push(Inst::Select(a, b, c)),
        Prim::Maximum => maximum(a, b, in_sequence),
        Prim::Minimum if in_sequence => push(Inst::Select(less(a, b), a, b)),
        Prim::Minimum => two(Two::MinBits, a, b),
        Prim::BitAnd => two(Two::And, a, b),
        Prim::BitOr => two(Two::Or, a, b),
        Prim::BitXor => two(Two::Xor, a, b),
        // A negative count is a large one without its sign.
        Prim::Shl => two(Two::ShiftLeft, a, b),
        Prim::Shr if in_sequence => {
            // The bits of a negative number are turned over, so that zeros that are shifted in become ones.
            let sign = push(Inst::Select(less(a, zero()), push(Inst::Literal(u64::MAX)), zero()));
            two(Two::Xor, two(Two::ShiftRight, two(Two::Xor, a, sign), b), sign)
        }
        Prim::Shr => two(Two::ShiftSigned, a, b),
        _ => return None,
    })
}

fn maximum(a: Index, b: Index, in_sequence: bool) -> Index {
    if in_sequence { push(Inst::Select(less(b, a), a, b)) } else { two(Two::MaxBits, a, b) }
}

/// The lower 8 bytes of a product, from products of halves.
fn product(a: Index, b: Index) -> Index {
    let upper = |x| push(Inst::Shift(Shift::Right, x, 32));
    let mixed = two(Two::AddBits, two(Two::MulHalves, upper(a), b), two(Two::MulHalves, a, upper(b)));
    two(Two::AddBits, two(Two::MulHalves, a, b), push(Inst::Shift(Shift::Left, mixed, 32)))
}
