//! Covariance, correlation, Vandermonde matrices, combinations.

use crate::dtype::{DType, Scalar, promote};
use crate::error::{Patience, Result, warn};
use crate::layout::Dims;
use crate::ops::reduce::sum_mask;
use crate::ops::schema::{Args, Out};
use crate::ops::view::copies::flip;
use crate::ops::view::cut::diagonal;
use crate::ops::{arith, join, matmul, reduce, rows, scan, view};
use crate::storage::empty_vec;
use crate::tensor::Tensor;
use crate::{ensure, ops};

/// The sum of all elements.
fn total(t: &Tensor) -> Result<Tensor> {
    sum_mask(t, reduce::dim_mask(None, t.rank())?, false, None)
}

/// Errors unless `weights` contains one non-negative number for each of `n` observations.
fn check_weights(name: &str, kind: &str, fits: bool, weights: &Tensor, n: usize) -> Result<()> {
    let rank = weights.rank();
    ensure!(
        rank <= 1,
        Runtime,
        "cov(): expected {name} to have one or fewer dimensions but got {name} with {rank} dimensions"
    );
    ensure!(
        fits,
        Runtime,
        "cov(): expected {name} to have {kind} dtype but got {name} with {} dtype",
        weights.dtype().scalar_name()
    );
    let found = weights.numel();
    ensure!(
        found == n,
        Runtime,
        "cov(): expected {name} to have the same numel as there are observations in the input but got {found} != {n}"
    );
    let negative = rows::lt.call(&[weights.into(), Scalar::Int(0).into()], &[])?;
    ensure!(
        reduce::any(&negative, None, false)?.item()?.is_zero(),
        Runtime,
        "cov(): {name} cannot be negative"
    );
    Ok(())
}

/// The covariance matrix of variables (rows of a matrix) over observations (columns).
fn covariance(
    t: &Tensor,
    correction: i64,
    frequencies: Option<&Tensor>,
    importances: Option<&Tensor>,
) -> Result<Tensor> {
    let rank = t.rank();
    ensure!(
        rank <= 2,
        Runtime,
        "cov(): expected input to have two or fewer dimensions but got an input with {rank} dimensions"
    );
    ensure!(t.dtype() != DType::Bool, NotImplemented, "cov(): bool dtype is not supported for input");
    let x = if rank < 2 { view::reshape_to(t, &Dims::from([1, t.numel()]))? } else { t.clone() };
    let n = x.shape()[1];
    if let Some(w) = frequencies {
        check_weights("fweights", "integral", !w.dtype().is_float(), w, n)?;
    }
    if let Some(w) = importances {
        check_weights("aweights", "floating point", w.dtype().is_float(), w, n)?;
    }
    let weights = match (frequencies, importances) {
        (Some(f), Some(a)) => Some(arith::mul(f, a)?),
        (f, a) => f.or(a).cloned(),
    };
    // The number of observations, or the sum of the weights as a 0-d tensor.
    let (sum, count) = match &weights {
        None => (x.clone(), Tensor::scalar(n as i64, DType::I64)?),
        Some(w) => {
            let count = total(w)?;
            ensure!(!count.item()?.is_zero(), Runtime, "cov(): weights sum to zero, can't be normalized");
            (arith::mul(&x, w)?, count)
        }
    };
    // In PyTorch's order, in which gradients are accumulated.
    let mean = arith::div(&sum_mask(&sum, 1 << 1, true, None)?, &count)?;
    // The degrees of freedom.
    let freedom = match (&weights, importances) {
        (Some(w), Some(a)) if correction != 0 => {
            let lost = arith::mul(&total(&arith::mul(w, a)?)?, Scalar::Int(correction))?;
            arith::sub(&count, &arith::div(&lost, &count)?)?
        }
        (Some(_), _) => arith::sub(&count, &Tensor::scalar(correction, DType::I64)?)?,
        (None, _) => Tensor::scalar(n as i64 - correction, DType::I64)?,
    };
    let freedom = if freedom.item()?.to_f64() > 0.0 {
        freedom
    } else {
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
        )?;
        freedom.new_zeros(freedom.shape().clone())?
    };
    let apart = arith::sub(&x, &mean)?;
    let weighted = match &weights {
        None => apart.clone(),
        Some(w) => arith::mul(&apart, w)?,
    };
    let products = matmul::mm(&apart, &view::t_of(&weighted)?)?;
    view::squeeze_all(&arith::div(&products, &freedom)?)
}

/// Covariances divided by the standard deviations of both variables.
fn correlation(t: &Tensor) -> Result<Tensor> {
    let rank = t.rank();
    ensure!(
        rank <= 2,
        Runtime,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {rank} dimensions"
    );
    let c = covariance(t, 1, None, None)?;
    if c.rank() == 0 {
        return arith::div(&c, &c);
    }
    let deviation = rows::sqrt.call(&[(&diagonal(&c, 0, 0, 1)?).into()], &[])?;
    let n = deviation.numel();
    let c = arith::div(&c, &view::reshape_to(&deviation, &Dims::from([n, 1]))?)?;
    let c = arith::div(&c, &view::reshape_to(&deviation, &Dims::from([1, n]))?)?;
    rows::clamp.call(&[(&c).into(), Scalar::Int(-1).into(), Scalar::Int(1).into()], &[])
}

/// The powers 0 to `n - 1` of each element of `x`, along a new last dimension.
fn powers(x: &Tensor, n: i64, dtype: DType) -> Result<Tensor> {
    let mut shape: Vec<i64> = x.shape().iter().map(|&s| s as i64).collect();
    shape.push((n - 1).max(0));
    let repeated = view::expand(&view::unsqueeze(&arith::to_dtype(x, dtype)?, -1)?, &shape)?;
    let mut first = x.shape().clone();
    first.push(n.min(1) as usize);
    let ones = repeated.new_full(first, 1i64)?;
    join::cat(&[ones, scan::cumprod(&repeated, x.rank(), Some(dtype))?], -1)
}

fn vander(a: &Args) -> Result<Out> {
    let x = a.tensor(0)?;
    ensure!(x.rank() == 1, Runtime, "x must be a one-dimensional tensor.");
    let n = a.opt_int(1)?.unwrap_or(x.numel() as i64);
    ensure!(n >= 0, Runtime, "N must be non-negative.");
    let increasing = powers(x, n, promote(x.dtype(), DType::I64)?)?;
    Ok(if a.bool(2)? { increasing } else { flip(&increasing, &[1])? }.into())
}

fn linalg_vander(a: &Args) -> Result<Out> {
    let x = a.tensor(0)?;
    // A 0-d tensor is treated as a vector of one element.
    let x = if x.rank() == 0 { view::unsqueeze(x, 0)? } else { x.clone() };
    let last = x.shape()[x.rank() - 1] as i64;
    let n = a.opt_int(1)?.unwrap_or(last);
    ensure!(n > 1, Runtime, "linalg.vander: N must be greater than 1.");
    ensure!(x.dtype() != DType::Bool, Runtime, "linalg.vander(): bool dtype is not supported for x");
    Ok(powers(&x, n, promote(x.dtype(), DType::I64)?)?.into())
}

/// The binomial coefficient; `usize::MAX` if it overflows.
fn binomial(n: usize, k: usize) -> usize {
    let Some(rest) = n.checked_sub(k) else { return 0 };
    let (small, large) = (k.min(rest) as u128, k.max(rest) as u128);
    // Each factor at least doubles the product, so long loops overflow early.
    let product = (1..=small).try_fold(1u128, |p, i| Some(p.checked_mul(large + i)? / i));
    product.and_then(|p| usize::try_from(p).ok()).unwrap_or(usize::MAX)
}

/// All combinations of `r` elements of a vector, one per row; `again` allows repetition.
fn combinations(t: &Tensor, r: i64, again: bool) -> Result<Tensor> {
    ensure!(t.rank() == 1, Runtime, "Expect a 1D vector, but got shape {}", t.shape());
    ensure!(r >= 0, Runtime, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return t.new_empty([0]);
    }
    let (n, r) = (t.numel(), r as usize);
    let rows = if again { binomial((n + r).saturating_sub(1), r) } else { binomial(n, r) };
    let mut chosen = empty_vec(rows.saturating_mul(r))?;
    if rows == 0 || n == 0 {
        // Indexed even though it is empty, so that the result has a history.
        let none = Tensor::empty([0, r], DType::I64)?.on_device(t.device())?;
        return crate::ops::index::index(t, &[Some(none)]);
    }
    let mut patience = Patience::new();
    let mut count = 0usize;
    let mut row: Vec<usize> = (0..r).map(|i| if again { 0 } else { i }).collect();
    // The exclusive limit of the index at a place, which leaves room for the following ones.
    let highest = |place: usize| if again { n } else { (n + place + 1).saturating_sub(r) };
    while row.iter().enumerate().all(|(place, &i)| i < highest(place)) {
        chosen.extend(row.iter().map(|&i| i as i64));
        count += 1;
        if count.is_multiple_of(1 << 12) {
            patience.ask()?;
        }
        let Some(place) = (0..r).rev().find(|&place| row[place] + 1 < highest(place)) else { break };
        let next = row[place] + 1;
        for (after, i) in row[place..].iter_mut().enumerate() {
            *i = if again { next } else { next + after };
        }
    }
    let index = Tensor::from_slice(&chosen, [count, r])?.on_device(t.device())?;
    crate::ops::index::index(t, &[Some(index)])
}

ops! {
    /// Covariances of variables, which are the rows of a matrix; its columns are the observations.
    "cov" BOTH, batch PARTS {
        (input: Tensor, *, correction: int = 1, fweights: Tensor? = None, aweights: Tensor? = None) =>
            |a| Ok(covariance(a.tensor(0)?, a.int(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?)?.into());
    }
    /// Correlations of variables, which are the rows of a matrix; its columns are the observations.
    "corrcoef" BOTH, batch PARTS {
        (input: Tensor) => |a| Ok(correlation(a.tensor(0)?)?.into());
    }
    /// The powers of each element of a vector, a row each, in descending order unless `increasing`.
    "vander" FUNCTION, batch PARTS {
        (x: Tensor, N: int? = None, increasing: bool = False) => vander;
    }
    /// The powers of each element, from 0 to `N - 1`, along a new last dimension.
    "vander" LINALG, batch PARTS {
        (x: Tensor, *, N: int? = None) => linalg_vander;
    }
    /// All ways to take `r` elements of a vector in order, a row each.
    "combinations" FUNCTION, batch PARTS {
        (input: Tensor, r: int = 2, with_replacement: bool = False) =>
            |a| Ok(combinations(a.tensor(0)?, a.int(1)?, a.bool(2)?)?.into());
    }
}
