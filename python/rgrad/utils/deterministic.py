"""The setting `fill_uninitialized_memory`, for programs that ask for deterministic results."""

from __future__ import annotations

import sys
import types

from rgrad import _determinism


class _Settings(types.ModuleType):
    """This module; its setting accepts bools only."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` and functions like it fill their result in deterministic mode: with NaN, or with the largest
        number of the dtype.
        """
        return _determinism.get_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        _determinism.set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Settings
