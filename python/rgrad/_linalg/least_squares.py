"""Least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import kind_of, write_out
from rgrad.autograd._rules import OfMatrices

from .common import holds_anywhere, named
from .pseudo_inverse import by_pseudo_inverse, pinv

Tensor = _C.Tensor

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _by_qr(A: Tensor, B: Tensor, limit: float | None = None) -> Tensor | None:
    """The solution for matrices of full rank; None if one of them may not be, as far as `limit` tells."""
    rows, columns = A.shape[-2:]
    is_tall = rows >= columns
    Q, R = _C._linalg.qr(A if is_tall else A.mT)
    if limit is not None and not _has_full_rank(R, limit):
        return None
    if is_tall:
        return _C._linalg.solve_triangular(R, Q.mT @ B, upper=True)
    return Q @ _C._linalg.solve_triangular(R.mT, B, upper=False)


def _has_full_rank(R: Tensor, limit: float) -> bool:
    """Whether the singular values of triangles are certain to be above `limit` times the largest.

    The largest is at most the norm of R, and the smallest at least the reciprocal of the norm of its inverse. A factor
    of ten is left for rounding.
    """
    eye = rgrad.eye(R.shape[-1], dtype=R.dtype, device=R.device).expand_as(R)
    inverse = _C._linalg.solve_triangular(R, eye, upper=True)
    bound = _C._linalg.matrix_norm(R) * _C._linalg.matrix_norm(inverse)
    least = max(limit, rgrad.finfo(R.dtype).eps)
    # Not a number where R has a zero on its diagonal or overflows.
    return not holds_anywhere(~(bound * least < 0.1))


def _limit(dtype: Any, shape: tuple[int, int], rcond: float | None, driver: str) -> float:
    """Up to which part of the largest singular value the others are taken as zero."""
    eps = rgrad.finfo(dtype).eps
    if rcond is None:
        return eps * max(shape)
    # LAPACK's xGELSS takes its machine epsilon for numbers that are no limit, and xGELSD takes 1 and above as such too.
    if (driver == "gelss" and rcond < 0) or (driver == "gelsd" and not 0 < rcond < 1):
        return eps / 2
    return rcond


def _by_svd(A: Tensor, B: Tensor, rcond: float) -> tuple[Tensor, Tensor, Tensor]:
    """The solution of least norm, the rank and the singular values."""
    U, S, Vh = _C._linalg.svd(A, full_matrices=False)
    kept = rcond * S[..., :1] < S
    inverse = rgrad.where(kept, 1 / S, 0.0).unsqueeze(-1)
    return Vh.mT @ (inverse * (U.mT @ B)), kept.sum(-1), S


class _LeastSquares(OfMatrices):
    """``X = P B`` with the pseudo-inverse P of A."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, driver: str, rcond: float) -> Any:
        ctx.save_for_backward(A, B)
        ctx.rcond = rcond
        A, B = A.detach(), B.detach()
        rank, values = A.new_empty(0, dtype=rgrad.int64), A.new_empty(0)
        if A.numel() == 0:
            X = A.new_zeros(*A.shape[:-2], A.shape[-1], B.shape[-1])
            if driver != "gels":
                rank = A.new_zeros(A.shape[:-2], dtype=rgrad.int64)
            if driver in ("gelsd", "gelss"):
                values = A.new_empty(*A.shape[:-2], min(A.shape[-2:]))
        elif driver == "gels":
            X = _by_qr(A, B)
        elif driver == "gelsy" and (found := _by_qr(A, B, rcond)) is not None:
            X, rank = found, A.new_full(A.shape[:-2], min(A.shape[-2:]), dtype=rgrad.int64)
        else:
            X, rank, values = _by_svd(A, B, rcond)
        ctx.mark_non_differentiable(rank, values)
        return X, rank, values

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> Any:
        A, B = ctx.saved_tensors
        if A.numel() == 0:
            return A.new_zeros(A.shape), B.new_zeros(B.shape), None, None
        P = pinv(A, rtol=ctx.rcond)
        by_A = by_pseudo_inverse(A, P, g @ B.mT) if ctx.needs_input_grad[0] else None
        return by_A, P.mT @ g, None, None


def _check(A: Tensor, B: Tensor, driver: str | None) -> bool:
    """Whether the right hand sides are vectors."""
    name = "torch.linalg.lstsq"
    if A.dim() < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.dim() < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {kind_of(A)} and other's "
            f"dtype {kind_of(B)}"
        )
    if not 0 <= A.dim() - B.dim() <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    if driver not in (None, *_DRIVERS):
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)})")
    if A.dtype not in (rgrad.float32, rgrad.float64):
        raise RuntimeError("This function doesn't handle types other than float and double")
    vectors = A.dim() - 1 == B.dim() and B.shape == A.shape[:-1]
    if not vectors and B.dim() == 1:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-1)")
    if not vectors and (A.dim() != B.dim() or A.shape[-2] != B.shape[-2]):
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2)")
    return vectors


def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None, out: Sequence[Tensor] | None = None
) -> Any:
    """X for which ``A X - B`` is least, and of those the X that is least.

    Args:
        A: matrices, (..., m, n), of float32 or float64.
        B: the right hand sides, (..., m, k), or vectors (..., m).
        rcond: singular values up to this, relative to the largest, are taken as zero; by default machine epsilon times
            the larger of m and n. Without effect for "gels". "gelsd" takes numbers outside of (0, 1), and "gelss" takes
            negative ones, as machine epsilon.
        driver: "gels" if A has full rank, which is not checked (by QR); "gelsy", "gelsd" or "gelss" for any rank (by
            the singular values, or by QR if "gelsy" is certain that the rank is full). "gelsy" by default.
        out: four tensors for the results.

    Returns:
        `solution` (..., n, k) or (..., n); `residuals` (..., k), the sums of squares, empty for "gelsy", where m is
        not above n, and where a rank is below n; `rank` (...), empty for "gels"; and `singular_values`
        (..., min(m, n)), empty for "gels" and "gelsy".

    >>> import rgrad
    >>> A = rgrad.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> rgrad.linalg.lstsq(A, rgrad.tensor([1.0, 3.0, 5.0])).solution.round(decimals=3)
    tensor([1., 2.])
    """
    vectors = _check(A, B, driver)
    driver = driver or "gelsy"
    sides = B.unsqueeze(-1) if vectors else B
    batch = rgrad.broadcast_shapes(A.shape[:-2], sides.shape[:-2])
    rows, columns = A.shape[-2:]
    matrices = A.expand(*batch, rows, columns)
    sides = sides.expand(*batch, *sides.shape[-2:])
    limit = _limit(A.dtype, (rows, columns), rcond, driver)
    X, rank, values = _LeastSquares.apply(matrices, sides, driver, limit)
    full = driver == "gels" or not holds_anywhere(rank != columns)
    residuals = X.flatten()[:0]
    if driver != "gelsy" and rows > columns and full:
        residuals = (matrices @ X - sides).square().sum(-2)
        residuals = residuals.squeeze(-1) if vectors else residuals
    if driver == "gelsy":
        values = A.new_empty(0)
    return named("linalg_lstsq", (X.squeeze(-1) if vectors else X, residuals, rank, values), out, write_out)
