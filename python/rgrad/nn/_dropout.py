"""Dropout of whole channels, and dropout for self-normalizing networks."""

from __future__ import annotations

import math
import warnings

import rgrad
from rgrad import _C

Tensor = _C.Tensor


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _feature_mask(input: Tensor, p: float, batched: bool) -> Tensor:
    """A random mask of the channels to keep (1) or drop (0), in a shape that broadcasts."""
    kept = input.shape[:2] if batched else input.shape[:1]
    shape = (*kept, *(1 for _ in range(input.dim() - len(kept))))
    return _kept(rgrad.empty(shape, dtype=input.dtype, device=input.device), p)


def _kept(like: Tensor, p: float) -> Tensor:
    """Which elements are kept (1) and which dropped (0), drawn into a new tensor, or in `vmap` beside it."""
    if _C._vmap_levels():
        return rgrad.bernoulli(rgrad.full(like.shape, 1 - p, dtype=like.dtype, device=like.device))
    return like.bernoulli_(1 - p)


def _feature_dropout(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    scale = _feature_mask(input, p, batched)
    if p < 1:
        scale = scale / (1 - p)
    return input.mul_(scale) if inplace else input * scale


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of sequences, each with probability ``p``.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``, of a floating point dtype.
        p: probability of zeroing a channel, between 0 and 1.
        training: whether to drop anything.
        inplace: whether to write to the input.

    Returns:
        A tensor of the input's shape and dtype; channels that are kept are divided by ``1 - p``.

    Raises:
        ValueError: the probability is out of its range.
        RuntimeError: the input has another number of dimensions.
    """
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input: it zeroes channels of (C, L) or "
            "(N, C, L)."
        )
    return _feature_dropout(input, p, training, inplace, batched=input.dim() == 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of images, each with probability ``p``.

    Args:
        input: ``(N, C, H, W)``, of a floating point dtype.
        p: probability of zeroing a channel, between 0 and 1.
        training: whether to drop anything.
        inplace: whether to write to the input.

    Returns:
        A tensor of the input's shape and dtype; channels that are kept are divided by ``1 - p``.

    Raises:
        ValueError: the probability is out of its range.
    """
    _check_probability(p)
    if input.dim() < 2 and training:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated: it zeroes channels of "
            "(N, C, H, W). `dropout` zeroes elements of any shape.",
            stacklevel=2,
        )
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "for (N, C, L), not for (C, H, W): `dropout1d` is the function for that.",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace, batched=True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of volumes, each with probability ``p``.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``, of a floating point dtype.
        p: probability of zeroing a channel, between 0 and 1.
        training: whether to drop anything.
        inplace: whether to write to the input.

    Returns:
        A tensor of the input's shape and dtype; channels that are kept are divided by ``1 - p``.

    Raises:
        ValueError: the probability is out of its range.
    """
    _check_probability(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated: it zeroes channels of "
            "(C, D, H, W) or (N, C, D, H, W). `dropout` zeroes elements of any shape.",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace, batched=input.dim() != 4)


# The negated limit of SELU for large negative inputs: its scale times its alpha.
_SELU_FLOOR = 1.7580993408473766


def _alpha_dropout(input: Tensor, p: float, kept: Tensor, inplace: bool) -> Tensor:
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SELU_FLOOR**2))
    shift = (kept - 1) * (_SELU_FLOOR * scale) + p * scale * _SELU_FLOOR
    return input.mul_(kept * scale).add_(shift) if inplace else input * (kept * scale) + shift


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for SELU networks: it keeps mean 0 and variance 1."""
    _check_probability(p)
    if not training or p == 0:
        return input
    return _alpha_dropout(input, p, _kept(rgrad.empty_like(input), p), inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels."""
    _check_probability(p)
    if not training or p == 0:
        return input
    return _alpha_dropout(input, p, _feature_mask(input, p, batched=True), inplace)
