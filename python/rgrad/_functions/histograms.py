"""Histograms of one and of several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import element_type, write_exactly

Tensor = _C.Tensor

_NAME = "torch.histogramdd"


def _even_edges(points: Tensor, counts: list[int], range: Sequence[float] | None) -> list[Tensor]:
    """The edges of bins of equal width between the given bounds, or between the least and the greatest values."""
    made = list[Tensor]()
    for place, count in enumerate(counts):
        if count <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {place}")
        if range is not None:
            low, high = float(range[2 * place]), float(range[2 * place + 1])
        elif len(points):
            low, high = float(points[:, place].min()), float(points[:, place].max())
        else:
            low, high = 0.0, 1.0
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"{_NAME}: dimension {place}'s range [{low:g}, {high:g}] is not finite")
        if low > high:
            raise RuntimeError(
                f"{_NAME}: min should not exceed max, but got min {low:g} max {high:g} for dimension {place}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        made.append(rgrad.linspace(low, high, count + 1, dtype=points.dtype, device=points.device))
    return made


def _check(points: Tensor, shape: Sequence[int], edges: Sequence[Tensor], weight: Tensor | None) -> None:
    if points.dtype not in (rgrad.float32, rgrad.float64):
        kind = points.type().rpartition(".")[2].removesuffix("Tensor")
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{kind}'")
    for place, edge in enumerate(edges):
        if edge.dtype != points.dtype:
            raise RuntimeError(
                f"{_NAME}: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{element_type(points)} and bins for dimension {place} with dtype {element_type(edge)}"
            )
        if edge.dim() != 1:
            raise RuntimeError(
                f"{_NAME}: bins tensor should have one dimension, but got {edge.dim()} dimensions in the bins tensor "
                f"for dimension {place}"
            )
        if len(edge) == 0:
            raise RuntimeError(
                f"{_NAME}: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for "
                f"dimension {place}"
            )
        if len(edge) < 2:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got 0 for dimension {place}")
    if weight is None:
        return
    if weight.dtype != points.dtype:
        raise RuntimeError(
            f"{_NAME}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but "
            f"got input({element_type(points)}), and weight({element_type(weight)})"
        )
    if list(weight.shape) != list(shape):
        raise RuntimeError(
            f"{_NAME}: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {[*shape, points.shape[-1]]} and weight with shape "
            f"{list(weight.shape)}"
        )


def _count(points: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """Counts points (N, D), or sums their weights, in the boxes between edges."""
    if not edges:
        # Points without coordinates lie in no box: the sum over none of them, which has no density.
        return points.new_tensor(math.nan if density else 0.0)
    sizes = [len(edge) - 1 for edge in edges]
    inside = rgrad.ones(len(points), dtype=rgrad.bool, device=points.device)
    flat = rgrad.zeros(len(points), dtype=rgrad.int64, device=points.device)
    for place, edge in enumerate(edges):
        values = points[:, place].detach().contiguous()
        inside = inside & (values >= edge[0]) & (values <= edge[-1])
        # The last bin has both of its edges.
        found = rgrad.searchsorted(edge.contiguous(), values, right=True) - 1
        flat = flat * sizes[place] + found.clamp(0, sizes[place] - 1)
    amounts = rgrad.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    made = points.new_zeros(math.prod(sizes)).index_add(0, flat[inside], amounts[inside]).reshape(sizes)
    if density:
        made = made / made.sum()
        for place, edge in enumerate(edges):
            shape = [1] * len(sizes)
            shape[place] = -1
            made = made / edge.diff().reshape(shape)
    return made


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """Counts how many values lie in each bin.

    Args:
        input: the values, of any shape, of float32 or float64.
        bins: how many bins of equal width, or their edges, which rise.
        range: the outer edges if `bins` is a number; by default the least and the greatest value.
        weight: what each value counts, of the shape of `input`.
        density: whether the result is divided by its sum and the widths of the bins.
        out: two tensors for the results.

    Returns:
        `hist`, of one element per bin, and `bin_edges`, of one more. A bin has its left edge, the last one both.

    >>> import rgrad
    >>> rgrad.histogram(rgrad.tensor([1.0, 2.0, 1.0]), 2).hist
    tensor([2., 1.])
    """
    from rgrad.return_types import histogram as result

    points = input.reshape(-1, 1)
    if isinstance(bins, Tensor):
        if range is not None:
            raise TypeError("histogram() received an invalid combination of arguments: a range and the edges of bins")
        edges = [bins]
    else:
        _check(points, [len(points)], [], None)
        edges = _even_edges(points, [bins], range)
    flat = None if weight is None else weight.reshape(-1)
    _check(points, [len(points)], edges, flat)
    if out is not None:
        for name, target, where in zip(("hist", "bin_edges"), out, ("", " for dimension 0"), strict=True):
            if target.dtype != points.dtype:
                raise RuntimeError(
                    f"torch.histogram: input tensor and {name} tensor should have the same dtype, but got input "
                    f"{element_type(points)} and {name} {element_type(target)}{where}"
                )
    made = (_count(points, edges, flat, density), edges[0])
    if out is not None:
        made = tuple(write_exactly("histogram", value, target) for value, target in zip(made, out, strict=True))
    return result(made)


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts how many points lie in each box of a grid.

    Args:
        input: points, (..., D), of float32 or float64.
        bins: how many bins of equal width, for all dimensions or for each, or the edges for each.
        range: 2 D numbers, the outer edges if `bins` are numbers; by default the least and the greatest coordinates.
        weight: what each point counts, (...).
        density: whether the result is divided by its sum and the volumes of the boxes.

    Returns:
        `hist`, of D dimensions, and `bin_edges`, a tuple of D vectors.
    """
    from rgrad.return_types import histogramdd as result

    if input.dim() < 2:
        raise RuntimeError(f"{_NAME}: input tensor should have at least 2 dimensions")
    size = input.size(-1)
    counts: list[Any] = [bins] * size if isinstance(bins, int) else list(bins)
    if len(counts) != size:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * size:
        raise RuntimeError(f"{_NAME}: for a {size}-dimensional histogram range should have {2 * size} elements")
    points = input.reshape(math.prod(input.shape[:-1]), size)
    if all(isinstance(c, Tensor) for c in counts):
        edges = counts
    else:
        _check(points, input.shape[:-1], [], None)
        edges = _even_edges(points, counts, range)
    _check(points, input.shape[:-1], edges, weight)
    return result((_count(points, edges, weight, density), tuple(edges)))
