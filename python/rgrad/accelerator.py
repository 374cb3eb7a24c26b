"""`torch.accelerator`: the GPU, if there is one."""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any

from rgrad import _C
from rgrad._C import device


def is_available() -> bool:
    """Whether there is a GPU that this build supports."""
    return _C._gpu_count() > 0


def device_count() -> int:
    """The number of GPUs."""
    return _C._gpu_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """The GPU, or None if there is none."""
    return device("gpu") if is_available() else None


def current_device_index() -> int:
    """The index of the GPU meant by names without an index."""
    return _C._current_gpu()


def set_device_index(device: Any) -> None:
    """Sets the GPU meant by names without an index."""
    from rgrad import gpu

    gpu.set_device(device)


def current_device_idx() -> int:
    """The older name of `current_device_index`."""
    return current_device_index()


def set_device_idx(device: Any) -> None:
    """The older name of `set_device_index`."""
    set_device_index(device)


def device_index(device: int | None, /) -> contextlib.AbstractContextManager[None]:
    """A context in which names without an index mean another GPU; None changes nothing."""
    from rgrad import gpu

    return contextlib.nullcontext() if device is None else gpu.device(device)


def current_stream(device: Any = None) -> Any:
    """The stream of a GPU."""
    from rgrad import cuda

    return cuda.current_stream(device)


def empty_cache() -> None:
    """Releases cached memory to the driver."""
    if is_available():
        _C._gpu_empty_cache(_C._current_gpu())


def memory_stats(device_index: Any = None, /) -> dict[str, int]:
    """The memory counters; empty if there is no GPU."""
    from rgrad import gpu

    return gpu.memory_stats(device_index) if is_available() else {}


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes in use by tensors."""
    return memory_stats(device_index).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The highest `memory_allocated` since the start or the last reset."""
    return memory_stats(device_index).get("allocated_bytes.all.peak", 0)


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes in use by tensors or cached."""
    return memory_stats(device_index).get("reserved_bytes.all.current", 0)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Resets `max_memory_allocated`."""
    from rgrad import gpu

    if is_available():
        gpu.reset_peak_memory_stats(device_index)


def synchronize(device: Any = None) -> None:
    """Waits for the GPU and raises its pending errors."""
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    _C._synchronize("gpu" if device is None else device)


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a type of device: `rgrad.cpu`, or `rgrad.cuda` for a GPU by any of its names.

    Args:
        device: A device or its name; by default the GPU if there is one, else the CPU.
    """
    from rgrad import cpu, cuda

    if device is None:
        return cuda if is_available() else cpu
    if not isinstance(device, str | _C.device):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    return cpu if _C.device(device).type == "cpu" else cuda
