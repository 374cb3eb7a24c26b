//! The cache of programs.
//!
//! Note [Program cache] A training step has the same groups each time, and to make the program of five calls takes 30,000 instructions, as many as
//! its kernels take for 32,768 elements. A program depends on what its group computes, on numbers, layouts and dtypes, and on which memory
//! overlaps, but on no address and no offset. So each thread has a cache of programs whose key is a list of these. Numbers are
//! part of it, as they are of a program: for one that changes with each call, such as a learning rate, a program is made each time, which
//! takes 5 µs for five operations.

use std::rc::Rc;

use bytemuck::Zeroable;

use super::program::Program;
use super::types::Grouped;
use crate::backend::View;
use crate::backend::cache::{Cache, Words, layout_words};
use crate::backend::cpu::copy::StridedCursor;
use crate::backend::cpu::machine::bits_of;
use crate::backend::cpu::pointwise::OperandAccess;
use crate::backend::group::{Call, Group, Value, Work};
use crate::backend::simd::isa;

/// The programs of a thread.
pub(super) type Programs<T> = Cache<Rc<Program<T>>, 256>;

/// The program of a group; None if a call is not defined for the type.
pub(super) fn program<T: Grouped>(group: &Group, access: &[OperandAccess<'_>]) -> Option<Rc<Program<T>>> {
    let key = key::<T>(group, access);
    if let Some(found) = T::with_programs(|cache| cache.get(&key)).flatten() {
        return Some(found);
    }
    let made = Rc::new(Program::of(group, access)?);
    let _removed = T::with_programs(|cache| cache.keep(&key, made.clone()));
    Some(made)
}

/// All that a program depends on.
fn key<T: Grouped>(group: &Group, access: &[OperandAccess<'_>]) -> Words {
    let columns = group.columns.map_or([0; 3], |d| [d.outer, d.n, d.inner]);
    let counts = [group.calls.len(), group.operands.len(), group.results.len()];
    let sizes = [group.numel, group.n, group.part, group.tile].into_iter().chain(columns).chain(counts);
    let mut words: Words = sizes.map(|n| n as u64).collect();
    words.extend([isa() as u64, group.producer.map_or(0, |p| p.unit() as u64)]);
    for call in group.calls {
        call_words::<T>(call, &mut words);
    }
    for (o, access) in group.operands.iter().zip(access) {
        words.push(o.level as u64);
        view_words(&o.view, &mut words);
        match access {
            OperandAccess::Direct(_) => words.push(0),
            OperandAccess::Period(view, period) => {
                words.extend([1, *period as u64]);
                // A number of the program.
                if *period == 1 && view.layout.numel() > 0 {
                    let mut one = [T::Stored::zeroed()];
                    StridedCursor::new(*view, 0).read::<T::Stored>(&mut one);
                    words.push(bits_of(&one[0]));
                }
            }
            _ => words.push(2),
        }
        for (_, result) in group.results {
            let is_same = o.view.storage.same(result.storage) && o.view.layout.offset == result.layout.offset;
            words.push(u64::from(is_same) << 1 | u64::from(o.view.storage.overlaps(result.storage)));
        }
    }
    for (k, (call, view)) in group.results.iter().enumerate() {
        words.push(*call as u64);
        view_words(view, &mut words);
        words.extend(group.results[..k].iter().map(|(_, r)| u64::from(r.storage.overlaps(view.storage))));
    }
    words
}

fn call_words<T: Grouped>(call: &Call, words: &mut Words) {
    let rounded = call.rounded.map_or(u64::MAX, |dtype| dtype as u64);
    words.extend([call.level as u64, rounded, call.args.len() as u64]);
    match call.work {
        Work::Map { kernel, formula, params } => {
            let id = formula.identity();
            let loops = [T::same(kernel).is_some(), T::truth(kernel).is_some()].map(u64::from);
            words.extend([0, id as u64, (id >> 64) as u64, loops[0], loops[1], params.len() as u64]);
            words.extend(params.iter().map(|s| bits_of(&T::number(*s))));
        }
        Work::Pass => words.push(1),
        Work::Reduce(op) => {
            let [op, degree] = op.words();
            words.extend([2, op, degree]);
        }
        Work::Softmax(kind) => words.extend([3, kind as u64]),
        Work::SoftmaxBackward(kind) => words.extend([4, kind as u64]),
    }
    for arg in &call.args {
        words.extend(match *arg {
            Value::Operand(k) => [0, k as u64],
            Value::Call(c) => [1, c as u64],
            Value::Part(c, from) => [2 | (c as u64) << 2, from as u64],
            Value::Number(s) => [3, bits_of(&T::number(s))],
            Value::Produced => [u64::MAX, 0],
        });
    }
}

/// Of a view all but where it is.
fn view_words(view: &View, words: &mut Words) {
    let aligned = u64::from(view.is_aligned()) << 1 | u64::from(view.storage.is_aligned(8));
    words.extend([view.dtype as u64, aligned]);
    layout_words(view.layout, words);
}
