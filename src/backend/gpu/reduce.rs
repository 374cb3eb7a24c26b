//! Reductions, in as many passes as are needed to occupy the device.

mod formula;

use smallvec::SmallVec;

use super::device::{Gpu, of};
use super::params::{MAX_PARAMS, Params};
use super::pipeline::{LOOPS, Launch};
use super::window::{by_rows, fits, rows_at_once};
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::copy::copy;
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, line, load, stored};
use crate::layout::Layout;

pub use formula::fold as fold_formula;

const FRAME: &str = crate::formula::shader_text!("reduce.wgsl");
const LIST: &str = crate::formula::shader_text!("reduce_list.wgsl");
const EXTREMUM: &str = crate::formula::shader_text!("extremum.wgsl");

/// Invocations per workgroup.
const GROUP: usize = 64;
/// The number of invocations that occupies a GPU, and a software adapter; and the minimum number of elements per invocation.
const BUSY: usize = 1 << 14;
const BUSY_CPU: usize = 1 << 10;
const WORTH: usize = 32;

/// Uniform bytes before those of a list's tensors, and per tensor.
const LIST_HEAD: usize = 16;
const LIST_EACH: usize = 16;

/// The number of invocations among which the elements of one result are divided.
fn segments(gpu: &Gpu, d: ReduceDims) -> usize {
    let lanes = d.outer * d.inner;
    let busy = if gpu.caps.is_cpu { BUSY_CPU } else { BUSY };
    (busy / lanes.max(1)).min(d.n / WORTH).max(d.n.div_ceil(LOOPS)).max(1)
}

/// The compute type of a reduction.
fn compute_of(f: ReduceOp, dtype: DType) -> DType {
    match (f, dtype) {
        (_, DType::F64) => DType::F64,
        _ if dtype.is_float() => DType::F32,
        (ReduceOp::Sum | ReduceOp::Product, _) | (_, DType::I64) => DType::I64,
        _ => DType::I32,
    }
}

/// The WGSL functions of a reduction, used in all passes unless noted.
#[derive(Clone, Copy)]
struct Functions {
    start: &'static str,
    /// In the first pass, transforms an element `v`, given `about`.
    prepare: &'static str,
    combine: &'static str,
    /// In the last pass, transforms the total `a`.
    finish: &'static str,
}

const SUM: &str = "a + b";

fn functions(f: ReduceOp) -> Functions {
    let plain = Functions { start: "T(0)", prepare: "v", combine: SUM, finish: "a" };
    let squares = Functions { prepare: "v * v", finish: "m_sqrt(a)", ..plain };
    match f {
        ReduceOp::Sum => plain,
        ReduceOp::Product => Functions { start: "T(1)", combine: "a * b", ..plain },
        ReduceOp::All => Functions {
            start: "T(1)",
            prepare: "select(T(1), T(0), m_eq(v, T(0)))",
            combine: "a * b",
            ..plain
        },
        ReduceOp::Any => {
            Functions { prepare: "select(T(1), T(0), m_eq(v, T(0)))", combine: "m_maximum(a, b)", ..plain }
        }
        // Starts with the first element; combining it a second time has no effect.
        ReduceOp::Max => Functions { start: "load(start, outer, 0u)", combine: "m_maximum(a, b)", ..plain },
        ReduceOp::Min => Functions { start: "load(start, outer, 0u)", combine: "m_minimum(a, b)", ..plain },
        ReduceOp::Norm(0.0) => Functions { prepare: "select(T(1), T(0), m_eq(v, T(0)))", ..plain },
        ReduceOp::Norm(1.0) => Functions { prepare: "m_abs(v)", ..plain },
        ReduceOp::Norm(2.0) => squares,
        ReduceOp::Norm(f64::INFINITY) => {
            Functions { prepare: "m_abs(v)", combine: "m_maximum(a, b)", ..plain }
        }
        ReduceOp::Norm(f64::NEG_INFINITY) => {
            Functions { start: "m_inf()", prepare: "m_abs(v)", combine: "m_minimum(a, b)", ..plain }
        }
        ReduceOp::Norm(_) => Functions {
            prepare: "m_pow(m_abs(v), T(params.p))",
            finish: "m_pow(a, T(1) / T(params.p))",
            ..plain
        },
        ReduceOp::LogSumExp => Functions { prepare: "m_exp(v - about)", finish: "about + m_log(a)", ..plain },
    }
}

/// Kahan's compensated summation: three more additions per element are cheaper than the memory access. Infinities have
/// no error term.
const COMPENSATED: &str = "var<private> lost: T;
fn combine(a: T, b: T) -> T {
    let v = b - lost;
    let total = opaque(a + v);
    lost = select(0.0, opaque(total - a) - v, is_finite(total));
    return total;
}
";

impl Functions {
    /// The WGSL declaration of `combine`.
    fn combine(&self, compute: DType) -> String {
        if self.combine == SUM && compute == DType::F32 {
            return COMPENSATED.into();
        }
        format!("fn combine(a: T, b: T) -> T {{ return {}; }}\n", self.combine)
    }
}

/// The part of the cache key that identifies a reduction.
fn tag(f: ReduceOp) -> u8 {
    match f {
        ReduceOp::Sum => 0,
        ReduceOp::Product => 1,
        ReduceOp::All => 2,
        ReduceOp::Any => 3,
        ReduceOp::Max => 4,
        ReduceOp::Min => 5,
        ReduceOp::Norm(0.0) => 6,
        ReduceOp::Norm(1.0) => 7,
        ReduceOp::Norm(2.0) => 8,
        ReduceOp::Norm(f64::INFINITY) => 9,
        ReduceOp::Norm(f64::NEG_INFINITY) => 10,
        ReduceOp::Norm(_) => 11,
        ReduceOp::LogSumExp => 12,
    }
}

/// A reduction and its shader parameters.
#[derive(Clone, Copy)]
struct Plan<'a> {
    functions: Functions,
    /// Identifies the shader among those of reductions.
    tag: u8,
    compute: DType,
    p: f32,
    about: Option<View<'a>>,
}

impl Plan<'_> {
    fn of(f: ReduceOp, dtype: DType) -> Plan<'static> {
        let p = if let ReduceOp::Norm(p) = f { p as f32 } else { 0.0 };
        Plan { functions: functions(f), tag: tag(f), compute: compute_of(f, dtype), p, about: None }
    }
}

/// Reduces `x` to `out`; both are dense.
pub fn fold(f: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    let plan = Plan::of(f, x.dtype);
    if f != ReduceOp::LogSumExp {
        return run(&plan, x, d, WHOLE, out);
    }
    // Exponentials of differences from the maximum, or from 0 if that is infinite.
    let gpu = of(out)?;
    let largest = Workspace::new(gpu, d.outer * d.inner, out.dtype)?;
    let tag = tag(f) + 1 + (d.n == 0) as u8;
    run(&Plan { functions: finite_largest(d), tag, ..Plan::of(f, x.dtype) }, x, d, WHOLE, largest.view())?;
    run(&Plan { about: Some(largest.view()), ..plan }, x, d, WHOLE, out)
}

/// The largest element, or 0 if it is infinite or there are no elements.
fn finite_largest(d: ReduceDims) -> Functions {
    Functions {
        finish: "select(a, T(0), is_infinite(a))",
        start: if d.n == 0 { "T(0)" } else { "load(start, outer, 0u)" },
        ..functions(ReduceOp::Max)
    }
}

/// The p-norm over all elements of dense float32 tensors: launches that each process as many tensors as fit in
/// bindings, followed by one or two for the partial results.
pub fn norm_of_all(order: f64, tensors: &[View], out: View) -> Result<()> {
    let gpu = of(out)?;
    let plan = Plan::of(ReduceOp::Norm(order), DType::F32);
    let there = tensors.iter().filter(|v| v.layout.numel() > 0);
    let (tensors, large): (SmallVec<[&View; 16]>, SmallVec<[&View; 16]>) =
        there.partition(|v| fits(gpu, &[**v]));
    let groups = |v: &View| v.layout.numel().div_ceil(GROUP * WORTH).min(BUSY / GROUP);
    let all: usize = tensors.iter().map(|v| groups(v) * GROUP).sum();
    let partial = Workspace::new(gpu, (all + large.len()).max(1), DType::F32)?;
    let most = (gpu.caps.max_buffers - 1).min((MAX_PARAMS - LIST_HEAD) / LIST_EACH);
    let mut written = 0;
    for some in tensors.chunks(most) {
        let mut params = Params::new(some.iter().map(|v| groups(v)).sum::<usize>() as u32);
        params.u32(written as u32).f32(plan.p);
        let mut start = 0;
        for v in some {
            let groups = groups(v);
            for n in [v.layout.offset, v.layout.numel(), start, groups] {
                params.u32(n as u32);
            }
            start += groups;
        }
        written += start * GROUP;
        let read: SmallVec<[View; 16]> = some.iter().map(|v| **v).collect();
        gpu.launch(Launch {
            op: "total_norm",
            kernel: "reduce_list",
            variant: &[plan.tag, some.len() as u8],
            source: &|| list_source(&plan.functions, some.len()),
            written: &[partial.view()],
            read: &read,
            params: &params,
            groups: start,
        })?;
    }
    let along = |n| ReduceDims { outer: 1, n, inner: 1 };
    for v in large {
        let one = Layout { offset: written, ..Layout::contiguous([1].into()) };
        let left = View { layout: &one, ..partial.view() };
        run(&plan, *v, along(v.layout.numel()), Ends { first: true, last: false }, left)?;
        written += 1;
    }
    run(&plan, partial.view(), along(written), Ends { first: false, last: true }, out)
}

/// The shader that reduces `n` tensors, each to one partial result per invocation.
fn list_source(f: &Functions, n: usize) -> Result<String> {
    let mut bindings = binding(1, "read_write", "result", "f32");
    let (mut part, mut reduce) = (String::new(), String::new());
    for k in 0..n {
        bindings += &binding(k + 2, "read", &format!("x{k}"), "f32");
        if k > 0 {
            line(&mut part, format!("    if at >= params.parts[{k}].z {{ part = {k}u; }}"));
        }
        let step = format!("total = combine(total, prepare(x{k}[own.x + i]));");
        line(&mut reduce, format!("        case {k}u: {{ for (; i < own.y; i += step) {{ {step} }} }}"));
    }
    let parts = format!("    parts: array<vec4<u32>, {n}>,\n");
    let functions = format!(
        "fn start() -> T {{ return {}; }}
fn prepare(v: T) -> T {{ return {}; }}
{}",
        f.start,
        f.prepare,
        f.combine(DType::F32)
    );
    let slots = [
        ("parts", &*parts),
        ("bindings", &*bindings),
        ("functions", &*functions),
        ("part", &*part),
        ("reduce", &*reduce),
    ];
    template::shader(LIST, DType::F32, &slots).map_err(Error::NotImplemented)
}

/// The mean along n and the sum of squared deviations.
pub fn moments(x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> {
    if mean.layout.numel() == 0 {
        return Ok(());
    }
    let average = Functions { finish: "a / T(params.p)", ..functions(ReduceOp::Sum) };
    let sum = || Plan::of(ReduceOp::Sum, x.dtype);
    run(&Plan { functions: average, tag: 15, p: d.n as f32, ..sum() }, x, d, WHOLE, mean)?;
    let about = Functions { prepare: "(v - about) * (v - about)", ..functions(ReduceOp::Sum) };
    run(&Plan { functions: about, tag: 16, about: Some(mean), ..sum() }, x, d, WHOLE, squares)
}

/// Whether a pass is the first one, which transforms elements, and whether it is the last one, which transforms
/// results.
#[derive(Clone, Copy, PartialEq)]
struct Ends {
    first: bool,
    last: bool,
}

const WHOLE: Ends = Ends { first: true, last: true };

fn run(plan: &Plan, x: View, d: ReduceDims, ends: Ends, out: View) -> Result<()> {
    let gpu = of(out)?;
    let compute = plan.compute;
    gpu.expect("reduction", compute)?;
    gpu.expect("reduction", x.dtype)?;
    let lanes = d.outer * d.inner;
    if d.n == 0 {
        // An empty tensor cannot be bound: bind a zero instead, which no pass reads.
        let none = Workspace::new(gpu, lanes.max(1), compute)?;
        return stored_pass(gpu, plan, none.view(), d, ends, out);
    }
    let at_once = d.n.min(rows_at_once(gpu, d.inner * x.dtype.size()));
    if at_once < d.n && !fits(gpu, &[x]) {
        return in_turns(gpu, plan, x, d, at_once, ends, out);
    }
    let segments = segments(gpu, d);
    if segments == 1 {
        return stored_pass(gpu, plan, x, d, ends, out);
    }
    let partial = Workspace::new(gpu, lanes * segments, compute)?;
    pass(gpu, plan, x, d, segments, Ends { last: false, ..ends }, partial.view())?;
    stored_pass(
        gpu,
        plan,
        partial.view(),
        ReduceDims { n: segments, ..d },
        Ends { first: false, ..ends },
        out,
    )
}

/// A reduction of a tensor that exceeds the binding size: part by part, followed by a reduction of the partial
/// results.
fn in_turns(
    gpu: &'static Gpu,
    plan: &Plan,
    x: View,
    d: ReduceDims,
    at_once: usize,
    ends: Ends,
    out: View,
) -> Result<()> {
    let parts = d.n.div_ceil(at_once);
    let partial = Workspace::new(gpu, parts * d.inner, plan.compute)?;
    for o in 0..d.outer {
        let centers = plan.about.map(|v| (v, row_of(v, o * d.inner, d.inner)));
        let about = centers.as_ref().map(|(v, layout)| View { layout, ..*v });
        let plan = Plan { about, ..*plan };
        for p in 0..parts {
            let start = p * at_once;
            let n = at_once.min(d.n - start);
            let layout = row_of(x, (o * d.n + start) * d.inner, n * d.inner);
            let left = row_of(partial.view(), p * d.inner, d.inner);
            let along = ReduceDims { outer: 1, n, ..d };
            let ends = Ends { last: false, ..ends };
            run(&plan, View { layout: &layout, ..x }, along, ends, View { layout: &left, ..partial.view() })?;
        }
        let result = row_of(out, o * d.inner, d.inner);
        let (along, ends) = (ReduceDims { outer: 1, n: parts, ..d }, Ends { first: false, ..ends });
        run(&plan, partial.view(), along, ends, View { layout: &result, ..out })?;
    }
    Ok(())
}

/// The pass that stores the results; dtypes below 32 bits are stored through a temporary.
fn stored_pass(gpu: &'static Gpu, plan: &Plan, x: View, d: ReduceDims, ends: Ends, out: View) -> Result<()> {
    if out.dtype.size() >= 4 {
        return pass(gpu, plan, x, d, 1, ends, out);
    }
    let wide = Workspace::new(gpu, d.outer * d.inner, plan.compute)?;
    pass(gpu, plan, x, d, 1, ends, wide.view())?;
    let dense = Layout::contiguous(out.layout.shape.clone());
    copy(View { layout: &dense, ..wide.view() }, out)
}

/// One launch, or several if the tensors exceed the binding size.
fn pass(
    gpu: &Gpu,
    plan: &Plan,
    x: View,
    d: ReduceDims,
    segments: usize,
    ends: Ends,
    out: View,
) -> Result<()> {
    let views: SmallVec<[View; 3]> = [out, x].into_iter().chain(plan.about).collect();
    by_rows(gpu, "reduction", d.outer, &views, &mut |outer, views| {
        let plan = Plan { about: views.get(2).copied(), ..*plan };
        launch(gpu, &plan, views[1], ReduceDims { outer, ..d }, segments, ends, views[0])
    })
}

fn launch(
    gpu: &Gpu,
    plan: &Plan,
    x: View,
    d: ReduceDims,
    segments: usize,
    Ends { first, last }: Ends,
    out: View,
) -> Result<()> {
    let count = d.outer * segments * d.inner;
    let about = plan.about;
    let compute = plan.compute;
    let mut params = Params::new(count as u32);
    params.u32(d.n as u32).u32(d.inner as u32).u32(segments as u32);
    params.u32(x.layout.offset as u32).u32(out.layout.offset as u32);
    params.u32(about.map_or(0, |v| v.layout.offset) as u32);
    params.f32(plan.p);
    let source = || {
        let f = &plan.functions;
        let mut bindings = binding(1, "read_write", "result", stored(out.dtype));
        bindings += &binding(2, "read", "x", stored(x.dtype));
        let mut loads =
            format!("fn load(i: u32, outer: u32, k: u32) -> T {{ return T({}); }}\n", load("x", x.dtype));
        let center = match about {
            Some(v) => {
                bindings += &binding(3, "read", "center", stored(v.dtype));
                load("center", v.dtype)
            }
            None => "0".into(),
        };
        loads += &format!("fn about(i: u32) -> T {{ return T({center}); }}\n");
        let functions = format!(
            "fn prepare(v: T, about: T) -> T {{ return {}; }}
{}fn finish(a: T, about: T) -> T {{ return {}; }}
",
            if first { f.prepare } else { "v" },
            f.combine(compute),
            if last { f.finish } else { "a" },
        );
        let start = format!("    var total = T({});\n", f.start);
        let store =
            format!("    result[params.first_result + at] = {}(finish(total, center));\n", stored(out.dtype));
        let slots = [
            ("bindings", &*bindings),
            ("load", &*loads),
            ("functions", &*functions),
            ("start", &*start),
            ("loop", template::content(FRAME, "loop")),
            ("store", &*store),
        ];
        template::shader(FRAME, compute, &slots).map_err(Error::NotImplemented)
    };
    let dtypes = [x.dtype as u8, out.dtype as u8, compute as u8];
    let read = [x, about.unwrap_or(x)];
    let launch = Launch {
        op: "reduction",
        kernel: "reduce",
        variant: &[plan.tag, first as u8, last as u8, about.is_some() as u8, dtypes[0], dtypes[1], dtypes[2]],
        source: &source,
        written: &[out],
        read: &read[..1 + about.is_some() as usize],
        params: &params,
        groups: count.div_ceil(GROUP),
    };
    gpu.launch(launch)
}

/// The extrema along n and the index of the first occurrence of each. If n is 0, nothing is written.
pub fn extremum(largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()> {
    if values.layout.numel() == 0 || d.n == 0 {
        return Ok(());
    }
    let gpu = of(values)?;
    let compute = compute_of(ReduceOp::Max, x.dtype);
    gpu.expect("extremum", compute)?;
    if values.dtype.size() < 4 {
        let wide = Workspace::new(gpu, values.layout.numel(), compute)?;
        extremum(largest, x, d, wide.view(), indices)?;
        let dense = Layout::contiguous(values.layout.shape.clone());
        return copy(View { layout: &dense, ..wide.view() }, values);
    }
    let e = Extremum { gpu, largest, compute };
    let at_once = d.n.min(rows_at_once(gpu, d.inner * x.dtype.size()));
    if at_once == d.n || fits(gpu, &[x]) {
        return e.run(x, 0, d, values, indices);
    }
    // Exceeds the binding size: process part by part, then reduce the partial results.
    let parts = d.n.div_ceil(at_once);
    let n = parts * d.inner;
    let (some, places) = (Workspace::new(gpu, n, values.dtype)?, Workspace::new(gpu, n, DType::I64)?);
    for o in 0..d.outer {
        for p in 0..parts {
            let from = p * at_once;
            let n = at_once.min(d.n - from);
            let layout = row_of(x, (o * d.n + from) * d.inner, n * d.inner);
            let [value, place] = [some.view(), places.view()].map(|v| row_of(v, p * d.inner, d.inner));
            let value = View { layout: &value, ..some.view() };
            let place = View { layout: &place, ..places.view() };
            e.run(View { layout: &layout, ..x }, from, ReduceDims { outer: 1, n, ..d }, value, place)?;
        }
        let [value, index] = [values, indices].map(|v| row_of(v, o * d.inner, d.inner));
        let (values, indices) = (View { layout: &value, ..values }, View { layout: &index, ..indices });
        let along = ReduceDims { outer: 1, n: parts, ..d };
        e.locate(some.view(), Places::Of(places.view()), along, 1, values, indices)?;
    }
    Ok(())
}

/// A range of the elements of a dense view.
fn row_of(v: View, first: usize, n: usize) -> Layout {
    Layout { offset: v.layout.offset + first, ..Layout::contiguous([n].into()) }
}

/// The state of a search for extrema.
struct Extremum {
    gpu: &'static Gpu,
    largest: bool,
    compute: DType,
}

/// The index of an element: its position plus an offset, or the result of an earlier pass.
#[derive(Clone, Copy)]
enum Places<'a> {
    From(usize),
    Of(View<'a>),
}

impl Extremum {
    /// The extrema of elements, the first of which has index `from`.
    fn run(&self, x: View, from: usize, d: ReduceDims, values: View, indices: View) -> Result<()> {
        let (gpu, segments, from) = (self.gpu, segments(self.gpu, d), Places::From(from));
        if segments == 1 {
            return self.locate(x, from, d, 1, values, indices);
        }
        let n = d.outer * d.inner * segments;
        let (some, places) = (Workspace::new(gpu, n, values.dtype)?, Workspace::new(gpu, n, DType::I64)?);
        self.locate(x, from, d, segments, some.view(), places.view())?;
        let d = ReduceDims { n: segments, ..d };
        self.locate(some.view(), Places::Of(places.view()), d, 1, values, indices)
    }

    /// One launch, or several if the tensors exceed the binding size.
    fn locate(
        &self,
        x: View,
        places: Places,
        d: ReduceDims,
        segments: usize,
        values: View,
        indices: View,
    ) -> Result<()> {
        let Extremum { gpu, largest, compute } = *self;
        let (from, found) = match places {
            Places::From(from) => (from, None),
            Places::Of(view) => (0, Some(view)),
        };
        let views: SmallVec<[View; 4]> = [values, indices, x].into_iter().chain(found).collect();
        by_rows(gpu, "extremum", d.outer, &views, &mut |outer, views| {
            let (d, values, indices, x, places) =
                (ReduceDims { outer, ..d }, views[0], views[1], views[2], views.get(3).copied());
            let count = d.outer * segments * d.inner;
            let mut params = Params::new(count as u32);
            params.u32(d.n as u32).u32(d.inner as u32).u32(segments as u32);
            params
                .u32(x.layout.offset as u32)
                .u32(values.layout.offset as u32)
                .u32(indices.layout.offset as u32);
            params.u32(places.map_or(0, |v| v.layout.offset) as u32).u32(from as u32);
            let source = || {
                let mut bindings = binding(1, "read_write", "values", stored(values.dtype));
                bindings += &binding(2, "read_write", "indices", "vec2<u32>");
                bindings += &binding(3, "read", "x", stored(x.dtype));
                let mut loads = format!("fn load(i: u32) -> T {{ return T({}); }}\n", load("x", x.dtype));
                loads += if places.is_some() {
                    bindings += &binding(4, "read", "places", "vec2<u32>");
                    "fn index_of(i: u32, k: u32) -> u32 { return places[params.first_place + i].x; }\n"
                } else {
                    "fn index_of(i: u32, k: u32) -> u32 { return params.from_place + k; }\n"
                };
                let unordered = if compute.is_float() { "is_nan(a)" } else { "false" };
                let functions = format!(
                    "fn beats(a: T, b: T) -> bool {{ return a {} b; }}
    fn is_unordered(a: T) -> bool {{ return {unordered}; }}
    ",
                    if largest { ">" } else { "<" }
                );
                let store = format!(
                    "    values[params.first_value + at] = {}(best);
        indices[params.first_index + at] = vec2<u32>(place, 0u);
    ",
                    stored(values.dtype)
                );
                let slots = [
                    ("bindings", &*bindings),
                    ("load", &*loads),
                    ("functions", &*functions),
                    ("store", &*store),
                ];
                template::shader(EXTREMUM, compute, &slots).map_err(Error::NotImplemented)
            };
            let read = [x, places.unwrap_or(x)];
            let launch = Launch {
                op: "extremum",
                kernel: "extremum",
                variant: &[
                    largest as u8,
                    places.is_some() as u8,
                    x.dtype as u8,
                    values.dtype as u8,
                    compute as u8,
                ],
                source: &source,
                written: &[values, indices],
                read: &read[..1 + places.is_some() as usize],
                params: &params,
                groups: count.div_ceil(GROUP),
            };
            gpu.launch(launch)
        })
    }
}
