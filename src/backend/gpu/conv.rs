//! The three products of a convolution, read where the operands lie.

use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use super::reduce;
use super::temporary::Temporary;
use crate::backend::View;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::copy::fill;
use crate::backend::reduce::{Along, Fold};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};

const FRAME: &str = include_str!("../../../shaders/conv.wgsl");

/// Invocations in a workgroup.
const GROUP: usize = 64;
/// Channels that an invocation computes.
const BLOCK: usize = 4;
/// Invocations that keep a device busy.
const BUSY: usize = 1 << 13;

/// The product of `a` and `b`, and a bias for an output; see `backend::conv`.
pub fn product(which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    if a.layout.numel() == 0 || b.layout.numel() == 0 {
        // A sum of nothing; an output of nothing still has its bias, which nobody asks for.
        return fill(out, Scalar::Int(0));
    }
    let elements = out.layout.numel();
    let plane = |sizes: [usize; 3]| sizes.iter().product::<usize>();
    let blocks =
        |channels: usize, sizes| s.n * s.groups * (channels / s.groups).div_ceil(BLOCK) * plane(sizes);
    match which {
        Product::Output => run(which, s, a, b, bias, out, blocks(s.c_out, s.output), 1),
        Product::Input => run(which, s, a, b, None, out, blocks(s.c_in, s.input), 1),
        Product::Weight => {
            let segments = (BUSY / elements).clamp(1, s.n);
            if segments == 1 {
                return run(which, s, a, b, None, out, elements, 1);
            }
            let partial = Temporary::new(of(out)?, elements * segments, out.dtype)?;
            run(which, s, a, b, None, partial.view(), elements * segments, segments)?;
            reduce::fold(Fold::Sum, partial.view(), Along { outer: 1, n: segments, inner: elements }, out)
        }
    }
}

fn run(
    which: Product,
    s: &ConvShape,
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
    count: usize,
    segments: usize,
) -> Result<()> {
    let gpu = of(out)?;
    gpu.expect("convolution", out.dtype)?;
    let mut params = Params::new(count as u32);
    for v in [s.n, s.c_in / s.groups, s.c_out / s.groups, s.groups, segments] {
        params.u32(v as u32);
    }
    for v in [Some(a), Some(b), bias, Some(out)] {
        params.u32(v.map_or(0, |v| v.layout.offset) as u32);
    }
    params.u32(0);
    for sizes in [s.input, s.kernel, s.output, s.stride, s.padding, s.dilation] {
        params.sizes(sizes);
    }
    let source = || {
        let kind = stored(out.dtype);
        let mut bindings = binding(1, "read_write", "result", kind);
        bindings += &binding(2, "read", "a", kind);
        bindings += &binding(3, "read", "b", kind);
        let mut bias_of = "fn bias_of(channel: u32) -> T { return T(0); }\n";
        if bias.is_some() {
            bindings += &binding(4, "read", "bias", kind);
            bias_of = "fn bias_of(channel: u32) -> T { return bias[params.first_bias + channel]; }\n";
        }
        let call = match which {
            Product::Output => "    output_of(i);\n",
            Product::Input => "    input_of(i);\n",
            Product::Weight => "    weight_of(i);\n",
        };
        let slots = [("bindings", &*bindings), ("bias", bias_of), ("call", call)];
        template::shader(FRAME, out.dtype, &slots).map_err(Error::NotImplemented)
    };
    let read = [a, b, bias.unwrap_or(b)];
    gpu.launch(Launch {
        op: "convolution",
        kernel: "conv",
        variant: &[which as u8, out.dtype as u8, bias.is_some() as u8],
        source: &source,
        written: &[out],
        read: &read[..2 + bias.is_some() as usize],
        params: &params,
        groups: count.div_ceil(GROUP),
    })
}
