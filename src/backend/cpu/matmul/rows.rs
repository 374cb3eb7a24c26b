//! Products whose rows are used as they are computed, by the epilogue of a group (Note [Epilogues]).
//!
//! The right operand is packed once. A task computes a few rows over the whole depth, in the steps of the blocked product and so
//! with its bits, and passes them on. Of a batch of small products a task has some whole ones.

use super::{
    Bias, Block, Epilogue, GROUP_ROWS, GemmElem, K_BLOCK, MatRef, N_BLOCK, OPERANDS, Operand, SMALL_ROWS,
    has_long_rows, product, with_scratch,
};
use crate::backend::cpu::microkernel::{Kernels, Store, View, ViewMut};
use crate::backend::cpu::parallel::parallel_for;
use crate::backend::cpu::pieces::{Take, give, largest};
use crate::backend::cpu::simd;

/// Tasks that the rows of a product are divided into, at least.
const TASKS: usize = 16;
/// Elements of the largest packed operand.
const MOST: usize = 1 << 22;

/// The sizes of a batch of products.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub count: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// How the results of a batch are divided.
enum Division {
    /// So many whole products a task.
    Products(usize),
    /// So many rows of a product a task. The results are those of so many products of the batch's depth.
    Rows { each: usize, products: usize },
}

/// A batch of products that is computed in pieces.
pub struct ProductsByRows<'a, T: GemmElem> {
    kernels: &'static Kernels<T>,
    batch: Batch,
    a: View<'a, T>,
    b: View<'a, T>,
    steps: [usize; 2],
    division: Division,
}

/// An operand whose data begin later.
fn after<T>(v: View<T>, elements: usize) -> View<T> {
    View { data: &v.data[elements..], ..v }
}

impl<'a, T: GemmElem> ProductsByRows<'a, T> {
    /// The products of [`super::batched_gemm`], whose operands are `steps` apart; None if they are not computed in pieces. Otherwise
    /// they would be products of blocks with packed columns, so that rows have the same bits.
    pub fn of(batch: Batch, a: MatRef<'a, T>, b: MatRef<'a, T>, steps: [usize; 2]) -> Option<Self> {
        let Batch { count, m, n, k } = batch;
        if k == 0 || count * m * n == 0 {
            return None;
        }
        let (kernels, a, b) = (T::kernels(simd::isa()), a.view(), b.view());
        let is_stacked = count == 1 || steps[1] == 0 && steps[0] == m * a.rs;
        let (rows, products) = if is_stacked { (count * m, 1) } else { (m, count) };
        let division = if products >= TASKS && m * n <= largest::<T>() {
            Division::Products((largest::<T>() / 8 / (m * n)).clamp(1, count / TASKS))
        } else {
            let columns = n.div_ceil(kernels.nr) * kernels.nr;
            let is_blocked = rows > SMALL_ROWS && !has_long_rows(n, k, a.cs) && n > 1;
            if !is_blocked || n > N_BLOCK || columns * k > MOST || rows < TASKS * kernels.mr {
                return None;
            }
            let fitting = (largest::<T>() / n).min(rows / TASKS).min(GROUP_ROWS);
            Division::Rows { each: (fitting / kernels.mr).max(1) * kernels.mr, products }
        };
        Some(ProductsByRows { kernels, batch, a, b, steps, division })
    }

    /// Passes on the results.
    pub fn run(&self, bias: Option<&[T]>, take: Take<T>) {
        let ProductsByRows { kernels, batch: Batch { count, m, n, k }, .. } = *self;
        let ep = Epilogue { bias: bias.map_or(Bias::None, Bias::Row), ..Epilogue::default() };
        super::check_bias(m, n, &ep);
        let store = ep.store();
        match self.division {
            Division::Products(each) => parallel_for(count, each, |some| {
                for i in some {
                    let [a, b] = self.operands(i);
                    give(i * m * n..(i + 1) * m * n, take, |c| product(kernels, m, n, k, a, b, c, store));
                }
            }),
            Division::Rows { each, products } => {
                for i in 0..products {
                    self.rows(i, count * m / products, each, &store, take);
                }
            }
        }
    }

    fn operands(&self, product: usize) -> [View<'a, T>; 2] {
        [after(self.a, product * self.steps[0]), after(self.b, product * self.steps[1])]
    }

    /// Passes on the `m` rows of one product, `each` at a time.
    fn rows(&self, product: usize, m: usize, each: usize, store: &Store<T>, take: Take<T>) {
        let (kernels, Batch { n, k, .. }, [a, b]) = (self.kernels, self.batch, self.operands(product));
        let (first, width) = (product * m * n, n.div_ceil(kernels.nr) * kernels.nr);
        let steps = || (0..k).step_by(K_BLOCK).map(|p| (p, K_BLOCK.min(k - p)));
        let block = |rows: usize, row: usize, p: usize, depth: usize| {
            let store = store.at(row, 0).step(p == 0, p + depth == k);
            let block = Block::new(kernels, depth, a.from(row, p), b.from(p, 0), [rows, n], store);
            Block { how_b: Operand::Packed, ..block }
        };
        with_scratch(&OPERANDS, width * k, |packed: &mut [T]| {
            for (p, depth) in steps() {
                block(each, 0, p, depth).pack(&mut [], &mut packed[p * width..][..depth * width]);
            }
            let packed = &*packed;
            parallel_for(m, each, |rows| {
                give(first + rows.start * n..first + rows.end * n, take, |c| {
                    for (p, depth) in steps() {
                        let c = ViewMut::new(c, rows.len(), n);
                        let columns = &packed[p * width..][..depth * width];
                        block(rows.len(), rows.start, p, depth).compute_alone(c, columns);
                    }
                });
            });
        });
    }
}
