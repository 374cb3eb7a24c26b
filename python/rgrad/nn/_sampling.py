"""Sampling of images between their pixels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import rgrad
from rgrad import _C

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


# The numbers by which PyTorch's internal operation knows the modes.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


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
    modes = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    return _C.grid_sampler(input, grid, *modes, align_corners)
