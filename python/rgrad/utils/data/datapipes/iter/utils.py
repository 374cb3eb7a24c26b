"""Pipes of iterables."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from rgrad.utils.data.datapipes.datapipe import IterDataPipe


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """The items of an iterable; `IterableWrapper` in `torch.utils.data.datapipes.iter`.

    Args:
        iterable: what is iterated in each pass.
        deepcopy: whether each pass goes over a copy, so that changes of the items do not last.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(3)))
        [0, 1, 2]
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        items = self.iterable
        if self.deepcopy:
            try:
                items = copy.deepcopy(items)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied: all passes go over it itself, which may end or change.",
                    stacklevel=2,
                )
        yield from items

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]
