"""Random numbers of the default generator, so that `manual_seed` also makes transforms reproducible."""

from __future__ import annotations

import rgrad


def chance() -> float:
    """A number from 0 to 1."""
    return rgrad.rand(1).item()


def uniform(low: float, high: float) -> float:
    """A number between two bounds."""
    return rgrad.empty(1).uniform_(low, high).item()


def numbers(shape: list[int]) -> rgrad.Tensor:
    """A tensor of numbers from 0 to 1."""
    return rgrad.rand(*shape)


def normal(shape: list[int]) -> rgrad.Tensor:
    """A tensor of numbers of the normal distribution."""
    return rgrad.empty(shape).normal_()


def integer(low: int, high: int) -> int:
    """An integer from `low` up to and without `high`."""
    return int(rgrad.randint(low, high, (1,)).item())


def permutation(count: int) -> list[int]:
    """The integers below `count` in any order."""
    return rgrad.randperm(count).tolist()


def weighted(weights: list[float]) -> int:
    """A place in a list, in proportion to the number there."""
    return int(rgrad.multinomial(rgrad.tensor(weights), 1).item())
