//! Leaves: adding to `.grad`, stealing buffers, hooks.

use std::sync::Arc;

use super::run::check_replacement;
use crate::backend::copy;
use crate::ensure;
use crate::error::Result;
use crate::graph::{AccumulateGrad, AutogradMeta, GradFn, Grads, ModeGuard, NodeHooks, grad_enabled};
use crate::layout::MemoryFormat;
use crate::ops::{arith, rows};
use crate::tensor::{Tensor, check_apart, check_inplace};

/// `a + b`, in the memory of `a` if nobody else sees it and nothing is being recorded.
pub fn sum(a: Tensor, b: Tensor) -> Result<Tensor> {
    if !grad_enabled() && a.is_sole_owner() && a.shape() == b.shape() && a.dtype() == b.dtype() {
        // An expanded gradient shows one element in several places.
        let writable = a.is_contiguous() || !a.layout().may_overlap_itself();
        if writable && rows::add.call_inplace(&[(&a).into(), (&b).into()], &[])? {
            return Ok(a);
        }
    }
    arith::add(&a, &b)
}

/// Runs the hooks of a leaf on its gradient.
pub fn run_leaf_hooks(leaf: &Tensor, mut g: Option<Tensor>) -> Result<Option<Tensor>> {
    if let Some(hooks) = leaf.meta().and_then(|m| m.hooks()) {
        for hook in hooks.grad.iter() {
            if let Some(new) = hook.call(g.as_ref())? {
                g = Some(check_replacement(g.as_ref(), new)?);
            }
        }
    }
    Ok(g)
}

/// The work of a leaf's node.
pub fn leaf(acc: &AccumulateGrad, node: &GradFn, mut input_buffer: Grads, create_graph: bool) -> Result<()> {
    let g = run_leaf_hooks(&acc.leaf, input_buffer[0].take())?;
    let hooks = node.hooks();
    let mut grads = Grads::from_elem(g, 1);
    if let Some(h) = &hooks {
        run_pre_hooks(h, &mut grads)?;
    }
    // A buffer that a hook is to see as well has two owners, and is copied into `.grad`.
    let seen = hooks.as_ref().filter(|h| !h.post.is_empty()).map(|_| grads.clone());
    // A leaf that was told meanwhile to want no gradient gets none.
    if let Some(g) = grads[0].take().filter(|_| acc.leaf.requires_grad()) {
        add_to_leaf(acc, g, create_graph)?;
    }
    if let Some(hooks) = acc.leaf.meta().and_then(|m| m.hooks()) {
        for hook in hooks.post.iter() {
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

/// Has the hooks that run before a node see, and perhaps replace, the gradients that enter it.
pub fn run_pre_hooks(hooks: &NodeHooks, grads: &mut Grads) -> Result<()> {
    for hook in hooks.pre.iter() {
        if let Some(new) = hook.call(grads, None)? {
            let (given, expected) = (new.len(), grads.len());
            ensure!(
                given == expected,
                Runtime,
                "hook has returned an incorrect number of values (got {given}, but expected {expected})"
            );
            *grads = new;
        }
    }
    Ok(())
}

/// Adds `g` to the `.grad` of a leaf.
///
/// Note [Who owns a leaf's gradient]
/// Without a gradient, a buffer that nobody else holds and that lies in memory as the leaf does becomes `.grad` as it
/// is; any other is copied, so that a later write to `.grad` changes nothing else. With one, the sum is made in place, so
/// that `.grad` stays the same tensor, unless the sum itself is to be differentiated or that memory is read-only: then the
/// sum is a new tensor.
///
/// Threads that reach one leaf add all their gradients. Additions in place take turns. A sum in a new tensor is stored if
/// `.grad` is still what was added to, and of the same version; else it is made again.
fn add_to_leaf(acc: &AccumulateGrad, g: Tensor, create_graph: bool) -> Result<()> {
    let leaf = &acc.leaf;
    let meta: &Arc<AutogradMeta> = leaf.meta_or_new();
    let mut g = match meta.grad_dtype(leaf.dtype()) {
        Some(dtype) if dtype != g.dtype() => arith::to_dtype(&g, dtype)?,
        _ => g,
    };
    let mut owned = false;
    loop {
        let Some(old) = meta.grad() else {
            if !owned {
                g = if create_graph { arith::clone(&g)? } else { own(leaf, g)? };
                owned = true;
            }
            match meta.replace_grad(None, g) {
                Ok(()) => return Ok(()),
                Err(back) => g = back,
            }
            continue;
        };
        if !create_graph && !old.storage().is_readonly() {
            if add_in_turn(acc, meta, &old, &g)? {
                return Ok(());
            }
            continue;
        }
        let version = old.version();
        let sum = arith::add(&old, &g)?;
        // The turn keeps additions in place away from between the look at the version and the exchange.
        let stored = acc
            .turn
            .with(|()| if old.version() == version { meta.replace_grad(Some(&old), sum) } else { Err(sum) });
        if stored.is_ok() {
            return Ok(());
        }
    }
}

/// Adds `g` to `old` in place if `old` is still the gradient; whether it was. Refuses what any write in place refuses.
fn add_in_turn(acc: &AccumulateGrad, meta: &AutogradMeta, old: &Tensor, g: &Tensor) -> Result<bool> {
    check_inplace(old, false)?;
    check_apart(old, g)?;
    // A hook may have turned grad mode on; what is added in place has no history.
    let _plain = ModeGuard::grad(false);
    let mut copy = None;
    loop {
        let added = acc.turn.with(|()| {
            if !meta.has_grad(old) {
                return Ok(None);
            }
            rows::add.call_inplace(&[old.into(), copy.as_ref().unwrap_or(g).into()], &[]).map(Some)
        });
        match added? {
            None => return Ok(false),
            Some(true) => return Ok(true),
            // They share elements without being the same ones in the same places.
            Some(false) => copy = Some(g.copied(g.dtype())?),
        }
    }
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
pub fn retain(meta: &Arc<AutogradMeta>, g: &Tensor) -> Result<()> {
    loop {
        let old = meta.grad();
        let new = match &old {
            None if grad_enabled() => arith::clone(g)?,
            None => g.copied(g.dtype())?,
            Some(old) => arith::add(old, g)?,
        };
        if meta.replace_grad(old.as_ref(), new).is_ok() {
            return Ok(());
        }
    }
}
