//! Note [Cheap values of parts] In `a, b = (x * r).chunk(2, -1)` the products are made for whole rows and used in parts. If they are
//! cheap and nobody needs the whole, each part computes its own instead: `a` from the first half of `x`. The value then
//! stays in a register of the function that uses it, in place of a block that one function writes and the next reads.

use rustc_hash::FxHashMap;

use crate::backend::View;
use crate::backend::group::{Call, Group, GroupOperand, Level, Value, Work};
use crate::layout::{Dims, Layout, collapse};

/// The most that a value may cost to be computed by each part that uses it.
const CHEAP: u32 = 4;

/// A group whose cheap values are computed by the parts that use them.
pub(super) struct Sunk<'a> {
    pub(super) calls: Vec<Call<'a>>,
    pub(super) results: Vec<(usize, View<'a>)>,
    /// The parts of operands: the operand, and the layout of the part.
    made: Vec<(usize, Layout)>,
}

impl<'a> Sunk<'a> {
    /// None if no value is of that kind.
    pub(super) fn of(group: &Group<'a>) -> Option<Sunk<'a>> {
        let sinks = sinking(group);
        if !sinks.contains(&true) {
            return None;
        }
        let mut maker = Maker {
            group,
            sinks: &sinks,
            moved: Vec::new(),
            copies: FxHashMap::default(),
            calls: Vec::new(),
            made: Vec::new(),
        };
        for (c, call) in group.calls.iter().enumerate() {
            if sinks[c] {
                maker.moved.push(usize::MAX);
                continue;
            }
            let args = call.args.iter().map(|a| maker.value(*a, None)).collect::<Option<_>>()?;
            maker.moved.push(maker.calls.len());
            maker.calls.push(Call { args, ..call.clone() });
        }
        let results = group.results.iter().map(|(call, view)| (maker.moved[*call], *view)).collect();
        Some(Sunk { calls: maker.calls, results, made: maker.made })
    }

    pub(super) fn operands<'s>(&'s self, group: &Group<'s>) -> Vec<GroupOperand<'s>> {
        let part = |(k, layout): &'s (usize, Layout)| GroupOperand {
            view: View { layout, ..group.operands[*k].view },
            level: Level::Parts,
        };
        group.operands.iter().copied().chain(self.made.iter().map(part)).collect()
    }
}

/// By call: whether the parts that use it compute it.
fn sinking(group: &Group) -> Vec<bool> {
    let mut sinks = vec![false; group.calls.len()];
    if group.part == 0 {
        return sinks;
    }
    for c in (0..group.calls.len()).rev() {
        let call = &group.calls[c];
        let Work::Map { formula, .. } = call.work else { continue };
        let users = || (c + 1..group.calls.len()).map(|u| (u, &group.calls[u]));
        let in_parts = users().all(|(u, user)| sinks[u] || !user.args.contains(&Value::Call(c)));
        let is_stored = group.results.iter().any(|(result, _)| *result == c);
        sinks[c] = call.level == Level::Elements
            && formula.cost() <= CHEAP
            && in_parts
            && !is_stored
            && call.args.iter().all(|a| match a {
                Value::Operand(k) => part_of(group, *k, 0).is_some(),
                Value::Call(of) => matches!(group.calls[*of].level, Level::Elements | Level::Rows),
                Value::Number(_) => true,
                Value::Part(..) | Value::Produced => false,
            });
    }
    sinks
}

/// The layout of the part from `from` on of each row of an operand, whose elements are adjacent along rows.
fn part_of(group: &Group, operand: usize, from: usize) -> Option<Layout> {
    let o = &group.operands[operand];
    let layout = o.view.layout;
    let rows = group.numel / group.n;
    let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
    let apart = match (&shape[..], &strides[..]) {
        ([all], [1]) if *all == group.numel => group.n as isize,
        ([r, n], [apart, 1]) if *r == rows && *n == group.n => *apart,
        _ => return None,
    };
    (o.level == Level::Elements).then(|| Layout {
        shape: Dims::from([rows, group.part]),
        strides: [apart, 1][..].into(),
        offset: layout.offset + from,
    })
}

struct Maker<'g, 'a> {
    group: &'g Group<'a>,
    sinks: &'g [bool],
    /// By call: its new position.
    moved: Vec<usize>,
    /// By call and the beginning of a part: the call that computes the part.
    copies: FxHashMap<(usize, usize), usize>,
    calls: Vec<Call<'a>>,
    made: Vec<(usize, Layout)>,
}

impl Maker<'_, '_> {
    /// An argument of a call, or of the copy of a call for the part from `part` on.
    fn value(&mut self, v: Value, part: Option<usize>) -> Option<Value> {
        Some(match (v, part) {
            (Value::Operand(k), Some(from)) => Value::Operand(self.operand(k, from)?),
            (Value::Call(c), Some(from)) if self.group.calls[c].level == Level::Elements => {
                self.part(c, from)?
            }
            (Value::Part(c, from), None) => self.part(c, from)?,
            (Value::Call(c), _) => Value::Call(self.moved[c]),
            (Value::Part(..), Some(_)) => return None,
            (v, _) => v,
        })
    }

    /// The part from `from` on of a call per element.
    fn part(&mut self, c: usize, from: usize) -> Option<Value> {
        if !self.sinks[c] {
            return Some(Value::Part(self.moved[c], from));
        }
        if let Some(copy) = self.copies.get(&(c, from)) {
            return Some(Value::Call(*copy));
        }
        let call = &self.group.calls[c];
        let args = call.args.iter().map(|a| self.value(*a, Some(from))).collect::<Option<_>>()?;
        self.calls.push(Call { args, level: Level::Parts, ..call.clone() });
        self.copies.insert((c, from), self.calls.len() - 1);
        Some(Value::Call(self.calls.len() - 1))
    }

    fn operand(&mut self, k: usize, from: usize) -> Option<usize> {
        let layout = part_of(self.group, k, from)?;
        let known = self.made.iter().position(|(of, l)| *of == k && *l == layout);
        Some(
            self.group.operands.len()
                + known.unwrap_or_else(|| {
                    self.made.push((k, layout));
                    self.made.len() - 1
                }),
        )
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::backend::pointwise::Kernel;
    use crate::dtype::DType;
    use crate::formula::record::record;
    use crate::formula::{Formula, Num as _};
    use crate::storage::Storage;

    /// Of `a = f(x)` for 2 rows of 8: a call on `a[:, :4]` and one on `a[:, 4:]`, then one on `last` if it is given; all three
    /// are stored.
    fn halves<R>(f: &Formula, x: Layout, last: Option<Value>, then: impl FnOnce(&Group) -> R) -> R {
        let storage = Storage::from_slice(&[0.0f32; 16]).unwrap();
        let double = record(|a, _| a[0] + a[0]);
        let call = |formula, level, arg| Call {
            name: "test",
            work: Work::Map { kernel: Kernel::NONE, formula, params: &[] },
            level,
            rounded: None,
            args: smallvec![arg],
        };
        let mut calls = vec![
            call(f, Level::Elements, Value::Operand(0)),
            call(&double, Level::Parts, Value::Part(0, 0)),
            call(&double, Level::Parts, Value::Part(0, 4)),
        ];
        calls.extend(last.map(|arg| call(&double, Level::Elements, arg)));
        let view = |layout| View { storage: &storage, layout, dtype: DType::F32 };
        let stored = Layout::contiguous(Dims::from([2, 4]));
        let whole = rows();
        let mut results = vec![(1, view(&stored)), (2, view(&stored))];
        results.extend(last.map(|_| (3, view(&whole))));
        then(&Group {
            compute: DType::F32,
            numel: 16,
            n: 8,
            part: 4,
            columns: None,
            tile: 0,
            producer: None,
            calls: &calls,
            operands: &[GroupOperand { view: view(&x), level: Level::Elements }],
            results: &results,
        })
    }

    fn rows() -> Layout {
        Layout::contiguous(Dims::from([2, 8]))
    }

    #[test]
    fn cheap_values_are_computed_by_each_part_from_its_part_of_the_operand() {
        halves(&record(|a, _| a[0] * a[0]), rows(), None, |group| {
            let sunk = Sunk::of(group).unwrap();
            let args: Vec<Value> = sunk.calls.iter().map(|c| c.args[0]).collect();
            assert_eq!(args, [Value::Operand(1), Value::Call(0), Value::Operand(2), Value::Call(2)]);
            assert!(sunk.calls.iter().all(|c| c.level == Level::Parts));
            assert_eq!(sunk.results.iter().map(|(call, _)| *call).collect::<Vec<_>>(), [1, 3]);
            let operands = sunk.operands(group);
            let layouts: Vec<_> =
                operands[1..].iter().map(|o| (o.view.layout.offset, &o.view.layout.strides[..])).collect();
            assert_eq!(layouts, [(0, &[8, 1][..]), (4, &[8, 1][..])]);
        });
    }

    #[test]
    fn values_that_are_dear_or_used_as_a_whole_or_not_adjacent_stay() {
        let square = record(|a, _| a[0] * a[0]);
        let turned = Layout { strides: [1, 2][..].into(), ..rows() };
        assert!(halves(&record(|a, _| a[0].exp()), rows(), None, |group| Sunk::of(group).is_none()));
        assert!(halves(&square, rows(), Some(Value::Call(0)), |group| Sunk::of(group).is_none()));
        assert!(halves(&square, turned, None, |group| Sunk::of(group).is_none()));
    }
}
