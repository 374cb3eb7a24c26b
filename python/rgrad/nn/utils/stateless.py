"""Calls of a module with given tensors instead of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from rgrad import _C

from ..modules.module import Module

__all__ = ["functional_call"]

Tensor = _C.Tensor


def _members(module: Module) -> dict[str, Tensor]:
    """The parameters and buffers by name, under each of their names."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for members in (part._parameters, part._buffers):
            for name, tensor in members.items():
                if tensor is not None:
                    found[f"{prefix}.{name}" if prefix else name] = tensor
    return found


def _check(module: Module, members: Mapping[str, Any], given: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> None:
    problems = []
    for kind, keys in (("Unexpected", given.keys() - members.keys()), ("Missing", members.keys() - new.keys())):
        if keys:
            problems.append(f"{kind} key(s): {', '.join(map(repr, sorted(keys)))}.")
    if problems:
        listed = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t{listed}")


def _tied(members: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is given, under all names of the members that it is given for."""
    names: dict[int, list[str]] = {}
    for name, tensor in members.items():
        names.setdefault(id(tensor), []).append(name)
    new = dict(given)
    for group in names.values():
        values = [given[name] for name in group if name in given]
        if any(value is not values[0] for value in values):
            keys = sorted(name for name in group if name in given)
            raise ValueError(
                f"functional_call got multiple values for keys {keys}, which are names of one tensor. With "
                "tie_weights=False each name has a value of its own."
            )
        if values:
            new.update(dict.fromkeys(group, values[0]))
    return new


class _Slot:
    """Where a module has the tensor of a name: among its parameters or buffers, or in an attribute."""

    def __init__(self, module: Module, name: str) -> None:
        path, _, self.key = name.rpartition(".")
        owner: Any = module
        for part in path.split(".") if path else ():
            found = owner._modules.get(part) if isinstance(owner, Module) else getattr(owner, part, None)
            if found is None:
                raise AttributeError(f"{type(owner).__name__} has no attribute `{part}`")
            owner = found
        self.owner = owner
        registries: Any = (owner._parameters, owner._buffers)
        self.held: dict[str, Any] | None = next((held for held in registries if self.key in held), None)
        self.existed = self.held is not None or hasattr(owner, self.key)
        self.before = self.get() if self.existed else None
        if self.existed and self.before is not None and not isinstance(self.before, Tensor):
            raise TypeError(f"attribute `{self.key}`: {self.before} is not an instance of torch.Tensor")

    def get(self) -> Any:
        return getattr(self.owner, self.key, None) if self.held is None else self.held.get(self.key)

    def set(self, tensor: Tensor | None) -> None:
        if self.held is None:
            setattr(self.owner, self.key, tensor)
        else:
            self.held[self.key] = tensor

    def restore(self) -> None:
        if self.existed:
            self.set(self.before)
        elif hasattr(self.owner, self.key):
            delattr(self.owner, self.key)


@contextmanager
def _replaced(module: Module, given: Mapping[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    new: Mapping[str, Tensor] = given
    if tie_weights or strict:
        members = _members(module)
        new = _tied(members, given) if tie_weights else given
        if strict:
            _check(module, members, given, new)
    for tensor in new.values():
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    slots = {name: _Slot(module, name) for name in new}
    try:
        for name, slot in slots.items():
            slot.set(new[name])
        yield
    finally:
        for name, slot in slots.items():
            # What the call has assigned, such as a new running mean, is for the caller.
            now = slot.get()
            if name in given and now is not new[name] and isinstance(given, MutableMapping):
                given[name] = now
        for slot in reversed(slots.values()):
            slot.restore()


def _reparametrize_module(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Any:
    """A context in which a module has given tensors instead of its parameters and buffers; see `functional_call`."""
    return _replaced(module, parameters_and_buffers, tie_weights, strict)


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with given tensors instead of its parameters and buffers.

    Args:
        module: the module; it is unchanged afterwards.
        parameter_and_buffer_dicts: tensors by their names in the module; one dict or several. If there is one, what the
            call assigns to its names is put there.
        args: the positional arguments of the call; a tuple, or one argument.
        kwargs: the keyword arguments of the call.
        tie_weights: whether a tensor given for one name of a parameter with several names replaces it under all names.
        strict: whether the names must be exactly those of the module.

    Example:
        >>> import rgrad as torch
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.tensor([3.0, 4.0]))
        tensor([7.])
    """
    dicts = parameter_and_buffer_dicts
    if isinstance(dicts, Mapping):
        given: Any = dicts
    else:
        if not isinstance(dicts, Sequence):
            raise ValueError(
                f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
            )
        if not all(isinstance(part, Mapping) for part in dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        given = {}
        for part in dicts:
            repeated = sorted(given.keys() & part.keys())
            if repeated:
                raise ValueError(
                    f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
                )
            given.update(part)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


# PyTorch's name of the function that its deprecated `functional_call` of this module calls.
_functional_call = functional_call
