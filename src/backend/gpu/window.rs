//! Tensors larger than an adapter lets a kernel see at once: windows on their buffers.
//!
//! A binding shows a whole buffer. Where that is more than the adapter allows, a pointwise launch is halved until what it
//! touches of each buffer fits in a window, along whichever dimension reaches farthest; each piece binds its windows.
//! Families that go through rows of dense tensors (reductions, softmax) are halved by rows.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::device::{Gpu, allocation};
use crate::backend::View;
use crate::bail;
use crate::error::{Error, Result};
use crate::layout::Layout;

/// Bytes of a buffer that a binding shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub first: u64,
    pub bytes: u64,
}

/// Pieces of a dimension begin at multiples of this, so that words and vectors stay whole.
const STEP: usize = 256;

fn held(view: &View) -> u64 {
    allocation(view.storage).and_then(|a| a.memory()).map_or(0, |m| m.1)
}

/// Whether all of what some views lie in can be bound.
pub fn fits(gpu: &Gpu, views: &[View]) -> bool {
    !gpu.large.load(Ordering::Relaxed) || views.iter().all(|v| held(v) <= gpu.caps.max_binding)
}

/// The window that shows a view, and how the view lies in it.
fn window(gpu: &Gpu, view: &View) -> (Window, Layout) {
    let (lo, hi) = view.layout.extent().unwrap_or((0, 0));
    let size = view.dtype.size() as u64;
    let first = lo as u64 * size / gpu.caps.binding_align * gpu.caps.binding_align;
    let end = ((hi as u64 + 1) * size).next_multiple_of(16).min(held(view));
    let mut layout = view.layout.clone();
    layout.offset -= (first / size) as usize;
    (Window { first, bytes: end - first }, layout)
}

/// What launches a kernel on views, each in its window.
pub type Launch<'a> = dyn FnMut(&[View], &[Window]) -> Result<()> + 'a;

/// How many rows of some bytes a kernel may see at once, wherever they begin: at least one.
pub fn rows_at_once(gpu: &Gpu, bytes: usize) -> usize {
    // A window begins and ends at multiples of its own.
    ((gpu.caps.max_binding - 2 * gpu.caps.binding_align) as usize / bytes.max(1)).max(1)
}

/// What launches a kernel on some rows of dense views.
pub type LaunchRows<'a> = dyn FnMut(usize, &[View], &[Window]) -> Result<()> + 'a;

/// Calls `launch` with dense views, all of which have `rows` rows in memory, some rows at a time, how many those are, and
/// the window that each of them lies in; with all of them and no windows where all can be bound.
///
/// # Errors
/// `NotImplementedError` where not even one row can.
pub fn by_rows(gpu: &Gpu, op: &str, rows: usize, views: &[View], launch: &mut LaunchRows) -> Result<()> {
    if fits(gpu, views) {
        return launch(rows, views, &[]);
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
    let of_rows = |v: &View| {
        let row = v.layout.numel() / rows;
        let mut layout = Layout::contiguous([length * row].into());
        layout.offset = v.layout.offset + start * row;
        layout
    };
    let layouts: SmallVec<[Layout; 6]> = views.iter().map(of_rows).collect();
    let part: SmallVec<[View; 6]> =
        views.iter().zip(&layouts).map(|(v, layout)| View { layout, ..*v }).collect();
    let shown: SmallVec<[(Window, Layout); 6]> = part.iter().map(|v| window(gpu, v)).collect();
    let Some(far) = shown.iter().find(|s| s.0.bytes > gpu.caps.max_binding) else {
        let windows: SmallVec<[Window; 6]> = shown.iter().map(|s| s.0).collect();
        let here: SmallVec<[View; 6]> =
            part.iter().zip(&shown).map(|(v, (_, layout))| View { layout, ..*v }).collect();
        return launch(length, &here, &windows);
    };
    if length < 2 {
        return Err(too_large(gpu, op, far.0.bytes));
    }
    let half = length / 2;
    for piece in [(start, half), (start + half, length - half)] {
        some_rows(gpu, op, piece, rows, views, launch)?;
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

/// Calls `launch` with views of the same shape, piece by piece, and the window that each of them lies in.
pub fn pieces(gpu: &Gpu, views: &[View], launch: &mut Launch) -> Result<()> {
    let shown: SmallVec<[(Window, Layout); 6]> = views.iter().map(|v| window(gpu, v)).collect();
    let too_far = |i: &usize| shown[*i].0.bytes > gpu.caps.max_binding;
    let Some(far) = (0..views.len()).find(too_far) else {
        let windows: SmallVec<[Window; 6]> = shown.iter().map(|s| s.0).collect();
        let here: SmallVec<[View; 6]> =
            views.iter().zip(&shown).map(|(v, (_, layout))| View { layout, ..*v }).collect();
        return launch(&here, &windows);
    };
    let layout = views[far].layout;
    let reach = |d: &usize| (layout.shape[*d] as u64 - 1) * layout.strides[*d].unsigned_abs() as u64;
    let Some(dim) = (0..layout.rank()).max_by_key(reach).filter(|d| layout.shape[*d] > 1) else {
        bail!(Runtime, "{} cannot show a kernel {} bytes", gpu.caps.name, shown[far].0.bytes);
    };
    let n = layout.shape[dim];
    let half = if n > 2 * STEP { (n / 2).next_multiple_of(STEP) } else { n / 2 };
    for (start, length) in [(0, half), (half, n - half)] {
        let layouts: SmallVec<[Layout; 6]> =
            views.iter().map(|v| v.layout.slice(dim, start, length, 1)).collect();
        let part: SmallVec<[View; 6]> =
            views.iter().zip(&layouts).map(|(v, layout)| View { layout, ..*v }).collect();
        pieces(gpu, &part, launch)?;
    }
    Ok(())
}
