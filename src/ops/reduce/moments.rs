//! Variance and standard deviation.

use smallvec::smallvec;

use super::{along_memory, compute_float, dim_mask, mean_mask, reduced_count, reduced_shape, restored};
use crate::backend::reduce as kernels;
use crate::dtype::Scalar;
use crate::ensure;
use crate::error::{Result, warn};
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record, record_all};
use crate::ops::schema::{Args, Out};
use crate::ops::{arith, rows};
use crate::tensor::Tensor;

/// Mean and variance, or mean and standard deviation, without history.
fn raw(t: &Tensor, mask: u64, keepdim: bool, correction: f64, root: bool) -> Result<(Tensor, Tensor)> {
    let compute = compute_float(t.dtype());
    let (x, d) = along_memory(t, mask, compute)?;
    let shape = reduced_shape(t.shape(), mask, keepdim);
    let (mean, spread) = (x.new_empty(shape.clone())?, x.new_empty(shape)?);
    let freedom = (d.n as f64 - correction).max(0.0);
    kernels::moments(x.raw(), d, mean.raw(), spread.raw())?;
    rows::div.call_inplace(&[(&spread).into(), freedom.into()], &[])?;
    if root {
        rows::sqrt.call_inplace(&[(&spread).into()], &[])?;
    }
    Ok((mean.dense(t.dtype())?, spread.dense(t.dtype())?))
}

fn expect_float(op: &str, t: &Tensor) -> Result<()> {
    ensure!(t.dtype().is_float(), NotImplemented, "{op} only support floating point and complex dtypes");
    Ok(())
}

/// The mean of a floating point tensor over the dimensions of `mask`, which are kept with size 1, and its variance
/// without correction; without history.
pub fn mean_and_var(t: &Tensor, mask: u64) -> Result<(Tensor, Tensor)> {
    raw(t, mask, true, 0.0, false)
}

/// The variance over the dimensions of `mask`; the sum of squares is divided by the count minus `correction`.
pub fn var_mask(t: &Tensor, mask: u64, keepdim: bool, correction: f64) -> Result<Tensor> {
    expect_float("std and var", t)?;
    let (_, out) = raw(t, mask, keepdim, correction, false)?;
    record(out, &[t], |_| Spread::new("VarBackward0", t, None, mask, correction, false))
}

/// The square root of [`var_mask`].
pub fn std_mask(t: &Tensor, mask: u64, keepdim: bool, correction: f64) -> Result<Tensor> {
    expect_float("std and var", t)?;
    let (_, out) = raw(t, mask, keepdim, correction, true)?;
    record(out, &[t], |y| Spread::new("StdBackward0", t, Some(y), mask, correction, false))
}

/// The node of all four operations: its inputs are the gradients of the variance or standard deviation and, for pairs,
/// of the mean.
struct Spread {
    node: &'static str,
    input: SavedTensor,
    /// The result, if it is a standard deviation.
    std: SavedTensor,
    mask: u64,
    correction: f64,
    with_mean: bool,
}

impl Spread {
    fn new(
        node: &'static str,
        t: &Tensor,
        std: Option<&Tensor>,
        mask: u64,
        correction: f64,
        with_mean: bool,
    ) -> Spread {
        let input = SavedTensor::input(t);
        Spread {
            node,
            input,
            std: std.map_or_else(SavedTensor::unused, SavedTensor::output),
            mask,
            correction,
            with_mean,
        }
    }

    fn by_spread(&self, cx: &Cx, x: &Tensor, g: &Tensor) -> Result<Tensor> {
        let mut g = g.clone();
        if let Some(std) = self.std.try_get(cx)? {
            let by_var = arith::div(&g, &arith::mul(&std, 2.0)?)?;
            let flat = rows::eq.call(&[(&std).into(), 0.0.into()], &[])?;
            g = rows::select_where.call(&[(&flat).into(), 0.0.into(), (&by_var).into()], &[])?;
        }
        let g = restored(&g, x.shape(), self.mask)?;
        let away = arith::sub(x, &mean_mask(x, self.mask, true, None)?)?;
        let freedom = reduced_count(x, self.mask) as f64 - self.correction;
        if freedom > 0.0 {
            return arith::mul(&arith::mul(&g, 2.0 / freedom)?, &away);
        }
        let flat = rows::eq.call(&[(&away).into(), 0.0.into()], &[])?;
        let slope = rows::select_where.call(
            &[(&flat).into(), (&x.new_full([0usize; 0], f64::NAN)?).into(), f64::INFINITY.into()],
            &[],
        )?;
        arith::mul(&g, &slope)
    }
}

impl Function for Spread {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let x = self.input.get(cx)?;
        let mut total = match &grads[0] {
            Some(g) => Some(self.by_spread(cx, &x, g)?),
            None => None,
        };
        if let (true, Some(Some(g))) = (self.with_mean, grads.get(1)) {
            let g = arith::div(
                &super::expand_reduced(g, x.shape(), self.mask)?,
                reduced_count(&x, self.mask) as f64,
            )?;
            total = Some(match total {
                Some(t) => arith::add(&t, &g)?,
                None => g,
            });
        }
        Ok(smallvec![total])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.input);
        if self.node.starts_with("Std") {
            visit("result", &self.std);
        }
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        super::show_reduced(self.mask, visit);
        // Shown as an integer if it is integral, as users pass it.
        let whole = self.correction as i64;
        let given =
            if whole as f64 == self.correction { Scalar::Int(whole) } else { Scalar::Float(self.correction) };
        visit("correction", Attribute::Number(given));
    }
}

/// The arguments common to all signatures.
struct Request {
    mask: u64,
    keepdim: bool,
    correction: f64,
}

/// `(input, unbiased)`.
fn whole(a: &Args) -> Result<Request> {
    Ok(Request {
        mask: dim_mask(None, a.tensor(0)?.rank())?,
        keepdim: false,
        correction: a.bool(1)? as u8 as f64,
    })
}

/// `(input, dim, unbiased, keepdim)`.
fn unbiased(a: &Args) -> Result<Request> {
    let mask = dim_mask(a.opt_ints(1)?, a.tensor(0)?.rank())?;
    Ok(Request { mask, keepdim: a.bool(3)?, correction: a.bool(2)? as u8 as f64 })
}

/// `(input, dim, *, correction, keepdim)`.
fn corrected(a: &Args) -> Result<Request> {
    let mask = dim_mask(a.opt_ints(1)?, a.tensor(0)?.rank())?;
    let correction = a.opt_number(2)?.map_or(1.0, |c| c.to_f64());
    Ok(Request { mask, keepdim: a.bool(3)?, correction })
}

/// The four operations.
#[derive(Clone, Copy)]
enum Kind {
    Var,
    Std,
    VarMean,
    StdMean,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Var => "var",
            Kind::Std => "std",
            Kind::VarMean => "var_mean",
            Kind::StdMean => "std_mean",
        }
    }
}

fn run(kind: Kind, a: &Args, request: fn(&Args) -> Result<Request>) -> Result<Out> {
    let t = a.tensor(0)?;
    // Checked before the dimensions, as in PyTorch.
    let checked = if matches!(kind, Kind::Var | Kind::Std) { "std and var" } else { kind.name() };
    expect_float(checked, t)?;
    let Request { mask, keepdim, correction } = request(a)?;
    if reduced_count(t, mask) as f64 <= correction {
        warn(&format!(
            "{}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel \
             divided by output numel).",
            kind.name()
        ))?;
    }
    let (node, root) = match kind {
        Kind::Var => return Ok(var_mask(t, mask, keepdim, correction)?.into()),
        Kind::Std => return Ok(std_mask(t, mask, keepdim, correction)?.into()),
        Kind::VarMean => ("VarMeanBackward0", false),
        Kind::StdMean => ("StdMeanBackward0", true),
    };
    let (mean, spread) = raw(t, mask, keepdim, correction, root)?;
    Ok(Out::Tuple(record_all(vec![spread, mean], &[t], |y| {
        Spread::new(node, t, root.then_some(&y[0]), mask, correction, true)
    })?))
}

macro_rules! signatures {
    ($($kind:ident: $whole:ident $unbiased:ident $corrected:ident;)*) => { $(
        pub(super) fn $whole(a: &Args) -> Result<Out> {
            run(Kind::$kind, a, whole)
        }
        pub(super) fn $unbiased(a: &Args) -> Result<Out> {
            run(Kind::$kind, a, unbiased)
        }
        pub(super) fn $corrected(a: &Args) -> Result<Out> {
            run(Kind::$kind, a, corrected)
        }
    )* };
}
signatures! {
    Var: var_whole var_unbiased var_corrected;
    Std: std_whole std_unbiased std_corrected;
    VarMean: var_mean_whole var_mean_unbiased var_mean_corrected;
    StdMean: std_mean_whole std_mean_unbiased std_mean_corrected;
}
