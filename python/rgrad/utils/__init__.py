"""Tools around training; `utils.data` loads it with batches."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    # Loaded at first use, so that `rgrad.utils.data` works after a plain `import rgrad`.
    if name in ("_pytree", "checkpoint", "data", "dlpack", "hooks"):
        return importlib.import_module(f"rgrad.utils.{name}")
    raise AttributeError(f"module 'rgrad.utils' has no attribute '{name}'")
