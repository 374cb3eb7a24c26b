//! Optimizer steps over lists of tensors: one pass over memory and one parallel region for a whole parameter group.
//!
//! Note [A region over many tensors]
//! A model has many small parameters, and a loop or an operation per parameter would cost more than its arithmetic.
//! The elements of all parameters are therefore numbered through, that range is cut into chunks for the threads, and
//! each chunk is handed to the rule in the pieces that tensor boundaries leave of it. Dense tensors of the type that
//! the rule computes in are updated where they lie; other geometries and half types go through blocks of float32 (or
//! float64) that are read and written back. No history is recorded; every tensor written gets a new version.

mod adaptive;
mod gradients;

use std::ops::Range;

use smallvec::SmallVec;

pub use adaptive::{Adadelta, Adagrad, RmsProp, adadelta, adagrad, rmsprop};
pub use gradients::{scale_all, total_norm, unscale};

use crate::backend::cpu::copy::{self, BLOCK, Reader};
use crate::backend::cpu::parallel::parallel_for;
use crate::backend::cpu::simd::{Isa, Version};
use crate::backend::memory;
use crate::backend::optim::{self as kernel, NUMBERS, Part, Rule as Step, Shared};
use crate::dtype::{DType, Element, Real, Scalar};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::{ensure, multiversion};

/// Elements per chunk that threads share.
const GRAIN: usize = 1 << 14;

/// The numbers that a rule takes on a device.
type Numbers = SmallVec<[f32; NUMBERS]>;

/// The arithmetic of an optimizer on corresponding elements of a parameter's tensors.
trait Rule: Sync {
    /// Updates `written` (the parameter, then its state) of parameter `i` by its gradient.
    fn update<T: Real>(&self, i: usize, grad: &[T], written: &mut [&mut [T]]);

    /// The same for a device, by the name and the numbers of the rule in `shaders/optim.wgsl`.
    fn on_device(&self, i: usize) -> (Step, Numbers);

    /// The tensors that the rule shares between all parameters on a device.
    fn shared(&self) -> Shared<'_> {
        Shared { numbers: &[], factor: None, found: None }
    }
}

/// Lists that run in parallel: entry i of each belongs to parameter i and has its shape.
struct Lists<'a> {
    /// The gradients; without them a rule is given empty slices.
    read: Option<&'a [Tensor]>,
    written: SmallVec<[&'a [Tensor]; 5]>,
}

impl Lists<'_> {
    /// Applies a rule to every element and counts the writes.
    fn apply(&self, rule: &impl Rule) -> Result<()> {
        let params = self.written[0];
        self.check()?;
        if params.iter().any(|p| p.device().is_gpu()) {
            self.apply_on_device(rule)?;
            self.written.iter().flat_map(|w| w.iter()).for_each(Tensor::bump_version);
            return Ok(());
        }
        // A gradient that lies in memory that is about to be written is read from a copy.
        let copies = (0..params.len())
            .map(|i| match self.read.map(|r| &r[i]) {
                Some(g) if self.written.iter().any(|w| w[i].storage().overlaps(g.storage())) => {
                    g.copied(g.dtype()).map(Some)
                }
                _ => Ok(None),
            })
            .collect::<Result<Vec<_>>>()?;
        for_each_piece(params, |i, range| {
            let grad = copies[i].as_ref().or(self.read.map(|r| &r[i]));
            let written: SmallVec<[&Tensor; 5]> = self.written.iter().map(|w| &w[i]).collect();
            match params[i].dtype() {
                DType::F64 => piece::<f64>(rule, i, range, grad, &written),
                _ => piece::<f32>(rule, i, range, grad, &written),
            }
        });
        self.written.iter().flat_map(|w| w.iter()).for_each(Tensor::bump_version);
        Ok(())
    }

    /// A launch for many parameters; what is not dense float32 goes there and back in a copy that is.
    fn apply_on_device(&self, rule: &impl Rule) -> Result<()> {
        let params = self.written[0].len();
        let mut gradients = Vec::with_capacity(params);
        let mut dense = Vec::with_capacity(params);
        for i in 0..params {
            // A gradient that lies in memory that is about to be written is read from a copy.
            let aliased = |g: &Tensor| self.written.iter().any(|w| w[i].storage().overlaps(g.storage()));
            gradients.push(match self.read.map(|r| r[i].dense(DType::F32)).transpose()? {
                Some(g) if aliased(&g) => Some(g.copied(DType::F32)?),
                g => g,
            });
            let written = self.written.iter().map(|w| w[i].dense(DType::F32));
            dense.push(written.collect::<Result<SmallVec<[Tensor; 5]>>>()?);
        }
        let parts: Vec<Part> = std::iter::zip(&gradients, &dense)
            .map(|(g, written)| Part {
                gradient: g.as_ref().map(Tensor::raw),
                written: written.iter().map(Tensor::raw).collect(),
            })
            .collect();
        // Neighbours whose numbers agree, which most often are all.
        let mut from = 0;
        while from < params {
            let (step, numbers) = rule.on_device(from);
            let same = |i: &usize| rule.on_device(*i) == (step, numbers.clone());
            let to = (from + 1..params).find(|i| !same(i)).unwrap_or(params);
            let shared = Shared { numbers: &numbers, ..rule.shared() };
            kernel::step(step, shared, &parts[from..to])?;
            from = to;
        }
        for (i, dense) in dense.iter().enumerate() {
            for (w, d) in self.written.iter().zip(dense) {
                if !d.same(&w[i]) {
                    memory::transfer(d.raw(), w[i].raw())?;
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let params = self.written[0];
        for list in self.written[1..].iter().copied().chain(self.read) {
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
        for t in self.written.iter().flat_map(|w| w.iter()) {
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
}

fn expect_length(len: usize, params: usize) -> Result<()> {
    ensure!(len == params, Runtime, "expected one tensor for each of {params} parameters, got {len}");
    Ok(())
}

/// Calls `f(i, range)` with ranges of the elements of tensor i that together are all elements of all tensors; see
/// Note [A region over many tensors].
fn for_each_piece(tensors: &[Tensor], f: impl Fn(usize, Range<usize>) + Sync) {
    let starts = starts(tensors);
    parallel_for(starts[tensors.len()], GRAIN, |r| pieces(&starts, r, &f));
}

/// The number of the first element of each tensor, and the total.
fn starts(tensors: &[Tensor]) -> Vec<usize> {
    let mut total = 0;
    let before = tensors.iter().map(|t| {
        total += t.numel();
        total
    });
    std::iter::once(0).chain(before).collect()
}

fn pieces(starts: &[usize], chunk: Range<usize>, mut f: impl FnMut(usize, Range<usize>)) {
    let mut i = starts.partition_point(|&s| s <= chunk.start) - 1;
    let mut at = chunk.start;
    while at < chunk.end {
        let end = starts[i + 1].min(chunk.end);
        if at < end {
            f(i, at - starts[i]..end - starts[i]);
        }
        at = end;
        i += 1;
    }
}

fn is_direct<T: Element>(t: &Tensor) -> bool {
    t.is_contiguous() && t.dtype() == T::DTYPE
}

/// Applies a rule to the elements `range` of one parameter's tensors.
fn piece<T: Real>(
    rule: &impl Rule,
    i: usize,
    range: Range<usize>,
    grad: Option<&Tensor>,
    written: &[&Tensor],
) {
    if grad.is_none_or(is_direct::<T>) && written.iter().all(|t| is_direct::<T>(t)) {
        let at = |t: &Tensor| t.layout().offset + range.start..t.layout().offset + range.end;
        let grad = grad.map_or(&[][..], |g| &g.storage().slice::<T>()[at(g)]);
        let mut slices: SmallVec<[&mut [T]; 5]> =
            written.iter().map(|t| &mut t.storage().slice_mut::<T>()[at(t)]).collect();
        return rule.update(i, grad, &mut slices);
    }
    let readers =
        || written.iter().map(|t| Reader::new(t.raw(), range.start)).collect::<SmallVec<[Reader; 5]>>();
    let mut gradient = grad.map(|g| (Reader::new(g.raw(), range.start), [T::ZERO; BLOCK]));
    let (mut sources, mut targets) = (readers(), readers());
    let mut blocks = vec![[T::ZERO; BLOCK]; written.len()];
    let mut left = range.len();
    while left > 0 {
        let n = left.min(BLOCK);
        let grad = gradient.as_mut().map_or(&[][..], |(reader, block)| {
            reader.read(&mut block[..n]);
            &block[..n]
        });
        blocks.iter_mut().zip(&mut sources).for_each(|(b, s)| s.read(&mut b[..n]));
        rule.update(
            i,
            grad,
            &mut blocks.iter_mut().map(|b| &mut b[..n]).collect::<SmallVec<[&mut [T]; 5]>>(),
        );
        blocks.iter().zip(&mut targets).for_each(|(b, t)| t.write(&b[..n]));
        left -= n;
    }
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
            copy::fill(step.on_host()?.raw(), Scalar::Float(t));
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

/// What is done to a gradient before any rule uses it.
#[derive(Clone, Copy)]
struct Prepare<T> {
    maximize: bool,
    decay: T,
}

impl<T: Real> Prepare<T> {
    fn of(maximize: bool, weight_decay: f64) -> Prepare<T> {
        Prepare { maximize, decay: T::of(weight_decay) }
    }

    #[inline(always)]
    fn gradient(&self, g: T, p: T) -> T {
        let g = if self.maximize { -g } else { g };
        if self.decay == T::ZERO { g } else { g + self.decay * p }
    }
}

/// The first numbers of every rule on a device.
fn prepare_numbers(maximize: bool, decay: f64) -> Numbers {
    SmallVec::from_slice(&[if maximize { -1.0 } else { 1.0 }, decay as f32])
}

// ---- SGD

/// The settings of [`sgd`].
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    pub lr: f64,
    pub momentum: f64,
    pub dampening: f64,
    pub weight_decay: f64,
    pub nesterov: bool,
    pub maximize: bool,
}

multiversion! { version = Version::worth::<T>();
    fn sgd_plain[T: Real](prepare: Prepare<T>, lr: T, g: &[T], p: &mut [T]) {
        for (p, &g) in p.iter_mut().zip(g) {
            *p = *p - lr * prepare.gradient(g, *p);
        }
    }
}

multiversion! { version = Version::worth::<T>();
    fn sgd_momentum[T: Real](s: &Sgd, fresh: bool, g: &[T], p: &mut [T], b: &mut [T]) {
        let (prepare, lr) = (Prepare::of(s.maximize, s.weight_decay), T::of(s.lr));
        let (momentum, take) = (T::of(s.momentum), T::of(1.0 - s.dampening));
        let nesterov = s.nesterov;
        for ((p, b), &g) in p.iter_mut().zip(b).zip(g) {
            let g = prepare.gradient(g, *p);
            *b = if fresh { g } else { *b * momentum + take * g };
            let g = if nesterov { g + momentum * *b } else { *b };
            *p = *p - lr * g;
        }
    }
}

struct SgdRule {
    s: Sgd,
    /// Per parameter, whether its momentum starts with this step.
    fresh: Vec<bool>,
}

impl Rule for SgdRule {
    fn update<T: Real>(&self, i: usize, g: &[T], written: &mut [&mut [T]]) {
        match written {
            [p, b] => sgd_momentum(&self.s, self.fresh[i], g, p, b),
            [p] => sgd_plain(Prepare::of(self.s.maximize, self.s.weight_decay), T::of(self.s.lr), g, p),
            _ => {}
        }
    }

    fn on_device(&self, i: usize) -> (Step, Numbers) {
        let s = &self.s;
        let mut numbers = prepare_numbers(s.maximize, s.weight_decay);
        numbers.extend([s.lr as f32, 0.0]);
        let Some(&fresh) = self.fresh.get(i) else { return (Step::Step("sgd"), numbers) };
        let flag = |on: bool| on as u8 as f32;
        numbers.extend([s.momentum as f32, (1.0 - s.dampening) as f32, flag(fresh), flag(s.nesterov)]);
        (Step::Step("sgd_momentum"), numbers)
    }
}

/// Stochastic gradient descent. Where `buffers` lacks a momentum, returns the whole list with new ones.
pub fn sgd(
    params: &[Tensor],
    grads: &[Tensor],
    buffers: &[Option<Tensor>],
    s: Sgd,
) -> Result<Option<Vec<Tensor>>> {
    if s.momentum == 0.0 {
        let written = SmallVec::from_slice(&[params]);
        Lists { read: Some(grads), written }.apply(&SgdRule { s, fresh: Vec::new() })?;
        return Ok(None);
    }
    expect_length(buffers.len(), params.len())?;
    let fresh: Vec<bool> = buffers.iter().map(Option::is_none).collect();
    let all = buffers
        .iter()
        .zip(params)
        .map(|(b, p)| b.as_ref().map_or_else(|| p.empty_like(), |b| Ok(b.clone())))
        .collect::<Result<Vec<_>>>()?;
    let made = fresh.contains(&true);
    let written = SmallVec::from_slice(&[params, &all[..]]);
    Lists { read: Some(grads), written }.apply(&SgdRule { s, fresh })?;
    Ok(made.then_some(all))
}

// ---- Adam

/// The settings of [`adam`].
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub amsgrad: bool,
    pub maximize: bool,
    /// Decay acts on the parameter itself, as in AdamW.
    pub decoupled: bool,
}

/// What Adam's formula takes from the number of the step.
#[derive(Clone, Copy)]
struct AdamStep {
    size: f64,
    /// One over the root of the second bias correction.
    unbias: f64,
}

/// Adam's constants in the type of the elements.
struct AdamConstants<T> {
    prepare: Prepare<T>,
    /// What decoupled decay leaves of a parameter.
    keep: T,
    beta2: T,
    take1: T,
    take2: T,
    eps: T,
    size: T,
    unbias: T,
}

impl<T: Real> AdamConstants<T> {
    fn new(s: &Adam, step: AdamStep) -> Self {
        AdamConstants {
            prepare: Prepare::of(s.maximize, if s.decoupled { 0.0 } else { s.weight_decay }),
            keep: T::of(if s.decoupled { 1.0 - s.lr * s.weight_decay } else { 1.0 }),
            beta2: T::of(s.beta2),
            take1: T::of(1.0 - s.beta1),
            take2: T::of(1.0 - s.beta2),
            eps: T::of(s.eps),
            size: T::of(step.size),
            unbias: T::of(step.unbias),
        }
    }

    /// The new parameter; `second` is given the second moment and says which one to divide by.
    #[inline(always)]
    fn element(&self, g: T, p: T, m: &mut T, v: &mut T, second: impl FnOnce(T) -> T) -> T {
        let g = self.prepare.gradient(g, p);
        *m = *m + self.take1 * (g - *m);
        *v = *v * self.beta2 + self.take2 * g * g;
        p * self.keep - self.size * *m / (second(*v).sqrt() * self.unbias + self.eps)
    }
}

multiversion! { version = Version::worth::<T>();
    fn adam_plain[T: Real](c: &AdamConstants<T>, g: &[T], p: &mut [T], m: &mut [T], v: &mut [T]) {
        for (((p, m), v), &g) in p.iter_mut().zip(m).zip(v).zip(g) {
            *p = c.element(g, *p, m, v, |v| v);
        }
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn adam_max[T: Real](c: &AdamConstants<T>, g: &[T], p: &mut [T], m: &mut [T], v: &mut [T], u: &mut [T]) {
        for ((((p, m), v), u), &g) in p.iter_mut().zip(m).zip(v).zip(u).zip(g) {
            *p = c.element(g, *p, m, v, |v| {
                // A NaN stays: it is not below anything.
                *u = if v < *u { *u } else { v };
                *u
            });
        }
    }
}

struct AdamRule {
    s: Adam,
    steps: Vec<AdamStep>,
}

impl Rule for AdamRule {
    fn update<T: Real>(&self, i: usize, g: &[T], written: &mut [&mut [T]]) {
        let c = AdamConstants::new(&self.s, self.steps[i]);
        match written {
            [p, m, v] => adam_plain(&c, g, p, m, v),
            [p, m, v, u] => adam_max(&c, g, p, m, v, u),
            _ => {}
        }
    }

    fn on_device(&self, i: usize) -> (Step, Numbers) {
        let c = AdamConstants::<f32>::new(&self.s, self.steps[i]);
        let mut numbers = prepare_numbers(self.s.maximize, c.prepare.decay as f64);
        numbers.extend([c.keep, c.eps, c.beta2, c.take1, c.take2, c.size, c.unbias]);
        (Step::Step(if self.s.amsgrad { "adam_max" } else { "adam" }), numbers)
    }
}

/// Adam and AdamW. `max_exp_avg_sqs` is used with `amsgrad` only.
pub fn adam(
    params: &[Tensor],
    grads: &[Tensor],
    exp_avgs: &[Tensor],
    exp_avg_sqs: &[Tensor],
    max_exp_avg_sqs: &[Tensor],
    steps: &[Tensor],
    s: Adam,
) -> Result<()> {
    let steps = count_steps(steps, params, |t| AdamStep {
        size: s.lr / (1.0 - s.beta1.powf(t)),
        unbias: 1.0 / (1.0 - s.beta2.powf(t)).sqrt(),
    })?;
    let mut written: SmallVec<[&[Tensor]; 5]> = SmallVec::from_slice(&[params, exp_avgs, exp_avg_sqs]);
    if s.amsgrad {
        written.push(max_exp_avg_sqs);
    }
    Lists { read: Some(grads), written }.apply(&AdamRule { s, steps })
}

#[cfg(test)]
mod tests;
