//! Scaled dot product attention: in one kernel where the device has it, else composed of matrix products and a softmax.

mod fused;

use crate::backend::copy;
use crate::backend::inspect::{Question, known};
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops;
use crate::ops::linalg::triangle;
use crate::ops::matmul::matmul;
use crate::ops::reduce::amax;
use crate::ops::schema::{Args, Out};
use crate::ops::softmax::softmax;
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;

/// The options of attention.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// If bool, the keys that a query attends to; if floating point, a term added to the scores.
    pub mask: Option<&'a Tensor>,
    pub dropout: f64,
    /// Each query attends only to keys up to its own position.
    pub causal: bool,
    /// 1 / √E by default.
    pub scale: Option<f64>,
    /// Several query heads share a head of keys and values.
    pub shared_heads: bool,
}

/// `softmax(q @ kᵀ * scale + mask) @ v` with q `[..., L, E]`, k `[..., S, E]` and v `[..., S, Ev]`.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, o: Options) -> Result<Tensor> {
    ensure!(
        q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2,
        Runtime,
        "scaled_dot_product_attention: Expected query, key, and value to all be  at least 2 dimensional, but got \
         query.dim(): {}, key.dim(): {} and value.dim(): {} instead.",
        q.rank(),
        k.rank(),
        v.rank()
    );
    ensure!(
        q.dtype() == k.dtype() && q.dtype() == v.dtype(),
        Runtime,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: \
         {} instead.",
        q.dtype().scalar_name(),
        k.dtype().scalar_name(),
        v.dtype().scalar_name()
    );
    ensure!(
        !(o.causal && o.mask.is_some()),
        Runtime,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    );
    q.expect_float("scaled_dot_product_attention")?;
    match fused::attention(q, k, v, o)? {
        Some(out) => Ok(out),
        None => composed(q, k, v, o),
    }
}

/// The same, composed of operations.
fn composed(q: &Tensor, k: &Tensor, v: &Tensor, o: Options) -> Result<Tensor> {
    // Half types are rounded only once.
    let compute = super::number_compute(q.dtype());
    let wide = |t: &Tensor| arith::to_dtype(t, compute);
    let (query, mut key, mut value) = (wide(q)?, wide(k)?, wide(v)?);
    if o.shared_heads {
        key = repeat_heads(&key, q)?;
        value = repeat_heads(&value, q)?;
    }
    let size = query.shape()[query.rank() - 1] as f64;
    let query = arith::mul(&query, o.scale.unwrap_or(1.0 / size.sqrt()))?;
    let mut scores = matmul(&query, &view::swap(&key, key.rank() - 1, key.rank() - 2)?)?;
    let causal = o.causal.then(|| causal_mask(&scores)).transpose()?;
    let mask = causal.as_ref().or(o.mask);
    if let Some(mask) = mask {
        scores = masked(&scores, mask)?;
    }
    let weights = probabilities(&scores, o.mask.is_some())?;
    let weights = if o.dropout > 0.0 { super::dropout(&weights, o.dropout)? } else { weights };
    arith::to_dtype(&matmul(&weights, &value)?, q.dtype())
}

/// The softmax of scores. Under a mask, queries that attend to no key have probabilities of zero; with a causal mask every
/// query attends at least to the first key.
fn probabilities(scores: &Tensor, masked: bool) -> Result<Tensor> {
    match if masked { blind_queries(scores)? } else { None } {
        None => softmax(scores, -1),
        Some(blind) => {
            let zeroed = |t: &Tensor| rows::select_where.call(&[(&blind).into(), 0.0.into(), t.into()], &[]);
            zeroed(&softmax(&zeroed(scores)?, -1)?)
        }
    }
}

/// Keys or values with each head repeated for the query heads that share it.
fn repeat_heads(t: &Tensor, q: &Tensor) -> Result<Tensor> {
    ensure!(
        t.rank() >= 3 && q.rank() >= 3,
        Runtime,
        "enable_gqa expects query, key and value with a dimension of heads"
    );
    let at = t.rank() - 3;
    let (heads, wanted) = (t.shape()[at], q.shape()[q.rank() - 3]);
    ensure!(
        heads > 0 && wanted % heads == 0,
        Runtime,
        "Number of heads in key and value must divide the number of heads in query"
    );
    let mut split: Dims = t.shape().clone();
    split.insert(at + 1, 1);
    let mut repeated = split.clone();
    repeated[at + 1] = wanted / heads;
    let mut shape = t.shape().clone();
    shape[at] = wanted;
    view::reshape_to(&view::expand_to(&view::reshape_to(t, &split)?, &repeated)?, &shape)
}

/// The causal mask: each query attends to the keys up to its own position.
fn causal_mask(scores: &Tensor) -> Result<Tensor> {
    let (l, s) = (scores.shape()[scores.rank() - 2], scores.shape()[scores.rank() - 1]);
    let all = Tensor::empty_on([l, s], DType::Bool, scores.device())?;
    copy::fill(all.raw(), true.into())?;
    triangle(&all, 0, true)
}

fn masked(scores: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if mask.dtype() == DType::Bool {
        return rows::select_where.call(&[mask.into(), scores.into(), f64::NEG_INFINITY.into()], &[]);
    }
    arith::add(scores, &arith::to_dtype(mask, scores.dtype())?)
}

/// The queries that attend to no key, as one bool per query; None if there can be none. Their result is zero.
fn blind_queries(scores: &Tensor) -> Result<Option<Tensor>> {
    if scores.numel() == 0 {
        return Ok(None);
    }
    let top = amax(&scores.detach(), Some(&[-1]), true)?;
    let blind = rows::eq.call(&[(&top).into(), f64::NEG_INFINITY.into()], &[])?;
    Ok(if known(Question::AnyNonzero, blind.raw())? == Some(false) { None } else { Some(blind) })
}

fn attention_op(a: &Args) -> Result<Out> {
    let o = Options {
        mask: a.opt_tensor(3)?,
        dropout: a.float(4)?,
        causal: a.bool(5)?,
        scale: a.opt_float(6)?,
        shared_heads: a.bool(7)?,
    };
    Ok(attention(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, o)?.into())
}

ops! {
    /// `softmax(query @ keyᵀ * scale + mask) @ value`.
    "scaled_dot_product_attention" NN | NATIVE, autocast LOWER, batch LEADING {
        (query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor? = None, dropout_p: float = 0.0,
         is_causal: bool = False, *, scale: float? = None, enable_gqa: bool = False) =>
            attention_op;
    }
}
