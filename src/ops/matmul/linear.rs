//! `linear`: rows times a transposed weight.

use smallvec::smallvec;

use super::{matmul, mm, product, same_dtypes_added};
use crate::ensure;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, node, record};
use crate::layout::Dims;
use crate::ops::{arith, reduce, view};
use crate::tensor::Tensor;

/// `x @ weightᵀ + bias` for `x` of any rank.
pub(super) fn linear_impl(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if x.rank() == 2 && weight.rank() == 2 && bias.is_some_and(|b| b.rank() == 1) {
        return addmm_row(bias.unwrap_or(x), x, weight);
    }
    ensure!(
        x.rank() > 0 && weight.rank() > 0,
        Runtime,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        x.rank(),
        weight.rank()
    );
    // Leading dimensions are treated as additional rows.
    if let (Some(b), true) = (bias.filter(|b| b.rank() == 1), x.rank() != 2 && weight.rank() == 2) {
        let k = x.shape()[x.rank() - 1];
        let rows: usize = x.shape()[..x.rank() - 1].iter().product();
        let flat = addmm_row(b, &view::reshape_to(x, &Dims::from([rows, k]))?, weight)?;
        let mut shape = x.shape().clone();
        let last = shape.len() - 1;
        shape[last] = weight.shape()[0];
        return view::unsafe_view(&flat, &shape);
    }
    let y = if weight.rank() == 1 { matmul(x, weight)? } else { matmul(x, &view::t_of(weight)?)? };
    match bias {
        Some(b) => arith::add(&y, b),
        None => Ok(y),
    }
}

/// `bias + x @ weightᵀ` as one product.
fn addmm_row(bias: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (m, k) = (x.shape()[0], x.shape()[1]);
    let (n, k2) = (weight.shape()[0], weight.shape()[1]);
    ensure!(k == k2, Runtime, "addmm: mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {k2}x{n})");
    same_dtypes_added(bias, x, weight)?;
    ensure!(
        bias.shape()[0] == n || bias.shape()[0] == 1,
        Runtime,
        "The expanded size of the tensor ({n}) must match the existing size ({}) at non-singleton dimension 1.  Target \
         sizes: [{m}, {n}].  Tensor sizes: {}",
        bias.shape()[0],
        bias.shape()
    );
    let row = if bias.shape()[0] == n {
        bias.clone()
    } else {
        bias.with_layout(bias.layout().expand(&[n]).unwrap_or_default())
    };
    let mut turned = weight.with_layout(weight.layout().transpose(0, 1));
    let out = product(x, &turned, Some(&row))?;
    if grad_enabled() && weight.requires_grad() {
        // Not made by `t_of`, whose views refer to their base: only the node refers to this one.
        let node = node(Turn, smallvec![weight.grad_edge()?], &[&turned]);
        turned.init_history(node, 0);
    }
    record(out, &[bias, x, &turned], |_| Linear {
        x: SavedTensor::factor_if(weight.requires_grad(), x),
        turned: SavedTensor::factor_if(x.requires_grad(), &turned),
    })
}

/// Transposes `t`: a view if recorded, else without a view relation, so that the recipient owns it alone.
fn turn(t: &Tensor) -> Result<Tensor> {
    if grad_enabled() { view::t_of(t) } else { Ok(t.with_layout(t.layout().transpose(0, 1))) }
}

/// The node of a weight transposed for a product.
struct Turn;

impl Function for Turn {
    fn name(&self) -> &'static str {
        "TBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        Ok(smallvec![grads[0].as_ref().map(turn).transpose()?])
    }
}

struct Linear {
    x: SavedTensor,
    turned: SavedTensor,
}

impl Function for Linear {
    fn name(&self) -> &'static str {
        "AddmmBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None, None]) };
        let db = if cx.needs(0) { Some(reduce::sum_mask(g, 1, false, Some(g.dtype()))?) } else { None };
        let x = if cx.needs(2) { Some(self.x.get(cx)?) } else { None };
        let dx = if cx.needs(1) { Some(mm(g, &turn(&self.turned.get(cx)?)?)?) } else { None };
        let dw = x.map(|x| turn(&mm(&turn(g)?, &x)?)).transpose()?;
        Ok(smallvec![db, dx, dw])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("mat1", &self.x);
        visit("mat2", &self.turned);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("alpha", Attribute::Int(1));
        visit("beta", Attribute::Int(1));
    }
}
