//! LU factorizations as results. Their derivative is in Python.

use super::factor::{Packed, expect_matrices, size};
use crate::backend::factor::Factor;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Dims, checked_numel};
use crate::ops::arith;
use crate::ops::schema::{Args, Out};
use crate::storage::empty_vec;
use crate::tensor::Tensor;
use crate::{ensure, ops};

/// L below the diagonal and U on and above it, and the row, counted from 1, with which each row was exchanged in turn.
fn lu_factor(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    ensure!(a.bool(1)?, Runtime, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    expect_matrices("linalg.lu_factor", t, "A")?;
    let (m, n) = size(t);
    let found = Packed::of("linalg.lu_factor", Factor::Lu { m }, t, None)?;
    let (factors, pivots) = (found.part(0, &[m, n], false)?, found.view(m * n, &[m.min(n)], false));
    Ok(Out::Tuple(vec![factors, arith::to_dtype(&pivots, DType::I32)?]))
}

/// The order of rows to which exchanges with the 1-based `pivots` lead, one after another.
fn row_order(a: &Args) -> Result<Out> {
    let (pivots, rows) = (a.tensor(0)?, a.int(1)?.max(0) as usize);
    ensure!(pivots.rank() > 0, Runtime, "row_order: expected pivots of at least one dimension");
    let count = pivots.shape()[pivots.rank() - 1];
    let mut shape = pivots.shape().clone();
    shape[pivots.rank() - 1] = rows;
    ensure!(count <= rows, Runtime, "row_order: {count} pivots for {rows} rows");
    let all = pivots.values::<i64>()?;
    let found = all.iter().all(|&p| p >= 1 && p as usize <= rows);
    ensure!(found, Runtime, "row_order: pivots must be between 1 and {rows}");
    let mut out: Vec<i64> = empty_vec(checked_numel(&shape)?)?;
    for batch in 0..Dims::from(&pivots.shape()[..pivots.rank() - 1]).numel() {
        let at = out.len();
        out.extend(0..rows as i64);
        for (k, &other) in all[batch * count..][..count].iter().enumerate() {
            out.swap(at + k, at + other as usize - 1);
        }
    }
    Ok(Tensor::from_slice(&out, shape)?.into())
}

ops! {
    /// The factors L and U of each matrix, with exchanged rows, and the exchanges.
    "_lu_factor" LINALG, batch MATRICES {
        (A: Tensor, pivot: bool) -> tuple[Tensor, Tensor] => lu_factor;
    }
    /// The order of rows to which exchanges lead, one after another, on the CPU.
    "_row_order" LINALG, batch LEADING {
        (pivots: Tensor, rows: int) => row_order;
    }
}
