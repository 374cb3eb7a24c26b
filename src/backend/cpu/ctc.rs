//! Connectionist temporal classification ("Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with
//! Recurrent Neural Networks").
//!
//! Note [The lattice of CTC] A path visits the labels from left to right, with a blank before, between and after them. In
//! each step it stays, advances one state, or advances two states past a blank between two different labels. The
//! probabilities of all prefixes that end in a state at a time are sums over three states of the time before; those of
//! suffixes are the same for the labels in reversed order. Both are kept as logarithms, and the states of a time are
//! computed together.

use super::math::Math;
use super::parallel::{for_chunks_mut2, for_columns_mut};
use super::simd::IsaDispatch;
use crate::backend::ctc::Sequences;
use crate::multiversion;

/// The states of a sample at one time.
struct Lattice<T> {
    /// The class of each state.
    states: Vec<usize>,
    /// 0 where a state is entered from two states before, else minus infinity.
    skips: Vec<T>,
    emitted: Vec<T>,
    /// The logarithms of the states, after two of minus infinity.
    now: Vec<T>,
    next: Vec<T>,
}

impl<T: Math> Lattice<T> {
    fn new(labels: impl Iterator<Item = usize>, blank: usize) -> Self {
        let mut states = vec![blank];
        labels.for_each(|label| states.extend([label, blank]));
        let width = states.len();
        let enters = |s: usize| s >= 2 && states[s] != blank && states[s] != states[s - 2];
        let skips = (0..width).map(|s| if enters(s) { T::ZERO } else { -T::INFINITY }).collect();
        let none = vec![-T::INFINITY; width + 2];
        Lattice { skips, emitted: vec![T::ZERO; width], now: none.clone(), next: none, states }
    }

    /// The states at the first time: a path starts with the first blank or label.
    fn start(&mut self, log_probs: &[T]) {
        self.read(log_probs);
        let first = self.emitted.len().min(2);
        self.now[2..2 + first].copy_from_slice(&self.emitted[..first]);
    }

    /// The states at the next time.
    fn step(&mut self, log_probs: &[T]) {
        self.read(log_probs);
        advance(&self.now, &self.skips, &self.emitted, &mut self.next[2..]);
        std::mem::swap(&mut self.now, &mut self.next);
    }

    fn read(&mut self, log_probs: &[T]) {
        self.emitted.iter_mut().zip(&self.states).for_each(|(e, &class)| *e = log_probs[class]);
    }

    fn now(&self) -> &[T] {
        &self.now[2..]
    }
}

/// The labels of a sample.
fn labels<'a>(s: &Sequences, labels: &'a [i64], n: usize) -> impl DoubleEndedIterator<Item = usize> + 'a {
    labels[s.starts[n]..][..s.lengths[n]].iter().map(|&label| label as usize)
}

/// The loss of each sample, and the logarithms of the probabilities of its prefixes.
pub fn losses<T: Math>(s: &Sequences, log_probs: &[T], targets: &[i64], losses: &mut [T], alpha: &mut [T]) {
    let (count, width) = (s.count(), s.width());
    let rows = alpha.len() / (count * width).max(1);
    for_chunks_mut2(losses, 1, alpha, rows * width, |n, loss, alpha| {
        let row = |t: usize| &log_probs[(t * count + n) * s.classes..][..s.classes];
        let mut lattice = Lattice::new(labels(s, targets, n), s.blank);
        for (t, alpha) in alpha.chunks_exact_mut(width).take(s.steps[n]).enumerate() {
            if t == 0 {
                lattice.start(row(0));
            } else {
                lattice.step(row(t));
            }
            alpha[..lattice.states.len()].copy_from_slice(lattice.now());
        }
        loss[0] = match (s.steps[n], s.lengths[n]) {
            // Without any step, the empty sequence has probability 1.
            (0, 0) => T::ZERO,
            (0, _) => T::INFINITY,
            // A path ends with the last label or blank.
            _ => {
                let ends = lattice.now.len() - 2;
                let [before, last] = [lattice.now[ends], lattice.now[ends + 1]];
                -log_sum(last, if s.lengths[n] > 0 { before } else { -T::INFINITY }, -T::INFINITY)
            }
        };
    });
}

/// The gradient of the log-probabilities.
pub fn backward<T: Math>(
    s: &Sequences,
    grad: &[T],
    log_probs: &[T],
    targets: &[i64],
    (losses, alpha): (&[T], &[T]),
    zero_infinity: bool,
    out: &mut [T],
) {
    let (count, classes, width) = (s.count(), s.classes, s.width());
    let rows = alpha.len() / (count * width).max(1);
    for_columns_mut(out, [rows, count * classes], classes, |_, columns, out| {
        let n = columns.start / classes.max(1);
        let (loss, g) = (losses[n], grad[n]);
        if loss == T::INFINITY && s.steps[n] > 0 {
            let fill = if zero_infinity { T::ZERO } else { T::NAN };
            return out.iter_mut().for_each(|row| row.fill(fill));
        }
        let row = |t: usize| &log_probs[(t * count + n) * classes..][..classes];
        let mut lattice = Lattice::new(labels(s, targets, n).rev(), s.blank);
        let mut visits = vec![T::ZERO; lattice.states.len()];
        out.iter_mut().skip(s.steps[n]).for_each(|row| row.fill(T::ZERO));
        for t in (0..s.steps[n]).rev() {
            if t + 1 == s.steps[n] {
                lattice.start(row(t));
            } else {
                lattice.step(row(t));
            }
            let prefixes = &alpha[(n * rows + t) * width..][..visits.len()];
            expect(prefixes, lattice.now(), &lattice.emitted, loss, &mut visits);
            scaled_exp(row(t), g, out[t]);
            for (&class, &visit) in lattice.states.iter().zip(&visits) {
                out[t][class] += -(visit * g);
            }
        }
    });
}

/// The logarithm of the sum of three numbers, from and as logarithms.
#[inline(always)]
fn log_sum<T: Math>(a: T, b: T, c: T) -> T {
    let most = if b > a { b } else { a };
    let most = if c > most { c } else { most };
    let most = if most == -T::INFINITY { T::ZERO } else { most };
    most + ((a - most).m_exp() + (b - most).m_exp() + (c - most).m_exp()).m_log()
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The states of the next time; `now` has two of minus infinity before the first.
    fn advance[T: Math](now: &[T], skips: &[T], emitted: &[T], next: &mut [T]) {
        let count = next.len();
        let (two, one, same) = (&now[..count], &now[1..][..count], &now[2..][..count]);
        let (skips, emitted) = (&skips[..count], &emitted[..count]);
        for s in 0..count {
            next[s] = log_sum(same[s], one[s], two[s] + skips[s]) + emitted[s];
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// The probability that a path visits each state, the last state first: the suffixes and what they emit are in this order.
    fn expect[T: Math](prefixes: &[T], suffixes: &[T], emitted: &[T], loss: T, visits: &mut [T]) {
        let count = visits.len();
        visits.iter_mut().zip(prefixes.iter().rev()).for_each(|(v, p)| *v = *p);
        let (suffixes, emitted) = (&suffixes[..count], &emitted[..count]);
        for s in 0..count {
            let both = visits[s] + suffixes[s];
            let visit = (both - emitted[s] + loss).m_exp();
            visits[s] = if both == -T::INFINITY { T::ZERO } else { visit };
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn scaled_exp[T: Math](x: &[T], factor: T, out: &mut [T]) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = x.m_exp() * factor);
    }
}

#[cfg(test)]
mod tests;
