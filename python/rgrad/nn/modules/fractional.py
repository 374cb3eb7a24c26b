"""Fractional max pooling."""

from collections.abc import Callable
from typing import Any

from rgrad import _C

from .. import functional as F
from .module import Module
from .utils import _pair, _triple

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _FractionalMaxPoolNd(Module):
    _operation: Callable[..., Any]
    _expand: Callable[[Any], tuple]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: _C.Tensor | None = None,
    ) -> None:
        super().__init__()
        expand = type(self)._expand
        self.kernel_size = expand(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else expand(output_size)
        self.output_ratio = None if output_ratio is None else expand(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: _C.Tensor) -> Any:
        return self._operation(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Takes the largest value of windows that begin at pseudo-random places (Graham, "Fractional Max-Pooling", 2014).

    Args:
        kernel_size: size of the windows, one number or a pair.
        output_size: number of windows, one number or a pair; or
        output_ratio: that number divided by the input's size, between 0 and 1.
        return_indices: whether to also return the positions of the maxima.

    Shape:
        Input: ``(N, C, H, W)`` or ``(C, H, W)``. Output: the same with ``H_out``, ``W_out``.

    Raises:
        ValueError: not exactly one of size and ratio is given, or the ratio is out of its range.

    >>> rgrad.nn.FractionalMaxPool2d(3, output_size=(5, 4))(rgrad.zeros(1, 2, 9, 9)).shape
    torch.Size([1, 2, 5, 4])
    """

    _operation = staticmethod(F.fractional_max_pool2d)
    _expand = staticmethod(_pair)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Takes the largest value of windows of a volume that begin at pseudo-random places.

    Args:
        kernel_size: size of the windows, one number or three.
        output_size: number of windows, one number or three; or
        output_ratio: that number divided by the input's size, between 0 and 1.
        return_indices: whether to also return the positions of the maxima.

    Shape:
        Input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``. Output: the same with ``D_out``, ``H_out``, ``W_out``.
    """

    _operation = staticmethod(F.fractional_max_pool3d)
    _expand = staticmethod(_triple)
