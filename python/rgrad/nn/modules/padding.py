"""Padding. Sizes are given as ``functional.pad`` takes them: (left, right, top, bottom, front, back)."""

from __future__ import annotations

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

_sextuple = _ntuple(6, "_sextuple")


class _PadNd(Module):
    _mode: str
    _expand: Callable[[Any], tuple]

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


class ConstantPad1d(_ConstantPadNd):
    """Adds elements of a constant value around the last dimension."""

    _expand = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """Adds elements of a constant value around the last two dimensions."""

    _expand = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """Adds elements of a constant value around the last three dimensions."""

    _expand = staticmethod(_sextuple)


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Adds zeros around the last dimension."""

    _expand = staticmethod(_pair)


class ZeroPad2d(_ZeroPadNd):
    """Adds zeros around the last two dimensions."""

    _expand = staticmethod(_quadruple)


class ZeroPad3d(_ZeroPadNd):
    """Adds zeros around the last three dimensions."""

    _expand = staticmethod(_sextuple)


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors the input at its edges, without repeating them, along the last dimension."""

    _expand = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors the input at its edges, without repeating them, along the last two dimensions."""

    _expand = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors the input at its edges, without repeating them, along the last three dimensions."""

    _expand = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the edge of the last dimension."""

    _expand = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the edges of the last two dimensions."""

    _expand = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the edges of the last three dimensions."""

    _expand = staticmethod(_sextuple)


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        spatial = len(self.padding) // 2
        if input.dim() not in (spatial + 1, spatial + 2):
            raise ValueError(f"expected {spatial + 1}D or {spatial + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Continues the input with its other end along the last dimension."""

    _expand = staticmethod(_pair)


class CircularPad2d(_CircularPadNd):
    """Continues the input with its other end along the last two dimensions."""

    _expand = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """Continues the input with its other end along the last three dimensions."""

    _expand = staticmethod(_sextuple)
