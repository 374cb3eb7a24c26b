//! Views: another geometry over the same memory, and their histories.

use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, OnceLock};

use smallvec::smallvec;

use super::inplace::forbidden_write;
use super::{Inner, Tensor, ViewKind, ViewOf};
use crate::backend::copy;
use crate::bail;
use crate::dtype::{DType, Scalar};
use crate::error::Error;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, grad_enabled, inference_enabled, node as node_of, record};
use crate::layout::Layout;

/// A view of `t` with `layout`, recorded as `make()`'s node.
#[inline]
pub fn as_view<F: Function>(t: &Tensor, layout: Layout, make: impl FnOnce() -> F) -> Result<Tensor> {
    let out = plain_view(t, layout, t.dtype(), ViewKind::Plain);
    record(out, &[t], |_| make())
}

/// View number `number` of several that one call returns.
pub fn multi_view<F: Function>(
    t: &Tensor,
    layout: Layout,
    number: usize,
    make: impl FnOnce() -> F,
) -> Result<Tensor> {
    let out = plain_view(t, layout, t.dtype(), ViewKind::Multi(number as u32));
    record(out, &[t], |_| make())
}

#[inline]
fn plain_view(t: &Tensor, layout: Layout, dtype: DType, kind: ViewKind) -> Tensor {
    let base = t.base().unwrap_or(t).clone();
    let kind = match kind {
        _ if inference_enabled() => ViewKind::Inference,
        _ if !grad_enabled() => ViewKind::NoGrad,
        // A view of a view that may not be written stays one that may not.
        ViewKind::Plain => t.view_kind().unwrap_or(kind),
        kind => kind,
    };
    Tensor(Arc::new(Inner {
        storage: t.0.storage.clone(),
        contiguous: layout.is_contiguous(),
        layout,
        dtype,
        uncounted: t.0.uncounted,
        inference: t.0.inference,
        view: Some(ViewOf { base, kind }),
        meta: OnceLock::new(),
        host: AtomicPtr::new(null_mut()),
    }))
}

/// Gives a view whose base was written in place since a history through its base.
///
/// Note [Views of a tensor that is written in place]
/// A write to a base (or through another view of it) makes the base a function of what was written, and every
/// view with it. The base keeps the number of the last such write; a view that is asked for its history and has
/// seen an older one takes a new node that reads the view's elements out of the base's gradient.
pub(super) fn refresh(t: &Tensor) {
    let Some(v) = &t.0.view else { return };
    if matches!(v.kind, ViewKind::NoGrad | ViewKind::Inference) {
        return;
    }
    let Some(base) = v.base.meta() else { return };
    let epoch = base.inplace_epoch();
    if epoch == 0 || !base.is_tracked() || t.meta().is_some_and(|m| m.seen_epoch() == epoch) {
        return;
    }
    let Some(edge) = v.base.meta_or_new().edge(&v.base) else { return };
    let edges = smallvec![Some(edge)];
    let grad_fn = if v.kind == ViewKind::Plain {
        let node = AsStrided { view: t.layout().clone(), base: v.base.layout().clone() };
        node_of(node, edges, &[t])
    } else {
        let name = t.meta().and_then(|m| m.grad_fn()).map(|f| f.name().into_owned());
        node_of(Stale { message: forbidden_write(t, v.kind, name, true) }, edges, &[t])
    };
    let meta = t.meta_or_new();
    meta.set_history(grad_fn, 0);
    meta.see_epoch(epoch);
}

/// The node of a view that may not be written in place, after its base was: there is no way back to the base.
struct Stale {
    message: String,
}

impl Function for Stale {
    fn name(&self) -> &'static str {
        "StaleView"
    }

    fn backward(&self, _: &Cx, _: Grads) -> Result<Grads> {
        bail!(Error::Runtime(self.message.clone()))
    }
}

/// The node of `as_strided`: elements of the view go back to where they lie in the base.
pub struct AsStrided {
    pub view: Layout,
    pub base: Layout,
}

impl Function for AsStrided {
    fn name(&self) -> &'static str {
        "AsStridedBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(scatter_view(g, &self.view, &self.base)?)])
    }
}

/// A gradient of the shape of `base` that holds `g` where `view` lies in it and zeros elsewhere; elements that the
/// view shows several times receive the sum.
pub fn scatter_view(g: &Tensor, view: &Layout, base: &Layout) -> Result<Tensor> {
    let (memory, view_at, base_at) = memory_of(g, view, base)?;
    let target = memory.with_layout(view_at);
    if view.may_overlap_itself() {
        copy::accumulate(g.raw(), target.raw())?;
    } else {
        copy::copy(g.raw(), target.raw())?;
    }
    let out = memory.with_layout(base_at).copied(g.dtype())?;
    record(out, &[g], |_| ScatterView { view: view.clone(), base: base.clone() })
}

/// The elements of `view` out of `g`, which has the shape of `base`: what [`scatter_view`] undoes.
pub fn gather_view(g: &Tensor, view: &Layout, base: &Layout) -> Result<Tensor> {
    let (memory, view_at, base_at) = memory_of(g, view, base)?;
    copy::copy(g.raw(), memory.with_layout(base_at).raw())?;
    let out = memory.with_layout(view_at).copied(g.dtype())?;
    record(out, &[g], |_| AsStrided { view: view.clone(), base: base.clone() })
}

/// `g`, which has the shape of `base`, with zeros where `view` lies in it.
pub fn clear_view(g: &Tensor, view: &Layout, base: &Layout) -> Result<Tensor> {
    let (memory, view_at, base_at) = memory_of(g, view, base)?;
    let whole = memory.with_layout(base_at);
    copy::copy(g.raw(), whole.raw())?;
    copy::fill(memory.with_layout(view_at).raw(), Scalar::Int(0))?;
    let out = whole.copied(g.dtype())?;
    record(out, &[g], |_| ClearView { view: view.clone(), base: base.clone() })
}

/// Zeroed memory of the dtype and on the device of `g` that both layouts fit in, and the two moved to its start.
fn memory_of(g: &Tensor, view: &Layout, base: &Layout) -> Result<(Tensor, Layout, Layout)> {
    let (lo, hi) = match (view.extent(), base.extent()) {
        (Some((a, b)), Some((c, d))) => (a.min(c), b.max(d)),
        (None, Some(e)) | (Some(e), None) => e,
        (None, None) => (0, 0),
    };
    let memory = g.new_zeros([(hi - lo + 1) as usize])?;
    let moved = |l: &Layout| Layout { offset: (l.offset as isize - lo).max(0) as usize, ..l.clone() };
    Ok((memory, moved(view), moved(base)))
}

struct ScatterView {
    view: Layout,
    base: Layout,
}

impl Function for ScatterView {
    fn name(&self) -> &'static str {
        "AsStridedScatterBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(gather_view(g, &self.view, &self.base)?)])
    }
}

struct ClearView {
    view: Layout,
    base: Layout,
}

impl Function for ClearView {
    fn name(&self) -> &'static str {
        "CopySlicesBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(clear_view(g, &self.view, &self.base)?)])
    }
}
