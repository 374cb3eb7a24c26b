//! Assembly of shaders: a template with slots, load and store code per dtype, and the prelude functions in use.

use std::fmt::Write;
use std::sync::LazyLock;

use crate::dtype::DType;

const STORAGE: &str = shader_text!("storage.wgsl");

/// Declares `T`, the type in which the shader computes.
pub fn types(compute: DType) -> &'static str {
    match compute {
        DType::F32 => "alias T = f32;\n",
        DType::F64 => "alias T = f64;\n",
        DType::I32 => "alias T = i32;\nconst WIDTH: T = 32;\n",
        _ => "alias T = i64;\nconst WIDTH: T = 64;\n",
    }
}

/// Elements per 32-bit word, and bits per element; wider elements are stored individually.
pub fn lanes(dtype: DType) -> (usize, usize) {
    (4 / dtype.size().min(4), 8 * dtype.size())
}

/// The element type of a storage binding: dtypes below 32 bits are bound as words.
pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::I64 => "i64",
        _ => "u32",
    }
}

/// The declaration of a storage binding.
pub fn binding(n: usize, access: &str, name: &str, element: &str) -> String {
    format!("@group(0) @binding({n}) var<storage, {access}> {name}: array<{element}>;\n")
}

/// The expression that loads element `i` of a binding as a number.
pub fn load(name: &str, dtype: DType) -> String {
    let (count, bits) = lanes(dtype);
    match stored(dtype) {
        "u32" => {
            let word = format!("{name}[i >> {}u]", count.ilog2());
            unpack(dtype, &word, &format!("(i & {}u) * {bits}u, {bits}u", count - 1))
        }
        _ => format!("{name}[i]"),
    }
}

/// The expression for an element in a range of bits of a word.
pub fn unpack(dtype: DType, word: &str, range: &str) -> String {
    match dtype {
        DType::Bool | DType::U8 => format!("extractBits({word}, {range})"),
        DType::I8 | DType::I16 => format!("extractBits(bitcast<i32>({word}), {range})"),
        DType::F16 => format!("decode_half(extractBits({word}, {range}))"),
        DType::BF16 => format!("decode_bfloat16(extractBits({word}, {range}))"),
        _ => format!("bitcast<{}>({word})", stored(dtype)),
    }
}

/// The expression that encodes `value`, of type `T`, as bits to be packed into a word.
pub fn encode(dtype: DType) -> String {
    match dtype {
        // NaN converts to true.
        DType::Bool => "select(1u, 0u, value == T(0))".into(),
        DType::U8 | DType::I8 | DType::I16 => {
            format!("bitcast<u32>(i32(value)) & {}u", mask(dtype))
        }
        DType::F16 => "encode_half(f32(value))".into(),
        DType::BF16 => "encode_bfloat16(f32(value))".into(),
        _ => format!("bitcast<u32>({}(value))", stored(dtype)),
    }
}

/// The mask of the lowest element in a word.
pub fn mask(dtype: DType) -> u32 {
    u32::MAX >> (32 - 8 * dtype.size().min(4))
}

/// The statements that compute and store word `word` of a contiguous result, whose element `i` is `element(i)`.
pub fn store(result: DType) -> String {
    let (count, bits) = lanes(result);
    if count == 1 {
        let store = format!("result[params.first + word] = {}(element(word));", stored(result));
        return format!("    if word < params.count {{\n        {store}\n    }}\n");
    }
    format!(
        "    let start = word * {count}u;
    if start < params.count {{
        var packed = 0u;
        for (var lane = 0u; lane < {count}u && start + lane < params.count; lane++) {{
            let value = element(start + lane);
            packed |= ({}) << (lane * {bits}u);
        }}
        result[params.first + word] = packed;
    }}
",
        encode(result)
    )
}

/// The parameter fields for sizes and strides, and the function that maps a linear position to an offset.
pub fn place(function: &str, rank: usize) -> (String, String) {
    let (mut fields, mut s) = (String::new(), format!("fn {function}(i: u32) -> u32 {{\n"));
    (0..rank)
        .for_each(|d| line(&mut fields, format!("    {function}_n{d}: u32,\n    {function}_s{d}: u32,")));
    let mut rest = "i".to_owned();
    let mut terms = String::from("0u");
    for d in (0..rank).rev() {
        if d == 0 {
            terms += &format!(" + {rest} * params.{function}_s0");
            break;
        }
        line(&mut s, format!("    let q{d} = quotient({rest}, params.{function}_n{d});"));
        terms += &format!(" + ({rest} - q{d} * params.{function}_n{d}) * params.{function}_s{d}");
        rest = format!("q{d}");
    }
    line(&mut s, format!("    return {terms};\n}}"));
    (fields, s)
}

/// The statements that compute coordinates `c0, c1, …` of element `i` from the sizes `params.n0, params.n1, …`.
pub fn coordinates(rank: usize) -> String {
    let mut s = String::new();
    let mut rest = "i".to_owned();
    for d in (1..rank).rev() {
        line(&mut s, format!("    let q{d} = quotient({rest}, params.n{d});"));
        line(&mut s, format!("    let c{d} = {rest} - q{d} * params.n{d};"));
        rest = format!("q{d}");
    }
    if rank > 0 {
        line(&mut s, format!("    let c0 = {rest};"));
    }
    s
}

/// The default content of a template's slot.
pub fn content<'a>(frame: &'a str, slot: &str) -> &'a str {
    let after = frame.split_once(&format!("// @slot {slot}\n")).map_or("", |f| f.1);
    after.split_once("// @end").map_or("", |f| f.0)
}

/// Replaces the lines between `// @slot name` and `// @end`.
pub fn fill(frame: &str, fillings: &[(&str, &str)]) -> String {
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

/// A shader of a kernel family that computes in `compute`: its template with the slots filled, and the `types` and
/// `prelude` that it needs.
///
/// Note [Functions of a frame] The functions between `// @slot functions` and `// @end` of a template form a library:
/// unless the slot is filled, only those that the shader calls are included. So a template file may hold alternatives,
/// all of which are validated as part of the file, and the host code selects one by the name that it calls.
pub fn shader(frame: &str, compute: DType, slots: &[(&str, &str)]) -> Result<String, String> {
    let library = library(compute)?;
    let mut all = vec![("types", types(compute)), ("prelude", "")];
    all.extend_from_slice(slots);
    let functions = match slots.iter().any(|s| s.0 == "functions") {
        true => String::new(),
        false => reached(&items(content(frame, "functions")), &[&fill(frame, &all)]),
    };
    all.push(("functions", &functions));
    let prelude = reached(library, &[&fill(frame, &all)]);
    all[1].1 = &prelude;
    Ok(fill(frame, &all))
}

/// A declaration of the prelude.
pub struct Item {
    pub name: String,
    text: String,
}

/// The declarations of the coefficients used by functions of a dtype.
pub fn coefficients(compute: DType) -> String {
    match compute {
        DType::F32 => super::coefficients::wgsl(false),
        DType::F64 => super::coefficients::wgsl(true),
        _ => String::new(),
    }
}

/// The prelude functions available to shaders that compute in a dtype.
pub fn library(compute: DType) -> Result<&'static [Item], String> {
    macro_rules! library {
        ($file:literal, $compute:expr) => {{
            static ITEMS: LazyLock<Vec<Item>> = LazyLock::new(|| {
                let own = shader_text!($file);
                let all = [STORAGE, &coefficients($compute), own];
                all.into_iter().flat_map(items).collect()
            });
            Ok(&ITEMS)
        }};
    }
    match compute {
        DType::F32 => library!("prelude.wgsl", DType::F32),
        DType::F64 => library!("prelude_f64.wgsl", DType::F64),
        DType::I32 | DType::I64 => library!("prelude_int.wgsl", DType::I64),
        _ => Err(format!("formulas do not compute in {}", compute.name())),
    }
}

/// The declarations of a prelude, without comments and without slots, which the template declares itself.
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

/// The items that `texts` use, directly or transitively, in the order of the library.
pub fn reached(library: &[Item], texts: &[&str]) -> String {
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

pub fn line(out: &mut String, text: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_replaced_and_the_rest_stays() {
        let frame = "a\n    // @slot s\n    default\n    // @end\nb\n";
        assert_eq!(fill(frame, &[("s", "    filled\n")]), "a\n    filled\nb\n");
    }
}
