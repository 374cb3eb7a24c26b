//! Leaves: accumulation into `.grad` and hooks.

use std::sync::Arc;

use super::run::check_replacement;
use crate::backend::copy;
use crate::ensure;
use crate::error::Result;
use crate::graph::{AccumulateGrad, AutogradMeta, GradFn, Grads, ModeGuard, NodeHooks, grad_enabled};
use crate::layout::MemoryFormat;
use crate::ops::{self, arith, rows};
use crate::tensor::{Tensor, check_apart, check_inplace};

/// `a + b`, computed in place if `a` has no other owner and nothing is recorded.
pub fn sum(a: Tensor, b: Tensor) -> Result<Tensor> {
    if !grad_enabled()
        && a.is_sole_owner()
        && !a.is_hosted()
        && !b.is_hosted()
        && a.shape() == b.shape()
        && a.dtype() == b.dtype()
    {
        // In an expanded gradient several indices refer to one element.
        let writable = a.is_contiguous() || !a.layout().may_overlap_itself();
        if writable && rows::add.call_inplace(&[(&a).into(), (&b).into()], &[])? {
            return Ok(a);
        }
    }
    arith::add(&a, &b)
}

/// Runs the gradient hooks of a leaf.
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

/// Executes a leaf's node.
pub fn leaf(acc: &AccumulateGrad, node: &GradFn, mut input_buffer: Grads, create_graph: bool) -> Result<()> {
    let g = run_leaf_hooks(&acc.leaf, input_buffer[0].take())?;
    let hooks = node.hooks();
    let mut grads = Grads::from_elem(g, 1);
    if let Some(h) = &hooks {
        run_pre_hooks(h, &mut grads)?;
    }
    let shown = hooks.as_ref().filter(|h| !h.post.is_empty());
    // `requires_grad` may have been cleared during the run.
    if acc.leaf.requires_grad()
        && let Some(g) = grads[0].take()
    {
        grads[0] = add_to_leaf(acc, g, create_graph, shown.is_some())?;
    }
    if let Some(hooks) = acc.leaf.meta().and_then(|m| m.hooks()) {
        for hook in hooks.post.iter() {
            hook.call(&acc.leaf)?;
        }
    }
    if let Some(h) = shown {
        for hook in h.post.iter() {
            hook.call(&grads, Some(&Grads::new()))?;
        }
    }
    Ok(())
}

/// Runs the pre-hooks of a node, which may replace the gradients that enter it.
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

/// Adds `g` to the `.grad` of a leaf. Returns what was added if `shown` to post-hooks: `.grad` itself if `g` became it.
///
/// Note [Who owns a leaf's gradient] When `.grad` is empty, a gradient with no other owner and with the leaf's strides
/// becomes `.grad` itself; any other is copied, so that later writes to `.grad` change nothing else. When `.grad` is
/// present, the gradient is added in place, so that `.grad` stays the same tensor, unless the addition is to be
/// differentiated or the memory is read-only: then the sum is a new tensor.
///
/// No gradient is lost when several threads reach one leaf. In-place additions hold the leaf's `turn`. A sum in a new
/// tensor is stored only if `.grad` is still the tensor that was added to, at the same version; otherwise the addition
/// is repeated.
fn add_to_leaf(acc: &AccumulateGrad, g: Tensor, create_graph: bool, shown: bool) -> Result<Option<Tensor>> {
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
            let added = shown.then(|| g.clone());
            match meta.replace_grad(None, g) {
                Ok(()) => return Ok(added),
                Err(back) => g = back,
            }
            continue;
        };
        if !create_graph && !old.storage().is_readonly() && !old.is_hosted() && !g.is_hosted() {
            if add_in_turn(acc, meta, &old, &g)? {
                return Ok(shown.then_some(g));
            }
            continue;
        }
        if !create_graph && old.is_hosted() && g.is_hosted() {
            // Python computes it, which no lock may be held for.
            check_inplace(&old, false)?;
            let _plain = ModeGuard::grad(false);
            ops::row_inplace(&rows::add, &[(&old).into(), (&g).into()], &[])?;
            return Ok(shown.then_some(g));
        }
        let version = old.version();
        let sum = arith::add(&old, &g)?;
        // Holding `turn` excludes in-place additions between the version check and the exchange.
        let stored = acc
            .turn
            .with(|()| if old.version() == version { meta.replace_grad(Some(&old), sum) } else { Err(sum) });
        if stored.is_ok() {
            return Ok(shown.then_some(g));
        }
    }
}

/// Adds `g` to `old` in place if `old` is still the gradient; returns whether it was. Checks like any in-place write.
fn add_in_turn(acc: &AccumulateGrad, meta: &AutogradMeta, old: &Tensor, g: &Tensor) -> Result<bool> {
    check_inplace(old, false)?;
    check_apart(old, g)?;
    // A hook may have turned grad mode on; the in-place addition is not recorded.
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
            // The two partially overlap.
            Some(false) => copy = Some(g.copied(g.dtype())?),
        }
    }
}

/// `g` itself if it has no other owner and the strides required for a gradient of `leaf`, else a copy that has them:
/// those of the leaf if it is dense, else contiguous.
fn own(leaf: &Tensor, g: Tensor) -> Result<Tensor> {
    if g.is_hosted() {
        return if g.is_sole_owner() { Ok(g) } else { arith::clone(&g) };
    }
    let dense = leaf.layout().is_non_overlapping_and_dense();
    let alike = || {
        if leaf.is_contiguous() || !dense {
            return g.is_contiguous();
        }
        let mut dims = g.shape().iter().zip(g.strides().iter().zip(leaf.strides().iter()));
        dims.all(|(&n, (a, b))| n == 1 || a == b)
    };
    // Deferred operations that make the gradient, or read it before, come before whatever writes `.grad`.
    if g.is_sole_owner_but_for_deferred() && alike() {
        return Ok(g);
    }
    if !dense || g.shape() != leaf.shape() {
        return g.copied(g.dtype());
    }
    let out = Tensor::empty_dense(leaf.layout().in_format(MemoryFormat::Preserve)?, g.dtype(), g.device())?;
    copy::copy(g.raw(), out.raw())?;
    Ok(out)
}

/// Accumulates into the `.grad` of a non-leaf that retains its gradient.
pub fn retain(meta: &Arc<AutogradMeta>, g: &Tensor) -> Result<()> {
    loop {
        let old = meta.grad();
        let new = match &old {
            None if grad_enabled() || g.is_hosted() => arith::clone(g)?,
            None => g.copied(g.dtype())?,
            Some(old) => arith::add(old, g)?,
        };
        if meta.replace_grad(old.as_ref(), new).is_ok() {
            return Ok(());
        }
    }
}
