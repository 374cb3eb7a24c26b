//! Recorded steps → WGSL.
//!
//! A shader is a frame (`shaders/pointwise.wgsl`) whose slots are filled with what depends on the formula, on the dtypes
//! and on the layouts, and those functions of the prelude that it reaches. Nothing here needs a device.

use super::blocks::{self, Blocks};
use super::record::{Prim, Step, reads};
use super::template::{
    Item, binding, coordinates, encode, fill, lanes, library, line, load, mask, reached, store, stored, types,
};
use crate::dtype::DType;

/// Where the argument of a formula comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    Tensor(DType),
    /// A number among the parameters.
    Number,
    /// Not read by the formula.
    Unread,
}

/// How the tensors of a formula lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// All are contiguous; an invocation computes a word of the result.
    Dense,
    /// All are contiguous, of 32 bits, and begin at a multiple of four elements, which an invocation computes.
    Quads,
    /// As quads, in so many dimensions: of the last, inputs hold fours beside one another, or one element for all of it
    /// if their bit is set, by number of argument. Sizes and strides count fours.
    Rows(usize, u8),
    /// So many strides for each input; the result is contiguous.
    Strided(usize),
    /// So many strides for each input and for the result.
    Scattered(usize),
    /// As quads and rows, of any dtypes and with more for an invocation to do.
    Blocks(Blocks),
}

impl Form {
    const fn rank(self) -> usize {
        match self {
            Form::Dense | Form::Quads => 0,
            Form::Rows(rank, _) | Form::Strided(rank) | Form::Scattered(rank) => rank,
            Form::Blocks(b) => b.rank,
        }
    }
}

/// A formula, and the types and layouts it is applied to.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise<'a> {
    pub steps: &'a [Step],
    pub inputs: &'a [Input],
    /// Number parameters of the row.
    pub params: usize,
    /// The type computed in: float32, float64, int32 or int64.
    pub compute: DType,
    pub result: DType,
    pub form: Form,
}

impl Pointwise<'_> {
    /// The whole shader, or the reason why no device can run it.
    ///
    /// Binding 1 holds the result, 2 and up the tensors that are read, in order. Binding 0 holds the parameters: the
    /// count of elements (of quads or blocks, where those are computed), the zero, the row's parameters and the numbers in type
    /// `compute`, the first element of each tensor that is read, the first element of the result (its first word,
    /// where an invocation computes a word), the sizes, the strides of each tensor, and those of the result.
    pub fn render(&self) -> Result<String, String> {
        let library = library(self.compute)?;
        self.check(library)?;
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

    fn check(&self, library: &[Item]) -> Result<(), String> {
        for step in self.steps {
            match *step {
                Step::Do(p, _) if !has(library, self.compute, p) => {
                    return Err(format!("{} has no `{}` on a GPU", self.compute.name(), p.name()));
                }
                Step::Arg(k) if !matches!(self.inputs.get(k), Some(Input::Tensor(_) | Input::Number)) => {
                    return Err(format!("argument {k} is read but not given"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The arguments that the formula reads.
    fn arguments(&self) -> impl Iterator<Item = usize> {
        (0..self.inputs.len()).filter(|k| reads(self.steps, *k))
    }

    /// Those of them that are tensors.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (usize, DType)> {
        self.arguments()
            .filter_map(|k| if let Input::Tensor(d) = self.inputs[k] { Some((k, d)) } else { None })
    }

    fn used_params(&self) -> impl Iterator<Item = usize> {
        (0..self.params).filter(|&p| self.steps.contains(&Step::Param(p)))
    }

    fn fields(&self) -> String {
        let mut s = String::new();
        (0..self.params).for_each(|p| line(&mut s, format!("    p{p}: T,")));
        let numbers = self.arguments().filter(|&k| self.inputs[k] == Input::Number);
        numbers.for_each(|k| line(&mut s, format!("    x{k}: T,")));
        self.tensors().for_each(|(k, _)| line(&mut s, format!("    first{k}: u32,")));
        line(&mut s, "    first: u32,");
        let rank = self.form.rank();
        (0..rank).for_each(|d| line(&mut s, format!("    n{d}: u32,")));
        for (k, _) in self.tensors() {
            (0..rank).for_each(|d| line(&mut s, format!("    s{k}_{d}: u32,")));
        }
        if let Form::Scattered(_) = self.form {
            (0..rank).for_each(|d| line(&mut s, format!("    s_{d}: u32,")));
        }
        s
    }

    /// The declarations of the tensors, and the functions that load an element of each.
    fn bindings(&self) -> (String, String) {
        if let Some(b) = self.form.blocks() {
            let mut bindings = binding(1, "read_write", "result", &blocks::element(b, None, self.result));
            for (n, (k, dtype)) in self.tensors().enumerate() {
                bindings += &binding(n + 2, "read", &format!("x{k}"), &blocks::element(b, Some(k), dtype));
            }
            return (bindings, self.block_functions(b));
        }
        let quads = self.in_fours();
        let element = |dtype, fours: bool| {
            if fours { format!("vec4<{}>", stored(dtype)) } else { stored(dtype).into() }
        };
        // Neighbours in a word may be written by another invocation.
        let shared = matches!(self.form, Form::Scattered(_)) && lanes(self.result).0 > 1;
        let result = if shared { "atomic<u32>".into() } else { element(self.result, quads) };
        let mut bindings = binding(1, "read_write", "result", &result);
        let mut loads = String::new();
        for (n, (k, dtype)) in self.tensors().enumerate() {
            let name = format!("x{k}");
            bindings += &binding(n + 2, "read", &name, &element(dtype, quads && !self.is_splat(k)));
            if !quads {
                line(&mut loads, format!("fn load{k}(i: u32) -> T {{ return T({}); }}", load(&name, dtype)));
            }
        }
        (bindings, loads)
    }

    fn op(&self) -> String {
        let arguments = self.arguments().map(|k| format!("a{k}: T"));
        let names: Vec<String> = arguments.chain(self.used_params().map(|p| format!("p{p}: T"))).collect();
        let result = if is_truth(self.steps) { "bool" } else { "T" };
        let mut s =
            format!("fn op({}) -> {result} {{\n{}}}\n", names.join(", "), body(self.steps, self.compute));
        if self.becomes_whole() {
            let (low, high) = if self.result == DType::I64 {
                (-(2f64.powi(63)), 2f64.powi(63))
            } else {
                (-(2f64.powi(31)), 2f64.powi(31))
            };
            line(&mut s, "// What an integer cannot hold becomes the least one, as on the CPU.");
            line(
                &mut s,
                format!(
                    "fn whole(x: T) -> T {{ return select(T({low:?}), x, x >= T({low:?}) && x < T({high:?})); }}"
                ),
            );
        }
        s
    }

    /// Whether what is computed as a float is stored as an integer.
    fn becomes_whole(&self) -> bool {
        self.compute.is_float() && self.result.is_int() && !is_truth(self.steps)
    }

    /// The formula applied to tensors' elements, which `tensor` gives.
    pub(super) fn call(&self, tensor: impl Fn(usize) -> String) -> String {
        let arguments = self.arguments().map(|k| match self.inputs[k] {
            Input::Number => format!("params.x{k}"),
            _ => tensor(k),
        });
        let values: Vec<String> =
            arguments.chain(self.used_params().map(|p| format!("params.p{p}"))).collect();
        let call = format!("op({})", values.join(", "));
        match () {
            () if is_truth(self.steps) => format!("select(T(0), T(1), {call})"),
            () if self.becomes_whole() => format!("whole({call})"),
            () => call,
        }
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

    /// Whether an invocation computes four elements.
    fn in_fours(&self) -> bool {
        matches!(self.form, Form::Quads | Form::Rows(..))
    }

    /// Whether an input has one element for all of the last dimension.
    fn is_splat(&self, k: usize) -> bool {
        matches!(self.form, Form::Rows(_, splat) if splat >> k & 1 == 1)
    }

    fn place(&self) -> String {
        match self.form {
            Form::Scattered(_) => format!(
                "fn place(i: u32) -> u32 {{\n{}    return {};\n}}\n",
                coordinates(self.form.rank()),
                self.at("first", "s")
            ),
            _ => String::new(),
        }
    }

    fn element(&self) -> String {
        if self.in_fours() || self.form.blocks().is_some() {
            return String::new();
        }
        let value = self.call(|k| format!("load{k}({})", self.at(&format!("first{k}"), &format!("s{k}"))));
        format!("fn element(i: u32) -> T {{\n{}    return {value};\n}}\n", coordinates(self.form.rank()))
    }

    /// The statements that compute and write what invocation `word` is for.
    fn store(&self) -> String {
        let ((count, bits), kind) = (lanes(self.result), stored(self.result));
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
                let (per_word, last, mask) = (count.ilog2(), count - 1, mask(self.result));
                s = format!(
                    "    if word < params.count {{
        let value = element(word);
        let at = place(word);
        let shift = (at & {last}u) * {bits}u;
        atomicAnd(&result[at >> {per_word}u], ~({mask}u << shift));
        atomicOr(&result[at >> {per_word}u], ({}) << shift);
    }}
",
                    encode(self.result)
                );
            }
            Form::Scattered(_) => {
                let store = format!("result[place(word)] = {kind}(element(word));");
                s = format!("    if word < params.count {{\n        {store}\n    }}\n");
            }
            Form::Blocks(b) => s = self.block(b),
            Form::Dense | Form::Strided(_) => s = store(self.result),
        }
        s
    }
}

/// Renders steps as the body of a function whose arguments are `a0, a1, …` and whose parameters are `p0, p1, …`,
/// all of type `T`, which is `compute`. Mathematics goes through the prelude's functions (`m_exp`, …); a truth value
/// is a `bool`.
pub fn body(steps: &[Step], compute: DType) -> String {
    let mut s = String::new();
    let name = |i: usize| match steps[i] {
        Step::Arg(a) => format!("a{a}"),
        Step::Param(p) => format!("p{p}"),
        _ => format!("v{i}"),
    };
    // What is multiplied by zero may be NaN, which a compiler need not mind that sees the zero.
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
    line(&mut s, format!("    return {};", name(steps.len() - 1)));
    s
}

/// A number in the type computed in, converted as the CPU converts it. WGSL has no literal for an infinity or NaN.
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
        // The least integer is the opposite of a number that is no literal.
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

/// Steps that are operators of WGSL. `==` is none of them: it may assume that no NaN occurs.
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

/// Whether a formula that computes in `compute` may contain a step.
fn has(library: &[Item], compute: DType, p: Prim) -> bool {
    match p {
        Prim::Div => compute.is_float(),
        Prim::BitAnd | Prim::BitOr | Prim::BitXor => compute.is_int(),
        Prim::Neg | Prim::Not | Prim::Select => true,
        _ => infix(p).is_some() || library.iter().any(|i| i.name.strip_prefix("m_") == Some(p.name())),
    }
}

fn is_truth(steps: &[Step]) -> bool {
    use Prim::*;
    matches!(steps.last(), Some(Step::Do(Lt | Le | Eq | Not | And | Or, _)))
}

const FRAME: &str = shader_text!("pointwise.wgsl");

#[cfg(test)]
mod tests {
    use super::super::{Arith, Num, record::record};
    use super::*;

    #[test]
    fn a_formula_reads_as_one_let_per_step() {
        let steps = record(|a, _| Num::exp(a[0]) * Arith::lit(2.0));
        assert_eq!(
            body(&steps, DType::F32),
            "    let v1 = m_exp(a0);\n    let v2 = T(2.0);\n    let v3 = (v1 * v2);\n    return v3;\n"
        );
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
        let steps = record(|a, _| a[0] + a[1]);
        let inputs = [Input::Tensor(DType::F32); 2];
        let shader = Pointwise {
            steps: &steps,
            inputs: &inputs,
            params: 0,
            compute: DType::F32,
            result: DType::F32,
            form: Form::Dense,
        };
        let text = shader.render().unwrap();
        assert!(!text.contains("fn m_"), "{text}");
    }
}
