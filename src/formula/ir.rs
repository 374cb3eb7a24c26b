//! The intermediate representation of formulas: checked steps, several results, an identity hash, a text form.

use std::collections::HashMap;
use std::fmt;

use smallvec::SmallVec;

use super::record::{Prim, Step, Steps};

/// A formula in single static assignment form, with one or more results.
///
/// Steps are in order of evaluation, without duplicates and without dead steps, so that two formulas that compute the
/// same values in the same way compare equal. See [`Formula::new`].
#[derive(Clone, Debug)]
pub struct Formula {
    steps: Steps,
    results: SmallVec<[usize; 4]>,
    identity: u128,
    cost: u32,
}

impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        self.steps == other.steps && self.results == other.results
    }
}

/// The type of a step's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Number,
    Truth,
}

impl Prim {
    /// Whether the step's value is a boolean.
    pub const fn is_truth(self) -> bool {
        matches!(self, Prim::Lt | Prim::Le | Prim::Eq | Prim::Not | Prim::And | Prim::Or)
    }

    /// Whether operand `k` is a boolean.
    pub const fn takes_truth(self, k: usize) -> bool {
        match self {
            Prim::Not | Prim::And | Prim::Or => true,
            Prim::Select => k == 0,
            _ => false,
        }
    }
}

/// The most that a simple step costs.
const SIMPLE: u32 = 4;

impl Formula {
    /// Builds a formula; `results` are indices of steps. Duplicate steps are merged and dead steps removed.
    ///
    /// # Errors
    /// A description of the fault: an operand that does not precede its step, or a boolean in place of a number or the
    /// reverse.
    pub fn new(steps: &[Step], results: &[usize]) -> Result<Formula, String> {
        check(steps, results)?;
        Ok(Formula::tidied(steps, results))
    }

    /// As [`Formula::new`], for steps that were checked, or recorded and therefore well typed.
    pub(super) fn tidied(all: &[Step], wanted: &[usize]) -> Formula {
        let mut live = vec![false; all.len()];
        wanted.iter().for_each(|&r| live[r] = true);
        for i in (0..all.len()).rev() {
            if let (true, Step::Do(p, operands)) = (live[i], all[i]) {
                operands[..p.arity()].iter().for_each(|&o| live[o] = true);
            }
        }
        let mut number = vec![0; all.len()];
        let mut seen = HashMap::new();
        let mut steps: Steps = Vec::new();
        for i in (0..all.len()).filter(|&i| live[i]) {
            let step = match all[i] {
                Step::Do(p, o) => {
                    Step::Do(p, std::array::from_fn(|k| if k < p.arity() { number[o[k]] } else { 0 }))
                }
                s => s,
            };
            number[i] = *seen.entry(step.words()).or_insert_with(|| {
                steps.push(step);
                steps.len() - 1
            });
        }
        let results: SmallVec<[usize; 4]> = wanted.iter().map(|&r| number[r]).collect();
        let identity = identity(&steps, &results);
        let cost = steps.iter().map(|s| if let Step::Do(p, _) = s { p.cost() } else { 0 }).sum();
        Formula { steps, results, identity, cost }
    }

    /// About the number of vector instructions for a vector of elements.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Whether each step is one or a few instructions.
    pub fn is_simple(&self) -> bool {
        self.steps().iter().all(|s| !matches!(s, Step::Do(p, _) if p.cost() > SIMPLE))
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The indices of the result steps.
    pub fn results(&self) -> &[usize] {
        &self.results
    }

    /// A 128-bit hash of steps and results that identifies the formula in pipeline keys; it is wide enough that no two
    /// formulas of a program collide.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    /// The number of arguments: one more than the last one that is read.
    pub fn args(&self) -> usize {
        self.steps.iter().map(|s| if let Step::Arg(k) = s { k + 1 } else { 0 }).max().unwrap_or(0)
    }

    /// The number of parameters: one more than the last one that is read.
    pub fn params(&self) -> usize {
        self.steps.iter().map(|s| if let Step::Param(k) = s { k + 1 } else { 0 }).max().unwrap_or(0)
    }

    /// Whether the first result is 0 or 1 for all arguments that are, in any type.
    pub fn keeps_truths(&self) -> bool {
        let mut kept: Vec<bool> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let all = |of: &[usize]| of.iter().all(|k| kept.get(*k) == Some(&true));
            kept.push(match step {
                Step::Arg(_) => true,
                Step::Param(_) => false,
                Step::Lit(v) => *v == 0.0 || *v == 1.0,
                Step::Do(p, _) if p.is_truth() => true,
                Step::Do(Prim::Select, [_, yes, no]) => all(&[*yes, *no]),
                Step::Do(Prim::Mul | Prim::Maximum | Prim::Minimum, [a, b, _]) => all(&[*a, *b]),
                Step::Do(..) => false,
            });
        }
        self.results.first().is_some_and(|r| kept[*r])
    }

    /// Whether argument `k` is read.
    pub fn reads(&self, k: usize) -> bool {
        self.steps.contains(&Step::Arg(k))
    }

    /// Whether result `k` is a boolean.
    pub fn is_truth(&self, k: usize) -> bool {
        self.results.get(k).is_some_and(|&r| self.is_truth_at(r))
    }

    /// Whether the value of step `i` is a boolean.
    pub fn is_truth_at(&self, i: usize) -> bool {
        matches!(self.steps[i], Step::Do(p, _) if p.is_truth())
    }

    /// Parses the text form that [`fmt::Display`] writes.
    ///
    /// # Errors
    /// The line that cannot be parsed, or the fault that [`Formula::new`] finds.
    pub fn parse(text: &str) -> Result<Formula, String> {
        let (mut steps, mut results) = (Vec::new(), Vec::new());
        let reference = |word: &str| {
            let number = word.strip_prefix('%').and_then(|n| n.parse::<usize>().ok());
            number.ok_or_else(|| format!("`{word}` is no step"))
        };
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some(rest) = line.strip_prefix("return ") {
                results = rest.split(',').map(|w| reference(w.trim())).collect::<Result<_, _>>()?;
                continue;
            }
            let wrong = || format!("`{line}` is no step");
            let (name, value) = line.split_once(" = ").ok_or_else(wrong)?;
            if reference(name)? != steps.len() {
                return Err(format!("`{line}` is not step {}", steps.len()));
            }
            let mut words = value.split_whitespace();
            let head = words.next().ok_or_else(wrong)?;
            let indexed = |c| head.strip_prefix(c).and_then(|n: &str| n.parse::<usize>().ok());
            let prim = Prim::ALL.iter().find(|p| p.name() == head);
            steps.push(if let Some(p) = prim {
                let operands = words.map(reference).collect::<Result<Vec<_>, _>>()?;
                if operands.len() != p.arity() {
                    return Err(format!("`{line}`: {} takes {} operands", p.name(), p.arity()));
                }
                Step::Do(*p, std::array::from_fn(|k| operands.get(k).copied().unwrap_or(0)))
            } else if let Some(k) = indexed("x") {
                Step::Arg(k)
            } else if let Some(k) = indexed("p") {
                Step::Param(k)
            } else {
                Step::Lit(head.parse().map_err(|_| wrong())?)
            });
        }
        Formula::new(&steps, &results)
    }
}

/// One step per line and the results at the end: `%0 = x0`, `%1 = p0`, `%2 = 2.0`, `%3 = mul %0 %1`, `return %2, %3`.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            write!(f, "%{i} = ")?;
            match *step {
                Step::Arg(k) => writeln!(f, "x{k}")?,
                Step::Param(k) => writeln!(f, "p{k}")?,
                Step::Lit(v) => writeln!(f, "{v:?}")?,
                Step::Do(p, o) => {
                    write!(f, "{}", p.name())?;
                    o[..p.arity()].iter().try_for_each(|o| write!(f, " %{o}"))?;
                    writeln!(f)?;
                }
            }
        }
        let results: Vec<String> = self.results.iter().map(|r| format!("%{r}")).collect();
        writeln!(f, "return {}", results.join(", "))
    }
}

fn check(steps: &[Step], results: &[usize]) -> Result<(), String> {
    let mut kinds: Vec<Kind> = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate() {
        let mut kind = Kind::Number;
        if let Step::Do(p, operands) = *step {
            for (k, &o) in operands[..p.arity()].iter().enumerate() {
                let wanted = if p.takes_truth(k) { Kind::Truth } else { Kind::Number };
                match kinds.get(o) {
                    None => return Err(format!("step {i}: operand %{o} of {} comes later", p.name())),
                    Some(found) if *found != wanted => {
                        return Err(format!(
                            "step {i}: operand %{o} of {} is a {found:?}, not a {wanted:?}",
                            p.name()
                        ));
                    }
                    Some(_) => {}
                }
            }
            if p.is_truth() {
                kind = Kind::Truth;
            }
        }
        kinds.push(kind);
    }
    if results.is_empty() {
        return Err("a formula has a result".into());
    }
    match results.iter().find(|r| **r >= steps.len()) {
        Some(r) => Err(format!("the result %{r} is no step")),
        None => Ok(()),
    }
}

/// FNV-1a over the words of steps and results.
fn identity(steps: &[Step], results: &[usize]) -> u128 {
    const PRIME: u128 = (1 << 88) + 0x13b;
    let words = steps.iter().flat_map(|s| s.words()).chain(results.iter().map(|&r| r as u64));
    words
        .flat_map(u64::to_le_bytes)
        .fold(0x6c62272e07bb0142_62b821756295c58d, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::record::record_all;
    use crate::formula::{Arith, Num};

    const TEXT: &str = "%0 = x0
%1 = p0
%2 = exp %0
%3 = lt %0 %1
%4 = -0.5
%5 = select_where %3 %4 %2
return %5, %2
";

    #[test]
    fn the_text_of_a_formula_reads_back_as_the_formula() {
        let f = record_all(1, 1, |a, p| {
            let e = a[0].exp();
            vec![Arith::select(a[0].lt(p[0]), Arith::lit(-0.5), e), e]
        });
        assert_eq!(f.to_string(), TEXT);
        let parsed = Formula::parse(TEXT).unwrap();
        assert_eq!((parsed.identity(), &parsed), (f.identity(), &f));
        assert_eq!((f.args(), f.params(), f.is_truth(0)), (1, 1, false));
        for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-320, f64::MAX] {
            let f = Formula::new(&[Step::Lit(v)], &[0]).unwrap();
            assert_eq!(Formula::parse(&f.to_string()).unwrap(), f, "{v}");
        }
    }

    #[test]
    fn equal_formulas_have_one_identity_and_others_have_others() {
        let twice = Formula::parse("%0 = x0\n%1 = x0\n%2 = exp %1\n%3 = add %0 %1\nreturn %3").unwrap();
        let once = Formula::parse("%0 = x0\n%1 = add %0 %0\nreturn %1").unwrap();
        assert_eq!(twice.identity(), once.identity());
        let others = [
            "%0 = x0\n%1 = add %0 %0\nreturn %0, %1",
            "%0 = x0\n%1 = mul %0 %0\nreturn %1",
            "%0 = x1\n%1 = add %0 %0\nreturn %1",
            "%0 = p0\n%1 = add %0 %0\nreturn %1",
            "%0 = 0.0\nreturn %0",
            "%0 = -0.0\nreturn %0",
        ];
        let mut all: Vec<u128> = others.iter().map(|t| Formula::parse(t).unwrap().identity()).collect();
        all.push(once.identity());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), others.len() + 1);
    }

    #[test]
    fn zeros_of_both_signs_are_two_literals() {
        let f = record_all(1, 0, |a, _| vec![a[0] + Arith::lit(0.0), a[0] + Arith::lit(-0.0)]);
        assert_eq!(f.steps().iter().filter(|s| matches!(s, Step::Lit(_))).count(), 2);
    }

    #[test]
    fn steps_that_make_no_sense_are_refused() {
        let wrong = [
            ("%0 = exp %0\nreturn %0", "comes later"),
            ("%0 = exp %7\nreturn %0", "comes later"),
            ("%0 = x0\n%1 = lt %0 %0\n%2 = exp %1\nreturn %2", "is a Truth, not a Number"),
            ("%0 = x0\n%1 = logical_not %0\nreturn %1", "is a Number, not a Truth"),
            ("%0 = x0\n%1 = select_where %0 %0 %0\nreturn %1", "is a Number, not a Truth"),
            ("%0 = x0", "has a result"),
            ("%0 = x0\nreturn %3", "%3 is no step"),
            ("%0 = x0\n%1 = add %0\nreturn %1", "takes 2 operands"),
            ("%0 = x0\n%2 = exp %0\nreturn %0", "is not step 1"),
            ("%0 = what %0\nreturn %0", "is no step"),
            ("nonsense", "is no step"),
        ];
        for (text, message) in wrong {
            let error = Formula::parse(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
