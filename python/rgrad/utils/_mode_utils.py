"""Helpers for modes of `__torch_dispatch__`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

from rgrad import _C

T = TypeVar("T")


@contextlib.contextmanager
def no_dispatch() -> Iterator[None]:
    """Within the block, operations ignore `__torch_dispatch__`, of classes and of modes."""
    before = _C._set_torch_dispatch_disabled(True)
    try:
        yield
    finally:
        _C._set_torch_dispatch_disabled(before)


def all_same_mode(modes: list[Any]) -> bool:
    """Whether all modes of a list are one object."""
    return all(mode is modes[0] for mode in modes)
