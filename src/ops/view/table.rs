//! The operation table of views of all elements.

use super::*;
use crate::layout::infer_shape;
use crate::ops;
use crate::ops::schema::{Args, Out};

fn view(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(view_as(t, &infer_shape(a.ints(1)?, t.numel())?)?.into())
}

fn reshape(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    Ok(reshape_to(t, &infer_shape(a.ints(1)?, t.numel())?)?.into())
}

fn as_strided_op(a: &Args, node: &'static str) -> Result<Out> {
    Ok(as_strided_as(a.tensor(0)?, a.ints(1)?, a.ints(2)?, a.opt_int(3)?, node)?.into())
}

/// PyTorch's names of the nodes for all dimensions, for one, and for several.
const SQUEEZE_NODES: [&str; 3] = ["SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2"];
/// Of those that squeeze a tensor itself.
const SQUEEZE_IN_PLACE_NODES: [&str; 3] = ["SqueezeBackward3", "SqueezeBackward4", "SqueezeBackward5"];

fn squeeze_all_impl(t: &Tensor) -> Result<Tensor> {
    squeeze_as(t, None, SQUEEZE_NODES)
}

fn squeeze_dim(a: &Args) -> Result<Out> {
    Ok(squeeze_dims(a.tensor(0)?, &[a.int(1)?])?.into())
}

fn squeeze_dims(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    squeeze_as(t, Some(dims), SQUEEZE_NODES)
}

/// Applies `f` to each tensor of a list.
fn each(a: &Args, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Out> {
    Ok(Out::Tuple(a.tensors(0)?.iter().map(f).collect::<Result<_>>()?))
}

/// `t` in the shape of another tensor, copied only if no view is possible.
fn reshape_as(a: &Args) -> Result<Out> {
    let shape: SmallVec<[i64; 6]> = a.tensor(1)?.shape().iter().map(|&n| n as i64).collect();
    Ok(reshape_to(a.tensor(0)?, &infer_shape(&shape, a.tensor(0)?.numel())?)?.into())
}

fn view_as_op(a: &Args) -> Result<Out> {
    let shape: SmallVec<[i64; 6]> = a.tensor(1)?.shape().iter().map(|&n| n as i64).collect();
    Ok(view_as(a.tensor(0)?, &infer_shape(&shape, a.tensor(0)?.numel())?)?.into())
}

ops! {
    /// The same elements in another shape, without a copy; or their bits as another dtype.
    "view" METHOD, batch SIZES {
        (input: Tensor, size: size) => view;
        /// `t` viewed in `shape`.
        pub fn view_as(t: &Tensor, shape: &Dims) -> Tensor as (t, shape) = view_as_impl;
        pub fn view_dtype(input: Tensor, dtype: dtype) -> Tensor = view_dtype_impl;
    }
    /// The same elements in another shape, as a tensor that autograd takes for a new one: only for one that nobody else reads.
    "_unsafe_view" FUNCTION, batch SIZES, samples ["data(4, 6), (2, 12)"] {
        (input: Tensor, size: size) => |a| {
            let t = a.tensor(0)?;
            Ok(super::unrelated_view(t, &infer_shape(a.ints(1)?, t.numel())?)?.into())
        };
    }
    /// The same elements in the shape of `other`, without a copy.
    "view_as" METHOD, batch LIKE {
        (input: Tensor, other: Tensor) => view_as_op;
    }
    /// The same elements in another shape: a view where one exists, else a copy.
    "reshape" BOTH, batch SIZES {
        (input: Tensor, shape: size) => reshape;
        /// A view in `shape` where one exists, else a copy.
        pub fn reshape_to(t: &Tensor, shape: &Dims) -> Tensor as (t, shape) = reshape_to_impl;
    }
    /// The same elements in the shape of `other`: a view where one exists, else a copy.
    "reshape_as" METHOD, batch LIKE {
        (input: Tensor, other: Tensor) => reshape_as;
    }
    /// The dimensions from `start_dim` to `end_dim` as one.
    "flatten" BOTH, batch DIMS {
        pub fn flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor = flatten_impl;
    }
    /// All elements as a vector.
    "ravel" BOTH, batch ALL_DIMS {
        pub fn ravel(input: Tensor) -> Tensor = ravel_impl;
    }
    /// Dimension `dim` as several, whose product it is.
    "unflatten" BOTH, batch DIMS {
        pub fn unflatten(input: Tensor, dim: int, sizes: size) -> Tensor = unflatten_impl;
    }
    /// A view with the dimensions in another order.
    "permute" BOTH, batch ALL_DIMS {
        pub fn permute(input: Tensor, dims: size) -> Tensor = permute_impl;
        /// As `permute`, with the node's name; dimension `d` of the result is dimension `order[d]` of `t`.
        pub fn permute_dims(t: &Tensor, order: &[usize], node: &'static str) -> Tensor as (t, order) = permute_dims_impl;
    }
    /// A view with two dimensions swapped.
    "transpose" BOTH, batch DIMS {
        pub fn transpose(input: Tensor, dim0: int, dim1: int) -> Tensor = transpose_impl;
        /// As `transpose`.
        pub fn swap(t: &Tensor, a: usize, b: usize) -> Tensor as (t, a, b) = swap_impl;
    }
    /// A view with two dimensions swapped.
    "swapaxes" BOTH, batch DIMS {
        (input: Tensor, axis0: int, axis1: int) => |a| Ok(transpose(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into());
    }
    /// A view with two dimensions swapped.
    "swapdims" BOTH, batch DIMS {
        (input: Tensor, dim0: int, dim1: int) => |a| Ok(transpose(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into());
    }
    /// Swaps two dimensions of the tensor itself.
    "transpose_" METHOD, aliases ["swapdims_", "swapaxes_"] {
        (input: Tensor, dim0: int, dim1: int) =>
            |a| Ok(transpose_as(a.tensor(0)?, a.int(1)?, a.int(2)?, "TransposeBackward1")?.into());
    }
    /// A view of a matrix, transposed.
    "t" BOTH, batch ALL_DIMS {
        pub fn t_of(input: Tensor) -> Tensor = t_of_impl;
    }
    /// Transposes the matrix itself.
    "t_" METHOD {
        (input: Tensor) => |a| Ok(t_as(a.tensor(0)?, "TBackward1")?.into());
    }
    /// A view with the dimensions reversed.
    "T" ATTRIBUTE, batch ALL_DIMS {
        (input: Tensor) => |a| Ok(reversed(a.tensor(0)?)?.into());
    }
    /// A view with the last two dimensions swapped.
    "mT" ATTRIBUTE, batch ALL_DIMS {
        (input: Tensor) => |a| Ok(matrix_transposed(a.tensor(0)?, "mT")?.into());
    }
    /// A view with the last two dimensions swapped; the elements are real.
    "mH" ATTRIBUTE, batch ALL_DIMS {
        (input: Tensor) => |a| Ok(matrix_transposed(a.tensor(0)?, "mH")?.into());
    }
    /// A view of a matrix, transposed; the elements are real.
    "H" ATTRIBUTE, batch ALL_DIMS {
        (input: Tensor) => |a| Ok(matrix_transposed(a.tensor(0)?, "H")?.into());
    }
    /// A view with the last two dimensions swapped; the elements are real.
    "adjoint" BOTH, batch ALL_DIMS {
        (input: Tensor) => |a| Ok(matrix_transposed(a.tensor(0)?, "adjoint()")?.into());
    }
    /// A view with the dimensions `source` moved to the places `destination`.
    "movedim" BOTH, aliases ["moveaxis"], batch DIMS {
        pub fn movedim(input: Tensor, source: int[], destination: int[]) -> Tensor = movedim_impl;
    }
    /// A view without dimensions of size 1: all of them, or those among `dim`.
    "squeeze" BOTH, batch SQUEEZE {
        pub fn squeeze_all(input: Tensor) -> Tensor = squeeze_all_impl;
        (input: Tensor, dim: int) => squeeze_dim;
        pub fn squeeze(input: Tensor, dim: int[]) -> Tensor = squeeze_dims;
    }
    /// Drops dimensions of size 1 of the tensor itself.
    "squeeze_" METHOD {
        (input: Tensor) => |a| Ok(squeeze_as(a.tensor(0)?, None, SQUEEZE_IN_PLACE_NODES)?.into());
        (input: Tensor, dim: int) => |a| Ok(squeeze_as(a.tensor(0)?, Some(&[a.int(1)?]), SQUEEZE_IN_PLACE_NODES)?.into());
        (input: Tensor, dim: int[]) => |a| Ok(squeeze_as(a.tensor(0)?, Some(a.ints(1)?), SQUEEZE_IN_PLACE_NODES)?.into());
    }
    /// A view with a new dimension of size 1 at `dim`.
    "unsqueeze" BOTH, batch DIMS {
        pub fn unsqueeze(input: Tensor, dim: int) -> Tensor = unsqueeze_impl;
    }
    /// Gives the tensor itself a new dimension of size 1 at `dim`.
    "unsqueeze_" METHOD {
        (input: Tensor, dim: int) => |a| Ok(unsqueeze_as(a.tensor(0)?, a.int(1)?, "UnsqueezeBackward1")?.into());
    }
    /// A view repeated over dimensions of size 1 and new leading ones; -1 keeps a size.
    "expand" METHOD, batch SIZES {
        (input: Tensor, size: size, *, implicit: bool = False) => |a| Ok(expand(a.tensor(0)?, a.ints(1)?)?.into());
        /// As `expand`.
        pub fn expand(t: &Tensor, sizes: &[i64]) -> Tensor as (t, sizes, false) = expand_impl;
        /// `t` repeated over dimensions of size 1 and new leading ones, without a copy.
        pub fn expand_to(t: &Tensor, shape: &Dims) -> Tensor as (t, shape, false) = expand_to_impl;
    }
    /// A view repeated to the shape of `other`.
    "expand_as" METHOD, batch LIKE {
        (input: Tensor, other: Tensor) => |a| Ok(expand_to(a.tensor(0)?, a.tensor(1)?.shape())?.into());
    }
    /// A view repeated to the shape `size`.
    "broadcast_to" BOTH, batch SIZES {
        (input: Tensor, size: size) => |a| Ok(expand(a.tensor(0)?, a.ints(1)?)?.into());
    }
    /// Views of the tensors in the shape that they broadcast to.
    "broadcast_tensors" FUNCTION, batch PARTS {
        pub fn broadcast_tensors(tensors: Tensor*) -> Tensor[] = broadcast_tensors_impl;
    }
    /// A 0-d tensor as a vector; others as they are.
    "atleast_1d" FUNCTION, batch PARTS {
        pub fn atleast_1d(input: Tensor) -> Tensor = atleast_1d_impl;
        (tensors: Tensor*) -> Tensor[] => |a| each(a, atleast_1d);
    }
    /// At least a matrix: a vector becomes a row.
    "atleast_2d" FUNCTION, batch PARTS {
        pub fn atleast_2d(input: Tensor) -> Tensor = atleast_2d_impl;
        (tensors: Tensor*) -> Tensor[] => |a| each(a, atleast_2d);
    }
    /// At least three dimensions: a vector becomes `[1, n, 1]`, a matrix `[m, n, 1]`.
    "atleast_3d" FUNCTION, batch PARTS {
        pub fn atleast_3d(input: Tensor) -> Tensor = atleast_3d_impl;
        (tensors: Tensor*) -> Tensor[] => |a| each(a, atleast_3d);
    }
    /// A view of the storage with any geometry that stays inside.
    "as_strided" BOTH, batch AS_STRIDED {
        pub fn as_strided(input: Tensor, size: size, stride: size, storage_offset: int? = None) -> Tensor =
            as_strided_impl;
    }
    /// Gives the tensor itself another geometry over its storage.
    "as_strided_" METHOD {
        (input: Tensor, size: size, stride: size, storage_offset: int? = None) =>
            |a| as_strided_op(a, "AsStridedBackward1");
    }
    /// A copy in which the elements that `as_strided` would show are those of `src`.
    "as_strided_scatter" BOTH {
        (input: Tensor, src: Tensor, size: size, stride: size, storage_offset: int? = None) =>
            |a| Ok(as_strided_scatter(a.tensor(0)?, a.tensor(1)?, a.ints(2)?, a.ints(3)?, a.opt_int(4)?)?.into());
    }
}
