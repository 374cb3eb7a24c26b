//! Order statistics: median, mode, quantiles.

use super::extremum::Shared;
use super::{Chosen, pick, ranks};
use crate::backend::inspect::{Question, known};
use crate::backend::sort::{self as kernels, Interpolation, QuantileRanks, Statistic};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{record, record_all};
use crate::layout::{Dims, wrap_dim};
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Args, Out};
use crate::ops::sort::{one_per_row, to_rows};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

const CHOSEN: &[&str] = &["values", "indices"];

/// The order statistic of each row of `t` along `dim`, and its index.
fn choose_in_rows(t: &Tensor, dim: usize, keepdim: bool, what: Statistic) -> Result<Vec<Tensor>> {
    let (x, n) = to_rows(t, dim)?;
    let mut shape = x.shape().clone();
    if let Some(last) = shape.last_mut() {
        *last = 1;
    }
    let (values, indices) = (x.new_empty(shape.clone())?, Tensor::empty_on(shape, DType::I64, x.device())?);
    if !kernels::order_statistic(what, x.raw(), n, values.raw(), indices.raw())? {
        return ranks::choose(t, dim, keepdim, what);
    }
    Ok(vec![one_per_row(&values.dense(t.dtype())?, dim, keepdim)?, one_per_row(&indices, dim, keepdim)?])
}

fn expect_row(op: &str, t: &Tensor, dim: i64) -> Result<usize> {
    let d = wrap_dim(dim, t.rank())?;
    ensure!(t.shape().get(d) != Some(&0), Index, "{op}(): Expected reduction dim {d} to have non-zero size.");
    Ok(d)
}

fn median_of_all(t: &Tensor, ignore_nan: bool, node: &'static str) -> Result<Out> {
    ensure!(t.dtype() != DType::Bool, Error::DtypeNotImplemented { op: "median_cpu", dtype: t.dtype() });
    t.expect_common("median_cpu")?;
    let out = if t.numel() == 0 {
        t.new_full([0usize; 0], f64::NAN)?
    } else {
        let flat = t.detach().dense(t.dtype())?;
        let flat = view::view_as(&flat, &Dims::from([t.numel()]))?;
        choose_in_rows(&flat, 0, false, Statistic::Median { ignore_nan })?.swap_remove(0)
    };
    Ok(record(out, &[t], |y| Shared::new(node, t, &[y], super::dim_mask(None, t.rank()).unwrap_or(0)))?
        .into())
}

pub(super) fn median_all(a: &Args) -> Result<Out> {
    median_of_all(a.tensor(0)?, false, "MedianBackward0")
}

pub(super) fn nanmedian_all(a: &Args) -> Result<Out> {
    median_of_all(a.tensor(0)?, true, "NanmedianBackward0")
}

fn median_of_dim(a: &Args, op: &'static str, node: &'static str, ignore_nan: bool) -> Result<Out> {
    let (t, keepdim) = (a.tensor(0)?, a.bool(2)?);
    let dim = expect_row("median", t, a.int(1)?)?;
    ensure!(t.dtype() != DType::Bool, Error::DtypeNotImplemented { op: "median_out", dtype: t.dtype() });
    t.expect_common("median_out")?;
    let found = choose_in_rows(&t.detach(), dim, keepdim, Statistic::Median { ignore_nan })?;
    Ok(Out::Named(op, CHOSEN, record_all(found, &[t], |o| Chosen::new(node, t, dim, &o[1]))?))
}

pub(super) fn median_dim(a: &Args) -> Result<Out> {
    median_of_dim(a, "median", "MedianBackward1", false)
}

pub(super) fn nanmedian_dim(a: &Args) -> Result<Out> {
    median_of_dim(a, "nanmedian", "NanmedianBackward1", true)
}

pub(super) fn mode(a: &Args) -> Result<Out> {
    let (t, keepdim) = (a.tensor(0)?, a.bool(2)?);
    let dim = expect_row("mode", t, a.int(1)?)?;
    t.expect_common("mode_cpu")?;
    let found = choose_in_rows(&t.detach(), dim, keepdim, Statistic::Mode)?;
    Ok(Out::Named("mode", CHOSEN, record_all(found, &[t], |o| Chosen::new("ModeBackward0", t, dim, &o[1]))?))
}

/// Quantiles along a dimension: `q` is a number or a vector, whose dimension comes first in the result.
fn quantile_of(a: &Args, op: &'static str, ignore_nan: bool) -> Result<Out> {
    let (t, dim, keepdim) = (a.tensor(0)?, a.opt_int(2)?, a.bool(3)?);
    let interpolation = a.str(4)?;
    ensure!(
        matches!(t.dtype(), DType::F32 | DType::F64),
        Runtime,
        "{op}() input tensor must be either float or double dtype"
    );
    ensure!(t.numel() > 0, Runtime, "{op}() input tensor must be non-empty");
    let q = match a.operand(1)? {
        Arg::S(s) => {
            let q = s.to_f64();
            ensure!((0.0..=1.0).contains(&q), Runtime, "{op}() q must be in the range [0, 1] but got {q}");
            t.new_full([0usize; 0], s)?
        }
        Arg::T(q) => {
            ensure!(q.rank() <= 1, Runtime, "{op}() q must be a scalar or 1D tensor");
            ensure!(
                q.dtype() == t.dtype(),
                Runtime,
                "{op}() q tensor must be same dtype as the input tensor"
            );
            // On other devices, as in PyTorch, the values are not checked, since that would synchronize.
            ensure!(
                known(Question::AllInUnitInterval, q.raw())? != Some(false),
                Runtime,
                "{op}() q values must be in the range [0, 1]"
            );
            q.clone()
        }
    };
    let (flat, d) = match dim {
        Some(d) => (t.clone(), wrap_dim(d, t.rank())?),
        None => (view::reshape_to(t, &Dims::from([t.numel()]))?, 0),
    };
    let flat = if flat.rank() == 0 { view::reshape_to(&flat, &Dims::from([1]))? } else { flat };
    let sorted = crate::ops::sort::sort(&flat, d as i64, false, "SortBackward0")?.swap_remove(0);
    let Neighbours { lower, upper, weight, scale } =
        neighbours(&sorted, d, &q, ignore_nan, interpolation, op)?;
    let weight = match (&q, interpolation) {
        // The rank, and so the weight, is linear in `q`: a term with value 0 and that slope is added.
        (q, "linear") if q.requires_grad() => {
            let mut shape = Dims::from(&vec![1; sorted.rank()][..]);
            shape[d] = q.numel();
            let slope = arith::mul(&view::reshape_to(&arith::sub(q, &q.detach())?, &shape)?, &scale)?;
            arith::add(&weight, &slope)?
        }
        _ => weight,
    };
    let (below, above) = (pick(&sorted, d, &lower)?, pick(&sorted, d, &upper)?);
    let found = rows::lerp.call(&[(&below).into(), (&above).into(), (&weight).into()], &[])?;
    quantile_shape(&found, t, &q, d, dim.is_some(), keepdim)
}

/// For each row and quantile: the two sorted positions around it, the weight of the upper one, and the rank of the
/// last element.
pub(super) struct Neighbours {
    pub lower: Tensor,
    pub upper: Tensor,
    pub weight: Tensor,
    pub scale: Tensor,
}

fn interpolation_of(name: &str, op: &str) -> Result<Interpolation> {
    Ok(match name {
        "linear" => Interpolation::Linear,
        "lower" => Interpolation::Lower,
        "higher" => Interpolation::Higher,
        "midpoint" => Interpolation::Midpoint,
        "nearest" => Interpolation::Nearest,
        other => bail!(
            Runtime,
            "{op}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {other}"
        ),
    })
}

fn neighbours(
    sorted: &Tensor,
    dim: usize,
    q: &Tensor,
    ignore_nan: bool,
    interpolation: &str,
    op: &str,
) -> Result<Neighbours> {
    let how = interpolation_of(interpolation, op)?;
    let mut shape = sorted.shape().clone();
    shape[dim] = q.numel();
    let made = |dtype| Tensor::empty_on(shape.clone(), dtype, sorted.device());
    let (lower, upper, weight, scale) =
        (made(DType::I64)?, made(DType::I64)?, made(DType::F64)?, made(DType::F64)?);
    let out =
        QuantileRanks { lower: lower.raw(), upper: upper.raw(), weight: weight.raw(), scale: scale.raw() };
    let d = super::lanes(sorted.shape(), dim);
    if !kernels::quantile_ranks(sorted.raw(), d, q.raw(), how, ignore_nan, out)? {
        return ranks::neighbours(sorted, dim, q, ignore_nan, how);
    }
    let as_sorted = |t: &Tensor| t.dense(sorted.dtype());
    Ok(Neighbours { lower, upper, weight: as_sorted(&weight)?, scale: as_sorted(&scale)? })
}

/// Moves the dimension of `q` to the front, and keeps or drops the reduced dimension.
fn quantile_shape(
    found: &Tensor,
    t: &Tensor,
    q: &Tensor,
    d: usize,
    by_dim: bool,
    keepdim: bool,
) -> Result<Out> {
    let order: Vec<usize> = [d].into_iter().chain((0..found.rank()).filter(|&i| i != d)).collect();
    let moved = view::permute_dims(found, &order, "PermuteBackward0")?;
    let mut shape = Dims::default();
    if q.rank() == 1 {
        shape.push(q.numel());
    }
    for (i, &n) in t.shape().iter().enumerate() {
        let reduced = !by_dim || i == d;
        if !reduced {
            shape.push(n);
        } else if keepdim {
            shape.push(1);
        }
    }
    Ok(arith::clone(&view::reshape_to(&moved, &shape)?)?.into())
}

pub(super) fn quantile(a: &Args) -> Result<Out> {
    quantile_of(a, "quantile", false)
}

pub(super) fn nanquantile(a: &Args) -> Result<Out> {
    quantile_of(a, "nanquantile", true)
}
