//! What kernels fetch for others.
//!
//! Note [Memory ahead] A group with several kernels computes a block by one after the other. The first reads operands from memory and the
//! last writes results there, while those between work in the cache and memory is idle. So these fetch the operands of the next
//! block, and the memory of results that later kernels write, into the second-level cache. On a processor with Zen 4 a layer normalization
//! of a sum of two tensors of 9.6 MB takes four fifths of the time.

use super::program::{Extent, Place, Program, is_dense};
use super::types::Grouped;
use crate::backend::group::{Group, Level};

/// The bytes of the smallest values whose groups fetch: smaller ones are in that cache.
const LARGE: usize = 1 << 20;

/// Memory that another instruction uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ahead {
    /// The next block of an operand.
    Next(usize),
    /// This block of an operand.
    Operand(usize),
    /// This block of a result.
    Result(usize),
}

/// What the kernels of each stage fetch. `joins` says which instructions kernels compute, `stages` the stages of all, `kept` the places of
/// results, and `source` which instruction makes a value.
pub(super) fn ahead_of<T: Grouped>(
    program: &Program<T>,
    group: &Group,
    joins: &[bool],
    stages: &[usize],
    kept: &[Place],
    source: impl Fn(&Place) -> Option<usize>,
) -> Vec<(usize, Ahead)> {
    let instructions = &program.instructions;
    let is_kernel = |i: &usize| joins[*i] && instructions[*i].extent == Extent::Elements;
    let mut kernels: Vec<usize> = (0..joins.len()).filter(is_kernel).map(|i| stages[i]).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let mut ahead: Vec<(usize, Ahead)> = Vec::new();
    if group.numel * size_of::<T>() < LARGE {
        return ahead;
    }
    // An instruction that is interpreted follows the kernel of its stage.
    let last_before = |i: usize| kernels.iter().rfind(|s| **s < stages[i] + usize::from(!joins[i])).copied();
    for (k, (call, view)) in group.results.iter().enumerate() {
        if group.calls[*call].level == Level::Elements
            && is_dense::<T>(view)
            && let Some(before) = source(&kept[k]).and_then(last_before)
        {
            ahead.push((before, Ahead::Result(k)));
        }
    }
    for o in (0..group.operands.len()).filter(|o| group.operands[*o].level == Level::Elements) {
        let reads = |i: &usize| instructions[*i].args.contains(&Place::Operand(o));
        let Some(first) = (0..joins.len()).filter(reads).min_by_key(|i| stages[*i]) else { continue };
        let after = kernels.iter().filter(|s| **s >= stages[first] + usize::from(joins[first]));
        let fetched = |s: &&usize| ahead.iter().filter(|(of, _)| of == *s).count();
        match after.min_by_key(fetched) {
            Some(after) => ahead.push((*after, Ahead::Next(o))),
            None => ahead.extend(last_before(first).map(|before| (before, Ahead::Operand(o)))),
        }
    }
    ahead
}
