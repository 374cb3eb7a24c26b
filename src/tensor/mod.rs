//! [`Tensor`]: a handle to storage with a layout, a dtype and, where autograd needs it, a history.

pub mod batched;
mod create;
pub mod display;
mod hosted;
mod identity;
mod inplace;
mod view;

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use triomphe::Arc as Shared;

pub use hosted::{Host, set_host};
pub(crate) use inplace::operation_of;
pub use inplace::{
    Overlap, assign, check_apart, check_filled, check_inference, check_inplace, check_memory, check_replaced,
    overlap_error, rebase, self_overlap, take_history_of, write_untracked,
};
pub use view::{as_view, multi_view, scatter_view};

use crate::backend::View;
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::graph::{AutogradMeta, Edge, GradFn, Origin, inference_enabled, origin};
use crate::layout::{Dims, Layout, Strides};
use crate::storage::shared::{OnceShared, shared, shared_strongly};
use crate::storage::{Storage, vec_of};
use crate::{bail, ensure};

/// A multi-dimensional array of one dtype. `clone` is another handle to the same tensor.
#[derive(Clone)]
pub struct Tensor(Shared<Inner>);

struct Inner {
    storage: Storage,
    layout: Layout,
    dtype: DType,
    /// Whether a kernel may take the elements as one slice; see Note [Misaligned memory].
    contiguous: bool,
    /// Version counter of tensors made by `.data`, of tensors whose storage was replaced, and of views of either;
    /// others use the storage's.
    counter: Option<Arc<AtomicU32>>,
    origin: Origin,
    /// Whether an operation may write its result over the elements: Note [Targets].
    target: bool,
    view: Option<ViewOf>,
    /// Absent until autograd needs it.
    meta: OnceShared<AutogradMeta>,
    /// The host language's wrapper object, if alive; used only by the binding.
    host: AtomicPtr<()>,
}

/// The view relation: the tensor that the view was first made from.
struct ViewOf {
    base: Tensor,
    kind: ViewKind,
    /// The version at which `grad_fn` was valid; see Note [Views of a tensor that is written in place].
    seen: AtomicU32,
}

impl ViewOf {
    #[inline]
    fn new(base: Tensor, kind: ViewKind) -> ViewOf {
        let seen = AtomicU32::new(base.version());
        ViewOf { base, kind, seen }
    }

    #[inline]
    fn seen(&self) -> u32 {
        self.seen.load(Ordering::Acquire)
    }

    fn mark_version(&self, version: u32) {
        self.seen.store(version, Ordering::Release);
    }
}

/// How a view was made, which decides whether it may be written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewKind {
    Plain,
    /// One of several views returned by one operation (`split`, `unbind`), and its index.
    Multi(u32),
    /// Made in no-grad mode.
    NoGrad,
    /// Made in inference mode from a tensor that was not.
    Inference,
    /// Returned by a custom function.
    Custom,
}

/// Note [Misaligned memory] Borrowed memory may start at any address: a buffer from its second byte on, or an array
/// sliced out of bytes. As in PyTorch, a tensor over such memory shares it, but Rust cannot form a slice of its
/// elements. So `is_contiguous` is false for it whatever its strides, and kernels that need dense elements get a copy;
/// drivers that take any layout move its elements byte by byte through blocks (`StridedCursor`, `Cells`). Users see
/// [`Tensor::looks_contiguous`].
#[inline]
fn is_dense(storage: &Storage, layout: &Layout, dtype: DType) -> bool {
    storage.is_aligned(dtype.size()) && layout.is_contiguous()
}

impl Tensor {
    /// A tensor over existing memory, without history.
    #[inline]
    pub fn from_parts(storage: Storage, layout: Layout, dtype: DType) -> Tensor {
        let contiguous = is_dense(&storage, &layout, dtype);
        Tensor::from_known_parts(storage, || layout, dtype, contiguous)
    }

    /// A contiguous tensor over new memory.
    // The one place where results are made: everything is inlined here, so that the tensor is written where it stays.
    #[inline(never)]
    fn dense_over(storage: Storage, shape: &Dims, dtype: DType) -> Tensor {
        Tensor::from_known_parts(storage, || Layout::row_major(shape.clone()), dtype, true)
    }

    #[inline(always)]
    fn from_known_parts(
        storage: Storage,
        layout: impl FnOnce() -> Layout,
        dtype: DType,
        contiguous: bool,
    ) -> Tensor {
        Tensor(shared_strongly(|| Inner {
            storage,
            layout: layout(),
            dtype,
            contiguous,
            counter: None,
            origin: origin(),
            target: false,
            view: None,
            meta: OnceShared::empty(),
            host: AtomicPtr::new(null_mut()),
        }))
    }

    /// The same memory and version counter with another layout, without history.
    #[inline(always)]
    fn over_same_memory(
        &self,
        layout: Layout,
        origin: Origin,
        view: impl FnOnce() -> Option<ViewOf>,
    ) -> Tensor {
        let contiguous = is_dense(self.storage(), &layout, self.dtype());
        Tensor(shared_strongly(|| Inner {
            storage: self.0.storage.clone(),
            layout,
            dtype: self.0.dtype,
            contiguous,
            counter: self.0.counter.clone(),
            origin,
            target: false,
            view: view(),
            meta: OnceShared::empty(),
            host: AtomicPtr::new(null_mut()),
        }))
    }

    fn with(&self, change: impl FnOnce(&mut Inner)) -> Tensor {
        let mut inner = Inner {
            storage: self.0.storage.clone(),
            layout: self.0.layout.clone(),
            dtype: self.0.dtype,
            contiguous: self.0.contiguous,
            counter: self.0.counter.clone(),
            origin: self.0.origin,
            target: false,
            view: None,
            meta: OnceShared::empty(),
            host: AtomicPtr::new(null_mut()),
        };
        change(&mut inner);
        Tensor(Shared::new(inner))
    }

    // ---- properties

    #[inline(always)]
    pub fn shape(&self) -> &Dims {
        &self.0.layout.shape
    }

    #[inline(always)]
    pub fn strides(&self) -> &Strides {
        &self.0.layout.strides
    }

    #[inline(always)]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    #[inline(always)]
    pub fn rank(&self) -> usize {
        self.0.layout.rank()
    }

    #[inline(always)]
    pub fn numel(&self) -> usize {
        self.0.layout.numel()
    }

    #[inline(always)]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    #[inline(always)]
    pub fn device(&self) -> Device {
        self.0.storage.device()
    }

    /// Checks that the elements are on the host, for code that reads them.
    ///
    /// # Errors
    /// `NotImplementedError` when they are on another device: there are no implicit transfers.
    #[inline(always)]
    pub fn on_host(&self) -> Result<&Tensor> {
        self.raw().on_host()?;
        Ok(self)
    }

    #[inline(always)]
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Whether the elements can be read as one slice in row-major order.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.0.contiguous
    }

    /// Whether the elements are in row-major order, even if misaligned.
    #[inline]
    pub fn looks_contiguous(&self) -> bool {
        self.0.contiguous || self.0.layout.is_contiguous()
    }

    /// Size of dimension `dim`, which may be negative.
    pub fn size(&self, dim: i64) -> Result<usize> {
        self.expect_dimensions(dim)?;
        Ok(self.shape()[crate::layout::wrap_dim(dim, self.rank())?])
    }

    /// Errors for a 0-d tensor, which has no dimension for `dim` to name.
    pub fn expect_dimensions(&self, dim: i64) -> Result<()> {
        ensure!(self.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
        Ok(())
    }

    /// Storage, layout and dtype, for the backend.
    #[inline(always)]
    pub fn raw(&self) -> View<'_> {
        View { storage: &self.0.storage, layout: &self.0.layout, dtype: self.0.dtype }
    }

    /// Whether both handles name the same tensor object.
    pub fn same(&self, other: &Tensor) -> bool {
        Shared::ptr_eq(&self.0, &other.0)
    }

    /// Identifies the tensor object.
    pub(crate) fn address(&self) -> usize {
        Shared::as_ptr(&self.0) as usize
    }

    /// The reference count of the tensor object.
    pub(crate) fn handles(&self) -> usize {
        Shared::strong_count(&self.0)
    }

    /// Whether this is the only reference to the tensor and to its storage, so that the memory may be reused.
    #[inline]
    pub fn is_sole_owner(&self) -> bool {
        Shared::strong_count(&self.0) == 1 && self.0.storage.is_unique()
    }

    /// As [`Tensor::is_sole_owner`], whatever deferred operations read or write before.
    #[inline]
    pub fn is_sole_owner_but_for_deferred(&self) -> bool {
        Shared::strong_count(&self.0) == 1
            && (self.0.storage.is_unique() || self.0.storage.is_unique_but_for_deferred())
    }

    // ---- elements

    /// The elements of a contiguous tensor of dtype `T`, in row-major order. No operation should write this memory,
    /// through any tensor, while the slice is alive; see Note [Tensor data and aliasing].
    ///
    /// # Errors
    /// `RuntimeError` when the tensor has another dtype or is not contiguous.
    #[inline]
    pub fn slice<T: Element>(&self) -> Result<&[T]> {
        self.on_host()?.expect_dense(T::DTYPE)?;
        memory::expect_written(self.raw())?;
        Ok(&self.0.storage.slice::<T>().get(self.0.layout.offset..).unwrap_or_default()[..self.numel()])
    }

    /// The bytes of the elements of a dense CPU tensor.
    ///
    /// # Errors
    /// `RuntimeError` when the tensor is not contiguous.
    pub fn slice_bytes(&self) -> Result<&[u8]> {
        self.on_host()?.expect_dense(self.dtype())?;
        memory::expect_written(self.raw())?;
        let size = self.dtype().size();
        let from_first = self.0.storage.slice::<u8>().get(self.0.layout.offset * size..);
        Ok(&from_first.unwrap_or_default()[..self.numel() * size])
    }

    /// As [`Tensor::slice`], writable, for a tensor that nothing else references, such as a new one.
    ///
    /// # Errors
    /// As for [`Tensor::slice`], and when the tensor or its storage has another handle.
    #[inline]
    pub fn slice_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        self.on_host()?.expect_dense(T::DTYPE)?;
        memory::note_written(&self.0.storage);
        let (at, n) = (self.0.layout.offset, self.numel());
        let elements = Shared::get_mut(&mut self.0).and_then(|inner| inner.storage.slice_mut::<T>());
        match elements.map(|all| all.get_mut(at..).unwrap_or_default()) {
            Some(rest) => Ok(&mut rest[..n]),
            None => bail!(Runtime, "the memory of this tensor is shared and cannot be written as a slice"),
        }
    }

    fn expect_dense(&self, dtype: DType) -> Result<()> {
        ensure!(
            self.0.dtype == dtype,
            Runtime,
            "expected scalar type {} but found {}",
            dtype.scalar_name(),
            self.0.dtype.scalar_name()
        );
        ensure!(self.0.contiguous, Runtime, "expected a contiguous tensor");
        Ok(())
    }

    /// All elements in row-major order, converted to `T`, from any device. Empty when the device fails.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.values().unwrap_or_default()
    }

    /// All elements in row-major order, converted to `T`, from any device.
    pub fn values<T: Element>(&self) -> Result<Vec<T>> {
        let mut out = vec_of(T::from_i64(0), self.numel())?;
        if out.is_empty() {
            return Ok(out);
        }
        memory::read(self.raw(), &mut out)?;
        Ok(out)
    }

    /// All elements in row-major order as numbers, from any device.
    pub fn scalars(&self) -> Result<Vec<Scalar>> {
        self.expect_one_value()?;
        memory::scalars(self.raw())
    }

    /// Errors when the elements differ between the slices of a `vmap`.
    fn expect_one_value(&self) -> Result<()> {
        ensure!(
            !self.is_batched(),
            Runtime,
            "vmap: It looks like you're calling .item() on a Tensor, whose value differs between the slices. Use \
             operations of tensors instead"
        );
        Ok(())
    }

    /// The value of a tensor of one element.
    pub fn item(&self) -> Result<Scalar> {
        ensure!(
            self.numel() == 1,
            Runtime,
            "a Tensor with {} elements cannot be converted to Scalar",
            self.numel()
        );
        self.expect_one_value()?;
        ensure!(self.device() != Device::Meta, Runtime, "Tensor.item() cannot be called on meta tensors");
        if !self.device().is_host_readable() {
            let (host, layout) = memory::download(self.raw())?;
            let view = View { storage: &host, layout: &layout, dtype: self.0.dtype };
            return Ok(memory::scalar(view));
        }
        memory::expect_written(self.raw())?;
        Ok(self.scalar_at(self.0.layout.offset))
    }

    /// The element at a storage index, on the host.
    pub(crate) fn scalar_at(&self, at: usize) -> Scalar {
        memory::scalar(View { layout: &Layout { offset: at, ..Layout::default() }, ..self.raw() })
    }

    // ---- autograd

    /// The autograd metadata, if present.
    #[inline(always)]
    pub fn meta(&self) -> Option<&Arc<AutogradMeta>> {
        self.0.meta.get()
    }

    /// The autograd metadata, created if absent.
    pub fn meta_or_new(&self) -> &Arc<AutogradMeta> {
        self.0.meta.get_or_init(|| Arc::new(AutogradMeta::new()))
    }

    /// Sets the history of a new result: it is output `output` of `grad_fn`.
    #[inline]
    pub(crate) fn init_history(&mut self, grad_fn: GradFn, output: usize) {
        match Shared::get_mut(&mut self.0) {
            Some(inner) if inner.meta.get().is_none() => {
                inner.meta =
                    OnceShared::holding(shared(|| AutogradMeta::with_history(grad_fn, output), |_| ()));
            }
            _ => self.meta_or_new().set_history(grad_fn, output),
        }
    }

    /// Whether operations on this tensor are recorded in grad mode.
    #[inline(always)]
    pub fn requires_grad(&self) -> bool {
        match self.0.meta.get() {
            Some(m) if m.is_tracked() => true,
            _ => self.base_requires_grad(),
        }
    }

    /// A view requires grad if its base does: also a view made in no-grad mode, which is then a leaf, and one made
    /// before its base joined the graph.
    #[inline(always)]
    fn base_requires_grad(&self) -> bool {
        match &self.0.view {
            None => false,
            // Views of tensors of inference mode have no history.
            Some(v) => !self.0.origin.inference && v.base.meta().is_some_and(|m| m.is_tracked()),
        }
    }

    /// Whether no recorded operation produced this tensor.
    pub fn is_leaf(&self) -> bool {
        self.grad_fn().is_none()
    }

    /// The node that produced this tensor, if recorded. For a view whose history cannot be regenerated, the former
    /// node.
    pub fn grad_fn(&self) -> Option<GradFn> {
        let _ = view::refresh_grad_fn(self);
        self.meta().and_then(|m| m.grad_fn())
    }

    /// As [`Tensor::grad_fn`].
    ///
    /// # Errors
    /// `RuntimeError` for one of several views of one call whose base was written in place.
    pub fn history(&self) -> Result<Option<GradFn>> {
        view::refresh_grad_fn(self)?;
        Ok(self.meta().and_then(|m| m.grad_fn()))
    }

    /// Where the gradient of this tensor flows: an input of its node, or the accumulator of a leaf.
    ///
    /// # Errors
    /// As for [`Tensor::history`].
    pub fn grad_edge(&self) -> Result<Option<Edge>> {
        let mut edge = None;
        self.put_grad_edge(&mut edge)?;
        Ok(edge)
    }

    /// As [`Tensor::grad_edge`], written to `place`; see Note [Objects made in place].
    #[inline]
    pub(crate) fn put_grad_edge(&self, place: &mut Option<Edge>) -> Result<()> {
        if !self.requires_grad() {
            return Ok(());
        }
        view::refresh_grad_fn(self)?;
        let meta = self.meta_or_new();
        if !meta.is_tracked() {
            meta.set_leaf(true);
        }
        meta.put_edge(self, place);
        Ok(())
    }

    /// Sets `requires_grad` of a leaf.
    ///
    /// # Errors
    /// `RuntimeError` for a dtype without derivatives, or when cleared on a tensor with history.
    pub fn set_requires_grad(&self, on: bool) -> Result<()> {
        ensure!(
            !on || self.dtype().is_float(),
            Runtime,
            "only Tensors of floating point and complex dtype can require gradients"
        );
        ensure!(
            !on || !self.is_inference() || inference_enabled(),
            Runtime,
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        );
        if self.history()?.is_some() {
            ensure!(
                on,
                Runtime,
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in \
                 a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            );
            return Ok(());
        }
        if on || self.meta().is_some() {
            self.meta_or_new().set_leaf(on);
        }
        Ok(())
    }

    /// Keeps the gradient of a non-leaf in its `.grad`.
    pub fn retain_grad(&self) {
        if let Some((node, output, meta)) = self.node_and_output() {
            node.retain_grad(output, meta);
        }
    }

    /// Undoes `retain_grad`; returns whether it was set.
    fn drop_retained_grad(&self) -> bool {
        match (self.meta(), self.meta().and_then(|m| m.grad_fn())) {
            (Some(meta), Some(node)) => node.drop_retained_grad(meta),
            _ => false,
        }
    }

    pub fn retains_grad(&self) -> bool {
        self.node_and_output().is_some_and(|(node, output, meta)| node.retains_grad(output, meta))
    }

    fn node_and_output(&self) -> Option<(GradFn, usize, &Arc<AutogradMeta>)> {
        let _ = view::refresh_grad_fn(self);
        let meta = self.meta()?;
        meta.history().map(|(node, output)| (node, output, meta))
    }

    pub fn grad(&self) -> Option<Tensor> {
        self.meta().and_then(|m| m.grad())
    }

    pub fn set_grad(&self, grad: Option<Tensor>) {
        if grad.is_some() || self.meta().is_some() {
            self.meta_or_new().set_grad(grad);
        }
    }

    pub fn base(&self) -> Option<&Tensor> {
        self.0.view.as_ref().map(|v| &v.base)
    }

    pub fn is_view(&self) -> bool {
        self.0.view.is_some()
    }

    /// Whether the tensor was made in inference mode.
    #[inline(always)]
    pub fn is_inference(&self) -> bool {
        self.0.origin.inference
    }

    /// The modes in which the tensor was made.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    pub fn view_kind(&self) -> Option<ViewKind> {
        self.0.view.as_ref().map(|v| v.kind)
    }

    // ---- the host language's wrapper object

    #[inline]
    pub fn host(&self) -> *mut () {
        self.0.host.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_host(&self, p: *mut ()) {
        self.0.host.store(p, Ordering::Release);
    }

    /// Errors if the operation is not implemented for the dtype, a limited one.
    #[inline]
    pub fn expect_common(&self, op: &'static str) -> Result<()> {
        ensure!(!self.dtype().is_limited(), Error::DtypeNotImplemented { op, dtype: self.dtype() });
        Ok(())
    }

    /// Errors unless the elements are floating point.
    pub fn expect_float(&self, op: &'static str) -> Result<()> {
        if !self.dtype().is_float() {
            bail!(Error::DtypeNotImplemented { op, dtype: self.dtype() });
        }
        Ok(())
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({} {})", self.dtype().name(), self.shape())
    }
}
