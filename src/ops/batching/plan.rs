//! The parameters of a signature, read from its text.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::dtype::Scalar;
use crate::ops::schema::{Overload, Value};

/// One parameter.
pub struct Param {
    pub name: &'static str,
    pub ty: &'static str,
    pub default: Option<&'static str>,
}

impl Param {
    /// The default as a value; None for one that signatures of dimensions do not have.
    pub fn default_value(&self) -> Option<Value> {
        let number = |s| Some(Value::Number(s));
        match self.default? {
            "None" => Some(Value::None),
            "False" => number(Scalar::Bool(false)),
            "True" => number(Scalar::Bool(true)),
            text => text.parse().ok().map(|n| Value::Number(Scalar::Int(n))),
        }
    }
}

/// The parameters of an overload.
pub fn params(overload: &'static Overload) -> &'static [Param] {
    static PARAMS: RwLock<Option<HashMap<usize, &'static [Param]>>> = RwLock::new(None);
    let key = std::ptr::from_ref(overload) as usize;
    let known = PARAMS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.as_ref().and_then(|all| all.get(&key)) {
        return found;
    }
    drop(known);
    // Leaked once per signature.
    let parsed: &'static [Param] = Box::leak(parse(overload.sig).into_boxed_slice());
    let mut all = PARAMS.write().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().insert(key, parsed);
    parsed
}

fn parse(sig: &'static str) -> Vec<Param> {
    let sig = sig.split(" -> ").next().unwrap_or_default();
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    let mut add = |text: &'static str| {
        let (declared, default) = match text.split_once(" = ") {
            Some((declared, default)) => (declared, Some(default.trim())),
            None => (text, None),
        };
        if let Some((name, ty)) = declared.split_once(':') {
            found.push(Param { name: name.trim(), ty: ty.trim(), default });
        }
    };
    for (i, c) in sig.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                add(&sig[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    add(&sig[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_signature_has_names_types_and_defaults() {
        let found =
            parse("input: Tensor, dim: int[] = (-2, -1), *, dtype: dtype? = None -> tuple[Tensor, Tensor]");
        let shown: Vec<_> = found.iter().map(|p| (p.name, p.ty, p.default)).collect();
        let expected = [
            ("input", "Tensor", None),
            ("dim", "int[]", Some("(-2, -1)")),
            ("dtype", "dtype?", Some("None")),
        ];
        assert_eq!(shown, expected);
    }
}
