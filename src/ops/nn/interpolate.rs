//! Interpolation of planes.

use std::sync::Arc;

use super::{Asked, Named, SavedLinearMap, Taps, float_compute, map_planes};
use crate::backend::plane::ResizeShape;
use crate::backend::sampling::CUBIC;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, rows};
use crate::storage::expect_room;
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// The interpolation method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    Area,
}

impl Mode {
    fn parse(text: &str, rank: usize) -> Result<Mode> {
        let needs = match text {
            "linear" => Some(3),
            "bilinear" | "bicubic" => Some(4),
            "trilinear" => Some(5),
            _ => None,
        };
        ensure!(
            !(3..=5).contains(&rank) || needs.is_none_or(|n| n == rank),
            NotImplemented,
            "Got {rank}D input, but {text} mode needs {}D input",
            needs.unwrap_or(rank)
        );
        Ok(match text {
            "nearest" if (3..=5).contains(&rank) => Mode::Nearest,
            "nearest-exact" if (3..=5).contains(&rank) => Mode::NearestExact,
            "area" if (3..=5).contains(&rank) => Mode::Area,
            "linear" | "bilinear" | "trilinear" if (3..=5).contains(&rank) => Mode::Linear,
            "bicubic" if (3..=5).contains(&rank) => Mode::Cubic,
            _ => bail!(
                NotImplemented,
                "Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | linear | \
                 bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {text})"
            ),
        })
    }
}

/// The resizing of one axis: input size, output size, and the scale factor if the user gave one.
#[derive(Clone, Copy, Debug)]
struct Resize {
    from: usize,
    to: usize,
    scale: Option<f64>,
}

impl Resize {
    /// Input elements per output element.
    fn step(self, align_corners: bool) -> f64 {
        if align_corners {
            return if self.to > 1 { (self.from - 1) as f64 / (self.to - 1) as f64 } else { 0.0 };
        }
        self.scale.map_or(self.from as f64 / self.to as f64, |s| 1.0 / s)
    }

    /// The weighted input elements of each output element.
    fn taps(self, mode: Mode, align_corners: bool, compute: DType) -> Vec<Vec<(usize, f64)>> {
        let step = self.step(align_corners);
        let last = self.from.saturating_sub(1);
        let source = |o: usize| if align_corners { o as f64 * step } else { (o as f64 + 0.5) * step - 0.5 };
        (0..self.to)
            .map(|o| match mode {
                Mode::Linear => {
                    let x = source(o).max(0.0);
                    let low = (x as usize).min(last);
                    let share = x - low as f64;
                    vec![(low, 1.0 - share), ((low + 1).min(last), share)]
                }
                Mode::Cubic => {
                    let x = source(o);
                    let low = x.floor();
                    let weights = cubic_weights(x - low);
                    let at = |k: usize| (low as i64 + k as i64 - 1).clamp(0, last as i64) as usize;
                    (0..4).map(|k| (at(k), weights[k])).collect()
                }
                // Near integers the result depends on the precision of the step, so it is computed in the element
                // type.
                Mode::NearestExact | Mode::Nearest | Mode::Area => {
                    let x = if compute == DType::F64 {
                        (o as f64 + 0.5) * step
                    } else {
                        ((o as f32 + 0.5) * step as f32) as f64
                    };
                    vec![((x as usize).min(last), 1.0)]
                }
            })
            .collect()
    }
}

/// Keys' cubic convolution: the weights of four neighbors for a position `t` after the second.
fn cubic_weights(t: f64) -> [f64; 4] {
    const A: f64 = CUBIC;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)]
}

fn node(mode: Mode, spatial: usize) -> &'static str {
    let names = match mode {
        Mode::Nearest => {
            ["UpsampleNearest1DBackward0", "UpsampleNearest2DBackward0", "UpsampleNearest3DBackward0"]
        }
        Mode::NearestExact => [
            "UpsampleNearestExact1DBackward0",
            "UpsampleNearestExact2DBackward0",
            "UpsampleNearestExact3DBackward0",
        ],
        Mode::Linear => {
            ["UpsampleLinear1DBackward0", "UpsampleBilinear2DBackward0", "UpsampleTrilinear3DBackward0"]
        }
        Mode::Cubic => ["UpsampleBicubic2DBackward0"; 3],
        Mode::Area => {
            ["AdaptiveAvgPool2DBackward0", "AdaptiveAvgPool2DBackward0", "AdaptiveAvgPool3DBackward0"]
        }
    };
    names[spatial - 1]
}

fn resize(t: &Tensor, axes: &[Resize], mode: Mode, align_corners: bool) -> Result<Tensor> {
    let spatial = axes.len();
    let name = node(mode, spatial);
    let lead = t.rank() - spatial;
    ensure!(
        t.shape()[1..].iter().all(|&n| n > 0),
        Runtime,
        "Non-empty {}D data tensor expected but got a tensor with sizes {}",
        t.rank(),
        t.shape()
    );
    let sizes = |f: fn(&Resize) -> usize| {
        let mut out = [1; 3];
        axes.iter().enumerate().for_each(|(a, r)| out[3 - spatial + a] = f(r));
        out
    };
    let mut shape: Dims = t.shape().clone();
    axes.iter().enumerate().for_each(|(a, r)| shape[lead + a] = r.to);
    ensure!(
        axes.iter().all(|r| r.to > 0),
        Runtime,
        "Input and output sizes should be greater than 0, but got input (sizes: {}) output (sizes: {shape})",
        t.shape()
    );
    let planes = t.shape()[..lead].iter().product();
    let whole = ResizeShape { planes, input: sizes(|r| r.from), output: sizes(|r| r.to) };
    let mut scales = [None; 3];
    axes.iter().enumerate().for_each(|(a, r)| scales[3 - spatial + a] = r.scale);
    let named = Named(name, Asked { align_corners, scales, ..Asked::default() });
    match mode {
        Mode::Area => map_planes(t, Arc::new(SavedLinearMap::AdaptiveAverage(whole)), &shape, named),
        Mode::Nearest => map_planes(t, Arc::new(SavedLinearMap::Nearest(whole, scales)), &shape, named),
        _ => {
            if t.dtype() == DType::U8 {
                return resize_image(t, axes, mode, align_corners);
            }
            let compute = float_compute(name, t.dtype())?;
            expect_taps(axes)?;
            let along = |(a, r): (usize, &Resize)| Taps {
                dim: lead + a,
                n: r.from,
                of: r.taps(mode, align_corners, compute),
            };
            let map = SavedLinearMap::Taps(axes.iter().enumerate().map(along).collect());
            map_planes(t, Arc::new(map), &shape, named)
        }
    }
}

/// Errors if there is no memory for the taps of all results.
fn expect_taps(axes: &[Resize]) -> Result<()> {
    let results = axes.iter().fold(0usize, |sum, r| sum.saturating_add(r.to));
    // At most four taps per result, and the list that contains them.
    expect_room::<[(usize, f64); 6]>(results).map(drop)
}

/// Resizes uint8 images as PyTorch does: axis by axis from the last, with 16-bit weights and rounding to uint8 after
/// each.
fn resize_image(t: &Tensor, axes: &[Resize], mode: Mode, align_corners: bool) -> Result<Tensor> {
    let lead = t.rank() - axes.len();
    expect_taps(axes)?;
    let mut out = arith::to_dtype(t, DType::F64)?;
    for (a, r) in axes.iter().enumerate().rev() {
        let mut next = out.shape().clone();
        next[lead + a] = r.to;
        let of = in_16_bits(r.taps(mode, align_corners, DType::F64));
        let map = SavedLinearMap::Taps(vec![Taps { dim: lead + a, n: r.from, of }]);
        let sums = map_planes(&out, Arc::new(map), &next, Named(node(mode, axes.len()), Asked::default()))?;
        let rounded = rows::floor.call(&[(&arith::add(&sums, 0.5)?).into()], &[])?;
        out = rows::clamp.call(&[(&rounded).into(), 0.0.into(), 255.0.into()], &[])?;
    }
    arith::to_dtype(&out, t.dtype())
}

/// Weights as fixed-point numbers with as many fractional bits as the largest weight allows in 16 bits; the weights of
/// one element are added first.
fn in_16_bits(mut taps: Vec<Vec<(usize, f64)>>) -> Vec<Vec<(usize, f64)>> {
    for tap in &mut taps {
        tap.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 += later.1;
            }
            same
        });
    }
    let largest = taps.iter().flatten().fold(0.0, |m, &(_, w)| f64::max(m, w));
    let fits = |bits: &i32| (0.5 + largest * f64::from(1 << (bits + 1))) < f64::from(1 << 15);
    let one = f64::from(1 << (0..22).take_while(fits).count());
    taps.iter_mut().flatten().for_each(|(_, w)| *w = (*w * one).round() / one);
    taps
}

/// A tuple as in messages: `(2, 3)`.
fn tuple<T: std::fmt::Display>(values: &[T]) -> String {
    let items: Vec<String> = values.iter().map(T::to_string).collect();
    if items.len() == 1 { format!("({},)", items[0]) } else { format!("({})", items.join(", ")) }
}

/// Expands a parameter to all spatial dimensions, from one value for all or one for each.
fn spread<T: Copy + std::fmt::Display>(given: &[T], spatial: &[usize], sized: bool) -> Result<Vec<T>> {
    if given.len() == 1 {
        return Ok(vec![given[0]; spatial.len()]);
    }
    let (what, hint) = if sized {
        ("output size of", "output size in (o1, o2, ...,oK) format.")
    } else {
        ("scale_factor of shape", "scale_factor in (s1, s2, ...,sK) format.")
    };
    ensure!(
        given.len() == spatial.len(),
        Value,
        "Input and {} must have the same number of spatial dimensions, but got input with spatial dimensions of \
         {spatial:?} and {what} {}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and {hint}",
        if sized { "output" } else { "scale_factor" },
        tuple(given)
    );
    Ok(given.to_vec())
}

fn interpolate_op(a: &Args) -> Result<Out> {
    let (t, size, scale, text) = (a.tensor(0)?, a.opt_ints(1)?, a.opt_floats(2)?, a.str(3)?);
    let (corners, recompute, antialias) = (a.opt_bool(4)?, a.opt_bool(5)?.unwrap_or(false), a.bool(6)?);
    let smooth = matches!(text, "linear" | "bilinear" | "bicubic" | "trilinear");
    ensure!(
        smooth || corners.is_none(),
        Value,
        "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
    );
    ensure!(
        !(size.is_some() && scale.is_some()),
        Value,
        "only one of size or scale_factor should be defined"
    );
    let spatial = t.shape().get(2..).unwrap_or(&[]);
    let axes: Vec<Resize> = match (size, scale) {
        (Some(size), _) => {
            ensure!(!recompute, Value, "recompute_scale_factor is not meaningful with an explicit size.");
            let size = spread(size, spatial, true)?;
            spatial
                .iter()
                .zip(size)
                .map(|(&from, to)| Resize { from, to: to.max(0) as usize, scale: None })
                .collect()
        }
        (None, Some(scale)) => {
            let scale = spread(scale, spatial, false)?;
            let resize = |(&from, s): (&usize, f64)| Resize {
                from,
                to: (from as f64 * s).floor().max(0.0) as usize,
                scale: (!recompute).then_some(s),
            };
            spatial.iter().zip(scale).map(resize).collect()
        }
        (None, None) => bail!(Value, "either size or scale_factor should be defined"),
    };
    let mode = Mode::parse(text, t.rank())?;
    if antialias {
        ensure!(
            matches!(text, "bilinear" | "bicubic"),
            Value,
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        );
        bail!(NotImplemented, "interpolate: antialias=True is not supported");
    }
    Ok(resize(t, &axes, mode, corners.unwrap_or(false))?.into())
}

ops! {
    /// Enlarges or shrinks the spatial dimensions.
    "interpolate" NN, autocast FULL_ON_GPU, batch PLANES {
        (input: Tensor, size: int[]? = None, scale_factor: float[]? = None, mode: str = "nearest",
         align_corners: bool? = None, recompute_scale_factor: bool? = None, antialias: bool = False) =>
            interpolate_op;
    }
}
