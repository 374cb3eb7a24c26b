//! What a kernel computes.

use bytemuck::{Pod, bytes_of};
use smallvec::SmallVec;

use crate::backend::cpu::output::Rows;
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

// The accumulators of a sum of a row are those of the compiled reduction.
pub use crate::backend::cpu::reduce::LANES;
/// Elements of which the rows of column sums are whole multiples: a vector for each instruction set.
pub const WHOLE_VECTORS: usize = 16;
/// As [`LANES`], of a shorter row, and the elements of which such rows are whole multiples: a vector of any type.
const SHORT_LANES: usize = 8;
pub const SHORT_ROWS: usize = 16;

/// What a kernel computes: steps with their operands, and those whose results are stored or summed.
#[derive(Clone, Default, Debug)]
pub struct Recipe<'f> {
    pub steps: Vec<(Work<'f>, SmallVec<[Source; 4]>)>,
    pub results: SmallVec<[usize; 4]>,
    /// The steps whose values are summed per row. Rows are then multiples of [`LANES`] elements, or shorter ones of [`SHORT_ROWS`].
    pub sums: SmallVec<[usize; 2]>,
    pub has_short_rows: bool,
    /// Column sums, in place of those of rows and of results.
    pub columns: Columns,
    pub args: usize,
    /// The arguments that have a value per row, as bits.
    pub rows: u64,
    /// The arguments whose rows are apart in memory, as bits.
    pub strided: u64,
    /// The arguments whose elements are bytes, booleans or of a half type, and these types.
    pub narrow: SmallVec<[(usize, DType); 2]>,
    /// The results whose rows are apart in memory, as bits.
    pub spread: u64,
    /// The results that are stored as a half type to which they are rounded, and these types. Rows, if there are any, are then whole
    /// vectors.
    pub halves: SmallVec<[(usize, DType); 2]>,
    /// How many addresses a call brings from which on memory is prefetched into the second-level cache, as far as elements are computed.
    pub prefetches: usize,
    /// Whether results may replace arguments: then all arguments are read before results are stored.
    pub replaces: bool,
    pub numbers: usize,
}

/// Sums of the columns of rows, eight at a time, which are added to accumulators: Note [Column sums of a kernel].
#[derive(Clone, Default, Debug)]
pub struct Columns {
    /// The steps whose values are summed.
    pub steps: SmallVec<[usize; 2]>,
    /// Elements of a row, whole vectors.
    pub n: usize,
    /// The strided arguments, and the elements from one of their rows to the next.
    pub strides: SmallVec<[(usize, usize); 2]>,
}

impl Columns {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The elements from one row of an argument to the next.
    pub fn stride(&self, k: usize) -> usize {
        self.strides.iter().find(|(of, _)| *of == k).map_or(self.n, |(_, stride)| *stride)
    }
}

/// The bits of a number.
pub fn bits_of<T: Pod>(v: &T) -> u64 {
    let mut bits = [0; 8];
    let bytes = bytes_of(v);
    bits[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    u64::from_le_bytes(bits)
}

/// The type that a list has for argument or result `k`.
pub fn type_of(typed: &[(usize, DType)], k: usize) -> Option<DType> {
    typed.iter().find(|(of, _)| *of == k).map(|(_, dtype)| *dtype)
}

impl Recipe<'_> {
    /// The accumulators of a sum.
    pub fn lanes(&self) -> usize {
        if self.has_short_rows { SHORT_LANES } else { LANES }
    }

    /// The words that identify a recipe.
    pub fn words(&self) -> Vec<u64> {
        let counts = [self.args, self.numbers, self.steps.len(), self.sums.len(), usize::from(self.replaces)];
        let columns = self.columns.steps.len() << 32 | self.columns.strides.len();
        let mut words: Vec<u64> = counts.map(|n| n as u64).to_vec();
        words.extend([
            self.rows,
            self.strided,
            self.spread,
            self.prefetches as u64,
            u64::from(self.has_short_rows),
            columns as u64,
        ]);
        for typed in [&self.narrow, &self.halves] {
            words.push(typed.len() as u64);
            words.extend(typed.iter().map(|(k, dtype)| (*k as u64) << 32 | *dtype as u64));
        }
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
        words.extend(self.sums.iter().chain(&self.results).map(|r| *r as u64));
        if !self.columns.is_empty() {
            words.push(self.columns.n as u64);
            words.extend(self.columns.strides.iter().flat_map(|(k, stride)| [*k as u64, *stride as u64]));
            words.extend(self.columns.steps.iter().map(|step| *step as u64));
        }
        words
    }
}

/// A result of a call.
pub enum Out<'a, T> {
    /// The elements of all rows one after the other.
    Elements(&'a mut [T]),
    Spread(Rows<'a, T>),
    /// As `Elements`, of a half type.
    Halves(&'a mut [i16]),
    /// The accumulators of a column sum.
    Columns(&'a mut [T]),
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum In<'a, T> {
    /// The elements of all rows one after the other.
    Elements(&'a [T]),
    PerRow(&'a [T]),
    /// As `Elements`, the bytes of a narrower type; further ones may follow.
    Narrow(&'a [u8]),
    /// Rows that begin so many elements after each other.
    Strided(&'a [T], usize),
    /// The old elements of a result.
    Replaced(usize),
}
