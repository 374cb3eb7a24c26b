"""Dropout. In evaluation these modules return their input."""

from __future__ import annotations

from rgrad import _C

from .. import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements at random in training, and scales the others so that the expected value does not change.

    Args:
        p: probability of an element to be zeroed.
        inplace: whether to overwrite the input.

    Shape:
        Input and output: any shape.

    Example:
        >>> rgrad.nn.Dropout(0.2).eval()(rgrad.ones(3))
        tensor([1., 1., 1.])
    """

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of ``(N, C, L)`` or ``(C, L)`` in training, and divides the others by ``1 - p``.

    Args:
        p: probability of zeroing a channel, between 0 and 1.
        inplace: whether to write to the input.
    """

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of ``(N, C, H, W)`` in training, and divides the others by ``1 - p``.

    Args:
        p: probability of zeroing a channel, between 0 and 1.
        inplace: whether to write to the input.
    """

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` in training; others are divided by ``1 - p``.

    Args:
        p: probability of zeroing a channel, between 0 and 1.
        inplace: whether to write to the input.
    """

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout for SELU networks: it keeps mean 0 and variance 1.

    Args:
        p: probability of zeroing an element, between 0 and 1.
        inplace: whether to write to the input.
    """

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """:class:`AlphaDropout` of whole channels.

    Args:
        p: probability of zeroing a channel, between 0 and 1.
        inplace: whether to write to the input.
    """

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
