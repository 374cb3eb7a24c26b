"""Sliding windows as columns, and back."""

from __future__ import annotations

from typing import Any

from rgrad import _C

from .. import functional as F
from .module import Module

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """Arranges the windows of an image as columns.

    Args:
        kernel_size: size of a window, one number or a pair.
        dilation: distance between the elements of a window.
        padding: zeros added on all sides.
        stride: distance between windows.

    Shape:
        Input: ``(N, C, H, W)`` or without N. Output: ``(N, C * kernel elements, windows)``.
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Sums windows back into an image of ``output_size``; the other arguments are those of :class:`Unfold`."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
