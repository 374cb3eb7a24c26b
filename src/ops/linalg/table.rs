//! The operation table of matrix operations.

use super::{einsum, products, svd};
use crate::ops;
use crate::ops::reduce::{linalg_matrix_norm, linalg_norm, vector_norm_impl};
use crate::tensor::Tensor;

ops! {
    /// The lower triangle of each matrix, up to a diagonal, with zeros elsewhere.
    "tril" ALL, out SAME, batch MATRICES {
        pub fn tril(input: Tensor, diagonal: int = 0) -> Tensor = super::lower_triangle;
    }
    /// The upper triangle of each matrix, from a diagonal, with zeros elsewhere.
    "triu" ALL, out SAME, batch MATRICES {
        pub fn triu(input: Tensor, diagonal: int = 0) -> Tensor = super::upper_triangle;
    }
    /// Row and column indices of the lower triangle of a matrix.
    "tril_indices" FUNCTION {
        (row: int, col: int, offset: int = 0, *, dtype: dtype? = None, device: device? = None,
         layout: layout? = None) =>
            |a| super::triangle_indices(a, true);
    }
    /// Row and column indices of the upper triangle of a matrix.
    "triu_indices" FUNCTION {
        (row: int, col: int, offset: int = 0, *, dtype: dtype? = None, device: device? = None,
         layout: layout? = None) =>
            |a| super::triangle_indices(a, false);
    }
    /// Sum of the diagonal of a matrix.
    "trace" BOTH, autocast FULL_ON_CPU, batch PARTS {
        pub fn trace(input: Tensor) -> Tensor = super::trace_impl;
    }
    /// The singular value decomposition of each matrix: the columns of `U` and `V` are the singular vectors, `S`
    /// holds the singular values in descending order.
    "svd" BOTH | OUT, autocast FULL_ON_CPU, out SAME, batch MATRICES {
        (input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor] =>
            svd::torch_svd;
    }
    /// The singular value decomposition of each matrix: the columns of `U` and the rows of `Vh` are the singular
    /// vectors, `S` holds the singular values in descending order.
    "svd" LINALG | OUT, autocast FULL_ON_CPU, out SAME, batch MATRICES {
        (A: Tensor, full_matrices: bool = True, *, driver: str? = None) -> tuple[Tensor, Tensor, Tensor] =>
            svd::linalg_svd;
    }
    /// The singular values of each matrix, in descending order.
    "svdvals" LINALG | OUT, autocast FULL_ON_CPU, out SAME, batch MATRICES {
        (A: Tensor, *, driver: str? = None) => svd::linalg_svdvals;
        /// As `svdvals`.
        pub fn svdvals(t: &Tensor) -> Tensor as (t, None::<&str>) = svd::svdvals_impl;
    }
    /// All products of an element of one vector and one of the other.
    "outer" BOTH | OUT, aliases ["ger"], batch PRODUCT {
        (input: Tensor, vec2: Tensor) => products::outer;
    }
    /// Sums of products over the last dimensions.
    "inner" BOTH | OUT | COMPOSITE, batch PARTS {
        (input: Tensor, other: Tensor) => products::inner;
    }
    /// Inner product of two vectors.
    "vdot" BOTH | OUT, autocast WIDEST_ON_GPU, out DOT, batch PRODUCT {
        (input: Tensor, other: Tensor) => products::vdot;
    }
    /// Each element of the first times the whole of the second, block by block.
    "kron" BOTH | OUT, batch PARTS {
        (input: Tensor, other: Tensor) => products::kron;
    }
    /// Sums of products over pairs of dimensions.
    "_tensordot" FUNCTION, autocast LOWER_OR_WIDEST, batch PARTS {
        (input: Tensor, other: Tensor, dims: int) => products::tensordot_count;
        pub fn tensordot(input: Tensor, other: Tensor, dims_self: int[], dims_other: int[]) -> Tensor =
            products::tensordot_impl;
    }
    /// Product of several matrices.
    "_chain_matmul" FUNCTION, autocast LOWER, batch PARTS {
        (matrices: Tensor[]) => products::chain_matmul;
    }
    /// Sum of products in index notation.
    "_einsum" FUNCTION, autocast LOWER, batch PARTS {
        (equation: str, operands: Tensor[]) => einsum::einsum_op;
    }
    /// `beta * input + alpha * mat @ vec`.
    "addmv" ALL, autocast LOWER_ON_GPU, out SAME, batch ADDED_PRODUCT {
        (input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) => super::addmv;
    }
    /// `beta * input + alpha` times the sum of a batch of matrix products.
    "addbmm" ALL, autocast LOWER, batch ADDED_PRODUCT {
        (input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) => super::addbmm;
    }
    /// `beta * input + alpha` times the outer product of two vectors.
    "addr" ALL, autocast LOWER_ON_GPU, batch ADDED_PRODUCT {
        (input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) => super::addr;
    }
    /// Vector product of vectors of three elements along `dim`.
    "cross" BOTH | OUT, autocast WIDEST_ON_GPU, out SAME, batch PARTS {
        (input: Tensor, other: Tensor, dim: int? = None) => super::cross;
    }
    /// Vector product of vectors of three elements along `dim`.
    "cross" LINALG | OUT, autocast WIDEST_ON_GPU, out SAME, batch PARTS {
        (input: Tensor, other: Tensor, *, dim: int = -1) => super::linalg_cross;
    }
    /// Sums of products along `dim`.
    "vecdot" LINALG | OUT, autocast LOWER, batch PARTS {
        (input: Tensor, other: Tensor, *, dim: int = -1) => super::vecdot;
    }
    /// Norm of order `p` of the difference of two tensors.
    "dist" BOTH, autocast FULL_ON_GPU, batch PARTS {
        (input: Tensor, other: Tensor, p: float = 2) => super::distance::dist;
    }
    /// Distances between all pairs of rows of two matrices.
    "cdist" FUNCTION, autocast FULL, batch MATRICES {
        (x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str? = None) => super::distance::cdist;
    }
    /// Norm of order `ord` of all elements, or over the dimensions `dim`.
    "vector_norm" LINALG | OUT, autocast FULL_ON_GPU, out SAME, batch REDUCTION {
        pub fn vector_norm(input: Tensor, ord: float = 2, dim: int[]? = None, keepdim: bool = False, *,
                           dtype: dtype? = None) -> Tensor = vector_norm_impl;
    }
    /// Vector norm, or matrix norm where `ord` and two dimensions are given.
    "norm" LINALG | OUT | COMPOSITE, autocast FULL_ON_GPU, out SAME, batch REDUCTION {
        (input: Tensor, ord: Number? = None, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None) =>
            linalg_norm;
        (input: Tensor, ord: str, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None) => linalg_norm;
    }
    /// Norm of each matrix.
    "matrix_norm" LINALG | OUT | COMPOSITE, autocast FULL_ON_GPU, batch DIMS {
        (input: Tensor, ord: Number, dim: int[] = (-2, -1), keepdim: bool = False, *, dtype: dtype? = None) =>
            linalg_matrix_norm;
        (input: Tensor, ord: str = "fro", dim: int[] = (-2, -1), keepdim: bool = False, *, dtype: dtype? = None) =>
            linalg_matrix_norm;
    }
}
