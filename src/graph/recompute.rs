//! Values that backward computes again instead of keeping them.
//!
//! Note [Values that are computed again] Between forward and backward, saved tensors fill the memory. Some follow from
//! others: in `gelu(x) @ w`, gelu saves `x` and the product saves `gelu(x)`. In a region (`compile`, `defer`) the product then
//! saves a *recipe* in place of the tensor: the operands that gelu has saved already, and how to compute gelu. The result is
//! freed when the program drops it, and backward computes it again with the kernel of forward, so with the same bits. It is
//! then kept until the last node that saved it has run.
//!
//! Recipes are given by [`Function::recipe`]: of pointwise operations, dropout and normalizations, whose operands are kept
//! anyway: saved by the node or by the one that computed them, leaves of the graph, small beside the result, or computed
//! again themselves. Each has a cost. What a pointwise operation saves is computed again if that costs no more than reading
//! it from memory; where a whole chain is like that, its backward is computed from its inputs in one pass. What a product
//! saves may cost more, since its backward takes many steps for each element.
//!
//! An eager program would compute with what the memory holds at the time of backward. To see the same:
//! - Operands are noted as late readers (Note [Late readers]): before anybody writes one, the value is computed.
//! - An operand that is written between the operation and the recipe spoils the recipe ([`Watch`]).
//! - The version of the value is checked as for any saved tensor. Where writes may follow that do not count (through
//!   `.data`), the tensor is kept ([`keep`]).
//! - There are no recipes where interpreters see the operations of a thread, nor under hooks that pack saved tensors. On a
//!   GPU there are none either: its buffers are asked for reading and writing alike.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::sync::Guarded;
use super::{AutogradMeta, GradFn, ModeGuard, is_interpreted, without_hooks};
use crate::backend::defer::{self, LateRead, LateReader, Watch};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tensor::Tensor;

type Compute = Box<dyn Fn(&[Tensor]) -> Result<Tensor> + Send + Sync>;

/// The cost of a recipe: about the number of vector instructions.
pub type Cost = u32;

/// The most that a recipe may cost for a saver whose backward reads each element once or twice.
pub const CHEAP: Cost = 6;

/// The most that a recipe may cost for a factor of a product.
pub const FACTOR: Cost = 100;

/// The most recipes that are computed from each other: they are computed, and dropped, recursively.
const DEEPEST: u32 = 12;

/// An operand of a recipe.
#[derive(Clone)]
pub enum Ingredient {
    /// In memory, and what tells whether it was written.
    Kept(Tensor, Arc<Watch>),
    /// A view of a value that is computed again.
    Again(Box<(Arc<Recomputed>, Layout)>),
}

impl Ingredient {
    /// An operand of a result of `numel` elements, if it can be had later at no cost of memory. `saved` says that the node
    /// saves it.
    fn of(t: &Tensor, numel: usize, saved: bool) -> Option<Ingredient> {
        let plain = t.storage().is_private() && !t.is_inference() && !t.is_batched() && !t.is_hosted();
        let kept = || Some(Ingredient::Kept(t.detach(), Watch::begin(t.storage())?));
        // What its node keeps costs nothing, where computing a sigmoid again would cost too much for most that use it.
        if plain && is_saved_by_its_node(t) {
            return kept();
        }
        if let Some(value) = again(t, FACTOR) {
            return Some(Ingredient::Again(Box::new((value, t.layout().clone()))));
        }
        let is_small = || t.numel().saturating_mul(16) <= numel;
        if plain && (saved || t.is_leaf() || is_small()) { kept() } else { None }
    }
}

/// The operands of the recipe of a node, as they were when it was recorded.
#[derive(Default)]
pub struct Operands(Guarded<Option<Arc<Vec<Ingredient>>>>);

impl Operands {
    /// Those of a result, with for each whether the node saves it; empty unless such results are computed again and all
    /// operands can be had.
    pub fn of<'t>(result: &Tensor, tensors: impl IntoIterator<Item = (&'t Tensor, bool)>) -> Operands {
        if !is_worth(result) {
            return Operands::default();
        }
        let numel = result.numel();
        let all = tensors.into_iter().map(|(t, saved)| Ingredient::of(t, numel, saved));
        Operands(Guarded::new(all.collect::<Option<_>>().map(Arc::new)))
    }

    /// A recipe of these operands: see [`Recipe`].
    pub fn recipe(
        &self,
        cost: Cost,
        compute: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Option<Recipe> {
        let operands = self.0.with(|all| all.clone())?;
        Some(Recipe { operands, compute: Box::new(compute), cost })
    }

    pub fn is_empty(&self) -> bool {
        self.0.with(|all| all.is_none())
    }

    /// Releases the operands: the node has run.
    pub fn free(&self) {
        drop(self.0.with(Option::take));
    }
}

/// Whether the node that computed a tensor keeps it, as that of `relu` does.
fn is_saved_by_its_node(t: &Tensor) -> bool {
    let mut found = false;
    if let Some(node) = t.grad_fn() {
        node.get().function().saved(&mut |_, saved| found |= saved.is_result(t));
    }
    found
}

/// How a result is computed from operands that are kept anyway. `compute` gets them as tensors without history; nothing that
/// it does is recorded. `cost` is its own.
pub struct Recipe {
    operands: Arc<Vec<Ingredient>>,
    compute: Compute,
    cost: Cost,
}

/// A recipe whose operands are noted as read later.
struct Noted {
    recipe: Recipe,
    /// Dropped last, when nobody computes any more.
    _reads: SmallVec<[LateRead; 3]>,
}

enum State {
    Recipe(Arc<Noted>),
    Value(Tensor),
    Failed(String),
}

/// A value that is computed again when it is needed.
pub struct Recomputed {
    state: Guarded<Option<State>>,
    layout: Layout,
    /// The version counter of the tensor.
    counter: Arc<AtomicU32>,
    /// With that of its operands.
    cost: Cost,
    depth: u32,
}

impl Recomputed {
    /// The value of `whole` (no view) from a recipe; None if it is too long, or an operand cannot be noted.
    fn new(recipe: Recipe, whole: &Tensor) -> Option<Arc<Recomputed>> {
        let of = || {
            recipe
                .operands
                .iter()
                .filter_map(|i| if let Ingredient::Again(view) = i { Some(&view.0) } else { None })
        };
        let cost = of().map(|v| v.cost).fold(recipe.cost, Cost::saturating_add);
        let depth = of().map(|v| v.depth).max().unwrap_or(0) + 1;
        if cost > FACTOR || depth > DEEPEST {
            return None;
        }
        let layout = whole.layout().clone();
        let counter = whole.storage().counter();
        let made = Arc::new(Recomputed { state: Guarded::default(), layout, counter, cost, depth });
        let weak: Weak<dyn LateReader> = Arc::downgrade(&(made.clone() as Arc<dyn LateReader>));
        let note = |i: &Ingredient| match i {
            Ingredient::Kept(t, watch) => {
                Some(LateRead::note(t.storage(), &weak).filter(|_| watch.is_untouched()))
            }
            Ingredient::Again(_) => None,
        };
        let reads = recipe.operands.iter().filter_map(note).collect::<Option<_>>()?;
        let noted = State::Recipe(Arc::new(Noted { recipe, _reads: reads }));
        made.state.with(|state| *state = Some(noted));
        let replaced = VALUES.with(|all| all.insert(made.key(), Arc::downgrade(&made)));
        drop(replaced);
        Some(made)
    }

    fn key(&self) -> usize {
        Arc::as_ptr(&self.counter) as usize
    }

    /// The value, with the layout that the result of forward had.
    fn value(&self) -> Result<Tensor> {
        let noted = match self.state.with(|state| match state {
            Some(State::Recipe(noted)) => Ok(noted.clone()),
            Some(State::Value(t)) => Err(Ok(t.clone())),
            Some(State::Failed(message)) => Err(Err(Error::Runtime(message.clone()))),
            None => Err(Err(Error::Runtime("a saved value is needed before its recipe is complete".into()))),
        }) {
            Ok(noted) => noted,
            Err(known) => return known,
        };
        let computed = noted.recipe.compute(&self.layout);
        let new = match &computed {
            Ok(t) => State::Value(t.clone()),
            Err(e) => State::Failed(e.to_string()),
        };
        // Another thread may have been faster: its value was computed before any write, this one perhaps was not.
        let (old, value) = self.state.with(|state| match state {
            Some(State::Value(t)) => (None, Some(t.clone())),
            _ => (state.replace(new), None),
        });
        drop(old);
        value.map_or(computed, Ok)
    }
}

impl Recipe {
    fn compute(&self, layout: &Layout) -> Result<Tensor> {
        let _plain = ModeGuard::grad(false);
        let operands = self.operands.iter().map(|operand| match operand {
            Ingredient::Kept(t, _) => Ok(t.clone()),
            Ingredient::Again(view) => view.0.value().map(|whole| whole.with_layout(view.1.clone())),
        });
        let operands: SmallVec<[Tensor; 3]> = operands.collect::<Result<_>>()?;
        let made = without_hooks(|| (self.compute)(&operands))?;
        if made.layout() == layout {
            return Ok(made);
        }
        // The kernel of forward had the choice of the memory order.
        let kept = Tensor::empty_on(made.shape().clone(), made.dtype(), made.device())?;
        let kept = kept.with_layout(layout.clone());
        crate::backend::copy::copy(made.raw(), kept.raw())?;
        Ok(kept)
    }
}

impl Drop for Recomputed {
    fn drop(&mut self) {
        let key = self.key();
        let gone = VALUES.with(|all| {
            let is_own = |v: &mut Weak<Recomputed>| std::ptr::eq(v.as_ptr(), self);
            all.get_mut(&key).is_some_and(is_own).then(|| all.remove(&key)).flatten()
        });
        drop(gone);
    }
}

type ByCounter = FxHashMap<usize, Weak<Recomputed>>;

/// The values that are computed again, by the version counter of their tensor.
static VALUES: LazyLock<Guarded<ByCounter>> = LazyLock::new(Guarded::default);

/// Keeps a tensor that is about to be written without counting, instead of computing it again: backward then computes with what
/// was written.
pub fn keep(t: &Tensor) {
    t.storage().leave_uncounted();
    if VALUES.with(|all| all.is_empty()) {
        return;
    }
    let key = Arc::as_ptr(&t.storage().counter()) as usize;
    let value = VALUES.with(|all| all.get(&key).cloned());
    if let Some(value) = value.and_then(|v| v.upgrade()) {
        let kept = State::Value(t.with_layout(value.layout.clone()));
        let old = value.state.with(|state| match state {
            Some(State::Recipe(_)) => state.replace(kept),
            _ => Some(kept),
        });
        drop(old);
    }
}

impl LateReader for Recomputed {
    fn read(&self) {
        // An error is kept, and reported by the backward that needs the value.
        drop(self.value());
    }
}

/// What a saved tensor keeps of a tensor that is computed again.
pub struct SavedAgain {
    value: Arc<Recomputed>,
    layout: Layout,
    pub version: u32,
    /// Who wrote the tensor, for an error.
    meta: Option<Arc<AutogradMeta>>,
}

impl SavedAgain {
    /// Of a tensor that a node is about to save; None if it has no recipe of that cost.
    pub fn of(t: &Tensor, most: Cost) -> Option<SavedAgain> {
        let value = again(t, most)?;
        Some(SavedAgain { value, layout: t.layout().clone(), version: t.version(), meta: t.meta().cloned() })
    }

    /// The number of writes of the tensor so far.
    pub fn found(&self) -> u32 {
        self.value.counter.load(Ordering::Relaxed)
    }

    /// The node that has computed the tensor as it is now, and the number of its output.
    pub fn producer(&self) -> Option<(GradFn, usize)> {
        self.meta.as_ref().and_then(|meta| meta.history())
    }

    /// Whether the tensor, which had a history, was detached in place.
    pub fn is_detached(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| !meta.is_recorded())
    }

    /// The tensor, without history.
    pub fn tensor(&self) -> Result<Tensor> {
        self.value.value().map(|whole| whole.with_layout(self.layout.clone()))
    }

    /// Who wrote the tensor, for the collector of cycles.
    pub fn meta(&self) -> Option<&Arc<AutogradMeta>> {
        self.meta.as_ref()
    }
}

/// The value of a tensor (or of the base of a view), if its node has a recipe that costs at most as much.
fn again(t: &Tensor, most: Cost) -> Option<Arc<Recomputed>> {
    if !is_worth(t) {
        return None;
    }
    let whole = t.base().unwrap_or(t);
    let plain = !is_interpreted()
        && !t.is_batched()
        && !t.is_hosted()
        && whole.storage().same(t.storage())
        && t.storage().is_counted()
        && t.version() == 0
        && whole.layout().is_contiguous()
        && whole.layout().offset == 0;
    if !plain {
        return None;
    }
    let node = whole.grad_fn()?;
    let value = node.get().again(|| Recomputed::new(node.get().function().recipe()?, whole))?;
    (value.cost <= most).then_some(value)
}

/// Whether values like this one are computed again: in a region, where it queues operations of that size.
#[inline]
pub fn is_worth(t: &Tensor) -> bool {
    defer::is_deferring() && defer::recomputes(t.device(), t.numel())
}
