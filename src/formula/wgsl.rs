//! Renders recorded steps as WGSL.
//!
//! A shader is a template (`shaders/pointwise.wgsl`) whose slots depend on the formula, the dtypes and the layouts,
//! plus the prelude functions in use. Nothing here needs a device.

use super::Formula;
use super::blocks::{self, Blocks};
use super::record::{Prim, Step};
use super::template::{
    Item, binding, coordinates, encode, fill, lanes, library, line, load, mask, reached, store, stored, types,
};
use crate::dtype::DType;

/// The source of a formula's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    Tensor(DType),
    /// A number, passed in the parameters.
    Number,
    /// Not read by the formula.
    Unread,
}

/// The memory layout of a formula's tensors, and the work per invocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// All tensors are contiguous; an invocation computes one word of the result.
    Dense,
    /// All tensors are contiguous, of 32-bit elements, with offsets that are multiples of four; an invocation computes
    /// four elements.
    Quads,
    /// As `Quads`, with this many dimensions: along the last one, an input either holds quads of adjacent elements or
    /// is broadcast (bit set in the mask of arguments). Sizes and strides count quads.
    Rows(usize, u8),
    /// Inputs with this many strides each; the result is contiguous.
    Strided(usize),
    /// Inputs and result with this many strides each.
    Scattered(usize),
    /// As `Quads` and `Rows`, for any dtypes and with more elements per invocation.
    Blocks(Blocks),
}

impl Form {
    pub const fn rank(self) -> usize {
        match self {
            Form::Dense | Form::Quads => 0,
            Form::Rows(rank, _) | Form::Strided(rank) | Form::Scattered(rank) => rank,
            Form::Blocks(b) => b.rank,
        }
    }
}

/// A formula with the dtypes and layouts to render it for.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise<'a> {
    pub formula: &'a Formula,
    pub inputs: &'a [Input],
    /// Number of parameters passed.
    pub params: usize,
    /// The type to compute in: float32, float64, int32 or int64.
    pub compute: DType,
    /// The dtype of each result; with several results the form is `Dense`, `Strided` or `Scattered`.
    pub results: &'a [DType],
    pub form: Form,
}

impl Pointwise<'_> {
    /// The complete shader, or the reason why no device can run it.
    ///
    /// Binding 0 holds the parameters: the number of elements (or of quads or blocks), the zero, the operation's
    /// parameters and the number arguments in type `compute`, the offset of each input tensor, the offset of each
    /// result (in words where an invocation computes a word), the sizes, the strides of each input tensor, and those
    /// of each result. The results and then the input tensors follow from binding 1 on, in order.
    pub fn render(&self) -> Result<String, String> {
        let library = library(self.compute)?;
        self.check()?;
        let op = self.op();
        let (bindings, loads) = self.bindings();
        let (place, element, store) = (self.place(), self.element(), self.store());
        let prelude = reached(library, &[&op, &loads, &place, &element, &store]);
        Ok(fill(
            FRAME,
            &[
                ("types", types(self.compute)),
                ("params", &self.fields()),
                ("bindings", &bindings),
                ("prelude", &prelude),
                ("op", &op),
                ("load", &loads),
                ("place", &place),
                ("element", &element),
                ("store", &store),
            ],
        ))
    }

    fn check(&self) -> Result<(), String> {
        let (found, wanted) = (self.results.len(), self.formula.results().len());
        if found != wanted {
            return Err(format!("{found} results are stored of {wanted}"));
        }
        if self.is_several() && (self.in_fours() || self.form.blocks().is_some()) {
            return Err("several results are stored element by element".into());
        }
        supports(self.formula, self.compute)?;
        for step in self.formula.steps() {
            match *step {
                Step::Arg(k) if !matches!(self.inputs.get(k), Some(Input::Tensor(_) | Input::Number)) => {
                    return Err(format!("argument {k} is read but not given"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The arguments that the formula uses.
    fn arguments(&self) -> impl Iterator<Item = usize> {
        (0..self.inputs.len()).filter(|k| self.formula.reads(*k))
    }

    /// The arguments that are tensors, and their dtypes.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (usize, DType)> {
        self.arguments()
            .filter_map(|k| if let Input::Tensor(d) = self.inputs[k] { Some((k, d)) } else { None })
    }

    fn used_params(&self) -> impl Iterator<Item = usize> {
        (0..self.params).filter(|&p| self.formula.steps().contains(&Step::Param(p)))
    }

    fn fields(&self) -> String {
        let mut s = String::new();
        (0..self.params).for_each(|p| line(&mut s, format!("    p{p}: T,")));
        let numbers = self.arguments().filter(|&k| self.inputs[k] == Input::Number);
        numbers.for_each(|k| line(&mut s, format!("    x{k}: T,")));
        self.tensors().for_each(|(k, _)| line(&mut s, format!("    first{k}: u32,")));
        line(&mut s, "    first: u32,");
        (1..self.results.len()).for_each(|r| line(&mut s, format!("    first_r{r}: u32,")));
        let rank = self.form.rank();
        (0..rank).for_each(|d| line(&mut s, format!("    n{d}: u32,")));
        for (k, _) in self.tensors() {
            (0..rank).for_each(|d| line(&mut s, format!("    s{k}_{d}: u32,")));
        }
        if let Form::Scattered(_) = self.form {
            (0..rank).for_each(|d| line(&mut s, format!("    s_{d}: u32,")));
            for r in 1..self.results.len() {
                (0..rank).for_each(|d| line(&mut s, format!("    s_r{r}_{d}: u32,")));
            }
        }
        s
    }

    /// The declarations of the tensor bindings, and a load function for each input.
    fn bindings(&self) -> (String, String) {
        if let Some(b) = self.form.blocks() {
            let mut bindings = binding(1, "read_write", "result", &blocks::element(b, None, self.result()));
            for (n, (k, dtype)) in self.tensors().enumerate() {
                bindings += &binding(n + 2, "read", &format!("x{k}"), &blocks::element(b, Some(k), dtype));
            }
            return (bindings, self.block_functions(b));
        }
        let quads = self.in_fours();
        let element = |dtype, fours: bool| {
            if fours { format!("vec4<{}>", stored(dtype)) } else { stored(dtype).into() }
        };
        let (mut bindings, mut loads) = (String::new(), String::new());
        for (r, dtype) in self.results.iter().copied().enumerate() {
            // Other elements of the same word may be written by another invocation.
            let shared = matches!(self.form, Form::Scattered(_)) && lanes(dtype).0 > 1;
            let kind = if shared { "atomic<u32>".into() } else { element(dtype, quads) };
            bindings += &binding(1 + r, "read_write", &result_name(r), &kind);
        }
        for (n, (k, dtype)) in self.tensors().enumerate() {
            let name = format!("x{k}");
            let number = n + 1 + self.results.len();
            bindings += &binding(number, "read", &name, &element(dtype, quads && !self.is_splat(k)));
            if !quads {
                line(&mut loads, format!("fn load{k}(i: u32) -> T {{ return T({}); }}", load(&name, dtype)));
            }
        }
        (bindings, loads)
    }

    fn op(&self) -> String {
        let arguments = self.arguments().map(|k| format!("a{k}: T"));
        let names: Vec<String> = arguments.chain(self.used_params().map(|p| format!("p{p}: T"))).collect();
        let mut s = String::new();
        let result = match self.is_several() {
            true => {
                let fields = (0..self.results.len()).map(|r| format!("    r{r}: T,\n"));
                line(&mut s, format!("struct Results {{\n{}}}", fields.collect::<String>()));
                "Results"
            }
            false if self.formula.is_truth(0) => "bool",
            false => "T",
        };
        let values = (0..self.results.len()).map(|r| self.as_number(r, value(self.formula, r)));
        let value = match self.is_several() {
            true => format!("Results({})", values.collect::<Vec<_>>().join(", ")),
            false => value(self.formula, 0),
        };
        line(&mut s, format!("fn op({}) -> {result} {{", names.join(", ")));
        s += &steps(self.formula, self.compute);
        line(&mut s, format!("    return {value};\n}}"));
        let of = |dtype| (0..self.results.len()).any(|r| self.becomes_whole(r) && self.results[r] == dtype);
        let narrow = (0..self.results.len()).any(|r| self.becomes_whole(r) && self.results[r] != DType::I64);
        for (is_used, name, bits) in [(narrow, "whole", 31), (of(DType::I64), "whole_long", 63)] {
            if !is_used {
                continue;
            }
            let (low, high) = (-(2f64.powi(bits)), 2f64.powi(bits));
            line(&mut s, "// What an integer cannot hold becomes the least one, as on the CPU.");
            line(
                &mut s,
                format!(
                    "fn {name}(x: T) -> T {{ return select(T({low:?}), x, x >= T({low:?}) && x < T({high:?})); }}"
                ),
            );
        }
        s
    }

    /// The dtype of the only result.
    pub(super) fn result(&self) -> DType {
        self.results[0]
    }

    fn is_several(&self) -> bool {
        self.results.len() > 1
    }

    /// Whether a floating point result is stored as an integer.
    fn becomes_whole(&self, r: usize) -> bool {
        self.compute.is_float() && self.results[r].is_int() && !self.formula.is_truth(r)
    }

    /// Result `r`, converted to a number representable in its dtype.
    fn as_number(&self, r: usize, value: String) -> String {
        match self.results[r] {
            _ if self.formula.is_truth(r) => format!("select(T(0), T(1), {value})"),
            DType::I64 if self.becomes_whole(r) => format!("whole_long({value})"),
            _ if self.becomes_whole(r) => format!("whole({value})"),
            _ => value,
        }
    }

    /// The call of the formula; `tensor` gives the expression of a tensor's element.
    pub(super) fn call(&self, tensor: impl Fn(usize) -> String) -> String {
        let arguments = self.arguments().map(|k| match self.inputs[k] {
            Input::Number => format!("params.x{k}"),
            _ => tensor(k),
        });
        let values: Vec<String> =
            arguments.chain(self.used_params().map(|p| format!("params.p{p}"))).collect();
        let call = format!("op({})", values.join(", "));
        if self.is_several() { call } else { self.as_number(0, call) }
    }

    fn at(&self, first: &str, strides: &str) -> String {
        match self.form.rank() {
            0 => format!("params.{first} + i"),
            rank => {
                let terms = (0..rank).map(|d| format!(" + c{d} * params.{strides}_{d}"));
                format!("params.{first}{}", terms.collect::<String>())
            }
        }
    }

    /// Whether an invocation computes a quad.
    fn in_fours(&self) -> bool {
        matches!(self.form, Form::Quads | Form::Rows(..))
    }

    /// Whether an input is broadcast along the last dimension.
    fn is_splat(&self, k: usize) -> bool {
        matches!(self.form, Form::Rows(_, splat) if splat >> k & 1 == 1)
    }

    fn place(&self) -> String {
        match self.form {
            Form::Scattered(_) => {
                let one = |r: usize| {
                    let (name, first, strides) = match r {
                        0 => ("place".into(), "first".into(), "s".into()),
                        r => (format!("place_r{r}"), format!("first_r{r}"), format!("s_r{r}")),
                    };
                    let (coordinates, at) = (coordinates(self.form.rank()), self.at(&first, &strides));
                    format!("fn {name}(i: u32) -> u32 {{\n{coordinates}    return {at};\n}}\n")
                };
                (0..self.results.len()).map(one).collect()
            }
            _ => String::new(),
        }
    }

    fn element(&self) -> String {
        if self.in_fours() || self.form.blocks().is_some() {
            return String::new();
        }
        let value = self.call(|k| format!("load{k}({})", self.at(&format!("first{k}"), &format!("s{k}"))));
        let kind = if self.is_several() { "Results" } else { "T" };
        format!("fn element(i: u32) -> {kind} {{\n{}    return {value};\n}}\n", coordinates(self.form.rank()))
    }

    /// The statements that compute and store the elements of invocation `word`.
    fn store(&self) -> String {
        if self.is_several() {
            return self.store_several();
        }
        let ((count, bits), kind) = (lanes(self.result()), stored(self.result()));
        let mut s = String::new();
        match self.form {
            Form::Quads | Form::Rows(..) => {
                line(&mut s, "    if word < params.count {\n        let i = word;");
                s += &coordinates(self.form.rank());
                for (k, _) in self.tensors() {
                    let at = match self.form {
                        Form::Quads => format!("(params.first{k} >> 2u) + i"),
                        _ => self.at(&format!("first{k}"), &format!("s{k}")),
                    };
                    line(&mut s, format!("        let fours{k} = x{k}[{at}];"));
                }
                let element = |k: usize, lane: &str| match self.is_splat(k) {
                    true => format!("T(fours{k})"),
                    false => format!("T(fours{k}.{lane})"),
                };
                let parts = ["x", "y", "z", "w"]
                    .map(|lane| format!("            {kind}({})", self.call(|k| element(k, lane))));
                let value = format!("vec4<{kind}>(\n{}\n        )", parts.join(",\n"));
                line(&mut s, format!("        result[(params.first >> 2u) + word] = {value};\n    }}"));
            }
            Form::Scattered(_) if count > 1 => {
                let (per_word, last, mask) = (count.ilog2(), count - 1, mask(self.result()));
                s = format!(
                    "    if word < params.count {{
        let value = element(word);
        let at = place(word);
        let shift = (at & {last}u) * {bits}u;
        atomicAnd(&result[at >> {per_word}u], ~({mask}u << shift));
        atomicOr(&result[at >> {per_word}u], ({}) << shift);
    }}
",
                    encode(self.result())
                );
            }
            Form::Scattered(_) => {
                let store = format!("result[place(word)] = {kind}(element(word));");
                s = format!("    if word < params.count {{\n        {store}\n    }}\n");
            }
            Form::Blocks(b) => s = self.block(b),
            Form::Dense | Form::Strided(_) => s = store(self.result()),
        }
        s
    }

    /// As [`Self::store`], for several results, whose words may hold different numbers of elements.
    fn store_several(&self) -> String {
        let scattered = matches!(self.form, Form::Scattered(_));
        let count = if scattered { 1 } else { elements_at_once(self.results) };
        let mut s = String::new();
        line(&mut s, format!("    let start = word * {count}u;"));
        let packed = |r: usize| !scattered && lanes(self.results[r]).0 > 1;
        for r in (0..self.results.len()).filter(|r| packed(*r)) {
            line(&mut s, format!("    var packed{r} = 0u;"));
        }
        line(
            &mut s,
            format!(
                "    for (var lane = 0u; lane < {count}u && start + lane < params.count; lane++) {{
        let i = start + lane;
        let all = element(i);"
            ),
        );
        for (r, &dtype) in self.results.iter().enumerate() {
            let ((per_word, bits), kind, result) = (lanes(dtype), stored(dtype), result_name(r));
            let (first, place) = if r == 0 {
                ("first".into(), "place".into())
            } else {
                (format!("first_r{r}"), format!("place_r{r}"))
            };
            let (shift, last) = (per_word.ilog2(), per_word - 1);
            line(&mut s, format!("        {{\n            let value = all.r{r};"));
            s += &match (scattered, per_word) {
                (true, 1) => format!("            {result}[{place}(i)] = {kind}(value);\n"),
                (true, _) => format!(
                    "            let at = {place}(i);
            let shift = (at & {last}u) * {bits}u;
            atomicAnd(&{result}[at >> {shift}u], ~({}u << shift));
            atomicOr(&{result}[at >> {shift}u], ({}) << shift);
",
                    mask(dtype),
                    encode(dtype)
                ),
                (false, 1) => format!("            {result}[params.{first} + i] = {kind}(value);\n"),
                (false, _) => format!(
                    "            packed{r} |= ({}) << ((lane & {last}u) * {bits}u);
            if (lane & {last}u) == {last}u || i + 1u == params.count {{
                {result}[params.{first} + (i >> {shift}u)] = packed{r};
                packed{r} = 0u;
            }}
",
                    encode(dtype)
                ),
            };
            line(&mut s, "        }");
        }
        s + "    }\n"
    }
}

/// Elements per invocation for several contiguous results: those in a word of the narrowest dtype.
pub fn elements_at_once(results: &[DType]) -> usize {
    results.iter().map(|d| lanes(*d).0).max().unwrap_or(1)
}

/// The name of the binding of result `r`.
fn result_name(r: usize) -> String {
    if r == 0 { "result".into() } else { format!("result_r{r}") }
}

/// The WGSL name of a step.
fn name(formula: &Formula, i: usize) -> String {
    match formula.steps()[i] {
        Step::Arg(a) => format!("a{a}"),
        Step::Param(p) => format!("p{p}"),
        _ => format!("v{i}"),
    }
}

/// The WGSL name of result `r` after [`steps`].
pub fn value(formula: &Formula, r: usize) -> String {
    name(formula, formula.results()[r])
}

/// A WGSL function for a formula without parameters: it takes the formula's arguments in order, and returns several
/// results as a struct with fields `r0, r1, …`.
pub fn function(function: &str, formula: &Formula, compute: DType) -> String {
    let arguments: Vec<String> = (0..formula.args()).map(|k| format!("a{k}: T")).collect();
    let results = formula.results().len();
    let values: Vec<String> = (0..results).map(|r| value(formula, r)).collect();
    let mut s = String::new();
    let (kind, result) = match results {
        1 => ("T".into(), values[0].clone()),
        _ => {
            let fields: String = (0..results).map(|r| format!("    r{r}: T,\n")).collect();
            line(&mut s, format!("struct {function}_results {{\n{fields}}}"));
            (format!("{function}_results"), format!("{function}_results({})", values.join(", ")))
        }
    };
    line(&mut s, format!("fn {function}({}) -> {kind} {{", arguments.join(", ")));
    s += &steps(formula, compute);
    line(&mut s, format!("    return {result};\n}}"));
    s
}

/// Renders the steps of a formula with arguments `a0, a1, …` and parameters `p0, p1, …`, all of type `T`, which is
/// `compute`. Elementary functions are those of the prelude (`m_exp`, …); booleans have type `bool`.
pub fn steps(formula: &Formula, compute: DType) -> String {
    let mut s = String::new();
    let steps = formula.steps();
    let name = |i: usize| name(formula, i);
    // Multiplying by zero must keep NaN, but a compiler may fold a product with a literal zero.
    let multiplies =
        |i: usize| steps.iter().any(|s| matches!(s, Step::Do(Prim::Mul, [a, b, _]) if *a == i || *b == i));
    for (i, step) in steps.iter().enumerate() {
        let text = match *step {
            Step::Arg(_) | Step::Param(_) => continue,
            Step::Lit(0.0) if compute.is_float() && multiplies(i) => "opaque(T(0))".into(),
            Step::Lit(v) => literal(v, compute),
            Step::Do(p, o) => call(p, o.map(name)),
        };
        line(&mut s, format!("    let v{i} = {text};"));
    }
    s
}

/// A literal of the compute type, converted as on the CPU. WGSL has no literal for infinity or NaN.
fn literal(v: f64, compute: DType) -> String {
    let float = |finite: bool| match v {
        _ if v.is_nan() => "m_nan()".into(),
        _ if finite => format!("T({v:?})"),
        _ if v > 0.0 => "m_inf()".into(),
        _ => "-m_inf()".into(),
    };
    match compute {
        DType::F32 => float((v as f32).is_finite()),
        DType::F64 => float(v.is_finite()),
        DType::I32 => format!("T({})", v as i32),
        // The magnitude of the smallest integer is not a valid literal.
        _ if v as i64 == i64::MIN => format!("(T({}) - T(1))", -i64::MAX),
        _ => format!("T({})", v as i64),
    }
}

fn call(p: Prim, [a, b, c]: [String; 3]) -> String {
    match (infix(p), p) {
        (Some(op), _) => format!("({a} {op} {b})"),
        (None, Prim::Neg) => format!("(-{a})"),
        (None, Prim::Not) => format!("(!{a})"),
        (None, Prim::Select) => format!("select({c}, {b}, {a})"),
        (None, _) if p.arity() == 1 => format!("m_{}({a})", p.name()),
        (None, _) => format!("m_{}({a}, {b})", p.name()),
    }
}

/// Steps that are WGSL operators. Not `==`, which a compiler may evaluate assuming that no operand is NaN.
fn infix(p: Prim) -> Option<&'static str> {
    Some(match p {
        Prim::Add => "+",
        Prim::Sub => "-",
        Prim::Mul => "*",
        Prim::Div => "/",
        Prim::Lt => "<",
        Prim::Le => "<=",
        Prim::And => "&&",
        Prim::Or => "||",
        Prim::BitAnd => "&",
        Prim::BitOr => "|",
        Prim::BitXor => "^",
        _ => return None,
    })
}

/// Errors if a formula that computes in `compute` has a step that shaders do not support.
pub fn supports(formula: &Formula, compute: DType) -> Result<(), String> {
    let library = library(compute)?;
    formula.steps().iter().try_for_each(|step| match *step {
        Step::Do(p, _) if !has(library, compute, p) => {
            Err(format!("{} has no `{}` on a GPU", compute.name(), p.name()))
        }
        _ => Ok(()),
    })
}

/// Whether a formula that computes in `compute` may contain a step.
fn has(library: &[Item], compute: DType, p: Prim) -> bool {
    match p {
        Prim::Div => compute.is_float(),
        Prim::BitAnd | Prim::BitOr | Prim::BitXor => compute.is_int(),
        Prim::Neg | Prim::Not | Prim::Select => true,
        _ => infix(p).is_some() || library.iter().any(|i| i.name.strip_prefix("m_") == Some(p.name())),
    }
}

const FRAME: &str = shader_text!("pointwise.wgsl");

#[cfg(test)]
mod tests {
    use super::super::{Arith, Num, record::record};
    use super::*;

    #[test]
    fn a_formula_reads_as_one_let_per_step() {
        let f = record(|a, _| Num::exp(a[0]) * Arith::lit(2.0));
        assert_eq!(
            steps(&f, DType::F32),
            "    let v1 = m_exp(a0);\n    let v2 = T(2.0);\n    let v3 = (v1 * v2);\n"
        );
        assert_eq!(value(&f, 0), "v3");
    }

    #[test]
    fn a_literal_becomes_what_the_cpu_makes_of_it() {
        assert_eq!(literal(f64::MAX, DType::F32), "m_inf()");
        assert_eq!(literal(f64::MAX, DType::F64), "T(1.7976931348623157e308)");
        assert_eq!(literal(-0.5, DType::I32), "T(0)");
        assert_eq!(literal(f64::NEG_INFINITY, DType::I32), "T(-2147483648)");
        assert_eq!(literal(f64::NEG_INFINITY, DType::I64), "(T(-9223372036854775807) - T(1))");
        assert_eq!(literal(f64::INFINITY, DType::I64), "T(9223372036854775807)");
    }

    #[test]
    fn a_shader_holds_only_the_prelude_it_reaches() {
        let formula = record(|a, _| a[0] + a[1]);
        let inputs = [Input::Tensor(DType::F32); 2];
        let shader = Pointwise {
            formula: &formula,
            inputs: &inputs,
            params: 0,
            compute: DType::F32,
            results: &[DType::F32],
            form: Form::Dense,
        };
        let text = shader.render().unwrap();
        assert!(!text.contains("fn m_"), "{text}");
    }
}
