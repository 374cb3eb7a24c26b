"""Distances between vectors."""

from __future__ import annotations

from rgrad import _C

from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps``.

    Shape:
        Inputs: ``(N, D)`` or ``(D,)``. Output: ``(N,)`` or ``()``; with ``keepdim`` a last dimension of size
        1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: _C.Tensor, x2: _C.Tensor) -> _C.Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between ``x1`` and ``x2`` along ``dim``.

    Shape:
        Inputs: any two that broadcast. Output: the same without ``dim``.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: _C.Tensor, x2: _C.Tensor) -> _C.Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
