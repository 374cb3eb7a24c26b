//! Predicates over all elements.

use super::copy::StridedCursor;
use crate::backend::View;
use crate::backend::inspect::Question;

/// Elements tested per step.
const BLOCK: usize = 256;

pub fn answer(question: Question, x: View) -> bool {
    match question {
        Question::AnyZero => !all(x, |v| v != 0.0),
        Question::AnyNonzero => !all(x, |v| v == 0.0),
        Question::AllInUnitInterval => all(x, |v| (0.0..=1.0).contains(&v)),
        Question::AllWeights => all(x, |v| v.is_finite() && v >= 0.0),
        Question::EachRowPositive(n) => {
            let (mut at, mut found, mut every) = (0, false, true);
            all(x, |v| {
                found |= v > 0.0;
                at += 1;
                if at == n {
                    every &= found;
                    (at, found) = (0, false);
                }
                every
            })
        }
    }
}

fn all(x: View, mut holds: impl FnMut(f64) -> bool) -> bool {
    let (mut reader, mut left, mut block) = (StridedCursor::new(x, 0), x.layout.numel(), [0f64; BLOCK]);
    while left > 0 {
        let n = left.min(BLOCK);
        reader.read(&mut block[..n]);
        if !block[..n].iter().all(|&v| holds(v)) {
            return false;
        }
        left -= n;
    }
    true
}
