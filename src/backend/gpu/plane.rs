//! Pooling and what undoes it.

use smallvec::SmallVec;

use super::axis;
use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use super::window::by_rows;
use crate::backend::View;
use crate::backend::plane::{Divisor, Map, PoolShape, ResizeShape};
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};

const FRAME: &str = crate::formula::shader_text!("pool.wgsl");

/// Invocations in a workgroup.
const GROUP: usize = 64;

/// A shader: the function that it calls.
struct Function {
    name: &'static str,
    tag: u8,
    text: &'static str,
}

const MAXIMUM: Function = Function {
    name: "maximum",
    tag: 0,
    text: "fn maximum(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let at = split(i - plane * output, params.output);
    let start = params.first + plane * volume(params.input);
    var best = -m_inf();
    var place = 0u;
    var found = false;
    let corner = origin(at);
    for (var d = 0u; d < params.kernel.x; d++) {
        for (var h = 0u; h < params.kernel.y; h++) {
            for (var w = 0u; w < params.kernel.z; w++) {
                let p = corner + vec3<u32>(d, h, w) * params.dilation.xyz;
                if !inside(p, params.input) { continue; }
                let j = join(p, params.input);
                let v = x[start + j];
                if v > best || is_nan(v) || !found {
                    best = v;
                    place = j;
                    found = true;
                }
            }
        }
    }
    result[params.first_result + i] = best;
    indices[params.first_index + i] = vec2<u32>(place, 0u);
}
",
};

const SHARES_MAXIMUM: Function = Function {
    name: "largest",
    tag: 7,
    text: "fn largest(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let s = share(split(i - plane * output, params.output));
    let start = params.first + plane * volume(params.input);
    var best = -m_inf();
    var place = join(s[0], params.input);
    for (var d = s[0].x; d < s[1].x; d++) {
        for (var h = s[0].y; h < s[1].y; h++) {
            for (var w = s[0].z; w < s[1].z; w++) {
                let j = join(vec3<u32>(d, h, w), params.input);
                let v = x[start + j];
                if v > best || is_nan(v) {
                    best = v;
                    place = j;
                }
            }
        }
    }
    result[params.first_result + i] = best;
    indices[params.first_index + i] = vec2<u32>(place, 0u);
}
",
};

const AVERAGE: Function = Function {
    name: "average",
    tag: 1,
    text: "fn average(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let at = split(i - plane * output, params.output);
    let start = params.first + plane * volume(params.input);
    var sum = T(0);
    let corner = origin(at);
    for (var d = 0u; d < params.kernel.x; d++) {
        for (var h = 0u; h < params.kernel.y; h++) {
            for (var w = 0u; w < params.kernel.z; w++) {
                let p = corner + vec3<u32>(d, h, w);
                if inside(p, params.input) { sum += x[start + join(p, params.input)]; }
            }
        }
    }
    result[params.first_result + i] = mean_of(sum, at);
}
",
};

const AVERAGE_ADJOINT: Function = Function {
    name: "spread",
    tag: 2,
    text: "fn spread(i: u32) {
    let input = volume(params.input);
    let plane = quotient(i, input);
    let at = split(i - plane * input, params.input);
    let start = params.first + plane * volume(params.output);
    var sum = T(0);
    let d = covering(at.x, 0u);
    let h = covering(at.y, 1u);
    let w = covering(at.z, 2u);
    for (var o = vec3<u32>(d.x, h.x, w.x); o.x < d.y; o.x++) {
        for (o.y = h.x; o.y < h.y; o.y++) {
            for (o.z = w.x; o.z < w.y; o.z++) { sum += mean_of(x[start + join(o, params.output)], o); }
        }
    }
    result[params.first_result + i] = sum;
}
",
};

const SHARES: Function = Function {
    name: "shares",
    tag: 3,
    text: "fn shares(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let s = share(split(i - plane * output, params.output));
    let start = params.first + plane * volume(params.input);
    var sum = T(0);
    for (var d = s[0].x; d < s[1].x; d++) {
        for (var h = s[0].y; h < s[1].y; h++) {
            for (var w = s[0].z; w < s[1].z; w++) {
                sum += x[start + join(vec3<u32>(d, h, w), params.input)];
            }
        }
    }
    let size = s[1] - s[0];
    result[params.first_result + i] = sum / T(size.x * size.y * size.z);
}
",
};

const SHARES_ADJOINT: Function = Function {
    name: "gathered",
    tag: 4,
    text: "fn gathered(i: u32) {
    let input = volume(params.input);
    let plane = quotient(i, input);
    let at = split(i - plane * input, params.input);
    let start = params.first + plane * volume(params.output);
    let first = vec3<u32>(
        quotient(at.x * params.output.x, params.input.x),
        quotient(at.y * params.output.y, params.input.y),
        quotient(at.z * params.output.z, params.input.z),
    );
    var sum = T(0);
    for (var d = first.x; d < params.output.x && share_start(d, 0u) <= at.x; d++) {
        for (var h = first.y; h < params.output.y && share_start(h, 1u) <= at.y; h++) {
            for (var w = first.z; w < params.output.z && share_start(w, 2u) <= at.z; w++) {
                let o = vec3<u32>(d, h, w);
                let s = share(o);
                let size = s[1] - s[0];
                if all(at < s[1]) { sum += x[start + join(o, params.output)] / T(size.x * size.y * size.z); }
            }
        }
    }
    result[params.first_result + i] = sum;
}
",
};

const PICK: Function = Function {
    name: "pick",
    tag: 5,
    text: "fn pick(i: u32) {
    let plane = quotient(i, params.output.z);
    result[params.first_result + i] = x[params.first + plane * params.input.z + indices[params.first_index + i].x];
}
",
};

// Several results may have picked one element: a plane is one invocation's, and the order that of the results.
const PLACE: Function = Function {
    name: "put",
    tag: 6,
    text: "fn put(i: u32) {
    let start = params.first_result + i * params.input.z;
    for (var k = 0u; k < params.input.z; k++) { result[start + k] = T(0); }
    for (var o = 0u; o < params.output.z; o++) {
        let result_at = i * params.output.z + o;
        result[start + indices[params.first_index + result_at].x] += x[params.first + result_at];
    }
}
",
};

pub fn max_pool(s: &PoolShape, x: View, out: View, indices: View) -> Result<()> {
    run(&MAXIMUM, s, None, x, out, Some((indices, true)), out.layout.numel())
}

pub fn adaptive_max_pool(s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> {
    run(&SHARES_MAXIMUM, &resized(*s), None, x, out, Some((indices, true)), out.layout.numel())
}

/// A plane that is shared out, as windows.
fn resized(s: ResizeShape) -> PoolShape {
    PoolShape {
        planes: s.planes,
        input: s.input,
        output: s.output,
        kernel: [1; 3],
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1; 3],
    }
}

fn flat(planes: usize, input: usize, output: usize) -> PoolShape {
    resized(ResizeShape { planes, input: [1, 1, input], output: [1, 1, output] })
}

pub fn forward(map: &Map, x: View, out: View) -> Result<()> {
    let count = out.layout.numel();
    match *map {
        Map::Average(s, divisor) => run(&AVERAGE, &s, Some(divisor), x, out, None, count),
        Map::AdaptiveAverage(s) => run(&SHARES, &resized(s), None, x, out, None, count),
        Map::Nearest(s, scales) => axis::nearest(&s, scales, x, false, out),
        Map::Axis { n, inner, taps } => axis::axis(x, n, inner, taps, false, out),
        Map::Pick { indices, input, output } => {
            let planes = count.checked_div(output).unwrap_or(0);
            run(&PICK, &flat(planes, input, output), None, x, out, Some((indices, false)), count)
        }
    }
}

pub fn adjoint(map: &Map, g: View, out: View) -> Result<()> {
    let count = out.layout.numel();
    match *map {
        Map::Average(s, divisor) => run(&AVERAGE_ADJOINT, &s, Some(divisor), g, out, None, count),
        Map::AdaptiveAverage(s) => run(&SHARES_ADJOINT, &resized(s), None, g, out, None, count),
        Map::Nearest(s, scales) => axis::nearest(&s, scales, g, true, out),
        Map::Axis { n, inner, taps } => axis::axis(g, n, inner, taps, true, out),
        Map::Pick { indices, input, output } => {
            let planes = count.checked_div(input).unwrap_or(0);
            run(&PLACE, &flat(planes, input, output), None, g, out, Some((indices, false)), planes)
        }
    }
}

fn run(
    f: &Function,
    s: &PoolShape,
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
    let views: SmallVec<[View; 3]> = [out, x].into_iter().chain(indices.map(|i| i.0)).collect();
    by_rows(gpu, "pooling", s.planes, &views, &mut |planes, v| {
        let indices = v.get(2).zip(indices).map(|(v, (_, written))| (*v, written));
        launch(f, s, divisor, v[1], v[0], indices, count / s.planes * planes)
    })
}

/// As `run`, of planes that a kernel may see.
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
        let slots = [("bindings", &*bindings), ("functions", f.text), ("call", &*call)];
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
