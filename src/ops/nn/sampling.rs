//! Samples of images between their pixels: by the device's kernel, or composed of operations.

use smallvec::{SmallVec, smallvec};

use super::{float_compute, rounded};
use crate::backend::sampling::{self as kernel, Interpolation, Padding, Sampling};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record};
use crate::layout::Dims;
use crate::ops::index::{gather, scatter_add, select_where};
use crate::ops::join::stack;
use crate::ops::pointwise::PointwiseOp;
use crate::ops::reduce::sum_mask;
use crate::ops::schema::{Args, Out};
use crate::ops::view::cut::select;
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// What PyTorch's numbers stand for.
fn sampling_of(interpolation: i64, padding: i64, align_corners: bool) -> Result<Sampling> {
    let interpolation = match interpolation {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        2 => Interpolation::Cubic,
        other => {
            bail!(Runtime, "grid_sampler(): expected interpolation_mode to be 0, 1 or 2, but got {other}")
        }
    };
    let padding = match padding {
        0 => Padding::Zeros,
        1 => Padding::Border,
        2 => Padding::Reflection,
        other => bail!(Runtime, "grid_sampler(): expected padding_mode to be 0, 1 or 2, but got {other}"),
    };
    Ok(Sampling { interpolation, padding, align_corners })
}

fn expect_images(images: &Tensor, grid: &Tensor) -> Result<()> {
    let (x, at) = (images.shape(), grid.shape());
    let sizes = || format!("but got input with sizes {x} and grid with sizes {at}");
    ensure!(
        !x.is_empty() && !at.is_empty() && x[0] == at[0],
        Runtime,
        "grid_sampler(): expected grid and input to have same batch size, {}",
        sizes()
    );
    let dims = x.len().saturating_sub(2);
    ensure!(
        at.last() == Some(&dims),
        Runtime,
        "grid_sampler(): expected grid to have size {dims} in last dimension, but got grid with sizes {at}"
    );
    let empty = (2..x.len()).find(|&d| x[d] == 0);
    ensure!(
        empty.is_none(),
        Runtime,
        "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {x} with dimension {} \
         being empty",
        empty.unwrap_or(0)
    );
    let expected = if x.len() == 4 { 4 } else { 5 };
    ensure!(
        x.len() == expected && at.len() == expected,
        Runtime,
        "grid_sampler(): expected {expected}D input and grid with same number of dimensions, {}",
        sizes()
    );
    let op = if expected == 4 { "grid_sampler_2d_cpu_kernel_impl" } else { "grid_sampler3d_cpu" };
    float_compute(op, images.dtype())?;
    ensure!(
        grid.dtype() == images.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        images.dtype().scalar_name(),
        grid.dtype().scalar_name()
    );
    Ok(())
}

fn op(row: &'static PointwiseOp, x: &Tensor, numbers: &[f64]) -> Result<Tensor> {
    let mut args: SmallVec<[_; 3]> = smallvec![x.into()];
    args.extend(numbers.iter().map(|&n| n.into()));
    row.call(&args, &[])
}

/// A pixel along one dimension that contributes to each sample: its index, its weight, and the derivative of that by the
/// position.
struct Tap {
    index: Tensor,
    weight: Tensor,
    slope: Tensor,
}

/// Coordinates moved into an image of `n` pixels as its padding says, and the derivative, which is constant between pixels.
fn moved_inside(how: Sampling, x: &Tensor, n: usize) -> Result<(Tensor, Option<Tensor>)> {
    if how.padding == Padding::Zeros {
        return Ok((x.clone(), None));
    }
    let (low, high) = how.ends(n);
    let last = n as f64 - 1.0;
    let fixed = x.detach();
    let (x, sign) = if how.padding == Padding::Border {
        (x.clone(), op(&rows::ge, &fixed, &[f64::NEG_INFINITY])?)
    } else if low == high {
        (arith::mul(x, 0.0)?, arith::mul(&fixed, 0.0)?)
    } else {
        let from = arith::sub(x, low)?;
        let by = op(&rows::abs, &from, &[])?;
        let turns = op(&rows::floor, &arith::div(&by.detach(), high - low)?, &[])?;
        let rest = arith::sub(&by, &arith::mul(&turns, high - low)?)?;
        let is_even = op(&rows::eq, &op(&rows::remainder, &turns, &[2.0])?, &[0.0])?;
        let x =
            select_where(&is_even, (&arith::add(&rest, low)?).into(), (&arith::sub(high, &rest)?).into())?;
        let side =
            select_where(&op(&rows::lt, &fixed, &[low])?, Scalar::Int(-1).into(), Scalar::Int(1).into())?;
        (x, select_where(&is_even, (&side).into(), (&arith::neg(&side)?).into())?)
    };
    let x_fixed = x.detach();
    let within = arith::mul(&op(&rows::gt, &x_fixed, &[0.0])?, &op(&rows::lt, &x_fixed, &[last])?)?;
    let x = op(&rows::clamp, &x, &[0.0, last])?;
    Ok((x, Some(arith::to_dtype(&arith::mul(&sign, &within)?, fixed.dtype())?)))
}

/// The pixels that contribute along a dimension of `n` of them, for the positions `x`.
fn taps(how: Sampling, x: &Tensor, n: usize) -> Result<Vec<Tap>> {
    let (scale, shift) = how.scale(n);
    let x = arith::sub(&arith::mul(&arith::add(x, 1.0)?, scale)?, shift)?;
    let is_cubic = how.interpolation == Interpolation::Cubic;
    let (x, moved) = if is_cubic { (x, None) } else { moved_inside(how, &x, n)? };
    // A constant, but of the shape of the positions.
    let ones = arith::to_dtype(&op(&rows::eq, &x.detach(), &[0.0])?, x.dtype())?;
    let ones = arith::add(&arith::mul(&ones, 0.0)?, 1.0)?;
    let speed = arith::mul(&moved.unwrap_or_else(|| ones.clone()), scale)?;
    let tap = |at: &Tensor, weight: &Tensor, slope: &Tensor| -> Result<Tap> {
        let at = at.detach();
        let inside = arith::mul(&op(&rows::ge, &at, &[0.0])?, &op(&rows::le, &at, &[n as f64 - 1.0])?)?;
        let index = select_where(&inside, (&at).into(), Scalar::Int(0).into())?;
        Ok(Tap {
            index: arith::to_dtype(&index, DType::I64)?,
            weight: arith::mul(weight, &inside)?,
            slope: arith::mul(slope, &inside)?,
        })
    };
    if how.interpolation == Interpolation::Nearest {
        let nearest = op(&rows::round, &x.detach(), &[])?;
        return Ok(vec![tap(&nearest, &ones, &arith::mul(&ones, 0.0)?)?]);
    }
    let left = op(&rows::floor, &x.detach(), &[])?;
    let t = arith::sub(&x, &left)?;
    if !is_cubic {
        let right = arith::add(&left, 1.0)?;
        return Ok(vec![tap(&left, &arith::sub(1.0, &t)?, &arith::neg(&speed)?)?, tap(&right, &t, &speed)?]);
    }
    let a = kernel::CUBIC;
    // Polynomials of a distance, by Horner's rule.
    let polynomial = |d: &Tensor, coefficients: &[f64]| -> Result<Tensor> {
        let mut value = arith::mul(d, coefficients[0])?;
        for &c in &coefficients[1..coefficients.len() - 1] {
            value = arith::mul(&arith::add(&value, c)?, d)?;
        }
        arith::add(&value, coefficients[coefficients.len() - 1])
    };
    let mut out = Vec::with_capacity(4);
    for k in 0..4 {
        let at = arith::add(&left, k as f64 - 1.0)?;
        // The distances 1 + t, t, 1 - t and 2 - t.
        let (d, sign) = if k < 2 {
            (arith::add(&t, 1.0 - k as f64)?, 1.0)
        } else {
            (arith::sub(k as f64 - 1.0, &t)?, -1.0)
        };
        let (weight, slope): (&[f64], &[f64]) = if k == 1 || k == 2 {
            (&[a + 2.0, -(a + 3.0), 0.0, 1.0], &[3.0 * (a + 2.0), -2.0 * (a + 3.0), 0.0])
        } else {
            (&[a, -5.0 * a, 8.0 * a, -4.0 * a], &[3.0 * a, -10.0 * a, 8.0 * a])
        };
        let slope = arith::mul(&arith::mul(&polynomial(&d, slope)?, sign)?, &speed)?;
        let (at, _) = moved_inside(how, &at, n)?;
        out.push(tap(&at, &polynomial(&d, weight)?, &slope)?);
    }
    Ok(out)
}

/// Corners of all dimensions: for each the pixels that contribute along each dimension, and the place in the plane.
struct Corners {
    along: Vec<Vec<Tap>>,
    sizes: Vec<usize>,
}

impl Corners {
    fn new(how: Sampling, images: &Tensor, grid: &Tensor) -> Result<Corners> {
        let sizes = images.shape()[2..].to_vec();
        let (count, dims) = (grid.shape()[0], sizes.len());
        let positions = grid.shape()[1..grid.rank() - 1].iter().product();
        let flat = view::reshape_to(grid, &Dims::from([count, positions, dims]))?;
        let along = (0..dims).map(|d| taps(how, &select(&flat, 2, (dims - 1 - d) as i64)?, sizes[d]));
        Ok(Corners { along: along.collect::<Result<_>>()?, sizes })
    }

    fn count(&self) -> usize {
        self.along.iter().map(Vec::len).product()
    }

    fn tap(&self, k: usize, d: usize) -> &Tap {
        let later: usize = self.along[d + 1..].iter().map(Vec::len).product();
        &self.along[d][k / later % self.along[d].len()]
    }

    /// The places of corner `k` in all channels, `[n, channels, positions]`.
    fn places(&self, k: usize, channels: usize) -> Result<Tensor> {
        let mut place = self.tap(k, 0).index.clone();
        for d in 1..self.sizes.len() {
            place = arith::mul(&place, Scalar::Int(self.sizes[d] as i64))?;
            place = arith::add(&place, &self.tap(k, d).index)?;
        }
        let shape = Dims::from([place.shape()[0], channels, place.shape()[1]]);
        view::expand_to(&view::unsqueeze(&place, 1)?, &shape)
    }

    /// The weights of corner `k`, `[n, 1, positions]`, or their derivatives by the coordinate along a dimension.
    fn weights(&self, k: usize, by: Option<usize>) -> Result<Tensor> {
        let part = |d: usize| {
            let tap = self.tap(k, d);
            if by == Some(d) { &tap.slope } else { &tap.weight }
        };
        let mut weight = part(0).clone();
        for d in 1..self.sizes.len() {
            weight = arith::mul(&weight, part(d))?;
        }
        view::unsqueeze(&weight, 1)
    }
}

/// The images with one dimension for all pixels.
fn planes(t: &Tensor) -> Result<Tensor> {
    let [count, channels, sizes @ ..] = &t.shape()[..] else { return Ok(t.clone()) };
    view::reshape_to(t, &Dims::from([*count, *channels, sizes.iter().product()]))
}

fn shape_of_samples(images: &Tensor, grid: &Tensor) -> Dims {
    let mut shape = Dims::from([images.shape()[0], images.shape()[1]]);
    shape.extend_from_slice(&grid.shape()[1..grid.rank() - 1]);
    shape
}

fn composed(how: Sampling, images: &Tensor, grid: &Tensor) -> Result<Tensor> {
    let (corners, flat) = (Corners::new(how, images, grid)?, planes(images)?);
    let mut sum: Option<Tensor> = None;
    for k in 0..corners.count() {
        let pixels = gather(&flat, 2, &corners.places(k, flat.shape()[1])?)?;
        let part = arith::mul(&pixels, &corners.weights(k, None)?)?;
        sum = Some(sum.map_or(Ok(part.clone()), |sum| arith::add(&sum, &part))?);
    }
    let sum = sum.ok_or_else(|| Error::Runtime("grid_sampler: no pixel contributes".into()))?;
    view::reshape_to(&sum, &shape_of_samples(images, grid))
}

/// The gradients, composed of recorded operations.
fn composed_backward(
    how: Sampling,
    g: &Tensor,
    images: &Tensor,
    grid: &Tensor,
    needs: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    let (corners, flat, g) = (Corners::new(how, images, grid)?, planes(images)?, planes(g)?);
    let dims = corners.sizes.len();
    let mut of_images = if needs[0] { Some(flat.detach().new_zeros(flat.shape().clone())?) } else { None };
    let mut slopes: Vec<Option<Tensor>> = vec![None; dims];
    for k in 0..corners.count() {
        let places = corners.places(k, flat.shape()[1])?;
        if let Some(sum) = &mut of_images {
            // A position that is not finite has no pixel.
            let weights = corners.weights(k, None)?;
            let fixed = weights.detach();
            let is_number = rows::eq.call(&[(&fixed).into(), (&fixed).into()], &[])?;
            let weights = select_where(&is_number, (&weights).into(), Scalar::Int(0).into())?;
            *sum = scatter_add(sum, 2, &places, &arith::mul(&g, &weights)?)?;
        }
        if needs[1] {
            let pixels = sum_mask(&arith::mul(&g, &gather(&flat, 2, &places)?)?, 1 << 1, true, None)?;
            for (d, slope) in slopes.iter_mut().enumerate() {
                let part = arith::mul(&pixels, &corners.weights(k, Some(d))?)?;
                *slope = Some(slope.as_ref().map_or(Ok(part.clone()), |s| arith::add(s, &part))?);
            }
        }
    }
    let of_images = of_images.map(|t| view::reshape_to(&t, images.shape())).transpose()?;
    let slopes: Vec<Tensor> = slopes.into_iter().rev().flatten().collect();
    let of_grid =
        if slopes.is_empty() { None } else { Some(view::reshape_to(&stack(&slopes, -1)?, grid.shape())?) };
    Ok([of_images, of_grid])
}

/// Whether kernels may read the tensors.
fn is_plain(tensors: &[&Tensor]) -> bool {
    tensors.iter().all(|t| !t.is_batched() && t.device() == tensors[0].device())
}

fn sample(how: Sampling, images: &Tensor, grid: &Tensor) -> Result<Tensor> {
    expect_images(images, grid)?;
    let compute = float_compute("grid_sampler", images.dtype())?;
    let (x, at) = (images.detach(), grid.detach());
    let mut out = None;
    if is_plain(&[images, grid]) {
        let (x, at) = (x.dense(compute)?, at.dense(compute)?);
        let sampled = x.new_empty(shape_of_samples(images, grid))?;
        out = kernel::sample(how, x.raw(), at.raw(), sampled.raw())?.then_some(sampled);
    }
    let out = match out {
        Some(out) => rounded(out, images.dtype())?,
        None => {
            // One rounding at the end, rather than one for each step.
            let wide = |t: &Tensor| arith::to_dtype(t, compute);
            arith::to_dtype(&composed(how, &wide(&x)?, &wide(&at)?)?, images.dtype())?
        }
    };
    record(out, &[images, grid], |_| GridSampler {
        how,
        images: SavedTensor::input(images),
        grid: SavedTensor::input(grid),
        dims: images.rank() - 2,
    })
}

struct GridSampler {
    how: Sampling,
    images: SavedTensor,
    grid: SavedTensor,
    dims: usize,
}

impl GridSampler {
    fn fused(
        &self,
        g: &Tensor,
        images: &Tensor,
        grid: &Tensor,
        needs: [bool; 2],
    ) -> Result<Option<[Option<Tensor>; 2]>> {
        if !is_plain(&[images, grid, g]) {
            return Ok(None);
        }
        let compute = float_compute("grid_sampler_backward", images.dtype())?;
        let (g, x, at) = (g.dense(compute)?, images.dense(compute)?, grid.dense(compute)?);
        let of_images = needs[0].then(|| x.new_zeros(x.shape().clone())).transpose()?;
        let of_grid = needs[1].then(|| at.new_empty(at.shape().clone())).transpose()?;
        let [for_images, for_grid] = [&of_images, &of_grid].map(|t| t.as_ref().map(Tensor::raw));
        if !kernel::backward(self.how, g.raw(), x.raw(), at.raw(), for_images, for_grid)? {
            return Ok(None);
        }
        let as_input = |t: Option<Tensor>| t.map(|t| rounded(t, images.dtype())).transpose();
        Ok(Some([as_input(of_images)?, as_input(of_grid)?]))
    }
}

impl Function for GridSampler {
    fn name(&self) -> &'static str {
        if self.dims == 2 { "GridSampler2DBackward0" } else { "GridSampler3DBackward0" }
    }

    fn kernel(&self) -> Option<&'static str> {
        Some(if self.dims == 2 { "grid_sampler_2d_backward" } else { "grid_sampler_3d_backward" })
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let (images, grid) = (self.images.get(cx)?, self.grid.get(cx)?);
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let needs = [cx.needs(0), cx.needs(1)];
        let made = if grad_enabled() { None } else { self.fused(g, &images, &grid, needs)? };
        if let Some(made) = made {
            return Ok(made.into_iter().collect());
        }
        let compute = float_compute("grid_sampler_backward", images.dtype())?;
        let wide = |t: &Tensor| arith::to_dtype(t, compute);
        let made = composed_backward(self.how, &wide(g)?, &wide(&images)?, &wide(&grid)?, needs)?;
        made.into_iter().map(|t| t.map(|t| arith::to_dtype(&t, images.dtype())).transpose()).collect()
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("input", &self.images);
        visit("grid", &self.grid);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("align_corners", Attribute::Bool(self.how.align_corners));
    }
}

fn grid_sampler(a: &Args) -> Result<Out> {
    let how = sampling_of(a.int(2)?, a.int(3)?, a.bool(4)?)?;
    Ok(sample(how, a.tensor(0)?, a.tensor(1)?)?.into())
}

ops! {
    /// The values of images, (N, C, H, W) or (N, C, D, H, W), at positions between -1 and 1, (N, ..., 2) or (N, ..., 3) with the
    /// last dimension of the image first. Interpolation: 0 is linear, 1 nearest, 2 cubic; padding: 0 is zeros, 1 border, 2
    /// reflection.
    "grid_sampler" FUNCTION, aliases ["grid_sampler_2d", "grid_sampler_3d"], autocast FULL_ON_CPU, batch PARTS, samples [
        "data(1, 2, 3, 3), data(1, 2, 2, 2), 0, 0, False", "data(1, 2, 3, 3), data(1, 2, 2, 2), 2, 2, True",
    ] {
        (input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) => grid_sampler;
    }
}
