//! Tensors larger than an adapter lets a kernel see at once: windows on their buffers.
//!
//! A binding shows a whole buffer. Where that is more than the adapter allows, a pointwise launch is halved until what it
//! touches of each buffer fits in a window, along whichever dimension reaches farthest; each piece binds its windows.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::device::{Gpu, allocation};
use crate::backend::View;
use crate::bail;
use crate::error::Result;
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
