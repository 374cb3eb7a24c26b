//! The GPU as a [`Backend`].

use super::{
    conv, copy, device, divide, factor, index, mask, matmul, plane, pointwise, random, reduce, scan, softmax,
};
use super::{fused, group, norm, optim, sort, svd, triangle};
use crate::backend::conv::{ConvShape, Product};
use crate::backend::factor::Factor;
use crate::backend::group::{Fusion, Group as Fused};
use crate::backend::index::{Combine, Found, IndexGrid, Pick};
use crate::backend::interface::Backend;
use crate::backend::norm::{self as norms, Made, Stats};
use crate::backend::optim::Group;
use crate::backend::plane::{PoolShape, ResizeShape, SpatialLinearMap};
use crate::backend::pointwise::{Kernel, Operand, Primitives, Program};
use crate::backend::random::{Draw, Philox};
use crate::backend::reduce::{Fold, ReduceDims, ReduceOp, in_turn};
use crate::backend::scan::Running;
use crate::backend::softmax::{Kind, Targets, TotalWeight};
use crate::backend::svd::Matrices;
use crate::backend::{View, copy as any};
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::{ARGS, Formula, Num, recorded};
use crate::layout::Layout;
use crate::storage::Storage;

/// The GPUs as a [`Backend`].
pub struct Wgpu;

/// The formula of integer powers.
const INTEGER_POWER: Program =
    Program { name: "pow", kernel: Kernel::NONE, formula: &|| recorded!(|a| a[0].pow(a[1])) };

impl Backend for Wgpu {
    // ---- memory

    fn allocate(&self, device: Device, bytes: usize) -> Result<Storage> {
        device::gpu_of(device)?.allocate(bytes)
    }

    fn has_room(&self, device: Device, bytes: usize) -> bool {
        device::gpu_of(device).is_ok_and(|gpu| gpu.has_room(bytes))
    }

    fn download(&self, src: View) -> Result<Storage> {
        copy::download(src)
    }

    fn upload(&self, src: View, out: View) -> Result<()> {
        if src.layout.is_contiguous() && src.dtype == out.dtype {
            return copy::upload(src, out);
        }
        let layout = Layout::contiguous(src.layout.shape.clone());
        let host = Storage::new(layout.numel() * out.dtype.size())?;
        let dense = View { storage: &host, layout: &layout, dtype: out.dtype };
        any::copy(src, dense)?;
        copy::upload(dense, out)
    }

    fn synchronize(&self, device: Device) -> Result<()> {
        device::gpu_of(device)?.finish()
    }

    // ---- capabilities

    fn computes(&self, device: Device, dtype: DType) -> bool {
        device::gpu_of(device).is_ok_and(|gpu| gpu.expect("", dtype).is_ok())
    }

    fn factor_dtype(&self, a: View) -> Result<DType> {
        Ok(a.dtype)
    }

    fn svd_dtype(&self, x: View) -> Result<DType> {
        svd::compute_type(x)
    }

    // ---- pointwise

    fn copy(&self, src: View, out: View) -> Result<()> {
        copy::copy(src, out)
    }

    fn fill(&self, out: View, value: Scalar) -> Result<()> {
        copy::fill(out, value)
    }

    fn accumulate(&self, src: View, out: View) -> Result<()> {
        index::accumulate(src, out)
    }

    fn pointwise(
        &self,
        program: &Program,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        out: View,
    ) -> Result<bool> {
        pointwise::run(program, compute, operands, params, out).map(|()| true)
    }

    fn pointwise_all(
        &self,
        name: &'static str,
        formula: &Formula,
        _: Primitives,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        outs: &[View],
    ) -> Result<()> {
        match outs {
            // The result's elements are wider than a word.
            [out] if operands.len() <= ARGS && (0..operands.len()).all(|k| formula.reads(k)) => {
                let program = Program { name, kernel: Kernel::NONE, formula: &|| formula };
                pointwise::run(&program, compute, operands, params, *out)
            }
            _ => fused::run(name, formula, compute, operands, params, outs),
        }
    }

    fn fusion(&self) -> Fusion {
        Fusion { reductions: true, totals: true, ..Fusion::default() }
    }

    fn fused(&self, group: &Fused) -> Result<bool> {
        group::run(group)
    }

    fn expect_divisors(&self, x: View) -> Result<()> {
        divide::expect_divisors(x)
    }

    fn integer_power(&self, base: View, exponent: View, out: View) -> Result<()> {
        let operands = [Operand::View(base), Operand::View(exponent)];
        pointwise::run(&INTEGER_POWER, DType::I64, &operands, &[], out)
    }

    fn random(&self, draw: Draw, p: Philox, out: View) -> Result<()> {
        random::fill(draw, p, out)
    }

    fn triangle(&self, x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()> {
        triangle::triangle(x, rows, columns, k, lower, out)
    }

    // ---- along a dimension

    fn reduce(&self, op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> {
        reduce::fold(op, x, d, out)
    }

    fn reduce_formula(&self, fold: &Fold, out: View) -> Result<()> {
        if reduce::fold_formula(fold, out)? { Ok(()) } else { in_turn(self, fold, out) }
    }

    fn norm_of_all(&self, order: f64, tensors: &[View], out: View) -> Result<()> {
        // Only float32 sums are implemented.
        if out.dtype != DType::F32 {
            out.on_host()?;
        }
        reduce::norm_of_all(order, tensors, out)
    }

    fn extremum(&self, largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()> {
        reduce::extremum(largest, x, d, values, indices)
    }

    fn moments(&self, x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> {
        reduce::moments(x, d, mean, squares)
    }

    fn scan(&self, what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()> {
        scan::scan(what, x, d, reverse, out)
    }

    fn scan_extremum(
        &self,
        x: View,
        d: ReduceDims,
        largest: bool,
        values: View,
        indices: View,
    ) -> Result<()> {
        scan::extremum(x, d, largest, values, indices)
    }

    fn sort(&self, x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()> {
        sort::select(x, n, descending, 0, n, values, indices)
    }

    fn topk(
        &self,
        x: View,
        n: usize,
        k: usize,
        largest: bool,
        _: bool,
        values: View,
        indices: View,
    ) -> Result<()> {
        sort::select(x, n, largest, 0, k, values, indices)
    }

    fn kthvalue(&self, x: View, n: usize, k: usize, values: View, indices: View) -> Result<()> {
        sort::select(x, n, false, k, 1, values, indices)
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
        sort::search(sorted, n, sorter, values, m, right, out)
    }

    fn softmax(&self, kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
        softmax::softmax(kind, x, d, out)
    }

    fn softmax_backward(&self, kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
        softmax::softmax_backward(kind, g, y, d, out)
    }

    fn nll(&self, logp: View, d: ReduceDims, targets: Targets, losses: View) -> Result<TotalWeight> {
        let weights = self.allocate(losses.device(), losses.layout.numel() * losses.dtype.size())?;
        let layout = Layout::contiguous(losses.layout.shape.clone());
        softmax::nll(logp, d, targets, losses, View { storage: &weights, layout: &layout, ..losses })?;
        Ok(TotalWeight::PerPosition(weights))
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
        softmax::nll_backward(g, logp, d, targets, logits, out)
    }

    // ---- indexing

    fn gather(&self, x: View, grid: &IndexGrid, out: View) -> Result<()> {
        index::gather(x, grid, out)
    }

    fn scatter(&self, x: View, grid: &IndexGrid, values: View, how: Combine) -> Result<()> {
        index::scatter(x, grid, values, how)
    }

    fn gather_along(&self, x: View, dim: usize, pick: Pick, out: View) -> Result<()> {
        index::gather_along(x, dim, pick, out)
    }

    fn scatter_along(&self, out: View, dim: usize, pick: Pick, src: View, how: Combine) -> Result<()> {
        index::scatter_along(out, dim, pick, src, how)
    }

    fn sum_rows(
        &self,
        g: View,
        index: View,
        padding: Option<usize>,
        by_frequency: bool,
        out: View,
    ) -> Result<()> {
        index::sum_rows(g, index, padding, by_frequency, out)
    }

    fn find(&self, mask: View) -> Result<Found> {
        mask::find(mask).map(|(positions, n)| Found::Device(positions, n))
    }

    fn positions(&self, _: View, found: &Found, out: View) -> Result<()> {
        found.on_device(|at, _| mask::positions(at, out))
    }

    fn compress(&self, x: View, _: View, found: &Found, out: View) -> Result<()> {
        found.on_device(|at, _| index::gather_flat(x, at, out))
    }

    fn expand(&self, values: View, _: View, found: &Found, out: View) -> Result<()> {
        found.on_device(|at, n| index::scatter_flat(values, at, n, out))
    }

    fn fill_masked(&self, out: View, mask: View, value: Scalar) -> Result<()> {
        mask::fill(out, mask, value)
    }

    fn unravel(&self, positions: View, step: usize, size: usize, out: View) -> Result<()> {
        mask::unravel(positions, step, size, out)
    }

    // ---- products, windows, matrices

    fn matmul(&self, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
        matmul::product(a, b, bias, out)
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
        conv::product(which, s, a, b, bias, out)
    }

    fn max_pool(&self, s: &PoolShape, x: View, out: View, indices: View) -> Result<()> {
        plane::max_pool(s, x, out, indices)
    }

    fn adaptive_max_pool(&self, s: &ResizeShape, x: View, out: View, indices: View) -> Result<()> {
        plane::adaptive_max_pool(s, x, out, indices)
    }

    fn resample(&self, map: &SpatialLinearMap, x: View, out: View) -> Result<()> {
        plane::forward(map, x, out)
    }

    fn resample_adjoint(&self, map: &SpatialLinearMap, g: View, out: View) -> Result<()> {
        plane::adjoint(map, g, out)
    }

    fn factor(&self, op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
        factor::factor(op, what, n, a, out)
    }

    fn svd(&self, m: &Matrices, w: View, out: View) -> Result<()> {
        svd::decompose(m, w, out)
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
        let Some(d) = norm::lanes_of(kind, x)? else { return Ok(false) };
        norm::lanes(x, affine, eps, d, [out, stats.mean, stats.rstd]).map(|()| true)
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
        let Some(d) = norm::lanes_of(kind, x)? else { return Ok(Made::Nothing) };
        norm::lanes_backward(g, x, stats, weight, d, out[0]).map(|()| Made::Input)
    }

    fn follow(&self, old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()> {
        norm::follow(old, new, kept, taken, out)
    }

    fn optimizer_step(&self, groups: &[Group]) -> Result<()> {
        optim::step(groups)
    }

    fn scale(&self, tensors: &[View], factor: View, found: Option<View>) -> Result<()> {
        optim::scale(tensors, factor, found)
    }
}
