//! How the pointwise driver reads an operand: in place, by runs or bands, or through a block.

use std::ops::Range;

use bytemuck::Zeroable;

use super::Lane;
use crate::backend::cpu::copy::{BLOCK, StridedCursor, View, fill_run};
use crate::backend::cpu::transpose::{Bands, SIDE, banded_columns};
use crate::backend::pointwise::Operand;
use crate::dtype::{Element, Scalar};
use crate::formula::ARGS;
use crate::layout::{Layout, collapse};

/// Length of a block that is filled once per chunk. It has to stay in the L1 cache beside the other operands and the result.
const REPEATED: usize = BLOCK;
/// Longer broadcast rows are used in place.
const LONGEST_PERIOD: usize = 2 * BLOCK;

/// The period after which a layout repeats its elements, if all its dimensions but the last are broadcast.
fn period(layout: &Layout) -> Option<usize> {
    let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
    match (&shape[..], &strides[..]) {
        ([_], [0]) => Some(1),
        ([_, n], [0, _]) => Some(*n),
        _ => None,
    }
}

/// Whether a period is a dense row of the compute type that is worth a call of a loop for each.
fn is_long_row<T: Lane>(v: &View, period: usize) -> bool {
    let dense = |layout: &Layout| matches!(collapse(&layout.shape, [&layout.strides]).1[0][..], [0, 1]);
    period >= LONG_ROWS && v.dtype == T::Stored::DTYPE && dense(v.layout)
}

/// Rows of which all elements are one, that of a column.
#[derive(Clone, Copy)]
pub struct Broadcast {
    /// Elements of a row.
    row: usize,
    /// From the element of a row to that of the next, where this is the same for all.
    stride: Option<isize>,
}

impl Broadcast {
    /// Those of a layout, if they are long.
    fn of(layout: &Layout) -> Option<Broadcast> {
        let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
        let stride = if let [stride, 0] = strides[..] { Some(stride) } else { None };
        let row = shape.last().copied().filter(|&n| n >= LONG_ROWS && strides.last() == Some(&0))?;
        Some(Broadcast { row, stride })
    }
}

/// Rows that are repeated, one after the other: those of a batch that is broadcast along a dimension between.
#[derive(Clone, Copy)]
pub struct Batch {
    row: usize,
    times: usize,
}

impl Batch {
    /// That of a layout, if it has several rows that are repeated often. Each is worth a block and a call of the loop.
    fn of(layout: &Layout) -> Option<Batch> {
        let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
        let ([_, .., times, row], [_, .., 0, _]) = (&shape[..], &strides[..]) else { return None };
        let (row, times) = (*row, *times);
        (times >= 4 && times * row >= BLOCK && row <= LONGEST_PERIOD).then_some(Batch { row, times })
    }
}

/// Minimum length of a broadcast row: filling a block for each shorter row would take longer than gathering.
const LONG_ROWS: usize = 256;

/// How the driver accesses an operand. All but numbers, periods, columns and blocks have the compute type; all but blocks are
/// not overwritten before they are read.
pub enum OperandAccess<'a> {
    /// Contiguous: used in place.
    Direct(View<'a>),
    /// Long contiguous runs, such as a slice of columns: used in place run by run.
    Runs(View<'a>),
    /// Transposed, with rows of the given length: see Note [Bands].
    Bands(View<'a>, usize),
    /// Periodic, as a broadcast row is: one block holds repetitions.
    Period(View<'a>, usize),
    /// A column broadcast along rows: one block holds the element of a row.
    Column(View<'a>, Broadcast),
    /// One block holds repetitions of a row of a batch.
    Batch(View<'a>, Batch),
    /// One block holds repetitions.
    Number(Scalar),
    /// Gathered block by block.
    Blocks(View<'a>),
    /// Passed block by block by the caller of the formula.
    Given,
    Unread,
}

impl<'a> OperandAccess<'a> {
    pub fn of<T: Lane>(operand: Option<&Operand<'a>>, out: View) -> Self {
        match operand {
            None | Some(Operand::Unread) => OperandAccess::Unread,
            Some(Operand::Number(s)) => OperandAccess::Number(*s),
            Some(Operand::View(v)) => OperandAccess::of_view::<T>(*v, out),
        }
    }

    fn of_view<T: Lane>(v: View<'a>, out: View) -> Self {
        if v.overlaps(&out) || !v.is_aligned() {
            return OperandAccess::Blocks(v);
        }
        if v.dtype == T::Stored::DTYPE && v.layout.is_contiguous() {
            return OperandAccess::Direct(v);
        }
        if let Some(period) = period(v.layout).filter(|&p| p <= LONGEST_PERIOD) {
            return OperandAccess::Period(v, period);
        }
        if let Some(rows) = Broadcast::of(v.layout) {
            return OperandAccess::Column(v, rows);
        }
        if v.dtype != T::Stored::DTYPE {
            return OperandAccess::Blocks(v);
        }
        if StridedCursor::has_long_runs(&v) {
            return OperandAccess::Runs(v);
        }
        match banded_columns(v.layout) {
            Some(cols) => OperandAccess::Bands(v, cols),
            None => OperandAccess::Blocks(v),
        }
    }

    /// As this, or for the rows of a batch, which would be gathered as often as they are repeated, from a block of repetitions.
    pub(super) fn repeated(self, out: View) -> Self {
        match self {
            OperandAccess::Blocks(v) if v.is_aligned() && !v.overlaps(&out) => {
                Batch::of(v.layout).map_or(self, |rows| OperandAccess::Batch(v, rows))
            }
            access => access,
        }
    }

    /// Elements per chunk: whole bands if there are any.
    pub fn grain(all: &[Self], usual: usize) -> usize {
        let widest = all.iter().map(|s| if let OperandAccess::Bands(_, cols) = s { *cols } else { 0 }).max();
        match widest {
            Some(cols) if cols > 0 => (2 * usual).div_ceil(SIDE * cols) * SIDE * cols,
            _ => usual,
        }
    }
}

#[inline(always)]
pub(super) fn dense<'a, T: Lane>(v: &View<'a>, at: usize, n: usize) -> &'a [T] {
    bytemuck::cast_slice(&v.storage.slice::<T::Stored>().get(v.layout.offset + at..).unwrap_or_default()[..n])
}

/// For each operand, which one to pass in its place: an unread operand must have the length of the others too.
pub(super) fn stand_ins(sources: &[OperandAccess; ARGS], count: usize) -> [usize; ARGS] {
    let is_read = |k: usize| !matches!(sources[k], OperandAccess::Unread);
    let some = (0..count).find(|&k| is_read(k)).unwrap_or(0);
    std::array::from_fn(|k| if is_read(k) { k } else { some })
}

/// The state of reading an operand over a range of positions. Long states are boxed: each range makes and moves one per operand.
pub enum OperandCursor<'a, T: Lane> {
    Unread,
    /// All elements of a contiguous operand.
    Direct(&'a [T]),
    Runs(Box<StridedCursor<'a>>),
    Bands(Box<Bands<'a, T::Stored>>),
    /// A number, and a block of it that is as long as was asked for.
    Number(T, Vec<T>),
    /// A number for a loop that repeats it.
    One(T),
    /// A dense row of the compute type, used in place: position `at` is at `at` modulo its length.
    Row(Row<'a, T>),
    /// Whole periods: position `at` is at `at` modulo the length.
    Period(Vec<T>),
    Column(Box<Column<'a, T>>),
    Batch(Box<Repeated<'a, T>>),
    Blocks(Box<StridedCursor<'a>>, Vec<T>),
    /// The block passed last.
    Given(Vec<T>),
}

/// A row that is repeated.
pub struct Row<'a, T> {
    elements: &'a [T],
    /// Where the repetition in use begins. A division for each would take as long as some vectors of it.
    start: usize,
}

impl<T> Row<'_, T> {
    /// Elements from a position to the end of its repetition.
    #[inline]
    fn left(&self, at: usize) -> usize {
        self.elements.len() - (at - self.start_at(at))
    }

    #[inline]
    fn reach(&mut self, at: usize) {
        self.start = self.start_at(at);
    }

    /// Where the repetition of a position begins, mostly the present or the next one.
    #[inline]
    fn start_at(&self, at: usize) -> usize {
        let n = self.elements.len();
        match at.wrapping_sub(self.start) {
            beyond if beyond < n => self.start,
            beyond if beyond == n => at,
            _ => at - at % n,
        }
    }
}

/// A block that holds one element throughout, that of a row.
pub struct Column<'a, T: Lane> {
    view: View<'a>,
    rows: Broadcast,
    reader: StridedCursor<'a>,
    /// The positions of the row whose element is in the block.
    filled: Range<usize>,
    block: Vec<T>,
    /// The block has one element, and a loop repeats it.
    is_one: bool,
}

impl<'a, T: Lane> Column<'a, T> {
    fn new(view: View<'a>, rows: Broadcast, most: usize) -> Self {
        let block = vec![T::zeroed(); most.min(rows.row).min(REPEATED)];
        Column { view, rows, reader: StridedCursor::new(view, 0), filled: 0..0, block, is_one: false }
    }

    /// Elements from a position to the end of its row. Positions mostly follow each other, and a division takes as long as half a row.
    #[inline]
    fn left(&self, at: usize) -> usize {
        let row = self.rows.row;
        let beyond = at.wrapping_sub(self.filled.start);
        if beyond < row {
            row - beyond
        } else if at == self.filled.end {
            row
        } else {
            row - at % row
        }
    }

    #[inline]
    fn reach(&mut self, at: usize) {
        if !self.filled.contains(&at) {
            self.fill(at);
        }
    }

    fn fill(&mut self, at: usize) {
        let row = at / self.rows.row;
        let mut value = [T::Stored::zeroed()];
        match self.rows.stride {
            Some(stride) if self.view.dtype == T::Stored::DTYPE => {
                let place = self.view.layout.offset as isize + row as isize * stride;
                value[0] = self.view.storage.slice::<T::Stored>()[place as usize];
            }
            _ => {
                self.reader.seek(at);
                self.reader.read(&mut value);
            }
        }
        match bytemuck::cast_slice_mut(&mut self.block) {
            [one] => *one = value[0],
            block => fill_run(block, value[0]),
        }
        self.filled = row * self.rows.row..(row + 1) * self.rows.row;
    }
}

/// A block that holds whole repetitions of a row of a [`Batch`].
pub struct Repeated<'a, T: Lane> {
    rows: Batch,
    reader: StridedCursor<'a>,
    /// The positions of the row whose repetitions are in the block.
    filled: Range<usize>,
    block: Vec<T>,
}

impl<'a, T: Lane> Repeated<'a, T> {
    fn new(view: View<'a>, rows: Batch) -> Self {
        let block = vec![T::zeroed(); rows.row * (REPEATED / rows.row).clamp(1, rows.times)];
        Repeated { rows, reader: StridedCursor::new(view, 0), filled: 0..0, block }
    }

    /// Elements from a position to the end of the block or of the repetitions of its row.
    #[inline]
    fn left(&self, at: usize) -> usize {
        let (span, beyond) = (self.rows.row * self.rows.times, at.wrapping_sub(self.filled.start));
        let beyond = if self.filled.contains(&at) { beyond } else { at % span };
        (self.block.len() - beyond % self.block.len()).min(span - beyond)
    }

    #[inline]
    fn reach(&mut self, at: usize) {
        if !self.filled.contains(&at) {
            self.fill(at);
        }
    }

    fn fill(&mut self, at: usize) {
        let span = self.rows.row * self.rows.times;
        let start = at - at % span;
        self.reader.seek(start);
        self.reader.read::<T::Stored>(bytemuck::cast_slice_mut(&mut self.block[..self.rows.row]));
        repeat(&mut self.block, self.rows.row);
        self.filled = start..start + span;
    }

    #[inline]
    fn get(&self, at: usize, n: usize) -> &[T] {
        &self.block[(at - self.filled.start) % self.block.len()..][..n]
    }
}

/// Fills a block with repetitions of its first `period` elements.
fn repeat<T: Copy>(block: &mut [T], period: usize) {
    let mut filled = period;
    while filled < block.len() {
        let n = filled.min(block.len() - filled);
        block.copy_within(..n, filled);
        filled += n;
    }
}

/// Lets columns and numbers pass single elements, if they are where the loops of [`Lean`](crate::backend::pointwise::Lean)
/// repeat them; false if not.
pub(super) fn beside_one<T: Lane>(cursors: &mut [OperandCursor<T>]) -> bool {
    use OperandCursor::{Column, Number};
    let repeats = match cursors {
        [Column(_) | Number(..), Column(_) | Number(..)] => false,
        [Column(_) | Number(..), _] | [_, Column(_) | Number(..)] => true,
        [Column(_) | Number(..), ..] | [_, Column(_), _] => false,
        [_, _, Number(..)] => true,
        _ => false,
    };
    for cursor in cursors.iter_mut().filter(|_| repeats) {
        match cursor {
            Column(column) => {
                column.block.truncate(1);
                column.is_one = true;
            }
            Number(number, _) => *cursor = OperandCursor::One(*number),
            _ => {}
        }
    }
    repeats
}

impl<'a, T: Lane> OperandCursor<'a, T> {
    pub fn new(source: &OperandAccess<'a>, range: &Range<usize>) -> Self {
        match source {
            OperandAccess::Unread => OperandCursor::Unread,
            OperandAccess::Given => OperandCursor::Given(Vec::with_capacity(range.len().min(BLOCK))),
            OperandAccess::Direct(v) => OperandCursor::Direct(dense(v, 0, v.layout.numel())),
            OperandAccess::Runs(v) => OperandCursor::Runs(Box::new(StridedCursor::new(*v, range.start))),
            OperandAccess::Bands(v, _) => OperandCursor::Bands(Box::new(Bands::new(*v, range.end))),
            OperandAccess::Number(s) => OperandCursor::Number(T::number(*s), Vec::new()),
            OperandAccess::Column(v, rows) => {
                OperandCursor::Column(Box::new(Column::new(*v, *rows, range.len())))
            }
            OperandAccess::Period(v, period) if is_long_row::<T>(v, *period) => OperandCursor::Row(Row {
                elements: dense(v, 0, *period),
                start: range.start - range.start % period,
            }),
            OperandAccess::Period(v, 1) => {
                let mut one = [T::zeroed()];
                StridedCursor::new(*v, 0).read::<T::Stored>(bytemuck::cast_slice_mut(&mut one));
                OperandCursor::Number(one[0], Vec::new())
            }
            OperandAccess::Period(v, period) => {
                let mut block =
                    vec![T::zeroed(); REPEATED.min(range.len() / 4).max(1).next_multiple_of(*period)];
                StridedCursor::new(*v, 0).read::<T::Stored>(bytemuck::cast_slice_mut(&mut block[..*period]));
                repeat(&mut block, *period);
                OperandCursor::Period(block)
            }
            OperandAccess::Batch(v, rows) => OperandCursor::Batch(Box::new(Repeated::new(*v, *rows))),
            OperandAccess::Blocks(v) => OperandCursor::Blocks(
                Box::new(StridedCursor::new(*v, range.start)),
                vec![T::zeroed(); range.len().min(BLOCK)],
            ),
        }
    }

    /// The number of elements available as one slice from position `at` on.
    #[inline]
    pub fn left(&self, at: usize) -> usize {
        match self {
            OperandCursor::Unread
            | OperandCursor::Direct(_)
            | OperandCursor::One(_)
            | OperandCursor::Given(_) => usize::MAX,
            OperandCursor::Runs(reader) => reader.run_left(),
            OperandCursor::Bands(bands) => bands.left(at),
            OperandCursor::Number(..) => REPEATED,
            OperandCursor::Row(row) => row.left(at),
            OperandCursor::Period(block) => block.len() - at % block.len(),
            OperandCursor::Column(c) => {
                let most = if c.is_one { usize::MAX } else { c.block.len() };
                most.min(c.left(at))
            }
            OperandCursor::Batch(rows) => rows.left(at),
            OperandCursor::Blocks(_, block) => block.len(),
        }
    }

    /// Prepares the `n` elements from position `at` on, which are [left](Self::left).
    #[inline]
    pub fn reach(&mut self, at: usize, n: usize) {
        match self {
            OperandCursor::Bands(bands) => bands.reach(at),
            OperandCursor::Column(column) => column.reach(at),
            OperandCursor::Row(row) => row.reach(at),
            OperandCursor::Batch(rows) => rows.reach(at),
            OperandCursor::Number(number, block) if block.len() < n => block.resize(n, *number),
            OperandCursor::Blocks(reader, block) => {
                reader.read::<T::Stored>(bytemuck::cast_slice_mut(&mut block[..n]));
            }
            _ => {}
        }
    }

    #[inline]
    pub fn get(&self, at: usize, n: usize) -> &[T] {
        match self {
            OperandCursor::Unread => &[],
            OperandCursor::Direct(elements) => &elements[at..][..n],
            OperandCursor::Runs(reader) => bytemuck::cast_slice(reader.lend::<T::Stored>(n)),
            OperandCursor::Bands(bands) => bytemuck::cast_slice(bands.get(at, n)),
            OperandCursor::One(number) => std::slice::from_ref(number),
            OperandCursor::Row(row) => &row.elements[at - row.start..][..n],
            OperandCursor::Period(block) => &block[at % block.len()..][..n],
            OperandCursor::Batch(rows) => rows.get(at, n),
            OperandCursor::Column(column) => &column.block[..n.min(column.block.len())],
            OperandCursor::Number(_, block)
            | OperandCursor::Blocks(_, block)
            | OperandCursor::Given(block) => &block[..n],
        }
    }

    /// The next `n` elements where they lie, which are passed, if a run has them.
    pub fn lend(&mut self, n: usize) -> Option<&'a [T]> {
        let OperandCursor::Runs(reader) = self else { return None };
        let lent = (reader.run_left() >= n).then(|| bytemuck::cast_slice(reader.lend::<T::Stored>(n)))?;
        reader.skip(n);
        Some(lent)
    }

    /// Sets the next position. Bands need no seek: `reach` finds the band of any position.
    #[inline]
    pub fn seek(&mut self, at: usize) {
        if let OperandCursor::Runs(reader) | OperandCursor::Blocks(reader, _) = self {
            reader.seek(at);
        }
    }

    /// Passes the next elements of an [`OperandAccess::Given`] operand; other operands ignore them.
    #[inline]
    pub fn give(&mut self, values: &[T]) {
        if let OperandCursor::Given(block) = self {
            block.clear();
            block.extend_from_slice(values);
        }
    }

    #[inline]
    pub fn pass(&mut self, n: usize) {
        if let OperandCursor::Runs(reader) = self {
            reader.skip(n);
        }
    }
}
