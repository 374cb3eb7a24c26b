//! Sums of products in index notation.

use super::super::reduce::sum_mask;
use super::super::schema::{Args, Out};
use super::super::{arith, cast, matmul, view};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// A label of an equation: a letter, or a dimension of an ellipsis, counted from the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// An operand with a label per dimension.
struct Term {
    t: Tensor,
    labels: Vec<Label>,
}

/// The subscripts of an operand or of the result: letters, with None for an ellipsis.
type Subscripts = Vec<Option<char>>;

/// The subscripts of each operand, and those of the result if they are given.
fn parse(equation: &str) -> Result<(Vec<Subscripts>, Option<Subscripts>)> {
    let (mut operands, mut output) = (vec![Subscripts::new()], None);
    let mut rest = equation;
    while let Some(c) = rest.chars().next() {
        let number = operands.len() - 1;
        let operand = output.is_none().then_some(number);
        let subscripts = output.as_mut().unwrap_or(&mut operands[number]);
        if c == '.' {
            expect_ellipsis(rest, subscripts, operand)?;
            subscripts.push(None);
            rest = &rest["...".len()..];
            continue;
        }
        let at = equation.len() - rest.len();
        rest = &rest[c.len_utf8()..];
        match c {
            ' ' => {}
            c if c.is_ascii_alphabetic() => subscripts.push(Some(c)),
            ',' if operand.is_some() => operands.push(Subscripts::new()),
            '-' if operand.is_some() && rest.starts_with('>') => {
                output = Some(Subscripts::new());
                rest = &rest[1..];
            }
            _ => bail!(
                Runtime,
                "einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]"
            ),
        }
    }
    Ok((operands, output))
}

/// Errors unless `rest` begins with an ellipsis, the first one among the subscripts of operand `number`, or of the result.
fn expect_ellipsis(rest: &str, subscripts: &Subscripts, number: Option<usize>) -> Result<()> {
    let (repeated, whole) = (subscripts.contains(&None), rest.starts_with("..."));
    match number {
        _ if whole && !repeated => Ok(()),
        Some(i) if repeated => {
            bail!(Runtime, "einsum(): found '.' for operand {i} for which an ellipsis was already found")
        }
        Some(i) => bail!(Runtime, "einsum(): found '.' for operand {i} that is not part of any ellipsis"),
        None if repeated => {
            bail!(Runtime, "einsum(): found '.' for output but an ellipsis (...) was already found")
        }
        None => bail!(Runtime, "einsum(): found '.' for output that is not part of any ellipsis (...)"),
    }
}

/// The labels of an operand's dimensions.
fn label(t: &Tensor, side: &[Option<char>], number: usize) -> Result<Vec<Label>> {
    let letters = side.iter().flatten().count();
    let dots = side.contains(&None);
    ensure!(
        if dots { t.rank() >= letters } else { t.rank() == letters },
        Runtime,
        "einsum(): the number of subscripts in the equation ({letters}) {} the number of dimensions ({}) for operand \
         {number}{}",
        if dots { "is more than" } else { "does not match" },
        t.rank(),
        if dots { "" } else { " and no ellipsis was given" }
    );
    let hidden = t.rank() - letters;
    let mut labels = Vec::with_capacity(t.rank());
    for s in side {
        match s {
            Some(c) => labels.push(Label::Letter(*c)),
            None => labels.extend((0..hidden).rev().map(Label::Ellipsis)),
        }
    }
    Ok(labels)
}

impl Term {
    /// Takes diagonals of dimensions with equal labels until every label is unique.
    fn diagonals(mut self, number: usize) -> Result<Term> {
        while let Some((i, j)) = (0..self.labels.len())
            .flat_map(|j| (0..j).map(move |i| (i, j)))
            .find(|&(i, j)| self.labels[i] == self.labels[j])
        {
            let (m, n) = (self.t.shape()[i], self.t.shape()[j]);
            ensure!(
                m == n,
                Runtime,
                "einsum(): subscript {} is repeated for operand {number} but the sizes don't match, {n} != {m}",
                self.letter(j)
            );
            let rest = (0..self.t.rank()).filter(|&d| d != i && d != j);
            self.t = view::cut::diagonal(&self.t, 0, i as i64, j as i64)?;
            self.labels = rest.chain([i]).map(|d| self.labels[d]).collect();
        }
        Ok(self)
    }

    fn letter(&self, d: usize) -> char {
        if let Label::Letter(c) = self.labels[d] { c } else { '.' }
    }

    /// Sums over the dimensions whose labels `keep` rejects; sums of integers are int64, as those of `sum`.
    fn summed(self, keep: impl Fn(Label) -> bool) -> Result<Term> {
        let mask =
            self.labels.iter().enumerate().filter(|(_, l)| !keep(**l)).fold(0u64, |m, (d, _)| m | 1 << d);
        if mask == 0 {
            return Ok(self);
        }
        let t = sum_mask(&self.t, mask, false, None)?;
        Ok(Term { t, labels: self.labels.into_iter().filter(|&l| keep(l)).collect() })
    }

    fn size(&self, l: Label) -> Option<usize> {
        self.labels.iter().position(|m| *m == l).map(|d| self.t.shape()[d])
    }

    /// A view with the dimensions in `order`; labels that the term lacks get size 1.
    fn arranged(&self, order: &[Label]) -> Result<Tensor> {
        let present: Vec<usize> =
            order.iter().filter_map(|l| self.labels.iter().position(|m| m == l)).collect();
        let moved = view::permute_dims(&self.t, &present, "PermuteBackward0")?;
        let shape: Dims = order.iter().map(|l| self.size(*l).unwrap_or(1)).collect();
        view::reshape_to(&moved, &shape)
    }
}

/// The product of two terms, summed over the labels that `keep` rejects, as one batched matrix product.
fn multiply(a: Term, b: Term, keep: impl Fn(Label) -> bool) -> Result<Term> {
    // A label of size 1 in one of the terms is broadcast; summing over it removes it.
    let lone = |t: &Term, o: &Term, l: Label| t.size(l) == Some(1) && o.size(l).is_some_and(|n| n != 1);
    let only = |t: Term, o: &Term| t_summed(t, o, &keep, lone);
    let mut a = only(a, &b)?;
    let mut b = only(b, &a)?;
    if a.t.dtype() != b.t.dtype() && !a.t.dtype().is_float() && !b.t.dtype().is_float() {
        // Sums of one operand alone widened it.
        (a.t, b.t) = (cast::to_dtype(&a.t, DType::I64)?, cast::to_dtype(&b.t, DType::I64)?);
    }
    let (mut batch, mut left, mut right, mut summed) = (vec![], vec![], vec![], vec![]);
    for &l in &a.labels {
        match b.size(l) {
            None => left.push(l),
            Some(_) if keep(l) => batch.push(l),
            Some(_) => summed.push(l),
        }
    }
    right.extend(b.labels.iter().copied().filter(|l| a.size(*l).is_none()));
    let sizes =
        |t: &Term, labels: &[Label]| labels.iter().map(|l| t.size(*l).unwrap_or(1)).collect::<Vec<_>>();
    let count = |t: &Term, labels: &[Label]| sizes(t, labels).iter().product::<usize>();
    let flat = |t: &Term, groups: [&[Label]; 3]| -> Result<Tensor> {
        let order: Vec<Label> = groups.concat();
        view::reshape_to(&t.arranged(&order)?, &groups.map(|g| count(t, g)).into())
    };
    let product = if summed.is_empty() {
        let order: Vec<Label> = [&batch[..], &left, &right].concat();
        arith::mul(&a.arranged(&order)?, &b.arranged(&order)?)?
    } else {
        matmul::bmm(&flat(&a, [&batch, &left, &summed])?, &flat(&b, [&batch, &summed, &right])?)?
    };
    let shape: Dims = [sizes(&a, &batch), sizes(&a, &left), sizes(&b, &right)].concat().into_iter().collect();
    Ok(Term { t: view::reshape_to(&product, &shape)?, labels: [batch, left, right].concat() })
}

fn t_summed(
    t: Term,
    o: &Term,
    keep: &impl Fn(Label) -> bool,
    lone: impl Fn(&Term, &Term, Label) -> bool,
) -> Result<Term> {
    let drop: Vec<Label> =
        t.labels.iter().copied().filter(|&l| (o.size(l).is_none() && !keep(l)) || lone(&t, o, l)).collect();
    t.summed(|l| !drop.contains(&l))
}

/// Computes `equation`, such as `"bij,bjk->bik"`.
pub fn einsum(equation: &str, operands: &[Tensor]) -> Result<Tensor> {
    ensure!(!operands.is_empty(), Runtime, "einsum(): must provide at least one operand");
    let (sides, output) = parse(equation)?;
    ensure!(
        sides.len() <= operands.len(),
        Runtime,
        "einsum(): fewer operands were provided than specified in the equation"
    );
    ensure!(
        sides.len() >= operands.len(),
        Runtime,
        "einsum(): more operands were provided than specified in the equation"
    );
    let mut terms = Vec::with_capacity(operands.len());
    let mut written = Vec::new();
    for (number, (side, t)) in sides.iter().zip(operands).enumerate() {
        let labels = label(t, side, number)?;
        written.extend_from_slice(&labels);
        terms.push(Term { t: t.clone(), labels }.diagonals(number)?);
    }
    check_sizes(&terms)?;
    let result = output_labels(output.as_ref(), &terms, &written)?;
    let mut terms = terms.into_iter();
    let Some(mut product) = terms.next() else {
        bail!(Runtime, "einsum(): must provide at least one operand")
    };
    let mut rest: Vec<Term> = terms.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        product =
            multiply(product, next, |l| result.contains(&l) || rest.iter().any(|t| t.size(l).is_some()))?;
    }
    // The remaining sums use `sum`, which widens integers.
    let left = product
        .labels
        .iter()
        .enumerate()
        .filter(|(_, l)| !result.contains(l))
        .fold(0u64, |m, (d, _)| m | 1 << d);
    if left == 0 {
        return product.arranged(&result);
    }
    let labels = product.labels.iter().copied().filter(|l| result.contains(l)).collect();
    Term { t: sum_mask(&product.t, left, false, None)?, labels }.arranged(&result)
}

fn check_sizes(terms: &[Term]) -> Result<()> {
    let mut seen: Vec<(Label, usize)> = Vec::new();
    for (number, term) in terms.iter().enumerate() {
        for (d, &l) in term.labels.iter().enumerate() {
            let n = term.t.shape()[d];
            match seen.iter_mut().find(|(m, _)| *m == l) {
                None => seen.push((l, n)),
                Some((_, size)) if *size == 1 => *size = n,
                Some((_, size)) if n == 1 || n == *size => {}
                Some((_, size)) => match l {
                    Label::Letter(c) => bail!(
                        Runtime,
                        "einsum(): subscript {c} has size {n} for operand {number} which does not broadcast with \
                         previously seen size {size}"
                    ),
                    Label::Ellipsis(_) => bail!(
                        Runtime,
                        "einsum(): dimension {d} covered by ellipsis in operand {number}has size {n} which does not \
                         broadcast with previously seen ellipsis with size {size} for the respective dimension"
                    ),
                },
            }
        }
    }
    Ok(())
}

/// The labels of the result: as given, or the ellipsis followed by the letters that occur once, in alphabetical order.
fn output_labels(output: Option<&Subscripts>, terms: &[Term], written: &[Label]) -> Result<Vec<Label>> {
    let all: Vec<Label> = terms.iter().flat_map(|t| t.labels.iter().copied()).collect();
    let hidden = all.iter().filter_map(|l| if let Label::Ellipsis(i) = l { Some(i + 1) } else { None }).max();
    let dots = || (0..hidden.unwrap_or(0)).rev().map(Label::Ellipsis);
    let Some(output) = output else {
        let mut letters: Vec<Label> = all
            .iter()
            .copied()
            .filter(|l| matches!(l, Label::Letter(_)) && count(written, *l) == 1)
            .collect();
        letters.sort();
        return Ok(dots().chain(letters).collect());
    };
    let mut labels = Vec::new();
    for s in output {
        match *s {
            None => labels.extend(dots()),
            Some(c) => {
                let l = Label::Letter(c);
                ensure!(
                    !labels.contains(&l),
                    Runtime,
                    "einsum(): output subscript {c} appears more than once in the output"
                );
                ensure!(
                    all.contains(&l),
                    Runtime,
                    "einsum(): output subscript {c} does not appear in the equation for any input operand"
                );
                labels.push(l);
            }
        }
    }
    Ok(labels)
}

fn count(all: &[Label], l: Label) -> usize {
    all.iter().filter(|m| **m == l).count()
}

pub(super) fn einsum_op(a: &Args) -> Result<Out> {
    Ok(einsum(a.str(0)?, a.tensors(1)?)?.into())
}
