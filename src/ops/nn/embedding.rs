//! Embedding: lookup of rows of a matrix, and its backward.

use smallvec::smallvec;

use super::{float_compute, rounded};
use crate::backend::index::{self as kernel, BoundsPolicy, IndexGrid, Pick};
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, Layout};
use crate::ops;
use crate::ops::index::{first_outside, index_fill, scatter_add, take};
use crate::ops::reduce::vector_norm;
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, rows, view};
use crate::tensor::{Tensor, write_untracked};

/// Options for the backward of an embedding.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// The row that receives no gradient.
    pub padding: Option<usize>,
    /// Whether a row's gradient is divided by its number of lookups.
    pub by_frequency: bool,
}

/// Row `indices[i]` of `weight` for each i.
pub fn embedding(indices: &Tensor, weight: &Tensor, options: Options) -> Result<Tensor> {
    ensure!(weight.rank() == 2, Runtime, "'weight' must be 2-D");
    ensure!(
        matches!(indices.dtype(), DType::I64 | DType::I32),
        Runtime,
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got \
         torch.{}Tensor instead (while checking arguments for embedding)",
        indices.dtype().scalar_name()
    );
    let (count, dim) = (weight.shape()[0], weight.shape()[1]);
    let index = indices.dense(DType::I64)?;
    let mut shape = indices.shape().clone();
    shape.push(dim);
    let out = weight.new_empty(shape)?;
    let stride = weight.strides()[0];
    let picks = [Pick { index: index.raw(), size: count, stride, rule: BoundsPolicy::Listed }];
    let before = Layout { offset: weight.layout().offset, ..Layout::default() };
    let after = Layout { shape: [dim].into(), strides: [weight.strides()[1]].into(), offset: 0 };
    let rows = IndexGrid { before: &before, picks: &picks, n: index.numel(), after: &after };
    kernel::gather(weight.raw(), &rows, out.raw())?;
    record(out, &[weight], |_| EmbeddingBackward { index: SavedTensor::input(&index), count, options })
}

struct EmbeddingBackward {
    index: SavedTensor,
    count: usize,
    options: Options,
}

impl Function for EmbeddingBackward {
    fn name(&self) -> &'static str {
        "EmbeddingBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("embedding_dense_backward")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(sum_rows(g, &self.index.get(cx)?, self.count, self.options)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("indices", &self.index);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("padding_idx", Attribute::Int(self.options.padding.map_or(-1, |p| p as i64)));
        visit("scale_grad_by_freq", Attribute::Bool(self.options.by_frequency));
        visit("sparse", Attribute::Bool(false));
        visit("weight_sym_argsize_0", Attribute::Int(self.count as i64));
    }
}

/// The gradient of the weight: for each row the sum of the gradients of its lookups.
pub(super) fn sum_rows(g: &Tensor, index: &Tensor, count: usize, options: Options) -> Result<Tensor> {
    let op = "embedding_dense_backward";
    let compute = float_compute(op, g.dtype())?;
    let dim = g.shape()[g.rank() - 1];
    let dense = g.dense(compute)?;
    let out = dense.new_empty([count, dim])?;
    kernel::sum_rows(dense.raw(), index.raw(), options.padding, options.by_frequency, out.raw())?;
    record(rounded(out, g.dtype())?, &[g], |_| SumRowsBackward {
        index: SavedTensor::input(index),
        shape: g.shape().clone(),
        count,
        options,
    })
}

struct SumRowsBackward {
    index: SavedTensor,
    shape: Dims,
    count: usize,
    options: Options,
}

impl Function for SumRowsBackward {
    fn name(&self) -> &'static str {
        "EmbeddingDenseBackwardBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        // The same lookups again, with zero rows for the padding.
        let index = self.index.get(cx)?;
        let rows = embedding(&index, g, self.options)?;
        if self.options.padding.is_none() && !self.options.by_frequency {
            return Ok(smallvec![Some(rows)]);
        }
        let mut shape: Dims = self.shape.clone();
        let last = shape.len() - 1;
        shape[last] = 1;
        let scale = view::reshape_to(&row_scales(&index, self.count, self.options)?, &shape)?;
        Ok(smallvec![Some(arith::mul(&rows, &scale.dense(g.dtype())?)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("indices", &self.index);
    }
}

/// The factor of each lookup's gradient in the sum of its row, as float64 with the shape of the index.
fn row_scales(index: &Tensor, count: usize, options: Options) -> Result<Tensor> {
    let ones = Tensor::full_on([1usize; 0], 1.0, DType::F32, index.device())?;
    let mut scale = view::expand_to(&ones, index.shape())?;
    if options.by_frequency {
        let flat = view::reshape_to(index, &Dims::from([index.numel()]))?;
        let each = view::expand_to(&ones, flat.shape())?.dense(DType::F32)?;
        let often = scatter_add(&each.new_zeros([count])?, 0, &flat, &each)?;
        scale = arith::div(&scale, &take(&often, index)?)?;
    }
    if let Some(row) = options.padding {
        let pads = rows::eq.call(&[index.into(), (row as i64).into()], &[])?;
        scale = rows::select_where.call(&[(&pads).into(), 0.0.into(), (&scale).into()], &[])?;
    }
    Ok(scale)
}

/// Rescales the rows that are looked up to norm `max` if they exceed it, in place and without history.
fn limit_norms(weight: &Tensor, index: &Tensor, max: f64, p: f64) -> Result<()> {
    let (rows, flat) = (weight.shape()[0], view::reshape_to(index, &Dims::from([index.numel()]))?);
    let named = Tensor::zeros_on([rows], DType::Bool, weight.device())?;
    let named = index_fill(&named, 0, &flat.dense(DType::I64)?, Scalar::Bool(true).into())?;
    let plain = weight.detach();
    // Norms are rounded to the dtype, but scaling is computed in float32 or wider.
    let norms =
        vector_norm(&plain, p, Some(&[1]), true, None)?.dense(float_compute("embedding", weight.dtype())?)?;
    let large = rows::gt.call(&[(&norms).into(), max.into()], &[])?;
    let large = rows::logical_and.call(&[(&large).into(), (&view::unsqueeze(&named, 1)?).into()], &[])?;
    let scale = arith::div(max, &arith::add(&norms, 1e-7)?)?;
    let scaled = arith::mul(&plain, &scale)?;
    let limited = rows::select_where.call(&[(&large).into(), (&scaled).into(), (&plain).into()], &[])?;
    write_untracked(weight, &limited)?;
    Ok(())
}

fn embedding_op(a: &Args) -> Result<Out> {
    let (indices, weight) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(weight.rank() == 2, Runtime, "'weight' must be 2-D");
    let count = weight.shape()[0] as i64;
    let padding = match a.opt_int(2)? {
        Some(p) => {
            ensure!((-count..count).contains(&p), Assertion, "Padding_idx must be within num_embeddings");
            Some((if p < 0 { p + count } else { p }) as usize)
        }
        None => None,
    };
    if let Some(max) = a.opt_float(3)? {
        ensure!(first_outside(indices, count)?.is_none(), Index, "index out of range in self");
        limit_norms(weight, indices, max, a.float(4)?)?;
    }
    Ok(embedding(indices, weight, Options { padding, by_frequency: a.bool(5)? })?.into())
}

ops! {
    /// Rows of `weight` by index.
    "embedding" NN, batch EMBEDDING {
        (input: Tensor, weight: Tensor, padding_idx: int? = None, max_norm: float? = None, norm_type: float = 2.0,
         scale_grad_by_freq: bool = False, sparse: bool = False) =>
            embedding_op;
    }
}
