//! Rows of a matrix by index, and the sum that undoes it.

use smallvec::smallvec;

use super::{float_compute, rounded};
use crate::backend::index::{self as kernel, Lattice, Pick, Rule};
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, SavedTensor, record};
use crate::layout::{Dims, Layout};
use crate::ops::schema::{Args, Call, Op, Out, Overload, Surface};
use crate::tensor::{Tensor, write_untracked};

/// What backward of an embedding leaves out or scales.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// The row that gets no gradient.
    pub padding: Option<usize>,
    /// Whether a row's gradient is divided by how often it was looked up.
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
    let picks = [Pick { index: index.raw(), size: count, stride, rule: Rule::Listed }];
    let before = Layout { offset: weight.layout().offset, ..Layout::default() };
    let after = Layout { shape: [dim].into(), strides: [weight.strides()[1]].into(), offset: 0 };
    let rows = Lattice { before: &before, picks: &picks, n: index.numel(), after: &after };
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

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(sum_rows(g, &self.index.get(cx)?, self.count, self.options)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("indices", &self.index);
    }
}

/// The gradient of the weight: each row the sum of the gradients of its look-ups.
fn sum_rows(g: &Tensor, index: &Tensor, count: usize, options: Options) -> Result<Tensor> {
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
        // The rows looked up again, those of the padding being zero.
        let index = self.index.get(cx)?;
        let rows = embedding(&index, g, self.options)?;
        if self.options.padding.is_none() && !self.options.by_frequency {
            return Ok(smallvec![Some(rows)]);
        }
        let scale = row_scales(index.slice()?, self.count, self.options);
        let mut shape: Dims = self.shape.clone();
        let last = shape.len() - 1;
        shape[last] = 1;
        let scale = Tensor::from_slice(&scale, shape)?.copied(g.dtype())?;
        Ok(smallvec![Some(crate::ops::arith::mul(&rows, &scale)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("indices", &self.index);
    }
}

/// By what the gradient of each look-up enters the sum of its row.
fn row_scales(index: &[i64], count: usize, options: Options) -> Vec<f64> {
    let mut often = vec![0usize; count];
    index.iter().for_each(|&i| often[i as usize] += 1);
    let scale = |&i: &i64| match i as usize {
        row if options.padding == Some(row) => 0.0,
        row if options.by_frequency => 1.0 / often[row] as f64,
        _ => 1.0,
    };
    index.iter().map(scale).collect()
}

/// Scales the rows that are looked up down to the norm `max`, in place and without history.
fn limit_norms(weight: &Tensor, index: &[i64], max: f64, p: f64) -> Result<()> {
    let dim = weight.shape()[1];
    let mut rows: Vec<i64> = index.to_vec();
    rows.sort_unstable();
    rows.dedup();
    let mut values = weight.on_host()?.to_vec::<f64>();
    for &r in &rows {
        let row = &mut values[r as usize * dim..][..dim];
        let norm = match p {
            p if p == f64::INFINITY => row.iter().fold(0.0, |m: f64, v| m.max(v.abs())),
            p => row.iter().map(|v| v.abs().powf(p)).sum::<f64>().powf(1.0 / p),
        };
        if norm > max {
            let scale = max / (norm + 1e-7);
            row.iter_mut().for_each(|v| *v *= scale);
        }
    }
    write_untracked(weight, &Tensor::from_slice(&values, weight.shape().clone())?)?;
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
        let index = indices.on_host()?.to_vec::<i64>();
        ensure!(index.iter().all(|i| (0..count).contains(i)), Index, "index out of range in self");
        limit_norms(weight, &index, max, a.float(4)?)?;
    }
    Ok(embedding(indices, weight, Options { padding, by_frequency: a.bool(5)? })?.into())
}

pub const OP: Op = Op {
    name: "embedding",
    doc: "Rows of `weight` by index.",
    surface: Surface::NN,
    overloads: &[Overload {
        sig: "input: Tensor, weight: Tensor, padding_idx: int? = None, max_norm: float? = None, norm_type: float = 2.0, \
              scale_grad_by_freq: bool = False, sparse: bool = False",
        call: Call::Fn(embedding_op),
    }],
    ..Op::NEW
};
