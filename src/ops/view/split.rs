//! Operations that return several views.

use smallvec::{SmallVec, smallvec};

use super::cut::{Cut, narrow};
use crate::device::Device;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record_all};
use crate::layout::{Dims, MemoryFormat, wrap_dim};
use crate::ops::join::{cat, stack};
use crate::ops::schema::{Args, Out};
use crate::tensor::{Tensor, multi_view};
use crate::{bail, ensure, ops};

const UNBIND: &str = "UnbindBackward0";

/// One view per index of `dim`.
fn unbind_impl(t: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(t.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    let d = wrap_dim(dim, t.rank())?;
    expect_pieces(t.shape()[d], "unbind")?;
    let cuts = (0..t.shape()[d]).map(|index| Cut::Select { dim: d, index });
    parts(t, d, cuts, UNBIND)
}

/// The views `cuts`, which together cover dimension `d`. They share one node.
fn parts(t: &Tensor, d: usize, cuts: impl Iterator<Item = Cut>, node: &'static str) -> Result<Vec<Tensor>> {
    let parts = cuts.enumerate().map(|(i, cut)| multi_view(t, cut.layout(t.layout()), i)).collect();
    record_all(parts, &[t], |parts| Parts {
        node,
        dim: d,
        shapes: parts.iter().map(|p| p.shape().clone()).collect(),
    })
}

/// The node of views that together cover the tensor.
struct Parts {
    node: &'static str,
    dim: usize,
    shapes: Vec<Dims>,
}

impl Function for Parts {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(like) = grads.iter().flatten().next() else { return Ok(smallvec![None]) };
        let parts = grads.iter().zip(&self.shapes).map(|(g, shape)| match g {
            Some(g) => Ok(g.clone()),
            None => like.new_zeros(shape.clone()),
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let joined =
            if self.node == UNBIND { stack(&parts, self.dim as i64)? } else { cat(&parts, self.dim as i64)? };
        Ok(smallvec![Some(joined)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
        let lengths: SmallVec<[usize; 6]> =
            self.shapes.iter().filter_map(|s| s.get(self.dim).copied()).collect();
        match self.node {
            "SplitBackward0" => {
                visit("split_size", Attribute::Int(lengths.first().copied().unwrap_or(0) as i64));
                visit("self_sym_sizes", Attribute::InputShape);
            }
            "SplitWithSizesBackward0" => {
                visit("split_sizes", Attribute::Sizes(&lengths));
                visit("self_sym_sizes", Attribute::InputShape);
            }
            _ => {}
        }
    }
}

/// Views of consecutive ranges of `dim` with the given lengths, which must be valid.
fn pieces(
    t: &Tensor,
    d: usize,
    lengths: impl Iterator<Item = usize>,
    node: &'static str,
) -> Result<Vec<Tensor>> {
    let mut start = 0;
    let cuts = lengths.map(|length| {
        start += length;
        Cut::Slice { dim: d, start: start - length, length, step: 1 }
    });
    parts(t, d, cuts, node)
}

fn require_dims(t: &Tensor, op: &str) -> Result<()> {
    ensure!(t.rank() > 0, Runtime, "{op} expects at least a 1-dimensional tensor");
    Ok(())
}

/// Views of `size` indices of `dim`; the last one may be shorter.
fn split_impl(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    require_dims(t, "split")?;
    ensure!(size >= 0, Runtime, "split expects split_size be non-negative, but got split_size={size}");
    let d = wrap_dim(dim, t.rank())?;
    let (n, size) = (t.shape()[d], size as usize);
    ensure!(
        size > 0 || n == 0,
        Runtime,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
    );
    let count = if size == 0 { 1 } else { n.div_ceil(size).max(1) };
    expect_pieces(count, "split")?;
    pieces(t, d, (0..count).map(|i| size.min(n - i * size)), "SplitBackward0")
}

/// Views with the given lengths along `dim`, which add up to its size.
fn split_with_sizes_impl(t: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    require_dims(t, "split")?;
    let d = wrap_dim(dim, t.rank())?;
    let n = t.shape()[d] as i64;
    ensure!(
        sizes.iter().all(|&s| s >= 0),
        Runtime,
        "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes:?}"
    );
    ensure!(
        sizes.iter().fold(0i64, |sum, &s| sum.saturating_add(s)) == n,
        Runtime,
        "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got \
         split_sizes={sizes:?}"
    );
    pieces(t, d, sizes.iter().map(|&s| s as usize), "SplitWithSizesBackward0")
}

/// At most `chunks` views of equal size; the last one may be smaller.
fn chunk_impl(t: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    require_dims(t, "chunk")?;
    ensure!(chunks > 0, Runtime, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let d = wrap_dim(dim, t.rank())?;
    let n = t.shape()[d];
    let size = n.div_ceil(chunks as usize);
    if size == 0 {
        expect_pieces(chunks as usize, "chunk")?;
        return split_with_sizes(t, &vec![0; chunks as usize], dim);
    }
    split(t, size as i64, dim)
}

/// A limit on the number of pieces, which can be larger only for empty tensors or stride-0 dimensions, by mistake.
const MOST_PIECES: usize = 1 << 24;

fn expect_pieces(count: usize, op: &str) -> Result<()> {
    ensure!(count <= MOST_PIECES, Runtime, "{op}: {count} pieces are more than {MOST_PIECES}");
    Ok(())
}

/// `sections` views of nearly equal size; if the size is not divisible, the first ones are longer by one.
fn tensor_split(t: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        t.rank() > 0,
        Runtime,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    let d = wrap_dim(dim, t.rank())?;
    ensure!(sections > 0, Runtime, "number of sections must be larger than 0, got {sections}");
    expect_pieces(sections as usize, "tensor_split")?;
    let (n, mut start) = (t.shape()[d] as i64, 0);
    (0..sections)
        .map(|i| {
            let length = n / sections + i64::from(i < n % sections);
            start += length;
            narrow(t, d as i64, start - length, length)
        })
        .collect()
}

/// Views between the given indices, with Python's clamping.
fn tensor_split_at(t: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        t.rank() > 0,
        Runtime,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    let d = wrap_dim(dim, t.rank())?;
    let ends = indices.iter().map(|&i| Some(i)).chain([None]);
    let starts = [0].into_iter().chain(indices.iter().copied());
    starts
        .zip(ends)
        .map(|(start, end)| {
            let (start, length) = super::cut::slice_range(t.shape()[d], Some(start), end, 1);
            narrow(t, d as i64, start as i64, length as i64)
        })
        .collect()
}

fn tensor_split_by_tensor(a: &Args) -> Result<Out> {
    let (t, by) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(
        by.dtype() == crate::dtype::DType::I64,
        Runtime,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        by.dtype().scalar_name()
    );
    Ok(Out::Tuple(match by.rank() {
        0 => tensor_split(t, by.item()?.to_i64(), a.int(2)?)?,
        // The shapes of the results depend on it, so this synchronizes with a GPU.
        1 => tensor_split_at(t, &by.on_device(Device::Cpu)?.values::<i64>()?, a.int(2)?)?,
        r => bail!(
            Runtime,
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but \
             got a tensor with {r} dims"
        ),
    }))
}

/// The dimension along which `hsplit`, `vsplit` or `dsplit` splits.
fn grid_dim(t: &Tensor, name: &str) -> Result<usize> {
    let (dim, least) = match name {
        "hsplit" => (if t.rank() == 1 { 0 } else { 1 }, 1),
        "vsplit" => (0, 2),
        _ => (2, 3),
    };
    ensure!(
        t.rank() >= least,
        Runtime,
        "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
        t.rank()
    );
    Ok(dim)
}

fn grid_split(a: &Args) -> Result<Out> {
    let (t, sections) = (a.tensor(0)?, a.int(1)?);
    let dim = grid_dim(t, a.name)?;
    let n = t.shape()[dim];
    ensure!(
        sections != 0 && n as i64 % sections == 0,
        Runtime,
        "torch.{} attempted to split along dimension {dim}, but the size of the dimension {n} is not divisible by the \
         split_size {sections}!",
        a.name
    );
    Ok(Out::Tuple(tensor_split(t, sections, dim as i64)?))
}

fn grid_split_at(a: &Args) -> Result<Out> {
    let dim = grid_dim(a.tensor(0)?, a.name)?;
    Ok(Out::Tuple(tensor_split_at(a.tensor(0)?, a.ints(1)?, dim as i64)?))
}

fn with_sizes(a: &Args) -> Result<Out> {
    Ok(Out::Tuple(split_with_sizes(a.tensor(0)?, a.ints(1)?, a.int(2)?)?))
}

fn copies(parts: Vec<Tensor>) -> Result<Out> {
    let copy = |t| crate::ops::arith::clone_in(t, MemoryFormat::Contiguous);
    Ok(Out::Tuple(parts.iter().map(copy).collect::<Result<_>>()?))
}

ops! {
    /// A view per index of a dimension.
    "unbind" BOTH, batch DIMS {
        pub fn unbind(input: Tensor, dim: int = 0) -> Tensor[] = unbind_impl;
    }
    /// A copy of each index of a dimension.
    "unbind_copy" FUNCTION | OUT, batch DIMS {
        (input: Tensor, dim: int = 0) -> Tensor[] => |a| copies(unbind(a.tensor(0)?, a.int(1)?)?);
    }
    /// Views of pieces of a dimension, of one size or of the sizes listed.
    "split" BOTH, batch DIMS {
        pub fn split(input: Tensor, split_size_or_sections: int, dim: int = 0) -> Tensor[] = split_impl;
        (input: Tensor, split_size: int, dim: int = 0) -> Tensor[] =>
            |a| Ok(Out::Tuple(split(a.tensor(0)?, a.int(1)?, a.int(2)?)?));
        (input: Tensor, split_size_or_sections: int[], dim: int = 0) -> Tensor[] => with_sizes;
        (input: Tensor, split_size: int[], dim: int = 0) -> Tensor[] => with_sizes;
    }
    /// Views of pieces of a dimension, of the sizes listed.
    "split_with_sizes" BOTH, batch DIMS {
        pub fn split_with_sizes(input: Tensor, split_sizes: size, dim: int = 0) -> Tensor[] = split_with_sizes_impl;
    }
    /// Copies of pieces of a dimension, of the sizes listed.
    "split_with_sizes_copy" FUNCTION | OUT, batch DIMS {
        (input: Tensor, split_sizes: size, dim: int = 0) -> Tensor[] =>
            |a| copies(split_with_sizes(a.tensor(0)?, a.ints(1)?, a.int(2)?)?);
    }
    /// At most `chunks` views of equal size, the last one of which may be smaller.
    "chunk" BOTH, batch DIMS {
        pub fn chunk(input: Tensor, chunks: int, dim: int = 0) -> Tensor[] = chunk_impl;
    }
    /// Views of nearly equal parts of a dimension, or of the parts between the indices listed.
    "tensor_split" BOTH, batch DIMS {
        (input: Tensor, tensor_indices_or_sections: Tensor, dim: int = 0) -> Tensor[] => tensor_split_by_tensor;
        (input: Tensor, sections: int, dim: int = 0) -> Tensor[] =>
            |a| Ok(Out::Tuple(tensor_split(a.tensor(0)?, a.int(1)?, a.int(2)?)?));
        (input: Tensor, indices: int[], dim: int = 0) -> Tensor[] =>
            |a| Ok(Out::Tuple(tensor_split_at(a.tensor(0)?, a.ints(1)?, a.int(2)?)?));
    }
    /// Views of parts of the columns.
    "hsplit" BOTH, batch PARTS {
        (input: Tensor, sections: int) -> Tensor[] => grid_split;
        (input: Tensor, indices: int[]) -> Tensor[] => grid_split_at;
    }
    /// Views of parts of the rows.
    "vsplit" BOTH, batch PARTS {
        (input: Tensor, sections: int) -> Tensor[] => grid_split;
        (input: Tensor, indices: int[]) -> Tensor[] => grid_split_at;
    }
    /// Views of parts of the third dimension.
    "dsplit" BOTH, batch PARTS {
        (input: Tensor, sections: int) -> Tensor[] => grid_split;
        (input: Tensor, indices: int[]) -> Tensor[] => grid_split_at;
    }
}
