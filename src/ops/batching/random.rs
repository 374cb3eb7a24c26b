//! Operations that draw random numbers: the same for all slices, different ones, or none at all.

use std::sync::Arc;

use super::call::Values;
use super::plan::params;
use super::{BatchCall, Batching};
use crate::error::Result;
use crate::ops::interpreter::{self, Form, Interpreter, Next, OpCall};
use crate::ops::schema::{Out, Value};
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::batched::Levels;
use crate::{bail, ensure};

/// What a `vmap` does with operations that draw random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Randomness {
    /// They are an error.
    Error,
    /// Each slice gets numbers of its own.
    Different,
    /// All slices get the same numbers.
    Same,
}

/// Whether a call draws random numbers: dropout that is off, or of probability 0 or 1, draws none.
pub fn draws(call: &OpCall, values: &[Value]) -> bool {
    let all = params(call.overload);
    let at = |name: &str| all.iter().position(|p| p.name == name).and_then(|i| values.get(i));
    let drops = |name: &str| matches!(at(name), Some(Value::Number(p)) if !p.is_zero() && p.to_f64() != 1.0);
    match call.op.name {
        "dropout" => drops("p") && at("training").is_some_and(Value::is_true),
        "scaled_dot_product_attention" => drops("dropout_p"),
        _ => all.iter().any(|p| p.ty == "Generator?"),
    }
}

fn refuse() -> Result<()> {
    bail!(
        Runtime,
        "vmap: called random operation while in randomness error mode: pass randomness='same' or 'different' to vmap, or \
         draw outside of it"
    )
}

fn refuse_error(batching: &Batching) -> Result<()> {
    if batching.levels.iter().any(|l| l.randomness == Randomness::Error) { refuse() } else { Ok(()) }
}

/// Refuses operations that draw random numbers, for a function that is not called by `vmap` though PyTorch's is.
struct Refusing;

impl Interpreter for Refusing {
    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
        if draws(call, values) {
            refuse()?;
        }
        next.call(call, values)
    }
}

/// Calls a function in which operations that draw random numbers are errors.
pub fn refusing<R>(run: impl FnOnce() -> R) -> R {
    struct Removed(Arc<dyn Interpreter>);
    impl Drop for Removed {
        fn drop(&mut self) {
            interpreter::remove(&self.0);
        }
    }
    let refusing: Arc<dyn Interpreter> = Arc::new(Refusing);
    interpreter::push(refusing.clone());
    let _removed = Removed(refusing);
    run()
}

/// The levels whose slices get numbers of their own, and their sizes.
fn differing(batching: &Batching) -> (Levels, Vec<usize>) {
    batching.levels.iter().filter(|l| l.randomness == Randomness::Different).map(|l| (l.id, l.size)).unzip()
}

/// A call none of whose arguments is batched.
pub fn unbatched(batching: &Batching, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
    refuse_error(batching)?;
    ensure!(
        !matches!(call.form, Form::Into(_)),
        Runtime,
        "vmap: We do not support calling out variants of random operations inside of vmap, as {}(..., out=): use the one \
         that returns its result",
        call.op.name
    );
    let (levels, sizes) = differing(batching);
    if levels.is_empty() {
        return next.call(call, values);
    }
    let writes = matches!(call.form, Form::InPlace | Form::Into(_)) || call.op.name.ends_with('_');
    ensure!(
        !writes,
        Runtime,
        "vmap: different inplace randomness on an unbatched tensor, by Tensor.{}, is not supported: use an out-of-place \
         operation, or randomness='same'",
        call.op.name
    );
    let n: usize = sizes.iter().product();
    let all = params(call.overload);
    let mut values: Values = values.iter().cloned().collect();
    let size = all.iter().position(|p| p.name == "size" && p.ty == "size");
    let value = if let (Some(at), Some(Value::Ints(own))) = (size, size.and_then(|i| values.get(i)).cloned())
    {
        values[at] = Value::Ints(sizes.iter().map(|&n| n as i64).chain(own.iter().copied()).collect());
        next.call(call, &values)?
    } else if let Some(Value::Tensor(t)) = values.first().cloned()
        && !matches!(call.op.name, "multinomial")
    {
        let shape = sizes.iter().chain(t.shape().iter()).copied().collect();
        values[0] = Value::Tensor(view::expand_to(&t, &shape)?);
        next.call(call, &values)?
    } else {
        let drawn = (0..n).map(|_| next.call(call, &values)?.tensor()).collect::<Result<Vec<_>>>()?;
        let whole = crate::ops::join::stack(&drawn, 0)?;
        let shape = sizes.iter().chain(&whole.shape()[1..]).copied().collect();
        Out::Tensor(view::reshape_to(&whole, &shape)?)
    };
    Ok(Out::Tensor(Tensor::batched_over(value.tensor()?, levels)?))
}

/// A call with batched arguments.
pub fn batched(c: &BatchCall) -> Result<Out> {
    refuse_error(c.batching)?;
    ensure!(
        !matches!(c.call.form, Form::Into(_)),
        Runtime,
        "vmap: We do not support calling out variants of random operations inside of vmap, as {}(..., out=): use the one \
         that returns its result",
        c.op_name()
    );
    let by_tensors = matches!(c.op_name(), "bernoulli" | "multinomial" | "normal") || c.tensor("p").is_some();
    let all_same = c.batching.levels.iter().all(|l| l.randomness == Randomness::Same);
    ensure!(
        !by_tensors
            || !all_same
            || !c
                .values
                .iter()
                .skip(usize::from(c.writes()))
                .any(|v| matches!(v, Value::Tensor(t) if t.is_batched())),
        Runtime,
        "vmap: Vmap does not currently support same randomness with a batched tensor input: {}() would draw from other \
         distributions for other slices",
        c.op_name()
    );
    if c.writes() {
        c.expect_writable()?;
    }
    let same: Vec<bool> = c
        .levels
        .iter()
        .map(|&id| Ok(c.batching.find(id)?.randomness == Randomness::Same))
        .collect::<Result<_>>()?;
    if !same.contains(&true) {
        let outer = c.batching.levels.iter();
        let missing =
            outer.filter(|l| l.randomness == Randomness::Different && !c.levels.contains(&l.id)).count();
        if missing > 0 && !c.writes() {
            return with_missing(c);
        }
        let rank = c.rank();
        let values = c.map(|t| c.with_all(t, rank))?;
        return if c.op_name() == "multinomial" { super::slices::by_slices(c) } else { c.finish(&values) };
    }
    ensure!(
        same.iter().all(|&s| s) || c.n() == 1,
        Runtime,
        "vmap: {}() with the same random numbers for the slices of one level and different ones for those of another",
        c.op_name()
    );
    same_for_all(c)
}

/// Numbers that also differ between the slices of levels that no argument has.
fn with_missing(c: &BatchCall) -> Result<Out> {
    let (levels, sizes): (Levels, Vec<usize>) = c.batching.levels.iter().map(|l| (l.id, l.size)).unzip();
    let t = c.first()?;
    let (mut value, own) = super::parts_of(t);
    for (i, level) in levels.iter().enumerate() {
        if !own.contains(level) {
            value = view::unsqueeze(&value, i as i64)?;
        }
    }
    let shape = sizes.iter().chain(t.shape().iter()).copied().collect();
    let value = view::expand_to(&value, &shape)?;
    let mut values: Values = c.values.iter().cloned().collect();
    values[0] = Value::Tensor(value);
    if values.iter().skip(1).any(|v| matches!(v, Value::Tensor(_))) {
        bail!(NotImplemented, "vmap: {}() of several tensors in nested calls of vmap", c.op_name());
    }
    Ok(Out::Tensor(Tensor::batched_over(c.run(&values)?.tensor()?, levels)?))
}

/// Draws the numbers of one slice and applies them to all: by the calls for each slice from one state.
fn same_for_all(c: &BatchCall) -> Result<Out> {
    let default = crate::ops::random::default_generator();
    let generator = c.values.iter().find_map(|v| if let Value::Generator(g) = v { Some(g) } else { None });
    let generator = generator.unwrap_or(default);
    let before = generator.state();
    let outs = super::slices::run_each(c, || generator.set_state(before))?;
    if c.writes() {
        return Ok(Out::Tensor(c.first()?.clone()));
    }
    let tensors = outs.into_iter().map(Out::tensor).collect::<Result<Vec<_>>>()?;
    Ok(Out::Tensor(c.unmerged(crate::ops::join::stack(&tensors, 0)?)?))
}
