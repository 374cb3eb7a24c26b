//! Normalization: in a single launch when the statistics are per lane; otherwise the elementwise part after the
//! statistics.

use std::sync::LazyLock;

use smallvec::SmallVec;

use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use super::pointwise::run;
use super::softmax::{GROUP, LONG, Walk, no_type};
use super::window::by_rows;
use crate::backend::View;
use crate::backend::norm::{Kind, Lanes, gradient, normalize, passed_back, reciprocal_deviation, terms};
use crate::backend::pointwise::{Kernel, Operand, Program, compute_type};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::record::record_all;
use crate::formula::template::{self, binding, stored};
use crate::formula::{Formula, recorded, wgsl};

const NORM: &str = crate::formula::shader_text!("norm.wgsl");

/// Maximum number of elements that one of a workgroup's threads sums sequentially; more would lose accuracy.
const MOST: usize = 2048;
/// Maximum number of elements in all lanes for which a software adapter uses one invocation per lane.
const SMALL: usize = 1 << 13;

/// The moving average of running statistics.
pub fn follow(old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> {
    let program = Program {
        name: "batch_norm",
        kernel: Kernel::NONE,
        formula: &|| recorded!(|a, p| a[0] * p[0] + a[1] * p[1]),
    };
    let numbers = [Scalar::Float(kept), Scalar::Float(taken)];
    run(&program, compute_type(out.dtype), &[Operand::View(old), Operand::View(new)], &numbers, out)
}

/// The WGSL functions of the formulas that the shader bodies call.
fn functions(compute: DType) -> String {
    let one = recorded!(|a| normalize(a[0], a[1], a[2], a[3]));
    static TERMS: LazyLock<Formula> =
        LazyLock::new(|| record_all(3, 0, |a, _| terms(a[0], a[1], a[2]).to_vec()));
    static PASSED_BACK: LazyLock<Formula> =
        LazyLock::new(|| record_all(4, 0, |a, _| passed_back([a[0], a[1]], a[2], a[3]).to_vec()));
    static GRADIENT: LazyLock<Formula> =
        LazyLock::new(|| record_all(6, 0, |a, _| vec![gradient(a[0], a[1], a[2], a[3], [a[4], a[5]])]));
    let deviation = recorded!(|a| reciprocal_deviation(a[0], a[1]));
    let all = [
        ("normalize", one),
        ("terms", &TERMS),
        ("passed_back", &PASSED_BACK),
        ("gradient", &GRADIENT),
        ("reciprocal_deviation", deviation),
    ];
    all.into_iter().map(|(name, f)| wgsl::function(name, f, compute)).collect()
}

/// A loop over a thread's elements of a lane; element `k` is at offset `i` from the lane's start.
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

/// The lanes that share statistics, if they are contiguous and one launch can process them.
pub fn lanes_of(kind: Kind, x: View) -> Result<Option<Lanes>> {
    let numel = x.layout.numel();
    let d = match kind {
        Kind::Layer { n } if n > 0 => Lanes { count: numel / n, n, inner: 1, groups: 1 },
        Kind::Group { n, c, inner, groups } => {
            Lanes { count: n * groups, n: c / groups * inner, inner, groups }
        }
        Kind::Layer { .. } | Kind::Batch { .. } => return Ok(None),
    };
    Ok((numel > 0 && in_lanes(x, d)?).then_some(d))
}

fn in_lanes(x: View, d: Lanes) -> Result<bool> {
    // On a software adapter, passes with wide loads are faster than lane by lane, except for their launch overhead.
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

/// As [`lanes`], with explicit choice of who processes a lane.
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
        s += "    let rstd = reciprocal_deviation(sum(square) / T(params.n), params.eps);
    if begin == 0u {
        means[params.first_mean + lane] = mean;
        rstds[params.first_rstd + lane] = rstd;
    }
";
        let scale = if scale { " * weight[params.first_weight + channel(origin, k)]" } else { "" };
        let shift = if shift { "bias[params.first_bias + channel(origin, k)]" } else { "T(0)" };
        s + &each(&format!(
            "result[params.first_result + i] = normalize(x[params.first + i], mean, rstd{scale}, {shift});"
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

/// As [`lanes_backward`], with explicit choice of who processes a lane.
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
        let slope = format!("let slope = g[params.first_gradient + i]{scale};\n        ");
        let mut s = String::from(
            "    let mean = means[params.first_mean + lane];
    let rstd = rstds[params.first_rstd + lane];
    var total = T(0);
    var total_product = T(0);
",
        );
        s += &each(&format!(
            "{slope}let pair = terms(slope, x[params.first + i], mean);
        total += pair.r0;
        total_product += pair.r1;"
        ));
        s += "    let back = passed_back(sum(total), sum(total_product), rstd, T(params.n));\n";
        s + &each(&format!(
            "{slope}result[params.first_result + i] = gradient(slope, x[params.first + i], mean, rstd, back.r0, back.r1);"
        ))
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
    // Split by samples, so that every piece starts with the first channel.
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
            // The forward pass writes the statistics, the backward pass reads them.
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
            let (body, functions) = (body(), functions(dtype));
            let slots = [
                ("bindings", &*bindings),
                ("together", together),
                ("channel", channel),
                ("formulas", &*functions),
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
