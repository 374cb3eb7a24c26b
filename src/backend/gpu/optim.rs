//! Steps of optimizers: a launch for as many parameters as its bindings and parameters hold.

use smallvec::SmallVec;

use super::device::{Gpu, of};
use super::params::{MAX_PARAMS, Params};
use super::pipeline::Launch;
use super::window::{by_rows, fits};
use crate::backend::View;
use crate::backend::optim::{NUMBERS, Part, Rule, Shared};
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, line};

const FRAME: &str = crate::formula::shader_text!("optim.wgsl");

/// Invocations in a workgroup.
const GROUP: usize = 64;
/// Bytes of parameters before those of the parts, and of each part.
const HEAD: usize = 64;
const EACH: usize = 32;
/// On a software adapter every invocation goes through the code of all parts, so that only small ones share a launch.
const SMALL_CPU: usize = 1 << 10;

/// Applies a rule to dense float32 tensors.
pub fn step(rule: Rule, shared: Shared, parts: &[Part]) -> Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    let gpu = of(first.written[0])?;
    let tensors = first.written.len() + first.gradient.is_some() as usize;
    let others = shared.factor.is_some() as usize + shared.found.is_some() as usize;
    let views: SmallVec<[View; 16]> = parts.iter().flat_map(views).collect();
    if !fits(gpu, &views) {
        return parts.iter().try_for_each(|p| in_pieces(gpu, rule, shared, p));
    }
    let most = ((gpu.caps.max_buffers - others) / tensors).clamp(1, (MAX_PARAMS - HEAD) / EACH);
    for quads in [true, false] {
        let alike = |p: &&Part| count(p) > 0 && is_in_quads(p) == quads;
        let of_form: SmallVec<[&Part; 16]> = parts.iter().filter(alike).collect();
        let is_large = |p: &Part| gpu.caps.is_cpu && count(p) > SMALL_CPU;
        for part in of_form.iter().filter(|p| is_large(p)) {
            launch(gpu, rule, shared, &[part], quads)?;
        }
        let rest: SmallVec<[&Part; 16]> = of_form.iter().filter(|p| !is_large(p)).copied().collect();
        rest.chunks(most).try_for_each(|some| launch(gpu, rule, shared, some, quads))?;
    }
    Ok(())
}

/// A step of a parameter whose tensors may be larger than a kernel may see at once: some elements after others.
fn in_pieces(gpu: &'static Gpu, rule: Rule, shared: Shared, p: &Part) -> Result<()> {
    let all: SmallVec<[View; 6]> = views(p).collect();
    by_rows(gpu, "optimizer", count(p).max(1), &all, &mut |_, v| {
        let (gradient, written) = v.split_at(p.gradient.is_some() as usize);
        let part = Part { gradient: gradient.first().copied(), written: SmallVec::from_slice(written) };
        if count(&part) == 0 { Ok(()) } else { launch(gpu, rule, shared, &[&part], is_in_quads(&part)) }
    })
}

fn count(p: &Part) -> usize {
    p.written[0].layout.numel()
}

fn views<'a>(p: &Part<'a>) -> impl Iterator<Item = View<'a>> {
    p.gradient.into_iter().chain(p.written.iter().copied())
}

/// Whether all tensors of a part may be read and written four elements at a time.
fn is_in_quads(p: &Part) -> bool {
    count(p).is_multiple_of(4) && views(p).all(|v| v.layout.offset.is_multiple_of(4))
}

fn launch(gpu: &Gpu, rule: Rule, shared: Shared, parts: &[&Part], quads: bool) -> Result<()> {
    let lanes = if quads { 4 } else { 1 };
    let groups = |p: &Part| (count(p) / lanes).div_ceil(GROUP);
    let mut params = Params::new(parts.iter().map(|p| groups(p)).sum::<usize>() as u32);
    params.u32(shared.factor.map_or(0, |v| v.layout.offset) as u32);
    params.u32(shared.found.map_or(0, |v| v.layout.offset) as u32);
    for k in 0..NUMBERS {
        params.f32(shared.numbers.get(k).copied().unwrap_or(0.0));
    }
    let mut start = 0;
    for p in parts {
        let at = |v: Option<&View>| v.map_or(0, |v| v.layout.offset / lanes) as u32;
        params.u32(at(p.gradient.as_ref()));
        (0..5).for_each(|k| {
            params.u32(at(p.written.get(k)));
        });
        params.u32((count(p) / lanes) as u32).u32(start);
        start += groups(p) as u32;
    }
    let mut written: SmallVec<[View; 32]> = parts.iter().flat_map(|p| p.written.iter().copied()).collect();
    written.extend(shared.found);
    let mut read: SmallVec<[View; 16]> = parts.iter().filter_map(|p| p.gradient).collect();
    read.extend(shared.factor);
    let name = match rule {
        Rule::Step(name) => name,
        Rule::Scale => "scale_by",
        Rule::Unscale => "unscale",
    };
    let state = parts[0].written.len();
    gpu.launch(Launch {
        op: name,
        kernel: name,
        variant: &[state as u8, parts.len() as u8, quads as u8],
        source: &|| source(rule, name, parts.len(), state, quads),
        written: &written,
        read: &read,
        params: &params,
        groups: start as usize,
    })
}

/// The shader for `n` parameters of `state` written tensors each.
fn source(rule: Rule, name: &str, n: usize, state: usize, quads: bool) -> Result<String> {
    let kind = if quads { "vec4<f32>" } else { "f32" };
    let gradients = matches!(rule, Rule::Step(_));
    let (mut bindings, mut loads, mut stores) = (String::new(), String::new(), String::new());
    let mut number = 0;
    let mut bind = |access: &str, name: &str, kind: &str| {
        number += 1;
        bindings += &binding(number, access, name, kind);
    };
    let field =
        |part: usize, k: usize| format!("params.parts[{}].{}", 2 * part + k / 4, ["x", "y", "z", "w"][k % 4]);
    for p in 0..n {
        line(&mut loads, format!("        case {p}u: {{"));
        line(&mut stores, format!("        case {p}u: {{"));
        if gradients {
            line(&mut loads, format!("            g = g{p}[{} + i];", field(p, 0)));
        }
        for k in 0..state {
            bind("read_write", &format!("x{p}_{k}"), kind);
            let element = format!("x{p}_{k}[{} + i]", field(p, k + 1));
            line(&mut loads, format!("            w{k} = {element};"));
            line(&mut stores, format!("            {element} = w{k};"));
        }
        loads += "        }\n";
        stores += "        }\n";
    }
    if rule == Rule::Unscale {
        bind("read_write", "found", "atomic<u32>");
    }
    if gradients {
        (0..n).for_each(|p| bind("read", &format!("g{p}"), kind));
    } else {
        bind("read", "factor", "f32");
    }
    let mut step = String::from("    var part = 0u;\n");
    (1..n).for_each(|p| line(&mut step, format!("    if at >= {} {{ part = {p}u; }}", field(p, 7))));
    let own = "params.parts[2u * part + 1u]";
    line(&mut step, format!("    let i = (at - {own}.w) * 64u + thread;\n    if i >= {own}.z {{ return; }}"));
    line(&mut step, format!("    switch part {{\n{loads}        default: {{}}\n    }}\n    {name}();"));
    line(&mut step, format!("    switch part {{\n{stores}        default: {{}}\n    }}"));
    let shared = match rule {
        Rule::Step(_) => "",
        Rule::Scale => "fn scale_by() { w0 = w0 * factor[params.first_factor]; }\n",
        Rule::Unscale => {
            // Not below infinity is also what NaN is.
            "fn unscale() {
    if !all(abs(w0) < V(m_inf())) { atomicStore(&found[params.first_found], 0x3f800000u); }
    w0 = w0 * factor[params.first_factor];
}
"
        }
    };
    let fields = format!("    parts: array<vec4<u32>, {}>,\n", 2 * n);
    let lanes = format!("alias V = {kind};\n");
    let slots = [
        ("parts", &*fields),
        ("bindings", &*bindings),
        ("lanes", &*lanes),
        ("shared", shared),
        ("step", &*step),
    ];
    template::shader(FRAME, crate::dtype::DType::F32, &slots).map_err(Error::NotImplemented)
}
