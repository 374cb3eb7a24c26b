//! Counts of integers and histograms.

use super::{index_add, select_where};
use crate::backend::index as kernel;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::ops::reduce::{amax, amin};
use crate::ops::view::cut::narrow;
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;
use crate::{ensure, ops};

/// The number of occurrences of each integer from 0 to the largest in a vector, or the sum of the weights at its
/// occurrences; padded to at least `minlength` elements.
fn bincount(t: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    const KIND: &str = "bincount only supports 1-d non-negative integral inputs.";
    ensure!(minlength >= 0, Runtime, "minlength should be >= 0");
    ensure!(t.rank() == 1, Runtime, "{KIND}");
    ensure!(t.dtype().is_int(), Error::DtypeNotImplemented { op: "bincount_cpu", dtype: t.dtype() });
    t.expect_common("bincount_cpu")?;
    let fits = weights.is_none_or(|w| w.rank() == 1 && w.numel() == t.numel());
    ensure!(fits, Runtime, "weights should be 1-d and have the same length as input");
    let index = t.detach().dense(DType::I64)?;
    let (mut lowest, mut highest) = (0, -1);
    if index.numel() > 0 {
        lowest = amin(&index, None, false)?.item()?.to_i64();
        highest = amax(&index, None, false)?.item()?.to_i64();
    }
    ensure!(lowest >= 0, Runtime, "{KIND}");
    let dtype = match weights {
        None => DType::I64,
        Some(w) if w.dtype() == DType::F32 => DType::F32,
        Some(_) => DType::F64,
    };
    let counts = Tensor::zeros_on([highest.saturating_add(1).max(minlength) as usize], dtype, t.device())?;
    let weights = match weights {
        None if kernel::bincount(index.raw(), counts.raw())? => return Ok(counts),
        None => index.new_full([index.numel()], 1i64)?,
        Some(w) => w.detach().dense(dtype)?,
    };
    index_add(&counts, 0, &index, &weights, Scalar::Int(1))
}

/// The number of elements in each of `bins` intervals of equal width between `min` and `max`, inclusive; if these are
/// equal, between the extrema of the elements.
fn histc(t: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    let dtype = t.dtype();
    ensure!(dtype.is_float(), Error::DtypeNotImplemented { op: "histogram_cpu", dtype });
    t.expect_common("histogram_cpu")?;
    ensure!(bins > 0, Runtime, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    let (mut low, mut high) = (min.to_f64(), max.to_f64());
    let flat = view::reshape_to(&t.detach(), &[t.numel()].into())?;
    if low == high && flat.numel() > 0 {
        low = amin(&flat, Some(&[0]), false)?.item()?.to_f64();
        high = amax(&flat, Some(&[0]), false)?.item()?.to_f64();
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    ensure!(
        low.is_finite() && high.is_finite(),
        Runtime,
        "torch.histc: range of [{}, {}] is not finite",
        low.to_string().to_lowercase(),
        high.to_string().to_lowercase()
    );
    ensure!(low < high, Runtime, "torch.histc: max must be larger than min");
    let number = |f: f64| Scalar::Float(f);
    let compare = |row: &'static crate::ops::pointwise::PointwiseOp, bound: f64| {
        row.call(&[(&flat).into(), number(bound).into()], &[])
    };
    let inside = arith::mul(&compare(&rows::ge, low)?, &compare(&rows::le, high)?)?;
    let at = arith::mul(&arith::sub(&flat, number(low))?, number(bins as f64))?;
    let at = arith::div(&at, number(high - low))?.dense(DType::I64)?;
    let last = rows::clamp_max.call(&[(&at).into(), Scalar::Int(bins - 1).into()], &[])?;
    // Elements outside go to an additional bin after the last one.
    let at = select_where(&inside, (&last).into(), Scalar::Int(bins).into())?;
    narrow(&bincount(&at, None, bins)?, 0, 0, bins)?.dense(dtype)
}

ops! {
    /// How many elements fall into each of `bins` intervals of equal width.
    "histc" BOTH | OUT {
        (input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) =>
            |a| Ok(histc(a.tensor(0)?, a.int(1)?, a.number(2)?, a.number(3)?)?.into());
    }
    /// How often each number occurs, or the sum of its weights.
    "bincount" BOTH, batch DYNAMIC {
        (input: Tensor, weights: Tensor? = None, minlength: int = 0) =>
            |a| Ok(bincount(a.tensor(0)?, a.opt_tensor(1)?, a.int(2)?)?.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_or_weighed_up_to_the_largest() {
        let t = Tensor::from_slice(&[0u8, 1, 1, 3], [4]).unwrap();
        assert_eq!(bincount(&t, None, 0).unwrap().to_vec::<i64>(), [1, 2, 0, 1]);
        assert_eq!(bincount(&t, None, 6).unwrap().to_vec::<i64>(), [1, 2, 0, 1, 0, 0]);
        let weights = Tensor::from_slice(&[0.5f32, 1.0, 2.0, 4.0], [4]).unwrap();
        assert_eq!(bincount(&t, Some(&weights), 0).unwrap().to_vec::<f32>(), [0.5, 3.0, 0.0, 4.0]);
        assert!(bincount(&Tensor::from_slice(&[-1i64], [1]).unwrap(), None, 0).is_err());
    }
}
