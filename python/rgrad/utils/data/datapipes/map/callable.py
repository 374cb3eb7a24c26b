"""Pipes of what a function makes of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes.datapipe import MapDataPipe


def default_fn(data: Any) -> Any:
    """The sample itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """What a function makes of each sample; the method `map`.

    Args:
        datapipe: the source.
        fn: the function.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper("abc").map(str.upper)[0]
        'A'
    """

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[[Any], Any] = default_fn) -> None:
        self.datapipe = datapipe
        self.fn = fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]
