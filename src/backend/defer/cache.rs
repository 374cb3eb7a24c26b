//! The cache of plans.
//!
//! Note [Plan cache] A training step queues the same entries each time. A plan depends on what they compute and on layouts, on which
//! of them use one storage, on whether somebody outside has it, and on the number of threads; of formulas on their cost, if they are cheap, and not
//! on numbers or addresses.
//! To plan five entries takes 13,000 instructions. So each thread has a cache of plans whose key is a list of these, for the CPU.

use std::cell::RefCell;
use std::rc::Rc;

use super::plan::{self, Plan};
use super::queue::{Entry, Held, In, Work};
use crate::backend::cache::{Cache, Words, layout_words};
use crate::backend::group::Fusion;
use crate::backend::pointwise::Kernel;
use crate::backend::reduce::ReduceDims;
use crate::device::Device;
use crate::storage::Storage;

thread_local!(static PLANS: RefCell<Cache<Rc<Plan>, 256>> = RefCell::default());

/// As [`plan::plan`]. `shared` gives a number of a storage among those of the entries, and whether somebody outside has it: the same each time
/// that it is asked, whatever other threads do.
pub fn plan(
    entries: &[Entry],
    shared: impl Fn(&Storage) -> (usize, bool),
    fusion: impl Fn(Device) -> Fusion,
) -> Rc<Plan> {
    let make = || Rc::new(plan::plan(entries, |s| shared(s).1, &fusion));
    if !entries.iter().all(|e| e.out.storage.device() == Device::Cpu) {
        return make();
    }
    let mut key = Words::new();
    key.push(fusion(Device::Cpu).columns as u64);
    for e in entries {
        entry_words(e, &shared, &mut key);
    }
    if let Ok(Some(found)) = PLANS.try_with(|cache| cache.borrow().get(&key)) {
        return found;
    }
    let made = make();
    let _removed = PLANS.try_with(|cache| cache.borrow_mut().keep(&key, made.clone()));
    made
}

fn entry_words(e: &Entry, shared: &impl Fn(&Storage) -> (usize, bool), words: &mut Words) {
    let of = |d: ReduceDims| [d.outer, d.n, d.inner].map(|n| n as u64);
    words.extend([e.compute as u64, e.ins.len() as u64]);
    match &e.work {
        Work::Map { kernel, formula, .. } => {
            let is_truth = matches!(kernel, Kernel::Truth { .. });
            words.extend([u64::from(is_truth), u64::from(formula.cost().min(plan::CHEAP + 1))]);
        }
        Work::Copy => words.push(2),
        Work::Reduce(op, d) => {
            words.push(3);
            words.extend(op.words());
            words.extend(of(*d));
        }
        Work::Softmax(kind, d) => words.extend([4, *kind as u64].into_iter().chain(of(*d))),
        Work::SoftmaxBackward(kind, d) => words.extend([5, *kind as u64].into_iter().chain(of(*d))),
        Work::Matmul => words.push(6),
        // Of the sizes of a convolution a plan depends on those of its planes alone.
        Work::Convolution(of) => words.extend([7, of.1.plane_of(of.0) as u64]),
    }
    let held = |v: &Held, words: &mut Words| {
        let (number, is_kept) = shared(&v.storage);
        words.extend([(number as u64) << 1 | u64::from(is_kept), v.dtype as u64, v.layout.offset as u64]);
        layout_words(&v.layout, words);
    };
    held(&e.out, words);
    for v in &e.ins {
        match v {
            In::View(v) => {
                words.push(0);
                held(v, words);
            }
            In::Number(_) => words.push(1),
            In::Unread => words.push(2),
        }
    }
}
