//! Kernels that are queued as the steps that they consist of, which groups compute with what is before and after them.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::entry::{Deferred, held, is_worth, kept};
use super::queue::{Held, In, Work};
use super::{least, step};
use crate::backend::View;
use crate::backend::group::{LONGEST_ROW, SHORTEST_RUN, SUMMED_ROWS};
use crate::backend::interface::Backend as _;
use crate::backend::pointwise::{Kernel, Operand, Program};
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::formula::record::Prim;
use crate::layout::{Dims, Layout};
use crate::storage::Access;

/// Queues the steps of one kernel.
pub struct Composition<'d> {
    to: &'d Deferred,
    name: &'static str,
    device: Device,
    dtype: DType,
    of: Operations,
}

/// A pointwise operation of one step.
struct Operation {
    kernel: Kernel,
    formula: Arc<Formula>,
}

struct Operations {
    add: Operation,
    sub: Operation,
    mul: Operation,
    div: Operation,
    abs: Operation,
    root: Operation,
}

impl Operation {
    /// None if the step has no kernel.
    fn of(prim: Prim) -> Option<Operation> {
        let (kernel, formula) = step(prim)?;
        Some(Operation { kernel, formula: kept(formula) })
    }
}

impl Operations {
    /// None if steps have no kernels.
    fn of_steps() -> Option<Operations> {
        let of = Operation::of;
        Some(Operations {
            add: of(Prim::Add)?,
            sub: of(Prim::Sub)?,
            mul: of(Prim::Mul)?,
            div: of(Prim::Div)?,
            abs: of(Prim::Abs)?,
            root: of(Prim::Sqrt)?,
        })
    }
}

/// The elements from which normalizations are queued as their steps, as multiples of those of an operation that is queued: a layer
/// normalization is twelve entries, backward of it some twenty, a batch normalization three.
const OF_ROWS: usize = 8;
const OF_CHANNELS: usize = 4;

/// The rows of columns that are reduced row by row, such as colours.
const FEW: std::ops::RangeInclusive<usize> = 2..=4;

impl Deferred {
    /// Whether columns of a few rows are reduced as steps on the rows: these are in memory, so nothing is stored for the steps.
    pub(super) fn composes_few(&self, x: View, d: ReduceDims, out: View) -> bool {
        self.now.fusion().norms > 0
            && FEW.contains(&d.n)
            && d.inner >= SHORTEST_RUN
            && [x, out].iter().all(|v| v.layout.is_contiguous())
            && !x.storage.waits(Access::Read)
    }

    /// Whether a layer normalization of rows of `n` elements is queued as its steps.
    pub(super) fn composes_rows(&self, n: usize, views: &[View]) -> bool {
        let multiple = self.now.fusion().norms;
        multiple > 0
            && n.is_multiple_of(multiple)
            && SUMMED_ROWS.contains(&n)
            && views.iter().all(|v| v.layout.numel() >= 2 * n)
            && is_composed(OF_ROWS, views)
    }

    /// Whether the mean and squared deviations of rows are queued as steps.
    pub(super) fn composes_moments(&self, d: ReduceDims, views: &[View; 3]) -> bool {
        let are_rows = d.inner == 1 && (2..=LONGEST_ROW).contains(&d.n);
        self.now.fusion().norms > 0
            && are_rows
            && views.iter().all(|v| v.layout.is_contiguous())
            && is_composed(OF_CHANNELS, &views[..1])
    }

    /// Whether the normalization of channels of runs of `inner` elements by given statistics is queued as its steps.
    pub(super) fn composes_channels(&self, c: usize, inner: usize, views: &[View]) -> bool {
        self.now.fusion().norms > 0
            && (inner >= SHORTEST_RUN || inner == 1 && c >= SHORTEST_RUN)
            && is_composed(OF_CHANNELS, views)
    }
}

/// Whether a kernel on these tensors may be queued as its steps.
fn is_composed(times: usize, views: &[View]) -> bool {
    let [first, ..] = views else { return false };
    let fits = |v: &View| v.layout.numel() >= times * least() && v.dtype == first.dtype;
    matches!(first.dtype, DType::F32 | DType::F64)
        && views.iter().all(fits)
        && is_worth(first.layout.numel(), views.iter().copied())
}

fn input(v: &Held) -> In {
    In::View(v.clone())
}

fn number(v: f64) -> In {
    In::Number(Scalar::Float(v))
}

impl<'d> Composition<'d> {
    /// For a kernel that computes in the dtype and on the device of `like`; None if steps have no kernels.
    pub fn new(to: &'d Deferred, name: &'static str, like: View) -> Option<Self> {
        Some(Composition { to, name, device: like.device(), dtype: like.dtype, of: Operations::of_steps()? })
    }

    /// A new dense value.
    pub fn value(&self, shape: &Dims) -> Result<Held> {
        let layout = Layout::contiguous(shape.clone());
        let storage = self.to.allocate(self.device, layout.numel() * self.dtype.size())?;
        Ok(Held { storage, layout, dtype: self.dtype })
    }

    fn map<const N: usize>(&self, of: &Operation, ins: [In; N], out: View) -> Result<()> {
        let work = Work::Map { kernel: of.kernel, formula: of.formula.clone(), params: SmallVec::new() };
        self.to.push(self.name, work, self.dtype, ins.into_iter().collect(), out)
    }

    /// As `map`, to a new value.
    fn new_map<const N: usize>(&self, of: &Operation, ins: [In; N], shape: &Dims) -> Result<Held> {
        let out = self.value(shape)?;
        self.map(of, ins, out.view())?;
        Ok(out)
    }

    /// Computes a step of few elements as the operation that it is alone, to a new value.
    fn call<const N: usize>(&self, of: &Operation, operands: [Operand; N], shape: &Dims) -> Result<Held> {
        let out = self.value(shape)?;
        self.call_into(of, operands, out.view())?;
        Ok(out)
    }

    fn call_into<const N: usize>(&self, of: &Operation, operands: [Operand; N], out: View) -> Result<()> {
        let formula = || &*of.formula;
        let program = Program { name: self.name, kernel: of.kernel, formula: &formula };
        let done = self.to.pointwise(&program, self.dtype, &operands, &[], out)?;
        ensure!(done, Error::DtypeNotImplemented { op: self.name, dtype: self.dtype });
        Ok(())
    }

    fn sum(&self, x: In, d: ReduceDims, out: View) -> Result<()> {
        self.to.push(self.name, Work::Reduce(ReduceOp::Sum, d), self.dtype, smallvec![x], out)
    }

    /// The sum or an extremum of columns of a few rows of a dense tensor, with the bits of the reduction; false, and nothing queued, for
    /// other reductions.
    pub fn few(&self, op: ReduceOp, x: View, d: ReduceDims, out: View) -> Result<bool> {
        let prim = match op {
            ReduceOp::Sum => Prim::Add,
            ReduceOp::Max => Prim::Maximum,
            ReduceOp::Min => Prim::Minimum,
            _ => return Ok(false),
        };
        let Some(of) = Operation::of(prim) else { return Ok(false) };
        let shape = Dims::from([d.outer, d.inner]);
        let rows = |v: View, n: usize, row: usize| {
            let strides = [(n * d.inner) as isize, 1][..].into();
            Layout { shape: shape.clone(), strides, offset: v.layout.offset + row * d.inner }
        };
        let row = |k| held(View { layout: &rows(x, d.n, k), ..x });
        // A sum begins with zero, which the sign of a sum of zeros depends on.
        let mut reduced = match op {
            ReduceOp::Sum => input(&self.new_map(&of, [number(0.0), row(0)], &shape)?),
            _ => row(0),
        };
        for k in 1..d.n - 1 {
            reduced = input(&self.new_map(&of, [reduced, row(k)], &shape)?);
        }
        self.map(&of, [reduced, row(d.n - 1)], View { layout: &rows(out, 1, 0), ..out })?;
        Ok(true)
    }

    /// A norm of float `p`, 1 or 2, with the bits of the reduction.
    pub fn norm(&self, p: f64, x: View, d: ReduceDims, out: View) -> Result<()> {
        let shape = &x.layout.shape;
        if p == 1.0 {
            let terms = self.new_map(&self.of.abs, [held(x)], shape)?;
            return self.sum(input(&terms), d, out);
        }
        let terms = self.new_map(&self.of.mul, [held(x), held(x)], shape)?;
        let sums = self.value(&out.layout.shape)?;
        self.sum(input(&terms), d, sums.view())?;
        self.map(&self.of.root, [input(&sums)], out)
    }

    /// The mean and the sum of squared deviations of rows of `n` elements, with the bits of the reduction.
    pub fn moments(&self, x: View, n: usize, mean: View, squares: View) -> Result<()> {
        self.deviations(&Rows::of(x, n), x, mean, squares).map(drop)
    }

    /// As `moments`; returns the deviations.
    fn deviations(&self, rows: &Rows, x: View, mean: View, squares: View) -> Result<Held> {
        let total = self.value(&rows.each)?;
        self.sum(held(x), rows.sums, total.view())?;
        self.map(&self.of.div, [input(&total), number(rows.n as f64)], mean)?;
        let centred = self.new_map(&self.of.sub, [rows.matrix(x), rows.column(mean)], &rows.all)?;
        let terms = self.new_map(&self.of.mul, [input(&centred), input(&centred)], &rows.all)?;
        self.sum(input(&terms), rows.sums, squares)?;
        Ok(centred)
    }

    /// Layer normalization with the bits of its kernel.
    pub fn layer_norm(
        &self,
        n: usize,
        x: View,
        [weight, bias]: [Option<View>; 2],
        eps: f64,
        out: View,
        [mean, rstd]: [View; 2],
    ) -> Result<()> {
        let rows = Rows::of(x, n);
        let total = self.value(&rows.each)?;
        let centred = self.deviations(&rows, x, mean, total.view())?;
        let variance = self.new_map(&self.of.div, [input(&total), number(n as f64)], &rows.each)?;
        let variance = self.new_map(&self.of.add, [input(&variance), number(eps)], &rows.each)?;
        let deviation = self.new_map(&self.of.root, [input(&variance)], &rows.each)?;
        self.map(&self.of.div, [number(1.0), input(&deviation)], rstd)?;
        let scale = match weight {
            Some(w) => input(&self.new_map(&self.of.mul, [rows.column(rstd), rows.row(w)], &rows.all)?),
            None => rows.column(rstd),
        };
        let scaled = self.new_map(&self.of.mul, [input(&centred), scale], &rows.all)?;
        // Without a bias too, as the sign of a zero depends on it.
        let bias = bias.map_or(number(0.0), |bias| rows.row(bias));
        self.map(&self.of.add, [input(&scaled), bias], out)
    }

    /// Normalization of groups of channels of `[n, groups, members, inner]` by their mean and variance, which each sample has or all
    /// samples share, with the bits of the kernels of group and batch normalization.
    pub fn channel_norm(
        &self,
        shape: [usize; 4],
        is_shared: bool,
        x: View,
        [weight, bias]: [Option<View>; 2],
        eps: f64,
        out: View,
        [mean, var, rstd]: [View; 3],
    ) -> Result<()> {
        let [_, groups, members, inner] = shape.map(|size| size as isize);
        let samples = if is_shared { 1 } else { shape[0] };
        let (all, channels) = (Dims::from(shape), Dims::from([samples, shape[1], shape[2]]));
        let layout = |v: View, shape: &Dims, strides: &[isize]| Layout {
            shape: shape.clone(),
            strides: strides.into(),
            offset: v.layout.offset,
        };
        let viewed = |v: View, strides: [isize; 4]| held(View { layout: &layout(v, &all, &strides), ..v });
        // Values for each group, and for each channel of each of these samples.
        let per_sample = |count: isize| if is_shared { 0 } else { count };
        let each_group = |v: View| viewed(v, [per_sample(groups), 1, 0, 0]);
        self.reciprocal_deviations(var, eps, rstd)?;
        let scale = match weight {
            Some(w) => {
                let of_rstd = layout(rstd, &channels, &[groups, 1, 0]);
                let of_weight = layout(w, &channels, &[0, members, 1]);
                let factors = [View { layout: &of_rstd, ..rstd }, View { layout: &of_weight, ..w }];
                let scale = self.call(&self.of.mul, factors.map(Operand::View), &channels)?;
                viewed(scale.view(), [per_sample(groups * members), members, 1, 0])
            }
            None => each_group(rstd),
        };
        let bias = bias.map_or(number(0.0), |b| viewed(b, [0, members, 1, 0]));
        let x = viewed(x, [groups * members * inner, members * inner, inner, 1]);
        let centred = self.new_map(&self.of.sub, [x, each_group(mean)], &all)?;
        let scaled = self.new_map(&self.of.mul, [input(&centred), scale], &all)?;
        self.map(&self.of.add, [input(&scaled), bias], out)
    }

    /// Computes `1 / sqrt(var + eps)`, and as what follows from it for each channel, at once. As entries these would be a group of their
    /// own, after that of the elements, and what reads the scale could not join the latter.
    fn reciprocal_deviations(&self, var: View, eps: f64, rstd: View) -> Result<()> {
        let number_of = |v: f64| Operand::Number(Scalar::Float(v));
        let shape = &var.layout.shape;
        let variance = self.call(&self.of.add, [Operand::View(var), number_of(eps)], shape)?;
        let deviation = self.call(&self.of.root, [Operand::View(variance.view())], shape)?;
        self.call_into(&self.of.div, [number_of(1.0), Operand::View(deviation.view())], rstd)
    }

    /// The gradients of layer normalization; that of the input with the bits of the kernel.
    pub fn layer_norm_backward(
        &self,
        n: usize,
        [g, x]: [View; 2],
        [mean, rstd]: [View; 2],
        weight: Option<View>,
        [of_x, of_weight, of_bias]: [View; 3],
    ) -> Result<()> {
        let rows = Rows::of(x, n);
        let (mul, div, sub) = (&self.of.mul, &self.of.div, &self.of.sub);
        let columns = ReduceDims::new(1, rows.count, n);
        let centred = self.new_map(sub, [rows.matrix(x), rows.column(mean)], &rows.all)?;
        let product = self.new_map(mul, [rows.matrix(g), input(&centred)], &rows.all)?;
        let product = self.new_map(mul, [input(&product), rows.column(rstd)], &rows.all)?;
        self.sum(input(&product), columns, of_weight)?;
        self.sum(rows.matrix(g), columns, of_bias)?;
        let weighted = match weight {
            Some(w) => input(&self.new_map(mul, [rows.matrix(g), rows.row(w)], &rows.all)?),
            None => rows.matrix(g),
        };
        let [plain, along] = [self.value(&rows.each)?, self.value(&rows.each)?];
        self.sum(weighted.clone(), rows.sums, plain.view())?;
        let product = self.new_map(mul, [weighted.clone(), input(&centred)], &rows.all)?;
        self.sum(input(&product), rows.sums, along.view())?;
        let along = self.new_map(mul, [input(&along), held(rstd)], &rows.each)?;
        let along = self.new_map(mul, [input(&along), held(rstd)], &rows.each)?;
        let along = self.new_map(div, [input(&along), number(n as f64)], &rows.each)?;
        let along = self.new_map(mul, [input(&along), held(rstd)], &rows.each)?;
        let shift = self.new_map(div, [input(&plain), number(n as f64)], &rows.each)?;
        let shift = self.new_map(mul, [input(&shift), held(rstd)], &rows.each)?;
        let scaled = self.new_map(mul, [weighted, rows.column(rstd)], &rows.all)?;
        let through_variance = self.new_map(mul, [input(&centred), rows.column(along.view())], &rows.all)?;
        let rest = self.new_map(sub, [input(&scaled), input(&through_variance)], &rows.all)?;
        self.map(sub, [input(&rest), rows.column(shift.view())], of_x)
    }
}

/// A tensor as rows.
struct Rows {
    count: usize,
    n: usize,
    /// The shape of the elements, and of one value per row.
    all: Dims,
    each: Dims,
    sums: ReduceDims,
}

impl Rows {
    fn of(x: View, n: usize) -> Rows {
        let count = x.layout.numel() / n;
        let sums = ReduceDims::rows(count, n);
        Rows { count, n, all: Dims::from([count, n]), each: Dims::from([count]), sums }
    }

    fn viewed(&self, v: View, strides: [isize; 2]) -> In {
        let strides = strides[..].into();
        let layout = Layout { shape: self.all.clone(), strides, offset: v.layout.offset };
        held(View { layout: &layout, ..v })
    }

    /// A dense tensor of all elements.
    fn matrix(&self, v: View) -> In {
        self.viewed(v, [self.n as isize, 1])
    }

    /// A value per row, for all of its elements.
    fn column(&self, v: View) -> In {
        self.viewed(v, [1, 0])
    }

    /// A row, for all rows.
    fn row(&self, v: View) -> In {
        self.viewed(v, [0, 1])
    }
}
