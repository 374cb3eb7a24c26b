//! Leaves: adding to `.grad`, stealing buffers, hooks.

use std::sync::Arc;

use super::run::check_replacement;
use crate::backend::copy;
use crate::error::Result;
use crate::graph::{AccumulateGrad, GradFn, Grads, Meta, grad_enabled};
use crate::layout::MemoryFormat;
use crate::ops::{arith, rows};
use crate::tensor::Tensor;

/// `a + b`, in the memory of `a` if nobody else sees it and nothing is being recorded.
pub fn sum(a: Tensor, b: Tensor) -> Result<Tensor> {
    if !grad_enabled() && a.is_sole_owner() && a.shape() == b.shape() && a.dtype() == b.dtype() {
        rows::add.call_inplace(&[(&a).into(), (&b).into()], &[])?;
        return Ok(a);
    }
    arith::add(&a, &b)
}

/// Runs the hooks of a leaf on its gradient.
pub fn run_leaf_hooks(leaf: &Tensor, mut g: Option<Tensor>) -> Result<Option<Tensor>> {
    if let Some(meta) = leaf.meta() {
        for hook in meta.hooks().iter() {
            if let Some(new) = hook.call(g.as_ref())? {
                g = Some(check_replacement(g.as_ref(), new)?);
            }
        }
    }
    Ok(g)
}

/// The work of a leaf's node.
pub fn leaf(acc: &AccumulateGrad, node: &GradFn, mut inbox: Grads, create_graph: bool) -> Result<()> {
    let g = run_leaf_hooks(&acc.leaf, inbox[0].take())?;
    let hooks = node.hooks().map(|h| h.clone());
    let mut grads = Grads::from_elem(g, 1);
    if let Some(h) = &hooks {
        for hook in h.pre.iter() {
            if let Some(new) = hook.call(&grads, None)? {
                grads = new;
            }
        }
    }
    // A buffer that a hook is to see as well has two owners, and is copied into `.grad`.
    let seen = hooks.as_ref().filter(|h| !h.post.is_empty()).map(|_| grads.clone());
    // A leaf that was told meanwhile to want no gradient gets none.
    if let Some(g) = grads[0].take().filter(|_| acc.leaf.requires_grad()) {
        add_to(&acc.leaf, g, create_graph)?;
    }
    if let Some(meta) = acc.leaf.meta() {
        for hook in meta.post_hooks().iter() {
            hook.call(&acc.leaf)?;
        }
    }
    if let (Some(h), Some(seen)) = (&hooks, &seen) {
        for hook in h.post.iter() {
            hook.call(seen, Some(&Grads::new()))?;
        }
    }
    Ok(())
}

/// Adds `g` to `.grad`.
///
/// Note [Who owns a leaf's gradient]
/// Without a gradient, a buffer that nobody else holds and that lies in memory as the leaf does becomes `.grad` as it
/// is; any other is copied, so that a later write to `.grad` changes nothing else. With one, the sum is made in place, so that `.grad` stays the same
/// tensor, unless the sum itself is to be differentiated. The leaf's lock is held throughout, so two threads that
/// reach one leaf add both.
pub fn add_to(t: &Tensor, g: Tensor, create_graph: bool) -> Result<()> {
    let meta: &Arc<Meta> = t.meta_or_new();
    let g = match meta.grad_dtype(t.dtype()) {
        Some(dtype) if dtype != g.dtype() => arith::to_dtype(&g, dtype)?,
        _ => g,
    };
    meta.update_grad(|slot| {
        *slot = Some(match slot.take() {
            None if create_graph => arith::clone(&g)?,
            None => own(t, g)?,
            Some(old) if create_graph => arith::add(&old, &g)?,
            Some(old) => match rows::add.call_inplace(&[(&old).into(), (&g).into()], &[]) {
                Ok(true) => old,
                Ok(false) => arith::add(&old, &g)?,
                Err(e) => {
                    *slot = Some(old);
                    return Err(e);
                }
            },
        });
        Ok(())
    })
}

/// `g` if nobody else holds its memory and it lies as a gradient of `leaf` is to lie, else a copy that does: in the very
/// strides of a dense leaf, and contiguous otherwise.
fn own(leaf: &Tensor, g: Tensor) -> Result<Tensor> {
    let dense = leaf.layout().is_non_overlapping_and_dense();
    let alike = || {
        if leaf.is_contiguous() || !dense {
            return g.is_contiguous();
        }
        let mut dims = g.shape().iter().zip(g.strides().iter().zip(leaf.strides().iter()));
        dims.all(|(&n, (a, b))| n == 1 || a == b)
    };
    if g.is_sole_owner() && alike() {
        return Ok(g);
    }
    if !dense || g.shape() != leaf.shape() {
        return g.copied(g.dtype());
    }
    let out = Tensor::empty_dense(leaf.layout().in_format(MemoryFormat::Preserve)?, g.dtype(), g.device())?;
    copy::copy(g.raw(), out.raw())?;
    Ok(out)
}

/// Keeps the gradient of a tensor with history.
pub fn retain(meta: &Arc<Meta>, g: &Tensor) -> Result<()> {
    let before = meta.grad();
    let new = match before {
        None if grad_enabled() => arith::clone(g)?,
        None => g.copied(g.dtype())?,
        Some(old) => arith::add(&old, g)?,
    };
    meta.set_grad(Some(new));
    Ok(())
}
