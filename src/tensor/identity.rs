//! Tensors that share memory, layout or history with another tensor, and their version counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Tensor, ViewKind, ViewOf, rebase};
use crate::error::Result;
use crate::graph::{self, AutogradMeta, Origin, grad_enabled, keep};
use crate::layout::Layout;

impl Tensor {
    /// `detach`: the same memory and version counter, without history.
    pub fn detach(&self) -> Tensor {
        self.with(|_| {})
    }

    /// `.data`: the same memory without history, with a version counter of its own.
    pub fn data(&self) -> Tensor {
        keep(self);
        self.with(|i| i.counter = Some(Arc::default()))
    }

    /// This tensor over other memory: the result of assigning to `.data`. It stays a view of its base and keeps its
    /// version counter.
    pub fn with_data(&self, data: &Tensor) -> Tensor {
        let out = data.with(|i| {
            i.counter = match &self.0.counter {
                None if i.storage.same(&self.0.storage) => None,
                None => Some(self.0.storage.counter()),
                own => own.clone(),
            };
            i.view = self.0.view.as_ref().map(|v| ViewOf {
                base: v.base.clone(),
                kind: v.kind,
                seen: AtomicU32::new(v.seen()),
            });
        });
        if let Some(m) = self.meta() {
            if (out.shape(), out.dtype(), out.device()) != (self.shape(), self.dtype(), self.device()) {
                // It expects gradients of the old shape.
                self.forget_accumulator();
            }
            // The cell is fresh, so it is not set yet.
            out.0.meta.get_or_init(|| m.clone());
        }
        out
    }

    /// Gives a leaf another accumulator in later graphs; an older graph may keep the present one alive.
    pub fn forget_accumulator(&self) {
        if let Some(m) = self.meta() {
            m.forget_accumulator();
        }
    }

    /// The same memory with other autograd metadata.
    pub(crate) fn with_meta(&self, meta: &Arc<AutogradMeta>) -> Tensor {
        let out = self.detach();
        // The cell is fresh, so it is not set yet.
        out.0.meta.get_or_init(|| meta.clone());
        out
    }

    /// The tensor that replaces this one after an in-place operation that produced `new`, with another geometry or
    /// over other memory.
    ///
    /// # Errors
    /// As for [`Tensor::history`].
    pub fn replaced_by(&self, new: Tensor) -> Result<Tensor> {
        if new.same(self) {
            return Ok(new);
        }
        if !new.is_view() {
            let out = self.with_data(&new);
            out.bump_version();
            if let Some(edge) = new.grad_edge()? {
                rebase(&out, edge)?;
            }
            return Ok(out);
        }
        new.bump_version();
        if !grad_enabled() && self.requires_grad() && !self.is_leaf() {
            // Nothing was recorded: the history stays, as does the kind of a view, whose history follows from its base.
            return Ok(self.with_data(&new));
        }
        if let Some(v) = &new.0.view {
            // Its history already includes the write that was just counted.
            v.mark_version(new.version());
        }
        if self.is_leaf() && self.meta().is_some() {
            return Ok(self.with_data(&new));
        }
        // When other tensors share this storage, they may be views of this tensor as it was, and a later in-place
        // write has to propagate through them.
        let alone = !self.requires_grad() || self.storage().owners() <= 2;
        Ok(match new.meta() {
            _ if self.is_view() || !alone => new,
            Some(m) => new.with_meta(m),
            None => new.detach(),
        })
    }

    /// Marks this tensor as a view that a custom function returned: an in-place write would bypass that function.
    /// `number` is given when the function returned several tensors.
    pub fn as_custom_view(&self, number: Option<usize>) -> Tensor {
        let base = self.base().unwrap_or(self).clone();
        let kind = number.map_or(ViewKind::Custom, |n| ViewKind::Multi(n as u32));
        self.with(|i| i.view = Some(ViewOf::new(base, kind)))
    }

    /// A copy of the elements that has this tensor's history.
    pub fn copy_with_history(&self) -> Result<Tensor> {
        self.sharing_history(self.copied(self.dtype())?)
    }

    /// Note [Targets]
    /// An operation such as `index_add` copies its first argument and writes to the copy. In place the copy would be copied
    /// back, so that writing one row would take as long as copying the tensor twice. Such an operation writes to
    /// [`Self::writable`] instead: for a target, which stands for the argument of an operation in place, that is the
    /// memory itself. Nothing that is saved for backward may be read from the argument then.
    pub fn as_target(&self) -> Result<Tensor> {
        self.sharing_history(self.with(|inner| inner.target = true))
    }

    /// Whether the memory is to be written in place: Note [Targets].
    pub fn is_target(&self) -> bool {
        self.0.target
    }

    /// A dense tensor of these elements to write a result to: a copy, or the elements of a target.
    pub fn writable(&self) -> Result<Tensor> {
        if self.is_target() { Ok(self.with_layout(self.layout().clone())) } else { self.copied(self.dtype()) }
    }

    /// `other`, which is new, with this tensor's history.
    fn sharing_history(&self, mut other: Tensor) -> Result<Tensor> {
        // It needs a meta of its own: it keeps this history when the tensor takes another.
        super::view::refresh_grad_fn(self)?;
        if let Some((node, output)) = self.meta().and_then(|m| m.history()) {
            other.init_history(node, output);
        }
        Ok(other)
    }

    /// The same memory with another layout, without history or view relation.
    pub fn with_layout(&self, layout: Layout) -> Tensor {
        let origin = Origin { inference: self.is_inference(), ..graph::origin() };
        self.over_same_memory(layout, origin, || None)
    }

    #[inline]
    pub fn version(&self) -> u32 {
        match &self.0.counter {
            None => self.0.storage.version(),
            Some(own) => own.load(Ordering::Relaxed),
        }
    }

    /// Sets the version counter (`torch._C._autograd._unsafe_set_version_counter`).
    pub fn set_version(&self, version: u32) {
        match &self.0.counter {
            None => self.0.storage.set_version(version),
            Some(own) => own.store(version, Ordering::Relaxed),
        }
    }

    /// Counts writes together with another tensor of other memory, if both count by their storages.
    pub fn share_version(&self, other: &Tensor) {
        let (own, others) = (&self.0.storage, &other.0.storage);
        if self.0.counter.is_none() && other.0.counter.is_none() && !own.same(others) {
            own.share_counter(others);
        }
    }

    /// Increments the version counter.
    #[inline]
    pub fn bump_version(&self) {
        match &self.0.counter {
            None => self.0.storage.bump_version(),
            Some(own) => {
                own.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
