//! Linear maps between the planes of two tensors, such as an average pooling, and their adjoints.

use std::sync::Arc;

use smallvec::smallvec;

use super::{number_compute, rounded};
use crate::backend::plane::{self as kernel, Divisor, PoolShape, ResizeShape, SpatialLinearMap, Windows};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::Tensor;

/// A linear map between planes. A plane is what the last dimensions of a tensor span.
pub enum SavedLinearMap {
    /// Means of windows.
    Average(PoolShape, Divisor),
    /// Means of windows that share out the plane.
    AdaptiveAverage(ResizeShape),
    /// Copies of the nearest elements; the scales are those that the user gave.
    Nearest(ResizeShape, [Option<f64>; 3]),
    /// One element of each window, by its index in the plane.
    Pick { indices: Tensor, windows: Windows },
    /// Sums of weighted elements along one dimension after the other.
    Taps(Vec<Taps>),
}

/// What each result along dimension `dim`, which has `n` elements before, is the sum of: positions with their weights.
pub struct Taps {
    pub dim: usize,
    pub n: usize,
    pub of: Vec<Vec<(usize, f64)>>,
}

impl Taps {
    /// The sums in `x`, or what their adjoint makes of it.
    fn apply(&self, x: &Tensor, direction: Direction) -> Result<Tensor> {
        let mut shape = x.shape().clone();
        let inner = shape[self.dim + 1..].iter().product();
        let map = SpatialLinearMap::Axis { n: self.n, inner, taps: &self.of };
        shape[self.dim] = if let Direction::Forward = direction { self.of.len() } else { self.n };
        applied(&map, x, shape, direction)
    }
}

/// What a call asked for and a node shows, but no size of the map tells.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    /// Whether a stride was given.
    pub stride: bool,
    /// `ceil_mode` and `count_include_pad` of a pooling.
    pub ceil: bool,
    pub with_padding: bool,
    /// Of a resizing; the scales of its last dimensions are those that were given.
    pub align_corners: bool,
    pub scales: [Option<f64>; 3],
}

impl SavedLinearMap {
    /// How a result of `x` lies in memory: as `x` does, but for means of volumes.
    fn format(&self, x: &Tensor) -> MemoryFormat {
        match (x.layout().suggested_format(), self) {
            (MemoryFormat::ChannelsLast3d, SavedLinearMap::AdaptiveAverage(s)) if s.output != [1; 3] => {
                MemoryFormat::Contiguous
            }
            (MemoryFormat::ChannelsLast3d, SavedLinearMap::Average(..)) => MemoryFormat::Contiguous,
            (format, _) => format,
        }
    }

    /// The map of `x`, or its adjoint, of a shape.
    fn apply(&self, x: &Tensor, shape: &Dims, direction: Direction) -> Result<Tensor> {
        let map = match self {
            SavedLinearMap::Average(s, divisor) => SpatialLinearMap::Average(*s, *divisor),
            SavedLinearMap::AdaptiveAverage(s) => SpatialLinearMap::AdaptiveAverage(*s),
            SavedLinearMap::Nearest(s, scales) => SpatialLinearMap::Nearest(*s, *scales),
            SavedLinearMap::Pick { indices, windows } => {
                SpatialLinearMap::Pick { indices: indices.raw(), windows: *windows }
            }
            SavedLinearMap::Taps(all) => {
                return match direction {
                    Direction::Forward => all.iter().try_fold(x.clone(), |x, t| t.apply(&x, direction)),
                    Direction::Adjoint => all.iter().rev().try_fold(x.clone(), |x, t| t.apply(&x, direction)),
                };
            }
        };
        applied(&map, x, shape.clone(), direction)
    }
}

fn applied(map: &SpatialLinearMap, x: &Tensor, shape: Dims, direction: Direction) -> Result<Tensor> {
    let out = x.new_empty(shape)?;
    if out.numel() > 0 {
        match direction {
            Direction::Forward => kernel::forward(map, x.raw(), out.raw())?,
            Direction::Adjoint => kernel::adjoint(map, x.raw(), out.raw())?,
        }
    }
    Ok(out)
}

/// The name of a map's node, and what it shows beside the map.
#[derive(Clone, Copy)]
pub struct Named(pub &'static str, pub Asked);

/// `map` of `x`, of shape `out`; backward is its adjoint, and of that the map again.
pub fn map_planes(x: &Tensor, map: Arc<SavedLinearMap>, out: &Dims, node: Named) -> Result<Tensor> {
    run(x, map, out, Direction::Forward, node)
}

/// The node of a result that was found another way, as the maxima are together with their indices.
pub fn record_map(out: Tensor, x: &Tensor, map: SavedLinearMap, node: Named) -> Result<Tensor> {
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
    map: Arc<SavedLinearMap>,
    shape: &Dims,
    direction: Direction,
    node: Named,
) -> Result<Tensor> {
    let compute = number_compute(x.dtype());
    let out = map.apply(&x.dense(compute)?, shape, direction)?;
    let from = x.shape().clone();
    let out = rounded(out, x.dtype())?.laid_as(map.format(x))?;
    record(out, &[x], |_| MapBackward::new(map, from, direction, node))
}

struct MapBackward {
    map: Arc<SavedLinearMap>,
    /// The shape of what the map was applied to.
    from: Dims,
    direction: Direction,
    node: Named,
    mark: SavedTensor,
}

impl MapBackward {
    /// PyTorch keeps the input of a pooling, and nothing of an interpolation.
    fn new(map: Arc<SavedLinearMap>, from: Dims, direction: Direction, node: Named) -> MapBackward {
        let mark = match *map {
            SavedLinearMap::Nearest(..) | SavedLinearMap::Taps(_) => SavedTensor::unused(),
            SavedLinearMap::Average(..)
            | SavedLinearMap::AdaptiveAverage(_)
            | SavedLinearMap::Pick { .. } => SavedTensor::mark(),
        };
        MapBackward { map, from, direction, node, mark }
    }
}

impl Function for MapBackward {
    fn name(&self) -> &'static str {
        self.node.0
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
        match &*self.map {
            SavedLinearMap::Average(s, divisor) => {
                self.show_windows(s, visit);
                visit("count_include_pad", Attribute::Bool(self.node.1.with_padding));
                let fixed =
                    if let Divisor::Fixed(d) = divisor { Attribute::Int(*d) } else { Attribute::Nothing };
                visit("divisor_override", fixed);
            }
            SavedLinearMap::Pick { windows: Windows::Fixed(s), .. } => {
                self.show_windows(s, visit);
                visit("dilation", Attribute::Sizes(self.of_plane(&s.dilation)));
            }
            SavedLinearMap::Nearest(_, scales) => self.show_resize(scales, visit),
            SavedLinearMap::Taps(_) => {
                self.show_resize(&self.node.1.scales, visit);
                if !self.node.0.starts_with("UpsampleNearest") {
                    visit("align_corners", Attribute::Bool(self.node.1.align_corners));
                }
            }
            SavedLinearMap::AdaptiveAverage(_) | SavedLinearMap::Pick { .. } => {}
        }
    }
}

impl MapBackward {
    /// What a pooling has for each dimension of its planes.
    fn of_plane<'a>(&self, all: &'a [usize; 3]) -> &'a [usize] {
        if self.node.0.contains("3D") { all } else { &all[1..] }
    }

    fn show_windows(&self, s: &PoolShape, visit: &mut Visit<'_>) {
        visit("kernel_size", Attribute::Sizes(self.of_plane(&s.kernel)));
        visit("stride", Attribute::Sizes(if self.node.1.stride { self.of_plane(&s.stride) } else { &[] }));
        visit("padding", Attribute::Sizes(self.of_plane(&s.padding)));
        visit("ceil_mode", Attribute::Bool(self.node.1.ceil));
    }

    fn show_resize(&self, scales: &[Option<f64>; 3], visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
        visit("output_size", Attribute::OutputShape(2));
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
