//! The signatures of the operation table, parsed once.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::convert::Ty;
use crate::ops::schema::{Overload, Value};

/// A parameter of a signature.
#[derive(Debug)]
pub struct Param {
    pub name: &'static str,
    /// The name and its NumPy and Python aliases, interned.
    pub names: Vec<Py<PyString>>,
    pub ty: Ty,
    pub optional: bool,
    pub default: Option<Value>,
    pub keyword_only: bool,
}

/// The parameters of a signature.
pub struct Parameters {
    pub params: Vec<Param>,
    pub positional: usize,
    /// Some parameter accepts its values as separate arguments (`x.view(2, 3)`).
    pub gathers: bool,
    /// As `gathers`, for tensors (`broadcast_tensors(a, b)`).
    pub gathers_tensors: bool,
    /// The parameters that are dimensions.
    pub dims: Vec<usize>,
}

/// A parsed signature.
pub struct Signature {
    pub parameters: Parameters,
    pub overload: &'static Overload,
}

impl Signature {
    /// The parameters as Python writes them, without types: `$self, other, *, alpha=1`. A method's first parameter is
    /// the tensor.
    pub fn python_text(&self, method: bool, takes_out: bool) -> String {
        let mut texts = Vec::new();
        // Whether only keywords may follow, and whether a default came before.
        let (mut starred, mut optional) = (false, false);
        let mut params = self.parameters.params.iter();
        for part in Parameters::split(self.overload.sig) {
            let Some((name, rest)) = part.split_once(':') else {
                // What gathers arguments ends those by position as `*` does.
                if !starred {
                    texts.push("*".to_string());
                }
                starred = true;
                continue;
            };
            // The one Python keyword that PyTorch uses as a name.
            let name = if name.trim() == "from" { "from_" } else { name.trim() };
            let gathers = params.next().is_some_and(|p| matches!(p.ty, Ty::Size | Ty::VarTensors));
            let default = rest.split_once('=').map(|(_, default)| default.trim());
            if optional && default.is_none() && !starred {
                texts.push("*".to_string());
                starred = true;
            }
            texts.push(match default {
                _ if method && texts.is_empty() => "$self".to_string(),
                _ if gathers && !starred => format!("*{name}"),
                Some(default) => format!("{name}={default}"),
                None => name.to_string(),
            });
            starred |= gathers;
            optional |= default.is_some();
        }
        if takes_out {
            texts.extend((!starred).then(|| "*".to_string()));
            texts.push("out=None".to_string());
        }
        texts.join(", ")
    }
}

/// Parses the signature of an overload.
pub fn parse(py: Python<'_>, overload: &'static Overload) -> Result<Signature, String> {
    Ok(Signature { parameters: Parameters::parse(py, overload.sig)?, overload })
}

impl Parameters {
    /// Parses `"input: Tensor, dim: int[]? = None, *, dtype: dtype? = None -> …"`.
    pub fn parse(py: Python<'_>, signature: &'static str) -> Result<Parameters, String> {
        parse_parameters(py, signature)
    }

    /// The parameters as written, including `*`.
    pub fn split(signature: &'static str) -> Vec<&'static str> {
        split_params(signature.split("->").next().unwrap_or("").trim())
    }
}

fn parse_parameters(py: Python<'_>, signature: &'static str) -> Result<Parameters, String> {
    let mut params = Vec::new();
    let mut keyword_only = false;
    for part in Parameters::split(signature) {
        let part = part.trim();
        if part == "*" {
            keyword_only = true;
            continue;
        }
        let bad = || format!("bad parameter '{part}' in \"{}\"", signature);
        let (name, rest) = part.split_once(':').ok_or_else(bad)?;
        let (ty, default) = match rest.split_once('=') {
            Some((ty, d)) => (ty.trim(), Some(d.trim())),
            None => (rest.trim(), None),
        };
        let (ty, optional) = match ty {
            "Tensor?[]" => (ty, false),
            _ => match ty.strip_suffix('?') {
                Some(ty) => (ty, true),
                None => (ty, false),
            },
        };
        let ty = Ty::parse(ty).ok_or_else(bad)?;
        let default = default.map(|d| default_value(d, ty).ok_or_else(bad)).transpose()?;
        let name = name.trim();
        params.push(Param {
            name,
            names: [name].iter().chain(also_named(name)).map(|n| PyString::intern(py, n).unbind()).collect(),
            ty,
            optional,
            default,
            keyword_only,
        });
    }
    let positional = params.iter().filter(|p| !p.keyword_only).count();
    let gathers = params.iter().any(|p| matches!(p.ty, Ty::Size | Ty::VarTensors));
    let gathers_tensors = params.iter().any(|p| p.ty == Ty::VarTensors);
    let is_dim =
        |p: &&(usize, &Param)| p.1.name.starts_with("dim") && matches!(p.1.ty, Ty::Int | Ty::Ints | Ty::Size);
    let dims = params.iter().enumerate().filter(|p| is_dim(&p)).map(|(i, _)| i).collect();
    Ok(Parameters { params, positional, gathers, gathers_tensors, dims })
}

/// NumPy's and Python's aliases of a parameter.
fn also_named(param: &str) -> &'static [&'static str] {
    match param {
        "dim" => &["axis"],
        "keepdim" => &["keepdims"],
        "input" => &["self", "x", "x1"],
        "other" => &["x2"],
        _ => &[],
    }
}

/// Splits at commas outside brackets.
fn split_params(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        out.push(&text[start..]);
    }
    out
}

fn default_value(text: &str, ty: Ty) -> Option<Value> {
    use crate::dtype::Scalar;
    let list = || text.strip_prefix(['(', '['])?.strip_suffix([')', ']']);
    Some(match text {
        "None" => Value::None,
        "True" => Value::Number(Scalar::Bool(true)),
        "False" => Value::Number(Scalar::Bool(false)),
        _ if ty == Ty::Str => Value::Str(text.trim_matches(['"', '\'']).into()),
        _ if matches!(ty, Ty::Ints | Ty::Size) => {
            let items = list().unwrap_or(text);
            Value::Ints(
                items
                    .split(',')
                    .map(str::trim)
                    .filter(|s| !s.is_empty())
                    .map(|s| s.parse().ok())
                    .collect::<Option<_>>()?,
            )
        }
        _ => match text.parse::<i64>() {
            Ok(i) if ty == Ty::Float => Value::Number(Scalar::Float(i as f64)),
            Ok(i) => Value::Number(Scalar::Int(i)),
            Err(_) => Value::Number(Scalar::Float(text.parse().ok()?)),
        },
    })
}
