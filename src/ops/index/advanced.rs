//! Indexing by index tensors and masks, mixed with dimensions that are not indexed.

use smallvec::{SmallVec, smallvec};

use super::mask::nonzero_tuple;
use crate::backend::index::{BoundsPolicy, Combine, IndexGrid, Pick, gather, scatter};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat, broadcast, result_layout};
use crate::ops::{reduce, view};
use crate::tensor::{Overlap, Tensor};
use crate::{bail, ensure, ops};

/// The selected elements and the shape of the result. The indices' shape replaces the indexed dimensions if these are
/// adjacent, and comes first otherwise.
struct Plan {
    before: Layout,
    /// The dense indices and their dimensions.
    picks: SmallVec<[(Tensor, usize); 4]>,
    /// Number of entries per index.
    n: usize,
    after: Layout,
    shape: Dims,
}

impl Plan {
    /// The memory layout of the result, which in PyTorch is an elementwise function of tensor and indices.
    fn layout(&self) -> Layout {
        let (start, end) = (self.before.rank(), self.shape.len() - self.after.rank());
        let zeros = |n: usize| std::iter::repeat_n(0, n);
        let kept = self.before.strides.iter().copied().chain(zeros(end - start));
        let index = Dims::from(&self.shape[start..end]).contiguous_strides();
        let with = |strides| Layout { shape: self.shape.clone(), strides, offset: 0 };
        let kept = with(kept.chain(self.after.strides.iter().copied()).collect());
        let index =
            with(zeros(start).chain(index.iter().copied()).chain(zeros(self.shape.len() - end)).collect());
        result_layout(&self.shape, &[&kept, &index], false)
    }

    fn with(&self, t: &Tensor, f: impl FnOnce(&IndexGrid) -> Result<()>) -> Result<()> {
        let mut picks: SmallVec<[Pick; 4]> = SmallVec::new();
        // As in PyTorch, indices are not checked if the result is empty.
        if self.shape.numel() == 0 {
            return Ok(());
        }
        // As in PyTorch, errors contain the position among the indexed dimensions.
        for (place, (index, d)) in self.picks.iter().enumerate() {
            let (size, stride) = (t.shape()[*d], t.strides()[*d]);
            picks.push(Pick { index: index.raw(), size, stride, rule: BoundsPolicy::Dimension(place) });
        }
        f(&IndexGrid { before: &self.before, picks: &picks, n: self.n, after: &self.after })
    }
}

/// Replaces each mask by the indices of its true elements, one tensor per dimension of the mask.
fn without_masks(t: &Tensor, picks: &[Option<Tensor>]) -> Result<SmallVec<[Option<Tensor>; 4]>> {
    let mut out: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
    for pick in picks {
        match pick {
            Some(m) if super::is_mask(m) => {
                let m = super::beside(t, m)?;
                let at = out.len();
                for (k, &n) in m.shape().iter().enumerate() {
                    ensure!(
                        t.shape().get(at + k) == Some(&n),
                        Index,
                        "The shape of the mask {} at index {k} does not match the shape of the indexed tensor {} at index {}",
                        m.shape(),
                        t.shape(),
                        at + k
                    );
                }
                out.extend(nonzero_tuple(&m)?.into_iter().map(Some));
            }
            Some(i) => {
                ensure!(
                    matches!(i.dtype(), DType::I64 | DType::I32),
                    Index,
                    "tensors used as indices must be long, int, byte or bool tensors"
                );
                out.push(Some(super::beside(t, i)?));
            }
            None => out.push(None),
        }
    }
    Ok(out)
}

fn plan(t: &Tensor, picks: &[Option<Tensor>]) -> Result<Plan> {
    let picks = without_masks(t, picks)?;
    ensure!(
        picks.len() <= t.rank(),
        Index,
        "too many indices for tensor of dimension {} (got {})",
        t.rank(),
        picks.len()
    );
    let indexed: SmallVec<[(usize, &Tensor); 4]> =
        picks.iter().enumerate().filter_map(|(d, p)| p.as_ref().map(|p| (d, p))).collect();
    let mut shape = Dims::default();
    for (_, i) in &indexed {
        let Ok(wider) = broadcast("index", &shape, i.shape()) else {
            let all: Vec<String> = indexed.iter().map(|(_, i)| i.shape().to_string()).collect();
            bail!(
                Index,
                "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                all.join(", ")
            );
        };
        shape = wider;
    }
    ensure!(
        shape.numel() == 0 || indexed.iter().all(|&(d, _)| t.shape()[d] > 0),
        Index,
        "index is out of bounds for dimension with size 0"
    );
    let mut dense: SmallVec<[(Tensor, usize); 4]> = SmallVec::new();
    for &(d, i) in &indexed {
        let wide = i.layout().expand(&shape).map(|l| i.with_layout(l));
        dense.push((wide.as_ref().unwrap_or(i).dense(DType::I64)?, d));
    }
    let n = shape.numel();
    let neighbours = indexed.windows(2).all(|w| w[0].0 + 1 == w[1].0);
    let split = if neighbours { indexed.first().map_or(0, |f| f.0) } else { 0 };
    let layout = |keep: &dyn Fn(usize) -> bool, offset| {
        let dims: SmallVec<[usize; 6]> =
            (0..t.rank()).filter(|&d| keep(d) && indexed.iter().all(|(i, _)| *i != d)).collect();
        Layout { offset, ..t.layout().permute(&dims) }
    };
    let before = layout(&|d| d < split, t.layout().offset);
    let after = layout(&|d| d >= split, 0);
    let shape = before.shape.iter().chain(shape.iter()).chain(after.shape.iter()).copied().collect();
    Ok(Plan { before, picks: dense, n, after, shape })
}

fn save(picks: &[Option<Tensor>]) -> Vec<SavedTensor> {
    picks.iter().map(|p| SavedTensor::optional(p.as_ref())).collect()
}

fn saved(picks: &[SavedTensor], cx: &Cx) -> Result<Vec<Option<Tensor>>> {
    picks.iter().map(|p| p.try_get(cx)).collect()
}

/// The elements selected by `picks`, one per leading dimension. A mask covers as many dimensions as it has.
pub fn index(t: &Tensor, picks: &[Option<Tensor>]) -> Result<Tensor> {
    let p = plan(t, picks)?;
    let out = t.new_empty(p.shape.clone())?;
    p.with(t, |l| gather(t.raw(), l, out.raw()))?;
    let out = if t.is_contiguous() { out } else { out.laid_in(p.layout())? };
    record(out, &[t], |_| IndexBackward { picks: save(picks), shape: t.shape().clone() })
}

struct IndexBackward {
    picks: Vec<SavedTensor>,
    shape: Dims,
}

impl Function for IndexBackward {
    fn name(&self) -> &'static str {
        "IndexBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (picks, out) = (saved(&self.picks, cx)?, g.new_zeros(self.shape.clone())?);
        index_put_untracked(&out, &picks, g, true)?;
        let shape = g.shape().clone();
        let node = || IndexPut { picks: save(&picks), accumulate: true, only_values: true, shape };
        Ok(smallvec![Some(record(out, &[g], |_| node())?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        self.picks.iter().for_each(|s| visit("indices", s));
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
    }
}

/// Writes broadcast `values` to the selected elements of `t` in place; without autograd checks and history.
pub(super) fn index_put_untracked(
    t: &Tensor,
    picks: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<()> {
    let p = plan(t, picks)?;
    let values = super::without_leading_ones(&values.detach(), &p.shape)?;
    let Some(wide) = values.layout().expand(&p.shape) else {
        bail!(
            Runtime,
            "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
            values.shape(),
            p.shape
        );
    };
    ensure!(
        values.dtype() == t.dtype(),
        Runtime,
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        t.dtype().scalar_name(),
        values.dtype().scalar_name()
    );
    let values = values.with_layout(wide);
    let dense = if values.overlap(t) != Overlap::Apart {
        values.copied(t.dtype())?
    } else {
        values.dense(t.dtype())?
    };
    let how = if accumulate { Combine::Add } else { Combine::Set };
    p.with(t, |l| scatter(t.raw(), l, dense.raw(), how))
}

/// A copy of `t` with `values` written or added to the selected elements.
fn index_put_impl(t: &Tensor, picks: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
    let cast = if !accumulate && values.numel() == 1 && super::lone_mask(t, picks)?.is_some() {
        Some(crate::ops::arith::to_dtype(values, t.dtype())?)
    } else {
        None
    };
    let values = cast.as_ref().unwrap_or(values);
    let out = if t.is_target() { t.writable()? } else { t.copied_in(MemoryFormat::Preserve, t.dtype())? };
    index_put_untracked(&out, picks, values, accumulate)?;
    let shape = values.shape().clone();
    record(out, &[t, values], |_| IndexPut { picks: save(picks), accumulate, only_values: false, shape })
}

struct IndexPut {
    picks: Vec<SavedTensor>,
    accumulate: bool,
    /// The target was a tensor of zeros, so the values are the only input.
    only_values: bool,
    /// The shape of the values before broadcasting.
    shape: Dims,
}

impl Function for IndexPut {
    fn name(&self) -> &'static str {
        "IndexPutBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let picks = saved(&self.picks, cx)?;
        if self.only_values {
            return Ok(smallvec![Some(index(g, &picks)?)]);
        }
        let kept = || {
            if self.accumulate {
                Ok(g.clone())
            } else {
                index_put(g, &picks, &g.new_zeros([0usize; 0])?, false)
            }
        };
        let picked = || {
            let g = index(g, &picks)?;
            let extra = self.shape.len().saturating_sub(g.rank());
            let shape = Dims::from(&self.shape[extra..]);
            view::reshape_to(&reduce::sum_to(&g, &shape)?, &self.shape)
        };
        Ok(smallvec![cx.needs(0).then(kept).transpose()?, cx.needs(1).then(picked).transpose()?])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        self.picks.iter().for_each(|s| visit("indices", s));
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("accumulate", Attribute::Bool(self.accumulate));
    }
}

ops! {
    /// The tensor with values at the elements that a tuple of index tensors picks.
    "index_put" BOTH | INPLACE | BY_INDEX | TARGET, autocast WIDEST_ON_GPU, batch INDEX_PUT {
        pub fn index_put(input: Tensor, indices: Tensor?[], values: Tensor, accumulate: bool = False) -> Tensor =
            index_put_impl;
    }
}
