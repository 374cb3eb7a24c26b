//! An LSTM layer over whole sequences, recorded as one node; [`gru`] has that of a GRU.

mod fused;
mod gru;
mod weights;

use smallvec::smallvec;
use weights::{SavedWeights, Weights, linear_gradients};

use crate::error::{Error, Result};
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record_all};
use crate::layout::MemoryFormat;
use crate::ops;
use crate::ops::join::{cat, stack};
use crate::ops::matmul::{linear, mm};
use crate::ops::schema::{Args, Out};
use crate::ops::view::cut::{narrow, select};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;

// Note [An LSTM layer is one node] As separate operations, each step would be a dozen nodes, and each would compute
// and accumulate a gradient of the whole recurrent weight. A single node saves the results of all steps instead. Its
// backward first computes, for all steps at once, the factors that do not depend on later steps, then iterates
// backward through those that do, and finally computes the weight's gradient with one product over all steps. With
// `create_graph` the steps are recomputed from the inputs as recorded operations, and the same code is differentiable.

/// The intermediate results of all steps, each of shape `[steps, batch, hidden]`.
struct Steps {
    enter: Tensor,
    forget: Tensor,
    candidate: Tensor,
    leave: Tensor,
    cell: Tensor,
    out: Tensor,
}

fn tanh(t: &Tensor) -> Result<Tensor> {
    rows::tanh.call(&[t.into()], &[])
}

/// `a * b + c`.
fn mul_add(a: &Tensor, b: &Tensor, c: Option<&Tensor>) -> Result<Tensor> {
    let product = arith::mul(a, b)?;
    c.map_or(Ok(product.clone()), |c| arith::add(&product, c))
}

/// Fewer rows are multiplied as dot products.
const FEW_ROWS: usize = 8;

/// The fields of `Steps` in order, one list per field with a tensor per step.
type Columns = [Vec<Tensor>; 6];

impl Steps {
    fn run(gates: &Tensor, hx: &Tensor, cx: &Tensor, weight: &Tensor) -> Result<Columns> {
        let (count, hidden) = (gates.shape()[0] as i64, weight.shape()[1] as i64);
        // Read anew at each step. Few rows are multiplied with the weight as it is; for more of them its
        // rows are better contiguous.
        let turned = view::t_of(weight)?;
        let few = gates.shape()[1] < FEW_ROWS;
        let turned = if few { turned } else { arith::clone_in(&turned, MemoryFormat::Contiguous)? };
        let gates = &arith::clone_in(gates, MemoryFormat::Contiguous)?;
        let sigmoid = |t: &Tensor| rows::sigmoid.call(&[t.into()], &[]);
        let (mut h, mut c) = (hx.clone(), cx.clone());
        let mut columns = Columns::default();
        for step in 0..count {
            let sum = arith::add(&mm(&h, &turned)?, &select(gates, 0, step)?)?;
            let part = |k: i64| narrow(&sum, 1, k * hidden, hidden);
            let (enter, forget) = (sigmoid(&part(0)?)?, sigmoid(&part(1)?)?);
            let (candidate, leave) = (tanh(&part(2)?)?, sigmoid(&part(3)?)?);
            c = mul_add(&enter, &candidate, Some(&arith::mul(&forget, &c)?))?;
            h = arith::mul(&leave, &tanh(&c)?)?;
            let row = [enter, forget, candidate, leave, c.clone(), h.clone()];
            columns.iter_mut().zip(row).for_each(|(column, t)| column.push(t));
        }
        Ok(columns)
    }

    fn stacked([enter, forget, candidate, leave, cell, out]: &Columns) -> Result<Steps> {
        Ok(Steps {
            enter: stack(enter, 0)?,
            forget: stack(forget, 0)?,
            candidate: stack(candidate, 0)?,
            leave: stack(leave, 0)?,
            cell: stack(cell, 0)?,
            out: stack(out, 0)?,
        })
    }
}

/// What the gates of an LSTM get from the input and the biases.
fn input_gates(input: &Tensor, weights: Weights) -> Result<Tensor> {
    let bias = weights.biases.map(|[of_input, of_state]| arith::add(of_input, of_state)).transpose()?;
    linear(input, weights.input, bias.as_ref())
}

/// The outputs of all steps, and the last cell state.
fn lstm_layer(input: &Tensor, hx: &Tensor, cx: &Tensor, weights: Weights) -> Result<[Tensor; 2]> {
    weights.check("lstm_layer", 4, input, &[hx, cx])?;
    if let Some(out) = fused::lstm_layer(input, hx, cx, weights)? {
        return Ok(out);
    }
    let (gates, weight) = (&input_gates(input, weights)?, weights.state);
    let columns = Steps::run(&gates.detach(), &hx.detach(), &cx.detach(), &weight.detach())?;
    let last = columns[4].last().cloned().unwrap_or_else(|| cx.detach());
    if !grad_enabled() || ![gates, hx, cx, weight].iter().any(|t| t.requires_grad()) {
        return Ok([stack(&columns[5], 0)?, last]);
    }
    let s = Steps::stacked(&columns)?;
    let out = record_all(vec![s.out, last], &[gates, hx, cx, weight], |o| LstmLayer {
        inputs: [gates, hx, cx, weight].map(SavedTensor::input),
        steps: [&s.enter, &s.forget, &s.candidate, &s.leave, &s.cell].map(SavedTensor::input),
        out: SavedTensor::output(&o[0]),
    })?;
    out.try_into().map_err(|_| Error::Runtime("lstm_layer: two results were recorded".into()))
}

struct LstmLayer {
    inputs: [SavedTensor; 4],
    steps: [SavedTensor; 5],
    out: SavedTensor,
}

/// `first`, followed by all but the last row of `t`.
fn shifted(first: &Tensor, t: &Tensor) -> Result<Tensor> {
    let count = t.shape()[0] as i64;
    cat(&[view::unsqueeze(first, 0)?, narrow(t, 0, 0, count - 1)?], 0)
}

impl Function for LstmLayer {
    fn name(&self) -> &'static str {
        "LstmLayerBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let [gates, h0, c0, weight] = &self.inputs;
        let (h0, c0, weight) = (h0.get(cx)?, c0.get(cx)?, weight.get(cx)?);
        let s = if grad_enabled() {
            Steps::stacked(&Steps::run(&gates.get(cx)?, &h0, &c0, &weight)?)?
        } else {
            let [enter, forget, candidate, leave, cell] = &self.steps;
            Steps {
                enter: enter.get(cx)?,
                forget: forget.get(cx)?,
                candidate: candidate.get(cx)?,
                leave: leave.get(cx)?,
                cell: cell.get(cx)?,
                out: self.out.get(cx)?,
            }
        };
        let (of_gates, [h, c, weight]) = gradients(&s, [&h0, &c0, &weight], grads, cx.needs(3))?;
        Ok(smallvec![Some(of_gates), h, c, weight])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        for (name, t) in ["gates", "hx", "cx", "weight"].into_iter().zip(&self.inputs) {
            visit(name, t);
        }
        for (name, t) in ["enter", "forget", "candidate", "leave", "cell"].into_iter().zip(&self.steps) {
            visit(name, t);
        }
        visit("result0", &self.out);
    }
}

/// The gradients of gates, and of both states and, if wanted, the weight, from those of outputs and last cell.
fn gradients(
    s: &Steps,
    [h0, c0, weight]: [&Tensor; 3],
    grads: Grads,
    of_weight: bool,
) -> Result<(Tensor, [Option<Tensor>; 3])> {
    // `a (1 - b²)` and `a b (1 - b)`: backward through tanh and sigmoid.
    let through_tanh = |a: &Tensor, b: &Tensor| arith::mul(a, &arith::sub(1.0, &arith::mul(b, b)?)?);
    let through_sigmoid = |a: &Tensor, b: &Tensor| arith::mul(&arith::mul(a, b)?, &arith::sub(1.0, b)?);
    let bent = tanh(&s.cell)?;
    let to_cell = through_tanh(&s.leave, &bent)?;
    let by_enter = through_sigmoid(&s.candidate, &s.enter)?;
    let by_forget = through_sigmoid(&shifted(c0, &s.cell)?, &s.forget)?;
    let by_candidate = through_tanh(&s.enter, &s.candidate)?;
    let by_leave = through_sigmoid(&bent, &s.leave)?;

    let (mut dh, mut dc) = (None::<Tensor>, grads[1].clone());
    let mut found = Vec::new();
    for step in (0..s.out.shape()[0] as i64).rev() {
        let at = |t: &Tensor| select(t, 0, step);
        let here = grads[0].as_ref().map(at).transpose()?;
        let g = match (here, dh) {
            (Some(a), Some(b)) => arith::add(&a, &b)?,
            (Some(g), None) | (None, Some(g)) => g,
            (None, None) => h0.new_zeros(h0.shape().clone())?,
        };
        let cell = mul_add(&g, &at(&to_cell)?, dc.as_ref())?;
        let parts = [
            arith::mul(&cell, &at(&by_enter)?)?,
            arith::mul(&cell, &at(&by_forget)?)?,
            arith::mul(&cell, &at(&by_candidate)?)?,
            arith::mul(&g, &at(&by_leave)?)?,
        ];
        let dgates = cat(&parts, 1)?;
        dh = Some(mm(&dgates, weight)?);
        dc = Some(arith::mul(&cell, &at(&s.forget)?)?);
        found.push(dgates);
    }
    found.reverse();
    let dgates = stack(&found, 0)?;
    let dweight = if of_weight {
        let flat = |t: &Tensor| view::flatten(t, 0, 1);
        Some(mm(&view::t_of(&flat(&dgates)?)?, &flat(&shifted(h0, &s.out)?)?)?)
    } else {
        None
    };
    Ok((dgates, [dh, dc, dweight]))
}

fn lstm_layer_op(a: &Args) -> Result<Out> {
    Ok(Out::Tuple(
        lstm_layer(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, Weights::of("lstm_layer", a, 3)?)?.into(),
    ))
}

fn gru_layer_op(a: &Args) -> Result<Out> {
    Ok(gru::gru_layer(a.tensor(0)?, a.tensor(1)?, Weights::of("gru_layer", a, 2)?)?.into())
}

ops! {
    /// The outputs `[steps, batch, hidden]` and the last cell state of an LSTM with an input `[steps, batch, features]`, of weights
    /// with a row for each gate of each hidden unit.
    "lstm_layer" NN | NATIVE, autocast LOWER {
        (
            input: Tensor, hx: Tensor, cx: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor? = None,
            bias_hh: Tensor? = None
        ) => lstm_layer_op;
    }

    /// The outputs `[steps, batch, hidden]` of a GRU with an input `[steps, batch, features]`, of weights with a row for each gate of
    /// each hidden unit.
    "gru_layer" NN | NATIVE, autocast LOWER, batch PARTS, samples [
        "data(3, 2, 4), data(2, 2), data(6, 4), data(6, 2), data(6), data(6)",
        "data(3, 9, 4), data(9, 2), data(6, 4), data(6, 2)",
    ] {
        (
            input: Tensor, hx: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor? = None,
            bias_hh: Tensor? = None
        ) => gru_layer_op;
    }
}
