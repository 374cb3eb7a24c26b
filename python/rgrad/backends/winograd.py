"""`rgrad.backends.winograd`: whether convolutions of float32 may be computed by Winograd's algorithm.

PyTorch has no such module. On the CPU the algorithm computes convolutions with 3×3 kernels of stride 1, and their
gradients, where it is faster. It rounds differently: errors are up to three times those of the definition for 16
channels, and equal for 512.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator

from .. import _C


class _Winograd(types.ModuleType):
    """The class of this module, for which `enabled` is a property."""

    @property
    def enabled(self) -> bool:
        """Whether the algorithm may be used; holds for all threads."""
        return _C._winograd_enabled()

    @enabled.setter
    def enabled(self, value: bool) -> None:
        _C._enable_winograd(value)


sys.modules[__name__].__class__ = _Winograd


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A context in which Winograd's algorithm is forbidden or allowed, for all threads.

    Args:
        enabled: whether it may be used.

    >>> with rgrad.backends.winograd.flags(enabled=False):
    ...     rgrad.backends.winograd.enabled
    False
    """
    before = _C._winograd_enabled()
    _C._enable_winograd(enabled)
    try:
        yield
    finally:
        _C._enable_winograd(before)
