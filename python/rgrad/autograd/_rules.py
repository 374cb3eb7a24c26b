"""Functions of this package with the rules by which `vmap` calls them once for all slices."""

from __future__ import annotations

from typing import Any

from rgrad._C import Tensor

from .function import Function

__all__ = ["Elementwise", "OfMatrices"]


class _Ranked(Function):
    """A function of tensors that may have more dimensions in front."""

    @staticmethod
    def aligned(t: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
        """A whole tensor with the mapped dimension in front of slices of at least this rank.

        Args:
            t: the tensor.
            dim: its mapped dimension; None if all slices share it.
            size: the number of slices.
            rank: the rank.
        """
        raise NotImplementedError

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:  # type: ignore[override]
        """Calls the function with whole tensors."""
        tensors = [(t, d) for t, d in zip(args, in_dims, strict=True) if isinstance(t, Tensor)]
        rank = max(t.dim() - (d is not None) for t, d in tensors)
        made = cls.apply(
            *(
                cls.aligned(t, d, info.batch_size, rank) if isinstance(t, Tensor) else t
                for t, d in zip(args, in_dims, strict=True)
            )
        )
        if not isinstance(made, tuple):
            return made, 0
        # What the function leaves out is an empty tensor.
        return made, tuple(None if o.shape == (0,) else 0 for o in made)


class Elementwise(_Ranked):
    """A function that computes each element of tensors that broadcast by itself."""

    @staticmethod
    def aligned(t: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
        """With dimensions of size 1 between the mapped one and its own."""
        if dim is None:
            return t
        whole = t.movedim(dim, 0)
        return whole[(slice(None), *[None] * (rank + 1 - whole.dim()))]


class OfMatrices(_Ranked):
    """A function of matrices, of which tensors hold any number in their other dimensions, the same for all tensors."""

    @staticmethod
    def aligned(t: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
        """Also of what all slices share, once for each."""
        return t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0)
