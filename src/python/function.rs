//! Functions that users write in Python, as nodes of the graph.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::autograd::grads_tuple;
use super::convert::{opt_tensor_list, size};
use super::dtype::{dtype_object, type_name};
use super::error::{IntoPy, foreign};
use super::tensor::{PyTensor, wrap};
use crate::error::Result;
use crate::graph::{self, Cx, Edges, Function, GradFn, Grads, SavedTensor};
use crate::tensor::Tensor;

/// What a user's function saved.
#[pyclass(frozen)]
pub struct Saved {
    tensors: Vec<SavedTensor>,
    /// The node while its backward runs: an output that was saved gets its history from it.
    node: Mutex<Option<GradFn>>,
}

#[pymethods]
impl Saved {
    fn unpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let items = self
            .tensors
            .iter()
            .map(|s| match s.unpack(node.as_ref()).py()? {
                Some(t) => wrap(py, t),
                None => Ok(py.None()),
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, items)
    }
}

/// The node of a user's function.
struct UserFunction {
    ctx: Py<PyAny>,
    call: Py<PyAny>,
    saved: Py<Saved>,
    name: String,
    /// Which arguments of forward were tensors: only these have edges.
    tensors: Vec<bool>,
}

impl Function for UserFunction {
    fn name(&self) -> &'static str {
        "UserFunctionBackward"
    }

    fn full_name(&self) -> Cow<'static, str> {
        Cow::Owned(self.name.clone())
    }

    fn is_foreign(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let run = |py: Python<'_>| -> PyResult<Grads> {
            let cell = &self.saved.get().node;
            *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.node.clone());
            let out = self.call.call1(py, (&self.ctx, grads_tuple(py, &grads)?));
            let node = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(node);
            let out = opt_tensor_list(out?.bind(py))?;
            Ok(out.into_iter().zip(&self.tensors).filter(|(_, t)| **t).map(|(g, _)| g).collect())
        };
        Python::attach(run).map_err(foreign)
    }

    fn release(&self) {
        self.saved.get().tensors.iter().for_each(SavedTensor::free);
    }
}

/// Gives the outputs of a user's forward their history.
#[pyfunction(name = "_record_function")]
pub fn record_function<'py>(
    py: Python<'py>,
    ctx: &Bound<'py, PyAny>,
    call: Py<PyAny>,
    args: &Bound<'py, PyTuple>,
    outputs: &Bound<'py, PyTuple>,
    recorded: bool,
) -> PyResult<Bound<'py, PyList>> {
    let tensor = |o: &Bound<'py, PyAny>| o.cast::<PyTensor>().ok().map(|t| t.get().inner());
    let inputs: Vec<Option<Tensor>> = args.iter().map(|a| tensor(&a)).collect();
    let dirty = marked(ctx, "_dirty")?;
    let constant = marked(ctx, "_non_differentiable")?;
    for t in &dirty {
        t.bump_version();
    }
    let is = |list: &[Tensor], t: &Tensor| list.iter().any(|d| d.same(t));
    let mut made = Vec::with_capacity(outputs.len());
    for o in outputs.iter() {
        made.push(match tensor(&o) {
            // An input that comes out unchanged is a new tensor over the same memory.
            Some(t) if !is(&dirty, &t) && inputs.iter().flatten().any(|i| i.same(&t)) => {
                (o, Some(t.detach()))
            }
            Some(t) => (o, Some(t)),
            None if o.is_none() => (o, None),
            None => {
                return Err(PyTypeError::new_err(format!(
                    "{}: expected Tensor or tuple of Tensor (got {}) for return value",
                    type_name(ctx).trim_end_matches("Backward"),
                    type_name(&o)
                )));
            }
        });
    }
    let to_save = opt_tensor_list(&ctx.getattr("_to_save")?)?;
    let outs: Vec<&Tensor> = made.iter().filter_map(|(_, t)| t.as_ref()).collect();
    let tensors = to_save.iter().map(|t| match t {
        None => SavedTensor::unused(),
        Some(t) => match outs.iter().find(|o| {
            o.same(t)
                || (recorded
                    && outputs.iter().any(|x| tensor(&x).is_some_and(|x| x.same(t)))
                    && o.storage().same(t.storage()))
        }) {
            Some(o) if !inputs.iter().flatten().any(|i| i.same(t)) => SavedTensor::output(o),
            _ => SavedTensor::input(t),
        },
    });
    let saved = Py::new(py, Saved { tensors: tensors.collect(), node: Mutex::new(None) })?;
    ctx.setattr("_saved", saved.clone_ref(py))?;
    ctx.setattr("_to_save", PyTuple::empty(py))?;
    let meta = made
        .iter()
        .map(|(_, t)| match t {
            Some(t) => Ok((size(py, t.shape())?, dtype_object(py, t.dtype())?.into_any())),
            None => Ok((py.None(), py.None())),
        })
        .collect::<PyResult<Vec<_>>>()?;
    ctx.setattr("_output_meta", PyTuple::new(py, meta)?)?;
    if recorded {
        let edges: Edges = inputs.iter().flatten().map(Tensor::grad_edge).collect();
        let function = UserFunction {
            ctx: ctx.clone().unbind(),
            call,
            saved,
            name: type_name(ctx),
            tensors: inputs.iter().map(Option::is_some).collect(),
        };
        let node = graph::node(function, edges, &outs);
        let mut number = 0;
        for (_, t) in &made {
            let Some(t) = t else { continue };
            if t.dtype().is_float() && !is(&constant, t) {
                t.meta_or_new().set_history(node.clone(), number);
            }
            number += 1;
        }
    }
    let results = PyList::empty(py);
    for (o, t) in made {
        match t {
            Some(t) => results.append(wrap(py, t)?)?,
            None => results.append(o)?,
        }
    }
    Ok(results)
}

fn marked(ctx: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Tensor>> {
    Ok(opt_tensor_list(&ctx.getattr(name)?)?.into_iter().flatten().collect())
}
