//! `vmap`: operations on batched tensors; see Note [Batched tensors].
//!
//! Note [Batching rules] An operation on batched tensors becomes operations on their values, by its rule: [`Batch`], a field
//! of the table. Most rules follow from the signature: pointwise operations align the mapped dimensions and broadcast,
//! those that name dimensions count them from behind the mapped ones, compositions are run and what they call is seen
//! here. An operation without a rule is called for each slice, and the results are joined. Rules call operations with
//! values, which are recorded as always, or are seen by the interpreters around `vmap`.
//!
//! | file | what |
//! | --- | --- |
//! | `mod.rs` | levels, and the interpreter |
//! | `call.rs` | a call with batched arguments, and values in a common form |
//! | `plan.rs` | the parameters of a signature |
//! | `simple.rs` | rules that follow from the signature |
//! | `shapes.rs` | views with sizes, joins, new tensors |
//! | `products.rs`, `planes.rs`, `losses.rs`, `select.rs` | rules of families |
//! | `shared.rs` | products with a weight that is the same for all slices |
//! | `random.rs` | operations that draw random numbers |
//! | `slices.rs` | calls for each slice, and nodes that call kernels |
//! | `grad.rs` | gradients of and by batched tensors |

mod call;
mod grad;
mod losses;
mod plan;
mod planes;
mod products;
mod random;
mod select;
mod shapes;
mod shared;
mod simple;
mod slices;

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

pub use call::BatchCall;
pub use grad::grad;
pub use random::{Randomness, refusing};
pub use select::{index, set_index};
pub use slices::{announce, backward, is_enabled, set_enabled, set_warns, warns};

use super::interpreter::{self, Form, Interpreter, Next, OpCall};
use super::schema::{Call, Exposure, Out, Value};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::batched::Levels;
use crate::{bail, ensure};

/// How an operation is called with batched tensors.
#[derive(Clone, Copy)]
pub enum Batch {
    /// By signature: see [`simple::by_signature`].
    Auto,
    /// By a rule.
    Rule(fn(&BatchCall) -> Result<Out>),
    /// As on any tensor, as it describes the tensor and does not read elements.
    Description,
    /// Not at all, with the reason.
    Refused(&'static str),
}

impl Batch {
    pub const AUTO: Batch = Batch::Auto;
    /// The tensors broadcast with each other.
    pub const POINTWISE: Batch = Batch::Rule(simple::pointwise);
    /// The operation accepts any dimensions in front of those that it is about, the same for all tensors.
    pub const LEADING: Batch = Batch::Rule(simple::leading);
    /// The first tensor is the only one, and arguments name its dimensions.
    pub const DIMS: Batch = Batch::Rule(simple::dims);
    /// Reduces the named dimensions, or all.
    pub const REDUCTION: Batch = Batch::Rule(simple::reduction);
    /// Composed of other operations.
    pub const PARTS: Batch = Batch::Rule(simple::parts);
    /// For each slice, since that costs no more.
    pub const SLICES: Batch = Batch::Rule(slices::by_slices);
    pub const DESCRIPTION: Batch = Batch::Description;
    pub const SIZES: Batch = Batch::Rule(shapes::sizes);
    pub const ALL_DIMS: Batch = Batch::Rule(shapes::all_dims);
    pub const SQUEEZE: Batch = Batch::Rule(shapes::squeeze);
    pub const LIKE: Batch = Batch::Rule(shapes::like_other);
    pub const NEW: Batch = Batch::Rule(shapes::new_tensor);
    pub const JOIN: Batch = Batch::Rule(shapes::join);
    pub const CHOOSE: Batch = Batch::Rule(select::choose);
    pub const AS_STRIDED: Batch = Batch::Rule(shapes::as_strided);
    /// A copy of the first tensor with a part of named dimensions replaced by the second.
    pub const PART: Batch = Batch::Rule(shapes::part);
    pub const ROLL: Batch = Batch::Rule(shapes::roll);
    pub const MASKED_SELECT: Batch = Batch::Rule(select::masked_select);
    pub const MASKED_FILL: Batch = Batch::Rule(select::masked_fill);
    pub const COPY: Batch = Batch::Rule(shapes::copy);
    pub const PRODUCT: Batch = Batch::Rule(products::product);
    /// As `LEADING`, of matrices.
    pub const MATRICES: Batch = Batch::Rule(products::matrices);
    pub const SOLUTION: Batch = Batch::Rule(products::solution);
    pub const LINEAR: Batch = Batch::Rule(products::linear);
    pub const ADDED_PRODUCT: Batch = Batch::Rule(products::added);
    pub const CONVOLUTION: Batch = Batch::Rule(planes::convolution);
    pub const PLANES: Batch = Batch::Rule(planes::planes);
    pub const NORM: Batch = Batch::Rule(planes::norm);
    pub const BATCH_NORM: Batch = Batch::Rule(planes::batch_norm);
    pub const LOSS: Batch = Batch::Rule(losses::pointwise);
    pub const CLASS_LOSS: Batch = Batch::Rule(losses::of_classes);
    pub const GATHER: Batch = Batch::Rule(select::gather);
    pub const INDEX_DIM: Batch = Batch::Rule(select::along_dim);
    pub const EMBEDDING: Batch = Batch::Rule(select::embedding);
    pub const INDEX_PUT: Batch = Batch::Rule(select::index_put);
    pub const DATA: Batch = Batch::Refused(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow, which differs between \
         the slices. Use operations like torch.where instead",
    );
    pub const ALLCLOSE: Batch =
        Batch::Refused("vmap over torch.allclose isn't supported yet: it may differ between the slices");
    pub const MEMORY: Batch = Batch::Refused(
        "vmap: the memory of a tensor that stands for slices of another cannot be changed or exchanged",
    );
    pub const DYNAMIC: Batch = Batch::Refused(DYNAMIC);
}

const DYNAMIC: &str = "vmap: We do not support batching operators that can output dynamic shape: it depends on values, and \
                       so may differ between the slices";

/// A `vmap` that is running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub id: u32,
    pub size: usize,
    pub randomness: Randomness,
}

/// The interpreter of all levels of a thread.
struct Batching {
    levels: Vec<Level>,
}

thread_local! {
    /// The interpreter that [`enter`] pushed last.
    static CURRENT: RefCell<Option<Arc<Batching>>> = const { RefCell::new(None) };
}

/// Replaces the interpreter of this thread by one with these levels.
fn replace(levels: Vec<Level>) {
    let new = (!levels.is_empty()).then(|| Arc::new(Batching { levels }));
    let old = CURRENT.with(|c| c.replace(new.clone()));
    if let Some(old) = old {
        let old: Arc<dyn Interpreter> = old;
        interpreter::remove(&old);
    }
    if let Some(new) = new {
        interpreter::push(new);
    }
}

/// The running levels of this thread, the outermost first.
pub fn levels() -> Vec<Level> {
    CURRENT.with(|c| c.borrow().as_ref().map_or_else(Vec::new, |b| b.levels.clone()))
}

/// Begins a level over `size` slices inside those that are running; returns its number.
pub fn enter(size: usize, randomness: Randomness) -> u32 {
    let mut all = levels();
    let id = all.last().map_or(1, |l| l.id + 1);
    all.push(Level { id, size, randomness });
    replace(all);
    id
}

/// Ends the innermost level.
pub fn exit() {
    let mut all = levels();
    all.pop();
    replace(all);
}

/// Calls `f` without the running levels.
pub fn without<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(Vec<Level>);
    impl Drop for Restore {
        fn drop(&mut self) {
            replace(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(levels());
    replace(Vec::new());
    f()
}

impl Batching {
    fn find(&self, id: u32) -> Result<&Level> {
        match self.levels.iter().find(|l| l.id == id) {
            Some(level) => Ok(level),
            None => bail!(Runtime, "vmap: a tensor was used outside of the vmap of level {id} that made it"),
        }
    }
}

impl Interpreter for Batching {
    fn call(&self, call: &OpCall, values: &[Value], next: Next) -> Result<Out> {
        let batched = any_batched(values)
            || matches!(call.form, Form::Into(outs) if outs.iter().any(Tensor::is_batched));
        if !batched {
            return if random::draws(call, values) {
                random::unbatched(self, call, values, next)
            } else {
                next.call(call, values)
            };
        }
        let call = BatchCall::new(self, call, values, next)?;
        if random::draws(call.call, values) {
            return random::batched(&call);
        }
        call.by_rule()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// Fails if a tensor is used outside of the `vmap` that made it.
pub fn refuse_escaped(call: &OpCall, values: &[Value]) -> Result<()> {
    let describes = matches!(call.op.batch, Batch::Description);
    ensure!(
        describes || !any_batched(values),
        Runtime,
        "vmap: {}() got a tensor that stands for the slices of a vmap that has ended, or that runs on another thread: return it \
         from the mapped function instead",
        call.op.name
    );
    Ok(())
}

/// Whether any of the tensors among values is batched.
fn any_batched(values: &[Value]) -> bool {
    values.iter().any(|v| match v {
        Value::Tensor(t) => t.is_batched(),
        Value::Tensors(ts) => ts.iter().any(Tensor::is_batched),
        Value::OptTensors(ts) => ts.iter().flatten().any(Tensor::is_batched),
        _ => false,
    })
}

impl BatchCall<'_> {
    fn by_rule(&self) -> Result<Out> {
        let op = self.call.op;
        if op.replaces()
            && let Ok(other) = call::operation(op.name.trim_end_matches('_'), Exposure::METHOD)
            && let Some(overload) = other.overloads.iter().find(|o| o.sig == self.call.overload.sig)
        {
            // The caller replaces the tensor by the result.
            let call = OpCall { op: other, overload, ..*self.call };
            return BatchCall::new(self.batching, &call, self.values, self.next_again())?.by_rule();
        }
        match self.call.form {
            Form::Into(outs) => return self.into(outs),
            _ if self.writes() => self.expect_writable()?,
            _ => {}
        }
        match op.batch {
            Batch::Rule(rule) => rule(self),
            Batch::Description => interpreter::run(self.call, self.values),
            Batch::Refused(reason) => self.refuse(reason),
            Batch::Auto => match &self.call.overload.call {
                Call::Row(_) => simple::pointwise(self),
                Call::Composite(_) => simple::parts(self),
                _ if op.exposure.has(Exposure::COMPOSITE) => simple::parts(self),
                _ => slices::by_slices(self),
            },
        }
    }

    /// The `out=` form: the result of the other form, copied.
    fn into(&self, outs: &[Tensor]) -> Result<Out> {
        let call = OpCall { form: Form::New, ..*self.call };
        let made = BatchCall::new(self.batching, &call, self.values, self.next_again())?.by_rule()?;
        let made = super::mirror::results(&made).to_vec();
        ensure!(
            made.len() == outs.len(),
            Runtime,
            "vmap: {}() has {} results",
            self.call.op.name,
            made.len()
        );
        for (out, made) in outs.iter().zip(&made) {
            ensure!(
                made.is_batched() <= out.is_batched(),
                Runtime,
                "vmap: {}(..., out=) is not possible, as the results differ between the slices and `out` does not",
                self.call.op.name
            );
            self.inside(|| super::cast::copy_into(out, made))?;
        }
        Ok(Out::List(outs.to_vec()))
    }
}

/// Why there is no other format than the dense one in a `vmap`.
pub const NO_FORMAT: &str = "NYI: querying is_contiguous inside of vmap for memory_format other than \
                             torch.contiguous_format";

/// The value and the levels of a tensor; a plain tensor has none.
pub fn parts_of(t: &Tensor) -> (Tensor, Levels) {
    match t.batch() {
        Some(batch) => (batch.value().clone(), batch.levels().into()),
        None => (t.clone(), Levels::new()),
    }
}
