"""The dictionaries in which a module keeps its parameters, buffers and children."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

REGISTRIES = ("_parameters", "_buffers", "_modules")


# Note [Registries and the instance dictionary]
#
# `module._parameters`, `module._buffers` and `module._modules` are the source of truth: everything that needs the
# members of a module (iteration, state_dict, _apply, pickling) reads only them. A lookup there would make
# `self.weight` in a forward a call of `__getattr__`, so every entry is also stored in the module's instance
# dictionary under the same name, where Python finds it by an ordinary attribute lookup. That copy is a cache with one
# writer: the registry itself, which passes each change on to its owner. Hence code that writes
# `module._parameters[name] = tensor` directly also keeps both in step, and no other method of Module has to maintain
# the copy.
#
# A registry holds a weak reference to its owner: a strong one would make every module a reference cycle, and the
# memory of a dropped model would stay allocated until the garbage collector's next full run. Pickling and copying see
# a plain dict, and `Module.__setstate__` turns it into a registry again; a module restored without `__setstate__` has
# plain dicts and no cached entries, and `Module.__getattr__` then finds its members.
#
# A class with a `__getattr__` of its own is to be asked for members, as in PyTorch: it may compute them or note that
# they were read. Nothing is cached in its instances.


def read_member(self: Any, name: str) -> Any:
    """`Module.__getattr__`: a member that the instance dictionary lacks."""
    for registry in REGISTRIES:
        members = self.__dict__.get(registry, ())
        if name in members:
            return members[name]
    raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class Registry(dict):
    """A dict of named members that repeats every change in its owner's instance dictionary."""

    __slots__ = ("_owner",)

    def __init__(self, owner: object, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(items)
        self._owner = weakref.ref(owner)
        self._mirror().update(self)

    def _mirror(self) -> dict[str, Any]:
        """Where entries are repeated: nowhere if the owner is gone or its class finds members by itself."""
        owner = self._owner()
        return owner.__dict__ if getattr(type(owner), "__getattr__", None) is read_member else {}

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._mirror()[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._mirror().pop(name, None)

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            self._mirror().pop(name, None)
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        name, value = super().popitem()
        self._mirror().pop(name, None)
        return name, value

    def clear(self) -> None:
        mirror = self._mirror()
        for name in self:
            mirror.pop(name, None)
        super().clear()

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        changes = dict(*args, **kwargs)
        super().update(changes)
        self._mirror().update(changes)

    def __ior__(self, other: Any) -> Registry:
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def install_registry(owner: object, name: str, items: Mapping[str, Any]) -> None:
    """Makes ``items`` the registry ``name`` of ``owner``, replacing its current one."""
    attributes = owner.__dict__
    for member in attributes.get(name, ()):
        attributes.pop(member, None)
    attributes[name] = Registry(owner, items)
