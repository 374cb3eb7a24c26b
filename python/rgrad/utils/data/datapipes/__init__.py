"""Data pipes: datasets that are made of others, by methods such as `map`, `filter` and `batch`."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    # Loaders know the classes that pipes derive from; the pipes themselves are loaded when a program uses one.
    if name in ("iter", "map"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
