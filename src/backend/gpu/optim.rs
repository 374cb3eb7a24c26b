//! Optimizer steps: one launch for as many parameters as bindings and uniforms allow.

use smallvec::SmallVec;

use super::device::{Gpu, of};
use super::params::{MAX_PARAMS, Params};
use super::pipeline::{KEY, Launch};
use super::window::{by_rows, fits};
use super::workspace::Workspace;
use crate::backend::optim::{Group, NUMBERS, Numbers, WRITTEN};
use crate::backend::{View, copy};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formula::record::Step;
use crate::formula::template::{self, binding, line};
use crate::formula::{Formula, wgsl};

const FRAME: &str = crate::formula::shader_text!("optim.wgsl");

/// Invocations per workgroup.
const GROUP: usize = 64;
/// Uniform bytes before those of the parts, and per part.
const HEAD: usize = 64;
const EACH: usize = 32;
/// On a software adapter every invocation executes the code of all parts, so only small parts share a launch.
const SMALL_CPU: usize = 1 << 10;

/// The operation of a launch.
#[derive(Clone, Copy)]
enum Work<'a> {
    /// An optimizer step.
    Step { name: &'static str, formula: &'a Formula, numbers: &'a Numbers },
    /// Multiplies by the element of `factor`, a float32; sets the element of `found` to 1 if an element was infinite
    /// or NaN.
    Scale { factor: View<'a>, found: Option<View<'a>> },
}

impl Work<'_> {
    const fn name(&self) -> &'static str {
        match self {
            Work::Step { name, .. } => name,
            Work::Scale { found: None, .. } => "scale_by",
            Work::Scale { found: Some(_), .. } => "unscale",
        }
    }

    /// Bindings other than the tensors of parameters.
    const fn others(&self) -> usize {
        match self {
            Work::Step { .. } => 0,
            Work::Scale { found, .. } => 1 + found.is_some() as usize,
        }
    }
}

/// The tensors of a parameter, as dense float32.
#[derive(Clone)]
struct Part<'a> {
    gradient: Option<View<'a>>,
    written: SmallVec<[View<'a>; WRITTEN]>,
}

/// A dense float32 copy of a tensor, unless it is dense float32 already.
fn dense(gpu: &'static Gpu, v: View) -> Result<Option<Workspace>> {
    match v.dtype == DType::F32 && v.layout.is_contiguous() {
        true => Ok(None),
        false => copied(gpu, v).map(Some),
    }
}

fn copied(gpu: &'static Gpu, v: View) -> Result<Workspace> {
    let copy = Workspace::of_shape(gpu, &v.layout.shape, DType::F32)?;
    if v.layout.numel() > 0 {
        copy::copy(v, copy.view())?;
    }
    Ok(copy)
}

/// Copies of those tensors of a parameter that need one.
struct Copies {
    gradient: Option<Workspace>,
    written: SmallVec<[Option<Workspace>; WRITTEN]>,
}

impl Copies {
    fn of(gpu: &'static Gpu, gradient: Option<View>, written: &[View]) -> Result<Copies> {
        // A gradient that overlaps written memory is read from a copy.
        let aliased = |g: &View| written.iter().any(|w| w.storage.overlaps(g.storage));
        let gradient = match gradient {
            Some(g) if aliased(&g) => Some(copied(gpu, g)?),
            Some(g) => dense(gpu, g)?,
            None => None,
        };
        let written = written.iter().map(|w| dense(gpu, *w)).collect::<Result<_>>()?;
        Ok(Copies { gradient, written })
    }

    fn part<'a>(&'a self, gradient: Option<View<'a>>, written: &[View<'a>]) -> Part<'a> {
        let or = |copy: &'a Option<Workspace>, v: View<'a>| copy.as_ref().map_or(v, Workspace::view);
        Part {
            gradient: gradient.map(|g| or(&self.gradient, g)),
            written: self.written.iter().zip(written).map(|(c, w)| or(c, *w)).collect(),
        }
    }

    /// Copies the results back to the original tensors.
    fn write_back(&self, written: &[View]) -> Result<()> {
        for (c, w) in self.written.iter().zip(written) {
            if let (Some(c), true) = (c, w.layout.numel() > 0) {
                copy::copy(c.view(), *w)?;
            }
        }
        Ok(())
    }
}

/// Applies the rule of each group in as few launches as possible.
pub fn step(groups: &[Group]) -> Result<()> {
    for group in groups {
        let Some(first) = group.parts.first() else { continue };
        let gpu = of(first.gradient())?;
        let copies = group
            .parts
            .iter()
            .map(|p| Copies::of(gpu, Some(p.gradient()), p.written()))
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<Part> = std::iter::zip(&copies, group.parts)
            .map(|(c, p)| c.part(Some(p.gradient()), p.written()))
            .collect();
        let formula = group.rule.formula();
        run(Work::Step { name: group.rule.name(), formula: &formula, numbers: &group.numbers }, &parts)?;
        std::iter::zip(&copies, group.parts).try_for_each(|(c, p)| c.write_back(p.written()))?;
    }
    Ok(())
}

/// Multiplies tensors by the element of `factor`; reports in `found` whether any element was not finite.
pub fn scale(tensors: &[View], factor: View, found: Option<View>) -> Result<()> {
    let gpu = of(factor)?;
    let copy = dense(gpu, factor)?;
    let factor = copy.as_ref().map_or(factor, Workspace::view);
    let copies =
        tensors.iter().map(|v| Copies::of(gpu, None, std::slice::from_ref(v))).collect::<Result<Vec<_>>>()?;
    let parts: Vec<Part> =
        copies.iter().zip(tensors).map(|(c, v)| c.part(None, std::slice::from_ref(v))).collect();
    run(Work::Scale { factor, found }, &parts)?;
    copies.iter().zip(tensors).try_for_each(|(c, v)| c.write_back(std::slice::from_ref(v)))
}

fn run(work: Work, parts: &[Part]) -> Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    let gpu = of(first.written[0])?;
    let tensors = first.written.len() + first.gradient.is_some() as usize;
    let views: SmallVec<[View; 16]> = parts.iter().flat_map(views).collect();
    if !fits(gpu, &views) {
        return parts.iter().try_for_each(|p| in_pieces(gpu, work, p));
    }
    let most = ((gpu.caps.max_buffers - work.others()) / tensors).clamp(1, (MAX_PARAMS - HEAD) / EACH);
    for quads in [true, false] {
        let alike = |p: &&Part| count(p) > 0 && is_in_quads(p) == quads;
        let of_form: SmallVec<[&Part; 16]> = parts.iter().filter(alike).collect();
        let is_large = |p: &Part| gpu.caps.is_cpu && count(p) > SMALL_CPU;
        for part in of_form.iter().filter(|p| is_large(p)) {
            launch(gpu, work, &[part], quads)?;
        }
        let rest: SmallVec<[&Part; 16]> = of_form.iter().filter(|p| !is_large(p)).copied().collect();
        rest.chunks(most).try_for_each(|some| launch(gpu, work, some, quads))?;
    }
    Ok(())
}

/// A step for a parameter whose tensors may exceed the binding size: a range of elements at a time.
fn in_pieces(gpu: &'static Gpu, work: Work, p: &Part) -> Result<()> {
    let all: SmallVec<[View; 6]> = views(p).collect();
    by_rows(gpu, "optimizer", count(p).max(1), &all, &mut |_, v| {
        let (gradient, written) = v.split_at(p.gradient.is_some() as usize);
        let part = Part { gradient: gradient.first().copied(), written: SmallVec::from_slice(written) };
        if count(&part) == 0 { Ok(()) } else { launch(gpu, work, &[&part], is_in_quads(&part)) }
    })
}

fn count(p: &Part) -> usize {
    p.written[0].layout.numel()
}

fn views<'a>(p: &Part<'a>) -> impl Iterator<Item = View<'a>> {
    p.gradient.into_iter().chain(p.written.iter().copied())
}

/// Whether all tensors of a part can be accessed in quads.
fn is_in_quads(p: &Part) -> bool {
    count(p).is_multiple_of(4) && views(p).all(|v| v.layout.offset.is_multiple_of(4))
}

fn launch(gpu: &Gpu, work: Work, parts: &[&Part], quads: bool) -> Result<()> {
    let lanes = if quads { 4 } else { 1 };
    let groups = |p: &Part| (count(p) / lanes).div_ceil(GROUP);
    let (factor, found, numbers) = match work {
        Work::Step { numbers, .. } => (None, None, *numbers),
        Work::Scale { factor, found } => (Some(factor), found, [0.0; NUMBERS]),
    };
    let mut params = Params::new(parts.iter().map(|p| groups(p)).sum::<usize>() as u32);
    params.u32(factor.map_or(0, |v| v.layout.offset) as u32);
    params.u32(found.map_or(0, |v| v.layout.offset) as u32);
    for number in numbers {
        params.f32(number as f32);
    }
    let mut start = 0;
    for p in parts {
        let at = |v: Option<&View>| v.map_or(0, |v| v.layout.offset / lanes) as u32;
        params.u32(at(p.gradient.as_ref()));
        (0..WRITTEN).for_each(|k| {
            params.u32(at(p.written.get(k)));
        });
        params.u32((count(p) / lanes) as u32).u32(start);
        start += groups(p) as u32;
    }
    let mut written: SmallVec<[View; 32]> = parts.iter().flat_map(|p| p.written.iter().copied()).collect();
    written.extend(found);
    let mut read: SmallVec<[View; 16]> = parts.iter().filter_map(|p| p.gradient).collect();
    read.extend(factor);
    let state = parts[0].written.len();
    let mut variant: SmallVec<[u8; KEY]> =
        SmallVec::from_slice(&[state as u8, parts.len() as u8, quads as u8, found.is_some() as u8]);
    if let Work::Step { formula, .. } = work {
        variant.extend(formula.identity().to_le_bytes());
    }
    gpu.launch(Launch {
        op: work.name(),
        kernel: if factor.is_some() { "scale" } else { "optimizer" },
        variant: &variant,
        source: &|| source(work, parts.len(), state, quads),
        written: &written,
        read: &read,
        params: &params,
        groups: start as usize,
    })
}

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// The functions of a step: the formula for one element, and the update of an invocation's elements.
fn functions(formula: &Formula, state: usize, quads: bool) -> String {
    let mut s = String::from("struct Stepped {\n");
    (0..state).for_each(|k| line(&mut s, format!("    w{k}: T,")));
    s += "}\n";
    let written: String = (0..state).map(|k| format!(", a{}: T", k + 1)).collect();
    line(&mut s, format!("fn stepped(a0: T{written}) -> Stepped {{"));
    for k in (0..NUMBERS).filter(|k| formula.steps().contains(&Step::Param(*k))) {
        line(&mut s, format!("    let p{k} = params.c[{}].{};", k / 4, COMPONENTS[k % 4]));
    }
    s += &wgsl::steps(formula, DType::F32);
    let values: Vec<String> = (0..state).map(|k| wgsl::value(formula, k)).collect();
    line(&mut s, format!("    return Stepped({});\n}}\nfn update() {{", values.join(", ")));
    let lanes: &[&str] = if quads { &[".x", ".y", ".z", ".w"] } else { &[""] };
    for (i, lane) in lanes.iter().enumerate() {
        let state: String = (0..state).map(|k| format!(", w{k}{lane}")).collect();
        line(&mut s, format!("    let s{i} = stepped(g{lane}{state});"));
    }
    for k in 0..state {
        let parts: Vec<String> = (0..lanes.len()).map(|i| format!("s{i}.w{k}")).collect();
        line(&mut s, format!("    w{k} = V({});", parts.join(", ")));
    }
    s + "}\n"
}

const SCALE: &str = "fn update() { w0 = w0 * factor[params.first_factor]; }\n";
// The negated comparison also catches NaN.
const UNSCALE: &str = "fn update() {
    if !all(abs(w0) < V(m_inf())) { atomicStore(&found[params.first_found], 0x3f800000u); }
    w0 = w0 * factor[params.first_factor];
}
";

/// The shader for `n` parameters with `state` written tensors each.
fn source(work: Work, n: usize, state: usize, quads: bool) -> Result<String> {
    let kind = if quads { "vec4<f32>" } else { "f32" };
    let (gradients, finds) = match work {
        Work::Step { .. } => (true, false),
        Work::Scale { found, .. } => (false, found.is_some()),
    };
    let (mut bindings, mut loads, mut stores) = (String::new(), String::new(), String::new());
    let mut number = 0;
    let mut bind = |access: &str, name: &str, kind: &str| {
        number += 1;
        bindings += &binding(number, access, name, kind);
    };
    let field = |part: usize, k: usize| format!("params.parts[{}].{}", 2 * part + k / 4, COMPONENTS[k % 4]);
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
    if finds {
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
    line(&mut step, format!("    switch part {{\n{loads}        default: {{}}\n    }}\n    update();"));
    line(&mut step, format!("    switch part {{\n{stores}        default: {{}}\n    }}"));
    let update = match work {
        Work::Step { formula, .. } => functions(formula, state, quads),
        Work::Scale { found: None, .. } => SCALE.into(),
        Work::Scale { found: Some(_), .. } => UNSCALE.into(),
    };
    let fields = format!("    parts: array<vec4<u32>, {}>,\n", 2 * n);
    let lanes = format!("alias V = {kind};\n");
    let slots = [
        ("parts", &*fields),
        ("bindings", &*bindings),
        ("lanes", &*lanes),
        ("update", &*update),
        ("step", &*step),
    ];
    template::shader(FRAME, DType::F32, &slots).map_err(Error::NotImplemented)
}
