//! Operations on spatial planes: max and average pooling, interpolation, and their adjoints.

use super::{View, of, same_device};
use crate::dtype::Real;
use crate::error::Result;

/// The sizes of pooling. On axes that are not pooled `padding` is 0 and `kernel`, `stride` and `dilation` are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    pub planes: usize,
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

/// The windows of pooling: fixed, or adaptive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    Fixed(PoolShape),
    Shares(ResizeShape),
}

impl Windows {
    /// Elements per plane of input and output.
    pub fn volumes(&self) -> (usize, usize) {
        let (input, output) = match self {
            Windows::Fixed(s) => (s.input, s.output),
            Windows::Shares(s) => (s.input, s.output),
        };
        (volume(input), volume(output))
    }
}

pub(super) fn volume(sizes: [usize; 3]) -> usize {
    sizes.iter().product()
}

/// The divisor of the sum over each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The number of elements in the window, including padding but not what exceeds it.
    WithPadding,
    /// The number of input elements in the window.
    WithoutPadding,
    /// A given number.
    Fixed(i64),
}

/// The sizes of a resampling from any size to any other: adaptive pooling, interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizeShape {
    pub planes: usize,
    pub input: [usize; 3],
    pub output: [usize; 3],
}

/// For each result along an axis, the input element that it copies. `scale` is the user's scale factor, if it
/// determined the output size. The arithmetic is exactly PyTorch's, which matters near integers: in the element type,
/// with the coordinate rounded to `f32` at the end.
pub fn nearest_sources<T: Real>(input: usize, output: usize, scale: Option<f64>) -> Vec<usize> {
    let step = match scale {
        Some(scale) if scale > 0.0 => T::of(1.0 / scale),
        _ => T::of(input as f64) / T::of(output as f64),
    };
    let coordinate = |o: usize| (T::of(o as f64) * step).to_f64() as f32;
    (0..output).map(|o| (coordinate(o).floor() as usize).min(input - 1)).collect()
}

/// A linear map on planes.
#[derive(Clone, Copy)]
pub enum SpatialLinearMap<'a> {
    /// Average pooling.
    Average(PoolShape, Divisor),
    /// Adaptive average pooling.
    AdaptiveAverage(ResizeShape),
    /// Nearest-neighbor interpolation; the scale factors are those that the user gave.
    Nearest(ResizeShape, [Option<f64>; 3]),
    /// Weighted sums of elements along one axis: `[outer, taps.len(), inner]` from `[outer, n, inner]`.
    Axis { n: usize, inner: usize, taps: &'a [Vec<(usize, f64)>] },
    /// Selects one element of each window by its index in the plane (int64).
    Pick { indices: View<'a>, windows: Windows },
}

impl<'a> SpatialLinearMap<'a> {
    fn indices(&self) -> Option<View<'a>> {
        if let SpatialLinearMap::Pick { indices, .. } = self { Some(*indices) } else { None }
    }
}

/// The maximum of each window and its index in the plane.
pub fn max_pool(s: &PoolShape, x: View, out: View, indices: View) -> Result<()> {
    of(same_device([out, indices, x])?)?.max_pool(s, x, out, indices)
}

/// The maximum of each adaptive window and its index in the plane.
pub fn adaptive_max_pool(s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> {
    of(same_device([out, indices, x])?)?.adaptive_max_pool(s, x, out, indices)
}

/// Applies a map.
pub fn forward(map: &SpatialLinearMap, x: View, out: View) -> Result<()> {
    of(same_device([out, x].into_iter().chain(map.indices()))?)?.resample(map, x, out)
}

/// Applies the adjoint of a map to `g`, which has the shape of its results.
pub fn adjoint(map: &SpatialLinearMap, g: View, out: View) -> Result<()> {
    of(same_device([out, g].into_iter().chain(map.indices()))?)?.resample_adjoint(map, g, out)
}
