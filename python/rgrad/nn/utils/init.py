"""Making modules whose initial values do not matter."""

from __future__ import annotations

import inspect
from typing import Any

from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Makes a module for which the caller has values of their own: those it has at first are unspecified. It is built
    on the device "meta", so that none are drawn.

    Args:
        module_cls: the class, whose constructor takes a `device`.
        *args: for the constructor.
        **kwargs: for the constructor.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", None) or "cpu"
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
