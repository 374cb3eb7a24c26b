//! Normalisation: in one launch where statistics are those of lanes; else what is left to do element by element once they
//! are known.

use smallvec::SmallVec;

use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use super::pointwise::formula;
use super::softmax::{GROUP, LONG, Walk, no_type};
use super::window::by_rows;
use crate::backend::View;
use crate::backend::norm::Lanes;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::formula::ARGS;
use crate::formula::record::{Prim, Step, Steps};
use crate::formula::template::{self, binding, stored};

const NORM: &str = crate::formula::shader_text!("norm.wgsl");

/// Elements that a thread of many sums one after the other: more lose digits.
const MOST: usize = 2048;
/// Elements of all lanes up to which software goes through them alone.
const SMALL: usize = 1 << 13;

pub fn normalize(x: View, mean: View, rstd: View, affine: [Option<View>; 2], out: View) -> Result<()> {
    let operands: SmallVec<[View; ARGS]> =
        [x, mean, rstd].into_iter().chain(affine.into_iter().flatten()).collect();
    let [scales, shifts] = affine.map(|v| v.is_some());
    let steps = || {
        let mut steps = vec![Step::Arg(0), Step::Arg(1), Step::Do(Prim::Sub, [0, 1, 0])];
        let then = [(true, Prim::Mul), (scales, Prim::Mul), (shifts, Prim::Add)];
        for (arg, (_, prim)) in then.into_iter().filter(|t| t.0).enumerate() {
            let before = steps.len() - 1;
            steps.push(Step::Arg(2 + arg));
            steps.push(Step::Do(prim, [before, before + 1, 0]));
        }
        steps
    };
    formula("normalize", scales as u8 | (shifts as u8) << 1, &steps, &operands, out)
}

pub fn centre(operands: [View; 5], out: View) -> Result<()> {
    let steps = || {
        let mut steps: Steps = (0..5).map(Step::Arg).collect();
        steps.extend([
            Step::Do(Prim::Mul, [2, 3, 0]),
            Step::Do(Prim::Sub, [0, 1, 0]),
            Step::Do(Prim::Sub, [6, 5, 0]),
            Step::Do(Prim::Mul, [7, 4, 0]),
        ]);
        steps
    };
    formula("centre", 0, &steps, &operands, out)
}

pub fn weight_terms(operands: [View; 4], out: View) -> Result<()> {
    let steps = || {
        let mut steps: Steps = (0..4).map(Step::Arg).collect();
        steps.extend([
            Step::Do(Prim::Sub, [1, 2, 0]),
            Step::Do(Prim::Mul, [4, 3, 0]),
            Step::Do(Prim::Mul, [5, 0, 0]),
        ]);
        steps
    };
    formula("weight_terms", 0, &steps, &operands, out)
}

/// A loop over a thread's elements of a lane, element `k` of which lies at `i` from the start.
fn each(what: &str) -> String {
    format!(
        "    for (var k = begin; k < params.n; k += STEP) {{
        let i = start + k;
        {what}
    }}
"
    )
}

fn walk(x: View, d: Lanes) -> Result<Walk> {
    let together = !of(x)?.caps.is_cpu && d.n >= LONG;
    Ok(if together { Walk::Together } else { Walk::Alone })
}

pub fn in_lanes(x: View, d: Lanes) -> Result<bool> {
    // On software, passes in wide words are faster than a lane's elements one by one, but for what starting them costs.
    let most = match walk(x, d)? {
        Walk::Together => GROUP * MOST,
        Walk::Alone if of(x)?.caps.is_cpu => SMALL / d.count,
        Walk::Alone => LONG,
    };
    Ok(d.n <= most)
}

pub fn lanes(x: View, affine: [Option<View>; 2], eps: f64, d: Lanes, out: [View; 3]) -> Result<()> {
    lanes_by(walk(x, d)?, x, affine, eps, d, out)
}

/// As [`lanes`], by a walk of choice.
pub fn lanes_by(
    walk: Walk,
    x: View,
    affine: [Option<View>; 2],
    eps: f64,
    d: Lanes,
    out: [View; 3],
) -> Result<()> {
    let [scale, shift] = affine.map(|v| v.is_some());
    let body = || {
        let mut s = String::from("    var total = T(0);\n");
        s += &each("total += x[params.first + i];");
        s += "    let mean = sum(total) / T(params.n);\n    var square = T(0);\n";
        s += &each("let centred = x[params.first + i] - mean;\n        square += centred * centred;");
        s += "    let rstd = T(1) / m_sqrt(sum(square) / T(params.n) + params.eps);
    if begin == 0u {
        means[params.first_mean + lane] = mean;
        rstds[params.first_rstd + lane] = rstd;
    }
";
        let scale = if scale { " * weight[params.first_weight + channel(origin, k)]" } else { "" };
        let shift = if shift { " + bias[params.first_bias + channel(origin, k)]" } else { "" };
        s + &each(&format!(
            "result[params.first_result + i] = (x[params.first + i] - mean) * rstd{scale}{shift};"
        ))
    };
    let [result, mean, rstd] = out;
    let tensors = Tensors { result, mean, rstd, x, g: None, weight: affine[0], bias: affine[1] };
    run_lanes("norm", walk, &body, eps, d, tensors)
}

pub fn lanes_backward(
    g: View,
    x: View,
    stats: [View; 2],
    weight: Option<View>,
    d: Lanes,
    out: View,
) -> Result<()> {
    lanes_backward_by(walk(x, d)?, g, x, stats, weight, d, out)
}

/// As [`lanes_backward`], by a walk of choice.
pub fn lanes_backward_by(
    walk: Walk,
    g: View,
    x: View,
    stats: [View; 2],
    weight: Option<View>,
    d: Lanes,
    out: View,
) -> Result<()> {
    let scale = if weight.is_some() { " * weight[params.first_weight + channel(origin, k)]" } else { "" };
    let body = || {
        let terms = format!(
            "let slope = g[params.first_gradient + i]{scale};
        let along = (x[params.first + i] - mean) * rstd;
        "
        );
        let mut s = String::from(
            "    let mean = means[params.first_mean + lane];
    let rstd = rstds[params.first_rstd + lane];
    var total = T(0);
    var total_along = T(0);
",
        );
        s += &each(&(terms.clone() + "total += slope;\n        total_along += slope * along;"));
        s += "    let shift = sum(total) / T(params.n);\n    let tilt = sum(total_along) / T(params.n);\n";
        s + &each(&(terms + "result[params.first_result + i] = (slope - shift - along * tilt) * rstd;"))
    };
    let tensors = Tensors { result: out, mean: stats[0], rstd: stats[1], x, g: Some(g), weight, bias: None };
    run_lanes("norm_backward", walk, &body, 0.0, d, tensors)
}

#[derive(Clone, Copy)]
struct Tensors<'a> {
    result: View<'a>,
    mean: View<'a>,
    rstd: View<'a>,
    x: View<'a>,
    g: Option<View<'a>>,
    weight: Option<View<'a>>,
    bias: Option<View<'a>>,
}

fn run_lanes(
    kernel: &'static str,
    walk: Walk,
    body: &dyn Fn() -> String,
    eps: f64,
    d: Lanes,
    t: Tensors,
) -> Result<()> {
    let (gpu, dtype) = (of(t.result)?, t.result.dtype);
    gpu.expect(kernel, dtype)?;
    let views: SmallVec<[View; 5]> = [t.result, t.mean, t.rstd, t.x].into_iter().chain(t.g).collect();
    // By samples, so that a piece begins with the first channel.
    by_rows(gpu, kernel, d.count / d.groups, &views, &mut |samples, v| {
        let t = Tensors { result: v[0], mean: v[1], rstd: v[2], x: v[3], g: v.get(4).copied(), ..t };
        let count = samples * d.groups;
        let first = |v: Option<View>| v.map_or(0, |v| v.layout.offset) as u32;
        let mut params = Params::new(count as u32);
        params.u32(d.n as u32).u32(d.inner as u32).u32(d.groups as u32);
        for v in [Some(t.x), Some(t.result), t.g, Some(t.mean), Some(t.rstd), t.weight, t.bias] {
            params.u32(first(v));
        }
        params.number(Scalar::Float(eps), dtype);
        let source = || {
            // Statistics are made on the way forward and read on the way back.
            let stats = if t.g.is_some() { "read" } else { "read_write" };
            let kind = stored(dtype);
            let mut bindings = binding(1, "read_write", "result", kind);
            bindings += &binding(2, stats, "means", kind);
            bindings += &binding(3, stats, "rstds", kind);
            let more = [
                (true, "x"),
                (t.g.is_some(), "g"),
                (t.weight.is_some(), "weight"),
                (t.bias.is_some(), "bias"),
            ];
            for (n, (_, name)) in more.iter().filter(|m| m.0).enumerate() {
                bindings += &binding(4 + n, "read", name, kind);
            }
            let channel = match d.inner {
                1 => "fn channel(origin: u32, k: u32) -> u32 { return origin + k; }\n",
                _ => {
                    "fn channel(origin: u32, k: u32) -> u32 { return origin + quotient(k, params.inner); }\n"
                }
            };
            let (place, together) = walk.slots();
            let body = body();
            let slots = [
                ("bindings", &*bindings),
                ("together", together),
                ("channel", channel),
                ("place", place),
                ("body", &*body),
            ];
            template::shader(NORM, dtype, &slots).map_err(|why| no_type(kernel, &why))
        };
        let forward = [t.result, t.mean, t.rstd];
        let mut read: SmallVec<[View; 6]> = SmallVec::new();
        if t.g.is_some() {
            read.extend([t.mean, t.rstd]);
        }
        read.push(t.x);
        read.extend([t.g, t.weight, t.bias].into_iter().flatten());
        let parts = t.weight.is_some() as u8 | (t.bias.is_some() as u8) << 1 | ((d.inner == 1) as u8) << 2;
        gpu.launch(Launch {
            op: kernel,
            kernel,
            variant: &[parts, walk as u8, dtype as u8],
            source: &source,
            written: if t.g.is_some() { &forward[..1] } else { &forward },
            read: &read,
            params: &params,
            groups: if walk == Walk::Together { count } else { count.div_ceil(GROUP) },
        })
    })
}
