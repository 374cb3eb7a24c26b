//! Convolutions, and maps and samples of planes, given as views.

use crate::backend::conv::{ConvShape, Product};
use crate::backend::cpu::{conv, pool, sampling};
use crate::backend::plane::SpatialLinearMap;
use crate::backend::sampling::Sampling;
use crate::backend::{View, elements, results};
use crate::error::{Error, Result};
use crate::{bail, with_dtype};

pub(super) fn convolution(
    which: Product,
    s: &ConvShape,
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
) -> Result<()> {
    if conv::winograd(which, s, a, b, bias, out)? {
        return Ok(());
    }
    real!("convolution", out, T => {
        let (a, b, out) = (elements::<T>(a), elements::<T>(b), &mut *results::<T>(out)?);
        match which {
            Product::Output => conv::forward(s, a, b, bias.map(elements), out),
            Product::Input => conv::backward_input(s, a, b, out),
            Product::Weight => conv::backward_weight(s, a, b, out),
        }
    });
    Ok(())
}

pub(super) fn resample(map: &SpatialLinearMap, x: View, out: View) -> Result<()> {
    real!("pooling", x, T => {
        let (x, out) = (elements::<T>(x), &mut *results::<T>(out)?);
        match *map {
            SpatialLinearMap::Average(s, divisor) => pool::avg_pool(&s, divisor, x, out),
            SpatialLinearMap::AdaptiveAverage(s) => pool::adaptive_avg_pool(&s, x, out),
            SpatialLinearMap::Nearest(s, scales) => pool::interpolate_nearest(&s, scales, x, out),
            SpatialLinearMap::Axis { n, inner, taps } => pool::weighted(n, inner, taps, x, out),
            SpatialLinearMap::Pick { indices, windows } => {
                let (input, output) = windows.volumes();
                pool::pick(input, output, x, elements(indices), out)?;
            }
        }
    });
    Ok(())
}

pub(super) fn resample_adjoint(map: &SpatialLinearMap, g: View, out: View) -> Result<()> {
    real!("pooling", g, T => {
        let (g, out) = (elements::<T>(g), &mut *results::<T>(out)?);
        match *map {
            SpatialLinearMap::Average(s, divisor) => pool::avg_pool_backward(&s, divisor, g, out),
            SpatialLinearMap::AdaptiveAverage(s) => pool::adaptive_avg_pool_backward(&s, g, out),
            SpatialLinearMap::Nearest(s, scales) => pool::interpolate_nearest_backward(&s, scales, g, out),
            SpatialLinearMap::Axis { n, inner, taps } => pool::weighted_backward(n, inner, taps, g, out),
            SpatialLinearMap::Pick { indices, windows } => {
                let (input, output) = windows.volumes();
                pool::max_pool_backward(input, output, g, elements(indices), out)?;
            }
        }
    });
    Ok(())
}

pub(super) fn sample(how: Sampling, images: View, grid: View, out: View) -> Result<bool> {
    let Some(s) = sampling::Shape::new(images, grid) else { return Ok(false) };
    real!("grid_sampler", out, T => {
        sampling::sample::<T>(how, &s, elements(images), elements(grid), &mut results(out)?);
    });
    Ok(true)
}

pub(super) fn sample_backward(
    how: Sampling,
    grad: View,
    images: View,
    grid: View,
    of_images: Option<View>,
    of_grid: Option<View>,
) -> Result<bool> {
    let Some(s) = sampling::Shape::new(images, grid) else { return Ok(false) };
    real!("grid_sampler_backward", grad, T => {
        let (g, x, at) = (elements::<T>(grad), elements(images), elements(grid));
        if let Some(out) = of_images {
            sampling::backward_images(how, &s, g, at, &mut results(out)?);
        }
        if let Some(out) = of_grid {
            sampling::backward_grid(how, &s, g, x, at, &mut results(out)?);
        }
    });
    Ok(true)
}
