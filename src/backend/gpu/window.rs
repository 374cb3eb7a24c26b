//! Tensors larger than an adapter lets a kernel see at once: windows on their buffers.
//!
//! A binding shows a whole buffer. Where that is more than the adapter allows, the work of a launch is halved until what
//! it touches of each buffer fits in a window; each piece is given views of storages that are such windows, which bind
//! as any other. A pointwise launch is halved along whichever dimension reaches farthest, what goes through rows of
//! dense tensors (reductions, softmax, sorts) by rows; a product knows its own dimensions.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::device::{Gpu, allocation};
use crate::backend::View;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::Storage;

/// Bytes of a buffer that a binding shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub first: u64,
    pub bytes: u64,
}

/// Pieces of a dimension begin at multiples of this, so that words and vectors stay whole.
const STEP: usize = 256;

/// The two pieces of a dimension of `n`, by where they begin and how long they are.
pub fn halves(n: usize) -> [(usize, usize); 2] {
    let half = match n / 2 {
        h if h > STEP => h.next_multiple_of(STEP),
        // As many elements of any size as there are bytes in a word.
        h if h >= 4 => h / 4 * 4,
        h => h,
    };
    [(0, half), (half, n - half)]
}

fn held(view: &View) -> u64 {
    allocation(view.storage).and_then(|a| a.binding()).map_or(0, |b| b.bytes())
}

/// Whether all of what some views lie in can be bound.
pub fn fits(gpu: &Gpu, views: &[View]) -> bool {
    !gpu.large.load(Ordering::Relaxed) || views.iter().all(|v| held(v) <= gpu.caps.max_binding)
}

/// The window that shows what a view touches.
fn window(gpu: &Gpu, view: &View) -> Window {
    let (lo, hi) = view.layout.extent().unwrap_or((0, 0));
    let size = view.dtype.size() as u64;
    let first = lo as u64 * size / gpu.caps.binding_align * gpu.caps.binding_align;
    let end = ((hi as u64 + 1) * size).next_multiple_of(16).min(held(view));
    Window { first, bytes: end - first }
}

/// The bytes that a window on a view shows, where they are more than a kernel may see at once.
pub fn excess(gpu: &Gpu, view: &View) -> Option<u64> {
    let bytes = window(gpu, view).bytes;
    (bytes > gpu.caps.max_binding).then_some(bytes)
}

/// A view in a window of its own.
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

    /// The elements of a view's storage from a multiple of the alignment of bindings on, wherever a view lies in them.
    pub fn in_window(view: &View, window: Window, layout: Layout) -> Result<BufferWindow> {
        let Some(allocation) = allocation(view.storage) else {
            return Err(Error::Runtime("GPU error: a tensor of the host has no window".into()));
        };
        // What follows the last element is padding only where the storage ends.
        let len = view.storage.len() - window.first as usize;
        let storage = Storage::on_device(view.storage.device(), len, Box::new(allocation.within(window)))?;
        Ok(BufferWindow { storage, layout, dtype: view.dtype })
    }

    pub fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: self.dtype }
    }
}

/// What launches a kernel on views, each in its window.
pub type Launch<'a> = dyn FnMut(&[View]) -> Result<()> + 'a;

/// Calls `launch` with windows on views, all of which can be shown.
pub fn shown(gpu: &Gpu, views: &[View], launch: &mut Launch) -> Result<()> {
    let shown =
        views.iter().map(|v| BufferWindow::new(gpu, v)).collect::<Result<SmallVec<[BufferWindow; 6]>>>()?;
    launch(&shown.iter().map(BufferWindow::view).collect::<SmallVec<[View; 6]>>())
}

/// How many rows of some bytes a kernel may see at once, wherever they begin: at least one.
pub fn rows_at_once(gpu: &Gpu, bytes: usize) -> usize {
    // A window begins and ends at multiples of its own.
    ((gpu.caps.max_binding - 2 * gpu.caps.binding_align) as usize / bytes.max(1)).max(1)
}

/// Some of the rows that a dense view has in memory.
pub fn rows_of(view: &View, rows: usize, (start, length): (usize, usize)) -> Layout {
    let row = view.layout.numel() / rows;
    let mut layout = Layout::contiguous([length * row].into());
    layout.offset = view.layout.offset + start * row;
    layout
}

/// Errors unless the pieces of dense results begin with a word each.
pub fn expect_words(gpu: &Gpu, op: &str, views: &[View]) -> Result<()> {
    let in_words = |v: &&View| (v.layout.offset * v.dtype.size()).is_multiple_of(4);
    match views.iter().find(|v| !in_words(v)) {
        Some(v) => Err(too_large(gpu, op, held(v))),
        None => Ok(()),
    }
}

/// What launches a kernel on some rows of dense views.
pub type LaunchRows<'a> = dyn FnMut(usize, &[View]) -> Result<()> + 'a;

/// Calls `launch` with dense views, all of which have `rows` rows in memory, some rows at a time, and how many those
/// are; with all of them where all can be bound.
///
/// # Errors
/// `NotImplementedError` where not even one row can.
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

/// The error for what a kernel would have to see at once.
pub fn too_large(gpu: &Gpu, op: &str, bytes: u64) -> Error {
    Error::NotImplemented(format!(
        "'{op}' is not implemented for tensors in {bytes} bytes on {}, which shows a kernel {} at once; copy a part of the \
         tensor, or move it with .cpu()",
        gpu.caps.name, gpu.caps.max_binding
    ))
}

/// Calls `launch` with views of the same shape, piece by piece.
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

/// The dimension along which a layout reaches farthest, if there is one to be halved.
pub fn farthest(layout: &Layout) -> Option<usize> {
    let reach = |d: &usize| (layout.shape[*d] as u64 - 1) * layout.strides[*d].unsigned_abs() as u64;
    (0..layout.rank()).max_by_key(reach).filter(|d| layout.shape[*d] > 1)
}
