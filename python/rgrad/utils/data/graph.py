"""The pipes that a pipe is made of."""

from __future__ import annotations

from typing import Any

from rgrad.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from rgrad.utils.data.datapipes.iter.combining import _Splitter

DataPipeGraph = dict[int, tuple[Any, "DataPipeGraph"]]  # type: ignore[misc]

__all__ = ["traverse_dps"]


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """The graph of a pipe: by the identity of each object, the pipe and the graph of its sources.

    Args:
        datapipe: an `IterDataPipe` or a `MapDataPipe`. Its sources are what its attributes and containers in them hold.

    Returns:
        A dict of one entry, for the pipe itself.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> from rgrad.utils.data.graph import traverse_dps
        >>> source = IterableWrapper(range(3))
        >>> [sources == {id(source): (source, {})} for pipe, sources in traverse_dps(source.batch(2)).values()]
        [True]
    """
    return {id(datapipe): (datapipe, _sources(vars(datapipe), set()))}


def _sources(value: Any, seen: set[int]) -> DataPipeGraph:
    """The graphs of the pipes in a value."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        return traverse_dps(value)
    if isinstance(value, _Splitter):
        return _sources(value.main_datapipe, seen)
    found: DataPipeGraph = {}
    if isinstance(value, (list, tuple, set, frozenset, dict)) and id(value) not in seen:
        seen.add(id(value))
        for item in value.values() if isinstance(value, dict) else value:
            found.update(_sources(item, seen))
    return found
