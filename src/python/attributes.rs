//! What a node shows beside tensors: the attributes `_saved_dim`, `_saved_alpha` and the like, as Python's values.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use super::convert::scalar;
use super::error::IntoPy;
use super::tensor::wrap;
use crate::dtype::{DType, Scalar};
use crate::error::Error;
use crate::graph::{Attribute, GradFn};
use crate::tensor::Tensor;

/// The names, those of tensors left out.
pub fn names(node: &GradFn) -> Vec<&'static str> {
    let mut names = Vec::new();
    node.function().attributes(&mut |name, _| names.push(name));
    names
}

/// The value under a name, if there is one.
pub fn get<'py>(py: Python<'py>, node: &GradFn, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut found = None;
    let mut named = NamedDims::of(node);
    node.function().attributes(&mut |n, value| {
        let value = named.instead(n, value);
        if n == name && found.is_none() {
            found = Some(object(py, node, value));
        }
    });
    found.transpose()
}

/// The dimensions that were named, of which each attribute takes as many as it has; see Note [Dimensions as they were named].
struct NamedDims {
    all: SmallVec<[i64; 4]>,
    taken: usize,
}

impl NamedDims {
    fn of(node: &GradFn) -> NamedDims {
        NamedDims { all: node.named_dims.get(), taken: 0 }
    }

    /// The attribute as it was named, if it is one of dimensions.
    fn instead<'a>(&'a mut self, name: &str, value: Attribute<'a>) -> Attribute<'a> {
        if !name.starts_with("dim") || self.all.is_empty() {
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

/// PyTorch shows the integers of a node without their sign: -1 is 2⁶⁴ - 1.
fn unsigned(py: Python<'_>, i: i64) -> Bound<'_, PyAny> {
    let Ok(n) = (i as u64).into_pyobject(py);
    n.into_any()
}

fn object<'py>(py: Python<'py>, node: &GradFn, value: Attribute<'_>) -> PyResult<Bound<'py, PyAny>> {
    let input = || {
        let edge = node.edges().first().and_then(Option::as_ref);
        edge.and_then(|e| e.node.outputs().get(e.input())).map(|o| o.shape.clone()).unwrap_or_default()
    };
    let output = || node.outputs().first().map(|o| o.shape.clone()).unwrap_or_default();
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
