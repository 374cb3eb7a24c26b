//! Copies, casts and fills, and transfers to and from the host.

use bytemuck::pod_read_unaligned;

use super::device::{allocation, of};
use super::pointwise;
use crate::backend::View;
use crate::backend::pointwise::Kernel;
use crate::backend::pointwise::{Operand, Program, compute_type};
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::formula::recorded;
use crate::layout::Layout;
use crate::storage::Storage;
use crate::with_dtype;

/// The formula of a copy.
const IDENTITY: Program = Program { name: "copy", kernel: Kernel::NONE, formula: &|| recorded!(|a| a[0]) };

/// An integer type of the same size; copying it preserves all bits.
pub const fn bits(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    }
}

/// The intermediate type of a cast.
fn through(from: DType, to: DType) -> DType {
    use DType::{F32, F64, I32, I64};
    match (from, to) {
        (F64, _) | (_, F64) => F64,
        _ if from.is_float() || to.is_float() => F32,
        (I64, _) | (_, I64) => I64,
        _ => I32,
    }
}

/// Minimum size for which the driver's copy command is worth ending the compute pass.
const LARGE: usize = 1 << 20;

/// Copies `src` to `out`, which has the same shape, with a cast if the dtypes differ.
pub fn copy(src: View, out: View) -> Result<()> {
    if src.dtype != out.dtype {
        return pointwise::run(&IDENTITY, through(src.dtype, out.dtype), &[Operand::View(src)], &[], out);
    }
    let size = src.dtype.size();
    let (len, from, to) = (src.layout.numel() * size, src.layout.offset * size, out.layout.offset * size);
    let whole_words = [len, from, to].iter().all(|n| n.is_multiple_of(4));
    if len >= LARGE && whole_words && src.layout.is_contiguous() && out.layout.is_contiguous() {
        let block = |v: View<'_>| allocation(v.storage).and_then(|a| a.block()).cloned();
        // Drivers do not copy within one buffer.
        if let (Some(a), Some(b)) = (block(src), block(out))
            && a.id != b.id
        {
            return of(out)?.copy_bytes((&a, from as u64), (&b, to as u64), len as u64);
        }
    }
    let dtype = bits(src.dtype);
    let (src, out) = (View { dtype, ..src }, View { dtype, ..out });
    pointwise::run(&IDENTITY, compute_type(dtype), &[Operand::View(src)], &[], out)
}

/// Sets every element of `out`.
pub fn fill(out: View, value: Scalar) -> Result<()> {
    if out.dtype.is_limited() {
        let (bytes, dtype) = (value.bytes(out.dtype), bits(out.dtype));
        let value =
            with_dtype!(bits dtype, T => pod_read_unaligned::<T>(&bytes[..size_of::<T>()]).to_scalar());
        return fill(View { dtype, ..out }, value);
    }
    let program = Program { name: "fill", ..IDENTITY };
    pointwise::run(&program, compute_type(out.dtype), &[Operand::Number(value)], &[], out)
}

/// Copies the elements of a view to host memory in row-major order.
pub fn download(src: View) -> Result<Storage> {
    let len = src.layout.numel() * src.dtype.size();
    if len == 0 {
        return Storage::new(0);
    }
    let gpu = of(src)?;
    if !src.layout.is_contiguous() {
        let dense = gpu.allocate(len)?;
        let layout = Layout::contiguous(src.layout.shape.clone());
        let view = View { storage: &dense, layout: &layout, dtype: src.dtype };
        copy(src, view)?;
        return download(view);
    }
    let at = src.layout.offset * src.dtype.size();
    // Copies start at multiples of four bytes.
    let extra = at % 4;
    let Some(block) = allocation(src.storage).and_then(|a| a.block()) else { return Err(no_memory()) };
    let bytes = gpu.download(block, (at - extra) as u64, len + extra)?;
    Storage::from_slice(&bytes[extra..])
}

/// Copies a contiguous host view to `out`, which has the same shape and dtype.
pub fn upload(src: View, out: View) -> Result<()> {
    let len = src.layout.numel() * src.dtype.size();
    if len == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    let at = out.layout.offset * out.dtype.size();
    // The write is rounded up to a multiple of four bytes, which would overwrite the bytes that follow.
    let apart = at.is_multiple_of(4) && (len.is_multiple_of(4) || at + len == out.storage.len());
    if !out.layout.is_contiguous() || !apart {
        let dense = gpu.allocate(len)?;
        let layout = Layout::contiguous(out.layout.shape.clone());
        let view = View { storage: &dense, layout: &layout, dtype: out.dtype };
        upload(src, view)?;
        return copy(view, out);
    }
    let Some(block) = allocation(out.storage).and_then(|a| a.block()) else { return Err(no_memory()) };
    let from = src.layout.offset * src.dtype.size();
    gpu.upload(block, at as u64, &src.storage.slice::<u8>()[from..from + len])
}

fn no_memory() -> Error {
    Error::Runtime("GPU error: a tensor with elements has no memory".into())
}
