//! Views and their histories.

use std::sync::atomic::AtomicU32;

use smallvec::smallvec;

use super::inplace::forbidden_write;
use super::{Tensor, ViewKind, ViewOf};
use crate::backend::copy;
use crate::bail;
use crate::dtype::Scalar;
use crate::error::Error;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, grad_enabled, inference_enabled, node as node_of, record};
use crate::layout::Layout;

/// A view of `t` with `layout`, recorded with the node that `make` returns.
#[inline]
pub fn as_view<F: Function>(t: &Tensor, layout: Layout, make: impl FnOnce() -> F) -> Result<Tensor> {
    let out = plain_view(t, layout, ViewKind::Plain);
    if t.is_inference() {
        return Ok(out);
    }
    record(out, &[t], |_| make())
}

/// View number `number` of several returned by one call, without history.
pub fn multi_view(t: &Tensor, layout: Layout, number: usize) -> Tensor {
    plain_view(t, layout, ViewKind::Multi(number as u32))
}

#[inline(never)]
fn plain_view(t: &Tensor, layout: Layout, kind: ViewKind) -> Tensor {
    if t.is_inference() {
        // Its version is not counted, so that nothing could follow from a base that is written to.
        return t.over_same_memory(layout, t.origin(), || None);
    }
    let base = t.base().unwrap_or(t);
    let kind = match t.view_kind() {
        // A view of a view that may not be written may not be written either, for the same reason.
        Some(ViewKind::Multi(_)) => ViewKind::Multi(0),
        Some(before) if before != ViewKind::Plain => before,
        _ if inference_enabled() => ViewKind::Inference,
        _ if !grad_enabled() => ViewKind::NoGrad,
        _ => kind,
    };
    let seen = base.version();
    // A view of a tensor that a function captured is one too.
    t.over_same_memory(layout, t.origin(), || {
        Some(ViewOf { base: base.clone(), kind, seen: AtomicU32::new(seen) })
    })
}

/// Regenerates the `grad_fn` of a view whose memory was written in place since it was recorded.
///
/// Note [Views of a tensor that is written in place] A write to a base (or through another view of it) makes the base
/// a function of the written value, and so every view of it. A view stores the version of the memory for which its
/// `grad_fn` is valid. When its history is requested at a newer version, it takes a new node that gathers the view's
/// elements from the base.
///
/// # Errors
/// `RuntimeError` for a view that may not be written in place, since it cannot be derived from its base after a write.
#[inline(always)]
pub(super) fn refresh_grad_fn(t: &Tensor) -> Result<()> {
    match &t.0.view {
        Some(v) if v.seen() != t.version() && v.base.requires_grad() => regenerate_grad_fn(t),
        _ => Ok(()),
    }
}

/// Replaces the history of a view by one through its base, unconditionally.
#[cold]
pub(super) fn regenerate_grad_fn(t: &Tensor) -> Result<()> {
    let Some(v) = &t.0.view else { return Ok(()) };
    if v.kind != ViewKind::Plain {
        let name = t.meta().and_then(|m| m.grad_fn()).map(|f| f.name().into_owned());
        bail!(Error::Runtime(forbidden_write(t, v.kind, name, true)));
    }
    let edges = smallvec![v.base.grad_edge()?];
    let kept = t.drop_retained_grad();
    let node = AsStrided { view: t.layout().clone(), base: v.base.layout().clone() };
    let meta = t.meta_or_new();
    let node = node_of(node, edges, &[t]);
    if kept {
        node.retain_grad(0, meta);
    }
    meta.set_history(node, 0);
    v.mark_version(t.version());
    Ok(())
}

/// The node of `as_strided`: scatters gradients of the view's elements to their positions in the base.
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

/// A gradient of the shape of `base` with `g` at the positions of `view` and zeros elsewhere; elements that the view
/// contains several times receive the sum.
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

/// The elements of `view` from `g`, which has the shape of `base`: the transpose of [`scatter_view`]. Elements of `base`
/// that lie in one place are summed.
pub fn gather_view(g: &Tensor, view: &Layout, base: &Layout) -> Result<Tensor> {
    let (memory, view_at, base_at) = memory_of(g, view, base)?;
    let source = memory.with_layout(base_at);
    if base.may_overlap_itself() {
        copy::accumulate(g.raw(), source.raw())?;
    } else {
        copy::copy(g.raw(), source.raw())?;
    }
    let out = memory.with_layout(view_at).copied(g.dtype())?;
    record(out, &[g], |_| AsStrided { view: view.clone(), base: base.clone() })
}

/// `g`, which has the shape of `base`, with zeros at the positions of `view`.
pub fn clear_view(g: &Tensor, view: &Layout, base: &Layout) -> Result<Tensor> {
    let (memory, view_at, base_at) = memory_of(g, view, base)?;
    let whole = memory.with_layout(base_at);
    copy::copy(g.raw(), whole.raw())?;
    copy::fill(memory.with_layout(view_at).raw(), Scalar::Int(0))?;
    let out = whole.copied(g.dtype())?;
    record(out, &[g], |_| ClearView { view: view.clone(), base: base.clone() })
}

/// Zeroed memory, of the dtype and on the device of `g`, that spans both layouts, and both layouts relative to its
/// start.
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
