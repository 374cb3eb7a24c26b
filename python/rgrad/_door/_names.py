"""What is said of a name of PyTorch that is not here."""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
from typing import Any

# Where a function that is missing in one namespace may be found under the same name.
_NEIGHBOURS = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.special", "torch.Tensor")


def _namespace(path: str) -> Any:
    if path == "torch.Tensor":
        import rgrad

        return rgrad.Tensor
    return importlib.import_module(path.replace("torch", "rgrad", 1))


@functools.lru_cache(maxsize=1024)
def missing(path: str, name: str, version: str, known: tuple[str, ...] = ()) -> str:
    """The message for `name`, looked up in the module that programs call `path`.

    Args:
        path: the module, as `torch.nn`.
        name: what was looked up there.
        version: of rgrad.
        known: the names that the module has; by default those that `dir` gives for it.
    """
    text = f"{path}.{name} is not in rgrad {version}"
    if name.startswith("__"):
        return text
    elsewhere = [f"{near}.{name}" for near in _NEIGHBOURS if near != path and _has(_namespace(near), name)]
    module = sys.modules.get(path)
    names = [n for n in known or (dir(module) if module else ()) if not n.startswith("_") or name.startswith("_")]
    close = [f"{path}.{near}" for near in difflib.get_close_matches(name, names, n=3 - len(elsewhere[:2]))]
    nearest = (*elsewhere[:2], *close)
    return f"{text}; nearest: {', '.join(nearest)}" if nearest else text


def _has(namespace: Any, name: str) -> bool:
    """Whether a name is there by itself, without asking the module's `__getattr__`, which would ask here again."""
    if isinstance(namespace, type):
        return hasattr(namespace, name)
    names = vars(namespace)
    return name in names or name in names.get("_FROM", ())
