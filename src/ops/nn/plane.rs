//! Linear maps between the planes of two tensors, such as an average pooling, and their adjoints.

use std::sync::Arc;

use smallvec::smallvec;

use super::{number_compute, rounded};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::pool;
use crate::backend::plane::{self as kernel, Divisor, Map, PoolShape, ResizeShape};
use crate::dtype::Real;
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, record};
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, with_dtype};

/// A linear map between planes. A plane is what the last dimensions of a tensor span.
pub enum PlaneMap {
    /// Means of windows.
    Average(PoolShape, Divisor),
    /// Means of windows that share out the plane.
    AdaptiveAverage(ResizeShape),
    /// Copies of the nearest elements; the scales are those that the user gave.
    Nearest(ResizeShape, [Option<f64>; 3]),
    /// One element of the plane for each result, by its index.
    Pick { indices: Tensor, input: usize, output: usize },
    /// Sums of weighted elements along one axis: `[outer, taps.len(), inner]` from `[outer, n, inner]`.
    Axis { n: usize, inner: usize, taps: Vec<Vec<(usize, f64)>> },
}

impl PlaneMap {
    /// The map as every device has it, if it has.
    fn on_any_device(&self) -> Option<Map<'_>> {
        match self {
            PlaneMap::Average(s, divisor) => Some(Map::Average(*s, *divisor)),
            PlaneMap::AdaptiveAverage(s) => Some(Map::AdaptiveAverage(*s)),
            PlaneMap::Pick { indices, input, output } => {
                Some(Map::Pick { indices: indices.raw(), input: *input, output: *output })
            }
            PlaneMap::Nearest(..) | PlaneMap::Axis { .. } => None,
        }
    }

    fn forward<T: Real>(&self, x: &[T], out: &mut [T]) {
        match self {
            PlaneMap::Average(..) | PlaneMap::AdaptiveAverage(_) | PlaneMap::Pick { .. } => {}
            PlaneMap::Nearest(s, scales) => pool::interpolate_nearest(s, *scales, x, out),
            PlaneMap::Axis { n, inner, taps } => {
                for_chunks_mut(out, (taps.len() * inner).max(1), |p, out| {
                    let x = &x[p * n * inner..][..n * inner];
                    for (row, taps) in out.chunks_exact_mut(*inner).zip(taps) {
                        row.fill(T::ZERO);
                        for &(from, weight) in taps {
                            add_scaled(row, &x[from * inner..][..*inner], T::of(weight));
                        }
                    }
                });
            }
        }
    }

    fn adjoint<T: Real>(&self, g: &[T], dx: &mut [T]) {
        match self {
            PlaneMap::Average(..) | PlaneMap::AdaptiveAverage(_) | PlaneMap::Pick { .. } => {}
            PlaneMap::Nearest(s, scales) => pool::interpolate_nearest_backward(s, *scales, g, dx),
            PlaneMap::Axis { n, inner, taps } => {
                for_chunks_mut(dx, (n * inner).max(1), |p, dx| {
                    dx.fill(T::ZERO);
                    let g = &g[p * taps.len() * inner..];
                    for (row, taps) in g.chunks_exact(*inner).zip(taps) {
                        for &(from, weight) in taps {
                            add_scaled(&mut dx[from * inner..][..*inner], row, T::of(weight));
                        }
                    }
                });
            }
        }
    }
}

#[inline(always)]
fn add_scaled<T: Real>(out: &mut [T], x: &[T], weight: T) {
    out.iter_mut().zip(x).for_each(|(o, &x)| *o += x * weight);
}

/// `map` of `x`, of shape `out`; backward is its adjoint, and of that the map again.
pub fn map_planes(x: &Tensor, map: Arc<PlaneMap>, out: &Dims, node: &'static str) -> Result<Tensor> {
    run(x, map, out, Direction::Forward, node)
}

/// The node of a result that was found another way, as the maxima are together with their indices.
pub fn record_map(out: Tensor, x: &Tensor, map: PlaneMap, node: &'static str) -> Result<Tensor> {
    let from = x.shape().clone();
    record(out, &[x], |_| MapBackward { map: Arc::new(map), from, direction: Direction::Forward, node })
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
    if let Some(map) = map.on_any_device().filter(|_| out.numel() > 0) {
        match direction {
            Direction::Forward => kernel::forward(&map, dense.raw(), out.raw())?,
            Direction::Adjoint => kernel::adjoint(&map, dense.raw(), out.raw())?,
        }
    } else if out.numel() > 0 {
        with_dtype!(float compute, T => match direction {
            Direction::Forward => map.forward::<T>(dense.slice()?, out.slice_mut()?),
            Direction::Adjoint => map.adjoint::<T>(dense.slice()?, out.slice_mut()?),
        }, else bail!(Error::DtypeNotImplemented { op: node, dtype: compute }));
    }
    let from = x.shape().clone();
    record(rounded(out, x.dtype())?, &[x], |_| MapBackward { map, from, direction, node })
}

struct MapBackward {
    map: Arc<PlaneMap>,
    /// The shape of what the map was applied to.
    from: Dims,
    direction: Direction,
    node: &'static str,
}

impl Function for MapBackward {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let back = match self.direction {
            Direction::Forward => Direction::Adjoint,
            Direction::Adjoint => Direction::Forward,
        };
        Ok(smallvec![Some(run(g, self.map.clone(), &self.from, back, self.node)?)])
    }
}
