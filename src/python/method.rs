//! The operation table as Python functions and methods.
//!
//! Note [One trampoline per table entry] Python calls a built-in function through a C function pointer without saying
//! which built-in it is. So there is one tiny C function per table entry, instantiated from a const parameter: it
//! passes the entry's number to [`dispatch`], which matches the arguments with the entry's signatures and calls the
//! operation. There is no binding code per operation.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::OnceLock;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::impl_::trampoline::{MethodDef, fastcall_cfunction_with_keywords};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use super::attributes::GivenDims;
use super::convert;
use super::dispatch::forget_last;
use super::dtype::type_name;
use super::error::{IntoPy, panicked, to_py, warn};
use super::matching::{Positional, Values, find};
use super::object::as_tensor;
use super::signature::{Signature, parse};
use super::subclass::{is_watched, overridden, tensor_attribute};
use super::tensor::{DETACH_FROM, PyTensor, TensorObject, wrap};
use crate::error::interruptible;
use crate::ops::interpreter::{Form, OpCall};
use crate::ops::pointwise::PointwiseOp;
use crate::ops::schema::{Call as OpBody, Exposure, Op, Out, Overload, Value};
use crate::ops::{self, interpreter};
use crate::tensor::check_replaced;

/// A table entry as a Python callable.
struct Entry {
    op: &'static Op,
    name: &'static str,
    inplace: bool,
    /// The operation replaces the layout of its first argument (`t_`, `squeeze_`).
    replaces: bool,
    place: Place,
    signatures: Vec<Signature>,
    /// The pointwise operation of one operand and no parameters, which has a fast path.
    unary: Option<&'static PointwiseOp>,
}

/// The namespace of an entry, which determines the callable that `__torch_function__` receives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `rgrad` and the tensor class.
    Top,
    Nn,
    Special,
    Linalg,
    Attribute,
    /// None: the core calls it, and handlers of `__torch_dispatch__`.
    Hidden,
}

impl Place {
    /// The submodule of `rgrad._C` with its functions.
    fn module(self) -> &'static str {
        match self {
            Place::Nn => "_nn",
            Place::Special => "_special",
            Place::Linalg => "_linalg",
            Place::Top | Place::Attribute | Place::Hidden => "",
        }
    }
}

static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();

type Fast = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The call of any entry, inside PyO3's trampoline, which maintains the attachment count. It is not part of PyO3's
/// stable interface; the alternative, `Python::attach`, checks the interpreter state on every call.
struct Call;

impl MethodDef<fastcall_cfunction_with_keywords::Func> for Call {
    const METH: fastcall_cfunction_with_keywords::Func = enter_entry;
}

/// Bit position of the entry's number within the argument count, where it passes through PyO3's trampoline, of which a
/// single instance serves all entries.
const ENTRY_SHIFT: u32 = usize::BITS / 2;

/// The C function for entry `I`: just a jump, since there are many of them.
///
/// # Safety
/// Python's fastcall convention: `args` holds `nargs` positional values, followed by one for each of `names`.
unsafe extern "C" fn enter<const I: usize>(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the arguments are passed through; `enter_entry` extracts the entry's number.
    unsafe { enter_any(slf, args, nargs | (I << ENTRY_SHIFT) as ffi::Py_ssize_t, names) }
}

/// # Safety
/// As for `enter`; `nargs` also contains the entry's number.
#[inline(never)]
unsafe extern "C" fn enter_any(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the arguments are passed through.
    unsafe { fastcall_cfunction_with_keywords::<Call>(slf, args, nargs, names) }
}

/// # Safety
/// As for `enter`; `nargs` also contains the entry's number.
unsafe fn enter_entry(
    py: Python<'_>,
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    let i = nargs as usize >> ENTRY_SHIFT;
    let nargs = nargs as usize & ((1 << ENTRY_SHIFT) - 1);
    // SAFETY: Python guarantees these references for the duration of the call; `Bound` is a transparent pointer, and
    // an array that may be null is empty.
    let (slf, args, keywords, names) = unsafe {
        let names = Bound::from_borrowed_ptr_or_opt(py, names).and_then(|n| n.cast_into::<PyTuple>().ok());
        let count = names.as_ref().map_or(0, |n| n.len());
        let given: &[Bound<PyAny>] = match nargs + count {
            0 => &[],
            n => std::slice::from_raw_parts(args.cast(), n),
        };
        let (args, keywords) = given.split_at(nargs);
        (Bound::from_borrowed_ptr_or_opt(py, slf), args, keywords, names)
    };
    let args = Positional { slf: slf.as_ref(), rest: args };
    let run = AssertUnwindSafe(|| dispatch(py, i, args, names.as_ref(), keywords, true).map(Py::into_ptr));
    let out = catch_unwind(run).unwrap_or_else(|panic| Err(panicked(panic)));
    if interpreter::active() {
        forget_last();
    }
    out
}

macro_rules! trampolines {
    ($($hi:literal)*) => { [$(trampolines!(@row $hi)),*] };
    (@row $hi:literal) => { trampolines!(@cells $hi 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31) };
    (@cells $hi:literal $($lo:literal)*) => { [$(enter::<{ $hi * 32 + $lo }> as Fast),*] };
}
static TRAMPOLINES: [[Fast; 32]; 24] =
    trampolines!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23);

fn is_large(values: &[Value]) -> bool {
    values.iter().any(|v| match v {
        // A launch may have to wait for earlier ones.
        Value::Tensor(t) => t.numel() >= DETACH_FROM || t.device().is_gpu(),
        Value::Tensors(ts) => ts.iter().map(|t| t.numel()).sum::<usize>() >= DETACH_FROM,
        Value::Ints(v) => {
            v.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).unwrap_or(i64::MAX) >= DETACH_FROM as i64
        }
        _ => false,
    })
}

fn dispatch(
    py: Python<'_>,
    i: usize,
    args: Positional,
    names: Option<&Bound<'_, PyTuple>>,
    keywords: &[Bound<'_, PyAny>],
    asks_functions: bool,
) -> PyResult<Py<PyAny>> {
    let Some(entry) = ENTRIES.get().and_then(|e| e.get(i)) else {
        return Err(PyTypeError::new_err("operation table is not loaded"));
    };
    if asks_functions
        && is_watched()
        && let Some(out) = overridden_entry(py, entry, args, names, keywords)?
    {
        return Ok(out.unbind());
    }
    if !is_watched()
        && let Some(row) = entry.unary
        && let (1, None) = (args.len(), names)
        && let Some(t) = args.get(0).and_then(as_tensor)
        && let Some(out) = row.call_small_unary(&t.tensor())
    {
        return wrap(py, out);
    }
    let mut out: Option<Bound<PyAny>> = None;
    let mut given: SmallVec<[(Bound<PyString>, &Bound<PyAny>); 4]> = SmallVec::new();
    if let Some(names) = names {
        let takes_out = entry.op.exposure.has(Exposure::OUT) && !entry.inplace && args.slf.is_none();
        for (name, v) in names.iter().zip(keywords) {
            let name = interned(name.cast_into::<PyString>()?);
            if takes_out && name.is(intern!(py, "out")) {
                out = (!v.is_none()).then(|| v.clone());
                continue;
            }
            given.push((name, v));
        }
    }
    let mut values = Values::new();
    let signature = match find(entry.name, &entry.signatures, args, &given, &mut values) {
        Ok(signature) => signature,
        // An argument that is not a tensor may implement `__torch_function__`.
        Err(e) => {
            let overridden = match asks_functions {
                true => overridden_entry(py, entry, args, names, keywords)?,
                false => None,
            };
            let other = match overridden {
                None => older_form(py, entry, args, names, keywords)?,
                overridden => overridden,
            };
            return other.map(Bound::unbind).ok_or(e);
        }
    };
    let first = || args.get(0).ok_or_else(|| PyTypeError::new_err("an operation in place needs a tensor"));
    if entry.inplace {
        if is_large(&values) {
            py.detach(|| interruptible(|| ops::call_inplace(entry.op, signature.overload, &values))).py()?;
        } else {
            ops::call_inplace(entry.op, signature.overload, &values).py()?;
        }
        return Ok(first()?.clone().unbind());
    }
    if let Some(out) = out {
        return call_out(py, entry, signature, &values, &out);
    }
    let named = GivenDims::of(&signature.parameters, &values);
    if is_large(&values) || entry.replaces {
        let result = py.detach(|| interruptible(|| ops::call(entry.op, signature.overload, &values))).py()?;
        if entry.replaces && asks_functions {
            let slf = first()?;
            let before = slf.cast::<PyTensor>()?.tensor();
            check_replaced(&before, false).py()?;
            let result = result.tensor().py()?;
            let after = if before.is_batched() { result } else { before.replaced_by(result).py()? };
            PyTensor::replace(slf.cast::<PyTensor>()?, after);
            return Ok(slf.clone().unbind());
        }
        named.write(&result);
        return convert::out(py, result);
    }
    // The result is matched in place; see Note [Values are made where they stay].
    match ops::call(entry.op, signature.overload, &values) {
        Ok(Out::Tensor(t)) => {
            named.write_one(&t);
            wrap(py, t)
        }
        Ok(other) => {
            named.write(&other);
            convert::out(py, other)
        }
        Err(e) => Err(to_py(e)),
    }
}

/// Calls `__torch_function__`, if any, for an entry.
#[cold]
fn overridden_entry<'py>(
    py: Python<'py>,
    entry: &Entry,
    args: Positional<'_, 'py>,
    names: Option<&Bound<'py, PyTuple>>,
    keywords: &[Bound<'py, PyAny>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let positional: Vec<_> = args.slf.into_iter().chain(args.rest).collect();
    let names: Vec<_> = names.into_iter().flatten().collect();
    let named: Vec<_> = names.iter().zip(keywords).collect();
    let module = || py.import(intern!(py, "rgrad._C"));
    let function = || match entry.place {
        Place::Top if args.slf.is_some() => tensor_attribute(py, entry.name),
        Place::Top => module()?.getattr(entry.name),
        Place::Attribute => tensor_attribute(py, entry.name)?.getattr("__get__"),
        place => module()?.getattr(place.module())?.getattr(entry.name),
    };
    if entry.place != Place::Nn || entry.op.exposure.has(Exposure::NATIVE) {
        return overridden(py, function, &positional, &named, entry.place == Place::Attribute);
    }
    // PyTorch's Python functions pass arguments that have a default by keyword.
    let seen = py.import("rgrad._subclass")?.getattr("as_written")?;
    let kwargs = PyDict::new(py);
    named.iter().try_for_each(|(name, value)| kwargs.set_item(name, value))?;
    let positional = PyTuple::new(py, positional)?;
    let seen: Option<(Vec<Bound<PyAny>>, Bound<PyDict>)> =
        seen.call1((signature_text(entry), positional, kwargs))?.extract()?;
    let Some((positional, kwargs)) = seen else { return Ok(None) };
    let named: Vec<_> = kwargs.iter().collect();
    let positional: Vec<_> = positional.iter().collect();
    let named: Vec<_> = named.iter().map(|(name, value)| (name, value)).collect();
    overridden(py, function, &positional, &named, true)
}

/// The result of a call in which factors precede the tensors, as in `x.add(2, y)`; see `rgrad._older_forms`.
#[cold]
fn older_form<'py>(
    py: Python<'py>,
    entry: &Entry,
    args: Positional<'_, 'py>,
    names: Option<&Bound<'py, PyTuple>>,
    keywords: &[Bound<'py, PyAny>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !entry.op.name.starts_with("add") && !matches!(entry.op.name, "sub" | "baddbmm") {
        return Ok(None);
    }
    let kwargs = PyDict::new(py);
    names.into_iter().flatten().zip(keywords).try_for_each(|(name, value)| kwargs.set_item(name, value))?;
    let positional: Vec<_> = args.slf.into_iter().chain(args.rest).collect();
    let positional = PyTuple::new(py, positional)?;
    let call = py.import("rgrad._older_forms")?.getattr("call")?;
    let result = call.call1((entry.name, args.slf.is_some(), positional, kwargs))?;
    Ok(if result.is(py.NotImplemented()) { None } else { Some(result) })
}

/// The interned form of a string; keywords in source code are interned already.
fn interned(name: Bound<'_, PyString>) -> Bound<'_, PyString> {
    let py = name.py();
    let mut p = name.into_ptr();
    // SAFETY: takes and returns an owned reference.
    unsafe {
        ffi::PyUnicode_InternInPlace(&mut p);
        Bound::from_owned_ptr(py, p).cast_into_unchecked()
    }
}

/// Calls an entry with `out`. Inlined, it would keep `dispatch` from being so.
#[inline(never)]
fn call_out(
    py: Python<'_>,
    entry: &Entry,
    signature: &Signature,
    values: &[Value],
    out: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let targets: Vec<Bound<PyAny>> = if out.cast::<PyTensor>().is_ok() {
        vec![out.clone()]
    } else if let Ok(t) = out.cast::<PyTuple>() {
        t.iter().collect()
    } else if let Ok(l) = out.cast::<PyList>() {
        l.iter().collect()
    } else {
        return Err(PyTypeError::new_err(format!(
            "{}(): argument 'out' must be Tensor, not {}",
            entry.name,
            type_name(out)
        )));
    };
    let tensors = targets.iter().map(|t| Ok(t.cast::<PyTensor>()?.tensor())).collect::<PyResult<Vec<_>>>()?;
    let called = || ops::call_out(entry.op, signature.overload, values, &tensors);
    let (stored, name) = match py.detach(|| interruptible(called)).py()? {
        Out::Named(name, _, stored) => (stored, Some(name)),
        Out::List(stored) => (stored, None),
        _ => (Vec::new(), None),
    };
    for ((target, before), after) in targets.iter().zip(&tensors).zip(stored) {
        if !after.same(before) {
            if before.numel() > 0 {
                warn_resized(py, entry.name, before, &after)?;
            }
            PyTensor::replace(target.cast::<PyTensor>()?, before.replaced_by(after).py()?);
        }
    }
    match name {
        Some(name) => convert::named(py, &format!("{name}_out"), targets),
        None => Ok(out.clone().unbind()),
    }
}

fn warn_resized(py: Python<'_>, name: &str, before: &crate::Tensor, after: &crate::Tensor) -> PyResult<()> {
    if matches!(name, "arange" | "range") {
        let text = format!(
            "The number of elements in the out tensor of shape {} does not match the computed {}, perhaps by a rounding \
             error. The out tensor will be resized to {}.",
            before.shape(),
            after.numel(),
            after.shape()
        );
        return warn(py, &text);
    }
    let text = format!(
        "An output with one or more elements was resized since it had shape {}, which does not match the required output \
         shape {}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they \
         have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with \
         t.resize_(0).",
        before.shape(),
        after.shape()
    );
    warn(py, &text)
}

// ---- the module

/// Adds all operations to the module and the tensor class, and the table itself as `_op_table()`.
pub fn add_operations(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let built = build(py)?;
    let entries = ENTRIES.get_or_init(|| built);
    let class = py.get_type::<PyTensor>();
    let nn = PyModule::new(py, "rgrad._C._nn")?;
    let special = PyModule::new(py, "rgrad._C._special")?;
    let linalg = PyModule::new(py, "rgrad._C._linalg")?;
    let attributes = PyDict::new(py);
    for (i, e) in entries.iter().enumerate() {
        let s = e.op.exposure;
        if e.place == Place::Hidden {
            continue;
        }
        let def = definition(e, i, false)?;
        match e.place {
            Place::Top | Place::Hidden => {}
            Place::Nn => add_all(&nn, e, &function(py, def)?)?,
            Place::Special => add_all(&special, e, &function(py, def)?)?,
            Place::Linalg => add_all(&linalg, e, &function(py, def)?)?,
            Place::Attribute => attributes.set_item(e.name, function(py, def)?)?,
        }
        if e.place != Place::Top {
            continue;
        }
        if s.has(Exposure::METHOD) || e.inplace {
            let def = definition(e, i, true)?;
            // SAFETY: the method definition is never freed.
            let descriptor = unsafe {
                Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), def))?
            };
            for name in names(e) {
                class.setattr(name.as_str(), &descriptor)?;
            }
        }
        if s.has(Exposure::FUNCTION) || e.inplace {
            add_all(m, e, &function(py, def)?)?;
        }
    }
    // An attribute is a property around the operation's function.
    let property = py.import("builtins")?.getattr("property")?;
    for (name, f) in attributes.iter() {
        class.setattr(name.cast::<PyString>()?, property.call1((f,))?)?;
    }
    m.add("_nn", nn)?;
    m.add("_special", special)?;
    m.add("_linalg", linalg)?;
    m.add_function(wrap_pyfunction!(op_table, m)?)?;
    m.add_function(wrap_pyfunction!(operation, m)?)?;
    Ok(())
}

fn build(py: Python<'_>) -> PyResult<Vec<Entry>> {
    let mut entries = Vec::new();
    for op in ops::all().iter().chain(ops::hidden()) {
        let mut push = |name: &'static str, inplace: bool, place: Place| {
            let signatures = op.overloads.iter().map(|o| parse(py, o)).collect::<Result<Vec<_>, _>>();
            let signatures = signatures.map_err(|e| PyTypeError::new_err(format!("{name}: {e}")))?;
            let replaces = !inplace && op.replaces();
            let unary = match op.overloads {
                [Overload { call: OpBody::Row(row), .. }]
                    if row.inputs.len() == 1 && row.params.is_empty() =>
                {
                    (!inplace).then_some(*row)
                }
                _ => None,
            };
            entries.push(Entry { op, name, inplace, replaces, place, signatures, unary });
            PyResult::Ok(())
        };
        let places = [
            (Exposure::METHOD, Place::Top),
            (Exposure::FUNCTION, Place::Top),
            (Exposure::NN, Place::Nn),
            (Exposure::SPECIAL, Place::Special),
            (Exposure::LINALG, Place::Linalg),
            (Exposure::ATTRIBUTE, Place::Attribute),
        ];
        let mut last = None;
        for (_, place) in places.into_iter().filter(|(exposure, _)| op.exposure.has(*exposure)) {
            if last.replace(place) != Some(place) {
                push(op.name, false, place)?;
            }
        }
        if op.exposure == Exposure::NONE {
            push(op.name, false, Place::Hidden)?;
        }
        if op.exposure.has(Exposure::INPLACE) {
            // Leaked once per operation.
            push(Box::leak(format!("{}_", op.name).into_boxed_str()), true, Place::Top)?;
        }
    }
    Ok(entries)
}

fn names(e: &Entry) -> Vec<String> {
    let suffix = if e.inplace { "_" } else { "" };
    std::iter::once(e.name.to_string()).chain(e.op.aliases.iter().map(|a| format!("{a}{suffix}"))).collect()
}

fn add_all(m: &Bound<'_, PyModule>, e: &Entry, f: &Bound<'_, PyAny>) -> PyResult<()> {
    for name in names(e) {
        m.add(name.as_str(), f)?;
    }
    Ok(())
}

/// The definition of a function or a method. Its docstring begins with what `inspect.signature` reads.
fn definition(e: &Entry, i: usize, method: bool) -> PyResult<*mut ffi::PyMethodDef> {
    let Some(&f) = TRAMPOLINES.iter().flatten().nth(i) else {
        return Err(PyTypeError::new_err("more operations than trampolines: add a row to TRAMPOLINES"));
    };
    let name = CString::new(e.name)?;
    let plain = match &e.signatures[..] {
        [one] => {
            let takes_out = e.op.exposure.has(Exposure::OUT) && !e.inplace && !method;
            format!("{}({})\n--\n\n", e.name, one.python_text(method, takes_out))
        }
        // One text cannot say what several signatures accept.
        _ => String::new(),
    };
    let doc = CString::new(format!("{plain}{}({})\n\n{}", e.name, signature_text(e), e.op.doc.trim()))?;
    Ok(Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: f },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS as c_int,
        ml_doc: doc.into_raw(),
    })))
}

fn signature_text(e: &Entry) -> &'static str {
    e.op.overloads.first().map_or("", |o| o.sig)
}

fn function<'py>(py: Python<'py>, def: *mut ffi::PyMethodDef) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the definition is never freed; there is no self object and no module.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCFunction_NewEx(def, null_mut(), null_mut())) }
}

/// An operation by its name in the table, whatever namespaces it has, without `__torch_function__`.
#[pyclass(name = "Operation", module = "rgrad._C", frozen)]
pub struct Operation(usize);

#[pymethods]
impl Operation {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let given: Vec<_> = args.iter().collect();
        let (names, keywords): (Vec<_>, Vec<_>) = kwargs.into_iter().flatten().unzip();
        let names = PyTuple::new(py, names)?;
        dispatch(py, self.0, Positional { slf: None, rest: &given }, Some(&names), &keywords, false)
    }
}

/// The operation of a name; None if there is none.
#[pyfunction(name = "_operation")]
fn operation(name: &str) -> Option<Operation> {
    let entries = ENTRIES.get().map_or(&[][..], Vec::as_slice);
    entries.iter().position(|e| e.name == name).map(Operation)
}

/// The operation that a call is of: two may have one name, as `Tensor.norm` and `linalg.norm` do.
pub fn operation_of(call: &OpCall) -> Option<Operation> {
    let entries = ENTRIES.get().map_or(&[][..], Vec::as_slice);
    let in_place = matches!(call.form, Form::InPlace);
    let named = |e: &&Entry| e.op.name == call.op.name && e.inplace == in_place;
    let exactly = |e: &Entry| named(&e) && e.op.overloads.iter().any(|o| o.sig == call.overload.sig);
    entries.iter().position(exactly).or_else(|| entries.iter().position(|e| named(&e))).map(Operation)
}

/// The operation table as a list of dicts, from which stubs and documentation are generated.
#[pyfunction(name = "_op_table")]
fn op_table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let rows = PyList::empty(py);
    for op in ops::all() {
        let d = PyDict::new(py);
        d.set_item("name", op.name)?;
        d.set_item("doc", op.doc.trim())?;
        d.set_item("aliases", op.aliases.to_vec())?;
        d.set_item("samples", op.samples.to_vec())?;
        d.set_item("signatures", op.overloads.iter().map(|o| o.sig).collect::<Vec<_>>())?;
        let surfaces = [
            ("method", Exposure::METHOD),
            ("function", Exposure::FUNCTION),
            ("nn", Exposure::NN),
            ("native", Exposure::NATIVE),
            ("inplace", Exposure::INPLACE),
            ("out", Exposure::OUT),
            ("special", Exposure::SPECIAL),
            ("linalg", Exposure::LINALG),
            ("attribute", Exposure::ATTRIBUTE),
        ];
        for (name, s) in surfaces {
            d.set_item(name, op.exposure.has(s))?;
        }
        rows.append(d)?;
    }
    Ok(rows)
}
