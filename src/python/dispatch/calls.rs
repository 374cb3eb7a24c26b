//! Calls that Python computes, and their histories.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::arguments::{form_name, python_arguments};
use super::handlers::call_handlers;
use super::hosting::hosted;
use super::modes::{self, Mode, Pushed};
use super::nodes::{Repeat, compute_node, record_node, second_run};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::graph::{BelowAutograd, Grads, ModeGuard, grad_enabled};
use crate::ops::interpreter::{self, Caller, Form, HostInterpreter, NodeCall, OpCall};
use crate::ops::mirror::{Mirror, results, tensors, with_results, with_tensors};
use crate::ops::schema::{Out, Value};
use crate::python::convert;
use crate::python::dtype::type_name;
use crate::python::error::foreign;
use crate::python::object::{PyTensor, TensorObject};
use crate::tensor::{Tensor, check_inplace};
use crate::{bail, ensure};

/// A call with plain arguments that a mode computes.
///
/// Note [Recording under a mode] A mode usually ends by calling the operation that it got. Then that call records: it
/// returns the tensors that autograd would have made, and no mirror is needed. Only what a mode computes in other ways gets
/// its history from a mirror.
pub(super) struct Computing {
    /// Its operation and signature: there may be several copies of each.
    names: (&'static str, &'static str),
    writes: bool,
    arguments: Vec<usize>,
    /// Whether its operation has to record.
    tracked: bool,
    /// Whether its operation was called; what that calls is not the call.
    entered: bool,
    /// The result of its operation.
    result: Option<Out>,
}

pub(super) fn addresses(tensors: &[Tensor]) -> Vec<usize> {
    tensors.iter().map(Tensor::address).collect()
}

thread_local! {
    /// The calls by the program that are being computed, and recorded if their operation is called.
    static COMPUTING: RefCell<Vec<Computing>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct PythonHost;

impl HostInterpreter for PythonHost {
    fn call(&self, call: &OpCall, values: &[Value]) -> Option<Result<Out>> {
        if modes::disabled() {
            return None;
        }
        let arguments = arguments(call, values);
        if arguments.iter().any(Tensor::is_hosted) {
            return Some(compute(call, values, None));
        }
        let expected = |c: &mut Computing| {
            let same = c.names == (call.op.name, call.overload.sig)
                && c.writes == writes(call)
                && c.arguments == addresses(&arguments);
            (same && !std::mem::replace(&mut c.entered, true)).then_some(c.tracked)
        };
        let (tracked, depth) =
            COMPUTING.with_borrow_mut(|all| Some((all.last_mut().and_then(expected)?, all.len())))?;
        let recording = tracked.then(|| (BelowAutograd::leave(), ModeGuard::grad(true)));
        let out = interpreter::run(call, values);
        drop(recording);
        if let Ok(out) = &out {
            COMPUTING.with_borrow_mut(|all| {
                if let Some(c) = all.get_mut(depth - 1) {
                    c.result = Some(out.clone());
                }
            });
        }
        Some(out)
    }

    fn call_node(&self, call: &NodeCall) -> Option<Result<Grads>> {
        let hosted = call.grads.iter().flatten().chain(&call.saved).any(Tensor::is_hosted);
        (hosted && !modes::disabled()).then(|| compute_node(call, None))
    }

    fn record_node(&self, call: &NodeCall, outs: Grads) -> Result<Grads> {
        record_node(call, outs)
    }
}

/// The tensors of a call, outputs included.
pub(super) fn arguments(call: &OpCall, values: &[Value]) -> Vec<Tensor> {
    let mut found = tensors(values);
    if let Form::Into(outs) = call.form {
        found.extend(outs.iter().cloned());
    }
    found
}

/// The result of an operator, whose program gets None where the handler returned that.
#[inline]
pub fn or_none<T>(computed: Result<T>) -> Result<Option<T>> {
    match computed {
        Err(Error::NoTensor { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Has Python compute a call.
pub(super) fn compute(call: &OpCall, values: &[Value], mode: Option<&Py<PyAny>>) -> Result<Out> {
    if let Some(out) = Python::attach(|py| by_parts(py, call, values, mode)).map_err(foreign)? {
        return Ok(out);
    }
    let arguments = arguments(call, values);
    let in_place = writes(call);
    let into = matches!(call.form, Form::Into(_));
    let tracked = !into && grad_enabled() && arguments.iter().any(Tensor::requires_grad);
    if in_place
        && tracked
        && let Some(written) = arguments.first()
    {
        check_inplace(written, true)?;
    }
    let names = (call.op.name, call.overload.sig);
    let computing = Computing {
        names,
        writes: in_place,
        arguments: addresses(&arguments),
        tracked,
        entered: false,
        result: None,
    };
    COMPUTING.with_borrow_mut(|c| c.push(computing));
    let below = BelowAutograd::enter();
    let computed = interpreter_free(mode.is_none(), || {
        Python::attach(|py| call_handlers(py, call, values, &arguments, mode)).map_err(foreign)
    });
    drop(below);
    let own = COMPUTING.with_borrow_mut(Vec::pop).and_then(|c| c.result);
    let computed = computed?;
    if let Computed::Str(text) = &computed
        && !call.op.replaces()
        && call.op.name != "type"
    {
        bail!(Runtime, "Unable to cast {text} to Tensor");
    }
    ensure!(
        in_place || into || !matches!((&computed, call.caller), (Computed::None, Caller::Core)),
        Error::NoTensor { op: call.op.name }
    );
    if let Form::Into(outs) = call.form {
        return Ok(Out::List(outs.to_vec()));
    }
    if in_place {
        let Some(written) = arguments.first().cloned() else { return Ok(Out::None) };
        if written.is_hosted() {
            written.bump_version();
        }
        if tracked && own.is_none() {
            record_written(arguments, |mirror| interpreter::run(call, &mirror.values(values)).map(drop))?;
        }
        return Ok(Out::Tensor(written));
    }
    // The result of the operation itself, which has its history.
    if let Some(own) = own {
        let returned: Vec<&Tensor> = computed.tensors().collect();
        if returned.len() == results(&own).len() && results(&own).iter().zip(returned).all(|(t, r)| t.same(r))
        {
            return Ok(own);
        }
    }
    let again = |mirror: &Mirror| interpreter::run(call, &mirror.values(values));
    complete(computed, arguments, tracked, again, |mirror| {
        let (op, overload, caller) = (call.op, call.overload, call.caller);
        let values = with_tensors(values, &mirror.placeholders());
        Ok(Box::new(move |tensors| {
            let call = OpCall { op, overload, form: Form::New, caller };
            interpreter::run(&call, &with_tensors(&values, tensors))
        }))
    })
}

/// Whether a call writes its first argument.
pub(super) fn writes(call: &OpCall) -> bool {
    match call.form {
        Form::InPlace => true,
        Form::New => call.op.name.ends_with('_') && !call.op.replaces(),
        Form::Into(_) => false,
    }
}

/// Records a write to the first argument; `again` repeats it on the mirror of the arguments.
pub(super) fn record_written(
    arguments: Vec<Tensor>,
    again: impl FnOnce(&Mirror) -> Result<()>,
) -> Result<()> {
    let is_view =
        arguments.first().is_some_and(|t| hosted(t, |h| h.view.load(Ordering::Relaxed)) == Some(true));
    ensure!(
        !is_view,
        NotImplemented,
        "a write to a view of a tensor with __torch_dispatch__ is not recorded: write to the tensor itself, or use an \
         operation that returns its result"
    );
    let mirror = Mirror::of(arguments)?;
    mirror.run(|| again(&mirror))?;
    mirror.attach_written()
}

/// The result of a function that is made of operations in PyTorch, by calling these; None for others.
pub(super) fn by_parts(
    py: Python<'_>,
    call: &OpCall,
    values: &[Value],
    mode: Option<&Py<PyAny>>,
) -> PyResult<Option<Out>> {
    let (args, kwargs) = python_arguments(py, call, values)?;
    let module = py.import(intern!(py, "rgrad._dispatch"))?;
    let name = (call.op.name, form_name(&call.form), &args, &kwargs);
    let parts = module.getattr(intern!(py, "decomposition"))?.call1(name)?;
    if parts.is_none() {
        return Ok(None);
    }
    // The mode was taken off the stack to be called, and has to see the parts.
    let pushed = mode.map(|mode| Pushed::new(Mode(mode.clone_ref(py))));
    let out = parts.call(args, Some(&kwargs));
    drop(pushed);
    let out = out?;
    match out.cast::<PyTensor>() {
        Ok(t) => Ok(Some(Out::Tensor(t.tensor()))),
        Err(_) => Ok(Some(Out::Tuple(convert::tensor_list(&out)?))),
    }
}

/// Calls `f`, without the interpreters of this thread if `free`.
pub(super) fn interpreter_free<R>(free: bool, f: impl FnOnce() -> R) -> R {
    if free { interpreter::without(f) } else { f() }
}

/// What handlers returned.
pub(super) enum Computed {
    Tensor(Tensor),
    /// Of a tuple or list.
    Tensors(Vec<Option<Tensor>>),
    Number(Scalar),
    Str(String),
    None,
}

impl Computed {
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let (one, all) = match self {
            Computed::Tensor(t) => (Some(t), &[][..]),
            Computed::Tensors(ts) => (None, &ts[..]),
            _ => (None, &[][..]),
        };
        one.into_iter().chain(all.iter().flatten())
    }

    pub(super) fn of(obj: &Bound<'_, PyAny>) -> PyResult<Computed> {
        if let Ok(t) = obj.cast::<PyTensor>() {
            return Ok(Computed::Tensor(t.tensor()));
        }
        if obj.is_none() {
            return Ok(Computed::None);
        }
        if obj.cast::<PyTuple>().is_ok() || obj.cast::<PyList>().is_ok() {
            return convert::tensors_or_none(obj, |found| {
                format!("__torch_dispatch__ must return tensors, but got {found}")
            })
            .map(Computed::Tensors);
        }
        if let Ok(text) = obj.extract() {
            return Ok(Computed::Str(text));
        }
        convert::number(obj).map(Computed::Number).ok_or_else(|| {
            PyTypeError::new_err(format!("unexpected result of __torch_dispatch__: {}", type_name(obj)))
        })
    }
}

/// The result of a call in the form that the operation has, with the history that it would have; `again` calls the operation
/// with a mirror of the arguments, and `repeat` makes what calls it once more for a second run.
pub(super) fn complete(
    computed: Computed,
    arguments: Vec<Tensor>,
    record: bool,
    again: impl FnOnce(&Mirror) -> Result<Out>,
    repeat: impl FnOnce(&Mirror) -> Result<Repeat>,
) -> Result<Out> {
    let mut computed = match computed {
        Computed::Tensor(t) if !record => return Ok(Out::Tensor(t)),
        Computed::Tensor(t) => vec![t],
        Computed::Tensors(ts) => ts.into_iter().flatten().collect(),
        Computed::Number(s) => return Ok(Out::Number(s)),
        Computed::Str(s) => return Ok(Out::Str(s)),
        Computed::None => return Ok(Out::None),
    };
    let mirror = Mirror::of(arguments)?;
    let images = match mirror.run(|| again(&mirror)) {
        Ok(images) => images,
        // The shapes of the results depend on values, or kernels would read some.
        Err(_) => {
            if record {
                second_run(&mirror, None, &mut computed, repeat(&mirror)?)?;
            }
            return Ok(match <[Tensor; 1]>::try_from(computed) {
                Ok([t]) => Out::Tensor(t),
                Err(all) => Out::Tuple(all),
            });
        }
    };
    if record {
        mirror.check_count(results(&images), &computed)?;
        if mirror.knows_all(results(&images)) {
            mirror.attach(results(&images), &mut computed)?;
        } else {
            second_run(&mirror, Some(results(&images)), &mut computed, repeat(&mirror)?)?;
        }
        for (t, image) in computed.iter().zip(results(&images)) {
            hosted(t, |h| h.view.store(image.is_view(), Ordering::Relaxed));
        }
    }
    Ok(with_results(images, computed))
}
