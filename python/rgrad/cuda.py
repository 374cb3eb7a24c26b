"""`torch.cuda` for scripts written for it: the GPU of any vendor (see `rgrad.gpu`), where there is one."""

from __future__ import annotations

import os
from typing import Any

from rgrad import gpu
from rgrad.gpu import (
    OutOfMemoryError,
    current_device,
    device,
    get_device_name,
    get_device_properties,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_summary,
    reset_peak_memory_stats,
    set_device,
)

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Whether the name "cuda" means a GPU: there is one, and the name was not taken away."""
    return os.environ.get("RGRAD_GPU_ALIASES") != "0" and gpu.is_available()


def device_count() -> int:
    """How many GPUs the name "cuda" reaches."""
    return gpu.device_count() if is_available() else 0


def is_initialized() -> bool:
    """Whether there is a GPU: it is opened by its first use."""
    return is_available()


def manual_seed(seed: int) -> None:
    """Seeds the generator, which all devices share."""
    import rgrad

    rgrad.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generator, which all devices share."""
    manual_seed(seed)


def empty_cache() -> None:
    """Gives memory kept for reuse back to the driver."""
    if is_available():
        gpu.empty_cache()


def synchronize(device: Any = None) -> None:
    """Waits for the GPU; an error, as in a PyTorch without CUDA, where there is none."""
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled")
    gpu.synchronize(device)
