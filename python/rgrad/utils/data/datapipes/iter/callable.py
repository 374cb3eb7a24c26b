"""Pipes of what a function makes of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rgrad.utils.data._collate import default_collate
from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes._functions import call, check_function, replaced
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, length_of


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """What a function makes of each sample, or of some of its entries; the method `map`.

    Args:
        datapipe: the source.
        fn: the function.
        input_col: an index or key of the samples, or a list of them, whose entries are the arguments; None for the
            sample itself.
        output_col: where the value goes in the sample; by default to the (first) entry it was computed from. -1 is
            the end.

    Raises:
        ValueError: `fn` takes another number of arguments, or `output_col` does not fit.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([(1, 2), (3, 4)]).map(lambda x: -x, input_col=1))
        [(1, -2), (3, -4)]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) != 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            (output_col,) = output_col
        check_function(fn, input_col)
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.output_col = output_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            value = call(self.fn, sample, self.input_col)
            yield value if self.input_col is None else replaced(sample, value, self.input_col, self.output_col)

    def __len__(self) -> int:
        return length_of(self.datapipe, self)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors; the method `collate`.

    Args:
        datapipe: a pipe of lists of samples.
        conversion: a function of a list of samples.
        collate_fn: the same; it is used if given.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2, 3]).batch(2).collate())
        [tensor([1, 2]), tensor([3])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        function = conversion if collate_fn is None else collate_fn
        if not callable(function):
            raise NotImplementedError("collate: conversions of columns are for data frames, which pipes do not have")
        super().__init__(datapipe, fn=function)
