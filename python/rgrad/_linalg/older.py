"""Functions of matrices under the names that they had before `rgrad.linalg`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from rgrad import _C

from . import lu as _lu
from .common import broadcast_batch, expect_square, named

Tensor = _C.Tensor


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"torch.{name} is deprecated: use {instead}.", UserWarning, stacklevel=3)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """`rgrad.linalg.lu_factor_ex` under its older name.

    Args:
        A: matrices, (..., m, n).
        pivot: whether rows are exchanged; must be True.
        get_infos: whether `info` is returned too, instead of an error for a singular matrix.
        out: tensors for the results.
    """
    _deprecated("lu", "torch.linalg.lu_factor or torch.linalg.lu_factor_ex")
    found = _lu.lu_factor_ex(A, pivot=pivot)
    if not get_infos:
        _lu.check_nonsingular("torch.lu", found.info)
    made = tuple(found) if get_infos else (found.LU, found.pivots)
    if out is None:
        return named("_lu_with_info", made) if get_infos else made
    if len(out) != len(made):
        raise TypeError(f"expected tuple of {len(made)} elements but got {len(out)}")
    # Each result is copied, with its history, to a tensor of any dtype.
    return tuple(target.resize_(value.shape).copy_(value) for value, target in zip(made, out, strict=True))


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`rgrad.linalg.lu_solve` under its older name, with another order of arguments.

    Args:
        b: the right hand sides, (..., n, k).
        LU_data: (..., n, n), of `rgrad.linalg.lu_factor`.
        LU_pivots: (..., n), of the same.
        out: receives the result.
    """
    _deprecated("lu_solve", "torch.linalg.lu_solve")
    return _lu.lu_solve(LU_data, LU_pivots, b, out=out)


def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """`rgrad.linalg.solve_triangular` under its older name, with another order of arguments.

    Args:
        b: the right hand sides, (..., n, k).
        A: triangular matrices, (..., n, n).
        upper: whether A is upper triangular.
        transpose: whether A is transposed.
        unitriangular: whether the diagonal is taken as ones.
        out: two tensors for the results.

    Returns:
        `solution` (..., n, k), and `cloned_coefficient`, a copy of A.
    """
    _deprecated("triangular_solve", "torch.linalg.solve_triangular")
    for name, value in (("b", b), ("A", A)):
        if value.dim() < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {value.dim()} "
                "dimensions instead"
            )
    n = expect_square("triangular_solve", A)
    if b.shape[-2] != n:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {n} by {n} but each b matrix is "
            f"{b.shape[-2]} by {b.shape[-1]}"
        )
    matrices, sides = broadcast_batch(A, b)
    if transpose:
        made = _C._linalg.solve_triangular(matrices.mT, sides, upper=not upper, unitriangular=unitriangular)
    else:
        made = _C._linalg.solve_triangular(matrices, sides, upper=upper, unitriangular=unitriangular)
    return named("triangular_solve", (made, matrices.clone()), out)


def _removed(name: str, instead: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        # Programs look for the first sentence, with PyTorch's version.
        raise RuntimeError(
            "This function was deprecated since version 1.9 and is now removed. "
            f"In place of torch.{name} use {instead}."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed: use {instead}."
    return function


cholesky = _removed("cholesky", "torch.linalg.cholesky")
eig = _removed("eig", "torch.linalg.eigh for symmetric matrices")
lstsq = _removed("lstsq", "torch.linalg.lstsq, whose arguments stand in the other order")
matrix_rank = _removed("matrix_rank", "torch.linalg.matrix_rank")
solve = _removed("solve", "torch.linalg.solve, whose arguments stand in the other order")
symeig = _removed("symeig", "torch.linalg.eigh")
