//! Images whose tiles are transformed, and their turned parts.

use std::cell::Cell;
use std::ops::Range;

use super::transforms::{GROUP, OUT, OfTiles, POINTS};
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::matmul::with_scratch;
use crate::backend::cpu::transpose::transpose;

thread_local! {
    /// What a transform turns.
    pub(super) static TURNED: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Images in tiles of `side`×`side` elements, `OUT` apart, of which the first begins before the image by the padding.
pub struct Picture<'a> {
    pub data: &'a [f32],
    pub channels: usize,
    pub size: [usize; 2],
    pub padding: [usize; 2],
    /// Tiles of an image along both axes.
    pub grid: [usize; 2],
    pub side: usize,
    /// As [`super::transforms::Transforms::source`].
    pub transform: OfTiles,
}

/// Consecutive tiles of an image, and the part of the image that they cover.
pub struct Run {
    pub image: usize,
    pub tiles: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Picture<'_> {
    /// The runs of a range of tiles.
    pub fn runs(&self, tiles: Range<usize>) -> Vec<Run> {
        let [rows, columns] = self.grid;
        // Rows of many tiles are taken one by one, so that a run has few elements without a tile.
        let unit = if columns * 2 > tiles.len() { columns } else { rows * columns };
        let mut runs = Vec::new();
        let mut from = tiles.start;
        while from < tiles.end {
            let end = tiles.end.min((from / unit + 1) * unit);
            let (first, last) = (from / columns % rows, (end - 1) / columns % rows);
            let (left, right) =
                if first == last { (from % columns, (end - 1) % columns) } else { (0, columns - 1) };
            let covered = |first: usize, last: usize, a: usize| {
                let start = (first * OUT).saturating_sub(self.padding[a]).min(self.size[a]);
                start..(last * OUT + self.side).saturating_sub(self.padding[a]).clamp(start, self.size[a])
            };
            runs.push(Run {
                image: from / (rows * columns),
                tiles: from..end,
                rows: covered(first, last, 0),
                columns: covered(left, right, 1),
            });
            from = end;
        }
        runs
    }

    /// Where the elements of the tiles of a run are in its turned part; 0 is a vector of zeros.
    fn places(&self, run: &Run) -> Vec<[u32; POINTS]> {
        let [rows, columns] = self.grid;
        let at = |tile: usize, i: usize, range: &Range<usize>, a: usize| {
            let position = (tile * OUT + i).wrapping_sub(self.padding[a]);
            range.contains(&position).then(|| position - range.start)
        };
        let place = |tile: usize| {
            let (row, column) = (tile / columns % rows, tile % columns);
            let mut places = [0; POINTS];
            for (k, place) in places.iter_mut().take(self.side * self.side).enumerate() {
                let row = at(row, k / self.side, &run.rows, 0);
                let column = at(column, k % self.side, &run.columns, 1);
                let inside = row.zip(column).map(|(r, c)| r * run.columns.len() + c);
                *place = inside.map_or(0, |i| ((1 + i) * GROUP) as u32);
            }
            places
        };
        run.tiles.clone().map(place).collect()
    }

    /// Transforms the tiles of `runs` for a range of channels, with `plane` elements for each point and `pitch` for each
    /// tile.
    pub fn transform(
        &self,
        runs: &[Run],
        channels: Range<usize>,
        out: &mut [f32],
        plane: usize,
        pitch: usize,
    ) {
        let [height, width] = self.size;
        let first = runs.first().map_or(0, |run| run.tiles.start);
        for run in runs {
            let places = self.places(run);
            let area = run.rows.len() * run.columns.len();
            with_scratch(&TURNED, (1 + area) * GROUP, |turned: &mut [f32]| {
                turned[..GROUP].fill(0.0);
                for c in channels.clone().step_by(GROUP) {
                    let lanes = GROUP.min(channels.end - c);
                    let planes = &self.data[(run.image * self.channels + c) * height * width..];
                    let whole = run.columns.len() == width;
                    let step = if whole { area } else { run.columns.len() };
                    let rows = if whole { run.rows.start..run.rows.start + 1 } else { run.rows.clone() };
                    if step > 0 {
                        for (row, out) in rows.zip(turned[GROUP..].chunks_mut(step * GROUP)) {
                            let source = &planes[row * width + run.columns.start..];
                            transpose(source, height * width, step, lanes, out, GROUP);
                        }
                    }
                    let out = &mut out[(run.tiles.start - first) * pitch + c - channels.start..];
                    (self.transform)(turned, &places, out, plane, pitch);
                }
            });
        }
    }
}
