"""What runs around a call: derivatives and functionalizations of a function, as `torch.func` makes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rgrad import _C

__all__ = ["mapping", "running", "transforming"]


class _Mapping(threading.local):
    """How many calls of `vmap` by programs run; levels of batched gradients are none."""

    count = 0


_mapping = _Mapping()


@contextmanager
def mapping() -> Iterator[None]:
    """A block in which a function is called by `vmap`."""
    _mapping.count += 1
    try:
        yield
    finally:
        _mapping.count -= 1


@contextmanager
def transforming() -> Iterator[int]:
    """A block in which a function is called to transform it; gives how many such blocks there are around it."""
    _C._enter_transform()
    try:
        yield _C._transforms() - 1
    finally:
        _C._exit_transform()


def running() -> bool:
    """Whether a function is being transformed, by `vmap` or otherwise."""
    return _mapping.count > 0 or _C._transforms() > 0
