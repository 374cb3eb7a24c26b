//! Linear maps between the planes of two tensors, such as an average pooling, and their adjoints.

use std::sync::Arc;

use smallvec::smallvec;

use super::{number_compute, rounded};
use crate::backend::plane::{self as kernel, Divisor, Map, PoolShape, ResizeShape, Windows};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::Tensor;

/// A linear map between planes. A plane is what the last dimensions of a tensor span.
pub enum PlaneMap {
    /// Means of windows.
    Average(PoolShape, Divisor),
    /// Means of windows that share out the plane.
    AdaptiveAverage(ResizeShape),
    /// Copies of the nearest elements; the scales are those that the user gave.
    Nearest(ResizeShape, [Option<f64>; 3]),
    /// One element of each window, by its index in the plane.
    Pick { indices: Tensor, windows: Windows },
    /// Sums of weighted elements along one axis: `[outer, taps.len(), inner]` from `[outer, n, inner]`.
    Axis { n: usize, inner: usize, taps: Vec<Vec<(usize, f64)>> },
}

impl PlaneMap {
    /// How a result of `x` lies in memory: as `x` does, but for means of volumes.
    fn format(&self, x: &Tensor) -> MemoryFormat {
        match (x.layout().suggested_format(), self) {
            (MemoryFormat::ChannelsLast3d, PlaneMap::AdaptiveAverage(s)) if s.output != [1; 3] => {
                MemoryFormat::Contiguous
            }
            (MemoryFormat::ChannelsLast3d, PlaneMap::Average(..)) => MemoryFormat::Contiguous,
            (format, _) => format,
        }
    }

    /// The map on what the backend works on.
    fn raw(&self) -> Map<'_> {
        match self {
            PlaneMap::Average(s, divisor) => Map::Average(*s, *divisor),
            PlaneMap::AdaptiveAverage(s) => Map::AdaptiveAverage(*s),
            PlaneMap::Nearest(s, scales) => Map::Nearest(*s, *scales),
            PlaneMap::Pick { indices, windows } => Map::Pick { indices: indices.raw(), windows: *windows },
            PlaneMap::Axis { n, inner, taps } => Map::Axis { n: *n, inner: *inner, taps },
        }
    }
}

/// `map` of `x`, of shape `out`; backward is its adjoint, and of that the map again.
pub fn map_planes(x: &Tensor, map: Arc<PlaneMap>, out: &Dims, node: &'static str) -> Result<Tensor> {
    run(x, map, out, Direction::Forward, node)
}

/// The node of a result that was found another way, as the maxima are together with their indices.
pub fn record_map(out: Tensor, x: &Tensor, map: PlaneMap, node: &'static str) -> Result<Tensor> {
    let from = x.shape().clone();
    record(out, &[x], |_| MapBackward::new(Arc::new(map), from, Direction::Forward, node))
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Adjoint,
}

fn run(
    x: &Tensor,
    map: Arc<PlaneMap>,
    shape: &Dims,
    direction: Direction,
    node: &'static str,
) -> Result<Tensor> {
    let compute = number_compute(x.dtype());
    let dense = x.dense(compute)?;
    let out = dense.new_empty(shape.clone())?;
    if out.numel() > 0 {
        match direction {
            Direction::Forward => kernel::forward(&map.raw(), dense.raw(), out.raw())?,
            Direction::Adjoint => kernel::adjoint(&map.raw(), dense.raw(), out.raw())?,
        }
    }
    let from = x.shape().clone();
    let out = rounded(out, x.dtype())?.laid_as(map.format(x))?;
    record(out, &[x], |_| MapBackward::new(map, from, direction, node))
}

struct MapBackward {
    map: Arc<PlaneMap>,
    /// The shape of what the map was applied to.
    from: Dims,
    direction: Direction,
    node: &'static str,
    mark: SavedTensor,
}

impl MapBackward {
    /// PyTorch keeps the input of a pooling, and nothing of an interpolation.
    fn new(map: Arc<PlaneMap>, from: Dims, direction: Direction, node: &'static str) -> MapBackward {
        let mark = match *map {
            PlaneMap::Nearest(..) | PlaneMap::Axis { .. } => SavedTensor::unused(),
            PlaneMap::Average(..) | PlaneMap::AdaptiveAverage(_) | PlaneMap::Pick { .. } => {
                SavedTensor::mark()
            }
        };
        MapBackward { map, from, direction, node, mark }
    }
}

impl Function for MapBackward {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        self.mark.try_get(cx)?;
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let back = match self.direction {
            Direction::Forward => Direction::Adjoint,
            Direction::Adjoint => Direction::Forward,
        };
        Ok(smallvec![Some(run(g, self.map.clone(), &self.from, back, self.node)?)])
    }

    fn release(&self) {
        self.mark.free();
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        if !self.node.starts_with("Upsample") {
            return;
        }
        visit("self_sym_sizes", Attribute::InputShape);
        visit("output_size", Attribute::OutputShape(2));
        if let PlaneMap::Nearest(_, scales) = *self.map {
            // The last scales are those of the plane's dimensions.
            let names: &[&'static str] = match self.from.len() {
                3 => &["scales"],
                4 => &["scales_h", "scales_w"],
                _ => &["scales_d", "scales_h", "scales_w"],
            };
            for (name, scale) in names.iter().rev().zip(scales.iter().rev()) {
                visit(name, scale.map_or(Attribute::Nothing, |s| Attribute::Number(Scalar::Float(s))));
            }
        }
    }
}
