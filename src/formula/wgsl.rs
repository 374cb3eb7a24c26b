//! Recorded steps → WGSL.
//!
//! A shader is a frame (`shaders/pointwise.wgsl`) whose slots are filled with what depends on the formula and on the
//! dtypes, and those functions of the prelude that it reaches. Nothing here needs a device.

use std::fmt::Write;
use std::sync::LazyLock;

use super::record::{Prim, Step, reads};
use crate::dtype::DType;

/// Where the argument of a formula comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A contiguous tensor.
    Tensor(DType),
    /// A number among the parameters.
    Number,
    /// Not read by the formula.
    Unread,
}

/// A formula over contiguous tensors, and the types it is applied to.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise<'a> {
    pub steps: &'a [Step],
    pub inputs: &'a [Input],
    /// Number parameters of the row.
    pub params: usize,
    /// The type computed in: float32, float64, int32 or int64.
    pub compute: DType,
    pub result: DType,
}

impl Pointwise<'_> {
    /// The whole shader, or the reason why no device can run it.
    ///
    /// Binding 0 holds the parameters (element count, the zero, the row's parameters and the numbers in type
    /// `compute`, the first element of each tensor), 1 the result, 2 and up the tensors that are read, in order.
    pub fn render(&self) -> Result<String, String> {
        let library = library(self.compute)?;
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
        let read = |k: &usize| reads(self.steps, *k);
        let tensors = || {
            self.inputs.iter().enumerate().filter_map(|(k, i)| match i {
                Input::Tensor(dtype) if read(&k) => Some((k, *dtype)),
                _ => None,
            })
        };
        let is_number = |k: &usize| self.inputs[*k] == Input::Number;
        let arguments: Vec<usize> = (0..self.inputs.len()).filter(read).collect();
        let params: Vec<usize> = (0..self.params).filter(|&p| self.steps.contains(&Step::Param(p))).collect();

        let mut fields = String::new();
        (0..self.params).for_each(|p| line(&mut fields, format!("    p{p}: T,")));
        let numbers = arguments.iter().filter(|k| is_number(k));
        numbers.for_each(|k| line(&mut fields, format!("    n{k}: T,")));
        tensors().for_each(|(k, _)| line(&mut fields, format!("    first{k}: u32,")));

        let mut bindings = binding(1, "read_write", "result", self.result);
        let mut loads = String::new();
        for (n, (k, dtype)) in tensors().enumerate() {
            bindings += &binding(n + 2, "read", &format!("x{k}"), dtype);
            let value = load(&format!("x{k}"), dtype);
            line(&mut loads, format!("fn load{k}(i: u32) -> T {{ return T({value}); }}"));
        }

        let truth = is_truth(self.steps);
        let names =
            arguments.iter().map(|k| format!("a{k}: T")).chain(params.iter().map(|p| format!("p{p}: T")));
        let op = format!(
            "fn op({}) -> {} {{\n{}}}\n",
            names.collect::<Vec<_>>().join(", "),
            if truth { "bool" } else { "T" },
            body(self.steps, self.compute)
        );
        let values =
            arguments
                .iter()
                .map(|k| {
                    if is_number(k) {
                        format!("params.n{k}")
                    } else {
                        format!("load{k}(params.first{k} + i)")
                    }
                })
                .chain(params.iter().map(|p| format!("params.p{p}")));
        let call = format!("op({})", values.collect::<Vec<_>>().join(", "));
        let element = if truth {
            format!("    return select(T(0), T(1), {call});\n")
        } else {
            format!("    return {call};\n")
        };
        let store = store(self.result);

        let prelude = reached(library, &[&op, &loads, &store]);
        Ok(fill(
            FRAME,
            &[
                ("types", types(self.compute)),
                ("params", &fields),
                ("bindings", &bindings),
                ("prelude", &prelude),
                ("op", &op),
                ("load", &loads),
                ("element", &element),
                ("store", &store),
            ],
        ))
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
    for (i, step) in steps.iter().enumerate() {
        let text = match *step {
            Step::Arg(_) | Step::Param(_) => continue,
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

const FRAME: &str = include_str!("../../shaders/pointwise.wgsl");
const STORAGE: &str = include_str!("../../shaders/storage.wgsl");

fn types(compute: DType) -> &'static str {
    match compute {
        DType::F32 => "alias T = f32;\n",
        DType::F64 => "alias T = f64;\n",
        DType::I32 => "alias T = i32;\nconst WIDTH: T = 32;\n",
        _ => "alias T = i64;\nconst WIDTH: T = 64;\n",
    }
}

/// Elements in a 32-bit word, and the bits of each; wider ones are stored one by one.
fn lanes(dtype: DType) -> (usize, usize) {
    (4 / dtype.size().min(4), 8 * dtype.size())
}

/// The type of the elements of a binding: packed dtypes are bound as words.
fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::I64 => "i64",
        _ => "u32",
    }
}

fn binding(n: usize, access: &str, name: &str, dtype: DType) -> String {
    format!("@group(0) @binding({n}) var<storage, {access}> {name}: array<{}>;\n", stored(dtype))
}

/// The expression of element `i` of a binding, of some number type.
fn load(name: &str, dtype: DType) -> String {
    let (count, bits) = lanes(dtype);
    let word = format!("{name}[i >> {}u]", count.ilog2());
    let range = format!("(i & {}u) * {bits}u, {bits}u", count - 1);
    match dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => format!("{name}[i]"),
        DType::Bool | DType::U8 => format!("extractBits({word}, {range})"),
        DType::I8 | DType::I16 => format!("extractBits(bitcast<i32>({word}), {range})"),
        DType::F16 => format!("decode_half(extractBits({word}, {range}))"),
        DType::BF16 => format!("decode_bfloat16(extractBits({word}, {range}))"),
    }
}

/// The statements that compute and write word `word` of the result.
fn store(dtype: DType) -> String {
    let (count, bits) = lanes(dtype);
    let mask = (1u64 << bits.min(32)) - 1;
    let encoded = match dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => {
            let value = format!("{}(element(word))", stored(dtype));
            return format!("    if word < params.count {{\n        result[word] = {value};\n    }}\n");
        }
        // NaN is true.
        DType::Bool => "select(1u, 0u, value == T(0))".into(),
        DType::U8 | DType::I8 | DType::I16 => format!("bitcast<u32>(i32(value)) & {mask}u"),
        DType::F16 => "encode_half(f32(value))".into(),
        DType::BF16 => "encode_bfloat16(f32(value))".into(),
    };
    format!(
        "    let first = word * {count}u;
    if first < params.count {{
        var packed = 0u;
        for (var lane = 0u; lane < {count}u && first + lane < params.count; lane++) {{
            let value = element(first + lane);
            packed |= ({encoded}) << (lane * {bits}u);
        }}
        result[word] = packed;
    }}
"
    )
}

/// Replaces what stands between a `// @slot name` line and its `// @end` line.
fn fill(frame: &str, fillings: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut inside = false;
    for text in frame.lines() {
        if let Some(slot) = text.trim().strip_prefix("// @slot ") {
            inside = true;
            out += fillings.iter().find(|f| f.0 == slot).map_or("", |f| f.1);
        } else if text.trim() == "// @end" {
            inside = false;
        } else if !inside {
            line(&mut out, text);
        }
    }
    out
}

/// A declaration of a prelude.
struct Item {
    name: String,
    text: String,
}

/// The functions that shaders computing in a dtype may use.
fn library(compute: DType) -> Result<&'static [Item], String> {
    macro_rules! library {
        ($file:literal) => {{
            static ITEMS: LazyLock<Vec<Item>> = LazyLock::new(|| {
                let own = include_str!(concat!("../../shaders/", $file));
                items(STORAGE).into_iter().chain(items(own)).collect()
            });
            Ok(&ITEMS)
        }};
    }
    match compute {
        DType::F32 => library!("prelude.wgsl"),
        DType::F64 => library!("prelude_f64.wgsl"),
        DType::I32 | DType::I64 => library!("prelude_int.wgsl"),
        _ => Err(format!("formulas do not compute in {}", compute.name())),
    }
}

/// The declarations of a prelude, without its comments and its slots, which a frame declares itself.
fn items(source: &str) -> Vec<Item> {
    const KEYWORDS: [&str; 4] = ["fn ", "const ", "struct ", "var<private> "];
    let mut items: Vec<Item> = Vec::new();
    for text in fill(source, &[]).lines() {
        if let Some(rest) = KEYWORDS.iter().find_map(|k| text.strip_prefix(k)) {
            let name = words(rest).next().unwrap_or_default().to_owned();
            items.push(Item { name, text: String::new() });
        }
        let code = !text.is_empty() && !text.trim_start().starts_with("//");
        if let (Some(item), true) = (items.last_mut(), code) {
            line(&mut item.text, text);
        }
    }
    items
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

/// The items that some texts use, directly or through one another, in the order of the library.
fn reached(library: &[Item], texts: &[&str]) -> String {
    let mut used = vec![false; library.len()];
    let mut open = texts.to_vec();
    while let Some(text) = open.pop() {
        for word in words(text) {
            if let Some(i) = library.iter().position(|item| item.name == word)
                && !used[i]
            {
                used[i] = true;
                open.push(&library[i].text);
            }
        }
    }
    library.iter().zip(used).filter(|(_, used)| *used).map(|(item, _)| item.text.as_str()).collect()
}

fn line(out: &mut String, text: impl std::fmt::Display) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{text}");
}

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
    fn a_slot_is_replaced_and_the_rest_stays() {
        let frame = "a\n    // @slot s\n    default\n    // @end\nb\n";
        assert_eq!(fill(frame, &[("s", "    filled\n")]), "a\n    filled\nb\n");
    }

    #[test]
    fn a_shader_holds_only_the_prelude_it_reaches() {
        let steps = record(|a, _| a[0] + a[1]);
        let inputs = [Input::Tensor(DType::F32); 2];
        let shader =
            Pointwise { steps: &steps, inputs: &inputs, params: 0, compute: DType::F32, result: DType::F32 };
        let text = shader.render().unwrap();
        assert!(!text.contains("fn m_"), "{text}");
    }
}
