"""Which kinds of images there are, and the ranges of their values."""

from __future__ import annotations

import functools
from typing import Any

import rgrad

_MAX = {"uint8": 255, "int8": 127, "int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1}


def is_pil(picture: Any) -> bool:
    """Whether something is a Pillow image."""
    return _is_pil(type(picture))


@functools.lru_cache(maxsize=64)
def _is_pil(kind: type) -> bool:
    return any(cls.__module__.startswith("PIL.") and cls.__name__ == "Image" for cls in kind.__mro__)


def bound(dtype: Any) -> float:
    """The value of white."""
    return _MAX.get(str(dtype).rpartition(".")[2], 1.0)


def rounded(values: Any, dtype: Any) -> Any:
    """Floats as an image's dtype, rounded where that is one of integers."""
    return values.to(dtype) if dtype.is_floating_point else values.round().to(dtype)


def as_planes(picture: Any) -> Any:
    """A float tensor of shape (N, C, H, W) with the values of (..., C, H, W)."""
    real = picture if picture.is_floating_point() else picture.to(rgrad.float32)
    return real.reshape(-1, *picture.shape[-3:])
