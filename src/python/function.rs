//! Custom autograd functions written in Python, as nodes of the graph.

use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, Weak};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::convert::{opt_tensor_list, size};
use super::dtype::{PyDevice, dtype_object, type_name};
use super::error::{IntoPy, foreign};
use super::hooks::{grads_tuple, visit_objects};
use super::node::node_object;
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::error::Result;
use crate::graph::{
    self, Cx, Edge, Edges, Function, GcVisitor, GradFn, Grads, HeldGuard, Node, SavedTensor, anything_held,
};
use crate::tensor::{Tensor, check_inplace, rebase};

/// The tensors saved by a custom function.
#[pyclass(frozen)]
pub struct Saved {
    tensors: Vec<SavedTensor>,
    /// Whether the node has run and the tensors were freed.
    freed: AtomicBool,
    /// The node, to restore the history of a saved output.
    node: OnceLock<Weak<Node>>,
}

#[pymethods]
impl Saved {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let (mut held, mut done) = (GcVisitor::default(), Ok(()));
        let mut visit = |object: &dyn Any| {
            visit_objects(object, &mut |o| {
                if done.is_ok() {
                    done = visit.call(o);
                }
            });
        };
        if anything_held() {
            self.tensors.iter().for_each(|s| held.saved(s, &mut visit));
            held.visit(&mut visit);
        }
        done
    }

    /// The node of the function, while the graph keeps it alive.
    fn node(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.node.get().and_then(GradFn::upgrade).map(|n| node_object(py, &n)).transpose()
    }

    fn unpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let node = self.node.get().and_then(GradFn::upgrade);
        let items = self
            .tensors
            .iter()
            .map(|s| {
                let t = match &node {
                    Some(node) => s.unpack_with_history(node),
                    None => s.unpack(None),
                };
                t.py()?.map_or_else(|| Ok(py.None()), |t| wrap(py, t))
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, items)
    }
}

/// The node of a custom function.
pub struct UserFunction {
    ctx: Py<PyAny>,
    call: Py<PyAny>,
    saved: Py<Saved>,
    name: String,
    /// Which arguments of forward are tensors: only these have edges.
    tensors: Vec<bool>,
    _held: HeldGuard,
}

impl UserFunction {
    pub fn ctx(&self) -> &Py<PyAny> {
        &self.ctx
    }

    /// The positions of tensors among the outputs and the number of outputs, unless all outputs are tensors.
    pub fn output_places(&self, py: Python<'_>) -> PyResult<Option<(Vec<usize>, usize)>> {
        self.ctx.bind(py).getattr("_output_places")?.extract()
    }

    pub fn visit_objects(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.ctx);
        visit(&self.call);
        visit(self.saved.as_any());
    }

    /// The number of saved tensors.
    pub fn count(&self) -> usize {
        self.saved.get().tensors.len()
    }

    pub fn is_freed(&self) -> bool {
        self.saved.get().freed.load(Ordering::Relaxed)
    }

    pub fn place(&self, place: usize) -> Option<&SavedTensor> {
        self.saved.get().tensors.get(place)
    }

    /// The saved tensors that have not been freed.
    pub fn unpacked(&self, node: &GradFn) -> Vec<Tensor> {
        self.saved.get().tensors.iter().filter_map(|s| s.unpack(Some(node)).ok().flatten()).collect()
    }
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

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let run = |py: Python<'_>| -> PyResult<Grads> {
            let out = self.call.call1(py, (&self.ctx, grads_tuple(py, &grads)?))?;
            let mut grads = Grads::new();
            for (i, (g, tensor)) in out.bind(py).try_iter()?.zip(&self.tensors).enumerate() {
                let g = g?;
                match (g.cast::<PyTensor>(), tensor) {
                    _ if g.is_none() && *tensor => grads.push(None),
                    _ if g.is_none() => {}
                    (_, false) => {
                        return Err(PyRuntimeError::new_err(format!(
                            "function {} returned a gradient different than None at position {}, but the corresponding \
                             forward input was not a Variable",
                            self.name,
                            i + 1
                        )));
                    }
                    (Ok(g), true) => grads.push(Some(g.tensor())),
                    (Err(_), true) => {
                        return Err(PyRuntimeError::new_err(format!(
                            "expected Variable or None (got {})",
                            type_name(&g)
                        )));
                    }
                }
            }
            Ok(grads)
        };
        Python::attach(run).map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn release(&self) {
        self.saved.get().freed.store(true, Ordering::Relaxed);
        self.saved.get().tensors.iter().for_each(SavedTensor::free);
    }
}

const WRITTEN_VIEW: &str = "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one \
     Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view \
     (using .clone() for example) or make your Function only return one Tensor (potentially splitting it into two \
     Functions: one doing the inplace that returns a single Tensor and a second one that does the other operations). You \
     can ask on the forum https://discuss.pytorch.org/ if you need help to do this change.";

/// Records the outputs of a custom function's forward.
#[pyfunction(name = "_record_function")]
pub fn record_function<'py>(
    py: Python<'py>,
    ctx: &Bound<'py, PyAny>,
    call: Py<PyAny>,
    args: &Bound<'py, PyTuple>,
    outputs: &Bound<'py, PyTuple>,
    recorded: bool,
) -> PyResult<Bound<'py, PyList>> {
    let tensor = |o: &Bound<'py, PyAny>| o.cast::<PyTensor>().ok().map(|t| t.tensor());
    let inputs: Vec<Option<Tensor>> = args.iter().map(|a| tensor(&a)).collect();
    let dirty = marked(ctx, "_dirty")?;
    let constant = marked(ctx, "_non_differentiable")?;
    let is = |list: &[Tensor], t: &Tensor| list.iter().any(|d| d.same(t));
    let given: Vec<Option<Tensor>> = outputs.iter().map(|o| tensor(&o)).collect();
    let several = given.iter().flatten().count() > 1;
    for t in &dirty {
        if !given.iter().flatten().any(|o| o.same(t)) {
            return Err(PyRuntimeError::new_err(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are \
                 modified inplace must all be outputs of the Function.",
            ));
        }
        if recorded && t.requires_grad() && t.is_leaf() {
            return Err(PyRuntimeError::new_err(
                "a leaf Variable that requires grad has been used in an in-place operation.",
            ));
        }
        if recorded && several && t.base().is_some() {
            return Err(PyRuntimeError::new_err(WRITTEN_VIEW));
        }
        check_inplace(t, recorded).py()?;
        t.bump_version();
    }
    // The resulting outputs, each with the tensor that forward returned.
    let mut made: Vec<(Bound<'py, PyAny>, Option<Tensor>)> = Vec::with_capacity(given.len());
    let mut number = 0;
    for (o, t) in outputs.iter().zip(&given) {
        let Some(t) = t else {
            if !o.is_none() {
                return Err(PyTypeError::new_err(format!(
                    "{}: expected Tensor or tuple of Tensor (got {}) for return value",
                    type_name(ctx).trim_end_matches("Backward"),
                    type_name(&o)
                )));
            }
            made.push((o, None));
            continue;
        };
        let returned_as_is = inputs.iter().flatten().any(|i| i.same(t));
        let out = if is(&dirty, t) {
            t.clone()
        } else if t.base().is_some() || (recorded && returned_as_is) {
            t.as_custom_view(several.then_some(number))
        } else if returned_as_is && t.requires_grad() {
            t.detach()
        } else {
            t.clone()
        };
        made.push((o, Some(out)));
        number += 1;
    }
    let to_save = opt_tensor_list(&ctx.getattr("_to_save")?)?;
    let outs: Vec<&Tensor> = made.iter().filter_map(|(_, t)| t.as_ref()).collect();
    let tensors = to_save
        .iter()
        .map(|t| {
            let Some(t) = t else { return SavedTensor::unused() };
            match given.iter().flatten().position(|o| o.same(t)) {
                Some(i) if is(&dirty, t) || !inputs.iter().flatten().any(|i| i.same(t)) => {
                    SavedTensor::numbered_output(outs[i], i)
                }
                _ => SavedTensor::input(t),
            }
        })
        .collect();
    graph::check_saved().py()?;
    let saved = Py::new(py, Saved { tensors, freed: AtomicBool::new(false), node: OnceLock::new() })?;
    ctx.setattr("_saved", saved.clone_ref(py))?;
    ctx.setattr("_to_save", PyTuple::empty(py))?;
    let fills_constant = ctx.getattr("_materialize_non_diff_grads")?.is_truthy()?;
    let filled = |given: &Tensor| fills_constant || !is(&constant, given);
    let meta = made
        .iter()
        .zip(&given)
        .map(|((_, t), given)| match t.as_ref().filter(|_| given.as_ref().is_some_and(filled)) {
            Some(t) => {
                let device = Py::new(py, PyDevice::of(t.device()))?.into_any();
                Ok((size(py, t.shape())?, dtype_object(py, t.dtype())?.into_any(), device))
            }
            None => Ok((py.None(), py.None(), py.None())),
        })
        .collect::<PyResult<Vec<_>>>()?;
    ctx.setattr("_output_meta", PyTuple::new(py, meta)?)?;
    if recorded {
        let edges: Edges = inputs.iter().flatten().map(Tensor::grad_edge).collect::<Result<_>>().py()?;
        let function = UserFunction {
            ctx: ctx.clone().unbind(),
            call,
            saved: saved.clone_ref(py),
            name: type_name(ctx),
            tensors: inputs.iter().map(Option::is_some).collect(),
            _held: HeldGuard::new(),
        };
        let node = graph::node(function, edges, &outs);
        let _ = saved.get().node.set(node.downgrade());
        for (number, (t, given)) in outs.iter().zip(given.iter().flatten()).enumerate() {
            if !t.dtype().is_float() || is(&constant, given) {
                continue;
            }
            if is(&dirty, t) {
                rebase(t, Edge::new(node.clone(), number)).py()?;
            } else {
                t.meta_or_new().set_history(node.clone(), number);
            }
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
