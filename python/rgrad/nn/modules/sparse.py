"""Lookup tables."""

from __future__ import annotations

from typing import Any, Self

import rgrad
from rgrad import _C

from .. import _core, init
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]

_embedding = _core.embedding


class Embedding(Module):
    """Looks up one learned vector per index.

    Args:
        num_embeddings: number of vectors.
        embedding_dim: size of a vector.
        padding_idx: index whose vector is initially zero and gets no gradient.
        max_norm: vectors with a larger norm are scaled down to it when used.
        norm_type: degree of that norm.
        scale_grad_by_freq: whether gradients are divided by how often the index occurs in the batch.
        sparse: whether the gradient is sparse.

    Shape:
        Input: integers of any shape ``(*)``. Output: ``(*, embedding_dim)``.

    Attributes:
        weight: shape ``(num_embeddings, embedding_dim)``, from N(0, 1).

    Example:
        >>> table = rgrad.nn.Embedding(10, 3)
        >>> table(rgrad.tensor([[1, 2], [4, 9]])).shape
        torch.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: _C.Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            values = rgrad.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(values, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != shape:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with rgrad.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return _embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: _C.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Creates a table from given vectors.

        Args:
            embeddings: the vectors, shape ``(num_embeddings, embedding_dim)``.
            freeze: whether the vectors are not trained.
            padding_idx: as for the constructor, like the arguments after it.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse:
            text += ", sparse=True"
        return text


class EmbeddingBag(Module):
    """Looks up vectors and reduces those of each bag to one.

    Args:
        num_embeddings: number of vectors.
        embedding_dim: size of a vector.
        max_norm: vectors with a larger norm are scaled down to it when used.
        norm_type: degree of that norm.
        scale_grad_by_freq: whether gradients are divided by how often the index occurs in the batch.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: accepted; the gradient is dense.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: index whose vector is left out of the reduction.

    Shape:
        Input: integers ``(bags, length)``, or a vector with offsets. Output: ``(bags, embedding_dim)``.

    Example:
        >>> bags = rgrad.nn.EmbeddingBag(10, 3, mode="sum")
        >>> bags(rgrad.tensor([1, 2, 4, 5, 4]), rgrad.tensor([0, 3])).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: _C.Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            self.weight = Parameter(rgrad.empty(shape, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != shape:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with rgrad.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(
        self,
        input: _C.Tensor,
        offsets: _C.Tensor | None = None,
        per_sample_weights: _C.Tensor | None = None,
    ) -> _C.Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: _C.Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Creates a table from given vectors; further arguments are those of the constructor."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        bags = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bags.weight.requires_grad = not freeze
        return bags

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text
