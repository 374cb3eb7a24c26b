"""`torch.linalg`: the operations of the table, and functions based on them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad import _C
from rgrad._absent import absent_function
from rgrad._out import element_type, write_out

from ._linalg.common import expect_square, named, with_out
from ._linalg.householder import householder_product
from ._linalg.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from ._linalg.least_squares import lstsq
from ._linalg.lu import lu, lu_factor, lu_factor_ex, lu_solve
from ._linalg.matrix_functions import matrix_exp, matrix_sqrth, polar
from ._linalg.pseudo_inverse import cond, matrix_rank, pinv
from ._linalg.pseudo_inverse import pinverse as pinverse

_namespace = _C._linalg
__all__ = [n for n in dir(_namespace) if not n.startswith("_")]
globals().update({n: getattr(_namespace, n) for n in __all__})

LinAlgError = _C._LinAlgError
__all__ += [
    "LinAlgError",
    "cholesky_ex",
    "cond",
    "eig",
    "eigvals",
    "householder_product",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matrix_exp",
    "matrix_rank",
    "matrix_sqrth",
    "multi_dot",
    "pinv",
    "polar",
    "solve_ex",
    "tensorinv",
    "tensorsolve",
]

Tensor = _C.Tensor

_NO_COMPLEX = "the eigenvalues of a matrix are complex numbers, of which there are no tensors; eigh has real ones"
eig = absent_function("torch.linalg.eig", _NO_COMPLEX)
eigvals = absent_function("torch.linalg.eigvals", _NO_COMPLEX)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices, in the order that minimizes the number of multiplications.

    Args:
        tensors: matrices of one dtype; the first and the last may be vectors.
        out: receives the result, whose dtype it has.
    """
    if isinstance(tensors, Tensor):
        raise TypeError("linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    head = tensors[0]
    for i, t in enumerate(tensors):
        if t.dtype != head.dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {element_type(head)} and tensor "
                f"{i} {element_type(t)}"
            )
        if t.device != head.device:
            raise RuntimeError(
                f"multi_dot(): all tensors must be on the same device but tensor 0 is on {head.device} and tensor {i} "
                f"on {t.device}"
            )
    if out is not None and out.dtype != head.dtype:
        raise RuntimeError(
            f"multi_dot(): expected out tensor to have dtype {element_type(head)} but got {element_type(out)}"
        )
    if out is not None and out.device != head.device:
        raise RuntimeError(f"multi_dot(): expected out tensor to be on device {head.device} but got {out.device}")
    drop = []
    for place, expected in ((0, "first"), (-1, "last")):
        t = tensors[place]
        if t.dim() not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {expected} tensor must be 1D or 2D but got {t.dim()}D")
        if t.dim() == 1:
            tensors[place] = t.unsqueeze(place)
            drop.append(place)
    for i, t in enumerate(tensors[1:-1], 1):
        if t.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.dim()}D")
    for i, (a, b) in enumerate(zip(tensors, tensors[1:], strict=False)):
        if a.size(1) != b.size(0):
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a.shape)} and {list(b.shape)} "
                "cannot be multiplied"
            )
    sizes = [t.size(0) for t in tensors] + [tensors[-1].size(1)]
    # The minimum cost of each run of matrices, and where to split it.
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(tensors))}
    for length in range(1, len(tensors)):
        for i in range(len(tensors) - length):
            j = i + length
            ends = sizes[i] * sizes[j + 1]
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + ends * sizes[k + 1], k) for k in range(i, j))

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return tensors[i]
        split = best[i, j][1]
        return product(i, split) @ product(split + 1, j)

    result = product(0, len(tensors) - 1)
    for place in reversed(drop):
        result = result.squeeze(place)
    return result if out is None else write_out("linalg_multi_dot", result, out)


@with_out("tensorinv", recorded=True)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse with respect to `tensordot` over ``ind`` dimensions.

    Args:
        A: a tensor whose first ``ind`` dimensions have as many elements as the others.
        ind: the number of dimensions that are inverted.
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, rest = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(rest)} != {math.prod(first)}"
        )
    n = math.prod(first)
    return _namespace.inv(A.reshape(n, n)).reshape(*rest, *first)


@with_out("tensorsolve", recorded=True)
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """``X`` in ``tensordot(A, X, X.dim()) == B``.

    Args:
        A: a tensor with the shape of ``B`` followed by that of ``X``.
        B: a tensor.
        dims: dimensions of ``A`` to move to its end first.
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = A.shape[B.dim() :]
    n = math.prod(shape)
    if n != B.numel():
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {n} != {B.numel()}"
        )
    return _namespace.solve(A.reshape(n, n), B.reshape(n)).reshape(shape)


# The forms that report failures in a tensor.

_PLACE = re.compile(r"(?:diagonal element|leading minor of order) (\d+)")


def _by_matrix(
    function: Callable[..., Tensor], A: Tensor, *others: Tensor, check_errors: bool
) -> tuple[Tensor, Tensor]:
    """The results for a batch of matrices, and where each failed: 0 where it did not.

    A matrix that fails makes the whole batch fail, so then each is tried by itself.
    """
    batch = A.shape[:-2]
    info = rgrad.zeros(batch, dtype=rgrad.int32, device=A.device)
    try:
        return function(A, *others), info
    except LinAlgError:
        if check_errors:
            raise
    count = math.prod(batch)
    operands = [t.expand(*batch, *t.shape[-2:]).reshape(count, *t.shape[-2:]) for t in (A, *others)]
    results, places = [], []
    for matrices in zip(*(t.unbind() for t in operands), strict=True):
        try:
            results.append(function(*matrices))
            places.append(0)
        except LinAlgError as error:
            found = _PLACE.search(str(error))
            results.append(matrices[-1].clone())
            places.append(int(found[1]) if found else 1)
    made = rgrad.stack(results)
    return made.reshape(*batch, *made.shape[1:]), rgrad.tensor(places, dtype=rgrad.int32).reshape(batch).to(A.device)


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """The inverse of each matrix, and whether there is one.

    Args:
        A: square matrices, (..., n, n).
        check_errors: whether a matrix without an inverse is an error.
        out: two tensors for the results.

    Returns:
        `inverse`, undefined where there is none, and `info`: 0, or which diagonal element of the factorization is zero.
    """
    expect_square("linalg.inv_ex", A)
    return named("linalg_inv_ex", _by_matrix(_namespace.inv, A, check_errors=check_errors), out)


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """The Cholesky factor of each matrix, and whether there is one.

    Args:
        A: symmetric positive definite matrices, (..., n, n).
        upper: whether the upper factor is wanted.
        check_errors: whether a matrix without one is an error.
        out: two tensors for the results.

    Returns:
        `L`, undefined where there is none, and `info`: 0, or the order of the leading minor that is not positive.
    """
    expect_square("linalg.cholesky_ex", A)

    def factor(A: Tensor) -> Tensor:
        return _namespace.cholesky(A, upper=upper)

    return named("linalg_cholesky_ex", _by_matrix(factor, A, check_errors=check_errors), out)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """The solution of each system of equations, and whether there is one.

    Args:
        A: square matrices, (..., n, n).
        B: right hand sides, (..., n, k) or vectors (..., n).
        left: whether A X = B is solved, else X A = B.
        check_errors: whether a singular matrix is an error.
        out: two tensors for the results.

    Returns:
        `result`, undefined where A is singular, and `info`: 0 where it is not.
    """
    expect_square("linalg.solve_ex", A)
    vectors = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])

    def solve(A: Tensor, B: Tensor) -> Tensor:
        return _namespace.solve(A, B, left=left)

    made, info = _by_matrix(solve, A, B.unsqueeze(-1) if vectors else B, check_errors=check_errors)
    return named("linalg_solve_ex", (made.squeeze(-1) if vectors else made, info), out)


# Approximations of low rank.


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple[Tensor, ...]:
    """The greatest singular values of matrices and their vectors, approximately.

    A random projection to q dimensions, improved by iterations of subspaces (Halko, Martinsson and Tropp, 2011,
    algorithm 4.4), is followed by an exact decomposition of what is left. It draws random numbers.

    Args:
        A: matrices, (..., m, n).
        q: how many values, at most min(m, n); a few more than the rank that is wanted.
        niter: how often the subspace is improved.
        M: is subtracted from A; broadcast to its shape.

    Returns:
        U (..., m, q), S (..., q) and V (..., n, q).
    """
    count = 6 if q is None else q
    matrix = A if M is None else A - M
    rows, columns = matrix.shape[-2:]
    if not 0 <= count <= min(rows, columns):
        raise ValueError(f"q(={count}) is not between 0 and min(m, n)={min(rows, columns)}")
    other = matrix.mT
    basis = _namespace.qr(matrix @ rgrad.randn(columns, count, dtype=matrix.dtype, device=matrix.device))[0]
    for _ in range(2 if niter is None else niter):
        basis = _namespace.qr(matrix @ _namespace.qr(other @ basis)[0])[0]
    U, S, Vh = _namespace.svd(basis.mT @ matrix, full_matrices=False)
    return basis @ U, S, Vh.mT


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, ...]:
    """The principal components of rows, approximately; see `svd_lowrank`.

    Args:
        A: rows of numbers, (..., m, n).
        q: how many components; min(6, m, n) if None.
        center: whether the mean of the rows is subtracted.
        niter: how often the subspace is improved.

    Returns:
        U (..., m, q), S (..., q) and V (..., n, q), whose columns are the components.
    """
    count = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, niter)
