"""Defaults for new tensors: the device, and the dtype given by a tensor type."""

from __future__ import annotations

import warnings
from typing import Any

from rgrad import _C

from ._tensor_types import TYPES


def get_default_device() -> _C.device:
    """The default device of new tensors on this thread."""
    return _C.get_default_device()


def set_default_device(device: Any) -> None:
    """Sets the default device of new tensors on this thread; None means the CPU.

    `with rgrad.device("gpu"):` sets it temporarily.
    """
    _C._set_default_device(_C.device("cpu" if device is None else device))


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by a tensor type or its name, such as "torch.DoubleTensor"."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated: torch.set_default_dtype() and torch.set_default_device() set "
        "what it sets.",
        stacklevel=2,
    )
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", None)
    if name not in TYPES:
        raise TypeError(f"invalid type object: {t!r}")
    dtype = TYPES[name].dtype
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C.set_default_dtype(dtype)
