"""Matrices with orthonormal rows or columns, as functions of free parameters.

Note [Orthogonal maps]
~~~~~~~~~~~~~~~~~~~~~~
For a skew-symmetric A, both exp(A) and the Cayley transform (I + A/2)(I - A/2)⁻¹ are orthogonal. A comes from the lower
triangle of the parameter, so only that triangle counts. Columns v_i with ones on the diagonal and zeros above give
orthonormal columns as a product of reflections I - 2 v v*/|v|² applied to the identity (Householder).

With trivialization (Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds", 2019) the map's
result is multiplied by a fixed orthogonal `base`, so that any value can be assigned: it becomes the base, and the map's
parameter returns to where the map is the identity.
"""

from __future__ import annotations

from enum import Enum, auto

import rgrad
from rgrad import _C

from ..modules.module import Module

Tensor = _C.Tensor


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _exp_of_skew(a: Tensor) -> Tensor:
    """The exponential of matrices: a Taylor polynomial of a fraction of them, squared repeatedly."""
    bound = a.detach().abs().sum(-1).max().item() if a.numel() else 0.0
    halvings = 0
    while bound > 0.5:
        bound, halvings = bound / 2, halvings + 1
    scaled = a / 2**halvings
    one = rgrad.eye(a.size(-1), dtype=a.dtype, device=a.device).expand(a.shape)
    # Horner's scheme; the remainder, 0.5¹⁴ / 14!, is below the precision of float64.
    result = one
    for order in range(13, 0, -1):
        result = one + scaled @ result / order
    for _ in range(halvings):
        result = result @ result
    return result


def _reflections(vectors: Tensor, squares: Tensor) -> Tensor:
    """The first columns of the product of reflections along the columns of `vectors` of the given squared lengths."""
    rows, columns = vectors.shape[-2:]
    result = rgrad.eye(rows, columns, dtype=vectors.dtype, device=vectors.device).expand(vectors.shape)
    for i in range(columns - 1, -1, -1):
        v = vectors[..., i : i + 1]
        result = result - v * (2 / squares[..., i, None, None]) @ (v.mT @ result)
    return result


def _to_reflections(matrix: Tensor) -> Tensor:
    """The QR decomposition as LAPACK stores it: R above the diagonal, vectors of reflections (without a 1) below."""
    packed = matrix.clone()
    rows, columns = matrix.shape[-2:]
    for i in range(min(rows, columns)):
        x = packed[..., i:, i]
        length = x.norm(dim=-1)
        head = x[..., 0]
        # Of the opposite sign of the head, so that nothing cancels.
        beta = rgrad.where(head >= 0, -length, length)
        tail = x[..., 1:].clone()
        nothing = (tail == 0).all(-1)
        scale = rgrad.where(nothing, rgrad.ones_like(head), head - beta)
        v = rgrad.cat([rgrad.ones_like(head).unsqueeze(-1), tail / scale.unsqueeze(-1)], -1)
        tau = rgrad.where(nothing, rgrad.zeros_like(head), 2 / v.square().sum(-1))
        rest = packed[..., i:, i:]
        product = (v.unsqueeze(-2) @ rest) * tau[..., None, None]
        packed[..., i:, i:] = rest - v.unsqueeze(-1) @ product
        packed[..., i + 1 :, i] = v[..., 1:]
        # A column without a tail is reflected by `_reflections` all the same, which changes its sign.
        packed[..., i, i] = rgrad.where(nothing, -packed[..., i, i], packed[..., i, i])
    return packed


class _Orthogonal(Module):
    """The parametrization; see Note [Orthogonal maps]."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        x = X.mT if wide else X
        rows, columns = x.shape[-2:]
        if self.orthogonal_map is _OrthMaps.householder:
            vectors = x.tril(-1) + rgrad.eye(rows, columns, dtype=x.dtype, device=x.device)
            q = _reflections(vectors, vectors.square().sum(-2))
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2).to(x.dtype)
        else:
            lower = x.tril()
            if columns < rows:
                lower = rgrad.cat([lower, lower.new_zeros((*lower.shape[:-1], rows - columns))], -1)
            skew = lower - lower.mT
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                q = _exp_of_skew(skew)
            else:
                one = rgrad.eye(rows, dtype=x.dtype, device=x.device)
                q = rgrad.linalg.solve(one - skew / 2, one + skew / 2)
            q = q[..., :columns]
        base = getattr(self, "base", None)
        if base is not None:
            q = base @ q
        return q.mT if wide else q

    def right_inverse(self, value: Tensor) -> Tensor:
        """The parameter whose image is an orthogonal matrix, after a QR decomposition if it isn't one."""
        if value.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got {value.shape}.")
        with rgrad.no_grad():
            q = value.mT if value.size(-2) < value.size(-1) else value
            if not hasattr(self, "base"):
                if self.orthogonal_map is not _OrthMaps.householder:
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley parametrizations with "
                        "use_trivialization=False."
                    )
                return self._packed(q, value)
            rows, columns = q.shape[-2:]
            if rows > columns:
                # A full basis: the base is square, and the map multiplies its first columns.
                random = rgrad.randn((*q.shape[:-1], rows - columns), dtype=q.dtype, device=q.device)
                square = rgrad.cat([q, random], -1)
                full = rgrad.linalg.qr(square).Q
                signs = (full[..., :columns] * q).sum(-2).sign()
                given = full[..., :columns] * signs.unsqueeze(-2)
                # As it is, where it is orthogonal already.
                base = rgrad.cat([q if _is_orthogonal(q) else given, full[..., columns:]], -1)
            else:
                base = q.clone() if _is_orthogonal(q) else _nearest_by_qr(q)
            self.base = base
            # Householder's vectors without tails give a diagonal of -1, so -1 makes the identity; other maps ignore it.
            neutral = rgrad.zeros_like(value)
            neutral.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return neutral

    @staticmethod
    def _packed(q: Tensor, value: Tensor) -> Tensor:
        packed = _to_reflections(q)
        diagonal = packed.diagonal(dim1=-2, dim2=-1)
        # Signs of R's diagonal; 1 at zero, which has no sign.
        diagonal.copy_(rgrad.where(diagonal < 0, -rgrad.ones_like(diagonal), rgrad.ones_like(diagonal)))
        return packed.mT if value.size(-2) < value.size(-1) else packed


def _is_orthogonal(q: Tensor) -> bool:
    """Whether the columns are orthonormal, up to 10 units of the dtype's precision per row."""
    one = rgrad.eye(q.size(-1), dtype=q.dtype, device=q.device)
    return bool(rgrad.allclose(q.mT @ q, one, atol=10 * rgrad.finfo(q.dtype).eps * q.size(-2)))


def _nearest_by_qr(matrix: Tensor) -> Tensor:
    q, r = rgrad.linalg.qr(matrix)
    signs = r.diagonal(dim1=-2, dim2=-1)
    return q * rgrad.where(signs < 0, -rgrad.ones_like(signs), rgrad.ones_like(signs)).unsqueeze(-2)
