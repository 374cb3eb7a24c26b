//! Distinct elements or slices of a tensor, with inverse indices and counts.

use smallvec::smallvec;

use super::{index_select, nonzero_tuple, scatter};
use crate::backend::sort::{self as kernel, compare_dtype};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, record};
use crate::layout::wrap_dim;
use crate::ops::schema::{Args, Out};
use crate::ops::sort::sort;
use crate::ops::view::cut::{narrow, select};
use crate::ops::{arith, join, reduce, rows, scan, view};
use crate::tensor::Tensor;
use crate::{ensure, ops};

/// Which results a call requests besides the distinct elements.
#[derive(Clone, Copy)]
struct Wanted {
    inverse: bool,
    counts: bool,
}

/// The node of distinct elements, which are not differentiable.
struct Unique {
    node: &'static str,
    op: &'static str,
}

impl Function for Unique {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        ensure!(grads[0].is_none(), NotImplemented, "the derivative for '{}' is not implemented.", self.op);
        Ok(smallvec![None])
    }
}

/// A stable order of the rows of a matrix in which they are lexicographically ascending.
fn row_order(rows: &Tensor) -> Result<Tensor> {
    let (n, columns) = (rows.shape()[0], rows.shape()[1]);
    let compared = rows.as_dense(compare_dtype(rows.raw(), rows.dtype())?)?;
    let order = Tensor::empty_on([n], DType::I64, rows.device())?;
    if kernel::row_order(compared.raw(), columns, order.raw())? {
        return Ok(order);
    }
    let ascending = |values: &Tensor| Ok::<_, Error>(sort(values, 0, false, "SortBackward0")?.swap_remove(1));
    let mut order = ascending(&select(rows, 1, columns as i64 - 1)?)?;
    for column in (0..columns as i64 - 1).rev() {
        let next = ascending(&index_select(&select(rows, 1, column)?, 0, &order)?)?;
        order = index_select(&order, 0, &next)?;
    }
    Ok(order)
}

/// The first row of each run of equal rows of a matrix, and the wanted properties of the runs. `order` gives the
/// original index of each row.
fn runs(rows: &Tensor, order: Option<&Tensor>, wanted: Wanted) -> Result<Vec<Tensor>> {
    let n = rows.shape()[0] as i64;
    let rest = (n - 1).max(0);
    let (before, after) = (narrow(rows, 0, 0, rest)?, narrow(rows, 0, n.min(1), rest)?);
    let differs = rows::ne.call(&[(&after).into(), (&before).into()], &[])?;
    let differs = if rows.shape()[1] == 1 {
        view::reshape_to(&differs, &[rest as usize].into())?
    } else {
        reduce::any(&differs, Some(&[1]), false)?
    };
    let begins = join::cat(&[differs.new_full([n.min(1) as usize], true)?, differs], 0)?;
    let starts = nonzero_tuple(&begins)?.swap_remove(0);
    let mut found = vec![starts.clone()];
    if wanted.inverse {
        let run = arith::sub(&scan::cumsum(&begins, 0, Some(DType::I64))?, Scalar::Int(1))?;
        found.push(match order {
            Some(order) => scatter(&run.new_empty([n as usize])?, 0, order, (&run).into())?,
            None => run,
        });
    }
    if wanted.counts {
        let count = starts.numel() as i64;
        let end = starts.new_full([count.min(1) as usize], n)?;
        let ends = join::cat(&[narrow(&starts, 0, count.min(1), (count - 1).max(0))?, end], 0)?;
        found.push(arith::sub(&ends, &starts)?);
    }
    Ok(found)
}

/// Distinct elements of the whole tensor, sorted or only deduplicated consecutively.
fn of_elements(t: &Tensor, sorted: bool, wanted: Wanted) -> Result<Vec<Tensor>> {
    let flat = view::reshape_to(&t.detach(), &[t.numel()].into())?;
    let (flat, order) = if sorted {
        let mut found = sort(&flat, 0, false, "SortBackward0")?;
        let order = found.swap_remove(1);
        (found.swap_remove(0), Some(order))
    } else {
        (flat, None)
    };
    let mut found = runs(&view::reshape_to(&flat, &[t.numel(), 1].into())?, order.as_ref(), wanted)?;
    found[0] = index_select(&flat, 0, &found[0])?;
    if wanted.inverse {
        found[1] = view::reshape_to(&found[1], t.shape())?;
    }
    Ok(found)
}

/// Distinct slices along a dimension.
fn of_slices(t: &Tensor, dim: i64, sorted: bool, wanted: Wanted) -> Result<Vec<Tensor>> {
    ensure!(t.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    let dim = wrap_dim(dim, t.rank())? as i64;
    let moved = view::movedim(&t.detach(), &[dim], &[0])?.dense(t.dtype())?;
    let n = moved.shape()[0];
    if moved.numel() == 0 {
        ensure!(
            moved.shape().iter().filter(|&&size| size == 0).count() == 1 || n > 0,
            Runtime,
            "Number of zero sized dimensions is more than one, so unique cannot be applied"
        );
        ensure!(
            n == 0 && moved.shape()[1..].iter().all(|&size| size > 0),
            Runtime,
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        );
        let none = Tensor::empty_on([0], DType::I64, t.device())?;
        let extra = wanted.inverse as usize + wanted.counts as usize;
        return Ok(std::iter::once(t.detach()).chain(std::iter::repeat_n(none, extra)).collect());
    }
    let rows = view::reshape_to(&moved, &[n, moved.numel() / n].into())?;
    let order = if sorted { Some(row_order(&rows)?) } else { None };
    let (rows, moved) = match &order {
        Some(order) => (index_select(&rows, 0, order)?, index_select(&moved, 0, order)?),
        None => (rows, moved),
    };
    let mut found = runs(&rows, order.as_ref(), wanted)?;
    found[0] = view::movedim(&index_select(&moved, 0, &found[0])?, &[0], &[dim])?;
    Ok(found)
}

fn distinct(t: &Tensor, dim: Option<i64>, sorted: bool, wanted: Wanted) -> Result<Out> {
    let mut found = match dim {
        Some(dim) => of_slices(t, dim, sorted, wanted)?,
        None => of_elements(t, sorted, wanted)?,
    };
    let (node, op) = match (sorted, dim) {
        (true, None) => ("Unique2Backward0", "_unique2"),
        (true, Some(_)) => ("UniqueDimBackward0", "unique_dim"),
        (false, _) => ("UniqueConsecutiveBackward0", "unique_consecutive"),
    };
    found[0] = record(found[0].clone(), &[t], |_| Unique { node, op })?;
    Ok(if found.len() == 1 { found.swap_remove(0).into() } else { Out::Tuple(found) })
}

fn unique(a: &Args) -> Result<Out> {
    let wanted = Wanted { inverse: a.bool(2)?, counts: a.bool(3)? };
    distinct(a.tensor(0)?, a.opt_int(4)?, true, wanted)
}

fn unique_consecutive(a: &Args) -> Result<Out> {
    let wanted = Wanted { inverse: a.bool(1)?, counts: a.bool(2)? };
    distinct(a.tensor(0)?, a.opt_int(3)?, false, wanted)
}

ops! {
    /// The distinct elements in ascending order, or the distinct slices along `dim`; on request also which of them
    /// each one is, and how often each occurs.
    "unique" BOTH, batch DYNAMIC {
        (input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
         dim: int? = None) -> Any =>
            unique;
    }
    /// As `unique`, of elements or slices that follow each other; they keep their order.
    "unique_consecutive" BOTH, batch DYNAMIC {
        (input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int? = None) -> Any =>
            unique_consecutive;
    }
}
