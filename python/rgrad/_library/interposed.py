"""Calls of user-defined operations that others compute: `vmap`, and classes and modes of `__torch_dispatch__`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rgrad import _C
from rgrad._C import Tensor
from rgrad._library.schema import Schema
from rgrad.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

if TYPE_CHECKING:
    from rgrad._library.operation import Operation


def _trimmed(schema: Schema, positional: list[Any], by_name: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without those that are the defaults: at the end, and by name."""
    parameters = [a for a in schema.arguments if not a.keyword_only]
    count = len(positional)

    def is_default(default: Any, value: Any) -> bool:
        return not isinstance(value, Tensor | list) and type(value) is type(default) and value == default

    while count and is_default(parameters[count - 1].default, positional[count - 1]):
        count -= 1
    defaults = {a.name: a.default for a in schema.arguments}
    kept = {name: value for name, value in by_name.items() if not is_default(defaults[name], value)}
    return tuple(positional[:count]), kept


def _classes(values: Any) -> list[Any]:
    """The classes with a `__torch_dispatch__` of the tensors among values, subclasses before their bases."""
    found: list[Any] = []
    for t in tree_leaves(values):
        cls: Any = type(t)
        if not isinstance(t, Tensor) or not getattr(cls, "_dispatches", False) or cls in found:
            continue
        at = next((i for i, other in enumerate(found) if issubclass(cls, other)), len(found))
        found.insert(at, cls)
    return found


def by_handlers(operation: Operation, func: Any, positional: list[Any], by_name: dict[str, Any]) -> Any:
    """What a mode, or the class of an argument, computes for a call; NotImplemented where none looks on.

    Args:
        operation: the operation.
        func: what handlers get for it.
        positional: its arguments by position.
        by_name: its arguments by name.

    Raises:
        TypeError: if all handlers returned NotImplemented.
    """
    if _C._torch_dispatch_disabled():
        return NotImplemented
    modes = _C._torch_dispatch_stack()
    classes = _classes((positional, by_name))
    if not modes and not classes:
        return NotImplemented
    args, kwargs = _trimmed(operation.schema, positional, by_name)
    types, refused = tuple(classes), []
    off: list[Any] = []
    try:
        for mode in modes[::-1]:
            off.append(_C._pop_torch_dispatch_stack())
            rule = operation.dispatch_rules.get(type(mode))
            made = (
                mode.__torch_dispatch__(func, types, args, kwargs)
                if rule is None
                else rule(mode, func, types, args, kwargs)
            )
            if made is not NotImplemented:
                return made
            refused.append(f"mode object {mode!r}")
    finally:
        for mode in off[::-1]:
            _C._push_on_torch_dispatch_stack(mode)
    for cls in classes:
        rule = operation.dispatch_rules.get(cls)
        made = (
            cls.__torch_dispatch__(func, types, args, kwargs) if rule is None else rule(cls, func, types, args, kwargs)
        )
        if made is not NotImplemented:
            return made
        refused.append(f"tensor subclass {cls!r}")
    raise TypeError(
        f"Multiple dispatch failed for 'torch.ops.{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        "  - " + "\n  - ".join(refused)
    )


def by_vmap(operation: Operation, call: Callable[..., Any], positional: list[Any], by_name: dict[str, Any]) -> Any:
    """A call with batched arguments: by the rule that was registered, or for each slice.

    Args:
        operation: the operation.
        call: what calls it.
        positional: its arguments by position.
        by_name: its arguments by name.
    """
    from rgrad._vmap import as_given, innermost, running
    from rgrad.autograd._vmapped import VmapInfo, with_dims

    leaves, spec = tree_flatten((positional, by_name))
    level = max(innermost(v) for v in leaves)
    values, dims = map(list, zip(*(as_given(v, level) for v in leaves), strict=True))
    randomness = dict(running())[level]
    size = next(v.shape[d] for v, d in zip(values, dims, strict=True) if d is not None)
    if operation.vmap is not None:
        args, kwargs = _trimmed(operation.schema, *tree_unflatten(values, spec))
        in_dims = tree_unflatten(dims, spec)[0][: len(args)]
        return with_dims(operation.vmap(VmapInfo(size, randomness), tuple(in_dims), *args, **kwargs), level)
    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {operation.name}: it "
        "is called for each slice. torch.library.register_vmap registers one",
        stacklevel=3,
    )
    made = []
    for i in range(size):
        own = [v if d is None else v.select(d, i) for v, d in zip(values, dims, strict=True)]
        args, kwargs = tree_unflatten(own, spec)
        made.append(call(*args, **kwargs))
    first, of_results = tree_flatten(made[0])
    columns = zip(*(tree_flatten(m)[0] for m in made), strict=True)
    joined = [
        _C._add_batch_dim(_C.stack(list(column)), 0, level) if isinstance(t, Tensor) else t
        for t, column in zip(first, columns, strict=True)
    ]
    return tree_unflatten(joined, of_results)


def is_batched(values: Any) -> bool:
    """Whether there are batched tensors among values, while a `vmap` runs."""
    return bool(_C._vmap_levels()) and any(isinstance(v, Tensor) and _C._is_batched(v) for v in tree_leaves(values))


__all__ = ["by_handlers", "by_vmap", "is_batched"]
