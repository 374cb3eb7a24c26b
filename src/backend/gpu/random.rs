//! Random numbers: uniform numbers, integers and masks are bit-identical to the CPU's; normal numbers agree within a
//! few ulp.

use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use super::window::{BufferWindow, excess, fits, halves, rows_of, too_large};
use crate::backend::View;
use crate::backend::copy::fill as fill_with;
use crate::backend::random::{Draw, Philox};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::template::{self, binding};
use crate::layout::Layout;
use crate::storage::Storage;

const FRAME: &str = crate::formula::shader_text!("random.wgsl");

/// Invocations per workgroup.
const GROUP: usize = 64;

/// Sets every element of a dense view.
pub fn fill(draw: Draw, p: Philox, out: View) -> Result<()> {
    let n = out.layout.numel();
    if n == 0 {
        return Ok(());
    }
    if let Draw::Bernoulli(prob) = draw
        && prob >= 1.0
    {
        return fill_with(out, Scalar::Int(1));
    }
    let span = if let Draw::Integers(from, to) = draw { to.wrapping_sub(from) as u64 } else { 0 };
    let real = matches!(draw, Draw::Uniform(..) | Draw::Normal(..) | Draw::Exponential(_));
    if (real && out.dtype != DType::F32) || span > 1 << 32 {
        // The adapter lacks the type, but random numbers need no input, so the host can draw the same numbers.
        let host = Storage::new(n * out.dtype.size())?;
        let layout = Layout::contiguous(out.layout.shape.clone());
        let made = View { storage: &host, layout: &layout, dtype: out.dtype };
        crate::backend::random::fill(draw, p, made)?;
        return super::copy::upload(made, out);
    }
    let per_block = if let Draw::Integers(..) = draw { 2 } else { 4 };
    let gpu = of(out)?;
    if !fits(gpu, &[out]) {
        let Some(bytes) = excess(gpu, &out) else {
            return fill(draw, p, BufferWindow::new(gpu, &out)?.view());
        };
        // Pieces start at a block boundary; a piece smaller than a block needs a window of its own.
        for (start, length) in halves(n) {
            if !start.is_multiple_of(per_block) {
                return Err(too_large(gpu, "random", bytes));
            }
            let layout = rows_of(&out, n, (start, length));
            let p = Philox { offset: p.offset + (start / per_block) as u64, ..p };
            fill(draw, p, View { layout: &layout, ..out })?;
        }
        return Ok(());
    }
    let count = n.div_ceil(per_block);
    let halves = |v: u64| [v as u32, (v >> 32) as u32];
    let (first, numbers, low) = match draw {
        Draw::Uniform(from, to) => (out.layout.offset, [from as f32, to as f32], 0),
        Draw::Normal(mean, std) => (out.layout.offset, [mean as f32, std as f32], 0),
        Draw::Exponential(rate) => (out.layout.offset, [rate as f32, 0.0], 0),
        // The threshold is an integer, passed as its bits.
        Draw::Bernoulli(prob) => {
            (out.layout.offset / 4, [f32::from_bits((prob * 4294967296.0) as u32), 0.0], 0)
        }
        Draw::Integers(from, _) => (out.layout.offset, [0.0; 2], from as u64),
    };
    let mut params = Params::new(count as u32);
    params.u32(n as u32).u32(first as u32);
    for word in halves(p.seed).into_iter().chain(halves(p.offset)) {
        params.u32(word);
    }
    params.f32(numbers[0]).f32(numbers[1]);
    for word in halves(low).into_iter().chain(halves(span)) {
        params.u32(word);
    }
    let source = || {
        let store = |values: &str| {
            format!(
                "    let v = {values};
    for (var i = 0u; i < {per_block}u && block * {per_block}u + i < params.n; i++) {{
        result[params.first + block * {per_block}u + i] = v[i];
    }}
"
            )
        };
        let each = |f: &str| format!("vec4<f32>({f}(w.x), {f}(w.y), {f}(w.z), {f}(w.w))");
        let (element, store) = match draw {
            Draw::Uniform(..) => ("f32", store(&each("uniform_of"))),
            Draw::Exponential(_) => ("f32", store(&each("exponential_of"))),
            Draw::Normal(..) => (
                "f32",
                store("params.p + params.q * vec4<f32>(normals_of(w.x, w.y), normals_of(w.z, w.w))"),
            ),
            // A block gives one word of bytes; bytes after the last element are padding.
            Draw::Bernoulli(_) => (
                "u32",
                "    let hits = select(vec4<u32>(0u), vec4<u32>(1u, 0x100u, 0x10000u, 0x1000000u), w < vec4<u32>(bitcast<u32>(params.p)));
    result[params.first + block] = hits.x | hits.y | hits.z | hits.w;
"
                .into(),
            ),
            Draw::Integers(..) => (
                "vec2<u32>",
                store("array<vec2<u32>, 2>(integer_of(w.x, w.y), integer_of(w.z, w.w))"),
            ),
        };
        let bindings = binding(1, "read_write", "result", element);
        let slots = [("bindings", &*bindings), ("store", &*store)];
        template::shader(FRAME, DType::F32, &slots).map_err(Error::NotImplemented)
    };
    let tag = match draw {
        Draw::Uniform(..) => 0,
        Draw::Normal(..) => 1,
        Draw::Exponential(_) => 2,
        Draw::Bernoulli(_) => 3,
        Draw::Integers(..) => 4,
    };
    gpu.launch(Launch {
        op: "random",
        kernel: "random",
        variant: &[tag],
        source: &source,
        written: &[out],
        read: &[],
        params: &params,
        groups: count.div_ceil(GROUP),
    })
}
