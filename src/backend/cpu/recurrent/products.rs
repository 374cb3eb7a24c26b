//! The products of steps.
//!
//! // Note [Rows of samples] Vectors hold samples, as states are held transposed. Where samples fill them badly, as 8 do those of AVX-512, the
//! products are computed transposed, with hidden units in the vectors and the samples as rows, which are the left operand as they lie. The
//! weights are packed for that, and the sums are transposed in the cache. Then the input of several steps has the rows of one product,
//! whose results are no larger than a state of many samples; so weights that exceed the cache are read once for all of these steps, and
//! this form serves them too. One sample is multiplied with the rows of the weights as they lie: it would not be worth packing them.

use super::{Number, UNITS};
use crate::backend::cpu::matmul::{pack_panels, product_of_panels, product_of_tiles};
use crate::backend::cpu::microkernel::{DOT_ROWS, View as Matrix, ViewMut};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd;
use crate::backend::recurrent::Recurrence;
use crate::backend::{View, elements};
use crate::error::Result;
use crate::storage::vec_of;

/// The most samples of Note [Rows of samples], and the rows of the input of several steps.
const ROWS: usize = 64;
/// Bytes of a weight of the input that exceeds the cache of a processor.
const LARGE: usize = 1 << 21;

/// How weights are held: Note [Rows of samples].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Panels of rows, for samples in vectors.
    Panels,
    /// The columns of the units of a task, for units in vectors.
    Columns,
    /// As given, for dot products with one sample.
    Given,
}

impl Form {
    fn of<T: Number>(gates: usize, r: Recurrence) -> Form {
        let lanes = T::kernels(simd::isa()).lanes();
        let fill_badly = 4 * r.batch <= 3 * r.batch.next_multiple_of(lanes);
        let large = gates * r.hidden * r.features * size_of::<T>() > LARGE;
        match r.batch {
            1 => Form::Given,
            batch if batch < ROWS && (fill_badly || large) => Form::Columns,
            _ => Form::Panels,
        }
    }

    /// The elements of packed operands of so many.
    fn packed(self, len: usize) -> usize {
        if self == Form::Given { 0 } else { len }
    }

    /// The steps whose products with the input are computed together.
    fn together(self, r: Recurrence) -> usize {
        let most = if self == Form::Given { DOT_ROWS } else { ROWS / r.batch };
        most.clamp(1, r.steps.max(1))
    }
}

/// A weight with a row for each gate of each hidden unit, packed for the products of a step.
pub(super) struct Packed<'a, T> {
    weight: &'a [T],
    /// The rows of all gates of a task are beside each other.
    packed: Vec<T>,
    gates: usize,
    depth: usize,
    form: Form,
    r: Recurrence,
}

impl<'a, T: Number> Packed<'a, T> {
    pub(super) fn new(weight: View<'a>, gates: usize, r: Recurrence) -> Result<Self> {
        let (kernels, weight) = (T::kernels(simd::isa()), elements::<T>(weight));
        let (form, depth) = (Form::of::<T>(gates, r), weight.len() / (gates * r.hidden));
        let mut packed = vec_of(T::ZERO, form.packed(weight.len()))?;
        for_chunks_mut(&mut packed, UNITS * gates * depth, |task, packed| {
            let units = packed.len() / (gates * depth);
            for (gate, packed) in packed.chunks_exact_mut(units * depth).enumerate() {
                let rows = &weight[(gate * r.hidden + task * UNITS) * depth..];
                let rows = Matrix { data: rows, rs: depth, cs: 1 };
                match form {
                    Form::Columns => kernels.pack(units, depth, rows, packed, units),
                    _ => pack_panels(kernels, depth, units, rows, packed),
                }
            }
        });
        Ok(Packed { weight, packed, gates, depth, form, r })
    }

    /// The rows of a gate for some units.
    fn of_units(&self, gate: usize, first: usize, units: usize) -> &[T] {
        let rows = match self.form {
            Form::Given => &self.weight[(gate * self.r.hidden + first) * self.depth..],
            _ => &self.packed[(first * self.gates + gate * units) * self.depth..],
        };
        &rows[..units * self.depth]
    }

    /// Adds the products of a gate with some rows of samples to `sums`, `[rows, units]`, for the units of a task. The rows are `rs` elements after
    /// each other, and the elements of a row `cs`.
    fn add_rows(&self, gate: usize, first: usize, x: Matrix<T>, rows: usize, sums: &mut [T]) {
        let (kernels, units) = (T::kernels(simd::isa()), sums.len() / rows);
        let weight = self.of_units(gate, first, units);
        if self.form == Form::Given {
            return add_dots(self.depth, x, rows, weight, sums);
        }
        let (columns, mut sums) =
            (Matrix { data: weight, rs: units, cs: 1 }, ViewMut::new(sums, rows, units));
        product_of_tiles(kernels, self.depth, x, columns, &mut sums, true);
    }
}

/// Adds the dot products of each of at most [`DOT_ROWS`] rows with each row of a weight.
fn add_dots<T: Number>(depth: usize, x: Matrix<T>, rows: usize, weight: &[T], sums: &mut [T]) {
    let (kernels, units) = (T::kernels(simd::isa()), weight.len() / depth);
    let mut products = [T::ZERO; DOT_ROWS * DOT_ROWS];
    let mut unit = 0;
    while unit < units {
        let n = if kernels.dot_cols <= DOT_ROWS.min(units - unit) { kernels.dot_cols } else { 1 };
        let of_units = Matrix { data: &weight[unit * depth..], rs: depth, cs: 1 };
        kernels.dot(depth, x, rows, of_units, n, &mut products);
        for (row, products) in products.chunks_exact(n).take(rows).enumerate() {
            let to = &mut sums[row * units + unit..][..n];
            to.iter_mut().zip(products).for_each(|(to, product)| *to += *product);
        }
        unit += n;
    }
}

/// The products with the input.
pub(super) struct OfInput<'a, T> {
    weight: Packed<'a, T>,
    /// `[steps, batch, features]`.
    input: &'a [T],
    /// The same transposed, `[steps, features, batch]`, for [`Form::Panels`].
    turned: Vec<T>,
    /// The products of the steps that are computed together, `[gates, together, batch, units]` of the units of each task.
    sums: Vec<T>,
    together: usize,
}

impl<'a, T: Number> OfInput<'a, T> {
    pub(super) fn new(input: View<'a>, weight: Packed<'a, T>) -> Result<Self> {
        let (r, input, panels) = (weight.r, elements::<T>(input), weight.form == Form::Panels);
        let mut turned = vec_of(T::ZERO, if panels { input.len() } else { 0 })?;
        for_chunks_mut(&mut turned, r.batch * r.features, |step, to| {
            let rows = Matrix { data: &input[step * to.len()..], rs: r.features, cs: 1 };
            T::kernels(simd::isa()).pack(r.batch, r.features, rows, to, r.batch);
        });
        let together = weight.form.together(r);
        let size = if panels { 0 } else { together * r.batch * weight.gates * r.hidden };
        Ok(OfInput { input, turned, sums: vec_of(T::ZERO, size)?, together, weight })
    }

    /// Computes the products of the steps from this one on, if it is the first of those that are computed together.
    pub(super) fn prepare(&mut self, step: usize) {
        let Packed { r, gates, depth, form, .. } = self.weight;
        if form == Form::Panels || !step.is_multiple_of(self.together) {
            return;
        }
        let rows = self.together.min(r.steps - step) * r.batch;
        let x = Matrix { data: &self.input[step * r.batch * depth..], rs: depth, cs: 1 };
        let (weight, all) = (&self.weight, self.together * r.batch);
        for_chunks_mut(&mut self.sums, UNITS * gates * all, |task, sums| {
            let units = sums.len() / (gates * all);
            for (gate, sums) in sums.chunks_exact_mut(units * all).enumerate() {
                sums.fill(T::ZERO);
                weight.add_rows(gate, task * UNITS, x, rows, &mut sums[..rows * units]);
            }
        });
    }

    /// The prepared products of a step, `[batch, units]`.
    fn of_step(&self, step: usize, gate: usize, first: usize, units: usize) -> &[T] {
        let (batch, all) = (self.weight.r.batch, self.together * self.weight.r.batch);
        let of_task = &self.sums[(first * self.weight.gates + gate * units) * all..];
        &of_task[step % self.together * batch * units..][..batch * units]
    }
}

/// The products of a gate: with the input, and with the state before the step.
type Products<'a, T> = (Option<(&'a OfInput<'a, T>, usize)>, Option<(&'a Packed<'a, T>, usize, &'a [T])>);

/// The sums of the products of a gate and of the biases, for the units of a task, of which `first` is the first.
pub(super) fn sum_gate<T: Number>(
    r: Recurrence,
    step: usize,
    first: usize,
    (of_input, of_state): Products<T>,
    biases: &[T],
    to: &mut [T],
) {
    let (kernels, batch, units) = (T::kernels(simd::isa()), r.batch, to.len() / r.batch);
    to.chunks_exact_mut(batch).zip(&biases[first..]).for_each(|(row, bias)| row.fill(*bias));
    let form = of_input.map(|(x, _)| x.weight.form).or(of_state.map(|(w, ..)| w.form));
    if form != Some(Form::Panels) {
        return add_transposed(batch, to, |sums| {
            if let Some((of_input, gate)) = of_input {
                sums.copy_from_slice(of_input.of_step(step, gate, first, units));
            }
            if let Some((weight, gate, state)) = of_state {
                weight.add_rows(gate, first, Matrix { data: state, rs: 1, cs: batch }, batch, sums);
            }
        });
    }
    let mut to = ViewMut::new(to, units, batch);
    let mut add = |weight: &Packed<T>, gate: usize, x: &[T]| {
        let x = Matrix { data: x, rs: batch, cs: 1 };
        product_of_panels(kernels, weight.depth, weight.of_units(gate, first, units), x, &mut to, true);
    };
    if let Some((of_input, gate)) = of_input {
        let size = batch * r.features;
        add(&of_input.weight, gate, &of_input.turned[step * size..][..size]);
    }
    if let Some((weight, gate, state)) = of_state {
        add(weight, gate, state);
    }
}

/// Adds sums that have a row for each sample to `to`, which has one for each unit of a task: Note [Rows of samples].
fn add_transposed<T: Number>(batch: usize, to: &mut [T], sum: impl FnOnce(&mut [T])) {
    let (mut sums, units) = ([T::ZERO; UNITS * ROWS], to.len() / batch);
    sum(&mut sums[..batch * units]);
    for (unit, row) in to.chunks_exact_mut(batch).enumerate() {
        row.iter_mut().zip(sums[unit..].iter().step_by(units)).for_each(|(to, sum)| *to += *sum);
    }
}

/// The weight of the state, for the gradients of a state from those of its gates.
pub(super) struct Transposed<'a, T> {
    weight: &'a [T],
    /// Panels of its columns, for [`Form::Panels`]; rows of samples are multiplied with the columns as they lie.
    panels: Vec<T>,
    r: Recurrence,
    /// Rows of the weight.
    depth: usize,
    by_samples: bool,
}

impl<'a, T: Number> Transposed<'a, T> {
    pub(super) fn new(weight: &'a [T], gates: usize, r: Recurrence) -> Result<Self> {
        let (kernels, depth) = (T::kernels(simd::isa()), gates * r.hidden);
        let by_samples = Form::of::<T>(gates, r) != Form::Panels;
        let mut panels = vec_of(T::ZERO, if by_samples { 0 } else { depth * r.hidden })?;
        for_chunks_mut(&mut panels, UNITS * depth, |task, panels| {
            let columns = Matrix { data: &weight[task * UNITS..], rs: 1, cs: r.hidden };
            pack_panels(kernels, depth, panels.len() / depth, columns, panels);
        });
        Ok(Transposed { weight, panels, r, depth, by_samples })
    }

    /// Adds the gradient of the output of a step that its successor's gates give, for some units.
    pub(super) fn add(&self, slopes: &[T], first: usize, to: &mut [T]) {
        let (kernels, batch, units) = (T::kernels(simd::isa()), self.r.batch, to.len() / self.r.batch);
        if self.by_samples {
            return add_transposed(batch, to, |sums| {
                let columns = Matrix { data: &self.weight[first..], rs: self.r.hidden, cs: 1 };
                let slopes = Matrix { data: slopes, rs: 1, cs: batch };
                let mut sums = ViewMut::new(sums, batch, units);
                product_of_tiles(kernels, self.depth, slopes, columns, &mut sums, false);
            });
        }
        let mut to = ViewMut::new(to, units, batch);
        let slopes = Matrix { data: slopes, rs: batch, cs: 1 };
        product_of_panels(kernels, self.depth, &self.panels[first * self.depth..], slopes, &mut to, true);
    }
}
