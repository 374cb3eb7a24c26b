"""The exponential, the square root and the polar factors of matrices."""

from __future__ import annotations

import functools
import math
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import kind_of
from rgrad.autograd._rules import OfMatrices

from .common import expect_matrix, expect_real, expect_square, named

Tensor = _C.Tensor

# Note [Scaling and squaring]
# exp(A) = exp(A / 2^s)^(2^s). With the norm of A / 2^s not above the bound, the Padé approximation of this degree has a
# relative backward error below the unit roundoff of float64 (Higham: The Scaling and Squaring Method for the Matrix
# Exponential Revisited, 2005, table 2.3).
_DEGREE, _BOUND = 13, 5.371920351148152


@functools.cache
def _pade() -> tuple[float, ...]:
    """The coefficients of the numerator of the diagonal Padé approximation of exp, lowest first."""
    m, f = _DEGREE, math.factorial
    return tuple(f(2 * m - j) * f(m) / (f(2 * m) * f(m - j) * f(j)) for j in range(m + 1))


def _exp(A: Tensor) -> Tensor:
    """Note [Scaling and squaring], for each matrix with its own number of squarings."""
    norm = A.abs().sum(-2).amax(-1)
    bad = ~norm.isfinite()
    norm = norm.masked_fill(bad, 0)
    halvings = (norm / _BOUND).clamp(min=1).log2().ceil()[..., None, None]
    A = A.masked_fill(bad[..., None, None], 0) * rgrad.exp2(-halvings)
    b = _pade()
    eye = rgrad.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A4 @ A2
    odd = A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2) + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye
    even = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2) + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    odd = A @ odd
    made = _C._linalg.solve(even - odd, even + odd)
    for step in range(int(halvings.max())):
        made = rgrad.where(step < halvings, made @ made, made)
    return made.masked_fill(bad[..., None, None], math.nan)


class _MatrixExp(OfMatrices):
    """The derivative stands beside the exponential in ``exp([[Aᵀ, G], [0, Aᵀ]])`` (Higham: Functions of Matrices,
    2008, theorem 3.6).
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        ctx.save_for_backward(A)
        return _exp(A.detach())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (A,) = ctx.saved_tensors
        n = A.shape[-1]
        # The result is linear in the gradient: one of about the size of A costs no additional squarings.
        size = g.detach().abs().amax((-2, -1), keepdim=True)
        size = size.masked_fill(~((size > 0) & size.isfinite()), 1)
        turned = A.mT
        above = rgrad.cat([turned, g / size], -1)
        below = rgrad.cat([rgrad.zeros_like(turned), turned], -1)
        return matrix_exp(rgrad.cat([above, below], -2))[..., :n, n:] * size


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential ``1 + A + A²/2 + …`` of each matrix: Note [Scaling and squaring].

    Args:
        A: square matrices, (..., n, n), of a floating-point dtype; half precision is computed in float32.

    >>> import rgrad
    >>> rgrad.linalg.matrix_exp(rgrad.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    expect_square("linalg.matrix_exp", A)
    if not A.dtype.is_floating_point:
        raise NotImplementedError(
            f"linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {kind_of(A)}"
        )
    if A.numel() == 0:
        return A.clone()
    if A.dtype.itemsize < 4:
        return matrix_exp(A.float()).to(A.dtype)
    return _MatrixExp.apply(A)


def _lyapunov(H: Tensor, G: Tensor) -> Tensor:
    """K in ``H K + K H = G`` for symmetric positive H; 0 in the directions in which H is zero."""
    values, vectors = _C._linalg.eigh(H)
    sums = values.unsqueeze(-1) + values.unsqueeze(-2)
    inner = vectors.mT @ G @ vectors
    inner = inner.masked_fill(sums == 0, 0) / sums.masked_fill(sums == 0, 1)
    return vectors @ inner @ vectors.mT


class _SquareRoot(OfMatrices):
    """``X dX + dX X = dA``, which is an equation for the gradient too."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        values, vectors = _C._linalg.eigh(A.detach())
        X = (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT
        ctx.save_for_backward(X)
        return X

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (X,) = ctx.saved_tensors
        return _lyapunov(X, g)


def matrix_sqrth(A: Tensor) -> Tensor:
    """The symmetric square root of each symmetric positive semidefinite matrix.

    Args:
        A: symmetric matrices, (..., n, n), of float32 or float64; their lower triangle is read, and negative
            eigenvalues are taken as 0.

    >>> import rgrad
    >>> rgrad.linalg.matrix_sqrth(rgrad.tensor([[4.0, 0.0], [0.0, 25.0]]))
    tensor([[2., 0.],
            [0., 5.]])
    """
    expect_square("linalg.matrix_sqrth", A)
    expect_real("linalg_eigh_cpu", A)
    return _SquareRoot.apply(A) if A.numel() else A.clone()


class _Polar(OfMatrices):
    """From ``H dH + dH H = d(AᵀA)`` and ``dU = (dA - U dH) H⁻¹``."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        left, values, right = _C._linalg.svd(A.detach(), full_matrices=False)
        U, H = left @ right, (right.mT * values.unsqueeze(-2)) @ right
        ctx.save_for_backward(U, H)
        return U, H

    @staticmethod
    def backward(ctx: Any, by_U: Tensor, by_H: Tensor) -> Tensor:
        U, H = ctx.saved_tensors
        direct = _C._linalg.solve(H, by_U, left=False)
        inner = by_H - U.mT @ direct
        return direct + U @ (H @ _lyapunov(H, inner + inner.mT))


def polar(A: Tensor, *, out: Any = None) -> Any:
    """The factors of ``A = U H`` with orthonormal columns of U and symmetric positive semidefinite H.

    Args:
        A: matrices, (..., m, n) with n not above m, of float32 or float64. The derivative wants rank n.
        out: two tensors for the results.

    Returns:
        U (..., m, n) and H (..., n, n).
    """
    expect_matrix("linalg.polar", A)
    rows, columns = A.shape[-2:]
    if not A.dtype.is_floating_point:
        raise NotImplementedError(
            f"linalg.polar: Expected a floating point or complex tensor as input. Got {kind_of(A)}"
        )
    if rows < columns:
        raise RuntimeError(
            f"linalg.polar: input must have at least as many rows as columns, but got {rows} by {columns} matrices"
        )
    expect_real("linalg_svd_cpu", A)
    made = _Polar.apply(A) if A.numel() else (A.clone(), A.new_zeros(*A.shape[:-2], columns, columns))
    return named("linalg_polar", made, out)
