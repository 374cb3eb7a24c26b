"""Decorators of classes of pipes."""

from __future__ import annotations

from typing import Any

from rgrad._absent import absent_class, absent_function
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

_HERE = "torch.utils.data"
_WHY = "types and the order of random numbers of pipes are not checked"


class functional_datapipe:  # noqa: N801 - PyTorch's name
    """Makes a class of pipes a method of all pipes of its kind.

    Args:
        name: the name of the method.
        enable_df_api_tracing: accepted; there are no pipes of data frames.

    Raises:
        TypeError: the class is neither an `IterDataPipe` nor a `MapDataPipe`.
        Exception: there is a method of that name.

    Example:
        >>> from rgrad.utils.data import IterDataPipe, functional_datapipe
        >>> @functional_datapipe("repeat_each")
        ... class RepeatEach(IterDataPipe):
        ...     def __init__(self, source, times):
        ...         self.source, self.times = source, times
        ...     def __iter__(self):
        ...         for x in self.source:
        ...             yield from [x] * self.times
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").repeat_each(2))
        ['a', 'a', 'b', 'b']
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")


guaranteed_datapipes_determinism = absent_class(f"{_HERE}.guaranteed_datapipes_determinism", _WHY)
non_deterministic = absent_class(f"{_HERE}.non_deterministic", _WHY)
runtime_validation_disabled = absent_class(f"{_HERE}.runtime_validation_disabled", _WHY)
argument_validation = absent_function(f"{_HERE}.argument_validation", _WHY)
runtime_validation = absent_function(f"{_HERE}.runtime_validation", _WHY)
