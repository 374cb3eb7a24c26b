"""Sequences and dictionaries of modules and of parameters."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self

from rgrad import _C

from ..parameter import Parameter
from .module import Module, _indent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """A module whose submodules are given by keywords; any :class:`Module` can have them.

    Args:
        **kwargs: the submodules.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn("`nn.Container` is deprecated: subclass nn.Module.", FutureWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Passes its input through modules one after another.

    Args:
        *args: the modules, or one ``OrderedDict`` of named modules.

    Shape:
        Input: what the first module takes. Output: what the last one returns.

    Example:
        >>> net = rgrad.nn.Sequential(rgrad.nn.Linear(4, 8), rgrad.nn.ReLU(), rgrad.nn.Linear(8, 2))
        >>> net(rgrad.zeros(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(index), module) for index, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        index, size = operator.index(index), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return next(islice(self._modules, index % size, None))

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(index): module for index, module in enumerate(modules)}

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: slice | int) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: Iterable[Module]) -> Sequential:
        _check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Iterable[Module]) -> Self:
        _check_sequential(other)
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        _check_repeat(times)
        return Sequential(*(module for _ in range(times) for module in self))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        _check_repeat(times)
        return self.extend([module for _ in range(times - 1) for module in self])

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Puts a module before the one at ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index if index >= 0 else index + size, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds every module of ``sequential`` at the end."""
        for module in sequential:
            self.append(module)
        return self

    def pop(self, key: slice | int) -> Any:
        """Removes and returns the module at ``key``."""
        module = self[key]
        del self[key]
        return module


def _check_sequential(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )


def _check_repeat(times: Any) -> None:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")


class ModuleList(Module):
    """A list whose modules are registered as children.

    Args:
        modules: the first modules.

    Example:
        >>> layers = rgrad.nn.ModuleList([rgrad.nn.Linear(4, 4) for _ in range(3)])
        >>> len(list(layers.parameters()))
        6
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _name_at(self, index: Any) -> str:
        index, size = operator.index(index), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return str(index % size)

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(index): module for index, module in enumerate(modules)}

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            return self.__class__(list(self)[index])
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: slice | int) -> None:
        modules = list(self)
        if isinstance(index, slice):
            del modules[index]
        else:
            del modules[int(self._name_at(index))]
        self._renumber(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before the one at ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds every module of ``modules`` at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: slice | int) -> Any:
        """Removes and returns the module at ``key``."""
        module = self[key]
        del self[key]
        return module

    def __repr__(self) -> str:
        """Like a module's repr, with equal neighbors on one line: ``(0-2): 3 x ReLU()``."""
        runs: list[list[Any]] = []
        for index, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = index
            else:
                runs.append([index, index, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            _indent(
                f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            )
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary whose modules are registered as children.

    Args:
        modules: a mapping of names to modules, or pairs of the two.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes and returns the module named ``key``."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """Returns the names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Returns pairs of name and module."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """Returns the modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules, replacing those whose names are taken."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        pairs: Iterable[Any] = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for position, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{position} should be Iterable; is "
                    f"{type(pair).__name__}"
                )
            pair = tuple(pair)
            if len(pair) != 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{position} has length {len(pair)}; 2 is required"
                )
            self[pair[0]] = pair[1]


def _as_entry(value: Any) -> Any:
    """Converts a tensor to a parameter; other values are returned unchanged."""
    if isinstance(value, _C.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _entry_repr(name: Any, value: Any, kind: str) -> str:
    if not isinstance(value, _C.Tensor):
        return f"({name}): Object of type: {type(value).__name__}"
    label = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    device = "" if value.device.type in ("cpu", "meta") else f" ({value.device})"
    return f"({name}): {label} containing: [{kind} of size {size}{device}]"


class ParameterList(Module):
    """A list of parameters (tensors become parameters; other values are kept as they are).

    Args:
        values: the first entries.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, index: Any) -> str:
        index, size = operator.index(index), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return str(index % size)

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            chosen = self.__class__()
            for position in range(*index.indices(len(self))):
                chosen.append(self[position])
            return chosen
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name_at(index), _as_entry(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Adds an entry at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds every entry of ``values`` at the end."""
        if not isinstance(values, Iterable) or isinstance(values, _C.Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def pop(self, key: int = -1) -> Any:
        """Removes and returns the entry at ``key``."""
        entries = list(self)
        value = entries.pop(key)
        for index in range(len(self)):
            delattr(self, str(index))
        self._size = 0
        self.extend(entries)
        return value

    def extra_repr(self) -> str:
        lines = [
            _entry_repr(i, value, str(value.dtype) if isinstance(value, _C.Tensor) else "")
            for i, value in enumerate(self)
        ]
        return "\n".join("  " + line for line in lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters (tensors become parameters; other values are kept as they are).

    Args:
        parameters: a mapping of names to values, or pairs of the two.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'), and keys are names of attributes."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attribute = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, attribute, _as_entry(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: Any) -> ParameterDict:
        return self.copy().__ior__(other)

    def __ror__(self, other: Any) -> ParameterDict:
        return ParameterDict(other).__ior__(self)

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Returns another dictionary of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Returns the entry, after storing ``default`` if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all entries."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Removes and returns the entry named ``key``."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the entry added last, with its name."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the entry named ``key``, or ``default``."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Returns a new dictionary with ``default`` under every key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Iterable[str]:
        """Returns the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Returns pairs of name and entry."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Returns the entries."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds entries, replacing those whose names are taken."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(parameters).__name__}"
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items(), key=operator.itemgetter(0))
        for position, pair in enumerate(parameters):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ParameterDict update sequence element #{position} should be Iterable; is "
                    f"{type(pair).__name__}"
                )
            pair = tuple(pair)
            if len(pair) != 2:
                raise ValueError(
                    f"ParameterDict update sequence element #{position} has length {len(pair)}; 2 is required"
                )
            self[pair[0]] = pair[1]

    def extra_repr(self) -> str:
        lines = [
            _entry_repr(key, value, value.type() if isinstance(value, _C.Tensor) else "")
            for key, value in self.items()
        ]
        return "\n".join("  " + line for line in lines)

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
