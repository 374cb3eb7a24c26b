//! Optimizer steps over lists of tensors: one pass over memory and one parallel region for a whole parameter group; see
//! Note [A region over many tensors]. No history is recorded; every tensor written gets a new version.

mod gradients;
mod rules;

use smallvec::SmallVec;

pub use gradients::{scale_all, total_norm, unscale};
pub use rules::*;

use crate::backend::copy;
use crate::backend::optim::{self as kernel, Group, Numbers, Part, Rule, WRITTEN};
use crate::dtype::Scalar;
use crate::ensure;
use crate::error::Result;
use crate::tensor::Tensor;

/// Parallel lists: entry i of each belongs to parameter i and has its shape.
struct Lists<'a> {
    grads: &'a [Tensor],
    /// The parameters and their state.
    written: SmallVec<[&'a [Tensor]; WRITTEN]>,
}

/// Consecutive parameters with the same rule: the rule, its numbers, and their count.
type Run<R> = (R, Numbers, usize);

impl Lists<'_> {
    /// Applies rules to consecutive runs that together cover all parameters, and increments version counters.
    fn apply<R: Rule>(&self, runs: impl IntoIterator<Item = Run<R>>) -> Result<()> {
        self.check()?;
        let parts: Vec<Part> = (0..self.grads.len())
            .map(|i| Part::new(self.grads[i].raw(), self.written.iter().map(|w| w[i].raw())))
            .collect();
        let runs: SmallVec<[Run<R>; 1]> = runs.into_iter().collect();
        let mut rest = &parts[..];
        let groups: SmallVec<[Group; 1]> = runs
            .iter()
            .map(|(rule, numbers, count)| {
                let (parts, others) = rest.split_at(*count);
                rest = others;
                Group { rule, numbers: *numbers, parts }
            })
            .collect();
        kernel::step(&groups)?;
        self.written.iter().flat_map(|w| w.iter()).for_each(Tensor::bump_version);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let params = self.written[0];
        for list in self.written[1..].iter().copied().chain([self.grads]) {
            expect_length(list.len(), params.len())?;
            for (t, p) in list.iter().zip(params) {
                ensure!(
                    t.shape() == p.shape(),
                    Runtime,
                    "expected a tensor of the shape {} of its parameter, got {}",
                    p.shape(),
                    t.shape()
                );
            }
        }
        self.written.iter().try_for_each(|list| expect_writable(list))
    }
}

/// Errors unless the tensors are floating point and writable in place, without overlapping indices.
fn expect_writable(list: &[Tensor]) -> Result<()> {
    for t in list {
        ensure!(t.dtype().is_float(), Runtime, "expected floating point tensors, got {}", t.dtype());
        ensure!(
            !t.storage().is_readonly(),
            Runtime,
            "the memory of this tensor is read-only and cannot be written in place"
        );
        ensure!(
            t.is_contiguous() || !t.layout().may_overlap_itself(),
            Runtime,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory \
             location. Please clone() the tensor before performing the operation."
        );
    }
    Ok(())
}

fn expect_length(len: usize, params: usize) -> Result<()> {
    ensure!(len == params, Runtime, "expected one tensor for each of {params} parameters, got {len}");
    Ok(())
}

/// Increments the step counts. Returns the new counts with the number of consecutive parameters that share each; most
/// often a single entry for all.
fn count_steps(steps: &[Tensor], params: &[Tensor]) -> Result<SmallVec<[(f64, usize); 1]>> {
    expect_length(steps.len(), params.len())?;
    let mut runs: SmallVec<[(f64, usize); 1]> = SmallVec::new();
    for step in steps {
        let t = step.item()?.to_f64() + 1.0;
        copy::fill(step.on_host()?.raw(), Scalar::Float(t))?;
        step.bump_version();
        match runs.last_mut() {
            Some((of, count)) if *of == t => *count += 1,
            _ => runs.push((t, 1)),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests;
