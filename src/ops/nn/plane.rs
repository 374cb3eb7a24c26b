//! Linear maps on planes, such as average pooling and interpolation, and their adjoints.

use std::sync::Arc;

use smallvec::smallvec;

use super::{number_compute, rounded};
use crate::backend::plane::{self as kernel, Divisor, PoolShape, ResizeShape, SpatialLinearMap, Windows};
use crate::dtype::Scalar;
use crate::ensure;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::Tensor;

/// A linear map on planes, which are the last dimensions of a tensor.
pub enum SavedLinearMap {
    /// Average pooling.
    Average(PoolShape, Divisor),
    /// Adaptive average pooling.
    AdaptiveAverage(ResizeShape),
    /// Nearest-neighbor interpolation; the scale factors are those that the user gave.
    Nearest(ResizeShape, [Option<f64>; 3]),
    /// Selects one element of each window by its index in the plane. Programs hold the indices too: `version` is that
    /// of those that were checked or computed.
    Pick { indices: Tensor, version: u32, windows: Windows },
    /// Weighted sums along one dimension after the other.
    Taps(Vec<Taps>),
}

/// The positions and weights of the elements that each result along dimension `dim`, of size `n`, sums.
pub struct Taps {
    pub dim: usize,
    pub n: usize,
    pub of: Vec<Vec<(usize, f64)>>,
}

impl Taps {
    /// Applies the sums to `x`, or their adjoint.
    fn apply(&self, x: &Tensor, direction: Direction) -> Result<Tensor> {
        let mut shape = x.shape().clone();
        let inner = shape[self.dim + 1..].iter().product();
        let map = SpatialLinearMap::Axis { n: self.n, inner, taps: &self.of };
        shape[self.dim] = if let Direction::Forward = direction { self.of.len() } else { self.n };
        applied(&map, x, shape, direction)
    }
}

/// Arguments of a call that the node shows but that do not follow from the sizes.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    /// Whether a stride was given.
    pub stride: bool,
    /// `ceil_mode` and `count_include_pad` of pooling.
    pub ceil: bool,
    pub with_padding: bool,
    /// For interpolation; `scales` are the scale factors of the last dimensions as given.
    pub align_corners: bool,
    pub scales: [Option<f64>; 3],
}

impl SavedLinearMap {
    pub fn pick(indices: Tensor, windows: Windows) -> SavedLinearMap {
        SavedLinearMap::Pick { version: indices.version(), indices, windows }
    }

    /// The memory format of a result: that of `x`, except for averages of volumes.
    fn format(&self, x: &Tensor) -> MemoryFormat {
        match (x.layout().suggested_format(), self) {
            (MemoryFormat::ChannelsLast3d, SavedLinearMap::AdaptiveAverage(s)) if s.output != [1; 3] => {
                MemoryFormat::Contiguous
            }
            (MemoryFormat::ChannelsLast3d, SavedLinearMap::Average(..)) => MemoryFormat::Contiguous,
            (format, _) => format,
        }
    }

    /// Applies the map or its adjoint to `x`; `shape` is that of the result.
    fn apply(&self, x: &Tensor, shape: &Dims, direction: Direction) -> Result<Tensor> {
        let map = match self {
            SavedLinearMap::Average(s, divisor) => SpatialLinearMap::Average(*s, *divisor),
            SavedLinearMap::AdaptiveAverage(s) => SpatialLinearMap::AdaptiveAverage(*s),
            SavedLinearMap::Nearest(s, scales) => SpatialLinearMap::Nearest(*s, *scales),
            SavedLinearMap::Pick { indices, version, windows } => {
                ensure!(
                    indices.version() == *version,
                    Runtime,
                    "one of the variables needed for gradient computation has been modified by an inplace operation: the indices \
                     of pooling are at version {}; expected version {version} instead",
                    indices.version()
                );
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

/// The name of a map's node, and the arguments that it shows.
#[derive(Clone, Copy)]
pub struct Named(pub &'static str, pub Asked);

/// Applies `map` to `x`; `out` is the shape of the result. The backward is the adjoint, whose backward is the map.
pub fn map_planes(x: &Tensor, map: Arc<SavedLinearMap>, out: &Dims, node: Named) -> Result<Tensor> {
    run(x, map, out, Direction::Forward, node)
}

/// Records a result that was computed in another way, for example maxima together with their indices.
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
    /// The shape of the input.
    from: Dims,
    direction: Direction,
    node: Named,
    mark: SavedTensor,
}

impl MapBackward {
    /// PyTorch saves the input of pooling, but not that of an interpolation.
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

    fn kernel(&self) -> Option<&'static str> {
        Some("")
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
    /// The entries of a pooling parameter for the dimensions of its planes.
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
