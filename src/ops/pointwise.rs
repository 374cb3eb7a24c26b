//! Execution of pointwise operations: types, shapes, the kernel call, recording. The operations are declared in
//! `rows`.

mod backward;
mod fold;
mod formula;
mod inplace;
pub mod numbers;
mod order;
pub mod unsigned;

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::autocast::CastPolicy;
use super::interpreter;
use super::out_policy::OutPolicy;
use super::schema::{Exposure, Op};
use crate::backend::pointwise::{
    Kernel, Operand, Program, SmallOperand, compute_type, expect_divisors, run, run_few, run_pair,
};
use crate::backend::{View, copy};
use crate::device::Device;
use crate::dtype::{DType, Scalar, promote};
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::formula::record::Step;
use crate::graph::{
    Attribute, NotImplemented, anomaly, anything_held, grad_enabled, record, record_in_place,
    saved_tensor_hooks_active,
};
use crate::layout::{Dims, Layout, broadcast};
use crate::tensor::Tensor;
use crate::{bail, ensure};
use backward::PointwiseBackward;
pub use backward::prim_row;
pub(in crate::ops) use backward::replay;
pub use fold::{Applied, Rule, fold, sum_of};
pub use formula::{evaluate, primitive, step};
pub use inplace::check_inplace_shape;
use order::{empty_among, lie_plainly};

/// The dtypes that a formula accepts and returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Floating point; integers are promoted to the default dtype.
    Float,
    /// All dtypes; the result has the promoted dtype.
    Num,
    /// All dtypes; the result is a bool.
    Truth,
    /// Integers and bools.
    Bits,
}

/// When the derivative of half types is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounds {
    /// Once, at the end.
    Once,
    /// If a 0-d operand of a half type is combined with wider operands, values computed from it alone are rounded to
    /// its dtype, as by PyTorch's separate operations.
    Mixed,
    /// After each step, as in PyTorch, where sums over broadcast dimensions make it visible.
    Steps,
}

/// How an operation computes with uint16, uint32 and uint64, which formulas read as int32 or int64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsigned {
    /// Not at all, unless it promotes integers to floating point.
    Refused,
    /// As with signed integers: the low bits of the result do not depend on the sign.
    Bits,
    /// By the order of elements, of which int64 has another for uint64.
    Order,
    /// The result is the operand.
    Identity,
}

/// In `RowMeta::rounded`: the parameters.
pub const ROUNDED_PARAMETERS: u8 = 1 << 7;

/// Properties of a pointwise operation other than its formulas.
pub struct RowMeta {
    /// The interval from which gradient checks sample the inputs.
    pub on: (f64, f64),
    pub exposure: Exposure,
    pub aliases: &'static [&'static str],
    /// The autocast policy.
    pub autocast: CastPolicy,
    /// The signature, if it differs from the declared inputs and parameters; several are separated by ` | `.
    pub sig: &'static str,
    /// The lowest category of dtypes that the operation accepts: 1 excludes bool, 2 also integers.
    pub least: u8,
    /// Integers are returned unchanged (`floor`).
    pub keeps_ints: bool,
    /// An integer division by zero is an error.
    pub divides: bool,
    /// The formula or a derivative has a primitive that is computed without its algorithm for rare arguments first, see
    /// [`Prim::is_quick`](crate::formula::record::Prim::is_quick). Each loop is compiled twice then.
    pub quick: bool,
    /// The first input is a condition and is excluded from promotion.
    pub conditional: bool,
    pub rounds: Rounds,
    /// Has `inplace: bool = False` after its parameters, as activations do.
    pub inplace_argument: bool,
    /// PyTorch has no kernel for float16 and bfloat16.
    pub no_half: bool,
    /// Whether it is implemented for uint16, uint32 and uint64.
    pub unsigned: Unsigned,
    /// Whether it is implemented for the float8 types.
    pub float8: bool,
    /// An infinite parameter means an absent bound.
    pub bounds: bool,
    /// The operands (bits from 0) that are rounded to float16 or bfloat16 if they are numbers and the others have that
    /// dtype, and [`ROUNDED_PARAMETERS`]. PyTorch computes some operations so, and others with the number itself.
    pub rounded: u8,
    /// Whether a number is a limit, "min" or "max", which may lie outside the range of an integer dtype.
    pub limit: &'static str,
    /// Checks combinations of number parameters.
    pub check: fn(&[Scalar]) -> Result<()>,
}

impl RowMeta {
    pub const NEW: RowMeta = RowMeta {
        on: (-2.0, 2.0),
        exposure: Exposure::ALL,
        aliases: &[],
        autocast: CastPolicy::UNCHANGED,
        sig: "",
        least: 0,
        keeps_ints: false,
        divides: false,
        quick: false,
        conditional: false,
        rounds: Rounds::Once,
        inplace_argument: false,
        no_half: false,
        unsigned: Unsigned::Refused,
        float8: false,
        bounds: false,
        rounded: 0,
        limit: "",
        check: |_| Ok(()),
    };
}

/// Properties that only imitate PyTorch: the names of nodes and kernels, and attributes of nodes. They affect no
/// computation.
pub struct TorchNames {
    /// PyTorch's name of the node, if it is not the operation's name in camel case.
    pub node: &'static str,
    /// PyTorch's name of the node if one operand is a number, by the position of the number; "" for the usual name.
    pub number_nodes: &'static [&'static str],
    /// PyTorch's error for a bool operand, if it is more specific than a missing kernel.
    pub refuses_bool: &'static str,
    /// PyTorch's name of the kernel in "not implemented for" messages, if it differs from the operation's.
    pub kernel: &'static str,
    /// PyTorch's names of inputs and parameters in the node, if they differ: `(name here, PyTorch's name)`.
    pub shown_as: &'static [(&'static str, &'static str)],
    /// An attribute of PyTorch's node for an argument that the operation does not have.
    pub shows: Option<(&'static str, Attribute<'static>)>,
    /// The name of the derivative's node, if the derivative is constant but depends on its inputs in PyTorch's graph.
    pub flat: &'static str,
    /// PyTorch's operation that computes the derivative, where one does; see Note [Nodes as operations].
    pub backward: &'static str,
    /// How the `out=` form refuses an output of another dtype.
    pub out: OutPolicy,
}

impl TorchNames {
    pub const NEW: TorchNames = TorchNames {
        node: "",
        number_nodes: &[],
        refuses_bool: "",
        kernel: "",
        shown_as: &[],
        shows: None,
        flat: "",
        backward: "",
        out: OutPolicy::CAST,
    };
}

/// A pointwise operation.
pub struct PointwiseOp {
    pub name: &'static str,
    pub doc: &'static str,
    pub inputs: &'static [&'static str],
    /// Parameters with their defaults, as in a signature.
    pub params: &'static [(&'static str, &'static str)],
    pub class: Class,
    pub meta: RowMeta,
    pub torch: TorchNames,
    /// `torch.node`, or else the operation's name in camel case.
    pub node: OnceLock<&'static str>,
    pub kernel: Kernel,
    /// One kernel per input; empty if not differentiable. Operands: gradient, inputs, result.
    pub grads: &'static [Kernel],
    pub steps: fn() -> Formula,
    /// By input; unused if not differentiable.
    pub grad_steps: fn(usize) -> Formula,
    pub plan: OnceLock<Plan>,
    pub op: OnceLock<Op>,
}

/// The recorded formula and derivatives of an operation, and which values the derivatives read.
pub struct Plan {
    /// The formula of the operation itself.
    formula: Formula,
    /// The recorded derivative of each input.
    grads: Vec<Formula>,
    /// For each input, which of gradient, inputs and result its derivative reads, as a bit mask.
    reads: [u8; 3],
    /// The inputs whose gradient equals that of the result, as a bit mask.
    passes: u8,
    /// The inputs in the order in which PyTorch saves them: sorted by name.
    saving: [u8; 3],
    pub node: &'static str,
}

/// An operand: a tensor or a Python number.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    T(&'a Tensor),
    S(Scalar),
}

impl<'a> From<&'a Tensor> for Arg<'a> {
    fn from(t: &'a Tensor) -> Self {
        Arg::T(t)
    }
}
impl From<f64> for Arg<'_> {
    fn from(v: f64) -> Self {
        Arg::S(Scalar::Float(v))
    }
}
impl From<i64> for Arg<'_> {
    fn from(v: i64) -> Self {
        Arg::S(Scalar::Int(v))
    }
}
impl From<Scalar> for Arg<'_> {
    fn from(v: Scalar) -> Self {
        Arg::S(v)
    }
}

/// PyTorch's type promotion: tensors take precedence over 0-d tensors, and these over numbers, unless the latter have
/// a higher category.
///
/// # Errors
/// As [`promote`].
pub fn result_type(args: &[Arg]) -> Result<DType> {
    let mut of: [Option<DType>; 3] = [None; 3];
    for a in args {
        let (rank, dtype) = match a {
            Arg::T(t) => (if t.rank() > 0 { 0 } else { 1 }, t.dtype()),
            Arg::S(Scalar::Bool(_)) => (2, DType::Bool),
            Arg::S(Scalar::Int(_) | Scalar::Long(_)) => (2, DType::I64),
            Arg::S(Scalar::Float(_)) => (2, super::default_dtype()),
        };
        of[rank] = Some(of[rank].map_or(Ok(dtype), |d| promote(d, dtype))?);
    }
    let combine = |hi: Option<DType>, lo: Option<DType>| match (hi, lo) {
        (Some(h), Some(l)) if !h.is_float() && (h == DType::Bool || l.is_float()) => promote(h, l).map(Some),
        (Some(h), _) => Ok(Some(h)),
        (None, l) => Ok(l),
    };
    Ok(combine(of[0], combine(of[1], of[2])?)?.unwrap_or(DType::F32))
}

/// As `result_type`, fast if all tensors have the same dtype.
#[inline]
fn common_dtype(args: &[Arg]) -> Result<DType> {
    let mut found = None;
    for a in args {
        match (a, found) {
            (Arg::T(t), None) => found = Some(t.dtype()),
            (Arg::T(t), Some(d)) if t.dtype() == d => {}
            (Arg::S(s), Some(d)) if s.category() <= d.category() => {}
            _ => return result_type(args),
        }
    }
    Ok(found.unwrap_or(DType::F32))
}

/// A tensor operand, if all tensor operands have its shape.
#[inline]
fn common_shape<'a>(args: &[Arg<'a>]) -> Option<&'a Tensor> {
    let mut found: Option<&Tensor> = None;
    for a in args {
        match (a, found) {
            (Arg::S(_), _) => {}
            (Arg::T(t), None) => found = Some(t),
            (Arg::T(t), Some(f)) if t.shape() == f.shape() => {}
            _ => return None,
        }
    }
    found
}

/// The device of the result: a GPU if any operand is on one, since 0-d CPU tensors may be mixed in.
#[inline]
fn common_device(args: &[Arg]) -> Device {
    Device::of_result(args.iter().filter_map(|a| if let Arg::T(t) = a { Some(t.device()) } else { None }))
}

/// An operand for a kernel on `device`: a 0-d tensor of another device may be a number there.
#[inline(always)]
fn operand<'a>(t: &'a Tensor, layout: Option<&'a Layout>, device: Device) -> Result<Operand<'a>> {
    if t.device() != device && t.rank() == 0 && t.device().lends_operands() {
        return Ok(Operand::Number(t.item()?));
    }
    let view = t.raw();
    Ok(Operand::View(View { layout: layout.unwrap_or(view.layout), ..view }))
}

impl PointwiseOp {
    /// The operation or one of its derivatives, for the backend.
    #[inline]
    fn program<'a>(&self, kernel: Kernel, formula: &'a dyn Fn() -> &'a Formula) -> Program<'a> {
        Program { name: self.name, kernel, formula }
    }

    pub fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| {
            let grads: Vec<Formula> = (0..self.grads.len()).map(|k| (self.grad_steps)(k)).collect();
            let bits = |f: &Formula| (0..self.inputs.len() + 2).map(|a| (f.reads(a) as u8) << a).sum();
            let node = if self.torch.node.is_empty() { node_name(self.name) } else { self.torch.node };
            let passes = (0..).zip(&grads).map(|(k, s)| ((s.steps() == [Step::Arg(0)]) as u8) << k).sum();
            let mut read = [0; 3];
            read.iter_mut().zip(&grads).for_each(|(r, s)| *r = bits(s));
            let mut saving = [0, 1, 2];
            saving[..self.inputs.len().min(3)].sort_by_key(|&i| self.shown(self.inputs[i as usize]));
            Plan { formula: (self.steps)(), reads: read, passes, saving, grads, node }
        })
    }

    /// PyTorch's name of an input, parameter or result.
    fn shown(&self, name: &'static str) -> &'static str {
        let other = self.torch.shown_as.iter().find(|(row, _)| *row == name).map(|(_, shown)| *shown);
        other.unwrap_or(if name == "input" { "self" } else { name })
    }

    pub fn is_differentiable(&self) -> bool {
        !self.grads.is_empty()
    }

    /// Whether any derivative reads input `i`; the index after the last input is the result.
    pub fn derivatives_read(&self, i: usize) -> bool {
        self.plan().reads.iter().any(|r| r >> (i + 1) & 1 == 1)
    }

    /// The table entry of the operation.
    pub fn op(&'static self) -> &'static Op {
        self.op.get_or_init(|| super::row_op(self))
    }

    /// Calls the operation as the core does, through the interpreters: Note [One door].
    #[inline]
    pub fn call(&'static self, args: &[Arg], params: &[Scalar]) -> Result<Tensor> {
        if interpreter::active()
            && let Some(out) = interpreter::interpreted_core(self.op(), 0, || super::row_values(args, params))
        {
            return out?.tensor();
        }
        self.run(args, params)
    }

    /// Runs the operation out of place.
    pub(super) fn run(&'static self, args: &[Arg], params: &[Scalar]) -> Result<Tensor> {
        let (common, result) = match self.types(args) {
            Ok(types) => types,
            Err(e @ Error::DtypeNotImplemented { .. }) => {
                // Shape errors take precedence.
                self.shape(args)?;
                return Err(e);
            }
            Err(e) => return Err(e),
        };
        if self.is_unsigned(common) {
            return unsigned::run(self, args, params);
        }
        let device = common_device(args);
        let out = match common_shape(args) {
            Some(t) if t.device() == device && lie_plainly(args) => t.empty_as(result)?,
            Some(t) => empty_among(t.shape(), args, common, result, device)?,
            None => empty_among(&self.shape(args)?, args, common, result, device)?,
        };
        if self.meta.keeps_ints && !common.is_float() {
            match args[0] {
                Arg::T(t) => copy::copy(t.raw(), out.raw())?,
                Arg::S(s) => copy::fill(out.raw(), s)?,
            }
            return Ok(out);
        }
        self.run_into(args, params, common, &out)?;
        self.record_backward(out, args, params)
    }

    /// The fast path for small operands that need no conversion: two dense operands of one floating point dtype and
    /// shape, one of which may be a number. None for others.
    #[inline]
    pub fn call_small(&'static self, args: [Arg; 2]) -> Option<Tensor> {
        let (like, storage) = match args {
            [Arg::T(a), Arg::T(b)] => {
                let alike = a.dtype() == b.dtype() && a.shape() == b.shape();
                if !alike || !is_plain(a) || !is_plain(b) {
                    return None;
                }
                (a, run_pair(self.kernel, a.numel(), a.raw(), b.raw())?)
            }
            [Arg::T(a), Arg::S(s)] if is_plain(a) && !(a.dtype().is_half() && self.meta.rounded & 2 != 0) => {
                let operands = [SmallOperand::Dense(a.raw()), SmallOperand::Number(s)];
                (a, run_few(&self.kernel, a.dtype(), a.numel(), &operands, &[])?)
            }
            [Arg::S(s), Arg::T(a)] if is_plain(a) && !(a.dtype().is_half() && self.meta.rounded & 1 != 0) => {
                let operands = [SmallOperand::Number(s), SmallOperand::Dense(a.raw())];
                (a, run_few(&self.kernel, a.dtype(), a.numel(), &operands, &[])?)
            }
            _ => return None,
        };
        self.record_small(like.dense_like(storage), &args)
    }

    /// As [`Self::call_small`], for operations of one operand and no parameters.
    #[inline]
    pub fn call_small_unary(&'static self, t: &Tensor) -> Option<Tensor> {
        if !is_plain(t) {
            return None;
        }
        let storage = run_few(&self.kernel, t.dtype(), t.numel(), &[SmallOperand::Dense(t.raw())], &[])?;
        self.record_small(t.dense_like(storage), &[Arg::T(t)])
    }

    /// Records a result of the fast path; None if that may run user code.
    #[inline]
    fn record_small(&'static self, out: Tensor, args: &[Arg]) -> Option<Tensor> {
        if args.iter().any(|a| matches!(a, Arg::T(t) if t.requires_grad())) {
            // Saved tensor hooks and anomaly mode run user code, which callers do not expect here; dropping the old
            // history of a view whose base was written may do so too.
            let drops_history =
                || anything_held() && args.iter().any(|a| matches!(a, Arg::T(t) if t.is_view()));
            return if saved_tensor_hooks_active() || anomaly::enabled() || drops_history() {
                None
            } else {
                self.record_backward(out, args, &[]).ok()
            };
        }
        Some(out)
    }

    /// The compute type (as a tensor dtype) and the dtype of the result.
    fn types(&self, args: &[Arg]) -> Result<(DType, DType)> {
        let common = common_dtype(&args[self.meta.conditional as usize..])?;
        let kernel = if self.torch.kernel.is_empty() { self.name } else { self.torch.kernel };
        let refuse = |dtype| Err(Error::DtypeNotImplemented { op: kernel, dtype });
        if common.is_limited() && !self.takes_limited(common) {
            return refuse(common);
        }
        if common == DType::Bool && !self.torch.refuses_bool.is_empty() {
            bail!(NotImplemented, "{}", self.torch.refuses_bool);
        }
        if common.category() < self.meta.least {
            return refuse(common);
        }
        match self.class {
            Class::Float if common.is_float() || self.meta.keeps_ints => Ok((common, common)),
            Class::Float => Ok((super::default_dtype(), super::default_dtype())),
            Class::Num => Ok((common, common)),
            Class::Truth => Ok((common, DType::Bool)),
            Class::Bits if common.is_float() => refuse(common),
            Class::Bits => Ok((common, common)),
        }
    }

    /// Whether the operation is implemented for a limited dtype.
    #[cold]
    fn takes_limited(&self, dtype: DType) -> bool {
        match dtype.is_float8() {
            true => self.meta.float8,
            false => {
                self.meta.unsigned != Unsigned::Refused || self.meta.keeps_ints || self.class == Class::Float
            }
        }
    }

    /// Whether [`unsigned::run`] computes with a dtype instead of a kernel.
    #[inline]
    fn is_unsigned(&self, common: DType) -> bool {
        common.is_limited_int()
            && (self.meta.unsigned == Unsigned::Identity
                || (self.meta.unsigned == Unsigned::Order && common == DType::U64))
    }

    #[inline]
    fn shape(&self, args: &[Arg]) -> Result<Dims> {
        let mut tensors = args.iter().filter_map(|a| if let Arg::T(t) = a { Some(*t) } else { None });
        let Some(first) = tensors.next() else { return Ok(Dims::default()) };
        let mut shape: Option<Dims> = None;
        for t in tensors {
            let so_far = shape.as_ref().unwrap_or(first.shape());
            if so_far != t.shape() {
                shape = Some(broadcast(self.name, so_far, t.shape())?);
            }
        }
        Ok(shape.unwrap_or_else(|| first.shape().clone()))
    }

    /// Computes into `out`, which has the broadcast shape, and any dtype and layout.
    fn run_into(&self, args: &[Arg], params: &[Scalar], common: DType, out: &Tensor) -> Result<()> {
        if !common.is_float() {
            if args.iter().any(|a| numbers::is_wider(a, common)) {
                return self.run_wrapped(args, params, common, out);
            }
            if self.meta.divides && out.numel() > 0 {
                refuse_zero_divisor(args)?;
            }
        } else if common.is_half() && self.meta.rounded != 0 && self.any_is_finer(args, params, common) {
            return self.run_rounded(args, params, common, out);
        }
        // The usual case first: all operands have the shape of the result, so no layouts need to be built.
        let uniform =
            args.iter().all(|a| matches!(a, Arg::T(t) if t.shape() == out.shape()) || matches!(a, Arg::S(_)));
        if uniform {
            let mut operands = [Operand::Unread; 3];
            for (a, o) in args.iter().zip(&mut operands) {
                *o = match a {
                    Arg::T(t) => operand(t, None, out.device())?,
                    Arg::S(s) => Operand::Number(*s),
                };
            }
            let formula = || &self.plan().formula;
            let program = self.program(self.kernel, &formula);
            let done = run(&program, compute_type(common), &operands[..args.len()], params, out.raw())?;
            ensure!(done, Error::DtypeNotImplemented { op: self.name, dtype: common });
            return Ok(());
        }
        let mut expanded: [Option<Layout>; 3] = [None, None, None];
        for (a, e) in args.iter().zip(&mut expanded) {
            if let Arg::T(t) = a
                && t.shape() != out.shape()
            {
                *e = t.layout().expand(out.shape());
                ensure!(
                    e.is_some(),
                    Runtime,
                    "{}: cannot expand {} to {}",
                    self.name,
                    t.shape(),
                    out.shape()
                );
            }
        }
        let operands: SmallVec<[Operand; 5]> = args
            .iter()
            .zip(&expanded)
            .map(|(a, e)| match a {
                Arg::S(s) => Ok(Operand::Number(*s)),
                Arg::T(t) => operand(t, e.as_ref(), out.device()),
            })
            .collect::<Result<_>>()?;
        let formula = || &self.plan().formula;
        let program = self.program(self.kernel, &formula);
        let done = run(&program, compute_type(common), &operands, params, out.raw())?;
        ensure!(done, Error::DtypeNotImplemented { op: self.name, dtype: common });
        Ok(())
    }

    /// Whether a number as input `i` has an empty edge: PyTorch converts it to a tensor, unless the operation has a
    /// separate node for numbers.
    #[inline(always)]
    fn numbers_have_edges(&self, i: usize) -> bool {
        i > 0 && self.torch.number_nodes.is_empty()
    }

    /// Records a new result.
    #[inline]
    fn record_backward(&'static self, out: Tensor, args: &[Arg], params: &[Scalar]) -> Result<Tensor> {
        let tracked = args.iter().any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
        if !tracked || !grad_enabled() || !out.dtype().is_float() {
            return Ok(out);
        }
        if self.grads.is_empty() {
            return self.remember_underivable(out, args);
        }
        let has_edge = |i: usize| matches!(args[i], Arg::T(_)) || self.numbers_have_edges(i);
        let count = (0..args.len()).filter(|&i| has_edge(i)).count();
        let common = out.dtype();
        record_in_place(
            out,
            count,
            || PointwiseBackward::new(self, args, params, common),
            |y, f, edges| {
                f.keep(args, y);
                for (i, edge) in (0..args.len()).filter(|&i| has_edge(i)).zip(edges) {
                    if let Arg::T(t) = args[i] {
                        t.put_grad_edge(edge)?;
                    }
                }
                Ok(())
            },
        )
    }

    /// Records a result of an operation without derivative. PyTorch's node has only the inputs that require grad.
    #[cold]
    fn remember_underivable(&self, out: Tensor, args: &[Arg]) -> Result<Tensor> {
        let inputs: SmallVec<[&Tensor; 2]> = args
            .iter()
            .filter_map(|a| match a {
                Arg::T(t) if t.requires_grad() => Some(*t),
                _ => None,
            })
            .collect();
        record(out, &inputs, |_| NotImplemented { op: self.name })
    }
}

#[inline(always)]
fn is_plain(t: &Tensor) -> bool {
    t.is_contiguous() && t.layout().has_plain_strides()
}

/// Errors if a result would be cast to a dtype of a lower category.
pub fn check_result_cast(from: DType, to: DType) -> Result<()> {
    ensure!(from.category() <= to.category(), Error::ResultCast { from, to });
    Ok(())
}

fn refuse_zero_divisor(args: &[Arg]) -> Result<()> {
    match args[1] {
        Arg::S(s) => ensure!(!s.is_zero(), Error::ZeroDivision),
        Arg::T(t) => expect_divisors(t.dense(t.dtype())?.raw())?,
    }
    Ok(())
}

/// `leaky_relu` → `LeakyReluBackward0`, `log1p` → `Log1PBackward0`.
fn node_name(op: &str) -> &'static str {
    let camel: String = op
        .split('_')
        .flat_map(|word| {
            let mut starts = true;
            word.chars().map(move |c| {
                let shown = if starts { c.to_ascii_uppercase() } else { c };
                starts = c.is_ascii_digit();
                shown
            })
        })
        .collect();
    // Leaked once per operation.
    Box::leak(format!("{camel}Backward0").into_boxed_str())
}
