//! Steps of optimizers over lists of tensors, and what is done to the gradients of a whole model.
//!
//! Note [One formula per optimizer]: a step is a function generic over the numbers, from gradient, parameter and state to
//! parameter and state. On `f32` and `f64` it is a loop, compiled per instruction set; recorded, it is the text of a
//! shader. What does not change with the elements are flags, fields of the rule that the function branches on, and numbers.

use smallvec::SmallVec;

use super::{View, of, same_device};
use crate::dtype::Real;
use crate::error::Result;
use crate::formula::record::record_all;
use crate::formula::{Formula, Num};

/// Numbers that a rule takes at most, and tensors of a parameter that it writes.
pub const NUMBERS: usize = 12;
pub const WRITTEN: usize = 5;

/// The numbers of a rule, in its order.
pub type Numbers = [f64; NUMBERS];

/// A type that steps are compiled for.
pub trait Number: Num + Real {}
impl Number for f32 {}
impl Number for f64 {}

/// The step of an optimizer on one element. See Note [One formula per optimizer].
pub trait Rule: Copy + PartialEq + Send + Sync + 'static {
    const NAME: &'static str;
    /// Tensors that it writes: the parameter, then its state.
    const WRITTEN: usize;
    /// Whether its loop is worth a copy for the widest vectors: it does not wait for memory alone.
    const WIDE: bool = false;
    /// The parameter and the state after the step; what is beyond [`Rule::WRITTEN`] is passed on.
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN];
}

/// A rule as backends see it.
pub trait Step: Sync {
    fn name(&self) -> &'static str;
    fn written(&self) -> usize;
    /// Arguments: the gradient, then what is written; the parameters are the numbers, the results what is written.
    fn formula(&self) -> Formula;
    fn run_f32(&self, numbers: &Numbers, g: &[f32], written: &mut [&mut [f32]]);
    fn run_f64(&self, numbers: &Numbers, g: &[f64], written: &mut [&mut [f64]]);
}

impl<R: Rule> Step for R {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn written(&self) -> usize {
        R::WRITTEN
    }

    fn formula(&self) -> Formula {
        record_all(1 + WRITTEN, NUMBERS, |a, p| {
            let (numbers, written) = (std::array::from_fn(|k| p[k]), std::array::from_fn(|k| a[1 + k]));
            self.step(&numbers, a[0], written)[..R::WRITTEN].to_vec()
        })
    }

    fn run_f32(&self, numbers: &Numbers, g: &[f32], written: &mut [&mut [f32]]) {
        super::cpu::optim::update(self, numbers, g, written);
    }

    fn run_f64(&self, numbers: &Numbers, g: &[f64], written: &mut [&mut [f64]]) {
        super::cpu::optim::update(self, numbers, g, written);
    }
}

/// The tensors of a parameter, of one shape and device and any dtype: the gradient, and the parameter with its state.
#[derive(Clone)]
pub struct Part<'a> {
    pub gradient: View<'a>,
    pub written: SmallVec<[View<'a>; WRITTEN]>,
}

/// Neighbouring parameters whose rule and numbers agree, which most often are all.
#[derive(Clone, Copy)]
pub struct Group<'g, 'v> {
    pub rule: &'g dyn Step,
    pub numbers: Numbers,
    pub parts: &'g [Part<'v>],
}

/// Applies rules to corresponding elements of the tensors of each parameter. Parameters that share memory, such as one
/// that is listed twice, are updated one after the other.
pub fn step(groups: &[Group]) -> Result<()> {
    let views =
        groups.iter().flat_map(|g| g.parts).flat_map(|p| p.written.iter().chain([&p.gradient])).copied();
    of(same_device(views)?)?.optimizer_step(groups)
}

/// Multiplies tensors by the one element of `factor`, in place, as often as they are listed; sets `found`, a float32, to 1 where an element was
/// infinite or NaN before.
pub fn scale(tensors: &[View], factor: View, found: Option<View>) -> Result<()> {
    let all = tensors.iter().copied().chain([factor]).chain(found);
    of(same_device(all)?)?.scale(tensors, factor, found)
}
