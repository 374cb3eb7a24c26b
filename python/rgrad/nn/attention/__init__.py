"""The selection of attention kernels: without effect, since rgrad has a single one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum
from typing import Any

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "sdpa_kernel",
]

# Accepted; there is one kernel, so nothing is warned of.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """PyTorch's attention kernels."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A context, or decorator, that restricts attention to some kernels; without effect here, where there is one.

    Args:
        backends: an `SDPBackend` or a list of them.
        set_priority: accepted, but ignored.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list) or not all(isinstance(backend, SDPBackend) for backend in chosen):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """False: attention has one kernel, which is none of PyTorch's.

    Args:
        params: accepted, without effect.
        debug: accepted, without effect.
    """
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """False: attention has one kernel, which is none of PyTorch's.

    Args:
        params: accepted, without effect.
        debug: accepted, without effect.
    """
    return False
