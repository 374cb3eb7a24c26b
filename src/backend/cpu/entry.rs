//! The CPU [`Backend`]: turns views into slices and selects the kernel for the dtype.

/// Instantiates a block for the dtype of a view, which is float32 or float64.
macro_rules! real {
    ($op:literal, $v:expr, $T:ident => $body:expr) => {
        with_dtype!(float $v.dtype, $T => $body, else bail!(Error::DtypeNotImplemented { op: $op, dtype: $v.dtype }))
    };
}

mod likelihoods;
mod norms;
mod products;
mod windows;

use super::parallel::for_chunks_mut;
use super::{
    Cpu, attention, choice, conv, copy, cross, ctc, fused, index, inspect, interpret, machine, norm, optim,
    order, pointwise, pool, random, recurrent, reduce, scan, sort, svd, triangular,
};
use crate::backend::attention::Attention;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::ctc::Sequences;
use crate::backend::factor::Factor;
use crate::backend::group::{Fusion, Group, Producer};
use crate::backend::index::{BoundsPolicy, Combine, Found, IndexGrid, Pick};
use crate::backend::inspect::Question;
use crate::backend::interface::Backend;
use crate::backend::norm::{Made, Stats};
use crate::backend::optim::Group as Optimized;
use crate::backend::plane::{PoolShape, ResizeShape, SpatialLinearMap};
use crate::backend::pointwise::{Operand, Primitives, Program, compute_type};
use crate::backend::random::{Draw, Philox};
use crate::backend::recurrent::{GruGradients, GruSteps, Recurrence, Steps, Weights};
use crate::backend::reduce::{Fold, ReduceDims, ReduceOp, in_turn};
use crate::backend::sampling::Sampling;
use crate::backend::scan::Running;
use crate::backend::softmax::{Kind, Targets, TotalWeight};
use crate::backend::sort::{Interpolation, QuantileRanks, Statistic};
use crate::backend::svd::Matrices;
use crate::backend::threads::num_threads;
use crate::backend::{View, elements, results};
use crate::device::Device;
use crate::dtype::{Bool8, DType, Real, Scalar};
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::layout::Layout;
use crate::storage::Storage;
use crate::{bail, ensure, with_dtype};

impl Backend for Cpu {
    // ---- memory

    fn allocate(&self, _: Device, bytes: usize) -> Result<Storage> {
        Storage::new(bytes)
    }

    fn download(&self, src: View) -> Result<Storage> {
        let layout = Layout::contiguous(src.layout.shape.clone());
        let host = Storage::new(layout.numel() * src.dtype.size())?;
        self.copy(src, View { storage: &host, layout: &layout, dtype: src.dtype })?;
        Ok(host)
    }

    fn upload(&self, src: View, out: View) -> Result<()> {
        self.copy(src, out)
    }

    fn synchronize(&self, _: Device) -> Result<()> {
        Ok(())
    }

    // ---- capabilities

    fn computes(&self, _: Device, _: DType) -> bool {
        true
    }

    fn factor_dtype(&self, _: View) -> Result<DType> {
        Ok(DType::F64)
    }

    fn svd_dtype(&self, _: View) -> Result<DType> {
        Ok(DType::F64)
    }

    fn overwrites_factored(&self) -> bool {
        false
    }

    fn sort_dtype(&self, dtype: DType) -> DType {
        dtype.ordered()
    }

    fn extremum_dtype(&self, dtype: DType) -> DType {
        dtype.ordered()
    }

    /// Any byte but 0 is true.
    fn truth_dtype(&self, dtype: DType) -> DType {
        if matches!(dtype, DType::U8 | DType::I8) { dtype } else { DType::Bool }
    }

    fn integer_dtype(&self, op: ReduceOp, dtype: DType) -> DType {
        match (op, dtype) {
            (ReduceOp::Product, _) => DType::I64,
            (_, DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32) => dtype,
            _ => DType::I64,
        }
    }

    fn product_dtype(&self, a: View, b: View) -> DType {
        products::product_dtype(a, b)
    }

    fn accumulate_dtype(&self, dtype: DType) -> DType {
        match dtype {
            DType::F32 => DType::F64,
            d if d.is_half() => DType::F32,
            d => d,
        }
    }

    fn fusion(&self) -> Fusion {
        Fusion {
            reductions: true,
            softmax: true,
            parts: true,
            columns: num_threads(),
            totals: false,
            integers: true,
            long_rows: true,
            norms: if machine::is_enabled() { machine::LANES } else { 0 },
            apart: true,
            tiles: true,
        }
    }

    fn produces(&self, producer: &Producer, dtype: DType) -> bool {
        fused::has_pieces(producer, dtype)
    }

    fn known(&self, question: Question, x: View) -> Result<Option<bool>> {
        Ok(Some(inspect::answer(question, x)))
    }

    // ---- pointwise

    fn copy(&self, src: View, out: View) -> Result<()> {
        copy::copy(src, out)
    }

    fn fill(&self, out: View, value: Scalar) -> Result<()> {
        copy::fill(out, value)
    }

    fn accumulate(&self, src: View, out: View) -> Result<()> {
        copy::accumulate(src, out)
    }

    fn interleave(&self, parts: &[View], out: View) -> Result<bool> {
        copy::interleave(parts, out)
    }

    fn pointwise(
        &self,
        program: &Program,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        out: View,
    ) -> Result<bool> {
        Ok(fused::alone::run(program, compute, operands, params, out)?
            || pointwise::run(program.kernel, compute, operands, params, out)?)
    }

    fn pointwise_all(
        &self,
        name: &'static str,
        formula: &Formula,
        primitives: Primitives,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        outs: &[View],
    ) -> Result<()> {
        let done = interpret::run(formula, primitives, compute, operands, params, outs)?;
        ensure!(done, NotImplemented, "a step of '{name}' is not defined in {}", compute.name());
        Ok(())
    }

    fn fused(&self, group: &Group) -> Result<bool> {
        fused::run(group)
    }

    fn expect_divisors(&self, x: View) -> Result<()> {
        let zero = with_dtype!(bits x.dtype, T => elements::<T>(x).contains(&0));
        ensure!(!zero, Error::ZeroDivision);
        Ok(())
    }

    fn integer_power(&self, base: View, exponent: View, out: View) -> Result<()> {
        pointwise::integer_power(elements(base), elements(exponent), &mut results(out)?);
        Ok(())
    }

    fn random(&self, draw: Draw, p: Philox, out: View) -> Result<()> {
        use random::{fill_bernoulli_u8, fill_exponential, fill_int, fill_normal, fill_uniform};
        match draw {
            Draw::Bernoulli(prob) => fill_bernoulli_u8(p, prob, &mut results(out)?),
            Draw::Integers(from, to) => fill_int::<i64>(p, from, to, &mut results(out)?),
            _ => real!("random", out, T => {
                let out = &mut *results::<T>(out)?;
                match draw {
                    Draw::Uniform(from, to) => fill_uniform(p, from, to, out),
                    Draw::Normal(mean, std) => fill_normal(p, mean, std, out),
                    Draw::Exponential(rate) => fill_exponential(p, rate, out),
                    Draw::Bernoulli(_) | Draw::Integers(..) => {}
                }
            }),
        }
        Ok(())
    }

    fn bernoulli_each(&self, p: Philox, probs: View, out: View) -> Result<()> {
        real!("bernoulli", out, T => random::fill_bernoulli_each::<T>(p, elements(probs), &mut results(out)?));
        Ok(())
    }

    fn dropout(&self, x: View, mask: View, scale: f64, out: View) -> Result<()> {
        with_dtype!(float compute_type(out.dtype), T => {
            choice::dropout(x, elements(mask), T::of(scale), out)?;
        }, else bail!(Error::DtypeNotImplemented { op: "dropout", dtype: out.dtype }));
        Ok(())
    }

    fn pick_categories(&self, weights: View, draws: View, replacement: bool, out: View) -> Result<bool> {
        let (weights, draws, chosen) = (elements(weights), elements(draws), &mut *results(out)?);
        choice::categories(
            weights,
            draws,
            replacement,
            out.layout.shape.last().copied().unwrap_or(1),
            chosen,
        );
        Ok(true)
    }

    fn triangle(&self, x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
        with_dtype!(bits x.dtype, T => triangular::triangle::<T>(elements(x), rows, columns, k, lower, &mut results(out)?));
        Ok(())
    }

    fn crosses(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64)
    }

    fn cross(&self, x: View, y: View, d: ReduceDims, out: View) -> Result<()> {
        real!("cross", out, T => cross::cross::<T>(elements(x), elements(y), d, &mut results(out)?));
        Ok(())
    }

    // ---- along a dimension

    fn reduce(&self, op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> {
        match op {
            ReduceOp::All | ReduceOp::Any => {
                let (x, out) = (elements(View { dtype: DType::Bool, ..x }), &mut *results(out)?);
                if op == ReduceOp::All {
                    reduce::all::<Bool8>(x, d, out)
                } else {
                    reduce::any::<Bool8>(x, d, out)
                }
            }
            ReduceOp::Max | ReduceOp::Min if !x.dtype.is_float() => {
                reduce::integers::extremum(x, d, op == ReduceOp::Max, out)?
            }
            ReduceOp::Max | ReduceOp::Min => real!("reduction", x, T => {
                reduce::extremum::<T>(elements(x), d, op == ReduceOp::Max, &mut results(out)?, None)
            }),
            ReduceOp::Sum if !x.dtype.is_float() => reduce::integers::sum(x, d, out)?,
            ReduceOp::Product if !x.dtype.is_float() => {
                reduce::prod_int::<i64>(elements(x), d, &mut results(out)?)
            }
            _ if x.dtype.is_half() => {
                let done = with_dtype!(half x.dtype, T => reduce::of_halves::<T>(op, elements(x), d, out)?);
                ensure!(done, Error::DtypeNotImplemented { op: "reduction", dtype: x.dtype });
            }
            _ => real!("reduction", x, T => {
                let (x, out) = (elements::<T>(x), &mut *results::<T>(out)?);
                match op {
                    ReduceOp::Product => reduce::prod::<T>(x, d, out),
                    ReduceOp::Norm(p) => reduce::norm_p::<T>(p, x, d, out),
                    ReduceOp::LogSumExp => reduce::logsumexp::<T>(x, d, out),
                    _ => reduce::sum::<T>(x, d, out),
                }
            }),
        }
        Ok(())
    }

    fn reduces_halves(&self) -> bool {
        true
    }

    fn takes_halves(&self) -> bool {
        true
    }

    /// Fewer lie in the cache after the first loop.
    fn folds_from(&self) -> usize {
        1 << 16
    }

    fn reduce_formula(&self, fold: &Fold, out: View) -> Result<()> {
        if reduce::formula(fold, out)? { Ok(()) } else { in_turn(self, fold, out) }
    }

    fn norm_of_all(&self, order: f64, tensors: &[View], out: View) -> Result<()> {
        copy::fill(out, Scalar::Float(optim::norm_of_all(order, tensors)))?;
        Ok(())
    }

    fn extremum(&self, largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()> {
        with_dtype!(ordered x.dtype, T => {
            reduce::extremum::<T>(elements(x), d, largest, &mut results(values)?, Some(&mut *results(indices)?))
        });
        Ok(())
    }

    fn moments(&self, x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> {
        real!("std_var", x, T => reduce::moments::<T>(elements(x), d, &mut results(mean)?, &mut results(squares)?));
        Ok(())
    }

    fn scan(&self, what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()> {
        if out.dtype == DType::I64 {
            with_dtype!(whole x.dtype, T => match what {
                Running::Product => scan::cumprod_int::<T>(elements(x), d, &mut results(out)?),
                Running::Sum | Running::LogSumExp => scan::cumsum_int::<T>(elements(x), d, reverse, &mut results(out)?),
            });
            return Ok(());
        }
        real!("scan", out, T => match what {
            Running::Sum => scan::cumsum::<T>(elements(x), d, reverse, &mut results(out)?),
            Running::Product => scan::cumprod::<T>(elements(x), d, &mut results(out)?),
            Running::LogSumExp => scan::logcumsumexp::<T>(elements(x), d, &mut results(out)?),
        });
        Ok(())
    }

    fn scan_extremum(
        &self,
        x: View,
        d: ReduceDims,
        largest: bool,
        values: View,
        indices: View,
    ) -> Result<()> {
        with_dtype!(ordered x.dtype, T => {
            scan::cum_extremum::<T>(elements(x), d, largest, &mut results(values)?, &mut results(indices)?);
        });
        Ok(())
    }

    fn sort(&self, x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()> {
        with_dtype!(ordered x.dtype, T => {
            sort::sort::<T>(elements(x), n, descending, &mut results(values)?, &mut results(indices)?);
        });
        Ok(())
    }

    fn topk(
        &self,
        x: View,
        n: usize,
        k: usize,
        largest: bool,
        sorted: bool,
        values: View,
        indices: View,
    ) -> Result<()> {
        with_dtype!(ordered x.dtype, T => {
            sort::topk::<T>(elements(x), n, k, largest, sorted, &mut results(values)?, &mut results(indices)?);
        });
        Ok(())
    }

    fn kthvalue(&self, x: View, n: usize, k: usize, values: View, indices: View) -> Result<()> {
        with_dtype!(ordered x.dtype, T => {
            sort::kthvalue::<T>(elements(x), n, k, &mut results(values)?, &mut results(indices)?);
        });
        Ok(())
    }

    fn searchsorted(
        &self,
        sorted: View,
        n: usize,
        sorter: Option<View>,
        values: View,
        m: usize,
        right: bool,
        out: View,
    ) -> Result<()> {
        let order = sorter.map(elements::<i64>);
        if let Some(bad) = order.and_then(|o| o.iter().find(|&&i| i < 0 || i as usize >= n)) {
            bail!(Index, "torch.searchsorted(): sorter index {bad} out of range");
        }
        with_dtype!(ordered sorted.dtype, T => {
            sort::searchsorted::<T>(elements(sorted), n, order, elements(values), m, right, &mut results(out)?);
        });
        Ok(())
    }

    fn row_order(&self, x: View, n: usize, order: View) -> Result<bool> {
        with_dtype!(ordered x.dtype, T => order::of_rows::<T>(elements(x), n, &mut results(order)?));
        Ok(true)
    }

    fn order_statistic(
        &self,
        what: Statistic,
        x: View,
        n: usize,
        values: View,
        indices: View,
    ) -> Result<bool> {
        with_dtype!(ordered x.dtype, T => order::choose::<T>(what, elements(x), n, &mut results(values)?, &mut results(indices)?));
        Ok(true)
    }

    fn quantile_ranks(
        &self,
        sorted: View,
        d: ReduceDims,
        q: View,
        how: Interpolation,
        ignore_nan: bool,
        out: QuantileRanks,
    ) -> Result<bool> {
        order::quantile_ranks(sorted, d, q, how, ignore_nan, out)?;
        Ok(true)
    }

    fn softmax(&self, kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
        likelihoods::softmax(kind, x, d, out)
    }

    fn softmax_backward(&self, kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
        likelihoods::softmax_backward(kind, g, y, d, out)
    }

    fn nll(&self, logp: View, d: ReduceDims, targets: Targets, losses: View) -> Result<TotalWeight> {
        likelihoods::nll(logp, d, targets, losses)
    }

    fn nll_backward(
        &self,
        g: View,
        logp: View,
        d: ReduceDims,
        targets: Targets,
        logits: bool,
        out: View,
    ) -> Result<()> {
        likelihoods::nll_backward(g, logp, d, targets, logits, out)
    }

    // ---- indexing

    fn gather(&self, x: View, grid: &IndexGrid, out: View) -> Result<()> {
        index::on_host_grid(
            grid,
            out,
            |g| with_dtype!(bits x.dtype, T => results(out).map(|mut out| index::gather::<T>(x.storage, g, &mut out))),
        )
    }

    fn scatter(&self, x: View, grid: &IndexGrid, values: View, how: Combine) -> Result<()> {
        index::on_host_grid(grid, x, |g| index::scatter(x, g, values, how))
    }

    fn gather_along(&self, x: View, dim: usize, pick: Pick, out: View) -> Result<()> {
        index::expect_in_bounds(&pick)?;
        let shape = &pick.index.layout.shape;
        with_dtype!(bits x.dtype, T => index::gather_along::<T>(x, dim, shape, elements(pick.index), &mut results(out)?));
        Ok(())
    }

    fn scatter_along(&self, out: View, dim: usize, pick: Pick, src: View, how: Combine) -> Result<()> {
        index::expect_in_bounds(&pick)?;
        index::scatter_along(out, dim, &pick.index.layout.shape, elements(pick.index), src, how)
    }

    fn sum_bags(&self, table: View, index: View, factors: Option<View>, out: View) -> Result<bool> {
        let [count, features] = table.layout.shape[..] else { return Ok(false) };
        let rule = BoundsPolicy::Listed;
        index::expect_in_bounds(&Pick { index, size: count, stride: 1, rule })?;
        let length = index.layout.shape.last().copied().unwrap_or(0);
        let bags = index::Bags { index: elements(index), length, features };
        real!("bag_sums", out, T => bags.sum::<T>(elements(table), factors.map(elements), &mut results(out)?));
        Ok(true)
    }

    fn bincount(&self, index: View, counts: View) -> Result<bool> {
        index::bincount(elements(index), &mut results(counts)?);
        Ok(true)
    }

    fn sum_rows(
        &self,
        g: View,
        index: View,
        padding: Option<usize>,
        by_frequency: bool,
        out: View,
    ) -> Result<()> {
        let width = out.layout.shape[1];
        let rows = index::RowSums { index: elements(index), width, padding, by_frequency };
        real!("embedding_dense_backward", out, T => rows.run::<T>(elements(g), &mut results(out)?));
        Ok(())
    }

    fn find(&self, mask: View) -> Result<Found> {
        Ok(Found::Host(index::mask_starts(elements(mask))))
    }

    fn positions(&self, mask: View, found: &Found, out: View) -> Result<()> {
        index::positions(elements(mask), found.starts(), &mut results(out)?);
        Ok(())
    }

    fn compress(&self, x: View, mask: View, found: &Found, out: View) -> Result<()> {
        let starts = found.starts();
        with_dtype!(bits x.dtype, T => index::compress::<T>(elements(x), elements(mask), starts, &mut results(out)?));
        Ok(())
    }

    fn expand(&self, values: View, mask: View, found: &Found, out: View) -> Result<()> {
        let starts = found.starts();
        with_dtype!(bits out.dtype, T => index::expand::<T>(elements(values), elements(mask), starts, &mut results(out)?));
        Ok(())
    }

    fn fill_masked(&self, out: View, mask: View, value: Scalar) -> Result<()> {
        index::fill_masked(out, elements::<Bool8>(mask), value)
    }

    fn unravel(&self, positions: View, step: usize, size: usize, out: View) -> Result<()> {
        index::unravel(elements::<i64>(positions), step as u64, size as u64, &mut results::<i64>(out)?);
        Ok(())
    }

    fn first_outside(&self, indices: View, n: i64) -> Result<Option<i64>> {
        Ok(elements::<i64>(indices).iter().copied().find(|i| !(0..n).contains(i)))
    }

    // ---- products, windows, matrices

    fn matmul(&self, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
        products::matmul(a, b, bias, out)
    }

    fn recurs(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64)
    }

    fn lstm(&self, r: Recurrence, input: View, weights: Weights, steps: Steps) -> Result<bool> {
        real!("lstm_layer", input, T => recurrent::lstm::<T>(r, input, weights, steps)).map(|()| true)
    }

    fn lstm_backward(
        &self,
        r: Recurrence,
        grad: View,
        weight: View,
        steps: Steps,
        slopes: View,
        states: [View; 2],
    ) -> Result<bool> {
        real!("lstm_layer", grad, T => recurrent::lstm_backward::<T>(r, grad, weight, steps, slopes, states))
            .map(|()| true)
    }

    fn gru(&self, r: Recurrence, input: View, weights: Weights, steps: GruSteps) -> Result<bool> {
        real!("gru_layer", input, T => recurrent::gru::<T>(r, input, weights, steps)).map(|()| true)
    }

    fn gru_backward(
        &self,
        r: Recurrence,
        grad: View,
        weight: View,
        steps: GruSteps,
        grads: GruGradients,
    ) -> Result<bool> {
        real!("gru_layer", grad, T => recurrent::gru_backward::<T>(r, grad, weight, steps, grads))
            .map(|()| true)
    }

    fn attends(&self, dtype: DType) -> bool {
        attention::attends(dtype)
    }

    fn attention(&self, a: &Attention, out: View, lse: View) -> Result<bool> {
        real!("attention", out, T => attention::forward::<T>(a, out, lse))
    }

    fn attention_backward(
        &self,
        a: &Attention,
        out: View,
        lse: View,
        grad: View,
        grads: [View; 3],
    ) -> Result<bool> {
        real!("attention_backward", out, T => attention::backward::<T>(a, out, lse, grad, grads))
    }

    fn convolution(
        &self,
        which: Product,
        s: &ConvShape,
        a: View,
        b: View,
        bias: Option<View>,
        out: View,
    ) -> Result<()> {
        windows::convolution(which, s, a, b, bias, out)
    }

    fn convolution_bias(&self, s: &ConvShape, g: View, out: View) -> Result<()> {
        real!("convolution", out, T => conv::backward_bias::<T>(s, elements(g), &mut results(out)?));
        Ok(())
    }

    fn max_pool(&self, s: &PoolShape, x: View, out: View, indices: View) -> Result<()> {
        real!("pooling", x, T => pool::max_pool::<T>(s, elements(x), &mut results(out)?, &mut results(indices)?));
        Ok(())
    }

    fn adaptive_max_pool(&self, s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> {
        real!("pooling", x, T => pool::adaptive_max_pool::<T>(s, elements(x), &mut results(out)?, &mut results(indices)?));
        Ok(())
    }

    fn resample(&self, map: &SpatialLinearMap, x: View, out: View) -> Result<()> {
        windows::resample(map, x, out)
    }

    fn resample_adjoint(&self, map: &SpatialLinearMap, g: View, out: View) -> Result<()> {
        windows::resample_adjoint(map, g, out)
    }

    fn ctc(&self, s: &Sequences, log_probs: View, labels: View, losses: View, alpha: View) -> Result<bool> {
        real!("ctc_loss", losses, T => {
            let (losses, alpha) = (&mut results::<T>(losses)?, &mut results(alpha)?);
            ctc::losses(s, elements(log_probs), elements(labels), losses, alpha);
        });
        Ok(true)
    }

    fn ctc_backward(
        &self,
        s: &Sequences,
        grad: View,
        [log_probs, labels, losses, alpha]: [View; 4],
        zero_infinity: bool,
        out: View,
    ) -> Result<bool> {
        real!("ctc_loss_backward", out, T => {
            let known = (elements(losses), elements(alpha));
            let (grad, labels) = (elements::<T>(grad), elements(labels));
            ctc::backward(s, grad, elements(log_probs), labels, known, zero_infinity, &mut results(out)?);
        });
        Ok(true)
    }

    fn sample(&self, how: Sampling, images: View, grid: View, out: View) -> Result<bool> {
        windows::sample(how, images, grid, out)
    }

    fn sample_backward(
        &self,
        how: Sampling,
        grad: View,
        images: View,
        grid: View,
        of_images: Option<View>,
        of_grid: Option<View>,
    ) -> Result<bool> {
        windows::sample_backward(how, grad, images, grid, of_images, of_grid)
    }

    fn factor(&self, _: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
        if out.layout.numel() > 0 {
            let a = elements::<f64>(a);
            let size = if let Factor::Qr { m, .. } | Factor::Lu { m } = what { m * n } else { n * n };
            for_chunks_mut(&mut results::<f64>(out)?, what.each(n), |i, out| {
                products::factor(what, n, &mut a[i * size..][..size].to_vec(), out);
            });
        }
        Ok(())
    }

    fn svd(&self, m: &Matrices, w: View, out: View) -> Result<()> {
        let w = elements::<f64>(w);
        let size = m.rows * m.columns;
        for_chunks_mut(&mut results::<f64>(out)?, m.each(), |i, out| {
            let (left, rest) = out.split_at_mut(m.left * m.rows);
            let (values, right) = rest.split_at_mut(m.columns);
            let factors = svd::Factors { left, values, right };
            svd::svd(w[i * size..][..size].to_vec(), m.rows, m.columns, factors);
        });
        Ok(())
    }

    // ---- normalization and optimizers

    fn norm_forward(
        &self,
        kind: norms::Kind,
        x: View,
        affine: [Option<View>; 2],
        eps: f64,
        out: View,
        stats: Stats,
    ) -> Result<bool> {
        norms::forward(kind, x, affine, eps, out, stats).map(|()| true)
    }

    fn norm_moments(&self, kind: norms::Kind, x: View, mean: View, var: View) -> Result<bool> {
        norms::norm_moments(kind, x, mean, var)
    }

    fn norm_backward(
        &self,
        kind: norms::Kind,
        g: View,
        x: View,
        stats: [View; 2],
        weight: Option<View>,
        out: [View; 3],
    ) -> Result<Made> {
        norms::backward(kind, g, x, stats, weight, out).map(|()| Made::All)
    }

    fn follow(&self, old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> {
        norm::follow(old, new, kept, taken, out)
    }

    fn optimizer_step(&self, groups: &[Optimized]) -> Result<()> {
        optim::step(groups)
    }

    fn scale(&self, tensors: &[View], factor: View, found: Option<View>) -> Result<()> {
        optim::scale(tensors, factor, found)
    }
}
