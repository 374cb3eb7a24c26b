//! Executable pages, and calls of them.
#![allow(unsafe_code)]

use bytemuck::{Pod, cast, cast_slice};
use memmap2::{Mmap, MmapMut};
use smallvec::SmallVec;

use super::code::EIGHT;
use super::emit::{HALVES, HEAD, SLOT};
use super::opcodes::Target;
use super::recipe::{Columns, In, LANES, Out, Recipe, SHORT_ROWS, WHOLE_VECTORS, bits_of, type_of};
use crate::backend::cpu::lines::Line;
use crate::dtype::DType;

/// The function of a kernel: the words of a call, and the pool.
type Function = unsafe extern "sysv64" fn(*mut u64, *const u8);

/// A kernel in executable memory.
pub struct Kernel {
    /// Written before it was made executable, and never both.
    pages: Mmap,
    target: Target,
    args: usize,
    /// As the recipe says.
    rows: u64,
    strided: u64,
    narrow: SmallVec<[(usize, DType); 2]>,
    spread: u64,
    halves: SmallVec<[(usize, DType); 2]>,
    prefetches: usize,
    replaces: bool,
    results: usize,
    sums: usize,
    has_short_rows: bool,
    columns: Columns,
    numbers: usize,
    literals: Vec<u64>,
}

/// The numbers of a kernel, each repeated in the lanes of a vector that has a cache line of its own.
pub struct Pool(Vec<Line>);

/// The address of bytes, or of a copy that has as many as are needed.
fn padded_from(x: &[u8], needed: usize, copies: &mut SmallVec<[Vec<u8>; 1]>) -> u64 {
    if x.len() >= needed {
        return x.as_ptr() as u64;
    }
    let mut copy = x.to_vec();
    copy.resize(needed, 0);
    // The elements of the vector stay where they are when it is moved.
    let address = copy.as_ptr() as u64;
    copies.push(copy);
    address
}

/// Lanes to compute, followed by as many that are left alone.
static MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Kernel {
    /// The kernel with these bytes; None where no page can be made executable.
    pub(super) fn new(bytes: &[u8], target: Target, recipe: &Recipe, literals: Vec<u64>) -> Option<Kernel> {
        let mut pages = MmapMut::map_anon(bytes.len()).ok()?;
        pages.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let Recipe { args, rows, strided, spread, prefetches, replaces, numbers, has_short_rows, .. } =
            *recipe;
        let (pages, results, sums) = (pages.make_exec().ok()?, recipe.results.len(), recipe.sums.len());
        Some(Kernel {
            pages,
            target,
            args,
            rows,
            strided,
            narrow: recipe.narrow.clone(),
            spread,
            halves: recipe.halves.clone(),
            prefetches,
            replaces,
            results,
            sums,
            has_short_rows,
            columns: recipe.columns.clone(),
            numbers,
            literals,
        })
    }

    /// Whether argument `k` has a value per row.
    pub fn is_per_row(&self, k: usize) -> bool {
        self.rows >> k & 1 == 1
    }

    /// Whether results may replace arguments.
    pub fn replaces(&self) -> bool {
        self.replaces
    }

    /// Whether its arguments differ by row, or it sums rows or their columns.
    pub fn has_rows(&self) -> bool {
        self.rows | self.strided | self.spread != 0 || self.sums > 0 || !self.columns.is_empty()
    }

    /// Whether it sums the elements of rows of such a length, or the columns of so many rows.
    fn sums(&self, rows: usize, n: usize) -> bool {
        let whole = if self.has_short_rows { SHORT_ROWS } else { LANES };
        let by_eights =
            rows.is_multiple_of(EIGHT.into()) && n == self.columns.n && n.is_multiple_of(WHOLE_VECTORS);
        (self.sums == 0 || n.is_multiple_of(whole)) && (self.columns.is_empty() || by_eights)
    }

    /// Whether an argument of a call has the kind and length of the kernel's.
    fn accepts<T>(&self, k: usize, arg: &In<T>, rows: usize, n: usize) -> bool {
        let is = |bits: u64| bits >> k & 1 == 1;
        let narrow = type_of(&self.narrow, k);
        let dense = !is(self.rows | self.strided) && narrow.is_none();
        match arg {
            In::Elements(x) => dense && x.len() >= rows * n,
            In::PerRow(x) => is(self.rows) && x.len() >= rows,
            In::Narrow(x) => narrow.is_some_and(|dtype| x.len() / dtype.size() >= rows * n),
            In::Strided(x, stride) => {
                let end = stride.checked_mul(rows.saturating_sub(1)).and_then(|last| last.checked_add(n));
                let is_known = self.columns.is_empty() || *stride == self.columns.stride(k);
                is(self.strided) && is_known && end.is_some_and(|end| x.len() >= end)
            }
            In::Replaced(r) => {
                dense && self.replaces && *r < self.results && type_of(&self.halves, *r).is_none()
            }
        }
    }

    /// The pointer to a result, and the elements from one of its rows to the next; None if it has another kind or length.
    fn pointer<T>(&self, k: usize, out: &mut Out<T>, rows: usize, n: usize) -> Option<(*mut T, usize)> {
        match out {
            Out::Columns(x) => (k >= self.results + self.sums && x.len() >= n).then_some((x.as_mut_ptr(), n)),
            Out::Elements(x) => {
                let (is_sum, is_spread) = (k >= self.results, self.spread >> k & 1 == 1);
                let len = if is_sum { rows } else { rows * n };
                let fits = !is_spread
                    && k < self.results + self.sums
                    && type_of(&self.halves, k).is_none()
                    && x.len() >= len;
                fits.then_some((x.as_mut_ptr(), n))
            }
            Out::Halves(x) => {
                let fits = type_of(&self.halves, k).is_some() && x.len() >= rows * n;
                fits.then_some((x.as_mut_ptr().cast(), n))
            }
            Out::Spread(x) if self.spread >> k & 1 == 1 => x.pointer(rows, n),
            Out::Spread(_) => None,
        }
    }

    /// The pool with these numbers; None if there are too few.
    pub fn pool<T: Pod>(&self, numbers: &[T]) -> Option<Pool> {
        let repeated = |v: u64| -> Line {
            match self.target.is_double {
                true => cast([v; SLOT / 8]),
                false => cast([v & 0xffff_ffff | v << 32; SLOT / 8]),
            }
        };
        let given = numbers.get(..self.numbers)?.iter().map(bits_of);
        Some(Pool(given.chain(self.literals.iter().copied()).map(repeated).collect()))
    }

    /// Computes `rows` rows of `n` elements; false, and nothing done, if operands do not fit. The last outputs are the sums of
    /// the rows, which are then multiples of [`LANES`] or [`SHORT_ROWS`] elements, or the accumulators of columns. From the addresses `prefetched`, which may be any, memory is
    /// prefetched.
    pub fn run<T: Pod>(
        &self,
        ins: &[In<T>],
        outs: &mut [Out<T>],
        prefetched: &[usize],
        pool: &Pool,
        rows: usize,
        n: usize,
    ) -> bool {
        let Some(len) = rows.checked_mul(n) else { return false };
        let lanes = self.target.width() / self.target.size();
        let fits = size_of::<T>() == self.target.size()
            && ins.len() == self.args
            && outs.len() == self.results + self.sums + self.columns.steps.len()
            && prefetched.len() == self.prefetches
            && self.sums(rows, n)
            && (self.halves.is_empty() || rows == 1 || n.is_multiple_of(lanes))
            && pool.0.len() == self.numbers + self.literals.len()
            && ins.iter().enumerate().all(|(k, x)| self.accepts(k, x, rows, n));
        if !fits || len == 0 {
            return fits;
        }
        let pointers = outs.iter_mut().enumerate().map(|(k, x)| self.pointer(k, x, rows, n));
        let Some(results) = pointers.collect::<Option<SmallVec<[(*mut T, usize); 8]>>>() else {
            return false;
        };
        let rest = n % lanes;
        let mask = &cast_slice::<i32, u32>(&MASK)[8 - (rest * self.target.size() / 4).min(8)..];
        let mut padded: SmallVec<[Vec<u8>; 1]> = SmallVec::new();
        let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
        let mut call: SmallVec<[u64; 32]> = SmallVec::new();
        let mut last: SmallVec<[[i16; HALVES]; 2]> = SmallVec::from_elem([0; HALVES], self.halves.len());
        let passed = if self.columns.is_empty() { 1 } else { usize::from(EIGHT) };
        call.extend([
            (rows / passed) as u64,
            bytes(n - rest),
            bytes(rest),
            (1u64 << rest) - 1,
            mask.as_ptr() as u64,
        ]);
        call.push(last.as_mut_ptr() as u64);
        debug_assert_eq!(call.len(), HEAD);
        call.extend(ins.iter().enumerate().map(|(k, x)| match x {
            In::Elements(x) | In::PerRow(x) | In::Strided(x, _) => x.as_ptr() as u64,
            In::Narrow(x) => {
                let needed = len + if self.target.is_512 || rest == 0 { 0 } else { lanes - rest };
                let size = type_of(&self.narrow, k).map_or(1, DType::size);
                padded_from(x, needed * size, &mut padded)
            }
            In::Replaced(r) => results[*r].0 as u64,
        }));
        call.extend(results.iter().map(|(first, _)| *first as u64));
        call.extend(prefetched.iter().map(|address| *address as u64));
        // The elements of rows are passed while they are computed.
        let strided =
            ins.iter().filter_map(|x| if let In::Strided(_, stride) = x { Some(*stride) } else { None });
        let spread = results.iter().enumerate().filter(|(k, _)| self.spread >> k & 1 == 1);
        let strides = strided.chain(spread.map(|(_, (_, stride))| *stride));
        call.extend(strides.map(|stride| bytes(passed * stride).wrapping_sub(bytes(passed * n))));
        // SAFETY: the pages hold a function of this signature, made for this target, which the processor supports (`kernel`
        // asks `isa`). It reads `len` elements of a dense argument, one per row of others, `n` from each multiple of the
        // stride of strided ones, with AVX2 up to a vector of narrow ones, which `padded_from` has, and writes `len` elements of each result, or `n` from each multiple of the stride of spread ones,
        // and one per row of each sum or `n` accumulators: `sums`, `accepts` and `pointer` say that they have them. As dense results are exclusive and the caller gives no spread result that
        // overlaps an argument (`spread_of`), no argument is written but those that say `Replaced`: they are read through
        // the pointer of their result, and before it is written. The function reads numbers and literals, which the pool
        // has, through the fifth word eight lanes of `MASK`, which follow the offset of at most eight, and writes a vector of
        // AVX2 for each result of halves through the sixth, which `last` has. A prefetch has no effect at an address that is not mapped.
        // It keeps the registers that the convention has it keep.
        unsafe {
            let function = std::mem::transmute::<*const u8, Function>(self.pages.as_ptr());
            function(call.as_mut_ptr(), pool.0.as_ptr().cast());
        }
        if !self.target.is_512 && rest > 0 {
            for ((r, _), last) in self.halves.iter().zip(&last) {
                if let Some(Out::Halves(x)) = outs.get_mut(*r) {
                    x[n - rest..n].copy_from_slice(&last[..rest]);
                }
            }
        }
        true
    }
}
