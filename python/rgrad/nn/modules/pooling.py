"""Pooling."""

from collections.abc import Callable
from typing import Any

from rgrad import _C

from .. import _core
from .. import functional as F
from .module import Module
from .utils import _single

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


class _MaxPoolNd(Module):
    _operation: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: _C.Tensor) -> Any:
        return self._operation(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Takes the largest value of each window; the arguments are those of :class:`MaxPool2d`.

    Shape:
        Input: ``(N, C, L)`` or ``(C, L)``.
    """

    _operation = staticmethod(_core.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Takes the largest value of each window.

    Args:
        kernel_size: size of the window, one number or a pair.
        stride: step of the window; its size by default.
        padding: how many elements of minus infinity are added on all sides.
        dilation: distance between the window's elements.
        return_indices: whether to also return the indices of the largest values.
        ceil_mode: whether windows that extend past the edge are included.

    Shape:
        Input: ``(N, C, H, W)`` or ``(C, H, W)``. Output: the same with ``H_out``, ``W_out``.

    Example:
        >>> rgrad.nn.MaxPool2d(2)(rgrad.zeros(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    _operation = staticmethod(_core.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Takes the largest value of each window; the arguments are those of :class:`MaxPool2d`.

    Shape:
        Input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    """

    _operation = staticmethod(_core.max_pool3d)


class AvgPool1d(Module):
    """Takes the mean of each window; the arguments are those of :class:`AvgPool2d`.

    Shape:
        Input: ``(N, C, L)`` or ``(C, L)``.
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    _operation: Callable[..., _C.Tensor]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    """Takes the mean of each window.

    Args:
        kernel_size: size of the window, one number or a pair.
        stride: step of the window; its size by default.
        padding: how many zeros are added on all sides.
        ceil_mode: whether windows that extend past the edge are included.
        count_include_pad: whether the added zeros are included in the number of elements.
        divisor_override: divides the sums, instead of the number of elements.

    Shape:
        Input: ``(N, C, H, W)`` or ``(C, H, W)``. Output: the same with ``H_out``, ``W_out``.
    """

    _operation = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """Takes the mean of each window; the arguments are those of :class:`AvgPool2d`.

    Shape:
        Input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    """

    _operation = staticmethod(F.avg_pool3d)


class _AdaptiveAvgPoolNd(Module):
    _operation: Callable[..., _C.Tensor]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Takes means over windows chosen so that the output has ``output_size`` elements."""

    _operation = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Takes means over windows chosen so that the output has the given size.

    Args:
        output_size: ``H_out`` and ``W_out``, one number or a pair; None keeps the input's size.

    Shape:
        Input: ``(N, C, H, W)`` or ``(C, H, W)``. Output: the same with ``H_out``, ``W_out``.
    """

    _operation = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Takes means over windows chosen so that the output has the given size."""

    _operation = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(Module):
    _operation: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: _C.Tensor) -> Any:
        return self._operation(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Takes the largest values of windows chosen so that the output has ``output_size`` elements."""

    _operation = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Takes the largest values of windows chosen so that the output has the given size."""

    _operation = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Takes the largest values of windows chosen so that the output has the given size."""

    _operation = staticmethod(F.adaptive_max_pool3d)
