"""Padding by the core; where a dimension is cropped or empty, elements of the input are gathered."""

from __future__ import annotations

from collections.abc import Sequence

import rgrad
from rgrad import _C

from ._windows import is_channels_last

Tensor = _C.Tensor
_nn = _C._nn


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Adds elements around ``input``.

    Args:
        input: the tensor.
        pad: how many elements before and after, of the last dimension first; negative numbers crop.
        mode: ``'constant'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.
        value: the constant, 0 by default.

    Example:
        >>> rgrad.nn.functional.pad(rgrad.ones(1, 2), (1, 0))
        tensor([[0., 1., 1.]])
    """
    if mode == "constant":
        return _nn.pad(input, pad, mode, value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    spatial = len(pad) // 2
    if len(pad) not in (2, 4, 6) or input.dim() not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.dim()}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if any(pad) and min(pad) >= 0 and 0 not in input.shape:
        return _nn.pad_edges(input, pad, mode)
    _check_sizes(input, pad, mode)
    # With the channels moved to the end, result and gradient have the input's order in memory.
    moved = mode != "circular" and is_channels_last(input)
    result = input.movedim(1, -1) if moved else input
    if not any(pad):
        result = result.clone(memory_format=rgrad.contiguous_format)
    for place in range(spatial):
        dim = input.dim() - 1 - place
        before, after = pad[2 * place], pad[2 * place + 1]
        _check_reach(input, dim, before, after, mode)
        # The channels are the last dimension now, and what followed them is one place earlier.
        at = dim if not moved or dim == 0 else input.dim() - 1 if dim == 1 else dim - 1
        result = _pad_dimension(result, at, before, after, mode)
    return result.movedim(-1, 1) if moved else result


def _check_sizes(input: Tensor, pad: Sequence[int], mode: str) -> None:
    """Refuses inputs without elements but for an empty batch, and results without elements along a dimension."""
    spatial = len(pad) // 2
    batched = input.dim() == spatial + 2
    if mode != "circular" and 0 in input.shape[batched:]:
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor in which no dimension but the batch "
            f"has size 0, but got: {list(input.shape)}"
        )
    before = input.shape[-spatial:]
    after = [n + pad[-2 * d - 2] + pad[-2 * d - 1] for d, n in enumerate(before)]
    if mode == "circular":
        if min(after) < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    elif min(after) < 1:
        old, new = (
            [f"{name}: {n}" for name, n in zip("DHW"[-spatial:], sizes, strict=True)] for sizes in (before, after)
        )
        if spatial == 1:
            raise RuntimeError(f"input ({old[0]}) is too small. Calculated output {new[0]}")
        raise RuntimeError(
            f"Calculated output {' '.join(new)} must be >= 1 in every dimension (input {', '.join(old)})"
        )


def _check_reach(input: Tensor, dim: int, before: int, after: int, mode: str) -> None:
    """Refuses padding for which a dimension has too few elements."""
    size = input.size(dim)
    if mode == "reflect" and (before or after) and max(before, after) >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: "
            "padding "
            f"({before}, {after}) at dimension {dim} of input {list(input.shape)}"
        )
    if mode == "circular" and max(before, after) > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")


def _pad_dimension(input: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    if before == 0 and after == 0:
        return input
    size = input.size(dim)
    place = rgrad.arange(-before, size + after, device=input.device)
    # Crop first: circular padding repeats the remaining elements.
    first, last = max(-before, 0), size - max(-after, 0)
    if mode == "reflect":
        place = (size - 1) - ((size - 1) - place.abs()).abs()
    elif mode == "replicate":
        place = place.clamp(0, size - 1)
    else:
        place = (place - first).remainder(last - first) + first
    return input.index_select(dim, place)
