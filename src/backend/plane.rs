//! Maps between planes: maxima and means of windows, resizing, and what undoes them.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::pool::{Divisor, PoolShape, ResizeShape, Windows};

use crate::error::{Error, Result};
use crate::{bail, with_dtype};

/// A linear map between planes.
#[derive(Clone, Copy)]
pub enum Map<'a> {
    /// Means of windows.
    Average(PoolShape, Divisor),
    /// Means of windows that share out the plane.
    AdaptiveAverage(ResizeShape),
    /// Copies of the nearest elements; the scales are those that the user gave.
    Nearest(ResizeShape, [Option<f64>; 3]),
    /// Sums of weighted elements along one axis: `[outer, taps.len(), inner]` from `[outer, n, inner]`.
    Axis { n: usize, inner: usize, taps: &'a [Vec<(usize, f64)>] },
    /// One element of each window, by its index in the plane (int64).
    Pick { indices: View<'a>, windows: Windows },
}

impl<'a> Map<'a> {
    fn indices(&self) -> Option<View<'a>> {
        if let Map::Pick { indices, .. } = self { Some(*indices) } else { None }
    }
}

macro_rules! real {
    ($v:expr, $T:ident => $body:expr) => {
        with_dtype!(float $v.dtype, $T => $body, else bail!(Error::DtypeNotImplemented { op: "pooling", dtype: $v.dtype }))
    };
}

/// The maximum of each window and its index in the plane.
pub fn max_pool(s: &PoolShape, x: View, out: View, indices: View) -> Result<()> {
    by_device!(same_device([out, indices, x])?,
        cpu => {
            real!(x, T => cpu::pool::max_pool::<T>(s, elements(x), results(out), results(indices)));
            Ok(())
        },
        gpu => gpu::plane::max_pool(s, x, out, indices)
    )
}

/// The maximum of each share of the plane and its index in it.
pub fn adaptive_max_pool(s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> {
    by_device!(same_device([out, indices, x])?,
        cpu => {
            real!(x, T => cpu::pool::adaptive_max_pool::<T>(s, elements(x), results(out), results(indices)));
            Ok(())
        },
        gpu => gpu::plane::adaptive_max_pool(s, x, out, indices)
    )
}

/// The results of a map.
pub fn forward(map: &Map, x: View, out: View) -> Result<()> {
    by_device!(same_device([out, x].into_iter().chain(map.indices()))?,
        cpu => {
            real!(x, T => {
                let (x, out) = (elements::<T>(x), results::<T>(out));
                match *map {
                    Map::Average(s, divisor) => cpu::pool::avg_pool(&s, divisor, x, out),
                    Map::AdaptiveAverage(s) => cpu::pool::adaptive_avg_pool(&s, x, out),
                    Map::Nearest(s, scales) => cpu::pool::interpolate_nearest(&s, scales, x, out),
                    Map::Axis { n, inner, taps } => cpu::pool::weighted(n, inner, taps, x, out),
                    Map::Pick { indices, windows } => pick(elements(indices), windows.volumes(), x, out),
                }
            });
            Ok(())
        },
        gpu => gpu::plane::forward(map, x, out)
    )
}

/// What the adjoint of a map makes of `g`, of the shape of its results.
pub fn adjoint(map: &Map, g: View, out: View) -> Result<()> {
    by_device!(same_device([out, g].into_iter().chain(map.indices()))?,
        cpu => {
            real!(g, T => {
                let (g, out) = (elements::<T>(g), results::<T>(out));
                match *map {
                    Map::Average(s, divisor) => cpu::pool::avg_pool_backward(&s, divisor, g, out),
                    Map::AdaptiveAverage(s) => cpu::pool::adaptive_avg_pool_backward(&s, g, out),
                    Map::Nearest(s, scales) => cpu::pool::interpolate_nearest_backward(&s, scales, g, out),
                    Map::Axis { n, inner, taps } => cpu::pool::weighted_backward(n, inner, taps, g, out),
                    Map::Pick { indices, windows } => {
                        let (input, output) = windows.volumes();
                        cpu::pool::max_pool_backward(input, output, g, elements(indices), out);
                    }
                }
            });
            Ok(())
        },
        gpu => gpu::plane::adjoint(map, g, out)
    )
}

fn pick<T: crate::dtype::Real>(indices: &[i64], (input, output): (usize, usize), x: &[T], out: &mut [T]) {
    cpu::parallel::for_chunks_mut(out, output.max(1), |p, out| {
        let (x, indices) = (&x[p * input..][..input], &indices[p * output..]);
        out.iter_mut().zip(indices).for_each(|(o, &i)| *o = x[i as usize]);
    });
}
