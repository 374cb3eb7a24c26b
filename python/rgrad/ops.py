"""`torch.ops`: user-defined operations as `torch.ops.namespace.name`, and the library's own in `torch.ops.aten`."""

from __future__ import annotations

import types
from typing import Any

from rgrad._absent import refuse
from rgrad._library import aten as _aten
from rgrad._library import operation as _operation

__all__ = ["load_library"]


class _OpNamespace(types.ModuleType):
    """The operations of a namespace."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self._of = name

    def __getattr__(self, name: str) -> Any:
        found = _operation.operations.get(f"{self._of}::{name}")
        if found is not None:
            return _operation.packet(found)
        tables = {"aten": _aten.packet, "prim": _aten.property_packet, "profiler": _of_profiler}
        own = tables[self._of](name) if self._of in tables else None
        if own is None:
            raise AttributeError(f"'_OpNamespace' '{self._of}' object has no attribute '{name}'")
        return own

    def __dir__(self) -> list[str]:
        return sorted(name.split("::")[1] for name in _operation.operations if name.startswith(f"{self._of}::"))


def _of_profiler(name: str) -> Any:
    """The operations that begin and end a block with a name in profiles; None for other names."""

    def enter(name: str, args: str | None = None) -> Any:
        from rgrad.profiler import record_function

        return record_function(name, args).__enter__()

    def leave(record: Any) -> None:
        record.__exit__(None, None, None)

    known = {"_record_function_enter": enter, "_record_function_enter_new": enter, "_record_function_exit": leave}
    return known.get(name)


_namespaces: dict[str, _OpNamespace] = {}


def load_library(path: str) -> None:
    """Raises: libraries of C++ operations need PyTorch's ABI."""
    refuse("torch.ops.load_library", "libraries of operations are made for PyTorch's C++ interface")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    # Kept as an attribute, which programs may delete.
    made = globals()[name] = _namespaces.setdefault(name, _OpNamespace(name))
    return made
