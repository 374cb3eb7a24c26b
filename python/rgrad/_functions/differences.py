"""Numerical derivatives of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C

Tensor = _C.Tensor


def _slopes(y: Tensor, dim: int, before: Tensor, after: Tensor) -> Tensor:
    """Derivatives of the parabolas through three points each, at the middle ones.

    Args:
        y: samples.
        dim: the dimension of y in which they follow each other.
        before: distances of the middle points from the first ones.
        after: distances of the last points from the middle ones.
    """
    count = y.size(dim) - 2
    first, middle, last = (y.narrow(dim, i, count) for i in range(3))
    whole = before + after
    share = (after - before) / (before * after)
    return last * (before / (after * whole)) + middle * share - first * (after / (before * whole))


def _edge(points: list[Tensor], near: Tensor, far: Tensor) -> Tensor:
    """The derivative of the parabola through three points at the first of them; the distances follow the points."""
    whole = near + far
    middle, last = points[1] * (whole / (near * far)), points[2] * (near / (far * whole))
    return middle - last - points[0] * ((near + whole) / (near * whole))


def _along(y: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    n = y.size(dim)
    shape = [1] * y.dim()
    shape[dim] = -1
    even = not isinstance(spacing, Tensor) or spacing.dim() == 0
    steps = (y.new_ones(n - 1) * spacing if even else spacing.diff()).reshape(shape)

    def step(place: int) -> Tensor:
        return steps.select(dim, place).unsqueeze(dim)

    if n == 2:
        inside = y.narrow(dim, 0, 0)
    elif even:
        inside = (y.narrow(dim, 2, n - 2) - y.narrow(dim, 0, n - 2)) / (2 * spacing)
    else:
        inside = _slopes(y, dim, steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2))
    if edge_order == 1:
        ends = [(y.narrow(dim, i + 1, 1) - y.narrow(dim, i, 1)) / step(i) for i in (0, n - 2)]
    else:
        first = [y.narrow(dim, i, 1) for i in range(3)]
        last = [y.narrow(dim, n - 1 - i, 1) for i in range(3)]
        ends = [_edge(first, step(0), step(1)), -_edge(last, step(n - 2), step(n - 3))]
    return rgrad.cat([ends[0], inside, ends[1]], dim)


def _dims(input: Tensor, dim: Any) -> list[int]:
    if dim is None:
        return list(range(input.dim()))
    found = list[int]()
    for d in [dim] if isinstance(dim, int) else dim:
        if not -input.dim() <= d < input.dim():
            bounds = f"[{-input.dim()}, {input.dim() - 1}]"
            raise IndexError(f"Dimension out of range (expected to be in range of {bounds}, but got {d})")
        if d % input.dim() in found:
            raise RuntimeError(f"dim {d % input.dim()} appears multiple times in the list of dims")
        found.append(d % input.dim())
    return found


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimates the derivatives of a function from its values on a grid, by parabolas through neighbours.

    Args:
        input: the values, of any shape; not of uint8.
        spacing: the distance of neighbours, a number for all dimensions or one for each, or the coordinates in each
            dimension, a list of vectors.
        dim: the dimensions; all of them if None.
        edge_order: 1 for differences at the edges, 2 for parabolas there too.

    Returns:
        For each dimension a tensor of the shape of `input`.

    >>> import rgrad
    >>> rgrad.gradient(rgrad.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    dims = _dims(input, dim)
    spacing = 1 if spacing is None else spacing
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.dtype == rgrad.uint8:
        raise NotImplementedError("torch.gradient does not support uint8 input.")
    single = isinstance(spacing, (int, float, Tensor))
    spacings: list[Any] = [spacing] * len(dims) if single else list(spacing)  # pyright: ignore[reportArgumentType]
    if len(spacings) != len(dims):
        given = "dim argument was not given" if dim is None else "dim argument was given"
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"{len(dims)}, since {given}, but got a list of length {len(spacings)}"
        )
    for d, distance in zip(dims, spacings, strict=True):
        if input.size(d) <= edge_order:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
        if isinstance(distance, Tensor) and distance.dim() and list(distance.shape) != [input.size(d)]:
            raise RuntimeError(
                f"torch.gradient expected coordinates of shape [{input.size(d)}] for dimension {d}, but got "
                f"{list(distance.shape)}"
            )
    return tuple(_along(input, d, h, edge_order) for d, h in zip(dims, spacings, strict=True))
