"""GPUs of any vendor: queries, memory statistics and control.

A tensor is moved to a GPU by `x.to("gpu")` and back by `x.cpu()`. Drivers are loaded only on first use.

Environment: `RGRAD_GPU_ADAPTER` selects an adapter by index or by part of its name, `RGRAD_GPU_ALLOW_CPU=1` allows
software adapters, `RGRAD_GPU_MEM_LIMIT` limits memory in bytes, `RGRAD_GPU_ALIASES=0` disables the names "cuda" and
"mps", `RGRAD_GPU_POISON=1` fills new memory with NaN, `RGRAD_CACHE_DIR` is the directory of the caches (empty for
none).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rgrad import _C
from rgrad.gpu import _owners
from rgrad.gpu._devices import index_of
from rgrad.gpu._profile import profile

__all__ = [
    "DeviceProperties",
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "profile",
    "reset",
    "reset_peak_memory_stats",
    "set_device",
    "stats",
    "synchronize",
]

OutOfMemoryError = _C.OutOfMemoryError


def is_available() -> bool:
    """Whether there is a GPU that this build can open."""
    return _C._gpu_count() > 0


def device_count() -> int:
    """The number of GPUs."""
    return _C._gpu_count()


def is_initialized() -> bool:
    """True: a GPU is opened on first use."""
    return True


def current_device() -> int:
    """The index of the GPU meant by "gpu"."""
    return _C._current_gpu()


def set_device(device: Any) -> None:
    """Sets the GPU meant by "gpu"."""
    index = index_of(device)
    if not 0 <= index < device_count():
        raise RuntimeError(f"gpu:{index}: invalid device ordinal; there are {device_count()} GPUs")
    _C._set_current_gpu(index)


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """A context in which "gpu" means another GPU."""
    before = current_device()
    set_device(device)
    try:
        yield
    finally:
        _C._set_current_gpu(before)


class DeviceProperties(dict[str, Any]):
    """Properties of a GPU, by key or as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a GPU of any vendor has no property '{name}'; there are {', '.join(self)}") from None


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, vendor, driver, backend and limits of a GPU."""
    return DeviceProperties(_C._gpu_properties(index_of(device)))


def get_device_name(device: Any = None) -> str:
    """The driver's name of a GPU."""
    return get_device_properties(device)["name"]


def synchronize(device: Any = None) -> None:
    """Waits for all work submitted to a GPU and raises its pending errors."""
    _C._synchronize(f"gpu:{index_of(device)}")


def stats(device: Any = None) -> dict[str, int]:
    """Counters since the GPU was opened: created objects (buffers, bind groups, pipelines), work done, bytes in
    use.
    """
    return _C._gpu_stats(index_of(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors."""
    return stats(device)["allocated_bytes"] if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The highest `memory_allocated` since the start or the last reset."""
    return stats(device)["peak_bytes"] if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes in use by tensors or cached."""
    return stats(device)["reserved_bytes"] if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Resets `max_memory_allocated`."""
    _C._gpu_reset_peak(index_of(device))


def reset(device: Any = None) -> None:
    """Closes a GPU, for example a lost one: its tensors raise from then on, and the next use reopens it."""
    _C._gpu_reset(index_of(device))


def empty_cache(device: Any = None) -> None:
    """Releases cached memory to the driver."""
    if is_available():
        _C._gpu_empty_cache(index_of(device))


def memory_stats(device: Any = None) -> dict[str, int]:
    """The memory counters under PyTorch's names."""
    counters = stats(device)
    return {
        "allocated_bytes.all.current": counters["allocated_bytes"],
        "allocated_bytes.all.peak": counters["peak_bytes"],
        "reserved_bytes.all.current": counters["reserved_bytes"],
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory counters and, unless abbreviated, the largest owners."""
    counters = stats(device)
    names = ("allocated", "reserved", "peak")
    table = "\n".join(f"{counters[f'{name}_bytes'] / 2**20:>12.2f} MiB  {name}" for name in names)
    return table if abbreviated else table + _owners_summary()


def _owners_summary() -> str:
    """The list of owners in out-of-memory errors."""
    owners = _owners.summary()
    return f"\nThe largest owners:\n{owners}" if owners else ""
