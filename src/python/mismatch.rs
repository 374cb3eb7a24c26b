//! Error messages for arguments that match no signature, in PyTorch's words.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyInt, PyList, PyTuple};

use super::convert::{self, Ty};
use super::dtype::type_name;
use super::matching::{Given, Positional, Values, bind, names_param};
use super::overloads;
use super::signature::{Param, Parameters, Signature};
use super::tensor::PyTensor;

/// Why arguments do not match a signature.
pub enum Mismatch<'py> {
    /// An argument has a type that its parameter does not accept.
    Type {
        param: usize,
        /// Counted from 1; None for a keyword.
        position: Option<usize>,
        found: Bound<'py, PyAny>,
    },
    /// One of several separate size arguments has an invalid type.
    Element {
        param: usize,
        /// Counted from 1.
        at: usize,
        found: Bound<'py, PyAny>,
    },
    Missing {
        param: usize,
    },
    TooMany,
    Keyword,
}

/// The error for arguments that match no signature: the reason, if only one signature has this number of arguments,
/// else a list of all signatures.
#[cold]
pub fn mismatch<'py>(
    name: &str,
    signatures: &[Signature],
    args: Positional<'_, 'py>,
    given: &Given<'_, 'py>,
    values: &mut Values,
) -> PyErr {
    let method = args.slf.is_some();
    let complex = |a: &Bound<'py, PyAny>| a.is_instance_of::<PyComplex>();
    if name.ends_with('_') && (args.rest.iter().any(complex) || given.iter().any(|(_, v)| complex(v))) {
        return PyRuntimeError::new_err(format!(
            "{name}(): Converting complex Scalar to non-complex type is not supported"
        ));
    }
    let parsed: Vec<Parameters>;
    let shown = overloads::shown(name, method);
    let candidates: Vec<&Parameters> = match shown {
        None => signatures.iter().map(|s| &s.parameters).collect(),
        Some(texts) => {
            let Some(py) = args.get(0).map(|a| a.py()).or(given.first().map(|(_, v)| v.py())) else {
                return list(name, texts, args, given);
            };
            parsed = texts.iter().filter_map(|text| Parameters::parse(py, text).ok()).collect();
            parsed.iter().collect()
        }
    };
    let count = args.len() + given.len();
    let counts = |p: &&Parameters| {
        let least = p.params.iter().filter(|p| p.default.is_none()).count();
        (least..=p.params.len()).contains(&count)
    };
    let meant = match &candidates[..] {
        [only] if shown.is_none() => Some(*only),
        all => match all.iter().copied().filter(|p| counts(p)).collect::<Vec<_>>()[..] {
            [only] => Some(only),
            _ => None,
        },
    };
    values.clear();
    match meant.map(|p| (p, bind(p, args, given, values))) {
        Some((p, Ok(Some(why)))) => PyTypeError::new_err(explain(name, p, args, given, why)),
        Some((_, Err(e))) => e,
        _ => {
            let texts: Vec<&str> = signatures.iter().map(|s| s.overload.sig).collect();
            list(name, shown.unwrap_or(&texts), args, given)
        }
    }
}

/// The elements of a tuple or list.
fn elements<'py>(obj: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match (obj.cast::<PyTuple>(), obj.cast::<PyList>()) {
        (Ok(t), _) => Some(t.iter().collect()),
        (_, Ok(l)) => Some(l.iter().collect()),
        _ => None,
    }
}

/// The first element of a sequence that the parameter's type does not accept, and its index.
fn strange_element<'py>(obj: &Bound<'py, PyAny>, ty: Ty) -> Option<(usize, Bound<'py, PyAny>)> {
    let strange = |x: &Bound<'py, PyAny>| match ty {
        Ty::Tensors | Ty::VarTensors => x.cast::<PyTensor>().is_err(),
        Ty::Ints | Ty::Size => convert::int(x).is_none(),
        _ => false,
    };
    elements(obj)?.into_iter().enumerate().find(|(_, x)| strange(x))
}

fn not_unpacked(name: &str, p: &Param, at: usize, found: &Bound<'_, PyAny>) -> String {
    let why = match found.is_instance_of::<PyInt>() {
        true => convert::OVERFLOW.into(),
        false => format!("type must be {},but got {}", p.ty.describe(), type_name(found)),
    };
    format!("{name}(): argument '{}' failed to unpack the object at pos {at} with error \"{why}\"", p.name)
}

fn explain(name: &str, s: &Parameters, args: Positional, given: &Given, why: Mismatch<'_>) -> String {
    // The object of a method does not count as an argument.
    let bound = args.slf.is_some() as usize;
    // Python itself checks the arguments of methods without parameters.
    match why {
        Mismatch::TooMany if bound == 1 && s.params.len() == 1 => {
            return format!("TensorBase.{name}() takes no arguments ({} given)", args.rest.len());
        }
        Mismatch::Keyword if bound == 1 && s.params.len() == 1 => {
            return format!("TensorBase.{name}() takes no keyword arguments");
        }
        _ => (),
    }
    match why {
        Mismatch::Type { param, position, found } => {
            let p = &s.params[param];
            let place = position.map_or(String::new(), |at| format!(" (position {at})"));
            let wanted = p.ty.describe();
            match (strange_element(&found, p.ty), p.ty) {
                (Some((i, x)), Ty::Tensors | Ty::VarTensors) => {
                    format!("expected Tensor as element {i} in argument {param}, but got {}", type_name(&x))
                }
                (Some((0, x)), _) => format!(
                    "{name}(): argument '{}'{place} must be {wanted}, but found element of type {} at pos 0",
                    p.name,
                    type_name(&x)
                ),
                (Some((i, x)), _) => not_unpacked(name, p, i + 1, &x),
                (None, Ty::Size) if found.is_instance_of::<PyInt>() && found.extract::<i64>().is_err() => {
                    not_unpacked(name, p, 1, &found)
                }
                _ => {
                    format!(
                        "{name}(): argument '{}'{place} must be {wanted}, not {}",
                        p.name,
                        type_name(&found)
                    )
                }
            }
        }
        Mismatch::Element { param, at, found } => not_unpacked(name, &s.params[param], at, &found),
        Mismatch::Missing { param } => {
            let missing: Vec<String> = s.params[param..]
                .iter()
                .filter(|p| p.default.is_none())
                .map(|p| format!("\"{}\"", p.name))
                .collect();
            // PyTorch's use of the plural.
            let plural = if missing.len() == 1 { "s" } else { "" };
            format!(
                "{name}() missing {} required positional argument{plural}: {}",
                missing.len(),
                missing.join(", ")
            )
        }
        Mismatch::TooMany => {
            let least = s.params.iter().filter(|p| p.default.is_none()).count().saturating_sub(bound);
            let (most, found) = (s.positional - bound, args.len() - bound);
            let were = if found == 1 { "was" } else { "were" };
            if least == most {
                let plural = if most == 1 { "" } else { "s" };
                format!("{name}() takes {most} positional argument{plural} but {found} {were} given")
            } else {
                format!("{name}() takes from {least} to {most} positional arguments but {found} {were} given")
            }
        }
        Mismatch::Keyword => {
            let unknown = given.iter().find(|(n, _)| !s.params.iter().any(|p| names_param(n, p)));
            match unknown.or(given.first()) {
                Some((n, _)) if unknown.is_some() => {
                    format!("{name}() got an unexpected keyword argument '{n}'")
                }
                Some((n, _)) => format!("{name}() got multiple values for argument '{n}'"),
                None => format!("{name}(): invalid arguments"),
            }
        }
    }
}

/// A parameter as shown in messages: `int dim = 0`.
fn written(p: &Param, text: &str) -> String {
    let default = text.split_once('=').map_or(String::new(), |(_, d)| format!(" = {}", d.trim()));
    let ty = if p.ty == Ty::Operand { "Tensor" } else { p.ty.describe() };
    format!("{ty} {}{default}", p.name)
}

/// One overload as listed in messages.
struct Listed {
    /// The parameters in order, including `*`.
    parts: Vec<String>,
}

impl Listed {
    fn of(text: &'static str, method: bool, py: Python<'_>) -> Option<Listed> {
        let p = Parameters::parse(py, text).ok()?;
        let mut named = p.params.iter();
        let mut parts = Vec::new();
        for text in Parameters::split(text) {
            let text = text.trim();
            if text == "*" {
                parts.push("*".to_string());
                continue;
            }
            let param = named.next()?;
            parts.push(written(param, text));
        }
        if method {
            // The object of a method is not listed, and methods have no `out`.
            parts.remove(0);
            parts.retain(|part| !part.ends_with(" out = None"));
            if parts.last().is_some_and(|part| part == "*") {
                parts.pop();
            }
        }
        Some(Listed { parts })
    }

    /// Splits a part into type and name. Like PyTorch it takes the last word as the name, so that a parameter with a
    /// default never matches.
    fn type_and_name(part: &str) -> (&str, &str) {
        part.rsplit_once(' ').unwrap_or((part, part))
    }

    fn takes(part: &str, found: &str) -> bool {
        let (ty, _) = Listed::type_and_name(part);
        match ty {
            "float" => matches!(found, "float" | "int"),
            _ => ty == found,
        }
    }

    /// Why the arguments do not match; empty if their number differs.
    fn reason(&self, args: &[Bound<'_, PyAny>], given: &Given) -> String {
        if self.parts.len() != args.len() + given.len() {
            return String::new();
        }
        let last = &self.parts[args.len()..];
        let unknown: Vec<String> = given
            .iter()
            .filter(|(n, _)| {
                !last.iter().any(|part| n.to_cow().is_ok_and(|n| Listed::type_and_name(part).1 == n))
            })
            .map(|(n, _)| n.to_string())
            .collect();
        if !unknown.is_empty() {
            return format!(
                "      didn't match because some of the keywords were incorrect: {}\n",
                unknown.join(", ")
            );
        }
        format!(
            "      didn't match because some of the arguments have invalid types: {}\n",
            self.marked(args, given)
        )
    }

    /// The types of the arguments; mismatches are enclosed in exclamation marks.
    fn marked(&self, args: &[Bound<'_, PyAny>], given: &Given) -> String {
        let keywords = given.iter().map(|(n, v)| (format!("{n}="), *v));
        let all = args.iter().map(|a| (String::new(), a)).chain(keywords);
        let shown = all.zip(&self.parts).map(|((name, value), part)| {
            let found = type_name(value);
            let text = match elements(value) {
                None => found.clone(),
                Some(items) => {
                    let inner = items.iter().map(|x| type_name(x)).collect::<Vec<_>>().join(", ");
                    match value.cast::<PyTuple>() {
                        Ok(t) if t.len() == 1 => format!("tuple of ({inner},)"),
                        Ok(_) => format!("tuple of ({inner})"),
                        Err(_) => format!("list of [{inner}]"),
                    }
                }
            };
            let mark = if Listed::takes(part, &found) { "" } else { "!" };
            format!("{mark}{name}{text}{mark}")
        });
        format!("({})", shown.collect::<Vec<_>>().join(", "))
    }
}

/// The error that lists all overloads of an operation.
fn list(name: &str, signatures: &[&'static str], args: Positional, given: &Given) -> PyErr {
    Python::attach(|py| {
        let method = args.slf.is_some();
        let overloads: Vec<Listed> =
            signatures.iter().filter_map(|text| Listed::of(text, method, py)).collect();
        let mut got: Vec<String> = args.rest.iter().map(|a| type_name(a)).collect();
        got.extend(given.iter().map(|(n, v)| format!("{n}={}", type_name(v))));
        let mut got = got.join(", ");
        // PyTorch ends a list of only keywords like this.
        if args.rest.is_empty() && !given.is_empty() {
            got.push_str(", ");
        }
        let head = format!("{name}() received an invalid combination of arguments - got");
        PyTypeError::new_err(match &overloads[..] {
            [only] => format!("{head} ({got}), but expected ({})", only.parts.join(", ")),
            all => {
                let lines = all
                    .iter()
                    .map(|o| format!(" * ({})\n{}", o.parts.join(", "), o.reason(args.rest, given)))
                    .collect::<String>();
                format!("{head} ({got}), but expected one of:\n{lines}")
            }
        })
    })
}
