"""The setting `fill_uninitialized_memory`, for programs that ask for deterministic results."""

from __future__ import annotations

import sys
import types


class _Settings(types.ModuleType):
    """This module; its setting accepts bools only."""

    _fill = True

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` fills its result in deterministic mode. The value is stored but has no effect."""
        return self._fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        self._fill = mode


sys.modules[__name__].__class__ = _Settings
