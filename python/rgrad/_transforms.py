"""What runs around a call: derivatives and functionalizations of a function, as `torch.func` makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rgrad import _C

__all__ = ["running", "transforming"]


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
    return _C._transforms() > 0 or bool(_C._vmap_levels())
