//! Pooling: maximum and average over fixed or adaptive windows.

use std::sync::Arc;

use super::nn::{
    Asked, Named, SavedLinearMap, axes, map_planes, number_compute, per_axis, record_map, rounded,
};
use super::reduce::{dim_mask, mean_of_planes};
use super::schema::{Args, Out};
use super::view;
use crate::backend::plane::{self as kernel, Divisor, PoolShape, ResizeShape, Windows};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, MemoryFormat};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// The product of the leading dimensions and the sizes of the last `n` of three dimensions, with 1 for the others.
fn planes(t: &Tensor, n: usize) -> (usize, [usize; 3]) {
    let lead = t.rank() - n;
    let mut input = [1; 3];
    input[3 - n..].copy_from_slice(&t.shape()[lead..]);
    (t.shape()[..lead].iter().product(), input)
}

/// The shape of `t` with its last `n` dimensions replaced.
fn with_plane(t: &Tensor, plane: [usize; 3], n: usize) -> Dims {
    t.shape()[..t.rank() - n].iter().chain(&plane[3 - n..]).copied().collect()
}

/// An upper bound of all extents, small enough that arithmetic with positions cannot overflow.
const FARTHEST: i64 = 1 << 40;
/// Limits on windows in padding, which are iterated element by element.
const MOST_PADDING: i64 = 1 << 24;
const LONG_WINDOW: i64 = 1 << 20;

/// The number of results along one axis; with `ceil` windows may extend past the end, but must start before it.
fn results(input: usize, kernel: i64, stride: i64, pad: i64, dilation: i64, ceil: bool) -> i64 {
    let [input, kernel, stride, pad, dilation] =
        [input as i64, kernel, stride, pad, dilation].map(i128::from);
    let reach = input + 2 * pad - dilation * (kernel - 1) - 1 + if ceil { stride - 1 } else { 0 };
    let count = reach.div_euclid(stride) + 1;
    let count = if ceil && (count - 1) * stride >= input + pad { count - 1 } else { count };
    count.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}

/// Channels and a plane as in messages: `3x4x5`.
fn sizes(channels: usize, plane: &[i64]) -> String {
    let plane: Vec<String> = plane.iter().map(i64::to_string).collect();
    format!("{channels}x{}", plane.join("x"))
}

/// Whether `t` is `[c, plane...]` or `[n, c, plane...]`, empty at most in n.
fn is_batch(t: &Tensor, n: usize) -> bool {
    (t.rank() == n + 1 || t.rank() == n + 2) && t.shape()[t.rank() - n - 1..].iter().all(|&s| s > 0)
}

struct Window<'a> {
    op: &'static str,
    n: usize,
    kernel: &'a [i64],
    stride: Option<&'a [i64]>,
    padding: &'a [i64],
    dilation: &'a [i64],
    ceil: bool,
}

impl Window<'_> {
    /// The arguments that the node shows besides the sizes.
    fn asked(&self) -> Asked {
        let stride = self.stride.is_some_and(|s| !s.is_empty());
        Asked { stride, ceil: self.ceil, ..Asked::default() }
    }

    /// The sizes of this pooling of `t`, and the shape of its result.
    fn shape(&self, t: &Tensor) -> Result<(PoolShape, Dims)> {
        let (op, n) = (self.op, self.n);
        let kernel = per_axis("kernel_size", op, self.kernel, n)?;
        let stride = match self.stride.filter(|s| !s.is_empty()) {
            Some(s) => per_axis("stride", op, s, n)?,
            None => kernel,
        };
        let padding = per_axis("padding", op, self.padding, n)?;
        let dilation = per_axis("dilation", op, self.dilation, n)?;
        let used = 3 - n..3;
        ensure!(used.clone().all(|a| stride[a] != 0), Runtime, "stride should not be zero");
        ensure!(
            used.clone().all(|a| kernel[a] > 0),
            Runtime,
            "kernel size should be greater than zero, but got {:?}",
            &kernel[used.clone()]
        );
        ensure!(
            used.clone().all(|a| stride[a] > 0),
            Runtime,
            "stride should be greater than zero, but got {:?}",
            &stride[used.clone()]
        );
        ensure!(
            used.clone().all(|a| dilation[a] > 0),
            Runtime,
            "dilation should be greater than zero, but got {:?}",
            &dilation[used.clone()]
        );
        for a in used.clone() {
            ensure!(padding[a] >= 0, Runtime, "pad must be non-negative, but got pad: {}", padding[a]);
            ensure!(
                padding[a] <= (dilation[a].saturating_mul(kernel[a] - 1).saturating_add(1)) / 2,
                Runtime,
                "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                padding[a],
                kernel[a],
                dilation[a]
            );
        }
        let largest = used.clone().map(|a| stride[a].max(dilation[a])).max().unwrap_or(0);
        ensure!(
            largest <= FARTHEST,
            Runtime,
            "pooling over distances of {largest} elements is not supported"
        );
        let most = used.clone().map(|a| padding[a]).max().unwrap_or(0);
        ensure!(most <= MOST_PADDING, Runtime, "pooling with a padding of {most} elements is not supported");
        self.expect_planes(t)?;
        let (planes, input) = planes(t, n);
        let mut output = [1; 3];
        for a in used.clone() {
            output[a] = results(input[a], kernel[a], stride[a], padding[a], dilation[a], self.ceil);
        }
        if used.clone().any(|a| output[a] < 1) {
            let smaller = used.clone().any(|a| (input[a] as i64) < kernel[a]);
            if n == 3 && self.op.starts_with("avg") && smaller {
                bail!(
                    Runtime,
                    "input image (T: {} H: {} W: {}) smaller than kernel size (kT: {} kH: {} kW: {})",
                    input[0],
                    input[1],
                    input[2],
                    kernel[0],
                    kernel[1],
                    kernel[2]
                );
            }
            let plane: Vec<i64> = input[3 - n..].iter().map(|&i| i as i64).collect();
            let channels = t.shape()[t.rank() - n - 1];
            bail!(
                Runtime,
                "Given input size: ({}). Calculated output size: ({}). Output size is too small",
                sizes(channels, &plane),
                sizes(channels, &output[3 - n..])
            );
        }
        // The part of a huge window beyond the padding is ignored.
        let padded = |a: usize| input[a] as i64 + 2 * padding[a];
        let kernel = std::array::from_fn(|a| match kernel[a] {
            k if k > LONG_WINDOW => k.min((padded(a) - 1) / dilation[a] + 1),
            k => k,
        });
        let shape = PoolShape {
            planes,
            input,
            output: axes(output, n, 1),
            kernel: axes(kernel, n, 1),
            stride: axes(stride, n, 1),
            padding: axes(padding, n, 0),
            dilation: axes(dilation, n, 1),
        };
        Ok((shape, with_plane(t, shape.output, n)))
    }

    /// Errors unless `t` is `[c, plane...]` or `[n, c, plane...]`, empty at most in n.
    fn expect_planes(&self, t: &Tensor) -> Result<()> {
        let n = self.n;
        if is_batch(t, n) {
            return Ok(());
        }
        let (low, high) = (n + 1, n + 2);
        if t.rank() != low && t.rank() != high {
            bail!(Runtime, "non-empty {low}D or {high}D (batch mode) tensor expected for input");
        }
        if n == 3 {
            let first = t.rank() - n - 1;
            let empty = (first..t.rank()).find(|&d| t.shape()[d] == 0).unwrap_or(first);
            bail!(
                Runtime,
                "{}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with \
                 dimension {empty} being empty",
                self.op,
                t.shape()
            );
        }
        bail!(
            Runtime,
            "Expected {low}D or {high}D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
            t.shape()
        )
    }
}

/// Errors unless kernels for numbers accept `t`.
fn expect_number(t: &Tensor, op: &'static str) -> Result<()> {
    ensure!(t.dtype() != DType::Bool, Error::DtypeNotImplemented { op, dtype: t.dtype() });
    t.expect_common(op)?;
    Ok(())
}

fn max_node(n: usize) -> &'static str {
    if n == 3 { "MaxPool3DWithIndicesBackward0" } else { "MaxPool2DWithIndicesBackward0" }
}

/// The maxima and their indices in the plane, which `find` writes.
fn maxima(
    t: &Tensor,
    shape: &Dims,
    windows: Windows,
    node: Named,
    find: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<()>,
) -> Result<(Tensor, Tensor)> {
    let compute = number_compute(t.dtype());
    let x = t.dense(compute)?;
    let (out, indices) =
        (x.new_empty(shape.clone())?, Tensor::empty_on(shape.clone(), DType::I64, t.device())?);
    if out.numel() > 0 {
        find(&x, &out, &indices)?;
    }
    let map = SavedLinearMap::pick(indices.clone(), windows);
    let format = match t.layout().suggested_format() {
        MemoryFormat::ChannelsLast3d if node.0.starts_with("Adaptive") => MemoryFormat::Contiguous,
        format => format,
    };
    let out = rounded(out, t.dtype())?.laid_as(format)?;
    Ok((record_map(out, t, map, node)?, indices.laid_as(format)?))
}

fn max_pool(a: &Args, op: &'static str, n: usize) -> Result<Out> {
    let (kernel, stride, padding, dilation) = (a.ints(1)?, a.opt_ints(2)?, a.ints(3)?, a.ints(4)?);
    let (t, ceil) = (a.tensor(0)?, a.bool(5)?);
    if n > 1 {
        let found = maxima_of(t, &Window { op, n, kernel, stride, padding, dilation, ceil })?;
        return with_indices(a, found);
    }
    ensure!(
        is_batch(t, 1),
        Runtime,
        "{op}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
        t.shape()
    );
    let one = |name: &str, values: &[i64], least: i64| {
        let optional = if name == "stride" { "None, " } else { "" };
        let [value] = *values else {
            bail!(
                Runtime,
                "{op}() {name} must be {optional}an int, list of ints{} or tuple of ints of size 1 but got size {}",
                if optional.is_empty() { "" } else { "," },
                values.len()
            )
        };
        let what = if least > 0 { "greater than zero" } else { "non-negative" };
        ensure!(value >= least, Runtime, "{op}() {name} must be {what}, but got {value}");
        Ok(value)
    };
    let kernel = one("kernel_size", kernel, 1)?;
    let stride = stride.filter(|s| !s.is_empty()).map_or(Ok(kernel), |s| one("stride", s, 1))?;
    let padding = one("padding", padding, 0)?;
    ensure!(
        padding <= kernel / 2,
        Runtime,
        "{op}() padding should be at most half of kernel size, but got padding={padding} and kernel_size={kernel}"
    );
    let dilation = one("dilation", dilation, 1)?;
    let count = results(t.shape()[t.rank() - 1], kernel, stride, padding, dilation, ceil);
    // With indices, PyTorch words the error as that of a plane of one row: see `Window::shape`.
    ensure!(count > 0 || a.bool(6)?, Runtime, "{op}() Invalid computed output size: {count}");
    let (kernel, stride, padding, dilation) =
        (&[1, kernel], Some(&[1, stride][..]), &[0, padding], &[1, dilation]);
    let window = Window { op, n: 2, kernel, stride, padding, dilation, ceil };
    let (out, indices) = maxima_of(&view::unsqueeze(t, -2)?, &window)?;
    with_indices(a, (line(&out)?, line(&indices)?))
}

/// The maxima, with indices if requested.
fn with_indices(a: &Args, (out, indices): (Tensor, Tensor)) -> Result<Out> {
    Ok(if a.bool(6)? { Out::Tuple(vec![out, indices]) } else { out.into() })
}

/// Converts the result of a one-row plane to that of a line.
fn line(t: &Tensor) -> Result<Tensor> {
    view::squeeze(t, &[-2])
}

fn maxima_of(t: &Tensor, window: &Window) -> Result<(Tensor, Tensor)> {
    expect_number(t, window.op)?;
    let (s, shape) = window.shape(t)?;
    let node = Named(max_node(window.n), window.asked());
    maxima(t, &shape, Windows::Fixed(s), node, |x, out, indices| {
        kernel::max_pool(&s, x.raw(), out.raw(), indices.raw())
    })
}

fn avg_pool(a: &Args, op: &'static str, n: usize) -> Result<Out> {
    let (kernel, stride, padding) = (a.ints(1)?, a.opt_ints(2)?, a.ints(3)?);
    let (t, ceil, dilation) = (a.tensor(0)?, a.bool(4)?, &[1]);
    let divisor = match if n > 1 { a.opt_int(6)? } else { None } {
        Some(0) => bail!(Runtime, "divisor must be not zero"),
        Some(d) => Divisor::Fixed(d),
        None if a.bool(5)? => Divisor::WithPadding,
        None => Divisor::WithoutPadding,
    };
    if n > 1 {
        let window = Window { op, n, kernel, stride, padding, dilation, ceil };
        return Ok(means_of(t, &window, divisor, a.bool(5)?)?.into());
    }
    expect_lines(t, op)?;
    let kernel = one_of(op, "kernel_size", kernel)?;
    let stride = stride.filter(|s| !s.is_empty()).map_or(Ok(kernel), |s| one_of(op, "stride", s))?;
    let padding = one_of(op, "padding", padding)?;
    let (kernel, stride, padding) = (&[1, kernel], Some(&[1, stride][..]), &[0, padding]);
    let window = Window { op, n: 2, kernel, stride, padding, dilation, ceil };
    Ok(line(&means_of(&view::unsqueeze(t, -2)?, &window, divisor, a.bool(5)?)?)?.into())
}

fn means_of(t: &Tensor, window: &Window, divisor: Divisor, with_padding: bool) -> Result<Tensor> {
    expect_number(t, window.op)?;
    let (s, shape) = window.shape(t)?;
    let node = if window.n == 3 { "AvgPool3DBackward0" } else { "AvgPool2DBackward0" };
    map_planes(
        t,
        Arc::new(SavedLinearMap::Average(s, divisor)),
        &shape,
        Named(node, Asked { with_padding, ..window.asked() }),
    )
}

/// Errors unless `t` is `[c, line]` or `[n, c, line]`.
fn expect_lines(t: &Tensor, op: &str) -> Result<()> {
    ensure!(
        t.rank() == 2 || t.rank() == 3,
        Runtime,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for \
         {op})",
        t.rank()
    );
    Ok(())
}

/// The single value of an argument of one-dimensional pooling.
fn one_of(op: &str, name: &str, values: &[i64]) -> Result<i64> {
    let [value] = *values else {
        bail!(Runtime, "{op}() argument '{name}' should contain one int (got {})", values.len())
    };
    Ok(value)
}

/// The sizes of an adaptive pooling of `t`, and the shape of its result.
fn adaptive(t: &Tensor, op: &str, size: &[i64], n: usize) -> Result<(ResizeShape, Dims)> {
    ensure!(
        t.rank() == n + 1 || t.rank() == n + 2,
        Runtime,
        "{op}(): Expected {}D or {}D tensor, but got{} {}",
        n + 1,
        n + 2,
        if op.contains("max") { ":" } else { "" },
        t.shape()
    );
    let size = if size.len() == 1 { vec![size[0]; n] } else { size.to_vec() };
    ensure!(size.len() == n, Runtime, "{op}: output_size must be {n}");
    let (planes, input) = planes(t, n);
    let mut output = [1; 3];
    for (k, a) in (3 - n..3).enumerate() {
        ensure!(
            size[k] >= 0,
            Runtime,
            "{op}: elements of output_size must be greater than or equal to 0 but received {{{}}}",
            size.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
        );
        output[a] = size[k] as usize;
    }
    // The first dimension may be empty, be it of a batch or of channels; averages of lines and planes also accept a
    // batch without channels.
    let first = if op.contains("avg") && n < 3 { t.rank() - n } else { 1 };
    if let Some(d) = (first..t.rank()).find(|&d| t.shape()[d] == 0) {
        bail!(
            Runtime,
            "{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with \
             dimension {d} being empty",
            t.shape()
        );
    }
    let shape = ResizeShape { planes, input, output };
    Ok((shape, with_plane(t, output, n)))
}

fn adaptive_avg_pool(a: &Args, op: &'static str, n: usize) -> Result<Out> {
    let (t, size) = (a.tensor(0)?, a.ints(1)?);
    if n > 1 {
        return Ok(adaptive_means(t, op, size, n)?.into());
    }
    expect_lines(t, op)?;
    let size = [1, one_of(op, "output_size", size)?];
    Ok(line(&adaptive_means(&view::unsqueeze(t, -2)?, "adaptive_avg_pool2d", &size, 2)?)?.into())
}

fn adaptive_means(t: &Tensor, op: &'static str, size: &[i64], n: usize) -> Result<Tensor> {
    // An average over the whole plane is a reduction.
    if size.iter().all(|&s| s == 1) && (size.len() == 1 || size.len() == n) {
        let planes: Vec<i64> = (1..=n as i64).map(|d| -d).collect();
        return mean_of_planes(t, dim_mask(Some(&planes), t.rank())?);
    }
    t.expect_float("adaptive_avg_pool2d")?;
    let (s, shape) = adaptive(t, op, size, n)?;
    let node = if n == 3 { "AdaptiveAvgPool3DBackward0" } else { "AdaptiveAvgPool2DBackward0" };
    map_planes(t, Arc::new(SavedLinearMap::AdaptiveAverage(s)), &shape, Named(node, Asked::default()))
}

fn adaptive_max_pool(a: &Args, op: &'static str, n: usize) -> Result<Out> {
    let t = a.tensor(0)?;
    t.expect_float("adaptive_max_pool2d")?;
    let (s, shape) = adaptive(t, op, a.ints(1)?, n)?;
    let node = if n == 3 { "AdaptiveMaxPool3DBackward0" } else { "AdaptiveMaxPool2DBackward0" };
    let (out, indices) =
        maxima(t, &shape, Windows::Shares(s), Named(node, Asked::default()), |x, out, indices| {
            kernel::adaptive_max_pool(&s, x.raw(), out.raw(), indices.raw())
        })?;
    Ok(if a.bool(2)? { Out::Tuple(vec![out, indices]) } else { out.into() })
}

ops! {
    /// The maximum of each window, with its index in the plane if `return_indices`.
    "max_pool1d" FUNCTION | NN, batch PLANES {
        (input: Tensor, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, dilation: int[] = 1,
         ceil_mode: bool = False, return_indices: bool = False) =>
            |a| max_pool(a, "max_pool1d", 1);
    }
    /// The maximum of each window, with its index in the plane if `return_indices`.
    "max_pool2d" FUNCTION | NN, batch PLANES {
        (input: Tensor, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, dilation: int[] = 1,
         ceil_mode: bool = False, return_indices: bool = False) =>
            |a| max_pool(a, "max_pool2d", 2);
    }
    /// The maximum of each window, with its index in the plane if `return_indices`.
    "max_pool3d" FUNCTION | NN, autocast FULL_ON_CPU, batch PLANES {
        (input: Tensor, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, dilation: int[] = 1,
         ceil_mode: bool = False, return_indices: bool = False) =>
            |a| max_pool(a, "max_pool3d", 3);
    }
    /// The mean of each window.
    "avg_pool1d" FUNCTION | NN | NATIVE, batch PLANES {
        (input: Tensor, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, ceil_mode: bool = False,
         count_include_pad: bool = True) =>
            |a| avg_pool(a, "avg_pool1d", 1);
    }
    /// The mean of each window.
    "avg_pool2d" NN | NATIVE | OUT, out SAME, batch PLANES {
        (input: Tensor, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, ceil_mode: bool = False,
         count_include_pad: bool = True, divisor_override: int? = None) =>
            |a| avg_pool(a, "avg_pool2d", 2);
    }
    /// The mean of each window.
    "avg_pool3d" NN | NATIVE | OUT, autocast FULL_ON_CPU, out SAME, batch PLANES {
        (input: Tensor, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, ceil_mode: bool = False,
         count_include_pad: bool = True, divisor_override: int? = None) =>
            |a| avg_pool(a, "avg_pool3d", 3);
    }
    /// Means of as many windows as the result is to have elements.
    "adaptive_avg_pool1d" FUNCTION | NN | NATIVE, batch PLANES {
        (input: Tensor, output_size: int[]) => |a| adaptive_avg_pool(a, "adaptive_avg_pool1d", 1);
    }
    /// Means of as many windows as the result is to have elements.
    "adaptive_avg_pool2d" NN | OUT, batch PLANES {
        (input: Tensor, output_size: int[]) => |a| adaptive_avg_pool(a, "adaptive_avg_pool2d", 2);
    }
    /// Means of as many windows as the result is to have elements.
    "adaptive_avg_pool3d" NN | OUT, autocast FULL_ON_CPU, batch PLANES {
        (input: Tensor, output_size: int[]) => |a| adaptive_avg_pool(a, "adaptive_avg_pool3d", 3);
    }
    /// Maxima of as many windows as the result is to have elements.
    "adaptive_max_pool1d" NN, batch PLANES {
        (input: Tensor, output_size: int[], return_indices: bool = False) =>
            |a| adaptive_max_pool(a, "adaptive_max_pool1d", 1);
    }
    /// Maxima of as many windows as the result is to have elements.
    "adaptive_max_pool2d" NN | OUT, batch PLANES {
        (input: Tensor, output_size: int[], return_indices: bool = False) =>
            |a| adaptive_max_pool(a, "adaptive_max_pool2d", 2);
    }
    /// Maxima of as many windows as the result is to have elements.
    "adaptive_max_pool3d" NN | OUT, batch PLANES {
        (input: Tensor, output_size: int[], return_indices: bool = False) =>
            |a| adaptive_max_pool(a, "adaptive_max_pool3d", 3);
    }
}
