//! A call with batched arguments, and their values in a common form.

use smallvec::SmallVec;

use super::plan::{Param, params};
use super::{Batching, parts_of};
use crate::device::Device;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::interpreter::{self, Caller, Form, Next, OpCall};
use crate::ops::schema::{Op, Out, Overload, Value};
use crate::ops::{mirror, view};
use crate::tensor::Tensor;
use crate::tensor::batched::Levels;
use crate::{bail, ops};

pub type Values = SmallVec<[Value; 6]>;

/// A call of an operation, at least one of whose arguments is batched.
pub struct BatchCall<'a> {
    pub(super) batching: &'a Batching,
    pub call: &'a OpCall<'a>,
    pub values: &'a [Value],
    /// The levels of all arguments together, and the sizes of their dimensions.
    pub levels: Levels,
    pub sizes: SmallVec<[usize; 2]>,
    next: Next,
}

impl<'a> BatchCall<'a> {
    pub(super) fn new(
        batching: &'a Batching,
        call: &'a OpCall<'a>,
        values: &'a [Value],
        next: Next,
    ) -> Result<BatchCall<'a>> {
        let mut levels = Levels::new();
        let mut add = |t: &Tensor| {
            for level in parts_of(t).1 {
                if let Err(at) = levels.binary_search(&level) {
                    levels.insert(at, level);
                }
            }
        };
        mirror::tensors(values).iter().for_each(&mut add);
        if let Form::Into(outs) = call.form {
            outs.iter().for_each(&mut add);
        }
        let sizes = levels.iter().map(|&id| Ok(batching.find(id)?.size)).collect::<Result<_>>()?;
        Ok(BatchCall { batching, call, values, levels, sizes, next })
    }

    /// The number of mapped dimensions.
    pub fn n(&self) -> usize {
        self.levels.len()
    }

    pub fn params(&self) -> &'static [Param] {
        params(self.call.overload)
    }

    /// The position of a parameter.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.params().iter().position(|p| p.name == name)
    }

    /// The argument of a parameter.
    pub fn value(&self, name: &str) -> &Value {
        self.position(name).and_then(|i| self.values.get(i)).unwrap_or(&Value::None)
    }

    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        match self.value(name) {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The first argument.
    pub fn first(&self) -> Result<&Tensor> {
        match self.values.first() {
            Some(Value::Tensor(t)) => Ok(t),
            _ => bail!(Type, "{}(): the first argument must be a Tensor", self.call.op.name),
        }
    }

    pub fn op_name(&self) -> &'static str {
        self.call.op.name
    }

    /// Whether the call writes its first argument.
    pub fn writes(&self) -> bool {
        match self.call.form {
            Form::InPlace => true,
            Form::New => self.call.op.name.ends_with('_') && !self.call.op.replaces(),
            Form::Into(_) => false,
        }
    }

    /// Fails for a write of batched values to a tensor that is not batched by all of their levels.
    pub fn expect_writable(&self) -> Result<()> {
        let first = self.first()?;
        if parts_of(first).1 == self.levels {
            return Ok(());
        }
        let name = self.call.op.name.trim_end_matches('_');
        let called = if name == "index_put" { "index_put_" } else { "inplace arithmetic" };
        let shape = first.shape().to_vec();
        let all: Vec<usize> = self.sizes.iter().chain(&shape).copied().collect();
        bail!(
            Runtime,
            "vmap: {called}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has \
             more elements than `self`: `other` is mapped by vmap and `self` is not (output with shape {shape:?} doesn't \
             match the broadcast shape {all:?}). Use {name}() in place of {name}_(), or make `self` from a mapped tensor, \
             as by `new_zeros`"
        );
    }

    // ---- values

    /// The value of a tensor with all mapped dimensions, those that it lacks of size 1, and at least `rank` more, which
    /// are added in front of its own. A tensor that is not batched is returned as it is: it broadcasts.
    pub fn aligned(&self, t: &Tensor, rank: usize) -> Result<Tensor> {
        let (value, levels) = parts_of(t);
        if levels.is_empty() { Ok(value) } else { self.with_dims(value, &levels, t.rank(), rank) }
    }

    /// As [`BatchCall::aligned`], also for a tensor that is not batched.
    pub fn with_all(&self, t: &Tensor, rank: usize) -> Result<Tensor> {
        let (value, levels) = parts_of(t);
        self.with_dims(value, &levels, t.rank(), rank)
    }

    fn with_dims(&self, mut value: Tensor, levels: &[u32], own: usize, rank: usize) -> Result<Tensor> {
        for (i, level) in self.levels.iter().enumerate() {
            if !levels.contains(level) {
                value = view::unsqueeze(&value, i as i64)?;
            }
        }
        for _ in own..rank {
            value = view::unsqueeze(&value, self.n() as i64)?;
        }
        Ok(value)
    }

    /// As [`BatchCall::with_all`], with the mapped dimensions expanded.
    pub fn expanded(&self, t: &Tensor, rank: usize) -> Result<Tensor> {
        let value = self.with_all(t, rank)?;
        if value.shape()[..self.n()] == self.sizes[..] {
            return Ok(value);
        }
        let mut shape = value.shape().clone();
        shape[..self.n()].copy_from_slice(&self.sizes);
        view::expand_to(&value, &shape)
    }

    /// As [`BatchCall::expanded`], with the mapped dimensions as one.
    pub fn merged(&self, t: &Tensor) -> Result<Tensor> {
        let value = self.expanded(t, 0)?;
        if self.n() == 1 { Ok(value) } else { view::flatten(&value, 0, self.n() as i64 - 1) }
    }

    /// The number of slices.
    pub fn slices(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The greatest rank of the tensors.
    pub fn rank(&self) -> usize {
        mirror::tensors(self.values).iter().map(Tensor::rank).max().unwrap_or(0)
    }

    /// The device of the values.
    pub fn device(&self) -> Device {
        let tensors = mirror::tensors(self.values);
        tensors.iter().find_map(Tensor::batch).map_or(Device::Cpu, |batch| batch.value().device())
    }

    /// The arguments with `f` of their tensors. Where the core names the device of a batched tensor, it means that of the
    /// value.
    pub fn map(&self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Values> {
        let all = self.values.iter().map(|v| {
            Ok(match v {
                Value::Tensor(t) => Value::Tensor(f(t)?),
                Value::Tensors(ts) => Value::Tensors(ts.iter().map(&mut f).collect::<Result<_>>()?),
                Value::OptTensors(ts) => Value::OptTensors(
                    ts.iter().map(|t| t.as_ref().map(&mut f).transpose()).collect::<Result<_>>()?,
                ),
                Value::Device(Device::Meta) if self.call.caller == Caller::Core => {
                    Value::Device(self.device())
                }
                other => other.clone(),
            })
        });
        all.collect()
    }

    // ---- calls

    pub(super) fn next_again(&self) -> Next {
        self.next.again()
    }

    /// Calls the operation with values.
    pub fn run(&self, values: &[Value]) -> Result<Out> {
        self.next.call(self.call, values)
    }

    /// Calls the operation and returns what stands for the slices of the result: the written tensor if one is.
    pub fn finish(&self, values: &[Value]) -> Result<Out> {
        let out = self.run(values)?;
        self.wrap(out)
    }

    /// Calls another signature of the operation, or another operation.
    pub fn run_other(&self, op: &'static Op, overload: &'static Overload, values: &[Value]) -> Result<Out> {
        let call = OpCall { op, overload, form: Form::New, caller: self.call.caller };
        self.next.call(&call, values)
    }

    /// What stands for the slices of results.
    pub fn wrap(&self, out: Out) -> Result<Out> {
        if self.writes() {
            return Ok(Out::Tensor(self.first()?.clone()));
        }
        let wrapped = |ts: &[Tensor]| ts.iter().map(|t| self.batched(t.clone())).collect::<Result<Vec<_>>>();
        let tensors = wrapped(mirror::results(&out))?;
        Ok(mirror::with_results(out, tensors))
    }

    /// The error of an operation that cannot be mapped.
    pub fn refuse(&self, reason: &str) -> Result<Out> {
        bail!(Runtime, "{reason}. Batching rule not implemented for aten::{}", self.call.op.name)
    }

    /// What stands for the slices of a value with all mapped dimensions.
    pub fn batched(&self, value: Tensor) -> Result<Tensor> {
        Tensor::batched_over(value, self.levels.clone())
    }

    /// What stands for the slices of a value whose mapped dimensions are one.
    pub fn unmerged(&self, value: Tensor) -> Result<Tensor> {
        if self.n() == 1 {
            return self.batched(value);
        }
        let shape: Dims = self.sizes.iter().chain(&value.shape()[1..]).copied().collect();
        self.batched(view::reshape_to(&value, &shape)?)
    }

    /// Calls `f` such that the operations that it calls are seen by this interpreter.
    pub fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        let again = std::sync::Arc::new(Batching { levels: self.batching.levels.clone() });
        let pushed: std::sync::Arc<dyn interpreter::Interpreter> = again;
        interpreter::within(pushed, f)
    }

    /// Runs the operation itself such that the operations that it is composed of are seen by this interpreter.
    pub fn run_inside(&self) -> Result<Out> {
        self.inside(|| interpreter::run(self.call, self.values))
    }
}

/// An operation of the table by its name and namespace.
pub fn operation(name: &str, has: crate::ops::schema::Exposure) -> Result<&'static Op> {
    match ops::all().iter().find(|op| op.name == name && op.exposure.has(has)) {
        Some(op) => Ok(op),
        None => bail!(Runtime, "there is no operation {name}"),
    }
}
