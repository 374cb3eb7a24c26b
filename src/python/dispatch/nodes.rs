//! Nodes whose derivative handlers of `__torch_dispatch__` compute: see Note [Nodes as operations].
//!
//! Note [Second runs] The node of a hosted call that can be rebuilt from its arguments and results is rebuilt: Note [Histories
//! of hosted tensors]. Many keep more: the indices of maxima, the statistics of a normalization, a count of targets. No
//! handler has computed these, so such a call gets a node that saves the arguments. Its derivative is one operation of the
//! gradients and the arguments, which runs the call again on what the class hands it, and differentiates that.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::calls::{Computed, complete, interpreter_free};
use super::handlers::{Shown, handle};
use crate::engine::{self, Options, Target};
use crate::error::Result;
use crate::graph::{
    self, BelowAutograd, Cx, Function, GradFn, Grads, ModeGuard, SavedTensor, grad_enabled, with_saved,
};
use crate::ops::interpreter::{self, NodeCall};
use crate::ops::mirror::{Mirror, results};
use crate::ops::random;
use crate::ops::schema::Out;
use crate::ops::view::cut::alias;
use crate::python::convert;
use crate::python::error::{IntoPy, foreign};
use crate::python::object::{PyTensor, TensorObject, wrap};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// The function of a node as the operation that a handler may call: of the gradients, then the saved tensors.
#[pyclass(frozen)]
struct NodeFunction {
    node: GradFn,
    needs: Vec<bool>,
    /// Which gradients are given.
    given: Vec<bool>,
}

#[pymethods]
impl NodeFunction {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, py: Python<'py>, args: Vec<PyRef<'py, PyTensor>>) -> PyResult<Bound<'py, PyAny>> {
        let mut tensors = args.iter().map(|t| t.inner(py));
        let grads: Grads =
            self.given.iter().map(|given| if *given { tensors.next() } else { None }).collect();
        let saved: Vec<Tensor> = tensors.collect();
        let cx = Cx::new(&self.node, needs_bits(self.needs.iter().copied()));
        let out = with_saved(&self.node, saved, || {
            let _unrecorded = ModeGuard::grad(false);
            interpreter::backward(&self.node, &cx, grads)
        });
        let mut outs = out.py()?.into_iter().zip(&self.needs).map(|(g, needs)| g.filter(|_| *needs));
        let object = |g: Option<Tensor>| g.map(|g| wrap(py, g)).transpose();
        match self.needs.len() {
            1 => Ok(object(outs.next().flatten())?.into_pyobject(py)?),
            _ => Ok(PyTuple::new(py, outs.map(object).collect::<PyResult<Vec<_>>>()?)?.into_any()),
        }
    }
}

/// Has Python compute the gradients of a node.
pub fn compute_node(call: &NodeCall, mode: Option<&Py<PyAny>>) -> Result<Grads> {
    let arguments: Vec<Tensor> = call.grads.iter().flatten().chain(&call.saved).cloned().collect();
    let needs: Vec<bool> = (0..call.node.edges().len()).map(|i| call.cx.needs(i)).collect();
    let given = call.grads.iter().map(Option::is_some).collect();
    let function = NodeFunction { node: call.node.clone(), needs: needs.clone(), given };
    let handled = |py: Python<'_>| -> PyResult<Grads> {
        let args = arguments.iter().map(|t| wrap(py, t.clone())).collect::<PyResult<Vec<_>>>()?;
        let func =
            py.import("rgrad._dispatch")?.getattr("overload")?.call1((format!("{}.default", call.name),))?;
        let shown = Shown {
            func,
            args: PyTuple::new(py, args)?,
            kwargs: PyDict::new(py),
            function: Bound::new(py, function)?.into_any(),
        };
        let out = handle(py, &shown, &arguments, mode)?;
        if let Ok(t) = out.cast::<PyTensor>() {
            return Ok(Grads::from_elem(Some(t.tensor()), 1));
        }
        let words =
            |found| format!("__torch_dispatch__ must return the gradients as tensors, but got {found}");
        Ok(if out.is_none() {
            Grads::from_elem(None, 1)
        } else {
            convert::tensors_or_none(&out, words)?.into()
        })
    };
    let grads = interpreter_free(mode.is_none(), || Python::attach(handled).map_err(foreign))?;
    ensure!(
        grads.len() == needs.len(),
        Runtime,
        "__torch_dispatch__ returned {} gradients of {} instead of {}",
        grads.len(),
        call.name,
        needs.len()
    );
    Ok(grads)
}

/// Calls an operation with other tensors in place of those of its arguments.
pub type Repeat = Box<dyn Fn(&[Tensor]) -> Result<Out> + Send + Sync>;

/// The node of a call that runs again to be differentiated; see Note [Second runs].
struct SecondRun {
    name: &'static str,
    full_name: Cow<'static, str>,
    repeat: Repeat,
    arguments: Vec<SavedTensor>,
    /// By output of the node, the position among the results.
    outputs: Vec<usize>,
}

impl Function for SecondRun {
    fn name(&self) -> &'static str {
        self.name
    }

    fn full_name(&self) -> Cow<'static, str> {
        self.full_name.clone()
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("")
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let create_graph = grad_enabled();
        let arguments = self.arguments.iter().map(|saved| saved.get(cx)).collect::<Result<Vec<_>>>()?;
        if create_graph && interpreter::sees_steps(grads.iter().flatten().chain(&arguments)) {
            return interpreter::node_as_operation(cx.node, cx, &grads);
        }
        let _recording = (BelowAutograd::leave(), ModeGuard::grad(true));
        let mut leaves = Vec::with_capacity(arguments.len());
        for (i, argument) in arguments.iter().enumerate() {
            if create_graph && argument.requires_grad() {
                // A tensor of its own, whose gradient is that of this argument alone.
                leaves.push(alias(argument)?);
                continue;
            }
            let leaf = argument.detached()?;
            leaf.set_requires_grad(cx.needs(i) && leaf.dtype().is_float())?;
            leaves.push(leaf);
        }
        let random = random::default_generator();
        let before = random.state();
        let out = (self.repeat)(&leaves)?;
        if random.state() != before {
            random.set_state(before);
            bail!(
                NotImplemented,
                "the derivative of {} by tensors whose class has a __torch_dispatch__: it draws random numbers, which a second \
                 run does not draw again",
                self.full_name
            );
        }
        let found = results(&out);
        let (mut roots, mut given) = (Vec::new(), Vec::new());
        for (at, g) in self.outputs.iter().zip(grads) {
            if let (Some(t), Some(g)) = (found.get(*at).filter(|t| t.requires_grad()), g) {
                roots.push(Target::Tensor(t.clone()));
                given.push(Some(g));
            }
        }
        let wanted = || leaves.iter().enumerate().filter(|(_, leaf)| leaf.requires_grad());
        let mut outs = Grads::from_elem(None, leaves.len());
        if !roots.is_empty() {
            let inputs: Vec<Target> = wanted().map(|(_, leaf)| Target::Tensor(leaf.clone())).collect();
            let options = Options {
                allow_unused: true,
                create_graph,
                retain_graph: create_graph,
                ..Options::default()
            };
            let found = engine::grad(&roots, &inputs, &given, options)?;
            wanted().zip(found).for_each(|((i, _), g)| outs[i] = g);
        }
        Ok(outs)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        self.arguments.iter().for_each(|s| visit("argument", s));
    }
}

/// Gives the results of a hosted call a node that runs the call again; `images` are None where the call cannot run without
/// values.
pub fn second_run(
    mirror: &Mirror,
    images: Option<&[Tensor]>,
    computed: &mut [Tensor],
    repeat: Repeat,
) -> Result<()> {
    let history = |image: &Tensor| image.meta()?.history();
    let recorded = |i: &usize| match images {
        Some(images) => history(&images[*i]).is_some(),
        None => computed[*i].dtype().is_float(),
    };
    let outputs: Vec<usize> = (0..computed.len()).filter(recorded).collect();
    if outputs.is_empty() {
        return Ok(());
    }
    let node = images.and_then(|images| images.iter().find_map(history));
    let (name, full_name) = match &node {
        Some((node, _)) => (node.function().name(), node.name()),
        None => ("HostedBackward0", "HostedBackward0".into()),
    };
    let edges = mirror.arguments().iter().map(Tensor::grad_edge).collect::<Result<_>>()?;
    let arguments = mirror.arguments().iter().map(SavedTensor::input).collect();
    let function = SecondRun { name, full_name, repeat, arguments, outputs: outputs.clone() };
    for i in &outputs {
        if mirror.arguments().iter().any(|a| a.same(&computed[*i])) {
            computed[*i] = computed[*i].detached()?;
        }
    }
    let shown: Vec<&Tensor> = outputs.iter().map(|i| &computed[*i]).collect();
    let node = graph::node(function, edges, &shown);
    for (number, i) in outputs.iter().enumerate() {
        computed[*i].meta_or_new().set_history(node.clone(), number);
    }
    Ok(())
}

/// Gives the gradients that a node has computed unrecorded the history that its function has when recorded.
pub fn record_node(call: &NodeCall, outs: Grads) -> Result<Grads> {
    let arguments: Vec<Tensor> = call.grads.iter().flatten().chain(&call.saved).cloned().collect();
    if !arguments.iter().any(Tensor::requires_grad) {
        return Ok(outs);
    }
    let present: Vec<bool> = outs.iter().map(Option::is_some).collect();
    let (node, bits) = (call.node.clone(), needs_bits((0..present.len()).map(|i| call.cx.needs(i))));
    let given: Vec<bool> = call.grads.iter().map(Option::is_some).collect();
    let kept = present.clone();
    let run = Arc::new(move |tensors: &[Tensor]| {
        let mut tensors = tensors.iter().cloned();
        let grads: Grads = given.iter().map(|given| if *given { tensors.next() } else { None }).collect();
        let cx = Cx::new(&node, bits);
        let outs = with_saved(&node, tensors.collect(), || interpreter::backward(&node, &cx, grads))?;
        let mut found = Vec::new();
        for (out, _) in outs.into_iter().zip(&kept).filter(|(_, kept)| **kept) {
            let Some(out) = out else {
                bail!(Runtime, "{} returned no gradient when run again", node.name())
            };
            found.push(out);
        }
        Ok(Out::Tuple(found))
    });
    let again = run.clone();
    let out = complete(
        Computed::Tensors(outs.into_iter().collect()),
        arguments,
        true,
        |mirror| again(mirror.images()),
        |_| Ok(Box::new(move |tensors| run(tensors))),
    )?;
    let mut computed = results(&out).iter().cloned();
    Ok(present.into_iter().map(|present| if present { computed.next() } else { None }).collect())
}

/// A set of inputs as [`Cx::new`] takes it.
fn needs_bits(needs: impl Iterator<Item = bool>) -> u64 {
    needs.take(63).enumerate().fold(0, |bits, (i, needs)| bits | (needs as u64) << i)
}
