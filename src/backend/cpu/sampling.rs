//! Samples between the pixels of images, and their gradients.
//!
//! Note [Blocks of positions] Positions are taken in blocks. For a block, first the coordinates along each dimension give
//! the pixels that contribute and their weights; the combinations of these are corners: a place in the plane and a
//! weight for each position. Then each channel sums its pixels at the places times the weights. Apart from the reads of
//! pixels these are loops without branches. A pixel outside of the image has place and weight zero. A position that is
//! not finite has no pixel, and a weight that is not a number.

use smallvec::SmallVec;

use super::math::Math;
use super::parallel::{for_columns_mut, for_parts_mut};
use super::simd::IsaDispatch;
use crate::backend::View;
use crate::backend::sampling::{CUBIC, Interpolation, Padding, Sampling};
use crate::multiversion;

/// Positions that are computed together.
const BLOCK: usize = 64;
/// The most pixels along a dimension, whose indices have to be those of `Real::integer_bits`.
const LONGEST: usize = 1 << 22;
/// Pixels that a task reads.
const GRAIN: usize = 1 << 15;

type Row<T> = [T; BLOCK];

/// Images and the positions in each of them.
pub struct Shape {
    pub count: usize,
    pub channels: usize,
    pub sizes: SmallVec<[usize; 3]>,
    pub positions: usize,
}

impl Shape {
    /// None if places do not fit into the integers that hold them.
    pub fn new(images: View, grid: View) -> Option<Shape> {
        let [count, channels, ref sizes @ ..] = images.layout.shape[..] else { return None };
        let positions = grid.layout.shape[1..grid.layout.rank() - 1].iter().product();
        let shape = Shape { count, channels, sizes: SmallVec::from_slice(sizes), positions };
        let is_small = shape.sizes.iter().all(|&n| n <= LONGEST) && shape.pixels() <= i32::MAX as usize;
        is_small.then_some(shape)
    }

    fn pixels(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Positions for a task that reads the pixels of so many channels.
    fn grain(&self, how: &Sampling, channels: usize) -> usize {
        let reads = how.interpolation.taps().pow(self.sizes.len() as u32) * channels.max(1);
        (GRAIN / reads).max(1).next_multiple_of(BLOCK)
    }
}

/// The pixels that contribute along one dimension, their weights, and the derivatives of these by the position.
struct Along<T> {
    at: [Row<T>; 4],
    index: [Row<i32>; 4],
    weight: [Row<T>; 4],
    slope: [Row<T>; 4],
}

/// The pixels that contribute to the samples at a block of positions.
struct Corners<'a, T> {
    how: Sampling,
    shape: &'a Shape,
    with_slopes: bool,
    along: Vec<Along<T>>,
    places: Vec<Row<i32>>,
    weights: Vec<Row<T>>,
}

impl<'a, T: Math> Corners<'a, T> {
    fn new(how: Sampling, shape: &'a Shape, with_slopes: bool) -> Self {
        let along = || {
            let none = [[T::ZERO; BLOCK]; 4];
            Along { at: none, index: [[0; BLOCK]; 4], weight: none, slope: none }
        };
        let corners = how.interpolation.taps().pow(shape.sizes.len() as u32);
        Corners {
            how,
            shape,
            with_slopes,
            along: shape.sizes.iter().map(|_| along()).collect(),
            places: vec![[0; BLOCK]; corners],
            weights: vec![[T::ONE; BLOCK]; corners],
        }
    }

    /// The corners of at most a block of positions, the last coordinate of which is that of the first dimension.
    fn locate(&mut self, positions: &[T]) {
        let dims = self.shape.sizes.len();
        self.places.fill([0; BLOCK]);
        self.weights.fill([T::ONE; BLOCK]);
        for (d, (&n, along)) in self.shape.sizes.iter().zip(&mut self.along).enumerate() {
            let mut x = [T::ZERO; BLOCK];
            x.iter_mut().zip(positions.chunks_exact(dims)).for_each(|(x, p)| *x = p[dims - 1 - d]);
            locate_along(self.how, n, self.with_slopes, &mut x, along);
        }
        for k in 0..self.places.len() {
            for (d, &n) in self.shape.sizes.iter().enumerate() {
                let tap = self.tap(k, d);
                let along = &self.along[d];
                descend(n, &along.index[tap], &along.weight[tap], &mut self.places[k], &mut self.weights[k]);
            }
        }
    }

    /// The pixel along dimension `d` that corner `k` has.
    fn tap(&self, k: usize, d: usize) -> usize {
        let taps = self.how.interpolation.taps();
        k / taps.pow((self.shape.sizes.len() - 1 - d) as u32) % taps
    }

    /// The derivative of the weight of corner `k` by the position along dimension `d`.
    fn slope(&self, k: usize, d: usize) -> Row<T> {
        let mut slope = self.along[d].slope[self.tap(k, d)];
        for (e, along) in self.along.iter().enumerate().filter(|(e, _)| *e != d) {
            slope.iter_mut().zip(&along.weight[self.tap(k, e)]).for_each(|(s, w)| *s = *s * *w);
        }
        slope
    }
}

/// The samples of dense images at dense positions.
pub fn sample<T: Math>(how: Sampling, s: &Shape, images: &[T], grid: &[T], out: &mut [T]) {
    let (pixels, dims) = (s.pixels(), s.sizes.len());
    let grain = s.grain(&how, s.channels);
    for_columns_mut(out, [s.channels, s.positions], grain, |image, range, rows| {
        let mut corners = Corners::new(how, s, false);
        let images = &images[image * s.channels * pixels..];
        for at in range.clone().step_by(BLOCK) {
            let part = at..range.end.min(at + BLOCK);
            let first = image * s.positions;
            corners.locate(&grid[(first + part.start) * dims..(first + part.end) * dims]);
            for (plane, row) in images.chunks_exact(pixels).zip(rows.iter_mut()) {
                let out = &mut row[part.start - range.start..part.end - range.start];
                sum_pixels(plane, &corners.places, &corners.weights, out);
            }
        }
    });
}

/// The gradient of the images, from that of the samples, into zeros.
pub fn backward_images<T: Math>(how: Sampling, s: &Shape, grad: &[T], grid: &[T], out: &mut [T]) {
    let (pixels, dims) = (s.pixels(), s.sizes.len());
    // The planes of one task share corners; few planes are a task each.
    let planes = if s.count >= 8 { s.channels } else { s.channels.div_ceil(8 / s.count.max(1)) };
    let tasks = s.channels.div_ceil(planes.max(1));
    let bounds: Vec<usize> = (0..s.count * tasks)
        .map(|task| (task / tasks * s.channels + task % tasks * planes) * pixels)
        .chain([out.len()])
        .collect();
    for_parts_mut(out, &bounds, |task, out| {
        let (image, first) = (task / tasks, task / tasks * s.channels + task % tasks * planes);
        let mut corners = Corners::new(how, s, false);
        for at in (0..s.positions).step_by(BLOCK) {
            let end = s.positions.min(at + BLOCK);
            let of = image * s.positions;
            corners.locate(&grid[(of + at) * dims..(of + end) * dims]);
            for (k, plane) in out.chunks_exact_mut(pixels).enumerate() {
                let grad = &grad[(first + k) * s.positions..][at..end];
                for (places, weights) in corners.places.iter().zip(&corners.weights) {
                    for ((&g, &place), &weight) in grad.iter().zip(places).zip(weights) {
                        // Skipped: an infinite gradient times zero would be NaN, as is the weight of a position that is not finite.
                        if weight != T::ZERO && !weight.is_nan() {
                            plane[place as usize] += g * weight;
                        }
                    }
                }
            }
        }
    });
}

/// The gradient of the positions, from that of the samples.
pub fn backward_grid<T: Math>(how: Sampling, s: &Shape, grad: &[T], images: &[T], grid: &[T], out: &mut [T]) {
    let (pixels, dims) = (s.pixels(), s.sizes.len());
    let positions = s.grain(&how, s.channels);
    for_columns_mut(out, [1, s.positions * dims], positions * dims, |image, range, rows| {
        let mut corners = Corners::new(how, s, true);
        let planes = || images[image * s.channels * pixels..].chunks_exact(pixels).take(s.channels);
        let grid = &grid[image * s.positions * dims..];
        for from in range.clone().step_by(BLOCK * dims) {
            let to = range.end.min(from + BLOCK * dims);
            corners.locate(&grid[from..to]);
            let (at, count) = (from / dims, (to - from) / dims);
            let mut sums = [[T::ZERO; BLOCK]; 3];
            for k in 0..corners.places.len() {
                let mut pixel = [T::ZERO; BLOCK];
                for (c, plane) in planes().enumerate() {
                    let grad = &grad[(image * s.channels + c) * s.positions + at..][..count];
                    for ((sum, &g), &place) in pixel.iter_mut().zip(grad).zip(&corners.places[k]) {
                        *sum += g * plane[place as usize];
                    }
                }
                for (d, sums) in sums[..dims].iter_mut().enumerate() {
                    let slope = corners.slope(k, d);
                    sums.iter_mut().zip(pixel.iter().zip(&slope)).for_each(|(sum, (p, s))| *sum += *p * *s);
                }
            }
            let out = &mut rows[0][from - range.start..to - range.start];
            for (i, out) in out.chunks_exact_mut(dims).enumerate() {
                out.iter_mut().rev().zip(&sums).for_each(|(out, sum)| *out = sum[i]);
            }
        }
    });
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The sums of pixels of a plane at the places of each corner, each times its weight.
    fn sum_pixels[T: Math](plane: &[T], places: &[Row<i32>], weights: &[Row<T>], out: &mut [T]) {
        let mut sums = [T::ZERO; BLOCK];
        let count = out.len().min(BLOCK);
        let ((four, rest), (four_weights, rest_weights)) = (places.as_chunks::<4>(), weights.as_chunks::<4>());
        for ([a, b, c, d], [p, q, r, s]) in four.iter().zip(four_weights) {
            for i in 0..count {
                let pixel = |place: &Row<i32>| plane[place[i] as usize];
                sums[i] += (pixel(a) * p[i] + pixel(b) * q[i]) + (pixel(c) * r[i] + pixel(d) * s[i]);
            }
        }
        for (place, weight) in rest.iter().zip(rest_weights) {
            for i in 0..count {
                sums[i] += plane[place[i] as usize] * weight[i];
            }
        }
        out.copy_from_slice(&sums[..count]);
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Places and weights in a plane of one dimension more, of `n` pixels.
    fn descend[T: Math](n: usize, index: &Row<i32>, weight: &Row<T>, places: &mut Row<i32>, weights: &mut Row<T>) {
        for i in 0..BLOCK {
            places[i] = places[i] * n as i32 + index[i];
            weights[i] = weights[i] * weight[i];
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The pixels of a dimension of `n` that contribute to samples at positions `x`.
    fn locate_along[T: Math](how: Sampling, n: usize, with_slopes: bool, x: &mut Row<T>, a: &mut Along<T>) {
        let (scale, shift) = how.scale(n);
        let (scale, shift) = (T::of(scale), T::of(shift));
        // The derivatives of coordinates by positions.
        let mut speed = [scale; BLOCK];
        let mut speed = with_slopes.then_some(&mut speed);
        x.iter_mut().for_each(|x| *x = (*x + T::ONE) * scale - shift);
        if how.interpolation != Interpolation::Cubic {
            move_inside(how, n, x, speed.as_deref_mut());
        }
        match how.interpolation {
            Interpolation::Nearest => {
                a.at[0].iter_mut().zip(&*x).for_each(|(at, x)| *at = x.m_round_even());
                a.weight[0] = [T::ONE; BLOCK];
            }
            Interpolation::Linear => {
                for (i, &x) in x.iter().enumerate() {
                    let left = x.m_floor();
                    a.weight[1][i] = x - left;
                    a.weight[0][i] = T::ONE - a.weight[1][i];
                    a.at[0][i] = left;
                    a.at[1][i] = left + T::ONE;
                }
                if let Some(speed) = speed {
                    a.slope[0].iter_mut().zip(&*speed).for_each(|(slope, v)| *slope = -*v);
                    a.slope[1].copy_from_slice(speed);
                }
            }
            Interpolation::Cubic => {
                for k in 0..4 {
                    let by = T::of(k as f64 - 1.0);
                    for (i, &x) in x.iter().enumerate() {
                        let left = x.m_floor();
                        a.at[k][i] = left + by;
                        (a.weight[k][i], a.slope[k][i]) = cubic(x - left - by);
                    }
                    a.slope[k].iter_mut().for_each(|slope| *slope = *slope * scale);
                    move_inside(how, n, &mut a.at[k], None);
                }
            }
        }
        for k in 0..how.interpolation.taps() {
            clip(n, &a.at[k], &mut a.index[k], &mut a.weight[k]);
            if with_slopes {
                clip(n, &a.at[k], &mut a.index[k], &mut a.slope[k]);
            }
        }
    }
}

/// The weight of a pixel at distance `d` of at most 2, and its derivative: cubic convolution ("Cubic Convolution
/// Interpolation for Digital Image Processing").
#[inline(always)]
fn cubic<T: Math>(d: T) -> (T, T) {
    let a = T::of(CUBIC);
    let [two, three, four, five, eight] = [2.0, 3.0, 4.0, 5.0, 8.0].map(T::of);
    let x = d.abs();
    let near =
        (((a + two) * x - (a + three)) * x * x + T::ONE, (three * (a + two) * x - two * (a + three)) * x);
    let far = (((x - five) * x + eight) * x * a - four * a, a * ((three * x - T::of(10.0)) * x + eight));
    let (weight, slope) = if x <= T::ONE { near } else { far };
    (weight, if d < T::ZERO { -slope } else { slope })
}

/// Moves coordinates into an image of `n` pixels, as its padding says, and multiplies `speed` by the derivative.
#[inline(always)]
fn move_inside<T: Math>(how: Sampling, n: usize, x: &mut Row<T>, speed: Option<&mut Row<T>>) {
    let mut turned = [T::ONE; BLOCK];
    let last = T::of(n as f64 - 1.0);
    let (low, high) = how.ends(n);
    match how.padding {
        Padding::Zeros => return,
        Padding::Border => {}
        // A single point is reflected onto itself.
        Padding::Reflection if high == low => {
            for i in 0..BLOCK {
                x[i] = if x[i].is_nan() { x[i] } else { T::ZERO };
                turned[i] = T::ZERO;
            }
        }
        Padding::Reflection => {
            let (low, high, span, half) = (T::of(low), T::of(high), T::of(high - low), T::of(0.5));
            for i in 0..BLOCK {
                let (by, sign) = if x[i] < low { (low - x[i], -T::ONE) } else { (x[i] - low, T::ONE) };
                let turns = (by / span).m_floor();
                let rest = by - turns * span;
                let is_even = (turns * half).m_floor() * T::of(2.0) == turns;
                x[i] = if is_even { rest + low } else { high - rest };
                turned[i] = if is_even { sign } else { -sign };
            }
        }
    }
    for i in 0..BLOCK {
        // Comparisons keep NaN, which the minimum of two numbers may drop.
        let is_before = x[i] <= T::ZERO;
        let is_after = x[i] >= last;
        x[i] = if is_before { T::ZERO } else { x[i] };
        x[i] = if is_after { last } else { x[i] };
        turned[i] = if is_before | is_after { T::ZERO } else { turned[i] };
    }
    if let Some(speed) = speed {
        speed.iter_mut().zip(&turned).for_each(|(s, t)| *s = *s * *t);
    }
}

/// The index of each pixel; those outside of `n` have index and weight zero.
#[inline(always)]
fn clip<T: Math>(n: usize, x: &Row<T>, index: &mut Row<i32>, weight: &mut Row<T>) {
    let last = T::of(n as f64 - 1.0);
    for i in 0..BLOCK {
        let is_inside = (x[i] >= T::ZERO) & (x[i] <= last);
        let (place, one) = if is_inside { (x[i], T::ONE) } else { (T::ZERO, T::ZERO) };
        index[i] = place.integer_bits();
        weight[i] = weight[i] * one;
    }
}

#[cfg(test)]
mod tests;
