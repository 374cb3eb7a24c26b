//! What a kernel computes.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::formula::Formula;

/// An operand of a step of a recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The result of an earlier step.
    Step(usize),
    /// The elements of an argument, or its value per row.
    Argument(usize),
    /// A number that each call brings.
    Number(usize),
}

/// A step of a recipe.
#[derive(Clone, Debug)]
pub enum Work<'f> {
    /// The first result of a formula, whose parameters are the numbers from the given one on.
    Formula(&'f Formula, usize),
    /// The nearest number of a half type.
    Round(DType),
}

/// What a kernel computes: steps with their operands, and those whose results are stored.
#[derive(Clone, Default, Debug)]
pub struct Recipe<'f> {
    pub steps: Vec<(Work<'f>, SmallVec<[Source; 4]>)>,
    pub results: SmallVec<[usize; 4]>,
    pub args: usize,
    /// The arguments that have a value per row, as bits.
    pub rows: u64,
    pub numbers: usize,
}

impl Recipe<'_> {
    /// The words that identify a recipe.
    pub fn words(&self) -> Vec<u64> {
        let mut words = vec![self.args as u64, self.rows, self.numbers as u64, self.steps.len() as u64];
        for (work, operands) in &self.steps {
            match work {
                Work::Formula(formula, number) => {
                    let id = formula.identity();
                    words.extend([operands.len() as u64, id as u64, (id >> 64) as u64, *number as u64]);
                }
                Work::Round(to) => words.extend([u64::MAX, *to as u64]),
            }
            words.extend(operands.iter().map(|o| match *o {
                Source::Step(k) => k as u64,
                Source::Argument(k) => 1 << 32 | k as u64,
                Source::Number(k) => 2 << 32 | k as u64,
            }));
        }
        words.extend(self.results.iter().map(|r| *r as u64));
        words
    }
}
