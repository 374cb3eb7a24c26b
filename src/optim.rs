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

/// Lists that run in parallel: entry i of each belongs to parameter i and has its shape.
struct Lists<'a> {
    grads: &'a [Tensor],
    /// The parameters, then their state.
    written: SmallVec<[&'a [Tensor]; WRITTEN]>,
}

impl Lists<'_> {
    /// Applies the rule that `of` gives for each parameter, with its numbers, and counts the writes.
    fn apply<R: Rule>(&self, of: impl Fn(usize) -> (R, Numbers)) -> Result<()> {
        self.check()?;
        let parts: Vec<Part> = (0..self.grads.len())
            .map(|i| Part {
                gradient: self.grads[i].raw(),
                written: self.written.iter().map(|w| w[i].raw()).collect(),
            })
            .collect();
        let mut rules: Vec<(R, Numbers, usize)> = Vec::new();
        for i in 0..parts.len() {
            let (rule, numbers) = of(i);
            match rules.last_mut() {
                Some((r, n, count)) if *r == rule && *n == numbers => *count += 1,
                _ => rules.push((rule, numbers, 1)),
            }
        }
        let mut rest = &parts[..];
        let groups: Vec<Group> = rules
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

/// Errors unless floating point tensors may be written in place, each element once.
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

/// Counts a step of each parameter and makes what depends on its number, which for most groups is one.
fn count_steps<C: Clone>(
    steps: &[Tensor],
    params: &[Tensor],
    constants: impl Fn(f64) -> C,
) -> Result<Vec<C>> {
    expect_length(steps.len(), params.len())?;
    let mut last: Option<(f64, C)> = None;
    steps
        .iter()
        .map(|step| {
            let t = step.item()?.to_f64() + 1.0;
            copy::fill(step.on_host()?.raw(), Scalar::Float(t))?;
            step.bump_version();
            if let Some((of, c)) = &last
                && *of == t
            {
                return Ok(c.clone());
            }
            let c = constants(t);
            last = Some((t, c.clone()));
            Ok(c)
        })
        .collect()
}

#[cfg(test)]
mod tests;
