"""Pipes of sequences and mappings."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from rgrad.utils.data.datapipes.datapipe import MapDataPipe


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """The items of a sequence or a mapping; `SequenceWrapper` in `torch.utils.data.datapipes.map`.

    Args:
        sequence: the sequence or mapping.
        deepcopy: whether to keep a copy of it.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper({"a": 1})["a"]
        1
    """

    def __init__(self, sequence: Sequence[Any] | Mapping[Any, Any], deepcopy: bool = True) -> None:
        self.sequence: Any = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The input sequence can not be deepcopied: the pipe has it itself, with later changes.",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
