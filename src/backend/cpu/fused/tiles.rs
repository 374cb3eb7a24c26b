//! The elements of a group in tiles, in the order in which tiles have them: Note [Tiles of columns].

use crate::backend::View;
use crate::backend::group::{Group, GroupOperand, Level};
use crate::layout::{Dims, Layout};

/// By operand and by result, its layout as rows of tiles; None of those with one value per column, whose order is the same.
pub(super) struct Tiles {
    operands: Vec<Option<Layout>>,
    results: Vec<Option<Layout>>,
}

impl Tiles {
    /// None if an operand or a result can't be walked so.
    pub(super) fn of(group: &Group) -> Option<Tiles> {
        let d = group.columns?;
        let shape = Dims::from([d.outer, d.n, d.inner / group.tile, group.tile]);
        let of = |view: &View, level: Level| match level {
            Level::Elements => view.layout.reshape(&shape).map(|layout| Some(layout.transpose(1, 2))),
            _ => Some(None),
        };
        let results = group.results.iter().map(|(call, view)| of(view, group.calls[*call].level));
        Some(Tiles {
            operands: group.operands.iter().map(|o| of(&o.view, o.level)).collect::<Option<_>>()?,
            results: results.collect::<Option<_>>()?,
        })
    }

    pub(super) fn operands<'a>(&'a self, group: &Group<'a>) -> Vec<GroupOperand<'a>> {
        let of = |(o, layout): (&GroupOperand<'a>, &'a Option<Layout>)| GroupOperand {
            view: moved(o.view, layout),
            ..*o
        };
        group.operands.iter().zip(&self.operands).map(of).collect()
    }

    pub(super) fn results<'a>(&'a self, group: &Group<'a>) -> Vec<(usize, View<'a>)> {
        let of =
            |((call, view), layout): (&(usize, View<'a>), &'a Option<Layout>)| (*call, moved(*view, layout));
        group.results.iter().zip(&self.results).map(of).collect()
    }
}

fn moved<'a>(view: View<'a>, layout: &'a Option<Layout>) -> View<'a> {
    View { layout: layout.as_ref().unwrap_or(view.layout), ..view }
}
