//! How often each number of a vector occurs.

use super::index_add;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::ops::reduce::extremum_along;

use crate::table;
use crate::tensor::Tensor;

/// How often each number from 0 occurs in a vector, or the sum of the weights where it does. The result ends with the
/// largest number, and has `minlength` elements at least.
fn bincount(t: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    const KIND: &str = "bincount only supports 1-d non-negative integral inputs.";
    ensure!(minlength >= 0, Runtime, "minlength should be >= 0");
    ensure!(t.rank() == 1, Runtime, "{KIND}");
    ensure!(t.dtype().is_int(), Error::DtypeNotImplemented { op: "bincount_cpu", dtype: t.dtype() });
    let fits = weights.is_none_or(|w| w.rank() == 1 && w.numel() == t.numel());
    ensure!(fits, Runtime, "weights should be 1-d and have the same length as input");
    let index = t.detach().dense(DType::I64)?;
    let extreme = |largest| match index.numel() {
        0 => Ok(-1),
        _ => Ok(extremum_along(&index, 0, false, largest)?[0].item()?.to_i64()),
    };
    let highest = extreme(true)?;
    ensure!(index.numel() == 0 || extreme(false)? >= 0, Runtime, "{KIND}");
    let weights = match weights {
        None => index.new_full([index.numel()], 1i64)?,
        Some(w) if w.dtype() == DType::F32 => w.detach(),
        Some(w) => w.copied(DType::F64)?,
    };
    let counts = Tensor::zeros_on([(highest + 1).max(minlength) as usize], weights.dtype(), t.device())?;
    index_add(&counts, 0, &index, &weights, Scalar::Int(1))
}

table! {
    "bincount" BOTH "How often each number occurs, or the sum of its weights." [] {
        "input: Tensor, weights: Tensor? = None, minlength: int = 0" =>
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
