"""Pseudo-inverses, and what else follows from the singular values of matrices."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import kind_of
from rgrad.autograd._rules import OfMatrices

from .common import expect_matrix, expect_square, wide, with_out

Tensor = _C.Tensor
_namespace = _C._linalg


def by_pseudo_inverse(A: Tensor, P: Tensor, g: Tensor) -> Tensor:
    """The gradient of A from that of its pseudo-inverse P.

    ``dP = -P dA P + P Pᵀ dAᵀ (1 - A P) + (1 - P A) dAᵀ Pᵀ P``.
    """
    kind = A.dtype
    # The sums cancel, so a wider type is used.
    A, P, g = wide(A), wide(P), wide(g)
    gh = g.mT
    left, right = gh - A @ (P @ gh), gh - (gh @ P) @ A
    return (left @ P @ P.mT + P.mT @ (P @ right) - P.mT @ g @ P.mT).to(kind)


class _PseudoInverse(OfMatrices):
    @staticmethod
    def forward(ctx: Any, A: Tensor, settings: dict[str, Any]) -> Tensor:
        ctx.settings = settings
        result = _pinv(A, **settings)
        ctx.save_for_backward(A, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        A, P = ctx.saved_tensors
        return by_pseudo_inverse(A, P, g), None


def _tolerance(A: Tensor, largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """The singular values up to which are treated as zero."""
    if rtol is None:
        rtol = 0.0 if atol is not None else rgrad.finfo(A.dtype).eps * max(A.shape[-2:])

    def spread(x: Any) -> Any:
        return x.unsqueeze(-1) if isinstance(x, Tensor) and x.dim() > 0 else x

    relative = largest * spread(rtol)
    if atol is None:
        return relative
    least = spread(atol)
    return rgrad.maximum(relative, least if isinstance(least, Tensor) else rgrad.full_like(relative, least))


def _spectrum(A: Tensor, hermitian: bool) -> Tensor:
    return _namespace.eigvalsh(A).abs() if hermitian else _namespace.svdvals(A)


def _expect_invertible_type(A: Tensor) -> None:
    if A.dim() < 2 or A.dtype not in (rgrad.float32, rgrad.float64):
        raise RuntimeError(
            f"linalg.pinv({kind_of(A)}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, "
            "double, cfloat or cdouble types"
        )


def _has_number(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> bool:
    """Whether a call of `pinv` gives a number as a threshold; PyTorch composes those, and records what they store."""
    return rcond is not None or any(isinstance(threshold, int | float) for threshold in (atol, rtol))


@with_out("linalg.pinv", recorded=_has_number)
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudo-inverse of each matrix, computed by its singular values.

    Args:
        A: ``(*, m, n)``, float32 or float64.
        rcond: the older name of ``rtol``.
        hermitian: whether the matrices are symmetric.
        atol: singular values up to this are treated as zero; none by default.
        rtol: the same relative to the largest; by default machine epsilon times the larger size, if ``atol`` is None.
    """
    if rcond is not None and not (atol is None and rtol is None):
        raise TypeError("linalg_pinv() received an invalid combination of arguments - got rcond and atol or rtol")
    rtol = rtol if rcond is None else rcond
    _expect_invertible_type(A)
    if hermitian:
        expect_square("linalg.pinv", A)
    if A.numel() == 0:
        return A.mT.clone()
    return _PseudoInverse.apply(A, {"atol": atol, "rtol": rtol, "hermitian": hermitian})


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """As `pinv`, under its older name: singular values up to `rcond` times the largest are treated as zero."""
    return pinv(input, rtol=rcond)


def _pinv(A: Tensor, *, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    with rgrad.no_grad():
        if hermitian:
            values, vectors = _namespace.eigh(A)
            U, S, Vh = vectors * values.sign().unsqueeze(-2), values.abs(), vectors.mT
        else:
            U, S, Vh = _namespace.svd(A, full_matrices=False)
        tolerance = _tolerance(A, S.amax(-1, keepdim=True), atol, rtol)
        inverse = rgrad.where(tolerance < S, 1 / S, 0.0)
        return (Vh.mT * inverse.unsqueeze(-2)) @ U.mT


@with_out("torch.linalg.matrix_rank")
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The number of non-zero singular values of each matrix; see :func:`pinv` for the threshold.

    Args:
        A: ``(*, m, n)``.
        tol: the older name of ``atol``.
        hermitian: whether the matrices are symmetric.
        atol: singular values up to this are treated as zero.
        rtol: the same relative to the largest.
    """
    expect_matrix("torch.linalg.matrix_rank", A, "input")
    if hermitian:
        expect_square("linalg.matrix_rank", A)
    if A.numel() == 0:
        return rgrad.zeros(A.shape[:-2], dtype=rgrad.int64, device=A.device)
    S = _spectrum(A.detach(), hermitian)
    tolerance = _tolerance(A, S.amax(-1, keepdim=True), tol if atol is None else atol, rtol)
    return (tolerance < S).sum(-1)


_NORMS = ("fro", "nuc", float("inf"), float("-inf"), 1, -1, 2, -2)


def _by_inverse(A: Tensor, p: Any) -> Tensor:
    """The condition numbers of square matrices by their inverses; infinity where there is none."""
    try:
        return _namespace.matrix_norm(A, p) * _namespace.matrix_norm(_namespace.inv(A), p)
    except _C._LinAlgError:
        if A.dim() == 2:
            return A.new_tensor(float("inf"))
    found = [_by_inverse(matrix, p) for matrix in A.flatten(0, -3)]
    return rgrad.stack(found).reshape(A.shape[:-2])


@with_out("linalg.cond", recorded=True)
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number of each matrix: its norm times that of its inverse, infinity where there is none.

    Args:
        A: ``(*, m, n)``, square unless ``p`` is None, 2 or -2.
        p: the norm, as for `rgrad.linalg.matrix_norm`; 2 by default.

    Returns:
        ``(*)``; zeros for matrices without elements.
    """
    if A.dim() < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    p = 2 if p is None else p
    if p not in _NORMS:
        raise ValueError(f"linalg.cond got an invalid norm type: {p}")
    if p not in (2, -2):
        expect_square(f"linalg.cond(ord={p})", A)
    if A.numel() == 0:
        return A.new_zeros(A.shape[:-2])
    if p in (2, -2):
        S = _namespace.svdvals(A)
        return S[..., -1] / S[..., 0] if p == -2 else S[..., 0] / S[..., -1]
    return _by_inverse(wide(A), p).to(A.dtype)
