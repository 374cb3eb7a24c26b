//! The optimizers: settings, the formula of a step, and the numbers that change from step to step. See Note [One
//! formula per optimizer].

use smallvec::SmallVec;

use super::{Lists, count_steps, expect_length};
use crate::backend::optim::{NUMBERS, Numbers, Rule, WRITTEN};
use crate::error::Result;
use crate::formula::Num;
use crate::tensor::Tensor;

/// The optimizers: the lists of tensors that a step takes (`gaps` may lack some), what it makes, and its settings. From here
/// come the settings' types and the functions of `rgrad._C._optim`.
macro_rules! optimizers {
    ($with:ident) => { $with! {
        sgd(params: tensors, grads: tensors, momentum_buffers: gaps) -> Option<Vec<Tensor>>, Sgd {
            lr: f64,
            momentum: f64,
            dampening: f64,
            weight_decay: f64,
            nesterov: bool,
            maximize: bool,
        }
        adam(params: tensors, grads: tensors, exp_avgs: tensors, exp_avg_sqs: tensors, max_exp_avg_sqs: tensors,
             steps: tensors) -> (), Adam {
            lr: f64,
            beta1: f64,
            beta2: f64,
            eps: f64,
            weight_decay: f64,
            amsgrad: bool,
            maximize: bool,
            /// Decay acts on the parameter itself, as in AdamW.
            decoupled: bool,
        }
        rmsprop(params: tensors, grads: tensors, square_avgs: tensors, grad_avgs: tensors, momentum_buffers: tensors,
                steps: tensors) -> (), RmsProp {
            lr: f64,
            alpha: f64,
            eps: f64,
            weight_decay: f64,
            momentum: f64,
            centered: bool,
            maximize: bool,
        }
        adagrad(params: tensors, grads: tensors, state_sums: tensors, steps: tensors) -> (), Adagrad {
            lr: f64,
            lr_decay: f64,
            eps: f64,
            weight_decay: f64,
            maximize: bool,
        }
        adadelta(params: tensors, grads: tensors, square_avgs: tensors, acc_deltas: tensors, steps: tensors) -> (), Adadelta {
            lr: f64,
            rho: f64,
            eps: f64,
            weight_decay: f64,
            maximize: bool,
        }
    } };
}
#[cfg_attr(not(feature = "python"), allow(unused_imports))]
pub(crate) use optimizers;

macro_rules! settings {
    ($($name:ident($($list:ident: $kind:ident),+) -> $made:ty, $settings:ident { $($(#[$note:meta])* $field:ident: $type:ty,)+ })*) => { $(
        #[doc = concat!("The settings of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $settings {
            $($(#[$note])* pub $field: $type,)+
        }
    )* };
}
optimizers!(settings);

/// The given numbers, padded with zeros.
fn numbers<const N: usize>(of: [f64; N]) -> Numbers {
    let mut all = [0.0; NUMBERS];
    all[..N].copy_from_slice(&of);
    all
}

/// The preprocessing of gradients, common to all rules.
#[derive(Clone, Copy, PartialEq)]
struct Prepare {
    maximize: bool,
    /// Whether weight decay is added to the gradient.
    decays: bool,
}

impl Prepare {
    fn of(maximize: bool, weight_decay: f64) -> Prepare {
        Prepare { maximize, decays: weight_decay != 0.0 }
    }

    #[inline(always)]
    fn gradient<E: Num>(self, decay: E, g: E, p: E) -> E {
        let g = if self.maximize { -g } else { g };
        if self.decays { g + decay * p } else { g }
    }
}

// ---- SGD

#[derive(Clone, Copy, PartialEq)]
struct SgdPlain(Prepare);

impl Rule for SgdPlain {
    const NAME: &'static str = "sgd";
    const WRITTEN: usize = 1;
    const WIDE: bool = true;
    #[inline(always)]
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN] {
        let [decay, lr, ..] = *c;
        let [p, rest @ ..] = w;
        let [a, b, d, e] = rest;
        [p - lr * self.0.gradient(decay, g, p), a, b, d, e]
    }
}

#[derive(Clone, Copy, PartialEq)]
struct SgdMomentum {
    prepare: Prepare,
    /// Whether this step initializes the momentum.
    fresh: bool,
    nesterov: bool,
}

impl Rule for SgdMomentum {
    const NAME: &'static str = "sgd_momentum";
    const WRITTEN: usize = 2;
    const WIDE: bool = true;
    #[inline(always)]
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN] {
        let [decay, lr, momentum, take, ..] = *c;
        let [p, b, x, y, z] = w;
        let g = self.prepare.gradient(decay, g, p);
        let b = if self.fresh { g } else { b * momentum + take * g };
        let ahead = if self.nesterov { g + momentum * b } else { b };
        [p - lr * ahead, b, x, y, z]
    }
}

/// Stochastic gradient descent. If momentum buffers are missing in `buffers`, returns the list completed with new
/// ones.
pub fn sgd(
    params: &[Tensor],
    grads: &[Tensor],
    buffers: &[Option<Tensor>],
    s: Sgd,
) -> Result<Option<Vec<Tensor>>> {
    let prepare = Prepare::of(s.maximize, s.weight_decay);
    if s.momentum == 0.0 {
        let written = SmallVec::from_slice(&[params]);
        let numbers = numbers([s.weight_decay, s.lr]);
        Lists { grads, written }.apply([(SgdPlain(prepare), numbers, params.len())])?;
        return Ok(None);
    }
    expect_length(buffers.len(), params.len())?;
    let all = buffers
        .iter()
        .zip(params)
        .map(|(b, p)| b.as_ref().map_or_else(|| p.empty_like(), |b| Ok(b.clone())))
        .collect::<Result<Vec<_>>>()?;
    let numbers = numbers([s.weight_decay, s.lr, s.momentum, 1.0 - s.dampening]);
    let runs = buffers.chunk_by(|a, b| a.is_none() == b.is_none()).map(|run| {
        (SgdMomentum { prepare, fresh: run[0].is_none(), nesterov: s.nesterov }, numbers, run.len())
    });
    let written = SmallVec::from_slice(&[params, &all[..]]);
    Lists { grads, written }.apply(runs)?;
    Ok(buffers.iter().any(Option::is_none).then_some(all))
}

// ---- Adam

/// With `MAX` (amsgrad), the maximum of the second moment is kept and used as the divisor.
#[derive(Clone, Copy, PartialEq)]
struct AdamRule<const MAX: bool>(Prepare);

impl<const MAX: bool> Rule for AdamRule<MAX> {
    const NAME: &'static str = if MAX { "adam_max" } else { "adam" };
    const WRITTEN: usize = if MAX { 4 } else { 3 };
    const WIDE: bool = !MAX;
    #[inline(always)]
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN] {
        let [decay, keep, beta2, take1, take2, eps, size, unbias, ..] = *c;
        let [p, m, v, u, rest] = w;
        let g = self.0.gradient(decay, g, p);
        let m = m + take1 * (g - m);
        let v = v * beta2 + take2 * g * g;
        // Comparisons with NaN are false, so NaN is kept.
        let u = if MAX { E::select(v.lt(u), u, v) } else { u };
        let second = if MAX { u } else { v };
        [p * keep - size * m / (second.sqrt() * unbias + eps), m, v, u, rest]
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
    let (decay, keep) = if s.decoupled { (0.0, 1.0 - s.lr * s.weight_decay) } else { (s.weight_decay, 1.0) };
    let counts = count_steps(steps, params)?;
    let numbers = |t: f64| {
        // One over the square root of the second bias correction.
        let unbias = 1.0 / (1.0 - s.beta2.powf(t)).sqrt();
        let size = s.lr / (1.0 - s.beta1.powf(t));
        numbers([decay, keep, s.beta2, 1.0 - s.beta1, 1.0 - s.beta2, s.eps, size, unbias])
    };
    let prepare = Prepare::of(s.maximize, decay);
    let mut written: SmallVec<[&[Tensor]; WRITTEN]> = SmallVec::from_slice(&[params, exp_avgs, exp_avg_sqs]);
    if s.amsgrad {
        written.push(max_exp_avg_sqs);
        let runs = counts.iter().map(|&(t, n)| (AdamRule::<true>(prepare), numbers(t), n));
        return Lists { grads, written }.apply(runs);
    }
    let runs = counts.iter().map(|&(t, n)| (AdamRule::<false>(prepare), numbers(t), n));
    Lists { grads, written }.apply(runs)
}

// ---- RMSprop

#[derive(Clone, Copy, PartialEq)]
struct RmsPropRule<const CENTERED: bool, const MOMENTUM: bool>(Prepare);

impl<const CENTERED: bool, const MOMENTUM: bool> Rule for RmsPropRule<CENTERED, MOMENTUM> {
    const NAME: &'static str = "rmsprop";
    const WRITTEN: usize = 2 + CENTERED as usize + MOMENTUM as usize;
    #[inline(always)]
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN] {
        let [decay, lr, alpha, take, eps, momentum, ..] = *c;
        let [p, s, first, second, rest] = w;
        // If both are present, the average precedes the momentum.
        let (average, b) = if CENTERED { (first, second) } else { (second, first) };
        let g = self.0.gradient(decay, g, p);
        let s = s * alpha + take * g * g;
        let average = if CENTERED { average + take * (g - average) } else { average };
        let variance = if CENTERED { s - average * average } else { s };
        let d = g / (variance.sqrt() + eps);
        let b = if MOMENTUM { b * momentum + d } else { b };
        let p = p - lr * if MOMENTUM { b } else { d };
        let (first, second) = if CENTERED { (average, b) } else { (b, average) };
        [p, s, first, second, rest]
    }
}

/// RMSprop. `grad_avgs` is used if centered, `momentum_buffers` with momentum.
pub fn rmsprop(
    params: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    grad_avgs: &[Tensor],
    momentum_buffers: &[Tensor],
    steps: &[Tensor],
    s: RmsProp,
) -> Result<()> {
    count_steps(steps, params)?;
    let mut written: SmallVec<[&[Tensor]; WRITTEN]> = SmallVec::from_slice(&[params, square_avgs]);
    if s.centered {
        written.push(grad_avgs);
    }
    if s.momentum > 0.0 {
        written.push(momentum_buffers);
    }
    let lists = Lists { grads, written };
    let prepare = Prepare::of(s.maximize, s.weight_decay);
    let numbers = numbers([s.weight_decay, s.lr, s.alpha, 1.0 - s.alpha, s.eps, s.momentum]);
    let n = params.len();
    match (s.centered, s.momentum > 0.0) {
        (false, false) => lists.apply([(RmsPropRule::<false, false>(prepare), numbers, n)]),
        (false, true) => lists.apply([(RmsPropRule::<false, true>(prepare), numbers, n)]),
        (true, false) => lists.apply([(RmsPropRule::<true, false>(prepare), numbers, n)]),
        (true, true) => lists.apply([(RmsPropRule::<true, true>(prepare), numbers, n)]),
    }
}

// ---- Adagrad

#[derive(Clone, Copy, PartialEq)]
struct AdagradRule(Prepare);

impl Rule for AdagradRule {
    const NAME: &'static str = "adagrad";
    const WRITTEN: usize = 2;
    #[inline(always)]
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN] {
        let [decay, size, eps, ..] = *c;
        let [p, s, x, y, z] = w;
        let g = self.0.gradient(decay, g, p);
        let s = s + g * g;
        [p - size * g / (s.sqrt() + eps), s, x, y, z]
    }
}

pub fn adagrad(
    params: &[Tensor],
    grads: &[Tensor],
    state_sums: &[Tensor],
    steps: &[Tensor],
    s: Adagrad,
) -> Result<()> {
    let counts = count_steps(steps, params)?;
    let numbers = |t: f64| numbers([s.weight_decay, s.lr / (1.0 + (t - 1.0) * s.lr_decay), s.eps]);
    let rule = AdagradRule(Prepare::of(s.maximize, s.weight_decay));
    let written = SmallVec::from_slice(&[params, state_sums]);
    Lists { grads, written }.apply(counts.iter().map(|&(t, n)| (rule, numbers(t), n)))
}

// ---- Adadelta

#[derive(Clone, Copy, PartialEq)]
struct AdadeltaRule(Prepare);

impl Rule for AdadeltaRule {
    const NAME: &'static str = "adadelta";
    const WRITTEN: usize = 3;
    #[inline(always)]
    fn step<E: Num>(&self, c: &[E; NUMBERS], g: E, w: [E; WRITTEN]) -> [E; WRITTEN] {
        let [decay, lr, rho, take, eps, ..] = *c;
        let [p, s, a, y, z] = w;
        let g = self.0.gradient(decay, g, p);
        let s = s * rho + take * g * g;
        let d = (a + eps).sqrt() / (s + eps).sqrt() * g;
        let a = a * rho + take * d * d;
        [p - lr * d, s, a, y, z]
    }
}

pub fn adadelta(
    params: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    acc_deltas: &[Tensor],
    steps: &[Tensor],
    s: Adadelta,
) -> Result<()> {
    count_steps(steps, params)?;
    let rule = AdadeltaRule(Prepare::of(s.maximize, s.weight_decay));
    let numbers = numbers([s.weight_decay, s.lr, s.rho, 1.0 - s.rho, s.eps]);
    let written = SmallVec::from_slice(&[params, square_avgs, acc_deltas]);
    Lists { grads, written }.apply([(rule, numbers, params.len())])
}
