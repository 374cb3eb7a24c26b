//! Joining tensors along a dimension.

use smallvec::SmallVec;

use super::schema::{Args, Out};
use super::view;
use super::view::cut::{self, Cut};
use crate::backend::{View, copy};
use crate::dtype::promote;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat, wrap_dim};
use crate::tensor::Tensor;
use crate::{ensure, ops};

/// As in PyTorch, an empty vector may be concatenated with tensors of any rank and is ignored.
fn is_left_out(t: &Tensor) -> bool {
    t.rank() == 1 && t.numel() == 0
}

/// The memory format common to all tensors, or row-major if they differ.
fn common_format(tensors: &[Tensor]) -> MemoryFormat {
    let formats = tensors.iter().map(|t| t.layout().suggested_format());
    formats
        .reduce(|a, b| if a == b { a } else { MemoryFormat::Contiguous })
        .unwrap_or(MemoryFormat::Contiguous)
}

/// Concatenates tensors along `dim` in their promoted dtype.
fn cat_impl(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Value, "torch.cat(): expected a non-empty list of Tensors");
    for (i, t) in tensors.iter().enumerate() {
        ensure!(t.rank() > 0, Runtime, "zero-dimensional tensor (at position {i}) cannot be concatenated");
    }
    let first = tensors.iter().position(|t| !is_left_out(t)).unwrap_or(0);
    let model = tensors[first].shape();
    // Vectors without elements may be joined along any dimension.
    let d = if tensors.iter().all(is_left_out) { 0 } else { wrap_dim(dim, model.len())? };
    let mut length = 0;
    for (i, t) in tensors.iter().enumerate().filter(|(_, t)| !is_left_out(t)) {
        let s = t.shape();
        ensure!(
            s.len() == model.len(),
            Runtime,
            "Tensors must have same number of dimensions: got {} and {}",
            model.len(),
            s.len()
        );
        if let Some(k) = (0..s.len()).find(|&k| k != d && s[k] != model[k]) {
            crate::bail!(
                Runtime,
                "Sizes of tensors must match except in dimension {d}. Expected size {} but got size {} for tensor number \
                 {i} in the list.",
                model[k],
                s[k]
            );
        }
        length += s[d];
    }
    let dtype = tensors.iter().try_fold(tensors[0].dtype(), |all, t| promote(all, t.dtype()))?;
    let mut shape = model.clone();
    shape[d] = length;
    let (format, mut layout) = (common_format(tensors), Layout::contiguous(shape));
    if format != MemoryFormat::Contiguous {
        layout = layout.in_format(format)?;
    }
    let out = Tensor::empty_dense(layout, dtype, tensors[first].device())?;
    let parts = || tensors.iter().filter(|t| !is_left_out(t));
    let columns = d + 1 == model.len() && parts().all(|t| t.shape()[d] == 1);
    if !columns || !copy::interleave(&parts().map(Tensor::raw).collect::<SmallVec<[View; 4]>>(), out.raw())? {
        let mut start = 0;
        for t in parts() {
            let length = t.shape()[d];
            let place = out.layout().slice(d, start, length, 1);
            copy::copy(t.raw(), View { layout: &place, ..out.raw() })?;
            start += length;
        }
    }
    let inputs: SmallVec<[&Tensor; 4]> = tensors.iter().collect();
    record(out, &inputs, |_| {
        let lengths = tensors.iter().map(|t| (!is_left_out(t)).then(|| t.shape()[d])).collect();
        Cat { dim: d, lengths }
    })
}

struct Cat {
    dim: usize,
    /// Length of each input along `dim`; None for an ignored one.
    lengths: SmallVec<[Option<usize>; 4]>,
}

impl Function for Cat {
    fn name(&self) -> &'static str {
        "CatBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(self.lengths.iter().map(|_| None).collect()) };
        let mut start = 0;
        let part = |(i, length): (usize, &Option<usize>)| {
            let Some(length) = *length else {
                return Ok(if cx.needs(i) { Some(g.new_zeros([0usize])?) } else { None });
            };
            start += length;
            let cut = Cut::Slice { dim: self.dim, start: start - length, length, step: 1 };
            if cx.needs(i) { cut::take(g, cut).map(Some) } else { Ok(None) }
        };
        self.lengths.iter().enumerate().map(part).collect()
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
    }
}

/// Stacks tensors of one shape along a new dimension.
fn stack_impl(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), Runtime, "stack expects a non-empty TensorList");
    let model = tensors[0].shape();
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.shape() == model,
            Runtime,
            "stack expects each tensor to be equal size, but got {model} at entry 0 and {} at entry {i}",
            t.shape()
        );
    }
    let d = wrap_dim(dim, model.len() + 1)?;
    let dtype = tensors.iter().try_fold(tensors[0].dtype(), |all, t| promote(all, t.dtype()))?;
    let mut shape = model.clone();
    shape.insert(d, tensors.len());
    let mut layout = Layout::contiguous(shape);
    let format = common_format(tensors);
    if format != MemoryFormat::Contiguous && d < model.len() {
        // As if they were concatenated along the dimension, which is then split.
        let mut joined = model.clone();
        joined[d] *= tensors.len();
        layout.strides = Layout::contiguous(joined).in_format(format)?.strides;
        let step = layout.strides[d] * model[d] as isize;
        layout.strides.insert(d, step);
    }
    let out = Tensor::empty_dense(layout, dtype, tensors[0].device())?;
    let parts: SmallVec<[View; 4]> = tensors.iter().map(Tensor::raw).collect();
    if d < model.len() || !copy::interleave(&parts, out.raw())? {
        for (i, t) in tensors.iter().enumerate() {
            copy::copy(t.raw(), View { layout: &out.layout().select(d, i), ..out.raw() })?;
        }
    }
    let inputs: SmallVec<[&Tensor; 4]> = tensors.iter().collect();
    record(out, &inputs, |_| Stack { dim: d, count: tensors.len() })
}

struct Stack {
    dim: usize,
    count: usize,
}

impl Function for Stack {
    fn name(&self) -> &'static str {
        "StackBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok((0..self.count).map(|_| None).collect()) };
        let part = |index| {
            let cut = Cut::Select { dim: self.dim, index };
            if cx.needs(index) { cut::take(g, cut).map(Some) } else { Ok(None) }
        };
        (0..self.count).map(part).collect()
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
    }
}

/// Concatenates tensors along `dim` after raising each to a minimum rank.
fn cat_raised(
    a: &Args,
    raise: impl Fn(&Tensor) -> Result<Tensor>,
    dim: impl Fn(&Tensor) -> i64,
) -> Result<Out> {
    let tensors = a.tensors(0)?;
    ensure!(!tensors.is_empty(), Runtime, "{} expects a non-empty TensorList", a.name);
    let raised: Vec<Tensor> = tensors.iter().map(raise).collect::<Result<_>>()?;
    Ok(cat(&raised, dim(&raised[0]))?.into())
}

/// Turns a vector or 0-d tensor into a column.
fn as_column(t: &Tensor) -> Result<Tensor> {
    if t.rank() <= 1 { view::reshape_to(t, &Dims::from([t.numel(), 1])) } else { Ok(t.clone()) }
}

/// A block diagonal matrix; vectors are treated as rows.
fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    let mut matrices = Vec::with_capacity(tensors.len());
    for (i, t) in tensors.iter().enumerate() {
        ensure!(
            t.rank() <= 2,
            Runtime,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
            t.rank()
        );
        matrices.push(view::atleast_2d(t)?);
    }
    let total = |d: usize| matrices.iter().map(|m| m.shape()[d]).sum::<usize>();
    let dtype = match tensors.split_first() {
        Some((first, rest)) => rest.iter().try_fold(first.dtype(), |all, t| promote(all, t.dtype()))?,
        None => super::default_dtype(),
    };
    let (rows, columns) = if tensors.is_empty() { (1, 0) } else { (total(0), total(1)) };
    let device = tensors.first().map(Tensor::device).unwrap_or_default();
    let out = Tensor::zeros_on([rows, columns], dtype, device)?;
    let (mut blocks, mut row, mut column) = (Vec::new(), 0, 0);
    for m in &matrices {
        let (h, w) = (m.shape()[0], m.shape()[1]);
        let block = out.layout().slice(0, row, h, 1).slice(1, column, w, 1);
        copy::copy(m.raw(), out.with_layout(block).raw())?;
        blocks.push([(row, h), (column, w)]);
        (row, column) = (row + h, column + w);
    }
    let inputs: Vec<&Tensor> = matrices.iter().collect();
    record(out, &inputs, |_| BlockDiag { blocks })
}

struct BlockDiag {
    /// Start and length of each block in both dimensions.
    blocks: Vec<[(usize, usize); 2]>,
}

impl Function for BlockDiag {
    fn name(&self) -> &'static str {
        "BlockDiagBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(self.blocks.iter().map(|_| None).collect()) };
        let block = |places: &[(usize, usize); 2]| {
            let mut part = g.clone();
            for (dim, &(start, length)) in places.iter().enumerate() {
                part = cut::take(&part, Cut::Slice { dim, start, length, step: 1 })?;
            }
            Ok(Some(part))
        };
        self.blocks.iter().map(block).collect()
    }
}

ops! {
    /// The tensors one after the other along a dimension.
    "cat" FUNCTION | OUT, aliases ["concat", "concatenate"], out JOINED, batch JOIN {
        pub fn cat(tensors: Tensor[], dim: int = 0) -> Tensor = cat_impl;
    }
    /// The tensors, which have one shape, along a new dimension.
    "stack" FUNCTION | OUT, out JOINED, batch JOIN {
        pub fn stack(tensors: Tensor[], dim: int = 0) -> Tensor = stack_impl;
    }
    /// The tensors one beside the other: along the second dimension, vectors along the first.
    "hstack" FUNCTION | OUT, batch PARTS {
        (tensors: Tensor[]) => |a| cat_raised(a, view::atleast_1d, |t| i64::from(t.rank() > 1));
    }
    /// The tensors one below the other; vectors are rows.
    "vstack" FUNCTION | OUT, aliases ["row_stack"], batch PARTS {
        (tensors: Tensor[]) => |a| cat_raised(a, view::atleast_2d, |_| 0);
    }
    /// The tensors one behind the other, along the third dimension.
    "dstack" FUNCTION | OUT, batch PARTS {
        (tensors: Tensor[]) => |a| cat_raised(a, view::atleast_3d, |_| 2);
    }
    /// The tensors one beside the other; vectors are columns.
    "column_stack" FUNCTION | OUT, batch PARTS {
        (tensors: Tensor[]) => |a| cat_raised(a, as_column, |_| 1);
    }
    /// Zeros with the matrices on the diagonal.
    "block_diag" FUNCTION, batch PARTS {
        (tensors: Tensor*) => |a| Ok(block_diag(a.tensors(0)?)?.into());
    }
}
