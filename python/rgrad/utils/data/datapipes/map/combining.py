"""Pipes of several pipes."""

from __future__ import annotations

from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes.datapipe import MapDataPipe


def _checked(datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if not all(hasattr(type(pipe), "__len__") for pipe in datapipes):
        raise TypeError("Expected all inputs to be `Sized`")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """The samples of one pipe after those of another; the method `concat`.

    Args:
        datapipes: pipes of samples with indices from 0 on.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper("ab").concat(SequenceWrapper("c"))[2]
        'c'
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index: int) -> Any:
        place = index
        for pipe in self.datapipes:
            if place < len(pipe):
                return pipe[place]
            place -= len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[Any]):
    """Tuples of a sample of each pipe; the method `zip`.

    Args:
        datapipes: the sources.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper("ab").zip(SequenceWrapper(range(9)))[1]
        ('b', 1)
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        samples = []
        for pipe in self.datapipes:
            try:
                samples.append(pipe[index])
            except IndexError as error:
                raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes {pipe}.") from error
        return tuple(samples)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))
