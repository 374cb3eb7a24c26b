"""What the loops share: the steps that a dimension of some tensors is taken apart into."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import Tensor


def dim_of(leaves: list[Any], dim: int) -> int:
    """The dimension counted from the front, which every tensor has to have with one size."""
    rank = leaves[0].dim()
    for x in leaves:
        if not -x.dim() <= dim < x.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-x.dim()}, {x.dim() - 1}], but got {dim})"
            )
    at = dim % rank
    sizes = [x.shape[at] if at < x.dim() else 0 for x in leaves]
    if len(set(sizes)) != 1:
        raise ValueError(f"Expected all tensors to have the same size in dimension {at}, got sizes {sizes}")
    return at


def slices_of(leaves: list[Tensor], dim: int, reverse: bool) -> list[list[Tensor]]:
    """For every index of the dimension, the tensors' slices, in the order of the loop."""
    steps = [list(step) for step in zip(*(x.unbind(dim) for x in leaves), strict=True)]
    return steps[::-1] if reverse else steps


def join(steps: list[list[Any]], dim: int, reverse: bool) -> list[Tensor]:
    """The tensors that have these slices, which come in the order of the loop."""
    ordered = steps[::-1] if reverse else steps
    return [rgrad.stack(column, dim) for column in zip(*ordered, strict=True)]
