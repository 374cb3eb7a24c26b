//! Operands that are constant along rows, as statistics of channels are.
//!
//! Such operands become values per row, which machine code broadcasts from one number, rather than blocks of equal numbers.

use smallvec::SmallVec;

use super::apart::{gcd, rows_of};
use super::types::Grouped;
use crate::backend::View;
use crate::backend::cpu::copy::{BLOCK, GRAIN, StridedCursor};
use crate::backend::cpu::output::Output;
use crate::backend::group::{Group, GroupOperand, Level, SHORTEST_RUN};
use crate::dtype::Element as _;
use crate::error::Result;
use crate::layout::{Dims, Layout, collapse};
use crate::storage::Storage;

/// The least chunks, and the most rows, of a group whose values per row are gathered.
const LEAST: usize = 4;
const MOST: usize = 1 << 13;

/// A collapsed shape and strides.
type Run = (SmallVec<[usize; 6]>, SmallVec<[isize; 6]>);

/// A group in rows along which some operands are constant.
pub(super) struct Rowwise {
    pub(super) n: usize,
    /// By operand, the layout of its values per row.
    layouts: Vec<Option<Layout>>,
}

impl Rowwise {
    pub(super) fn of<T: Grouped>(group: &Group) -> Rowwise {
        let runs: Vec<Option<Run>> = group.operands.iter().map(repeated).collect();
        let length = |run: &Option<Run>| run.as_ref().and_then(|(shape, _)| shape.last().copied());
        let has_total = group.calls.iter().any(|c| c.level == Level::Total);
        let mut n = group.n;
        if n == 0 && !has_total {
            let apart = group.operands.iter().filter_map(|o| Some(rows_of::<T>(o)?.0));
            n = runs.iter().filter_map(length).chain(apart).fold(0, gcd);
            while n > 2 * BLOCK {
                n /= (2..=n).find(|f| n.is_multiple_of(*f)).unwrap_or(n);
            }
            if n < SHORTEST_RUN || !runs.iter().any(Option::is_some) {
                return Rowwise { n: group.n, layouts: vec![None; runs.len()] };
            }
        }
        let by_row = |(run, o): (Option<Run>, &GroupOperand)| {
            let (mut shape, strides) = run?;
            let last = shape.last_mut().filter(|m| n > 0 && m.is_multiple_of(n))?;
            *last /= n;
            Some(Layout {
                shape: shape[..].into(),
                strides: strides[..].into(),
                offset: o.view.layout.offset,
            })
        };
        Rowwise { n, layouts: runs.into_iter().zip(group.operands).map(by_row).collect() }
    }

    pub(super) fn operands<'a>(&'a self, group: &Group<'a>) -> Vec<GroupOperand<'a>> {
        let of = |(o, layout): (&GroupOperand<'a>, &'a Option<Layout>)| match layout {
            Some(layout) => GroupOperand { view: View { layout, ..o.view }, level: Level::Rows },
            None => *o,
        };
        group.operands.iter().zip(&self.layouts).map(of).collect()
    }
}

/// Values per row that are not adjacent in memory, such as statistics of channels that all samples share, gathered once for all blocks.
pub(super) struct Gathered(Vec<Option<(Storage, Layout)>>);

impl Gathered {
    /// None if there are none, or so few blocks that each better gathers its own.
    pub(super) fn of<T: Grouped>(group: &Group) -> Result<Option<Gathered>> {
        if group.n < SHORTEST_RUN || group.numel < LEAST * GRAIN {
            return Ok(None);
        }
        let rows = group.numel / group.n;
        let is_apart = |o: &GroupOperand| {
            let is_written = || group.results.iter().any(|(_, r)| r.storage.overlaps(o.view.storage));
            o.level == Level::Rows && !o.view.layout.is_contiguous() && !is_written()
        };
        if rows > MOST || !group.operands.iter().any(is_apart) {
            return Ok(None);
        }
        let gather = |o: &GroupOperand| {
            let (storage, layout) =
                (Storage::new(rows * size_of::<T>())?, Layout::contiguous(Dims::from([rows])));
            let view = View { storage: &storage, layout: &layout, dtype: T::Stored::DTYPE };
            StridedCursor::new(o.view, 0).read::<T::Stored>(&mut Output::part(view, 0..rows)?);
            Ok((storage, layout))
        };
        let gathered = group.operands.iter().map(|o| is_apart(o).then(|| gather(o)).transpose());
        Ok(Some(Gathered(gathered.collect::<Result<_>>()?)))
    }

    pub(super) fn operands<'a, T: Grouped>(&'a self, group: &Group<'a>) -> Vec<GroupOperand<'a>> {
        let of = |(o, made): (&GroupOperand<'a>, &'a Option<(Storage, Layout)>)| match made {
            Some((storage, layout)) => {
                GroupOperand { view: View { storage, layout, dtype: T::Stored::DTYPE }, ..*o }
            }
            None => *o,
        };
        group.operands.iter().zip(&self.0).map(of).collect()
    }
}

/// The collapsed shape and strides of an operand whose elements are constant along its last dimension.
fn repeated(o: &GroupOperand) -> Option<Run> {
    let (shape, [strides]) = collapse(&o.view.layout.shape, [&o.view.layout.strides]);
    let is_long = shape.len() > 1 && strides.last() == Some(&0) && *shape.last()? >= SHORTEST_RUN;
    (o.level == Level::Elements && is_long).then_some((shape, strides))
}
