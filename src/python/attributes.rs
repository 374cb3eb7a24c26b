//! The `_saved_*` attributes of nodes other than tensors (`_saved_dim`, `_saved_alpha`), as Python values.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use super::convert::scalar;
use super::error::IntoPy;
use super::signature::Parameters;
use super::tensor::wrap;
use crate::dtype::{DType, Scalar};
use crate::error::Error;
use crate::graph::{Attribute, GradFn, LEAF_SEQUENCE, grad_enabled, next_sequence};
use crate::layout::Dims;
use crate::ops::schema::{Out, Value};
use crate::tensor::Tensor;

/// The names of the attributes other than tensors.
pub fn names(node: &GradFn) -> Vec<&'static str> {
    let mut names = Vec::new();
    node.function().attributes(&mut |name, _| names.push(name));
    names
}

/// The value of an attribute, if it exists.
pub fn get<'py>(py: Python<'py>, node: &GradFn, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut found = None;
    let mut named = ShownDims::of(node);
    node.function().attributes(&mut |n, value| {
        let value = named.instead(n, value);
        if n == name && found.is_none() {
            found = Some(object(py, node, value));
        }
    });
    found.transpose()
}

/// The dimension arguments of a call that differ from the normalized ones, and the first sequence number of nodes made
/// by the call. See Note [Dimensions as they were named].
pub struct GivenDims(Option<(SmallVec<[i64; 4]>, u64)>);

impl GivenDims {
    #[inline]
    pub fn of(parameters: &Parameters, values: &[Value]) -> GivenDims {
        if parameters.dims.is_empty() || !grad_enabled() {
            return GivenDims(None);
        }
        let mut dims: SmallVec<[i64; 4]> = SmallVec::new();
        for value in parameters.dims.iter().filter_map(|&i| values.get(i)) {
            match value {
                Value::Number(Scalar::Int(d)) => dims.push(*d),
                Value::Ints(all) => dims.extend_from_slice(all),
                _ => {}
            }
        }
        let counted = dims.is_sorted() && dims.first().is_none_or(|&d| d >= 0);
        GivenDims((!counted).then(|| (dims, next_sequence())))
    }

    /// Stores them in the node of a result, if the call made that node.
    #[inline]
    pub fn write_one(&self, t: &Tensor) {
        if let Some((dims, from)) = &self.0
            && let Some(node) = t.grad_fn()
            && (*from..LEAF_SEQUENCE).contains(&node.seq)
        {
            node.named_dims.set(dims);
        }
    }

    pub fn write(&self, out: &Out) {
        match out {
            Out::Tensor(t) => self.write_one(t),
            // All outputs share one node.
            Out::Tuple(all) | Out::List(all) | Out::Named(_, _, all) => {
                all.iter().take(1).for_each(|t| self.write_one(t));
            }
            _ => {}
        }
    }
}

/// The dimensions as written by the caller, consumed by the node's attributes in order.
struct ShownDims {
    all: SmallVec<[i64; 4]>,
    taken: usize,
}

impl ShownDims {
    /// Empty if the node uses other dimensions: it may be the last node of a composite operation.
    fn of(node: &GradFn) -> ShownDims {
        let mut all = node.named_dims.get();
        if !all.is_empty() && !is_same(&all, &counted_dims(node), node) {
            all.clear();
        }
        ShownDims { all, taken: 0 }
    }

    /// The attribute in the caller's notation, if it is a dimension.
    fn instead<'a>(&'a mut self, name: &str, value: Attribute<'a>) -> Attribute<'a> {
        if !is_dim(name) || self.all.is_empty() {
            return value;
        }
        match value {
            Attribute::Int(_) => {
                self.taken += 1;
                self.all.get(self.taken - 1).map_or(value, |&d| Attribute::Int(d))
            }
            Attribute::Dims(_) | Attribute::Ints(_) => Attribute::Ints(&self.all),
            _ => value,
        }
    }
}

fn is_dim(name: &str) -> bool {
    name.starts_with("dim")
}

/// The normalized dimensions in a node's attributes, in order.
fn counted_dims(node: &GradFn) -> SmallVec<[i64; 4]> {
    let mut counted = SmallVec::new();
    node.function().attributes(&mut |name, value| match value {
        Attribute::Int(d) if is_dim(name) => counted.push(d),
        Attribute::Ints(all) if is_dim(name) => counted.extend_from_slice(all),
        Attribute::Dims(mask) if is_dim(name) => counted.extend((0..64).filter(|d| mask >> d & 1 == 1)),
        _ => {}
    });
    counted
}

/// Whether both lists name the same dimensions, in any order, of the first input or the first output.
fn is_same(named: &[i64], counted: &[i64], node: &GradFn) -> bool {
    let sorted = |dims: &[i64], rank: i64| {
        let mut dims: SmallVec<[i64; 4]> = dims.iter().map(|&d| if d < 0 { d + rank } else { d }).collect();
        dims.sort_unstable();
        dims
    };
    let ranks = [input_shape(node).len(), output_shape(node).len()];
    ranks.iter().any(|&rank| sorted(named, rank as i64) == sorted(counted, rank as i64))
}

fn input_shape(node: &GradFn) -> Dims {
    let edge = node.edges().first().and_then(Option::as_ref);
    edge.and_then(|e| e.node.outputs().get(e.input())).map(|o| o.shape.clone()).unwrap_or_default()
}

fn output_shape(node: &GradFn) -> Dims {
    node.outputs().first().map(|o| o.shape.clone()).unwrap_or_default()
}

/// PyTorch shows negative integers of a node as unsigned: -1 is 2⁶⁴ - 1.
fn unsigned(py: Python<'_>, i: i64) -> Bound<'_, PyAny> {
    let Ok(n) = (i as u64).into_pyobject(py);
    n.into_any()
}

fn object<'py>(py: Python<'py>, node: &GradFn, value: Attribute<'_>) -> PyResult<Bound<'py, PyAny>> {
    let input = || input_shape(node);
    let output = || output_shape(node);
    let tuple = |items: &mut dyn ExactSizeIterator<Item = i64>| PyTuple::new(py, items).map(Bound::into_any);
    let sizes = |shape: &[usize]| tuple(&mut shape.iter().map(|&n| n as i64));
    let number = |s| scalar(py, s).map(|n| n.into_bound(py));
    Ok(match value {
        Attribute::Nothing => py.None().into_bound(py),
        Attribute::Bool(b) => number(Scalar::Bool(b))?,
        Attribute::Int(i) => unsigned(py, i),
        Attribute::Number(s) => number(s)?,
        Attribute::Text(t) => t.into_pyobject(py)?.into_any(),
        Attribute::Ints(all) => PyTuple::new(py, all.iter().map(|&i| unsigned(py, i)))?.into_any(),
        Attribute::Sizes(all) => sizes(all)?,
        Attribute::Dims(mask) => {
            let dims: Vec<i64> = (0..input().len() as i64).filter(|d| mask >> d & 1 == 1).collect();
            tuple(&mut dims.iter().copied())?
        }
        Attribute::Tensor(_, true) => return Err(Error::FreedGraph).py(),
        Attribute::Tensor(s, false) => {
            let dtype = [DType::Bool, DType::I64, DType::F64][s.category() as usize];
            wrap(py, Tensor::scalar(s, dtype).py()?)?.into_bound(py)
        }
        Attribute::InputShape => sizes(&input())?,
        Attribute::InputCount => number(Scalar::Int(input().numel() as i64))?,
        Attribute::KeepsDim => {
            let (from, to) = (input().len(), output().len());
            number(Scalar::Bool(from == to && from > 0))?
        }
        Attribute::OutputShape(first) => sizes(&output()[first.min(output().len())..])?,
    })
}
