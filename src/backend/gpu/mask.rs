//! Masks: positions of true elements, and writes at those positions.

use super::device::{Gpu, allocation, of};
use super::packed_kernel::{GROUP, render};
use super::params::Params;
use super::pipeline::Launch;
use super::workspace::Workspace;
use super::{copy, pointwise};
use crate::backend::View;
use crate::backend::pointwise::Kernel;
use crate::backend::pointwise::{Operand, Program, compute_type};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::template::binding;
use crate::formula::{Arith, recorded};
use crate::layout::{Dims, Layout};
use crate::storage::Storage;

const MASK: &str = crate::formula::shader_text!("mask.wgsl");

/// Mask elements per invocation: about as many as there are blocks, since one invocation sums the counts of all
/// blocks.
fn block(n: usize) -> usize {
    n.isqrt().max(64)
}

/// The passes over a mask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Count,
    Sum,
    Write,
}

fn pass(gpu: &Gpu, pass: Pass, mask: View, starts: View, positions: Option<View>) -> Result<()> {
    let n = mask.layout.numel();
    let blocks = n.div_ceil(block(n));
    let mut params = Params::new(blocks as u32);
    params.u32(mask.layout.offset as u32).u32(n as u32).u32(block(n) as u32);
    let source = || {
        let mut bindings = String::new();
        if positions.is_some() {
            bindings += &binding(2, "read_write", "positions", "u32");
        }
        bindings += &binding(2 + positions.is_some() as usize, "read", "mask", "u32");
        let body = match pass {
            Pass::Count => "    count(at);\n",
            Pass::Sum => "    sum(at);\n",
            Pass::Write => "    write(at);\n",
        };
        let slots = [("bindings", &*bindings), ("pass", body)];
        render("nonzero", MASK, DType::I32, &slots)
    };
    let written = [starts, positions.unwrap_or(starts)];
    gpu.launch(Launch {
        op: "nonzero",
        kernel: "mask",
        variant: &[pass as u8],
        source: &source,
        written: &written[..1 + positions.is_some() as usize],
        read: &[mask],
        params: &params,
        groups: if pass == Pass::Sum { 1 } else { blocks.div_ceil(GROUP) },
    })
}

/// The positions of the true elements of a dense mask as 32-bit words, and their number.
pub fn find(mask: View) -> Result<(Storage, usize)> {
    let gpu = of(mask)?;
    let n = mask.layout.numel();
    if n == 0 {
        return Ok((gpu.allocate(0)?, 0));
    }
    let blocks = n.div_ceil(block(n));
    let starts = Workspace::new(gpu, blocks + 1, DType::I32)?;
    let starts = starts.view();
    pass(gpu, Pass::Count, mask, starts, None)?;
    pass(gpu, Pass::Sum, mask, starts, None)?;
    let total = Layout { offset: blocks, ..Layout::default() };
    let host = copy::download(View { layout: &total, ..starts })?;
    let count = host.slice::<i32>()[0] as usize;
    let positions = gpu.allocate(4 * count)?;
    if allocation(&positions).and_then(|a| a.block()).is_some() {
        let layout = words(count);
        let out = View { storage: &positions, layout: &layout, dtype: DType::I32 };
        pass(gpu, Pass::Write, mask, starts, Some(out))?;
    }
    Ok((positions, count))
}

fn words(n: usize) -> Layout {
    Layout::contiguous(Dims::from([n]))
}

/// Converts positions to int64.
pub fn positions(at: &Storage, out: View) -> Result<()> {
    let layout = words(out.layout.numel());
    copy::copy(View { storage: at, layout: &layout, dtype: DType::I32 }, out)
}

/// The number if the mask is not 0, else the element.
const FILL: Program = Program {
    name: "masked_fill",
    kernel: Kernel::NONE,
    formula: &|| recorded!(|a| Arith::select(a[0].eq(Arith::zero()), a[1], a[2])),
};

/// Fills the elements of `out` at which a mask of the same shape is true.
pub fn fill(out: View, mask: View, value: Scalar) -> Result<()> {
    let operands = [Operand::View(mask), Operand::View(out), Operand::Number(value)];
    pointwise::run(&FILL, compute_type(out.dtype), &operands, &[], out)
}

/// The first number divided by the second, modulo the third.
const UNRAVEL: Program = Program {
    name: "unravel_index",
    kernel: Kernel::NONE,
    formula: &|| recorded!(|a, p| a[0].floor_div(p[0]).remainder(p[1])),
};

pub fn unravel(positions: View, step: usize, size: usize, out: View) -> Result<()> {
    let numbers = [Scalar::Int(step as i64), Scalar::Int(size as i64)];
    pointwise::run(&UNRAVEL, DType::I64, &[Operand::View(positions)], &numbers, out)
}
