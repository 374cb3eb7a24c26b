"""Pipes of some of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes._functions import call, check_function
from rgrad.utils.data.datapipes.datapipe import IterDataPipe


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The samples for which a function is True; the method `filter`.

    Args:
        datapipe: the source.
        filter_fn: returns a bool.
        input_col: an index or key of the samples, or a list of them, whose entries are the arguments.

    Raises:
        ValueError: the function returns something else.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).filter(lambda x: x > 2))
        [3, 4]
    """

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        check_function(filter_fn, input_col)
        self.datapipe = datapipe
        self.filter_fn = filter_fn
        self.input_col = input_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            taken = call(self.filter_fn, sample, self.input_col)
            if not isinstance(taken, bool):
                raise ValueError(
                    f"Boolean output is required for `filter_fn` of {type(self).__name__}, got {type(taken)}"
                )
            if taken:
                yield sample
