//! [`Tensor`]: a handle to memory with a geometry, an element type, and, where autograd needs it, a history.

mod create;
pub mod display;
mod identity;
mod inplace;
mod view;

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use triomphe::Arc as Shared;

pub(crate) use inplace::operation_of;
pub use inplace::{
    Overlap, assign, check_apart, check_filled, check_inference, check_inplace, check_memory, check_replaced,
    overlap_error, rebase, self_overlap, write_untracked,
};
pub use view::{as_view, multi_view, scatter_view};

use crate::backend::View;
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::graph::{AutogradMeta, Edge, GradFn, inference_enabled};
use crate::layout::{Dims, Layout, Strides};
use crate::storage::shared::{OnceShared, shared, shared_strongly};
use crate::storage::{Storage, vec_of};
use crate::{bail, ensure, with_dtype};

/// A multi-dimensional array of one element type. `clone` is another handle to the same tensor.
#[derive(Clone)]
pub struct Tensor(Shared<Inner>);

struct Inner {
    storage: Storage,
    layout: Layout,
    dtype: DType,
    /// Whether a kernel may take the elements as one slice; see Note [Misaligned memory].
    contiguous: bool,
    /// The version counter of tensors made by `.data`, of tensors whose storage was replaced, and of views of either; others
    /// use the storage's.
    counter: Option<Arc<AtomicU32>>,
    /// Made in inference mode: never to meet autograd.
    inference: bool,
    view: Option<ViewOf>,
    /// Absent on a tensor that autograd never met.
    meta: OnceShared<AutogradMeta>,
    /// The host language's object for this tensor while there is one; only the binding reads it.
    host: AtomicPtr<()>,
}

/// What a view is a view of: the tensor whose memory it was first made from.
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

/// How a view came about, which decides whether it may be written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewKind {
    Plain,
    /// One of several views that one operation returned (`split`, `unbind`), and which.
    Multi(u32),
    /// Made where gradients were off.
    NoGrad,
    /// Made in inference mode, of a tensor that was not.
    Inference,
    /// What a user's function returned.
    Custom,
}

/// Note [Misaligned memory]
/// Memory of others may begin anywhere: a buffer from its second byte on, an array that was cut from bytes. As in PyTorch,
/// a tensor over it shares it. But no slice of its elements can be made. So it is not contiguous, whatever its strides, and
/// what wants dense elements gets a copy; drivers that take any layout move its elements through blocks, byte by byte
/// (`StridedCursor`, `Cells`). [`Tensor::looks_contiguous`] tells what a user is told.
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
    #[inline]
    fn dense_over(storage: Storage, shape: &Dims, dtype: DType) -> Tensor {
        Tensor::from_known_parts(storage, || Layout::contiguous(shape.clone()), dtype, true)
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
            inference: inference_enabled(),
            view: None,
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
            inference: self.0.inference,
            view: None,
            meta: OnceShared::empty(),
            host: AtomicPtr::new(null_mut()),
        };
        change(&mut inner);
        Tensor(Shared::new(inner))
    }

    // ---- what it is

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

    /// The tensor itself, for code that reads its elements on the host.
    ///
    /// # Errors
    /// `NotImplementedError` where they lie on another device: nothing crosses unasked.
    #[inline(always)]
    pub fn on_host(&self) -> Result<&Tensor> {
        self.raw().on_host()?;
        Ok(self)
    }

    #[inline(always)]
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Whether the elements can be taken as one slice, in row-major order.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.0.contiguous
    }

    /// Whether the elements lie in row-major order, be it misaligned.
    #[inline]
    pub fn looks_contiguous(&self) -> bool {
        self.0.contiguous || self.0.layout.is_contiguous()
    }

    /// Size of dimension `dim`, which may be negative.
    pub fn size(&self, dim: i64) -> Result<usize> {
        self.expect_dimensions(dim)?;
        Ok(self.shape()[crate::layout::wrap_dim(dim, self.rank())?])
    }

    /// Errors where there is no dimension that `dim` could name.
    pub fn expect_dimensions(&self, dim: i64) -> Result<()> {
        ensure!(self.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
        Ok(())
    }

    /// What the backend works on.
    #[inline(always)]
    pub fn raw(&self) -> View<'_> {
        View { storage: &self.0.storage, layout: &self.0.layout, dtype: self.0.dtype }
    }

    /// Whether both handles name the same tensor object.
    pub fn same(&self, other: &Tensor) -> bool {
        Shared::ptr_eq(&self.0, &other.0)
    }

    /// Tells tensors apart.
    pub(crate) fn address(&self) -> usize {
        Shared::as_ptr(&self.0) as usize
    }

    /// How many handles to this tensor there are.
    pub(crate) fn handles(&self) -> usize {
        Shared::strong_count(&self.0)
    }

    /// Whether no other handle, view or storage reference sees this tensor's memory, so that it may be stolen.
    #[inline]
    pub fn is_sole_owner(&self) -> bool {
        Shared::strong_count(&self.0) == 1 && self.0.storage.is_unique()
    }

    // ---- elements

    /// The elements of a contiguous tensor of type `T`, in row-major order, to read: while the slice lives, no operation
    /// should write this memory, through whichever tensor; see Note [Tensor data and aliasing].
    ///
    /// # Errors
    /// `RuntimeError` when the tensor has another dtype or is not contiguous.
    #[inline]
    pub fn slice<T: Element>(&self) -> Result<&[T]> {
        self.on_host()?.expect_dense(T::DTYPE)?;
        Ok(&self.0.storage.slice::<T>().get(self.0.layout.offset..).unwrap_or_default()[..self.numel()])
    }

    /// As [`Tensor::slice`], for writing into a tensor that nothing else refers to, such as one that the caller just made.
    ///
    /// # Errors
    /// As for [`Tensor::slice`], and where the tensor or its memory has another handle.
    #[inline]
    pub fn slice_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        self.on_host()?.expect_dense(T::DTYPE)?;
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

    /// All elements in row-major order, converted to `T`, from any device. Empty where the device fails.
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

    /// The value of a tensor of one element.
    pub fn item(&self) -> Result<Scalar> {
        ensure!(
            self.numel() == 1,
            Runtime,
            "a Tensor with {} elements cannot be converted to Scalar",
            self.numel()
        );
        if !self.device().is_host_readable() {
            let (host, _) = memory::download(self.raw())?;
            return Ok(with_dtype!(self.0.dtype, T => host.slice::<T>()[0].to_scalar()));
        }
        Ok(self.scalar_at(self.0.layout.offset))
    }

    /// The element that lies at an index of the storage, on the host.
    pub(crate) fn scalar_at(&self, at: usize) -> Scalar {
        let element = Layout { offset: at, ..Layout::default() };
        with_dtype!(self.0.dtype, T => match self.0.storage.slice::<T>().get(at) {
            Some(v) => v.to_scalar(),
            // Memory of others may begin anywhere.
            None => {
                let mut out = [T::from_i64(0)];
                memory::read_host(View { layout: &element, ..self.raw() }, &mut out);
                out[0].to_scalar()
            }
        })
    }

    // ---- autograd

    /// The autograd part, if the tensor has one.
    #[inline(always)]
    pub fn meta(&self) -> Option<&Arc<AutogradMeta>> {
        self.0.meta.get()
    }

    /// The autograd part, made if absent.
    pub fn meta_or_new(&self) -> &Arc<AutogradMeta> {
        self.0.meta.get_or_init(|| Arc::new(AutogradMeta::new()))
    }

    /// Gives a fresh result its history: it is output `output` of `grad_fn`.
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

    /// Whether operations on this tensor are recorded (in grad mode).
    #[inline(always)]
    pub fn requires_grad(&self) -> bool {
        match self.0.meta.get() {
            Some(m) if m.is_tracked() => true,
            _ => self.base_requires_grad(),
        }
    }

    /// A view requires a gradient with its base: also one made where nothing was recorded, which is then a leaf, and
    /// one that was made before its base joined a graph.
    #[inline(always)]
    fn base_requires_grad(&self) -> bool {
        match &self.0.view {
            None => false,
            Some(v) => v.base.meta().is_some_and(|m| m.is_tracked()),
        }
    }

    /// A leaf: made by a user, or by an operation that was not recorded.
    pub fn is_leaf(&self) -> bool {
        self.grad_fn().is_none()
    }

    /// The node that made this tensor, if its history is recorded. Of a view that has lost its history, the former one.
    pub fn grad_fn(&self) -> Option<GradFn> {
        let _ = view::refresh_grad_fn(self);
        self.meta().and_then(|m| m.grad_fn())
    }

    /// As [`Tensor::grad_fn`].
    ///
    /// # Errors
    /// `RuntimeError` for one of several views whose base was written in place.
    pub fn history(&self) -> Result<Option<GradFn>> {
        view::refresh_grad_fn(self)?;
        Ok(self.meta().and_then(|m| m.grad_fn()))
    }

    /// Where the gradient of this tensor goes: its node's input, or the accumulator of a leaf.
    ///
    /// # Errors
    /// As for [`Tensor::history`].
    pub fn grad_edge(&self) -> Result<Option<Edge>> {
        let mut edge = None;
        self.put_grad_edge(&mut edge)?;
        Ok(edge)
    }

    /// As [`Tensor::grad_edge`], written where it is to stay; see Note [Objects made in place].
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

    /// Marks a leaf as wanting a gradient.
    ///
    /// # Errors
    /// `RuntimeError` for a dtype without derivatives, or when turning it off on a tensor with history.
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

    /// Has the gradient of a tensor with history kept in its `.grad`.
    pub fn retain_grad(&self) {
        if let Some((node, output, meta)) = self.node_and_output() {
            node.retain_grad(output, meta);
        }
    }

    /// Undoes `retain_grad`; whether there was something to undo.
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
        self.0.inference
    }

    pub fn view_kind(&self) -> Option<ViewKind> {
        self.0.view.as_ref().map(|v| v.kind)
    }

    // ---- the host language's object

    #[inline]
    pub fn host(&self) -> *mut () {
        self.0.host.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_host(&self, p: *mut ()) {
        self.0.host.store(p, Ordering::Release);
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
