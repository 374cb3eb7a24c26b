"""Seeds and states of the default generator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rgrad import _C
from rgrad._C import Generator, Tensor

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

default_generator: Generator = _C._default_generator()


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator.

    >>> import rgrad
    >>> _ = rgrad.manual_seed(0)
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the default generator with a nondeterministic seed and returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed with which the default generator was last seeded."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state, as a uint8 tensor."""
    return _generator_state(default_generator)


def set_rng_state(state: Tensor) -> None:
    """Sets the default generator's state."""
    _set_generator_state(default_generator, state)


def _generator_state(self: Generator) -> Tensor:
    # On the CPU, whatever the default device is.
    return _C.tensor(list(self._state()), dtype=_C.uint8, device="cpu")


def _set_generator_state(self: Generator, state: Tensor) -> Generator:
    if not isinstance(state, _C.Tensor):
        raise TypeError(f"expected a torch.ByteTensor, but got {type(state).__name__}")
    if state.dtype != _C.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    self._set_state(bytes(state.tolist()))
    return self

Generator.get_state = _generator_state  # type: ignore[attr-defined]
Generator.set_state = _set_generator_state  # type: ignore[attr-defined]


@contextlib.contextmanager
def drawing_from(generator: Generator | None) -> Iterator[None]:
    """A block in which the default generator has the state of another one, which then gets what it has come to.

    Args:
        generator: the other one; None for the default generator itself.
    """
    if generator is None or generator is default_generator:
        yield
        return
    before = default_generator._state()
    default_generator._set_state(bytes(generator._state()))
    try:
        yield
    finally:
        generator._set_state(bytes(default_generator._state()))
        default_generator._set_state(bytes(before))


@contextlib.contextmanager
def fork_rng(devices: object = None, enabled: bool = True, **_: object) -> Iterator[None]:
    """Restores the state of the default generator after the block."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
