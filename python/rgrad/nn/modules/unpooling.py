"""Pooling by a norm, and the inverse of max pooling."""

from collections.abc import Callable
from typing import Any

from rgrad import _C

from .. import functional as F
from .module import Module
from .utils import _pair, _single, _triple

__all__ = ["LPPool1d", "LPPool2d", "LPPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


class _LPPoolNd(Module):
    _operation: Callable[..., _C.Tensor]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of ``(N, C, L)``."""

    _operation = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of ``(N, C, H, W)``."""

    _operation = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of ``(N, C, D, H, W)``."""

    _operation = staticmethod(F.lp_pool3d)


class _MaxUnpoolNd(Module):
    _operation: Callable[..., _C.Tensor]
    _expand: Callable[[Any], tuple]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        expand = type(self)._expand
        self.kernel_size = expand(kernel_size)
        self.stride = expand(kernel_size if stride is None else stride)
        self.padding = expand(padding)

    def forward(self, input: _C.Tensor, indices: _C.Tensor, output_size: Any = None) -> _C.Tensor:
        return self._operation(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Moves maxima back to where :class:`MaxPool1d` with ``return_indices`` found them; other elements are zero."""

    _operation = staticmethod(F.max_unpool1d)
    _expand = staticmethod(_single)


class MaxUnpool2d(_MaxUnpoolNd):
    """Moves maxima back to where :class:`MaxPool2d` with ``return_indices`` found them; other elements are zero."""

    _operation = staticmethod(F.max_unpool2d)
    _expand = staticmethod(_pair)


class MaxUnpool3d(_MaxUnpoolNd):
    """Moves maxima back to where :class:`MaxPool3d` with ``return_indices`` found them; other elements are zero."""

    _operation = staticmethod(F.max_unpool3d)
    _expand = staticmethod(_triple)
