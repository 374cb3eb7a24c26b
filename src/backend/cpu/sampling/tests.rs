use super::*;
use crate::backend::cpu::reduce::tests::{noise, on_each_isa};

/// The weights of all pixels of a dimension at one position, by the definition.
fn weights(how: Sampling, n: usize, x: f64) -> Vec<f64> {
    let (scale, shift) = how.scale(n);
    let mut out = vec![0.0; n];
    let inside = |x: f64| {
        let (low, high) = how.ends(n);
        let folded = |x: f64| {
            let period = 2.0 * (high - low);
            let at = if period > 0.0 { (x - low).rem_euclid(period) } else { 0.0 };
            low + at.min(period - at)
        };
        match how.padding {
            Padding::Zeros => x,
            Padding::Border => x.clamp(0.0, n as f64 - 1.0),
            Padding::Reflection => folded(x).clamp(0.0, n as f64 - 1.0),
        }
    };
    let mut add = |at: f64, weight: f64| {
        if at >= 0.0 && at < n as f64 {
            out[at as usize] += weight;
        }
    };
    let x = (x + 1.0) * scale - shift;
    match how.interpolation {
        Interpolation::Nearest => add(inside(x).round_ties_even(), 1.0),
        Interpolation::Linear => {
            let x = inside(x);
            add(x.floor(), 1.0 - x.fract().rem_euclid(1.0));
            add(x.floor() + 1.0, x.fract().rem_euclid(1.0));
        }
        Interpolation::Cubic => {
            for k in -1..3 {
                let at = x.floor() + f64::from(k);
                let d = (x - at).abs();
                let near = 1.25 * d * d * d - 2.25 * d * d + 1.0;
                let far = -0.75 * (d * d * d - 5.0 * d * d + 8.0 * d - 4.0);
                add(inside(at), if d <= 1.0 { near } else { far });
            }
        }
    }
    out
}

/// The weight of each pixel of the image at one position.
fn matrix(how: Sampling, sizes: &[usize], position: &[f64]) -> Vec<f64> {
    let mut all = vec![1.0];
    for (n, x) in sizes.iter().zip(position.iter().rev()) {
        let one = weights(how, *n, *x);
        all = all.iter().flat_map(|a| one.iter().map(move |w| a * w)).collect();
    }
    all
}

fn ways() -> impl Iterator<Item = Sampling> {
    let interpolations = [Interpolation::Linear, Interpolation::Nearest, Interpolation::Cubic];
    interpolations.into_iter().flat_map(|interpolation| {
        [Padding::Zeros, Padding::Border, Padding::Reflection].into_iter().flat_map(move |padding| {
            [false, true].map(|align_corners| Sampling { interpolation, padding, align_corners })
        })
    })
}

#[test]
fn samples_and_gradients_are_those_of_the_definition_on_each_instruction_set() {
    // Blocks that are not full, dimensions of one pixel, images of two and three dimensions.
    let shapes: [(&[usize], usize, usize); 4] =
        [(&[5, 4], 3, 70), (&[1, 6], 1, 3), (&[3, 2, 4], 2, 65), (&[7, 7], 9, 130)];
    on_each_isa(|| {
        for how in ways() {
            for (sizes, channels, positions) in shapes {
                let s = Shape { count: 2, channels, sizes: SmallVec::from_slice(sizes), positions };
                let (pixels, dims) = (s.pixels(), sizes.len());
                let images: Vec<f64> = noise(2 * channels * pixels, 1);
                let grad: Vec<f64> = noise(2 * channels * positions, 2);
                let grid: Vec<f64> = noise(2 * positions * dims, 3).iter().map(|x| 1.7 * x).collect();
                let (mut out, mut of_images) = (vec![f64::NAN; grad.len()], vec![0.0; images.len()]);
                let mut of_grid = vec![f64::NAN; grid.len()];
                sample(how, &s, &images, &grid, &mut out);
                backward_images(how, &s, &grad, &grid, &mut of_images);
                backward_grid(how, &s, &grad, &images, &grid, &mut of_grid);
                let mut expected = vec![0.0; images.len()];
                let value = |image: usize, w: &[f64], c: usize| -> f64 {
                    let plane = &images[(image * channels + c) * pixels..];
                    w.iter().zip(plane).map(|(w, x)| w * x).sum()
                };
                for at in 0..2 * positions {
                    let (image, p) = (at / positions, at % positions);
                    let mut place = grid[at * dims..][..dims].to_vec();
                    let w = matrix(how, sizes, &place);
                    for c in 0..channels {
                        let k = (image * channels + c) * positions + p;
                        assert!((out[k] - value(image, &w, c)).abs() < 1e-12, "{how:?} {sizes:?} {at} {c}");
                        let plane = &mut expected[(image * channels + c) * pixels..][..pixels];
                        plane.iter_mut().zip(&w).for_each(|(sum, w)| *sum += w * grad[k]);
                    }
                    for d in 0..dims {
                        let h = 1e-6;
                        let mut total = |by: f64| {
                            let before = place[d];
                            place[d] += by;
                            let w = matrix(how, sizes, &place);
                            place[d] = before;
                            let part = |c| value(image, &w, c) * grad[(image * channels + c) * positions + p];
                            (0..channels).map(part).sum::<f64>()
                        };
                        let slope = (total(h) - total(-h)) / (2.0 * h);
                        assert!((of_grid[at * dims + d] - slope).abs() < 1e-6, "{how:?} {sizes:?} {at} {d}");
                    }
                }
                let error = of_images.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(error < 1e-12, "{how:?} {sizes:?}");
                let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
                let mut single = vec![0f32; out.len()];
                sample(how, &s, &narrow(&images), &narrow(&grid), &mut single);
                let close = |(x, y): (&f32, &f64)| (f64::from(*x) - y).abs() < 1e-4;
                assert!(
                    how.interpolation == Interpolation::Nearest || single.iter().zip(&out).all(close),
                    "{how:?}"
                );
            }
        }
    });
}

#[test]
fn a_position_that_is_not_finite_gives_no_pixel_a_gradient() {
    let s = Shape { count: 1, channels: 1, sizes: SmallVec::from_slice(&[2, 2]), positions: 2 };
    let how = Sampling { interpolation: Interpolation::Linear, padding: Padding::Zeros, align_corners: true };
    let mut of_images = [0f32; 4];
    backward_images(how, &s, &[1.0, 1.0], &[f32::NAN, 0.0, f32::INFINITY, 0.0], &mut of_images);
    assert_eq!(of_images, [0.0; 4]);
}
