//! Overwriting all elements of a tensor.

use smallvec::smallvec;

use super::zeros_like;
use crate::backend::copy;
use crate::dtype::Scalar;
use crate::ensure;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, grad_enabled, record};
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Args, Out};
use crate::ops::view::as_strided;
use crate::tensor::{Tensor, assign, check_filled, check_inplace};

/// Calls `write`, which must overwrite every element of `t`. Returns `t`.
///
/// If `t` requires grad it gets a history in which nothing depends on the old contents, with a node named `node`.
pub(in crate::ops) fn overwrite(
    t: &Tensor,
    node: &'static str,
    write: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    check_inplace(t, false)?;
    overwrite_checked(t, node, write)
}

/// As `overwrite`, for a tensor that is known to be writable.
fn overwrite_checked(
    t: &Tensor,
    node: &'static str,
    write: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    if grad_enabled() && t.requires_grad() {
        let value = t.empty_like()?;
        write(&value)?;
        assign(t, &value, node)?;
    } else {
        write(t)?;
        t.bump_version();
    }
    Ok(t.clone())
}

pub(super) fn zero_in_place(a: &Args) -> Result<Out> {
    let write = |t: &Tensor| {
        copy::fill(t.raw(), Scalar::Int(0))?;
        Ok(())
    };
    let t = a.tensor(0)?;
    check_filled(t, false)?;
    Ok(overwrite_checked(t, "ZeroBackward0", write)?.into())
}

struct Fill {
    node: &'static str,
}

impl Function for Fill {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let kept = if cx.needs(0) { Some(zeros_like(g, g.dtype())?) } else { None };
        Ok(smallvec![kept, Some(g.clone())])
    }
}

/// `t` with every element replaced by the 0-d tensor `value`.
fn filled_by(t: &Tensor, value: &Tensor, op: &str, node: &'static str) -> Result<Tensor> {
    ensure!(
        value.rank() == 0,
        Runtime,
        "{op} only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.rank()
    );
    let out = t.empty_like()?;
    copy::fill(out.raw(), value.item()?)?;
    record(out, &[t, value], |_| Fill { node })
}

pub(super) fn fill(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(match a.operand(1)? {
        Arg::T(value) => filled_by(t, value, "fill", "FillBackward1")?.into(),
        Arg::S(value) => {
            let out = t.new_full(t.shape().clone(), value.checked(t.dtype())?)?;
            record(out, &[t], |_| Fill { node: "FillBackward0" })?.into()
        }
    })
}

pub(super) fn fill_in_place(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    match a.operand(1)? {
        Arg::T(value) if value.requires_grad() && grad_enabled() => {
            check_inplace(t, true)?;
            // As in `copy_into`.
            let old = if t.base().is_none() { t.clone() } else { t.detach() };
            assign(t, &filled_by(&old, value, "fill_", "FillBackward3")?, "FillBackward3")?;
            Ok(t.clone().into())
        }
        Arg::T(value) => {
            ensure!(
                value.rank() == 0,
                Runtime,
                "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
                value.rank()
            );
            let value = value.item()?;
            set_all(t, value)
        }
        Arg::S(value) => set_all(t, value.checked(t.dtype())?),
    }
}

fn set_all(t: &Tensor, value: Scalar) -> Result<Out> {
    fill_all_impl(t, value)?;
    Ok(t.clone().into())
}

/// Overwrites every element of `t` with a number.
pub(super) fn fill_all_impl(t: &Tensor, value: Scalar) -> Result<()> {
    let write = |t: &Tensor| {
        copy::fill(t.raw(), value)?;
        Ok(())
    };
    check_filled(t, false)?;
    overwrite_checked(t, "FillBackward2", write).map(drop)
}

/// Fills the diagonal of a matrix, or of a tensor with equal sizes; `wrap` continues below the square part of a tall
/// matrix.
pub(super) fn fill_diagonal(a: &Args) -> Result<Out> {
    let (t, value, wrap) = (a.tensor(0)?, a.number(1)?, a.bool(2)?);
    ensure!(t.rank() >= 2, Runtime, "dimensions must larger than 1");
    let (rows, columns) = (t.shape()[0], t.shape()[1]);
    ensure!(
        t.rank() == 2 || t.shape().iter().all(|&n| n == rows),
        Runtime,
        "all dimensions of input must be of equal length"
    );
    let step: isize = t.strides().iter().sum();
    let offset = t.layout().offset as i64;
    let diagonal = |first: usize, length: usize| -> Result<()> {
        let start = offset + (first as isize * t.strides()[0]) as i64;
        fill_all_impl(&as_strided(t, &[length as i64], &[step as i64], Some(start))?, value)
    };
    diagonal(0, rows.min(columns))?;
    // The rows of an expanded tensor are one row.
    if wrap && t.rank() == 2 && t.strides()[0] != 0 {
        // Each further diagonal starts one row below the end of the previous one.
        for first in (columns + 1..rows).step_by(columns + 1) {
            diagonal(first, columns.min(rows - first))?;
        }
    }
    Ok(t.clone().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn overwriting_reaches_every_element_of_a_strided_view_and_is_counted() {
        let base = Tensor::ones([2, 3], DType::F32).unwrap();
        let column = base.with_layout(base.layout().select(1, 1));
        set_all(&column, Scalar::Int(7)).unwrap();
        assert_eq!(base.to_vec::<f32>(), [1.0, 7.0, 1.0, 1.0, 7.0, 1.0]);
        assert_eq!(base.version(), 1);
    }
}
