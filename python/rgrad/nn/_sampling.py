"""Sampling of images between their pixels."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence

import rgrad
from rgrad import _C
from rgrad.amp.autocast_mode import in_float32

Tensor = _C.Tensor

_ALIGN_WARNING = (
    "Default grid_sample and affine_grid behavior is align_corners=False, by which -1 and 1 are the outer edges of the "
    "border pixels; with align_corners=True they are their centres. Say which is meant."
)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The sampling positions with which :func:`grid_sample` applies affine maps to images.

    Args:
        theta: the maps, ``(N, 2, 3)`` for images or ``(N, 3, 4)`` for volumes.
        size: shape of the result of the sampling, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are the centres of the border pixels, or their outer edges. A single pixel has
            no two border pixels; it is at 0 in both cases.

    Shape:
        Output: ``(N, *spatial, 2 or 3)``.
    """
    if align_corners is None:
        warnings.warn(_ALIGN_WARNING, stacklevel=2)
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    spatial = len(size) - 2
    if spatial not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (spatial, spatial + 1):
        raise ValueError(
            f"Expected a batch of {spatial}D affine matrices of shape Nx{spatial}x{spatial + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "affine_grid with align_corners=True has one position along a dimension of size 1: its middle. See the "
            "documentation of affine_grid for details.",
            stacklevel=2,
        )

    def ticks(n: int) -> Tensor:
        values = rgrad.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device) if n > 1 else theta.new_zeros(1)
        return values if align_corners else values * ((n - 1) / n)

    axes = rgrad.meshgrid(*(ticks(n) for n in size[2:]), indexing="ij")
    # Coordinates go from the last dimension to the first, as (x, y, z), with a 1 for the shift.
    points = rgrad.stack([*reversed(axes), rgrad.ones_like(axes[0])], -1)
    flat = points.view(1, -1, spatial + 1) @ theta.transpose(1, 2)
    return flat.view(size[0], *size[2:], spatial)


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Coordinates reflected at the borders, repeatedly if needed."""
    if high == low:
        return (x * 0).nan_to_num()  # depends on x, with a zero derivative
    span = high - low
    distance = (x - low).abs()
    turns = (distance / span).floor()
    rest = distance - turns * span
    return rgrad.where(turns % 2 == 0, rest + low, high - rest)


# The numbers by which PyTorch's internal operation knows the modes.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def _inside(x: Tensor, n: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Coordinates moved into the image according to the padding mode; unchanged for zeros."""
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        x = _reflected(x, 0, n - 1) if align_corners else _reflected(x, -0.5, n - 0.5)
    return x.clamp(0, n - 1)


def _taps(x: Tensor, mode: str) -> list[tuple[Tensor, Tensor]]:
    """The pixels along one dimension that contribute to a value, with their weights."""
    if mode == "nearest":
        nearest = x.round()
        # A weight of one with a zero derivative, rather than none.
        return [(nearest, (nearest * 0).nan_to_num() + 1)]
    left = x.floor()
    t = x - left
    if mode == "bilinear":
        return [(left, 1 - t), (left + 1, t)]
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((d - 5) * d + 8) * d * a - 4 * a

    return [(left - 1, far(t + 1)), (left, near(t)), (left + 1, near(1 - t)), (left + 2, far(2 - t))]


@in_float32("cpu")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Samples images at given positions.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: positions, ``(N, *output, 2)`` as (x, y) or ``(N, *output, 3)`` as (x, y, z), from -1 to 1.
        mode: ``"bilinear"``, ``"nearest"``, or ``"bicubic"``.
        padding_mode: the values outside of the image: ``"zeros"``, ``"border"`` or ``"reflection"``.
        align_corners: whether -1 and 1 are the centres of the border pixels, or their outer edges.

    Shape:
        Output: ``(N, C, *output)``.
    """
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(_ALIGN_WARNING, stacklevel=2)
        align_corners = False
    _check_grid(input, grid)
    if input.dtype in (rgrad.float16, rgrad.bfloat16):
        # One rounding at the end, rather than one per step.
        return grid_sample(input.float(), grid.float(), mode, padding_mode, align_corners).to(input.dtype)
    spatial = input.dim() - 2
    sizes = input.shape[2:]
    per_dimension = []
    for dim, n in enumerate(sizes):
        x = grid[..., spatial - 1 - dim]
        x = (x + 1) / 2 * (n - 1) if align_corners else ((x + 1) * n - 1) / 2
        if mode == "bicubic":
            per_dimension.append([(_inside(i, n, padding_mode, align_corners), w) for i, w in _taps(x, mode)])
        else:
            per_dimension.append(_taps(_inside(x, n, padding_mode, align_corners), mode))
    places, weights = [], []
    for taps in itertools.product(*per_dimension):
        place = rgrad.zeros(grid.shape[:-1], dtype=rgrad.int64, device=grid.device)
        weight = rgrad.ones_like(grid[..., 0])
        for (index, part), n in zip(taps, sizes, strict=True):
            # Pixels outside of the image are zero.
            weight = weight * part * ((index >= 0) & (index <= n - 1))
            # A position that is no number has a weight that is none, at any pixel.
            place = place * n + index.detach().nan_to_num(0).clamp(0, n - 1).to(rgrad.int64)
        places.append(place)
        weights.append(weight)
    return _weighted_pixels(input, places, weights)


# From so many channels on, the pixels of all channels are read together.
_MANY_CHANNELS = 8


def _weighted_pixels(input: Tensor, places: list[Tensor], weights: list[Tensor]) -> Tensor:
    """The sums of pixels at `places`, positions in a flat image, each times its weight, for all channels."""
    flat, output = input.flatten(2), places[0].shape[1:]
    count, channels, pixels = flat.shape
    if channels < _MANY_CHANNELS:
        result = input.new_zeros((count, channels, math.prod(output)))
        for place, weight in zip(places, weights, strict=True):
            read = flat.gather(2, place.flatten(1).unsqueeze(1).expand(-1, channels, -1))
            result = result + read * weight.flatten(1).unsqueeze(1)
    else:
        first = rgrad.arange(count, device=input.device).view(-1, 1) * pixels
        table = flat.transpose(1, 2).reshape(-1, channels)
        index = rgrad.stack([(place.flatten(1) + first).flatten() for place in places], -1)
        result = _C._nn.bag_sums(table, index, rgrad.stack([weight.flatten() for weight in weights], -1))
        result = result.view(count, math.prod(output), channels).transpose(1, 2)
    return result.reshape(count, channels, *output)


def _check_grid(input: Tensor, grid: Tensor) -> None:
    sizes = f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.size(0) != grid.size(0):
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {sizes}")
    if grid.size(-1) != input.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.dim() - 2} in last dimension, but got grid with "
            f"sizes {list(grid.shape)}"
        )
    for dim in range(2, input.dim()):
        if input.size(dim) == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {dim} being empty"
            )
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        expected = 4 if input.dim() == 4 else 5
        raise RuntimeError(
            f"grid_sampler(): expected {expected}D input and grid with same number of dimensions, {sizes}"
        )
    found, wanted = (t.type().rpartition(".")[2].removesuffix("Tensor") for t in (grid, input))
    if not input.is_floating_point():
        kernel = "grid_sampler_2d_cpu_kernel_impl" if input.dim() == 4 else "grid_sampler3d_cpu"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{wanted}'")
    if grid.dtype != input.dtype:
        raise RuntimeError(f"expected scalar type {wanted} but found {found}")
