"""Functions that exchange channels with each other or with pixels."""

from __future__ import annotations

import math

from rgrad import _C

from ._windows import laid_like

Tensor = _C.Tensor


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearranges ``(*, C * r**2, H, W)`` into ``(*, C, H * r, W * r)``.

    Args:
        input: at least three-dimensional, of any dtype.
        upscale_factor: r.

    Raises:
        RuntimeError: the channels are no multiple of ``r**2``.

    >>> rgrad.nn.functional.pixel_shuffle(rgrad.zeros(1, 8, 2, 3), 2).shape
    torch.Size([1, 2, 4, 6])
    """
    factor = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {factor}")
    *batch, channels, height, width = input.shape
    if channels % factor**2 != 0:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={channels} is not divisible by {factor**2}"
        )
    split = input.reshape(math.prod(batch), channels // factor**2, factor, factor, height, width)
    shape = (*batch, channels // factor**2, height * factor, width * factor)
    return laid_like(split.permute(0, 1, 4, 2, 5, 3).reshape(shape), input)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Undoes :func:`pixel_shuffle`: rearranges ``(*, C, H * r, W * r)`` into ``(*, C * r**2, H, W)``.

    Args:
        input: at least three-dimensional, of any dtype.
        downscale_factor: r.

    Raises:
        RuntimeError: height or width is no multiple of r.
    """
    factor = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {factor}")
    *batch, channels, height, width = input.shape
    for name, at, size in (("height", -2, height), ("width", -1, width)):
        if size % factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({at})={size} "
                f"is not divisible by {factor}"
            )
    split = input.reshape(math.prod(batch), channels, height // factor, factor, width // factor, factor)
    shape = (*batch, channels * factor**2, height // factor, width // factor)
    return laid_like(split.permute(0, 1, 3, 5, 2, 4).reshape(shape), input)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves the channels of ``groups`` groups.

    Args:
        input: ``(N, C, *)``, of any dtype.
        groups: a divisor of C.

    Raises:
        RuntimeError: the channels are no multiple of the groups.

    >>> rgrad.nn.functional.channel_shuffle(rgrad.arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if input.size(1) % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.size(1)} channels and {groups} groups."
        )
    split = input.reshape(input.size(0), groups, input.size(1) // groups, *input.shape[2:])
    return laid_like(split.transpose(1, 2).reshape(input.shape), input)
