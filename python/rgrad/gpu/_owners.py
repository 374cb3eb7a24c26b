"""The owners of GPU memory; determined only when memory runs out, or by `rgrad.gpu.memory_summary`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from rgrad import _C
from rgrad._C import Tensor


def owners() -> list[tuple[int, str]]:
    """The size of each piece of GPU memory referenced by a Python object, and the object's name; the largest first.

    Parameters and buffers are named by the path from their outermost module, gradients and optimizer state by their
    parameter; other tensors by shape and dtype.
    """
    names: dict[int, tuple[int, str]] = {}

    def note(tensor: Any, name: str) -> None:
        memory = _C._gpu_memory_of(tensor) if isinstance(tensor, Tensor) else None
        if memory is not None:
            names.setdefault(memory[0], (memory[1], name))

    objects = gc.get_objects()
    paths: dict[int, str] = {}
    for name, tensor, kind in _in_modules(objects):
        note(tensor, name)
        if kind == "parameter":
            paths.setdefault(id(tensor), name)
            note(tensor.grad, f"{name}.grad")
    for name, tensor in _in_optimizers(objects, paths):
        note(tensor, name)
    for tensor in objects:
        if isinstance(tensor, Tensor):
            note(tensor, f"a tensor of shape {tuple(tensor.shape)} and dtype {tensor.dtype}")
    return sorted(names.values(), reverse=True)


def _in_modules(objects: list[Any]) -> Iterator[tuple[str, Any, str]]:
    from rgrad.nn import Module

    modules = [o for o in objects if isinstance(o, Module)]
    inner = {id(child) for m in modules for child in m.children()}
    for root in modules:
        if id(root) not in inner:
            prefix = type(root).__name__
            for path, p in root.named_parameters():
                yield f"{prefix}.{path}", p, "parameter"
            for path, b in root.named_buffers():
                yield f"{prefix}.{path}", b, "buffer"


def _in_optimizers(objects: list[Any], paths: dict[int, str]) -> Iterator[tuple[str, Any]]:
    from rgrad.optim import Optimizer

    for o in objects:
        if isinstance(o, Optimizer):
            for p, state in o.state.items():
                of = paths.get(id(p), "a parameter")
                for key, value in state.items():
                    yield f"{type(o).__name__}.{key} of {of}", value


def summary(most: int = 10) -> str:
    """The largest owners, one per line, and the memory that only saved tensors can hold.

    Args:
        most: the maximum number of owners listed.
    """
    found = owners()
    lines = [f"{size / 2**20:>12.2f} MiB  {name}" for size, name in found[:most]]
    if len(found) > most:
        lines.append(f"{sum(size for size, _ in found[most:]) / 2**20:>12.2f} MiB  {len(found) - most} others")
    return "\n".join(lines)
