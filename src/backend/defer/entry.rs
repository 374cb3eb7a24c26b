//! The [`Backend`] of a region: queues what can wait, and runs the queue before all else. See Note [Regions].

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::composed::Composition;
use super::queue::{Entry, Held, In, Work};
use super::touches::Argument;
use super::{least, push, reserve, run_here, step};
use crate::backend::View;
use crate::backend::attention::Attention;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::ctc::Sequences;
use crate::backend::factor::Factor;
use crate::backend::group::{Fusion, Group as Fused, LONGEST_ROW, Producer};
use crate::backend::index::{Combine, Found, IndexGrid, Pick};
use crate::backend::inspect::Question;
use crate::backend::interface::{Backend, of_now};
use crate::backend::norm::{Kind as Norm, Made, Stats};
use crate::backend::optim::Group;
use crate::backend::plane::{PoolShape, ResizeShape, SpatialLinearMap};
use crate::backend::pointwise::{Kernel, Operand, Primitives, Program, compute_type};
use crate::backend::random::{Draw, Philox};
use crate::backend::recurrent::{GruGradients, GruSteps, Recurrence, Steps, Weights};
use crate::backend::reduce::{Fold, ReduceDims, ReduceOp};
use crate::backend::sampling::Sampling;
use crate::backend::scan::Running;
use crate::backend::softmax::{Kind, Targets, TotalWeight};
use crate::backend::sort::{Interpolation, QuantileRanks, Statistic};
use crate::backend::svd::Matrices;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::Formula;
use crate::formula::record::{Prim, Step};
use crate::layout::Layout;
use crate::storage::{Access, Storage};

/// The elements from which products are queued, as a multiple of those of an operation that is queued: of fewer the epilogue saves less
/// than it costs.
const OF_PRODUCTS: usize = 4;

/// Defers the kernels of a backend.
pub struct Deferred {
    pub(super) now: &'static dyn Backend,
}

/// What defers the kernels of a device.
pub fn deferring(device: Device) -> Result<&'static dyn Backend> {
    static CPU: LazyLock<Option<Deferred>> =
        LazyLock::new(|| of_now(Device::Cpu).ok().map(|now| Deferred { now }));
    static GPU: LazyLock<Option<Deferred>> =
        LazyLock::new(|| of_now(Device::Gpu(0)).ok().map(|now| Deferred { now }));
    let deferred = match device {
        Device::Cpu => &*CPU,
        Device::Gpu(_) => &*GPU,
        Device::Meta => &None,
    };
    match deferred {
        Some(deferred) => Ok(deferred),
        None => of_now(device),
    }
}

/// One copy of each formula that was deferred, by identity.
pub(super) fn kept(formula: &Formula) -> Arc<Formula> {
    static KEPT: LazyLock<Mutex<FxHashMap<u128, Arc<Formula>>>> = LazyLock::new(Mutex::default);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(formula.identity()).or_insert_with(|| Arc::new(formula.clone())).clone()
}

/// Whether an operation on `n` elements is queued: it is large or reads a deferred result, and no other code has the address
/// of its memory.
pub(super) fn is_worth<'a>(n: usize, views: impl Iterator<Item = View<'a>> + Clone) -> bool {
    (n >= least() || views.clone().any(|v| v.storage.is_written_later()))
        && views.into_iter().all(|v| v.storage.is_private())
}

impl Deferred {
    /// Runs the queue, and returns the backend that runs at once.
    fn settled(&self) -> Result<&'static dyn Backend> {
        run_here("an operation that cannot wait")?;
        Ok(self.now)
    }

    /// The backend that does not defer. Runs the queue first if its entries conflict with these reads or this write.
    fn free(&self, read: &[View], out: View) -> Result<&'static dyn Backend> {
        let waits = read.waits(Access::Read) || out.waits(Access::Write);
        if waits { self.settled() } else { Ok(self.now) }
    }

    /// The backend that does not defer, after the queue if the operands of a product are deferred, so that what it reads is not kept
    /// for long.
    #[inline]
    fn after_operands(
        &self,
        operands: [View; 2],
        bias: Option<View>,
        out: View,
    ) -> Result<&'static dyn Backend> {
        let reads = operands.waits(Access::Read) || bias.waits(Access::Read);
        if reads || out.waits(Access::Write) { self.settled() } else { Ok(self.now) }
    }

    /// Whether a product of operands that are computed is queued, for an epilogue that may follow.
    fn queues_product(&self, producer: &Producer, out: View) -> bool {
        let operands = producer.operands();
        out.layout.is_contiguous()
            && !operands.clone().any(|v| v.overlaps(&out))
            && is_worth(out.layout.numel(), operands.chain([out]))
            && self.now.produces(producer, out.dtype)
    }

    /// Whether groups compute in a dtype.
    fn groups(&self, dtype: DType) -> bool {
        match dtype {
            DType::F32 | DType::F64 => true,
            DType::I32 | DType::I64 => self.now.fusion().integers,
            _ => false,
        }
    }

    /// How a pointwise operation is queued; None if it cannot be.
    fn form<'f>(
        &self,
        program: &Program<'f>,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        out: View,
    ) -> Option<Form<'f>> {
        let Program { kernel, formula, .. } = *program;
        let is_boolean = |o: &Operand| match o {
            Operand::View(v) => v.dtype == DType::Bool,
            Operand::Number(s) => matches!(s, Scalar::Bool(_) | Scalar::Int(0 | 1)),
            Operand::Unread => true,
        };
        if out.dtype == DType::Bool && params.is_empty() && operands.iter().all(is_boolean) {
            let form = of_booleans(kernel, formula());
            if form.is_some() {
                return form;
            }
        }
        // A narrow integer is wrapped when it is stored, so a later call of the group could not use the value in the block.
        let exact = match kernel {
            Kernel::Same { .. } if compute.is_float() => true,
            Kernel::Same { .. } => out.dtype == compute,
            Kernel::Truth { .. } => true,
        };
        (exact && self.groups(compute) && kernel.computes(compute)).then(|| Form {
            kernel,
            formula: formula(),
            compute,
        })
    }

    pub(super) fn push(
        &self,
        name: &'static str,
        work: Work,
        compute: DType,
        ins: SmallVec<[In; 3]>,
        out: View,
    ) -> Result<()> {
        push(Entry { name, work, compute, ins, out: Held::of(out) })
    }
}

/// A pointwise operation as it is queued.
struct Form<'f> {
    kernel: Kernel,
    formula: &'f Formula,
    compute: DType,
}

/// An operation on booleans in a form that computes it in any dtype, on zeros and ones.
fn of_booleans<'f>(kernel: Kernel, formula: &'f Formula) -> Option<Form<'f>> {
    const ALL: [DType; 4] = [DType::F32, DType::F64, DType::I32, DType::I64];
    // Of bits, which numbers of floating point have no loops for.
    let (kernel, formula) = match formula.steps() {
        [Step::Arg(0), Step::Arg(1), Step::Do(Prim::BitAnd, [0, 1, _])] => step(Prim::And)?,
        [Step::Arg(0), Step::Arg(1), Step::Do(Prim::BitOr, [0, 1, _])] => step(Prim::Or)?,
        _ => (kernel, formula),
    };
    let any = formula.keeps_truths() && ALL.into_iter().all(|dtype| kernel.computes(dtype));
    any.then_some(Form { kernel, formula, compute: DType::Bool })
}

pub(super) fn held(v: View) -> In {
    In::View(Held::of(v))
}

/// Methods that run at once, after the queue if that uses what they use: arguments that are read, then those that are written.
macro_rules! at_once {
    ($(fn $name:ident($($read:ident: $r:ty),* ; $($written:ident: $w:ty),* $(,)?) -> $out:ty;)*) => { $(
        fn $name(&self, $($read: $r,)* $($written: $w,)*) -> Result<$out> {
            let waits = false
                $(|| Argument::waits(&$read, Access::Read))*
                $(|| Argument::waits(&$written, Access::Write))*;
            if waits { self.settled()? } else { self.now }.$name($($read,)* $($written,)*)
        }
    )* };
}

/// Methods that need no elements.
macro_rules! asked {
    ($(fn $name:ident($($arg:ident: $t:ty),*) -> $out:ty;)*) => { $(
        fn $name(&self, $($arg: $t),*) -> $out {
            self.now.$name($($arg),*)
        }
    )* };
}

impl Backend for Deferred {
    fn allocate(&self, device: Device, bytes: usize) -> Result<Storage> {
        reserve(device, bytes)
    }

    asked! {
        fn computes(device: Device, dtype: DType) -> bool;
        fn factor_dtype(a: View) -> Result<DType>;
        fn svd_dtype(x: View) -> Result<DType>;
        fn overwrites_factored() -> bool;
        fn sort_dtype(dtype: DType) -> DType;
        fn extremum_dtype(dtype: DType) -> DType;
        fn truth_dtype(dtype: DType) -> DType;
        fn integer_dtype(op: ReduceOp, dtype: DType) -> DType;
        fn accumulate_dtype(dtype: DType) -> DType;
        fn product_dtype(a: View, b: View) -> DType;
        fn takes_halves() -> bool;
        fn has_room(device: Device, bytes: usize) -> bool;
        fn folds_from() -> usize;
        fn fusion() -> Fusion;
        fn produces(producer: &Producer, dtype: DType) -> bool;
        fn crosses(dtype: DType) -> bool;
        fn attends(dtype: DType) -> bool;
        fn recurs(dtype: DType) -> bool;
        // Writes new memory, which no entry knows.
        fn random(draw: Draw, p: Philox, out: View) -> Result<()>;
    }

    fn pointwise(
        &self,
        program: &Program,
        compute: DType,
        operands: &[Operand],
        params: &[Scalar],
        out: View,
    ) -> Result<bool> {
        let waits = operands.waits(Access::Read) || out.waits(Access::Write);
        if !waits && out.layout.numel() < least() {
            return self.now.pointwise(program, compute, operands, params, out);
        }
        let views = operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None });
        let reads = operands.iter().any(|o| !matches!(o, Operand::Unread));
        let worth = reads && is_worth(out.layout.numel(), views.chain([out]));
        let form = if worth { self.form(program, compute, operands, params, out) } else { None };
        let Some(Form { kernel, formula, compute }) = form else {
            return if waits { self.settled()? } else { self.now }
                .pointwise(program, compute, operands, params, out);
        };
        let ins = operands
            .iter()
            .map(|o| match o {
                Operand::View(v) => held(*v),
                Operand::Number(s) => In::Number(*s),
                Operand::Unread => In::Unread,
            })
            .collect();
        let work = Work::Map { kernel, formula: kept(formula), params: SmallVec::from_slice(params) };
        self.push(program.name, work, compute, ins, out)?;
        Ok(true)
    }

    fn copy(&self, src: View, out: View) -> Result<()> {
        let same = src.storage.same(out.storage);
        let exact =
            matches!(src.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::Bool | DType::U8 | DType::I8);
        // Narrow integers are stored by the group of the floats.
        let narrows = matches!(src.dtype, DType::F32 | DType::F64)
            && matches!(out.dtype, DType::U8 | DType::I8 | DType::I16)
            && self.now.fusion().integers;
        let groups = self.groups(out.dtype) || out.dtype.is_half() && exact || narrows;
        if !groups || same || !is_worth(out.layout.numel(), [src, out].into_iter()) {
            return self.free(&[src], out)?.copy(src, out);
        }
        let compute = if narrows { src.dtype } else { compute_type(out.dtype) };
        self.push("copy_", Work::Copy, compute, smallvec![held(src)], out)
    }

    fn fill(&self, out: View, value: Scalar) -> Result<()> {
        if !self.groups(out.dtype) || !is_worth(out.layout.numel(), [out].into_iter()) {
            return self.free(&[], out)?.fill(out, value);
        }
        self.push("fill_", Work::Copy, out.dtype, smallvec![In::Number(value)], out)
    }

    fn reduce(&self, op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<()> {
        let rows = d.inner == 1 && (2..=LONGEST_ROW).contains(&d.n);
        let totals =
            d.inner == 1 && (d.outer == 1 || d.n.is_multiple_of(LONGEST_ROW) && self.now.fusion().long_rows);
        let groups = match op {
            ReduceOp::Sum | ReduceOp::Product | ReduceOp::Max | ReduceOp::Min => true,
            // The terms of others would be stored.
            ReduceOp::Norm(p) => (p == 1.0 || p == 2.0) && (rows || totals),
            // As softmax, which has the same sums.
            ReduceOp::LogSumExp => self.now.fusion().softmax && rows,
            _ => false,
        };
        let floats = matches!(x.dtype, DType::F32 | DType::F64) && out.dtype == x.dtype;
        if !groups || !floats || d.is_empty() || !is_worth(d.len(), [x, out].into_iter()) {
            return self.free(&[x], out)?.reduce(op, x, d, out);
        }
        if let ReduceOp::Norm(p) = op {
            return match Composition::new(self, "norm", x) {
                Some(steps) => steps.norm(p, x, d, out),
                None => self.free(&[x], out)?.reduce(op, x, d, out),
            };
        }
        if self.composes_few(x, d, out)
            && let Some(steps) = Composition::new(self, "reduction", x)
            && steps.few(op, x, d, out)?
        {
            return Ok(());
        }
        self.push("reduction", Work::Reduce(op, d), x.dtype, smallvec![held(x)], out)
    }

    /// As its parts: the plan puts them together again.
    fn reduce_formula(&self, fold: &Fold, out: View) -> Result<()> {
        let of = &fold.of;
        let views = of.views();
        let plain = matches!(fold.compute, DType::F32 | DType::F64)
            && fold.reduced() == fold.compute
            && of.kernel.computes(fold.compute)
            && matches!(of.kernel, Kernel::Same { .. })
            && fold.then.as_ref().is_none_or(|a| a.kernel.computes(fold.compute));
        if !plain || !is_worth(fold.dims.len(), views.chain([out])) {
            let then = fold.then.as_ref().is_some_and(|a| a.operands.waits(Access::Read));
            let waits = of.operands.waits(Access::Read) || then || out.waits(Access::Write);
            return if waits { self.settled()? } else { self.now }.reduce_formula(fold, out);
        }
        crate::backend::reduce::in_turn(self, fold, out)
    }

    fn softmax(&self, kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
        let floats = matches!(x.dtype, DType::F32 | DType::F64);
        if !floats || d.is_empty() || !is_worth(d.len(), [x, out].into_iter()) {
            return self.free(&[x], out)?.softmax(kind, x, d, out);
        }
        self.push("softmax", Work::Softmax(kind, d), x.dtype, smallvec![held(x)], out)
    }

    fn softmax_backward(&self, kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
        let floats = matches!(y.dtype, DType::F32 | DType::F64);
        if !floats || d.is_empty() || !is_worth(d.len(), [g, y, out].into_iter()) {
            return self.free(&[g, y], out)?.softmax_backward(kind, g, y, d, out);
        }
        let work = Work::SoftmaxBackward(kind, d);
        self.push("softmax_backward", work, y.dtype, smallvec![held(g), held(y)], out)
    }

    fn fill_masked(&self, out: View, mask: View, value: Scalar) -> Result<()> {
        let groups = self.groups(out.dtype);
        match step(Prim::Select).filter(|(kernel, _)| groups && kernel.computes(out.dtype)) {
            Some((kernel, formula)) if is_worth(out.layout.numel(), [out, mask].into_iter()) => {
                let work = Work::Map { kernel, formula: kept(formula), params: SmallVec::new() };
                let ins = smallvec![held(mask), In::Number(value), held(out)];
                self.push("masked_fill", work, out.dtype, ins, out)
            }
            _ => self.free(&[mask], out)?.fill_masked(out, mask, value),
        }
    }

    /// The product with the scaled mask, as the formula of the kernel has it.
    fn dropout(&self, x: View, mask: View, scale: f64, out: View) -> Result<()> {
        let floats = matches!(out.dtype, DType::F32 | DType::F64);
        match step(Prim::Mul).filter(|(kernel, _)| floats && kernel.computes(out.dtype)) {
            Some((kernel, formula)) if is_worth(out.layout.numel(), [x, mask, out].into_iter()) => {
                let mul = || Work::Map { kernel, formula: kept(formula), params: SmallVec::new() };
                let scaled = self.allocate(out.device(), out.layout.numel() * out.dtype.size())?;
                let layout = Layout::contiguous(out.layout.shape.clone());
                let scaled = View { storage: &scaled, layout: &layout, dtype: out.dtype };
                let ins = smallvec![held(mask), In::Number(Scalar::Float(scale))];
                self.push("dropout", mul(), out.dtype, ins, scaled)?;
                self.push("dropout", mul(), out.dtype, smallvec![held(x), held(scaled)], out)
            }
            _ => self.free(&[x, mask], out)?.dropout(x, mask, scale, out),
        }
    }

    fn moments(&self, x: View, d: ReduceDims, mean: View, squares: View) -> Result<()> {
        if self.composes_moments(d, &[x, mean, squares])
            && let Some(steps) = Composition::new(self, "moments", x)
        {
            return steps.moments(x, d.n, mean, squares);
        }
        let waits = x.waits(Access::Read) || [mean, squares].waits(Access::Write);
        if waits { self.settled()? } else { self.now }.moments(x, d, mean, squares)
    }

    fn norm_forward(
        &self,
        kind: Norm,
        x: View,
        affine: [Option<View>; 2],
        eps: f64,
        out: View,
        stats: Stats,
    ) -> Result<bool> {
        if let Norm::Layer { n } = kind
            && self.composes_rows(n, &[x, out])
            && let Some(steps) = Composition::new(self, "layer_norm", x)
        {
            return steps.layer_norm(n, x, affine, eps, out, [stats.mean, stats.rstd]).map(|()| true);
        }
        let moments = |var: View| {
            let waits = x.waits(Access::Read) || [stats.mean, var].waits(Access::Write);
            if waits { self.settled()? } else { self.now }.norm_moments(kind, x, stats.mean, var)
        };
        if let Norm::Batch { n, c, inner, training } = kind
            && let Some(var) = stats.var
            && self.composes_channels(c, inner, &[x, out])
            && let Some(steps) = Composition::new(self, "batch_norm", x)
            && (!training || moments(var)?)
        {
            let stats = [stats.mean, var, stats.rstd];
            return steps.channel_norm([n, c, 1, inner], true, x, affine, eps, out, stats).map(|()| true);
        }
        if let Norm::Group { n, c, inner, groups } = kind
            && self.composes_channels(c, inner, &[x, out])
            && let Some(steps) = Composition::new(self, "group_norm", x)
            && let (var, layout) = (steps.value(&stats.rstd.layout.shape)?, &stats.rstd.layout)
            && moments(View { storage: &var.storage, layout, ..stats.rstd })?
        {
            let (shape, stats) = ([n, groups, c / groups, inner], [stats.mean, var.view(), stats.rstd]);
            return steps.channel_norm(shape, false, x, affine, eps, out, stats).map(|()| true);
        }
        let waits = x.waits(Access::Read)
            || affine.waits(Access::Read)
            || out.waits(Access::Write)
            || stats.waits(Access::Write);
        if waits { self.settled()? } else { self.now }.norm_forward(kind, x, affine, eps, out, stats)
    }

    fn norm_backward(
        &self,
        kind: Norm,
        g: View,
        x: View,
        stats: [View; 2],
        weight: Option<View>,
        out: [View; 3],
    ) -> Result<Made> {
        if let Norm::Layer { n } = kind
            && self.composes_rows(n, &[g, x, out[0]])
            && let Some(steps) = Composition::new(self, "layer_norm_backward", x)
        {
            return steps.layer_norm_backward(n, [g, x], stats, weight, out).map(|()| Made::All);
        }
        let reads = [g, x].waits(Access::Read) || stats.waits(Access::Read) || weight.waits(Access::Read);
        let waits = reads || out.waits(Access::Write);
        if waits { self.settled()? } else { self.now }.norm_backward(kind, g, x, stats, weight, out)
    }

    fn matmul(&self, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
        let now = self.after_operands([a, b], bias, out)?;
        let producer = Producer::Matmul { a, b, bias };
        if out.layout.numel() < OF_PRODUCTS * least() || !self.queues_product(&producer, out) {
            return now.matmul(a, b, bias, out);
        }
        self.push("matmul", Work::Matmul, out.dtype, producer.operands().map(held).collect(), out)
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
        let now = self.after_operands([a, b], bias, out)?;
        let producer = Producer::Convolution { which, shape: s, a, b, bias };
        if out.layout.numel() < OF_PRODUCTS * least() || !self.queues_product(&producer, out) {
            return now.convolution(which, s, a, b, bias, out);
        }
        let work = Work::Convolution(Box::new((which, *s)));
        self.push("convolution", work, out.dtype, producer.operands().map(held).collect(), out)
    }

    at_once! {
        fn download(src: View;) -> Storage;
        fn upload(src: View; out: View) -> ();
        fn synchronize(; device: Device) -> ();
        fn known(question: Question, x: View;) -> Option<bool>;
        fn accumulate(src: View; out: View) -> ();
        fn pointwise_all(
            name: &'static str, formula: &Formula, primitives: Primitives, compute: DType, operands: &[Operand], params: &[Scalar];
            outs: &[View],
        ) -> ();
        fn fused(; group: &Fused) -> bool;
        fn expect_divisors(x: View;) -> ();
        fn integer_power(base: View, exponent: View; out: View) -> ();
        fn bernoulli_each(p: Philox, probs: View; out: View) -> ();
        fn pick_categories(; weights: View, draws: View, replacement: bool, out: View) -> bool;
        fn cross(x: View, y: View, d: ReduceDims; out: View) -> ();
        fn triangle(x: View, rows: usize, columns: usize, k: i64, lower: bool; out: View) -> ();
        fn norm_of_all(order: f64, tensors: &[View]; out: View) -> ();
        fn extremum(largest: bool, x: View, d: ReduceDims; values: View, indices: View) -> ();
        fn scan(what: Running, x: View, d: ReduceDims, reverse: bool; out: View) -> ();
        fn scan_extremum(x: View, d: ReduceDims, largest: bool; values: View, indices: View) -> ();
        fn sort(x: View, n: usize, descending: bool; values: View, indices: View) -> ();
        fn topk(x: View, n: usize, k: usize, largest: bool, sorted: bool; values: View, indices: View) -> ();
        fn kthvalue(x: View, n: usize, k: usize; values: View, indices: View) -> ();
        fn searchsorted(
            sorted: View, n: usize, sorter: Option<View>, values: View, m: usize, right: bool;
            out: View,
        ) -> ();
        fn row_order(x: View, n: usize; order: View) -> bool;
        fn order_statistic(statistic: Statistic, x: View, n: usize; values: View, indices: View) -> bool;
        fn quantile_ranks(
            sorted: View, d: ReduceDims, q: View, how: Interpolation, ignore_nan: bool;
            out: QuantileRanks,
        ) -> bool;
        fn nll(logp: View, d: ReduceDims, targets: Targets; losses: View) -> TotalWeight;
        fn nll_backward(g: View, logp: View, d: ReduceDims, targets: Targets, logits: bool; out: View) -> ();
        fn gather(x: View, grid: &IndexGrid; out: View) -> ();
        fn scatter(; x: View, grid: &IndexGrid, values: View, how: Combine) -> ();
        fn gather_along(x: View, dim: usize, pick: Pick; out: View) -> ();
        fn scatter_along(; out: View, dim: usize, pick: Pick, src: View, how: Combine) -> ();
        fn sum_bags(table: View, index: View, factors: Option<View>; out: View) -> bool;
        fn bincount(index: View; counts: View) -> bool;
        fn sum_rows(g: View, index: View, padding: Option<usize>, by_frequency: bool; out: View) -> ();
        fn find(mask: View;) -> Found;
        fn positions(mask: View; found: &Found, out: View) -> ();
        fn compress(x: View, mask: View; found: &Found, out: View) -> ();
        fn expand(values: View, mask: View; found: &Found, out: View) -> ();
        fn unravel(positions: View, step: usize, size: usize; out: View) -> ();
        fn first_outside(indices: View, n: i64;) -> Option<i64>;
        fn lstm(r: Recurrence, input: View, weights: Weights; steps: Steps) -> bool;
        fn lstm_backward(
            r: Recurrence, grad: View, weight: View, steps: Steps;
            slopes: View, states: [View; 2],
        ) -> bool;
        fn ctc(s: &Sequences, log_probs: View, labels: View; losses: View, alpha: View) -> bool;
        fn ctc_backward(s: &Sequences, grad: View, inputs: [View; 4], zero_infinity: bool; out: View) -> bool;
        fn gru(r: Recurrence, input: View, weights: Weights; steps: GruSteps) -> bool;
        fn gru_backward(
            r: Recurrence, grad: View, weight: View, steps: GruSteps; grads: GruGradients,
        ) -> bool;
        fn attention(a: &Attention; out: View, lse: View) -> bool;
        fn attention_backward(a: &Attention, out: View, lse: View, grad: View; grads: [View; 3]) -> bool;
        fn convolution_bias(s: &ConvShape, g: View; out: View) -> ();
        fn max_pool(s: &PoolShape, x: View; out: View, indices: View) -> ();
        fn adaptive_max_pool(s: &ResizeShape, x: View; out: View, indices: View) -> ();
        fn resample(map: &SpatialLinearMap, x: View; out: View) -> ();
        fn resample_adjoint(map: &SpatialLinearMap, g: View; out: View) -> ();
        fn sample(how: Sampling, images: View, grid: View; out: View) -> bool;
        fn sample_backward(
            how: Sampling, grad: View, images: View, grid: View;
            of_images: Option<View>, of_grid: Option<View>,
        ) -> bool;
        fn factor(op: &'static str, what: Factor, n: usize; a: View, out: View) -> ();
        fn svd(m: &Matrices; w: View, out: View) -> ();
        fn follow(old: View, new: View, kept: f64, taken: f64; out: View) -> ();
        fn optimizer_step(; groups: &[Group]) -> ();
        fn scale(; tensors: &[View], factor: View, found: Option<View>) -> ();
    }
}
