//! Matches the arguments of a call with the signatures of an operation.

use std::ops::{Deref, DerefMut};

use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;

use super::convert::{self, Ty};
use super::mismatch::{Mismatch, mismatch};
use super::signature::{Param, Parameters, Signature};
use super::tensor::{PyTensor, TensorObject};
use crate::ops::schema::Value;

/// The positional arguments of a call; for a method they are preceded by the object itself.
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

/// The number of values stored inline.
const SMALL_NUMEL: usize = 6;

/// The values of a call, in preallocated places; see Note [Values are made where they stay].
pub struct Values {
    few: [Value; SMALL_NUMEL],
    len: usize,
    /// All values, if they do not fit in `few`.
    many: Vec<Value>,
}

impl Values {
    pub fn new() -> Values {
        Values { few: [const { Value::None }; SMALL_NUMEL], len: 0, many: Vec::new() }
    }

    /// The place after the last value; it contains None.
    #[inline(always)]
    fn place(&mut self) -> &mut Value {
        let i = self.len;
        self.len += 1;
        match i {
            0..SMALL_NUMEL => &mut self.few[i],
            _ => self.place_of_many(i),
        }
    }

    #[cold]
    fn place_of_many(&mut self, i: usize) -> &mut Value {
        if i == SMALL_NUMEL {
            self.many.extend(self.few.iter_mut().map(|v| std::mem::replace(v, Value::None)));
        }
        self.many.push(Value::None);
        &mut self.many[i]
    }

    pub fn clear(&mut self) {
        if self.len > 0 {
            *self = Values::new();
        }
    }
}

impl Deref for Values {
    type Target = [Value];

    #[inline(always)]
    fn deref(&self) -> &[Value] {
        if self.len <= SMALL_NUMEL { &self.few[..self.len] } else { &self.many }
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [Value] {
        if self.len <= SMALL_NUMEL { &mut self.few[..self.len] } else { &mut self.many }
    }
}

/// Finds the first signature that matches the arguments, and converts them into `values`.
#[inline]
pub fn find<'e, 'py>(
    name: &str,
    signatures: &'e [Signature],
    args: Positional<'_, 'py>,
    given: &Given<'_, 'py>,
    values: &mut Values,
) -> PyResult<&'e Signature> {
    for s in signatures {
        if bind(&s.parameters, args, given, values)?.is_none() {
            return Ok(s);
        }
        values.clear();
    }
    Err(mismatch(name, signatures, args, given, values))
}

/// Whether a keyword names a parameter. Both are interned, so pointers are compared.
#[inline(always)]
pub fn names_param(keyword: &Bound<'_, PyString>, p: &Param) -> bool {
    p.names.iter().any(|name| keyword.as_ptr() == name.as_ptr())
}

/// Converts arguments for one signature into `values`; returns the reason if they do not match.
pub fn bind<'py>(
    s: &Parameters,
    args: Positional<'_, 'py>,
    given: &Given<'_, 'py>,
    values: &mut Values,
) -> PyResult<Option<Mismatch<'py>>> {
    let wrong = |param, position, a: &Bound<'py, PyAny>| {
        Ok(Some(Mismatch::Type { param, position, found: a.clone() }))
    };
    let mut next = 0;
    let mut used = 0;
    // The object of a method does not count as positional.
    let bound = args.slf.is_some() as usize;
    // Sizes may be separate arguments if nothing else is passed positionally.
    let sizes_gather = s.positional == 1 + bound;
    if args.len() > s.positional && !(s.gathers && (sizes_gather || s.gathers_tensors)) {
        return Ok(Some(Mismatch::TooMany));
    }
    // More arguments than parameters: reject before any conversion, so that the next signature is tried.
    if !s.gathers && args.len() + given.len() > s.params.len() {
        return Ok(Some(Mismatch::Keyword));
    }
    for (position, p) in s.params.iter().enumerate() {
        let mut arg: Option<&Bound<'py, PyAny>> = None;
        let positional = !p.keyword_only && next < args.len();
        let place = values.place();
        if let (false, Some(here)) = (p.keyword_only, args.get(next)) {
            // Separate numbers: x.view(2, 3).
            if p.ty == Ty::Size && sizes_gather && convert::int(here).is_some() {
                let first = next;
                *place = Value::Ints(SmallVec::new());
                while let (Value::Ints(dims), Some(a)) = (&mut *place, args.get(next)) {
                    next += 1;
                    match convert::int(a) {
                        Some(i) => dims.push(i),
                        None => {
                            let at = next - first;
                            return Ok(Some(Mismatch::Element { param: position, at, found: a.clone() }));
                        }
                    }
                }
                continue;
            }
            // Separate tensors: broadcast_tensors(a, b).
            if p.ty == Ty::VarTensors && here.cast::<PyTensor>().is_ok() {
                let mut tensors = Vec::with_capacity(args.len() - next);
                while let Some(a) = args.get(next) {
                    match a.cast::<PyTensor>() {
                        Ok(t) => tensors.push(t.tensor()),
                        Err(_) => return wrong(position, Some(next + 1 - bound), a),
                    }
                    next += 1;
                }
                *place = Value::Tensors(tensors);
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
            (Some(a), default) => {
                let ignored = p.ty == Ty::Ignored && a.is_none() && default.is_some();
                if ignored || convert::fill(place, a, p.ty, p.optional)? {
                    continue;
                }
                convert::check_range(a, p.ty)?;
                return wrong(position, positional.then_some(position + 1 - bound), a);
            }
            (None, Some(d)) => convert::fill_default(place, d),
            (None, None)
                if p.ty == Ty::Size
                    && s.positional > 0
                    && next >= args.len()
                    && position + 1 == s.positional
                    && !given.iter().any(|(n, _)| names_param(n, p))
                    && position == 0 =>
            {
                *place = Value::Ints(SmallVec::new());
            }
            (None, None) if p.ty == Ty::VarTensors && args.len() == 0 => {
                *place = Value::Tensors(Vec::new());
            }
            (None, None) => return Ok(Some(Mismatch::Missing { param: position })),
        }
    }
    if next < args.len() {
        return Ok(Some(Mismatch::TooMany));
    }
    Ok((used < given.len()).then_some(Mismatch::Keyword))
}
