//! Writes by index to tensors in which several indices refer to one element, such as expanded ones.

use super::{advanced, index_fill, index_put, masked_fill, put, without_leading_ones};
use crate::bail;
use crate::dtype::{DType, Scalar};
use crate::error::{Result, warn};
use crate::graph::ModeGuard;
use crate::layout::{Layout, wrap_dim};
use crate::ops::creation::arange;
use crate::ops::pointwise::Arg;
use crate::ops::schema::Args;
use crate::ops::view::expand_to;
use crate::tensor::{Tensor, check_filled, write_untracked};

/// The operation that writes, for the warning.
#[derive(Clone, Copy)]
pub(super) enum Writer {
    IndexPut,
    MaskedFill,
    IndexFill,
}

/// Calls an operation in place on a tensor that overlaps itself, without history; false if it is none of those that PyTorch
/// allows this. Their results outside of place are computed first, for their errors.
#[cold]
pub fn call(op: &str, a: &Args) -> Result<bool> {
    let _plain = ModeGuard::grad(false);
    let t = a.tensor(0)?;
    let number = |value: Arg| match value {
        Arg::S(s) => t.new_full([0usize; 0], s),
        Arg::T(v) => t.new_full([0usize; 0], v.item()?),
    };
    match op {
        "index_put" => {
            let (picks, values, accumulate) = (a.some_tensors(1)?, a.tensor(2)?, a.bool(3)?);
            index_put(t, picks, values, accumulate)?;
            write(t, picks, values, accumulate, Writer::IndexPut)?;
        }
        "masked_fill" => {
            let (mask, value) = (a.tensor(1)?, a.operand(2)?);
            let filled = masked_fill(t, mask, value)?;
            if filled.shape() != t.shape() {
                return Ok(false);
            }
            write(t, &[Some(expand_to(mask, t.shape())?)], &number(value)?, false, Writer::MaskedFill)?;
        }
        "index_fill" => {
            let (dim, index, value) = (a.int(1)?, a.tensor(2)?, a.operand(3)?);
            index_fill(t, dim, index, value)?;
            let mut picks = vec![None; wrap_dim(dim, t.rank())?];
            picks.push(Some(index.clone()));
            write(t, &picks, &number(value)?, false, Writer::IndexFill)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Writes or adds `values`, which are broadcast, to the picked elements of `t`: one after the other to the memory that
/// they stand for. Records no history.
pub(super) fn write(
    t: &Tensor,
    picks: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
    writer: Writer,
) -> Result<()> {
    check_filled(t, false)?;
    warn_expanded(writer)?;
    let Some((first, last)) = t.layout().extent() else { return Ok(()) };
    let count = (last - first + 1) as usize;
    let memory = t.with_layout(Layout { offset: first as usize, ..Layout::contiguous([count].into()) });
    // Where in that memory each element is.
    let numbers = arange(Scalar::Int(0), Scalar::Int(count as i64), Scalar::Int(1), Some(DType::I64))?;
    let offset = (t.layout().offset as isize - first) as usize;
    let positions = numbers.on_device(t.device())?.with_layout(Layout { offset, ..t.layout().clone() });
    let at = advanced::index(&positions, picks)?;
    let values = without_leading_ones(&values.detach(), at.shape())?;
    let Some(wide) = values.layout().expand(at.shape()) else {
        bail!(
            Runtime,
            "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
            values.shape(),
            at.shape()
        );
    };
    write_untracked(&memory, &put(&memory, &at, &values.with_layout(wide), accumulate)?)
}

/// Warns of writes by index to a tensor that overlaps itself.
fn warn_expanded(writer: Writer) -> Result<()> {
    let (op, example) = match writer {
        Writer::IndexPut => ("index_put_", "tensor[indices] = tensor"),
        Writer::MaskedFill => ("masked_fill_", "tensor[mask] = scalar"),
        Writer::IndexFill => ("index_fill_", "tensor[mask] = scalar"),
    };
    warn(&format!(
        "Use of {op} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This \
         also applies to advanced indexing e.g. {example}"
    ))
}
