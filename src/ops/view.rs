//! Views: other layouts over the same memory. This module has views of all elements; `cut` has views of a part,
//! `split` operations that return several views, and `copies` rearrangements that need a copy.

pub mod copies;
pub mod cut;
pub mod split;
mod table;

use smallvec::{SmallVec, smallvec};

use super::arith::{self, clone_in};
use super::schema::Op;
use crate::backend::copy;
use crate::dtype::DType;
use crate::error::{Result, warn};
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat, checked_numel, wrap_dim};
use crate::tensor::{Tensor, as_view, scatter_view};
use crate::{bail, ensure};

pub use table::{
    as_strided, atleast_1d, atleast_2d, atleast_3d, broadcast_tensors, expand, expand_to, flatten, movedim,
    permute, permute_dims, ravel, reshape_to, squeeze, squeeze_all, swap, t_of, transpose, unflatten,
    unsqueeze, view_as, view_dtype,
};

pub static OPS: &[Op] = &Op::concat::<
    { table::OPS.len() + cut::OPS.len() + split::OPS.len() + copies::OPS.len() },
>(&[table::OPS, cut::OPS, split::OPS, copies::OPS]);

type Order = SmallVec<[usize; 6]>;

/// The node of views of all elements in the same order: its backward is a view of the gradient.
struct Reshape {
    node: &'static str,
    shape: Dims,
    /// The dimension argument, if there is one.
    dim: Option<usize>,
}

impl Function for Reshape {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(reshape_to(g, &self.shape)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        if let Some(d) = self.dim {
            visit("dim", Attribute::Int(d as i64));
        }
        if !self.node.starts_with("Unsqueeze") {
            visit("self_sym_sizes", Attribute::InputShape);
        }
    }
}

fn reshaped(t: &Tensor, layout: Layout, node: &'static str) -> Result<Tensor> {
    reshaped_at(t, layout, node, None)
}

fn reshaped_at(t: &Tensor, layout: Layout, node: &'static str, dim: Option<usize>) -> Result<Tensor> {
    as_view(t, layout, || Reshape { node, shape: t.shape().clone(), dim })
}

/// `t` viewed in `shape`.
fn view_as_impl(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    match t.layout().reshape(shape) {
        Some(l) => reshaped(t, l, "ViewBackward0"),
        None => bail!(
            Runtime,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces). Use .reshape(...) instead."
        ),
    }
}

/// A view if possible, else a copy.
fn reshape_to_impl(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    match t.layout().reshape(shape) {
        Some(l) => {
            reshaped(t, l, if t.looks_contiguous() { "ViewBackward0" } else { "ReshapeAliasBackward0" })
        }
        None => unsafe_view(&clone_in(t, MemoryFormat::Contiguous)?, shape),
    }
}

/// All elements as a vector: a view if possible, else a copy.
fn ravel_impl(t: &Tensor) -> Result<Tensor> {
    let shape = Dims::from([t.numel()]);
    match t.layout().reshape(&shape) {
        Some(layout) if layout.is_contiguous() => reshape_to(t, &shape),
        _ => view_as(&clone_in(t, MemoryFormat::Contiguous)?, &shape),
    }
}

/// As [`view_as`], without a view relation to `t`.
fn unrelated_view(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    match t.layout().reshape(shape) {
        Some(layout) => record(t.with_layout(layout), &[t], |_| Reshape {
            node: "UnsafeViewBackward0",
            shape: t.shape().clone(),
            dim: None,
        }),
        _ => unsafe_view(&clone_in(t, MemoryFormat::Contiguous)?, shape),
    }
}

/// A new result in its proper shape: not recorded as a view, since nobody else refers to `t`.
pub fn unsafe_view(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    let out = t.with_layout(Layout::contiguous(shape.clone()));
    record(out, &[t], |_| Reshape { node: "UnsafeViewBackward0", shape: t.shape().clone(), dim: None })
}

/// As [`unsafe_view`], without dimension `dim`, which has size 1.
pub fn unsafe_squeeze(t: &Tensor, dim: usize) -> Result<Tensor> {
    let mut shape = t.shape().clone();
    shape.remove(dim);
    let out = t.with_layout(Layout::contiguous(shape));
    record(out, &[t], |_| Reshape { node: "SqueezeBackward4", shape: t.shape().clone(), dim: Some(dim) })
}

struct Expand {
    shape: Dims,
}

impl Function for Expand {
    fn name(&self) -> &'static str {
        "ExpandBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(super::reduce::sum_to(g, &self.shape)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("self_sym_sizes", Attribute::InputShape);
    }
}

/// The type name in PyTorch's oldest error messages.
fn legacy_type(dtype: DType) -> String {
    let name = dtype.scalar_name();
    if matches!(dtype, DType::Bool | DType::BF16) {
        format!("CPU{name}Type")
    } else {
        format!("torch.{name}Tensor")
    }
}

/// Expands `t` in dimensions of size 1 and new leading dimensions, without a copy.
fn expand_to_impl(t: &Tensor, shape: &Dims) -> Result<Tensor> {
    if t.shape() == shape {
        return as_view(t, t.layout().clone(), || Expand { shape: t.shape().clone() });
    }
    if let Some(l) = t.layout().expand(shape) {
        checked_numel(shape)?;
        return as_view(t, l, || Expand { shape: t.shape().clone() });
    }
    let lead = match shape.len().checked_sub(t.rank()) {
        Some(lead) => lead,
        None => bail!(
            Runtime,
            "expand({}{{{}}}, size={shape}): the number of sizes provided ({}) must be greater or equal to the number of \
             dimensions in the tensor ({})",
            legacy_type(t.dtype()),
            t.shape(),
            shape.len(),
            t.rank()
        ),
    };
    let bad =
        (lead..shape.len()).rev().find(|&d| t.shape()[d - lead] != shape[d] && t.shape()[d - lead] != 1);
    let d = bad.unwrap_or(lead);
    bail!(
        Runtime,
        "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {d}.  Target \
         sizes: {shape}.  Tensor sizes: {}",
        shape[d],
        t.shape()[d - lead],
        t.shape()
    )
}

struct Permute {
    node: &'static str,
    inverse: Order,
}

impl Function for Permute {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(permute_dims(g, &self.inverse, self.node)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        let mut dims: SmallVec<[i64; 6]> = SmallVec::from_elem(0, self.inverse.len());
        (0..).zip(&self.inverse).for_each(|(i, &d)| dims[d] = i);
        if self.node == "PermuteBackward0" {
            visit("dims", Attribute::Ints(&dims));
        } else if self.node.starts_with("Transpose") {
            let moved = || (0..dims.len() as i64).zip(&dims).filter(|(i, d)| i != *d).map(|(_, &d)| d);
            visit("dim0", Attribute::Int(moved().last().unwrap_or(0)));
            visit("dim1", Attribute::Int(moved().next().unwrap_or(0)));
        }
    }
}

/// Permutes dimensions: dimension `d` of the result is dimension `order[d]` of `t`.
fn permute_dims_impl(t: &Tensor, order: &[usize], node: &'static str) -> Result<Tensor> {
    as_view(t, t.layout().permute(order), || {
        let mut inverse: Order = SmallVec::from_elem(0, order.len());
        order.iter().enumerate().for_each(|(d, &o)| inverse[o] = d);
        Permute { node, inverse }
    })
}

/// `t` with two dimensions exchanged.
fn swap_impl(t: &Tensor, a: usize, b: usize) -> Result<Tensor> {
    swap_as(t, a, b, "TransposeBackward0")
}

fn swap_as(t: &Tensor, a: usize, b: usize, node: &'static str) -> Result<Tensor> {
    let mut order: Order = (0..t.rank()).collect();
    if a != b {
        order.swap(a, b);
    }
    permute_dims_impl(t, &order, node)
}

/// The transpose of a matrix; vectors and 0-d tensors are returned unchanged.
fn t_of_impl(t: &Tensor) -> Result<Tensor> {
    t_as(t, "TBackward0")
}

fn t_as(t: &Tensor, node: &'static str) -> Result<Tensor> {
    ensure!(t.rank() <= 2, Runtime, "t() expects a tensor with <= 2 dimensions, but self is {}D", t.rank());
    let order: &[usize] = match t.rank() {
        2 => &[1, 0],
        1 => &[0],
        _ => &[],
    };
    permute_dims_impl(t, order, node)
}

/// A view with the dimensions reversed.
pub fn reversed(t: &Tensor) -> Result<Tensor> {
    if t.rank() == 0 {
        warn("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")?;
    } else if t.rank() > 2 {
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will \
             throw an error in a future release. Consider `x.mT` to transpose batches of matrices or \
             `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
        )?;
    }
    let order: Order = (0..t.rank()).rev().collect();
    permute_dims_impl(t, &order, "PermuteBackward0")
}

/// A view with the last two dimensions exchanged, for the attribute `name`.
fn matrix_transposed(t: &Tensor, name: &str) -> Result<Tensor> {
    if t.rank() == 0 {
        let instead = if name == "mT" {
            "This function is the identity in these cases."
        } else {
            "Consider using x.conj()."
        };
        warn(&format!("Tensor.{name} is deprecated on 0-D tensors. {instead}"))?;
        return permute_dims_impl(t, &[], "PermuteBackward0");
    }
    let of_matrices = name == "H";
    ensure!(
        t.rank() == 2 || t.rank() > 2 && !of_matrices,
        Runtime,
        "tensor.{name} is only supported on {}. Got {}-D tensor.{}",
        if of_matrices { "matrices (2-D tensors)" } else { "matrices or batches of matrices" },
        t.rank(),
        if of_matrices && t.rank() > 2 { " For batches of matrices, consider using tensor.mH" } else { "" }
    );
    swap_impl(t, t.rank() - 2, t.rank() - 1)
}

/// A view with the dimensions in the order `dims`.
fn permute_impl(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.len() == t.rank(),
        Runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired \
         ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        t.rank(),
        dims.len()
    );
    let order: Order = dims.iter().map(|&d| wrap_dim(d, t.rank())).collect::<Result<_>>()?;
    let repeated = order.iter().enumerate().any(|(i, d)| order[..i].contains(d));
    ensure!(!repeated, Runtime, "permute(): duplicate dims are not allowed.");
    permute_dims_impl(t, &order, "PermuteBackward0")
}

/// A view with two dimensions exchanged.
fn transpose_impl(t: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    transpose_as(t, dim0, dim1, "TransposeBackward0")
}

/// As [`transpose`], with the node's name.
fn transpose_as(t: &Tensor, dim0: i64, dim1: i64, node: &'static str) -> Result<Tensor> {
    let (x, y) = (wrap_dim(dim0, t.rank())?, wrap_dim(dim1, t.rank())?);
    swap_as(t, x, y, node)
}

/// Moves each dimension of `source` to its position in `destination`; the others keep their order.
fn movedim_impl(t: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ensure!(
        source.len() == destination.len(),
        Runtime,
        "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number of dims \
         as destination ({destination:?} dims)"
    );
    let rank = t.rank();
    let wrapped = |dims: &[i64], what: &str| -> Result<Order> {
        let out: Order = dims.iter().map(|&d| wrap_dim(d, rank)).collect::<Result<_>>()?;
        let repeated = out.iter().enumerate().any(|(i, d)| out[..i].contains(d));
        ensure!(!repeated, Runtime, "movedim: repeated dim in `{what}` ({dims:?})");
        Ok(out)
    };
    let (from, to) = (wrapped(source, "source")?, wrapped(destination, "destination")?);
    let mut others = (0..rank).filter(|d| !from.contains(d));
    let order: Order = (0..rank)
        .filter_map(|d| to.iter().position(|&x| x == d).map(|i| from[i]).or_else(|| others.next()))
        .collect();
    permute_dims_impl(t, &order, "PermuteBackward0")
}

/// Merges the dimensions from `start` to `end`; a 0-d tensor becomes a vector.
fn flatten_impl(t: &Tensor, start: i64, end: i64) -> Result<Tensor> {
    let (start, end) = (wrap_dim(start, t.rank())?, wrap_dim(end, t.rank())?);
    ensure!(start <= end, Runtime, "flatten() has invalid args: start_dim cannot come after end_dim");
    if t.rank() == 0 {
        return reshape_to_impl(t, &Dims::from([1]));
    }
    if start == end {
        return Ok(t.clone());
    }
    let s = t.shape();
    let merged = s[start..=end].iter().product();
    let shape = s[..start].iter().copied().chain([merged]).chain(s[end + 1..].iter().copied()).collect();
    reshape_to_impl(t, &shape)
}

/// Splits dimension `dim` into several of sizes `sizes`, one of which may be -1.
fn unflatten_impl(t: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = wrap_dim(dim, t.rank())?;
    ensure!(!sizes.is_empty(), Runtime, "unflatten: sizes must be non-empty");
    ensure!(t.rank() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    let n = t.shape()[d];
    let Ok(inner) = crate::layout::infer_shape(sizes, n) else {
        let unknown = if sizes.contains(&-1) { " (the unspecified dimension)" } else { "" };
        bail!(
            Runtime,
            "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({n}) in the input tensor{unknown}"
        );
    };
    let s = t.shape();
    let shape = s[..d].iter().chain(inner.iter()).chain(&s[d + 1..]).copied().collect();
    view_as_impl(t, &shape)
}

/// The view of `t` without those dimensions of size 1 for which `drop` holds.
fn squeezed(
    t: &Tensor,
    node: &'static str,
    dim: Option<usize>,
    drop: impl Fn(usize) -> bool,
) -> Result<Tensor> {
    let kept: Order = (0..t.rank()).filter(|&d| t.shape()[d] != 1 || !drop(d)).collect();
    reshaped_at(t, t.layout().permute(&kept), node, dim)
}

/// Without the dimensions of size 1: all of them, or those among `dims`; with the names of the node for all dimensions, for one, and for several.
fn squeeze_as(t: &Tensor, dims: Option<&[i64]>, nodes: [&'static str; 3]) -> Result<Tensor> {
    let Some(dims) = dims else { return squeezed(t, nodes[0], None, |_| true) };
    let wrapped: Order = dims.iter().map(|&d| wrap_dim(d, t.rank())).collect::<Result<_>>()?;
    for (i, d) in wrapped.iter().enumerate() {
        ensure!(!wrapped[..i].contains(d), Runtime, "dim {d} appears multiple times in the list of dims");
    }
    let node = if dims.len() == 1 { nodes[1] } else { nodes[2] };
    let asked = if wrapped.len() == 1 { Some(wrapped[0]) } else { None };
    squeezed(t, node, asked, |d| wrapped.contains(&d))
}

/// Inserts a dimension of size 1 at `dim`.
fn unsqueeze_impl(t: &Tensor, dim: i64) -> Result<Tensor> {
    unsqueeze_as(t, dim, "UnsqueezeBackward0")
}

fn unsqueeze_as(t: &Tensor, dim: i64, node: &'static str) -> Result<Tensor> {
    let d = wrap_dim(dim, t.rank() + 1)?;
    reshaped_at(t, t.layout().unsqueeze(d), node, Some(d))
}

/// Expands `t` to `sizes` without a copy; -1 keeps a size.
fn expand_impl(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let lead = sizes.len().saturating_sub(t.rank());
    let mut shape = Dims::default();
    for (d, &n) in sizes.iter().enumerate() {
        shape.push(match n {
            n if n >= 0 => n as usize,
            -1 if d >= lead => t.shape().get(d - lead).copied().unwrap_or(1),
            _ => bail!(
                Runtime,
                "The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {d}"
            ),
        });
    }
    expand_to_impl(t, &shape)
}

/// A 0-d tensor as a vector; others unchanged.
fn atleast_1d_impl(t: &Tensor) -> Result<Tensor> {
    if t.rank() == 0 { reshape_to(t, &Dims::from([1])) } else { Ok(t.clone()) }
}

/// At least a matrix: a vector becomes a row.
fn atleast_2d_impl(t: &Tensor) -> Result<Tensor> {
    match t.rank() {
        0 => reshape_to(t, &Dims::from([1, 1])),
        1 => unsqueeze(t, 0),
        _ => Ok(t.clone()),
    }
}

/// At least three dimensions: a vector becomes `[1, n, 1]`, a matrix gets a last dimension.
fn atleast_3d_impl(t: &Tensor) -> Result<Tensor> {
    match t.rank() {
        0 => reshape_to(t, &Dims::from([1, 1, 1])),
        1 => unsqueeze(&unsqueeze(t, 0)?, -1),
        2 => unsqueeze(t, -1),
        _ => Ok(t.clone()),
    }
}

/// The broadcast shape of `shapes`.
pub fn broadcast_shape<'a>(shapes: impl IntoIterator<Item = &'a Dims>) -> Result<Dims> {
    shapes
        .into_iter()
        .try_fold(Dims::default(), |all, s| crate::layout::broadcast("broadcast_tensors", &all, s))
}

/// Views of the tensors, expanded to their broadcast shape.
fn broadcast_tensors_impl(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let shape = broadcast_shape(tensors.iter().map(Tensor::shape))?;
    tensors.iter().map(|t| expand_to(t, &shape)).collect()
}

/// The node of `as_strided`.
struct Strided {
    node: &'static str,
    view: Layout,
    base: Layout,
    /// The offset as passed.
    offset: Option<i64>,
}

impl Function for Strided {
    fn name(&self) -> &'static str {
        self.node
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let gradient = scatter_view(g, &self.view, &self.base)?;
        if !self.base.may_overlap_itself() {
            return Ok(smallvec![Some(gradient)]);
        }
        // Elements of the input in one place share the gradient of that place.
        let ones = g.new_full(self.base.shape.clone(), 1.0)?;
        let shared_by = scatter_view(&ones, &self.base, &self.base)?;
        Ok(smallvec![Some(arith::div(&gradient, &shared_by)?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("size", Attribute::Sizes(&self.view.shape));
        let strides: SmallVec<[i64; 6]> = self.view.strides.iter().map(|&s| s as i64).collect();
        visit("stride", Attribute::Ints(&strides));
        visit("storage_offset", self.offset.map_or(Attribute::Nothing, Attribute::Int));
    }
}

/// A view of the storage of `t` with any layout that stays within it.
fn as_strided_impl(t: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>) -> Result<Tensor> {
    as_strided_as(t, size, stride, offset, "AsStridedBackward0")
}

/// As [`as_strided`], with another name for the node.
fn as_strided_as(
    t: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
    node: &'static str,
) -> Result<Tensor> {
    let view = strided_layout(t, size, stride, offset)?;
    as_view(t, view.clone(), || Strided { node, view, base: t.layout().clone(), offset })
}

fn strided_layout(t: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>) -> Result<Layout> {
    ensure!(size.len() == stride.len(), Runtime, "mismatch in length of strides and shape");
    ensure!(
        stride.iter().all(|&s| s >= 0),
        Runtime,
        "as_strided: Negative strides are not supported at the moment, got strides: {stride:?}"
    );
    ensure!(
        size.iter().all(|&n| n >= 0),
        Runtime,
        "Storage size calculation overflowed with sizes={size:?} and strides={stride:?}"
    );
    let offset = offset.unwrap_or(t.layout().offset as i64);
    ensure!(offset >= 0, Runtime, "Tensor: invalid storage offset {offset}");
    let layout = Layout {
        shape: size.iter().map(|&n| n as usize).collect(),
        strides: stride.iter().map(|&s| s as isize).collect(),
        offset: offset as usize,
    };
    let numel = checked_numel(&layout.shape)?;
    let end = layout.extent().map_or(0, |(_, hi)| hi.saturating_add(1));
    let (bytes, item) = (t.storage().len(), t.dtype().size());
    ensure!(
        end as usize <= bytes / item && (end > 0 || numel == 0),
        Runtime,
        "setStorage: sizes {size:?}, strides {stride:?}, storage offset {offset}, and itemsize {item} requiring a \
         storage size of {} are out of bounds for storage of size {bytes}",
        (end as usize).saturating_mul(item)
    );
    Ok(layout)
}

/// The arguments of `as_strided`.
#[derive(Clone)]
struct Geometry {
    size: SmallVec<[i64; 6]>,
    stride: SmallVec<[i64; 6]>,
    offset: Option<i64>,
}

/// A copy of `t` with its whole storage, in which the elements of the `as_strided` view are replaced by `src`.
pub fn as_strided_scatter(
    t: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let view = strided_layout(t, size, stride, offset)?;
    ensure!(
        src.shape() == &view.shape,
        Runtime,
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        src.shape(),
        view.shape
    );
    let elements = t.storage().len() / t.dtype().size();
    let storage = t.with_layout(Layout::contiguous(Dims::from([elements]))).copied(t.dtype())?;
    copy::copy(src.raw(), storage.with_layout(view).raw())?;
    let out = storage.with_layout(t.layout().clone()).copied(t.dtype())?;
    let asked = Geometry { size: size.into(), stride: stride.into(), offset };
    record(out, &[t, src], |_| StridedScatter { asked })
}

struct StridedScatter {
    asked: Geometry,
}

impl Function for StridedScatter {
    fn name(&self) -> &'static str {
        "AsStridedScatterBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        // As in PyTorch: the layout refers to a dense gradient, and the input's gradient is the view's part.
        let plain = g.is_contiguous() && g.layout().offset == 0;
        let g = if plain { g.clone() } else { clone_in(g, MemoryFormat::Contiguous)? };
        let Geometry { size, stride, offset } = &self.asked;
        let kept = || {
            let zeros = g.new_zeros(g.shape().clone())?;
            as_strided_scatter(&zeros, &as_strided(&g, size, stride, *offset)?, size, stride, *offset)
        };
        let picked = || as_strided(&g, size, stride, *offset);
        Ok(smallvec![cx.needs(0).then(kept).transpose()?, cx.needs(1).then(picked).transpose()?])
    }
}

/// Reinterprets the bits of the elements as another dtype.
fn view_dtype_impl(t: &Tensor, dtype: crate::dtype::DType) -> Result<Tensor> {
    let (from, to) = (t.dtype().size(), dtype.size());
    let mut layout = t.layout().clone();
    if from != to {
        let what = format!(
            "to view {} as {} (different element sizes)",
            t.dtype().scalar_name(),
            dtype.scalar_name()
        );
        let Some(d) = t.rank().checked_sub(1) else { bail!(Runtime, "self.dim() cannot be 0 {what}") };
        let last = layout.strides[d];
        ensure!(
            last == 1 || layout.shape[d] == 1,
            Runtime,
            "self.stride(-1) must be 1 {what}, but got {last}"
        );
        let bytes = layout.shape[d] * from;
        if to > from {
            let fits = |n: usize, name: String| {
                let k = to / from;
                ensure!(n.is_multiple_of(k), Runtime, "{name} must be divisible by {k} {what}, but got {n}");
                Ok(())
            };
            fits(layout.shape[d], "self.size(-1)".into())?;
            fits(layout.offset, "self.storage_offset()".into())?;
            for (k, &stride) in layout.strides[..d].iter().enumerate() {
                fits(stride.unsigned_abs(), format!("self.stride({k})"))?;
            }
        }
        layout.shape[d] = bytes / to;
        // The stride of a dimension of size 1 is arbitrary.
        layout.strides[d] = 1;
        layout.offset = layout.offset.saturating_mul(from) / to;
        for k in 0..d {
            layout.strides[k] = layout.strides[k].saturating_mul(from as isize) / to as isize;
        }
    }
    Ok(Tensor::from_parts(t.storage().clone(), layout, dtype))
}

#[cfg(test)]
mod tests;
