//! Executable pages, and calls of them.
#![allow(unsafe_code)]

use bytemuck::{Pod, bytes_of, cast_slice};
use memmap2::{Mmap, MmapMut};
use smallvec::SmallVec;

use super::emit::{HEAD, SLOT, Target};
use super::recipe::Recipe;

/// The function of a kernel: the words of a call, and the pool.
type Function = unsafe extern "sysv64" fn(*mut u64, *const u8);

/// A kernel in executable memory.
pub struct Kernel {
    /// Written before it was made executable, and never both.
    pages: Mmap,
    target: Target,
    args: usize,
    /// The arguments with a value per row.
    rows: u64,
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
        let Recipe { args, rows, numbers, .. } = *recipe;
        let (pages, results) = (pages.make_exec().ok()?, recipe.results.len());
        Some(Kernel { pages, target, args, rows, results, numbers, literals })
    }

    /// Whether argument `k` has a value per row.
    pub fn is_per_row(&self, k: usize) -> bool {
        self.rows >> k & 1 == 1
    }

    pub fn has_rows(&self) -> bool {
        self.rows != 0
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

    /// Computes `rows` rows of `n` elements; false, and nothing done, if lengths do not fit.
    pub fn run<T: Pod>(
        &self,
        ins: &[&[T]],
        outs: &mut [&mut [T]],
        pool: &Pool,
        rows: usize,
        n: usize,
    ) -> bool {
        let Some(len) = rows.checked_mul(n) else { return false };
        let enough = |(k, x): (usize, &&[T])| x.len() >= if self.is_per_row(k) { rows } else { len };
        let fits = size_of::<T>() == self.target.size()
            && ins.len() == self.args
            && outs.len() == self.results
            && pool.0.len() == self.numbers + self.literals.len()
            && ins.iter().enumerate().all(enough)
            && outs.iter().all(|x| x.len() >= len);
        if !fits || len == 0 {
            return fits;
        }
        let lanes = self.target.width() / self.target.size();
        let rest = n % lanes;
        let mut call: SmallVec<[u64; 32]> = SmallVec::new();
        let mask = &cast_slice::<i32, u32>(&MASK)[8 - (rest * self.target.size() / 4).min(8)..];
        call.extend([
            rows as u64,
            ((n - rest) * size_of::<T>()) as u64,
            (rest * size_of::<T>()) as u64,
            (1u64 << rest) - 1,
            mask.as_ptr() as u64,
        ]);
        debug_assert_eq!(call.len(), HEAD);
        call.extend(ins.iter().map(|x| x.as_ptr() as u64));
        call.extend(outs.iter_mut().map(|x| x.as_mut_ptr() as u64));
        // SAFETY: the pages hold a function of this signature, made for this target, which the processor supports (`kernel`
        // asks `isa`). It reads `len` elements of each argument or one per row, and writes `len` elements of each result: the
        // slices have them, and as `outs` are exclusive, no argument is written. It reads numbers and literals, which the pool
        // has, and, through the last of the five words, eight lanes of `MASK`, which follow the offset of at most eight.
        // It keeps the registers that the convention has it keep.
        unsafe {
            let function = std::mem::transmute::<*const u8, Function>(self.pages.as_ptr());
            function(call.as_mut_ptr(), pool.0.as_ptr().cast());
        }
        true
    }
}
