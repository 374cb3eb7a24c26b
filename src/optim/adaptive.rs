//! RMSprop, Adagrad and Adadelta: steps divided by a running size of the gradient.

use smallvec::SmallVec;

use super::{Lists, Numbers, Prepare, Rule, Step, count_steps, prepare_numbers};
use crate::backend::cpu::simd::{Isa, Version};
use crate::dtype::Real;
use crate::error::Result;
use crate::multiversion;
use crate::tensor::Tensor;

/// The settings of [`rmsprop`].
#[derive(Clone, Copy, Debug)]
pub struct RmsProp {
    pub lr: f64,
    pub alpha: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub momentum: f64,
    pub centered: bool,
    pub maximize: bool,
}

struct RmsPropConstants<T> {
    prepare: Prepare<T>,
    lr: T,
    alpha: T,
    take: T,
    eps: T,
    momentum: T,
}

impl<T: Real> RmsPropConstants<T> {
    fn new(s: &RmsProp) -> Self {
        RmsPropConstants {
            prepare: Prepare::of(s.maximize, s.weight_decay),
            lr: T::of(s.lr),
            alpha: T::of(s.alpha),
            take: T::of(1.0 - s.alpha),
            eps: T::of(s.eps),
            momentum: T::of(s.momentum),
        }
    }

    /// The gradient divided by its running size; `variance` makes that of the mean square and the gradient.
    #[inline(always)]
    fn direction(&self, g: T, p: T, s: &mut T, variance: impl FnOnce(T, T) -> T) -> T {
        let g = self.prepare.gradient(g, p);
        *s = *s * self.alpha + self.take * g * g;
        g / (variance(*s, g).sqrt() + self.eps)
    }

    #[inline(always)]
    fn centered(&self, a: &mut T, s: T, g: T) -> T {
        *a = *a + self.take * (g - *a);
        s - *a * *a
    }

    #[inline(always)]
    fn with_momentum(&self, b: &mut T, d: T) -> T {
        *b = *b * self.momentum + d;
        *b
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn rmsprop_plain[T: Real](c: &RmsPropConstants<T>, g: &[T], p: &mut [T], s: &mut [T]) {
        for ((p, s), &g) in p.iter_mut().zip(s).zip(g) {
            *p = *p - c.lr * c.direction(g, *p, s, |s, _| s);
        }
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn rmsprop_centered[T: Real](c: &RmsPropConstants<T>, g: &[T], p: &mut [T], s: &mut [T], a: &mut [T]) {
        for (((p, s), a), &g) in p.iter_mut().zip(s).zip(a).zip(g) {
            *p = *p - c.lr * c.direction(g, *p, s, |s, g| c.centered(a, s, g));
        }
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn rmsprop_momentum[T: Real](c: &RmsPropConstants<T>, g: &[T], p: &mut [T], s: &mut [T], b: &mut [T]) {
        for (((p, s), b), &g) in p.iter_mut().zip(s).zip(b).zip(g) {
            *p = *p - c.lr * c.with_momentum(b, c.direction(g, *p, s, |s, _| s));
        }
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn rmsprop_both[T: Real](c: &RmsPropConstants<T>, g: &[T], p: &mut [T], s: &mut [T], a: &mut [T], b: &mut [T]) {
        for ((((p, s), a), b), &g) in p.iter_mut().zip(s).zip(a).zip(b).zip(g) {
            *p = *p - c.lr * c.with_momentum(b, c.direction(g, *p, s, |s, g| c.centered(a, s, g)));
        }
    }
}

impl Rule for RmsProp {
    fn update<T: Real>(&self, _: usize, g: &[T], written: &mut [&mut [T]]) {
        let c = RmsPropConstants::new(self);
        match written {
            [p, s] => rmsprop_plain(&c, g, p, s),
            [p, s, a] if self.centered => rmsprop_centered(&c, g, p, s, a),
            [p, s, b] => rmsprop_momentum(&c, g, p, s, b),
            [p, s, a, b] => rmsprop_both(&c, g, p, s, a, b),
            _ => {}
        }
    }

    fn on_device(&self, _: usize) -> (Step, Numbers) {
        let c = RmsPropConstants::<f32>::new(self);
        let mut numbers = prepare_numbers(self.maximize, self.weight_decay);
        numbers.extend([c.lr, c.eps, c.alpha, c.take, c.momentum]);
        let name = match (self.centered, self.momentum > 0.0) {
            (false, false) => "rmsprop",
            (true, false) => "rmsprop_centered",
            (false, true) => "rmsprop_momentum",
            (true, true) => "rmsprop_both",
        };
        (Step::Step(name), numbers)
    }
}

/// RMSprop. `grad_avgs` is used where centered, `momentum_buffers` where there is momentum.
pub fn rmsprop(
    params: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    grad_avgs: &[Tensor],
    momentum_buffers: &[Tensor],
    steps: &[Tensor],
    s: RmsProp,
) -> Result<()> {
    count_steps(steps, params, |_| ())?;
    let mut written: SmallVec<[&[Tensor]; 5]> = SmallVec::from_slice(&[params, square_avgs]);
    if s.centered {
        written.push(grad_avgs);
    }
    if s.momentum > 0.0 {
        written.push(momentum_buffers);
    }
    Lists { read: Some(grads), written }.apply(&s)
}

/// The settings of [`adagrad`].
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    pub lr: f64,
    pub lr_decay: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub maximize: bool,
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn adagrad_step[T: Real](prepare: Prepare<T>, size: T, eps: T, g: &[T], p: &mut [T], s: &mut [T]) {
        for ((p, s), &g) in p.iter_mut().zip(s).zip(g) {
            let g = prepare.gradient(g, *p);
            *s += g * g;
            *p = *p - size * g / (s.sqrt() + eps);
        }
    }
}

struct AdagradRule {
    s: Adagrad,
    sizes: Vec<f64>,
}

impl Rule for AdagradRule {
    fn update<T: Real>(&self, i: usize, g: &[T], written: &mut [&mut [T]]) {
        if let [p, sum] = written {
            let prepare = Prepare::of(self.s.maximize, self.s.weight_decay);
            adagrad_step(prepare, T::of(self.sizes[i]), T::of(self.s.eps), g, p, sum);
        }
    }

    fn on_device(&self, i: usize) -> (Step, Numbers) {
        let mut numbers = prepare_numbers(self.s.maximize, self.s.weight_decay);
        numbers.extend([self.sizes[i] as f32, self.s.eps as f32]);
        (Step::Step("adagrad"), numbers)
    }
}

pub fn adagrad(
    params: &[Tensor],
    grads: &[Tensor],
    state_sums: &[Tensor],
    steps: &[Tensor],
    s: Adagrad,
) -> Result<()> {
    let sizes = count_steps(steps, params, |t| s.lr / (1.0 + (t - 1.0) * s.lr_decay))?;
    let written = SmallVec::from_slice(&[params, state_sums]);
    Lists { read: Some(grads), written }.apply(&AdagradRule { s, sizes })
}

/// The settings of [`adadelta`].
#[derive(Clone, Copy, Debug)]
pub struct Adadelta {
    pub lr: f64,
    pub rho: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub maximize: bool,
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn adadelta_step[T: Real](settings: &Adadelta, g: &[T], p: &mut [T], s: &mut [T], a: &mut [T]) {
        let prepare = Prepare::of(settings.maximize, settings.weight_decay);
        let (lr, rho, take, eps) =
            (T::of(settings.lr), T::of(settings.rho), T::of(1.0 - settings.rho), T::of(settings.eps));
        for (((p, s), a), &g) in p.iter_mut().zip(s).zip(a).zip(g) {
            let g = prepare.gradient(g, *p);
            *s = *s * rho + take * g * g;
            let d = (*a + eps).sqrt() / (*s + eps).sqrt() * g;
            *a = *a * rho + take * d * d;
            *p = *p - lr * d;
        }
    }
}

impl Rule for Adadelta {
    fn update<T: Real>(&self, _: usize, g: &[T], written: &mut [&mut [T]]) {
        if let [p, s, a] = written {
            adadelta_step(self, g, p, s, a);
        }
    }

    fn on_device(&self, _: usize) -> (Step, Numbers) {
        let mut numbers = prepare_numbers(self.maximize, self.weight_decay);
        numbers.extend([self.lr, self.eps, self.rho, 1.0 - self.rho].map(|v| v as f32));
        (Step::Step("adadelta"), numbers)
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
    count_steps(steps, params, |_| ())?;
    let written = SmallVec::from_slice(&[params, square_avgs, acc_deltas]);
    Lists { read: Some(grads), written }.apply(&s)
}
