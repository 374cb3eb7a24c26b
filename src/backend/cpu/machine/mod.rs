//! Machine code for fused groups on x86-64.
//!
//! Note [Machine code] Between two reductions of a group, its pointwise operations become one
//! loop: values stay in registers, where the interpreter would write them to blocks and read them again. Numbers
//! are read from a pool that each call brings, so that code depends on operations alone and is kept. Elementary functions are
//! emitted from the source of the compiled loops (`math::lanes`), and nothing is contracted or reordered, so the bits are
//! those of the interpreter, which stays the reference: it runs what has no machine code (`RGRAD_JIT=0`, other processors, a system
//! that makes no page executable, functions that are not emitted).
//!
//! Encoder: iced-x86 without decoder and formatter, which compiles in 3 seconds. dynasm-rs has no AVX-512,
//! Cranelift no vectors beyond 128 bits.

mod code;
mod emit;
mod integers;
mod kernel;
mod lower;
mod opcodes;
mod recipe;
mod registers;
mod steps;
mod sums;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::backend::cache::Cache;
use crate::backend::simd::{Isa, isa};
pub use kernel::{Kernel, Pool};
pub use lower::{Compiled, is_compiled};
pub use recipe::{
    Columns, In, LANES, Out, Recipe, SHORT_ROWS, Source, WHOLE_VECTORS, Work, bits_of, type_of,
};

use opcodes::Target;

/// By the words of a recipe and the target; None for recipes without machine code. Programs have some dozens.
type Kernels = Cache<Option<Arc<Kernel>>, 1024>;

static KERNELS: OnceLock<RwLock<Kernels>> = OnceLock::new();

/// Whether machine code may be made: `RGRAD_JIT=0` forbids it.
pub fn is_enabled() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    isa() >= Isa::Avx2 && *ALLOWED.get_or_init(|| std::env::var("RGRAD_JIT").map_or(true, |v| v != "0"))
}

/// The kernel of a recipe; None if there is none.
pub fn kernel<T: Compiled>(recipe: &Recipe) -> Option<Arc<Kernel>> {
    if !is_enabled() {
        return None;
    }
    let is_double = size_of::<T>() == 8;
    let target = Target { is_double, is_integer: T::IS_INTEGER, is_512: isa() >= Isa::Avx512 };
    let mut key = recipe.words();
    let Target { is_double, is_integer, is_512 } = target;
    key.push(u64::from(is_double) | u64::from(is_integer) << 1 | u64::from(is_512) << 2);
    let kernels = KERNELS.get_or_init(Default::default);
    if let Some(known) = kernels.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return known;
    }
    let made = make::<T>(recipe, target).map(Arc::new);
    let (kernel, _removed) = kernels.write().unwrap_or_else(PoisonError::into_inner).keep(&key, made);
    kernel
}

fn make<T: Compiled>(recipe: &Recipe, target: Target) -> Option<Kernel> {
    let code = lower::lower::<T>(recipe, target.is_512)?;
    let (bytes, literals) = emit::emit(&code, target, recipe)?;
    Kernel::new(&bytes, target, recipe, literals)
}

#[cfg(test)]
mod tests;
