"""Padding. Sizes are given as ``functional.pad`` takes them: (left, right, top, bottom, front, back)."""

from collections.abc import Callable
from typing import Any

from rgrad import _C

from .. import functional as F
from .module import Module
from .utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

# The sizes of both sides of one, two or three dimensions, from one number or as many as there are sides.
_SIDES = {1: _pair, 2: _quadruple, 3: _ntuple(6, "_sextuple")}


class _PadNd(Module):
    """Base class of the padding modules. Subclasses set the mode, and ``dims``, the number of padded dimensions."""

    _mode: str
    _expand: Callable[[Any], tuple]

    def __init_subclass__(cls, dims: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if dims is not None:
            cls._expand = staticmethod(_SIDES[dims])

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = self._expand(padding)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    _mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd, dims=1):
    """Adds elements of a constant value around the last dimension.

    Args:
        padding: how many elements on every side, or ``(left, right)``.
        value: the constant.

    >>> rgrad.nn.ConstantPad1d((1, 0), 7.0)(rgrad.zeros(1, 2))
    tensor([[7., 0., 0.]])
    """


class ConstantPad2d(_ConstantPadNd, dims=2):
    """Adds elements of a constant value around the last two dimensions.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom)``.
        value: the constant.
    """


class ConstantPad3d(_ConstantPadNd, dims=3):
    """Adds elements of a constant value around the last three dimensions.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom, front, back)``.
        value: the constant.
    """


class _ZeroPadNd(_ConstantPadNd):
    """A constant pad whose repr omits the value zero; it comes before the constant pad among the bases."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Adds zeros around the last dimension.

    Args:
        padding: how many elements on every side, or ``(left, right)``.
    """


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Adds zeros around the last two dimensions.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom)``.
    """


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Adds zeros around the last three dimensions.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom, front, back)``.
    """


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, dims=1):
    """Mirrors the last dimension at its edges, without repeating the edge elements.

    Args:
        padding: how many elements on every side, or ``(left, right)``.

    >>> rgrad.nn.ReflectionPad1d(1)(rgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3., 2.]])
    """


class ReflectionPad2d(_ReflectionPadNd, dims=2):
    """Mirrors the last two dimensions at their edges, without repeating the edge elements.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom)``.
    """


class ReflectionPad3d(_ReflectionPadNd, dims=3):
    """Mirrors the last three dimensions at their edges, without repeating the edge elements.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom, front, back)``.
    """


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, dims=1):
    """Repeats the edges of the last dimension.

    Args:
        padding: how many elements on every side, or ``(left, right)``.
    """


class ReplicationPad2d(_ReplicationPadNd, dims=2):
    """Repeats the edges of the last two dimensions.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom)``.
    """


class ReplicationPad3d(_ReplicationPadNd, dims=3):
    """Repeats the edges of the last three dimensions.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom, front, back)``.
    """


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        spatial = len(self.padding) // 2
        if input.dim() not in (spatial + 1, spatial + 2):
            raise ValueError(f"expected {spatial + 1}D or {spatial + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPadNd, dims=1):
    """Pads the last dimension with elements from its opposite end.

    Args:
        padding: how many elements on every side, or ``(left, right)``.

    >>> rgrad.nn.CircularPad1d(1)(rgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """


class CircularPad2d(_CircularPadNd, dims=2):
    """Pads the last two dimensions with elements from their opposite ends.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom)``.
    """


class CircularPad3d(_CircularPadNd, dims=3):
    """Pads the last three dimensions with elements from their opposite ends.

    Args:
        padding: how many elements on every side, or ``(left, right, top, bottom, front, back)``.
    """
