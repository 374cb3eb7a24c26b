"""Seeds and states of the default generator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ._top import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


@contextlib.contextmanager
def fork_rng(devices: object = None, enabled: bool = True, **_: object) -> Iterator[None]:
    """What the block draws does not move the generator for what follows."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
