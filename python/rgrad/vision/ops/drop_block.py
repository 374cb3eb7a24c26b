"""Dropout of squares (Ghiasi et al., 2018)."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import Tensor, nn

__all__ = ["DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d"]


def _drop_blocks(input: Tensor, p: float, block_size: int, inplace: bool, eps: float, training: bool) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    if not training or p == 0.0:
        return input
    sizes = list(input.shape[2:])
    edge = min(block_size, *sizes)
    if edge % 2 == 0:
        raise ValueError(f"block size should be odd. Got {edge} which is even.")
    starts = [size - edge + 1 for size in sizes]
    # A pixel is dropped by any block around it, so fewer blocks begin than pixels are to be dropped.
    chance = p
    for size, start in zip(sizes, starts, strict=True):
        chance *= size / (edge * start)
    shape: Any = (*input.shape[:2], *starts)
    noise = rgrad.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(chance)
    noise = nn.functional.pad(noise, [edge // 2] * (2 * len(sizes)), value=0)
    pool: Any = nn.functional.max_pool2d if len(sizes) == 2 else nn.functional.max_pool3d
    kept = 1 - pool(noise, stride=1, kernel_size=edge, padding=edge // 2)
    factor = kept * (kept.numel() / (eps + kept.sum()))
    return input.mul_(factor) if inplace else input * factor


def drop_block2d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6, training: bool = True
) -> Tensor:
    """Zeroes squares of pixels at random, in each channel, and scales the others.

    Args:
        input: of shape (N, C, H, W).
        p: the share of pixels that are zeroed.
        block_size: edge of a square, odd.
        inplace: whether the input is overwritten.
        eps: added to the number of pixels that remain, by which the scale is divided.
        training: whether anything is done.
    """
    if input.dim() != 4:
        raise ValueError(f"input should be 4 dimensional. Got {input.dim()} dimensions.")
    return _drop_blocks(input, p, block_size, inplace, eps, training)


def drop_block3d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6, training: bool = True
) -> Tensor:
    """As `drop_block2d`, of cubes of (N, C, D, H, W)."""
    if input.dim() != 5:
        raise ValueError(f"input should be 5 dimensional. Got {input.dim()} dimensions.")
    return _drop_blocks(input, p, block_size, inplace, eps, training)


class DropBlock2d(nn.Module):
    """`drop_block2d` as a module, which acts in training only; the arguments are its."""

    def __init__(self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input: Tensor) -> Tensor:
        """Drops squares of (N, C, H, W)."""
        return drop_block2d(input, self.p, self.block_size, self.inplace, self.eps, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, block_size={self.block_size}, inplace={self.inplace})"


class DropBlock3d(DropBlock2d):
    """`drop_block3d` as a module."""

    def forward(self, input: Tensor) -> Tensor:
        """Drops cubes of (N, C, D, H, W)."""
        return drop_block3d(input, self.p, self.block_size, self.inplace, self.eps, self.training)
