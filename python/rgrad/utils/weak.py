"""Dictionaries and references that do not keep tensors alive, which are told apart as objects."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRef"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to another one if both refer to the same object."""

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdRef):
            return NotImplemented
        mine, its = self(), other()
        # A dead reference is equal to itself alone: the address may belong to another object by now.
        return self is other if mine is None or its is None else mine is its

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


WeakTensorRef = WeakIdRef


class TensorWeakRef:
    """A weak reference to a tensor.

    Args:
        tensor: the tensor; calling the reference returns it, or None after it is gone.
    """

    ref: weakref.ref[Any]

    def __init__(self, tensor: Any) -> None:
        from rgrad import Tensor

        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose keys are weak references to objects, compared by identity.

    Args:
        dict: a mapping to copy.
        ref_type: the class of the references.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.utils.weak import WeakTensorKeyDictionary
        >>> x = torch.ones(2)
        >>> names = WeakTensorKeyDictionary({x: "x"})
        >>> names[x], len(names)
        ('x', 1)
        >>> del x
        >>> len(names)
        0
    """

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: Any = WeakIdRef) -> None:
        self.ref_type = ref_type
        self.data: Any = {}
        data = self.data

        # Without a reference to the dictionary itself, which would be a cycle.
        def remove(reference: Any) -> None:
            data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def _alive(self) -> list[tuple[Any, Any]]:
        """The keys with their values. A list, as keys can go while a program iterates."""
        found = [(reference(), value) for reference, value in list(self.data.items())]
        return [(key, value) for key, value in found if key is not None]

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self._alive())

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self._alive()])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __copy__(self) -> WeakIdKeyDictionary:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> WeakIdKeyDictionary:
        """A dictionary with the same keys and copies of the values."""
        import copy

        result = type(self)()
        result.update({key: copy.deepcopy(value, memo) for key, value in self._alive()})
        return result

    def copy(self) -> WeakIdKeyDictionary:
        """A dictionary with the same keys and values."""
        result = type(self)()
        for key, value in self._alive():
            result[key] = value
        return result

    def keyrefs(self) -> list[Any]:
        """The references to the keys; they may be dead by the time that they are used."""
        return list(self.data)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        result = type(self)()
        result.update(other)
        result.update(self)
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        mine, its = self._alive(), {id(key): value for key, value in other._alive()}
        return len(mine) == len(its) and all(id(key) in its and its[id(key)] == value for key, value in mine)


WeakTensorKeyDictionary = WeakIdKeyDictionary
