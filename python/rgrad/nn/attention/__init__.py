"""Which kernel attention uses: rgrad has one, whatever programs choose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(Enum):
    """The kernels that programs choose among."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A block in which only some kernels may be used: they all mean the one that there is.

    Args:
        backends: an `SDPBackend` or a list of them.
        set_priority: taken and not used.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list) or not all(isinstance(backend, SDPBackend) for backend in chosen):
        raise TypeError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield
