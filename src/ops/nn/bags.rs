//! Weighted sums of rows of a table, as embedding bags are.

use smallvec::smallvec;

use super::embedding::{Options, sum_rows};
use crate::backend::index as kernel;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, SavedTensor, record};
use crate::layout::Dims;
use crate::ops;
use crate::ops::index::index_select;
use crate::ops::reduce::sum_mask;
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, view};
use crate::tensor::Tensor;

/// For each row of `index` the sum of the rows of `table` that it lists, each times its factor.
fn bag_sums(table: &Tensor, index: &Tensor, factors: Option<&Tensor>) -> Result<Tensor> {
    let fits = table.rank() == 2
        && index.rank() == 2
        && factors.is_none_or(|f| f.shape() == index.shape() && f.dtype() == table.dtype());
    ensure!(
        fits,
        Runtime,
        "bag_sums: shapes or dtypes do not fit: table {}, index {}, factors {:?}",
        table.shape(),
        index.shape(),
        factors.map(|f| f.shape().to_vec())
    );
    ensure!(index.dtype() == DType::I64, Runtime, "bag_sums: the index has to be int64");
    table.expect_float("bag_sums")?;
    match fused(table, index, factors)? {
        Some(out) => Ok(out),
        None => sum_mask(&rows_of(table, index, factors)?, 1 << 1, false, None),
    }
}

/// The rows that the bags list, `[bags, length, features]`, each times its factor.
fn rows_of(table: &Tensor, index: &Tensor, factors: Option<&Tensor>) -> Result<Tensor> {
    let (bags, length, features) = (index.shape()[0], index.shape()[1], table.shape()[1]);
    let flat = view::reshape_to(index, &Dims::from([bags * length]))?;
    let rows = view::reshape_to(&index_select(table, 0, &flat)?, &Dims::from([bags, length, features]))?;
    factors.map_or(Ok(rows.clone()), |f| arith::mul(&rows, &view::unsqueeze(f, 2)?))
}

/// The sums by the device's kernel; None where they have to be composed.
fn fused(table: &Tensor, index: &Tensor, factors: Option<&Tensor>) -> Result<Option<Tensor>> {
    let inputs: Vec<&Tensor> = [table].into_iter().chain(factors).collect();
    let alike = |t: &Tensor| t.device() == table.device() && !t.is_batched();
    let plain = inputs.iter().all(|t| alike(t)) && alike(index);
    if !plain || !matches!(table.dtype(), DType::F32 | DType::F64) {
        return Ok(None);
    }
    let (dense, list) = (table.dense(table.dtype())?, index.dense(DType::I64)?);
    let weights = factors.map(|f| f.dense(f.dtype())).transpose()?;
    let out = dense.new_empty([index.shape()[0], table.shape()[1]])?;
    if !kernel::sum_bags(dense.raw(), list.raw(), weights.as_ref().map(|w| w.raw()), out.raw())? {
        return Ok(None);
    }
    record(out, &inputs, |_| BagSums {
        table: SavedTensor::input(table),
        index: SavedTensor::input(&list),
        factors: factors.map(SavedTensor::input),
    })
    .map(Some)
}

struct BagSums {
    table: SavedTensor,
    index: SavedTensor,
    factors: Option<SavedTensor>,
}

impl Function for BagSums {
    fn name(&self) -> &'static str {
        "BagSumsBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let factors = self.factors.as_ref().map(|f| f.get(cx)).transpose()?;
        let Some(g) = &grads[0] else {
            return Ok(std::iter::repeat_n(None, 1 + factors.iter().count()).collect());
        };
        let (table, index) = (self.table.get(cx)?, self.index.get(cx)?);
        let shape = Dims::from([index.shape()[0], index.shape()[1], table.shape()[1]]);
        let each = view::unsqueeze(g, 1)?;
        let by_table = || {
            let rows = match &factors {
                Some(f) => arith::mul(&each, &view::unsqueeze(f, 2)?)?,
                None => view::expand_to(&each, &shape)?,
            };
            sum_rows(&rows, &index, table.shape()[0], Options::default())
        };
        let mut out: Grads = smallvec![cx.needs(0).then(by_table).transpose()?];
        if factors.is_some() {
            let by_factors =
                || sum_mask(&arith::mul(&rows_of(&table, &index, None)?, &each)?, 1 << 2, false, None);
            out.push(cx.needs(1).then(by_factors).transpose()?);
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("table", &self.table);
        visit("index", &self.index);
        if let Some(factors) = &self.factors {
            visit("factors", factors);
        }
    }
}

fn bag_sums_op(a: &Args) -> Result<Out> {
    Ok(bag_sums(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?)?.into())
}

ops! {
    /// For each row of `index` the sum of the rows of `table` that it lists, each times its factor.
    "bag_sums" NN | NATIVE, batch PARTS, samples [
        "data(4, 3), index(4, 2, 2), data(2, 2)", "data(4, 3), index(4, 1, 3)",
    ] {
        (table: Tensor, index: Tensor, factors: Tensor? = None) => bag_sums_op;
    }
}
