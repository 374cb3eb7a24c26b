//! In-place writes: PyTorch's rules for leaves and views, the version counter, and the change of history.

use smallvec::smallvec;

use super::view::{clear_view, gather_view, regenerate_grad_fn};
use super::{Tensor, ViewKind};
use crate::backend::copy;
use crate::error::{Error, Result};
use crate::graph::{self, Cx, Edge, Edges, Function, Grads, grad_enabled, inference_enabled, is_captured};
use crate::layout::Layout;
use crate::{bail, ensure};

/// Errors when `t` may not be written in place: a leaf that requires grad, one of several views of one call, read-only
/// memory, or overlapping indices. `others` says whether any other input of the operation requires grad.
pub fn check_inplace(t: &Tensor, others: bool) -> Result<()> {
    let through_base = check_writable(t, others)?;
    ensure!(!t.layout().may_overlap_itself(), self_overlap());
    regenerate_if(t, through_base)
}

/// As [`check_inplace`], for writing one value to every element, where overlapping indices do no harm.
pub fn check_filled(t: &Tensor, others: bool) -> Result<()> {
    let through_base = check_writable(t, others)?;
    regenerate_if(t, through_base)
}

/// As [`check_inplace`], for replacing the layout or storage of `t` rather than writing its memory.
pub fn check_replaced(t: &Tensor, others: bool) -> Result<()> {
    let through_base = check_history(t, others)?;
    regenerate_if(t, through_base)
}

/// Regenerates the `grad_fn` of a view through its base before the write, so hooks on the old `grad_fn` are not
/// called. A write that is refused leaves it unchanged.
fn regenerate_if(t: &Tensor, through_base: bool) -> Result<()> {
    if through_base { regenerate_grad_fn(t) } else { Ok(()) }
}

fn check_writable(t: &Tensor, others: bool) -> Result<bool> {
    ensure!(
        !is_captured(t.origin()),
        Runtime,
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation that would \
         mutate a captured Tensor: write to a clone of it, or pass it as an argument and return it"
    );
    check_memory(t)?;
    check_history(t, others)
}

/// Errors when the memory of `t` is read-only.
pub fn check_memory(t: &Tensor) -> Result<()> {
    ensure!(
        !t.storage().is_readonly(),
        Runtime,
        "the memory of this tensor is read-only and cannot be written in place"
    );
    Ok(())
}

/// Checks the autograd rules; returns whether the write goes through the base of a view.
fn check_history(t: &Tensor, others: bool) -> Result<bool> {
    // PyTorch checks for leaves first.
    let writes_leaf = || grad_enabled() && t.requires_grad() && t.is_leaf();
    check_inference(t).or_else(|e| if writes_leaf() { Ok(()) } else { Err(e) })?;
    if !grad_enabled() || !(others || t.requires_grad()) {
        return Ok(false);
    }
    let mut through_base = false;
    if let (Some(base), Some(kind)) = (t.base(), t.view_kind()) {
        if kind != ViewKind::Plain {
            let name = t.meta().and_then(|m| m.grad_fn()).map(|f| f.name().into_owned());
            bail!(Error::Runtime(forbidden_write(t, kind, name, false)));
        }
        ensure!(
            !(t.requires_grad() && base.is_leaf()),
            Runtime,
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        );
        through_base = base.requires_grad();
    }
    ensure!(
        !(t.requires_grad() && t.is_leaf()),
        Runtime,
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    Ok(through_base)
}

/// Errors when writing an inference tensor outside inference mode.
pub fn check_inference(t: &Tensor) -> Result<()> {
    ensure!(
        !t.is_inference() || inference_enabled(),
        Runtime,
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal \
         tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
    );
    Ok(())
}

/// Why a view of this kind (or, with `through_base`, its base) may not be written in place.
pub(super) fn forbidden_write(
    t: &Tensor,
    kind: ViewKind,
    node: Option<String>,
    through_base: bool,
) -> String {
    let written = if through_base {
        "its base or another view of its base has been modified inplace"
    } else {
        "is being modified inplace"
    };
    let output =
        if let ViewKind::Multi(number) = kind { number } else { t.meta().map_or(0, |m| m.output() as u32) };
    let made = match (node, kind) {
        (Some(name), ViewKind::NoGrad | ViewKind::Inference) => {
            format!("Output {output} of {} is a view of a view which", operation_of(&name))
        }
        (Some(name), _) => format!("Output {output} of {} is a view", operation_of(&name)),
        (None, _) => "A view".into(),
    };
    let what = match kind {
        ViewKind::Inference => format!("{made} was created in inference mode and {written} in normal mode."),
        _ if made.ends_with("is a view") => format!("{made} and {written}."),
        _ => format!("{made} was created in no_grad mode and {written} with grad mode enabled."),
    };
    let why = match kind {
        ViewKind::Multi(_) => {
            "This view is the output of a function that returns multiple views. Such functions do not allow the output views \
             to be modified inplace. You should replace the inplace operation by an out-of-place one."
        }
        ViewKind::Custom => {
            "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic \
             to handle view+inplace would override the custom backward associated with the custom Function, leading to \
             incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
        }
        ViewKind::Inference => {
            "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both \
             the view and the inplace either both inside the inference_mode block (if you don't want the inplace to be \
             tracked) or both outside (if you want the inplace to be tracked)."
        }
        ViewKind::Plain | ViewKind::NoGrad => {
            "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both \
             the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or \
             both outside (if you want the inplace to be tracked)."
        }
    };
    format!("{what} {why}")
}

/// The operation of a node's name: `SplitBackward0` gives `Split`.
pub fn operation_of(node: &str) -> &str {
    let name = node.trim_end_matches(|c: char| c.is_ascii_digit());
    name.strip_suffix("Backward").unwrap_or(node)
}

/// The error for writing a tensor in which several indices refer to one element.
pub fn self_overlap() -> Error {
    Error::Runtime(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please \
         clone() the tensor before performing the operation."
            .into(),
    )
}

/// How two tensors overlap in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// No memory is shared.
    Apart,
    /// The same elements at the same indices.
    Same,
    /// The ranges from the first to the last element intersect.
    Partial,
}

impl Tensor {
    /// How this tensor and `other` overlap. Compared by address, since two storages may borrow the same memory.
    #[inline(always)]
    pub fn overlap(&self, other: &Tensor) -> Overlap {
        if self.storage().overlaps(other.storage()) { self.overlap_of_bytes(other) } else { Overlap::Apart }
    }

    fn overlap_of_bytes(&self, other: &Tensor) -> Overlap {
        let (Some(a), Some(b)) = (self.bytes(), other.bytes()) else { return Overlap::Apart };
        if a.0 >= b.1 || b.0 >= a.1 {
            return Overlap::Apart;
        }
        let alike = a == b && self.dtype().size() == other.dtype().size();
        if alike && self.shape() == other.shape() && self.strides() == other.strides() {
            return Overlap::Same;
        }
        Overlap::Partial
    }

    /// The address range of the elements; None when empty.
    fn bytes(&self) -> Option<(isize, isize)> {
        let (first, last) = self.layout().extent()?;
        let (start, size) = (self.storage().address() as isize, self.dtype().size() as isize);
        Some((start + first * size, start + (last + 1) * size))
    }
}

/// Errors when writing `t` would change elements of `input` at other indices. As in PyTorch, only tensors without gaps
/// are checked.
pub fn check_apart(t: &Tensor, input: &Tensor) -> Result<()> {
    let dense = |t: &Tensor| t.layout().is_non_overlapping_and_dense();
    ensure!(t.overlap(input) != Overlap::Partial || !dense(t) || !dense(input), overlap_error());
    Ok(())
}

/// The error for an output that partially overlaps an input.
pub fn overlap_error() -> Error {
    Error::Runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation."
            .into(),
    )
}

/// Writes `value` (of the shape of `t`, any dtype) to `t`, without checks and without history.
pub fn write_untracked(t: &Tensor, value: &Tensor) -> Result<()> {
    if value.overlap(t) != Overlap::Same || value.dtype() != t.dtype() || value.layout() != t.layout() {
        copy::copy(value.raw(), t.raw())?;
    }
    t.bump_version();
    Ok(())
}

/// Writes `value` and its history to `t`: the last step of every in-place operation.
///
/// `value` was computed out of place, from the old `t` if the operation reads it. `op` names the node recorded when
/// `value` has no history of its own.
pub fn assign(t: &Tensor, value: &Tensor, op: &'static str) -> Result<()> {
    let tracked = grad_enabled() && (t.requires_grad() || value.requires_grad());
    if tracked && value.requires_grad() && !t.dtype().is_float() {
        bail!(Runtime, "a tensor of dtype {} cannot hold a result that requires grad", t.dtype());
    }
    // The edge is taken first: the write makes the history of a view stale.
    let history = if tracked { value.grad_edge()? } else { None };
    let old = if tracked && history.is_none() && t.base().is_none() { t.grad_edge()? } else { None };
    let old_base = match (tracked, t.base()) {
        (true, Some(base)) => base.grad_edge()?,
        _ => None,
    };
    write_untracked(t, value)?;
    if !tracked {
        return Ok(());
    }
    let kept = t.drop_retained_grad();
    match (t.base(), history) {
        (None, None) => {
            t.meta_or_new().set_history(graph::node(Constant { op }, smallvec![old], &[t]), 0);
        }
        (_, history) => take_history(t, history, old_base)?,
    }
    if kept {
        // `retain_grad` applies to the tensor after the write.
        t.retain_grad();
    }
    Ok(())
}

/// Gives `t`, which is no view, the history of another tensor over its memory, which was written.
pub fn take_history_of(t: &Tensor, value: &Tensor) -> Result<()> {
    let Some(edge) = value.grad_edge()? else { return Ok(()) };
    rebase(t, edge)
}

/// Makes `t`, which code outside the core has written in place, the output that `edge` points to.
pub fn rebase(t: &Tensor, edge: Edge) -> Result<()> {
    let kept = t.drop_retained_grad();
    let old_base = t.base().map_or(Ok(None), Tensor::grad_edge)?;
    take_history(t, Some(edge), old_base)?;
    if kept {
        t.retain_grad();
    }
    Ok(())
}

/// Sets the history of a tensor after a write, and extends that of its base, whose edge was `old_base`.
fn take_history(t: &Tensor, history: Option<Edge>, old_base: Option<Edge>) -> Result<()> {
    match t.base() {
        None => {
            if let Some(edge) = history {
                t.meta_or_new().set_history(edge.node.clone(), edge.input());
            }
            Ok(())
        }
        Some(base) => {
            let slices = CopySlices { view: t.layout().clone(), base: base.layout().clone() };
            let node = graph::node(slices, smallvec![old_base, history], &[base]);
            base.meta_or_new().set_history(node, 0);
            regenerate_grad_fn(t)
        }
    }
}

/// The node of a tensor overwritten with a constant: its old value receives a gradient of zeros.
struct Constant {
    op: &'static str,
}

impl Function for Constant {
    fn name(&self) -> &'static str {
        self.op
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(g.new_zeros(g.shape().clone())?)])
    }
}

/// The node of a base after a write through a view of it. Its inputs are the old base and the written value.
struct CopySlices {
    view: Layout,
    base: Layout,
}

impl Function for CopySlices {
    fn name(&self) -> &'static str {
        "torch::autograd::CopySlices"
    }

    /// PyTorch's node shows the edges of the wrapped node, the first of which leads to the view before the write.
    fn shown_edges(&self, edges: &Edges) -> Edges {
        let written = edges.get(1).and_then(Option::as_ref).map(|e| &e.node);
        let others = written.map_or_else(Edges::new, |n| n.function().shown_edges(n.edges()));
        edges.iter().take(1).cloned().chain(others.into_iter().skip(1)).collect()
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let kept = if cx.needs(0) { Some(clear_view(g, &self.view, &self.base)?) } else { None };
        let written = if cx.needs(1) { Some(gather_view(g, &self.view, &self.base)?) } else { None };
        Ok(smallvec![kept, written])
    }
}
