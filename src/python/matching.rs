//! Arguments of a call matched against the signatures of an operation, and what is said of those that fit none.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use smallvec::SmallVec;

use super::convert::{self, Ty};
use super::dtype::type_name;
use super::signature::{Param, Signature};
use super::tensor::PyTensor;
use crate::ops::schema::Value;

/// The positional arguments of a call, of which a method's object is the first.
#[derive(Clone, Copy)]
pub struct Positional<'a, 'py> {
    pub slf: Option<&'a Bound<'py, PyAny>>,
    pub rest: &'a [Bound<'py, PyAny>],
}

impl<'a, 'py> Positional<'a, 'py> {
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slf.is_some() as usize + self.rest.len()
    }

    #[inline(always)]
    pub fn get(&self, i: usize) -> Option<&'a Bound<'py, PyAny>> {
        match self.slf {
            None => self.rest.get(i),
            Some(slf) if i == 0 => Some(slf),
            Some(_) => self.rest.get(i - 1),
        }
    }
}

pub type Given<'a, 'py> = SmallVec<[(Bound<'py, PyString>, &'a Bound<'py, PyAny>); 4]>;
pub type Values = SmallVec<[Value; 6]>;

/// The first signature that the arguments fit; their values are left in `values`.
#[inline]
pub fn find<'e, 'py>(
    name: &str,
    signatures: &'e [Signature],
    args: Positional<'_, 'py>,
    given: &Given<'_, 'py>,
    values: &mut Values,
) -> PyResult<&'e Signature> {
    for s in signatures {
        if bind(s, args, given, values)?.is_none() {
            return Ok(s);
        }
        values.clear();
    }
    Err(mismatch(name, signatures, args, given, values))
}

/// The error for arguments that fit no signature.
#[cold]
fn mismatch<'py>(
    name: &str,
    signatures: &[Signature],
    args: Positional<'_, 'py>,
    given: &Given<'_, 'py>,
    values: &mut Values,
) -> PyErr {
    let [only] = signatures else { return invalid_combination(name, signatures, args, given) };
    match bind(only, args, given, values) {
        Ok(Some(why)) => PyTypeError::new_err(explain(name, only, args, given, why)),
        Ok(None) => invalid_combination(name, signatures, args, given),
        Err(e) => e,
    }
}

/// Why arguments do not fit a signature.
enum Mismatch<'py> {
    /// The argument for a parameter has a type that it does not take.
    Type {
        param: usize,
        /// From one on; None for a keyword.
        position: Option<usize>,
        found: Bound<'py, PyAny>,
    },
    Missing {
        param: usize,
    },
    TooMany,
    Keyword,
}

/// The first element of a sequence that is none of what a parameter takes a sequence of, and where it stands.
fn strange_element<'py>(obj: &Bound<'py, PyAny>, ty: Ty) -> Option<(usize, Bound<'py, PyAny>)> {
    let strange = |x: &Bound<'py, PyAny>| match ty {
        Ty::Tensors | Ty::VarTensors => x.cast::<PyTensor>().is_err(),
        Ty::Ints | Ty::Size => convert::int(x).is_none(),
        _ => false,
    };
    let items: Vec<_> = match (obj.cast::<PyTuple>(), obj.cast::<PyList>()) {
        (Ok(t), _) => t.iter().collect(),
        (_, Ok(l)) => l.iter().collect(),
        _ => return None,
    };
    items.into_iter().enumerate().find(|(_, x)| strange(x))
}

fn explain(name: &str, s: &Signature, args: Positional, given: &Given, why: Mismatch<'_>) -> String {
    match why {
        Mismatch::Type { param, position, found } => {
            let p = &s.params[param];
            match (strange_element(&found, p.ty), p.ty) {
                (Some((i, x)), Ty::Tensors | Ty::VarTensors) => {
                    format!("expected Tensor as element {i} in argument {param}, but got {}", type_name(&x))
                }
                // Of the first element PyTorch says that the whole is of another type.
                (Some((i, x)), ty) if i > 0 => format!(
                    "{name}(): argument '{}' failed to unpack the object at pos {} with error \"type must be {},but got {}\"",
                    p.name,
                    i + 1,
                    ty.describe(),
                    type_name(&x)
                ),
                _ => {
                    let position = position.map_or(String::new(), |at| format!(" (position {at})"));
                    let (wanted, found) = (p.ty.describe(), type_name(&found));
                    format!("{name}(): argument '{}'{position} must be {wanted}, not {found}", p.name)
                }
            }
        }
        Mismatch::Missing { param } => {
            format!("{name}() missing 1 required positional arguments: \"{}\"", s.params[param].name)
        }
        Mismatch::TooMany => format!(
            "{name}() takes {} positional argument{} but {} {} given",
            s.positional,
            if s.positional == 1 { "" } else { "s" },
            args.len(),
            if args.len() == 1 { "was" } else { "were" }
        ),
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

/// Whether a keyword names a parameter. Both are interned, so that one word is one object.
#[inline(always)]
fn names_param(keyword: &Bound<'_, PyString>, p: &Param) -> bool {
    p.names.iter().any(|name| keyword.as_ptr() == name.as_ptr())
}

/// Fills in values by position; tells why where the signature does not fit.
fn bind<'py>(
    s: &Signature,
    args: Positional<'_, 'py>,
    given: &Given<'_, 'py>,
    values: &mut Values,
) -> PyResult<Option<Mismatch<'py>>> {
    let wrong = |param, position, a: &Bound<'py, PyAny>| {
        Ok(Some(Mismatch::Type { param, position, found: a.clone() }))
    };
    let mut next = 0;
    let mut used = 0;
    // A method's object has no position.
    let bound = args.slf.is_some() as usize;
    if args.len() > s.positional && !s.gathers {
        return Ok(Some(Mismatch::TooMany));
    }
    // So many cannot all have a parameter: the next signature may fit, before anything is converted.
    if !s.gathers && args.len() + given.len() > s.params.len() {
        return Ok(Some(Mismatch::Keyword));
    }
    for (position, p) in s.params.iter().enumerate() {
        let mut arg: Option<&Bound<'py, PyAny>> = None;
        let positional = !p.keyword_only && next < args.len();
        if let (false, Some(here)) = (p.keyword_only, args.get(next)) {
            // Numbers one by one: x.view(2, 3).
            if p.ty == Ty::Size && args.len() - next > 1 && convert::int(here).is_some() {
                let mut dims: SmallVec<[i64; 6]> = SmallVec::new();
                while let Some(a) = args.get(next) {
                    match convert::int(a) {
                        Some(i) => dims.push(i),
                        None => return wrong(position, Some(next + 1 - bound), a),
                    }
                    next += 1;
                }
                values.push(Value::Ints(dims));
                continue;
            }
            // Tensors one by one: broadcast_tensors(a, b).
            if p.ty == Ty::VarTensors && here.cast::<PyTensor>().is_ok() {
                let mut tensors = Vec::with_capacity(args.len() - next);
                while let Some(a) = args.get(next) {
                    match a.cast::<PyTensor>() {
                        Ok(t) => tensors.push(t.get().inner()),
                        Err(_) => return wrong(position, Some(next + 1 - bound), a),
                    }
                    next += 1;
                }
                values.push(Value::Tensors(tensors));
                continue;
            }
            arg = Some(here);
            next += 1;
        } else if used < given.len()
            && let Some((_, v)) = given.iter().find(|(n, _)| names_param(n, p))
        {
            arg = Some(*v);
            used += 1;
        }
        match (arg, &p.default) {
            (Some(a), default) => match convert::value(a, p.ty, p.optional)? {
                Some(v) => values.push(v),
                None if a.is_none() && default.is_some() && p.ty == Ty::Ignored => values.push(Value::None),
                None => return wrong(position, positional.then_some(position + 1 - bound), a),
            },
            (None, Some(d)) => values.push(d.clone()),
            (None, None)
                if p.ty == Ty::Size
                    && s.positional > 0
                    && next >= args.len()
                    && position + 1 == s.positional
                    && !given.iter().any(|(n, _)| names_param(n, p))
                    && position == 0 =>
            {
                values.push(Value::Ints(SmallVec::new()))
            }
            (None, None) => return Ok(Some(Mismatch::Missing { param: position })),
        }
    }
    if next < args.len() {
        return Ok(Some(Mismatch::TooMany));
    }
    Ok((used < given.len()).then_some(Mismatch::Keyword))
}

#[cold]
fn invalid_combination(name: &str, signatures: &[Signature], args: Positional, given: &Given) -> PyErr {
    let mut got: Vec<String> = args.rest.iter().map(|a| type_name(a)).collect();
    got.extend(given.iter().map(|(n, v)| format!("{n}={}", type_name(v))));
    let expected: Vec<String> = signatures.iter().map(|s| format!("\n * ({})", s.overload.sig)).collect();
    PyTypeError::new_err(format!(
        "{}() received an invalid combination of arguments - got ({}), but expected one of:{}",
        name,
        got.join(", "),
        expected.concat()
    ))
}
