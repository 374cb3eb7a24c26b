"""The classes and functions that a program allows in files of weights."""

from __future__ import annotations

import pickle
from typing import Any

# By full names.
_safe_globals: dict[str, Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allows classes and functions in files loaded with `weights_only=True`.

    Args:
        safe_globals: the objects, or pairs of an object and its full name in files.
    """
    for entry in safe_globals:
        if isinstance(entry, tuple):
            _safe_globals[entry[1]] = entry[0]
        else:
            # Functions of the core have no module: pickle looks for one that has them, when it writes as here.
            module = entry.__module__ or pickle.whichmodule(entry, entry.__qualname__)  # type: ignore[attr-defined]
            _safe_globals[f"{module}.{entry.__qualname__}"] = entry


def get_safe_globals() -> list[Any]:
    """The objects that `add_safe_globals` has allowed."""
    return list(_safe_globals.values())


class safe_globals:
    """A context manager that allows further functions and classes in `weights_only` files.

    Args:
        safe_globals: as for `add_safe_globals`.
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self._entries = safe_globals

    def __enter__(self) -> None:
        self._before = dict(_safe_globals)
        add_safe_globals(self._entries)

    def __exit__(self, *exc: object) -> None:
        _safe_globals.clear()
        _safe_globals.update(self._before)


def clear_safe_globals() -> None:
    """Undoes all calls of `add_safe_globals`."""
    _safe_globals.clear()


def is_safe(value: Any) -> bool:
    """Whether `add_safe_globals` has allowed an object."""
    return any(value is entry for entry in _safe_globals.values())
