//! The operation table of views of all elements.

use super::*;
use crate::layout::infer_shape;
use crate::ops::schema::{Args, Out};
use crate::table;

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

/// PyTorch's names of the nodes of in-place squeezes.
const SQUEEZED: [&str; 3] = ["SqueezeBackward3", "SqueezeBackward4", "SqueezeBackward5"];

fn squeeze_all(a: &Args) -> Result<Out> {
    Ok(squeeze(a.tensor(0)?, None)?.into())
}

fn squeeze_dim(a: &Args) -> Result<Out> {
    Ok(squeeze(a.tensor(0)?, Some(&[a.int(1)?]))?.into())
}

fn squeeze_dims(a: &Args) -> Result<Out> {
    Ok(squeeze(a.tensor(0)?, Some(a.ints(1)?))?.into())
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

table! {
    "view" METHOD "The same elements in another shape, without a copy; or their bits as another dtype." [] {
        "input: Tensor, size: size" => view;
        "input: Tensor, dtype: dtype" => |a| Ok(view_dtype(a.tensor(0)?, a.dtype(1)?)?.into());
    }
    "view_as" METHOD "The same elements in the shape of `other`, without a copy." [] {
        "input: Tensor, other: Tensor" => view_as_op;
    }
    "reshape" BOTH "The same elements in another shape: a view where one exists, else a copy." [] {
        "input: Tensor, shape: size" => reshape;
    }
    "reshape_as" METHOD "The same elements in the shape of `other`: a view where one exists, else a copy." [] {
        "input: Tensor, other: Tensor" => reshape_as;
    }
    "flatten" BOTH "The dimensions from `start_dim` to `end_dim` as one." [] {
        "input: Tensor, start_dim: int = 0, end_dim: int = -1" =>
            |a| Ok(flatten(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into());
    }
    "ravel" BOTH "All elements as a vector." [] {
        "input: Tensor" => |a| Ok(super::ravel(a.tensor(0)?)?.into());
    }
    "unflatten" BOTH "Dimension `dim` as several, whose product it is." [] {
        "input: Tensor, dim: int, sizes: size" => |a| Ok(unflatten(a.tensor(0)?, a.int(1)?, a.ints(2)?)?.into());
    }
    "permute" BOTH "A view with the dimensions in another order." [] {
        "input: Tensor, dims: size" => |a| Ok(permute(a.tensor(0)?, a.ints(1)?)?.into());
    }
    "transpose" BOTH "A view with two dimensions swapped." [] {
        "input: Tensor, dim0: int, dim1: int" => |a| Ok(transpose(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into());
    }
    "swapaxes" BOTH "A view with two dimensions swapped." [] {
        "input: Tensor, axis0: int, axis1: int" => |a| Ok(transpose(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into());
    }
    "swapdims" BOTH "A view with two dimensions swapped." [] {
        "input: Tensor, dim0: int, dim1: int" => |a| Ok(transpose(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into());
    }
    "transpose_" METHOD "Swaps two dimensions of the tensor itself." ["swapdims_", "swapaxes_"] {
        "input: Tensor, dim0: int, dim1: int" =>
            |a| Ok(transpose_as(a.tensor(0)?, a.int(1)?, a.int(2)?, "TransposeBackward1")?.into());
    }
    "t" BOTH "A view of a matrix, transposed." [] {
        "input: Tensor" => |a| Ok(t_of(a.tensor(0)?)?.into());
    }
    "t_" METHOD "Transposes the matrix itself." [] {
        "input: Tensor" => |a| Ok(t_as(a.tensor(0)?, "TBackward1")?.into());
    }
    "T" ATTRIBUTE "A view with the dimensions reversed." [] {
        "input: Tensor" => |a| Ok(reversed(a.tensor(0)?)?.into());
    }
    "mT" ATTRIBUTE "A view with the last two dimensions swapped." [] {
        "input: Tensor" => |a| Ok(matrix_transposed(a.tensor(0)?, "mT")?.into());
    }
    "mH" ATTRIBUTE "A view with the last two dimensions swapped; the elements are real." [] {
        "input: Tensor" => |a| Ok(matrix_transposed(a.tensor(0)?, "mH")?.into());
    }
    "H" ATTRIBUTE "A view of a matrix, transposed; the elements are real." [] {
        "input: Tensor" => |a| Ok(matrix_transposed(a.tensor(0)?, "H")?.into());
    }
    "adjoint" BOTH "A view with the last two dimensions swapped; the elements are real." [] {
        "input: Tensor" => |a| Ok(matrix_transposed(a.tensor(0)?, "adjoint()")?.into());
    }
    "movedim" BOTH "A view with the dimensions `source` moved to the places `destination`." ["moveaxis"] {
        "input: Tensor, source: int[], destination: int[]" =>
            |a| Ok(movedim(a.tensor(0)?, a.ints(1)?, a.ints(2)?)?.into());
    }
    "squeeze" BOTH "A view without dimensions of size 1: all of them, or those among `dim`." [] {
        "input: Tensor" => squeeze_all;
        "input: Tensor, dim: int" => squeeze_dim;
        "input: Tensor, dim: int[]" => squeeze_dims;
    }
    "squeeze_" METHOD "Drops dimensions of size 1 of the tensor itself." [] {
        "input: Tensor" => |a| Ok(squeeze_as(a.tensor(0)?, None, SQUEEZED)?.into());
        "input: Tensor, dim: int" => |a| Ok(squeeze_as(a.tensor(0)?, Some(&[a.int(1)?]), SQUEEZED)?.into());
        "input: Tensor, dim: int[]" => |a| Ok(squeeze_as(a.tensor(0)?, Some(a.ints(1)?), SQUEEZED)?.into());
    }
    "unsqueeze" BOTH "A view with a new dimension of size 1 at `dim`." [] {
        "input: Tensor, dim: int" => |a| Ok(unsqueeze(a.tensor(0)?, a.int(1)?)?.into());
    }
    "unsqueeze_" METHOD "Gives the tensor itself a new dimension of size 1 at `dim`." [] {
        "input: Tensor, dim: int" => |a| Ok(unsqueeze_as(a.tensor(0)?, a.int(1)?, "UnsqueezeBackward1")?.into());
    }
    "expand" METHOD "A view repeated over dimensions of size 1 and new leading ones; -1 keeps a size." [] {
        "input: Tensor, size: size, *, implicit: bool = False" => |a| Ok(expand(a.tensor(0)?, a.ints(1)?)?.into());
    }
    "expand_as" METHOD "A view repeated to the shape of `other`." [] {
        "input: Tensor, other: Tensor" => |a| Ok(expand_to(a.tensor(0)?, a.tensor(1)?.shape())?.into());
    }
    "broadcast_to" BOTH "A view repeated to the shape `size`." [] {
        "input: Tensor, size: size" => |a| Ok(expand(a.tensor(0)?, a.ints(1)?)?.into());
    }
    "broadcast_tensors" FUNCTION "Views of the tensors in the shape that they broadcast to." [] {
        "tensors: Tensor* -> Tensor[]" => |a| Ok(Out::Tuple(broadcast_tensors(a.tensors(0)?)?));
    }
    "atleast_1d" FUNCTION "A 0-d tensor as a vector; others as they are." [] {
        "input: Tensor" => |a| Ok(atleast_1d(a.tensor(0)?)?.into());
        "tensors: Tensor* -> Tensor[]" => |a| each(a, atleast_1d);
    }
    "atleast_2d" FUNCTION "At least a matrix: a vector becomes a row." [] {
        "input: Tensor" => |a| Ok(atleast_2d(a.tensor(0)?)?.into());
        "tensors: Tensor* -> Tensor[]" => |a| each(a, atleast_2d);
    }
    "atleast_3d" FUNCTION "At least three dimensions: a vector becomes `[1, n, 1]`, a matrix `[m, n, 1]`." [] {
        "input: Tensor" => |a| Ok(atleast_3d(a.tensor(0)?)?.into());
        "tensors: Tensor* -> Tensor[]" => |a| each(a, atleast_3d);
    }
    "as_strided" BOTH "A view of the storage with any geometry that stays inside." [] {
        "input: Tensor, size: size, stride: size, storage_offset: int? = None" => |a| as_strided_op(a, "AsStridedBackward0");
    }
    "as_strided_" METHOD "Gives the tensor itself another geometry over its storage." [] {
        "input: Tensor, size: size, stride: size, storage_offset: int? = None" => |a| as_strided_op(a, "AsStridedBackward1");
    }
    "as_strided_scatter" BOTH "A copy in which the elements that `as_strided` would show are those of `src`." [] {
        "input: Tensor, src: Tensor, size: size, stride: size, storage_offset: int? = None" => |a| {
            Ok(as_strided_scatter(a.tensor(0)?, a.tensor(1)?, a.ints(2)?, a.ints(3)?, a.opt_int(4)?)?.into())
        };
    }
}
