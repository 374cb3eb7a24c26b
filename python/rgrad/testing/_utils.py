"""Random numbers of tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import rgrad


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """A context after which random numbers go on as if none had been drawn in it.

    >>> with rgrad.testing._utils.freeze_rng_state():
    ...     x = rgrad.rand(3)
    >>> rgrad.equal(x, rgrad.rand(3))
    True
    """
    devices = range(rgrad.cuda.device_count()) if rgrad.cuda.is_available() else ()
    with rgrad.random.fork_rng(devices):
        yield


def wrapper_set_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns with a fixed seed of random numbers, which go on as before afterwards.

    Args:
        op: the function.
        args: of the function.
        kwargs: of the function.

    >>> first = rgrad.testing._utils.wrapper_set_seed(rgrad.rand, 3)
    >>> rgrad.equal(first, rgrad.testing._utils.wrapper_set_seed(rgrad.rand, 3))
    True
    """
    with freeze_rng_state():
        rgrad.manual_seed(42)
        return op(*args, **kwargs)
