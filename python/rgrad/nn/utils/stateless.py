"""Calls of a module with given tensors instead of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from rgrad import _C

from ..modules.module import Module

__all__ = ["functional_call"]

Tensor = _C.Tensor


def _members(module: Module) -> dict[str, tuple[Module, dict[str, Any], str]]:
    """The location of each parameter and buffer: its module, the registry there, and its name in the registry."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for members in (part._parameters, part._buffers):
            for name, tensor in members.items():
                if tensor is not None:
                    found[f"{prefix}.{name}" if prefix else name] = (part, members, name)
    return found


def _check(module: Module, members: Mapping[str, Any], given: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> None:
    problems = []
    for kind, keys in (("Unexpected", given.keys() - members.keys()), ("Missing", members.keys() - new.keys())):
        if keys:
            problems.append(f"{kind} key(s): {', '.join(map(repr, sorted(keys)))}.")
    if problems:
        listed = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t{listed}")


@contextmanager
def _replaced(module: Module, given: Mapping[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    members = _members(module)
    new = {name: tensor for name, tensor in given.items() if name in members}
    if tie_weights:
        ties = {id(members[name][1][members[name][2]]): tensor for name, tensor in new.items()}
        for name, (_, held, key) in members.items():
            if name not in new and id(held[key]) in ties:
                new[name] = ties[id(held[key])]
    if strict:
        _check(module, members, given, new)
    before = {name: members[name][1][members[name][2]] for name in new}
    try:
        for name, tensor in new.items():
            members[name][1][members[name][2]] = tensor
        yield
    finally:
        for name, tensor in before.items():
            held, key = members[name][1:]
            # What the call has assigned, such as a new running mean, is for the caller.
            if name in given and held.get(key) is not new[name] and isinstance(given, MutableMapping):
                given[name] = held[key]
            held[key] = tensor


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
