//! Tensors larger than an adapter's maximum binding size: windows on their buffers.
//!
//! By default a binding covers a whole buffer. If that exceeds the adapter's limit, the work of a launch is halved
//! until the part of each buffer that it accesses fits in a window; each piece is launched on views of storages that
//! are such windows and are bound like any other. A pointwise launch is halved along the dimension of the largest
//! extent; kernels on rows of dense tensors (reductions, softmax, sorts) are split by rows; a product chooses among
//! its own dimensions.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::device::{Gpu, allocation};
use crate::backend::View;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::Storage;

/// The bytes of a buffer that a binding covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub first: u64,
    pub bytes: u64,
}

/// Pieces of a dimension start at multiples of this, so that words and vectors are not split.
const STEP: usize = 256;

/// The start and length of the two halves of a dimension of size `n`.
pub fn halves(n: usize) -> [(usize, usize); 2] {
    let half = match n / 2 {
        h if h > STEP => h.next_multiple_of(STEP),
        // Multiples of four elements start at a word boundary for every element size.
        h if h >= 4 => h / 4 * 4,
        h => h,
    };
    [(0, half), (half, n - half)]
}

fn held(view: &View) -> u64 {
    allocation(view.storage).and_then(|a| a.binding()).map_or(0, |b| b.bytes())
}

/// Whether the storages of all views can be bound completely.
pub fn fits(gpu: &Gpu, views: &[View]) -> bool {
    !gpu.large.load(Ordering::Relaxed) || views.iter().all(|v| held(v) <= gpu.caps.max_binding)
}

/// The smallest window that contains all elements of a view.
fn window(gpu: &Gpu, view: &View) -> Window {
    let (lo, hi) = view.layout.extent().unwrap_or((0, 0));
    let size = view.dtype.size() as u64;
    let first = lo as u64 * size / gpu.caps.binding_align * gpu.caps.binding_align;
    let end = ((hi as u64 + 1) * size).next_multiple_of(16).min(held(view));
    Window { first, bytes: end - first }
}

/// The size of a view's window in bytes, if it exceeds the maximum binding size.
pub fn excess(gpu: &Gpu, view: &View) -> Option<u64> {
    let bytes = window(gpu, view).bytes;
    (bytes > gpu.caps.max_binding).then_some(bytes)
}

/// A view with a window of its own.
pub struct BufferWindow {
    storage: Storage,
    layout: Layout,
    dtype: DType,
}

impl BufferWindow {
    pub fn new(gpu: &Gpu, view: &View) -> Result<BufferWindow> {
        let mut layout = view.layout.clone();
        let window = window(gpu, view);
        layout.offset -= window.first as usize / view.dtype.size();
        BufferWindow::in_window(view, window, layout)
    }

    /// A window on a view's storage that starts at a multiple of the binding alignment, with the given layout in it.
    pub fn in_window(view: &View, window: Window, layout: Layout) -> Result<BufferWindow> {
        let Some(allocation) = allocation(view.storage) else {
            return Err(Error::Runtime("GPU error: a tensor of the host has no window".into()));
        };
        // Bytes after the last element are padding only at the end of the storage.
        let len = view.storage.len() - window.first as usize;
        let storage = Storage::on_device(view.storage.device(), len, Box::new(allocation.within(window)))?;
        Ok(BufferWindow { storage, layout, dtype: view.dtype })
    }

    pub fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: self.dtype }
    }
}

/// Launches a kernel on views, each with its window.
pub type Launch<'a> = dyn FnMut(&[View]) -> Result<()> + 'a;

/// Calls `launch` with windows on views, all of which must fit.
pub fn shown(gpu: &Gpu, views: &[View], launch: &mut Launch) -> Result<()> {
    let shown =
        views.iter().map(|v| BufferWindow::new(gpu, v)).collect::<Result<SmallVec<[BufferWindow; 6]>>>()?;
    launch(&shown.iter().map(BufferWindow::view).collect::<SmallVec<[View; 6]>>())
}

/// How many rows of `bytes` bytes fit in a binding whatever their alignment; at least one.
pub fn rows_at_once(gpu: &Gpu, bytes: usize) -> usize {
    // Up to one alignment unit is lost at either end of a window.
    ((gpu.caps.max_binding - 2 * gpu.caps.binding_align) as usize / bytes.max(1)).max(1)
}

/// A range of the rows of a dense view.
pub fn rows_of(view: &View, rows: usize, (start, length): (usize, usize)) -> Layout {
    let row = view.layout.numel() / rows;
    let mut layout = Layout::contiguous([length * row].into());
    layout.offset = view.layout.offset + start * row;
    layout
}

/// Errors unless the pieces of dense results start at word boundaries.
pub fn expect_words(gpu: &Gpu, op: &str, views: &[View]) -> Result<()> {
    let in_words = |v: &&View| (v.layout.offset * v.dtype.size()).is_multiple_of(4);
    match views.iter().find(|v| !in_words(v)) {
        Some(v) => Err(too_large(gpu, op, held(v))),
        None => Ok(()),
    }
}

/// Launches a kernel on some rows of dense views; the first argument is their number.
pub type LaunchRows<'a> = dyn FnMut(usize, &[View]) -> Result<()> + 'a;

/// Calls `launch` with ranges of rows of dense views, all of which have `rows` rows, and the number of rows; once with
/// all rows if everything fits in bindings.
///
/// # Errors
/// `NotImplementedError` if a single row does not fit.
pub fn by_rows(gpu: &Gpu, op: &str, rows: usize, views: &[View], launch: &mut LaunchRows) -> Result<()> {
    if fits(gpu, views) {
        return launch(rows, views);
    }
    some_rows(gpu, op, (0, rows), rows, views, launch)
}

fn some_rows(
    gpu: &Gpu,
    op: &str,
    (start, length): (usize, usize),
    rows: usize,
    views: &[View],
    launch: &mut LaunchRows,
) -> Result<()> {
    let layouts: SmallVec<[Layout; 6]> = views.iter().map(|v| rows_of(v, rows, (start, length))).collect();
    let part: SmallVec<[View; 6]> =
        views.iter().zip(&layouts).map(|(v, layout)| View { layout, ..*v }).collect();
    let Some(bytes) = part.iter().find_map(|v| excess(gpu, v)) else {
        expect_words(gpu, op, &part)?;
        return shown(gpu, &part, &mut |views| launch(length, views));
    };
    if length < 2 {
        return Err(too_large(gpu, op, bytes));
    }
    for (first, n) in halves(length) {
        some_rows(gpu, op, (start + first, n), rows, views, launch)?;
    }
    Ok(())
}

/// The error for data that must be bound at once but exceeds the binding size.
pub fn too_large(gpu: &Gpu, op: &str, bytes: u64) -> Error {
    Error::NotImplemented(format!(
        "'{op}' is not implemented for tensors in {bytes} bytes on {}, which shows a kernel {} at once; copy a part of the \
         tensor, or move it with .cpu()",
        gpu.caps.name, gpu.caps.max_binding
    ))
}

/// Calls `launch` with corresponding pieces of views of the same shape.
pub fn pieces(gpu: &Gpu, op: &str, views: &[View], launch: &mut Launch) -> Result<()> {
    let Some((far, bytes)) = views.iter().find_map(|v| Some((v, excess(gpu, v)?))) else {
        return shown(gpu, views, launch);
    };
    let Some(dim) = farthest(far.layout) else { return Err(too_large(gpu, op, bytes)) };
    for (start, length) in halves(far.layout.shape[dim]) {
        let layouts: SmallVec<[Layout; 6]> =
            views.iter().map(|v| v.layout.slice(dim, start, length, 1)).collect();
        let part: SmallVec<[View; 6]> =
            views.iter().zip(&layouts).map(|(v, layout)| View { layout, ..*v }).collect();
        pieces(gpu, op, &part, launch)?;
    }
    Ok(())
}

/// The dimension of the largest extent in memory, if it can be halved.
pub fn farthest(layout: &Layout) -> Option<usize> {
    let reach = |d: &usize| (layout.shape[*d] as u64 - 1) * layout.strides[*d].unsigned_abs() as u64;
    (0..layout.rank()).max_by_key(reach).filter(|d| layout.shape[*d] > 1)
}
