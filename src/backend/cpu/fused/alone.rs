//! Single operations on half types, as groups of one.
//!
//! The compiled loops compute in float32: a block of operands is widened first, and a block of results narrowed afterwards. Machine
//! code does both in registers, with the same bits.

use smallvec::SmallVec;

use crate::backend::View;
use crate::backend::cpu::machine;
use crate::backend::group::{Call, Group, GroupOperand, Level, Value, Work};
use crate::backend::pointwise::{Operand, Program};
use crate::dtype::{DType, Scalar};
use crate::error::Result;

/// Fewer elements are not worth the search for a kernel.
const LEAST: usize = 1 << 15;

/// Computes a pointwise operation whose result has a half type; false, and nothing done, if this would not be faster.
pub fn run(
    program: &Program,
    compute: DType,
    operands: &[Operand],
    params: &[Scalar],
    out: View,
) -> Result<bool> {
    let numel = out.layout.numel();
    let is_usual =
        out.dtype.is_half() && compute == DType::F32 && out.layout.is_contiguous() && numel >= LEAST;
    if !is_usual || !machine::is_enabled() {
        return Ok(false);
    }
    let mut views: SmallVec<[GroupOperand; 3]> = SmallVec::new();
    let mut args: SmallVec<[Value; 4]> = SmallVec::new();
    for operand in operands {
        args.push(match operand {
            // What the result overwrites is read block by block.
            Operand::View(v) if v.overlaps(&out) => return Ok(false),
            Operand::View(v) => {
                views.push(GroupOperand { view: *v, level: Level::Elements });
                Value::Operand(views.len() - 1)
            }
            Operand::Number(s) => Value::Number(*s),
            Operand::Unread => return Ok(false),
        });
    }
    let formula = (program.formula)();
    if views.is_empty() || !machine::is_compiled::<f32>(formula) {
        return Ok(false);
    }
    let work = Work::Map { kernel: program.kernel, formula, params };
    let call = Call { name: program.name, work, level: Level::Elements, rounded: Some(out.dtype), args };
    super::run(&Group {
        compute,
        numel,
        n: 0,
        part: 0,
        columns: None,
        tile: 0,
        producer: None,
        calls: &[call],
        operands: &views,
        results: &[(0, out)],
    })
}
