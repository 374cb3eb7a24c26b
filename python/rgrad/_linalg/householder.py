"""QR factorizations as products of Householder reflections ``1 - tau v vᵀ``.

As LAPACK keeps them: v of reflection i is 1 in row i, and stands in column i below the diagonal.
"""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import kind_of, write_out
from rgrad.autograd._rules import OfMatrices

from .common import expect_real, named, no_derivative, with_out

Tensor = _C.Tensor


def _expect_dims(name: str, argument: str, A: Tensor) -> None:
    if A.dim() < 2:
        raise RuntimeError(f"{name}: {argument} must have at least 2 dimensions.")


class _Reflections(OfMatrices):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        made = A.detach().clone(memory_format=rgrad.contiguous_format)
        rows, columns = A.shape[-2:]
        tau = made.new_zeros(*A.shape[:-2], min(rows, columns))
        for k in range(tau.shape[-1] if A.numel() else 0):
            head, below = made[..., k, k].clone(), made[..., k + 1 :, k].clone()
            size = _C._linalg.vector_norm(made[..., k:, k], dim=-1)
            # A column that is already zero below the diagonal is left as it is.
            flat = (below == 0).all(-1)
            beta = rgrad.where(flat, head, -rgrad.copysign(size, head))
            scale = (head - beta).masked_fill(flat, 1)
            v = below / scale.unsqueeze(-1)
            t = rgrad.where(flat, 0, (beta - head) / beta.masked_fill(flat, 1))
            tau[..., k] = t
            if k + 1 < columns:
                rest = made[..., k:, k + 1 :]
                whole = rgrad.cat([rgrad.ones_like(head).unsqueeze(-1), v], -1).unsqueeze(-1)
                rest -= t[..., None, None] * whole @ (whole.mT @ rest)
            made[..., k, k] = beta
            made[..., k + 1 :, k] = v
        # Column after column, as LAPACK has matrices.
        return made.mT.contiguous().mT, tau

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_derivative("geqrf")


def geqrf(input: Tensor, *, out: Any = None) -> Any:
    """The QR factorization of each matrix, with Q as reflections; `rgrad.linalg.qr` gives Q itself.

    Args:
        input: matrices, (..., m, n), of float32 or float64. Without a derivative.
        out: two tensors for the results.

    Returns:
        `a` (..., m, n) with R on and above the diagonal and the vectors of the reflections below it, and `tau`
        (..., min(m, n)).
    """
    _expect_dims("torch.geqrf", "input", input)
    expect_real("geqrf_cpu", input)
    return named("geqrf", _Reflections.apply(input), out, write_out)


def _reflect(A: Tensor, tau: Tensor, target: Tensor, forward: bool) -> Tensor:
    """Applies the reflections to the rows of `target`: the first one first, or last."""
    count = tau.size(-1)
    eye = rgrad.eye(A.size(-2), count, dtype=A.dtype, device=A.device)
    vectors = A[..., :count].tril(-1) + eye
    for k in range(count) if forward else reversed(range(count)):
        v = vectors[..., k : k + 1]
        target = target - tau[..., k, None, None] * v @ (v.mT @ target)
    return target


@with_out("torch.linalg.householder_product")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of reflections: Q of the factorization by `geqrf`.

    Args:
        A: (..., m, n) with n not above m; the vectors stand below the diagonal.
        tau: (..., k) with k not above n.

    Returns:
        (..., m, n).
    """
    name = "torch.linalg.householder_product"
    _expect_dims(name, "input", A)
    rows, columns = A.shape[-2:]
    if rows < columns:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if tau.dim() != A.dim() - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.dim()} and "
            f"input.ndim is equal to {A.dim()}"
        )
    if columns < tau.size(-1):
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.dtype != A.dtype:
        raise RuntimeError(f"{name}: tau dtype {kind_of(tau)} does not match input dtype {kind_of(A)}")
    expect_real("orgqr_cpu", A)
    start = rgrad.eye(rows, columns, dtype=A.dtype, device=A.device).expand(A.shape)
    if tau.numel() == 0:
        # Nothing of A is read, and yet its gradient is 0, not none.
        return start + A.masked_fill(rgrad.ones_like(A, dtype=rgrad.bool), 0)
    return _reflect(A, tau, start, forward=False)


orgqr = householder_product


def ormqr(
    input: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The product of a matrix with all columns of Q, which is given as reflections.

    Args:
        input: (..., m, k); the vectors stand below the diagonal, as `geqrf` leaves them.
        tau: (..., min(m, k)).
        other: (..., m, n), or (..., n, m) if not `left`.
        left: whether Q stands left of `other`.
        transpose: whether Q is transposed.
        out: receives the result, whose dtype it has.
    """
    name, side = "torch.ormqr", -2 if left else -1
    for argument, value in (("input", input), ("other", other)):
        _expect_dims(name, argument, value)
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1:] != (min(other.shape[side], input.shape[-1]),):
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    for argument, value, matrix_dims in (("tau", tau, 1), ("other", other, 2)):
        if value.dim() - matrix_dims != input.dim() - 2:
            relation = "one dimension less than" if matrix_dims == 1 else "the same number of dimensions as"
            raise RuntimeError(
                f"{name}: Expected {argument} to have {relation} input, but got {argument}.ndim equal to {value.dim()} "
                f"and input.ndim is equal to {input.dim()}"
            )
        if value.shape[:-matrix_dims] != input.shape[:-2]:
            raise RuntimeError(
                f"{name}: Expected batch dimensions of {argument} to be equal to input.shape[:-2], but got "
                f"{list(value.shape[:-matrix_dims])}"
            )
    results = () if out is None else (("result", out),)
    for argument, value in (("tau", tau), ("other", other), *results):
        if value.dtype != input.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {argument} to have the same dtype, but input has dtype {kind_of(input)} "
                f"and {argument} has dtype {kind_of(value)}"
            )
    expect_real("ormqr_cpu", input)
    if left:
        made = _reflect(input, tau, other, forward=transpose)
    else:
        made = _reflect(input, tau, other.mT, forward=not transpose).mT
    return made if out is None else write_out("ormqr", made, out)
