//! The types that groups are computed in, with the kernels of each.

use std::cell::RefCell;
use std::sync::Arc;

use half::{bf16, f16};

use super::cache::Programs;
use crate::backend::cpu::copy::{STAGE, cast_run};
use crate::backend::cpu::interpret::Interpreted;
use crate::backend::cpu::lines::Aligned;
use crate::backend::cpu::machine::{self, Kernel, Recipe};
use crate::backend::cpu::pieces::Take;
use crate::backend::cpu::reduce::{
    BlockLogSumExp, BlockReduction, ColumnReduction, block_reduction, column_reduction,
};
use crate::backend::cpu::softmax;
use crate::backend::group::Producer;
use crate::backend::reduce::ReduceOp;
use crate::backend::softmax::Kind;
use crate::dtype::{DType, Element};
use crate::formula::{Formula, Int};

/// A type that groups are computed in.
pub(super) trait Grouped: Interpreted {
    fn reduction(op: ReduceOp) -> Option<Reduction<Self>>;
    fn columns(op: ReduceOp) -> Option<ColumnReduction<Self>>;
    fn softmax(kind: Kind) -> Option<RowsAhead<Self>>;
    fn softmax_backward(kind: Kind) -> Option<Rows<Self>>;
    /// What rounds to a half type.
    fn rounding(to: DType) -> Option<Rounding<Self>>;
    /// Whether machine code can be made of a formula.
    fn is_compiled(formula: &Formula) -> bool;
    /// The machine code of a recipe; see [`machine::kernel`].
    fn machine(recipe: &Recipe) -> Option<Arc<Kernel>>;
    /// Has the producer of a group compute its elements and pass them to `take`; false, and nothing done, if it cannot.
    fn produce(producer: &Producer, take: Take<Self>) -> bool;
    /// Calls `f` with the programs that this thread caches; None while the thread ends.
    fn with_programs<R>(f: impl FnOnce(&mut Programs<Self>) -> R) -> Option<R>;
    /// Calls `f` with the buffers that this thread has left from earlier blocks; None while the thread ends.
    fn with_spare<R>(f: impl FnOnce(&mut Vec<Aligned<Self>>) -> R) -> Option<R>;
}

/// A kernel of whole rows: two inputs, length of a row, output.
pub(super) type Rows<T> = fn([&[T]; 2], usize, &mut [T]);

/// As [`Rows`], of one input; the rows that begin at some addresses are prefetched meanwhile.
pub(super) type RowsAhead<T> = fn(&[T], usize, &mut [usize], &mut [T]);

pub(super) type Rounding<T> = fn(&[T], &mut [T]);

/// A reduction of rows and of runs, with the kernel of the operation.
pub(super) trait Reduces<T>: Sync {
    fn is_sum(&self) -> bool;
    /// As [`BlockReduction::total`].
    fn total(&self, runs: &mut [T]) -> T;
    fn run(&self, x: &[T]) -> T;
    fn rows(&self, x: &[T], n: usize, out: &mut [T]);
}

pub(super) type Reduction<T> = Box<dyn Reduces<T>>;

macro_rules! grouped {
    (@machine $t:ty) => {
        fn with_spare<R>(f: impl FnOnce(&mut Vec<Aligned<$t>>) -> R) -> Option<R> {
            thread_local!(static SPARE: RefCell<Vec<Aligned<$t>>> = const { RefCell::new(Vec::new()) });
            SPARE.try_with(|spare| f(&mut spare.borrow_mut())).ok()
        }
        fn with_programs<R>(f: impl FnOnce(&mut Programs<$t>) -> R) -> Option<R> {
            thread_local!(static PROGRAMS: RefCell<Programs<$t>> = RefCell::default());
            PROGRAMS.try_with(|programs| f(&mut programs.borrow_mut())).ok()
        }
        fn is_compiled(formula: &Formula) -> bool {
            machine::is_compiled::<$t>(formula)
        }
        fn machine(recipe: &Recipe) -> Option<Arc<Kernel>> {
            machine::kernel::<$t>(recipe)
        }
    };
    (floats $($t:ty)*) => { $(
        impl Reduces<$t> for BlockReduction<$t> {
            fn is_sum(&self) -> bool {
                BlockReduction::is_sum(self)
            }
            fn total(&self, runs: &mut [$t]) -> $t {
                BlockReduction::total(self, runs)
            }
            fn run(&self, x: &[$t]) -> $t {
                BlockReduction::run(self, x)
            }
            fn rows(&self, x: &[$t], n: usize, out: &mut [$t]) {
                BlockReduction::rows(self, x, n, out);
            }
        }
        impl Reduces<$t> for BlockLogSumExp<$t> {
            fn is_sum(&self) -> bool {
                false
            }
            fn total(&self, runs: &mut [$t]) -> $t {
                self.run(runs)
            }
            fn run(&self, x: &[$t]) -> $t {
                let mut out = [0.0];
                self.rows(x, x.len(), &mut out);
                out[0]
            }
            fn rows(&self, x: &[$t], n: usize, out: &mut [$t]) {
                BlockLogSumExp::rows(self, x, n, out);
            }
        }
        impl Grouped for $t {
            fn reduction(op: ReduceOp) -> Option<Reduction<$t>> {
                Some(match op {
                    ReduceOp::LogSumExp => Box::new(BlockLogSumExp::<$t>::new()),
                    _ => Box::new(block_reduction::<$t>(op)?),
                })
            }
            fn columns(op: ReduceOp) -> Option<ColumnReduction<$t>> {
                column_reduction(op)
            }
            fn softmax(kind: Kind) -> Option<RowsAhead<$t>> {
                Some(match kind {
                    Kind::Softmax => |x, n, ahead, out| softmax::softmax_rows(x, n, ahead, out),
                    Kind::LogSoftmax => |x, n, ahead, out| softmax::log_softmax_rows(x, n, ahead, out),
                })
            }
            fn softmax_backward(kind: Kind) -> Option<Rows<$t>> {
                Some(match kind {
                    Kind::Softmax => |[g, y], n, out| softmax::softmax_backward_rows(g, y, n, out),
                    Kind::LogSoftmax => |[g, y], n, out| softmax::log_softmax_backward_rows(g, y, n, out),
                })
            }
            fn rounding(to: DType) -> Option<Rounding<$t>> {
                match to {
                    DType::F16 => Some(round_through::<$t, f16>),
                    DType::BF16 => Some(round_through::<$t, bf16>),
                    _ => None,
                }
            }
            fn produce(producer: &Producer, take: Take<$t>) -> bool {
                super::producer::produce(producer, take)
            }
            grouped! { @machine $t }
        }
    )* };
    // Pointwise operations alone.
    (integers $($t:ty)*) => { $(impl Grouped for $t {
        fn reduction(_: ReduceOp) -> Option<Reduction<$t>> {
            None
        }
        fn columns(_: ReduceOp) -> Option<ColumnReduction<$t>> {
            None
        }
        fn softmax(_: Kind) -> Option<RowsAhead<$t>> {
            None
        }
        fn softmax_backward(_: Kind) -> Option<Rows<$t>> {
            None
        }
        fn rounding(_: DType) -> Option<Rounding<$t>> {
            None
        }
        fn produce(_: &Producer, _: Take<$t>) -> bool {
            false
        }
        grouped! { @machine $t }
    })* };
}
grouped! { floats f32 f64 }
grouped! { integers Int<i32> Int<i64> }

/// Rounds numbers to those that a narrower type has.
fn round_through<T: Element, H: Element>(x: &[T], out: &mut [T]) {
    let mut narrow = [H::zeroed(); STAGE];
    for (x, out) in x.chunks(STAGE).zip(out.chunks_mut(STAGE)) {
        let narrow = &mut narrow[..x.len()];
        cast_run(x, narrow);
        cast_run(narrow, out);
    }
}
