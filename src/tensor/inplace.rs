//! Writing in place: PyTorch's rules for leaves and views, the version count, and the histories that change.

use smallvec::smallvec;

use super::view::{AsStrided, clear_view, gather_view};
use super::{Tensor, ViewKind};
use crate::backend::cpu::copy;
use crate::error::{Error, Result};
use crate::graph::{self, Cx, Function, Grads, grad_enabled};
use crate::layout::Layout;
use crate::{bail, ensure};

/// Errors where `t` may not be written in place: a leaf that wants a gradient, one of several views, memory that
/// is read-only or that shows one element under several indices.
pub fn check_inplace(t: &Tensor) -> Result<()> {
    ensure!(
        !t.storage().is_readonly(),
        Runtime,
        "the memory of this tensor is read-only and cannot be written in place"
    );
    ensure!(!t.layout().may_overlap_itself(), self_overlap());
    if !grad_enabled() || !t.requires_grad() {
        return Ok(());
    }
    let leaf = t.is_leaf();
    match t.view_kind() {
        None => ensure!(
            !leaf,
            Runtime,
            "a leaf Variable that requires grad is being used in an in-place operation."
        ),
        Some(kind) => {
            if let Some(base) = t.base() {
                ensure!(
                    !(base.requires_grad() && base.is_leaf()),
                    Runtime,
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                );
            }
            let name = t.grad_fn().map_or("view".into(), |f| f.name());
            match kind {
                ViewKind::Plain => {}
                ViewKind::Multi => bail!(
                    Runtime,
                    "Output 0 of {name} is a view and is being modified inplace. This view is the output of a function \
                     that returns multiple views. Such functions do not allow the output views to be modified inplace. \
                     You should replace the inplace operation by an out-of-place one."
                ),
                ViewKind::NoGrad => bail!(
                    Runtime,
                    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that \
                     this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving \
                     both the view and the inplace either both inside the no_grad block (if you don't want the inplace \
                     to be tracked) or both outside (if you want the inplace to be tracked)."
                ),
            }
        }
    }
    Ok(())
}

/// The error for a tensor that shows one element under several indices and is to be written.
pub fn self_overlap() -> Error {
    Error::Runtime(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please \
         clone() the tensor before performing the operation."
            .into(),
    )
}

/// The error for an output that shares some elements with an input.
pub fn overlap_error() -> Error {
    Error::Runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation."
            .into(),
    )
}

/// Writes `value` (of the shape of `t`, of any dtype) into `t` without a check and without history.
pub fn write_untracked(t: &Tensor, value: &Tensor) {
    copy::copy(value.raw(), t.raw());
    t.bump_version();
}

/// Makes `t` hold `value`, and with it the history of `value`: the end of every in-place operation.
///
/// `value` was computed out of place, from the old `t` where the operation reads it. `op` names the node that takes
/// over when `value` has no history of its own.
pub fn assign(t: &Tensor, value: &Tensor, op: &'static str) -> Result<()> {
    let tracked = grad_enabled() && (t.requires_grad() || value.requires_grad());
    if tracked && value.requires_grad() && !t.dtype().is_float() {
        bail!(Runtime, "a tensor of dtype {} cannot hold a result that requires grad", t.dtype());
    }
    // The edge is taken first: a view's history is looked up before the write makes it stale.
    let history = if tracked { value.grad_edge() } else { None };
    let old = if tracked && history.is_none() && t.base().is_none() { t.grad_edge() } else { None };
    let old_base = match (tracked, t.base()) {
        (true, Some(base)) => base.grad_edge(),
        _ => None,
    };
    write_untracked(t, value);
    if !tracked {
        return Ok(());
    }
    match t.base() {
        None => match history {
            Some(edge) => t.meta_or_new().set_history(edge.node.clone(), edge.input()),
            None => t.meta_or_new().set_history(graph::node(Constant { op }, smallvec![old], &[t]), 0),
        },
        Some(base) => {
            let slices = CopySlices { view: t.layout().clone(), base: base.layout().clone() };
            let node = graph::node(slices, smallvec![old_base, history], &[base]);
            let base_meta = base.meta_or_new();
            base_meta.set_history(node, 0);
            let epoch = base_meta.next_epoch();
            if let Some(edge) = base_meta.edge(base) {
                let through = AsStrided { view: t.layout().clone(), base: base.layout().clone() };
                let meta = t.meta_or_new();
                meta.set_history(graph::node(through, smallvec![Some(edge)], &[t]), 0);
                meta.see_epoch(epoch);
            }
        }
    }
    if t.base().is_none() {
        t.meta_or_new().next_epoch();
    }
    Ok(())
}

/// The node of a tensor overwritten by something that has no gradient: what it held before receives zeros.
struct Constant {
    op: &'static str,
}

impl Function for Constant {
    fn name(&self) -> &'static str {
        self.op
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(Tensor::zeros(g.shape().clone(), g.dtype())?)])
    }
}

/// The node of a base after a write through a view of it: inputs are the old base and what was written.
struct CopySlices {
    view: Layout,
    base: Layout,
}

impl Function for CopySlices {
    fn name(&self) -> &'static str {
        "CopySlices"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let kept = if cx.needs(0) { Some(clear_view(g, &self.view, &self.base)?) } else { None };
        let written = if cx.needs(1) { Some(gather_view(g, &self.view, &self.base)?) } else { None };
        Ok(smallvec![kept, written])
    }
}
