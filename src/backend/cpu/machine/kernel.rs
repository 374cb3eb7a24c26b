//! Executable pages, and calls of them.
#![allow(unsafe_code)]

use bytemuck::{Pod, bytes_of, cast_slice};
use memmap2::{Mmap, MmapMut};
use smallvec::SmallVec;

use super::emit::{HEAD, SLOT};
use super::opcodes::Target;
use super::recipe::{In, Recipe};

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
    replaces: bool,
    results: usize,
    numbers: usize,
    literals: Vec<u64>,
}

/// The numbers of a kernel, repeated in each lane of a vector.
pub struct Pool(Vec<[u64; SLOT / 8]>);

/// Lanes to compute, followed by as many that are left alone.
static MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Kernel {
    /// The kernel with these bytes; None where no page can be made executable.
    pub(super) fn new(bytes: &[u8], target: Target, recipe: &Recipe, literals: Vec<u64>) -> Option<Kernel> {
        let mut pages = MmapMut::map_anon(bytes.len()).ok()?;
        pages.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let Recipe { args, rows, strided, replaces, numbers, .. } = *recipe;
        let (pages, results) = (pages.make_exec().ok()?, recipe.results.len());
        Some(Kernel { pages, target, args, rows, strided, replaces, results, numbers, literals })
    }

    /// Whether argument `k` has a value per row.
    pub fn is_per_row(&self, k: usize) -> bool {
        self.rows >> k & 1 == 1
    }

    /// Whether results may replace arguments.
    pub fn replaces(&self) -> bool {
        self.replaces
    }

    /// Whether its arguments differ by row.
    pub fn has_rows(&self) -> bool {
        self.rows | self.strided != 0
    }

    /// Whether an argument of a call has the kind and length of the kernel's.
    fn accepts<T>(&self, k: usize, arg: &In<T>, rows: usize, n: usize) -> bool {
        let is = |bits: u64| bits >> k & 1 == 1;
        let dense = !is(self.rows) && !is(self.strided);
        match arg {
            In::Elements(x) => dense && x.len() >= rows * n,
            In::PerRow(x) => is(self.rows) && x.len() >= rows,
            In::Strided(x, stride) => {
                let end = stride.checked_mul(rows.saturating_sub(1)).and_then(|last| last.checked_add(n));
                is(self.strided) && end.is_some_and(|end| x.len() >= end)
            }
            In::Replaced(r) => dense && self.replaces && *r < self.results,
        }
    }

    /// The pool with these numbers; None if there are too few.
    pub fn pool<T: Pod>(&self, numbers: &[T]) -> Option<Pool> {
        let repeated = |v: u64| match self.target.is_double {
            true => [v; SLOT / 8],
            false => [v & 0xffff_ffff | v << 32; SLOT / 8],
        };
        let bits = |v: &T| {
            let bytes = bytes_of(v);
            let mut bits = [0; 8];
            bits[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
            u64::from_le_bytes(bits)
        };
        let given = numbers.get(..self.numbers)?.iter().map(bits);
        Some(Pool(given.chain(self.literals.iter().copied()).map(repeated).collect()))
    }

    /// Computes `rows` rows of `n` elements; false, and nothing done, if operands do not fit.
    pub fn run<T: Pod>(
        &self,
        ins: &[In<T>],
        outs: &mut [&mut [T]],
        pool: &Pool,
        rows: usize,
        n: usize,
    ) -> bool {
        let Some(len) = rows.checked_mul(n) else { return false };
        let fits = size_of::<T>() == self.target.size()
            && ins.len() == self.args
            && outs.len() == self.results
            && pool.0.len() == self.numbers + self.literals.len()
            && ins.iter().enumerate().all(|(k, x)| self.accepts(k, x, rows, n))
            && outs.iter().all(|x| x.len() >= len);
        if !fits || len == 0 {
            return fits;
        }
        let lanes = self.target.width() / self.target.size();
        let rest = n % lanes;
        let mask = &cast_slice::<i32, u32>(&MASK)[8 - (rest * self.target.size() / 4).min(8)..];
        let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
        let mut call: SmallVec<[u64; 32]> = SmallVec::new();
        call.extend([rows as u64, bytes(n - rest), bytes(rest), (1u64 << rest) - 1, mask.as_ptr() as u64]);
        debug_assert_eq!(call.len(), HEAD);
        let results: SmallVec<[u64; 8]> = outs.iter_mut().map(|x| x.as_mut_ptr() as u64).collect();
        call.extend(ins.iter().map(|x| match x {
            In::Elements(x) | In::PerRow(x) | In::Strided(x, _) => x.as_ptr() as u64,
            In::Replaced(r) => results[*r],
        }));
        call.extend(results);
        // The elements of a row are passed while it is computed.
        call.extend(ins.iter().filter_map(|x| match x {
            In::Strided(_, stride) => Some(bytes(*stride).wrapping_sub(bytes(n))),
            _ => None,
        }));
        // SAFETY: the pages hold a function of this signature, made for this target, which the processor supports (`kernel`
        // asks `isa`). It reads `len` elements of a dense argument, one per row of others, `n` from each multiple of the
        // stride of strided ones, and writes `len` elements of each result: `accepts` and `fits` say that the slices have
        // them. As `outs` are exclusive, no argument is written but those that say `Replaced`: they are read through
        // the pointer of their result, and before it is written. The function reads numbers and literals, which the pool
        // has, and, through the last of the five words, eight lanes of `MASK`, which follow the offset of at most eight.
        // It keeps the registers that the convention has it keep.
        unsafe {
            let function = std::mem::transmute::<*const u8, Function>(self.pages.as_ptr());
            function(call.as_mut_ptr(), pool.0.as_ptr().cast());
        }
        true
    }
}
