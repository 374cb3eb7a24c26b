"""Resolution of device arguments to GPU indices."""

from __future__ import annotations

from typing import Any

from rgrad import _C


def index_of(device: Any) -> int:
    """The index of the GPU given by a device, its name or its index; None means the current one."""
    if device is None:
        return _C._current_gpu()
    if isinstance(device, int):
        return device
    index = _C.device(device).index
    return _C._current_gpu() if index is None else index
