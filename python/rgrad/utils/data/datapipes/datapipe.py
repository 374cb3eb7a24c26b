"""The classes that pipes derive from.

Note [One iterator of a pipe]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A pipe has one iterator at a time, since pipes keep what they have buffered in themselves. When a new iterator yields
its first item, earlier ones of the same pipe raise. The `__iter__` of every class is wrapped for this: the wrapper also
calls `reset`, if the class has it, before each pass.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sized
from typing import Any, ClassVar, NoReturn

from rgrad._absent import absent_class
from rgrad.utils.data.dataset import Dataset, IterableDataset, T


def _load_pipes() -> None:
    """Loads the pipes that this package has, so that they are among the methods."""
    for name in ("iter", "map"):
        importlib.import_module(f"rgrad.utils.data.datapipes.{name}")


class _Functional:
    """Pipes whose class was registered under a name are made by a method of that name."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes a function a method of every pipe of this kind.

        Args:
            function_name: the name of the method.
            function: its first argument is the pipe.
        """
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Makes a class of pipes a method of every pipe of this kind; see `functional_datapipe`.

        Args:
            function_name: the name of the method.
            cls_to_register: the class; its first argument is the pipe.
            enable_df_api_tracing: accepted; there are no pipes of data frames.
        """
        _load_pipes()
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        @functools.wraps(cls_to_register, assigned=("__doc__", "__name__"), updated=())
        def made(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.register_function(function_name, made)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        _load_pipes()
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.wraps(function)(functools.partial(function, self))

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        _load_pipes()
        return sorted({*super().__dir__(), *type(self).functions})


def describe(pipe: Any) -> str:
    """A pipe with the arguments that it keeps, for errors."""
    kept = ((name, value) for name, value in sorted(vars(pipe).items()) if not name.startswith("_"))
    shown = (f"{name}={getattr(value, '__name__', None) or value!r}" for name, value in kept)
    return f"{type(pipe).__qualname__}({', '.join(shown)})"


def no_length(pipe: Any) -> NoReturn:
    """Raises the error for the length of a pipe that has none."""
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


def length_of(source: Any, pipe: Any) -> int:
    """The length of a source, for a pipe that has none if the source has none."""
    return len(source) if isinstance(source, Sized) else no_length(pipe)


def _one_at_a_time(function: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """An `__iter__` as Note [One iterator of a pipe] says."""

    @functools.wraps(function)
    def __iter__(self: Any) -> Iterator[Any]:
        # Not if the `__iter__` of a derived class calls this one.
        outermost = type(self).__iter__ is __iter__
        number = vars(self).get("_iterator_number", 0) + outermost
        self._iterator_number = number
        reset = getattr(type(self), "reset", None)
        if outermost:
            if reset is not None:
                reset(self)
            self._number_of_samples_yielded = 0
        items = function(self)
        if not hasattr(items, "__next__"):
            raise TypeError(f"iter() returned non-iterator of type '{type(items).__name__}'")
        while True:
            if self._iterator_number != number:
                raise RuntimeError(
                    f"This iterator has been invalidated: a newer one yields the samples of {describe(self)}. A pipe "
                    "has one iterator at a time: copies of it, which fork() makes, have one each."
                )
            try:
                item = next(items)
            except StopIteration:
                return
            self._number_of_samples_yielded += outermost
            yield item

    return __iter__


class IterDataPipe(_Functional, IterableDataset[T]):
    """A stream of samples that is the source of others.

    A class defines `__iter__`, and `reset` if something is to be done before each pass. Methods that make further pipes
    are those of the classes in `torch.utils.data.datapipes.iter`: `map`, `filter`, `batch`, `shuffle` and so on.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).filter(lambda x: x % 2 == 0).map(lambda x: x * 10))
        [0, 20, 40]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    # Of the present pass; of one of a copy, what the original had yielded.
    _number_of_samples_yielded = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in vars(cls) and not vars(cls).get("_many_iterators"):
            cls.__iter__ = _one_at_a_time(vars(cls)["__iter__"])  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[T]:
        # Of a class that is an iterator itself.
        if not hasattr(type(self), "__next__"):
            raise TypeError(f"'{type(self).__name__}' object is not an iterator")
        return self  # type: ignore[return-value]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_iterator_number"}


class MapDataPipe(_Functional, Dataset[T]):
    """A map from indices or keys to samples that is the source of others.

    A class defines `__getitem__` and usually `__len__`. Methods that make further pipes are those of the classes in
    `torch.utils.data.datapipes.map`: `map`, `batch`, `shuffle`, `zip` and `concat`.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper("abc").map(str.upper)[1]
        'B'
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


DFIterDataPipe = absent_class("torch.utils.data.DFIterDataPipe", "pipes have no data frames")


class DataChunk(list[Any]):
    """A batch of a pipe: a list that `unbatch` takes apart.

    Args:
        items: the samples.

    Example:
        >>> from rgrad.utils.data import DataChunk
        >>> DataChunk([1, 2]).as_str("  ")
        '  [1, 2]'
    """

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples as a text that begins with `indent`."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[Any]:
        """The samples, also where a derived class iterates over something else."""
        yield from self.items
