"""LU factorizations with partial pivoting, and what is solved with them.

Note [Recursive LU]
~~~~~~~~~~~~~~~~~~~
On the CPU the core factorizes. On a GPU, the columns are halved: the left half is factorized, its row exchanges are
applied to the right half, a triangular system gives the upper part of that, a product updates the rest, and the rest
is factorized (Toledo: Locality of Reference in LU Decomposition with Partial Pivoting, 1997). Almost all arithmetic is
in products of matrices, and a panel of few columns is eliminated column by column. All matrices of a batch take part
in each step.
"""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import kind_of, write_exactly
from rgrad.autograd._rules import OfMatrices

from .common import broadcast_batch, expect_matrix, expect_real, expect_square, holds_anywhere, named

Tensor = _C.Tensor

_PANEL = 8
_SOLVE = _C._linalg.solve_triangular


def _swap_rows(a: Tensor, row: int, other: Tensor) -> None:
    """Exchanges a row of each matrix with that of its index in `other`, in place."""
    index = other.reshape(-1, 1, 1).expand(-1, 1, a.shape[-1])
    found = a.gather(1, index)
    a.scatter_(1, index, a[:, row : row + 1].clone())
    a[:, row : row + 1] = found


def _panel(a: Tensor, pivots: Tensor) -> None:
    rows, columns = a.shape[1:]
    for k in range(min(rows, columns)):
        # A NaN is the greatest, so that it is met.
        pivot = a[:, k:, k].abs().argmax(1) + k
        pivots[:, k] = pivot
        _swap_rows(a, k, pivot)
        if k + 1 < rows:
            head = a[:, k, k].unsqueeze(1)
            # A column of zeros is left as it is.
            a[:, k + 1 :, k] /= head.masked_fill(head == 0, 1)
            a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]


def _eliminate(a: Tensor, pivots: Tensor) -> None:
    """Factorizes matrices (b, m, n) in place: Note [Recursive LU].

    Args:
        a: receives L below the diagonal and U on and above it.
        pivots: (b, min(m, n)); receives the row with which each one was exchanged.
    """
    rows, columns = a.shape[1:]
    if columns <= _PANEL or rows <= 1:
        _panel(a, pivots)
        return
    half = min(rows, columns) // 2
    left, right = a[:, :, :half], a[:, :, half:]
    _eliminate(left, pivots[:, :half])
    for k in range(half):
        _swap_rows(right, k, pivots[:, k])
    top = _SOLVE(left[:, :half], right[:, :half], upper=False, unitriangular=True)
    right[:, :half] = top
    right[:, half:] -= left[:, half:] @ top
    _eliminate(right[:, half:], pivots[:, half:])
    for k in range(half, pivots.size(1)):
        _swap_rows(left[:, half:], k - half, pivots[:, k])
    pivots[:, half:] += half


def _order(pivots: Tensor, rows: int) -> Tensor:
    """The order of rows to which exchanges with the 1-based `pivots` lead, one after another."""
    return _C._linalg._row_order(pivots, rows).to(pivots.device)


def _permute(A: Tensor, order: Tensor) -> Tensor:
    return A.gather(-2, order.unsqueeze(-1).expand(A.shape))


def _unpermute(A: Tensor, order: Tensor) -> Tensor:
    return _permute(A, order.argsort(-1))


class _Factor(OfMatrices):
    """L and U in one tensor, with the exchanges of rows.

    With A₁ the square part of the permuted matrix, L₁ and U₁ the factors of it, and T the strictly lower triangle
    of ``L₁ᵀ dL₁`` and the upper one of ``dU₁ U₁ᵀ``, ``dA₁ = L₁⁻ᵀ T U₁⁻ᵀ``. What is left of a wide matrix is
    ``U₂ = L₁⁻¹ A₂``, and of a tall one ``L₂ = A₂ U₁⁻¹``.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Any:
        shape = A.shape
        if not A.is_cuda:
            made, pivots = _C._linalg._lu_factor(A.detach(), True)
            ctx.mark_non_differentiable(pivots)
            ctx.save_for_backward(made, pivots)
            return made, pivots
        # Elements of one column stand together, as LAPACK leaves them.
        made = A.detach().mT.contiguous().clone().mT
        pivots = rgrad.zeros(*shape[:-2], min(shape[-2:]), dtype=rgrad.int64, device=A.device)
        if A.numel():
            flat = made.reshape(-1, *shape[-2:]).clone()
            found = pivots.reshape(-1, pivots.shape[-1])
            _eliminate(flat, found)
            made.copy_(flat.reshape(shape))
            pivots = found.reshape(pivots.shape)
        pivots = (pivots + 1).int()
        ctx.mark_non_differentiable(pivots)
        ctx.save_for_backward(made, pivots)
        return made, pivots

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Tensor:
        LU, pivots = ctx.saved_tensors
        rows, columns = LU.shape[-2:]
        k = min(rows, columns)
        lower, upper = LU[..., :k, :k], LU[..., :k, :k].triu()
        eye = rgrad.eye(k, dtype=LU.dtype, device=LU.device)
        unit = lower.tril(-1) + eye
        g1 = g[..., :k, :k]
        by_lower, by_upper = unit.mT @ g1.tril(-1), g1.triu() @ upper.mT
        parts = []
        if rows > columns:
            rest, g2 = LU[..., k:, :], g[..., k:, :]
            by_upper = by_upper - rest.mT @ g2
            parts = [_SOLVE(upper.mT, g2, upper=False, left=False)]
        elif columns > rows:
            rest, g2 = LU[..., k:], g[..., k:]
            by_lower = by_lower - g2 @ rest.mT
            parts = [_SOLVE(unit.mT, g2, upper=True, unitriangular=True)]
        inner = by_lower.tril(-1) + by_upper.triu()
        inner = _SOLVE(upper.mT, inner, upper=False, left=False)
        first = _SOLVE(unit.mT, inner, upper=True, unitriangular=True)
        made = rgrad.cat([first, *parts], -2 if rows > columns else -1)
        return _unpermute(made, _order(pivots, rows))


def _factor(name: str, A: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    if A.dim() < 2:
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    expect_real("lu_cpu", A)
    return _Factor.apply(A)


def _info(LU: Tensor) -> Tensor:
    """Which diagonal element of U is the first that is zero, counted from 1; 0 if none is."""
    zero = LU.detach().diagonal(dim1=-2, dim2=-1) == 0
    if not zero.shape[-1]:
        return rgrad.zeros(zero.shape[:-1], dtype=rgrad.int32, device=LU.device)
    return rgrad.where(zero.any(-1), zero.int().argmax(-1) + 1, 0).int()


def check_nonsingular(name: str, info: Tensor) -> None:
    """Raises RuntimeError if a factor U is singular."""
    info = _C._batch_value(info)[0]
    if not holds_anywhere(info != 0):
        return
    where, found = "", int(info.max())
    if info.dim():
        number = int((info.flatten() != 0).int().argmax())
        where, found = f"(Batch element {number}): ", int(info.flatten()[number])
    raise RuntimeError(
        f"{name}: {where}U[{found},{found}] is zero and using it on lu_solve would result in a division by zero. "
        "linalg.lu(A, pivot) and linalg.lu_factor_ex(A, pivot) factorize it nevertheless."
    )


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """The factorization ``A = P L U`` of each matrix.

    Args:
        A: matrices, (..., m, n), of float32 or float64.
        pivot: whether rows are exchanged; must be True.
        out: three tensors for the results.

    Returns:
        P (..., m, m), a permutation; L (..., m, k), lower triangular with ones on the diagonal; U (..., k, n), upper
        triangular, where k is the smaller of m and n.

    >>> import rgrad
    >>> P, L, U = rgrad.linalg.lu(rgrad.tensor([[0.0, 2.0], [4.0, 8.0]]))
    >>> U
    tensor([[4., 8.],
            [0., 2.]])
    """
    LU, pivots = _factor("linalg.lu", A, pivot)
    return named("linalg_lu", tuple(lu_unpack(LU, pivots)), out)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """The factorization of `lu` in the form that `lu_solve` takes.

    Args:
        A: matrices, (..., m, n), of float32 or float64.
        pivot: whether rows are exchanged; must be True.
        out: two tensors for the results.

    Returns:
        `LU` (..., m, n) with L below the diagonal and U on and above it, and `pivots` (..., min(m, n)), int32: the row,
        counted from 1, with which each row was exchanged in turn.

    Raises:
        RuntimeError: a matrix is singular.
    """
    LU, pivots = _factor("torch.lu_factor", A, pivot)
    check_nonsingular("torch.linalg.lu_factor", _info(LU))
    return named("linalg_lu_factor", (LU, pivots), out)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """As `lu_factor`, for singular matrices too.

    Args:
        A: matrices, (..., m, n), of float32 or float64.
        pivot: whether rows are exchanged; must be True.
        check_errors: whether a singular matrix is an error.
        out: three tensors for the results.

    Returns:
        `LU` and `pivots` of `lu_factor`, and `info`, int32: 0, or which diagonal element of U is zero.
    """
    LU, pivots = _factor("torch.lu_factor", A, pivot)
    info = _info(LU)
    if check_errors:
        check_nonsingular("torch.linalg.lu_factor_ex", info)
    return named("linalg_lu_factor_ex", (LU, pivots, info), out)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """X in ``A X = B`` for factorized matrices A.

    Args:
        LU: square, (..., n, n), of `lu_factor`.
        pivots: (..., n), of `lu_factor`.
        B: the right hand sides, (..., n, k).
        left: whether ``A X = B`` is solved, else ``X A = B``, with B (..., k, n).
        adjoint: whether A is transposed.
        out: receives the result.
    """
    expect_matrix("linalg.lu_solve", B, "B")
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {kind_of(LU)} and B of "
            f"type {kind_of(B)} instead"
        )
    if pivots.dtype != rgrad.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    n = expect_square("torch.linalg.lu_solve", LU)
    if pivots.shape[-1:] != (n,):
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if B.shape[-2 if left else -1] != n:
        equation = "AX = B" if left else "XA = B"
        sizes = f"{n}x{n} and {B.shape[-2]}x{B.shape[-1]}"
        raise RuntimeError(f"linalg.lu_solve: Incompatible shapes of A and B for the equation {equation} ({sizes})")
    if holds_anywhere(pivots < 1):
        raise RuntimeError(
            "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?"
        )
    if holds_anywhere(pivots > n):
        raise RuntimeError(
            "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the result of "
            "lu_factor?"
        )
    if not left:
        # X A = B is Aᵀ Xᵀ = Bᵀ.
        B, adjoint = B.mT, not adjoint
    factors, sides = broadcast_batch(LU, B)
    order = _order(pivots, n).expand(*sides.shape[:-1])
    if adjoint:
        inner = _SOLVE(factors.mT, sides, upper=False)
        made = _unpermute(_SOLVE(factors.mT, inner, upper=True, unitriangular=True), order)
    else:
        inner = _SOLVE(factors, _permute(sides, order), upper=False, unitriangular=True)
        made = _SOLVE(factors, inner, upper=True)
    made = made if left else made.mT
    return made if out is None else write_exactly("linalg_lu_solve", made, out)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> Any:
    """P, L and U of a factorization by `lu_factor`.

    Args:
        LU_data: (..., m, n).
        LU_pivots: (..., min(m, n)), int32.
        unpack_data: whether L and U are wanted; they are empty otherwise.
        unpack_pivots: whether P is wanted; it is empty otherwise.
        out: three tensors for the results.
    """
    if unpack_pivots and LU_pivots.dtype != rgrad.int32:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.")
    rows, columns = LU_data.shape[-2:]
    if unpack_pivots and LU_pivots.numel() and holds_anywhere((LU_pivots <= 0) | (LU_pivots > rows)):
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?"
        )
    k = min(rows, columns)
    P = L = U = LU_data.new_empty(0)
    if unpack_data:
        eye = rgrad.eye(rows, k, dtype=LU_data.dtype, device=LU_data.device)
        L, U = LU_data[..., :k].tril(-1) + eye, LU_data[..., :k, :].triu()
    if unpack_pivots:
        order = _order(LU_pivots, rows).unsqueeze(-2)
        P = LU_data.new_zeros(*LU_data.shape[:-1], rows).scatter_(-2, order, 1)
    return named("lu_unpack", (P, L, U), out)
