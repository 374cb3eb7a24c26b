"""Helpers for arguments that are one number or a tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(length: int, name: str) -> Callable[[Any], tuple]:
    def parse(value: Any) -> tuple:
        if isinstance(value, Iterable):
            return tuple(value)
        return tuple(repeat(value, length))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values: tuple, times: int) -> tuple:
    """Returns the values from last to first, each ``times`` times: the order that ``pad`` expects."""
    return tuple(value for value in reversed(values) for _ in range(times))
