"""`torch.xpu`, a device that rgrad does not support: queries return that there is none, other functions raise."""

from __future__ import annotations

from typing import Any, NoReturn

from rgrad._absent import absent_class
from rgrad._C import device as _device

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "set_device",
    "set_rng_state",
    "stream",
    "synchronize",
]

_NONE = "there is no XPU; a GPU is called cuda or gpu"

Stream = absent_class("torch.xpu.Stream", _NONE)
Event = absent_class("torch.xpu.Event", _NONE)
StreamContext = absent_class("torch.xpu.StreamContext", _NONE)


def is_available() -> bool:
    """False."""
    return False


is_initialized = is_available


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = memory_allocated


def empty_cache() -> None:
    """Does nothing."""


def manual_seed(seed: int) -> None:
    """Does nothing: there is no generator."""


manual_seed_all = manual_seed


class device:
    """Would select an XPU within the block; raises unless the index is negative or None.

    Args:
        device: the device or its index.
    """

    def __init__(self, device: Any) -> None:
        index = _device(device).index if isinstance(device, str) else getattr(device, "index", device)
        if index is not None and index >= 0:
            _refuse()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises AssertionError: there is no XPU."""
    raise AssertionError("Torch not compiled with XPU enabled")


init = synchronize = set_device = current_device = get_device_name = get_device_properties = _refuse
get_device_capability = get_rng_state = set_rng_state = current_stream = stream = _refuse
