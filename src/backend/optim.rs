//! Optimizer steps over lists of tensors, and scaling of the gradients of a whole model.
//!
//! Note [One formula per optimizer]: a step is a function, generic over the number type, from gradient, parameter and
//! state to parameter and state. Instantiated for `f32` and `f64` it is a loop compiled per instruction set; recorded,
//! it becomes a shader. Inputs that do not vary between elements are flags (fields of the rule, on which the function
//! branches) and numbers.

use super::{View, of, same_device};
use crate::dtype::Real;
use crate::error::{Error, Result};
use crate::formula::record::record_all;
use crate::formula::{Formula, Num};

/// Maximum number of numbers of a rule, and of tensors written per parameter.
pub const NUMBERS: usize = 12;
pub const WRITTEN: usize = 5;

/// The numbers of a rule, in the rule's order.
pub type Numbers = [f64; NUMBERS];

/// A type that steps are instantiated for.
pub trait Number: Num + Real {}
impl Number for f32 {}
impl Number for f64 {}

/// An optimizer step for one element. See Note [One formula per optimizer].
pub trait Rule: Copy + PartialEq + Send + Sync + 'static {
    const NAME: &'static str;
    /// Number of tensors written: the parameter and its state.
    const WRITTEN: usize;
    /// Whether to compile an AVX-512 version: the loop is not purely memory-bound.
    const WIDE: bool = false;
    /// The parameter and state after the step; entries beyond [`Rule::WRITTEN`] are returned unchanged.
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN];
}

/// The object-safe form of [`Rule`] that backends use.
pub trait Step: Sync {
    fn name(&self) -> &'static str;
    fn written(&self) -> usize;
    /// Its arguments are the gradient and the written tensors, its parameters the numbers, its results the written
    /// tensors.
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

/// The tensors of a parameter, of one shape and any dtype: the gradient, and the parameter with its state.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The gradient, then those that are written.
    views: [View<'a>; 1 + WRITTEN],
    written: usize,
}

impl<'a> Part<'a> {
    /// A gradient with the parameter and its state, at most [`WRITTEN`] tensors.
    #[inline]
    pub fn new(gradient: View<'a>, written: impl Iterator<Item = View<'a>>) -> Self {
        let mut part = Part { views: [gradient; 1 + WRITTEN], written: 0 };
        for (slot, v) in part.views[1..].iter_mut().zip(written) {
            *slot = v;
            part.written += 1;
        }
        part
    }

    #[inline]
    pub fn gradient(&self) -> View<'a> {
        self.views[0]
    }

    #[inline]
    pub fn written(&self) -> &[View<'a>] {
        &self.views[1..=self.written]
    }
}

/// Consecutive parameters with the same rule and numbers; most often all parameters.
#[derive(Clone, Copy)]
pub struct Group<'g, 'v> {
    pub rule: &'g dyn Step,
    pub numbers: Numbers,
    pub parts: &'g [Part<'v>],
}

/// Applies each group's rule to corresponding elements of the tensors of each parameter. Parameters that share memory,
/// such as one that is listed twice, are updated one after the other.
pub fn step(groups: &[Group]) -> Result<()> {
    let Some(first) = groups.iter().find_map(|g| g.parts.first()) else { return Ok(()) };
    let device = first.gradient().device();
    for part in groups.iter().flat_map(|g| g.parts) {
        if let Some(v) = part.written().iter().chain([&part.gradient()]).find(|v| v.device() != device) {
            return Err(Error::DevicesDiffer(device, v.device()));
        }
    }
    of(device)?.optimizer_step(groups)
}

/// Multiplies tensors in place by the single element of `factor`, as often as they are listed; sets `found`, a float32,
/// to 1 if an element was infinite or NaN before.
pub fn scale(tensors: &[View], factor: View, found: Option<View>) -> Result<()> {
    let all = tensors.iter().copied().chain([factor]).chain(found);
    of(same_device(all)?)?.scale(tensors, factor, found)
}
