//! Pooling and its backward.

use smallvec::SmallVec;

use super::axis;
use super::device::of;
use super::params::Params;
use super::pipeline::{Launch, expect_loops};
use super::window::by_rows;
use crate::backend::View;
use crate::backend::plane::{Divisor, PoolShape, ResizeShape, SpatialLinearMap, Windows};
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};

const FRAME: &str = crate::formula::shader_text!("pool.wgsl");

/// Invocations per workgroup.
const GROUP: usize = 64;

/// A function of the shader and its cache key.
struct Function {
    name: &'static str,
    tag: u8,
}

const MAXIMUM: Function = Function { name: "maximum", tag: 0 };
const SHARES_MAXIMUM: Function = Function { name: "largest", tag: 7 };
const AVERAGE: Function = Function { name: "average", tag: 1 };
const AVERAGE_ADJOINT: Function = Function { name: "spread", tag: 2 };
const SHARES: Function = Function { name: "shares", tag: 3 };
const SHARES_ADJOINT: Function = Function { name: "gathered", tag: 4 };
const PICK: Function = Function { name: "pick", tag: 5 };
const PLACE: Function = Function { name: "put", tag: 6 };
const PLACE_SHARES: Function = Function { name: "put_shares", tag: 8 };

pub fn max_pool(s: &PoolShape, x: View, out: View, indices: View) -> Result<()> {
    run(&MAXIMUM, s, taps(s), None, x, out, Some((indices, true)), out.layout.numel())
}

pub fn adaptive_max_pool(s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> {
    let s = resized(*s);
    run(&SHARES_MAXIMUM, &s, taps(&s), None, x, out, Some((indices, true)), out.layout.numel())
}

/// Adaptive pooling as pooling with the largest window.
fn resized(s: ResizeShape) -> PoolShape {
    PoolShape {
        planes: s.planes,
        input: s.input,
        output: s.output,
        kernel: [0, 1, 2].map(|a| most_shared(s.input[a], s.output[a])),
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1; 3],
    }
}

fn flat(planes: usize, (input, output): (usize, usize)) -> PoolShape {
    resized(ResizeShape { planes, input: [1, 1, input], output: [1, 1, output] })
}

/// Number of taps of a window.
fn taps(s: &PoolShape) -> usize {
    s.kernel.iter().product()
}

/// Maximum number of windows that contain an element.
fn windows(s: &PoolShape) -> usize {
    (0..3).map(|a| s.kernel[a].div_ceil(s.stride[a])).product()
}

/// Maximum number of adaptive windows that contain an element.
fn shares(s: &ResizeShape) -> usize {
    (0..3).map(|a| most_shared(s.output[a], s.input[a])).product()
}

/// Length of the largest of `n` adaptive windows of a row.
fn most_shared(row: usize, n: usize) -> usize {
    let n = n.max(1);
    if row.is_multiple_of(n) { row / n } else { row.div_ceil(n) + 1 }
}

pub fn forward(map: &SpatialLinearMap, x: View, out: View) -> Result<()> {
    let count = out.layout.numel();
    match *map {
        SpatialLinearMap::Average(s, divisor) => {
            run(&AVERAGE, &s, taps(&s), Some(divisor), x, out, None, count)
        }
        SpatialLinearMap::AdaptiveAverage(s) => {
            let s = resized(s);
            run(&SHARES, &s, taps(&s), None, x, out, None, count)
        }
        SpatialLinearMap::Nearest(s, scales) => axis::nearest(&s, scales, x, false, out),
        SpatialLinearMap::Axis { n, inner, taps } => axis::axis(x, n, inner, taps, false, out),
        SpatialLinearMap::Pick { indices, windows } => {
            let (input, output) = windows.volumes();
            let planes = count.checked_div(output).unwrap_or(0);
            run(&PICK, &flat(planes, (input, output)), 1, None, x, out, Some((indices, false)), count)
        }
    }
}

pub fn adjoint(map: &SpatialLinearMap, g: View, out: View) -> Result<()> {
    let count = out.layout.numel();
    match *map {
        SpatialLinearMap::Average(s, divisor) => {
            run(&AVERAGE_ADJOINT, &s, windows(&s), Some(divisor), g, out, None, count)
        }
        SpatialLinearMap::AdaptiveAverage(s) => {
            run(&SHARES_ADJOINT, &resized(s), shares(&s), None, g, out, None, count)
        }
        SpatialLinearMap::Nearest(s, scales) => axis::nearest(&s, scales, g, true, out),
        SpatialLinearMap::Axis { n, inner, taps } => axis::axis(g, n, inner, taps, true, out),
        SpatialLinearMap::Pick { indices, windows: Windows::Fixed(s) } => {
            // The extent of a dilated window equals that of a larger window without dilation.
            let kernel = [0, 1, 2].map(|a| s.dilation[a] * (s.kernel[a] - 1) + 1);
            let s = PoolShape { kernel, ..s };
            run(&PLACE, &s, windows(&s), None, g, out, Some((indices, false)), count)
        }
        SpatialLinearMap::Pick { indices, windows: Windows::Shares(s) } => {
            run(&PLACE_SHARES, &resized(s), shares(&s), None, g, out, Some((indices, false)), count)
        }
    }
}

/// Runs a function for `count` results, each of which needs `loops` iterations.
fn run(
    f: &Function,
    s: &PoolShape,
    loops: usize,
    divisor: Option<Divisor>,
    x: View,
    out: View,
    indices: Option<(View, bool)>,
    count: usize,
) -> Result<()> {
    if out.layout.numel() == 0 || count == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    gpu.expect("pooling", out.dtype)?;
    expect_loops(gpu, "pooling", loops)?;
    let views: SmallVec<[View; 3]> = [out, x].into_iter().chain(indices.map(|i| i.0)).collect();
    by_rows(gpu, "pooling", s.planes, &views, &mut |planes, v| {
        let indices = v.get(2).zip(indices).map(|(v, (_, written))| (*v, written));
        launch(f, s, divisor, v[1], v[0], indices, count / s.planes * planes)
    })
}

/// As `run`, for planes that fit in bindings.
fn launch(
    f: &Function,
    s: &PoolShape,
    divisor: Option<Divisor>,
    x: View,
    out: View,
    indices: Option<(View, bool)>,
    count: usize,
) -> Result<()> {
    let gpu = of(out)?;
    let mut params = Params::new(count as u32);
    params.u32(x.layout.offset as u32).u32(out.layout.offset as u32);
    params.u32(indices.map_or(0, |(v, _)| v.layout.offset) as u32);
    let (number, how) = match divisor {
        Some(Divisor::WithPadding) => (1.0, 1),
        Some(Divisor::WithoutPadding) => (1.0, 2),
        Some(Divisor::Fixed(n)) => (n as f32, 0),
        None => (1.0, 0),
    };
    params.f32(number).u32(how).u32(0);
    for sizes in [s.input, s.kernel, s.output, s.stride, s.padding, s.dilation] {
        params.sizes(sizes);
    }
    let source = || {
        let kind = stored(out.dtype);
        let mut bindings = binding(1, "read_write", "result", kind);
        match indices {
            Some((_, true)) => {
                bindings += &binding(2, "read_write", "indices", "vec2<u32>");
                bindings += &binding(3, "read", "x", kind);
            }
            Some((_, false)) => {
                bindings += &binding(2, "read", "x", kind);
                bindings += &binding(3, "read", "indices", "vec2<u32>");
            }
            None => bindings += &binding(2, "read", "x", kind),
        }
        let call = format!("    {}(i);\n", f.name);
        let slots = [("bindings", &*bindings), ("call", &*call)];
        template::shader(FRAME, out.dtype, &slots).map_err(Error::NotImplemented)
    };
    let all = [out, indices.map_or(out, |(v, _)| v), x, indices.map_or(out, |(v, _)| v)];
    let (written, read) = match indices {
        Some((_, true)) => (&all[..2], &all[2..3]),
        Some((_, false)) => (&all[..1], &all[2..]),
        None => (&all[..1], &all[2..3]),
    };
    gpu.launch(Launch {
        op: "pooling",
        kernel: "pool",
        variant: &[f.tag, out.dtype as u8],
        source: &source,
        written,
        read,
        params: &params,
        groups: count.div_ceil(GROUP),
    })
}
