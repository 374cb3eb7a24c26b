//! Formulas made of formulas.

use super::Formula;
use super::record::{Prim, Step, Steps};

/// The steps of several formulas one after the other; values are indices of steps.
#[derive(Default)]
pub struct Composer {
    steps: Steps,
}

impl Composer {
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    pub fn arg(&mut self, k: usize) -> usize {
        self.push(Step::Arg(k))
    }

    pub fn param(&mut self, k: usize) -> usize {
        self.push(Step::Param(k))
    }

    /// The first result of a formula of these arguments and parameters, as a number. A boolean becomes 1 or 0, as it would in
    /// memory. None if the formula reads an argument that is not there.
    pub fn call(&mut self, formula: &Formula, args: &[usize], params: &[usize]) -> Option<usize> {
        let mut place = Vec::with_capacity(formula.steps().len());
        for step in formula.steps() {
            place.push(match *step {
                Step::Arg(k) => *args.get(k)?,
                Step::Param(k) => *params.get(k)?,
                Step::Lit(v) => self.push(Step::Lit(v)),
                Step::Do(p, [a, b, c]) => {
                    let operand = |k: usize, of: usize| if k < p.arity() { place[of] } else { 0 };
                    self.push(Step::Do(p, [operand(0, a), operand(1, b), operand(2, c)]))
                }
            });
        }
        let result = *formula.results().first()?;
        if !formula.is_truth(0) {
            return Some(place[result]);
        }
        let (one, zero) = (self.push(Step::Lit(1.0)), self.push(Step::Lit(0.0)));
        Some(self.push(Step::Do(Prim::Select, [place[result], one, zero])))
    }

    /// The formula with these results.
    pub fn formula(&self, results: &[usize]) -> Formula {
        Formula::tidied(&self.steps, results)
    }
}

impl Formula {
    /// The formula with its arguments numbered without gaps, and the numbers that they had.
    pub fn packed(&self) -> (Formula, Vec<usize>) {
        let read: Vec<usize> = (0..self.args()).filter(|k| self.reads(*k)).collect();
        let packed = |step: &Step| match *step {
            Step::Arg(k) => Step::Arg(read.iter().position(|r| *r == k).unwrap_or_default()),
            step => step,
        };
        let steps: Steps = self.steps().iter().map(packed).collect();
        (Formula::tidied(&steps, self.results()), read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::record::{record, record_all};
    use crate::formula::{Arith, Num};

    #[test]
    fn a_formula_of_formulas_is_the_formula_that_has_their_steps() {
        let scaled = record(|a, p| a[0] * p[0]);
        let greater = record_all(2, 0, |a, _| vec![a[1].lt(a[0])]);
        let mut c = Composer::default();
        let (x, y, p) = (c.arg(0), c.arg(1), c.param(0));
        let first = c.call(&scaled, &[x], &[p]).unwrap();
        let second = c.call(&record(|a, _| a[0].exp()), &[first], &[]).unwrap();
        let third = c.call(&greater, &[second, y], &[]).unwrap();
        let wanted = record_all(2, 1, |a, p| {
            let first = a[0] * p[0];
            let second = first.exp();
            vec![first, Arith::select(a[1].lt(second), Arith::one(), Arith::zero())]
        });
        let made = c.formula(&[first, third]);
        assert_eq!(made.steps().len(), wanted.steps().len());
        assert!(!made.is_truth(1) && made.reads(0) && made.reads(1));
    }

    #[test]
    fn arguments_that_are_not_read_are_left_out() {
        let (packed, read) = record_all(4, 0, |a, _| vec![a[3] - a[1]]).packed();
        assert_eq!(read, [1, 3]);
        assert_eq!(packed, record_all(2, 0, |a, _| vec![a[1] - a[0]]));
    }

    #[test]
    fn an_argument_that_is_not_there_is_noticed() {
        let mut c = Composer::default();
        let x = c.arg(0);
        assert!(c.call(&record(|a, _| a[0] + a[1]), &[x], &[]).is_none());
    }
}
