//! Weighted sums of elements along one axis, as in resizing.

use super::copy;
use super::device::{Gpu, of};
use super::packed_kernel::PackedKernel;
use super::pipeline::expect_loops;
use super::window::by_rows;
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::plane::ResizeShape;
use crate::backend::plane::nearest_sources;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::layout::Layout;
use crate::storage::Storage;

const AXIS: &str = crate::formula::shader_text!("axis.wgsl");

/// For each result, the list of elements that it sums; the lists are concatenated.
struct Lists {
    starts: Vec<i32>,
    places: Vec<i32>,
    weights: Vec<f64>,
}

impl Lists {
    fn new<'a>(lists: impl Iterator<Item = &'a [(usize, f64)]>) -> Lists {
        let mut out = Lists { starts: vec![0], places: Vec::new(), weights: Vec::new() };
        for list in lists {
            out.places.extend(list.iter().map(|t| t.0 as i32));
            out.weights.extend(list.iter().map(|t| t.1));
            out.starts.push(out.places.len() as i32);
        }
        out
    }

    /// For each of `n` elements, the list of results that use it.
    fn adjoint(n: usize, taps: &[Vec<(usize, f64)>]) -> Lists {
        let mut goes = vec![Vec::new(); n];
        for (to, list) in taps.iter().enumerate() {
            list.iter().for_each(|&(from, weight)| goes[from].push((to, weight)));
        }
        Lists::new(goes.iter().map(Vec::as_slice))
    }
}

fn sent<T: Element>(gpu: &'static Gpu, values: &[T]) -> Result<Workspace> {
    // Empty buffers cannot be bound.
    let out = Workspace::new(gpu, values.len().max(1), T::DTYPE)?;
    let (host, layout) = (Storage::from_slice(values)?, Layout::contiguous([values.len()].into()));
    let view = |storage| View { storage, layout: &layout, dtype: T::DTYPE };
    copy::upload(view(&host), view(out.view().storage))?;
    Ok(out)
}

/// Result `o` along the axis is the sum of the elements and weights in `taps[o]`; with `adjoint`, the backward of
/// that.
pub fn axis(
    x: View,
    n: usize,
    inner: usize,
    taps: &[Vec<(usize, f64)>],
    adjoint: bool,
    out: View,
) -> Result<()> {
    let gpu = of(out)?;
    let (from, to) = if adjoint { (taps.len(), n) } else { (n, taps.len()) };
    let lists = if adjoint { Lists::adjoint(n, taps) } else { Lists::new(taps.iter().map(Vec::as_slice)) };
    let longest = lists.starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
    expect_loops(gpu, "interpolate", longest as usize)?;
    let (starts, places) = (sent(gpu, &lists.starts)?, sent(gpu, &lists.places)?);
    let weights = match out.dtype {
        DType::F64 => sent(gpu, &lists.weights)?,
        _ => sent(gpu, &lists.weights.iter().map(|&w| w as f32).collect::<Vec<_>>())?,
    };
    let rows = out.layout.numel() / (to * inner).max(1);
    by_rows(gpu, "interpolate", rows, &[out, x], &mut |_, v| {
        PackedKernel {
            op: "interpolate",
            kernel: "axis",
            frame: AXIS,
            compute: out.dtype,
            variant: &[],
            out: v[0],
            read: &[
                ("x", v[1]),
                ("starts", starts.view()),
                ("places", places.view()),
                ("weights", weights.view()),
            ],
            slots: &Vec::new,
            params: &|p| {
                p.u32(from as u32).u32(to as u32).u32(inner as u32);
            },
        }
        .run()
    })
}

/// Copies the nearest element along one axis after the other; with `adjoint`, the backward of that.
pub fn nearest(s: &ResizeShape, scales: [Option<f64>; 3], x: View, adjoint: bool, out: View) -> Result<()> {
    let gpu = of(out)?;
    let sources = |a: usize| match out.dtype {
        DType::F64 => nearest_sources::<f64>(s.input[a], s.output[a], scales[a]),
        _ => nearest_sources::<f32>(s.input[a], s.output[a], scales[a]),
    };
    let stays = |a: usize| s.input[a] == s.output[a] && sources(a).iter().enumerate().all(|(i, &w)| i == w);
    let axes: Vec<usize> = (0..3).filter(|&a| !stays(a)).collect();
    let Some((&last, before)) = axes.split_last() else { return copy::copy(x, out) };
    let (mut sizes, ends) = if adjoint { (s.output, s.input) } else { (s.input, s.output) };
    let mut held: Option<Workspace> = None;
    for &a in before.iter().chain([&last]) {
        let taps: Vec<_> = sources(a).into_iter().map(|w| vec![(w, 1.0)]).collect();
        let inner = sizes[a + 1..].iter().product();
        sizes[a] = ends[a];
        let from = held.as_ref().map_or(x, Workspace::view);
        if a == last {
            return axis(from, s.input[a], inner, &taps, adjoint, out);
        }
        let next = Workspace::new(gpu, s.planes * sizes.iter().product::<usize>(), out.dtype)?;
        axis(from, s.input[a], inner, &taps, adjoint, next.view())?;
        held = Some(next);
    }
    Ok(())
}
