//! Reductions of formulas: the first pass computes the elements that it reduces, and the last pass applies a formula
//! to the results before it stores them. See Note [Reduced formulas].

use smallvec::SmallVec;

use super::{Functions, GROUP, Plan, finite_largest, segments, tag};
use crate::backend::View;
use crate::backend::gpu::device::{Gpu, of};
use crate::backend::gpu::params::{MAX_PARAMS, Params};
use crate::backend::gpu::pipeline::{KEY, Launch};
use crate::backend::gpu::pointwise::input_tag;
use crate::backend::gpu::window::fits;
use crate::backend::gpu::workspace::Workspace;
use crate::backend::pointwise::{Applied, Operand};
use crate::backend::reduce::{Fold, ReduceDims, ReduceOp};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::formula::template::{self, binding, coordinates, line, load, stored};
use crate::formula::wgsl::{self, Input};
use crate::layout::{Dims, collapse_all};

/// Reduces a formula in floating point; false if the elements must be stored in memory first, because the adapter's
/// limits on bindings or its shaders' features do not suffice.
pub fn fold(fold: &Fold, out: View) -> Result<bool> {
    let (gpu, d, compute) = (of(out)?, fold.dims, fold.compute);
    // Shaders compute positions in 32 bits.
    let counted = !fold.dims.is_empty() && d.len() <= u32::MAX as usize;
    if !counted
        || fold.reduced() != compute
        || out.dtype != compute
        || gpu.expect("reduction", compute).is_err()
    {
        return Ok(false);
    }
    let lanes = Dims::from([d.lanes()]);
    let first = Part::of("x", &fold.of, fold.of.operands, fold.shape, compute);
    let last = match &fold.then {
        Some(then) => {
            let shape = then.views().next().map_or(&lanes, |v| &v.layout.shape);
            // The first operand is the reduced value, which is not a binding.
            Part::of("y", then, then.operands.get(1..).unwrap_or_default(), shape, compute).map(Some)
        }
        None => Some(None),
    };
    let (Some(mut first), Some(last)) = (first, last) else { return Ok(false) };
    first.by_rows = d.inner == 1 && first.shape[..] == [d.outer, d.n];
    first.in_eights = gpu.caps.is_cpu && gpu.caps.int64 && fold.op == ReduceOp::Sum && first.has_eights(d);
    let mut views: SmallVec<[View; 8]> = first.tensors.iter().map(|t| t.view).collect();
    views.extend(last.iter().flat_map(|l| l.tensors.iter().map(|t| t.view)));
    let apart = views.iter().all(|v| !v.storage.overlaps(out.storage));
    views.push(out);
    // One more binding is needed for the result of an earlier pass.
    if !apart || !fits(gpu, &views) || views.len() + 1 > gpu.caps.max_buffers {
        return Ok(false);
    }
    let segments = segments(gpu, d);
    let partial = Workspace::new(gpu, if segments == 1 { 0 } else { d.lanes() * segments }, compute)?;
    let reduction = Reduction { gpu, d, segments, partial: &partial };
    let plan = Plan::of(fold.op, compute);
    if fold.op != ReduceOp::LogSumExp {
        return reduction.run(&plan, &first, last.as_ref(), out);
    }
    let largest = Workspace::new(gpu, d.lanes(), compute)?;
    let finite = Plan { functions: finite_largest(d), tag: tag(fold.op) + 1, ..plan };
    Ok(reduction.run(&finite, &first, None, largest.view())?
        && reduction.run(&Plan { about: Some(largest.view()), ..plan }, &first, last.as_ref(), out)?)
}

/// A tensor that a formula reads.
struct Read<'a> {
    argument: usize,
    view: View<'a>,
    strides: SmallVec<[isize; 6]>,
}

/// A formula in a shader. Its names begin with `name`. Its numbers are those among the operands, followed by `params`.
struct Part<'a> {
    name: &'static str,
    formula: &'a Formula,
    inputs: SmallVec<[Input; 8]>,
    tensors: SmallVec<[Read<'a>; 8]>,
    /// Pairs of argument index and number.
    numbers: SmallVec<[(usize, Scalar); 4]>,
    params: &'a [Scalar],
    /// Sizes after merging of adjacent dimensions; empty if all tensors are contiguous.
    shape: SmallVec<[usize; 6]>,
    /// Whether the shape is that of rows which are reduced, whose positions the loop knows.
    by_rows: bool,
    /// Whether the elements of a row are read in vectors of eight, on adapters whose memory cost depends on the number of
    /// accesses.
    in_eights: bool,
}

impl<'a> Part<'a> {
    /// A part whose last operands are `operands`; the shader provides those before. None if shaders lack one of the
    /// steps or types.
    fn of(
        name: &'static str,
        a: &Applied<'a>,
        operands: &[Operand<'a>],
        shape: &Dims,
        compute: DType,
    ) -> Option<Part<'a>> {
        let (formula, given) = (a.formula, a.operands.len() - operands.len());
        wgsl::supports(formula, compute).ok()?;
        let (mut inputs, mut views, mut numbers) =
            (SmallVec::new(), SmallVec::<[_; 8]>::new(), SmallVec::new());
        for (k, o) in a.operands.iter().enumerate() {
            inputs.push(match o {
                _ if k < given || !formula.reads(k) => Input::Unread,
                Operand::Unread => return None,
                Operand::Number(s) => {
                    numbers.push((k, *s));
                    Input::Number
                }
                // A 64-bit operand may have to be lowered to a narrower type by a separate conversion kernel.
                Operand::View(v)
                    if v.dtype == DType::I64 || (v.dtype == DType::F64 && compute != DType::F64) =>
                {
                    return None;
                }
                Operand::View(v) => {
                    views.push((k, *v));
                    Input::Tensor(v.dtype)
                }
            });
        }
        if formula.args() > a.operands.len() || formula.params() > a.params.len() {
            return None;
        }
        let strides: SmallVec<[&[isize]; 8]> = views.iter().map(|(_, v)| &v.layout.strides[..]).collect();
        let dense = views.iter().all(|(_, v)| v.layout.is_contiguous());
        let (shape, strides) = if dense { Default::default() } else { collapse_all(shape, &strides) };
        let mut strides = strides.into_iter();
        let read = |(argument, view)| Read { argument, view, strides: strides.next().unwrap_or_default() };
        let tensors = views.into_iter().map(read).collect();
        Some(Part {
            name,
            formula,
            inputs,
            tensors,
            numbers,
            params: a.params,
            shape,
            by_rows: false,
            in_eights: false,
        })
    }

    /// Whether all tensors can be read in vectors of eight along the rows, or have one element for each row.
    fn has_eights(&self, d: ReduceDims) -> bool {
        let dense = self.shape.is_empty() && d.inner == 1;
        let whole = |t: &Read| {
            let strides = &t.strides[..];
            let eights =
                t.view.layout.offset.is_multiple_of(8) && (dense || strides[1] == 1 && strides[0] % 8 == 0);
            t.view.dtype == DType::F32 && (eights || self.is_per_row(t))
        };
        d.n.is_multiple_of(8) && (dense || self.by_rows) && self.tensors.iter().all(whole)
    }

    /// Whether a tensor has one element for each row.
    fn is_per_row(&self, t: &Read) -> bool {
        self.by_rows && t.strides[1] == 0
    }

    /// The type of the elements of a tensor's binding.
    fn element(&self, t: &Read) -> &'static str {
        if self.in_eights && !self.is_per_row(t) { "vec4<u64>" } else { stored(t.view.dtype) }
    }

    /// The function `value`, which evaluates the formula, and the loop over a row in vectors of eight.
    fn eights(&self, compute: DType) -> (String, String) {
        let name = self.name;
        let (mut function, mut body) = (String::new(), String::new());
        let arguments: Vec<String> = self.tensors.iter().map(|t| format!("a{}: T", t.argument)).collect();
        line(&mut function, format!("fn value({}) -> T {{", arguments.join(", ")));
        self.let_numbers(&mut function);
        function += &wgsl::steps(self.formula, compute);
        let value = self.stored_value();
        line(&mut function, format!("    return opaque({value});\n}}"));
        let at = |t: &Read| match self.by_rows {
            true => format!("params.{name}_first{0} + outer * params.{name}_s{0}_0", t.argument),
            false => format!("params.{name}_first{} + outer * params.n", t.argument),
        };
        for t in &self.tensors {
            let (k, at) = (t.argument, at(t));
            match self.is_per_row(t) {
                true => line(&mut body, format!("    let a{k} = {name}{k}[{at}];")),
                false => line(&mut body, format!("    let from{k} = ({at}) >> 3u;")),
            }
        }
        line(&mut body, "    for (var k = segment; k < (params.n >> 3u); k += params.segments) {");
        let vectors = || self.tensors.iter().filter(|t| !self.is_per_row(t)).map(|t| t.argument);
        for k in vectors() {
            line(&mut body, format!("        let eight{k} = {name}{k}[from{k} + k];"));
        }
        for (lane, shift) in ["x", "y", "z", "w"].iter().flat_map(|lane| [(lane, 0), (lane, 32)]) {
            let argument = |t: &Read| match self.is_per_row(t) {
                true => format!("a{}", t.argument),
                false => format!("bitcast<f32>(u32(eight{}.{lane} >> {shift}u))", t.argument),
            };
            let arguments: Vec<String> = self.tensors.iter().map(argument).collect();
            let value = format!("value({})", arguments.join(", "));
            line(&mut body, format!("        total = combine(total, prepare({value}, center));"));
        }
        line(&mut body, "    }");
        (function, body)
    }

    fn let_numbers(&self, s: &mut String) {
        for (k, _) in &self.numbers {
            line(s, format!("    let a{k} = params.{}{k};", self.name));
        }
        for k in 0..self.params.len() {
            line(s, format!("    let p{k} = params.{}_p{k};", self.name));
        }
    }

    /// The value of the formula as a number.
    fn stored_value(&self) -> String {
        let value = wgsl::value(self.formula, 0);
        if self.formula.is_truth(0) { format!("select(T(0), T(1), {value})") } else { value }
    }

    fn fields(&self) -> String {
        let (name, mut s) = (self.name, String::new());
        self.numbers.iter().for_each(|(k, _)| line(&mut s, format!("    {name}{k}: T,")));
        (0..self.params.len()).for_each(|k| line(&mut s, format!("    {name}_p{k}: T,")));
        for d in 0..self.shape.len() {
            line(&mut s, format!("    {name}_n{d}: u32,"));
        }
        for t in &self.tensors {
            line(&mut s, format!("    {name}_first{}: u32,", t.argument));
            (0..self.shape.len()).for_each(|d| line(&mut s, format!("    {name}_s{}_{d}: u32,", t.argument)));
        }
        s
    }

    /// Writes the values of the fields that `fields` declares, in the same order.
    fn lay_out(&self, p: &mut Params, compute: DType) {
        self.numbers.iter().map(|(_, s)| s).chain(self.params).for_each(|s| {
            p.number(*s, compute);
        });
        self.shape.iter().for_each(|&n| {
            p.u32(n as u32);
        });
        for t in &self.tensors {
            p.u32(t.view.layout.offset as u32);
            // Strides may be negative: they are cast to u32 and the shader's sums wrap around.
            t.strides.iter().for_each(|&stride| {
                p.u32(stride as u32);
            });
        }
    }

    /// Renders the function `function(i, outer, k)`, which evaluates the formula at position `i`; if `given`, it is
    /// `function(a0, i)` and the shader passes the first argument.
    fn function(&self, function: &str, given: bool, compute: DType) -> String {
        let (name, mut s) = (self.name, String::new());
        for t in &self.tensors {
            let (k, dtype) = (t.argument, t.view.dtype);
            let value = load(&format!("{name}{k}"), dtype);
            line(&mut s, format!("fn {name}_load{k}(i: u32) -> T {{ return T({value}); }}"));
        }
        line(
            &mut s,
            format!(
                "fn {function}({}) -> T {{",
                if given { "a0: T, i: u32" } else { "i: u32, outer: u32, k: u32" }
            ),
        );
        match self.by_rows {
            true => line(&mut s, "    let c0 = outer;\n    let c1 = k;"),
            false => s += &coordinates(self.shape.len()).replace("params.n", &format!("params.{name}_n")),
        }
        self.let_numbers(&mut s);
        for t in &self.tensors {
            let k = t.argument;
            let along = (0..self.shape.len()).map(|d| format!(" + c{d} * params.{name}_s{k}_{d}"));
            let along = if self.shape.is_empty() { " + i".into() } else { along.collect::<String>() };
            line(&mut s, format!("    let a{k} = {name}_load{k}(params.{name}_first{k}{along});"));
        }
        s += &wgsl::steps(self.formula, compute);
        let value = self.stored_value();
        // `opaque` prevents contraction with later operations, as if the value were loaded from memory.
        line(&mut s, format!("    return opaque({value});\n}}"));
        s
    }

    /// Appends the properties of this part that its shader depends on.
    fn tell(&self, variant: &mut SmallVec<[u8; 2 * KEY]>) {
        variant.extend(self.formula.identity().to_le_bytes());
        let sizes = [self.shape.len() as u8, self.params.len() as u8, self.inputs.len() as u8];
        variant.extend(sizes);
        let per_row = self.tensors.iter().map(|t| (self.in_eights && self.is_per_row(t)) as u8);
        variant.extend([self.by_rows as u8, self.in_eights as u8].into_iter().chain(per_row));
        variant.extend(self.inputs.iter().map(input_tag));
    }
}

/// The passes of one call.
struct Reduction<'a> {
    gpu: &'static Gpu,
    d: ReduceDims,
    segments: usize,
    /// The results of the first of two passes.
    partial: &'a Workspace,
}

impl Reduction<'_> {
    fn run<'p>(&self, plan: &Plan, first: &Part<'p>, last: Option<&Part<'p>>, out: View) -> Result<bool> {
        let (d, segments) = (self.d, self.segments);
        if segments == 1 {
            return self.launch(plan, Ok(first), Some(last), d, 1, out);
        }
        let partial = self.partial.view();
        Ok(self.launch(plan, Ok(first), None, d, segments, partial)?
            && self.launch(plan, Err(partial), Some(last), ReduceDims { n: segments, ..d }, 1, out)?)
    }

    /// One pass, over a formula (`Ok`) or the results of an earlier pass (`Err`). `last` is None unless this is the
    /// last pass; it then contains the formula applied to the results, if any.
    fn launch<'p>(
        &self,
        plan: &Plan,
        of: Result<&Part<'p>, View>,
        last: Option<Option<&Part<'p>>>,
        d: ReduceDims,
        segments: usize,
        out: View,
    ) -> Result<bool> {
        let (gpu, compute, about) = (self.gpu, plan.compute, plan.about);
        let count = d.lanes() * segments;
        let mut params = Params::new(count as u32);
        params.u32(d.n as u32).u32(d.inner as u32).u32(segments as u32);
        params.u32(0).u32(out.layout.offset as u32).u32(about.map_or(0, |v| v.layout.offset) as u32);
        params.f32(plan.p);
        let after = last.flatten();
        let parts = || of.ok().into_iter().chain(after);
        parts().for_each(|p| p.lay_out(&mut params, compute));
        let mut read: SmallVec<[View; 8]> = SmallVec::new();
        read.extend(of.err());
        parts().for_each(|p| read.extend(p.tensors.iter().map(|t| t.view)));
        read.extend(about);
        if params.bytes().len() > MAX_PARAMS || read.len() + 1 > gpu.caps.max_buffers {
            return Ok(false);
        }
        let mut variant: SmallVec<[u8; 2 * KEY]> = SmallVec::new();
        let ends = u8::from(of.is_ok()) | u8::from(last.is_some()) << 1 | u8::from(after.is_some()) << 2;
        variant.extend([plan.tag, ends, about.is_some() as u8, compute as u8]);
        parts().for_each(|p| p.tell(&mut variant));
        let source = || source(plan, of.ok(), last, out.dtype);
        gpu.launch(Launch {
            op: "reduction",
            kernel: "reduce_formula",
            variant: &variant,
            source: &source,
            written: &[out],
            read: &read,
            params: &params,
            groups: count.div_ceil(GROUP),
        })?;
        Ok(true)
    }
}

/// The shader of a pass.
fn source<'p>(
    plan: &Plan,
    of: Option<&Part<'p>>,
    last: Option<Option<&Part<'p>>>,
    result: DType,
) -> Result<String> {
    let (compute, f): (DType, &Functions) = (plan.compute, &plan.functions);
    let mut bindings = binding(1, "read_write", "result", stored(result));
    let mut bound = 1;
    let mut bind = |name: &str, element: &str| {
        bound += 1;
        bindings += &binding(bound, "read", name, element);
    };
    let mut eights = None;
    let mut functions = match of {
        Some(part) => {
            part.tensors.iter().for_each(|t| bind(&format!("x{}", t.argument), part.element(t)));
            match part.in_eights {
                true => {
                    let (function, body) = part.eights(compute);
                    eights = Some(body);
                    function
                }
                false => part.function("load", false, compute),
            }
        }
        None => {
            bind("x", stored(compute));
            format!("fn load(i: u32, outer: u32, k: u32) -> T {{ return T({}); }}\n", load("x", compute))
        }
    };
    let mut stores = String::from("finish(total, center)");
    if let Some(Some(part)) = last {
        part.tensors.iter().for_each(|t| bind(&format!("y{}", t.argument), stored(t.view.dtype)));
        functions += &part.function("after", true, compute);
        stores = format!("after(opaque({stores}), at)");
    }
    let mut center = "0".to_owned();
    if plan.about.is_some() {
        bind("center", stored(compute));
        center = load("center", compute);
    }
    line(&mut functions, format!("fn about(i: u32) -> T {{ return T({center}); }}"));
    let own = format!(
        "fn prepare(v: T, about: T) -> T {{ return {}; }}
{}fn finish(a: T, about: T) -> T {{ return {}; }}
",
        if of.is_some() { f.prepare } else { "v" },
        f.combine(compute),
        if last.is_some() { f.finish } else { "a" },
    );
    let fields: String = of.into_iter().chain(last.flatten()).map(Part::fields).collect();
    let start = format!("    var total = T({});\n", f.start);
    let store = format!("    result[params.first_result + at] = {}({stores});\n", stored(result));
    let slots = [
        ("params", &*fields),
        ("bindings", &*bindings),
        ("load", &*functions),
        ("functions", &*own),
        ("start", &*start),
        ("loop", eights.as_deref().unwrap_or(template::content(super::FRAME, "loop"))),
        ("store", &*store),
    ];
    template::shader(super::FRAME, compute, &slots).map_err(Error::NotImplemented)
}
