"""Joining and splitting dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rgrad import _C

from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins dimensions into one.

    Args:
        start_dim: first dimension to join; 1 keeps the batch.
        end_dim: last dimension to join.

    Shape:
        Input: ``(*, S_start, ..., S_end, *)``. Output: ``(*, S_start * ... * S_end, *)``.

    Example:
        >>> rgrad.nn.Flatten()(rgrad.zeros(32, 1, 28, 28)).shape
        torch.Size([32, 784])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several.

    Args:
        dim: the dimension to split.
        unflattened_size: sizes of the new dimensions; one may be -1.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size: Any = unflattened_size

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
