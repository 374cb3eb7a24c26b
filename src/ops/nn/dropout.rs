//! Dropout: zeroes elements at random and scales the rest.

use smallvec::smallvec;

use crate::backend::random::{self, Philox, counters_for};
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, Operands, Recipe, SavedTensor, record};
use crate::ops;
use crate::ops::arith;
use crate::ops::random::default_generator;
use crate::ops::schema::{Args, Out};
use crate::tensor::{Tensor, assign, check_inplace};

/// `t` with each element zeroed with probability `p` and the others divided by `1 - p`.
fn dropout_impl(t: &Tensor, p: f64) -> Result<Tensor> {
    ensure!((0.0..=1.0).contains(&p), Runtime, "dropout probability has to be between 0 and 1, but got {p}");
    if p == 0.0 || t.numel() == 0 {
        return Ok(t.clone());
    }
    if p == 1.0 {
        return arith::mul(t, 0.0);
    }
    let mask = Tensor::empty_on(t.shape().clone(), DType::U8, t.device())?;
    let state = default_generator().take(counters_for(t.numel()));
    let stream = Philox { seed: state.seed, offset: state.offset };
    random::fill(random::Draw::Bernoulli(1.0 - p), stream, mask.raw())?;
    masked(t, &mask, 1.0 / (1.0 - p))
}

/// `t * mask * scale`; linear, so that backward is the same map.
fn masked(t: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    t.expect_float("dropout")?;
    let out = t.empty_as(t.dtype())?;
    random::dropout(t.raw(), mask.raw(), scale, out.raw())?;
    record(out.laid_like(t)?, &[t, mask], |y| Dropout {
        operands: Operands::of(y, [(t, false), (mask, true)]),
        mask: SavedTensor::input(mask),
        scale,
    })
}

struct Dropout {
    operands: Operands,
    mask: SavedTensor,
    scale: f64,
}

impl Function for Dropout {
    fn name(&self) -> &'static str {
        "MulBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        Ok(smallvec![Some(masked(g, &self.mask.get(cx)?, self.scale)?), None])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("mask", &self.mask);
    }

    fn release(&self) {
        self.mask.free();
        self.operands.free();
    }

    fn recipe(&self) -> Option<Recipe> {
        let scale = self.scale;
        self.operands.recipe(2, move |operands| match operands {
            [t, mask] => masked(t, mask, scale),
            _ => Err(Error::NoTensor { op: "dropout" }),
        })
    }
}

fn dropout_op(a: &Args) -> Result<Out> {
    let (t, p, training, inplace) = (a.tensor(0)?, a.float(1)?, a.bool(2)?, a.bool(3)?);
    ensure!((0.0..=1.0).contains(&p), Value, "dropout probability has to be between 0 and 1, but got {p}");
    if !training {
        return Ok(t.clone().into());
    }
    if !inplace {
        return Ok(dropout_impl(t, p)?.into());
    }
    check_inplace(t, false)?;
    let result = dropout_impl(t, p)?;
    if !result.same(t) {
        assign(t, &result, "MulBackward0")?;
    }
    Ok(t.clone().into())
}

ops! {
    /// Zeroes each element with probability `p` and divides the others by `1 - p`.
    "dropout" NN, batch LEADING {
        (input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) => dropout_op;
        /// As `dropout` while training.
        pub fn dropout(t: &Tensor, p: f64) -> Tensor as (t, p, true, false) = dropout_impl;
    }
}
