//! Attention by the device's kernels, which never hold the scores of all queries.

use smallvec::smallvec;

use super::{Options, masked, repeat_heads};
use crate::backend::attention as kernel;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record};
use crate::layout::{Dims, Layout, MemoryFormat};
use crate::ops::matmul::matmul;
use crate::ops::nn::{number_compute, rounded};
use crate::ops::{arith, reduce, view};
use crate::tensor::Tensor;

/// Fewer queries than these are computed by products that are dot products.
const FEW_QUERIES: usize = 8;

/// What of the options the kernels need; the mask stands apart.
#[derive(Clone, Copy)]
struct Plan {
    causal: bool,
    scale: f64,
    /// Several query heads share a head of keys and values.
    shared_heads: bool,
}

/// `[batch, heads, rows, size]`: missing dimensions have size 1, further ones count as batch.
fn shape_of_4(shape: &Dims) -> Dims {
    let r = shape.len();
    let heads = if r > 2 { shape[r - 3] } else { 1 };
    let batch = shape[..r.saturating_sub(3)].iter().product();
    Dims::from([batch, heads, shape[r - 2], shape[r - 1]])
}

/// Whether the shapes are those of one attention for each head, without broadcasting.
fn fits(q: &Tensor, k: &Tensor, v: &Tensor, shared_heads: bool) -> bool {
    let (qs, ks, vs) = (q.shape(), k.shape(), v.shape());
    let r = qs.len();
    let shared = |x: &Dims| {
        let outer = if shared_heads { r.saturating_sub(3) } else { r - 2 };
        let heads = outer == r - 2 || (r > 2 && x[r - 3] > 0 && qs[r - 3].is_multiple_of(x[r - 3]));
        x.len() == r && x[..outer] == qs[..outer] && heads
    };
    let some = |t: &Tensor| t.numel() > 0;
    shared(ks)
        && shared(vs)
        && ks[..r - 1] == vs[..r - 1]
        && ks[r - 1] == qs[r - 1]
        && some(q)
        && some(k)
        && some(v)
}

/// The tensor as the kernels read it: of rank 4, with contiguous rows that do not begin a page each, as such rows evict each
/// other from the cache.
fn rows(t: &Tensor, compute: DType) -> Result<Tensor> {
    let layout = t.layout();
    let r = layout.rank();
    let strides = &layout.strides;
    let ascending = layout.shape.iter().zip(strides.iter()).all(|(&n, &s)| s >= 0 || n < 2);
    let paged = (strides[r - 2] as usize * compute.size()).is_multiple_of(4096);
    let plain = t.dtype() == compute && t.raw().is_aligned() && ascending;
    let t = if plain && (strides[r - 1] == 1 || layout.shape[r - 1] == 1) && !paged {
        t.detach()
    } else {
        t.copied(compute)?
    };
    if r == 4 { Ok(t) } else { view::reshape_to(&t, &shape_of_4(t.shape())) }
}

/// The mask for every score, bool or of the compute dtype; None if it is not a mask of these scores.
fn full_mask(mask: &Tensor, q: &Tensor, k: &Tensor, compute: DType) -> Result<Option<Tensor>> {
    let r = q.rank();
    let mut shape = q.shape().clone();
    shape[r - 1] = k.shape()[r - 2];
    let from = r.wrapping_sub(mask.rank());
    let fits = mask.rank() <= r && mask.shape().iter().zip(&shape[from..]).all(|(&m, &n)| m == n || m == 1);
    if !fits || mask.device() != q.device() {
        return Ok(None);
    }
    let dtype = if mask.dtype() == DType::Bool { DType::Bool } else { compute };
    let ascending = mask.strides().iter().all(|&s| s >= 0) && mask.raw().is_aligned();
    let mask = if mask.dtype() == dtype && ascending { mask.detach() } else { mask.copied(dtype)? };
    if r > 4 {
        // A mask of several batch dimensions that it does not have would be copied for each of them.
        let outer = &shape[..r - 3];
        let repeated = mask.rank() > 3 && mask.shape()[..mask.rank() - 3].iter().any(|&n| n > 1);
        if repeated && mask.shape()[..mask.rank() - 3] != *outer {
            return Ok(None);
        }
    }
    let own = mask.rank();
    let mut flat = if own >= 2 { shape_of_4(mask.shape()) } else { Dims::from([1, 1, 1, mask.numel()]) };
    flat[3] = mask.shape().last().copied().unwrap_or(1);
    let mask = view::reshape_to(&mask, &flat)?;
    let mut wanted = shape_of_4(&shape);
    wanted[3] = shape[r - 1];
    Ok(Some(view::expand_to(&mask, &wanted)?))
}

/// The operands of the kernels.
struct Operands {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
}

impl Operands {
    fn new([q, k, v]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<Option<Operands>> {
        let compute = number_compute(q.dtype());
        let mask = match mask.map(|m| full_mask(m, q, k, compute)).transpose()? {
            Some(None) => return Ok(None),
            Some(mask) => mask,
            None => None,
        };
        Ok(Some(Operands {
            query: rows(q, compute)?,
            key: rows(k, compute)?,
            value: rows(v, compute)?,
            mask,
        }))
    }

    fn views(&self, plan: Plan) -> kernel::Attention<'_> {
        kernel::Attention {
            query: self.query.raw(),
            key: self.key.raw(),
            value: self.value.raw(),
            mask: self.mask.as_ref().map(Tensor::raw),
            causal: plan.causal,
            scale: plan.scale,
        }
    }
}

/// The layout of the result: that of the query if it has its shape and contiguous rows, else contiguous.
fn layout_of(q: &Tensor, shape: &Dims) -> Result<Layout> {
    let kept = q.layout().in_format(MemoryFormat::Preserve)?;
    let rows = q.shape() == shape && kept.strides[shape.len() - 1] == 1;
    Ok(if rows { kept } else { Layout::contiguous(shape.clone()) })
}

/// Attention by the device's kernels; None where it has to be composed.
pub(super) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, o: Options) -> Result<Option<Tensor>> {
    let compute = number_compute(q.dtype());
    let learned = |m: &Tensor| m.requires_grad() && grad_enabled();
    let few = q.rank() > 1 && q.shape()[q.rank() - 2] < FEW_QUERIES;
    if o.dropout > 0.0
        || few
        || q.device() != k.device()
        || q.device() != v.device()
        || !fits(q, k, v, o.shared_heads)
        || o.mask.is_some_and(learned)
        || !kernel::supported(q.device(), compute)?
    {
        return Ok(None);
    }
    let size = q.shape()[q.rank() - 1] as f64;
    let plan =
        Plan { causal: o.causal, scale: o.scale.unwrap_or(1.0 / size.sqrt()), shared_heads: o.shared_heads };
    let Some(operands) = Operands::new([q, k, v], o.mask)? else { return Ok(None) };
    let mut shape = q.shape().clone();
    shape[q.rank() - 1] = v.shape()[v.rank() - 1];
    let out = Tensor::empty_dense(layout_of(q, &shape)?, compute, q.device())?;
    let lse = Tensor::empty_on(Dims::from(&operands.query.shape()[..3]), compute, q.device())?;
    let flat = view::reshape_to(&out, &shape_of_4(&shape))?;
    if !flat.storage().same(out.storage()) || !kernel::forward(&operands.views(plan), flat.raw(), lse.raw())?
    {
        return Ok(None);
    }
    let out = rounded(out, q.dtype())?;
    let out = if out.dtype() == compute || q.shape() != &shape { out } else { out.laid_like(q)? };
    let mask = o.mask;
    record(out, &[q, k, v], |y| Backward {
        query: SavedTensor::input(q),
        key: SavedTensor::input(k),
        value: SavedTensor::input(v),
        mask: SavedTensor::optional(mask),
        out: SavedTensor::output(y),
        lse: SavedTensor::input(&lse),
        plan,
    })
    .map(Some)
}

struct Backward {
    query: SavedTensor,
    key: SavedTensor,
    value: SavedTensor,
    mask: SavedTensor,
    out: SavedTensor,
    lse: SavedTensor,
    plan: Plan,
}

impl Backward {
    /// The gradients by the kernels; None if the device has none for these tensors.
    fn fused(
        &self,
        cx: &Cx,
        g: &Tensor,
        [q, k, v]: [&Tensor; 3],
        mask: Option<&Tensor>,
    ) -> Result<Option<[Tensor; 3]>> {
        let Some(o) = Operands::new([q, k, v], mask)? else { return Ok(None) };
        let compute = o.query.dtype();
        let (out, grad) = (rows(&self.out.get(cx)?, compute)?, rows(g, compute)?);
        let lse = self.lse.get(cx)?;
        let new = |t: &Tensor| Tensor::empty_on(t.shape().clone(), compute, t.device());
        let grads = [new(&o.query)?, new(&o.key)?, new(&o.value)?];
        let views = [grads[0].raw(), grads[1].raw(), grads[2].raw()];
        if !kernel::backward(&o.views(self.plan), out.raw(), lse.raw(), grad.raw(), views)? {
            return Ok(None);
        }
        let as_input = |g: &Tensor, t: &Tensor| rounded(view::reshape_to(g, t.shape())?.detach(), t.dtype());
        Ok(Some([as_input(&grads[0], q)?, as_input(&grads[1], k)?, as_input(&grads[2], v)?]))
    }

    /// The gradients composed of recorded operations, with the probabilities recomputed.
    fn composed(&self, g: &Tensor, [q, k, v]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<[Tensor; 3]> {
        let compute = number_compute(q.dtype());
        let wide = |t: &Tensor| arith::to_dtype(t, compute);
        let swapped = |t: &Tensor| view::swap(t, t.rank() - 1, t.rank() - 2);
        let repeated = |t: &Tensor| -> Result<Tensor> {
            if self.plan.shared_heads { repeat_heads(&wide(t)?, q) } else { wide(t) }
        };
        let (query, key, value, g) = (wide(q)?, repeated(k)?, repeated(v)?, wide(g)?);
        let query = arith::mul(&query, self.plan.scale)?;
        let mut scores = matmul(&query, &swapped(&key)?)?;
        let causal = self.plan.causal.then(|| super::causal_mask(&scores)).transpose()?;
        if let Some(mask) = causal.as_ref().or(mask) {
            scores = masked(&scores, mask)?;
        }
        let weights = super::probabilities(&scores, mask.is_some())?;
        let slopes = matmul(&g, &swapped(&value)?)?;
        let sum = reduce::sum_mask(&arith::mul(&slopes, &weights)?, 1 << (slopes.rank() - 1), true, None)?;
        let slopes = arith::mul(&arith::sub(&slopes, &sum)?, &weights)?;
        let dq = arith::mul(&matmul(&slopes, &key)?, self.plan.scale)?;
        let dk = matmul(&swapped(&slopes)?, &query)?;
        let dv = matmul(&swapped(&weights)?, &g)?;
        let as_input = |g: &Tensor, t: &Tensor| -> Result<Tensor> {
            arith::to_dtype(&gathered(g, t.shape())?, t.dtype())
        };
        Ok([as_input(&dq, q)?, as_input(&dk, k)?, as_input(&dv, v)?])
    }
}

/// The gradient of keys or values, from that of each head of queries.
fn gathered(g: &Tensor, shape: &Dims) -> Result<Tensor> {
    if g.shape() == shape {
        return Ok(g.clone());
    }
    let at = shape.len() - 3;
    let mut split = shape.clone();
    split.insert(at + 1, g.shape()[at] / shape[at].max(1));
    reduce::sum_mask(&view::reshape_to(g, &split)?, 1 << (at + 1), false, None)
}

impl Function for Backward {
    fn name(&self) -> &'static str {
        "ScaledDotProductFlashAttentionForCpuBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("_scaled_dot_product_flash_attention_for_cpu_backward")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let (q, k, v) = (self.query.get(cx)?, self.key.get(cx)?, self.value.get(cx)?);
        let mask = self.mask.try_get(cx)?;
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None, None]) };
        let inputs = [&q, &k, &v];
        let made = if grad_enabled() { None } else { self.fused(cx, g, inputs, mask.as_ref())? };
        let [dq, dk, dv] = match made {
            Some(made) => made,
            None => self.composed(g, inputs, mask.as_ref())?,
        };
        Ok(smallvec![Some(dq), Some(dk), Some(dv)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("query", &self.query);
        visit("key", &self.key);
        visit("value", &self.value);
        visit("attn_mask", &self.mask);
        visit("output", &self.out);
        visit("logsumexp", &self.lse);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dropout_p", Attribute::Number(Scalar::Float(0.0)));
        visit("is_causal", Attribute::Bool(self.plan.causal));
        visit("scale", Attribute::Number(Scalar::Float(self.plan.scale)));
    }
}
