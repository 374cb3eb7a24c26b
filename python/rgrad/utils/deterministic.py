"""A setting of programs that ask for deterministic results."""

from __future__ import annotations

import sys
import types


class _Settings(types.ModuleType):
    """This module, whose setting takes bools only."""

    _fill = True

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` fills what it makes in deterministic mode. It is remembered; here it never does."""
        return self._fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        self._fill = mode


sys.modules[__name__].__class__ = _Settings
