//! Scaled dot product attention in one kernel, which never holds the scores of all queries.

use super::{View, of, same_device};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;

/// The operands of attention. Rows of query, key and value are contiguous, and no stride is negative.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// `[batch, heads, L, E]`.
    pub query: View<'a>,
    /// `[batch, heads / n, S, E]`: `n` consecutive heads of the query share one of key and value.
    pub key: View<'a>,
    /// `[batch, heads / n, S, Ev]`.
    pub value: View<'a>,
    /// `[batch, heads, L, S]`, as a rule with strides of 0: which keys a query attends to if bool, else a term of the dtype
    /// of the scores. A query that attends to no key has the result 0.
    pub mask: Option<View<'a>>,
    /// Each query attends only to keys up to its own position.
    pub causal: bool,
    pub scale: f64,
}

impl<'a> Attention<'a> {
    pub fn views(&self) -> impl Iterator<Item = View<'a>> {
        [self.query, self.key, self.value].into_iter().chain(self.mask)
    }
}

/// Whether the device has these kernels for a dtype.
pub fn supported(device: Device, dtype: DType) -> Result<bool> {
    Ok(of(device)?.attends(dtype))
}

/// Writes `softmax(query @ keyᵀ * scale + mask) @ value` to `out` of any layout, and the logarithm of the sum of
/// exponentials of each query's scores to dense `lse` of `[batch, heads, L]`. No dimension is empty. False if the device has
/// no kernel for it.
pub fn forward(a: &Attention, out: View, lse: View) -> Result<bool> {
    of(same_device(a.views().chain([out, lse]))?)?.attention(a, out, lse)
}

/// Writes the gradients of query, key and value, which are dense, from the gradient `grad` of the result; `out` and `lse` are
/// those of [`forward`]. False if the device has no kernel for it.
pub fn backward(a: &Attention, out: View, lse: View, grad: View, grads: [View; 3]) -> Result<bool> {
    let views = a.views().chain([out, lse, grad]).chain(grads);
    of(same_device(views)?)?.attention_backward(a, out, lse, grad, grads)
}
