//! Recorded formulas applied to tensors: any number of arguments and results, without an operation in the table.

use smallvec::SmallVec;

use super::{Arg, common_device, common_shape, operand, prim_row};
use crate::backend::View;
use crate::backend::pointwise::{Kernel, Operand, compute_type, run_all};
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::Result;
use crate::formula::Formula;
use crate::formula::record::Prim;
use crate::layout::{Dims, Layout, broadcast};
use crate::tensor::Tensor;

/// The compiled loops of a primitive: those of the pointwise operation of the same name.
pub fn primitive(p: Prim) -> Option<Kernel> {
    prim_row(p).ok().map(|row| row.kernel)
}

/// As [`primitive`], with the recorded formula.
pub fn step(p: Prim) -> Option<(Kernel, &'static Formula)> {
    prim_row(p).ok().map(|row| (row.kernel, &row.plan().formula))
}

/// Applies a formula that computes in the type of `common` to broadcastable operands, without history: returns a new
/// tensor of the requested dtype for each result. `name` is used in errors and profiles.
pub fn evaluate(
    name: &'static str,
    formula: &Formula,
    common: DType,
    args: &[Arg],
    params: &[Scalar],
    results: &[DType],
) -> Result<Vec<Tensor>> {
    let (found, wanted) = ((args.len(), params.len()), (formula.args(), formula.params()));
    ensure!(
        found.0 >= wanted.0 && found.1 >= wanted.1 && results.len() == formula.results().len(),
        Runtime,
        "a formula of {} arguments, {} parameters and {} results was given {}, {} and {}",
        wanted.0,
        wanted.1,
        formula.results().len(),
        found.0,
        found.1,
        results.len()
    );
    let shape = match common_shape(args) {
        Some(t) => t.shape().clone(),
        None => {
            let mut shape = Dims::default();
            for a in args {
                if let Arg::T(t) = a {
                    shape = broadcast(name, &shape, t.shape())?;
                }
            }
            shape
        }
    };
    let device = common_device(args);
    let outs =
        results.iter().map(|d| Tensor::empty_on(shape.clone(), *d, device)).collect::<Result<Vec<_>>>()?;
    let expanded: SmallVec<[Option<Layout>; 8]> =
        args.iter().map(|a| if let Arg::T(t) = a { t.layout().expand(&shape) } else { None }).collect();
    let operands = args
        .iter()
        .zip(&expanded)
        .map(|(a, e)| match a {
            Arg::S(s) => Ok(Operand::Number(*s)),
            Arg::T(t) => operand(t, e.as_ref(), device),
        })
        .collect::<Result<SmallVec<[Operand; 8]>>>()?;
    let views: Vec<View> = outs.iter().map(Tensor::raw).collect();
    run_all(name, formula, &primitive, compute_type(common), &operands, params, &views)?;
    drop(views);
    Ok(outs)
}

#[cfg(test)]
pub(super) mod tests;
