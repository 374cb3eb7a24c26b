//! A convolution as an implicit matrix product, tile by tile through workgroup memory; neither matrix is materialized.
//!
//! Note [Matrices of a convolution] For an output, and for the gradient of an input, there is a row per channel and a
//! column per position of all images; the depth is taps times channels, with channels varying fastest, so that
//! adjacent indices along the depth share a tap. For the gradient of a weight, there is a column per channel within
//! each tap, and the depth is the positions of all images, which may be split. The groups of a convolution are a
//! batch.
//!
//! The columns of a thread do not change along the depth, so their coordinates are computed once.

use std::fmt::Write;

use super::super::device::{Gpu, of};
use super::super::matmul::tiled::{DEPTH, block_of, render};
use super::super::params::Params;
use super::super::pipeline::Launch;
use super::super::reduce;
use super::super::workspace::Workspace;
use super::render::geometry;
use super::{BUSY, SEGMENT};
use crate::backend::View;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::error::Result;
use crate::formula::template::{binding, line};

/// Threads per workgroup.
const THREADS: usize = 256;

/// Rows, columns and depth of the product for one group of channels.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Channels per tap.
    channels: usize,
}

impl Sizes {
    pub fn of(which: Product, s: &ConvShape) -> Sizes {
        let [input, output, taps] = [s.input, s.output, s.kernel].map(|v| v.iter().product::<usize>());
        let (c_in, c_out) = (s.c_in / s.groups, s.c_out / s.groups);
        let (m, n, k, channels) = match which {
            Product::Output => (c_out, s.n * output, taps * c_in, c_in),
            Product::Input => (c_in, s.n * input, taps * c_out, c_out),
            Product::Weight => (c_out, taps * c_in, s.n * output, c_in),
        };
        Sizes { m, n, k, channels }
    }

    /// The number of workgroups for tiles of the given side.
    pub fn tiles(&self, groups: usize, side: usize) -> usize {
        groups * self.m.div_ceil(side) * self.n.div_ceil(side)
    }
}

/// The product of `a` and `b` with tiles of side 64 or 128.
pub fn run(
    which: Product,
    s: &ConvShape,
    side: usize,
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
) -> Result<()> {
    let gpu = of(out)?;
    let sizes = Sizes::of(which, s);
    let most = if which == Product::Weight { sizes.k / SEGMENT } else { 1 };
    let segments = (BUSY / (sizes.tiles(s.groups, side) * THREADS)).min(most).max(1);
    let depth = sizes.k.div_ceil(segments).next_multiple_of(DEPTH);
    let segments = sizes.k.div_ceil(depth);
    let call = Call { which, s, sizes, side, segments, depth };
    if segments == 1 {
        return call.launch(gpu, a, b, bias, out);
    }
    let elements = out.layout.numel();
    let partial = Workspace::new(gpu, elements * segments, out.dtype)?;
    call.launch(gpu, a, b, None, partial.view())?;
    let along = ReduceDims { outer: s.groups, n: segments, inner: elements / s.groups };
    reduce::fold(ReduceOp::Sum, partial.view(), along, out)
}

struct Call<'a> {
    which: Product,
    s: &'a ConvShape,
    sizes: Sizes,
    side: usize,
    segments: usize,
    depth: usize,
}

impl Call<'_> {
    fn launch(&self, gpu: &Gpu, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
        gpu.expect("convolution", out.dtype)?;
        let (s, Sizes { m, n, k, channels }) = (self.s, self.sizes);
        let [input, output, taps] = [s.input, s.output, s.kernel].map(|v| v.iter().product::<usize>());
        // The left matrix and its elements per group; the right matrix and its elements per group and per image.
        let (left, right, of_left, of_right) = match self.which {
            Product::Output => (b, a, m * k, channels * input),
            Product::Input => (b, a, m * k, channels * output),
            Product::Weight => (a, b, m * output, channels * input),
        };
        let (w_row, w_depth) = match self.which {
            Product::Input => (taps, m * taps),
            _ => (channels * taps, taps),
        };
        let (rows, strips) = (m.div_ceil(self.side), n.div_ceil(self.side));
        let count = s.groups * self.segments * strips * rows;
        let mut params = Params::new(count as u32);
        for v in [m, n, k, rows, 1, strips, self.segments, self.depth] {
            params.u32(v as u32);
        }
        for (v, of_group) in [(left, of_left), (right, of_right)] {
            // The shader does not use the strides of matrices.
            params.u32(v.layout.offset as u32).u32(of_group as u32).u32(0).u32(0);
        }
        params.u32(bias.map_or(0, |v| v.layout.offset) as u32).u32(0).u32(out.layout.offset as u32);
        for v in [channels, s.groups, w_row, w_depth] {
            params.u32(v as u32);
        }
        for sizes in [s.input, s.kernel, s.output, s.stride, s.padding, s.dilation] {
            params.sizes(sizes);
        }
        let read = [left, right, bias.unwrap_or(right)];
        gpu.launch(Launch {
            op: "convolution",
            kernel: "conv_tiled",
            variant: &[self.which as u8, bias.is_some() as u8, self.side as u8],
            source: &|| self.source(bias.is_some(), out),
            written: &[out],
            read: &read[..2 + bias.is_some() as usize],
            params: &params,
            groups: count,
        })
    }

    fn source(&self, bias: bool, out: View) -> Result<String> {
        let mut bindings = binding(1, "read_write", "result", "f32");
        bindings += &binding(2, "read", "a", "f32");
        bindings += &binding(3, "read", "b", "f32");
        // The bias is per channel, which is a row of the product, so columns have none.
        let mut bias_of =
            "fn bias_of(column: u32) -> T { return T(0); }\nfn bias_of_row(row: u32) -> T { return T(0); }\n";
        if bias {
            bindings += &binding(4, "read", "bias", "f32");
            bias_of = "fn bias_of(column: u32) -> T { return T(0); }
fn bias_of_row(row: u32) -> T { return bias[params.first_bias + row]; }
";
        }
        let (load, write, prepare) = match self.which {
            Product::Output | Product::Input => (positions(self.which), WRITE_POSITIONS, prepare_positions()),
            Product::Weight => (channels(), WRITE_CHANNELS, prepare_channels()),
        };
        let slots = [
            ("bindings", &*bindings),
            ("bias", bias_of),
            ("fields", FIELDS),
            ("geometry", &*geometry(self.which).concat()),
            ("write", write),
        ];
        render(out.dtype, self.side, &[("load", &*load), ("prepare", &*prepare)], &slots)
    }
}

const FIELDS: &str = "    // Channels within a tap, and where a row and a channel stand in the weight.
    channels: u32,
    groups: u32,
    w_row: u32,
    w_depth: u32,
    // Sizes of the last three dimensions; w is not used.
    input: vec4<u32>,
    kernel: vec4<u32>,
    output: vec4<u32>,
    stride: vec4<u32>,
    padding: vec4<u32>,
    dilation: vec4<u32>,
";

const WRITE_POSITIONS: &str = "fn write(group: u32, row: u32, column: u32, v: vec4<T>) {
    if row >= params.m { return; }
    let plane = volume(size_of_result());
    let channel = group * params.m + row;
    let bias = bias_of_row(channel);
    let image = quotient(column, plane);
    var at = column - image * plane;
    var to = params.first_result + (image * params.groups * params.m + channel) * plane;
    for (var i = 0u; i < 4u && column + i < params.n; i++) {
        result[to + at] = v[i] + bias;
        at++;
        if at == plane {
            at = 0u;
            to += params.groups * params.m * plane;
        }
    }
}
";

const WRITE_CHANNELS: &str = "fn write(part: u32, row: u32, column: u32, v: vec4<T>) {
    if row >= params.m { return; }
    var tap = quotient(column, params.channels);
    var channel = column - tap * params.channels;
    let to = params.first_result + (part * params.m + row) * params.n;
    for (var i = 0u; i < 4u && column + i < params.n; i++) {
        result[to + channel * volume(params.kernel) + tap] = v[i];
        channel++;
        if channel == params.channels {
            channel = 0u;
            tap++;
        }
    }
}
";

/// The functions that give the block that a thread loads; `left` and `right` say whether adjacent elements are along
/// the depth.
fn blocks(left: bool, right: bool) -> String {
    let block = |name, along| {
        format!("fn {name}_block(i: u32) -> vec2<u32> {{ return vec2<u32>({}); }}\n", block_of(along))
    };
    block("a", left) + &block("b", right)
}

/// Four lines.
fn four(t: &mut String, text: impl Fn(usize) -> String) {
    (0..4).for_each(|i| line(t, text(i)));
}

/// A list of four expressions.
fn list(text: impl Fn(usize) -> String) -> String {
    [0, 1, 2, 3].map(text).join(", ")
}

/// The loads of weights, and of source elements at the four positions of a thread.
fn positions(which: Product) -> String {
    let mut t = blocks(which == Product::Output, false);
    four(&mut t, |i| format!("var<private> at{i}: vec3<u32>;\nvar<private> image{i}: u32;"));
    t += "fn load_a(start: u32, side: u32, k: u32) -> mat4x4<T> {
    var v = mat4x4<T>();
    var tap = quotient(k, params.channels);
    var channel = k - tap * params.channels;
";
    four(&mut t, |i| format!("    let p{i} = start + inside(side + {i}u, params.m) * params.w_row;"));
    for d in 0..4 {
        let loads = list(|i| format!("a[p{i} + w{d}]"));
        let _ = write!(
            t,
            "    let w{d} = channel * params.w_depth + tap;
    if k + {d}u < params.k {{ v[{d}] = vec4<T>({loads}); }}
    channel++;
    if channel == params.channels {{
        channel = 0u;
        tap++;
    }}
"
        );
    }
    t += "    return v;
}
fn load_b(start: u32, side: u32, k: u32) -> mat4x4<T> {
    var v = mat4x4<T>();
    if k >= params.k { return v; }
    let plane = volume(size_of_source());
    var t = quotient(k, params.channels);
    var channel = k - t * params.channels;
    var tap = split(t, params.kernel);
";
    four(&mut t, |i| format!("    var s{i} = source(at{i}, tap);"));
    for d in 0..4 {
        let loads = list(|i| format!("b[p{d} + image{i} + s{i}.place]"));
        let there = list(|i| format!("s{i}.there"));
        let sources = [0, 1, 2, 3].map(|i| format!("        s{i} = source(at{i}, tap);")).join("\n");
        let _ = write!(
            t,
            "    if k + {d}u >= params.k {{ return v; }}
    let p{d} = start + channel * plane;
    v[{d}] = select(vec4<T>(), vec4<T>({loads}), vec4<bool>({there}));
    channel++;
    if channel == params.channels {{
        channel = 0u;
        t++;
        tap = split(t, params.kernel);
{sources}
    }}
"
        );
    }
    t + "    return v;\n}\n"
}

/// The coordinates and images of the four positions of a thread.
fn prepare_positions() -> String {
    let mut t = String::from(
        "    let first = column + b_block(thread & 127u).x * 4u;
    let plane = volume(size_of_result());
    let of_image = params.groups * params.channels * volume(size_of_source());
",
    );
    four(&mut t, |i| {
        format!(
            "    let c{i} = inside(first + {i}u, params.n);
    let n{i} = quotient(c{i}, plane);
    image{i} = n{i} * of_image;
    at{i} = split(c{i} - n{i} * plane, size_of_result());"
        )
    });
    t
}

/// The loads of the output gradient, and of input elements at the four channels and taps of a thread.
fn channels() -> String {
    let mut t = blocks(true, true);
    four(&mut t, |i| format!("var<private> tap{i}: vec3<u32>;\nvar<private> channel{i}: u32;"));
    t += "fn load_a(start: u32, side: u32, k: u32) -> mat4x4<T> {
    var v = mat4x4<T>();
    let plane = volume(params.output);
    let of_image = params.groups * params.m * plane;
    let image = quotient(k, plane);
    var at = k - image * plane;
    var from_image = start + image * of_image;
";
    four(&mut t, |i| format!("    let p{i} = inside(side + {i}u, params.m) * plane;"));
    for d in 0..4 {
        let loads = list(|i| format!("a[from_image + p{i} + at]"));
        let _ = write!(
            t,
            "    if k + {d}u >= params.k {{ return v; }}
    v[{d}] = vec4<T>({loads});
    at++;
    if at == plane {{
        at = 0u;
        from_image += of_image;
    }}
"
        );
    }
    t += "    return v;
}
// The position of the output after another; after the last, one that is not inside.
fn after(p: vec3<u32>) -> vec3<u32> {
    if p.z + 1u < params.output.z { return vec3<u32>(p.x, p.y, p.z + 1u); }
    if p.y + 1u < params.output.y { return vec3<u32>(p.x, p.y + 1u, 0u); }
    return vec3<u32>(p.x + 1u, 0u, 0u);
}
fn load_b(start: u32, side: u32, k: u32) -> mat4x4<T> {
    var v = mat4x4<T>();
    let plane = volume(params.output);
    let of_image = params.groups * params.channels * volume(params.input);
    let image = quotient(k, plane);
    var at = split(k - image * plane, params.output);
    var from_image = start + image * of_image;
";
    for d in 0..4 {
        four(&mut t, |i| format!("    let s{d}{i} = source(at, tap{i});"));
        let loads = list(|i| format!("b[from_image + channel{i} + s{d}{i}.place]"));
        let there = list(|i| format!("s{d}{i}.there"));
        let _ = write!(
            t,
            "    if k + {d}u >= params.k {{ return v; }}
    v[{d}] = select(vec4<T>(), vec4<T>({loads}), vec4<bool>({there}));
    at = after(at);
    if at.x == params.output.x {{
        at.x = 0u;
        from_image += of_image;
    }}
"
        );
    }
    t + "    return v;\n}\n"
}

/// The coordinates of the four channels of a thread, and their taps.
fn prepare_channels() -> String {
    let mut t = String::from("    let first = column + b_block(thread & 127u).x * 4u;\n");
    four(&mut t, |i| {
        format!(
            "    let c{i} = inside(first + {i}u, params.n);
    let t{i} = quotient(c{i}, params.channels);
    tap{i} = split(t{i}, params.kernel);
    channel{i} = (c{i} - t{i} * params.channels) * volume(params.input);"
        )
    });
    t
}
