//! The operation table of matrix operations.

use super::{einsum, products, svd};
use crate::ops::autocast::{Cast, CastPolicy};
use crate::ops::reduce::{linalg_matrix_norm, linalg_norm, linalg_vector_norm};
use crate::ops::schema::{Call, Exposure, Op, Overload};

pub static OPS: &[Op] = &[
    Op {
        name: "tril",
        doc: "The lower triangle of each matrix, up to a diagonal, with zeros elsewhere.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Tensor, diagonal: int = 0",
            call: Call::Fn(|a| Ok(super::triangle(a.tensor(0)?, a.int(1)?, true)?.into())),
        }],
        ..Op::NEW
    },
    Op {
        name: "triu",
        doc: "The upper triangle of each matrix, from a diagonal, with zeros elsewhere.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Tensor, diagonal: int = 0",
            call: Call::Fn(|a| Ok(super::triangle(a.tensor(0)?, a.int(1)?, false)?.into())),
        }],
        ..Op::NEW
    },
    Op {
        name: "tril_indices",
        doc: "Row and column indices of the lower triangle of a matrix.",
        exposure: Exposure::FUNCTION,
        overloads: &[Overload {
            sig: "row: int, col: int, offset: int = 0, *, dtype: dtype? = None, device: device? = None, layout: layout? = None",
            call: Call::Fn(|a| super::triangle_indices(a, true)),
        }],
        ..Op::NEW
    },
    Op {
        name: "triu_indices",
        doc: "Row and column indices of the upper triangle of a matrix.",
        exposure: Exposure::FUNCTION,
        overloads: &[Overload {
            sig: "row: int, col: int, offset: int = 0, *, dtype: dtype? = None, device: device? = None, layout: layout? = None",
            call: Call::Fn(|a| super::triangle_indices(a, false)),
        }],
        ..Op::NEW
    },
    Op {
        name: "trace",
        doc: "Sum of the diagonal of a matrix.",
        exposure: Exposure::BOTH,
        autocast: CastPolicy::FULL_ON_CPU,
        overloads: &[Overload {
            sig: "input: Tensor",
            call: Call::Fn(|a| Ok(super::trace(a.tensor(0)?)?.into())),
        }],
        ..Op::NEW
    },
    Op {
        name: "svd",
        doc: "The singular value decomposition of each matrix: the columns of `U` and `V` are the singular vectors, `S` \
              holds the singular values in descending order.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        autocast: CastPolicy::FULL_ON_CPU,
        overloads: &[Overload {
            sig: "input: Tensor, some: bool = True, compute_uv: bool = True -> tuple[Tensor, Tensor, Tensor]",
            call: Call::Fn(svd::torch_svd),
        }],
        ..Op::NEW
    },
    Op {
        name: "svd",
        doc: "The singular value decomposition of each matrix: the columns of `U` and the rows of `Vh` are the singular \
              vectors, `S` holds the singular values in descending order.",
        exposure: Exposure::LINALG.and(Exposure::OUT),
        autocast: CastPolicy::FULL_ON_CPU,
        overloads: &[Overload {
            sig: "A: Tensor, full_matrices: bool = True, *, driver: str? = None -> tuple[Tensor, Tensor, Tensor]",
            call: Call::Fn(svd::linalg_svd),
        }],
        ..Op::NEW
    },
    Op {
        name: "svdvals",
        doc: "The singular values of each matrix, in descending order.",
        exposure: Exposure::LINALG.and(Exposure::OUT),
        autocast: CastPolicy::FULL_ON_CPU,
        overloads: &[Overload {
            sig: "A: Tensor, *, driver: str? = None",
            call: Call::Fn(svd::linalg_svdvals),
        }],
        ..Op::NEW
    },
    Op {
        name: "outer",
        doc: "All products of an element of one vector and one of the other.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        aliases: &["ger"],
        overloads: &[Overload { sig: "input: Tensor, vec2: Tensor", call: Call::Fn(products::outer) }],
        ..Op::NEW
    },
    Op {
        name: "inner",
        doc: "Sums of products over the last dimensions.",
        exposure: Exposure::BOTH.and(Exposure::OUT).and(Exposure::COMPOSITE),
        overloads: &[Overload { sig: "input: Tensor, other: Tensor", call: Call::Fn(products::inner) }],
        ..Op::NEW
    },
    Op {
        name: "vdot",
        doc: "Inner product of two vectors.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        autocast: CastPolicy::WIDEST_ON_GPU,
        overloads: &[Overload { sig: "input: Tensor, other: Tensor", call: Call::Fn(products::vdot) }],
        ..Op::NEW
    },
    Op {
        name: "kron",
        doc: "Each element of the first times the whole of the second, block by block.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: "input: Tensor, other: Tensor", call: Call::Fn(products::kron) }],
        ..Op::NEW
    },
    Op {
        name: "_tensordot",
        doc: "Sums of products over pairs of dimensions.",
        exposure: Exposure::FUNCTION,
        autocast: CastPolicy::on(Cast::Lower, Cast::Widest),
        overloads: &[
            Overload {
                sig: "input: Tensor, other: Tensor, dims: int",
                call: Call::Fn(products::tensordot_count),
            },
            Overload {
                sig: "input: Tensor, other: Tensor, dims_self: int[], dims_other: int[]",
                call: Call::Fn(|a| {
                    Ok(products::tensordot(a.tensor(0)?, a.tensor(1)?, a.ints(2)?, a.ints(3)?)?.into())
                }),
            },
        ],
        ..Op::NEW
    },
    Op {
        name: "_chain_matmul",
        doc: "Product of several matrices.",
        exposure: Exposure::FUNCTION,
        autocast: CastPolicy::LOWER,
        overloads: &[Overload { sig: "matrices: Tensor[]", call: Call::Fn(products::chain_matmul) }],
        ..Op::NEW
    },
    Op {
        name: "_einsum",
        doc: "Sum of products in index notation.",
        exposure: Exposure::FUNCTION,
        autocast: CastPolicy::LOWER,
        overloads: &[Overload {
            sig: "equation: str, operands: Tensor[]",
            call: Call::Fn(einsum::einsum_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "addmv",
        doc: "`beta * input + alpha * mat @ vec`.",
        exposure: Exposure::ALL,
        autocast: CastPolicy::LOWER_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1",
            call: Call::Fn(super::addmv),
        }],
        ..Op::NEW
    },
    Op {
        name: "addbmm",
        doc: "`beta * input + alpha` times the sum of a batch of matrix products.",
        exposure: Exposure::ALL,
        autocast: CastPolicy::LOWER,
        overloads: &[Overload {
            sig: "input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1",
            call: Call::Fn(super::addbmm),
        }],
        ..Op::NEW
    },
    Op {
        name: "addr",
        doc: "`beta * input + alpha` times the outer product of two vectors.",
        exposure: Exposure::ALL,
        autocast: CastPolicy::LOWER_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1",
            call: Call::Fn(super::addr),
        }],
        ..Op::NEW
    },
    Op {
        name: "cross",
        doc: "Vector product of vectors of three elements along `dim`.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        autocast: CastPolicy::WIDEST_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor, dim: int? = None",
            call: Call::Fn(super::cross),
        }],
        ..Op::NEW
    },
    Op {
        name: "cross",
        doc: "Vector product of vectors of three elements along `dim`.",
        exposure: Exposure::LINALG.and(Exposure::OUT),
        autocast: CastPolicy::WIDEST_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor, *, dim: int = -1",
            call: Call::Fn(super::linalg_cross),
        }],
        ..Op::NEW
    },
    Op {
        name: "vecdot",
        doc: "Sums of products along `dim`.",
        exposure: Exposure::LINALG.and(Exposure::OUT),
        autocast: CastPolicy::LOWER,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor, *, dim: int = -1",
            call: Call::Fn(super::vecdot),
        }],
        ..Op::NEW
    },
    Op {
        name: "dist",
        doc: "Norm of order `p` of the difference of two tensors.",
        exposure: Exposure::BOTH,
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, other: Tensor, p: float = 2",
            call: Call::Fn(super::dist),
        }],
        ..Op::NEW
    },
    Op {
        name: "cdist",
        doc: "Distances between all pairs of rows of two matrices.",
        exposure: Exposure::FUNCTION,
        autocast: CastPolicy::FULL,
        overloads: &[Overload {
            sig: "x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str? = None",
            call: Call::Fn(super::cdist),
        }],
        ..Op::NEW
    },
    Op {
        name: "vector_norm",
        doc: "Norm of order `ord` of all elements, or over the dimensions `dim`.",
        exposure: Exposure::LINALG.and(Exposure::OUT),
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, ord: float = 2, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None",
            call: Call::Fn(linalg_vector_norm),
        }],
        ..Op::NEW
    },
    Op {
        name: "norm",
        doc: "Vector norm, or matrix norm where `ord` and two dimensions are given.",
        exposure: Exposure::LINALG.and(Exposure::OUT).and(Exposure::COMPOSITE),
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[
            Overload {
                sig: "input: Tensor, ord: Number? = None, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None",
                call: Call::Fn(linalg_norm),
            },
            Overload {
                sig: "input: Tensor, ord: str, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None",
                call: Call::Fn(linalg_norm),
            },
        ],
        ..Op::NEW
    },
    Op {
        name: "matrix_norm",
        doc: "Norm of each matrix.",
        exposure: Exposure::LINALG.and(Exposure::OUT).and(Exposure::COMPOSITE),
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[
            Overload {
                sig: "input: Tensor, ord: Number, dim: int[] = (-2, -1), keepdim: bool = False, *, dtype: dtype? = None",
                call: Call::Fn(linalg_matrix_norm),
            },
            Overload {
                sig: "input: Tensor, ord: str = 'fro', dim: int[] = (-2, -1), keepdim: bool = False, *, dtype: dtype? = None",
                call: Call::Fn(linalg_matrix_norm),
            },
        ],
        ..Op::NEW
    },
];
