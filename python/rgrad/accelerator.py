"""`torch.accelerator`: the GPU, when there is one."""

from __future__ import annotations

from typing import Any

from rgrad import _C
from rgrad._C import device


def is_available() -> bool:
    """Whether there is a GPU that this build can open."""
    return _C._gpu_count() > 0


def device_count() -> int:
    """How many."""
    return _C._gpu_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """The GPU, or None where there is none."""
    return device("gpu") if is_available() else None


def current_device_index() -> int:
    """The number of the GPU that names without a number mean."""
    return _C._current_gpu()


def set_device_index(device: Any) -> None:
    """Makes another GPU the one that names without a number mean."""
    from rgrad import gpu

    gpu.set_device(device)


def synchronize(device: Any = None) -> None:
    """Waits for the GPU, and raises what went wrong there."""
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    _C._synchronize("gpu" if device is None else device)
