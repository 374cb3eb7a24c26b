"""Factorizations of symmetric indefinite matrices.

Note [Diagonal pivoting]
~~~~~~~~~~~~~~~~~~~~~~~~
``A = L D Lᵀ``, where D has blocks of one and of two rows on its diagonal. A block is taken where eliminating it makes
the elements of the rest grow by a bounded factor only (Bunch and Kaufman: Some Stable Methods for Calculating Inertia
and Solving Symmetric Linear Systems, 1977). LAPACK's `sytrf` keeps the result in one matrix: D and the columns of L as
they were when each was eliminated. Later exchanges of rows are not applied to them.
"""

from __future__ import annotations

import math
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import kind_of, write_exactly
from rgrad._vmap import by_slices
from rgrad.autograd._rules import OfMatrices

from .common import broadcast_batch, expect_matrix, expect_real, expect_square, holds_anywhere, named, no_derivative

Tensor = _C.Tensor

# Bunch and Kaufman's bound of growth is least for this share.
_ALPHA = (1 + math.sqrt(17)) / 8


def _largest(values: Tensor) -> tuple[float, int]:
    """The largest magnitude and its place."""
    if not values.numel():
        return 0.0, 0
    sizes = values.abs()
    place = int(sizes.argmax())
    return float(sizes[place]), place


def _choose(W: Tensor, k: int) -> tuple[int, int]:
    """The size of the next block, and the row to exchange with its last one."""
    own = abs(float(W[k, k]))
    column, place = _largest(W[k + 1 :, k])
    if own >= _ALPHA * column:
        return 1, k
    other = k + 1 + place
    row = max(_largest(W[other, k:other])[0], _largest(W[other, other + 1 :])[0])
    if own >= _ALPHA * column * (column / row):
        return 1, k
    return (1 if abs(float(W[other, other])) >= _ALPHA * row else 2), other


def _factorize(A: Tensor) -> tuple[Tensor, list[int], int]:
    """LD, the pivots and the first zero block, counted from 1, of one matrix: Note [Diagonal pivoting]."""
    n = A.shape[-1]
    W = A.tril() + A.tril(-1).mT
    LD, pivots, info = rgrad.zeros_like(W), [0] * n, 0
    k = 0
    while k < n:
        own, column = abs(float(W[k, k])), _largest(W[k + 1 :, k])[0]
        if max(own, column) == 0 or math.isnan(own):
            LD[k, k] = W[k, k]
            info, pivots[k] = info or k + 1, k + 1
            k += 1
            continue
        size, other = _choose(W, k)
        last, end = k + size - 1, k + size
        if other != last:
            order = list(range(n))
            order[last], order[other] = other, last
            W[k:, k:] = W[order][:, order][k:, k:]
        block, rest = W[k:end, k:end], W[end:, k:end]
        if size == 1:
            below = rest / block
            pivots[k] = other + 1
        else:
            # Divided by the element beside the diagonal, which is the largest: nothing overflows.
            beside = block[1, 0]
            first, second = block[0, 0] / beside, block[1, 1] / beside
            scale = 1 / ((first * second - 1) * beside)
            inverse = rgrad.stack([second, -rgrad.ones_like(first), -rgrad.ones_like(first), first]).reshape(2, 2)
            below = rest @ (inverse * scale)
            pivots[k] = pivots[k + 1] = -(other + 1)
        LD[k:end, k:end] = block.tril()
        LD[end:, k:end] = below
        W[end:, end:] -= below @ rest.mT
        k = end
    return LD, pivots, info


class _Factor(OfMatrices):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        n = A.shape[-1]
        made = [_factorize(matrix) for matrix in A.detach().reshape(-1, n, n)] if A.numel() else []
        LD = rgrad.stack([m[0] for m in made]).reshape(A.shape) if made else A.detach().clone()
        like: Any = {"dtype": rgrad.int32, "device": A.device}
        pivots = rgrad.tensor([m[1] for m in made], **like).reshape(A.shape[:-1])
        infos = [m[2] for m in made] or [0] * math.prod(A.shape[:-2])
        info = rgrad.tensor(infos, **like).reshape(A.shape[:-2])
        ctx.mark_non_differentiable(pivots, info)
        return LD, pivots, info

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_derivative("linalg_ldl_factor_ex")


def _factor(name: str, A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    expect_square(name, A)
    expect_real("ldl_factor_cpu", A)
    return _Factor.apply(A)


def _check(name: str, info: Tensor) -> None:
    info = _C._batch_value(info)[0]
    if holds_anywhere(info != 0):
        found = int(info.max())
        raise RuntimeError(f"{name}: D[{found},{found}] is zero, so that ldl_solve would divide by zero")


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """The factorization of each symmetric matrix that `ldl_solve` takes: Note [Diagonal pivoting].

    Args:
        A: symmetric matrices, (..., n, n), of float32 or float64; their lower triangle is read. Without a derivative.
        hermitian: makes no difference for real numbers.
        out: two tensors for the results.

    Returns:
        `LD` (..., n, n), and `pivots` (..., n), int32: the row, counted from 1, with which each row was exchanged;
        negative for both rows of a block of two.

    Raises:
        RuntimeError: a block of D is zero.
    """
    LD, pivots, info = _factor("torch.linalg.ldl_factor", A)
    _check("torch.linalg.ldl_factor", info)
    return named("linalg_ldl_factor", (LD, pivots), out)


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """As `ldl_factor`, for singular matrices too.

    Args:
        A: symmetric matrices, (..., n, n), of float32 or float64.
        hermitian: makes no difference for real numbers.
        check_errors: whether a block of zeros is an error.
        out: three tensors for the results.

    Returns:
        `LD` and `pivots` of `ldl_factor`, and `info`, int32: 0, or the first row whose block is zero.
    """
    LD, pivots, info = _factor("torch.linalg.ldl_factor_ex", A)
    if check_errors:
        _check("torch.linalg.ldl_factor_ex", info)
    return named("linalg_ldl_factor_ex", (LD, pivots, info), out)


def _rows(pivots: list[int]) -> tuple[list[int], list[int], list[tuple[int, list[int]]]]:
    """What the pivots of one matrix say.

    Returns:
        The order of rows after all exchanges, the partner of each row in its block (itself in a block of one), and for
        each block that follows an exchange its first row and that exchange as an order of rows.
    """
    n = len(pivots)
    order, partner, swaps = list(range(n)), list(range(n)), list[tuple[int, list[int]]]()
    k = 0
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        last, other = k + size - 1, abs(pivots[k]) - 1
        if size == 2 and last < n:
            partner[k], partner[last] = last, k
        if other != last:
            order[last], order[other] = order[other], order[last]
            swap = list(range(n))
            swap[last], swap[other] = other, last
            swaps.append((k, swap))
        k += size
    return order, partner, swaps


def _solve(LD: Tensor, pivots: list[int], B: Tensor) -> Tensor:
    order, partner, swaps = _rows(pivots)
    n = len(pivots)
    places = rgrad.arange(n, device=LD.device)
    others = rgrad.tensor(partner, device=LD.device)
    # What stands below the diagonal inside a block belongs to D.
    unit = LD.tril(-1).masked_fill(
        ((others != places) & (others < places)).unsqueeze(-1) & (places == others.unsqueeze(-1)), 0
    )
    for first, swap in swaps:
        unit = rgrad.cat([unit[:, :first][swap], unit[:, first:]], 1)
    single = (others == places).unsqueeze(-1)
    diagonal = LD.diagonal().unsqueeze(-1)
    beside = LD[rgrad.maximum(places, others), rgrad.minimum(places, others)].unsqueeze(-1)
    inner = _C._linalg.solve_triangular(unit, B[order], upper=False, unitriangular=True)
    safe = beside.masked_fill(single, 1)
    pair = diagonal[others] / safe
    double = (pair * inner - inner[others]) / (safe * (diagonal / safe * pair - 1).masked_fill(single, 1))
    inner = rgrad.where(single, inner / diagonal.masked_fill(~single, 1), double)
    made = _C._linalg.solve_triangular(unit.mT, inner, upper=True, unitriangular=True)
    return made[rgrad.tensor(order, device=LD.device).argsort()]


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """X in ``A X = B`` for symmetric matrices A that are factorized.

    Args:
        LD: (..., n, n), of `ldl_factor`.
        pivots: (..., n), of `ldl_factor`.
        B: the right hand sides, (..., n, k).
        hermitian: makes no difference for real numbers.
        out: receives the result.
    """
    if any(map(_C._is_batched, (LD, pivots, B))):
        return by_slices("linalg_ldl_solve", ldl_solve, LD, pivots, B)
    n = expect_square("torch.linalg.ldl_solve", LD)
    expect_matrix("torch.linalg.ldl_solve", B, "B")
    if B.shape[-2] != n:
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {n} by {n} but each b matrix is "
            f"{B.shape[-2]} by {B.shape[-1]}"
        )
    if B.dtype != LD.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {kind_of(B)} and A of type {kind_of(LD)} "
            "instead."
        )
    if pivots.dtype.is_floating_point or pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: expected integer pivots of shape {list(LD.shape[:-1])}, but got {pivots.dtype} "
            f"of shape {list(pivots.shape)}"
        )
    if holds_anywhere((pivots == 0) | (pivots.abs() > n)):
        raise RuntimeError("torch.linalg.ldl_solve: pivots must be between 1 and n, or between -1 and -n")
    factors, sides = broadcast_batch(LD, B)
    shape = sides.shape
    if sides.numel():
        rows: list[list[int]] = pivots.expand(*shape[:-1]).reshape(-1, n).tolist()
        parts = zip(factors.reshape(-1, n, n), rows, sides.reshape(-1, *shape[-2:]), strict=True)
        made = rgrad.stack([_solve(*part) for part in parts]).reshape(shape)
    else:
        made = sides.clone()
    return made if out is None else write_exactly("linalg_ldl_solve", made, out)
