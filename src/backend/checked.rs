//! A backend that computes nothing itself: it looks at every call of the CPU's families, and lets it through.
//!
//! Note [Checked calls]
//! A family's contract is written where the family is; what keeps it is the code that calls it. With `RGRAD_CHECK=1` in the
//! environment each call is looked at before it is made: whether views lie within their memory, are of the dtype and the
//! size that follow from the other arguments, dense and aligned where a slice is taken, outputs writable and apart from
//! inputs, and whether anything has written what is read (Note [Unwritten memory]). A violation is an error of the call.
//! Nothing goes round the backend meanwhile: small operations take the general way. Without it, [`few`] is what the check
//! costs: one relaxed load where a comparison with a constant would stand.
//!
//! What is not seen are positions that data decide: those that indices pick are checked by the kernels, and all elements
//! of a tensor that is gathered from have to be written, picked or not.

mod look;
mod shadow;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use look::{
    Seen, copied, dense, look, overwritten, result, strided, strided_result, strided_update, updated,
};

use super::View;
use super::attention::Attention;
use super::conv::{ConvShape, Product};
use super::cpu::Cpu;
use super::cpu::pointwise::SMALL_NUMEL;
use super::ctc::Sequences;
use super::factor::Factor;
use super::group::{Fusion, Group as Fused, Producer};
use super::index::{Combine, Found, IndexGrid, Pick};
use super::inspect::Question;
use super::interface::Backend;
use super::norm::{Kind as Norm, Made, Stats};
use super::optim::Group;
use super::plane::{PoolShape, ResizeShape, SpatialLinearMap, volume};
use super::pointwise::{Operand, Primitives, Program};
use super::random::{Draw, Philox};
use super::recurrent::{GruGradients, GruSteps, Recurrence, Steps, Weights};
use super::reduce::{Fold, ReduceDims, ReduceOp, extremum_of_integers};
use super::sampling::Sampling;
use super::scan::Running;
use super::softmax::{Kind, Targets, TotalWeight};
use super::sort::{Interpolation, QuantileRanks, Statistic};
use super::svd::Matrices;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::Formula;
use crate::storage::Storage;

/// The CPU, with every call looked at: Note [Checked calls].
pub struct Checked;

/// Elements up to which an operation may go round the backend: none while calls are checked, or before that is known.
static FEW: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
pub fn few() -> usize {
    FEW.load(Ordering::Relaxed)
}

/// Whether calls are checked.
#[inline(always)]
pub fn on() -> bool {
    few() == 0 && asked()
}

#[cold]
fn asked() -> bool {
    static ASKED: LazyLock<bool> = LazyLock::new(|| std::env::var("RGRAD_CHECK").is_ok_and(|v| v == "1"));
    if !*ASKED {
        FEW.store(SMALL_NUMEL, Ordering::Relaxed);
    }
    *ASKED
}

/// Notes that memory may have been written by code outside the core, which has its address.
pub fn lent(s: &Storage) {
    shadow::forget(s);
}

/// Errors where nothing has written an element.
pub fn expect_written(v: View) -> Result<()> {
    // Runs the deferred operations that write this memory.
    v.storage.slice::<u8>();
    look("read", &[strided(v)], || Ok(()))
}

/// Methods of [`Backend`] that are those of the CPU, after a look at what each expression names.
macro_rules! checked {
    ($(fn $name:ident($($arg:ident: $t:ty),* $(,)?) -> $out:ty = [$($seen:expr),* $(,)?];)*) => { $(
        fn $name(&self, $($arg: $t),*) -> $out {
            let mut seen: Vec<Seen> = Vec::new();
            $(seen.extend($seen);)*
            look(stringify!($name), &seen, || Cpu.$name($($arg),*))
        }
    )* };
}

/// Methods that have no operands.
macro_rules! forwarded {
    ($(fn $name:ident($($arg:ident: $t:ty),*) -> $out:ty;)*) => { $(
        fn $name(&self, $($arg: $t),*) -> $out {
            Cpu.$name($($arg),*)
        }
    )* };
}

impl Backend for Checked {
    fn allocate(&self, device: Device, bytes: usize) -> Result<Storage> {
        let s = Cpu.allocate(device, bytes)?;
        shadow::watch(&s);
        Ok(s)
    }

    // Not `folds_from`: while calls are checked, formulas of every size are fused into reductions.
    forwarded! {
        fn synchronize(device: Device) -> Result<()>;
        fn computes(device: Device, dtype: DType) -> bool;
        fn fusion() -> Fusion;
        fn produces(producer: &Producer, dtype: DType) -> bool;
        fn factor_dtype(a: View) -> Result<DType>;
        fn svd_dtype(x: View) -> Result<DType>;
        fn overwrites_factored() -> bool;
        fn sort_dtype(dtype: DType) -> DType;
        fn extremum_dtype(dtype: DType) -> DType;
        fn truth_dtype(dtype: DType) -> DType;
        fn integer_dtype(op: ReduceOp, dtype: DType) -> DType;
        fn accumulate_dtype(dtype: DType) -> DType;
        fn product_dtype(a: View, b: View) -> DType;
        fn reduces_halves() -> bool;
        fn takes_halves() -> bool;
        fn crosses(dtype: DType) -> bool;
        fn attends(dtype: DType) -> bool;
        fn recurs(dtype: DType) -> bool;
    }

    checked! {
        fn download(src: View) -> Result<Storage> = [strided(src)];
        fn upload(src: View, out: View) -> Result<()> = [strided(src).shaped(out), strided_result(out)];
        fn known(question: Question, x: View) -> Result<Option<bool>> = [strided(x)];

        // ---- elements

        fn copy(src: View, out: View) -> Result<()> = [copied(src).shaped(out).or_output(), strided_result(out)];
        fn fill(out: View, value: Scalar) -> Result<()> = [strided_result(out).may_overlap_itself()];
        fn accumulate(src: View, out: View) -> Result<()> =
            [strided(src).shaped(out), strided_update(out).may_overlap_itself()];
        fn interleave(parts: &[View], out: View) -> Result<bool> =
            [parts.iter().map(|v| strided(*v).count(out.layout.numel() / parts.len())), strided_result(out)];
        fn fused(group: &Fused) -> Result<bool> = [
            group.operands.iter().map(|o| strided(o.view).or_output()),
            group.producer.iter().flat_map(Producer::operands).map(strided),
            group.results.iter().map(|(_, v)| strided_result(*v).or_output()),
        ];
        fn pointwise(
            program: &Program, compute: DType, operands: &[Operand], params: &[Scalar], out: View,
        ) -> Result<bool> = [views(operands).map(|v| strided(v).shaped(out).or_output()), strided_result(out)];
        fn pointwise_all(
            name: &'static str, formula: &Formula, primitives: Primitives, compute: DType, operands: &[Operand],
            params: &[Scalar], outs: &[View],
        ) -> Result<()> = [
            views(operands).map(|v| strided(v).shaped(outs[0]).or_output()),
            outs.iter().map(|v| strided_result(*v).shaped(outs[0])),
        ];
        fn expect_divisors(x: View) -> Result<()> = [dense(x)];
        fn integer_power(base: View, exponent: View, out: View) -> Result<()> = [
            dense(base).of(DType::I64).shaped(out), dense(exponent).of(DType::I64).shaped(out),
            result(out).of(DType::I64),
        ];
        fn random(draw: Draw, p: Philox, out: View) -> Result<()> = [match draw {
            Draw::Bernoulli(_) => result(out).of_bytes(),
            Draw::Integers(..) => result(out).of(DType::I64),
            _ => result(out),
        }];
        fn bernoulli_each(p: Philox, probs: View, out: View) -> Result<()> =
            [dense(probs).of(out.dtype).shaped(out), result(out)];
        fn dropout(x: View, mask: View, scale: f64, out: View) -> Result<()> =
            [strided(x).of(out.dtype).shaped(out), dense(mask).of_bytes().shaped(out), result(out)];
        fn pick_categories(weights: View, draws: View, replacement: bool, out: View) -> Result<bool> =
            [dense(weights).of(DType::F64), dense(draws).of(DType::F64), result(out).of(DType::I64)];
        fn triangle(x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> =
            [dense(x).of(out.dtype).shaped(out), result(out)];
        fn cross(x: View, y: View, d: ReduceDims, out: View) -> Result<()> =
            [dense(x).of(out.dtype).shaped(out), dense(y).of(out.dtype).shaped(out), result(out)];

        // ---- along a dimension

        fn reduce(op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> = [
            reduced(op, x).count(d.len()),
            if let ReduceOp::All | ReduceOp::Any = op { result(out).of_bytes() } else { result(out).of(sum_of(op, x)) }
                .count(d.lanes()),
        ];
        fn reduce_formula(fold: &Fold, out: View) -> Result<()> = [
            views(fold.of.operands).map(|v| strided(v).sized(fold.shape)),
            fold.then.iter().flat_map(|a| views(a.operands)).map(|v| strided(v).count(out.layout.numel())),
            result(out).of(fold.reduced()).count(fold.dims.lanes()),
        ];
        fn norm_of_all(order: f64, tensors: &[View], out: View) -> Result<()> =
            [tensors.iter().map(|v| strided(*v)), strided_result(out).count(1)];
        fn extremum(largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()> = [
            dense(x).count(d.len()), result(values).of(x.dtype).count(d.lanes()),
            result(indices).of(DType::I64).count(d.lanes()),
        ];
        fn moments(x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> = [
            dense(x).count(d.len()), result(mean).of(x.dtype).count(d.lanes()),
            result(squares).of(x.dtype).count(d.lanes()),
        ];
        fn scan(what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()> = [
            dense(x).count(d.len()),
            result(out).of(if out.dtype == DType::I64 { DType::I64 } else { x.dtype }).count(d.len()),
        ];
        fn scan_extremum(x: View, d: ReduceDims, largest: bool, values: View, indices: View) -> Result<()> = [
            dense(x).count(d.len()), result(values).of(x.dtype).count(d.len()),
            result(indices).of(DType::I64).count(d.len()),
        ];
        fn sort(x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()> = [
            dense(x), result(values).of(x.dtype).count(x.layout.numel()),
            result(indices).of(DType::I64).count(x.layout.numel()),
        ];
        fn topk(
            x: View, n: usize, k: usize, largest: bool, sorted: bool, values: View, indices: View,
        ) -> Result<()> = [
            dense(x), result(values).of(x.dtype).count(rows(x, n) * k),
            result(indices).of(DType::I64).count(rows(x, n) * k),
        ];
        fn kthvalue(x: View, n: usize, k: usize, values: View, indices: View) -> Result<()> = [
            dense(x), result(values).of(x.dtype).count(rows(x, n)), result(indices).of(DType::I64).count(rows(x, n)),
        ];
        fn searchsorted(
            sorted: View, n: usize, sorter: Option<View>, values: View, m: usize, right: bool, out: View,
        ) -> Result<()> = [
            dense(sorted), sorter.map(|v| dense(v).of(DType::I64).count(sorted.layout.numel())),
            dense(values).of(sorted.dtype), result(out).of(DType::I64).count(values.layout.numel()),
        ];
        fn row_order(x: View, n: usize, order: View) -> Result<bool> =
            [dense(x), result(order).of(DType::I64).count(rows(x, n))];
        fn order_statistic(what: Statistic, x: View, n: usize, values: View, indices: View) -> Result<bool> = [
            dense(x), result(values).of(x.dtype).count(rows(x, n)), result(indices).of(DType::I64).count(rows(x, n)),
        ];
        fn quantile_ranks(
            sorted: View, d: ReduceDims, q: View, how: Interpolation, ignore_nan: bool, out: QuantileRanks,
        ) -> Result<bool> = [
            strided(sorted).count(d.len()), strided(q),
            [out.lower, out.upper].map(|v| result(v).of(DType::I64).count(d.lanes() * q.layout.numel())),
            [out.weight, out.scale].map(|v| result(v).of(DType::F64).count(d.lanes() * q.layout.numel())),
        ];
        fn softmax(kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> =
            [dense(x).count(d.len()), result(out).of(x.dtype).count(d.len())];
        fn softmax_backward(kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> =
            [[g, y].map(|v| dense(v).of(out.dtype).count(d.len())), result(out).count(d.len())];
        fn nll(logp: View, d: ReduceDims, targets: Targets, losses: View) -> Result<TotalWeight> = [
            dense(logp).count(d.len()), selected(&targets, d, beside(logp.dtype)),
            result(losses).of(beside(logp.dtype)).count(d.lanes()),
        ];
        fn nll_backward(
            g: View, logp: View, d: ReduceDims, targets: Targets, logits: bool, out: View,
        ) -> Result<()> = [
            dense(g).of(beside(out.dtype)).count(if g.layout.numel() == 1 { 1 } else { d.lanes() }),
            logits.then(|| dense(logp).of(out.dtype).count(d.len())), selected(&targets, d, beside(out.dtype)),
            result(out).count(d.len()),
        ];

        // ---- positions that data decide

        fn gather(x: View, grid: &IndexGrid, out: View) -> Result<()> =
            [strided(x), picks(grid), result(out).of(x.dtype).count(picked(grid))];
        fn scatter(x: View, grid: &IndexGrid, values: View, how: Combine) -> Result<()> =
            [met(x, how), picks(grid), dense(values).of(x.dtype).count(picked(grid))];
        fn gather_along(x: View, dim: usize, pick: Pick, out: View) -> Result<()> =
            [strided(x), dense(pick.index).of(DType::I64).count(out.layout.numel()), result(out).of(x.dtype)];
        fn scatter_along(out: View, dim: usize, pick: Pick, src: View, how: Combine) -> Result<()> =
            [strided(src).of(out.dtype), dense(pick.index).of(DType::I64), met(out, how)];
        fn sum_rows(
            g: View, index: View, padding: Option<usize>, by_frequency: bool, out: View,
        ) -> Result<()> = [
            dense(g).of(out.dtype).count(index.layout.numel() * out.layout.shape[1]),
            dense(index).of(DType::I64), result(out),
        ];
        fn sum_bags(table: View, index: View, factors: Option<View>, out: View) -> Result<bool> = [
            dense(table).of(out.dtype), dense(index).of(DType::I64),
            factors.map(|v| dense(v).of(out.dtype).count(index.layout.numel())), result(out),
        ];
        fn bincount(index: View, counts: View) -> Result<bool> =
            [dense(index).of(DType::I64), updated(counts).of(DType::I64)];
        fn find(mask: View) -> Result<Found> = [dense(mask).of_bytes()];
        fn positions(mask: View, found: &Found, out: View) -> Result<()> =
            [dense(mask).of_bytes(), result(out).of(DType::I64).count(found.count())];
        fn compress(x: View, mask: View, found: &Found, out: View) -> Result<()> = [
            dense(x).count(mask.layout.numel()), dense(mask).of_bytes(), result(out).of(x.dtype).count(found.count()),
        ];
        fn expand(values: View, mask: View, found: &Found, out: View) -> Result<()> = [
            dense(values).of(out.dtype), dense(mask).of_bytes().count(out.layout.numel()), updated(out),
        ];
        fn fill_masked(out: View, mask: View, value: Scalar) -> Result<()> =
            [dense(mask).of_bytes().count(out.layout.numel()), updated(out)];
        fn unravel(positions: View, step: usize, size: usize, out: View) -> Result<()> = [
            dense(positions).of(DType::I64), result(out).of(DType::I64).count(positions.layout.numel()),
        ];
        fn first_outside(indices: View, n: i64) -> Result<Option<i64>> = [dense(indices).of(DType::I64)];

        // ---- products, windows, matrices

        fn matmul(a: View, b: View, bias: Option<View>, out: View) -> Result<()> = [
            [a, b].map(|v| strided(v).of(out.dtype).ascending()),
            bias.map(|v| dense(v).of(out.dtype).count(columns(b))),
            result(out).count(lanes(a) * columns(b)),
        ];
        fn lstm(r: Recurrence, input: View, weights: Weights, steps: Steps) -> Result<bool> = [
            [dense(input).count(r.steps * r.features * r.batch)],
            [dense(weights.input).count(4 * r.hidden * r.features), dense(weights.state).count(4 * r.hidden * r.hidden)],
            weights.biases.into_iter().flatten().map(|b| dense(b).count(4 * r.hidden)),
            [result(steps.gates).of(input.dtype).count(r.kept(steps.gates))],
            // The first states are given.
            [steps.cell, steps.out].map(|v| overwritten(v).of(input.dtype).count((r.steps + 1) * r.batch * r.hidden)),
        ];
        fn lstm_backward(
            r: Recurrence, grad: View, weight: View, steps: Steps, slopes: View, states: [View; 2],
        ) -> Result<bool> = [
            [dense(grad).count(r.steps * r.batch * r.hidden), dense(weight).count(4 * r.hidden * r.hidden)],
            [dense(steps.gates).count(4 * r.steps * r.batch * r.hidden)],
            [dense(steps.cell).count((r.steps + 1) * r.batch * r.hidden)],
            [result(slopes).of(grad.dtype).count(4 * r.steps * r.batch * r.hidden)],
            [result(states[0]).of(grad.dtype).count(r.batch * r.hidden), updated(states[1]).of(grad.dtype)],
        ];
        fn gru(r: Recurrence, input: View, weights: Weights, steps: GruSteps) -> Result<bool> = [
            [dense(input).count(r.steps * r.features * r.batch)],
            [dense(weights.input).count(3 * r.hidden * r.features), dense(weights.state).count(3 * r.hidden * r.hidden)],
            weights.biases.into_iter().flatten().map(|b| dense(b).count(3 * r.hidden)),
            [result(steps.gates).of(input.dtype).count(r.kept(steps.gates))],
            // The first output is given.
            [overwritten(steps.out).of(input.dtype).count((r.steps + 1) * r.batch * r.hidden)],
        ];
        fn gru_backward(
            r: Recurrence, grad: View, weight: View, steps: GruSteps, grads: GruGradients,
        ) -> Result<bool> = [
            [dense(grad).count(r.steps * r.batch * r.hidden), dense(weight).count(3 * r.hidden * r.hidden)],
            [dense(steps.gates).count(4 * r.steps * r.batch * r.hidden)],
            [dense(steps.out).count((r.steps + 1) * r.batch * r.hidden)],
            [result(grads.slopes).of(grad.dtype).count(4 * r.steps * r.batch * r.hidden)],
            [result(grads.state).of(grad.dtype).count(r.batch * r.hidden)],
        ];
        fn attention(a: &Attention, out: View, lse: View) -> Result<bool> = [
            a.views().map(strided), strided_result(out).of(a.query.dtype).count(lanes(a.query) * columns(a.value)),
            result(lse).of(a.query.dtype).count(lanes(a.query)),
        ];
        fn attention_backward(
            a: &Attention, out: View, lse: View, grad: View, grads: [View; 3],
        ) -> Result<bool> = [
            a.views().map(strided), [out, grad].map(|v| strided(v).count(lanes(a.query) * columns(a.value))),
            [dense(lse).count(lanes(a.query))],
            [a.query, a.key, a.value].into_iter().zip(grads).map(|(v, g)| result(g).of(v.dtype).shaped(v)),
        ];
        fn convolution(
            which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View,
        ) -> Result<()> = [
            [(a, 0), (b, 1)].map(|(v, i)| dense(v).of(out.dtype).count(sizes(which, s)[i])),
            bias.map(|v| dense(v).of(out.dtype).count(s.c_out)), result(out).count(sizes(which, s)[2]),
        ];
        fn convolution_bias(s: &ConvShape, g: View, out: View) -> Result<()> =
            [dense(g).of(out.dtype).count(sizes(Product::Output, s)[2]), result(out).count(s.c_out)];
        fn max_pool(s: &PoolShape, x: View, out: View, indices: View) -> Result<()> = [
            dense(x).count(s.planes * volume(s.input)), result(out).of(x.dtype).count(s.planes * volume(s.output)),
            result(indices).of(DType::I64).count(s.planes * volume(s.output)),
        ];
        fn adaptive_max_pool(s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> = [
            dense(x).count(s.planes * volume(s.input)), result(out).of(x.dtype).count(s.planes * volume(s.output)),
            result(indices).of(DType::I64).count(s.planes * volume(s.output)),
        ];
        fn resample(map: &SpatialLinearMap, x: View, out: View) -> Result<()> = [
            dense(x).of(out.dtype), chosen(map, out),
            result(out).count(x.layout.numel() / planes(map).0.max(1) * planes(map).1),
        ];
        fn resample_adjoint(map: &SpatialLinearMap, g: View, out: View) -> Result<()> = [
            dense(g).of(out.dtype), chosen(map, g),
            result(out).count(g.layout.numel() / planes(map).1.max(1) * planes(map).0),
        ];
        fn ctc(s: &Sequences, log_probs: View, labels: View, losses: View, alpha: View) -> Result<bool> = [
            dense(log_probs), dense(labels).of(DType::I64), result(losses).of(log_probs.dtype).count(s.count()),
            result(alpha).of(log_probs.dtype),
        ];
        fn ctc_backward(s: &Sequences, grad: View, inputs: [View; 4], zero_infinity: bool, out: View) -> Result<bool> = [
            dense(grad).of(out.dtype).count(s.count()), dense(inputs[0]).of(out.dtype).count(out.layout.numel()),
            dense(inputs[1]).of(DType::I64), dense(inputs[2]).of(out.dtype).count(s.count()), dense(inputs[3]).of(out.dtype),
            result(out),
        ];
        fn sample(how: Sampling, images: View, grid: View, out: View) -> Result<bool> =
            [dense(images).of(out.dtype), dense(grid).of(out.dtype), result(out)];
        fn sample_backward(
            how: Sampling, grad: View, images: View, grid: View, of_images: Option<View>, of_grid: Option<View>,
        ) -> Result<bool> = [
            dense(grad), dense(images).of(grad.dtype), dense(grid).of(grad.dtype),
            of_images.map(|v| result(v).of(grad.dtype).count(images.layout.numel())),
            of_grid.map(|v| result(v).of(grad.dtype).count(grid.layout.numel())),
        ];
        // Right sides lie in the places of the solutions, beside what is only written.
        fn factor(op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> =
            [dense(a).of(DType::F64), result(out).of(DType::F64)];
        fn svd(m: &Matrices, w: View, out: View) -> Result<()> = [
            dense(w).of(DType::F64).count(m.count * m.rows * m.columns),
            result(out).of(DType::F64).count(m.count * m.each()),
        ];

        // ---- normalisation and optimizers

        fn norm_forward(
            kind: Norm, x: View, affine: [Option<View>; 2], eps: f64, out: View, stats: Stats,
        ) -> Result<bool> = [
            dense(x).of(out.dtype).shaped(out),
            affine.into_iter().flatten().map(|v| dense(v).of(beside(x.dtype)).count(channels(kind, x).1)),
            // Statistics of a batch are made in training, else given.
            [Some(stats.mean), stats.var].into_iter().flatten().map(|v| match kind {
                Norm::Batch { training: false, .. } => dense(v),
                _ => result(v),
            }.of(beside(x.dtype)).count(channels(kind, x).0)),
            result(stats.rstd).of(beside(x.dtype)).count(channels(kind, x).0),
            result(out),
        ];
        fn norm_moments(kind: Norm, x: View, mean: View, var: View) -> Result<bool> = [
            dense(x),
            [mean, var].map(|v| result(v).of(x.dtype).count(channels(kind, x).0)),
        ];
        fn norm_backward(
            kind: Norm, g: View, x: View, stats: [View; 2], weight: Option<View>, out: [View; 3],
        ) -> Result<Made> = [
            [g, x].map(|v| dense(v).of(x.dtype).count(x.layout.numel())),
            stats.map(|v| dense(v).of(beside(x.dtype)).count(channels(kind, x).0)),
            weight.map(|v| dense(v).of(beside(x.dtype)).count(channels(kind, x).1)),
            result(out[0]).of(x.dtype).count(x.layout.numel()),
            [out[1], out[2]].map(|v| result(v).of(beside(x.dtype)).count(channels(kind, x).1)),
        ];
        fn follow(old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> =
            [[old, new].map(|v| strided(v).count(out.layout.numel()).or_output()), strided_result(out)];
        fn optimizer_step(groups: &[Group]) -> Result<()> = [
            groups.iter().flat_map(|g| g.parts).map(|p| strided(p.gradient()).shaped(p.written()[0]).anywhere()),
            groups.iter().flat_map(stepped).map(Seen::anywhere),
        ];
        fn scale(tensors: &[View], factor: View, found: Option<View>) -> Result<()> = [
            tensors.iter().map(|v| strided_update(*v).anywhere()), strided(factor).count(1),
            found.map(|v| strided_update(v).count(1)),
        ];
    }
}

fn views<'a>(operands: &[Operand<'a>]) -> impl Iterator<Item = View<'a>> {
    operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None })
}

fn reduced(op: ReduceOp, x: View<'_>) -> Seen<'_> {
    match op {
        ReduceOp::All | ReduceOp::Any if x.dtype.size() == 1 => dense(x),
        ReduceOp::All | ReduceOp::Any => dense(x).of(DType::Bool),
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min => dense(x),
        _ if x.dtype.is_float() => dense(x),
        _ => dense(x).of(DType::I64),
    }
}

/// The dtype of the result of a reduction, truth aside.
fn sum_of(op: ReduceOp, x: View) -> DType {
    match op {
        ReduceOp::Sum if !x.dtype.is_float() => DType::I64,
        ReduceOp::Max | ReduceOp::Min if !x.dtype.is_float() => extremum_of_integers(x.dtype),
        ReduceOp::Max | ReduceOp::Min => x.dtype,
        _ => beside(x.dtype),
    }
}

/// The dtype of sums, statistics and parameters beside elements of a floating point dtype.
fn beside(dtype: DType) -> DType {
    if dtype.is_half() { DType::F32 } else { dtype }
}

fn rows(x: View, n: usize) -> usize {
    x.layout.numel().checked_div(n).unwrap_or(0)
}

/// Rows of all matrices of a batch.
fn lanes(v: View) -> usize {
    v.layout.shape.split_last().map_or(1, |(_, outer)| outer.iter().product())
}

fn columns(v: View) -> usize {
    v.layout.shape.last().copied().unwrap_or(1)
}

fn selected<'a>(t: &Targets<'a>, d: ReduceDims, dtype: DType) -> impl Iterator<Item = Seen<'a>> {
    [dense(t.class).of(DType::I64).count(d.lanes())]
        .into_iter()
        .chain(t.weight.map(|v| dense(v).of(dtype).count(d.n)))
}

fn picks<'a>(grid: &IndexGrid<'a>) -> impl Iterator<Item = Seen<'a>> {
    let n = grid.n;
    grid.picks.iter().map(move |p| dense(p.index).of(DType::I64).count(n))
}

/// Elements that a grid picks.
fn picked(grid: &IndexGrid) -> usize {
    grid.before.numel() * grid.n * grid.after.numel()
}

/// Elements of the two operands and the result of a product of a convolution.
fn sizes(which: Product, s: &ConvShape) -> [usize; 3] {
    let x = s.n * s.c_in * volume(s.input);
    let w = s.c_out * (s.c_in / s.groups.max(1)) * volume(s.kernel);
    let y = s.n * s.c_out * volume(s.output);
    match which {
        Product::Output => [x, w, y],
        Product::Input => [y, w, x],
        Product::Weight => [y, x, w],
    }
}

/// Elements of a plane before and after a map.
fn planes(map: &SpatialLinearMap) -> (usize, usize) {
    match map {
        SpatialLinearMap::Average(s, _) => (volume(s.input), volume(s.output)),
        SpatialLinearMap::AdaptiveAverage(s) | SpatialLinearMap::Nearest(s, _) => {
            (volume(s.input), volume(s.output))
        }
        SpatialLinearMap::Axis { n, inner, taps } => (n * inner, taps.len() * inner),
        SpatialLinearMap::Pick { windows, .. } => windows.volumes(),
    }
}

/// What values are combined with.
fn met(v: View<'_>, how: Combine) -> Seen<'_> {
    if how == Combine::Set { overwritten(v) } else { strided_update(v) }
}

/// What a step writes; of a state that starts with this step, the formula reads nothing.
fn stepped<'a>(g: &Group<'_, 'a>) -> Vec<Seen<'a>> {
    let formula = g.rule.formula();
    let tensors =
        g.parts.iter().flat_map(|p| p.written().iter().enumerate().map(|(k, v)| (k, *v, p.written()[0])));
    tensors
        .map(|(k, v, first)| {
            if formula.reads(1 + k) { strided_update(v) } else { strided_result(v) }.shaped(first)
        })
        .collect()
}

/// The indices of a map, one for each result.
fn chosen<'a>(map: &SpatialLinearMap<'a>, results: View) -> Option<Seen<'a>> {
    match map {
        SpatialLinearMap::Pick { indices, .. } => {
            Some(dense(*indices).of(DType::I64).count(results.layout.numel()))
        }
        _ => None,
    }
}

/// How many statistics there are, and how many weights.
fn channels(kind: Norm, x: View) -> (usize, usize) {
    match kind {
        Norm::Layer { n } => (rows(x, n), n),
        Norm::Group { n, c, groups, .. } => (n * groups, c),
        Norm::Batch { c, .. } => (c, c),
    }
}

#[cfg(test)]
mod tests;
