//! [`Backend`]: the computations of a device, one method per kernel family.
//!
//! The modules of the families check that all operands are on one device and call [`of`] for that device; code above
//! them does not depend on the device. The views passed to a method are therefore on the backend's devices unless
//! stated otherwise.

use super::attention::Attention;
use super::conv::{ConvShape, Product};
use super::ctc::Sequences;
use super::factor::Factor;
use super::group::{Fusion, Group as Fused, Producer};
use super::index::{Combine, Found, IndexGrid, Pick};
use super::inspect::Question;
use super::norm::{self, Made, Stats};
use super::optim::Group;
use super::plane::{PoolShape, ResizeShape, SpatialLinearMap};
use super::pointwise::{Kernel, Operand, Primitives, Program, compute_type};
use super::random::{Draw, Philox};
use super::recurrent::{GruGradients, GruSteps, Recurrence, Steps, Weights};
use super::reduce::{self, Fold, ReduceDims, ReduceOp};
use super::sampling::Sampling;
use super::scan::Running;
use super::softmax::{Kind, Targets, TotalWeight};
use super::sort::{Interpolation, QuantileRanks, Statistic};
use super::svd::Matrices;
use super::{View, checked, cpu, defer, meta};
use smallvec::SmallVec;

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::{Arith, Formula, recorded};
use crate::layout::Layout;
use crate::storage::Storage;
use crate::{bail, ensure};

/// The backend of a device, or in a region what defers its kernels.
///
/// # Errors
/// `NotImplementedError` if this build does not include it.
#[inline(always)]
pub fn of(device: Device) -> Result<&'static dyn Backend> {
    if defer::any_region() { defer::backend_of(device) } else { of_now(device) }
}

/// The backend of a device, which runs kernels at once.
///
/// # Errors
/// As for [`of`].
#[inline(always)]
pub fn of_now(device: Device) -> Result<&'static dyn Backend> {
    match device {
        Device::Cpu if checked::on() => Ok(&checked::Checked),
        Device::Cpu => Ok(&cpu::Cpu),
        Device::Meta => Ok(&meta::Meta),
        #[cfg(feature = "gpu")]
        Device::Gpu(_) => Ok(&super::gpu::Wgpu),
        #[cfg(not(feature = "gpu"))]
        device => Err(Error::DeviceNotImplemented { op: None, device, what: String::new() }),
    }
}

/// 1 if the first operand is less than the second, else 0.
const LESS: Program = Program {
    name: "bernoulli",
    kernel: Kernel::NONE,
    formula: &|| recorded!(|a| Arith::select(a[0].lt(a[1]), Arith::one(), Arith::zero())),
};

/// An operand times a mask of zeros and ones, times a number.
const DROPOUT: Program =
    Program { name: "dropout", kernel: Kernel::NONE, formula: &|| recorded!(|a, p| a[0] * (a[1] * p[0])) };

/// The kernels of one type of device. Each method is documented at the function of the family's module that calls it.
pub trait Backend: Sync {
    // ---- memory

    /// Allocates memory with unspecified contents.
    fn allocate(&self, device: Device, bytes: usize) -> Result<Storage>;
    /// Whether `bytes` of a device's memory surely can be had later, see [`defer`](super::defer).
    fn has_room(&self, device: Device, bytes: usize) -> bool {
        let _ = (device, bytes);
        true
    }
    /// Copies the elements of a view to host memory in row-major order.
    fn download(&self, src: View) -> Result<Storage>;
    /// Writes host elements to device memory, with a cast if the dtypes differ.
    fn upload(&self, src: View, out: View) -> Result<()>;
    fn synchronize(&self, device: Device) -> Result<()>;

    // ---- capabilities

    fn computes(&self, device: Device, dtype: DType) -> bool;
    fn factor_dtype(&self, a: View) -> Result<DType>;
    fn svd_dtype(&self, x: View) -> Result<DType>;

    /// Whether [`Backend::factor`] overwrites its matrices.
    fn overwrites_factored(&self) -> bool {
        true
    }

    /// The dtype in which elements of `dtype` are sorted and searched.
    fn sort_dtype(&self, dtype: DType) -> DType {
        dtype
    }

    /// The dtype in which extrema and cumulative extrema are computed.
    fn extremum_dtype(&self, dtype: DType) -> DType {
        dtype.wide()
    }

    /// The dtype of the operand of [`ReduceOp::All`] and [`ReduceOp::Any`].
    fn truth_dtype(&self, dtype: DType) -> DType {
        dtype.wide()
    }

    /// The dtype of the operand of [`Backend::reduce`] for the sum, product or extrema of elements of a dtype that is not floating point. Sums
    /// are int64; extrema are int64 if the operand is, and else int32.
    fn integer_dtype(&self, op: ReduceOp, dtype: DType) -> DType {
        if op == ReduceOp::Sum && dtype == DType::Bool { DType::Bool } else { DType::I64 }
    }

    /// The dtype in which PyTorch accumulates on this type of device.
    fn accumulate_dtype(&self, dtype: DType) -> DType {
        if dtype.is_half() { DType::F32 } else { dtype }
    }

    /// The dtype of the operands of [`Backend::matmul`] for a product of `a` and `b`, matrices or batches of them.
    fn product_dtype(&self, a: View, b: View) -> DType {
        let _ = b;
        super::matmul::compute_type(a.dtype)
    }

    /// Whether [`Backend::reduce`], for sums, products, norms and the like, and softmax of rows take half types and compute in float32.
    fn reduces_halves(&self) -> bool {
        false
    }

    /// Whether layer normalization and the negative log likelihoods of rows take half types, with all else in float32.
    fn takes_halves(&self) -> bool {
        false
    }

    /// Elements from which [`Backend::reduce_formula`] is worth while where the formula has a compiled loop.
    fn folds_from(&self) -> usize {
        1
    }

    /// Which calls [`Backend::fused`] computes.
    fn fusion(&self) -> Fusion {
        Fusion::default()
    }

    /// Whether a product that makes such a dtype can be the producer of a group.
    fn produces(&self, _: &Producer, _: DType) -> bool {
        false
    }

    /// Whether [`Backend::attention`] and its backward compute in `dtype`.
    /// Whether vector products of a dtype have a kernel.
    fn crosses(&self, _: DType) -> bool {
        false
    }
    fn attends(&self, _: DType) -> bool {
        false
    }

    /// Whether [`Backend::lstm`], [`Backend::gru`] and their backward compute in `dtype`.
    fn recurs(&self, _: DType) -> bool {
        false
    }

    fn known(&self, _: Question, _: View) -> Result<Option<bool>> {
        Ok(None)
    }

    // ---- pointwise

    fn copy(&self, src: View, out: View) -> Result<()>;
    fn fill(&self, out: View, value: Scalar) -> Result<()>;
    fn accumulate(&self, src: View, out: View) -> Result<()>;
    /// See [`super::copy::interleave`]. Where copies are deferred there is none: copies may join a group.
    fn interleave(&self, _parts: &[View], _out: View) -> Result<bool> {
        Ok(false)
    }
    fn pointwise(
        &self,
        program: &Program,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        out: View,
    ) -> Result<bool>;
    fn pointwise_all(
        &self,
        name: &'static str,
        formula: &Formula,
        primitives: Primitives,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        outs: &[View],
    ) -> Result<()>;
    /// Computes a group of calls together; false if it cannot.
    fn fused(&self, _: &Fused) -> Result<bool> {
        Ok(false)
    }
    fn expect_divisors(&self, x: View) -> Result<()>;
    fn integer_power(&self, base: View, exponent: View, out: View) -> Result<()>;
    fn random(&self, draw: Draw, p: Philox, out: View) -> Result<()>;
    fn bernoulli_each(&self, p: Philox, probs: View, out: View) -> Result<()> {
        self.random(Draw::Uniform(0.0, 1.0), p, out)?;
        self.composed(&LESS, &[out, probs], &[], out)
    }
    fn dropout(&self, x: View, mask: View, scale: f64, out: View) -> Result<()> {
        self.composed(&DROPOUT, &[x, mask], &[Scalar::Float(scale)], out)
    }

    /// Applies a formula that has no compiled loops.
    fn composed(&self, program: &Program, operands: &[View], params: &[Scalar], out: View) -> Result<()> {
        let operands: SmallVec<[Operand; 3]> = operands.iter().map(|v| Operand::View(*v)).collect();
        let ran = self.pointwise(program, compute_type(out.dtype), &operands, params, out)?;
        ensure!(ran, Error::DtypeNotImplemented { op: program.name, dtype: out.dtype });
        Ok(())
    }

    fn pick_categories(&self, _weights: View, _draws: View, _replacement: bool, _out: View) -> Result<bool> {
        Ok(false)
    }
    fn triangle(&self, x: View, rows: usize, columns: usize, k: i64, lower: bool, out: View) -> Result<()>;
    fn cross(&self, _x: View, _y: View, _d: ReduceDims, out: View) -> Result<()> {
        bail!(Error::DtypeNotImplemented { op: "cross", dtype: out.dtype })
    }

    // ---- along a dimension

    fn reduce(&self, op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()>;
    fn reduce_formula(&self, fold: &Fold, out: View) -> Result<()> {
        reduce::in_turn(self, fold, out)
    }
    fn norm_of_all(&self, order: f64, tensors: &[View], out: View) -> Result<()>;
    fn extremum(&self, largest: bool, x: View, d: ReduceDims, values: View, indices: View) -> Result<()>;
    fn moments(&self, x: View, d: ReduceDims, mean: View, squares: View) -> Result<()>;
    fn scan(&self, what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()>;
    fn scan_extremum(&self, x: View, d: ReduceDims, largest: bool, values: View, indices: View)
    -> Result<()>;
    fn sort(&self, x: View, n: usize, descending: bool, values: View, indices: View) -> Result<()>;
    fn topk(
        &self,
        x: View,
        n: usize,
        k: usize,
        largest: bool,
        sorted: bool,
        values: View,
        indices: View,
    ) -> Result<()>;
    fn kthvalue(&self, x: View, n: usize, k: usize, values: View, indices: View) -> Result<()>;
    fn searchsorted(
        &self,
        sorted: View,
        n: usize,
        sorter: Option<View>,
        values: View,
        m: usize,
        right: bool,
        out: View,
    ) -> Result<()>;
    fn row_order(&self, _x: View, _n: usize, _order: View) -> Result<bool> {
        Ok(false)
    }
    fn order_statistic(
        &self,
        _: Statistic,
        _x: View,
        _n: usize,
        _values: View,
        _indices: View,
    ) -> Result<bool> {
        Ok(false)
    }
    fn quantile_ranks(
        &self,
        _sorted: View,
        _d: ReduceDims,
        _q: View,
        _how: Interpolation,
        _ignore_nan: bool,
        _out: QuantileRanks,
    ) -> Result<bool> {
        Ok(false)
    }
    fn softmax(&self, kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()>;
    fn softmax_backward(&self, kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()>;
    fn nll(&self, logp: View, d: ReduceDims, targets: Targets, losses: View) -> Result<TotalWeight>;
    fn nll_backward(
        &self,
        g: View,
        logp: View,
        d: ReduceDims,
        targets: Targets,
        logits: bool,
        out: View,
    ) -> Result<()>;

    // ---- indexing

    fn gather(&self, x: View, grid: &IndexGrid, out: View) -> Result<()>;
    fn scatter(&self, x: View, grid: &IndexGrid, values: View, how: Combine) -> Result<()>;
    fn gather_along(&self, x: View, dim: usize, pick: Pick, out: View) -> Result<()>;
    fn scatter_along(&self, out: View, dim: usize, pick: Pick, src: View, how: Combine) -> Result<()>;
    fn sum_bags(&self, _table: View, _index: View, _factors: Option<View>, _out: View) -> Result<bool> {
        Ok(false)
    }
    fn bincount(&self, _index: View, _counts: View) -> Result<bool> {
        Ok(false)
    }
    fn sum_rows(
        &self,
        g: View,
        index: View,
        padding: Option<usize>,
        by_frequency: bool,
        out: View,
    ) -> Result<()>;
    fn find(&self, mask: View) -> Result<Found>;
    fn positions(&self, mask: View, found: &Found, out: View) -> Result<()>;
    fn compress(&self, x: View, mask: View, found: &Found, out: View) -> Result<()>;
    fn expand(&self, values: View, mask: View, found: &Found, out: View) -> Result<()>;
    fn fill_masked(&self, out: View, mask: View, value: Scalar) -> Result<()>;
    fn unravel(&self, positions: View, step: usize, size: usize, out: View) -> Result<()>;

    fn first_outside(&self, indices: View, n: i64) -> Result<Option<i64>> {
        let count = indices.layout.numel();
        if count == 0 {
            return Ok(None);
        }
        let ends = self.allocate(indices.device(), 2 * size_of::<i64>())?;
        for (offset, op) in [ReduceOp::Min, ReduceOp::Max].into_iter().enumerate() {
            let one = Layout { offset, ..Layout::default() };
            let end = View { storage: &ends, layout: &one, dtype: DType::I64 };
            self.reduce(op, indices, ReduceDims::rows(1, count), end)?;
        }
        let both = Layout::contiguous([2].into());
        let ends = self.download(View { storage: &ends, layout: &both, dtype: DType::I64 })?;
        if ends.slice::<i64>().iter().all(|i| (0..n).contains(i)) {
            return Ok(None);
        }
        let all = self.download(indices)?;
        Ok(all.slice::<i64>().iter().copied().find(|i| !(0..n).contains(i)))
    }

    // ---- products, windows, matrices

    fn matmul(&self, a: View, b: View, bias: Option<View>, out: View) -> Result<()>;
    fn attention(&self, _: &Attention, _out: View, _lse: View) -> Result<bool> {
        Ok(false)
    }
    fn attention_backward(
        &self,
        _: &Attention,
        _out: View,
        _lse: View,
        _grad: View,
        _grads: [View; 3],
    ) -> Result<bool> {
        Ok(false)
    }
    fn lstm(&self, _: Recurrence, _input: View, _: Weights, _: Steps) -> Result<bool> {
        Ok(false)
    }
    fn lstm_backward(
        &self,
        _: Recurrence,
        _grad: View,
        _weight: View,
        _: Steps,
        _slopes: View,
        _states: [View; 2],
    ) -> Result<bool> {
        Ok(false)
    }
    fn ctc(&self, _: &Sequences, _probs: View, _labels: View, _losses: View, _alpha: View) -> Result<bool> {
        Ok(false)
    }
    fn ctc_backward(
        &self,
        _: &Sequences,
        _grad: View,
        _inputs: [View; 4],
        _zero_infinity: bool,
        _out: View,
    ) -> Result<bool> {
        Ok(false)
    }
    fn gru(&self, _: Recurrence, _input: View, _: Weights, _: GruSteps) -> Result<bool> {
        Ok(false)
    }
    fn gru_backward(
        &self,
        _: Recurrence,
        _grad: View,
        _weight: View,
        _: GruSteps,
        _: GruGradients,
    ) -> Result<bool> {
        Ok(false)
    }
    fn convolution(
        &self,
        which: Product,
        s: &ConvShape,
        a: View,
        b: View,
        bias: Option<View>,
        out: View,
    ) -> Result<()>;
    fn convolution_bias(&self, s: &ConvShape, g: View, out: View) -> Result<()> {
        let (plane, lanes) = (s.output.iter().product(), s.n * s.c_out);
        let sums = self.allocate(g.device(), lanes * g.dtype.size())?;
        let layout = Layout::contiguous([lanes].into());
        let sums = View { storage: &sums, layout: &layout, dtype: g.dtype };
        self.reduce(ReduceOp::Sum, g, ReduceDims::rows(lanes, plane), sums)?;
        self.reduce(ReduceOp::Sum, sums, ReduceDims::new(1, s.n, s.c_out), out)
    }
    fn max_pool(&self, s: &PoolShape, x: View, out: View, indices: View) -> Result<()>;
    fn adaptive_max_pool(&self, s: &ResizeShape, x: View, out: View, indices: View) -> Result<()>;
    fn resample(&self, map: &SpatialLinearMap, x: View, out: View) -> Result<()>;
    fn resample_adjoint(&self, map: &SpatialLinearMap, g: View, out: View) -> Result<()>;
    fn sample(&self, _: Sampling, _images: View, _grid: View, _out: View) -> Result<bool> {
        Ok(false)
    }
    fn sample_backward(
        &self,
        _: Sampling,
        _grad: View,
        _images: View,
        _grid: View,
        _of_images: Option<View>,
        _of_grid: Option<View>,
    ) -> Result<bool> {
        Ok(false)
    }
    fn factor(&self, op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()>;
    fn svd(&self, m: &Matrices, w: View, out: View) -> Result<()>;

    // ---- normalization and optimizers

    fn norm_forward(
        &self,
        kind: norm::Kind,
        x: View,
        affine: [Option<View>; 2],
        eps: f64,
        out: View,
        stats: Stats,
    ) -> Result<bool>;
    /// The mean and the biased variance of each channel of a batch, or each group of channels; false if the backend has no kernel for them alone.
    fn norm_moments(&self, _kind: norm::Kind, _x: View, _mean: View, _var: View) -> Result<bool> {
        Ok(false)
    }
    fn norm_backward(
        &self,
        kind: norm::Kind,
        g: View,
        x: View,
        stats: [View; 2],
        weight: Option<View>,
        out: [View; 3],
    ) -> Result<Made>;
    fn follow(&self, old: View, new: View, kept: f64, taken: f64, out: View) -> Result<()>;
    fn optimizer_step(&self, groups: &[Group]) -> Result<()>;
    fn scale(&self, tensors: &[View], factor: View, found: Option<View>) -> Result<()>;
}
