//! How shaders are put together: a frame with slots, elements of each dtype, and the prelude's functions they reach.

use std::fmt::Write;
use std::sync::LazyLock;

use crate::dtype::DType;

const STORAGE: &str = shader_text!("storage.wgsl");

/// What declares `T`, the type computed in.
pub fn types(compute: DType) -> &'static str {
    match compute {
        DType::F32 => "alias T = f32;\n",
        DType::F64 => "alias T = f64;\n",
        DType::I32 => "alias T = i32;\nconst WIDTH: T = 32;\n",
        _ => "alias T = i64;\nconst WIDTH: T = 64;\n",
    }
}

/// Elements in a 32-bit word, and the bits of each; wider ones are stored one by one.
pub fn lanes(dtype: DType) -> (usize, usize) {
    (4 / dtype.size().min(4), 8 * dtype.size())
}

/// The type of the elements of a binding: packed dtypes are bound as words.
pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::I64 => "i64",
        _ => "u32",
    }
}

/// The declaration of a binding of some element type.
pub fn binding(n: usize, access: &str, name: &str, element: &str) -> String {
    format!("@group(0) @binding({n}) var<storage, {access}> {name}: array<{element}>;\n")
}

/// The expression of element `i` of a binding, of some number type.
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

/// The expression of an element that lies in some bits of a word.
pub fn unpack(dtype: DType, word: &str, range: &str) -> String {
    match dtype {
        DType::Bool | DType::U8 => format!("extractBits({word}, {range})"),
        DType::I8 | DType::I16 => format!("extractBits(bitcast<i32>({word}), {range})"),
        DType::F16 => format!("decode_half(extractBits({word}, {range}))"),
        DType::BF16 => format!("decode_bfloat16(extractBits({word}, {range}))"),
        _ => format!("bitcast<{}>({word})", stored(dtype)),
    }
}

/// The bits of `value`, of type `T`, as an element that is packed into a word.
pub fn encode(dtype: DType) -> String {
    match dtype {
        // NaN is true.
        DType::Bool => "select(1u, 0u, value == T(0))".into(),
        DType::U8 | DType::I8 | DType::I16 => {
            format!("bitcast<u32>(i32(value)) & {}u", mask(dtype))
        }
        DType::F16 => "encode_half(f32(value))".into(),
        DType::BF16 => "encode_bfloat16(f32(value))".into(),
        _ => format!("bitcast<u32>({}(value))", stored(dtype)),
    }
}

/// The bits of an element in the lowest place of a word.
pub fn mask(dtype: DType) -> u32 {
    u32::MAX >> (32 - 8 * dtype.size().min(4))
}

/// The statements that compute and write word `word` of a dense result, `element(i)` being its element `i`.
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

/// The fields of the sizes and strides of some dimensions, and the function that says where position `i` of them lies.
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

/// The statements that give element `i` its coordinates `c0, c1, …` among the sizes `params.n0, params.n1, …`.
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

/// What a frame has in a slot by itself.
pub fn content<'a>(frame: &'a str, slot: &str) -> &'a str {
    let after = frame.split_once(&format!("// @slot {slot}\n")).map_or("", |f| f.1);
    after.split_once("// @end").map_or("", |f| f.0)
}

/// Replaces what stands between a `// @slot name` line and its `// @end` line.
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

/// A shader of a family that computes in `compute`: its frame with the slots filled, `types` and `prelude` by what the
/// rest asks for.
///
/// Note [Functions of a frame]
/// What a frame has between `// @slot functions` and `// @end` is a library of its own: unless the slot is filled, the
/// shader gets those of its functions that it reaches. So alternatives stand in the file, are validated as they
/// stand there, and the host names the one that is called.
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

/// A declaration of a prelude.
pub struct Item {
    pub name: String,
    text: String,
}

/// The declarations of the coefficients that the functions of a dtype use.
pub fn coefficients(compute: DType) -> String {
    match compute {
        DType::F32 => super::coefficients::wgsl(false),
        DType::F64 => super::coefficients::wgsl(true),
        _ => String::new(),
    }
}

/// The functions that shaders computing in a dtype may use.
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
    // Writing to a String does not fail.
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
